//! The decision how a written block is stored: `docs/volume-format.md` has the order of lookups.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

use cutpoint_delta::burst::Side;
use cutpoint_delta::common_edges;

use super::prepare::Marks;
use super::{State, Volume};
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
use crate::tables::{Absent, Form, Stored, Tables};

/// A written block that is not all zeros.
#[derive(Clone, Copy)]
pub(super) struct Written<'a> {
    pub(super) id: BlockId,
    pub(super) bytes: &'a [u8],
    pub(super) fingerprint: Fingerprint,
    /// The marks that were computed before the state was locked.
    pub(super) marks: Option<Marks>,
}

/// The record of a written block, and its content if it has one: the block, or the new bytes of a
/// burst, padded.
pub(super) struct Decision<'a> {
    pub(super) body: Body,
    pub(super) content: Option<Cow<'a, [u8]>>,
    pub(super) absent: Absent,
}

/// Findings of the lookups for a block.
#[derive(Clone, Copy, Debug, Default)]
struct Lookups {
    search: Search,
    absent: Absent,
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
        state: &State,
        written: Written<'a>,
    ) -> Result<Option<Decision<'a>>> {
        let Written { id, bytes, fingerprint, marks } = written;
        let tables = &state.tables;
        let settings = tables.catalog.settings;
        let mode = settings.mode;
        let mut lookups = Lookups::default();
        if mode.is_deduplicating()
            && rules::must_look_up(marks.is_some())
            && let Some(target) = tables.find_equal(&fingerprint, &mut lookups.absent)?
        {
            if !settings.verifies_duplicates || self.is_stored_as(tables, target, bytes) {
                let body = Body::Duplicate { id, target };
                let is_same = tables.lookup(id.layer, id.block)? == target;
                let absent = lookups.absent;
                return Ok((!is_same).then_some(Decision { body, content: None, absent }));
            }
            lookups.search.is_cancelled = true;
        }
        if mode == Mode::Delta {
            return self.decide_delta(state, written, lookups).map(Some);
        }
        let mut keys = [None; 2];
        if let Some(burst) = mode.burst() {
            keys = self.marks_of(marks, mode, bytes).edges;
            let found = self.find_reference(state, burst, &keys, bytes, &mut lookups)?;
            if let Some(Reference { side, reference, patch }) = found {
                let Lookups { search, absent } = lookups;
                let body = Body::Burst { id, fingerprint, reference, side, patch, search };
                let content = Some(patch.content(bytes).into());
                return Ok(Some(Decision { body, content, absent }));
            }
        }
        let Lookups { search, absent } = lookups;
        if search.exhausted != [false; 2] && !rules::must_store_exhausted() {
            return Ok(None);
        }
        let is_indexed = mode.is_deduplicating();
        let body = Body::Full { id, fingerprint, is_indexed, keys, features: None, search };
        Ok(Some(Decision { body, content: Some(bytes.into()), absent }))
    }

    /// Decides how a block is stored that equals no other one in mode `delta`.
    fn decide_delta<'a>(
        &self,
        state: &State,
        written: Written<'a>,
        Lookups { search, mut absent }: Lookups,
    ) -> Result<Decision<'a>> {
        let Written { id, bytes, fingerprint, marks } = written;
        let Marks { edges: keys, features, .. } = self.marks_of(marks, Mode::Delta, bytes);
        let candidates = self.similar(state, id, &keys, features.as_ref(), &mut absent)?;
        let (seqs, blocks): (Vec<Seq>, Vec<Arc<[u8]>>) = candidates.into_iter().unzip();
        let mut encoder = self.encoder.lock().unwrap_or_else(PoisonError::into_inner);
        let delta = encoder.encode(bytes, &blocks);
        // The header is longer than that of a block without features.
        let delta = delta.filter(|it| it.content.len() + UNIT <= bytes.len() - SECTOR);
        if let Some(Delta { used, content }) = delta {
            let used: Vec<Seq> = used.into_iter().map(|index| seqs[index]).collect();
            if let Some(bases) = Bases::new(&used) {
                let body = Body::Delta { id, fingerprint, bases };
                return Ok(Decision { body, content: Some(content.into()), absent });
            }
        }
        let body = Body::Full { id, fingerprint, is_indexed: true, keys, features, search };
        Ok(Decision { body, content: Some(bytes.into()), absent })
    }

    /// Returns `true` if a stored block can be read and equals `bytes`.
    fn is_stored_as(&self, tables: &Tables, seq: Seq, bytes: &[u8]) -> bool {
        let mut block = vec![0; self.block_size()];
        self.read_stored(tables, seq, &mut block).is_ok() && block == bytes
    }

    /// Returns full blocks that probably resemble a written one: the previous content of the block, if a
    /// snapshot keeps it, and those that have the head, the tail or a feature in common. Notes which
    /// entries there are not.
    fn similar(
        &self,
        state: &State,
        id: BlockId,
        keys: &[Option<EdgeKey>; 2],
        features: Option<&Features>,
        absent: &mut Absent,
    ) -> Result<Vec<(Seq, Arc<[u8]>)>> {
        let tables = &state.tables;
        let mut seqs = Vec::with_capacity(BASE_COUNT_MAX);
        if let Some(below) = tables.catalog.parent(id.layer)
            && tables.lookup(id.layer, id.block)? == tables.lookup(below, id.block)?
        {
            seqs.push(tables.lookup(below, id.block)?);
        }
        for (side, key) in Side::ALL.into_iter().zip(keys) {
            let Some(key) = key else { continue };
            let entry = tables.edge(side, key)?;
            absent.edges[side as usize] = entry.is_none();
            seqs.extend(entry.map(|entry| entry.reference));
        }
        for (index, feature) in features.into_iter().flatten().enumerate() {
            let seq = tables.feature(index, *feature)?;
            absent.features[index] = seq.is_none();
            seqs.extend(seq);
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
                if let Ok(block) = self.reference_block(state, full, &stored) {
                    found.push((full, block));
                }
            }
        }
        Ok(found)
    }

    /// Reads a full block for a difference. It may be one that was added to the log and is not in it yet.
    fn reference_block(
        &self,
        state: &State,
        seq: Seq,
        stored: &Stored,
    ) -> std::result::Result<Arc<[u8]>, Unreadable> {
        let (place, len) = (stored.place, stored.payload_len as usize);
        let added = state.log.added_bytes(place.segment, stored.payload_offset(), len);
        if let Some(payload) = added.filter(|_| rules::must_read_added()) {
            // If the append fails, another block gets the number, so that this one is not kept.
            let block = self.core.decode_added(stored, payload);
            return block.map(Into::into).map_err(|error| Unreadable { error, reference: None });
        }
        self.core.blocks.get_or_read(seq, || {
            let mut block = vec![0; self.block_size()];
            self.core.read(stored, &[], &mut block).map(|()| block)
        })
    }

    /// Finds a reference block in HeadDT or else in TailDT, and reads it.
    fn find_reference(
        &self,
        state: &State,
        burst: Burst,
        keys: &[Option<EdgeKey>; 2],
        bytes: &[u8],
        Lookups { search, absent }: &mut Lookups,
    ) -> Result<Option<Reference>> {
        let tables = &state.tables;
        for (side, key) in Side::ALL.into_iter().zip(keys) {
            let Some(key) = key else { continue };
            let Some(entry) = tables.edge(side, key)? else {
                absent.edges[side as usize] = true;
                continue;
            };
            if entry.burst_count >= u64::from(burst.c_max) {
                search.exhausted[side as usize] = true;
                continue;
            }
            let reference = entry.reference;
            let full = tables.stored(reference)?.filter(|_| tables.trusts(reference));
            let full = full.filter(|it| matches!(it.form, Form::Full { .. }));
            let Some(full) = full else { continue };
            let old = match self.reference_block(state, reference, &full) {
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
