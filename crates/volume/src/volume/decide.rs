//! The decision how a written block is stored: `docs/volume-format.md` has the order of lookups.

use cutpoint_delta::burst::Side;
use cutpoint_delta::common_edges;

use super::Volume;
use crate::format::record::{Body, Patch, Search, Seq};
use crate::keys::Fingerprint;
use crate::mode::Burst;
use crate::rules;
use crate::tables::{Form, Tables};

/// The record of a written block, and its payload.
pub(super) struct Decision {
    pub(super) body: Body,
    pub(super) payload: Payload,
}

/// The payload of the record of a written block.
pub(super) enum Payload {
    Nothing,
    Block,
    /// The new bytes of a burst, padded.
    Burst(Vec<u8>),
}

impl Volume {
    /// Decides how a block is stored that has this fingerprint and is not all zeros. Returns `None`
    /// if the block has this content already.
    pub(super) fn decide(
        &self,
        tables: &mut Tables,
        block: u64,
        bytes: &[u8],
        fingerprint: Fingerprint,
    ) -> Option<Decision> {
        let mode = tables.settings.mode;
        if mode.is_deduplicating()
            && let Some(target) = tables.find_equal(&fingerprint)
        {
            let body = Body::Duplicate { block, target };
            let is_same = tables.map.get(block) == target;
            return (!is_same).then_some(Decision { body, payload: Payload::Nothing });
        }
        let mut search = Search::default();
        let mut keys = [None; 2];
        if let Some(burst) = mode.burst() {
            keys = self.edge_keys(burst, bytes);
            let found = self.find_reference(tables, &keys, bytes, &mut search);
            if let Some(Reference { side, reference, patch }) = found {
                let body = Body::Burst { block, fingerprint, reference, side, patch, search };
                return Some(Decision { body, payload: Payload::Burst(patch.payload(bytes)) });
            }
        }
        if search.exhausted != [false; 2] && !rules::must_store_exhausted() {
            return None;
        }
        let is_indexed = mode.is_deduplicating();
        let body = Body::Full { block, fingerprint, is_indexed, keys, search };
        Some(Decision { body, payload: Payload::Block })
    }

    /// Returns the keys of head and tail of a block.
    fn edge_keys(&self, burst: Burst, bytes: &[u8]) -> [Option<u64>; 2] {
        let options = burst.options();
        Side::ALL.map(|side| options.sub_chunk(side, bytes).map(|edge| self.core.keys.edge(edge)))
    }

    /// Finds a reference block in HeadDT or else in TailDT, and reads it. The tables are unchanged.
    fn find_reference(
        &self,
        tables: &mut Tables,
        keys: &[Option<u64>; 2],
        bytes: &[u8],
        search: &mut Search,
    ) -> Option<Reference> {
        let exhausted = Side::ALL.map(|side| tables.views.statistics(side).exhausted_count);
        let stored = &tables.stored;
        let mut old = vec![0; bytes.len()];
        let mut is_cancelled = false;
        let found = tables.views.find(keys, |_, reference| {
            let full = stored.get(&reference).filter(|it| matches!(it.form, Form::Full { .. }));
            let Some(full) = full else { return Ok(None) };
            if self.core.read(full, None, &mut old).is_err() {
                is_cancelled = true;
                return Ok(None);
            }
            let (prefix, suffix) = common_edges(&old, bytes);
            let len = |len: usize| u32::try_from(len).expect("a block has at most 64 KiB");
            let patch = Patch { prefix: len(prefix), suffix: len(suffix) };
            let is_smaller = patch.is_possible(bytes.len());
            Ok::<_, std::convert::Infallible>(is_smaller.then_some((reference, patch)))
        });
        search.is_cancelled = is_cancelled;
        for (side, before) in Side::ALL.into_iter().zip(exhausted) {
            let now = tables.views.statistics(side).exhausted_count;
            search.exhausted[side as usize] = now > before;
        }
        let Ok(found) = found;
        let (side, (reference, patch)) = found?;
        // The burst counts when its record is applied.
        tables.views.remove_burst(side, keys[side as usize]?, reference);
        Some(Reference { side, reference, patch })
    }
}

/// A reference block, and the burst on it.
struct Reference {
    side: Side,
    reference: Seq,
    patch: Patch,
}
