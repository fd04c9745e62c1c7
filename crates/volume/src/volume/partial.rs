//! The block that is being written in parts.
//!
//! A client that writes in order, in requests that are smaller than a block, would otherwise store each
//! block many times. The block stays in memory until its last byte is written, a client writes another
//! one, or a flush comes, so that the log has the writes in their order.

use std::sync::RwLockWriteGuard;

use super::read::stored_at;
use super::{State, Volume};
use crate::error::Result;
use crate::format::span::{BlockId, LayerId};
use crate::tables::{Tables, ZERO};

/// A block that is written in parts: what the next record of it will have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Partial {
    pub(super) id: BlockId,
    pub(super) bytes: Vec<u8>,
    /// The byte of the block at which the writes began.
    pub(super) start: usize,
}

impl Partial {
    /// Copies the part of the block that is in a range of a layer to the place of the range.
    pub(super) fn overlay(&self, layer: LayerId, offset: u64, buffer: &mut [u8]) {
        let size = self.bytes.len() as u64;
        let start = self.id.block * size;
        let (from, to) = (start.max(offset), (start + size).min(offset + buffer.len() as u64));
        if layer != self.id.layer || from >= to {
            return;
        }
        let index = |at: u64| usize::try_from(at).expect("within a buffer");
        let source = &self.bytes[index(from - start)..index(to - start)];
        buffer[index(from - offset)..index(to - offset)].copy_from_slice(source);
    }
}

impl Volume {
    /// Returns the state for a change by a client, which comes behind all its writes.
    ///
    /// # Errors
    ///
    /// Fails if the volume cannot be written.
    pub(super) fn client_state(&self) -> Result<RwLockWriteGuard<'_, State>> {
        let mut state = self.write_state()?;
        self.end_partial(&mut state, false)?;
        Ok(state)
    }

    /// Writes the block that is being written in parts, if there is one.
    ///
    /// # Errors
    ///
    /// Fails if the volume cannot be written. The block stays in memory then.
    pub(super) fn end_partial_if_any(&self) -> Result<()> {
        if self.read_state().partial.is_none() {
            return Ok(());
        }
        self.client_state().map(drop)
    }

    /// Returns a block of which a part is to be written, from the byte `start` on.
    ///
    /// # Errors
    ///
    /// Fails if the block is damaged or cannot be read.
    pub(super) fn begin_partial(
        &self,
        tables: &Tables,
        id: BlockId,
        start: usize,
    ) -> Result<Partial> {
        let mut bytes = vec![0; self.block_size()];
        let stored = stored_at(tables, id.layer, id.block).map_err(|damaged| damaged.error)?;
        if let Some(seq) = stored {
            match self.core.blocks.get(&seq) {
                Some(cached) => bytes.copy_from_slice(&cached),
                None => {
                    self.read_stored(tables, seq, &mut bytes).map_err(|damaged| damaged.error)?
                }
            }
        }
        Ok(Partial { id, bytes, start })
    }

    /// Writes the block that is being written in parts, if there is one. `is_full` is set if its last
    /// byte was written.
    ///
    /// # Errors
    ///
    /// Fails if the volume cannot be written. The block stays in memory then.
    pub(super) fn end_partial(&self, state: &mut State, is_full: bool) -> Result<()> {
        let Some(partial) = state.partial.take() else { return Ok(()) };
        let Partial { id, bytes, start } = &partial;
        let prepared = self.prepare_block(bytes);
        if let Err(error) = self.write_block(state, *id, bytes, &prepared) {
            state.partial = Some(partial);
            return Err(error);
        }
        if is_full && *start == 0 {
            return Ok(());
        }
        // Another part of the block is often written or read next.
        let seq = state.tables.lookup(id.layer, id.block)?;
        if seq != ZERO {
            self.core.blocks.put(seq, partial.bytes.into());
        }
        Ok(())
    }
}
