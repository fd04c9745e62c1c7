//! Writes.

use std::ops::Range;

use super::decide::{Decision, Written};
use super::partial::Partial;
use super::pieces::{pieces, whole_blocks};
use super::prepare::PreparedBlock;
use super::{Disk, State, Volume};
use crate::error::{Kind, Result};
use crate::format::record::Body;
use crate::format::span::{BlockId, LayerId, Span};
use crate::tables::Known;

impl Disk {
    /// Writes `bytes` to the disk from `offset` on. After an error, any number of the blocks may have
    /// been written.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Invalid`](crate::Kind::Invalid) behind the end of the disk, with
    /// [`Kind::Full`](crate::Kind::Full) if the storage is full, with
    /// [`Kind::Corrupt`](crate::Kind::Corrupt) if the rest of a block that is written in part is
    /// damaged, with [`Kind::ReadOnly`](crate::Kind::ReadOnly) for a snapshot, and if the volume
    /// cannot be written.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check_writable()?;
        let volume = self.volume();
        volume.make_room(bytes.len() as u64)?;
        let prepared = volume.prepare_blocks(offset, bytes);
        {
            let mut state = volume.write_state()?;
            let view = self.view(&state)?;
            view.check_range(offset, bytes.len() as u64)?;
            let whole = whole_blocks(offset, bytes.len() as u64, self.block_size());
            let mut rest = bytes;
            for piece in pieces(offset, bytes.len() as u64, self.block_size()) {
                let id = BlockId { layer: view.layer, block: piece.block };
                if !whole.contains(&piece.block) {
                    let (part, behind) = rest.split_at(piece.range.len());
                    rest = behind;
                    volume.write_part(&mut state, id, piece.range, part)?;
                } else if piece.block == whole.start {
                    let len = prepared.len() * self.block_size();
                    let (blocks, behind) = rest.split_at(len);
                    rest = behind;
                    volume.write_blocks(&mut state, id, blocks, &prepared)?;
                }
            }
        }
        volume.after_write()
    }

    /// Frees all blocks that are in the range as a whole: they read as zeros. Bytes of other blocks
    /// do not change.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Disk::write`] of whole blocks.
    pub fn trim(&self, offset: u64, len: u64) -> Result<()> {
        self.zero_whole(offset, len, whole_blocks(offset, len, self.block_size()))?;
        self.volume().after_write()
    }

    /// Makes all bytes of the range zeros, and frees the blocks that are zeros as a whole.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Disk::write`].
    pub fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.view(&self.volume().read_state())?.check_range(offset, len)?;
        let blocks = whole_blocks(offset, len, self.block_size());
        let size = self.block_size() as u64;
        let (start, end) = (blocks.start * size, blocks.end * size);
        if blocks.is_empty() {
            return self
                .write(offset, &vec![0; usize::try_from(len).expect("less than two blocks")]);
        }
        self.zero_whole(offset, len, blocks)?;
        let zeros = vec![0; self.block_size()];
        let part = |len: u64| &zeros[..usize::try_from(len).expect("less than a block")];
        self.write(offset, part(start - offset))?;
        self.write(end, part(offset + len - end))
    }

    /// Makes the whole blocks of a range zeros.
    fn zero_whole(&self, offset: u64, len: u64, blocks: Range<u64>) -> Result<()> {
        self.check_writable()?;
        self.volume().with_spare_room(|| self.append_zeros(offset, len, blocks.clone()))
    }

    fn append_zeros(&self, offset: u64, len: u64, blocks: Range<u64>) -> Result<()> {
        let mut state = self.volume().write_state()?;
        let view = self.view(&state)?;
        view.check_range(offset, len)?;
        let is_freed = |partial: &Partial| {
            partial.id.layer == view.layer && blocks.contains(&partial.id.block)
        };
        let frees_partial = state.partial.as_ref().is_some_and(is_freed);
        if state.partial.is_some() && !frees_partial {
            // In a full storage, what is freed may be what the block needs.
            let free = self.volume().core.folder.free_bytes();
            if free.is_none_or(|free| free > 4 * self.block_size() as u64) {
                match self.volume().end_partial(&mut state, false) {
                    Err(error) if error.kind() == Kind::Full => {}
                    ended => ended?,
                }
            }
        }
        self.volume().zero_blocks(&mut state, view.layer, blocks)?;
        if frees_partial {
            state.partial = None;
        }
        Ok(())
    }
}

impl Volume {
    /// Writes a part of a block.
    fn write_part(
        &self,
        state: &mut State,
        id: BlockId,
        range: Range<usize>,
        part: &[u8],
    ) -> Result<()> {
        if state.partial.as_ref().is_some_and(|partial| partial.id != id) {
            self.end_partial(state, false)?;
        }
        let mut partial = match state.partial.take() {
            Some(partial) => partial,
            None => self.begin_partial(&state.tables, id, range.start)?,
        };
        let is_end = range.end == self.block_size();
        partial.bytes[range].copy_from_slice(part);
        state.partial = Some(partial);
        if is_end { self.end_partial(state, true) } else { Ok(()) }
    }

    /// Writes whole blocks from the first one on.
    fn write_blocks(
        &self,
        state: &mut State,
        first: BlockId,
        bytes: &[u8],
        prepared: &[PreparedBlock],
    ) -> Result<()> {
        // A power cut that takes one of the blocks behind the first must not take an older write as well.
        let replaces_partial = state.partial.as_ref().is_some_and(|partial| partial.id == first);
        if !replaces_partial {
            self.end_partial(state, false)?;
        }
        let blocks = bytes.chunks_exact(self.block_size()).zip(prepared);
        state.batch(&self.core, |state| {
            (first.block..).zip(blocks).try_for_each(|(block, (bytes, prepared))| {
                self.write_block(state, BlockId { block, ..first }, bytes, prepared)
            })
        })?;
        if replaces_partial {
            state.partial = None;
        }
        Ok(())
    }

    /// Writes a block.
    pub(super) fn write_block(
        &self,
        state: &mut State,
        id: BlockId,
        bytes: &[u8],
        &PreparedBlock { fingerprint, marks }: &PreparedBlock,
    ) -> Result<()> {
        let Some(fingerprint) = fingerprint else {
            return self.zero_blocks(state, id.layer, id.block..id.block + 1);
        };
        let decision = self.decide(state, Written { id, bytes, fingerprint, marks })?;
        match decision {
            Some(Decision { body, content, absent }) => {
                let known = Known { absent, ..Known::default() };
                let content = content.as_deref().unwrap_or_default();
                state.append_with(&self.core, body, content, &known)
            }
            None => Ok(()),
        }
    }

    /// Makes blocks of the disk with this uppermost layer zeros.
    pub(super) fn zero_blocks(
        &self,
        state: &mut State,
        layer: LayerId,
        blocks: Range<u64>,
    ) -> Result<()> {
        let mut first = blocks.start;
        while first < blocks.end {
            // Nothing is written for blocks that are zeros.
            let used = state.tables.next_used(layer, first..blocks.end)?;
            let Some(used) = used else { break };
            let count = u32::try_from(blocks.end - used).unwrap_or(u32::MAX);
            state.append(&self.core, Body::Zero(Span { layer, first: used, count }), &[])?;
            first = used + u64::from(count);
        }
        Ok(())
    }
}
