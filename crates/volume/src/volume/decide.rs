//! The decision how a written block is stored: `docs/volume-format.md` has the order of lookups.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

use cutpoint_delta::burst::Side;
use cutpoint_delta::{common_edges, super_features};

use super::Volume;
use crate::codec::delta::Delta;
use crate::error::Result;
use crate::format::edge::{BASE_COUNT_MAX, Bases, EdgeKey, Features};
use crate::format::patch::{Patch, SECTOR};
use crate::format::position::Seq;
use crate::format::record::{Body, Search, UNIT};
use crate::format::span::BlockId;
use crate::keys::Fingerprint;
use crate::mode::{Burst, Mode};
use crate::reader::Unreadable;
use crate::rules;
use crate::tables::{Form, Stored, Tables};

/// A written block that is not all zeros.
#[derive(Clone, Copy)]
pub(super) struct Written<'a> {
    pub(super) id: BlockId,
    pub(super) bytes: &'a [u8],
    pub(super) fingerprint: Fingerprint,
}

/// The record of a written block, and its content if it has one: the block, or the new bytes of a
/// burst, padded.
pub(super) struct Decision<'a> {
    pub(super) body: Body,
    pub(super) content: Option<Cow<'a, [u8]>>,
}

/// A reference block, and the burst on it.
struct Reference {
    side: Side,
    reference: Seq,
    patch: Patch,
}

impl Volume {
    /// Decides how a block is stored. Returns `None` if the block has this content already.
    ///
    /// # Errors
    ///
    /// Fails if the tables cannot be read.
    pub(super) fn decide<'a>(
        &self,
        tables: &Tables,
        written: Written<'a>,
    ) -> Result<Option<Decision<'a>>> {
        let Written { id, bytes, fingerprint } = written;
        let settings = tables.catalog.settings;
        let mode = settings.mode;
        let mut search = Search::default();
        if mode.is_deduplicating()
            && let Some(target) = tables.find_equal(&fingerprint)?
        {
            if !settings.verifies_duplicates || self.is_stored_as(tables, target, bytes) {
                let body = Body::Duplicate { id, target };
                let is_same = tables.lookup(id.layer, id.block)? == target;
                return Ok((!is_same).then_some(Decision { body, content: None }));
            }
            search.is_cancelled = true;
        }
        if mode == Mode::Delta {
            return self.decide_delta(tables, written, search).map(Some);
        }
        let mut keys = [None; 2];
        if let Some(burst) = mode.burst() {
            keys = self.edge_keys(burst, bytes);
            let found = self.find_reference(tables, burst, &keys, bytes, &mut search)?;
            if let Some(Reference { side, reference, patch }) = found {
                let body = Body::Burst { id, fingerprint, reference, side, patch, search };
                let content = Some(patch.content(bytes).into());
                return Ok(Some(Decision { body, content }));
            }
        }
        if search.exhausted != [false; 2] && !rules::must_store_exhausted() {
            return Ok(None);
        }
        let is_indexed = mode.is_deduplicating();
        let body = Body::Full { id, fingerprint, is_indexed, keys, features: None, search };
        Ok(Some(Decision { body, content: Some(bytes.into()) }))
    }

    /// Decides how a block is stored that equals no other one in mode `delta`.
    fn decide_delta<'a>(
        &self,
        tables: &Tables,
        written: Written<'a>,
        search: Search,
    ) -> Result<Decision<'a>> {
        let Written { id, bytes, fingerprint } = written;
        let features = super_features(bytes);
        let keys = self.edge_keys(Burst::default(), bytes);
        let candidates = self.similar(tables, id, &keys, features.as_ref())?;
        let (seqs, blocks): (Vec<Seq>, Vec<Arc<[u8]>>) = candidates.into_iter().unzip();
        let mut encoder = self.encoder.lock().unwrap_or_else(PoisonError::into_inner);
        let delta = encoder.encode(bytes, &blocks);
        // The header is longer than that of a block without features.
        let delta = delta.filter(|it| it.content.len() + UNIT <= bytes.len() - SECTOR);
        if let Some(Delta { used, content }) = delta {
            let used: Vec<Seq> = used.into_iter().map(|index| seqs[index]).collect();
            if let Some(bases) = Bases::new(&used) {
                let body = Body::Delta { id, fingerprint, bases };
                return Ok(Decision { body, content: Some(content.into()) });
            }
        }
        let body = Body::Full { id, fingerprint, is_indexed: true, keys, features, search };
        Ok(Decision { body, content: Some(bytes.into()) })
    }

    /// Returns `true` if a stored block can be read and equals `bytes`.
    fn is_stored_as(&self, tables: &Tables, seq: Seq, bytes: &[u8]) -> bool {
        let mut block = vec![0; self.block_size()];
        self.read_stored(tables, seq, &mut block).is_ok() && block == bytes
    }

    /// Returns full blocks that probably resemble a written one: the previous content of the block, if a
    /// snapshot keeps it, and those that have the head, the tail or a feature in common.
    fn similar(
        &self,
        tables: &Tables,
        id: BlockId,
        keys: &[Option<EdgeKey>; 2],
        features: Option<&Features>,
    ) -> Result<Vec<(Seq, Arc<[u8]>)>> {
        let mut seqs = Vec::with_capacity(BASE_COUNT_MAX);
        if let Some(below) = tables.catalog.parent(id.layer)
            && tables.lookup(id.layer, id.block)? == tables.lookup(below, id.block)?
        {
            seqs.push(tables.lookup(below, id.block)?);
        }
        for (side, key) in Side::ALL.into_iter().zip(keys) {
            let Some(key) = key else { continue };
            seqs.extend(tables.edge(side, key)?.map(|entry| entry.reference));
        }
        for (index, feature) in features.into_iter().flatten().enumerate() {
            seqs.extend(tables.feature(index, *feature)?);
        }
        let mut found: Vec<(Seq, Arc<[u8]>)> = Vec::with_capacity(BASE_COUNT_MAX);
        for seq in seqs {
            let Some(stored) = tables.stored(seq)? else { continue };
            // Of a burst or a delta, its reference blocks resemble the block as well.
            let fulls = if stored.references().is_empty() {
                vec![seq]
            } else {
                stored.references().to_vec()
            };
            for full in fulls {
                if found.len() >= BASE_COUNT_MAX || found.iter().any(|(seq, _)| *seq == full) {
                    continue;
                }
                let Some(stored) = tables.stored(full)?.filter(|_| tables.trusts(full)) else {
                    continue;
                };
                if let Ok(block) = self.reference_block(full, &stored) {
                    found.push((full, block));
                }
            }
        }
        Ok(found)
    }

    /// Reads a full block for a difference.
    fn reference_block(
        &self,
        seq: Seq,
        stored: &Stored,
    ) -> std::result::Result<Arc<[u8]>, Unreadable> {
        self.core.blocks.get_or_read(seq, || {
            let mut block = vec![0; self.block_size()];
            self.core.read(stored, &[], &mut block).map(|()| block)
        })
    }

    /// Returns the keys of head and tail of a block.
    fn edge_keys(&self, burst: Burst, bytes: &[u8]) -> [Option<EdgeKey>; 2] {
        let options = burst.options();
        let is_raw = burst.is_raw();
        Side::ALL.map(|side| {
            let edge = options.sub_chunk(side, bytes)?;
            Some(match edge.try_into().ok().filter(|_| is_raw) {
                Some(raw) => EdgeKey::Raw(raw),
                None => EdgeKey::Hash(self.core.keys.edge(edge)),
            })
        })
    }

    /// Finds a reference block in HeadDT or else in TailDT, and reads it.
    fn find_reference(
        &self,
        tables: &Tables,
        burst: Burst,
        keys: &[Option<EdgeKey>; 2],
        bytes: &[u8],
        search: &mut Search,
    ) -> Result<Option<Reference>> {
        for (side, key) in Side::ALL.into_iter().zip(keys) {
            let Some(key) = key else { continue };
            let Some(entry) = tables.edge(side, key)? else { continue };
            if entry.burst_count >= u64::from(burst.c_max) {
                search.exhausted[side as usize] = true;
                continue;
            }
            let reference = entry.reference;
            let full = tables.stored(reference)?.filter(|_| tables.trusts(reference));
            let full = full.filter(|it| matches!(it.form, Form::Full { .. }));
            let Some(full) = full else { continue };
            let old = match self.reference_block(reference, &full) {
                Ok(old) => old,
                Err(unreadable) if !rules::does_without_reference() => {
                    return Err(unreadable.error);
                }
                Err(_) => {
                    search.is_cancelled = true;
                    continue;
                }
            };
            let (prefix, suffix) = common_edges(&old, bytes);
            let len = |len: usize| u32::try_from(len).expect("a block has at most 64 KiB");
            let patch = Patch { prefix: len(prefix), suffix: len(suffix) };
            if patch.is_possible(bytes.len()) {
                return Ok(Some(Reference { side, reference, patch }));
            }
        }
        Ok(None)
    }
}
