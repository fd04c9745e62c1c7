//! The events of a restore.

use std::path::Path;

/// Receives the events of a restore. All methods can be called from several threads at once.
pub trait RestoreMonitor: Sync {
    /// Reports progress: the numbers of files and bytes of files completed since the last call.
    fn progress(&self, files: u64, bytes: u64) {
        let _ = (files, bytes);
    }

    /// Reports that `path` of the snapshot was not restored, or was left as it was. Each path is
    /// reported once.
    fn problem(&self, path: &Path, message: &str) {
        let _ = (path, message);
    }

    /// Reports that `path` of the snapshot was restored, but lacks something, such as an attribute
    /// or an owner.
    fn warning(&self, path: &Path, message: &str) {
        let _ = (path, message);
    }

    /// Returns `true` if the restore is to stop. Called often.
    fn cancelled(&self) -> bool {
        false
    }
}

/// The monitor that ignores every event.
impl RestoreMonitor for () {}
