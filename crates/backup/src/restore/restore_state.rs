//! The state that all threads of one restore share.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

use cutpoint_repository::Entry;
use cutpoint_storage::{Error, Kind};

use super::failure::Failure;
use super::metadata::{self, Owners};
use super::monitor::RestoreMonitor;
use super::options::RestoreOptions;
use super::place::{Folder, Place};
use super::report::RestoreReport;
use super::snapshot_reader::SnapshotReader;
use crate::source::folder;
use crate::source::folder::Handle;

/// The shared state of one restore.
pub(super) struct RestoreState<'a> {
    pub(super) reader: &'a dyn SnapshotReader,
    pub(super) options: &'a RestoreOptions,
    pub(super) monitor: &'a dyn RestoreMonitor,
    pub(super) counts: Counts,
    /// The folder of the target.
    pub(super) base: Handle,
    /// Set if files can be written before they have a name.
    pub(super) nameless: AtomicBool,
    pub(super) owners: Owners,
    stopped: AtomicBool,
    stop_reason: Mutex<Option<Error>>,
}

/// The reason added for a file that is too large for a limit, although the target is not full.
const TOO_LARGE: &str = "; its size exceeds a limit of the target's file system, or of this \
    process (`ulimit -f`)";

/// The counters of a [`RestoreReport`].
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) written_files: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) linked_names: AtomicU64,
    pub(super) made_folders: AtomicU64,
    pub(super) made_symlinks: AtomicU64,
    pub(super) made_specials: AtomicU64,
    pub(super) skipped_specials: AtomicU64,
    pub(super) unchanged_entries: AtomicU64,
    pub(super) failed_entries: AtomicU64,
    pub(super) warnings: AtomicU64,
}

impl<'a> RestoreState<'a> {
    pub(super) fn new(
        reader: &'a dyn SnapshotReader,
        options: &'a RestoreOptions,
        monitor: &'a dyn RestoreMonitor,
        base: Handle,
    ) -> RestoreState<'a> {
        // A nameless file gets its name through this folder.
        let nameless = folder::stat(rustix::fs::CWD, b"/proc/self/fd").is_ok();
        RestoreState {
            reader,
            options,
            monitor,
            counts: Counts::default(),
            base,
            nameless: AtomicBool::new(nameless),
            owners: Owners::new(options),
            stopped: AtomicBool::new(false),
            stop_reason: Mutex::new(None),
        }
    }

    /// Returns `true` if the restore is to end now.
    pub(super) fn stopped(&self) -> bool {
        if !self.stopped.load(Relaxed) && self.monitor.cancelled() {
            self.stop(Error::new(Kind::Interrupted, "restore", "interrupted"));
        }
        self.stopped.load(Relaxed)
    }

    /// Ends the restore. Only the first reason is kept.
    fn stop(&self, reason: Error) {
        self.stop_reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.stopped.store(true, Relaxed);
    }

    /// Reports that `path` is not restored. A full target ends the restore, because nothing else
    /// would fit either.
    pub(super) fn fail(&self, path: &Path, failure: &Failure) {
        match failure {
            Failure::Target(error) => {
                if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
                {
                    self.stop(Error::new(Kind::Full, path.display(), error));
                    self.counts.failed_entries.fetch_add(1, Relaxed);
                    return;
                }
                let mut message = format!("cannot be created: {error}");
                if error.kind() == io::ErrorKind::FileTooLarge {
                    // Smaller files can still be created.
                    message.push_str(TOO_LARGE);
                }
                self.report(path, &message);
            }
            Failure::Snapshot(error) if error.kind() == Kind::Interrupted => {
                self.stop(Error::new(Kind::Interrupted, path.display(), error));
            }
            Failure::Snapshot(error) => self.report(path, &error.to_string()),
            Failure::Refused(reason) => self.report(path, reason),
        }
    }

    fn report(&self, path: &Path, message: &str) {
        self.counts.failed_entries.fetch_add(1, Relaxed);
        self.monitor.problem(path, message);
    }

    pub(super) fn warn(&self, path: &Path, message: &str) {
        self.counts.warnings.fetch_add(1, Relaxed);
        self.monitor.warning(path, message);
    }

    /// Sets the metadata of the open file of `entry`.
    pub(super) fn set_open(&self, file: impl std::os::fd::AsFd, place: &Place, entry: &Entry) {
        metadata::set_open(&self.owners, file, entry, place.folder.inherits, &mut |message| {
            self.warn(&place.path(entry), &message);
        });
    }

    /// Releases a folder, open as `handle`. The last release sets the metadata of the folder.
    pub(super) fn release(&self, folder: Arc<Folder>, handle: &Handle) {
        let Some(folder) = Arc::into_inner(folder) else { return };
        if let Some(entry) = folder.entry.as_ref().filter(|_| !self.stopped.load(Relaxed)) {
            metadata::set_open(&self.owners, handle, entry, !folder.made, &mut |message| {
                self.warn(&folder.path.path(), &message);
            });
        }
    }

    /// Returns the statistics, or the reason why the restore was stopped.
    pub(super) fn finish(self) -> Result<RestoreReport, Error> {
        if let Some(reason) = self.stop_reason.into_inner().unwrap_or_else(PoisonError::into_inner)
        {
            return Err(reason);
        }
        let counts = self.counts;
        Ok(RestoreReport {
            written_files: counts.written_files.into_inner(),
            written_bytes: counts.written_bytes.into_inner(),
            linked_names: counts.linked_names.into_inner(),
            made_folders: counts.made_folders.into_inner(),
            made_symlinks: counts.made_symlinks.into_inner(),
            made_specials: counts.made_specials.into_inner(),
            skipped_specials: counts.skipped_specials.into_inner(),
            unchanged_entries: counts.unchanged_entries.into_inner(),
            failed_entries: counts.failed_entries.into_inner(),
            warnings: counts.warnings.into_inner(),
        })
    }
}

/// Adds to a counter.
pub(super) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Relaxed);
}
