//! The losses of the snapshot that is being traversed: how many there are, and which are reported.

use super::report::{PathLoss, RepairMonitor};
use crate::format::names::TicketId;

/// The losses and the remains of a snapshot, or of a folder in it. All numbers saturate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) loss: u64,
    /// Number of entries that are kept.
    pub(super) kept: u64,
    /// Number of files of which nothing is kept.
    pub(super) left_out: u64,
    pub(super) left_out_bytes: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: Counts) {
        self.loss = self.loss.saturating_add(other.loss);
        self.kept = self.kept.saturating_add(other.kept);
        self.left_out = self.left_out.saturating_add(other.left_out);
        self.left_out_bytes = self.left_out_bytes.saturating_add(other.left_out_bytes);
    }

    /// Returns the increase since these counts were `before`.
    pub(super) fn since(self, before: Counts) -> Counts {
        Counts {
            loss: self.loss.saturating_sub(before.loss),
            kept: self.kept.saturating_sub(before.kept),
            left_out: self.left_out.saturating_sub(before.left_out),
            left_out_bytes: self.left_out_bytes.saturating_sub(before.left_out_bytes),
        }
    }
}

/// Counts the losses of a snapshot, and reports them to a monitor.
pub(super) struct LossLog<'a> {
    pub(super) monitor: &'a dyn RepairMonitor,
    snapshot: TicketId,
    pub(super) counts: Counts,
    /// Number of losses that are counted, but were not reported.
    pub(super) unnamed_count: u64,
}

impl<'a> LossLog<'a> {
    pub(super) fn new(monitor: &'a dyn RepairMonitor) -> LossLog<'a> {
        let (snapshot, counts) = (TicketId([0; 12]), Counts::default());
        LossLog { monitor, snapshot, counts, unnamed_count: 0 }
    }

    /// Begins with another snapshot.
    pub(super) fn begin(&mut self, snapshot: TicketId) {
        *self = LossLog { snapshot, ..LossLog::new(self.monitor) };
    }

    pub(super) fn loss(&mut self, path: &[u8], loss: &PathLoss) {
        self.counts.add(Counts { loss: 1, ..Counts::default() });
        self.monitor.loss(self.snapshot, path, loss);
    }

    /// Counts an entry that is kept.
    pub(super) fn kept(&mut self) {
        self.counts.add(Counts { kept: 1, ..Counts::default() });
    }

    /// Adds the losses of a folder that equals one whose losses were reported.
    pub(super) fn repeat(&mut self, counts: Counts) {
        self.counts.add(counts);
        self.unnamed_count = self.unnamed_count.saturating_add(counts.loss);
    }
}
