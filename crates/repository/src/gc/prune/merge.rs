//! Merges index segments.

use std::collections::{BTreeSet, HashMap, HashSet};

use cutpoint_storage::{ObjectKind, Result};

use super::dead_segments::DeadSegments;
use super::options::PruneOptions;
use super::survey::Survey;
use crate::format::commit::Outcome;
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName};
use crate::format::prune::Covering;
use crate::format::segment::{ContainerRecord, HINT_LEN, Segment};
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::rules;
use crate::write::Inline;

/// The segments that a prune has merged from others.
#[derive(Debug, Default)]
pub(super) struct MergedSegments {
    pub(super) coverings: Vec<Covering>,
    /// The merged segments that lie in commits which this prune takes.
    pub(super) embedded: BTreeSet<PartName>,
    /// Set if a container was left out although no record condemns it. The merged segments then do
    /// not stand for the covered ones.
    pub(super) is_incomplete: bool,
}

impl MergedSegments {
    /// Returns the coverings to record: none if the merged segments are incomplete. The segments
    /// `gone`, of which nothing exists, are covered as well.
    pub(super) fn recorded(&self, gone: &BTreeSet<PartName>) -> Vec<Covering> {
        let mut coverings = if self.is_incomplete { Vec::new() } else { self.coverings.clone() };
        if let Some(last) = coverings.last_mut() {
            last.covered.extend(gone);
        }
        coverings
    }
}

/// Selects the segments to merge, which are the small ones, if there are enough of them, and those
/// that are superseded without that, because nothing of them exists. `dead` are the numbers of the
/// containers without live chunks.
///
/// Segments that lie in commits are not selected, because they cost no client a request.
///
/// A merged segment is not small, except for the last one, so that no hint is written again by
/// every merge. A merged segment of an interrupted prune is selected as well, because it repeats
/// what others say.
///
/// # Errors
///
/// Returns any error of the storage.
pub(super) fn select_merged(
    survey: &Survey,
    repository: &Repository,
    options: &PruneOptions,
    dead: &[u32],
) -> Result<(BTreeSet<PartName>, BTreeSet<PartName>)> {
    let mut live = survey.view.segments();
    live.retain(|part| survey.view.embedded_segment(part).is_none());
    let count_min = options.segment_count_max.max(2);
    if live.len() < count_min {
        return Ok((BTreeSet::new(), BTreeSet::new()));
    }
    let DeadSegments { gone, going } = DeadSegments::of(survey, &live, dead);
    live.retain(|part| !gone.contains(part) && !going.contains(part));
    let small_len = (options.merged_hints_max / 2).saturating_mul(HINT_LEN) as u64;
    let listed = repository.list_objects(ObjectKind::Segment)?.into_iter();
    let small: HashSet<ObjectName> =
        listed.filter(|(_, len)| *len < small_len).map(|(name, _)| name).collect();
    let interrupted = published_by_voids(&survey.view);
    live.retain(|part| small.contains(&ObjectName::Segment(*part)) || interrupted.contains(part));
    Ok(if live.len() < count_min { (BTreeSet::new(), gone) } else { (live, gone) })
}

/// P5: divides the segments that lie in the commits which this prune takes, and that count: those
/// that name anything but `condemned` containers are merged, because they go with their commits.
/// Also returns the others, which are spent.
pub(super) fn divide_embedded(
    survey: &Survey,
    condemned: &[(Class, PartName)],
) -> (BTreeSet<PartName>, BTreeSet<PartName>) {
    let mut all_condemned: HashSet<(Class, PartName)> = survey.view.condemned();
    all_condemned.extend(condemned);
    let (mut merged, mut spent) = (BTreeSet::new(), BTreeSet::new());
    for part in survey.view.segments() {
        let is_taken = survey.forgotten.contains(&part.ticket);
        let Some(segment) = survey.view.embedded_segment(&part).filter(|_| is_taken) else {
            continue;
        };
        let mut names = segment.containers.iter().map(|each| (each.class, each.name));
        if names.all(|name| all_condemned.contains(&name)) {
            spent.insert(part);
        } else if rules::must_merge_embedded() {
            merged.insert(part);
        }
    }
    (merged, spent)
}

/// Returns the segments that only voids have published.
fn published_by_voids(view: &View) -> HashSet<PartName> {
    let voids =
        view.commits.values().filter(|commit| matches!(commit.outcome, Outcome::Void { .. }));
    let mut segments: HashSet<PartName> = voids.flat_map(|void| &void.segments).copied().collect();
    for published in view.prunes.values().flat_map(|prune| &prune.published) {
        segments.remove(published);
    }
    segments
}

/// Publishes the contents of the `merged` segments in new ones of about `hints_max` hints. All
/// existing containers are named, condemned or not, because readers and sweeps find them by these
/// segments.
///
/// # Errors
///
/// Returns any error of the storage.
pub(super) fn merge_segments(
    inline: &mut Inline,
    survey: &Survey,
    merged: &BTreeSet<PartName>,
    hints_max: usize,
) -> Result<MergedSegments> {
    let repository = inline.writer().repository().clone();
    let condemned = survey.view.condemned();
    let mut named: HashSet<(Class, PartName)> = HashSet::new();
    let mut result = MergedSegments::default();
    let (mut open, mut covered) = (Segment::default(), Vec::new());
    let (embedded, objects): (Vec<PartName>, Vec<PartName>) =
        merged.iter().partition(|part| survey.view.embedded_segment(part).is_some());
    let lens: HashMap<ObjectName, u64> = match objects.is_empty() {
        true => HashMap::new(),
        false => repository.list_objects(ObjectKind::Segment)?.into_iter().collect(),
    };
    let len = |name| lens.get(&name).copied().unwrap_or(ObjectKind::Segment.len_max());
    let names = objects.iter().map(|part| ObjectName::Segment(*part));
    let wanted: Vec<(ObjectName, u64)> = names.map(|name| (name, len(name))).collect();
    let mut take = |part: PartName, segment: &Segment| {
        let is_new = |container: &ContainerRecord| {
            let name = (container.class, container.name);
            let is_there = survey.there.contains_key(&name);
            result.is_incomplete |= !is_there && !condemned.contains(&name);
            is_there && named.insert(name)
        };
        open.append(&only(segment, is_new));
        covered.push(part);
        if open.hints.len() >= hints_max {
            let covered = std::mem::take(&mut covered);
            let segment = inline.publish_existing(std::mem::take(&mut open))?;
            result.coverings.extend(segment.map(|segment| Covering { segment, covered }));
        }
        Ok(())
    };
    for part in embedded {
        if let Some(segment) = survey.view.embedded_segment(&part) {
            take(part, segment)?;
        }
    }
    repository.get_many(&wanted, |name, bytes| {
        let ObjectName::Segment(part) = name else { return Ok(()) };
        let (_, segment) = repository.open_bytes(name, &bytes?, Segment::decode)?;
        take(part, &segment)
    })?;
    if !open.containers.is_empty() {
        let segment = inline.publish_existing(open)?;
        result.coverings.extend(segment.map(|segment| Covering { segment, covered }));
    } else if let Some(last) = result.coverings.last_mut() {
        // Other segments say all that these did.
        last.covered.extend(covered);
    }
    Ok(result)
}

/// Returns the containers of a segment that `accepts` admits, with their hints.
fn only(segment: &Segment, mut accepts: impl FnMut(&ContainerRecord) -> bool) -> Segment {
    let mut some = Segment::default();
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    // A segment counts its containers by 32 bits, and a part of it has no more.
    let accepted = (0_u32..).zip(&segment.containers).filter(|(_, container)| accepts(container));
    for (new, (number, container)) in (0_u32..).zip(accepted) {
        numbers.insert(number, new);
        some.containers.push(*container);
    }
    let hints = segment.hints.iter();
    some.hints = hints.filter_map(|(hint, number)| Some((*hint, *numbers.get(number)?))).collect();
    some
}
