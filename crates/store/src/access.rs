//! Who can open a repository: the `keys/` objects, and new key epochs.
//!
//! Each step leaves a repository that opens, wherever it is cut off: what is new is put and tried
//! before what is old is deleted. Which epoch counts is decided by one put, that of the settings
//! (`docs/decisions/0007-key-epochs.md`).

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::error::{Error, Kind, Result};
use crate::name::{ObjectKind, ObjectName};
use crate::repository::{KDF_TRIALS_MAX, Repository, newest_config};
use crate::seal::{
    KeyAbout, KeyMethod, Keyring, Keys, Secret, Suite, Unlock, object_is_intact, unwrap_keyring,
    wrap_keyring,
};

/// One way to open a repository: a `keys/` object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEntry {
    /// Its name is `keys/<id>`.
    pub id: [u8; 16],
    /// With what it is opened; `None` where neither copy can be read.
    pub method: Option<KeyMethod>,
    /// When it was made, and for what; `None` where it does not say so, or that cannot be read.
    pub about: Option<KeyAbout>,
    /// How many of its two copies are there and whole.
    pub copy_count: usize,
    /// Whether this repository was opened with it.
    pub is_in_use: bool,
    /// What is known of its epoch.
    pub epoch: KeyEpoch,
}

/// How the epoch of a key stands to the one that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEpoch {
    /// It is the same.
    Current,
    /// It is an older one: the key cannot open the repository any more.
    Old,
    /// It cannot be told: a new epoch was cut off when it had put this key, or is about to begin; or
    /// somebody else's key was put here.
    Unknown,
}

impl KeyEntry {
    /// Returns `true` if the repository can be opened with it, as far as that is known. The key that has
    /// just opened it does, whatever its copies look like.
    pub fn opens(&self) -> bool {
        let is_kit = self.method == Some(KeyMethod::RecoveryKit);
        let is_sound = self.epoch == KeyEpoch::Current && self.copy_count > 0;
        !is_kit && (self.is_in_use || (is_sound && self.method.is_some()))
    }
}

/// What becomes of the keys that a new epoch is not told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// There must be none.
    Refuse,
    /// They are removed: they would open nothing any more.
    Remove,
}

/// The name of a key, as it is shown.
pub fn key_name(id: [u8; 16]) -> ObjectName {
    ObjectName::Key { id, copy: false }
}

impl Repository {
    /// Every `keys/` object, oldest first where that is known.
    ///
    /// # Errors
    ///
    /// As the medium. What cannot be read is in the list, and says so.
    pub fn list_keys(&self) -> Result<Vec<KeyEntry>> {
        let mut copies: BTreeMap<[u8; 16], Vec<Bytes>> = BTreeMap::new();
        for (path, _) in self.media().list(ObjectKind::Key.folder())? {
            let Ok(ObjectName::Key { id, .. }) = ObjectName::parse(&path) else { continue };
            let bytes = match self.media().get(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == Kind::Missing => continue,
                // It is longer than a key can be.
                Err(error) if error.kind() == Kind::Corrupt => Bytes::new(),
                Err(error) => return Err(error),
            };
            let whole = copies.entry(id).or_default();
            whole.extend(Some(bytes).filter(|bytes| object_is_intact(bytes)));
        }
        let entry = |(id, copies): ([u8; 16], Vec<Bytes>)| {
            let name = key_name(id);
            let method = copies.iter().find_map(|bytes| KeyMethod::of_object(name, bytes).ok());
            let about =
                copies.iter().find_map(|bytes| KeyAbout::of_object(self.keys(), name, bytes).ok());
            let is_in_use = self.key_id() == Some(id);
            // What says nothing is of the time before there were epochs.
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

    /// Adds a way to open the repository, and tries it. Returns its id.
    ///
    /// # Errors
    ///
    /// `Invalid` where the repository is not encrypted, or the label too long; `Conflict` where
    /// somebody began a new epoch meanwhile; `Corrupt` where what was put does not open. None of the
    /// key is left then, if the medium lets it be deleted.
    pub fn add_key(&self, unlock: &Unlock, label: &str) -> Result<[u8; 16]> {
        let is_open = self.keys().suite() == Suite::None;
        if is_open || matches!(unlock, Unlock::Nothing) {
            return Err(Error::invalid(
                self.media().describe(),
                "a key can only be added to a repository that is encrypted",
            ));
        }
        let id = self.put_key(self.keys().keyring(), unlock, label)?;
        self.try_key(id, unlock).map_err(|error| {
            self.delete_key(id).ok();
            match error.kind() {
                Kind::WrongKey | Kind::Missing => Error::new(
                    Kind::Conflict,
                    key_name(id),
                    "somebody changed the keys of the repository at this moment; try again",
                )
                .with_source(error),
                _ => error,
            }
        })?;
        Ok(id)
    }

    /// Puts `keyring`, wrapped, twice. Returns its id.
    ///
    /// # Errors
    ///
    /// As the medium. What was put then is taken back, if the medium lets it.
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
        for copy in [false, true] {
            if let Err(error) = self.put(ObjectName::Key { id, copy }, bytes.clone()) {
                self.delete_key(id).ok();
                return Err(error);
            }
        }
        Ok(id)
    }

    /// Reads both copies of a key back, opens them, and opens the settings with what is in them.
    fn try_key(&self, id: [u8; 16], unlock: &Unlock) -> Result<()> {
        let keyring = self.open_key(id, unlock)?;
        self.try_settings(&Keys::derive(&keyring, self.keys().suite()))
    }

    /// Whether `keys` open the newest settings.
    fn try_settings(&self, keys: &Keys) -> Result<()> {
        let configs = self.media().list(ObjectKind::Config.folder())?;
        newest_config(&**self.media(), &configs, keys, self.ignores_newer()).map(drop)
    }

    /// The keyring in both copies of a key.
    fn open_key(&self, id: [u8; 16], unlock: &Unlock) -> Result<Keyring> {
        let get = |copy| {
            let name = ObjectName::Key { id, copy };
            self.media().get(&name.to_string()).map(|bytes| (name, bytes))
        };
        let ((name, bytes), (other, copy)) = (get(false)?, get(true)?);
        if bytes != copy || !object_is_intact(&bytes) {
            return Err(Error::corrupt(other, "is not what was put a moment ago"));
        }
        match unwrap_keyring(name, &bytes, unlock, self.kdf_limits())? {
            Some((keyring, _)) => Ok(keyring),
            None => Err(Error::corrupt(name, "does not open with what it was made for")),
        }
    }

    /// Deletes both copies of a key; the one that is looked at first goes last. Then looks for a copy
    /// that a repair has put again meanwhile, from the other: a repair that puts one later finds the
    /// other gone, and takes back what it has put.
    pub(crate) fn delete_key(&self, id: [u8; 16]) -> Result<()> {
        let names = [true, false].map(|copy| ObjectName::Key { id, copy }.to_string());
        for name in &names {
            self.media().delete(name)?;
        }
        for name in &names {
            if self.media().head(name)?.is_some() {
                self.media().delete(name)?;
            }
        }
        Ok(())
    }

    /// Removes a way to open the repository: both copies of `keys/<id>`.
    ///
    /// Who knows the secret and has a copy of the object can still open what is there: only a new
    /// epoch keeps from them what comes. Of two that remove the last two keys at the same moment at
    /// least one puts its own back.
    ///
    /// # Errors
    ///
    /// `Invalid` where there is no such key, or where it is the last that opens the repository. Also,
    /// unless `is_meant`, where the repository was opened with it, or where nobody can tell what it
    /// is: it may belong to an epoch that begins at this moment. `Conflict` where somebody else
    /// changes keys at this moment.
    pub fn remove_key(&self, id: [u8; 16], is_meant: bool) -> Result<()> {
        let entries = self.list_keys()?;
        let Some(entry) = entries.iter().find(|entry| entry.id == id) else {
            return Err(Error::invalid(key_name(id), "there is no such key"));
        };
        let others =
            |entries: &[KeyEntry]| entries.iter().any(|each| each.id != id && each.opens());
        if entry.opens() && !others(&entries) {
            return Err(Error::invalid(
                key_name(id),
                "is the last key that opens the repository; add another one first",
            ));
        }
        let objection = match entry.epoch {
            _ if is_meant => None,
            _ if entry.is_in_use => Some("is the key that the repository was opened with"),
            KeyEpoch::Unknown => Some(
                "does not say what it is; it was left by a new epoch that was cut off, or belongs to \
                 one that somebody begins at this moment",
            ),
            KeyEpoch::Current | KeyEpoch::Old => None,
        };
        if let Some(objection) = objection {
            return Err(Error::invalid(key_name(id), objection));
        }
        let changed = |error: Error| match error.kind() {
            Kind::WrongKey | Kind::Missing => {
                let message = "somebody changed the keys at this moment";
                Error::new(Kind::Conflict, key_name(id), message).with_source(error)
            }
            _ => error,
        };
        // Who does not know the newest epoch does not know what is the last key.
        self.try_settings(self.keys()).map_err(changed)?;
        let mut kept: Vec<(ObjectName, Bytes)> = Vec::new();
        for copy in [false, true] {
            let name = ObjectName::Key { id, copy };
            match self.media().get(&name.to_string()) {
                Ok(bytes) => kept.push((name, bytes)),
                Err(error) if error.kind() == Kind::Missing => {}
                // What cannot be read cannot be put back.
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
            "stays: somebody else removed the other keys at this moment",
        ))
    }

    /// Replaces a key by another: adds the new one, tries it, removes the old one. Returns the id of
    /// the new one, which has the label of the old one.
    ///
    /// # Errors
    ///
    /// As [`Repository::add_key`] and [`Repository::remove_key`]. Where removing fails, both open the
    /// repository.
    pub fn replace_key(&mut self, id: [u8; 16], unlock: &Unlock) -> Result<[u8; 16]> {
        let entries = self.list_keys()?;
        let Some(entry) = entries.iter().find(|entry| entry.id == id) else {
            return Err(Error::invalid(key_name(id), "there is no such key"));
        };
        let label = entry.about.as_ref().map_or("", |about| &about.label);
        let new = self.add_key(unlock, label)?;
        self.remove_key(id, true)?;
        if entry.is_in_use {
            self.opened_with(new);
        }
        Ok(new)
    }

    /// Begins a new epoch: makes a secret, puts it into a new key for each of `secrets`, and seals
    /// everything with it from then on. Returns the ids of the new keys, in the order of `secrets`;
    /// those that they replace are removed.
    ///
    /// Each of `secrets` opens a key of the repository already. A key that none of them opens cannot
    /// be given the new secret; `others` says what becomes of it. Recovery kits of before open the
    /// repository no more. Who is at work goes on with the old epoch until the work ends.
    ///
    /// Until the settings are put, everything is as it was. From then on the new epoch counts.
    ///
    /// # Errors
    ///
    /// `Invalid` where the repository is not encrypted, or where there are other keys and
    /// [`Others::Refuse`]; `WrongKey` where one of `secrets` opens no key; `Conflict` where somebody
    /// changed keys or settings meanwhile. After an error of the medium either epoch may count; keys
    /// for both are there.
    pub fn begin_epoch(&mut self, secrets: &[Unlock], others: Others) -> Result<Vec<[u8; 16]>> {
        let suite = self.keys().suite();
        if suite == Suite::None || secrets.is_empty() {
            return Err(Error::invalid(
                self.media().describe(),
                "a new epoch needs a repository that is encrypted, and a secret to open it with",
            ));
        }
        let entries = self.list_keys()?;
        let mut replaced: Vec<[u8; 16]> = Vec::new();
        let mut kept: Vec<(&Unlock, &str)> = Vec::new();
        for unlock in secrets {
            let opened = self.keys_opened_by(&entries, unlock)?;
            let Some(first) = opened.first() else {
                let message = "one of the secrets that are to be kept opens none of its keys";
                return Err(Error::new(Kind::WrongKey, self.media().describe(), message));
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
        if others == Others::Refuse && !untold.is_empty() {
            return Err(Error::invalid(
                self.media().describe(),
                format!(
                    "without their secrets these would open nothing any more: {}",
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
            // Without settings of the new epoch its keys are good for nothing. Where the medium does
            // not say whether the settings were put, they stay.
            let opens_nothing =
                || self.try_settings(&keys).is_err_and(|error| error.kind() != Kind::Media);
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
        if others == Others::Remove {
            left.iter().try_for_each(|entry| self.delete_key(entry.id))?;
        }
        Ok(made)
    }

    /// The keyring with one more epoch.
    fn next_keyring(&self) -> Result<Keyring> {
        let mut secret = Secret([0; 32]);
        self.environment().random(&mut secret.0)?;
        let epoch = self.keys().epoch().checked_add(1).ok_or_else(|| {
            Error::invalid(self.media().describe(), "there are as many epochs as can be")
        })?;
        let mut keyring = self.keys().keyring().clone();
        keyring.epochs.push((epoch, secret));
        Ok(keyring)
    }

    /// Puts `keyring` into a key for each of `secrets`, with a label, and reads it back.
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
                return Err(Error::corrupt(key_name(id), "does not hold what was put"));
            }
        }
        Ok(())
    }

    /// Those of `entries` that `unlock` opens.
    fn keys_opened_by<'a>(
        &self,
        entries: &'a [KeyEntry],
        unlock: &Unlock,
    ) -> Result<Vec<&'a KeyEntry>> {
        let mut opened = Vec::new();
        let matching = entries.iter().filter(|entry| {
            entry.method == Some(unlock.method()) && entry.method != Some(KeyMethod::RecoveryKit)
        });
        let matching: Vec<&KeyEntry> = matching.collect();
        if matches!(unlock, Unlock::Passphrase(_)) && matching.len() > KDF_TRIALS_MAX {
            let message = format!(
                "has {} keys that a passphrase opens; at most {KDF_TRIALS_MAX} are tried: remove those \
                 that were planted (`cutpoint key remove`)",
                matching.len()
            );
            return Err(Error::new(Kind::Unsupported, self.media().describe(), message));
        }
        for entry in matching {
            let opens = |copy| {
                let name = ObjectName::Key { id: entry.id, copy };
                let bytes = self.media().get(&name.to_string())?;
                let opened = unwrap_keyring(name, &bytes, unlock, self.kdf_limits())?;
                if opened.is_none() && !object_is_intact(&bytes) {
                    return Err(Error::corrupt(name, "is damaged, and does not open"));
                }
                Ok(opened.is_some())
            };
            // Either copy will do.
            if opens(false).or_else(|error| opens(true).map_err(|_| error))? {
                opened.push(entry);
            }
        }
        Ok(opened)
    }
}
