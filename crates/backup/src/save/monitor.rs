//! The events of a backup.

use std::path::Path;

use cutpoint_repository::{ObjectName, Statistics, TicketId};
use cutpoint_storage::Error;

use super::decision::FileDecision;

/// The progress of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupProgress {
    /// The content of the snapshot so far, and how much of it was new.
    pub statistics: Statistics,
    /// The number of bytes put so far.
    pub stored_bytes: u64,
}

/// Receives the events of a backup. The methods can be called from several threads at once.
pub trait BackupMonitor: Sync {
    /// Reports the progress of the run, at most about ten times a second.
    fn progress(&self, progress: &BackupProgress) {
        let _ = progress;
    }

    /// Returns `true` if the backup is to find out the expected amount of work. To this end it
    /// examines the source twice, unless it takes less than a few seconds.
    fn looks_ahead(&self) -> bool {
        false
    }

    /// Reports the expected amount of work: the number and the size of all files, and of those that
    /// will be read. The other counters are 0.
    fn expected(&self, statistics: &Statistics) {
        let _ = statistics;
    }

    /// Reports that the ticket of a dead writer was ended, and that the run uses what that writer
    /// had stored.
    fn resumed(&self, ended: TicketId) {
        let _ = ended;
    }

    /// Reports that the storage has lost objects of this run that it had acknowledged, so that the run
    /// begins again.
    fn lost(&self) {}

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

    /// Reports that `path` is saved, but lacks something.
    fn warning(&self, path: &Path, message: &str) {
        let _ = (path, message);
    }

    /// Reports that the file `path` is being read, for a display of what takes long.
    fn reading(&self, path: &Path) {
        let _ = path;
    }

    /// Reports, once for each name of a file, a device, a pipe or a socket, and for each excluded
    /// name, how it is saved.
    fn decided(&self, path: &Path, decision: &FileDecision<'_>) {
        let _ = (path, decision);
    }

    /// Returns `true` if the backup is to stop. Called often.
    fn cancelled(&self) -> bool {
        false
    }
}

/// The monitor that ignores every event.
impl BackupMonitor for () {}
