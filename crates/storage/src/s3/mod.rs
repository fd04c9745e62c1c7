//! Object storages with an S3 interface, on top of the crate `object_store`.
//!
//! The crate's runtime is confined to this module: calls block their thread
//! (`docs/decisions/0001`). This module handles attempts, pauses and time-outs itself.
//! `object_store` makes only one attempt, because it does not distinguish the answers 409 and 412
//! to a conditional put, and does not tell whether an earlier attempt of its own may have been
//! carried out.
//!
//! A put is one request with `If-None-Match: *`. The answer 412 means "exists" if there was no
//! earlier attempt. After an attempt with an unknown outcome (a time-out, a cut connection, 5xx),
//! the stored object is read and compared. The answer 409 means that another put of the name was
//! under way. It is open then whether the object will exist, so that the request is repeated.

mod batches;
mod bounds;
mod bulk_delete;
mod existence;
mod failure;
mod headers;
mod listing;
mod protection;
mod service;
mod settings;
mod xml;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use object_store::aws::AmazonS3;
use object_store::client::HttpClient;
use object_store::path::Path as StorePath;
use object_store::{
    GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
};

use self::failure::{Failure, Meaning};
use self::headers::ShownVersions;
use self::listing::Listed;
use crate::environment::Environment;
use crate::error::{Error, Kind, Result};
use crate::remote::{Link, Passing, within as within_limit};
use crate::storage::{Deletion, Lock, ObjectRange, Put, Stamped, Storage, Visibility, too_short};
use crate::throttle::{Direction, Throttle};

pub use failure::Refusal;
pub use settings::{S3Limits, S3Settings};

/// The minimum speed of a put, in bytes per second; it extends the time limit for large objects.
const UPLOAD_BYTES_PER_S_MIN: u64 = 100_000;
/// Number of ranges that are requested before they are needed. An answer takes as long as the
/// transfer of megabytes.
const REQUESTS_AHEAD_MAX: usize = 8;
/// The minimum speed of an answer, in bytes per second; a slower one is given up.
const DOWNLOAD_BYTES_PER_S_MIN: u64 = 10_000;
/// The maximum allocation before bytes arrive, in bytes.
const CAPACITY_MAX: u64 = 16 * 1024 * 1024;

/// A bucket, or the part of it below a prefix.
#[derive(Debug)]
pub struct S3 {
    root: StorePath,
    store: AmazonS3,
    /// A second client, because `object_store` fixes the form of deletions and the checksum of puts
    /// for a client. This one deletes several objects by one request, and puts with a checksum.
    second: AmazonS3,
    /// The client for requests that `object_store` does not make.
    asker: HttpClient,
    region: String,
    /// Set if requests are signed.
    has_signatures: bool,
    link: Link,
    limits: S3Limits,
    throttle: Throttle,
    /// Set if the storage does not support conditions, so that puts look for an existing object
    /// first.
    has_no_conditions: AtomicBool,
    /// Set if the storage takes no object without a checksum.
    needs_checksum: AtomicBool,
    /// Set if the storage does not delete several objects by one request.
    has_no_bulk_delete: AtomicBool,
    versions: Arc<ShownVersions>,
    /// The effect of a deletion, once the bucket was asked.
    protection: OnceLock<Deletion>,
    /// Set once it is known that the credentials may see the locks of objects.
    may_see_locks: OnceLock<()>,
}

impl S3 {
    /// Opens the place that `settings` describe. No request is made yet.
    ///
    /// # Errors
    ///
    /// Returns an `Invalid` error if the settings make no sense, and `Storage` if threads cannot be
    /// started.
    pub fn open(settings: &S3Settings, environment: Arc<dyn Environment>) -> Result<S3> {
        let root = StorePath::parse(&settings.prefix).map_err(|error| {
            Error::invalid(&settings.prefix, "invalid prefix").with_source(error)
        })?;
        let address = match settings.prefix.as_str() {
            "" => format!("s3://{}", settings.bucket),
            _ => format!("s3://{}/{root}", settings.bucket),
        };
        let limits = settings.limits;
        let link = Link::new(address, "s3", environment, limits.tries_max)?;
        // The client's own tasks belong to the runtime.
        let entered = link.enter();
        let versions = Arc::default();
        let store = settings.client(false, &versions)?;
        let second = settings.client(true, &versions)?;
        let asker = settings.http_client(&versions)?;
        drop(entered);
        Ok(S3 {
            root,
            store,
            second,
            asker,
            region: settings.region().to_owned(),
            has_signatures: settings.has_signatures(),
            link,
            limits,
            throttle: settings.throttle.clone(),
            has_no_conditions: AtomicBool::new(false),
            needs_checksum: AtomicBool::new(false),
            has_no_bulk_delete: AtomicBool::new(false),
            versions,
            protection: OnceLock::new(),
            may_see_locks: OnceLock::new(),
        })
    }

    fn path(&self, name: &str) -> StorePath {
        self.root.parts().chain(StorePath::from(name).parts()).collect()
    }

    fn wait<T>(
        &self,
        limit: Duration,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Failure> {
        self.link.block_on(self.within(limit, request))
    }

    /// Waits for the answer to a request, at most for `limit`. Waits for the rate of what is
    /// received do not count.
    async fn within<T>(
        &self,
        limit: Duration,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Failure> {
        within(limit, &self.throttle, Direction::Download, request).await
    }

    fn put_by(&self, name: &str, bytes: &Bytes, mode: PutMode) -> Result<(), Failure> {
        let limit_s = bytes.len() as u64 / UPLOAD_BYTES_PER_S_MIN;
        let limit = self.limits.silence + Duration::from_secs(limit_s);
        let path = self.path(name);
        let put = |store: &AmazonS3| {
            let request = || async {
                let options = PutOptions { mode: mode.clone(), ..PutOptions::default() };
                let put = store.put_opts(&path, PutPayload::from_bytes(bytes.clone()), options);
                within(limit, &self.throttle, Direction::Upload, put).await
            };
            let is_answer = |failure: &Failure| {
                matches!(
                    failure.meaning,
                    Meaning::Exists | Meaning::NoConditions | Meaning::NoChecksum
                )
            };
            let object = (name, bytes.len() as u64);
            let put = async {
                match mode {
                    PutMode::Create => {
                        self.link.put(&self.throttle, object, request, is_answer).await
                    }
                    _ => request().await,
                }
            };
            self.link.block_on(put).map(|_| ()).map_err(Failure::of_place)
        };
        if !self.needs_checksum.load(Ordering::Relaxed) {
            match put(&self.store) {
                Err(failure) if failure.meaning == Meaning::NoChecksum => {
                    self.needs_checksum.store(true, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        put(&self.second)
    }

    fn put_once(&self, name: &str, bytes: &Bytes) -> Result<(), Failure> {
        let put = |mode| self.put_by(name, bytes, mode);
        if !self.has_no_conditions.load(Ordering::Relaxed) {
            match put(PutMode::Create) {
                Err(failure) if failure.meaning == Meaning::NoConditions => {
                    self.has_no_conditions.store(true, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        // This is the best that is possible here; `probe` detects that it is not sufficient for
        // deletion.
        match self.head_once(name)? {
            Some(_) => Err(Failure { meaning: Meaning::Exists, ..Failure::passing("exists") }),
            None => put(PutMode::Overwrite),
        }
    }

    fn head_once(&self, name: &str) -> Result<Option<u64>, Failure> {
        self.link.block_on(self.head_at_once(name))
    }

    async fn head_at_once(&self, name: &str) -> Result<Option<u64>, Failure> {
        let path = self.path(name);
        match self.within(self.limits.silence, self.store.head(&path)).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(failure) if failure.meaning == Meaning::Missing => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    fn read_once(
        &self,
        name: &str,
        range: Option<Range<u64>>,
        len_max: u64,
    ) -> Result<Bytes, Failure> {
        self.link.block_on(self.read(name, range, len_max))
    }

    /// Reads an object, or a range of it, of at most `len_max` bytes. A read that stalls is made twice
    /// ([`Link::read`]).
    async fn read(
        &self,
        name: &str,
        range: Option<Range<u64>>,
        len_max: u64,
    ) -> Result<Bytes, Failure> {
        let len = range.as_ref().map_or(len_max, |range| range.end - range.start);
        let request = || self.request(name, range.clone(), len_max);
        self.link.read(&self.throttle, len, request).await
    }

    /// Makes one request for an object, or for a range of it, of at most `len_max` bytes.
    async fn request(
        &self,
        name: &str,
        range: Option<Range<u64>>,
        len_max: u64,
    ) -> Result<Bytes, Failure> {
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        let path = self.path(name);
        let answer = self.within(self.limits.silence, self.store.get_opts(&path, options)).await?;
        let len = answer.range.end.saturating_sub(answer.range.start);
        if len > len_max {
            let text = format!("too long ({len} bytes, expected at most {len_max})");
            let (meaning, kind) = (Meaning::Final, Kind::Corrupt);
            return Err(Failure { meaning, kind, ..Failure::passing(text) });
        }
        let limit = self.limits.silence + Duration::from_secs(len / DOWNLOAD_BYTES_PER_S_MIN);
        let (began_ns, mut waited_ns) = (self.link.patience.now_ns(), 0);
        let capacity = usize::try_from(len.min(CAPACITY_MAX)).unwrap_or(0);
        let mut bytes = BytesMut::with_capacity(capacity);
        let mut pieces = answer.into_stream();
        loop {
            let next = async { pieces.next().await.transpose() };
            let piece = self.within(self.limits.silence, next).await;
            let Some(piece) = piece.map_err(Failure::of_begun_answer)? else { break };
            let received_ns = self.link.patience.now_ns();
            self.throttle.pass(Direction::Download, piece.len()).await;
            let now_ns = self.link.patience.now_ns();
            waited_ns += now_ns.saturating_sub(received_ns);
            bytes.extend_from_slice(&piece);
            let elapsed_ns = now_ns.saturating_sub(began_ns).saturating_sub(waited_ns);
            if bytes.len() as u64 > len || u128::from(elapsed_ns) > limit.as_nanos() {
                break;
            }
        }
        if bytes.len() as u64 != len {
            let text = format!("received {} of {len} bytes", bytes.len());
            return Err(Failure::passing(text));
        }
        Ok(bytes.freeze())
    }

    /// Returns `true` if the object `name` equals `bytes`; `None` if there is no object.
    fn is_there(&self, name: &str, bytes: &Bytes) -> Result<Option<bool>, Failure> {
        match self.head_once(name)? {
            None => Ok(None),
            Some(len) if len != bytes.len() as u64 => Ok(Some(false)),
            Some(len) => match self.read_once(name, None, len) {
                Ok(found) => Ok(Some(found == *bytes)),
                Err(failure) if failure.meaning == Meaning::Missing => Ok(None),
                Err(failure) => Err(failure),
            },
        }
    }
}

async fn within<T>(
    limit: Duration,
    throttle: &Throttle,
    direction: Direction,
    request: impl Future<Output = object_store::Result<T>>,
) -> Result<T, Failure> {
    match within_limit(limit, throttle, direction, request).await {
        Some(done) => done.map_err(|error| Failure::of(&error)),
        None => Err(Failure::outage(format!("no answer within {} s", limit.as_secs_f64()))),
    }
}

impl Storage for S3 {
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        // Set if an earlier attempt may have been carried out, so that an existing object may be
        // the one being put.
        let mut is_unsure = false;
        self.link
            .tries("put", name, || {
                if is_unsure && let Some(is_own) = self.is_there(name, &bytes)? {
                    return Ok(if is_own { Put::Created } else { Put::Exists });
                }
                match self.put_once(name, &bytes) {
                    Ok(()) => Ok(Put::Created),
                    Err(failure) if failure.meaning == Meaning::Exists && !is_unsure => {
                        Ok(Put::Exists)
                    }
                    Err(failure) if failure.meaning == Meaning::Exists => {
                        // The earlier attempt was carried out after the look, so the loop has to look
                        // again.
                        Err(failure.again())
                    }
                    Err(failure) => {
                        is_unsure |= failure.meaning == Meaning::TryAgain;
                        Err(failure)
                    }
                }
            })
            .map_err(Error::of_put)
    }

    fn sync(&self, name: &str) -> Result<()> {
        // A storage that shows an object has stored it.
        self.head(name)?.map(|_| ()).ok_or_else(|| Error::missing(name, "not found"))
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        self.link.tries("get", name, || self.read_once(name, None, len_max))
    }

    fn get_many(&self, wanted: &[(String, u64)]) -> Vec<Result<Bytes>> {
        self.read_objects(wanted)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        let end = offset.checked_add(len as u64).ok_or_else(|| too_short(name, offset, len))?;
        if len == 0 {
            return Ok(Bytes::new());
        }
        let read = || self.read_once(name, Some(offset..end), len as u64);
        match self.link.tries("get a range", name, read) {
            Ok(bytes) if bytes.len() == len => Ok(bytes),
            Ok(_) => Err(too_short(name, offset, len)),
            // A range that begins behind the end is refused, so the length has to be requested.
            Err(error) => match self.head(name) {
                Ok(Some(length)) if length < end => Err(too_short(name, offset, len)),
                _ => Err(error),
            },
        }
    }

    fn get_ranges(&self, wanted: &[ObjectRange]) -> Vec<Result<Bytes>> {
        self.read_ranges(wanted)
    }

    fn requests_ahead_max(&self) -> usize {
        REQUESTS_AHEAD_MAX
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        self.link.tries("get the length", name, || self.head_once(name))
    }

    fn all_exist(&self, names: &[String]) -> Result<bool> {
        self.find_all(names)
    }

    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        self.link.tries("get the time", name, || {
            match self.wait(self.limits.silence, self.store.head(&self.path(name))) {
                Ok(meta) => Ok(meta.last_modified.timestamp_nanos_opt()),
                Err(failure) if failure.meaning == Meaning::Missing => Ok(None),
                Err(failure) => Err(failure),
            }
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let listed = self.link.tries("list", prefix, || self.list_once(prefix))?;
        Ok(listed.into_iter().map(|object| (object.name, object.len)).collect())
    }

    fn list_stamped(&self, prefix: &str) -> Result<Vec<Stamped>> {
        let listed = self.link.tries("list", prefix, || self.list_once(prefix))?;
        let stamped = |Listed { name, stamp_ns, .. }| Stamped { name, stamp_ns };
        Ok(listed.into_iter().map(stamped).collect())
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.link.tries("delete", name, || {
            match self.wait(self.limits.silence, self.store.delete(&self.path(name))) {
                Err(failure) if failure.meaning == Meaning::Missing => Ok(()),
                Err(failure) if failure.refusal == Some(Refusal::Denied) => {
                    let refusal = Some(Refusal::Lacks("s3:DeleteObject"));
                    Err(Failure { refusal, ..failure })
                }
                other => other,
            }
        })
    }

    fn delete_many(&self, names: &[String]) -> Vec<Result<()>> {
        names.chunks(bulk_delete::KEYS_MAX).flat_map(|names| self.delete_chunk(names)).collect()
    }

    fn deletion(&self) -> Result<Deletion> {
        self.protection()
    }

    fn locks(&self, names: &[String]) -> Result<Vec<Option<Lock>>> {
        self.find_locks(names)
    }

    fn replace(&self, name: &str, bytes: Bytes) -> Result<()> {
        self.link.tries("replace", name, || self.put_by(name, &bytes, PutMode::Overwrite))
    }

    /// S3 promises this since 2020; not every server with its interface does.
    fn visibility(&self) -> Result<Visibility> {
        Ok(Visibility::IfProbed("s3"))
    }

    fn had_outage(&self) -> bool {
        self.link.patience.had_outage()
    }

    fn describe(&self) -> String {
        self.link.address().to_owned()
    }
}
