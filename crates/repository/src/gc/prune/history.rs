//! P6 and P7: commits that are only history, which a record takes along, and what they attest.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::format::commit::{Commit, Outcome};
use crate::format::names::{ObjectName, TicketId};
use crate::format::prune::Prune;
use crate::repo::view::View;
use crate::rules;

/// Minimum number of commits for which a record is put that takes nothing else.
const COMMITS_MIN: usize = 64;

/// The commits that a record takes because they have no effect any more.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The commits.
    pub(super) commits: BTreeSet<TicketId>,
    /// The numbers of the records of which `commits` say that they were swept.
    pub(super) swept: BTreeSet<u64>,
}

impl History {
    /// P6: finds the commits in `view` that have no effect once the snapshots `forgotten` are taken.
    pub(super) fn new(view: &View, forgotten: &BTreeSet<TicketId>) -> History {
        let (taken, live) = (view.taken(), view.segments());
        let is_taken = |id: &TicketId| taken.contains(id) || forgotten.contains(id);
        let mut history = History::default();
        for (id, commit) in view.commits.iter().filter(|(id, _)| !taken.contains(id)) {
            let is_history = match &commit.outcome {
                Outcome::Snapshot(_) | Outcome::Damage(_) => false,
                // A segment of a prune that was ended names containers of others, and stays with the
                // void, so that all segments that a record takes over name those of their writer.
                Outcome::Void { is_own } => {
                    let is_published = commit.segments.iter().any(|part| live.contains(part));
                    rules::may_take_void(*is_own) && !is_published
                }
                Outcome::Forget(ids) => rules::may_take_forget(ids.iter().all(is_taken)),
                Outcome::Note(note) => note.snapshot.as_ref().is_some_and(is_taken),
                Outcome::Rescue => true,
                Outcome::Swept(number) => rules::may_take_swept(!has_taken_commits(view, *number)),
            };
            if !is_history {
                continue;
            }
            history.commits.insert(*id);
            if let Outcome::Swept(number) = commit.outcome
                && rules::must_record_swept()
            {
                history.swept.insert(number);
            }
        }
        history
    }

    /// Returns `true` if the commits alone are worth a record.
    pub(super) fn is_long(&self) -> bool {
        self.commits.len() >= COMMITS_MIN
    }
}

/// Returns `true` if a commit exists that the record of this number has taken.
fn has_taken_commits(view: &View, number: u64) -> bool {
    let exists = |id: &TicketId| {
        view.commits.contains_key(id) || view.unreadable.contains_key(&ObjectName::Commit(*id))
    };
    view.prunes.get(&number).is_some_and(|record| record.taken.iter().any(exists))
}

/// P7: returns the commits that only the commits `taken` have recorded as seen, in ascending order.
/// No object would say that these had existed when those are deleted.
pub(super) fn attested(view: &View, taken: &BTreeSet<TicketId>) -> Vec<TicketId> {
    if !rules::must_attest() {
        return Vec::new();
    }
    let taken_before = view.taken();
    let is_taken = |id: &TicketId| taken.contains(id) || taken_before.contains(id);
    let new = |commit: &Commit| commit.view.new.clone();
    let stays = view.commits.iter().filter(|(id, _)| !is_taken(id));
    let mut named: HashSet<TicketId> = stays.flat_map(|(_, commit)| new(commit)).collect();
    named.extend(view.prunes.values().flat_map(|prune| &prune.attested));
    let lost = taken.iter().filter_map(|id| view.commits.get(id)).flat_map(|commit| new(commit));
    let lost: BTreeSet<TicketId> = lost.filter(|id| !is_taken(id) && !named.contains(id)).collect();
    lost.into_iter().collect()
}

/// The marked snapshots of a record, relative to those of an earlier one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// The number of the earlier record.
    pub(super) base: Option<u64>,
    /// The snapshots that are marked, besides those of the earlier record.
    pub(super) marked: Vec<TicketId>,
    /// The snapshots that the earlier record had marked and that are not marked.
    pub(super) unmarked: Vec<TicketId>,
}

impl Marks {
    /// Encodes that exactly the snapshots `marked` are marked, by the differences from the last
    /// record that marks any, if there are fewer differences than snapshots.
    pub(super) fn new(view: &View, marked: &[TicketId]) -> Marks {
        let marks = |(number, record): (&u64, &Arc<Prune>)| {
            let has_marks = record.marked_base.is_some() || !record.marked.is_empty();
            has_marks.then_some(*number)
        };
        let all = || Marks { marked: marked.to_vec(), ..Marks::default() };
        let Some(base) = view.prunes.iter().rev().find_map(marks) else { return all() };
        let before: BTreeSet<TicketId> = view.marked_by(base).into_iter().collect();
        let now: BTreeSet<TicketId> = marked.iter().copied().collect();
        let difference = Marks {
            base: Some(base),
            marked: now.difference(&before).copied().collect(),
            unmarked: before.difference(&now).copied().collect(),
        };
        let is_shorter = difference.marked.len() + difference.unmarked.len() < marked.len();
        if is_shorter { difference } else { all() }
    }
}
