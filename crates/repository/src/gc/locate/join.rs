//! The merge of live chunks and hints, which are both sorted.

use std::collections::HashSet;

use cutpoint_storage::Result;

use super::container::Container;
use super::live_set::{LIVE_CHUNK_LEN, LiveChunk, merge_forms};
use super::record::{NO_CONTAINER, PLACED_LEN, encode_placed};
use crate::format::commit::Damage;
use crate::util::extsort::ExternalSort;

/// The state of the merge.
pub(super) struct HintJoin<'a> {
    pub(super) containers: Vec<Container>,
    pub(super) damaged: &'a HashSet<Damage>,
    /// Chunks of which the container that has them is certain.
    pub(super) clear: ExternalSort<PLACED_LEN>,
    /// Chunks that tables of contents have to resolve.
    pub(super) ambiguous: ExternalSort<PLACED_LEN>,
    /// The containers to which the current hint leads.
    pub(super) hinted: Vec<u32>,
    /// The live chunks that begin with the current hint.
    pub(super) live_chunks: Vec<[u8; LIVE_CHUNK_LEN]>,
}

impl HintJoin<'_> {
    /// Assigns the live chunks of the current hint, and begins another hint.
    pub(super) fn end_of_hint(&mut self, hint: u64) -> Result<()> {
        merge_forms(&mut self.live_chunks);
        self.hinted.sort_unstable();
        self.hinted.dedup();
        for number in &self.hinted {
            let container = &mut self.containers[*number as usize];
            container.hint_count += 1;
            container.hint_sum = container.hint_sum.wrapping_add(hint);
        }
        for live in &self.live_chunks {
            let LiveChunk { class, fingerprint, is_full: needs_full, .. } = LiveChunk::decode(live);
            let of_class = || {
                let all =
                    self.hinted.iter().map(|place| (*place, &self.containers[*place as usize]));
                all.filter(|(_, container)| container.record.class == class)
            };
            let is_sound = |container: &Container| {
                let container = container.record.name;
                !self.damaged.contains(&Damage { class, container, fingerprint })
            };
            // The least of several names is chosen, so that what was stored twice stays or goes
            // together.
            let first = of_class()
                .filter(|(_, container)| container.is_usable() && is_sound(container))
                .min_by_key(|(_, container)| container.record.name)
                .map_or(NO_CONTAINER, |(place, _)| place);
            // A hint does not tell the form of its chunk.
            let may_be_delta_chunk =
                |(_, container): (u32, &Container)| needs_full && container.record.has_delta_chunks;
            let is_clear = self.live_chunks.len() == 1
                && first != NO_CONTAINER
                && !of_class().any(may_be_delta_chunk)
                && of_class().filter(|(_, container)| container.is_there).count() == 1;
            let record = encode_placed(first, live);
            if is_clear { self.clear.push(record)? } else { self.ambiguous.push(record)? }
        }
        self.hinted.clear();
        self.live_chunks.clear();
        Ok(())
    }
}
