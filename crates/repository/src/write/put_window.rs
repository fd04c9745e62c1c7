//! Puts in progress: a writer puts several objects at the same time if the storage has a long way.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;

use bytes::Bytes;
use cutpoint_storage::stop;
use cutpoint_storage::wait::finishing;
use cutpoint_storage::{Error, Kind, Result};

use super::part::{CompletedObject, PublishedSegment};
use super::uploads::Upload;
use super::writer::Writer;
use crate::repo::repository::Repository;

/// The puts of one writer that are in progress, each by a thread of its own. The next one begins as
/// soon as one of them ends.
#[derive(Debug)]
pub struct PutWindow<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    repository: Arc<Repository>,
    count_max: usize,
    count: usize,
    ended: (Sender<EndedPut>, Receiver<EndedPut>),
    stored_len: u64,
    failure: Option<Error>,
}

/// A put that has ended: the length of the object, and the result, unless the thread has panicked.
type EndedPut = (u64, std::thread::Result<Result<(Option<CompletedObject>, Bytes)>>);

impl<'scope, 'env> PutWindow<'scope, 'env> {
    /// Creates a window for up to `count_max` puts at the same time, which is 1 if the storage is near.
    pub fn new(
        scope: &'scope Scope<'scope, 'env>,
        repository: Arc<Repository>,
        count_max: usize,
    ) -> PutWindow<'scope, 'env> {
        let is_far = repository.storage().requests_ahead_max() > 0;
        PutWindow {
            scope,
            count_max: if is_far { count_max } else { 1 },
            repository,
            count: 0,
            ended: channel(),
            stored_len: 0,
            failure: None,
        }
    }

    /// Returns `true` if no put is in progress.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the total length of the objects that were put since the last call, in bytes.
    pub fn take_stored_len(&mut self) -> u64 {
        std::mem::take(&mut self.stored_len)
    }

    fn begin(&mut self, upload: Upload) {
        self.count += 1;
        let (repository, ended) = (self.repository.clone(), self.ended.0.clone());
        self.scope.spawn(move || {
            let len = upload.len();
            let put = catch_unwind(AssertUnwindSafe(|| {
                let _storing = finishing(&**repository.environment(), stop::STORING_MAX);
                upload.finish_and_keep(&repository)
            }));
            // The receiver is gone only if the run has panicked.
            ended.send((len, put)).ok();
        });
    }

    /// Keeps an error. That of a full storage is the one to tell: the reserve can be given up for it.
    fn fail(&mut self, error: Error) {
        if self.failure.is_none() || error.kind() == Kind::Full {
            self.failure = Some(error);
        }
    }
}

impl Writer {
    /// Has `upload` put. Waits for room in `window`. An index segment names containers that were put
    /// before it, so it is put when all others have been (W4). Returns what it publishes.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Repository::put`] for this object or an earlier one. All puts have ended
    /// then.
    pub fn put_within(
        &mut self,
        window: &mut PutWindow<'_, '_>,
        upload: Upload,
    ) -> Result<Option<PublishedSegment>> {
        if upload.is_segment() || window.count_max <= 1 {
            self.finish_puts(window)?;
            let len = upload.len();
            let published = self.put(upload)?;
            window.stored_len += len;
            return Ok(published);
        }
        while window.count >= window.count_max && window.failure.is_none() {
            self.note_put(window, true);
        }
        if window.failure.is_some() {
            self.finish_puts(window)?;
        }
        window.begin(upload);
        Ok(None)
    }

    /// Notes the puts that have ended meanwhile.
    ///
    /// # Errors
    ///
    /// Returns the first error of a put, or that of a full storage if there is one. All puts have
    /// ended then.
    pub fn note_puts(&mut self, window: &mut PutWindow<'_, '_>) -> Result<()> {
        while self.note_put(window, false) {}
        if window.failure.is_some() { self.finish_puts(window) } else { Ok(()) }
    }

    /// Waits until no put is in progress.
    ///
    /// # Errors
    ///
    /// Returns the first error of a put, or that of a full storage if there is one.
    pub fn finish_puts(&mut self, window: &mut PutWindow<'_, '_>) -> Result<()> {
        while self.note_put(window, true) {}
        window.failure.take().map_or(Ok(()), Err)
    }

    /// Notes a put that has ended. Waits for one if `waits` is set. Returns `false` if there is none.
    fn note_put(&mut self, window: &mut PutWindow<'_, '_>, waits: bool) -> bool {
        if window.count == 0 {
            return false;
        }
        let receiver = &window.ended.1;
        let ended = if waits { receiver.recv().ok() } else { receiver.try_recv().ok() };
        let Some((len, put)) = ended else { return false };
        window.count -= 1;
        let put = put.unwrap_or_else(|panic| resume_unwind(panic));
        // Only a segment publishes anything, and none is put beside others.
        match put.and_then(|put| self.note(put)) {
            Ok(_) => window.stored_len += len,
            Err(error) => window.fail(error),
        }
        true
    }
}
