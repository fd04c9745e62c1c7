//! Counts of what writes have met, since the volume was created.

use crate::format::checkpoint::COUNTER_COUNT;
use crate::format::record::{Body, Search};

/// Counts of what writes have met, since the volume was created. Those after the last record that
/// survived a power cut are lost with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Blocks stored whole.
    pub full_count: u64,
    /// Blocks stored as bursts.
    pub burst_count: u64,
    /// Blocks stored as deltas.
    pub delta_count: u64,
    /// Blocks whose content was stored whole already.
    pub duplicate_count: u64,
    /// Blocks whose content was stored as a burst or a delta already.
    pub burst_duplicate_count: u64,
    /// Blocks that became zeros, by writes of zeros or by trimming.
    pub zero_count: u64,
    /// Bursts whose reference block HeadDT and TailDT have found.
    pub hit_count: [u64; 2],
    /// Lookups in HeadDT and TailDT that found an entry without room.
    pub exhausted_count: [u64; 2],
    /// Entries of HeadDT and TailDT that a newer block took over.
    pub replaced_count: [u64; 2],
    /// Reference blocks that were found and could not be read.
    pub cancelled_count: u64,
    /// Sum of the new bytes of bursts, not padded.
    pub burst_bytes: u64,
    /// Bursts whose new bytes, not padded, are at most an eighth of the block, at most a quarter, at most a
    /// half, and more.
    pub burst_len_counts: [u64; 4],
    /// Stored blocks that were moved to free a segment.
    pub moved_count: u64,
    /// Bursts and deltas that were stored anew so that nothing needs their reference block.
    pub rewritten_count: u64,
}

impl Counters {
    /// Returns the counters in the order of a checkpoint.
    pub(crate) fn to_array(self) -> [u64; COUNTER_COUNT] {
        let [head_hits, tail_hits] = self.hit_count;
        let [head_exhausted, tail_exhausted] = self.exhausted_count;
        let [head_replaced, tail_replaced] = self.replaced_count;
        let [to_eighth, to_quarter, to_half, longer] = self.burst_len_counts;
        [
            self.full_count,
            self.burst_count,
            self.duplicate_count,
            self.burst_duplicate_count,
            self.zero_count,
            head_hits,
            tail_hits,
            head_exhausted,
            tail_exhausted,
            head_replaced,
            tail_replaced,
            self.cancelled_count,
            self.burst_bytes,
            self.moved_count,
            self.delta_count,
            self.rewritten_count,
            to_eighth,
            to_quarter,
            to_half,
            longer,
        ]
    }

    /// Returns the counters of a checkpoint.
    pub(crate) fn of_array(array: [u64; COUNTER_COUNT]) -> Counters {
        Counters {
            full_count: array[0],
            burst_count: array[1],
            duplicate_count: array[2],
            burst_duplicate_count: array[3],
            zero_count: array[4],
            hit_count: [array[5], array[6]],
            exhausted_count: [array[7], array[8]],
            replaced_count: [array[9], array[10]],
            cancelled_count: array[11],
            burst_bytes: array[12],
            burst_len_counts: [array[16], array[17], array[18], array[19]],
            moved_count: array[13],
            delta_count: array[14],
            rewritten_count: array[15],
        }
    }

    /// Counts the events that a record carries.
    pub(crate) fn count(&mut self, body: &Body, block_size: usize) {
        match *body {
            Body::Full { search, .. } => {
                self.full_count += 1;
                self.count_search(search);
            }
            Body::Burst { side, patch, search, .. } => {
                self.burst_count += 1;
                self.hit_count[side as usize] += 1;
                let len = patch.data_len(block_size);
                self.burst_bytes += len as u64;
                let longer_than = [8, 4, 2].map(|part| len > block_size / part);
                self.burst_len_counts[longer_than.into_iter().filter(|it| *it).count()] += 1;
                self.count_search(search);
            }
            Body::Move { .. } => self.moved_count += 1,
            Body::Delta { .. } => self.delta_count += 1,
            Body::Rewrite { .. } => self.rewritten_count += 1,
            Body::Duplicate { .. }
            | Body::Zero(_)
            | Body::Change { .. }
            | Body::Fold { .. }
            | Body::Summary { .. } => {}
        }
    }

    /// Counts a block whose content was stored already, whole or not.
    pub(crate) fn count_duplicate(&mut self, is_full: bool) {
        self.duplicate_count += u64::from(is_full);
        self.burst_duplicate_count += u64::from(!is_full);
    }

    fn count_search(&mut self, search: Search) {
        for (count, is_exhausted) in self.exhausted_count.iter_mut().zip(search.exhausted) {
            *count += u64::from(is_exhausted);
        }
        self.cancelled_count += u64::from(search.is_cancelled);
    }
}
