//! The position of a new chunk in a long stretch of an old stream.

use crate::anchors::{AnchorIndex, Repeats};

/// The density of anchors: the content selects one in 2 to the power of this number of positions.
const ANCHOR_BITS: u32 = 6;
/// The minimum number of anchors that agree on a position, for the position to be returned.
const VOTES_MIN: u32 = 4;
/// The number of anchors that agree on a position at which the search stops.
const VOTES_MAX: u32 = 16;
/// The difference below which two positions count as the same, in bytes. Such positions differ
/// because bytes were inserted or removed in between.
const BUCKET_LEN: u64 = 16 * 1024;
/// The maximum number of candidate positions in a search.
const BUCKET_COUNT: usize = 64;

/// An index of the anchors of a long stretch of an old stream.
///
/// The index has hashes of the keys only, so the caller must compare the bytes at the position
/// found. Content selects the anchors, so that old and new bytes are anchors at the same
/// positions and few positions are hashed. A key that occurs at several positions says nothing.
#[derive(Debug)]
pub struct Resync(AnchorIndex);

impl Resync {
    /// Creates an index for about the last `capacity` bytes pushed. The next byte that is pushed is
    /// at `position` of the old stream. The index takes an eighth of the capacity in memory, with
    /// the number of slots rounded up to a power of two.
    #[must_use]
    pub fn new(capacity: usize, position: u64) -> Resync {
        Resync(AnchorIndex::new(capacity, ANCHOR_BITS, Repeats::Dropped, position))
    }

    /// Forgets the keys before `position`, which is that of the next byte pushed. Keys already
    /// indexed after `position` stay valid, because the old stream does not change.
    pub fn restart(&mut self, position: u64) {
        self.0.restart(position);
    }

    /// Returns the position of the next byte that is pushed.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.0.end()
    }

    /// Indexes the next bytes of the old stream.
    pub fn push(&mut self, old: &[u8]) {
        self.0.push(old);
    }

    /// Returns the approximate position in the old stream that corresponds to the first byte of
    /// `new`, or `None` if too few anchors agree on one.
    #[must_use]
    pub fn locate(&self, new: &[u8]) -> Option<u64> {
        // Position and votes. The first position of a bucket stands for the bucket.
        let mut buckets: Vec<(u64, u32)> = Vec::new();
        for (at, hash) in self.0.of(new) {
            let Some(position) = self.0.look_up(hash) else { continue };
            let position = position.saturating_sub(at as u64);
            let near = |(other, _): &(u64, u32)| other.abs_diff(position) < BUCKET_LEN;
            match buckets.iter().position(near) {
                Some(bucket) => {
                    buckets[bucket].1 += 1;
                    if buckets[bucket].1 == VOTES_MAX {
                        break;
                    }
                }
                None if buckets.len() < BUCKET_COUNT => buckets.push((position, 1)),
                None => {}
            }
        }
        let best = buckets.into_iter().max_by_key(|(_, votes)| *votes);
        best.filter(|(_, votes)| *votes >= VOTES_MIN).map(|(position, _)| position)
    }
}
