//! Maps of changed blocks: the ranges of a device or image that may differ from its previous
//! version.

use std::ops::Range;

/// The ranges of a device or image that have changed since the snapshot that a backup is compared
/// with. Everything else is taken over from that snapshot, without being read, except for a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedBlocks {
    /// Not empty, in ascending order, with a gap between any two.
    ranges: Vec<Range<u64>>,
}

impl ChangedBlocks {
    /// Creates a map from ranges in any order.
    pub fn new(mut ranges: Vec<Range<u64>>) -> ChangedBlocks {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        ChangedBlocks { ranges: merged }
    }

    /// Returns the end of the last range; 0 if there is none.
    pub fn end(&self) -> u64 {
        self.ranges.last().map_or(0, |range| range.end)
    }

    /// Returns the number of bytes in all ranges.
    pub fn size(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns the first byte in a range at `offset` or behind; `None` if there is none.
    pub(super) fn next(&self, offset: u64) -> Option<u64> {
        let after = self.ranges.partition_point(|range| range.end <= offset);
        self.ranges.get(after).map(|range| range.start.max(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_sorted_and_merged() {
        let map = ChangedBlocks::new(vec![30..40, 5..5, 10..20, 15..25, 25..30, 50..51]);
        assert_eq!(map.ranges, [10..40, 50..51], "merged");
        assert_eq!((map.end(), map.size()), (51, 31), "end and size");
        let next = |offset| map.next(offset);
        assert_eq!(
            [next(0), next(10), next(39), next(40)],
            [Some(10), Some(10), Some(39), Some(50)]
        );
        assert_eq!([next(50), next(51)], [Some(50), None], "at the end");
        assert_eq!(ChangedBlocks::default().next(0), None, "no ranges");
    }
}
