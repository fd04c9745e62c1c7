//! The merge of needs and hints.

use std::collections::HashSet;

use cutpoint_storage::Result;

use super::container::Container;
use super::need::{NEED_LEN, Need, merge};
use super::{NO_CONTAINER, PLACED_LEN, placed};
use crate::format::commit::Damage;
use crate::util::extsort::ExternalSort;

/// The merge of needs and hints.
pub(super) struct Join<'a> {
    pub(super) containers: Vec<Container>,
    pub(super) damaged: &'a HashSet<Damage>,
    pub(super) kept: ExternalSort<PLACED_LEN>,
    pub(super) doubtful: ExternalSort<PLACED_LEN>,
    /// State of the current hint: the containers to which it leads, and the needs that begin with
    /// it.
    pub(super) places: Vec<u32>,
    pub(super) needs: Vec<[u8; NEED_LEN]>,
}

impl Join<'_> {
    pub(super) fn end_of_hint(&mut self, hint: u64) -> Result<()> {
        merge(&mut self.needs);
        self.places.sort_unstable();
        self.places.dedup();
        for place in &self.places {
            let container = &mut self.containers[*place as usize];
            container.hint_count += 1;
            container.hint_sum = container.hint_sum.wrapping_add(hint);
        }
        for need in &self.needs {
            let Need { class, fingerprint, is_full: needs_full, .. } = Need::decode(need);
            let of_class = || {
                let all =
                    self.places.iter().map(|place| (*place, &self.containers[*place as usize]));
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
            let is_clear = self.needs.len() == 1
                && first != NO_CONTAINER
                && !of_class().any(may_be_delta_chunk)
                && of_class().filter(|(_, container)| container.is_there).count() == 1;
            let record = placed(first, need);
            if is_clear { self.kept.push(record)? } else { self.doubtful.push(record)? }
        }
        self.places.clear();
        self.needs.clear();
        Ok(())
    }
}
