//! The remembered state of one repository, and its present state.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cutpoint_storage::{Error, Kind, ObjectKind, Result, Storage};

use super::comparison::{Comparison, KnownState};
use super::folder::{StateFolder, UnreadRecord, read, read_if_intact, write};
use super::record::{Head, StateRecord};
use crate::format::commit::Commit;
use crate::format::names::{ObjectName, TicketId};
use crate::repo::repository::Repository;
use crate::repo::view::View;

/// Number of remembered commits that are fetched at once.
const HEADS_AT_ONCE: usize = 8;

/// The result of comparing an opened repository with the states in the folder, before its snapshots
/// and prune records are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recognition {
    /// The repository is remembered, and its settings and keys are not older.
    Known,
    /// The repository is remembered, with newer settings or keys than it was opened with.
    /// [`RememberedState::compare`] describes the older state. Another process of this machine may
    /// also have changed the settings after the repository was opened: see [`is_overtaken`].
    OlderSettings,
    /// The repository is remembered as encrypted, and is not encrypted now: it was replaced.
    EncryptionLost {
        /// The file that remembers the repository.
        file: PathBuf,
    },
    /// Nothing is remembered of the repository, so an older state cannot be detected.
    FirstUse,
    /// Nothing is remembered of the repository, but there was another one at its location.
    OtherRepository {
        /// The file that remembers the other repository.
        file: PathBuf,
        /// The id of the other repository.
        repository: String,
    },
    /// Nothing is remembered of the repository, which is not encrypted, but an encrypted one was at
    /// its location.
    OtherWasEncrypted {
        /// The file that remembers the other repository.
        file: PathBuf,
    },
}

/// The remembered state of one repository, and its present state.
#[derive(Debug)]
pub struct RememberedState {
    /// The path of the file; `None` if the state cannot be stored anywhere.
    file: Option<PathBuf>,
    saved: Option<StateRecord>,
    seen: StateRecord,
    unread: Option<UnreadRecord>,
    /// The numbers of settings that exist, but cannot be opened.
    unopened_settings: BTreeSet<u64>,
}

impl RememberedState {
    /// Returns the state of a repository that was just created at `location`. Without a folder,
    /// nothing is remembered after this process.
    pub fn new(
        folder: Option<&StateFolder>,
        repository: &Repository,
        location: &Path,
    ) -> RememberedState {
        let unopened = repository.unopened().iter();
        let unopened_settings = unopened
            .filter_map(|(name, _)| match name {
                ObjectName::Config { number, .. } => Some(*number),
                _ => None,
            })
            .collect();
        RememberedState {
            file: folder.map(|folder| folder.file(repository.keys().repository())),
            saved: None,
            seen: StateRecord::of(repository, location),
            unread: None,
            unopened_settings,
        }
    }

    /// Loads what `folder` remembers of `repository`, found at `location`, and compares the
    /// settings and keys. A file that cannot be read counts as none ([`RememberedState::unread`]).
    pub fn load(
        folder: Option<&StateFolder>,
        repository: &Repository,
        location: &Path,
    ) -> (RememberedState, Recognition) {
        let mut state = RememberedState::new(folder, repository, location);
        match state.file.as_deref().map(read).transpose() {
            Ok(saved) => state.saved = saved.flatten(),
            Err(unread) => state.unread = Some(unread),
        }
        let recognition = match &state.saved {
            Some(saved) => {
                state.seen.heads.clone_from(&saved.heads);
                state.seen.prune_number = saved.prune_number;
                state.recognize(saved)
            }
            None => folder.map_or(Recognition::FirstUse, |folder| state.meet(folder)),
        };
        (state, recognition)
    }

    /// Recognizes a repository that is remembered.
    fn recognize(&self, saved: &StateRecord) -> Recognition {
        let seen = &self.seen;
        match &self.file {
            Some(file) if seen.is_unencrypted() && !saved.is_unencrypted() => {
                Recognition::EncryptionLost { file: file.clone() }
            }
            _ if seen.config_number < saved.config_number || seen.epoch < saved.epoch => {
                Recognition::OlderSettings
            }
            _ => Recognition::Known,
        }
    }

    /// Looks for another repository that is remembered at the same location.
    fn meet(&self, folder: &StateFolder) -> Recognition {
        let others = folder.records_at(&self.seen.location);
        if self.seen.is_unencrypted()
            && let Some((file, _)) = others.iter().find(|(_, other)| !other.is_unencrypted())
        {
            return Recognition::OtherWasEncrypted { file: file.clone() };
        }
        match others.into_iter().next() {
            Some((file, other)) => {
                Recognition::OtherRepository { file, repository: other.repository }
            }
            None => Recognition::FirstUse,
        }
    }

    /// Returns the file of this repository if it could not be read, so that it does not count. The
    /// next save replaces it.
    pub fn unread(&self) -> Option<&UnreadRecord> {
        self.unread.as_ref()
    }

    /// Returns the state as this process has seen it.
    pub fn seen(&self) -> &StateRecord {
        &self.seen
    }

    /// Compares `view` with the remembered state.
    pub fn compare(&self, view: &View) -> Comparison {
        let expected = KnownState {
            seen: &self.seen,
            saved: self.saved.as_ref(),
            unopened_settings: &self.unopened_settings,
        };
        Comparison::new(&expected, view)
    }

    /// Returns an object that exists, but is missing from `view`, if the view would be older than
    /// the remembered state without it. The listing lags behind then, and should be repeated before
    /// the view is compared.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub fn unlisted(&self, view: &View, storage: &dyn Storage) -> Result<Option<ObjectName>> {
        self.compare(view).unlisted(view, storage)
    }

    /// Takes over what is newer in the view that was compared. What the view lacks stays
    /// remembered.
    pub fn update(&mut self, comparison: Comparison) {
        self.seen.prune_number = self.seen.prune_number.max(comparison.found.prune_number);
        self.add_heads(comparison);
    }

    /// Takes over the view that was compared even if it is older. What is gone is forgotten.
    pub fn accept(&mut self, comparison: Comparison) {
        self.seen.heads.retain(|host, _| !comparison.gone.contains_key(host));
        self.seen.prune_number = comparison.found.prune_number;
        self.add_heads(comparison);
    }

    fn add_heads(&mut self, Comparison { found, damaged, .. }: Comparison) {
        let is_newer = |host: &String, head: &Head| {
            damaged.get(host).is_none_or(|damaged| damaged.started_ns < head.started_ns)
        };
        self.seen.heads.extend(found.heads.into_iter().filter(|(host, head)| is_newer(host, head)));
    }

    /// Returns the remembered snapshots.
    pub fn heads(&self) -> impl Iterator<Item = TicketId> {
        self.seen.heads.values().filter_map(Head::id)
    }

    /// Returns `true` if every remembered snapshot and the newest remembered prune record exist, by
    /// their names and without a listing. A damaged commit counts as the snapshot that it was: the
    /// commands that read it report it.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage for the prune record. A commit that cannot be fetched does
    /// not exist here.
    pub fn is_present(&self, repository: &Repository) -> Result<bool> {
        let storage = repository.storage();
        let prune = self.seen.prune_number;
        if prune > 0 && storage.head(&ObjectName::Prune(prune).to_string())?.is_none() {
            return Ok(false);
        }
        let names: Vec<ObjectName> = self.heads().map(ObjectName::Commit).collect();
        let are_present = names.chunks(HEADS_AT_ONCE).all(|names| are_snapshots(repository, names));
        Ok(are_present && self.seen.heads.len() == names.len())
    }

    /// Remembers a snapshot that was just made.
    pub fn add_head(&mut self, host: &str, snapshot: TicketId, started_ns: i64) {
        self.seen.heads.insert(host.to_owned(), Head::new(snapshot, started_ns));
    }

    /// Remembers the number of a prune record that was just made.
    pub fn add_prune(&mut self, number: u64) {
        self.seen.prune_number = self.seen.prune_number.max(number);
    }

    /// Remembers the settings and the key epoch that were just made.
    pub fn set_settings(&mut self, repository: &Repository) {
        self.seen.set_settings(repository);
    }

    /// Saves the state if it has changed. What another process has saved meanwhile is merged: for
    /// each item, the newer one is kept.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error that names the file if it cannot be written. The state counts as
    /// saved nevertheless.
    pub fn save(&mut self) -> Result<()> {
        if self.saved.as_ref() != Some(&self.seen)
            && let Some(other) = self.file.as_deref().and_then(read_if_intact)
        {
            self.seen.merge(&other);
            return self.write();
        }
        self.overwrite()
    }

    /// Saves the state if it has changed, even if another process has saved a newer one meanwhile.
    /// To be called after [`RememberedState::accept`].
    ///
    /// # Errors
    ///
    /// Returns any error of [`RememberedState::save`].
    pub fn overwrite(&mut self) -> Result<()> {
        if self.saved.as_ref() == Some(&self.seen) { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let result = write(file, &self.seen);
        self.saved = Some(self.seen.clone());
        result.map_err(|error| Error::new(Kind::Storage, file.display(), error))
    }
}

/// Returns `true` if all of these commits exist and are snapshots or damaged.
fn are_snapshots(repository: &Repository, names: &[ObjectName]) -> bool {
    let len_max = ObjectKind::Commit.len_max();
    let wanted: Vec<(String, u64)> = names.iter().map(|name| (name.to_string(), len_max)).collect();
    names.iter().zip(repository.storage().get_many(&wanted)).all(|(name, bytes)| {
        match bytes.and_then(|bytes| repository.open_bytes(*name, &bytes, Commit::decode)) {
            Ok((_, commit)) => commit.snapshot().is_some(),
            Err(error) => {
                matches!(error.kind(), Kind::Corrupt | Kind::WrongKey | Kind::Unsupported)
            }
        }
    })
}

/// Returns the settings that `folder` remembers of `repository`, if they are newer than those it
/// was opened with and exist. The listing lags behind then, and the repository should be opened
/// again.
///
/// # Errors
///
/// Returns any error of the storage.
pub fn unlisted_settings(
    folder: &StateFolder,
    repository: &Repository,
) -> Result<Option<ObjectName>> {
    // A file that cannot be read is reported when the whole state is compared.
    match read_if_intact(&folder.file(repository.keys().repository())) {
        Some(saved) => unlisted_number(repository, saved.config_number),
        None => Ok(None),
    }
}

/// Returns the settings of this number if the repository was opened with older ones, no listing
/// shows them, and they exist.
fn unlisted_number(repository: &Repository, number: u64) -> Result<Option<ObjectName>> {
    if number <= repository.config_number() {
        return Ok(None);
    }
    let name = ObjectName::Config { number, copy: false };
    let path = name.to_string();
    let storage = repository.storage();
    let is_listed =
        storage.list(ObjectKind::Config.folder())?.iter().any(|(each, _)| *each == path);
    Ok((!is_listed && storage.head(&path)?.is_some()).then_some(name))
}

/// Returns `true` if the settings were changed after `repository` was opened. The remembered state
/// is read after that, so another process of this machine may have changed the settings and
/// remembered that in between. This is a conflict, and not an older state.
pub fn is_overtaken(repository: &Repository) -> bool {
    repository.newest_config_number().is_ok_and(|newest| newest > repository.config_number())
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use cutpoint_storage::{Memory, System};

    use super::super::record::tests::empty;
    use super::*;
    use crate::crypto::Unlock;
    use crate::format::commit::{Outcome, Snapshot, ViewRecord};
    use crate::format::prune::Prune;
    use crate::repo::lagging::tests::{Lagging, init};

    pub(in super::super) fn id(number: u8) -> TicketId {
        TicketId([number; 12])
    }

    /// Returns the commit of a snapshot of the host "a".
    pub(in super::super) fn commit(started_ns: i64) -> Commit {
        Commit {
            segments: Vec::new(),
            embedded: None,
            view: ViewRecord::default(),
            time_ns: 0,
            outcome: Outcome::Snapshot(Box::new(Snapshot {
                host: "a".to_owned(),
                started_ns,
                ..Snapshot::empty()
            })),
            extra: Vec::new(),
        }
    }

    /// Returns a view of these snapshots of one host, in ascending order of time.
    fn view(snapshots: &[u8]) -> View {
        let commits =
            snapshots.iter().map(|number| (id(*number), Arc::new(commit(i64::from(*number)))));
        let mut view = View::default();
        view.commits = commits.collect();
        view
    }

    fn with_prune(mut view: View, number: u64, taken: &[u8]) -> View {
        let taken = taken.iter().map(|number| id(*number)).collect();
        view.prunes.insert(number, Arc::new(Prune { taken, ..Prune::default() }));
        view
    }

    fn state() -> RememberedState {
        RememberedState {
            file: None,
            saved: Some(empty()),
            seen: empty(),
            unread: None,
            unopened_settings: BTreeSet::new(),
        }
    }

    /// Returns the state that remembers `view`.
    fn state_of(view: &View) -> RememberedState {
        let mut state = state();
        let comparison = state.compare(view);
        assert!(!comparison.is_older(), "nothing is older");
        state.update(comparison);
        state.saved = Some(state.seen.clone());
        state
    }

    /// Compares `second` with the state that remembers `first`.
    fn compare(first: &View, second: &View) -> (RememberedState, Comparison) {
        let state = state_of(first);
        let comparison = state.compare(second);
        (state, comparison)
    }

    #[test]
    fn missing_prune_record_is_detected() {
        let pruned = with_prune(with_prune(view(&[2]), 1, &[1]), 2, &[]);
        let older = with_prune(view(&[1, 2]), 1, &[1]);
        let (mut state, comparison) = compare(&pruned, &older);
        assert!(comparison.is_older(), "prune 2 is gone");
        let numbers = (comparison.expected.prune_number, comparison.found.prune_number);
        assert_eq!(numbers, (2, 1), "both states are described");
        assert_eq!(comparison.unopened, [], "nothing is damaged");
        state.update(comparison.clone());
        assert_eq!(state.seen.prune_number, 2, "the older state is not remembered");
        state.accept(comparison);
        assert_eq!(state.seen.prune_number, 1, "the older state is remembered");

        // A record that cannot be opened does not count, because anyone with access to the storage
        // can put some bytes in its place.
        let mut damaged = older;
        let error = Arc::new(Error::corrupt("prunes/2", "is damaged"));
        damaged.unreadable.insert(ObjectName::Prune(2), error);
        let (_, comparison) = compare(&pruned, &damaged);
        assert!(comparison.is_older(), "prune 2 does not open");
        assert_eq!(comparison.unopened, [ObjectName::Prune(2)], "it is named");
    }

    /// An object that does not open is neither remembered, nor an excuse for missing objects.
    #[test]
    fn junk_prune_changes_nothing() {
        let (all, one) = (view(&[1, 2]), view(&[1]));
        for number in [1, u64::MAX] {
            let error = Arc::new(Error::corrupt("x", "does not begin as an object does"));
            let mut rolled_back = one.clone();
            rolled_back.unreadable.insert(ObjectName::Prune(number), error.clone());
            assert!(compare(&all, &rolled_back).1.is_older(), "prune {number}");
            let mut junk = all.clone();
            junk.unreadable.insert(ObjectName::Prune(number), error);
            let (mut state, comparison) = compare(&all, &junk);
            assert!(!comparison.is_older(), "nothing is gone");
            state.update(comparison);
            assert_eq!(state.seen.prune_number, 0, "prune {number}");
            assert!(!compare(&junk, &all).1.is_older(), "the junk was taken away");
        }
    }

    #[test]
    fn snapshot_taken_by_prune_is_not_missed() {
        let (all, one) = (view(&[1, 2]), view(&[1]));
        let (_, comparison) = compare(&all, &one);
        assert!(comparison.is_older(), "no prune has taken it");
        assert_eq!(comparison.newest_gone().map(|(_, head)| head.id()), Some(Some(id(2))));
        // A sweep has deleted the commit of the snapshot.
        let swept = with_prune(one.clone(), 1, &[2]);
        let (mut state, comparison) = compare(&all, &swept);
        assert!(!comparison.is_older(), "a prune has taken it");
        state.update(comparison);
        assert_eq!(state.seen.heads["a"].snapshot, id(1).to_string(), "the newest that is left");
        // The snapshot exists and cannot be opened. It is reported as damaged, and stays
        // remembered.
        let mut damaged = one.clone();
        let error = Arc::new(Error::corrupt("x", "is damaged"));
        damaged.unreadable.insert(ObjectName::Commit(id(2)), error);
        let (mut state, comparison) = compare(&all, &damaged);
        assert!(!comparison.is_older(), "it is there");
        assert_eq!(comparison.damaged_newest().count(), 1, "it is reported");
        state.update(comparison);
        assert_eq!(state.seen.heads["a"].snapshot, id(2).to_string(), "it is remembered");
        assert!(state.compare(&one).is_older(), "now it is gone");
    }

    #[test]
    fn remembered_objects_are_looked_for_by_name() {
        let storage = Arc::new(Memory::new());
        let repository = init(storage.clone());
        let state = state_of(&with_prune(view(&[1, 2]), 3, &[]));
        let is_present = || state.is_present(&repository).expect("memory answers");
        let put = |name: ObjectName, body: &[u8]| {
            repository.seal_and_put(name, body).expect("memory takes it");
        };
        let newest = ObjectName::Commit(id(2));
        let void = Commit { outcome: Outcome::Void { is_own: true }, ..commit(2) };
        put(ObjectName::Prune(3), b"its content does not count");
        assert!(!is_present(), "the snapshot is gone");
        put(newest, &commit(2).encode());
        assert!(is_present(), "all is there, although the older snapshot is not");
        storage.replace(&newest.to_string(), b"damaged"[..].into()).expect("memory replaces");
        assert!(is_present(), "a damaged commit is still there");
        storage.delete(&newest.to_string()).expect("memory deletes");
        put(newest, &void.encode());
        assert!(!is_present(), "the ticket has another outcome");
        storage.delete(&newest.to_string()).expect("memory deletes");
        put(newest, &commit(2).encode());
        storage.delete(&ObjectName::Prune(3).to_string()).expect("memory deletes");
        assert!(!is_present(), "the prune record is gone");
        assert!(state_of(&View::default()).is_present(&repository).expect("memory answers"));
    }

    /// Another process changes the settings and remembers them after this process has opened the
    /// repository. This is not an older state.
    #[test]
    fn settings_changed_meanwhile_are_not_older() {
        let storage = Arc::new(Memory::new());
        init(storage.clone());
        let open = || Repository::open(storage.clone(), Arc::new(System), &Unlock::Nothing);
        let early = open().expect("it opens");
        let mut other = open().expect("it opens");
        assert!(!is_overtaken(&early), "nothing has changed");
        other.set_config(other.config().clone()).expect("memory takes settings");
        assert!(is_overtaken(&early), "the other client has changed them");
        assert!(!is_overtaken(&other), "that was the other itself");
    }

    #[test]
    fn state_in_lagging_listing_is_not_older() {
        let storage = Memory::new();
        let newest = with_prune(view(&[1, 2]), 2, &[]);
        let state = state_of(&newest);
        let listed = with_prune(view(&[1]), 1, &[]);
        let unlisted = |view: &View| state.unlisted(view, &storage).expect("memory answers");
        assert_eq!(unlisted(&listed), None, "nothing lies there: that is an older state");
        let put = |name: ObjectName| {
            storage.put_new(&name.to_string(), bytes::Bytes::new()).expect("memory takes it");
        };
        put(ObjectName::Prune(2));
        assert_eq!(unlisted(&listed), Some(ObjectName::Prune(2)), "the record lies there");
        put(ObjectName::Commit(id(2)));
        assert_eq!(unlisted(&listed), Some(ObjectName::Commit(id(2))), "the snapshot lies there");
        assert_eq!(unlisted(&newest), None, "all is listed");
        // The object was listed, and is damaged.
        let mut damaged = with_prune(view(&[1, 2]), 1, &[]);
        let error = Arc::new(Error::corrupt("x", "is damaged"));
        damaged.unreadable.insert(ObjectName::Prune(2), error);
        assert_eq!(unlisted(&damaged), None, "damage");
    }

    /// A prune that has taken a snapshot is not listed yet, nor is its deletion by a sweep.
    #[test]
    fn snapshot_taken_by_unlisted_prune_is_awaited() {
        let storage = Memory::new();
        let state = state_of(&view(&[1, 2]));
        let name = ObjectName::Prune(1);
        storage.put_new(&name.to_string(), bytes::Bytes::new()).expect("memory takes it");
        assert_eq!(state.unlisted(&view(&[1]), &storage).expect("memory answers"), Some(name));
    }

    #[test]
    fn settings_in_lagging_listing_are_awaited() {
        let storage = Lagging::new("config/00000000000000000001");
        let mut changed = init(storage.clone());
        changed.set_config(changed.config().clone()).expect("memory takes settings");
        storage.lag(u64::MAX);
        let open = || {
            Repository::open(storage.clone(), Arc::new(System), &Unlock::Nothing).expect("it opens")
        };
        let early = open();
        assert_eq!(early.config_number(), 0, "the listing lags");
        let name = ObjectName::Config { number: 1, copy: false };
        assert_eq!(unlisted_number(&early, 1).expect("memory answers"), Some(name));
        assert_eq!(unlisted_number(&early, 2).expect("memory answers"), None, "really older");
        // The settings are listed by now, but the repository was opened with older ones. This is
        // damage, or a concurrent change.
        storage.lag(0);
        assert_eq!(unlisted_number(&early, 1).expect("memory answers"), None, "it is listed");
        assert_eq!(unlisted_number(&open(), 1).expect("memory answers"), None, "nothing is older");
    }

    /// Two processes save the state that they have seen. The later one keeps what the other one has
    /// seen.
    #[test]
    fn state_seen_by_another_process_is_kept() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("x.json");
        let own = |config_number, snapshot, save: fn(&mut RememberedState) -> Result<()>| {
            let mut state = RememberedState { file: Some(file.clone()), ..state() };
            state.seen.config_number = config_number;
            state.add_head("a", id(snapshot), i64::from(snapshot));
            save(&mut state).expect("the folder takes it");
            read_if_intact(&file).expect("it is complete")
        };
        own(5, 2, RememberedState::save);
        let kept = own(4, 1, RememberedState::save);
        assert_eq!((kept.config_number, kept.heads["a"].started_ns), (5, 2), "the newer of both");
        let accepted = own(3, 1, RememberedState::overwrite);
        assert_eq!((accepted.config_number, accepted.heads["a"].started_ns), (3, 1), "as accepted");
    }
}
