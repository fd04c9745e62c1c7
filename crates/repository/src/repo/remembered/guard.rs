//! A guarded repository: opened, listed and remembered, and refused if it is older than before.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cutpoint_storage::{Environment, Error, Kind, ObjectKind, Storage};

use super::comparison::Comparison;
use super::folder::StateFolder;
use super::state::{Recognition, RememberedState, is_overtaken, unlisted_settings};
use crate::crypto::Unlock;
use crate::repo::lagging::{LagError, Pauses, open_when_listed};
use crate::repo::repository::{OpenOptions, Repository};
use crate::repo::view::View;

/// The options for opening a repository with a [`Guard`].
#[derive(Clone, Debug)]
pub struct GuardOptions {
    /// The folder in which this machine remembers the states of repositories, such as
    /// `~/.local/state/<program>`. It must be kept between runs, and must not lie in the storage.
    pub folder: StateFolder,
    /// The options for opening the repository.
    pub open: OpenOptions,
    /// Set to accept an older state and to remember it from now on, once its cause is known.
    pub accepts_older: bool,
}

impl GuardOptions {
    /// Returns the options that refuse older states, with default [`OpenOptions`].
    pub fn new(folder: impl Into<PathBuf>) -> GuardOptions {
        GuardOptions {
            folder: StateFolder::new(folder),
            open: OpenOptions::default(),
            accepts_older: false,
        }
    }
}

/// An open repository that is refused if it is in an older state than this machine remembers, or
/// was replaced by an unencrypted one.
///
/// [`Guard::view`] remembers what it lists. After this process has made a snapshot, a prune record
/// or settings, either list again, or add them to [`Guard::state`] and call [`Guard::save`].
///
/// ```
/// use std::sync::Arc;
///
/// use cutpoint_repository::repo::remembered::{Guard, GuardError, GuardOptions};
/// use cutpoint_repository::{CipherSuite, InitOptions, Repository, Unlock};
/// use cutpoint_storage::{Memory, Storage, System};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let state_folder = tempfile::tempdir()?;
/// let storage: Arc<dyn Storage> = Arc::new(Memory::new());
/// let options = InitOptions { suite: CipherSuite::None, ..InitOptions::default() };
/// Repository::init(storage.clone(), Arc::new(System), &Unlock::Nothing, &options)?;
///
/// let options = GuardOptions::new(state_folder.path());
/// let mut guard = Guard::open(storage, Arc::new(System), &Unlock::Nothing, options)?;
/// match guard.view() {
///     Ok((view, _)) => println!("{} snapshots", view.snapshots().len()),
///     Err(GuardError::Older(state)) => println!("older: {} snapshots gone", state.gone.len()),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Guard {
    repository: Arc<Repository>,
    state: RememberedState,
    recognition: Recognition,
    accepts_older: bool,
}

/// The error of a guarded repository.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The repository is in an older state than this machine remembers: an older copy was put back,
    /// or newer objects were deleted or damaged.
    #[error("{}: the repository is older than at its last use on this machine", .0.found.location)]
    Older(Box<Comparison>),
    /// The repository is not encrypted, but it was encrypted before, or an encrypted one was at its
    /// location: it was replaced. If this is intended, the file that remembers the encrypted one is
    /// to be removed.
    #[error("{location}: not encrypted, but was encrypted before (remembered in {})", file.display())]
    EncryptionLost {
        /// The location of the repository.
        location: String,
        /// The file that remembers the encrypted repository.
        file: PathBuf,
    },
    /// Another error.
    #[error(transparent)]
    Other(#[from] Error),
}

impl From<LagError> for GuardError {
    fn from(error: LagError) -> GuardError {
        GuardError::Other(error.into_error())
    }
}

impl Guard {
    /// Opens the repository on `storage` as [`Repository::open_with`] does, and compares its
    /// encryption, settings and keys with the remembered state. Keys that opened a repository at
    /// this location the last time are tried first.
    ///
    /// # Errors
    ///
    /// Returns [`GuardError::EncryptionLost`] and [`GuardError::Older`], a `Conflict` error if
    /// another client changes the settings at the same time, and any error of
    /// [`Repository::open_with`] and [`Guard::view`].
    pub fn open(
        storage: Arc<dyn Storage>,
        environment: Arc<dyn Environment>,
        unlock: &Unlock,
        options: GuardOptions,
    ) -> Result<Guard, GuardError> {
        let GuardOptions { folder, open: mut open_options, accepts_older } = options;
        let location = storage.describe();
        let location = Path::new(&location);
        open_options.first_keys.extend(folder.keys_of(location));
        let open = || {
            let options = open_options.clone();
            Repository::open_with(storage.clone(), environment.clone(), unlock, options)
        };
        let mut pauses = Pauses::new(environment.clone());
        let mut repository = open_when_listed(&*storage, &mut pauses, open)?;
        while let Some(name) = unlisted_settings(&folder, &repository)? {
            pauses.wait(name)?;
            repository = open()?;
        }
        let (state, recognition) = RememberedState::load(Some(&folder), &repository, location);
        let repository = Arc::new(repository);
        let mut guard = Guard { repository, state, recognition, accepts_older };
        match &guard.recognition {
            Recognition::EncryptionLost { file } | Recognition::OtherWasEncrypted { file } => {
                let location = guard.state.seen().location.clone();
                return Err(GuardError::EncryptionLost { location, file: file.clone() });
            }
            Recognition::OlderSettings => {
                if is_overtaken(&guard.repository) {
                    let message = "the settings were changed by another client meanwhile";
                    let folder = ObjectKind::Config.folder();
                    return Err(Error::new(Kind::Conflict, folder, message).into());
                }
                guard.view()?;
            }
            Recognition::Known | Recognition::FirstUse | Recognition::OtherRepository { .. } => {}
        }
        Ok(guard)
    }

    /// Returns the repository. Its views should come from [`Guard::view`].
    pub fn repository(&self) -> &Arc<Repository> {
        &self.repository
    }

    /// Returns the result of comparing the repository with the remembered states when it was
    /// opened.
    pub fn recognition(&self) -> &Recognition {
        &self.recognition
    }

    /// Returns the remembered state, for adding what this process has made: snapshots, prune
    /// records and settings.
    pub fn state(&mut self) -> &mut RememberedState {
        &mut self.state
    }

    /// Lists the repository, compares the view with the remembered state, and remembers what is
    /// new. The comparison names remembered snapshots that cannot be opened
    /// ([`Comparison::damaged_newest`]), which do not stop the rest.
    ///
    /// # Errors
    ///
    /// Returns [`GuardError::Older`] if the view is older and older states are not accepted, a
    /// `Storage` error if the state cannot be saved, and any error of [`View::list`].
    pub fn view(&mut self) -> Result<(View, Comparison), GuardError> {
        let mut pauses = Pauses::new(self.repository.environment().clone());
        let mut view = View::list(&self.repository)?;
        while let Some(name) = self.state.unlisted(&view, &**self.repository.storage())? {
            pauses.wait(name)?;
            view = view.list_again(&self.repository)?;
        }
        let comparison = self.state.compare(&view);
        match (comparison.is_older(), self.accepts_older) {
            (false, _) => {
                self.state.update(comparison.clone());
                self.state.save()?;
            }
            (true, true) => {
                self.state.accept(comparison.clone());
                self.state.overwrite()?;
            }
            (true, false) => return Err(GuardError::Older(Box::new(comparison))),
        }
        Ok((view, comparison))
    }

    /// Saves the remembered state, after this process has added to it.
    ///
    /// # Errors
    ///
    /// Returns any error of [`RememberedState::save`].
    pub fn save(&mut self) -> Result<(), GuardError> {
        Ok(self.state.save()?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cutpoint_storage::{Memory, System};

    use super::super::state::tests::{commit, id};
    use super::*;
    use crate::format::names::ObjectName;
    use crate::repo::lagging::tests::{Lagging, init};

    fn open(storage: &Arc<Memory>, options: &GuardOptions) -> Result<Guard, GuardError> {
        Guard::open(storage.clone(), Arc::new(System), &Unlock::Nothing, options.clone())
    }

    fn put_snapshot(repository: &Repository, number: u8) {
        let body = commit(i64::from(number)).encode();
        repository
            .seal_and_put(ObjectName::Commit(id(number)), &body)
            .expect("memory takes a commit");
    }

    #[test]
    fn embedder_is_protected_against_rollback() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = GuardOptions::new(folder.path().join("state"));
        let storage = Arc::new(Memory::new());
        init(storage.clone());
        let mut guard = open(&storage, &options).expect("a new repository opens");
        assert_eq!(*guard.recognition(), Recognition::FirstUse);
        put_snapshot(guard.repository(), 1);
        put_snapshot(guard.repository(), 2);
        let (view, comparison) = guard.view().expect("nothing is older");
        assert_eq!((view.snapshots().len(), comparison.is_older()), (2, false));

        // An older copy is put back.
        storage.delete(&ObjectName::Commit(id(2)).to_string()).expect("memory deletes");
        let mut guard = open(&storage, &options).expect("settings and keys are the newest");
        assert_eq!(*guard.recognition(), Recognition::Known);
        let before = fs::read(options.folder.file(guard.repository().keys().repository()))
            .expect("the state is remembered");
        let Err(GuardError::Older(comparison)) = guard.view() else {
            panic!("the older state is refused");
        };
        let gone = comparison.newest_gone().map(|(host, head)| (host.as_str(), head.id()));
        assert_eq!(gone, Some(("a", Some(id(2)))), "the missing snapshot is named");
        let after = fs::read(options.folder.file(guard.repository().keys().repository()));
        assert_eq!(after.expect("the file is still there"), before, "the newer state is kept");

        let accepting = GuardOptions { accepts_older: true, ..options.clone() };
        let mut guard = open(&storage, &accepting).expect("it opens");
        assert!(guard.view().expect("accepted on purpose").1.is_older(), "it is still reported");
        let mut guard = open(&storage, &options).expect("it opens");
        assert!(!guard.view().expect("accepted before").1.is_older(), "it is remembered");
    }

    #[test]
    fn older_settings_are_refused_at_opening() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = GuardOptions::new(folder.path());
        let storage = Arc::new(Memory::new());
        let mut repository = init(storage.clone());
        repository.set_config(repository.config().clone()).expect("memory takes settings");
        open(&storage, &options).expect("it opens").save().expect("the folder takes the state");
        for copy in [false, true] {
            let name = ObjectName::Config { number: 1, copy };
            storage.delete(&name.to_string()).expect("memory deletes");
        }
        let Err(GuardError::Older(comparison)) = open(&storage, &options) else {
            panic!("older settings are refused");
        };
        let numbers = (comparison.expected.config_number, comparison.found.config_number);
        assert_eq!(numbers, (1, 0), "both numbers are named");
    }

    #[test]
    fn unencrypted_repository_in_place_of_encrypted_one_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = GuardOptions::new(folder.path());
        let storage = Arc::new(Memory::new());
        init(storage.clone());
        open(&storage, &options).expect("it opens").save().expect("the folder takes the state");
        let entry = fs::read_dir(folder.path()).expect("the folder is read").next();
        let file = entry.expect("one file").expect("an entry").path();
        let text = fs::read_to_string(&file).expect("the file is read");
        // The code of a cipher suite that encrypts.
        fs::write(&file, text.replace("\"suite\":0", "\"suite\":1")).expect("the file is written");
        let same = open(&storage, &options).expect_err("it was encrypted");
        assert!(matches!(&same, GuardError::EncryptionLost { file: named, .. } if *named == file));
        let other = Arc::new(Memory::new());
        init(other.clone());
        let other = open(&other, &options).expect_err("the previous one was encrypted");
        assert!(matches!(&other, GuardError::EncryptionLost { file: named, .. } if *named == file));
    }

    #[test]
    fn lagging_listing_is_awaited() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = GuardOptions::new(folder.path());
        let storage = Lagging::new("commits/");
        init(storage.clone());
        let open = || {
            Guard::open(storage.clone(), Arc::new(System), &Unlock::Nothing, options.clone())
                .expect("it opens")
        };
        let mut guard = open();
        put_snapshot(guard.repository(), 1);
        guard.view().expect("nothing is older");
        let mut guard = open();
        // Each view lists commits and prune records.
        storage.lag(4);
        let (view, comparison) = guard.view().expect("the listing catches up");
        assert_eq!((view.snapshots().len(), comparison.is_older()), (1, false));
    }
}
