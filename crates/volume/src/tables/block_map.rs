//! The stored block of each block of the disk.

use std::collections::BTreeMap;

use crate::format::record::Seq;

/// The number of blocks of a page.
const PAGE: u64 = 512;

/// The value of a block that is zeros.
pub(crate) const ZERO: Seq = 0;
/// The value of a block whose record was damaged: its content is not known.
pub(crate) const LOST: Seq = Seq::MAX;

/// The stored block of each block of the disk. Pages without a stored block take no memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockMap {
    pages: BTreeMap<u64, Page>,
    used_count: u64,
}

#[derive(Clone, Debug)]
struct Page {
    values: Box<[Seq]>,
    used_count: u64,
}

impl BlockMap {
    /// Returns the value of a block.
    pub(crate) fn get(&self, block: u64) -> Seq {
        let page = self.pages.get(&(block / PAGE));
        page.map_or(ZERO, |page| page.values[slot(block)])
    }

    /// Sets the value of a block, and returns the previous one.
    pub(crate) fn set(&mut self, block: u64, value: Seq) -> Seq {
        let number = block / PAGE;
        if value == ZERO && !self.pages.contains_key(&number) {
            return ZERO;
        }
        let page = self.pages.entry(number).or_insert_with(|| Page {
            values: vec![ZERO; slot(PAGE - 1) + 1].into(),
            used_count: 0,
        });
        let before = std::mem::replace(&mut page.values[slot(block)], value);
        if before == ZERO && value != ZERO {
            page.used_count += 1;
            self.used_count += 1;
        } else if before != ZERO && value == ZERO {
            page.used_count -= 1;
            self.used_count -= 1;
            if page.used_count == 0 {
                self.pages.remove(&number);
            }
        }
        before
    }

    /// Returns the first block from `from` on that is not zeros, and its value.
    pub(crate) fn next_used(&self, from: u64) -> Option<(u64, Seq)> {
        self.pages.range(from / PAGE..).find_map(|(number, page)| {
            let start = number * PAGE;
            let skipped = slot(from.saturating_sub(start).min(PAGE - 1));
            let skipped = if from > start { skipped } else { 0 };
            let values = page.values.iter().enumerate().skip(skipped);
            let found = values.into_iter().find(|(_, value)| **value != ZERO);
            found.map(|(index, value)| (start + index as u64, *value))
        })
    }

    /// Returns the blocks that are not zeros, in order, with their values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Seq)> {
        self.pages.iter().flat_map(|(number, page)| {
            let blocks = (number * PAGE..).zip(page.values.iter().copied());
            blocks.filter(|(_, value)| *value != ZERO)
        })
    }

    /// Returns the number of blocks that are not zeros.
    pub(crate) fn used_count(&self) -> u64 {
        self.used_count
    }
}

/// Returns the index of a block in its page.
fn slot(block: u64) -> usize {
    usize::try_from(block % PAGE).expect("a page has few blocks")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_blocks_are_found_in_order_across_pages() {
        let mut map = BlockMap::default();
        for block in [3, 511, 512, 5000] {
            assert_eq!(map.set(block, block + 1), ZERO);
        }
        assert_eq!(map.iter().map(|(block, _)| block).collect::<Vec<_>>(), [3, 511, 512, 5000]);
        for (from, found) in [(0, 3), (3, 3), (4, 511), (512, 512), (513, 5000), (4999, 5000)] {
            assert_eq!(map.next_used(from), Some((found, found + 1)), "from {from}");
        }
        assert_eq!(map.next_used(5001), None);
        assert_eq!(map.set(5000, ZERO), 5001);
        assert_eq!((map.pages.len(), map.used_count()), (2, 3));
    }
}
