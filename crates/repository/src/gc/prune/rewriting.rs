//! The choice of the containers that are rewritten.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::options::PruneOptions;
use super::plan::PrunePlan;
use super::usage::Usage;
use crate::format::fingerprint::Class;

/// A container that may be rewritten.
pub(super) struct RewriteCandidate {
    pub(super) number: u32,
    pub(super) class: Class,
    pub(super) stored_len: u64,
    pub(super) usage: Usage,
    /// Set if the container is much smaller than the target size.
    pub(super) is_small: bool,
}

/// Selects all containers that were not optimized before, up to the maximum that may be rewritten.
pub(super) fn select_regrouped(
    plan: &mut PrunePlan,
    candidates: &[RewriteCandidate],
    options: &PruneOptions,
) -> BTreeSet<u32> {
    let mut rewritten = BTreeSet::new();
    for candidate in candidates {
        let size = candidate.stored_len;
        if plan.rewritten_bytes.saturating_add(size) > options.rewrite_bytes_max {
            plan.unused_bytes += size - candidate.usage.live_bytes;
            continue;
        }
        rewritten.insert(candidate.number);
        count_rewritten(plan, candidate);
        plan.raw_bytes += candidate.usage.raw_bytes;
    }
    rewritten
}

/// Selects the containers with the largest share of unused bytes, until the share in what stays is
/// small enough, and small containers if there are many.
pub(super) fn select_rewritten(
    plan: &mut PrunePlan,
    mut candidates: Vec<RewriteCandidate>,
    options: &PruneOptions,
) -> BTreeSet<u32> {
    let mut small_counts: BTreeMap<bool, usize> = BTreeMap::new();
    for candidate in candidates.iter().filter(|candidate| candidate.is_small) {
        *small_counts.entry(candidate.class == Class::Meta).or_default() += 1;
    }
    let unused = |candidate: &RewriteCandidate| candidate.stored_len - candidate.usage.live_bytes;
    let share = |candidate: &RewriteCandidate| {
        (u128::from(unused(candidate)) << 32) / u128::from(candidate.stored_len.max(1))
    };
    candidates.sort_by_key(|candidate| (Reverse(share(candidate)), candidate.number));
    let mut unused_bytes: u64 = candidates.iter().map(unused).sum();
    let mut staying_bytes = plan.container_bytes - plan.condemned_bytes;
    let mut rewritten = BTreeSet::new();
    for candidate in &candidates {
        #[expect(clippy::cast_precision_loss, reason = "the limit needs no precision")]
        let is_too_much = unused_bytes as f64 > options.unused_max * staying_bytes as f64;
        let is_wasteful = is_too_much && unused(candidate) > 0;
        let is_one_of_many = candidate.is_small
            && small_counts.get(&(candidate.class == Class::Meta)).copied().unwrap_or(0)
                >= options.small_count_max.max(2);
        let size = candidate.stored_len;
        if !(is_wasteful || is_one_of_many)
            || plan.rewritten_bytes.saturating_add(size) > options.rewrite_bytes_max
        {
            continue;
        }
        rewritten.insert(candidate.number);
        count_rewritten(plan, candidate);
        plan.inlined_count += candidate.usage.inlined_count;
        plan.inlined_bytes += candidate.usage.inlined_bytes;
        unused_bytes -= unused(candidate);
        staying_bytes -= unused(candidate);
    }
    plan.unused_bytes = unused_bytes;
    rewritten
}

/// Counts a container that is rewritten.
fn count_rewritten(plan: &mut PrunePlan, candidate: &RewriteCandidate) {
    plan.rewritten_count += 1;
    plan.rewritten_bytes += candidate.stored_len;
    plan.moved_bytes += candidate.usage.live_bytes;
}
