//! Reads.

use std::ops::Range;
use std::sync::Arc;

use super::pieces::{pieces, whole_blocks};
use super::{Disk, Volume};
use crate::error::{Error, Kind, Result};
use crate::format::position::Seq;
use crate::format::span::LayerId;
use crate::reader::{FullBlock, Unreadable};
use crate::tables::{Form, LOST, Stored, Tables, ZERO};

/// Consecutive bytes of a disk that are all stored or all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The number of bytes.
    pub len: u64,
    /// Set if nothing is stored, and the bytes are zeros.
    pub is_zero: bool,
}

/// The maximum number of blocks that are looked up for the extents of a range.
const SCANNED_MAX: usize = 64 * 1024;

/// A block that cannot be read, and the stored block to blame, if there is one.
pub(super) struct DamagedBlock {
    pub(super) error: Error,
    pub(super) stored: Option<Seq>,
}

impl From<Error> for DamagedBlock {
    fn from(error: Error) -> DamagedBlock {
        DamagedBlock { error, stored: None }
    }
}

impl Disk {
    /// Fills `buffer` with the bytes of the disk from `offset` on.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Invalid`] behind the end of the disk, and with [`Kind::Corrupt`] if a
    /// stored block is damaged. The contents of `buffer` are then undefined.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let read = {
            let state = self.volume().read_state();
            let view = self.view(&state)?;
            view.check_range(offset, buffer.len() as u64)?;
            let read = self.volume().read_pieces(&state.tables, view.layer, offset, buffer);
            if let Some(partial) = &state.partial {
                partial.overlay(view.layer, offset, buffer);
            }
            read
        };
        read.map_err(|DamagedBlock { error, stored }| {
            if let Some(stored) = stored.filter(|_| error.kind() == Kind::Corrupt) {
                self.volume().state_mut().tables.distrust(stored);
            }
            error
        })
    }

    /// Returns the extents of `len` bytes from `offset` on, in order, at most `count_max` of them. The
    /// last ones may be missing.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Invalid`] behind the end of the disk, and if the tables cannot be read.
    pub fn extents(&self, offset: u64, len: u64, count_max: usize) -> Result<Vec<Extent>> {
        self.volume().end_partial_if_any()?;
        let state = self.volume().read_state();
        let view = self.view(&state)?;
        view.check_range(offset, len)?;
        let size = self.block_size() as u64;
        let end = offset + len;
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = offset;
        let mut push = |until: u64, is_zero: bool| {
            let until = until.min(end);
            if until > at {
                match extents.last_mut().filter(|last| last.is_zero == is_zero) {
                    Some(last) => last.len += until - at,
                    None => extents.push(Extent { len: until - at, is_zero }),
                }
                at = until;
            }
            extents.len() <= count_max
        };
        let used = state.tables.used_blocks(view.layer, offset / size..end.div_ceil(size));
        let mut is_cut = false;
        for (count, used) in used.enumerate() {
            let (block, _) = used?;
            is_cut = !push(block * size, true) || !push((block + 1) * size, false);
            is_cut |= count + 1 == SCANNED_MAX;
            if is_cut {
                break;
            }
        }
        if !is_cut {
            push(end, true);
        }
        extents.truncate(count_max);
        Ok(extents)
    }
}

impl Volume {
    fn read_pieces(
        &self,
        tables: &Tables,
        layer: LayerId,
        offset: u64,
        buffer: &mut [u8],
    ) -> std::result::Result<(), DamagedBlock> {
        let whole = whole_blocks(offset, buffer.len() as u64, self.block_size());
        let mut rest = buffer;
        for piece in pieces(offset, rest.len() as u64, self.block_size()) {
            if whole.contains(&piece.block) {
                if piece.block == whole.start {
                    let count = usize::try_from(whole.end - whole.start).expect("in memory");
                    let (blocks, behind) = rest.split_at_mut(count * self.block_size());
                    rest = behind;
                    self.read_blocks(tables, layer, whole.start, blocks)?;
                }
                continue;
            }
            let (part, behind) = rest.split_at_mut(piece.range.len());
            match self.whole_block(tables, layer, piece.block)? {
                Some(block) => part.copy_from_slice(&block[piece.range]),
                None => part.fill(0),
            }
            rest = behind;
        }
        Ok(())
    }

    /// Reads whole blocks as they are seen through a layer. Blocks that lie behind each other in the log
    /// are read at once.
    fn read_blocks(
        &self,
        tables: &Tables,
        layer: LayerId,
        first: u64,
        buffer: &mut [u8],
    ) -> std::result::Result<(), DamagedBlock> {
        let size = self.block_size();
        let count = (buffer.len() / size) as u64;
        if count == 1 {
            return self.read_block(tables, layer, first, buffer);
        }
        let seqs = tables.lookup_range(layer, first..first + count)?;
        if let Some((block, _)) = (first..).zip(&seqs).find(|(_, seq)| **seq == LOST) {
            return Err(lost(block));
        }
        let used: Vec<Seq> = seqs.iter().copied().filter(|seq| *seq != ZERO).collect();
        let mut found = tables.stored_blocks(&used)?.into_iter();
        let mut fulls = Vec::with_capacity(used.len());
        for (seq, buffer) in seqs.into_iter().zip(buffer.chunks_exact_mut(size)) {
            if seq == ZERO {
                buffer.fill(0);
                continue;
            }
            let stored = found.next().flatten().ok_or_else(|| gone(seq))?;
            match stored.form {
                Form::Full { .. } => fulls.push(FullBlock { seq, stored, buffer }),
                Form::Burst { .. } | Form::Delta { .. } => {
                    self.read_with_references(tables, seq, &stored, buffer)?;
                }
            }
        }
        self.core
            .read_full_blocks(&mut fulls)
            .map_err(|(seq, error)| DamagedBlock { error, stored: Some(seq) })
    }

    /// Reads a block as it is seen through a layer.
    pub(super) fn read_block(
        &self,
        tables: &Tables,
        layer: LayerId,
        block: u64,
        buffer: &mut [u8],
    ) -> std::result::Result<(), DamagedBlock> {
        match stored_at(tables, layer, block)? {
            Some(seq) => self.read_stored(tables, seq, buffer),
            None => {
                buffer.fill(0);
                Ok(())
            }
        }
    }

    /// Returns a block of which a part is wanted, or `None` for zeros. Its other parts are often wanted
    /// next.
    pub(super) fn whole_block(
        &self,
        tables: &Tables,
        layer: LayerId,
        block: u64,
    ) -> std::result::Result<Option<Arc<[u8]>>, DamagedBlock> {
        let Some(seq) = stored_at(tables, layer, block)? else { return Ok(None) };
        let read = || {
            let mut bytes = vec![0; self.block_size()];
            self.read_stored(tables, seq, &mut bytes).map(|()| bytes)
        };
        self.core.blocks.get_or_read(seq, read).map(Some)
    }

    /// Reads a stored block.
    pub(super) fn read_stored(
        &self,
        tables: &Tables,
        seq: Seq,
        buffer: &mut [u8],
    ) -> std::result::Result<(), DamagedBlock> {
        let stored = tables.stored(seq)?.ok_or_else(|| gone(seq))?;
        self.read_with_references(tables, seq, &stored, buffer)
    }

    /// Reads a stored block, and those that it needs.
    fn read_with_references(
        &self,
        tables: &Tables,
        seq: Seq,
        stored: &Stored,
        buffer: &mut [u8],
    ) -> std::result::Result<(), DamagedBlock> {
        let references = references(tables, stored)?;
        self.core.read(stored, &references, buffer).map_err(|Unreadable { error, reference }| {
            let blamed = reference.map_or(seq, |index| stored.references()[index]);
            DamagedBlock { error, stored: Some(blamed) }
        })
    }

    /// Returns the ranges of bytes of `to` that may differ from `from`, in order: disks by their names,
    /// or snapshots by `DISK@SNAPSHOT`. Returns `None` if the one does not come from the other, so that
    /// anything may differ.
    ///
    /// # Errors
    ///
    /// Fails if there is no such disk or snapshot, and if the tables cannot be read.
    pub fn changed(self: &Arc<Self>, from: &str, to: &str) -> Result<Option<Vec<Range<u64>>>> {
        let (from, to) = (Disk::open(self, from)?, Disk::open(self, to)?);
        self.end_partial_if_any()?;
        let state = self.read_state();
        let (old, new) = (from.view(&state)?, to.view(&state)?);
        let tables = &state.tables;
        let chain: Vec<LayerId> = tables.catalog.chain(new.layer).collect();
        let Some(count) = chain.iter().position(|layer| *layer == old.layer) else {
            return Ok(None);
        };
        let size = self.block_size() as u64;
        let end = new.size.max(old.size);
        let mut blocks: Vec<Range<u64>> = Vec::new();
        for layer in &chain[..count] {
            for entry in tables.own_blocks(*layer, 0..end / size) {
                let (block, _) = entry?;
                match blocks.last_mut().filter(|last| last.end == block) {
                    Some(last) => last.end += 1,
                    None => blocks.push(block..block + 1),
                }
            }
        }
        if new.size != old.size {
            blocks.push(new.size.min(old.size) / size..end / size);
        }
        blocks.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::new();
        for range in blocks {
            match merged.last_mut().filter(|last| range.start <= last.end) {
                Some(last) => last.end = last.end.max(range.end),
                None => merged.push(range),
            }
        }
        Ok(Some(merged.into_iter().map(|range| range.start * size..range.end * size).collect()))
    }
}

/// Returns the stored block of a block as it is seen through a layer, or `None` for zeros.
pub(super) fn stored_at(
    tables: &Tables,
    layer: LayerId,
    block: u64,
) -> std::result::Result<Option<Seq>, DamagedBlock> {
    match tables.lookup(layer, block)? {
        ZERO => Ok(None),
        LOST => Err(lost(block)),
        seq => Ok(Some(seq)),
    }
}

/// Returns the stored blocks that a burst or a delta needs.
pub(super) fn references(tables: &Tables, stored: &Stored) -> Result<Vec<Stored>> {
    let references = stored.references().iter();
    references.map(|seq| tables.stored(*seq)?.ok_or_else(|| gone(*seq))).collect()
}

fn gone(seq: Seq) -> Error {
    Error::new(Kind::Corrupt, format!("stored block {seq}"), "is gone")
}

/// Returns the error of a block whose content is not known.
fn lost(block: u64) -> DamagedBlock {
    let problem = "the record of its last change is damaged";
    Error::new(Kind::Corrupt, format!("block {block}"), problem).into()
}
