//! P5: what the record of a prune publishes, and its judgement when other clients were faster.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::merge::MergedSegments;
use super::survey::Survey;
use crate::format::names::{PartName, TicketId};
use crate::format::prune::Prune;
use crate::rules;

/// Returns the segments that the `taken` commits had published. They are published again, because
/// these commits will be deleted. The `superseded` segments are left out, and those that lie in the
/// commits themselves, which are no objects.
pub(super) fn segments_of_taken(
    survey: &Survey,
    taken: &BTreeSet<TicketId>,
    superseded: &BTreeSet<PartName>,
) -> Vec<PartName> {
    let live = survey.view.segments();
    let mut segments = Vec::new();
    for id in taken {
        let named = survey.view.commits.get(id).map(|commit| commit.segments.as_slice());
        let named = named.unwrap_or_default().iter();
        segments.extend(
            named
                .filter(|segment| live.contains(segment) && !superseded.contains(segment))
                .filter(|segment| survey.view.embedded_segment(segment).is_none()),
        );
    }
    segments
}

/// Returns the record that may take the next number although the records `faster` took theirs, or
/// `None` if one of them concerns what this prune relies on: the snapshots that it takes, and the
/// containers that exist. The same holds if one has superseded a segment that this prune has merged
/// with segments which go with the taken commits.
pub(super) fn judge(
    survey: &Survey,
    merged: &MergedSegments,
    faster: &[Arc<Prune>],
    record: Prune,
) -> Option<Prune> {
    let is_harmless = |each: &Prune| {
        let concerns = |ids: &[TicketId]| ids.iter().any(|id| survey.forgotten.contains(id));
        each.condemned.is_empty()
            && each.taken.is_empty()
            && each.unforgotten.is_empty()
            && !concerns(&each.held)
    };
    if !faster.iter().all(|each| is_harmless(each)) {
        return None;
    }
    let superseded: HashSet<PartName> = record.superseded.iter().copied().collect();
    let mut others = faster.iter().flat_map(|each| &each.superseded);
    let is_merged_elsewhere = others.any(|part| superseded.contains(part));
    if is_merged_elsewhere && !merged.embedded.is_empty() {
        return None;
    }
    Some(if is_merged_elsewhere { without_merge(survey, merged, record) } else { record })
}

/// Withdraws the merge of segments from a record, because other clients have merged some of them.
/// The merged segments count nowhere, and the next sweep deletes them.
fn without_merge(survey: &Survey, merged: &MergedSegments, record: Prune) -> Prune {
    let own: BTreeSet<PartName> = merged.coverings.iter().map(|each| each.segment).collect();
    let mut published = record.published;
    published.retain(|part| !own.contains(part));
    let taken: BTreeSet<TicketId> = record.taken.iter().copied().collect();
    let again = segments_of_taken(survey, &taken, &BTreeSet::new());
    published.extend(again.into_iter().filter(|part| rules::must_republish(own.contains(part))));
    published.sort_unstable();
    published.dedup();
    let superseded = own.into_iter().collect();
    Prune { published, superseded, coverings: Vec::new(), ..record }
}
