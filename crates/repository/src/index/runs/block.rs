//! Blocks of hints: the units that a run file is read and verified in.

use std::io::{self, Write};

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::format::names::PartName;
use crate::format::segment::HINT_LEN;

/// Number of hints in a block; the last block may have fewer.
pub(super) const BLOCK_HINTS: u64 = 341;
const CHECKSUM_LEN: usize = 4;
/// The length of a block with its checksum, in bytes.
pub(super) const BLOCK_LEN: usize = 4096;
const _: () = assert!(
    BLOCK_LEN as u64 == BLOCK_HINTS * HINT_LEN as u64 + CHECKSUM_LEN as u64,
    "hints and checksum fill a block"
);

/// Returns the length of `hint_count` hints in a file, in bytes.
pub(super) fn blocks_len(hint_count: u64) -> u64 {
    hint_count * HINT_LEN as u64 + hint_count.div_ceil(BLOCK_HINTS) * CHECKSUM_LEN as u64
}

/// Returns the value to which a file's blocks are bound, so that a block of another run, or of
/// another position, is not accepted.
pub(super) fn identity(covers: &[PartName]) -> u64 {
    let mut hasher = Xxh3::new();
    covers.iter().for_each(|part| hasher.update(&part.to_bytes()));
    hasher.digest()
}

fn checksum(hints: &[u8], identity: u64, block: u64) -> [u8; CHECKSUM_LEN] {
    let sum = xxh3_64_with_seed(hints, identity ^ block).to_le_bytes();
    [sum[0], sum[1], sum[2], sum[3]]
}

/// Verifies and removes the checksums in `blocks`, the first of which has the number `first`.
pub(super) fn verify(blocks: &mut Vec<u8>, identity: u64, first: u64) -> io::Result<()> {
    let (mut kept, mut at) = (0, 0);
    for number in first.. {
        let end = (at + BLOCK_LEN).min(blocks.len());
        if at == end {
            break;
        }
        let Some(body) = end.checked_sub(CHECKSUM_LEN).filter(|body| *body > at) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        if checksum(&blocks[at..body], identity, number) != blocks[body..end] {
            return Err(io::ErrorKind::InvalidData.into());
        }
        blocks.copy_within(at..body, kept);
        kept += body - at;
        at = end;
    }
    blocks.truncate(kept);
    Ok(())
}

/// Returns the number of records in `bytes` whose hint is below `hint`.
pub(super) fn partition(bytes: &[u8], hint: u64) -> u64 {
    let (mut low, mut high) = (0, bytes.len() / HINT_LEN);
    while low < high {
        let middle = low + (high - low) / 2;
        if decode(&bytes[middle * HINT_LEN..]).0 < hint {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low as u64
}

pub(super) fn decode(record: &[u8]) -> (u64, u32) {
    let mut hint = [0; 8];
    hint.copy_from_slice(&record[..8]);
    let mut container = [0; 4];
    container.copy_from_slice(&record[8..12]);
    (u64::from_be_bytes(hint), u32::from_le_bytes(container))
}

/// The hints that are being written to a file, in blocks.
pub(super) struct BlockWriter {
    identity: u64,
    number: u64,
    block: Vec<u8>,
}

impl BlockWriter {
    pub(super) fn new(identity: u64) -> BlockWriter {
        BlockWriter { identity, number: 0, block: Vec::with_capacity(BLOCK_LEN) }
    }

    pub(super) fn push(
        &mut self,
        hint: u64,
        container: u32,
        out: &mut impl Write,
    ) -> io::Result<()> {
        self.block.extend_from_slice(&hint.to_be_bytes());
        self.block.extend_from_slice(&container.to_le_bytes());
        if self.block.len() + CHECKSUM_LEN == BLOCK_LEN { self.end(out) } else { Ok(()) }
    }

    pub(super) fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let sum = checksum(&self.block, self.identity, self.number);
        self.block.extend_from_slice(&sum);
        out.write_all(&self.block)?;
        self.block.clear();
        self.number += 1;
        Ok(())
    }
}
