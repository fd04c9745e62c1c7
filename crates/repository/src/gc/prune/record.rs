//! P5: what the record of a prune publishes, and its judgement when other clients were faster.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::survey::Survey;
use crate::format::names::{PartName, TicketId};
use crate::format::prune::Prune;

/// Returns the segments that commits of the taken snapshots had published. They are published
/// again, because these commits will be deleted. The `superseded` segments are left out.
pub(super) fn segments_of_taken(survey: &Survey, superseded: &BTreeSet<PartName>) -> Vec<PartName> {
    let live = survey.view.segments();
    let mut segments = Vec::new();
    for snapshot in &survey.forgotten {
        let named = survey.view.commits.get(snapshot).map(|commit| commit.segments.as_slice());
        let named = named.unwrap_or_default().iter();
        segments.extend(
            named.filter(|segment| live.contains(segment) && !superseded.contains(segment)),
        );
    }
    segments
}

/// Returns the record that may take the next number although the records `faster` took theirs, or
/// `None` if one of them concerns what this prune relies on: the snapshots `forgotten` that it
/// takes, and the containers that exist.
pub(super) fn judge(
    forgotten: &BTreeSet<TicketId>,
    faster: &[Arc<Prune>],
    record: Prune,
) -> Option<Prune> {
    let is_harmless = |each: &Prune| {
        let concerns = |ids: &[TicketId]| ids.iter().any(|id| forgotten.contains(id));
        each.condemned.is_empty()
            && each.forgotten.is_empty()
            && each.unforgotten.is_empty()
            && !concerns(&each.held)
    };
    // If another prune has merged segments meanwhile, these are left for its record to supersede.
    let superseded = Vec::new();
    faster.iter().all(|each| is_harmless(each)).then_some(Prune { superseded, ..record })
}
