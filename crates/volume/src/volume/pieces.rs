//! A range of bytes of the disk, cut at the ends of blocks.

use std::ops::Range;

/// The bytes of a range that are in one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The number of the block.
    pub(crate) block: u64,
    /// The bytes of the block.
    pub(crate) range: Range<usize>,
}

/// Returns the pieces of `len` bytes from `offset` on, in order.
pub(crate) fn pieces(offset: u64, len: u64, block_size: usize) -> impl Iterator<Item = Piece> {
    let size = block_size as u64;
    let end = offset.saturating_add(len);
    let mut at = offset;
    std::iter::from_fn(move || {
        let block = at / size;
        let piece_end = end.min((block + 1).saturating_mul(size));
        if at >= end {
            return None;
        }
        let start = index(at - block * size);
        let range = start..start + index(piece_end - at);
        at = piece_end;
        Some(Piece { block, range })
    })
}

/// Returns the numbers of the blocks that are in the range as a whole.
pub(crate) fn whole_blocks(offset: u64, len: u64, block_size: usize) -> Range<u64> {
    let size = block_size as u64;
    let first = offset.div_ceil(size);
    first..(offset.saturating_add(len) / size).max(first)
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("at most the size of a block")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_is_cut_at_ends_of_blocks() {
        let all: Vec<_> = pieces(6, 7, 4).map(|piece| (piece.block, piece.range)).collect();
        assert_eq!(all, [(1, 2..4), (2, 0..4), (3, 0..1)]);
        assert_eq!(pieces(6, 0, 4).next(), None);
        assert_eq!(whole_blocks(6, 7, 4), 2..3);
        assert_eq!(whole_blocks(5, 2, 4), 2..2);
        assert_eq!(whole_blocks(4, 8, 4), 1..3);
    }
}
