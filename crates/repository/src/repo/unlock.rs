//! Unlocking: from a secret to the keys and the settings that it opens.

use cutpoint_storage::{Error, Kind, Result, Storage};

use super::listing::{copies, get_listed};
use super::newest_config::{NewestConfig, as_damage, newest_config};
use super::options::OpenOptions;
use crate::crypto::{
    CipherSuite, KdfLimits, KeyMethod, Keyring, Keys, Unlock, object_is_intact, unwrap_keyring,
};
use crate::format::names::ObjectName;
use crate::format::newer::NewerClaim;

/// Maximum number of `keys/` objects for which one passphrase is stretched.
pub const KDF_TRIALS_MAX: usize = 64;

/// The keys that a secret has opened, and the newest settings that these keys open.
pub(super) struct UnlockResult {
    pub(super) key_id: Option<[u8; 16]>,
    pub(super) keys: Keys,
    pub(super) newest: NewestConfig,
}

/// Tries every keyring that `unlock` opens, each in both copies, until one opens the settings.
///
/// There can be several such keyrings. Of two clients that created the repository at the same time,
/// one has left a keyring that opens nothing. A client that was cut off while a new epoch began has
/// left the old keyring or the new one. The settings decide, because only one keyring matches their
/// epoch.
pub(super) fn unlock_by_any_key(
    storage: &dyn Storage,
    key_names: &[(String, u64)],
    config_names: &[(String, u64)],
    unlock: &Unlock,
    options: &OpenOptions,
) -> Result<UnlockResult> {
    let mut trials = KeyTrials::new(storage, config_names, unlock, options);
    if let Unlock::Keyring(keyring) = unlock {
        let unlocked = trials.open_by_kit(keyring)?;
        return Ok(UnlockResult { key_id: kit_of(storage, key_names, unlock), ..unlocked });
    }
    let listed = copies(key_names, |name| match name {
        ObjectName::Key { id, copy } => Some((id, copy)),
        _ => None,
    });
    let mut ids: Vec<[u8; 16]> = listed.keys().copied().collect();
    if let Some(only) = options.only_key {
        if !listed.contains_key(&only) {
            let id: String = only.iter().map(|byte| format!("{byte:02x}")).collect();
            return Err(Error::new(Kind::WrongKey, "--key-id", format!("key {id}: not found"))
                .with_remedy("`cutpoint key list` lists all keys"));
        }
        ids = vec![only];
    }
    // The order of the others is that of the listing.
    ids.sort_by_key(|id| !options.first_keys.contains(id));
    for id in ids {
        if let Some(unlocked) = trials.try_key(id, listed[&id])? {
            return Ok(unlocked);
        }
    }
    Err(trials.into_error())
}

/// The trials of one secret on the keys of a repository, and what they have shown so far.
struct KeyTrials<'a> {
    storage: &'a dyn Storage,
    config_names: &'a [(String, u64)],
    unlock: &'a Unlock,
    options: &'a OpenOptions,
    /// The error of settings that an opened keyring does not fit.
    failure: Option<Error>,
    /// The error of a damaged keyring.
    damaged: Option<Error>,
    /// The error of a keyring that this version or its limits refuse.
    refused: Option<Error>,
    /// Number of passphrase derivations.
    derivation_count: usize,
    /// Number of keys that were not tried, because [`KDF_TRIALS_MAX`] were.
    untried_count: usize,
    /// Set if any keyring could be read.
    was_read: bool,
    /// Set if a keyring opens without a secret.
    is_unencrypted: bool,
}

/// The result of trying one copy of a keyring.
enum CopyTrial {
    UnlockResult(Box<UnlockResult>),
    /// The other copy may still open.
    TryOtherCopy,
    TryNextKey,
}

impl<'a> KeyTrials<'a> {
    fn new(
        storage: &'a dyn Storage,
        config_names: &'a [(String, u64)],
        unlock: &'a Unlock,
        options: &'a OpenOptions,
    ) -> KeyTrials<'a> {
        KeyTrials {
            storage,
            config_names,
            unlock,
            options,
            failure: None,
            damaged: None,
            refused: None,
            derivation_count: 0,
            untried_count: 0,
            was_read: false,
            is_unencrypted: false,
        }
    }

    fn newest_config(&self, keys: &Keys) -> Result<NewestConfig> {
        newest_config(self.storage, self.config_names, keys, self.options.ignores_newer)
    }

    /// Opens the settings with the keys of `keyring`.
    fn open_settings(
        &self,
        key_id: Option<[u8; 16]>,
        keyring: &Keyring,
        suite: CipherSuite,
    ) -> Result<UnlockResult> {
        let keys = Keys::derive(keyring, suite);
        let newest = self.newest_config(&keys)?;
        as_opened(key_id, keyring, keys, newest)
    }

    /// Opens the settings with a recovery kit, which is sufficient even if `keys/` is missing. The
    /// settings record the cipher suite, and the keys of either cipher open them.
    fn open_by_kit(&self, keyring: &Keyring) -> Result<UnlockResult> {
        let read = |suite| {
            let keys = Keys::derive(keyring, suite);
            self.newest_config(&keys).map(|newest| (keys, newest))
        };
        let (keys, newest) = read(CipherSuite::Aes256Gcm)
            .or_else(|error| read(CipherSuite::None).map_err(|_| error))?;
        if newest.config.suite == keys.suite() {
            return as_opened(None, keyring, keys, newest);
        }
        self.open_settings(None, keyring, newest.config.suite)
    }

    /// Tries both copies of a key, whose listed lengths are `lens`.
    fn try_key(&mut self, id: [u8; 16], lens: [Option<u64>; 2]) -> Result<Option<UnlockResult>> {
        let mut unread = None;
        for (copy, len) in [false, true].into_iter().zip(lens) {
            let Some(len) = len else { continue };
            let name = ObjectName::Key { id, copy };
            let bytes = match get_listed(self.storage, name, len) {
                Ok(bytes) => bytes,
                // The key was removed at this moment.
                Err(error) if error.kind() == Kind::Missing => continue,
                Err(error) if error.kind() == Kind::Corrupt => {
                    self.damaged = Some(error);
                    continue;
                }
                // The other copy may lie on a readable sector.
                Err(error) if error.kind() == Kind::Storage => {
                    unread = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            match self.try_copy(id, name, &bytes) {
                CopyTrial::UnlockResult(unlocked) => return Ok(Some(*unlocked)),
                CopyTrial::TryOtherCopy => {}
                CopyTrial::TryNextKey => break,
            }
        }
        unread.map_or(Ok(None), Err)
    }

    fn try_copy(&mut self, id: [u8; 16], name: ObjectName, bytes: &[u8]) -> CopyTrial {
        // A flipped bit in the fields that describe how the object is opened can make it unopenable
        // with this secret, or by this version. Then the other copy counts.
        let is_intact = object_is_intact(bytes);
        let is_passphrase = matches!(self.unlock, Unlock::Passphrase(_))
            && KeyMethod::of_object(name, bytes)
                .is_ok_and(|method| method == KeyMethod::Passphrase);
        if is_passphrase {
            if self.derivation_count >= KDF_TRIALS_MAX {
                self.untried_count += 1;
                return CopyTrial::TryNextKey;
            }
            self.derivation_count += 1;
        }
        let limits = self.options.kdf_limits;
        match unwrap_keyring(name, bytes, self.unlock, limits) {
            Ok(Some((keyring, suite))) => {
                self.was_read = true;
                match self.open_settings(Some(id), &keyring, suite) {
                    Ok(unlocked) => return CopyTrial::UnlockResult(Box::new(unlocked)),
                    Err(error) => self.keep_failure(error),
                }
                CopyTrial::TryNextKey
            }
            Ok(None) => {
                self.was_read = true;
                self.is_unencrypted |= unwrap_keyring(name, bytes, &Unlock::Nothing, limits)
                    .is_ok_and(|opened| opened.is_some());
                // A keyring that was read intact needs no trial of its copy, because stretching
                // takes time. If only one key is asked for, its copy is tried because it may
                // differ.
                if self.options.only_key.is_none() && is_intact {
                    CopyTrial::TryNextKey
                } else {
                    CopyTrial::TryOtherCopy
                }
            }
            // The passphrase was not stretched.
            Err(error) if error.kind() == Kind::Unsupported => {
                self.derivation_count -= usize::from(is_passphrase);
                if !is_intact && NewerClaim::of(&error).is_some() {
                    self.damaged = Some(as_damage(name, bytes, error));
                    return CopyTrial::TryOtherCopy;
                }
                self.refused = self.refused.take().or(Some(error));
                if is_intact { CopyTrial::TryNextKey } else { CopyTrial::TryOtherCopy }
            }
            Err(error) => {
                self.damaged = Some(error);
                CopyTrial::TryOtherCopy
            }
        }
    }

    /// Keeps the most informative error of settings. A key of another epoch is the least
    /// informative one, because another key may fit.
    fn keep_failure(&mut self, error: Error) {
        let says_little = matches!(error.kind(), Kind::WrongKey | Kind::Missing);
        if self.failure.is_none() || !says_little {
            self.failure = Some(error);
        }
    }

    /// Returns the error of trials that have all failed.
    fn into_error(self) -> Error {
        let KeyTrials { storage, unlock, options, untried_count, was_read, refused, .. } = self;
        let has_passphrases = self.derivation_count + untried_count > 0 || self.damaged.is_some();
        if let Some(failure) = self.failure {
            return failure;
        }
        if self.is_unencrypted && !matches!(unlock, Unlock::Nothing) {
            return Error::new(
                Kind::WrongKey,
                storage.describe(),
                "unencrypted repository (expected an encrypted one, because a secret was given)",
            )
            .with_remedy(
                "use --encryption none; if the repository was encrypted, someone has replaced it",
            );
        }
        if let Some(error) = self.damaged.filter(|_| !was_read && refused.is_none()) {
            let message = format!("{error}; nothing can be opened without a keyring");
            return Error::new(error.kind(), "", message)
                .with_remedy("put keys/ back from a copy of the repository, or give a recovery kit")
                .with_source(error);
        }
        if let Some(error) = &refused
            && !was_read
        {
            return Error::new(Kind::Unsupported, "", error.to_string());
        }
        let is_passphrase = matches!(unlock, Unlock::Passphrase(_));
        if is_passphrase && was_read && !has_passphrases && refused.is_none() {
            let problem = match options.only_key {
                None => "no key of the repository is a passphrase",
                Some(_) => "the key given with --key-id is not a passphrase",
            };
            return Error::new(Kind::WrongKey, storage.describe(), problem)
                .with_remedy("give a key file or a recovery kit, as --key-file FILE");
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
                 --key-id ID, `cutpoint key list` shows the IDs)"
            ));
        }
        if let Some(error) = refused {
            message.push_str(&format!("; one key was not tried: {error}"));
        }
        Error::new(Kind::WrongKey, storage.describe(), message)
    }
}

/// Returns the result of an opening by `keys`, which are those of `keyring`. The settings are sealed with
/// keys of the keyring. The repository id and the cipher suite in them must agree with the keyring;
/// otherwise two repositories were mixed.
fn as_opened(
    key_id: Option<[u8; 16]>,
    keyring: &Keyring,
    keys: Keys,
    newest: NewestConfig,
) -> Result<UnlockResult> {
    let config = &newest.config;
    if config.repository == keyring.repository && config.suite == keys.suite() {
        return Ok(UnlockResult { key_id, keys, newest });
    }
    let name = ObjectName::Config { number: newest.number, copy: false };
    Err(Error::corrupt(name, "belongs to another repository than the keys"))
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
