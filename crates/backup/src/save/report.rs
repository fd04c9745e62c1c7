//! The result of a backup.

use cutpoint_repository::write::BurstStatistics;
use cutpoint_repository::{Statistics, TicketId};

/// The result of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// The new snapshot; `None` if nothing had changed and
    /// [`skip_if_unchanged`](super::BackupOptions::skip_if_unchanged) is set.
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
