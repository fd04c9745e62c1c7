//! The snapshots of a view: which exist, which a writer may reuse, and the notes about them.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::View;
use crate::format::commit::{Note, Outcome, Snapshot};
use crate::format::names::TicketId;
use crate::rules;

impl View {
    /// Returns the union of F over all prunes: the snapshots that are gone for good, and the commits
    /// that were taken with them (P6).
    pub fn taken(&self) -> HashSet<TicketId> {
        self.prunes.values().flat_map(|prune| prune.taken.iter().copied()).collect()
    }

    /// Returns the `forget` commits that no record has cancelled, and the snapshots that each
    /// names.
    pub fn forgets(&self) -> Vec<(TicketId, &[TicketId])> {
        let cancelled: HashSet<_> =
            self.prunes.values().flat_map(|prune| prune.unforgotten.iter().copied()).collect();
        let commits = self.commits.iter().filter(|(id, _)| !cancelled.contains(id));
        commits
            .filter_map(|(id, commit)| match &commit.outcome {
                Outcome::Forget(snapshots) => Some((*id, snapshots.as_slice())),
                _ => None,
            })
            .collect()
    }

    /// Returns the snapshots that a `forget` has removed from the lists.
    pub fn forgotten(&self) -> HashSet<TicketId> {
        self.forgets().into_iter().flat_map(|(_, snapshots)| snapshots.iter().copied()).collect()
    }

    /// Returns the snapshots that are held: no rule forgets them, and no prune takes them.
    pub fn held(&self) -> HashSet<TicketId> {
        let mut held = HashSet::new();
        // A later record overrides an earlier one, whatever the clocks of the writers said.
        for prune in self.prunes.values() {
            for snapshot in &prune.released {
                held.remove(snapshot);
            }
            held.extend(&prune.held);
        }
        held
    }

    /// Returns the snapshots that a prune may take (F, rule P2): forgotten, not held, not taken
    /// before.
    pub fn takeable(&self) -> BTreeSet<TicketId> {
        let held = self.held();
        let forgotten = self.forgotten_snapshots().into_iter().map(|(id, _)| id);
        forgotten.filter(|id| !held.contains(id)).collect()
    }

    /// Returns `true` if a writer with this view may reuse the contents of `snapshot` unread (W3):
    /// the snapshot is in the view, and no prune has taken it.
    pub fn may_take_over(&self, snapshot: TicketId) -> bool {
        let is_snapshot = self.commits.get(&snapshot).is_some_and(|c| c.snapshot().is_some());
        is_snapshot && rules::may_take_over(self.taken().contains(&snapshot))
    }

    /// Returns `true` if a backup with this view may compare with `snapshot` and reuse files unread
    /// (W3): [`View::may_take_over`] holds, and neither the snapshot nor one that it was itself
    /// compared with is sealed with a key epoch that is over. A client that was locked out by a new
    /// epoch can still write with the keys of the old one, and contents reused unread would become
    /// part of an honest snapshot.
    pub fn may_be_parent(&self, snapshot: TicketId) -> bool {
        if !self.may_take_over(snapshot) {
            return false;
        }
        if rules::may_compare_with_old_epoch() {
            return true;
        }
        let mut seen = HashSet::new();
        let mut next = Some(snapshot);
        while let Some(id) = next.filter(|id| seen.insert(*id)) {
            // A commit that a sweep has deleted cannot be examined any more.
            let Some(commit) = self.commits.get(&id) else { break };
            if self.epoch_of(id) < self.epoch {
                return false;
            }
            next = commit.snapshot().and_then(|snapshot| snapshot.parent);
        }
        true
    }

    /// Returns the snapshots that exist, oldest first: those in no F, and not forgotten.
    pub fn snapshots(&self) -> Vec<(TicketId, &Snapshot)> {
        let forgotten = self.forgotten();
        self.untaken(|id| !forgotten.contains(id))
    }

    /// Returns the snapshots that are forgotten and can be brought back, oldest first: those in no
    /// F.
    pub fn forgotten_snapshots(&self) -> Vec<(TicketId, &Snapshot)> {
        let forgotten = self.forgotten();
        self.untaken(|id| forgotten.contains(id))
    }

    /// Returns the snapshots that no prune has taken and that `passes` accepts, oldest first.
    fn untaken(&self, passes: impl Fn(&TicketId) -> bool) -> Vec<(TicketId, &Snapshot)> {
        let taken = self.taken();
        let mut snapshots: Vec<_> = self
            .commits
            .iter()
            .filter(|(id, _)| !taken.contains(id) && passes(id))
            .filter_map(|(id, commit)| Some((*id, commit.snapshot()?)))
            .collect();
        snapshots.sort_by_key(|(id, snapshot)| (snapshot.started_ns, *id));
        snapshots
    }

    /// Returns the current tags of a snapshot, which a note can have changed.
    pub fn tags<'a>(&'a self, id: TicketId, snapshot: &'a Snapshot) -> &'a [String] {
        self.note(id).map_or(&snapshot.tags, |note| &note.tags)
    }

    /// Returns the current description of a snapshot, which a note can have changed.
    pub fn description<'a>(&'a self, id: TicketId, snapshot: &'a Snapshot) -> &'a str {
        self.note(id).map_or(&snapshot.description, |note| &note.description)
    }

    /// Returns the newest note with tags and description of a snapshot. Of concurrent notes, the
    /// one with the greatest ticket wins.
    pub fn note(&self, snapshot: TicketId) -> Option<&Note> {
        self.notes(snapshot).last().map(|(_, note)| *note)
    }

    /// Returns the notes about a snapshot that no other note has replaced, sorted by ticket.
    pub fn notes(&self, snapshot: TicketId) -> Vec<(TicketId, &Note)> {
        let of_snapshot = self.notes.get_or_init(|| self.find_notes());
        let ids = of_snapshot.get(&snapshot).into_iter().flatten();
        let notes = ids.filter_map(|id| match &self.commits.get(id)?.outcome {
            Outcome::Note(note) => Some((*id, note)),
            _ => None,
        });
        let notes: Vec<(TicketId, &Note)> = notes.collect();
        let replaced: HashSet<_> =
            notes.iter().flat_map(|(_, note)| note.replaces.iter().copied()).collect();
        notes.into_iter().filter(|(id, _)| !replaced.contains(id)).collect()
    }

    /// Returns the notes about each snapshot, sorted by ticket.
    fn find_notes(&self) -> HashMap<TicketId, Vec<TicketId>> {
        let mut found: HashMap<TicketId, Vec<TicketId>> = HashMap::new();
        for (id, commit) in &self.commits {
            if let Outcome::Note(Note { snapshot: Some(snapshot), .. }) = &commit.outcome {
                found.entry(*snapshot).or_default().push(*id);
            }
        }
        found
    }
}
