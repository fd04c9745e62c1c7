//! Views: the commits and prune records that a writer or reader has seen. Only objects in a view
//! count.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use cutpoint_storage::{Error, Kind, ObjectKind, Result};

use crate::format::commit::{Commit, Damage, Note, Outcome, Snapshot, ViewRecord};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::newer::Newer;
use crate::format::prune::Prune;
use crate::repo::repository::Repository;
use crate::rules;
use crate::util::tolerance::Tolerance;

/// Maximum number of missing prune records that are reported, because a record number can have any
/// value.
const MISSING_MAX: usize = 1000;

/// All commits and prune records that one listing found.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The outcomes of writers.
    pub commits: BTreeMap<TicketId, Arc<Commit>>,
    /// The containers that prunes have condemned, and the segments that they have published.
    pub prunes: BTreeMap<u64, Arc<Prune>>,
    /// Commits and prune records that exist but cannot be read. Their contents are not part of the
    /// view. Readers go on without them, and report them. A writer can do without commits, but not
    /// without prune records ([`View::require_prunes`]); operations that delete need all of them
    /// ([`View::whole`]).
    pub unreadable: BTreeMap<ObjectName, Arc<Error>>,
    /// Lost prune records that a repair is about to give up.
    accepted: BTreeSet<u64>,
    /// The prune records that other records give up, including records that were given up
    /// themselves.
    given_up: BTreeSet<u64>,
    /// The key epoch with which each commit is sealed.
    pub epochs: BTreeMap<TicketId, u32>,
    /// The key epoch of the settings with which the view was read; 0 if it was not read.
    pub epoch: u32,
    /// Set if objects that claim a newer key epoch are ignored
    /// ([`crate::repo::repository::OpenOptions::ignores_newer`]).
    pub ignores_newer: bool,
}

/// The writers whose containers may be named only by objects that cannot be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hidden {
    writers: BTreeSet<TicketId>,
    is_anybody: bool,
}

impl Hidden {
    /// Returns `true` if an object that cannot be read may name containers of `writer`.
    pub(crate) fn may_name(&self, writer: TicketId) -> bool {
        self.is_anybody || self.writers.contains(&writer)
    }
}

impl View {
    /// Lists and reads commits, then prunes. An object that cannot be read does not stop the
    /// others; it is added to [`View::unreadable`].
    ///
    /// # Errors
    ///
    /// Returns an error if the storage cannot list, or fails for more objects than single bad
    /// sectors explain.
    pub fn list(repository: &Repository) -> Result<View> {
        View::default().list_again(repository)
    }

    /// Lists again, without reading objects again that were read before.
    ///
    /// # Errors
    ///
    /// Returns any error of [`View::list`].
    pub fn list_again(&self, repository: &Repository) -> Result<View> {
        let mut view = View {
            epoch: repository.keys().epoch(),
            ignores_newer: repository.ignores_newer(),
            ..View::without(self.accepted.clone())
        };
        let mut tolerance = Tolerance::default();
        let mut gone = Vec::new();
        for (path, len) in repository.storage().list(ObjectKind::Commit.folder())? {
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
        for (path, len) in repository.storage().list(ObjectKind::Prune.folder())? {
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
        // Between the listing and the read, a sweep may delete a commit, but only one that a record
        // has taken. Any other commit exists, although the storage denies it.
        let taken = view.taken();
        for (ticket, error) in gone.into_iter().filter(|(ticket, _)| !taken.contains(ticket)) {
            view.unreadable.insert(ObjectName::Commit(ticket), Arc::new(error));
        }
        view.look_by_name(repository, &mut tolerance)?;
        Ok(view)
    }

    /// Returns the commits and prune records that other writers have seen, and that are not in this
    /// view.
    pub(crate) fn missed(&self) -> Vec<ObjectName> {
        let commits = self.gone_commits().into_iter().map(ObjectName::Commit);
        commits.chain(self.missing_prunes().into_iter().map(ObjectName::Prune)).collect()
    }

    /// Reads the objects that the listings lack although other writers have seen them. A listing
    /// may lag, miss an object that was put during it, or have lost an entry. An object that can be
    /// read by its name exists.
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

    /// Creates an empty view that ignores the lost prune records of these numbers.
    pub(crate) fn without(lost: BTreeSet<u64>) -> View {
        View { accepted: lost, ..View::default() }
    }

    /// Returns the numbers of prune records that are lost and were given up.
    pub fn given_up_prunes(&self) -> BTreeSet<u64> {
        let mut given_up = self.recorded_as_given_up();
        given_up.extend(&self.accepted);
        given_up
    }

    /// Returns the numbers of [`View::given_up_prunes`] that are recorded, without those that are
    /// only about to be given up.
    pub(crate) fn recorded_as_given_up(&self) -> BTreeSet<u64> {
        let given_up = self.prunes.values().flat_map(|prune| prune.given_up.iter().copied());
        given_up.chain(self.given_up.iter().copied()).collect()
    }

    /// Removes the records that were given up. Such a record does not count any more, even if it
    /// can be read again, because data that it condemned may have been referred to in the meantime.
    pub(crate) fn drop_given_up(&mut self) {
        if rules::counts_given_up() {
            return;
        }
        self.given_up = self.recorded_as_given_up();
        let given_up = self.given_up_prunes();
        self.prunes.retain(|number, _| !given_up.contains(number));
    }

    /// Returns the highest number of a prune record that can be read, or that a writer has seen.
    pub(crate) fn highest_prune(&self) -> u64 {
        let seen = self.commits.values().map(|commit| commit.view.prune);
        seen.chain(self.prunes.keys().copied()).max().unwrap_or(0)
    }

    /// Returns the numbers of the first prune records that are absent, although later ones exist or
    /// writers have seen them. Prune records are never deleted.
    pub fn missing_prunes(&self) -> Vec<u64> {
        let unreadable = |number| self.unreadable.contains_key(&ObjectName::Prune(number));
        let given_up = self.given_up_prunes();
        (1..=self.highest_prune())
            .filter(|number| !self.prunes.contains_key(number) && !unreadable(*number))
            .filter(|number| !given_up.contains(number))
            .take(MISSING_MAX)
            .collect()
    }

    /// Requires that no object claims a key epoch above that of the settings. Otherwise a writer
    /// that begins, and was shown outdated settings and keys, would seal with a secret that was
    /// given up. A writer that is running when an epoch begins goes on with its own.
    ///
    /// # Errors
    ///
    /// Returns a `WrongKey` error ([`Error::is_of_newer_epoch`]) that names the first such object.
    pub fn require_epoch(&self) -> Result<()> {
        if rules::may_write_below_epoch() {
            return Ok(());
        }
        let newer = |error: &Error| match Newer::of(error) {
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
            count => format!(" (as do {} others)", count - 1),
        };
        Err(Error::new(
            Kind::WrongKey,
            name,
            format!(
                "claims to be sealed with a key of epoch {}{others}, but settings and keys are of \
                 epoch {}: nothing is written with a key that may be revoked. Either older \
                 settings and keys were put back, or the object was planted (--ignore-newer skips \
                 it)",
                match newer {
                    Newer::Epoch(epoch) => epoch.to_string(),
                    other => other.to_string(),
                },
                self.epoch
            ),
        )
        .with_source(*newer))
    }

    /// Returns the key epoch with which a commit is sealed; 0 if it is not known.
    pub fn epoch_of(&self, commit: TicketId) -> u32 {
        self.epochs.get(&commit).copied().unwrap_or(0)
    }

    /// Requires that every prune record exists and could be read. A writer that does not know which
    /// containers are condemned would refer to data that is about to be deleted.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first record that is absent (`Missing`) or could not be read
    /// (`Corrupt`, or `Storage` if the storage failed).
    pub fn require_prunes(&self) -> Result<()> {
        if let Some(number) = self.missing_prunes().first() {
            return Err(Error::missing(
                ObjectName::Prune(*number),
                "not found, and nothing can be written safely without it; existing snapshots can \
                 be restored; `cutpoint check` names the remedy",
            ));
        }
        let prune = self.unresolved().find(|(name, _)| name.kind() == ObjectKind::Prune);
        match prune {
            None => Ok(()),
            Some((name, error)) => Err(hindered(
                name,
                error,
                "nothing can be written safely without it; existing snapshots can be restored",
            )),
        }
    }

    /// Returns this view, or a newer one if objects seem to be missing, because they may have been
    /// put while this one was listed. In the returned view nothing is unreadable, and no commit is
    /// gone that a writer has seen, except those that a prune has taken or a repair has given up.
    /// Only by such a view may anything be deleted, or forgotten by rules: an unknown commit may be
    /// a snapshot, or may have forgotten a snapshot that a rule would keep in place of another.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first such object (`Corrupt`, `Storage` if the storage failed,
    /// or `Missing`), or any error of [`View::list`].
    pub fn whole(self, repository: &Repository) -> Result<View> {
        if self.require_all().is_ok() {
            return Ok(self);
        }
        let view = self.list_again(repository)?;
        view.require_all().map(|()| view)
    }

    /// Returns the part of [`View::unreadable`] that still counts. Commits that a prune has taken
    /// or a repair has given up, and prune records that were given up, do not: nothing needs them
    /// any more. Every command that reports unreadable objects, and every one that stops because of
    /// them, uses this list, so that all commands agree.
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

    /// Returns the commits that some writer of this view has seen and that are gone, although no
    /// prune has taken them and no repair has given them up. A commit that was put while this view
    /// was listed can seem to be gone; a newer view decides ([`View::look_for_gone`]).
    pub fn gone_commits(&self) -> BTreeSet<TicketId> {
        let taken = self.taken();
        let is_gone = |id: &TicketId| {
            !self.commits.contains_key(id)
                && !self.unreadable.contains_key(&ObjectName::Commit(*id))
                && !taken.contains(id)
        };
        self.seen().into_iter().filter(is_gone).collect()
    }

    /// Returns [`View::gone_commits`], each with an error for messages, for commands that only
    /// list. If any commit seems to be gone, this lists again first. A commit that was put while
    /// this view was listed is in the newer view. For a commit that a prune has taken and a sweep
    /// has deleted meanwhile the newer view has the record, because records are put before anything
    /// is deleted.
    ///
    /// # Errors
    ///
    /// Returns any error of [`View::list`], which is called only if a commit seems to be gone.
    pub fn look_for_gone(&self, repository: &Repository) -> Result<Vec<(ObjectName, Error)>> {
        if self.gone_commits().is_empty() {
            return Ok(Vec::new());
        }
        let message = "missing, although other clients have seen it: a snapshot or a forget was \
                       deleted; put the object back, or give it up with `cutpoint repair snapshots \
                       --forget`";
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
                "it is unknown which snapshots are needed and which are forgotten; nothing is \
                 deleted, or forgotten by rules",
            ));
        }
        match self.gone_commits().first() {
            None => Ok(()),
            Some(ticket) => Err(Error::missing(
                ObjectName::Commit(*ticket),
                "missing, although other clients have seen it: it is unknown which snapshots are \
                 needed and which are forgotten; nothing is deleted, or forgotten by rules; put \
                 the object back, or give it up with `cutpoint repair snapshots --forget`",
            )),
        }
    }

    /// Returns the writers whose containers `unreadable` objects may name. A segment or a commit
    /// can name only containers of its own writer; a prune record, or a segment that it has
    /// published, those of any writer.
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

    /// Returns the segments that count: those named by a commit or a prune, and not superseded.
    ///
    /// Segments named by the void of a writer whose lost commit was given up do not count: the next
    /// sweep deletes the void, and no prune has republished them.
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

    /// Returns the condemned containers: writers never refer to them, and readers use them as long
    /// as they exist.
    pub fn condemned(&self) -> HashSet<(Class, PartName)> {
        self.prunes.values().flat_map(|prune| prune.condemned.iter().copied()).collect()
    }

    /// Returns the chunk records that a check found to be broken.
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

    /// Returns the chunks that a check has found broken after the writer of `snapshot` took its
    /// view, and to which that writer may have referred. Chunks found broken earlier were stored
    /// again by the writer, or found elsewhere.
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

    /// Returns the commits that some writer of this view had in its own view, whether or not they
    /// still exist.
    pub fn seen(&self) -> BTreeSet<TicketId> {
        self.commits.values().flat_map(|commit| commit.view.new.iter().copied()).collect()
    }

    /// Returns the commits that the writer of `of` had in its view, as far as that is certain.
    ///
    /// A commit names only the commits that no other commit of its view names, so that the rest
    /// follows from those. However, a commit that could not be read then was not in the view,
    /// although others name it. The digest reveals this. If it differs, as it also does after a
    /// prune has taken commits, only the commits that are named directly count.
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

    /// Returns the union of F over all prunes: the snapshots that are gone for good.
    pub fn taken(&self) -> HashSet<TicketId> {
        self.prunes.values().flat_map(|prune| prune.forgotten.iter().copied()).collect()
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

    /// Summarizes this view for a commit. Commits that earlier commits of the view have named are
    /// not named again.
    pub fn record(&self) -> ViewRecord {
        let named = self.seen();
        ViewRecord {
            prune: self.prunes.keys().next_back().copied().unwrap_or(0),
            new: self.commits.keys().filter(|id| !named.contains(id)).copied().collect(),
            digest: digest(self.commits.keys()),
        }
    }
}

/// Returns the error of a command that needs `name`, which `error` prevented from being read. If
/// the storage failed, or a newer version wrote the object, no damage is known.
fn hindered(name: &ObjectName, error: &Error, consequence: &str) -> Error {
    let (kind, remedy) = match error.kind() {
        kind @ (Kind::Storage | Kind::Unsupported) => (kind, ""),
        _ => (Kind::Corrupt, "; `cutpoint check` names the remedy"),
    };
    Error::new(kind, name, format!("cannot be read, and {consequence}{remedy} ({error})"))
}

/// Returns the BLAKE3 hash of ids, which must be sorted.
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

    /// Returns a view with one commit for each outcome, each by a writer that has seen all earlier
    /// ones.
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

    /// A commit names only those that no other of its view has named; the digest tells whether the
    /// rest follows.
    #[test]
    fn seen_commits_follow_from_named_ones() {
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

    /// A prune record that cannot be read may name containers of any writer.
    #[test]
    fn failing_storage_is_not_reported_as_damage() {
        for (kind, told) in [(Kind::Storage, Kind::Storage), (Kind::WrongKey, Kind::Corrupt)] {
            let name = ObjectName::Prune(1);
            let error = Error::new(kind, name, "as the test has it");
            let mut view = view([]);
            view.unreadable.insert(name, Arc::new(error));
            assert_eq!(view.require_prunes().expect_err("it is needed").kind(), told);
            assert_eq!(view.require_all().expect_err("it is needed").kind(), told);
        }
    }

    #[test]
    fn unreadable_object_hides_containers_it_may_name() {
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
