//! A block as copies of bytes of other blocks and new bytes.
//!
//! The content is a sequence of pieces. Each begins with a number of variable length: twice its length
//! in bytes, and 1 more for a copy. A copy goes on with the difference between its position in the
//! reference blocks, one behind the other, and the end of the copy before (0 at first), as a number of
//! variable length: twice the difference, or for a negative one twice its absolute value less 1. New
//! bytes follow their length.

use std::fmt;
use std::sync::Arc;

use cutpoint_delta::{Piece, Window};

use crate::format::cursor::{Cursor, put_varint};

/// Finds copies, with memory that is used again.
pub(crate) struct Encoder {
    window: Window,
    /// The position in the window at which the next reference blocks begin. It only rises, so that the
    /// table of the window need not be cleared.
    start: u64,
    pieces: Vec<Piece>,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

/// A block as a delta: the indices of the reference blocks that it has, and the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delta {
    pub(crate) used: Vec<usize>,
    pub(crate) content: Vec<u8>,
}

/// A part of a block.
enum Part {
    Copy { block: usize, offset: usize, len: usize },
    New { start: usize, len: usize },
}

impl Encoder {
    pub(crate) fn new() -> Encoder {
        Encoder { window: Window::new(0), start: 0, pieces: Vec::new() }
    }

    /// Returns `block` as copies of `references`, which are as long as `block`, or `None` if no byte is
    /// a copy.
    pub(crate) fn encode(&mut self, block: &[u8], references: &[Arc<[u8]>]) -> Option<Delta> {
        if references.is_empty() {
            return None;
        }
        self.window.restart(self.start);
        references.iter().for_each(|reference| self.window.push(reference));
        self.pieces.clear();
        self.window.find(block, self.start, &mut self.pieces);
        let parts = parts(&self.pieces, self.start, block.len());
        self.start = self.window.end().next_multiple_of(block.len() as u64) + block.len() as u64;
        let mut used: Vec<usize> = Vec::new();
        for part in &parts {
            if let Part::Copy { block, .. } = part
                && !used.contains(block)
            {
                used.push(*block);
            }
        }
        if used.is_empty() {
            return None;
        }
        let mut content = Vec::new();
        let mut expected = 0_u64;
        for part in parts {
            match part {
                Part::New { start, len } => {
                    put_varint(&mut content, 2 * len as u64);
                    content.extend_from_slice(&block[start..start + len]);
                }
                Part::Copy { block: reference, offset, len } => {
                    let index = used.iter().position(|it| *it == reference)?;
                    let position = (index * block.len() + offset) as u64;
                    put_varint(&mut content, 2 * len as u64 + 1);
                    put_varint(&mut content, zigzag(position, expected));
                    expected = position + len as u64;
                }
            }
        }
        Some(Delta { used, content })
    }
}

/// Returns the parts of a block from its pieces. The reference blocks begin at position `first`. Copies
/// are cut where one of them ends.
fn parts(pieces: &[Piece], first: u64, block_size: usize) -> Vec<Part> {
    let mut parts = Vec::with_capacity(pieces.len() + 2);
    let mut start = 0;
    for piece in pieces {
        match *piece {
            Piece::Literal { len } => {
                parts.push(Part::New { start, len });
                start += len;
            }
            Piece::Copy { position, len } => {
                let position = usize::try_from(position - first).expect("blocks are in memory");
                let (mut at, end) = (position, position + len);
                while at < end {
                    let (block, offset) = (at / block_size, at % block_size);
                    let len = (block_size - offset).min(end - at);
                    parts.push(Part::Copy { block, offset, len });
                    at += len;
                }
                start += len;
            }
        }
    }
    parts
}

/// Makes a block of a content and its reference blocks. Returns `None` if the content is not that of a
/// block of this length.
pub(crate) fn decode(content: &[u8], references: &[Arc<[u8]>], block: &mut [u8]) -> Option<()> {
    let mut rest = Cursor(content);
    let (mut filled, mut expected) = (0_usize, 0_u64);
    while filled < block.len() {
        let number = rest.varint()?;
        let len = usize::try_from(number / 2).ok().filter(|len| *len > 0)?;
        let target = block.get_mut(filled..filled.checked_add(len)?)?;
        if number.is_multiple_of(2) {
            target.copy_from_slice(rest.take(len)?);
        } else {
            let position = unzigzag(rest.varint()?, expected)?;
            let (size, position) = (references.first()?.len(), usize::try_from(position).ok()?);
            let reference = references.get(position / size)?;
            let offset = position % size;
            target.copy_from_slice(reference.get(offset..offset.checked_add(len)?)?);
            expected = (position + len) as u64;
        }
        filled += len;
    }
    rest.0.is_empty().then_some(())
}

fn zigzag(position: u64, expected: u64) -> u64 {
    if position >= expected { 2 * (position - expected) } else { 2 * (expected - position) - 1 }
}

fn unzigzag(number: u64, expected: u64) -> Option<u64> {
    if number.is_multiple_of(2) {
        expected.checked_add(number / 2)
    } else {
        expected.checked_sub(number / 2 + 1)
    }
}

#[cfg(test)]
mod tests {
    use cutpoint_testing::SplitMix64;

    use super::*;

    const SIZE: usize = 4096;

    fn random(seed: u64) -> Vec<u8> {
        SplitMix64::bytes(seed, SIZE)
    }

    /// Returns blocks that have parts of `bases`, and of how many of these.
    fn similar(bases: &[Arc<[u8]>]) -> Vec<(Vec<u8>, usize)> {
        let mut changed = bases[0].to_vec();
        changed[2000] ^= 1;
        let mut shifted = bases[0].to_vec();
        shifted.rotate_right(1);
        let removed = [&bases[0][..1000], &bases[0][1512..], &random(99)[..512]].concat();
        let ends = [&random(98)[..1], &bases[0][1..SIZE - 1], &[7]].concat();
        let of_two = [&bases[0][..2000], &bases[1][2000..]].concat();
        let of_all: Vec<u8> = bases.iter().flat_map(|it| it[512..1536].to_vec()).collect();
        vec![
            (bases[0].to_vec(), 1),
            (changed, 1),
            (shifted, 1),
            (removed, 1),
            (ends, 1),
            (of_two, 2),
            (of_all, 4),
        ]
    }

    #[test]
    fn block_survives_its_delta() {
        let bases: Vec<Arc<[u8]>> = (0..4).map(|seed| random(seed).into()).collect();
        let mut encoder = Encoder::new();
        for (number, (block, base_count)) in similar(&bases).into_iter().enumerate() {
            let delta = encoder.encode(&block, &bases).expect("it has copies");
            assert_eq!(delta.used.len(), base_count, "block {number}");
            assert!(delta.content.len() < 700, "block {number}: {} bytes", delta.content.len());
            let references: Vec<_> = delta.used.iter().map(|index| bases[*index].clone()).collect();
            let mut decoded = vec![0; SIZE];
            assert_eq!(decode(&delta.content, &references, &mut decoded), Some(()));
            assert!(decoded == block, "block {number}");
            for len in 0..delta.content.len() {
                let cut = decode(&delta.content[..len], &references, &mut decoded);
                assert_eq!(cut, None, "block {number}, {len} bytes");
            }
            let longer = [delta.content.as_slice(), &[0]].concat();
            assert_eq!(decode(&longer, &references, &mut decoded), None, "block {number}");
        }
    }

    #[test]
    fn block_without_copies_has_no_delta() {
        let bases: Vec<Arc<[u8]>> = (0..4).map(|seed| random(seed).into()).collect();
        assert_eq!(Encoder::new().encode(&random(5), &bases), None);
        assert_eq!(Encoder::new().encode(&random(5), &[]), None);
    }

    #[test]
    fn any_bytes_are_a_block_or_refused() {
        let bases: Vec<Arc<[u8]>> = (0..4).map(|seed| random(seed).into()).collect();
        let mut encoder = Encoder::new();
        let mut numbers = SplitMix64::new(4);
        let mut decoded = vec![0; SIZE];
        for (block, _) in similar(&bases) {
            let delta = encoder.encode(&block, &bases).expect("it has copies");
            for _ in 0..3000 {
                let mut damaged = delta.content.clone();
                for _ in 0..1 + numbers.below(3) {
                    let at = numbers.below(damaged.len());
                    damaged[at] = numbers.byte();
                }
                let count = numbers.below(5);
                decode(&damaged, &bases[..count], &mut decoded);
            }
        }
    }
}
