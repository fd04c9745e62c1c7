//! The merge of needs and hints.

use std::collections::HashSet;

use cutpoint_storage::Result;

use super::container::Container;
use super::live_set::{LIVE_CHUNK_LEN, LiveChunk, merge};
use super::{NO_CONTAINER, PLACED_LEN, placed};
use crate::format::commit::Damage;
use crate::util::extsort::ExternalSort;

/// The merge of needs and hints.
pub(super) struct Join<'a> {
    pub(super) containers: Vec<Container>,
    pub(super) damaged: &'a HashSet<Damage>,
    pub(super) kept: ExternalSort<PLACED_LEN>,
    pub(super) ambiguous: ExternalSort<PLACED_LEN>,
    /// State of the current hint: the containers to which it leads, and the needs that begin with
    /// it.
    pub(super) placement: Vec<u32>,
    pub(super) live_set: Vec<[u8; LIVE_CHUNK_LEN]>,
}

impl Join<'_> {
    pub(super) fn end_of_hint(&mut self, hint: u64) -> Result<()> {
        merge(&mut self.live_set);
        self.placement.sort_unstable();
        self.placement.dedup();
        for place in &self.placement {
            let container = &mut self.containers[*place as usize];
            container.hint_count += 1;
            container.hint_sum = container.hint_sum.wrapping_add(hint);
        }
        for live in &self.live_set {
            let LiveChunk { class, fingerprint, is_full: needs_full, .. } = LiveChunk::decode(live);
            let of_class = || {
                let all =
                    self.placement.iter().map(|place| (*place, &self.containers[*place as usize]));
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
            let is_clear = self.live_set.len() == 1
                && first != NO_CONTAINER
                && !of_class().any(may_be_delta_chunk)
                && of_class().filter(|(_, container)| container.is_there).count() == 1;
            let record = placed(first, live);
            if is_clear { self.kept.push(record)? } else { self.ambiguous.push(record)? }
        }
        self.placement.clear();
        self.live_set.clear();
        Ok(())
    }
}
