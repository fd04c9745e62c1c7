//! Stores again what has to move, and publishes it (P4).

use std::collections::{BTreeSet, HashMap, HashSet};

use cutpoint_storage::Result;

use super::monitor::{Phase, PruneMonitor, stop_if_cancelled};
use super::plan::Chosen;
use super::regroup::{Regrouped, regroup};
use super::rewrite::rewrite;
use super::source::{Attempted, Failure, Sources};
use super::survey::Survey;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName};
use crate::format::segment::{ContainerRecord, Segment};
use crate::index::load_toc;
use crate::repo::repository::Repository;
use crate::rules;
use crate::write::{Inline, Writer};

/// Number of hints at which a merged segment is published: 48 MB.
const MERGED_HINTS_MAX: usize = 4 << 20;

/// The segments that were published, and the containers that may be condemned.
pub(super) struct Moved {
    pub(super) published: Vec<PartName>,
    pub(super) condemned: Vec<(Class, PartName)>,
    pub(super) written_bytes: u64,
    /// Number of full chunks that became delta chunks, and their total size in bytes.
    pub(super) reencoded_count: u64,
    pub(super) reencoded_bytes: u64,
}

/// Stores everything that has to move and returns the writer. If that fails, the writer has been
/// ended.
pub(super) fn store(
    writer: Writer,
    survey: &Survey,
    chosen: &Chosen,
    monitor: &dyn PruneMonitor,
) -> Attempted<(Writer, Moved)> {
    let mut inline = match chosen.grouping {
        Some(grouping) => Inline::grouped(writer, grouping)?,
        None => Inline::restart(writer)?,
    };
    match store_all(&mut inline, survey, chosen, monitor) {
        Ok(moved) => {
            let written_bytes = inline.stored_bytes();
            let (writer, published) = inline.into_parts();
            Ok((writer, Moved { published, written_bytes, ..moved }))
        }
        Err(failure @ Failure::Source(_)) => {
            inline.into_parts().0.give_up();
            Err(failure)
        }
        Err(Failure::Other(error)) => Err(inline.into_parts().0.fail(error).into()),
    }
}

fn store_all(
    inline: &mut Inline,
    survey: &Survey,
    chosen: &Chosen,
    monitor: &dyn PruneMonitor,
) -> Attempted<Moved> {
    let repository = inline.writer().repository().clone();
    let sources = Sources::new(&repository, &survey.reader);
    let containers = &survey.placement.containers;
    let rescued = survey.placement.only_condemned.iter().map(|need| (need.class, need.fingerprint));
    for (class, fingerprint) in rescued.chain(survey.placement.inlined.iter().copied()) {
        stop_if_cancelled(monitor)?;
        inline.store(class, fingerprint, &sources.chunk(class, &fingerprint)?)?;
    }
    let dead = chosen.dead.iter().map(|number| containers[*number as usize].name());
    let mut condemned: Vec<(Class, PartName)> = dead.collect();
    let Regrouped { broken, reencoded_count, reencoded_bytes } = match chosen.grouping {
        Some(_) => regroup(inline, survey, chosen, monitor, &mut condemned)?,
        None => Regrouped {
            broken: rewrite_all(inline, survey, chosen, monitor, &mut condemned)?,
            reencoded_count: 0,
            reencoded_bytes: 0,
        },
    };
    if !broken.is_empty() {
        keep_other_copies(&repository, survey, &broken, &mut condemned)?;
    }
    if !survey.orphans.containers.is_empty() {
        inline.publish_existing(&survey.orphans)?;
    }
    merge_segments(inline, &repository, survey, &chosen.merged)?;
    inline.publish()?;
    let (published, written_bytes) = (Vec::new(), 0);
    Ok(Moved { published, condemned, written_bytes, reencoded_count, reencoded_bytes })
}

/// Rewrites container by container. A container is added to `condemned` once all of it was stored
/// again. Returns the chunks of the containers that could not be rewritten.
fn rewrite_all(
    inline: &mut Inline,
    survey: &Survey,
    chosen: &Chosen,
    monitor: &dyn PruneMonitor,
    condemned: &mut Vec<(Class, PartName)>,
) -> Result<HashSet<Fingerprint>> {
    let repository = inline.writer().repository().clone();
    let mut kept = survey.placement.kept()?;
    let mut done_bytes = 0;
    let mut broken: HashSet<Fingerprint> = HashSet::new();
    for number in &chosen.rewritten {
        stop_if_cancelled(monitor)?;
        let container = &survey.placement.containers[*number as usize];
        let chunks = kept.of(*number)?;
        match rewrite(inline, survey, container, &chunks) {
            Ok(()) => condemned.push(container.name()),
            // The container stays as it is, and the part of it that was stored again exists twice.
            Err(Failure::Source(unreadable)) => {
                survey.pass_over(&repository, unreadable, monitor)?;
                broken.extend(chunks.into_keys());
            }
            Err(Failure::Other(_)) if rules::may_tolerate_failed_put() => {
                broken.extend(chunks.into_keys());
            }
            Err(Failure::Other(error)) => return Err(error),
        }
        done_bytes += u64::from(container.record.stored_len);
        monitor.progress(Phase::Rewrite, done_bytes, chosen.plan.rewritten_bytes);
    }
    kept.end()?;
    Ok(broken)
}

/// Removes containers from `condemned` that may have a better copy of a chunk in an unreadable
/// container.
fn keep_other_copies(
    repository: &Repository,
    survey: &Survey,
    broken: &HashSet<Fingerprint>,
    condemned: &mut Vec<(Class, PartName)>,
) -> Result<()> {
    let condemned_now: HashSet<(Class, PartName)> = condemned.iter().copied().collect();
    let mut better = HashSet::new();
    for container in
        survey.placement.containers.iter().filter(|c| condemned_now.contains(&c.name()))
    {
        let toc = load_toc(repository, &container.record)?;
        if toc.chunks.iter().any(|chunk| broken.contains(&chunk.fingerprint)) {
            better.insert(container.name());
        }
    }
    condemned.retain(|name| !better.contains(name));
    Ok(())
}

/// Publishes the contents of the `merged` segments in a few new ones. All existing containers are
/// named, condemned or not, because readers and sweeps find them by these segments.
fn merge_segments(
    inline: &mut Inline,
    repository: &Repository,
    survey: &Survey,
    merged: &BTreeSet<PartName>,
) -> Result<()> {
    let mut named: HashSet<(Class, PartName)> = HashSet::new();
    let mut open = Segment::default();
    for part in merged {
        let segment = repository.read(ObjectName::Segment(*part), Segment::decode)?;
        let is_new = |container: &ContainerRecord| {
            let name = (container.class, container.name);
            survey.there.contains_key(&name) && named.insert(name)
        };
        let mut taken = only(&segment, is_new);
        taken.covers = vec![*part];
        open.append(&taken);
        if open.hints.len() >= MERGED_HINTS_MAX {
            inline.publish_existing(&std::mem::take(&mut open))?;
        }
    }
    if open.containers.is_empty() { Ok(()) } else { inline.publish_existing(&open) }
}

/// Returns the containers of a segment that `accepts` admits, with their hints.
fn only(segment: &Segment, mut accepts: impl FnMut(&ContainerRecord) -> bool) -> Segment {
    let mut some = Segment::default();
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    for (number, container) in (0..).zip(&segment.containers) {
        if accepts(container) {
            numbers.insert(number, u32::try_from(some.containers.len()).unwrap_or(u32::MAX));
            some.containers.push(*container);
        }
    }
    let hints = segment.hints.iter();
    some.hints = hints.filter_map(|(hint, number)| Some((*hint, *numbers.get(number)?))).collect();
    some
}
