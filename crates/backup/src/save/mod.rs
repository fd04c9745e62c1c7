//! Backup: from files or a stream to a snapshot.

mod batch;
mod bundle;
mod dedup_stage;
#[cfg(feature = "faults")]
pub mod faults;
mod pipeline;
mod plan;
mod run_state;
mod shutdown;
mod source_stage;
mod stages;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cutpoint_repository::write::BurstStatistics;
use cutpoint_repository::{ObjectName, Repository, Statistics, TicketId, Verify};
use cutpoint_storage::{Error, Result};

use crate::source::mounts::FileSystems;
use crate::source::walk::WalkOptions;

/// The source of a backup.
pub enum Source {
    /// Everything below some paths of the file system.
    Files {
        /// The paths: of folders, files or anything else.
        paths: Vec<PathBuf>,
        /// Options of the walk, such as the exclusions.
        options: WalkOptions,
    },
    /// A stream, saved as a file in the root folder of the snapshot.
    Stream {
        /// The name of the file.
        name: Vec<u8>,
        /// The content of the file. A reader that has no bytes for a while may return `TimedOut`
        /// from time to time, so that the run notices a cancellation; the run then calls the reader
        /// again.
        reader: Box<dyn Read + Send>,
    },
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Files { paths, options } => {
                f.debug_struct("Files").field("paths", paths).field("options", options).finish()
            }
            Source::Stream { name, .. } => {
                f.debug_struct("Stream").field("name", name).finish_non_exhaustive()
            }
        }
    }
}

/// The snapshot that a backup compares its source with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parent {
    /// The newest snapshot of the same host and sources. A partial snapshot counts, too.
    #[default]
    Newest,
    /// No snapshot.
    None,
    /// The snapshot with this identifier.
    Snapshot(TicketId),
}

/// Options of a backup.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// The snapshot to compare with, so that unchanged files need not be read.
    pub parent: Parent,
    /// Reads every file, whatever the parent says about it.
    pub force_read: bool,
    /// Makes no snapshot if nothing has changed.
    pub skip_if_unchanged: bool,
    /// The regions that are decoded before they are put.
    pub verify: Verify,
    /// The number of threads that fingerprint and compress; 0 stands for as many as the machine
    /// has.
    pub threads: usize,
    /// Tags by which the snapshot can be found.
    pub tags: Vec<String>,
    /// Free text, for the snapshot.
    pub description: String,
    /// The name of the machine, for the snapshot.
    pub host: String,
    /// The name of the user that runs the backup, for the snapshot.
    pub user: String,
    /// The name and version of the program, for the snapshot.
    pub program: String,
    /// Tells file systems apart: [`Kernel`](crate::source::Kernel), except in tests.
    pub file_systems: Arc<dyn FileSystems>,
}

/// The progress of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The content of the snapshot so far, and how much of it was new.
    pub statistics: Statistics,
    /// The number of bytes put so far.
    pub stored_bytes: u64,
}

/// Receives the events of a backup. The methods can be called from several threads at once.
pub trait BackupMonitor: Sync {
    /// Reports the progress of the run, at most about ten times a second.
    fn progress(&self, progress: &Progress) {
        let _ = progress;
    }

    /// Reports the expected amount of work, if it is known: the numbers of files and bytes of the
    /// parent.
    fn expected(&self, files: u64, bytes: u64) {
        let _ = (files, bytes);
    }

    /// Reports that the ticket of a dead writer was ended, and that the run uses what that writer
    /// had stored.
    fn resumed(&self, ended: TicketId) {
        let _ = ended;
    }

    /// Reports an object of the repository that cannot be read. The backup continues without it. At
    /// worst, it stores again the chunks that only this object lists.
    fn unreadable(&self, name: &ObjectName, error: &Error) {
        let _ = (name, error);
    }

    /// Reports that `path` could not be saved, or changed while it was read. Each call is counted
    /// as a problem.
    fn problem(&self, path: &Path, message: &str) {
        let _ = (path, message);
    }

    /// Reports that `path` is saved, but lacks something, or that its kind may be unexpected, such
    /// as a socket or a device.
    fn warning(&self, path: &Path, message: &str) {
        let _ = (path, message);
    }

    /// Reports that the file `path` is being read, for a display of what takes long.
    fn reading(&self, path: &Path) {
        let _ = path;
    }

    /// Returns `true` if the backup is to stop. Called often.
    fn cancelled(&self) -> bool {
        false
    }
}

/// The monitor that ignores every event.
impl BackupMonitor for () {}

/// The result of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// The new snapshot; `None` if nothing had changed and [`BackupOptions::skip_if_unchanged`] is
    /// set.
    pub snapshot: Option<TicketId>,
    /// The snapshot that this one was compared with.
    pub parent: Option<TicketId>,
    /// The content of the snapshot, and how much of it was new.
    pub statistics: Statistics,
    /// The absolute paths of the sources that were missing or could not be opened. The snapshot
    /// holds nothing of them, and each was reported as a problem.
    pub missing_sources: Vec<Vec<u8>>,
    /// Statistics on the new chunks, if they are compared by BURST.
    pub bursts: Option<BurstStatistics>,
    /// The number of files taken over from the parent without being read.
    pub unchanged_file_count: u64,
    /// The number of excluded names.
    pub excluded_count: u64,
    /// The number of times that the run restarted because another client had ended its ticket, or
    /// because the ticket was too old.
    pub restart_count: u64,
}

/// Saves `source` as a snapshot.
///
/// # Errors
///
/// Returns `Interrupted` if the monitor cancels the run. Nothing is committed then, but the next
/// run finds what was stored and published.
///
/// Returns `Invalid` if no source exists or none can be opened. If only some of them fail, each is
/// reported as a problem, and the snapshot names it as missing.
///
/// Returns `Missing` or `Invalid` if the snapshot named as the parent does not exist or may not be
/// used.
///
/// Returns `Conflict` if other clients have ended the run too often. For a stream, once is enough,
/// because a stream cannot be read twice.
///
/// Returns any error of the store. Problems with single files are reported to the monitor instead.
pub fn backup(
    repository: &Arc<Repository>,
    source: Source,
    options: &BackupOptions,
    monitor: &dyn BackupMonitor,
) -> Result<BackupReport> {
    plan::run(repository, source, options, monitor)
}
