//! Decides what becomes of each container (P4).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use cutpoint_storage::Result;

use super::sample::{Sample, is_incompressible};
use super::survey::Survey;
use super::{PruneOptions, Task};
use crate::format::fingerprint::Class;
use crate::format::grouping::Grouping;
use crate::format::names::PartName;
use crate::format::segment::ContainerRecord;
use crate::format::toc::{ChunkRecord, Form, RegionRecord, Toc};
use crate::gc::locate::{LiveChunks, staying};
use crate::gc::monitor::{Phase, PruneMonitor, stop_if_cancelled};
use crate::index::load_toc;
use crate::repo::repository::Repository;
use crate::util::tolerance::Tolerance;

/// Minimum share of a region, in percent, that has to stay for the region to be copied in its
/// compressed form.
const COPIED_PERCENT: u64 = 70;
/// A container is small if its size is below the target size divided by this number.
const SMALL_DIVISOR: u32 = 8;

/// The plan of a prune. All sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Number of snapshots that the prune takes.
    pub forgotten_count: u64,
    /// Number of snapshots that stay.
    pub marked_count: u64,
    /// Number of containers that exist and are not condemned yet.
    pub container_count: u64,
    /// Total size of the containers that are not condemned yet.
    pub container_bytes: u64,
    /// Number of containers that are condemned because no chunk in them is needed.
    pub dead_count: u64,
    /// Total size of the dead containers.
    pub dead_bytes: u64,
    /// Number of containers that are condemned after their needed chunks have been stored again.
    pub rewritten_count: u64,
    /// Total size of the rewritten containers.
    pub rewritten_bytes: u64,
    /// Estimated size of what is stored again from the rewritten containers.
    pub moved_bytes: u64,
    /// Estimated size of what is not needed in the containers that stay.
    pub unused_bytes: u64,
    /// Number of containers of interrupted runs that no segment had named.
    pub orphan_count: u64,
    /// Number of needed chunks that only condemned containers have, and that are stored again.
    pub rescued_count: u64,
    /// Number of chunks that stay only because delta chunks refer to them.
    pub pinned_count: u64,
    /// Estimated size of the pinned chunks in their containers.
    pub pinned_bytes: u64,
    /// Number of delta chunks that are stored again as full chunks, because the full chunks that
    /// they refer to would take more or because too little of their regions is needed.
    pub inlined_count: u64,
    /// Total uncompressed size of the inlined delta chunks. At most about as much is written.
    pub inlined_bytes: u64,
    /// Total size of the containers that had stayed only for such delta chunks, and are condemned
    /// now.
    pub released_bytes: u64,
    /// Number of index segments that are merged into a few.
    pub merged_segment_count: u64,
    /// Number of containers that were optimized before and stay as they are. Counted by an
    /// optimization.
    pub optimized_count: u64,
    /// Total size of the containers that were optimized before.
    pub optimized_bytes: u64,
    /// Number of containers that are left alone because almost nothing in them is compressed.
    pub spared_count: u64,
    /// Total size of the spared containers.
    pub spared_bytes: u64,
    /// Total uncompressed size of the chunks that are regrouped and compressed again.
    pub raw_bytes: u64,
    /// Part of [`Plan::raw_bytes`] that was compressed to estimate [`Plan::moved_bytes`].
    pub sampled_bytes: u64,
}

impl Plan {
    /// Returns the estimated number of bytes by which the repository is smaller after the next
    /// sweep.
    pub fn freed_bytes(&self) -> u64 {
        let written_bytes = self.moved_bytes + self.inlined_bytes;
        (self.dead_bytes + self.rewritten_bytes).saturating_sub(written_bytes)
    }

    fn count_rewritten(&mut self, candidate: &Candidate) {
        self.rewritten_count += 1;
        self.rewritten_bytes += candidate.stored_len;
        self.moved_bytes += candidate.use_of.live_bytes;
    }
}

/// The plan, container by container.
pub(super) struct Chosen {
    pub(super) plan: Plan,
    /// Numbers of the dead containers, in ascending order.
    pub(super) dead: Vec<u32>,
    pub(super) rewritten: BTreeSet<u32>,
    /// The segments that the record supersedes.
    pub(super) merged: BTreeSet<PartName>,
    /// The target grouping of an optimization; `None` for a prune.
    pub(super) grouping: Option<Grouping>,
}

impl Chosen {
    /// Returns `true` if there is nothing to record.
    pub(super) fn is_nothing(&self) -> bool {
        let Plan { forgotten_count, orphan_count, rescued_count, inlined_count, .. } = self.plan;
        self.dead.is_empty()
            && self.rewritten.is_empty()
            && self.merged.is_empty()
            && [forgotten_count, orphan_count, rescued_count, inlined_count] == [0; 4]
    }
}

/// A container that may be rewritten.
struct Candidate {
    number: u32,
    class: Class,
    stored_len: u64,
    use_of: Use,
    is_small: bool,
}

/// Estimates of what stays of a container.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Length of the container less the bytes of chunks that do not stay.
    live_bytes: u64,
    /// Part of `live_bytes` that stays only for delta chunks.
    pinned_bytes: u64,
    /// Number and total size of the delta chunks that would be stored as full chunks if the
    /// container were rewritten.
    inlined_count: u64,
    inlined_bytes: u64,
    /// Decoded size of the chunks that stay.
    raw_bytes: u64,
}

impl Use {
    fn of(container: &ContainerRecord, toc: &Toc, kept: &LiveChunks) -> Use {
        let staying = staying(toc, kept);
        let mut found = Use { live_bytes: u64::from(container.stored_len), ..Use::default() };
        for (region, number) in toc.regions.iter().zip(0..) {
            let stored = |len: u64| {
                u64::from(region.stored_len) * len.min(u64::from(region.raw_len))
                    / u64::from(region.raw_len).max(1)
            };
            let start = staying.partition_point(|chunk| chunk.region < number);
            let end = staying.partition_point(|chunk| chunk.region <= number);
            let live = &staying[start..end];
            let pinned = live.iter().filter(|chunk| !kept[&chunk.fingerprint].is_reached);
            let pinned_len = pinned.map(|chunk| u64::from(chunk.payload_len)).sum();
            found.pinned_bytes += stored(pinned_len);
            let live_len = live.iter().map(|chunk| u64::from(chunk.payload_len)).sum();
            found.raw_bytes += live_len;
            let dead = u64::from(region.stored_len) - stored(live_len);
            found.live_bytes = found.live_bytes.saturating_sub(dead);
            if !is_copied(region, live) {
                for chunk in live.iter().filter(|chunk| chunk.form == Form::Delta) {
                    found.inlined_count += 1;
                    found.inlined_bytes += u64::from(chunk.chunk_len);
                }
            }
        }
        found
    }
}

/// Returns `true` if a region of which `live` stays is copied in its compressed form.
pub(super) fn is_copied(region: &RegionRecord, live: &[&ChunkRecord]) -> bool {
    let live_len: u64 = live.iter().map(|chunk| u64::from(chunk.payload_len)).sum();
    live_len * 100 >= u64::from(region.raw_len) * COPIED_PERCENT
}

pub(super) fn choose(
    survey: &Survey,
    repository: &Repository,
    task: &Task,
    monitor: &dyn PruneMonitor,
) -> Result<Chosen> {
    let options = &task.options;
    let mut plan = Plan {
        forgotten_count: survey.forgotten.len() as u64,
        marked_count: survey.marked.len() as u64,
        orphan_count: survey.orphans.containers.len() as u64,
        rescued_count: survey.placement.only_condemned.len() as u64,
        inlined_count: survey.placement.inlined.len() as u64,
        inlined_bytes: survey.placement.inlined_bytes,
        released_bytes: survey.placement.released_bytes,
        ..Plan::default()
    };
    let containers = &survey.placement.containers;
    let small_len = repository.config().container_size / SMALL_DIVISOR;
    let mut dead = Vec::new();
    let mut candidates = Vec::new();
    let mut kept = survey.placement.live()?;
    let mut tolerance = Tolerance::default();
    let total = containers.len() as u64;
    for (number, container) in (0..).zip(containers) {
        monitor.progress(Phase::Weigh, u64::from(number), total);
        stop_if_cancelled(monitor)?;
        if !container.is_usable() {
            continue;
        }
        let stored_len = u64::from(container.record.stored_len);
        plan.container_count += 1;
        plan.container_bytes += stored_len;
        if container.live_count == 0 {
            // Checked before the container is condemned: the hints that showed that no chunk is
            // needed must cover all chunks.
            let known = load_toc(repository, &container.record)
                .and_then(|toc| container.require_hints(&toc));
            if let Err(error) = known {
                survey.pass_over_read(repository, tolerance.of_one(error)?, monitor)?;
                continue;
            }
            plan.dead_count += 1;
            plan.dead_bytes += stored_len;
            dead.push(number);
            continue;
        }
        let is_small = container.record.stored_len < small_len;
        plan.pinned_count += u64::from(container.pinned_count);
        let mut use_of = Use { live_bytes: stored_len, ..Use::default() };
        if container.live_count < container.hint_count
            || container.pinned_count > 0
            || task.grouping.is_some()
        {
            match load_toc(repository, &container.record) {
                Ok(toc) => {
                    if let Err(error) = container.require_hints(&toc) {
                        monitor.passed_over(&error);
                        continue;
                    }
                    use_of = Use::of(&container.record, &toc, &kept.of(number)?);
                    if task.spares(&toc, stored_len, &mut plan) {
                        continue;
                    }
                    plan.pinned_bytes += use_of.pinned_bytes;
                    if container.live_count == container.hint_count {
                        // The remainder was copied along with a region, and would be copied again.
                        use_of.live_bytes = stored_len;
                    }
                }
                // The container stays as it is.
                Err(error) => {
                    survey.pass_over_read(repository, tolerance.of_one(error)?, monitor)?;
                    continue;
                }
            }
        }
        if use_of.live_bytes < stored_len || is_small || task.grouping.is_some() {
            let class = container.record.class;
            candidates.push(Candidate { number, class, stored_len, use_of, is_small });
        }
    }
    kept.end()?;
    monitor.progress(Phase::Weigh, total, total);
    let rewritten = match task.grouping {
        None => choose_rewritten(&mut plan, candidates, options),
        Some(grouping) => {
            let chosen = choose_regrouped(&mut plan, &candidates, options);
            let numbers: Vec<u32> = chosen.iter().copied().collect();
            let sample = Sample::of(repository, survey, &numbers, grouping, monitor)?;
            plan.sampled_bytes = sample.raw_bytes;
            plan.moved_bytes = sample.estimate(plan.moved_bytes);
            chosen
        }
    };
    let merged = choose_merged(survey, options);
    plan.merged_segment_count = merged.len() as u64;
    Ok(Chosen { plan, dead, rewritten, merged, grouping: task.grouping })
}

impl Task {
    /// Returns `true` if a container is not worth optimizing, and counts it in `plan`.
    fn spares(&self, toc: &Toc, stored_len: u64, plan: &mut Plan) -> bool {
        let Some(grouping) = self.grouping else { return false };
        let before = Grouping::decode(&toc.extra);
        if before.is_some_and(|before| !grouping.is_stronger_than(&before)) {
            plan.optimized_count += 1;
            plan.optimized_bytes += stored_len;
            return true;
        }
        if self.spares_incompressible && is_incompressible(&toc.regions) {
            plan.spared_count += 1;
            plan.spared_bytes += stored_len;
            return true;
        }
        false
    }
}

/// Chooses all containers that were not optimized before, up to the maximum that may be rewritten.
fn choose_regrouped(
    plan: &mut Plan,
    candidates: &[Candidate],
    options: &PruneOptions,
) -> BTreeSet<u32> {
    let mut rewritten = BTreeSet::new();
    for candidate in candidates {
        let size = candidate.stored_len;
        if plan.rewritten_bytes.saturating_add(size) > options.rewrite_bytes_max {
            plan.unused_bytes += size - candidate.use_of.live_bytes;
            continue;
        }
        rewritten.insert(candidate.number);
        plan.count_rewritten(candidate);
        plan.raw_bytes += candidate.use_of.raw_bytes;
    }
    rewritten
}

/// Chooses the containers with the largest share of unused bytes, until the share in what stays is
/// small enough, and small containers if there are many.
fn choose_rewritten(
    plan: &mut Plan,
    mut candidates: Vec<Candidate>,
    options: &PruneOptions,
) -> BTreeSet<u32> {
    let mut small_counts: BTreeMap<bool, usize> = BTreeMap::new();
    for candidate in candidates.iter().filter(|candidate| candidate.is_small) {
        *small_counts.entry(candidate.class == Class::Meta).or_default() += 1;
    }
    let unused = |candidate: &Candidate| candidate.stored_len - candidate.use_of.live_bytes;
    let share = |candidate: &Candidate| {
        (u128::from(unused(candidate)) << 32) / u128::from(candidate.stored_len.max(1))
    };
    candidates.sort_by_key(|candidate| (Reverse(share(candidate)), candidate.number));
    let mut unused_bytes: u64 = candidates.iter().map(unused).sum();
    let mut kept_bytes = plan.container_bytes - plan.dead_bytes;
    let mut rewritten = BTreeSet::new();
    for candidate in &candidates {
        #[expect(clippy::cast_precision_loss, reason = "a limit that people choose by feel")]
        let is_too_much = unused_bytes as f64 > options.unused_max * kept_bytes as f64;
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
        plan.count_rewritten(candidate);
        plan.inlined_count += candidate.use_of.inlined_count;
        plan.inlined_bytes += candidate.use_of.inlined_bytes;
        unused_bytes -= unused(candidate);
        kept_bytes -= unused(candidate);
    }
    plan.unused_bytes = unused_bytes;
    rewritten
}

/// Chooses all segments if there are enough to merge them. Segments that commits of F have
/// published are merged with the others, or published again.
fn choose_merged(survey: &Survey, options: &PruneOptions) -> BTreeSet<PartName> {
    let live = survey.view.segments();
    if live.len() < options.segment_count_max.max(2) { BTreeSet::new() } else { live }
}
