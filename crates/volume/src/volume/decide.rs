//! The decision how a written block is stored: `docs/volume-format.md` has the order of lookups.

use std::borrow::Cow;

use cutpoint_delta::burst::Side;
use cutpoint_delta::common_edges;

use super::Volume;
use crate::error::Result;
use crate::format::edge::EdgeKey;
use crate::format::patch::Patch;
use crate::format::position::Seq;
use crate::format::record::{Body, Search};
use crate::format::span::BlockId;
use crate::keys::Fingerprint;
use crate::mode::Burst;
use crate::rules;
use crate::tables::{Form, Tables};

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
        let mode = tables.catalog.settings.mode;
        if mode.is_deduplicating()
            && let Some(target) = tables.find_equal(&fingerprint)?
        {
            let body = Body::Duplicate { id, target };
            let is_same = tables.lookup(id.layer, id.block)? == target;
            return Ok((!is_same).then_some(Decision { body, content: None }));
        }
        let mut search = Search::default();
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
        let mut old = Vec::new();
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
            old.resize(bytes.len(), 0);
            if self.core.read(&full, &[], &mut old).is_err() {
                search.is_cancelled = true;
                continue;
            }
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
