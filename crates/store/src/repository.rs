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
    KdfLimits, Keyring, Keys, RepositoryId, SALT_LEN, Secret, Suite, Unlock, open_object,
    seal_object, unwrap_keyring, wrap_keyring,
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
        let config = Config {
            repository,
            suite: options.suite,
            cut: options.cut.clone(),
            cut_is_keyed: encrypted,
            region_size: options.region_size,
            container_size: options.container_size,
            compression_level: options.compression_level,
            created_ns: environment.now_ns(),
            features_read: Vec::new(),
            features_write: Vec::new(),
            features_optional: Vec::new(),
            extra: Vec::new(),
        };
        config.check()?;
        let keyring = Keyring { repository, epochs: vec![(1, secret)] };
        let keys = Keys::derive(&keyring, options.suite);
        media.prepare()?;
        let repository =
            Repository { media, environment, keys, config, config_number: 0, cache: None };
        repository.put_reserve()?;
        let own = repository.add_key(unlock)?;
        if let Err(error) = repository.put_config(0, &repository.config) {
            if error.kind() == Kind::Conflict {
                for copy in [false, true] {
                    repository.media.delete(&ObjectName::Key { id: own, copy }.to_string()).ok();
                }
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
        let key_names: Vec<_> = media.list(ObjectKind::Key.folder())?;
        let config_names: Vec<_> = media.list(ObjectKind::Config.folder())?;
        if key_names.is_empty() && config_names.is_empty() {
            return Err(Error::missing(
                media.describe(),
                "is not a cutpoint repository (it has neither config nor keys)",
            ));
        }
        let mut passed_over: Vec<[u8; 16]> = Vec::new();
        let mut failure = None;
        let (keys, config_number, config) = loop {
            let (id, keyring, suite) = match unlock_any(&*media, &key_names, &passed_over, unlock) {
                Ok(opened) => opened,
                Err(error) => return Err(failure.unwrap_or(error)),
            };
            let keys = Keys::derive(&keyring, suite);
            let error = match newest_config(&*media, &config_names, &keys) {
                // The settings are sealed with keys that the keyring gave; what they say of
                // themselves must agree, or somebody mixed two repositories.
                Ok((number, config))
                    if config.repository == keyring.repository && config.suite == suite =>
                {
                    break (keys, number, config);
                }
                Ok((number, _)) => Error::corrupt(
                    ObjectName::Config { number, copy: false },
                    "belongs to another repository than the keys",
                ),
                Err(error) => error,
            };
            // Of two that made the repository at the same time one has left a keyring that opens
            // nothing: another may.
            passed_over.push(id);
            failure.get_or_insert(error);
        };
        config.check_features(false)?;
        Ok(Repository { media, environment, keys, config, config_number, cache: None })
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

    fn put_config(&self, number: u64, config: &Config) -> Result<()> {
        let body = config.encode();
        let name = ObjectName::Config { number, copy: false };
        let bytes = seal_object(&self.keys, name, self.salt()?, &body);
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

    /// Adds a way to unlock the repository; puts it twice. Returns its name.
    ///
    /// # Errors
    ///
    /// As the medium.
    pub fn add_key(&self, unlock: &Unlock) -> Result<[u8; 16]> {
        let mut id = [0; 16];
        self.environment.random(&mut id)?;
        let salts = [self.salt()?, self.salt()?];
        let bytes = wrap_keyring(self.keys.keyring(), unlock, self.keys.suite(), id, salts)?;
        for copy in [false, true] {
            self.put(ObjectName::Key { id, copy }, bytes.clone())?;
        }
        Ok(id)
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

/// Tries every keyring but those `passed_over`, each in both copies, until one opens.
fn unlock_any(
    media: &dyn Media,
    names: &[(String, u64)],
    passed_over: &[[u8; 16]],
    unlock: &Unlock,
) -> Result<([u8; 16], Keyring, Suite)> {
    let mut damaged = None;
    let mut tried = passed_over.to_vec();
    let mut is_open = false;
    for (path, _) in names {
        let Ok(ObjectName::Key { id, copy }) = ObjectName::parse(path) else { continue };
        // The copy of a keyring that was read well needs no second try: stretching takes time.
        if tried.contains(&id) {
            continue;
        }
        let bytes = media.get(path)?;
        match unwrap_keyring(ObjectName::Key { id, copy }, &bytes, unlock, KdfLimits::default()) {
            Ok(Some((keyring, suite))) => return Ok((id, keyring, suite)),
            Ok(None) => {
                tried.push(id);
                is_open |= unwrap_keyring(
                    ObjectName::Key { id, copy },
                    &bytes,
                    &Unlock::Nothing,
                    KdfLimits::default(),
                )
                .is_ok_and(|opened| opened.is_some());
            }
            Err(error) => damaged = Some(error),
        }
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

fn shared_ticket(name: ObjectName) -> Error {
    Error::new(
        Kind::Conflict,
        name,
        "exists already, with other content; two writers share a ticket",
    )
}

fn newest_config(media: &dyn Media, names: &[(String, u64)], keys: &Keys) -> Result<(u64, Config)> {
    let mut numbers: Vec<u64> = names
        .iter()
        .filter_map(|(path, _)| match ObjectName::parse(path) {
            Ok(ObjectName::Config { number, .. }) => Some(number),
            _ => None,
        })
        .collect();
    numbers.sort_unstable();
    let Some(&number) = numbers.last() else {
        return Err(Error::missing(
            media.describe(),
            "has keys but no config: it was not finished, or the config was deleted",
        ));
    };
    let read = |copy| {
        let name = ObjectName::Config { number, copy };
        let body = open_object(keys, name, &media.get(&name.to_string())?)?;
        Config::decode(&body).map_err(|error| error.of(name))
    };
    // Either copy will do; the first error is the one that says most.
    let config = read(false).or_else(|error| read(true).map_err(|_| error))?;
    Ok((number, config))
}
