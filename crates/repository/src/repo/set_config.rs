//! Changing the settings and the keys of an open repository.

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, ObjectKind, Result};

use super::lagging_clients;
use super::newest_config::{as_damage, does_not_open, newest_config, open_config};
use super::repository::Repository;
use crate::crypto::{Keys, seal_object};
use crate::format::config::Config;
use crate::format::names::ObjectName;
use crate::format::newer::NewerClaim;
use crate::util::at_once::at_once;

/// Maximum number of names that a change of settings skips because an object that is not settings
/// occupies them.
const SETTINGS_PASSED_MAX: u32 = 1000;

impl Repository {
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
                Err(error) if NewerClaim::of(&error).is_some() && !self.ignores_newer() => {
                    return Ok(true);
                }
                Err(error) if does_not_open(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Puts settings and their copy. Returns `false` if another object has the name already.
    pub(super) fn put_config_sealed(
        &self,
        number: u64,
        config: &Config,
        keys: &Keys,
    ) -> Result<bool> {
        let Some(bytes) = self.put_config_original(number, config, keys)? else {
            return Ok(false);
        };
        self.put(ObjectName::Config { number, copy: true }, bytes).map(|()| true)
    }

    /// Puts settings without their copy, which is the same object: neither header nor seal depends on
    /// which copy it is. Returns it, or `None` if another object has the name already.
    fn put_config_original(
        &self,
        number: u64,
        config: &Config,
        keys: &Keys,
    ) -> Result<Option<Bytes>> {
        let name = ObjectName::Config { number, copy: false };
        let bytes = seal_object(keys, name, self.salt()?, &config.encode());
        Ok(self.put_or_find(name, &bytes)?.then_some(bytes))
    }

    /// Puts the settings of a new repository, their copy, and the marks of a creator whose listings may
    /// lag. Returns `false` if another client has created the repository.
    pub(super) fn put_first_config(&self) -> Result<bool> {
        let Some(bytes) = self.put_config_original(0, &self.config, &self.keys)? else {
            return Ok(false);
        };
        let name = ObjectName::Config { number: 0, copy: true };
        let put = |mark: Option<&str>| {
            let Some(mark) = mark else { return self.put(name, bytes.clone()) };
            // If a mark is missing, the first writer puts it.
            lagging_clients::put(self, mark).ok();
            Ok(())
        };
        let mut puts = vec![None];
        if lagging_clients::may_lag(self).unwrap_or(false) {
            puts.extend(lagging_clients::MARKS.map(Some));
        }
        at_once(&*self.storage, puts, put).map(|_| true)
    }
}

pub(super) fn changed_settings(number: u64) -> Error {
    Error::new(
        Kind::Conflict,
        ObjectName::Config { number, copy: false },
        "the settings were created or changed by another client meanwhile; try again",
    )
}
