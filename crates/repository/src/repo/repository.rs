//! An open repository: a storage, the keys that open it, and its settings.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use cutpoint_storage::{Environment, Error, Kind, ObjectKind, Result, Storage, Weakness};

use super::newest_config::{NewestConfig, UnopenedSettings};
use super::unlock::{UnlockResult, unlock_by_any_key};
use super::view::ViewCache;
use crate::crypto::{KdfLimits, Keys, Unlock};
use crate::format::config::Config;
use crate::util::memory_limit::{MemoryLimit, PartSizes};

pub use super::options::{InitOptions, OpenOptions};

/// An unlocked repository.
#[derive(Debug)]
pub struct Repository {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) keys: Keys,
    pub(super) config: Config,
    pub(super) config_number: u64,
    pub(super) key_id: Option<[u8; 16]>,
    pub(super) cache: Option<PathBuf>,
    pub(super) temporary_folder: Option<PathBuf>,
    pub(super) memory: MemoryLimit,
    pub(super) options: OpenOptions,
    pub(super) unopened: UnopenedSettings,
    pub(super) view_cache: ViewCache,
    /// Set once this process has found that clients with lagging listings are announced.
    pub(super) lag_announced: OnceLock<()>,
}

impl Repository {
    /// Opens the repository on `storage` with default [`OpenOptions`].
    ///
    /// An older copy of the repository opens, too. [`Guard::open`](crate::Guard::open) refuses it.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Repository::open_with`].
    pub fn open(
        storage: Arc<dyn Storage>,
        environment: Arc<dyn Environment>,
        unlock: &Unlock,
    ) -> Result<Repository> {
        Repository::open_with(storage, environment, unlock, OpenOptions::default())
    }

    /// Opens the repository on `storage`. The newest settings that can be opened count; newer ones
    /// that cannot are listed in [`Repository::unopened`].
    ///
    /// An older copy of the repository opens, too. [`Guard::open`](crate::Guard::open) refuses it.
    ///
    /// # Errors
    ///
    /// Returns a `Missing` error if there is no repository, `WrongKey` if `unlock` does not open
    /// it, `Unsupported` if it is newer than this version, and `Corrupt` if both copies of the
    /// keyring or of all settings are damaged.
    pub fn open_with(
        storage: Arc<dyn Storage>,
        environment: Arc<dyn Environment>,
        unlock: &Unlock,
        options: OpenOptions,
    ) -> Result<Repository> {
        let list = || -> Result<_> {
            Ok((
                storage.list(ObjectKind::Key.folder())?,
                storage.list(ObjectKind::Config.folder())?,
            ))
        };
        let mut names = list()?;
        let opened = loop {
            let (key_names, config_names) = &names;
            if key_names.is_empty() && config_names.is_empty() {
                return Err(Error::missing(
                    storage.describe(),
                    "not a cutpoint repository (neither config nor keys found)",
                ));
            }
            let open = |ignores_newer| {
                let options = OpenOptions { ignores_newer, ..options.clone() };
                unlock_by_any_key(&*storage, key_names, config_names, unlock, &options)
            };
            let error = match open(false) {
                Ok(opened) => break opened,
                Err(error) => error,
            };
            // Newer objects are ignored only if no key opens everything that is there.
            if options.ignores_newer
                && let Ok(opened) = open(true)
            {
                break opened;
            }
            // Another client may have changed keys between the two listings, or after them.
            let again = list()?;
            let is_transient = matches!(error.kind(), Kind::WrongKey | Kind::Missing);
            if !is_transient || again == names {
                return Err(error);
            }
            names = again;
        };
        let UnlockResult { key_id, keys, newest } = opened;
        let NewestConfig { number: config_number, config, unopened } = newest;
        config.check_features(false)?;
        Ok(Repository {
            storage,
            environment,
            keys,
            config,
            config_number,
            key_id,
            cache: None,
            temporary_folder: None,
            memory: MemoryLimit::default(),
            options,
            unopened,
            view_cache: ViewCache::default(),
            lag_announced: OnceLock::new(),
        })
    }

    /// Keeps data that can be rebuilt in `folder` from now on: the index, and the commits and prune
    /// records of a remote storage.
    #[must_use]
    pub fn with_cache(mut self, folder: PathBuf) -> Repository {
        let folder = folder.join(self.keys.repository().to_string());
        let is_remote = self.storage.requests_ahead_max() > 0;
        self.view_cache = ViewCache::new(is_remote.then(|| folder.join("view")));
        self.temporary_folder = Some(folder.join("tmp"));
        self.cache = Some(folder);
        self
    }

    /// Keeps the index and sorted lists in files without names in `folder` from now on, for a
    /// repository without a cache. Without a cache and such a folder, they are kept in memory: 13
    /// bytes for each chunk of the repository. The folder should not be kept in memory itself.
    #[must_use]
    pub fn with_temporary_folder(mut self, folder: PathBuf) -> Repository {
        self.temporary_folder = Some(folder);
        self
    }

    /// Limits the memory of backups, restores, checks and prunes from now on. A limit that does not
    /// suffice for one thread is an error of the operation.
    #[must_use]
    pub fn with_memory_limit(mut self, memory: MemoryLimit) -> Repository {
        self.memory = memory;
        self
    }

    /// Returns the limit of the memory.
    pub fn memory(&self) -> MemoryLimit {
        self.memory
    }

    /// Returns the sizes on which the memory of an operation depends, for chunks of at most
    /// `chunk_max` bytes.
    pub fn part_sizes(&self, chunk_max: u64) -> PartSizes {
        PartSizes {
            region: self.config.region_size.into(),
            container: self.config.container_size.into(),
            chunk_max,
        }
    }

    /// Returns `true` if this process has found the announcement of clients with lagging listings.
    pub(super) fn is_lag_announced(&self) -> bool {
        self.lag_announced.get().is_some()
    }

    /// Remembers that clients with lagging listings are announced.
    pub(super) fn set_lag_announced(&self) {
        self.lag_announced.get_or_init(|| ());
    }

    /// Returns the cache of commits and prune records.
    pub(crate) fn view_cache(&self) -> &ViewCache {
        &self.view_cache
    }

    /// Returns the cache folder of this repository, if it has one.
    pub fn cache(&self) -> Option<&PathBuf> {
        self.cache.as_ref()
    }

    /// Returns the folder for temporary files of this repository, if it has one.
    pub fn temporary_folder(&self) -> Option<PathBuf> {
        self.temporary_folder.clone()
    }

    /// Returns the storage.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Returns the source of time and randomness.
    pub fn environment(&self) -> &Arc<dyn Environment> {
        &self.environment
    }

    /// Returns the keys.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Returns the id of the `keys/` object that opened the repository. `None` if a recovery kit
    /// did, and no object records that kit.
    pub fn key_id(&self) -> Option<[u8; 16]> {
        self.key_id
    }

    /// Returns the settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns `true` if of several puts of one name by this client and others only one creates the
    /// object, as far as a probe has found out and the storage itself says. Otherwise a client may end
    /// tickets of others, or delete, only if it is alone.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Storage::visibility`] and [`Storage::weaknesses`].
    pub fn creates_atomically(&self) -> Result<bool> {
        let is_in_steps = |weakness: &Weakness| matches!(weakness, Weakness::CreatesInSteps(_));
        Ok(self.config.may_be_shared(self.storage.visibility()?)
            && !self.storage.weaknesses()?.iter().any(is_in_steps))
    }

    /// Returns the number of the settings, which rises with each change.
    pub fn config_number(&self) -> u64 {
        self.config_number
    }

    /// Returns the objects that have the names of newer settings, and cannot be opened.
    pub fn unopened(&self) -> &UnopenedSettings {
        &self.unopened
    }
    /// Returns the maximum cost that a key may demand for its derivation.
    pub(crate) fn kdf_limits(&self) -> KdfLimits {
        self.options.kdf_limits
    }

    /// Returns `true` if objects that claim to be newer than this version and its keys are ignored
    /// ([`OpenOptions::ignores_newer`]).
    pub fn ignores_newer(&self) -> bool {
        self.options.ignores_newer
    }
}
