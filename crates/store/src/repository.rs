//! A repository: a medium, the keys that open it, its settings.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::environment::Environment;
use crate::error::{Error, Kind, Newer, Result};
use crate::format::config::Config;
use crate::media::{Media, Put, Staged, too_long};
use crate::name::{ObjectKind, ObjectName};
use crate::seal::{
    Header, KdfLimits, KeyMethod, Keyring, Keys, RepositoryId, SALT_LEN, Secret, Suite, Unlock,
    object_is_intact, open_object, seal_object, unwrap_keyring,
};

/// Given up when a disk is so full that not even the small objects fit that make use of the others.
const RESERVE: &str = "tmp/reserve";
const RESERVE_LEN: usize = 64 * 1024;

/// The maximum number of `keys/` objects for which one passphrase is stretched.
pub const KDF_TRIALS_MAX: usize = 64;
/// The maximum number of names that a change of settings passes over because something lies there that
/// is no settings.
const SETTINGS_PASSED_MAX: u32 = 1000;

/// What is asked for when a repository is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The maximum work that a key may ask for.
    pub kdf_limits: KdfLimits,
    /// Keys that are tried before the others: those that opened the repository the last time.
    pub first_keys: Vec<[u8; 16]>,
    /// The only key that is tried; `None`: all of them.
    pub only_key: Option<[u8; 16]>,
    /// Whether objects count as junk whose headers claim a key epoch, a suite or a format that is not
    /// known here. Else settings of such a kind refuse to open, and such commits and prune records
    /// refuse writers.
    pub ignores_newer: bool,
}

/// Settings that were passed over: their names, and why they do not count.
pub type Unopened = Vec<(ObjectName, Arc<Error>)>;

/// An unlocked repository.
#[derive(Debug)]
pub struct Repository {
    media: Arc<dyn Media>,
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
    /// How objects are sealed.
    pub suite: Suite,
    /// How data is cut, written out in full.
    pub cut: String,
    /// How many bytes of chunks a region gathers.
    pub region_size: u32,
    /// How large a container becomes, in bytes.
    pub container_size: u32,
    /// The zstd level.
    pub compression_level: i32,
    /// Whether chunks that resemble others are stored as composites.
    pub composites: bool,
    /// How much parity a container gets, in percent of its length; 0 is none.
    pub parity_percent: u32,
}

impl Repository {
    /// Makes a new repository on an empty medium and opens it. A repository that is sealed cuts
    /// with a secret.
    ///
    /// Keys that an `init` has left which was cut off are removed: without a config they open
    /// nothing. Of two that make it at the same moment, one wins.
    ///
    /// # Errors
    ///
    /// `Invalid` where there is a repository already, or the settings make no sense; `Conflict`
    /// where somebody else was faster.
    pub fn init(
        media: Arc<dyn Media>,
        environment: Arc<dyn Environment>,
        unlock: &Unlock,
        options: &InitOptions,
    ) -> Result<Repository> {
        let encrypted = options.suite != Suite::None;
        if matches!(unlock, Unlock::Keyring(_)) {
            return Err(Error::invalid("init", "a recovery kit cannot be the key of a new one"));
        }
        if encrypted == matches!(unlock, Unlock::Nothing) {
            return Err(Error::invalid("init", "a passphrase or key and encryption go together"));
        }
        if !media.list(ObjectKind::Config.folder())?.is_empty() {
            return Err(Error::invalid(media.describe(), "there is a repository already"));
        }
        for kind in ObjectKind::ALL.iter().filter(|kind| **kind != ObjectKind::Key) {
            if let Some((name, _)) = media.list(kind.folder())?.first() {
                let message = format!("has {name} but no config: it was deleted, or never put");
                return Err(Error::invalid(media.describe(), message));
            }
        }
        let left_over = media.list(ObjectKind::Key.folder())?;
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
            matching: String::new(),
            created_ns: environment.now_ns(),
            features_read: Vec::new(),
            features_write: Vec::new(),
            features_optional: Vec::new(),
            extra: Vec::new(),
        };
        if options.composites {
            config.set_matches_imperfectly();
        }
        config.check()?;
        let keyring = Keyring { repository, epochs: vec![(1, secret)] };
        let keys = Keys::derive(&keyring, options.suite);
        media.prepare()?;
        let mut repository = Repository {
            media,
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
        // Now that it has won: whoever else was at it is told so by the config. What of others'
        // keys stays opens nothing, and is passed over.
        for (name, _) in left_over {
            repository.media.delete(&name).ok();
        }
        Ok(repository)
    }

    /// Opens the repository on `media`, with default [`OpenOptions`].
    ///
    /// # Errors
    ///
    /// As [`Repository::open_with`].
    pub fn open(
        media: Arc<dyn Media>,
        environment: Arc<dyn Environment>,
        unlock: &Unlock,
    ) -> Result<Repository> {
        Repository::open_with(media, environment, unlock, OpenOptions::default())
    }

    /// Opens the repository on `media`. The newest settings that open count; those above them that do
    /// not are in [`Repository::unopened`].
    ///
    /// # Errors
    ///
    /// `Missing` where there is none; `WrongKey` where `unlock` does not open it; `Unsupported`
    /// where it is newer; `Corrupt` where both copies of the keyring or of all settings are damaged.
    pub fn open_with(
        media: Arc<dyn Media>,
        environment: Arc<dyn Environment>,
        unlock: &Unlock,
        options: OpenOptions,
    ) -> Result<Repository> {
        let list = || -> Result<_> {
            Ok((media.list(ObjectKind::Key.folder())?, media.list(ObjectKind::Config.folder())?))
        };
        let mut names = list()?;
        let opened = loop {
            let (key_names, config_names) = &names;
            if key_names.is_empty() && config_names.is_empty() {
                return Err(Error::missing(
                    media.describe(),
                    "is not a cutpoint repository (it has neither config nor keys)",
                ));
            }
            let open = |ignores_newer| {
                let options = OpenOptions { ignores_newer, ..options.clone() };
                open_by_any(&*media, key_names, config_names, unlock, &options)
            };
            let error = match open(false) {
                Ok(opened) => break opened,
                Err(error) => error,
            };
            // Only where no key opens all that is there.
            if options.ignores_newer
                && let Ok(opened) = open(true)
            {
                break opened;
            }
            // Somebody may have changed keys between the two listings, or since.
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
            media,
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

    /// Keeps what can be made anew (the index) in `folder` from now on.
    #[must_use]
    pub fn with_cache(mut self, folder: PathBuf) -> Repository {
        self.cache = Some(folder.join(self.keys.repository().to_string()));
        self
    }

    /// Where the cache of this repository lies, if it has one.
    pub fn cache(&self) -> Option<&PathBuf> {
        self.cache.as_ref()
    }

    /// Where temporary files of this repository lie, if anywhere.
    pub(crate) fn temporary_folder(&self) -> Option<PathBuf> {
        self.cache.as_ref().map(|cache| cache.join("tmp"))
    }

    /// The medium.
    pub fn media(&self) -> &Arc<dyn Media> {
        &self.media
    }

    /// Clocks and randomness.
    pub fn environment(&self) -> &Arc<dyn Environment> {
        &self.environment
    }

    /// The keys.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Which of the `keys/` objects has opened the repository. `None` where that was a recovery kit
    /// that none of them tells of.
    pub fn key_id(&self) -> Option<[u8; 16]> {
        self.key_id
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The number of the settings: how often they were changed.
    pub fn config_number(&self) -> u64 {
        self.config_number
    }

    /// The objects above the settings that lie where newer settings would, and do not open.
    pub fn unopened(&self) -> &Unopened {
        &self.unopened
    }

    /// Looks again for the number of the newest settings that open: they may have been changed since.
    ///
    /// # Errors
    ///
    /// As [`Repository::open_with`].
    pub fn newest_config_number(&self) -> Result<u64> {
        let names = self.media.list(ObjectKind::Config.folder())?;
        let newest = newest_config(&*self.media, &names, &self.keys, self.ignores_newer())?;
        Ok(newest.number)
    }

    /// The maximum work that a key may ask for.
    pub(crate) fn kdf_limits(&self) -> KdfLimits {
        self.options.kdf_limits
    }

    /// Whether what claims to be newer than what is known here counts as junk
    /// ([`OpenOptions::ignores_newer`]).
    pub fn ignores_newer(&self) -> bool {
        self.options.ignores_newer
    }

    /// Changes the settings: puts `config/<n + 1>`, or the next number at which nothing lies.
    ///
    /// # Errors
    ///
    /// `Invalid` where they make no sense, or no number is left; `Conflict` where another client
    /// changed them meanwhile.
    pub fn set_config(&mut self, config: Config) -> Result<()> {
        config.check()?;
        self.config_number = self.put_settings(&config, &self.keys)?;
        self.config = config;
        Ok(())
    }

    /// Notes that the key that opened the repository has made place for another.
    pub(crate) fn opened_with(&mut self, key_id: [u8; 16]) {
        self.key_id = Some(key_id);
    }

    /// Puts the settings anew, sealed with `keys`, whose newest epoch counts from then on.
    ///
    /// # Errors
    ///
    /// `Conflict` where somebody changed the settings, or began an epoch, meanwhile.
    pub(crate) fn take_keys(&mut self, keys: Keys, key_id: [u8; 16]) -> Result<()> {
        self.config_number = self.put_settings(&self.config, &keys)?;
        self.keys = keys;
        self.key_id = Some(key_id);
        Ok(())
    }

    /// Puts settings under the first number after the own ones at which nothing lies, and returns it.
    /// What lies there and does not open was planted, or is damaged: nothing refers to it, and readers
    /// pass over it as well.
    fn put_settings(&self, config: &Config, keys: &Keys) -> Result<u64> {
        let mut number = self.config_number;
        for _ in 0..SETTINGS_PASSED_MAX {
            number = number.checked_add(1).ok_or_else(|| {
                Error::invalid(ObjectKind::Config.folder(), "no number is left for new settings")
            })?;
            // A copy alone takes the number, too: the settings would have none.
            let copy = ObjectName::Config { number, copy: true }.to_string();
            if self.media.head(&copy)?.is_none() && self.put_config_sealed(number, config, keys)? {
                return Ok(number);
            }
            if self.has_settings(number)? {
                return Err(changed_settings(number));
            }
        }
        let message = format!("{SETTINGS_PASSED_MAX} objects that do not open take the numbers");
        Err(Error::corrupt(ObjectKind::Config.folder(), message))
    }

    /// Whether another client has put settings of this number: they open, or claim to be newer.
    fn has_settings(&self, number: u64) -> Result<bool> {
        for copy in [false, true] {
            let name = ObjectName::Config { number, copy };
            let found = self.media.get(&name.to_string());
            let opened = found.and_then(|bytes| {
                let opened = open_config(&self.keys, name, &bytes);
                opened.map_err(|error| as_damage(name, &bytes, error))
            });
            match opened {
                Ok(_) => return Ok(true),
                Err(error) if error.newer().is_some() && !self.ignores_newer() => return Ok(true),
                Err(error) if does_not_open(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Puts settings and their copy; whether nothing else lay there.
    fn put_config_sealed(&self, number: u64, config: &Config, keys: &Keys) -> Result<bool> {
        let body = config.encode();
        let name = ObjectName::Config { number, copy: false };
        let bytes = seal_object(keys, name, self.salt()?, &body);
        // The copy is the same object: header and seal do not know which copy they are in.
        if !self.put_or_find(name, &bytes)? {
            return Ok(false);
        }
        self.put(ObjectName::Config { number, copy: true }, bytes).map(|()| true)
    }

    fn put_reserve(&self) -> Result<()> {
        self.media.put_new(RESERVE, Bytes::from(vec![0; RESERVE_LEN])).map(drop)
    }

    /// Puts the reserve where it was given up, if there is room.
    pub(crate) fn keep_reserve(&self) {
        if let Ok(None) = self.media.head(RESERVE) {
            self.put_reserve().ok();
        }
    }

    /// Frees the room that is kept for a full disk. It is no object, so that a writer may.
    pub(crate) fn give_up_reserve(&self) {
        self.media.delete(RESERVE).ok();
    }

    /// Fresh random bytes for one object.
    pub fn salt(&self) -> Result<[u8; SALT_LEN]> {
        let mut salt = [0; SALT_LEN];
        self.environment.random(&mut salt)?;
        Ok(salt)
    }

    /// Puts an object whose name nobody else uses.
    ///
    /// # Errors
    ///
    /// `Conflict` where another object has the name.
    pub fn put(&self, name: ObjectName, bytes: Bytes) -> Result<()> {
        if self.put_or_find(name, &bytes)? { Ok(()) } else { Err(shared_ticket(name)) }
    }

    /// Whether the object at `path` is `bytes`. A longer one is not read.
    fn is_there(&self, path: &str, bytes: &Bytes) -> Result<bool> {
        match self.media.get_at_most(path, bytes.len() as u64) {
            Ok(found) => Ok(found == *bytes),
            Err(error) if error.kind() == Kind::Corrupt => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts an object; whether what lies there now is `bytes`. No error of it is a loss.
    fn put_or_find(&self, name: ObjectName, bytes: &Bytes) -> Result<bool> {
        require_len(name, bytes.len() as u64)?;
        let path = name.to_string();
        let put = || match self.media.put_new(&path, bytes.clone())? {
            Put::Created => Ok(true),
            // A medium may answer so to its own second try: then what lies there is ours.
            Put::Exists if self.is_there(&path, bytes)? => self.media.sync(&path).map(|()| true),
            Put::Exists => Ok(false),
        };
        put().map_err(Error::of_put)
    }

    /// Puts an object whose bytes are staged.
    ///
    /// # Errors
    ///
    /// As [`Repository::put`].
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
    /// `Missing`, `Corrupt`, `WrongKey`, as [`open_object`].
    pub fn get(&self, name: ObjectName) -> Result<Vec<u8>> {
        let bytes = self.media.get(&name.to_string())?;
        open_object(&self.keys, name, &bytes).map_err(|error| as_damage(name, &bytes, error))
    }

    /// Gets, opens and decodes an object of one part that a listing has given with its length. Returns
    /// the key epoch with which it is sealed as well.
    ///
    /// # Errors
    ///
    /// As [`Repository::get`] and `decode`, naming the object; `Corrupt` where it is longer.
    pub(crate) fn read_listed<T>(
        &self,
        name: ObjectName,
        len: u64,
        decode: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<(u32, T)> {
        let bytes = get_listed(&*self.media, name, len)?;
        let body = open_object(&self.keys, name, &bytes)
            .map_err(|error| as_damage(name, &bytes, error))?;
        let epoch = Header::decode(&name, &bytes)?.epoch;
        decode(&body).map(|value| (epoch, value)).map_err(|error| error.of(name))
    }

    /// Gets, opens and decodes an object of one part.
    ///
    /// # Errors
    ///
    /// As [`Repository::get`] and `decode`, naming the object.
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
    /// As [`Repository::put`].
    pub fn seal_and_put(&self, name: ObjectName, body: &[u8]) -> Result<()> {
        self.put(name, seal_object(&self.keys, name, self.salt()?, body))
    }
}

/// What a repository is opened by.
struct Opened {
    key_id: Option<[u8; 16]>,
    keys: Keys,
    newest: Newest,
}

/// The objects of one listing by what tells them apart: the listed lengths of original and copy.
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

/// Gets an object of at most the length that a listing gave, and of its kind's maximum.
fn get_listed(media: &dyn Media, name: ObjectName, len: u64) -> Result<Bytes> {
    media.get_at_most(&name.to_string(), len.min(name.kind().len_max()))
}

/// Tries every keyring that `unlock` opens, each in both copies, until one opens the settings.
///
/// There can be several: of two that made the repository at the same time one has left a keyring that
/// opens nothing; who was cut off while a new epoch began has left the old one or the new one. The
/// settings decide: only one is of their epoch.
fn open_by_any(
    media: &dyn Media,
    key_names: &[(String, u64)],
    config_names: &[(String, u64)],
    unlock: &Unlock,
    options: &OpenOptions,
) -> Result<Opened> {
    let open = |key_id, keyring: &Keyring, suite| {
        let keys = Keys::derive(keyring, suite);
        let newest = newest_config(media, config_names, &keys, options.ignores_newer)?;
        let config = &newest.config;
        // The settings are sealed with keys that the keyring gave; what they say of themselves must
        // agree, or somebody mixed two repositories.
        if config.repository == keyring.repository && config.suite == suite {
            return Ok(Opened { key_id, keys, newest });
        }
        let name = ObjectName::Config { number: newest.number, copy: false };
        Err(Error::corrupt(name, "belongs to another repository than the keys"))
    };
    if let Unlock::Keyring(keyring) = unlock {
        // A kit has all that is needed, also where `keys/` is lost. The settings say the suite; keys of
        // either cipher open them.
        let read = |suite| {
            let keys = Keys::derive(keyring, suite);
            newest_config(media, config_names, &keys, options.ignores_newer)
        };
        let newest =
            read(Suite::Aes256Gcm).or_else(|error| read(Suite::None).map_err(|_| error))?;
        let opened = open(None, keyring, newest.config.suite)?;
        return Ok(Opened { key_id: kit_of(media, key_names, unlock), ..opened });
    }
    let listed = copies(key_names, |name| match name {
        ObjectName::Key { id, copy } => Some((id, copy)),
        _ => None,
    });
    let mut ids: Vec<[u8; 16]> = listed.keys().copied().collect();
    if let Some(only) = options.only_key {
        if !listed.contains_key(&only) {
            let name = ObjectName::Key { id: only, copy: false };
            return Err(Error::new(Kind::WrongKey, name, "there is no such key"));
        }
        ids = vec![only];
    }
    // The order of the rest is that of the listing.
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
            let bytes = match get_listed(media, name, len) {
                Ok(bytes) => bytes,
                // Its owner has removed it at this moment.
                Err(error) if error.kind() == Kind::Missing => continue,
                Err(error) if error.kind() == Kind::Corrupt => {
                    damaged = Some(error);
                    continue;
                }
                // Its copy may lie on a sector that can be read.
                Err(error) if error.kind() == Kind::Media => {
                    unread = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            // A bit in what an object says of its own opening makes it one that opens by no secret of
            // this user, or by no version: then the copy counts.
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
                            // That a key is of another epoch says least: there may be one that fits.
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
                    // The copy of a keyring that was read well needs no second try, as stretching takes
                    // time; of the only one that is asked for the copy may be another.
                    if options.only_key.is_none() && is_intact {
                        break;
                    }
                }
                // Nothing was stretched.
                Err(error) if error.kind() == Kind::Unsupported => {
                    trial_count -= usize::from(is_passphrase);
                    if !is_intact && error.newer().is_some() {
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
            media.describe(),
            "is not encrypted, but a passphrase or key was given: if it should be encrypted, \
             somebody has put another repository in its place; if not, say --encryption none",
        ));
    }
    if let Some(error) = damaged.filter(|_| !was_read && refused.is_none()) {
        let message = format!("{error}; without a keyring nothing can be opened");
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
        Unlock::Nothing => "is encrypted: a passphrase or key file is needed",
        Unlock::Passphrase(_) => "the passphrase opens none of its keys",
        _ => "the key file opens none of its keys",
    }
    .to_owned();
    if options.only_key.is_some() {
        message.push_str(" that may be tried: --key-id names one");
    }
    if untried_count > 0 {
        message.push_str(&format!(
            " of the {KDF_TRIALS_MAX} that were tried; {untried_count} more are there: name yours with \
             --key-id ID (`cutpoint key list` shows the ids)"
        ));
    }
    if let Some(error) = refused {
        message.push_str(&format!("; one was not tried: {error}"));
    }
    Err(Error::new(Kind::WrongKey, media.describe(), message))
}

/// The object that tells of a recovery kit, if there is one that can be read.
fn kit_of(media: &dyn Media, key_names: &[(String, u64)], kit: &Unlock) -> Option<[u8; 16]> {
    key_names.iter().find_map(|(path, len)| {
        let Ok(name @ ObjectName::Key { id, .. }) = ObjectName::parse(path) else { return None };
        let bytes = get_listed(media, name, *len).ok()?;
        let opened = unwrap_keyring(name, &bytes, kit, KdfLimits::default()).ok()?;
        opened.map(|_| id)
    })
}

/// Refuses an object that is longer than its kind may be.
///
/// # Errors
///
/// `Invalid`.
pub(crate) fn require_len(name: ObjectName, len: u64) -> Result<()> {
    let len_max = name.kind().len_max();
    if len <= len_max {
        return Ok(());
    }
    let message = format!("would be {len} bytes long, an object of its kind has at most {len_max}");
    Err(Error::invalid(name, message))
}

/// Refuses to believe what an object says of itself that is longer than its kind may be.
///
/// # Errors
///
/// `Corrupt`.
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
        "exists already, with other content; two writers share a ticket",
    )
}

fn changed_settings(number: u64) -> Error {
    Error::new(
        Kind::Conflict,
        ObjectName::Config { number, copy: false },
        "another client made or changed the settings at this moment; try again",
    )
}

/// The newest settings that open.
#[derive(Debug)]
pub(crate) struct Newest {
    pub(crate) number: u64,
    pub(crate) config: Config,
    /// What lies above them and does not open.
    pub(crate) unopened: Unopened,
}

/// Whether an object that failed so is there, or was listed, and is no object that these keys open;
/// a storage that does not answer says nothing of that.
fn does_not_open(error: &Error) -> bool {
    matches!(error.kind(), Kind::Corrupt | Kind::Missing | Kind::WrongKey | Kind::Unsupported)
}

/// `error`, unless it is about a header that claims to be newer and the object is not whole: then a bit
/// has made another version or epoch of it, which nothing has written.
fn as_damage(name: ObjectName, bytes: &[u8], error: Error) -> Error {
    let is_claim = error.newer().is_some() || error.kind() == Kind::Unsupported;
    if is_claim && !object_is_intact(bytes) {
        return Error::corrupt(name, "its header is damaged: the checksum in its trailer differs");
    }
    error
}

/// Opens settings. Returns their key epoch as well.
///
/// # Errors
///
/// `WrongKey` where they claim an epoch that `keys` do not have ([`Newer::Epoch`]); others as
/// [`open_object`].
fn open_config(keys: &Keys, name: ObjectName, bytes: &[u8]) -> Result<(u32, Config)> {
    let epoch = Header::decode(&name, bytes)?.epoch;
    if epoch > keys.epoch() {
        return Err(Error::new(
            Kind::WrongKey,
            name,
            format!(
                "the repository is at key epoch {epoch}, but this key knows only those up to {}: a \
                 new epoch was begun without it (`cutpoint key rotate`). Who has a newer key can add \
                 yours again. If the object was planted, --ignore-newer passes over it",
                keys.epoch()
            ),
        )
        .with_source(Newer::Epoch(epoch)));
    }
    let body = open_object(keys, name, bytes)?;
    Config::decode(&body).map(|config| (epoch, config)).map_err(|error| error.of(name))
}

/// The newest settings that `keys` open; either copy will do. Above them only what does not open may
/// lie, and what was sealed with an epoch that was over by then.
///
/// # Errors
///
/// `WrongKey` or `Unsupported` where an object above them claims to be newer than what is known here,
/// unless `ignores_newer`; `Missing` where `keys` have a newer epoch than all settings: then there
/// should be newer settings. `Corrupt` where none open; others as reading gives.
pub(crate) fn newest_config(
    media: &dyn Media,
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
            let opened = get_listed(media, name, len).and_then(|bytes| {
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
                            "is of key epoch {epoch}, but this key is for epoch {}: newer settings \
                             are gone, or were never put",
                            keys.epoch()
                        ),
                    );
                    failure = Some(error);
                    break;
                }
                Err(error) => error,
            };
            // Both that the object is newer and that the storage fails is no damage; the copy may still
            // open. What decodes only with the key was not planted.
            let is_newer = error.kind() == Kind::Unsupported || error.newer().is_some();
            let may_pass = error.newer().is_some() && ignores_newer;
            if !does_not_open(&error) || (is_newer && !may_pass) {
                end.get_or_insert(error);
                continue;
            }
            // The first error is the one that says most.
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
    // Of what is damaged more is known than of what may have been there.
    let says_most = |(_, error): &&(ObjectName, Arc<Error>)| error.kind() == Kind::Corrupt;
    match unopened.iter().find(says_most).or(unopened.first()) {
        Some((_, error)) => {
            let message = format!("{error}; without settings nothing can be opened");
            Err(Error::new(error.kind(), "", message)
                .with_remedy("put config/ back from a copy of the repository"))
        }
        None => Err(Error::missing(
            media.describe(),
            "has keys but no config: it was not finished, or the config was deleted",
        )),
    }
}
