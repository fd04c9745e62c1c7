//! The way in which a burst changes its reference block.

use crate::rules;

/// The unit in which a burst is padded, in bytes: the sector of the paper.
pub(crate) const SECTOR: usize = 512;

/// The way in which a burst changes its reference block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    /// The number of bytes at the beginning of the reference block that stay.
    pub(crate) prefix: u32,
    /// The number of bytes at the end of the reference block that stay.
    pub(crate) suffix: u32,
}

impl Patch {
    /// Returns the number of new bytes between prefix and suffix in a block of `block_size` bytes.
    pub(crate) fn data_len(self, block_size: usize) -> usize {
        block_size - self.prefix as usize - self.suffix as usize
    }

    /// Returns the number of bytes that the burst takes, padded to sectors.
    pub(crate) fn padded_len(self, block_size: usize) -> usize {
        let unit = if rules::pads_bursts() { SECTOR } else { 1 };
        self.data_len(block_size).next_multiple_of(unit)
    }

    /// Returns the content of the burst that gives `block`: its new bytes, padded.
    pub(crate) fn content(self, block: &[u8]) -> Vec<u8> {
        let start = self.prefix as usize;
        let mut content = block[start..start + self.data_len(block.len())].to_vec();
        content.resize(self.padded_len(block.len()), 0);
        content
    }

    /// Returns `true` if prefix and suffix leave a burst in a block of `block_size` bytes that is
    /// smaller than the block.
    pub(crate) fn is_possible(self, block_size: usize) -> bool {
        let kept = self.prefix as usize + self.suffix as usize;
        kept <= block_size && self.padded_len(block_size) < block_size
    }
}
