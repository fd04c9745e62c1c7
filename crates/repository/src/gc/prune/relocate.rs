//! Stores again what has to move, and publishes it (P4).

use std::collections::{BTreeSet, HashSet};

use cutpoint_storage::Result;

use super::merge::{MergedSegments, divide_embedded, merge_segments};
use super::regroup::{Reencodings, Regrouping, regroup};
use super::rewrite::rewrite;
use super::selection::Selection;
use super::source::{Failure, SourceResult, Sources};
use super::survey::Survey;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::PartName;
use crate::gc::monitor::{Phase, PruneMonitor, stop_if_cancelled};
use crate::rules;
use crate::write::{Inline, Writer};

/// The result of relocating chunks: the segments that were published, and the containers that may
/// be condemned.
pub(super) struct Relocation {
    pub(super) published: Vec<PartName>,
    /// The published segments that were merged from others.
    pub(super) merged: MergedSegments,
    /// Segments in taken commits of which everything is condemned.
    pub(super) spent: BTreeSet<PartName>,
    pub(super) condemned: Vec<(Class, PartName)>,
    pub(super) written_bytes: u64,
    pub(super) reencodings: Reencodings,
}

/// Stores everything that has to move and returns the writer. If that fails, the writer has been
/// ended.
pub(super) fn relocate(
    writer: Writer,
    survey: &Survey,
    selection: &Selection,
    monitor: &dyn PruneMonitor,
) -> SourceResult<(Writer, Relocation)> {
    let mut inline = match selection.grouping {
        Some(grouping) => Inline::grouped(writer, grouping)?,
        None => Inline::restart(writer)?,
    };
    match relocate_all(&mut inline, survey, selection, monitor) {
        Ok(relocation) => {
            let written_bytes = inline.stored_bytes();
            let (writer, published) = inline.into_parts();
            Ok((writer, Relocation { published, written_bytes, ..relocation }))
        }
        Err(failure @ Failure::Source(_)) => {
            inline.into_parts().0.give_up();
            Err(failure)
        }
        Err(Failure::Other(error)) => Err(inline.into_parts().0.fail(error).into()),
    }
}

fn relocate_all(
    inline: &mut Inline,
    survey: &Survey,
    selection: &Selection,
    monitor: &dyn PruneMonitor,
) -> SourceResult<Relocation> {
    let repository = inline.writer().repository().clone();
    let sources = Sources::new(&repository, &survey.reader);
    let containers = &survey.placement.containers;
    let rescued = survey.placement.only_condemned.iter().map(|live| (live.class, live.fingerprint));
    for (class, fingerprint) in rescued.chain(survey.placement.inlined.iter().copied()) {
        stop_if_cancelled(monitor)?;
        inline.store(class, fingerprint, &sources.chunk(class, &fingerprint)?)?;
    }
    let dead = selection.dead.iter().map(|number| containers[*number as usize].name());
    let mut condemned: Vec<(Class, PartName)> = dead.collect();
    let Regrouping { broken, reencodings } = match selection.grouping {
        Some(_) => regroup(inline, survey, selection, monitor, &mut condemned)?,
        None => {
            let broken = rewrite_all(inline, survey, selection, monitor, &mut condemned)?;
            Regrouping { broken, reencodings: Reencodings::default() }
        }
    };
    if !broken.is_empty() {
        keep_other_copies(survey, &broken, &mut condemned)?;
    }
    // What was stored again is published first, so that a merged segment has nothing of it.
    inline.publish()?;
    if !survey.orphans.containers.is_empty() {
        inline.publish_existing(survey.orphans.clone())?;
    }
    let (embedded, spent) = divide_embedded(survey, &condemned);
    let all = selection.merged.union(&embedded).copied().collect();
    let merged = merge_segments(inline, survey, &all, selection.merged_hints_max)?;
    let merged = MergedSegments { embedded, ..merged };
    let (published, written_bytes) = (Vec::new(), 0);
    Ok(Relocation { published, merged, spent, condemned, written_bytes, reencodings })
}

/// Rewrites container by container. A container is added to `condemned` once all of it was stored
/// again. Returns the chunks of the containers that could not be rewritten.
fn rewrite_all(
    inline: &mut Inline,
    survey: &Survey,
    selection: &Selection,
    monitor: &dyn PruneMonitor,
    condemned: &mut Vec<(Class, PartName)>,
) -> Result<HashSet<Fingerprint>> {
    let repository = inline.writer().repository().clone();
    let mut live = survey.placement.live()?;
    let mut done_bytes = 0;
    let mut broken: HashSet<Fingerprint> = HashSet::new();
    for number in &selection.rewritten {
        stop_if_cancelled(monitor)?;
        let container = &survey.placement.containers[*number as usize];
        let chunks = live.of(*number)?;
        match rewrite(inline, survey, container, &chunks) {
            Ok(()) => condemned.push(container.name()),
            // The container stays as it is, and the part of it that was stored again exists twice.
            Err(Failure::Source(unreadable)) => {
                survey.skip(&repository, unreadable, monitor)?;
                broken.extend(chunks.into_keys());
            }
            Err(Failure::Other(_)) if rules::may_tolerate_failed_put() => {
                broken.extend(chunks.into_keys());
            }
            Err(Failure::Other(error)) => return Err(error),
        }
        done_bytes += u64::from(container.record.stored_len);
        monitor.progress(Phase::Rewrite, done_bytes, selection.plan.rewritten_bytes);
    }
    live.end()?;
    Ok(broken)
}

/// Removes containers from `condemned` that may have a better copy of a chunk in an unreadable
/// container.
fn keep_other_copies(
    survey: &Survey,
    broken: &HashSet<Fingerprint>,
    condemned: &mut Vec<(Class, PartName)>,
) -> Result<()> {
    let condemned_now: HashSet<(Class, PartName)> = condemned.iter().copied().collect();
    let mut better = HashSet::new();
    let containers = survey.placement.containers.iter();
    let wanted = containers.filter(|container| condemned_now.contains(&container.name()));
    let wanted = wanted.map(|container| (container.name(), Some(container.record)));
    survey.reader.index().each_toc(wanted, |name, toc| {
        let toc = match toc {
            None => return Ok(()),
            // A container that cannot be read may have the better copy.
            Some(Err(error)) if error.is_loss() => {
                better.insert(name);
                return Ok(());
            }
            Some(toc) => toc?,
        };
        if toc.toc.chunks.iter().any(|chunk| broken.contains(&chunk.fingerprint)) {
            better.insert(name);
        }
        Ok(())
    })?;
    condemned.retain(|name| !better.contains(name));
    Ok(())
}
