//! Listing: from the objects of the storage to a view.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use cutpoint_storage::{Error, Kind, ObjectKind, Result};

use super::checkpoint::{Attested, CheckpointReader, Wanted};
use crate::format::commit::{Commit, ViewRecord};
use crate::format::names::{ObjectName, TicketId};
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
    /// ([`View::complete`]).
    pub unreadable: BTreeMap<ObjectName, Arc<Error>>,
    /// Lost prune records that a repair is about to give up.
    pub(super) accepted: BTreeSet<u64>,
    /// The prune records that other records give up, including records that were given up
    /// themselves.
    pub(super) given_up: BTreeSet<u64>,
    /// The key epoch with which each commit is sealed.
    pub epochs: BTreeMap<TicketId, u32>,
    /// The key epoch of the settings with which the view was read; 0 if it was not read.
    pub epoch: u32,
    /// Set if objects that claim a newer key epoch are ignored
    /// ([`crate::repo::repository::OpenOptions::ignores_newer`]).
    pub ignores_newer: bool,
    /// Objects that the view checkpoint has, and that need not exist.
    pub(super) attested: Attested,
    /// Set if commits or records were taken from the checkpoint, so that it is unknown whether the
    /// objects themselves can be read.
    pub(super) is_of_checkpoint: bool,
    /// The notes about each snapshot, by their tickets; found when the first note is needed. After
    /// that, the view must not get further notes.
    pub(super) notes: OnceLock<HashMap<TicketId, Vec<TicketId>>>,
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

    /// Lists again, without reading objects again that this process has read before, or that are in
    /// the view cache of this machine.
    ///
    /// # Errors
    ///
    /// Returns any error of [`View::list`].
    pub fn list_again(&self, repository: &Repository) -> Result<View> {
        let newest = repository.view_cache().newest();
        let mut view = View {
            epoch: repository.keys().epoch(),
            ignores_newer: repository.ignores_newer(),
            ..View::without(self.accepted.clone())
        };
        let reads_checkpoint = repository.view_cache().reads_checkpoint();
        let known: Vec<&View> = [self, &*newest]
            .into_iter()
            .filter(|view| reads_checkpoint || !view.is_of_checkpoint)
            .collect();
        for known in &known {
            view.attested.extend(&known.attested);
        }
        let mut tolerance = Tolerance::default();
        let listed = listed(repository, ObjectKind::Commit)?;
        let mut checkpoint = CheckpointReader::new(repository, &listed);
        let gone = view.read_commits(&listed, &known, &mut checkpoint, &mut tolerance)?;
        view.read_prunes(repository, &known, &checkpoint, &mut tolerance)?;
        view.is_of_checkpoint |= checkpoint.has_read();
        view.attested.extend(&checkpoint.attested);
        view.drop_given_up();
        // Between the listing and the read, a sweep may delete a commit, but only one that a record
        // has taken. Any other commit exists, although the storage denies it.
        let taken = view.taken();
        for (ticket, error) in gone.into_iter().filter(|(ticket, _)| !taken.contains(ticket)) {
            view.unreadable.insert(ObjectName::Commit(ticket), Arc::new(error));
        }
        view.look_by_name(repository, &mut tolerance)?;
        repository.view_cache().keep_newest(&view);
        Ok(view)
    }

    /// Takes up the `listed` commits, from `known` views, the view cache, the checkpoint and the
    /// storage. Returns those that do not exist although they are listed.
    fn read_commits(
        &mut self,
        listed: &[(ObjectName, u64)],
        known: &[&View],
        checkpoint: &mut CheckpointReader<'_>,
        tolerance: &mut Tolerance,
    ) -> Result<Vec<(TicketId, Error)>> {
        let mut wanted = Wanted::new();
        for &(name, len) in listed {
            let ObjectName::Commit(ticket) = name else { continue };
            match known.iter().find(|view| view.commits.contains_key(&ticket)) {
                Some(known) => {
                    self.commits.insert(ticket, known.commits[&ticket].clone());
                    self.epochs.insert(ticket, known.epoch_of(ticket));
                    self.is_of_checkpoint |= known.is_of_checkpoint;
                }
                None => wanted.push((name, len)),
            }
        }
        let repository = checkpoint.repository();
        let mut take = |ticket, epoch, commit| {
            self.commits.insert(ticket, Arc::new(commit));
            self.epochs.insert(ticket, epoch);
        };
        read_files(repository, &mut wanted, Commit::decode, |name, epoch, commit| {
            if let ObjectName::Commit(ticket) = name {
                take(ticket, epoch, commit);
            }
        });
        checkpoint.take_commits(&mut wanted, take);
        let mut gone = Vec::new();
        read_storage(repository, &wanted, Commit::decode, |name, read| {
            let ObjectName::Commit(ticket) = name else { return Ok(()) };
            match read {
                Ok((epoch, commit)) => {
                    self.commits.insert(ticket, Arc::new(commit));
                    self.epochs.insert(ticket, epoch);
                }
                Err(error) if error.kind() == Kind::Missing => gone.push((ticket, error)),
                Err(error) => {
                    self.unreadable.insert(name, Arc::new(tolerance.of_one(error)?));
                }
            }
            Ok(())
        })?;
        Ok(gone)
    }

    /// Lists prune records, and takes them up as [`View::read_commits`] does commits.
    fn read_prunes(
        &mut self,
        repository: &Repository,
        known: &[&View],
        checkpoint: &CheckpointReader<'_>,
        tolerance: &mut Tolerance,
    ) -> Result<()> {
        let mut wanted = Wanted::new();
        for (name, len) in listed(repository, ObjectKind::Prune)? {
            let ObjectName::Prune(number) = name else { continue };
            let known = known.iter().find_map(|view| Some((view, view.prunes.get(&number)?)));
            if let Some((known, prune)) = known {
                self.is_of_checkpoint |= known.is_of_checkpoint;
                self.prunes.insert(number, prune.clone());
            } else if let Some(prune) = checkpoint.record(number, len) {
                self.prunes.insert(number, prune);
            } else {
                wanted.push((name, len));
            }
        }
        read_files(repository, &mut wanted, Prune::decode, |name, _, prune| {
            if let ObjectName::Prune(number) = name {
                self.prunes.insert(number, Arc::new(prune));
            }
        });
        read_storage(repository, &wanted, Prune::decode, |name, read| {
            let ObjectName::Prune(number) = name else { return Ok(()) };
            match read {
                Ok((_, prune)) => drop(self.prunes.insert(number, Arc::new(prune))),
                Err(error) => {
                    self.unreadable.insert(name, Arc::new(tolerance.of_one(error)?));
                }
            }
            Ok(())
        })
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

    /// Returns the highest number of a prune record that can be read, that a writer has seen, that
    /// the checkpoint has, or that is about to be given up.
    pub(crate) fn highest_prune(&self) -> u64 {
        let seen = self.commits.values().map(|commit| commit.view.prune);
        let lost = self.accepted.iter().copied().chain([self.attested.prune]);
        seen.chain(self.prunes.keys().copied()).chain(lost).max().unwrap_or(0)
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

    /// Returns the key epoch with which a commit is sealed; 0 if it is not known.
    pub fn epoch_of(&self, commit: TicketId) -> u32 {
        self.epochs.get(&commit).copied().unwrap_or(0)
    }

    /// Returns the commits that some writer had in its own view, as the commits of this view and its
    /// prune records say, whether or not they still exist.
    pub fn seen(&self) -> BTreeSet<TicketId> {
        let attested = self.prunes.values().flat_map(|prune| prune.attested.iter().copied());
        self.seen_by_commits().chain(attested).collect()
    }

    /// Returns the commits that the writers of the commits in this view have named.
    fn seen_by_commits(&self) -> impl Iterator<Item = TicketId> {
        self.commits.values().flat_map(|commit| commit.view.new.iter().copied())
    }

    /// Returns the commits that the writer of `of` had in its view, as far as that is certain.
    ///
    /// A commit names only the commits that no other commit of its view names, so that the rest
    /// follows from those. However, a commit that could not be read then was not in the view,
    /// although others name it. The digest reveals this. If it differs, as it also does after a
    /// prune has taken commits, only the commits that are named directly count.
    pub(super) fn seen_by(&self, of: TicketId) -> BTreeSet<TicketId> {
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

    /// Summarizes this view for a commit. Commits that earlier commits of the view have named are
    /// not named again, unless only commits that sweeps have deleted have named them.
    pub fn record(&self) -> ViewRecord {
        let named: BTreeSet<TicketId> = self.seen_by_commits().collect();
        ViewRecord {
            prune: self.prunes.keys().next_back().copied().unwrap_or(0),
            new: self.commits.keys().filter(|id| !named.contains(id)).copied().collect(),
            digest: digest(self.commits.keys()),
        }
    }
}

/// Lists the objects of a kind, with their lengths, sorted.
fn listed(repository: &Repository, kind: ObjectKind) -> Result<Wanted> {
    let mut found = repository.list_objects(kind)?;
    found.sort_unstable();
    repository.view_cache().clean(kind, &found);
    Ok(found)
}

/// Reads `wanted` objects from the view cache, and calls `take` for each. What is found is removed
/// from `wanted`.
fn read_files<T>(
    repository: &Repository,
    wanted: &mut Wanted,
    decode: fn(&[u8]) -> Result<T>,
    mut take: impl FnMut(ObjectName, u32, T),
) {
    wanted.retain(|&(name, len)| {
        let cached = repository.view_cache().bytes(name, len);
        match cached.and_then(|bytes| repository.open_bytes(name, &bytes, decode).ok()) {
            Some((epoch, value)) => {
                take(name, epoch, value);
                false
            }
            None => true,
        }
    });
}

/// Reads `wanted` objects from the storage, keeps them in the view cache, and calls `take` for each.
///
/// # Errors
///
/// Returns any error of `take`.
fn read_storage<T>(
    repository: &Repository,
    wanted: &[(ObjectName, u64)],
    decode: fn(&[u8]) -> Result<T>,
    mut take: impl FnMut(ObjectName, Result<(u32, T)>) -> Result<()>,
) -> Result<()> {
    repository.get_many(wanted, |name, bytes| {
        let read = bytes.and_then(|bytes| {
            let read = repository.open_bytes(name, &bytes, decode)?;
            repository.view_cache().keep(name, &bytes);
            Ok(read)
        });
        take(name, read)
    })
}

/// Returns the BLAKE3 hash of ids, which must be sorted.
fn digest<'a>(ids: impl Iterator<Item = &'a TicketId>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    ids.for_each(|id| {
        hasher.update(&id.0);
    });
    *hasher.finalize().as_bytes()
}
