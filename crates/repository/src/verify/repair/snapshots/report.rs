//! The options and the results of a repair of snapshots, and the monitor that receives the losses.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::format::names::TicketId;
use crate::verify::check::{CheckMonitor, Portion};

/// The options of a repair of snapshots.
#[derive(Clone, Copy, Debug, Default)]
pub struct SnapshotOptions {
    /// Set to write nothing, and only report the losses.
    pub dry_run: bool,
    /// Set to forget the snapshots that have lost data, and to give up missing commits.
    pub forget: bool,
    /// The portion of the containers that is read to find losses; `None` to use only the chunks
    /// that `damage` commits name, and those in containers that are gone.
    pub read_data: Option<Portion>,
    /// Number of threads that read containers; 0 for one per processor.
    pub threads: usize,
}

/// A loss in one place of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathLoss {
    /// Some or all entries of a folder. Their names are unknown.
    Entries,
    /// A whole file.
    File {
        /// The size of the file in bytes.
        size: u64,
    },
    /// Parts of a file.
    Parts {
        /// The lost bytes of the file; the first 1,048,576 ranges.
        ranges: Vec<Range<u64>>,
        /// The size of the file in bytes.
        size: u64,
        /// The name, in the same folder, under which the rest is kept.
        kept_as: Vec<u8>,
    },
}

/// Receives the losses that a repair finds.
pub trait RepairMonitor: CheckMonitor {
    /// Reports a loss at `path` of a snapshot. The path begins with `/`, and ends with `/` if it is
    /// a folder.
    fn loss(&self, snapshot: TicketId, path: &[u8], loss: &PathLoss) {
        let _ = (snapshot, path, loss);
    }
}

/// A monitor that ignores everything.
impl RepairMonitor for () {}

/// The outcome for a snapshot that has lost data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairOutcome {
    /// The rest of the snapshot was written as this snapshot.
    Repaired(TicketId),
    /// An earlier repair has written this snapshot.
    RepairedBefore(TicketId),
    /// The snapshot would be repaired, but nothing was to be written.
    WouldBeRepaired,
    /// Nothing is left of the snapshot.
    NothingLeft,
    /// A prune has taken the snapshot meanwhile.
    Taken,
}

/// A snapshot that has lost data.
#[derive(Clone, Debug)]
pub struct SnapshotRepair {
    /// The id of the snapshot.
    pub snapshot: TicketId,
    /// The outcome for the snapshot.
    pub outcome: RepairOutcome,
    /// Number of places with a loss; the maximum of the type means that number or more.
    pub loss_count: u64,
    /// Number of losses that were not passed to [`RepairMonitor::loss`], because they are in
    /// folders that equal others whose losses were reported.
    pub unnamed_count: u64,
    /// Set if some of the lost data may come back, because the storage has refused it, or because
    /// only a container has it that no index names. Such a snapshot is not forgotten.
    pub is_refused: bool,
}

/// The results of a repair of snapshots.
#[derive(Clone, Debug, Default)]
pub struct SnapshotsRepair {
    /// The snapshots that have lost data, oldest first.
    pub snapshots: Vec<SnapshotRepair>,
    /// Snapshots that an earlier repair has written from these while the storage refused to read
    /// some data. The new ones have more, so that the old ones are forgotten with the others.
    pub makeshift: Vec<TicketId>,
    /// Commits that are missing or cannot be read, and whose contents are unknown.
    pub missing_commits: BTreeSet<TicketId>,
    /// Snapshots that were forgotten.
    pub forgotten: Vec<TicketId>,
    /// Snapshots that were not forgotten, because they are held.
    pub held: Vec<TicketId>,
    /// The number of the record by which missing commits were given up.
    pub record: Option<u64>,
}
