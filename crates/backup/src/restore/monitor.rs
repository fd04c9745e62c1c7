//! The events of a restore.

use std::path::Path;

/// A change of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreAction {
    /// An entry is created.
    Create,
    /// An entry takes the place of an existing one.
    Replace,
    /// An existing entry gets the owner, permissions and extended attributes of the snapshot.
    Adjust,
    /// An existing entry that is not in the snapshot is deleted.
    Delete,
}

/// Receives the events of a restore. All methods can be called from several threads at once.
pub trait RestoreMonitor: Sync {
    /// Reports progress: the numbers of files and bytes of files completed since the last call.
    fn progress(&self, files: u64, bytes: u64) {
        let _ = (files, bytes);
    }

    /// Returns `true` if the trees are to be read ahead, in order to find out how much there is to
    /// write.
    fn looks_ahead(&self) -> bool {
        false
    }

    /// Reports, after some time, the number of files that will be written and of their bytes,
    /// including those that are there already. See [`RestoreMonitor::looks_ahead`].
    fn expected(&self, files: u64, bytes: u64) {
        let _ = (files, bytes);
    }

    /// Reports that bytes of the file `path` of the snapshot are being written, for a display of
    /// what takes long.
    fn writing(&self, path: &Path) {
        let _ = path;
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

    /// Reports a deletion, or any change that a dry run would have made. The path of a folder ends
    /// with a slash. `bytes` is the size of a file that is written or deleted, and 0 for all other
    /// entries.
    fn action(&self, action: RestoreAction, path: &Path, bytes: u64) {
        let _ = (action, path, bytes);
    }

    /// Returns `true` if the restore is to stop. Called often.
    fn cancelled(&self) -> bool {
        false
    }
}

/// The monitor that ignores every event.
impl RestoreMonitor for () {}
