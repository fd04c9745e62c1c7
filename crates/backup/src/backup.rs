//! From files to a snapshot.

mod batch;
mod bundle;
mod cutting;
mod decide;
#[cfg(feature = "faults")]
pub mod faults;
mod pipeline;
mod plan;
mod shared;
mod shutdown;
mod stages;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cutpoint_store::error::{Error, Result};
use cutpoint_store::format::commit::Statistics;
use cutpoint_store::name::{ObjectName, TicketId};
use cutpoint_store::repository::Repository;
use cutpoint_store::writer::{BurstStatistics, Verify};

use crate::files::mounts::FileSystems;
use crate::files::walk::WalkOptions;

/// What to save.
pub enum Source {
    /// What lies below these paths.
    Files {
        /// Folders, files or anything else.
        paths: Vec<PathBuf>,
        /// What to leave out.
        options: WalkOptions,
    },
    /// A stream, as a file in the root folder of the snapshot.
    Stream {
        /// The file's name.
        name: Vec<u8>,
        /// Its bytes. Where none come for a while it may say so by `TimedOut` from time to time, so
        /// that the run hears when it is to stop; it is asked again.
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

/// With which snapshot to compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parent {
    /// The newest of the same host and sources; a partial one counts.
    #[default]
    Newest,
    /// None.
    None,
    /// This one.
    Snapshot(TicketId),
}

/// How to save.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// With which snapshot to compare, so that unchanged files are not read.
    pub parent: Parent,
    /// Read every file, whatever the parent says.
    pub force_read: bool,
    /// Make no snapshot where nothing has changed.
    pub skip_if_unchanged: bool,
    /// Which regions are decoded before they are put.
    pub verify: Verify,
    /// How many threads fingerprint and compress; 0 is as many as the machine has.
    pub threads: usize,
    /// Words to find the snapshot by.
    pub tags: Vec<String>,
    /// Free text.
    pub description: String,
    /// The machine's name, for the snapshot.
    pub host: String,
    /// Who runs the backup.
    pub user: String,
    /// Name and version of the program.
    pub program: String,
    /// Tells file systems apart: [`Kernel`](crate::files::Kernel), but for tests.
    pub file_systems: Arc<dyn FileSystems>,
}

/// How far a backup is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What the snapshot holds so far, and what was new.
    pub statistics: Statistics,
    /// Bytes put so far.
    pub stored_bytes: u64,
}

/// Hears of what a backup does. Methods can be called from several threads.
pub trait BackupMonitor: Sync {
    /// The run is so far; called some ten times a second at most.
    fn progress(&self, progress: &Progress) {
        let _ = progress;
    }

    /// What the run has to read, as far as is known: total files and bytes of the parent.
    fn expected(&self, files: u64, bytes: u64) {
        let _ = (files, bytes);
    }

    /// A writer that was dead has been ended, and what it had stored is used.
    fn resumed(&self, ended: TicketId) {
        let _ = ended;
    }

    /// An object of the repository cannot be read. The backup does without it: at worst it stores
    /// again what only that object knew.
    fn unreadable(&self, name: &ObjectName, error: &Error) {
        let _ = (name, error);
    }

    /// `path` could not be saved, or changed while it was read. It is counted.
    fn problem(&self, path: &Path, message: &str) {
        let _ = (path, message);
    }

    /// `path` is saved, but lacks something, or is of a kind that may surprise: a socket, a device.
    fn warning(&self, path: &Path, message: &str) {
        let _ = (path, message);
    }

    /// A file of this path is being read; for a display of what takes so long.
    fn reading(&self, path: &Path) {
        let _ = path;
    }

    /// Whether to stop. Asked often.
    fn cancelled(&self) -> bool {
        false
    }
}

/// A monitor that hears nothing.
impl BackupMonitor for () {}

/// What a backup did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// The snapshot; `None` where nothing had changed and none was wanted.
    pub snapshot: Option<TicketId>,
    /// The snapshot with which this one was compared.
    pub parent: Option<TicketId>,
    /// What the snapshot holds and what it added.
    pub statistics: Statistics,
    /// The sources that were not there or could not be opened, as absolute paths: the snapshot has
    /// nothing of them. Each was a problem.
    pub missing_sources: Vec<Vec<u8>>,
    /// What became of new chunks by BURST, where that is how they are compared.
    pub bursts: Option<BurstStatistics>,
    /// Files taken over unread.
    pub unchanged_file_count: u64,
    /// What was excluded.
    pub excluded_count: u64,
    /// How often the run began anew because somebody had ended its ticket, or the ticket was old.
    pub restart_count: u64,
}

/// Saves `source` as a snapshot.
///
/// # Errors
///
/// `Interrupted` where the monitor says so: nothing is committed, but what was stored and
/// published is found by the next run. As the store. `Invalid` where no source is there, or can be
/// opened; where others are, such a one is a problem, and the snapshot names it as missing. What goes
/// wrong with single files goes to the monitor.
pub fn backup(
    repository: &Arc<Repository>,
    source: Source,
    options: &BackupOptions,
    monitor: &dyn BackupMonitor,
) -> Result<BackupReport> {
    plan::run(repository, source, options, monitor)
}
