//! Access to a repository: the `keys/` objects, and new key epochs.
//!
//! Each step leaves a repository that can be opened, wherever the step is cut off: new objects are
//! put and tried before old ones are deleted. A single put, that of the settings, decides which
//! epoch counts (`docs/decisions/0007-key-epochs.md`).

use std::collections::BTreeMap;

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, ObjectKind, Result};

use super::newest_config::newest_config;
use super::repository::Repository;
use super::unlock::KDF_TRIALS_MAX;
use crate::crypto::{
    CipherSuite, KeyAbout, KeyMethod, Keyring, Keys, Secret, Unlock, object_is_intact,
    unwrap_keyring, wrap_keyring,
};
use crate::format::names::ObjectName;
use crate::util::at_once::at_once;

/// A `keys/` object: one way to open a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEntry {
    /// The id of the key, whose name is `keys/<id>`.
    pub id: [u8; 16],
    /// The method by which the key is opened; `None` if neither copy can be read.
    pub method: Option<KeyMethod>,
    /// The creation time and the purpose of the key; `None` if the key does not record them, or
    /// they cannot be read.
    pub about: Option<KeyAbout>,
    /// The number of intact copies of the key, at most two.
    pub copy_count: usize,
    /// Set if this repository was opened with the key.
    pub is_in_use: bool,
    /// The relation of the key's epoch to the current one.
    pub epoch: KeyEpoch,
}

/// The relation of a key's epoch to the epoch that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEpoch {
    /// The key belongs to the current epoch.
    Current,
    /// The key belongs to an older epoch and cannot open the repository any more.
    Old,
    /// The epoch cannot be determined. A new epoch was cut off after it had put this key, or is
    /// about to begin, or a foreign key was put here.
    Unknown,
}

impl KeyEntry {
    /// Returns `true` if the key is known to open the repository. The key with which the repository
    /// was opened does, whatever the state of its copies.
    pub fn opens(&self) -> bool {
        let is_kit = self.method == Some(KeyMethod::RecoveryKit);
        let is_sound = self.epoch == KeyEpoch::Current && self.copy_count > 0;
        !is_kit && (self.is_in_use || (is_sound && self.method.is_some()))
    }
}

/// The treatment of existing keys that are not given the secret of a new epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherKeysPolicy {
    /// Fail if there are such keys.
    Refuse,
    /// Remove such keys, because they would open nothing any more.
    Remove,
}

/// Returns the name by which a key is shown.
pub fn key_name(id: [u8; 16]) -> ObjectName {
    ObjectName::Key { id, copy: false }
}

impl Repository {
    /// Returns every `keys/` object, sorted by creation time; keys of unknown time come first.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage. A key that cannot be read is part of the list, and marked
    /// as such.
    pub fn list_keys(&self) -> Result<Vec<KeyEntry>> {
        let mut copies: BTreeMap<[u8; 16], Vec<Bytes>> = BTreeMap::new();
        for (path, _) in self.storage().list(ObjectKind::Key.folder())? {
            let Ok(ObjectName::Key { id, .. }) = ObjectName::parse(&path) else { continue };
            let bytes = match self.storage().get(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == Kind::Missing => continue,
                // The object is longer than a key can be.
                Err(error) if error.kind() == Kind::Corrupt => Bytes::new(),
                Err(error) => return Err(error),
            };
            let intact = copies.entry(id).or_default();
            intact.extend(Some(bytes).filter(|bytes| object_is_intact(bytes)));
        }
        let entry = |(id, copies): ([u8; 16], Vec<Bytes>)| {
            let name = key_name(id);
            let method = copies.iter().find_map(|bytes| KeyMethod::of_object(name, bytes).ok());
            let about =
                copies.iter().find_map(|bytes| KeyAbout::of_object(self.keys(), name, bytes).ok());
            let is_in_use = self.key_id() == Some(id);
            // A key that records nothing about itself belongs to the first epoch.
            let epoch = about.as_ref().map(|about| about.as_ref().map_or(1, |about| about.epoch));
            let epoch = match epoch {
                _ if is_in_use => KeyEpoch::Current,
                Some(epoch) if epoch == self.keys().epoch() => KeyEpoch::Current,
                Some(_) => KeyEpoch::Old,
                None => KeyEpoch::Unknown,
            };
            KeyEntry {
                id,
                method,
                about: about.flatten(),
                copy_count: copies.len(),
                is_in_use,
                epoch,
            }
        };
        let mut entries: Vec<KeyEntry> = copies.into_iter().map(entry).collect();
        entries.sort_by_key(|entry| {
            (entry.about.as_ref().map_or(i64::MIN, |about| about.made_ns), entry.id)
        });
        Ok(entries)
    }

    /// Adds a key for `unlock` to the repository, and tries it. Returns the id of the key.
    ///
    /// # Errors
    ///
    /// Returns an `Invalid` error if the repository is not encrypted or the label is too long,
    /// `Conflict` if another client began a new epoch meanwhile, and `Corrupt` if the stored key
    /// does not open. After an error no copy of the key is left, provided that the storage permits
    /// deleting it.
    pub fn add_key(&self, unlock: &Unlock, label: &str) -> Result<[u8; 16]> {
        let is_open = self.keys().suite() == CipherSuite::None;
        if is_open || matches!(unlock, Unlock::Nothing) {
            return Err(Error::invalid(
                self.storage().describe(),
                "a key can be added only to an encrypted repository",
            ));
        }
        let id = self.put_key(self.keys().keyring(), unlock, label)?;
        self.try_key(id, unlock).map_err(|error| {
            self.delete_key(id).ok();
            match error.kind() {
                Kind::WrongKey | Kind::Missing => Error::new(
                    Kind::Conflict,
                    key_name(id),
                    "the keys of the repository were changed by another client meanwhile; try \
                     again",
                )
                .with_source(error),
                _ => error,
            }
        })?;
        Ok(id)
    }

    /// Wraps `keyring` and puts it in two copies. Returns the id of the key.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage. A copy that was put before the error is deleted again, if
    /// the storage permits.
    pub(crate) fn put_key(
        &self,
        keyring: &Keyring,
        unlock: &Unlock,
        label: &str,
    ) -> Result<[u8; 16]> {
        let mut id = [0; 16];
        self.environment().random(&mut id)?;
        let salts = [self.salt()?, self.salt()?];
        let about = KeyAbout {
            made_ns: self.environment().now_ns(),
            label: label.to_owned(),
            epoch: keyring.epochs.last().map_or(0, |(epoch, _)| *epoch),
        };
        let bytes = wrap_keyring(keyring, unlock, self.keys().suite(), id, salts, &about)?;
        let put = |copy| self.put(ObjectName::Key { id, copy }, bytes.clone());
        if let Err(error) = at_once(&**self.storage(), [false, true], put) {
            self.delete_key(id).ok();
            return Err(error);
        }
        Ok(id)
    }

    /// Reads back and opens both copies of a key, and opens the settings with the keyring in them.
    fn try_key(&self, id: [u8; 16], unlock: &Unlock) -> Result<()> {
        let keyring = self.open_key(id, unlock)?;
        self.try_settings(&Keys::derive(&keyring, self.keys().suite()))
    }

    /// Fails unless `keys` open the newest settings.
    fn try_settings(&self, keys: &Keys) -> Result<()> {
        let configs = self.storage().list(ObjectKind::Config.folder())?;
        newest_config(&**self.storage(), &configs, keys, self.ignores_newer()).map(drop)
    }

    /// Returns the keyring of a key, of which both copies must be equal and intact.
    fn open_key(&self, id: [u8; 16], unlock: &Unlock) -> Result<Keyring> {
        let [name, other] = [false, true].map(|copy| ObjectName::Key { id, copy });
        let get = |name: ObjectName| self.storage().get(&name.to_string());
        let copies = at_once(&**self.storage(), [name, other], get)?;
        let is_same = copies.windows(2).all(|pair| pair[0] == pair[1]);
        let Some(bytes) =
            copies.into_iter().next().filter(|bytes| is_same && object_is_intact(bytes))
        else {
            return Err(Error::corrupt(other, "content differs from what was just written"));
        };
        match unwrap_keyring(name, &bytes, unlock, self.kdf_limits())? {
            Some((keyring, _)) => Ok(keyring),
            None => Err(Error::corrupt(
                name,
                "cannot be opened with the secret that it was created for",
            )),
        }
    }

    /// Deletes both copies of a key. The original, which readers try first, goes last. Then deletes
    /// any copy that a repair has restored from the other meanwhile. A repair that restores a copy
    /// later finds the other gone, and takes its own copy back.
    pub(crate) fn delete_key(&self, id: [u8; 16]) -> Result<()> {
        let names = [true, false].map(|copy| ObjectName::Key { id, copy }.to_string());
        for name in &names {
            self.storage().delete(name)?;
        }
        for name in &names {
            if self.storage().head(name)?.is_some() {
                self.storage().delete(name)?;
            }
        }
        Ok(())
    }

    /// Removes a key, that is, both copies of `keys/<id>`.
    ///
    /// A client that knows the secret and has a copy of the object can still open the data that
    /// exists now; only a new epoch protects future data from it. If two clients remove the last
    /// two keys at the same time, at least one of them puts its key back.
    ///
    /// # Errors
    ///
    /// Returns an `Invalid` error if there is no such key, or if it is the last one that opens the
    /// repository. Unless `is_meant` is set, also returns `Invalid` if the repository was opened
    /// with the key, or if the key's epoch is unknown, because the key may belong to an epoch that
    /// is just beginning. Returns `Conflict` if another client changes keys at the same time.
    pub fn remove_key(&self, id: [u8; 16], is_meant: bool) -> Result<()> {
        let entries = self.list_keys()?;
        let Some(entry) = entries.iter().find(|entry| entry.id == id) else {
            return Err(Error::invalid(key_name(id), "not found"));
        };
        let others =
            |entries: &[KeyEntry]| entries.iter().any(|each| each.id != id && each.opens());
        if entry.opens() && !others(&entries) {
            return Err(Error::invalid(
                key_name(id),
                "cannot be removed: the last key that opens the repository (add another key first)",
            ));
        }
        let objection = match entry.epoch {
            _ if is_meant => None,
            _ if entry.is_in_use => {
                Some("cannot be removed: the repository was opened with this key")
            }
            KeyEpoch::Unknown => Some(
                "cannot be removed: its kind is unknown, because a new epoch was interrupted or is \
                 being started by another client",
            ),
            KeyEpoch::Current | KeyEpoch::Old => None,
        };
        if let Some(objection) = objection {
            return Err(Error::invalid(key_name(id), objection));
        }
        let changed = |error: Error| match error.kind() {
            Kind::WrongKey | Kind::Missing => {
                let message = "the keys were changed by another client meanwhile";
                Error::new(Kind::Conflict, key_name(id), message).with_source(error)
            }
            _ => error,
        };
        // A client that does not know the newest epoch cannot tell which key is the last one.
        self.try_settings(self.keys()).map_err(changed)?;
        let mut kept: Vec<(ObjectName, Bytes)> = Vec::new();
        for copy in [false, true] {
            let name = ObjectName::Key { id, copy };
            match self.storage().get(&name.to_string()) {
                Ok(bytes) => kept.push((name, bytes)),
                Err(error) if error.kind() == Kind::Missing => {}
                // A copy that cannot be read cannot be put back.
                Err(error) => return Err(error),
            }
        }
        self.delete_key(id)?;
        if !entry.opens() || others(&self.list_keys()?) {
            return Ok(());
        }
        self.try_settings(self.keys()).map_err(changed)?;
        for (name, bytes) in kept {
            self.put(name, bytes)?;
        }
        Err(Error::new(
            Kind::Conflict,
            key_name(id),
            "not removed, because another client removed the other keys meanwhile",
        ))
    }

    /// Replaces a key: adds the new one, tries it, and removes the old one. Returns the id of the
    /// new key, which has the label of the old one.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Repository::add_key`] and [`Repository::remove_key`]. If removing
    /// fails, both keys open the repository.
    pub fn replace_key(&mut self, id: [u8; 16], unlock: &Unlock) -> Result<[u8; 16]> {
        let entries = self.list_keys()?;
        let Some(entry) = entries.iter().find(|entry| entry.id == id) else {
            return Err(Error::invalid(key_name(id), "not found"));
        };
        let label = entry.about.as_ref().map_or("", |about| &about.label);
        let new = self.add_key(unlock, label)?;
        self.remove_key(id, true)?;
        if entry.is_in_use {
            self.opened_with(new);
        }
        Ok(new)
    }

    /// Begins a new epoch: generates a secret, stores it in a new key for each of `secrets`, and
    /// seals all new objects with it from then on. Returns the ids of the new keys, in the order of
    /// `secrets`. The keys that they replace are removed.
    ///
    /// Each of `secrets` has to open an existing key of the repository. A key that none of them
    /// opens cannot be given the new secret; `others` decides what happens to it. Older recovery
    /// kits do not open the repository any more. Running writers go on with the old epoch until
    /// their work ends.
    ///
    /// Until the settings are put, nothing changes. From then on the new epoch counts.
    ///
    /// # Errors
    ///
    /// Returns an `Invalid` error if the repository is not encrypted, or if there are other keys
    /// and `others` is [`OtherKeysPolicy::Refuse`]; `WrongKey` if one of `secrets` opens no key;
    /// and `Conflict` if another client changed keys or settings meanwhile. After an error of the
    /// storage either epoch may count; keys for both exist.
    pub fn begin_epoch(
        &mut self,
        secrets: &[Unlock],
        others: OtherKeysPolicy,
    ) -> Result<Vec<[u8; 16]>> {
        let suite = self.keys().suite();
        if suite == CipherSuite::None || secrets.is_empty() {
            return Err(Error::invalid(
                self.storage().describe(),
                "a new epoch requires an encrypted repository and a secret that opens it",
            ));
        }
        let entries = self.list_keys()?;
        let mut replaced: Vec<[u8; 16]> = Vec::new();
        let mut kept: Vec<(&Unlock, &str)> = Vec::new();
        for unlock in secrets {
            let opened = self.keys_opened_by(&entries, unlock)?;
            let Some(first) = opened.first() else {
                let message = "one of the secrets to keep opens no key of the repository";
                return Err(Error::new(Kind::WrongKey, self.storage().describe(), message));
            };
            if !replaced.contains(&first.id) {
                kept.push((unlock, first.about.as_ref().map_or("", |about| &about.label)));
                replaced.extend(opened.iter().map(|entry| entry.id));
            }
        }
        let left: Vec<&KeyEntry> =
            entries.iter().filter(|entry| !replaced.contains(&entry.id)).collect();
        let untold: Vec<String> = left
            .iter()
            .filter(|entry| entry.opens())
            .map(|entry| match &entry.about {
                Some(about) if !about.label.is_empty() => {
                    format!("{} ({})", key_name(entry.id), about.label)
                }
                _ => key_name(entry.id).to_string(),
            })
            .collect();
        if others == OtherKeysPolicy::Refuse && !untold.is_empty() {
            return Err(Error::invalid(
                self.storage().describe(),
                format!(
                    "without their secrets, these keys would no longer open the repository: {}",
                    untold.join(", ")
                ),
            ));
        }
        let keyring = self.next_keyring()?;
        let keys = Keys::derive(&keyring, suite);
        let mut made: Vec<[u8; 16]> = Vec::new();
        let put = self.put_keys(&keyring, &kept, &mut made);
        let was_put = put.is_ok();
        let first = made.first().copied().unwrap_or_default();
        if let Err(error) = put.and_then(|()| self.take_keys(keys.clone(), first)) {
            // Without settings of the new epoch, the keys of that epoch are useless. They stay if
            // the storage does not say whether the settings were put.
            let opens_nothing =
                || self.try_settings(&keys).is_err_and(|error| error.kind() != Kind::Storage);
            if !was_put || (error.kind() == Kind::Conflict && opens_nothing()) {
                made.iter().for_each(|id| {
                    self.delete_key(*id).ok();
                });
            }
            return Err(error);
        }
        for id in &replaced {
            self.delete_key(*id)?;
        }
        if others == OtherKeysPolicy::Remove {
            left.iter().try_for_each(|entry| self.delete_key(entry.id))?;
        }
        Ok(made)
    }

    /// Returns the keyring with one more epoch.
    fn next_keyring(&self) -> Result<Keyring> {
        let mut secret = Secret([0; 32]);
        self.environment().random(&mut secret.0)?;
        let epoch = self.keys().epoch().checked_add(1).ok_or_else(|| {
            Error::invalid(self.storage().describe(), "the maximum number of epochs is reached")
        })?;
        let mut keyring = self.keys().keyring().clone();
        keyring.epochs.push((epoch, secret));
        Ok(keyring)
    }

    /// Puts `keyring` into a key with a label for each of `secrets`, and reads each key back.
    fn put_keys(
        &self,
        keyring: &Keyring,
        secrets: &[(&Unlock, &str)],
        made: &mut Vec<[u8; 16]>,
    ) -> Result<()> {
        for (unlock, label) in secrets {
            let id = self.put_key(keyring, unlock, label)?;
            made.push(id);
            if self.open_key(id, unlock)? != *keyring {
                return Err(Error::corrupt(
                    key_name(id),
                    "content differs from what was just written",
                ));
            }
        }
        Ok(())
    }

    /// Returns those of `entries` that `unlock` opens.
    fn keys_opened_by<'a>(
        &self,
        entries: &'a [KeyEntry],
        unlock: &Unlock,
    ) -> Result<Vec<&'a KeyEntry>> {
        let mut opened = Vec::new();
        let candidates = entries.iter().filter(|entry| {
            entry.method == Some(unlock.method()) && entry.method != Some(KeyMethod::RecoveryKit)
        });
        let candidates: Vec<&KeyEntry> = candidates.collect();
        if matches!(unlock, Unlock::Passphrase(_)) && candidates.len() > KDF_TRIALS_MAX {
            let message = format!(
                "{} keys are for passphrases, and at most {KDF_TRIALS_MAX} are tried: remove \
                 planted keys (`cutpoint key remove`)",
                candidates.len()
            );
            return Err(Error::new(Kind::Unsupported, self.storage().describe(), message));
        }
        for entry in candidates {
            let opens = |copy| {
                let name = ObjectName::Key { id: entry.id, copy };
                let bytes = self.storage().get(&name.to_string())?;
                let opened = unwrap_keyring(name, &bytes, unlock, self.kdf_limits())?;
                if opened.is_none() && !object_is_intact(&bytes) {
                    return Err(Error::corrupt(name, "damaged: cannot be opened"));
                }
                Ok(opened.is_some())
            };
            // Either copy is enough.
            if opens(false).or_else(|error| opens(true).map_err(|_| error))? {
                opened.push(entry);
            }
        }
        Ok(opened)
    }
}
