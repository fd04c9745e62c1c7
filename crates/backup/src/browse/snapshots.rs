//! The source of the list of snapshots.

use std::path::Path;

use cutpoint_repository::{Content, TicketId, Time};
use cutpoint_storage::Error;

/// A snapshot to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSnapshot {
    /// The id.
    pub id: TicketId,
    /// The tree of the root folder.
    pub root: Content,
    /// The start of the backup.
    pub time: Time,
    /// The name of the snapshot in folders that are sorted by time.
    pub time_name: String,
    /// The host.
    pub host: String,
    /// The tags.
    pub tags: Vec<String>,
    /// Set if a run that was cut off has made the snapshot. It is never `latest`.
    pub is_partial: bool,
}

/// The source of the list of snapshots, which also takes reports of problems. Called from several
/// threads at once.
pub trait SnapshotSource: Send + Sync {
    /// Lists the snapshots to show, oldest first. Returns `None` to keep the list as it is, in
    /// particular if the repository cannot be listed.
    fn list(&self) -> Option<Vec<ListedSnapshot>>;

    /// Reports that a path cannot be read completely. The path begins with the id of the snapshot
    /// and a colon. Called once for each path, unless there are very many.
    fn problem(&self, path: &Path, error: &Error);
}
