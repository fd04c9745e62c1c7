//! Views: what a writer or reader has seen of commits and prunes. Nothing counts but by a view.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use crate::error::{Error, Kind, Newer, Result, Tolerance};
use crate::fingerprint::{Class, Fingerprint};
use crate::format::commit::{Commit, Damage, Note, Outcome, Snapshot, ViewRecord};
use crate::format::prune::Prune;
#[cfg(feature = "mutants")]
use crate::mutant::{self, Mutant};
use crate::name::{ObjectKind, ObjectName, PartName, TicketId};
use crate::repository::Repository;

/// So many missing prune records are named: a number can be anything.
const MISSING_MAX: usize = 1000;

/// Every commit and every prune record that one listing found.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// How writers ended.
    pub commits: BTreeMap<TicketId, Arc<Commit>>,
    /// What was condemned and published.
    pub prunes: BTreeMap<u64, Arc<Prune>>,
    /// Commits and prune records that are there, and cannot be read. What they say is not in the
    /// view: readers do without it, and say so. A writer does without commits, but not without
    /// prunes ([`View::require_prunes`]); what deletes needs all of them ([`View::whole`]).
    pub unreadable: BTreeMap<ObjectName, Arc<Error>>,
    /// Lost prune records that a repair is about to give up.
    accepted: BTreeSet<u64>,
    /// Prune records that were given up, as the records say, those among them that were given up too.
    given_up: BTreeSet<u64>,
    /// The key epoch with which each commit is sealed.
    pub epochs: BTreeMap<TicketId, u32>,
    /// The key epoch of the settings by which the view was read; 0 where it was not read.
    pub epoch: u32,
    /// Whether what claims a newer key epoch counts as junk
    /// ([`crate::repository::OpenOptions::ignores_newer`]).
    pub ignores_newer: bool,
}

/// Whose containers may be named by nothing but what cannot be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hidden {
    writers: BTreeSet<TicketId>,
    is_anybody: bool,
}

impl Hidden {
    /// Whether something that cannot be read may name containers of `writer`.
    pub(crate) fn may_name(&self, writer: TicketId) -> bool {
        self.is_anybody || self.writers.contains(&writer)
    }
}

impl View {
    /// Lists and reads commits, then prunes. One that cannot be read does not stop the others: it
    /// is in [`View::unreadable`].
    ///
    /// # Errors
    ///
    /// Where the medium does not list, or fails for so many objects that it is to blame itself.
    pub fn list(repository: &Repository) -> Result<View> {
        View::default().list_again(repository)
    }

    /// Lists again; what was read before is not read again.
    ///
    /// # Errors
    ///
    /// As [`View::list`].
    pub fn list_again(&self, repository: &Repository) -> Result<View> {
        let mut view = View {
            epoch: repository.keys().epoch(),
            ignores_newer: repository.ignores_newer(),
            ..View::without(self.accepted.clone())
        };
        let mut tolerance = Tolerance::default();
        let mut gone = Vec::new();
        for (path, len) in repository.media().list(ObjectKind::Commit.folder())? {
            let Ok(name @ ObjectName::Commit(ticket)) = ObjectName::parse(&path) else { continue };
            let known = self.commits.get(&ticket);
            let (epoch, commit) = match known {
                Some(commit) => (self.epoch_of(ticket), commit.clone()),
                None => match repository.read_listed(name, len, Commit::decode) {
                    Ok((epoch, commit)) => (epoch, Arc::new(commit)),
                    Err(error) if error.kind() == Kind::Missing => {
                        gone.push((ticket, error));
                        continue;
                    }
                    Err(error) => {
                        view.unreadable.insert(name, Arc::new(tolerance.of_one(error)?));
                        continue;
                    }
                },
            };
            view.commits.insert(ticket, commit);
            view.epochs.insert(ticket, epoch);
        }
        for (path, len) in repository.media().list(ObjectKind::Prune.folder())? {
            let Ok(name @ ObjectName::Prune(number)) = ObjectName::parse(&path) else { continue };
            let prune = match self.prunes.get(&number) {
                Some(prune) => prune.clone(),
                None => match repository.read_listed(name, len, Prune::decode) {
                    Ok((_, prune)) => Arc::new(prune),
                    Err(error) => {
                        view.unreadable.insert(name, Arc::new(tolerance.of_one(error)?));
                        continue;
                    }
                },
            };
            view.prunes.insert(number, prune);
        }
        view.drop_given_up();
        // A sweep may delete a commit between the listing and now, but none that no record has taken:
        // such a one is there, and only this storage says otherwise.
        let taken = view.taken();
        for (ticket, error) in gone.into_iter().filter(|(ticket, _)| !taken.contains(ticket)) {
            view.unreadable.insert(ObjectName::Commit(ticket), Arc::new(error));
        }
        view.look_by_name(repository, &mut tolerance)?;
        Ok(view)
    }

    /// Commits and prune records that others have seen, and that are not in this view.
    pub(crate) fn missed(&self) -> Vec<ObjectName> {
        let commits = self.gone_commits().into_iter().map(ObjectName::Commit);
        commits.chain(self.missing_prunes().into_iter().map(ObjectName::Prune)).collect()
    }

    /// Reads what the listings lack though others have seen it: a listing may lag, pass over what came
    /// during it, or have lost an entry. What is there by its name is there.
    fn look_by_name(&mut self, repository: &Repository, tolerance: &mut Tolerance) -> Result<()> {
        let mut asked: BTreeSet<ObjectName> = BTreeSet::new();
        loop {
            let mut names = self.missed();
            names.retain(|name| !asked.contains(name));
            if names.is_empty() {
                return Ok(());
            }
            for name in names {
                asked.insert(name);
                let len_max = name.kind().len_max();
                let read = match name {
                    ObjectName::Commit(ticket) => {
                        let read = repository.read_listed(name, len_max, Commit::decode);
                        read.map(|(epoch, commit)| {
                            self.commits.insert(ticket, Arc::new(commit));
                            self.epochs.insert(ticket, epoch);
                        })
                    }
                    ObjectName::Prune(number) => {
                        let read = repository.read_listed(name, len_max, Prune::decode);
                        read.map(|(_, prune)| drop(self.prunes.insert(number, Arc::new(prune))))
                    }
                    _ => Ok(()),
                };
                match read {
                    Err(error) if error.kind() != Kind::Missing => {
                        self.unreadable.insert(name, Arc::new(tolerance.of_one(error)?));
                    }
                    _ => {}
                }
            }
            self.drop_given_up();
        }
    }

    /// An empty view to which the prune records of these numbers, which are lost, do not count.
    pub(crate) fn without(lost: BTreeSet<u64>) -> View {
        View { accepted: lost, ..View::default() }
    }

    /// The numbers of prune records that are lost and were given up.
    pub fn given_up_prunes(&self) -> BTreeSet<u64> {
        let mut given_up = self.recorded_as_given_up();
        given_up.extend(&self.accepted);
        given_up
    }

    /// As [`View::given_up_prunes`], without those that are only about to be given up.
    pub(crate) fn recorded_as_given_up(&self) -> BTreeSet<u64> {
        let given_up = self.prunes.values().flat_map(|prune| prune.given_up.iter().copied());
        given_up.chain(self.given_up.iter().copied()).collect()
    }

    /// A record that was given up counts no more, even if it can be read again: what it condemned may
    /// have been referred to since.
    pub(crate) fn drop_given_up(&mut self) {
        #[cfg(feature = "mutants")]
        if mutant::is_active(Mutant::CountsGivenUp) {
            return;
        }
        self.given_up = self.recorded_as_given_up();
        let given_up = self.given_up_prunes();
        self.prunes.retain(|number, _| !given_up.contains(number));
    }

    /// The highest number of a prune record that is there and can be read, or that a writer has seen.
    pub(crate) fn highest_prune(&self) -> u64 {
        let seen = self.commits.values().map(|commit| commit.view.prune);
        seen.chain(self.prunes.keys().copied()).max().unwrap_or(0)
    }

    /// The first prune records that are not there, though later ones are, or writers have seen them.
    /// None is ever deleted.
    pub fn missing_prunes(&self) -> Vec<u64> {
        let unreadable = |number| self.unreadable.contains_key(&ObjectName::Prune(number));
        let given_up = self.given_up_prunes();
        (1..=self.highest_prune())
            .filter(|number| !self.prunes.contains_key(number) && !unreadable(*number))
            .filter(|number| !given_up.contains(number))
            .take(MISSING_MAX)
            .collect()
    }

    /// Whether nothing claims a key epoch above that of the settings. A writer that begins and has been
    /// shown the settings and keys of before would else seal with a secret that was given up. A writer
    /// that is at work when an epoch begins goes on with its own.
    ///
    /// # Errors
    ///
    /// `WrongKey` ([`Error::is_of_newer_epoch`]), naming the first that does.
    pub fn require_epoch(&self) -> Result<()> {
        #[cfg(feature = "mutants")]
        if mutant::is_active(Mutant::WritesBelowEpoch) {
            return Ok(());
        }
        let newer = |error: &Error| match error.newer() {
            Some(newer @ Newer::Epoch(_)) => Some(newer),
            _ => None,
        };
        let found = self.unresolved().filter_map(|(name, error)| Some((name, newer(error)?)));
        let found: Vec<(&ObjectName, Newer)> = found.collect();
        let Some((name, newer)) = found.first().filter(|_| !self.ignores_newer) else {
            return Ok(());
        };
        let others = match found.len() {
            1 => String::new(),
            count => format!(" (and so do {} others)", count - 1),
        };
        Err(Error::new(
            Kind::WrongKey,
            name,
            format!(
                "says that it is sealed with a key of epoch {}{others}, but settings and keys are of \
                 epoch {}: nothing is written with a key that may have been given up. Either older \
                 settings and keys were put back, or the object was planted; --ignore-newer goes on",
                match newer {
                    Newer::Epoch(epoch) => epoch.to_string(),
                    other => other.to_string(),
                },
                self.epoch
            ),
        )
        .with_source(*newer))
    }

    /// The key epoch with which a commit is sealed; 0 where that is not known.
    pub fn epoch_of(&self, commit: TicketId) -> u32 {
        self.epochs.get(&commit).copied().unwrap_or(0)
    }

    /// Whether every prune record is there and could be read. A writer that does not know what is
    /// condemned would refer to what is about to be deleted.
    ///
    /// # Errors
    ///
    /// Naming the first that could not: `Corrupt`, or `Media` where the storage failed; `Missing`.
    pub fn require_prunes(&self) -> Result<()> {
        if let Some(number) = self.missing_prunes().first() {
            return Err(Error::missing(
                ObjectName::Prune(*number),
                "is not there, and nothing can be written safely without it; what is there can be \
                 restored; `cutpoint check` says how to go on",
            ));
        }
        let prune = self.unresolved().find(|(name, _)| name.kind() == ObjectKind::Prune);
        match prune {
            None => Ok(()),
            Some((name, error)) => Err(hindered(
                name,
                error,
                "nothing can be written safely without it; what is there can be restored",
            )),
        }
    }

    /// This view, or a newer one where something seems to be missing: it may have come while this
    /// one was listed. Nothing of it is unreadable, and nothing is gone that somebody has seen, but
    /// commits that a prune has taken, or a repair has given up. Only by such a view anything may be
    /// deleted, or forgotten by rules: what is not known may be a snapshot, or what has forgotten one
    /// that a rule would keep in the place of another.
    ///
    /// # Errors
    ///
    /// Naming the first that is: `Corrupt`, `Media` where the storage failed, or `Missing`; as
    /// [`View::list`].
    pub fn whole(self, repository: &Repository) -> Result<View> {
        if self.require_all().is_ok() {
            return Ok(self);
        }
        let view = self.list_again(repository)?;
        view.require_all().map(|()| view)
    }

    /// What is in [`View::unreadable`] and still counts: not the commits that a prune has taken or a
    /// repair has given up, nor prune records that were given up: nothing needs them any more. Every command that tells what it cannot
    /// read, and every one that stops for it, goes by this list, so that none is alarmed where
    /// another is not.
    pub fn unresolved(&self) -> impl Iterator<Item = (&ObjectName, &Arc<Error>)> {
        let (taken, given_up) = match self.unreadable.is_empty() {
            true => (HashSet::new(), BTreeSet::new()),
            false => (self.taken(), self.given_up_prunes()),
        };
        self.unreadable.iter().filter(move |(name, _)| match name {
            ObjectName::Commit(id) => !taken.contains(id),
            ObjectName::Prune(number) => !given_up.contains(number),
            _ => true,
        })
    }

    /// The commits that some writer of this view has seen and that are gone, though no prune has taken
    /// them and no repair has given them up. One that came while this view was listed can seem to be
    /// gone: a newer view tells ([`View::look_for_gone`]).
    pub fn gone_commits(&self) -> BTreeSet<TicketId> {
        let taken = self.taken();
        let is_gone = |id: &TicketId| {
            !self.commits.contains_key(id)
                && !self.unreadable.contains_key(&ObjectName::Commit(*id))
                && !taken.contains(id)
        };
        self.seen().into_iter().filter(is_gone).collect()
    }

    /// As [`View::gone_commits`], each with an error for messages, for commands that only list: it looks
    /// again before it says so. A commit that came while this view was listed is in a newer one; of one
    /// that a prune has taken and a sweep deleted meanwhile the record is there, for records come before
    /// any deletion.
    ///
    /// # Errors
    ///
    /// As [`View::list`], only where any seems to be gone.
    pub fn look_for_gone(&self, repository: &Repository) -> Result<Vec<(ObjectName, Error)>> {
        if self.gone_commits().is_empty() {
            return Ok(Vec::new());
        }
        let message = "is gone, though others have seen it: a snapshot, or what has forgotten one, was \
                       deleted; put it back, or give it up by `cutpoint repair snapshots --forget`";
        let gone = self.list_again(repository)?.gone_commits().into_iter();
        Ok(gone.map(ObjectName::Commit).map(|name| (name, Error::missing(name, message))).collect())
    }

    fn require_all(&self) -> Result<()> {
        self.require_epoch()?;
        self.require_prunes()?;
        if let Some((name, error)) = self.unresolved().next() {
            return Err(hindered(
                name,
                error,
                "it is not known what is needed and what is forgotten; nothing is deleted, or \
                 forgotten by rules",
            ));
        }
        match self.gone_commits().first() {
            None => Ok(()),
            Some(ticket) => Err(Error::missing(
                ObjectName::Commit(*ticket),
                "is gone, though others have seen it: it is not known what is needed and what is \
                 forgotten; nothing is deleted, or forgotten by rules; put it back, or give it up \
                 by `cutpoint repair snapshots --forget`",
            )),
        }
    }

    /// What `unreadable` objects may name: segments and commits the containers of their writer;
    /// prune records, and the segments that they have published, those of anybody.
    pub(crate) fn hidden<'a>(
        &self,
        unreadable: impl IntoIterator<Item = &'a ObjectName>,
    ) -> Hidden {
        let mut hidden = Hidden::default();
        for name in unreadable {
            match name {
                ObjectName::Commit(ticket) => {
                    hidden.writers.insert(*ticket);
                }
                ObjectName::Segment(part) => {
                    hidden.writers.insert(part.ticket);
                    hidden.is_anybody |=
                        self.prunes.values().any(|prune| prune.published.contains(part));
                }
                ObjectName::Prune(_) => hidden.is_anybody = true,
                _ => {}
            }
        }
        hidden
    }

    /// The segments that count: named by a commit or a prune, and not superseded.
    ///
    /// Not what a void names that ended a writer whose lost commit was given up: the void goes with
    /// the next sweep, and no prune has published its segments anew.
    pub fn segments(&self) -> BTreeSet<PartName> {
        let mut segments: BTreeSet<PartName> = BTreeSet::new();
        let taken = self.taken();
        for (ticket, commit) in &self.commits {
            if commit.snapshot().is_some() || !taken.contains(ticket) {
                segments.extend(&commit.segments);
            }
        }
        for prune in self.prunes.values() {
            segments.extend(&prune.published);
        }
        for prune in self.prunes.values() {
            for segment in &prune.superseded {
                segments.remove(segment);
            }
        }
        segments
    }

    /// The containers that are going: never hit, read as long as they exist.
    pub fn condemned(&self) -> HashSet<(Class, PartName)> {
        self.prunes.values().flat_map(|prune| prune.condemned.iter().copied()).collect()
    }

    /// The records that a check found broken.
    pub fn damaged(&self) -> HashSet<Damage> {
        self.commits
            .values()
            .filter_map(|commit| match &commit.outcome {
                Outcome::Damage(damages) => Some(damages),
                _ => None,
            })
            .flatten()
            .copied()
            .collect()
    }

    /// The chunks that a check has found broken since the writer of `snapshot` took its view: that
    /// writer may have referred to them. Those found before it has stored again, or found elsewhere.
    pub fn damaged_since(&self, snapshot: TicketId) -> HashSet<Fingerprint> {
        let known = self.seen_by(snapshot);
        self.commits
            .iter()
            .filter(|(id, _)| !known.contains(id))
            .filter_map(|(_, commit)| match &commit.outcome {
                Outcome::Damage(damages) => Some(damages),
                _ => None,
            })
            .flatten()
            .map(|damage| damage.fingerprint)
            .collect()
    }

    /// The commits that some writer of this view has had in its own, whether they are there or not.
    pub fn seen(&self) -> BTreeSet<TicketId> {
        self.commits.values().flat_map(|commit| commit.view.new.iter().copied()).collect()
    }

    /// The commits that the writer of `of` had in its view, as far as that is certain.
    ///
    /// A commit names only what no other commit of its view names, so the rest follows from those; but
    /// one that could not be read then was not in the view, though others name it. The digest tells:
    /// where it disagrees, as it also does once a prune has taken commits, only those count that are
    /// named outright.
    fn seen_by(&self, of: TicketId) -> BTreeSet<TicketId> {
        let mut seen = BTreeSet::new();
        let Some(commit) = self.commits.get(&of) else { return seen };
        let mut open = vec![of];
        while let Some(id) = open.pop() {
            let Some(commit) = self.commits.get(&id) else { continue };
            open.extend(commit.view.new.iter().copied().filter(|new| seen.insert(*new)));
        }
        if digest(seen.iter()) != commit.view.digest {
            seen = commit.view.new.iter().copied().collect();
        }
        seen
    }

    /// F of all prunes: the snapshots that are gone for good.
    pub fn taken(&self) -> HashSet<TicketId> {
        self.prunes.values().flat_map(|prune| prune.forgotten.iter().copied()).collect()
    }

    /// The `forget` commits that no record has cancelled, and the snapshots that each names.
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

    /// The snapshots that a `forget` has taken off the lists.
    pub fn forgotten(&self) -> HashSet<TicketId> {
        self.forgets().into_iter().flat_map(|(_, snapshots)| snapshots.iter().copied()).collect()
    }

    /// The snapshots that are held: no rule forgets them, and no prune takes them.
    pub fn held(&self) -> HashSet<TicketId> {
        let mut held = HashSet::new();
        // A later record outdoes an earlier one, whatever their clocks said.
        for prune in self.prunes.values() {
            for snapshot in &prune.released {
                held.remove(snapshot);
            }
            held.extend(&prune.held);
        }
        held
    }

    /// The snapshots that a prune may take (F, rule P2): forgotten, not held, not taken before.
    pub fn takeable(&self) -> BTreeSet<TicketId> {
        let held = self.held();
        let forgotten = self.forgotten_snapshots().into_iter().map(|(id, _)| id);
        forgotten.filter(|id| !held.contains(id)).collect()
    }

    /// Whether a writer with this view may take over unread what `snapshot` holds (W3): it is in
    /// the view, and no prune has taken it.
    pub fn may_take_over(&self, snapshot: TicketId) -> bool {
        let is_snapshot = self.commits.get(&snapshot).is_some_and(|c| c.snapshot().is_some());
        #[cfg(feature = "mutants")]
        if mutant::is_active(Mutant::TakesOverTaken) {
            return is_snapshot;
        }
        is_snapshot && !self.taken().contains(&snapshot)
    }

    /// Whether a backup with this view may compare with `snapshot` and take files over unread (W3): it
    /// may be taken over, and neither it nor a snapshot that it was itself compared with is sealed with
    /// a key epoch that is over. Whoever was shut out by a new epoch can still write with the keys of
    /// the old one; what is taken over unread would become part of an honest snapshot.
    pub fn may_be_parent(&self, snapshot: TicketId) -> bool {
        if !self.may_take_over(snapshot) {
            return false;
        }
        #[cfg(feature = "mutants")]
        if mutant::is_active(Mutant::ComparesWithOldEpoch) {
            return true;
        }
        let mut seen = HashSet::new();
        let mut next = Some(snapshot);
        while let Some(id) = next.filter(|id| seen.insert(*id)) {
            // What a sweep has deleted cannot be asked any more.
            let Some(commit) = self.commits.get(&id) else { break };
            if self.epoch_of(id) < self.epoch {
                return false;
            }
            next = commit.snapshot().and_then(|snapshot| snapshot.parent);
        }
        true
    }

    /// The snapshots that exist: in no F, and not forgotten. Oldest first.
    pub fn snapshots(&self) -> Vec<(TicketId, &Snapshot)> {
        let forgotten = self.forgotten();
        self.untaken(|id| !forgotten.contains(id))
    }

    /// The snapshots that are forgotten and can be brought back: in no F. Oldest first.
    pub fn forgotten_snapshots(&self) -> Vec<(TicketId, &Snapshot)> {
        let forgotten = self.forgotten();
        self.untaken(|id| forgotten.contains(id))
    }

    /// The snapshots that no prune has taken, as far as `passes` lets them through. Oldest first.
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

    /// The tags of a snapshot as they are now: a note can have changed them.
    pub fn tags<'a>(&'a self, id: TicketId, snapshot: &'a Snapshot) -> &'a [String] {
        self.note(id).map_or(&snapshot.tags, |note| &note.tags)
    }

    /// The description of a snapshot as it is now: a note can have changed it.
    pub fn description<'a>(&'a self, id: TicketId, snapshot: &'a Snapshot) -> &'a str {
        self.note(id).map_or(&snapshot.description, |note| &note.description)
    }

    /// Tags and description of a snapshot: those of the newest note. Of concurrent ones the greater
    /// ticket wins.
    pub fn note(&self, snapshot: TicketId) -> Option<&Note> {
        self.notes(snapshot).last().map(|(_, note)| *note)
    }

    /// The notes about a snapshot that no other note has replaced, by their tickets.
    pub fn notes(&self, snapshot: TicketId) -> Vec<(TicketId, &Note)> {
        let notes: Vec<(TicketId, &Note)> = self
            .commits
            .iter()
            .filter_map(|(id, commit)| match &commit.outcome {
                Outcome::Note(note) if note.snapshot == Some(snapshot) => Some((*id, note)),
                _ => None,
            })
            .collect();
        let replaced: HashSet<_> =
            notes.iter().flat_map(|(_, note)| note.replaces.iter().copied()).collect();
        notes.into_iter().filter(|(id, _)| !replaced.contains(id)).collect()
    }

    /// This view in few words, for a commit: what earlier commits of the view have named need not
    /// be named again.
    pub fn record(&self) -> ViewRecord {
        let named = self.seen();
        ViewRecord {
            prune: self.prunes.keys().next_back().copied().unwrap_or(0),
            new: self.commits.keys().filter(|id| !named.contains(id)).copied().collect(),
            digest: digest(self.commits.keys()),
        }
    }
}

/// The error of a command that needs `name`, which `error` kept from being read. Where the storage
/// failed, or a newer version wrote the object, nothing is known to be damaged.
fn hindered(name: &ObjectName, error: &Error, consequence: &str) -> Error {
    let (kind, remedy) = match error.kind() {
        kind @ (Kind::Media | Kind::Unsupported) => (kind, ""),
        _ => (Kind::Corrupt, "; `cutpoint check` says how to go on"),
    };
    Error::new(kind, name, format!("cannot be read, and {consequence}{remedy} ({error})"))
}

/// BLAKE3 of ids, which rise.
fn digest<'a>(ids: impl Iterator<Item = &'a TicketId>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    ids.for_each(|id| {
        hasher.update(&id.0);
    });
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(number: u8) -> TicketId {
        TicketId([number; 12])
    }

    /// A view to which each of these is added by a writer that has seen all before.
    fn view(outcomes: impl IntoIterator<Item = Outcome>) -> View {
        let mut view = View::default();
        for (outcome, number) in outcomes.into_iter().zip(1..) {
            let (segments, extra) = (Vec::new(), Vec::new());
            let commit = Commit { outcome, segments, view: view.record(), time_ns: 0, extra };
            view.commits.insert(ticket(number), Arc::new(commit));
        }
        view
    }

    fn damage(number: u8) -> Outcome {
        let container = PartName { ticket: ticket(1), count: 0 };
        let fingerprint = Fingerprint([number; 32]);
        Outcome::Damage(vec![Damage { class: Class::Data, container, fingerprint }])
    }

    /// A commit names what no other of its view has named; the digest tells whether the rest follows.
    #[test]
    fn what_a_writer_had_in_its_view_follows_from_what_is_named() {
        let nothing = || Outcome::Void;
        let mut view = view([damage(1), nothing(), nothing(), damage(4)]);
        assert_eq!(view.commits[&ticket(3)].view.new, [ticket(2)], "the rest was named before");
        let later = HashSet::from([Fingerprint([4; 32])]);
        assert_eq!(view.damaged_since(ticket(3)), later, "what came after it");
        let commit = &view.commits[&ticket(3)];
        let record = ViewRecord { digest: [0; 32], ..commit.view.clone() };
        let other = Commit { view: record, ..Commit::clone(commit) };
        view.commits.insert(ticket(3), Arc::new(other));
        let all = HashSet::from([1, 4].map(|number| Fingerprint([number; 32])));
        assert_eq!(view.damaged_since(ticket(3)), all, "the first is not certain any more");
    }

    #[test]
    fn notes_are_about_one_snapshot() {
        let note = |of: u8| {
            let (replaces, description) = (Vec::new(), format!("of {of}"));
            Outcome::Note(Note {
                snapshot: Some(ticket(of)),
                replaces,
                tags: Vec::new(),
                description,
            })
        };
        let view = view([Outcome::Void, Outcome::Void, note(1), note(2)]);
        for (of, by) in [(1, 3), (2, 4)] {
            let notes = view.notes(ticket(of));
            let found: Vec<_> = notes.iter().map(|(id, note)| (*id, &*note.description)).collect();
            assert_eq!(found, [(ticket(by), &*format!("of {of}"))]);
        }
    }

    /// A prune record that cannot be read may name what anybody has put.
    #[test]
    fn storage_that_fails_is_not_called_damage() {
        for (kind, told) in [(Kind::Media, Kind::Media), (Kind::WrongKey, Kind::Corrupt)] {
            let name = ObjectName::Prune(1);
            let error = Error::new(kind, name, "as the test has it");
            let mut view = view([]);
            view.unreadable.insert(name, Arc::new(error));
            assert_eq!(view.require_prunes().expect_err("it is needed").kind(), told);
            assert_eq!(view.require_all().expect_err("it is needed").kind(), told);
        }
    }

    #[test]
    fn what_is_unreadable_hides_what_it_may_name() {
        let part = PartName { ticket: ticket(1), count: 0 };
        for (name, hides) in [
            (ObjectName::Commit(ticket(1)), [true, false]),
            (ObjectName::Segment(part), [true, false]),
            (ObjectName::Prune(1), [true, true]),
            (ObjectName::Container(Class::Data, part), [false, false]),
        ] {
            let hidden = View::default().hidden([&name]);
            assert_eq!([1, 2].map(|number| hidden.may_name(ticket(number))), hides, "{name}");
        }
    }
}
