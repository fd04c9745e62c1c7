//! The newest settings that can be opened.

use std::sync::Arc;

use cutpoint_storage::{Error, Kind, Result, Storage};

use super::listing::{copies, get_listed};
use crate::crypto::{Header, Keys, object_is_intact, open_object};
use crate::format::config::Config;
use crate::format::names::ObjectName;
use crate::format::newer::NewerClaim;

/// Settings that were skipped, each with the error that prevents it from being opened.
pub type UnopenedSettings = Vec<(ObjectName, Arc<Error>)>;

/// The newest settings that can be opened.
#[derive(Debug)]
pub(crate) struct NewestConfig {
    pub(crate) number: u64,
    pub(crate) config: Config,
    /// The newer settings that cannot be opened.
    pub(crate) unopened: UnopenedSettings,
}

/// Returns `true` if `error` shows that an object which was listed cannot be opened with these
/// keys. A storage that does not answer proves nothing about the object.
pub(super) fn does_not_open(error: &Error) -> bool {
    matches!(error.kind(), Kind::Corrupt | Kind::Missing | Kind::WrongKey | Kind::Unsupported)
}

/// Returns `error`, or a `Corrupt` error if the header claims to be newer but the object is not
/// intact: then a flipped bit has produced a version or an epoch that no writer has written.
pub(super) fn as_damage(name: ObjectName, bytes: &[u8], error: Error) -> Error {
    let is_claim = NewerClaim::of(&error).is_some() || error.kind() == Kind::Unsupported;
    if is_claim && !object_is_intact(bytes) {
        return Error::corrupt(name, "damaged header: wrong checksum in the trailer");
    }
    error
}

/// Opens settings. Also returns the key epoch of the settings.
///
/// # Errors
///
/// Returns a `WrongKey` error if the settings claim an epoch that `keys` lack
/// ([`NewerClaim::Epoch`]), or any other error of [`open_object`].
pub(super) fn open_config(keys: &Keys, name: ObjectName, bytes: &[u8]) -> Result<(u32, Config)> {
    let epoch = Header::decode(&name, bytes)?.epoch;
    if epoch > keys.epoch() {
        return Err(Error::new(
            Kind::WrongKey,
            name,
            format!(
                "the repository is at key epoch {epoch} (expected at most {}, the newest epoch of \
                 this key)",
                keys.epoch()
            ),
        )
        .with_remedy(
            "use a key of the newer epoch, which can add this key again (`cutpoint key add`); if \
             the object was planted, --ignore-newer skips it",
        )
        .with_source(NewerClaim::Epoch(epoch)));
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
) -> Result<NewestConfig> {
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
                    return Ok(NewestConfig { number, config, unopened });
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
            let is_newer = error.kind() == Kind::Unsupported || NewerClaim::of(&error).is_some();
            let may_pass = NewerClaim::of(&error).is_some() && ignores_newer;
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
                .with_remedy("if a recovery kit was given, check that it is that of this repository; otherwise put \
                 config/ back from a copy of the repository"))
        }
        None => Err(Error::missing(
            storage.describe(),
            "incomplete repository: keys found, but no config (not finished, or deleted)",
        )),
    }
}
