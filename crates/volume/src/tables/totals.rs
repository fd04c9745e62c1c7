//! The sizes of the tables.

use super::stored::{Form, Stored};
use crate::format::checkpoint::TOTAL_COUNT;

/// The sizes of the tables, kept up to date with each change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// The number of full blocks, bursts and deltas.
    pub(crate) form_counts: [u64; 3],
    /// The bytes of full blocks, bursts and deltas in whole sectors.
    pub(crate) form_bytes: [u64; 3],
    /// The number of full blocks that nothing but bursts and deltas need.
    pub(crate) pinned_count: u64,
    /// The number of entries of HeadDT and TailDT.
    pub(crate) edge_counts: [u64; 2],
    /// The number of entries of the table of features.
    pub(crate) feature_count: u64,
    /// The number of blocks whose content is not known.
    pub(crate) lost_count: u64,
    /// The number of entries of DT and BT.
    pub(crate) fingerprint_count: u64,
    /// The number of bursts whose reference block HeadDT and TailDT have found.
    pub(crate) side_counts: [u64; 2],
}

impl Totals {
    /// Counts a stored block, or no longer if `is_there` is `false`.
    pub(crate) fn count(&mut self, stored: &Stored, seal_len: usize, is_there: bool) {
        let form = match stored.form {
            Form::Full { .. } => 0,
            Form::Burst { .. } => 1,
            Form::Delta { .. } => 2,
        };
        let bytes = stored.sector_bytes(seal_len);
        let pinned = u64::from(stored.is_pinned());
        let Totals { form_counts, form_bytes, pinned_count, .. } = self;
        for (total, change) in
            [(&mut form_counts[form], 1), (&mut form_bytes[form], bytes), (pinned_count, pinned)]
        {
            adjust(total, change, is_there);
        }
        if let Form::Burst { side, .. } = stored.form {
            adjust(&mut self.side_counts[side as usize], 1, is_there);
        }
    }

    /// Returns the totals in the order of a checkpoint.
    pub(crate) fn to_array(self) -> [u64; TOTAL_COUNT] {
        let [full, burst, delta] = self.form_counts;
        let [full_bytes, burst_bytes, delta_bytes] = self.form_bytes;
        let [heads, tails] = self.edge_counts;
        let [head_bursts, tail_bursts] = self.side_counts;
        [
            full,
            burst,
            delta,
            full_bytes,
            burst_bytes,
            delta_bytes,
            self.pinned_count,
            heads,
            tails,
            self.feature_count,
            self.lost_count,
            self.fingerprint_count,
            head_bursts,
            tail_bursts,
        ]
    }

    /// Returns the totals of a checkpoint.
    pub(crate) fn of_array(array: [u64; TOTAL_COUNT]) -> Totals {
        Totals {
            form_counts: [array[0], array[1], array[2]],
            form_bytes: [array[3], array[4], array[5]],
            pinned_count: array[6],
            edge_counts: [array[7], array[8]],
            feature_count: array[9],
            lost_count: array[10],
            fingerprint_count: array[11],
            side_counts: [array[12], array[13]],
        }
    }
}

/// Adds to a total, or takes from it.
pub(crate) fn adjust(total: &mut u64, change: u64, is_added: bool) {
    *total = if is_added { total.saturating_add(change) } else { total.saturating_sub(change) };
}
