//! Reads.

use super::Volume;
use super::pieces::pieces;
use crate::core::Unreadable;
use crate::error::{Error, Kind, Result};
use crate::format::record::Seq;
use crate::tables::{Form, LOST, Tables, ZERO};

/// Consecutive bytes of a disk that are all stored or all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The number of bytes.
    pub len: u64,
    /// Set if nothing is stored, and the bytes are zeros.
    pub is_zero: bool,
}

/// A block that cannot be read, and the stored block to blame, if there is one.
pub(super) struct DamagedBlock {
    pub(super) error: Error,
    pub(super) stored: Option<Seq>,
}

impl Volume {
    /// Fills `buffer` with the bytes of the disk from `offset` on.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Invalid`] behind the end of the disk, and with [`Kind::Corrupt`] if a
    /// stored block is damaged. The contents of `buffer` are then undefined.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.check_range(offset, buffer.len() as u64)?;
        let read = {
            let state = self.read_state();
            self.read_pieces(&state.tables, offset, buffer)
        };
        read.map_err(|DamagedBlock { error, stored }| {
            if let Some(stored) = stored.filter(|_| error.kind() == Kind::Corrupt) {
                self.state_mut().tables.distrust(stored);
            }
            error
        })
    }

    fn read_pieces(
        &self,
        tables: &Tables,
        offset: u64,
        buffer: &mut [u8],
    ) -> std::result::Result<(), DamagedBlock> {
        let mut scratch = Vec::new();
        let mut rest = buffer;
        for piece in pieces(offset, rest.len() as u64, self.block_size()) {
            let (part, behind) = rest.split_at_mut(piece.range.len());
            if part.len() == self.block_size() {
                self.read_block(tables, piece.block, part)?;
            } else {
                scratch.resize(self.block_size(), 0);
                self.read_block(tables, piece.block, &mut scratch)?;
                part.copy_from_slice(&scratch[piece.range]);
            }
            rest = behind;
        }
        Ok(())
    }

    /// Reads a block of the disk.
    pub(super) fn read_block(
        &self,
        tables: &Tables,
        block: u64,
        buffer: &mut [u8],
    ) -> std::result::Result<(), DamagedBlock> {
        let seq = tables.map.get(block);
        if seq == ZERO {
            buffer.fill(0);
            return Ok(());
        }
        if seq == LOST {
            let problem = "the record of its last change is damaged";
            let error = Error::new(Kind::Corrupt, format!("block {block}"), problem);
            return Err(DamagedBlock { error, stored: None });
        }
        self.read_stored(tables, seq, buffer)
    }

    /// Reads a stored block.
    pub(super) fn read_stored(
        &self,
        tables: &Tables,
        seq: Seq,
        buffer: &mut [u8],
    ) -> std::result::Result<(), DamagedBlock> {
        let Some(stored) = tables.stored.get(&seq) else {
            let error = Error::new(Kind::Corrupt, format!("stored block {seq}"), "is gone");
            return Err(DamagedBlock { error, stored: None });
        };
        let reference = match stored.form {
            Form::Burst { reference, .. } => Some(reference),
            Form::Full { .. } => None,
        };
        let found = reference.and_then(|reference| tables.stored.get(&reference));
        self.core.read(stored, found, buffer).map_err(|Unreadable { error, is_reference }| {
            let blamed = if is_reference { reference } else { Some(seq) };
            DamagedBlock { error, stored: blamed }
        })
    }

    /// Returns the extents of `len` bytes from `offset` on, in order, at most `count_max` of them. The
    /// last ones may be missing.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Invalid`] behind the end of the disk.
    pub fn extents(&self, offset: u64, len: u64, count_max: usize) -> Result<Vec<Extent>> {
        self.check_range(offset, len)?;
        let size = self.block_size() as u64;
        let end = offset + len;
        let state = self.read_state();
        let map = &state.tables.map;
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = offset;
        while at < end && extents.len() < count_max {
            let block = at / size;
            let next_used = map.next_used(block).map_or(u64::MAX, |(used, _)| used);
            let is_zero = next_used > block;
            let mut until = next_used;
            if !is_zero {
                until = block + 1;
                while until * size < end && map.get(until) != ZERO {
                    until += 1;
                }
            }
            let until = until.saturating_mul(size).min(end);
            extents.push(Extent { len: until - at, is_zero });
            at = until;
        }
        Ok(extents)
    }

    /// Checks that a range is within the disk.
    pub(super) fn check_range(&self, offset: u64, len: u64) -> Result<()> {
        let size = self.size();
        if offset.checked_add(len).is_some_and(|end| end <= size) {
            return Ok(());
        }
        let problem = format!("ends behind the disk, which has {size} bytes");
        Err(Error::new(Kind::Invalid, format!("{len} bytes at {offset}"), problem))
    }
}
