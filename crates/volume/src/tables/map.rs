//! The stored block of each block of each layer.

use std::iter::Peekable;

use super::{Tables, keys};
use crate::error::Result;
use crate::format::cursor::{Cursor, put_varint};
use crate::format::position::Seq;
use crate::format::span::{BlockId, LayerId, Span};
use crate::rules;
use crate::tree::{Entry, Merge};

/// The value of a block that is zeros.
pub(crate) const ZERO: Seq = 0;
/// The value of a block whose record was damaged: its content is not known.
pub(crate) const LOST: Seq = Seq::MAX;

/// The maximum number of blocks that are collected at a time.
const BATCH: usize = 1024;

impl Tables {
    /// Returns the stored block of a block as it is seen through a layer.
    ///
    /// # Errors
    ///
    /// Fails if the tables cannot be read.
    pub(crate) fn lookup(&self, layer: LayerId, block: u64) -> Result<Seq> {
        for layer in self.catalog.chain(layer) {
            if let Some(seq) = self.own(BlockId { layer, block })? {
                return Ok(seq);
            }
        }
        Ok(ZERO)
    }

    /// Returns the value that a layer itself has for a block.
    pub(super) fn own(&self, id: BlockId) -> Result<Option<Seq>> {
        self.get(&keys::map(id), decode)
    }

    /// Returns the blocks of a layer itself, in order, with their values.
    pub(crate) fn own_blocks(&self, layer: LayerId, blocks: std::ops::Range<u64>) -> OwnBlocks<'_> {
        let key = |block| keys::map(BlockId { layer, block });
        OwnBlocks(self.tree.range(key(blocks.start), key(blocks.end)))
    }

    /// Returns the blocks that are not zeros as they are seen through a layer, in order, with their
    /// values.
    pub(crate) fn used_blocks(
        &self,
        layer: LayerId,
        blocks: std::ops::Range<u64>,
    ) -> UsedBlocks<'_> {
        let chain = self.catalog.chain(layer);
        UsedBlocks(chain.map(|layer| self.own_blocks(layer, blocks.clone()).peekable()).collect())
    }

    /// Returns the first block of a range that is not zeros as it is seen through a layer.
    ///
    /// # Errors
    ///
    /// Fails if the tables cannot be read.
    pub(crate) fn next_used(
        &self,
        layer: LayerId,
        blocks: std::ops::Range<u64>,
    ) -> Result<Option<u64>> {
        self.used_blocks(layer, blocks).next().transpose().map(|it| it.map(|(block, _)| block))
    }

    /// Gives a block of a layer a value, and releases the one that it had.
    pub(super) fn set(&mut self, id: BlockId, seq: Seq) -> Result<()> {
        let before = self.own(id)?;
        self.put(id, Some(seq), before);
        self.release(before.unwrap_or(ZERO))
    }

    /// Gives those blocks of a span a value that are not zeros, and returns their number.
    pub(super) fn set_used(&mut self, span: Span, seq: Seq) -> Result<u64> {
        let mut changed_count = 0;
        let mut from = span.first;
        loop {
            let used = self.used_blocks(span.layer, from..span.end()).take(BATCH);
            let used: Vec<(u64, Seq)> = used.collect::<Result<_>>()?;
            let Some((last, _)) = used.last() else { return Ok(changed_count) };
            from = last + 1;
            changed_count += used.len() as u64;
            for (block, _) in used {
                self.set(BlockId { layer: span.layer, block }, seq)?;
            }
        }
    }

    /// Moves the blocks of a span to the layer above that has them not, and releases the others.
    pub(super) fn fold(&mut self, span: Span, into: Option<LayerId>) -> Result<()> {
        loop {
            let own = self.own_blocks(span.layer, span.first..span.end()).take(BATCH);
            let own: Vec<(u64, Seq)> = own.collect::<Result<_>>()?;
            if own.is_empty() {
                return Ok(());
            }
            for (block, seq) in own {
                let id = BlockId { layer: span.layer, block };
                self.put(id, None, Some(seq));
                let upper = into.map(|layer| BlockId { layer, block });
                let is_moved = match upper {
                    Some(upper) => {
                        rules::must_move_folded()
                            && (self.own(upper)?.is_none() || !rules::must_keep_upper())
                    }
                    None => false,
                };
                match upper.filter(|_| is_moved) {
                    Some(upper) => {
                        let before = self.own(upper)?;
                        self.put(upper, Some(seq), before);
                        self.release(before.unwrap_or(ZERO))?;
                    }
                    None => self.release(seq)?,
                }
            }
        }
    }

    /// Sets or removes the value of a block of a layer, and counts.
    fn put(&mut self, id: BlockId, value: Option<Seq>, before: Option<Seq>) {
        let key = keys::map(id);
        // Zeros hide what is below, and are not needed where nothing is.
        let hides = self.catalog.parent(id.layer).is_some() && rules::must_keep_zeros();
        let is_needed = |seq: &Seq| *seq != ZERO || hides;
        match value.filter(is_needed) {
            Some(seq) => {
                let mut bytes = Vec::with_capacity(10);
                put_varint(&mut bytes, seq);
                self.tree.put(key, &bytes);
            }
            None if before.is_some() => self.tree.delete(key),
            None => {}
        }
        let is_used = |value: Option<Seq>| u64::from(value.unwrap_or(ZERO) != ZERO);
        let is_lost = |value: Option<Seq>| u64::from(value == Some(LOST));
        if let Some(layer) = self.catalog.layers.get(&id.layer) {
            let used_count = (layer.used_count + is_used(value)).saturating_sub(is_used(before));
            self.set_used_count(id.layer, used_count);
        }
        let lost_count = &mut self.totals.lost_count;
        *lost_count = (*lost_count + is_lost(value)).saturating_sub(is_lost(before));
    }
}

pub(super) fn decode(value: &[u8]) -> Option<Seq> {
    let mut rest = Cursor(value);
    rest.varint().filter(|_| rest.0.is_empty())
}

/// The blocks of a layer itself, in order, with their values.
pub(crate) struct OwnBlocks<'a>(Merge<'a>);

impl Iterator for OwnBlocks<'_> {
    type Item = Result<(u64, Seq)>;

    fn next(&mut self) -> Option<Self::Item> {
        let decoded = |(key, value): Entry<'_>| {
            let seq = value.and_then(|value| decode(&value));
            let block = keys::block_of(&key).map(|id| id.block);
            block.zip(seq).ok_or_else(Tables::damaged)
        };
        self.0.next().map(|entry| entry.and_then(decoded))
    }
}

/// The blocks that are not zeros as they are seen through a layer, in order, with their values.
pub(crate) struct UsedBlocks<'a>(Vec<Peekable<OwnBlocks<'a>>>);

impl Iterator for UsedBlocks<'_> {
    type Item = Result<(u64, Seq)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut least: Option<u64> = None;
            for layer in &mut self.0 {
                match layer.peek() {
                    Some(Ok((block, _))) => least = Some(least.map_or(*block, |it| it.min(*block))),
                    Some(Err(_)) => return layer.next(),
                    None => {}
                }
            }
            let least = least?;
            let mut found = None;
            // The uppermost layer that has the block decides.
            for layer in &mut self.0 {
                if let Some(Ok((block, seq))) = layer.peek()
                    && *block == least
                {
                    found = found.or(Some(*seq));
                    layer.next();
                }
            }
            if let Some(seq) = found.filter(|seq| *seq != ZERO) {
                return Some(Ok((least, seq)));
            }
        }
    }
}
