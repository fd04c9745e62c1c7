//! The events of a copy.

use cutpoint_repository::format::commit::OriginId;
use cutpoint_storage::Error;

use crate::save::{BackupMonitor, BackupReport};

/// Receives the events of a copy, in addition to those of saving each snapshot.
pub trait CopyMonitor: BackupMonitor {
    /// Reports that `count` snapshots of `total` were examined.
    fn examined(&self, count: u64, total: u64) {
        let _ = (count, total);
    }

    /// Reports that the snapshot `id` was saved again.
    fn saved(&self, id: &OriginId, report: &BackupReport) {
        let _ = (id, report);
    }

    /// Reports that the snapshot `id` was not saved, because a part of it cannot be read. Each call
    /// is counted as a problem.
    fn failed(&self, id: &OriginId, error: &Error) {
        let _ = (id, error);
    }
}

/// The monitor that ignores every event.
impl CopyMonitor for () {}
