//! The state that all threads of one restore share.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cutpoint_repository::{Entry, EntryKind};
use cutpoint_storage::{Error, Kind};

use super::failure::Failure;
use super::metadata::{self, Owners};
use super::monitor::RestoreMonitor;
use super::options::RestoreOptions;
use super::place::{Folder, Occupant, Place};
use super::report::RestoreReport;
use super::snapshot_reader::SnapshotReader;
use super::snapshot_walk::SnapshotWalk;
use crate::source::folder::Handle;

/// The shared state of one restore.
pub(super) struct RestoreState<'a> {
    pub(super) reader: &'a dyn SnapshotReader,
    pub(super) options: &'a RestoreOptions,
    pub(super) monitor: &'a dyn RestoreMonitor,
    pub(super) counts: Counts,
    /// The folder of the target; `None` if it does not exist, in a dry run.
    pub(super) base: Option<Handle>,
    pub(super) owners: Owners,
    /// The paths with problems, for a verification.
    failed: Mutex<HashSet<PathBuf>>,
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
    pub(super) replaced_entries: AtomicU64,
    pub(super) deleted_entries: AtomicU64,
    pub(super) deleted_bytes: AtomicU64,
    pub(super) verified_files: AtomicU64,
    pub(super) verified_bytes: AtomicU64,
    pub(super) reused_bytes: AtomicU64,
    pub(super) copied_bytes: AtomicU64,
    pub(super) unchanged_entries: AtomicU64,
    pub(super) adjusted_entries: AtomicU64,
    pub(super) failed_entries: AtomicU64,
    pub(super) warnings: AtomicU64,
}

impl Counts {
    /// Counts a further name of an entry that is not a folder.
    pub(super) fn add_name(&self, kind: EntryKind) {
        let counter = match kind {
            EntryKind::File => &self.linked_names,
            kind => self.of_special(kind),
        };
        count(counter, 1);
    }

    /// Returns the counter of the entries of a kind that is neither a file nor a folder.
    pub(super) fn of_special(&self, kind: EntryKind) -> &AtomicU64 {
        match kind {
            EntryKind::Symlink => &self.made_symlinks,
            _ => &self.made_specials,
        }
    }
}

impl<'a> RestoreState<'a> {
    pub(super) fn new(
        reader: &'a dyn SnapshotReader,
        options: &'a RestoreOptions,
        monitor: &'a dyn RestoreMonitor,
        base: Option<Handle>,
    ) -> RestoreState<'a> {
        RestoreState {
            reader,
            options,
            monitor,
            counts: Counts::default(),
            base,
            owners: Owners::new(options),
            failed: Mutex::default(),
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

    /// Ends the restore, because a thread has panicked, which its caller will see.
    pub(super) fn abandon(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// Reports that `path` is not restored. A full target ends the restore, because nothing else
    /// would fit either.
    pub(super) fn fail(&self, path: &Path, failure: &Failure) {
        match failure {
            Failure::Target(error) => {
                if failure.is_full() {
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

    /// Reports a problem with `path`.
    pub(super) fn report(&self, path: &Path, message: &str) {
        self.counts.failed_entries.fetch_add(1, Relaxed);
        if self.options.verify {
            self.failed().insert(path.to_path_buf());
        }
        self.monitor.problem(path, message);
    }

    /// Returns `true` if a problem with `path` was reported, and a verification follows.
    pub(super) fn has_failed(&self, path: &Path) -> bool {
        self.failed().contains(path)
    }

    fn failed(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports selected paths that were not found, and patterns that have matched nothing.
    pub(super) fn report_idle(&self, walk: &SnapshotWalk<'_>) {
        count(&self.counts.skipped_specials, walk.skipped_specials);
        if self.stopped() {
            return;
        }
        let missing = Failure::Refused("not in the snapshot");
        walk.for_each_missing(|path| self.fail(path, &missing));
        walk.for_each_unmatched_pattern(|pattern, message| {
            self.warn(Path::new(pattern), message);
        });
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
    pub(super) fn finish(&self) -> Result<RestoreReport, Error> {
        let mut reason = self.stop_reason.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = reason.take() {
            return Err(reason);
        }
        let counts = &self.counts;
        Ok(RestoreReport {
            written_files: counts.written_files.load(Relaxed),
            written_bytes: counts.written_bytes.load(Relaxed),
            linked_names: counts.linked_names.load(Relaxed),
            made_folders: counts.made_folders.load(Relaxed),
            made_symlinks: counts.made_symlinks.load(Relaxed),
            made_specials: counts.made_specials.load(Relaxed),
            skipped_specials: counts.skipped_specials.load(Relaxed),
            replaced_entries: counts.replaced_entries.load(Relaxed),
            deleted_entries: counts.deleted_entries.load(Relaxed),
            deleted_bytes: counts.deleted_bytes.load(Relaxed),
            verified_files: counts.verified_files.load(Relaxed),
            verified_bytes: counts.verified_bytes.load(Relaxed),
            reused_bytes: counts.reused_bytes.load(Relaxed),
            copied_bytes: counts.copied_bytes.load(Relaxed),
            unchanged_entries: counts.unchanged_entries.load(Relaxed),
            adjusted_entries: counts.adjusted_entries.load(Relaxed),
            failed_entries: counts.failed_entries.load(Relaxed),
            warnings: counts.warnings.load(Relaxed),
        })
    }
}

/// Counts an entry that has taken the place of `occupant`.
pub(super) fn count_replaced(state: &RestoreState<'_>, occupant: &Occupant) {
    if *occupant == Occupant::Replace {
        count(&state.counts.replaced_entries, 1);
    }
}

/// Adds to a counter.
pub(super) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Relaxed);
}
