//! A repository: a medium, the keys that open it, its settings.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::environment::Environment;
use crate::error::{Error, Kind, Result};
use crate::format::config::Config;
use crate::media::{Media, Put, Staged};
use crate::name::{ObjectKind, ObjectName};
use crate::seal::{
    Header, KdfLimits, Keyring, Keys, RepositoryId, SALT_LEN, Secret, Suite, Unlock, open_object,
    seal_object, unwrap_keyring,
};

/// Given up when a disk is so full that not even the small objects fit that make use of the others.
const RESERVE: &str = "tmp/reserve";
const RESERVE_LEN: usize = 64 * 1024;

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
        };
        repository.put_reserve()?;
        let own = repository.put_key(&keyring, unlock, "")?;
        repository.key_id = Some(own);
        if let Err(error) = repository.put_config(0, &repository.config) {
            if error.kind() == Kind::Conflict {
                repository.delete_key(own).ok();
            }
            return Err(error);
        }
        // Now that it has won: whoever else was at it is told so by the config. What of others'
        // keys stays opens nothing, and is passed over.
        for (name, _) in left_over {
            repository.media.delete(&name).ok();
        }
        Ok(repository)
    }

    /// Opens the repository on `media`.
    ///
    /// # Errors
    ///
    /// `Missing` where there is none; `WrongKey` where `unlock` does not open it; `Unsupported`
    /// where it is newer; `Corrupt` where both copies of keyring or settings are damaged.
    pub fn open(
        media: Arc<dyn Media>,
        environment: Arc<dyn Environment>,
        unlock: &Unlock,
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
            let error = match open_by_any(&*media, key_names, config_names, unlock) {
                Ok(opened) => break opened,
                Err(error) => error,
            };
            // Somebody may have changed keys between the two listings, or since.
            let again = list()?;
            let is_transient = matches!(error.kind(), Kind::WrongKey | Kind::Missing);
            if !is_transient || again == names {
                return Err(error);
            }
            names = again;
        };
        let Opened { key_id, keys, config_number, config } = opened;
        config.check_features(false)?;
        Ok(Repository { media, environment, keys, config, config_number, key_id, cache: None })
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

    /// Changes the settings: puts `config/<n + 1>`.
    ///
    /// # Errors
    ///
    /// `Invalid` where they make no sense; `Conflict` where somebody changed them meanwhile.
    pub fn set_config(&mut self, config: Config) -> Result<()> {
        config.check()?;
        let number = self.config_number + 1;
        self.put_config(number, &config)?;
        self.config = config;
        self.config_number = number;
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
        let number = self.config_number + 1;
        self.put_config_sealed(number, &self.config, &keys)?;
        self.keys = keys;
        self.key_id = Some(key_id);
        self.config_number = number;
        Ok(())
    }

    fn put_config(&self, number: u64, config: &Config) -> Result<()> {
        self.put_config_sealed(number, config, &self.keys)
    }

    fn put_config_sealed(&self, number: u64, config: &Config, keys: &Keys) -> Result<()> {
        let body = config.encode();
        let name = ObjectName::Config { number, copy: false };
        let bytes = seal_object(keys, name, self.salt()?, &body);
        // The copy is the same object: header and seal do not know which copy they are in.
        if !self.put_or_find(name, &bytes)? {
            return Err(Error::new(
                Kind::Conflict,
                name,
                "somebody else made or changed the settings at this moment; try again",
            ));
        }
        self.put(ObjectName::Config { number, copy: true }, bytes)
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

    /// Puts an object; whether what lies there now is `bytes`.
    fn put_or_find(&self, name: ObjectName, bytes: &Bytes) -> Result<bool> {
        let path = name.to_string();
        match self.media.put_new(&path, bytes.clone())? {
            Put::Created => Ok(true),
            // A medium may answer so to its own second try: then what lies there is ours.
            Put::Exists if self.media.get(&path)? == *bytes => {
                self.media.sync(&path).map(|()| true)
            }
            Put::Exists => Ok(false),
        }
    }

    /// Puts an object whose bytes are staged.
    ///
    /// # Errors
    ///
    /// As [`Repository::put`].
    pub(crate) fn put_staged(&self, name: ObjectName, staged: Box<dyn Staged>) -> Result<()> {
        match staged.finish()? {
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
        open_object(&self.keys, name, &self.media.get(&name.to_string())?)
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
    config_number: u64,
    config: Config,
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
) -> Result<Opened> {
    let open = |key_id, keyring: &Keyring, suite| {
        let keys = Keys::derive(keyring, suite);
        let (config_number, config) = newest_config(media, config_names, &keys)?;
        // The settings are sealed with keys that the keyring gave; what they say of themselves must
        // agree, or somebody mixed two repositories.
        if config.repository == keyring.repository && config.suite == suite {
            return Ok(Opened { key_id, keys, config_number, config });
        }
        let name = ObjectName::Config { number: config_number, copy: false };
        Err(Error::corrupt(name, "belongs to another repository than the keys"))
    };
    if let Unlock::Keyring(keyring) = unlock {
        // A kit has all that is needed, also where `keys/` is lost.
        let suite = newest_header(media, config_names)?.suite;
        let opened = open(None, keyring, suite)?;
        return Ok(Opened { key_id: kit_of(media, key_names, unlock), ..opened });
    }
    let (mut failure, mut damaged) = (None, None);
    let mut tried: Vec<[u8; 16]> = Vec::new();
    let mut is_open = false;
    for (path, _) in key_names {
        let Ok(ObjectName::Key { id, copy }) = ObjectName::parse(path) else { continue };
        // The copy of a keyring that was read well needs no second try: stretching takes time.
        if tried.contains(&id) {
            continue;
        }
        let bytes = match media.get(path) {
            Ok(bytes) => bytes,
            // Its owner has removed it at this moment.
            Err(error) if error.kind() == Kind::Missing => continue,
            Err(error) => return Err(error),
        };
        let name = ObjectName::Key { id, copy };
        match unwrap_keyring(name, &bytes, unlock, KdfLimits::default()) {
            Ok(Some((keyring, suite))) => {
                tried.push(id);
                match open(Some(id), &keyring, suite) {
                    Ok(opened) => return Ok(opened),
                    Err(error) => {
                        // That a key is of another epoch says least: there may be one that fits.
                        let says_little = matches!(error.kind(), Kind::WrongKey | Kind::Missing);
                        if failure.is_none() || !says_little {
                            failure = Some(error);
                        }
                    }
                }
            }
            Ok(None) => {
                tried.push(id);
                is_open |= unwrap_keyring(name, &bytes, &Unlock::Nothing, KdfLimits::default())
                    .is_ok_and(|opened| opened.is_some());
            }
            Err(error) => damaged = Some(error),
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
    match damaged {
        Some(error) if tried.is_empty() => Err(error),
        _ => Err(Error::new(
            Kind::WrongKey,
            media.describe(),
            match unlock {
                Unlock::Nothing => "is encrypted: a passphrase or key file is needed",
                Unlock::Passphrase(_) => "the passphrase opens none of its keys",
                _ => "the key file opens none of its keys",
            },
        )),
    }
}

/// The object that tells of a recovery kit, if there is one that can be read.
fn kit_of(media: &dyn Media, key_names: &[(String, u64)], kit: &Unlock) -> Option<[u8; 16]> {
    key_names.iter().find_map(|(path, _)| {
        let Ok(name @ ObjectName::Key { id, .. }) = ObjectName::parse(path) else { return None };
        let bytes = media.get(path).ok()?;
        let opened = unwrap_keyring(name, &bytes, kit, KdfLimits::default()).ok()?;
        opened.map(|_| id)
    })
}

fn shared_ticket(name: ObjectName) -> Error {
    Error::new(
        Kind::Conflict,
        name,
        "exists already, with other content; two writers share a ticket",
    )
}

/// The number of the newest settings.
fn newest_number(media: &dyn Media, names: &[(String, u64)]) -> Result<u64> {
    let numbers = names.iter().filter_map(|(path, _)| match ObjectName::parse(path) {
        Ok(ObjectName::Config { number, .. }) => Some(number),
        _ => None,
    });
    numbers.max().ok_or_else(|| {
        Error::missing(
            media.describe(),
            "has keys but no config: it was not finished, or the config was deleted",
        )
    })
}

/// Does `read` with the newest settings; either copy will do, and the first error is the one that
/// says most.
fn with_newest<T>(
    media: &dyn Media,
    names: &[(String, u64)],
    read: impl Fn(ObjectName, &[u8]) -> Result<T>,
) -> Result<(u64, T)> {
    let number = newest_number(media, names)?;
    let read = |copy| {
        let name = ObjectName::Config { number, copy };
        read(name, &media.get(&name.to_string())?)
    };
    let found = read(false).or_else(|error| read(true).map_err(|_| error))?;
    Ok((number, found))
}

fn newest_header(media: &dyn Media, names: &[(String, u64)]) -> Result<Header> {
    with_newest(media, names, |name, bytes| Header::decode(&name, bytes)).map(|(_, header)| header)
}

/// The newest settings, which `keys` open.
///
/// # Errors
///
/// `WrongKey` where they are of an epoch that `keys` do not have; `Missing` where `keys` have a newer
/// one: then there should be newer settings. `Corrupt` and others as reading gives.
pub(crate) fn newest_config(
    media: &dyn Media,
    names: &[(String, u64)],
    keys: &Keys,
) -> Result<(u64, Config)> {
    with_newest(media, names, |name, bytes| {
        let epoch = Header::decode(&name, bytes)?.epoch;
        if epoch > keys.epoch() {
            return Err(Error::new(
                Kind::WrongKey,
                name,
                format!(
                    "the repository is at key epoch {epoch}, but this key knows only those up to \
                     {}: a new epoch was begun without it (`cutpoint key rotate`). Who has a newer \
                     key can add yours again",
                    keys.epoch()
                ),
            ));
        }
        if epoch < keys.epoch() {
            return Err(Error::missing(
                name,
                format!(
                    "is of key epoch {epoch}, but this key is for epoch {}: newer settings are gone, \
                     or were never put",
                    keys.epoch()
                ),
            ));
        }
        let body = open_object(keys, name, bytes)?;
        Config::decode(&body).map_err(|error| error.of(name))
    })
}
