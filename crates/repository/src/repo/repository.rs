//! A repository: a storage, the keys that open it, and its settings.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use cutpoint_storage::{
    Environment, Error, Kind, ObjectKind, Put, Result, Staged, Storage, too_long,
};

use crate::crypto::{
    CipherSuite, Header, KdfLimits, KeyMethod, Keyring, Keys, RepositoryId, SALT_LEN, Secret,
    Unlock, object_is_intact, open_object, seal_object, unwrap_keyring,
};
use crate::format::config::Config;
use crate::format::names::ObjectName;
use crate::format::newer::Newer;

/// A file that reserves space. It is deleted when the disk is too full even for the small objects
/// that publish the others.
const RESERVE: &str = "tmp/reserve";
const RESERVE_LEN: usize = 64 * 1024;

/// Maximum number of `keys/` objects for which one passphrase is stretched.
pub const KDF_TRIALS_MAX: usize = 64;
/// Maximum number of names that a change of settings skips because an object that is not settings
/// occupies them.
const SETTINGS_PASSED_MAX: u32 = 1000;

/// The options for opening a repository.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The maximum cost that a key may demand for its derivation.
    pub kdf_limits: KdfLimits,
    /// Keys that are tried first: those that opened the repository the last time.
    pub first_keys: Vec<[u8; 16]>,
    /// The only key that is tried; `None` to try all of them.
    pub only_key: Option<[u8; 16]>,
    /// Set to ignore objects whose headers claim an unknown key epoch, cipher suite or format. Otherwise
    /// such settings prevent opening, and such commits and prune records prevent writing.
    pub ignores_newer: bool,
}

/// Settings that were skipped, each with the error that prevents it from being opened.
pub type Unopened = Vec<(ObjectName, Arc<Error>)>;

/// An unlocked repository.
#[derive(Debug)]
pub struct Repository {
    storage: Arc<dyn Storage>,
    environment: Arc<dyn Environment>,
    keys: Keys,
    config: Config,
    config_number: u64,
    key_id: Option<[u8; 16]>,
    cache: Option<PathBuf>,
    options: OpenOptions,
    unopened: Unopened,
}

/// The settings of a new repository.
#[derive(Clone, Debug)]
pub struct InitOptions {
    /// The cipher suite by which objects are sealed.
    pub suite: CipherSuite,
    /// The specification of the cutting algorithm, with all parameters written out.
    pub cut: String,
    /// The number of chunk bytes that a region gathers.
    pub region_size: u32,
    /// The size that a container grows to, in bytes.
    pub container_size: u32,
    /// The zstd level.
    pub compression_level: i32,
    /// Set if chunks that resemble others are stored as delta chunks.
    pub delta_chunks: bool,
    /// The parity of a container, in percent of its length; 0 for none.
    pub parity_percent: u32,
}

impl Repository {
    /// Creates a new repository on an empty storage and opens it. Cutting in an encrypted repository
    /// is keyed with a secret.
    ///
    /// Keys left by an `init` that was cut off are removed, because they open nothing without a
    /// config. If two clients create the repository at the same time, one of them succeeds.
    ///
    /// # Errors
    ///
    /// Returns an `Invalid` error if there is a repository already or the settings make no sense,
    /// and `Conflict` if another client was faster.
    pub fn init(
        storage: Arc<dyn Storage>,
        environment: Arc<dyn Environment>,
        unlock: &Unlock,
        options: &InitOptions,
    ) -> Result<Repository> {
        let encrypted = options.suite != CipherSuite::None;
        if matches!(unlock, Unlock::Keyring(_)) {
            return Err(Error::invalid(
                "init",
                "a recovery kit cannot be the key of a new repository",
            ));
        }
        if encrypted == matches!(unlock, Unlock::Nothing) {
            return Err(Error::invalid(
                "init",
                "encryption requires a passphrase or key, and no encryption excludes both",
            ));
        }
        if !storage.list(ObjectKind::Config.folder())?.is_empty() {
            return Err(Error::invalid(storage.describe(), "a repository exists already"));
        }
        for kind in ObjectKind::ALL.iter().filter(|kind| **kind != ObjectKind::Key) {
            if let Some((name, _)) = storage.list(kind.folder())?.first() {
                let message = format!(
                    "incomplete repository: {name} found, but no config (deleted or never written)",
                );
                return Err(Error::invalid(storage.describe(), message));
            }
        }
        let left_over = storage.list(ObjectKind::Key.folder())?;
        let mut repository = RepositoryId([0; 16]);
        environment.random(&mut repository.0)?;
        let mut secret = Secret([0; 32]);
        environment.random(&mut secret.0)?;
        let mut config = Config {
            repository,
            suite: options.suite,
            cut: options.cut.clone(),
            cut_is_keyed: encrypted,
            region_size: options.region_size,
            container_size: options.container_size,
            compression_level: options.compression_level,
            parity_percent: options.parity_percent,
            delta: String::new(),
            created_ns: environment.now_ns(),
            features_read: Vec::new(),
            features_write: Vec::new(),
            features_optional: Vec::new(),
            extra: Vec::new(),
        };
        if options.delta_chunks {
            config.set_matches_imperfectly();
        }
        config.check()?;
        let keyring = Keyring { repository, epochs: vec![(1, secret)] };
        let keys = Keys::derive(&keyring, options.suite);
        storage.prepare()?;
        let mut repository = Repository {
            storage,
            environment,
            keys,
            config,
            config_number: 0,
            key_id: None,
            cache: None,
            options: OpenOptions::default(),
            unopened: Vec::new(),
        };
        repository.put_reserve()?;
        let own = repository.put_key(&keyring, unlock, "")?;
        repository.key_id = Some(own);
        match repository.put_config_sealed(0, &repository.config, &repository.keys) {
            Ok(true) => {}
            Ok(false) => {
                repository.delete_key(own).ok();
                return Err(changed_settings(0));
            }
            Err(error) => return Err(error),
        }
        // The config now tells every other `init` that it has lost. Keys that remain of other
        // clients open nothing, and are skipped.
        for (name, _) in left_over {
            repository.storage.delete(&name).ok();
        }
        Ok(repository)
    }

    /// Opens the repository on `storage` with default [`OpenOptions`].
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
                open_by_any(&*storage, key_names, config_names, unlock, &options)
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
        let Opened { key_id, keys, newest } = opened;
        let Newest { number: config_number, config, unopened } = newest;
        config.check_features(false)?;
        Ok(Repository {
            storage,
            environment,
            keys,
            config,
            config_number,
            key_id,
            cache: None,
            options,
            unopened,
        })
    }

    /// Keeps data that can be rebuilt (the index) in `folder` from now on.
    #[must_use]
    pub fn with_cache(mut self, folder: PathBuf) -> Repository {
        self.cache = Some(folder.join(self.keys.repository().to_string()));
        self
    }

    /// Returns the cache folder of this repository, if it has one.
    pub fn cache(&self) -> Option<&PathBuf> {
        self.cache.as_ref()
    }

    /// Returns the folder for temporary files of this repository, if it has one.
    pub(crate) fn temporary_folder(&self) -> Option<PathBuf> {
        self.cache.as_ref().map(|cache| cache.join("tmp"))
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

    /// Returns the number of the settings, which rises with each change.
    pub fn config_number(&self) -> u64 {
        self.config_number
    }

    /// Returns the objects that have the names of newer settings, and cannot be opened.
    pub fn unopened(&self) -> &Unopened {
        &self.unopened
    }

    /// Reads the number of the newest settings that open, which another client may have changed
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Repository::open_with`].
    pub fn newest_config_number(&self) -> Result<u64> {
        let names = self.storage.list(ObjectKind::Config.folder())?;
        let newest = newest_config(&*self.storage, &names, &self.keys, self.ignores_newer())?;
        Ok(newest.number)
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

    /// Changes the settings: puts `config/<n + 1>`, or the next number that is free.
    ///
    /// # Errors
    ///
    /// Returns an `Invalid` error if the settings make no sense or no number is left, and
    /// `Conflict` if another client changed the settings meanwhile.
    pub fn set_config(&mut self, config: Config) -> Result<()> {
        config.check()?;
        self.config_number = self.put_settings(&config, &self.keys)?;
        self.config = config;
        Ok(())
    }

    /// Records that the key which opened the repository was replaced by another.
    pub(crate) fn opened_with(&mut self, key_id: [u8; 16]) {
        self.key_id = Some(key_id);
    }

    /// Puts the settings again, sealed with `keys`, whose newest epoch counts from then on.
    ///
    /// # Errors
    ///
    /// Returns a `Conflict` error if another client changed the settings, or began an epoch,
    /// meanwhile.
    pub(crate) fn take_keys(&mut self, keys: Keys, key_id: [u8; 16]) -> Result<()> {
        self.config_number = self.put_settings(&self.config, &keys)?;
        self.keys = keys;
        self.key_id = Some(key_id);
        Ok(())
    }

    /// Puts settings under the first free number above the current one, and returns that number. An
    /// object that occupies a number and does not open was planted or is damaged. No object refers
    /// to it, and readers skip it as well.
    fn put_settings(&self, config: &Config, keys: &Keys) -> Result<u64> {
        let mut number = self.config_number;
        for _ in 0..SETTINGS_PASSED_MAX {
            number = number.checked_add(1).ok_or_else(|| {
                Error::invalid(ObjectKind::Config.folder(), "no number is free for new settings")
            })?;
            // A copy without an original occupies the number, too, because it would deny the
            // settings their copy.
            let copy = ObjectName::Config { number, copy: true }.to_string();
            if self.storage.head(&copy)?.is_none()
                && self.put_config_sealed(number, config, keys)?
            {
                return Ok(number);
            }
            if self.has_settings(number)? {
                return Err(changed_settings(number));
            }
        }
        let message =
            format!("{SETTINGS_PASSED_MAX} objects that cannot be opened take the numbers");
        Err(Error::corrupt(ObjectKind::Config.folder(), message))
    }

    /// Returns `true` if another client has put settings of this number: they open, or claim to be
    /// newer.
    fn has_settings(&self, number: u64) -> Result<bool> {
        for copy in [false, true] {
            let name = ObjectName::Config { number, copy };
            let found = self.storage.get(&name.to_string());
            let opened = found.and_then(|bytes| {
                let opened = open_config(&self.keys, name, &bytes);
                opened.map_err(|error| as_damage(name, &bytes, error))
            });
            match opened {
                Ok(_) => return Ok(true),
                Err(error) if Newer::of(&error).is_some() && !self.ignores_newer() => {
                    return Ok(true);
                }
                Err(error) if does_not_open(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Puts settings and their copy. Returns `false` if another object has the name already.
    fn put_config_sealed(&self, number: u64, config: &Config, keys: &Keys) -> Result<bool> {
        let body = config.encode();
        let name = ObjectName::Config { number, copy: false };
        let bytes = seal_object(keys, name, self.salt()?, &body);
        // The copy is the same object: neither header nor seal depends on which copy it is.
        if !self.put_or_find(name, &bytes)? {
            return Ok(false);
        }
        self.put(ObjectName::Config { number, copy: true }, bytes).map(|()| true)
    }

    fn put_reserve(&self) -> Result<()> {
        self.storage.put_new(RESERVE, Bytes::from(vec![0; RESERVE_LEN])).map(drop)
    }

    /// Puts the reserve again after it was given up, if there is space.
    pub(crate) fn keep_reserve(&self) {
        if let Ok(None) = self.storage.head(RESERVE) {
            self.put_reserve().ok();
        }
    }

    /// Frees the space that is reserved for a full disk. The reserve is not an object, so that a
    /// writer may delete it.
    pub(crate) fn give_up_reserve(&self) {
        self.storage.delete(RESERVE).ok();
    }

    /// Returns fresh random bytes for one object.
    pub fn salt(&self) -> Result<[u8; SALT_LEN]> {
        let mut salt = [0; SALT_LEN];
        self.environment.random(&mut salt)?;
        Ok(salt)
    }

    /// Puts an object whose name no other client uses.
    ///
    /// # Errors
    ///
    /// Returns a `Conflict` error if another object has the name.
    pub fn put(&self, name: ObjectName, bytes: Bytes) -> Result<()> {
        if self.put_or_find(name, &bytes)? { Ok(()) } else { Err(shared_ticket(name)) }
    }

    /// Returns `true` if the object at `path` equals `bytes`. A longer one is not read.
    fn is_there(&self, path: &str, bytes: &Bytes) -> Result<bool> {
        match self.storage.get_at_most(path, bytes.len() as u64) {
            Ok(found) => Ok(found == *bytes),
            Err(error) if error.kind() == Kind::Corrupt => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts an object. Returns `true` if the object stored under the name is now `bytes`. No error
    /// is a loss ([`Error::is_loss`]).
    fn put_or_find(&self, name: ObjectName, bytes: &Bytes) -> Result<bool> {
        require_len(name, bytes.len() as u64)?;
        let path = name.to_string();
        let put = || match self.storage.put_new(&path, bytes.clone())? {
            Put::Created => Ok(true),
            // A storage that retries on its own may find its first attempt, in which case the object
            // is the right one.
            Put::Exists if self.is_there(&path, bytes)? => self.storage.sync(&path).map(|()| true),
            Put::Exists => Ok(false),
        };
        put().map_err(Error::of_put)
    }

    /// Puts an object whose bytes are staged.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Repository::put`].
    pub(crate) fn put_staged(&self, name: ObjectName, staged: Box<dyn Staged>) -> Result<()> {
        match staged.finish().map_err(Error::of_put)? {
            Put::Created => Ok(()),
            Put::Exists => Err(shared_ticket(name)),
        }
    }

    /// Gets and opens an object of one part.
    ///
    /// # Errors
    ///
    /// Returns the `Missing`, `Corrupt` and `WrongKey` errors of reading and of [`open_object`].
    pub fn get(&self, name: ObjectName) -> Result<Vec<u8>> {
        let bytes = self.storage.get(&name.to_string())?;
        open_object(&self.keys, name, &bytes).map_err(|error| as_damage(name, &bytes, error))
    }

    /// Reads, opens and decodes an object of one part whose length a listing has given. Also
    /// returns the key epoch with which the object is sealed.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Repository::get`] and `decode`, naming the object; `Corrupt` if the
    /// object is longer than listed.
    pub(crate) fn read_listed<T>(
        &self,
        name: ObjectName,
        len: u64,
        decode: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<(u32, T)> {
        let bytes = get_listed(&*self.storage, name, len)?;
        let body = open_object(&self.keys, name, &bytes)
            .map_err(|error| as_damage(name, &bytes, error))?;
        let epoch = Header::decode(&name, &bytes)?.epoch;
        decode(&body).map(|value| (epoch, value)).map_err(|error| error.of(name))
    }

    /// Reads, opens and decodes an object of one part.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Repository::get`] and `decode`, naming the object.
    pub(crate) fn read<T>(
        &self,
        name: ObjectName,
        decode: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        decode(&self.get(name)?).map_err(|error| error.of(name))
    }

    /// Seals and puts an object of one part.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Repository::put`].
    pub fn seal_and_put(&self, name: ObjectName, body: &[u8]) -> Result<()> {
        self.put(name, seal_object(&self.keys, name, self.salt()?, body))
    }
}

/// The keys and settings by which a repository was opened.
struct Opened {
    key_id: Option<[u8; 16]>,
    keys: Keys,
    newest: Newest,
}

/// Groups the objects of one listing by `key_of`, with the listed lengths of original and copy.
fn copies<K: Ord>(
    names: &[(String, u64)],
    key_of: impl Fn(ObjectName) -> Option<(K, bool)>,
) -> BTreeMap<K, [Option<u64>; 2]> {
    let mut found: BTreeMap<K, [Option<u64>; 2]> = BTreeMap::new();
    for (path, len) in names {
        let Ok(name) = ObjectName::parse(path) else { continue };
        let Some((key, is_copy)) = key_of(name) else { continue };
        found.entry(key).or_default()[usize::from(is_copy)] = Some(*len);
    }
    found
}

/// Reads an object of at most the length that a listing gave, and at most the maximum of its kind.
fn get_listed(storage: &dyn Storage, name: ObjectName, len: u64) -> Result<Bytes> {
    storage.get_at_most(&name.to_string(), len.min(name.kind().len_max()))
}

/// Tries every keyring that `unlock` opens, each in both copies, until one opens the settings.
///
/// There can be several such keyrings. Of two clients that created the repository at the same time,
/// one has left a keyring that opens nothing. A client that was cut off while a new epoch began has
/// left the old keyring or the new one. The settings decide, because only one keyring matches their
/// epoch.
fn open_by_any(
    storage: &dyn Storage,
    key_names: &[(String, u64)],
    config_names: &[(String, u64)],
    unlock: &Unlock,
    options: &OpenOptions,
) -> Result<Opened> {
    let open = |key_id, keyring: &Keyring, suite| {
        let keys = Keys::derive(keyring, suite);
        let newest = newest_config(storage, config_names, &keys, options.ignores_newer)?;
        let config = &newest.config;
        // The settings are sealed with keys of the keyring. The repository id and the cipher suite in them
        // must agree with the keyring; otherwise two repositories were mixed.
        if config.repository == keyring.repository && config.suite == suite {
            return Ok(Opened { key_id, keys, newest });
        }
        let name = ObjectName::Config { number: newest.number, copy: false };
        Err(Error::corrupt(name, "belongs to another repository than the keys"))
    };
    if let Unlock::Keyring(keyring) = unlock {
        // A recovery kit is sufficient even if `keys/` is lost. The settings record the cipher suite, and
        // the keys of either cipher open them.
        let read = |suite| {
            let keys = Keys::derive(keyring, suite);
            newest_config(storage, config_names, &keys, options.ignores_newer)
        };
        let newest = read(CipherSuite::Aes256Gcm)
            .or_else(|error| read(CipherSuite::None).map_err(|_| error))?;
        let opened = open(None, keyring, newest.config.suite)?;
        return Ok(Opened { key_id: kit_of(storage, key_names, unlock), ..opened });
    }
    let listed = copies(key_names, |name| match name {
        ObjectName::Key { id, copy } => Some((id, copy)),
        _ => None,
    });
    let mut ids: Vec<[u8; 16]> = listed.keys().copied().collect();
    if let Some(only) = options.only_key {
        if !listed.contains_key(&only) {
            let name = ObjectName::Key { id: only, copy: false };
            return Err(Error::new(Kind::WrongKey, name, "not found"));
        }
        ids = vec![only];
    }
    // The order of the others is that of the listing.
    ids.sort_by_key(|id| !options.first_keys.contains(id));
    let (mut failure, mut damaged, mut refused) = (None, None, None);
    let (mut trial_count, mut untried_count) = (0, 0);
    let mut was_read = false;
    let mut is_open = false;
    for id in ids {
        let mut unread = None;
        for (copy, len) in [false, true].into_iter().zip(listed[&id]) {
            let Some(len) = len else { continue };
            let name = ObjectName::Key { id, copy };
            let bytes = match get_listed(storage, name, len) {
                Ok(bytes) => bytes,
                // The key was removed at this moment.
                Err(error) if error.kind() == Kind::Missing => continue,
                Err(error) if error.kind() == Kind::Corrupt => {
                    damaged = Some(error);
                    continue;
                }
                // The other copy may lie on a readable sector.
                Err(error) if error.kind() == Kind::Storage => {
                    unread = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            // A flipped bit in the fields that describe how the object is opened can make it
            // unopenable with this secret, or by this version. Then the other copy counts.
            let is_intact = object_is_intact(&bytes);
            let is_passphrase = matches!(unlock, Unlock::Passphrase(_))
                && KeyMethod::of_object(name, &bytes)
                    .is_ok_and(|method| method == KeyMethod::Passphrase);
            if is_passphrase {
                if trial_count >= KDF_TRIALS_MAX {
                    untried_count += 1;
                    break;
                }
                trial_count += 1;
            }
            match unwrap_keyring(name, &bytes, unlock, options.kdf_limits) {
                Ok(Some((keyring, suite))) => {
                    was_read = true;
                    match open(Some(id), &keyring, suite) {
                        Ok(opened) => return Ok(opened),
                        Err(error) => {
                            // A key of another epoch is the least informative error, because
                            // another key may fit.
                            let says_little =
                                matches!(error.kind(), Kind::WrongKey | Kind::Missing);
                            if failure.is_none() || !says_little {
                                failure = Some(error);
                            }
                        }
                    }
                    break;
                }
                Ok(None) => {
                    was_read = true;
                    is_open |= unwrap_keyring(name, &bytes, &Unlock::Nothing, options.kdf_limits)
                        .is_ok_and(|opened| opened.is_some());
                    // A keyring that was read intact needs no trial of its copy, because stretching
                    // takes time. If only one key is asked for, its copy is tried because it may
                    // differ.
                    if options.only_key.is_none() && is_intact {
                        break;
                    }
                }
                // The passphrase was not stretched.
                Err(error) if error.kind() == Kind::Unsupported => {
                    trial_count -= usize::from(is_passphrase);
                    if !is_intact && Newer::of(&error).is_some() {
                        damaged = Some(as_damage(name, &bytes, error));
                        continue;
                    }
                    refused = refused.or(Some(error));
                    if is_intact {
                        break;
                    }
                }
                Err(error) => damaged = Some(error),
            }
        }
        if let Some(error) = unread {
            return Err(error);
        }
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    if is_open && !matches!(unlock, Unlock::Nothing) {
        return Err(Error::new(
            Kind::WrongKey,
            storage.describe(),
            "not encrypted, but a passphrase or key was given: if encryption is expected, the \
             repository was replaced; otherwise use --encryption none",
        ));
    }
    if let Some(error) = damaged.filter(|_| !was_read && refused.is_none()) {
        let message = format!("{error}; nothing can be opened without a keyring");
        return Err(Error::new(error.kind(), "", message)
            .with_remedy("put keys/ back from a copy of the repository, or give a recovery kit")
            .with_source(error));
    }
    if let Some(error) = &refused
        && !was_read
    {
        return Err(Error::new(Kind::Unsupported, "", error.to_string()));
    }
    let mut message = match unlock {
        Unlock::Nothing => "encrypted: a passphrase or key file is required",
        Unlock::Passphrase(_) => "wrong passphrase",
        _ => "wrong key file",
    }
    .to_owned();
    if options.only_key.is_some() {
        message.push_str(" for the key given with --key-id");
    }
    if untried_count > 0 {
        message.push_str(&format!(
            " ({KDF_TRIALS_MAX} keys tried, {untried_count} not tried: select the key with \
             --key-id ID, `cutpoint key list` shows the ids)"
        ));
    }
    if let Some(error) = refused {
        message.push_str(&format!("; one key was not tried: {error}"));
    }
    Err(Error::new(Kind::WrongKey, storage.describe(), message))
}

/// Returns the id of the object that records a recovery kit, if there is one that can be read.
fn kit_of(storage: &dyn Storage, key_names: &[(String, u64)], kit: &Unlock) -> Option<[u8; 16]> {
    key_names.iter().find_map(|(path, len)| {
        let Ok(name @ ObjectName::Key { id, .. }) = ObjectName::parse(path) else { return None };
        let bytes = get_listed(storage, name, *len).ok()?;
        let opened = unwrap_keyring(name, &bytes, kit, KdfLimits::default()).ok()?;
        opened.map(|_| id)
    })
}

/// Refuses to write an object that is longer than the maximum of its kind.
///
/// # Errors
///
/// Returns an `Invalid` error if the object is too long.
pub(crate) fn require_len(name: ObjectName, len: u64) -> Result<()> {
    let len_max = name.kind().len_max();
    if len <= len_max {
        return Ok(());
    }
    let message = format!("too long ({len} bytes, at most {len_max} allowed for this kind)");
    Err(Error::invalid(name, message))
}

/// Refuses to read an object that is longer than the maximum of its kind.
///
/// # Errors
///
/// Returns a `Corrupt` error if the object is too long.
pub(crate) fn refuse_longer(name: ObjectName, stored_len: u64) -> Result<()> {
    let len_max = name.kind().len_max();
    if stored_len <= len_max {
        return Ok(());
    }
    Err(too_long(&name.to_string(), stored_len, len_max))
}

fn shared_ticket(name: ObjectName) -> Error {
    Error::new(
        Kind::Conflict,
        name,
        "exists already with other content: two writers share a ticket",
    )
}

fn changed_settings(number: u64) -> Error {
    Error::new(
        Kind::Conflict,
        ObjectName::Config { number, copy: false },
        "the settings were created or changed by another client meanwhile; try again",
    )
}

/// The newest settings that can be opened.
#[derive(Debug)]
pub(crate) struct Newest {
    pub(crate) number: u64,
    pub(crate) config: Config,
    /// The newer settings that cannot be opened.
    pub(crate) unopened: Unopened,
}

/// Returns `true` if `error` shows that an object which was listed cannot be opened with these
/// keys. A storage that does not answer proves nothing about the object.
fn does_not_open(error: &Error) -> bool {
    matches!(error.kind(), Kind::Corrupt | Kind::Missing | Kind::WrongKey | Kind::Unsupported)
}

/// Returns `error`, or a `Corrupt` error if the header claims to be newer but the object is not
/// intact: then a flipped bit has produced a version or an epoch that no writer has written.
fn as_damage(name: ObjectName, bytes: &[u8], error: Error) -> Error {
    let is_claim = Newer::of(&error).is_some() || error.kind() == Kind::Unsupported;
    if is_claim && !object_is_intact(bytes) {
        return Error::corrupt(name, "damaged header: wrong checksum in the trailer");
    }
    error
}

/// Opens settings. Also returns the key epoch of the settings.
///
/// # Errors
///
/// Returns a `WrongKey` error if the settings claim an epoch that `keys` lack ([`Newer::Epoch`]),
/// or any other error of [`open_object`].
fn open_config(keys: &Keys, name: ObjectName, bytes: &[u8]) -> Result<(u32, Config)> {
    let epoch = Header::decode(&name, bytes)?.epoch;
    if epoch > keys.epoch() {
        return Err(Error::new(
            Kind::WrongKey,
            name,
            format!(
                "the repository is at key epoch {epoch}, but this key only has epochs up to {}: a \
                 new epoch was begun without this key (`cutpoint key rotate`). A holder of a newer \
                 key can add this key again. If the object was planted, --ignore-newer skips it",
                keys.epoch()
            ),
        )
        .with_source(Newer::Epoch(epoch)));
    }
    let body = open_object(keys, name, bytes)?;
    Config::decode(&body).map(|config| (epoch, config)).map_err(|error| error.of(name))
}

/// Reads the newest settings that `keys` open, from either copy. Newer names may only hold objects
/// that do not open, or that were sealed with an epoch that had ended by then.
///
/// # Errors
///
/// Returns a `WrongKey` or `Unsupported` error if an object with a newer name claims to be newer
/// than this version and `keys`, unless `ignores_newer` is set. Returns `Missing` if `keys` have a
/// newer epoch than all settings, because newer settings should then exist. Returns `Corrupt` if no
/// settings open, or any other error of reading.
pub(crate) fn newest_config(
    storage: &dyn Storage,
    names: &[(String, u64)],
    keys: &Keys,
    ignores_newer: bool,
) -> Result<Newest> {
    let listed = copies(names, |name| match name {
        ObjectName::Config { number, copy } => Some((number, copy)),
        _ => None,
    });
    let mut unopened = Vec::new();
    for (number, lens) in listed.into_iter().rev() {
        let (mut failure, mut end) = (None, None);
        for (copy, len) in [false, true].into_iter().zip(lens) {
            let Some(len) = len else { continue };
            let name = ObjectName::Config { number, copy };
            let opened = get_listed(storage, name, len).and_then(|bytes| {
                open_config(keys, name, &bytes).map_err(|error| as_damage(name, &bytes, error))
            });
            let error = match opened {
                Ok((epoch, config)) if epoch == keys.epoch() => {
                    return Ok(Newest { number, config, unopened });
                }
                Ok((epoch, _)) => {
                    let error = Error::missing(
                        name,
                        format!(
                            "has key epoch {epoch}, but this key has epoch {}: newer settings are \
                             missing or were never written",
                            keys.epoch()
                        ),
                    );
                    failure = Some(error);
                    break;
                }
                Err(error) => error,
            };
            // Neither a newer object nor a failing storage is damage, and the copy may still open.
            // An object that can be decoded only with the key was not planted.
            let is_newer = error.kind() == Kind::Unsupported || Newer::of(&error).is_some();
            let may_pass = Newer::of(&error).is_some() && ignores_newer;
            if !does_not_open(&error) || (is_newer && !may_pass) {
                end.get_or_insert(error);
                continue;
            }
            // The first error is the most informative one.
            failure.get_or_insert(error);
        }
        if let Some(error) = end {
            return Err(error);
        }
        if let Some(error) = failure {
            let name = ObjectName::Config { number, copy: false };
            unopened.push((name, Arc::new(error)));
        }
    }
    // An error about damage says more than one about an object that may never have existed.
    let says_most = |(_, error): &&(ObjectName, Arc<Error>)| error.kind() == Kind::Corrupt;
    match unopened.iter().find(says_most).or(unopened.first()) {
        Some((_, error)) => {
            let message = format!("{error}; nothing can be opened without settings");
            Err(Error::new(error.kind(), "", message)
                .with_remedy("put config/ back from a copy of the repository"))
        }
        None => Err(Error::missing(
            storage.describe(),
            "incomplete repository: keys found, but no config (not finished, or deleted)",
        )),
    }
}
