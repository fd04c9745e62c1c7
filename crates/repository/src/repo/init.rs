//! Creating a repository.

use std::sync::{Arc, OnceLock};

use cutpoint_storage::{Environment, Error, Kind, ObjectKind, Result, Storage, Visibility};

use super::options::{InitOptions, OpenOptions};
use super::repository::Repository;
use super::set_config::changed_settings;
use super::view::ViewCache;
use crate::crypto::{CHUNK_EPOCH, CipherSuite, Keyring, Keys, RepositoryId, Secret, Unlock};
use crate::format::config::Config;
use crate::util::at_once::at_once;
use crate::util::memory_limit::MemoryLimit;

impl Repository {
    /// Creates a new repository on an empty storage and opens it. Cutting in an encrypted
    /// repository is keyed with a secret.
    ///
    /// With [`Repository::comparable_options`] of another repository, equal data has equal
    /// cut-points and fingerprints in both.
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
        require_fitting_secret(unlock, encrypted)?;
        let left_over = require_empty(&*storage)?;
        let mut id = RepositoryId([0; 16]);
        environment.random(&mut id.0)?;
        let chunk_secret = match &options.chunk_secret {
            Some(shared) => shared.clone(),
            None => {
                let mut own = Secret([0; 32]);
                environment.random(&mut own.0)?;
                own
            }
        };
        let mut secret = Secret([0; 32]);
        environment.random(&mut secret.0)?;
        let config = first_config(id, options, storage.visibility()?, environment.now_ns());
        config.check()?;
        let keyring =
            Keyring { repository: id, epochs: vec![(CHUNK_EPOCH, chunk_secret), (1, secret)] };
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
            temporary_folder: None,
            memory: MemoryLimit::default(),
            options: OpenOptions::default(),
            unopened: Vec::new(),
            view_cache: ViewCache::default(),
            lag_announced: OnceLock::new(),
        };
        // The key is derived from a passphrase while the reserve is on its way.
        let put = |is_key| match is_key {
            true => repository.put_key(&keyring, unlock, "").map(Some),
            false => repository.put_reserve().map(|()| None),
        };
        let puts = at_once(&*repository.storage, [false, true], put)?;
        let own = puts.into_iter().flatten().next().unwrap_or_default();
        repository.key_id = Some(own);
        if !repository.put_first_config()? {
            repository.delete_key(own).ok();
            return Err(changed_settings(0));
        }
        // The config now tells every other `init` that it has lost. Keys that remain of other
        // clients open nothing, and are skipped.
        for (name, _) in left_over {
            repository.storage.delete(&name).ok();
        }
        Ok(repository)
    }

    /// Returns the options of a repository in which equal data has the same cut-points and
    /// fingerprints as in this one, with the same settings. Its id, its sealing keys and its
    /// passphrases are its own.
    ///
    /// # Errors
    ///
    /// Returns an `Unsupported` error if this repository seals objects with the secret from which
    /// its fingerprints are derived.
    pub fn comparable_options(&self) -> Result<InitOptions> {
        let config = self.config();
        let chunk_secret = self.keys().keyring().chunk_secret().cloned().ok_or_else(|| {
            let message = "its fingerprints depend on a secret that also seals its objects";
            Error::new(Kind::Unsupported, self.storage().describe(), message)
        })?;
        Ok(InitOptions {
            suite: config.suite,
            cut: config.cut.clone(),
            region_size: config.region_size,
            container_size: config.container_size,
            compression_level: config.compression_level,
            delta_chunks: config.uses_delta_chunks(),
            parity_percent: config.parity_percent,
            chunk_secret: Some(chunk_secret),
            may_be_shared: None,
        })
    }
}

/// Requires a secret if the repository is encrypted, and none otherwise.
fn require_fitting_secret(unlock: &Unlock, encrypted: bool) -> Result<()> {
    if matches!(unlock, Unlock::Keyring(_)) {
        return Err(Error::invalid("init", "a recovery kit cannot be the key of a new repository"));
    }
    if encrypted == matches!(unlock, Unlock::Nothing) {
        return Err(Error::invalid(
            "init",
            "encryption requires a passphrase or key, and no encryption excludes both",
        ));
    }
    Ok(())
}

/// Requires a storage without any object but keys, which are returned.
fn require_empty(storage: &dyn Storage) -> Result<Vec<(String, u64)>> {
    if !storage.list(ObjectKind::Config.folder())?.is_empty() {
        return Err(Error::invalid(storage.describe(), "a repository exists already"));
    }
    let kinds = ObjectKind::ALL.into_iter().filter(|kind| *kind != ObjectKind::Key);
    let kinds = kinds.chain([ObjectKind::Key]);
    let mut listings = at_once(storage, kinds, |kind| storage.list(kind.folder()))?;
    let keys = listings.pop().unwrap_or_default();
    if let Some((name, _)) = listings.iter().flatten().next() {
        let message = format!(
            "incomplete repository: {name} found, but no config (deleted or never written)",
        );
        return Err(Error::invalid(storage.describe(), message));
    }
    Ok(keys)
}

/// Returns the first settings of the repository `id`, in a storage that promises `visibility`.
fn first_config(
    id: RepositoryId,
    options: &InitOptions,
    visibility: Visibility,
    created_ns: i64,
) -> Config {
    let mut config = Config {
        repository: id,
        suite: options.suite,
        cut: options.cut.clone(),
        cut_is_keyed: options.suite != CipherSuite::None,
        region_size: options.region_size,
        container_size: options.container_size,
        compression_level: options.compression_level,
        parity_percent: options.parity_percent,
        delta: String::new(),
        probed: Vec::new(),
        created_ns,
        features_read: Vec::new(),
        features_write: Vec::new(),
        features_optional: Vec::new(),
        extra: Vec::new(),
    };
    if options.delta_chunks {
        config.enable_delta_chunks();
    }
    if let Some(may_be_shared) = options.may_be_shared {
        config.record_probe(visibility, may_be_shared);
    }
    config
}
