//! The segments of a view, and the older ones that they cover.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::format::commit::Commit;
use crate::format::names::{PartName, TicketId};
use crate::format::prune::Covering;
use crate::format::segment::Segment;
use crate::repo::view::View;

/// The segments that count in a view, and what their records say of their origin.
///
/// The hints of a merged segment come from the segments that it covers. A client that has the runs
/// of these does not read the merged one. It may go on using all of their hints: each leads to a
/// container that a segment of the view names, or to one that the view condemns.
#[derive(Debug, Default)]
pub(super) struct Segments {
    live: BTreeSet<PartName>,
    /// The coverings of live segments and of those that are covered, each behind the coverings of
    /// the segments that it covers.
    coverings: Vec<Covering>,
    covered: HashSet<PartName>,
    /// Segments all of whose containers are condemned, and whose commits may be gone.
    spent: HashSet<PartName>,
    /// The commits in which segments lie.
    commits: HashMap<TicketId, Arc<Commit>>,
}

impl Segments {
    /// Returns the segments of `view`.
    pub(super) fn new(view: &View) -> Segments {
        let (live, mut coverings, mut covered) = (view.segments(), Vec::new(), HashSet::new());
        // A record covers only segments that earlier ones or commits have published.
        for covering in view.coverings().rev() {
            if live.contains(&covering.segment) || covered.contains(&covering.segment) {
                covered.extend(covering.covered.iter().copied());
                coverings.push(covering.clone());
            }
        }
        coverings.reverse();
        let spent = view.spent_segments().copied().collect();
        let commits = view.commits.iter().filter(|(_, commit)| commit.embedded.is_some());
        let commits = commits.map(|(id, commit)| (*id, commit.clone())).collect();
        Segments { live, coverings, covered, spent, commits }
    }

    /// Returns the segments that count.
    pub(super) fn live(&self) -> &BTreeSet<PartName> {
        &self.live
    }

    /// Returns `true` if the hints of a segment may be used: the segment counts, or is covered by
    /// one that counts, or leads only to containers that the view condemns.
    pub(super) fn is_usable(&self, segment: &PartName) -> bool {
        [&self.covered, &self.spent].iter().any(|usable| usable.contains(segment))
            || self.live.contains(segment)
    }

    /// Returns the body of a segment that lies in a commit.
    pub(super) fn embedded(&self, segment: &PartName) -> Option<&Segment> {
        self.commits.get(&segment.ticket)?.embedded_segment(segment)
    }

    /// Adds to `available` the segments all of whose hints are in `available` ones.
    pub(super) fn complete(&self, available: &mut HashSet<PartName>) {
        for Covering { segment, covered } in &self.coverings {
            if covered.iter().all(|part| available.contains(part)) {
                available.insert(*segment);
            }
        }
    }

    /// Returns the segments that are covered by those in `runs`, directly or by others between
    /// them. Segments that count are left out.
    pub(super) fn superfluous(&self, runs: &HashSet<PartName>) -> HashSet<PartName> {
        let mut superfluous = HashSet::new();
        for Covering { segment, covered } in self.coverings.iter().rev() {
            if runs.contains(segment) || superfluous.contains(segment) {
                superfluous.extend(covered.iter().filter(|part| !self.live.contains(part)));
            }
        }
        superfluous
    }

    /// Returns the segments that a merged one covers, by the merged one.
    pub(super) fn origins(&self) -> HashMap<PartName, &[PartName]> {
        let coverings = self.coverings.iter();
        coverings.map(|covering| (covering.segment, covering.covered.as_slice())).collect()
    }
}
