//! What becomes of each container (P4).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::survey::Survey;
use super::{Phase, PruneMonitor, PruneOptions, stop_if_cancelled};
use crate::error::{Result, Tolerance};
use crate::fingerprint::{Class, Fingerprint};
use crate::format::directory::Directory;
use crate::index::load_directory;
use crate::name::PartName;
use crate::repository::Repository;

/// A container below this share of the size that is aimed at is small.
const SMALL_DIVISOR: u32 = 8;

/// What a prune is going to do. Sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The snapshots that it takes.
    pub forgotten_count: u64,
    /// The snapshots that stay.
    pub marked_count: u64,
    /// Containers that exist and are not condemned yet.
    pub container_count: u64,
    /// Their size.
    pub container_bytes: u64,
    /// Containers of which nothing is needed: condemned.
    pub dead_count: u64,
    /// Their size.
    pub dead_bytes: u64,
    /// Containers of which some is needed, which is stored again: condemned.
    pub rewritten_count: u64,
    /// Their size.
    pub rewritten_bytes: u64,
    /// How much of that is stored again, about.
    pub moved_bytes: u64,
    /// What is not needed in the containers that stay, about.
    pub unused_bytes: u64,
    /// Containers of interrupted runs that no segment had named.
    pub adopted_count: u64,
    /// Chunks that are needed and that only condemned containers have: stored again.
    pub rescued_count: u64,
    /// Index segments that are merged into few.
    pub merged_segment_count: u64,
}

impl Plan {
    /// How much smaller the repository is once a sweep has followed, about.
    pub fn freed_bytes(&self) -> u64 {
        (self.dead_bytes + self.rewritten_bytes).saturating_sub(self.moved_bytes)
    }
}

/// The plan, container by container.
pub(super) struct Chosen {
    pub(super) plan: Plan,
    /// Numbers of containers, rising.
    pub(super) dead: Vec<u32>,
    pub(super) rewritten: BTreeSet<u32>,
    /// The segments that are superseded.
    pub(super) merged: BTreeSet<PartName>,
}

impl Chosen {
    /// Whether there is nothing to record.
    pub(super) fn is_nothing(&self) -> bool {
        let Plan { forgotten_count, adopted_count, rescued_count, .. } = self.plan;
        self.dead.is_empty()
            && self.rewritten.is_empty()
            && self.merged.is_empty()
            && [forgotten_count, adopted_count, rescued_count] == [0; 3]
    }
}

/// A container that may be rewritten.
struct Candidate {
    number: u32,
    class: Class,
    stored_len: u64,
    live_bytes: u64,
    is_small: bool,
}

/// About how many stored bytes of a container are of `kept` chunks.
pub(super) fn live_bytes(directory: &Directory, kept: &HashSet<Fingerprint>) -> u64 {
    let mut live = vec![0_u64; directory.regions.len()];
    for chunk in directory.chunks.iter().filter(|chunk| kept.contains(&chunk.fingerprint)) {
        live[usize::from(chunk.region)] += u64::from(chunk.payload_len);
    }
    let regions = directory.regions.iter().zip(live);
    regions
        .map(|(region, live)| {
            u64::from(region.stored_len) * live.min(u64::from(region.raw_len))
                / u64::from(region.raw_len).max(1)
        })
        .sum()
}

pub(super) fn choose(
    survey: &Survey,
    repository: &Repository,
    options: &PruneOptions,
    monitor: &dyn PruneMonitor,
) -> Result<Chosen> {
    let mut plan = Plan {
        forgotten_count: survey.forgotten.len() as u64,
        marked_count: survey.marked.len() as u64,
        adopted_count: survey.adopted.containers.len() as u64,
        rescued_count: survey.places.going.len() as u64,
        ..Plan::default()
    };
    let containers = &survey.places.containers;
    let small_len = repository.config().container_size / SMALL_DIVISOR;
    let mut dead = Vec::new();
    let mut candidates = Vec::new();
    let mut kept = survey.places.kept()?;
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
        if container.kept_count == 0 {
            // Before it goes: the hints that said that nothing of it is needed must be all.
            let known = load_directory(repository, &container.record)
                .and_then(|directory| container.require_hints(&directory));
            if let Err(error) = known {
                monitor.passed_over(&tolerance.of_one(error)?);
                continue;
            }
            plan.dead_count += 1;
            plan.dead_bytes += stored_len;
            dead.push(number);
            continue;
        }
        let is_small = container.record.stored_len < small_len;
        let mut live = stored_len;
        if container.kept_count < container.hint_count {
            match load_directory(repository, &container.record) {
                Ok(directory) => {
                    if let Err(error) = container.require_hints(&directory) {
                        monitor.passed_over(&error);
                        continue;
                    }
                    let all: u64 = directory.regions.iter().map(|r| u64::from(r.stored_len)).sum();
                    let used = live_bytes(&directory, &kept.of(number)?);
                    live = stored_len.saturating_sub(all.saturating_sub(used));
                }
                // It stays as it is.
                Err(error) => {
                    monitor.passed_over(&tolerance.of_one(error)?);
                    continue;
                }
            }
        }
        if live < stored_len || is_small {
            let class = container.record.class;
            candidates.push(Candidate { number, class, stored_len, live_bytes: live, is_small });
        }
    }
    kept.end()?;
    monitor.progress(Phase::Weigh, total, total);
    let rewritten = choose_rewritten(&mut plan, candidates, options);
    let merged = choose_merged(survey, options);
    plan.merged_segment_count = merged.len() as u64;
    Ok(Chosen { plan, dead, rewritten, merged })
}

/// Those with the most unused come first, until little enough of what stays is unused; and small
/// ones, where they are many.
fn choose_rewritten(
    plan: &mut Plan,
    mut candidates: Vec<Candidate>,
    options: &PruneOptions,
) -> BTreeSet<u32> {
    let mut small_counts: BTreeMap<bool, usize> = BTreeMap::new();
    for candidate in candidates.iter().filter(|candidate| candidate.is_small) {
        *small_counts.entry(candidate.class == Class::Meta).or_default() += 1;
    }
    let unused = |candidate: &Candidate| candidate.stored_len - candidate.live_bytes;
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
        plan.rewritten_count += 1;
        plan.rewritten_bytes += size;
        plan.moved_bytes += candidate.live_bytes;
        unused_bytes -= unused(candidate);
        kept_bytes -= unused(candidate);
    }
    plan.unused_bytes = unused_bytes;
    rewritten
}

/// Segments are merged where they are many. What commits of F have published is merged with the
/// others, or published anew.
fn choose_merged(survey: &Survey, options: &PruneOptions) -> BTreeSet<PartName> {
    let live = survey.view.segments();
    if live.len() < options.segment_count_max.max(2) { BTreeSet::new() } else { live }
}
