//! Reading of single objects: each one is read, opened and decoded, or there is a finding about it.

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, ObjectKind, Result};

use super::context::{Check, Need, plain};
use super::finding::FindingKind;
use crate::crypto::{Header, object_is_intact, open_object};
use crate::format::names::ObjectName;

/// Returns the listed names of one kind.
pub(super) fn names(check: &Check<'_>, kind: ObjectKind) -> Vec<ObjectName> {
    let folder = format!("{}/", kind.folder());
    let paths = check.listing.range(folder.clone()..).map(|(path, _)| path);
    paths
        .take_while(|path| path.starts_with(&folder))
        .filter_map(|path| ObjectName::parse(path).ok())
        .collect()
}

/// Reads an object and verifies its checksum. Returns `None` if there is a finding, or if the
/// object was legitimately deleted after the listing.
pub(super) fn get(check: &Check<'_>, name: ObjectName, need: Need) -> Result<Option<Bytes>> {
    get_unless(check, name, need, || Ok(may_go(name)))
}

/// Returns `true` if an object is of a kind that may disappear at any time: sweeps delete tickets
/// and commits, and owners delete keys. An object that is missing for good is found by a later part
/// of this check, or by the next check.
pub(super) fn may_go(name: ObjectName) -> bool {
    matches!(
        name.kind(),
        ObjectKind::Ticket
            | ObjectKind::Commit
            | ObjectKind::Key
            | ObjectKind::Similarity
            | ObjectKind::Parity
            | ObjectKind::View
    )
}

/// Reads an object as [`get`] does; `may_be_gone` decides whether it is legitimate that the object
/// is missing.
pub(super) fn get_unless(
    check: &Check<'_>,
    name: ObjectName,
    need: Need,
    may_be_gone: impl FnOnce() -> Result<bool>,
) -> Result<Option<Bytes>> {
    check.stop_if_cancelled()?;
    let bytes = match check.repository.storage().get(&name.to_string()) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == Kind::Missing && may_be_gone()? => return Ok(None),
        Err(error) => return check.report_error(name, error, need).map(|()| None),
    };
    if !object_is_intact(&bytes) {
        // Opening the object gives a more specific error, if the seal is damaged.
        let error = match open_object(check.repository.keys(), name, &bytes) {
            Err(error) if name.kind() != ObjectKind::Key => Error::corrupt("", error),
            _ => Error::corrupt("", "wrong checksum in the trailer"),
        };
        check.report_error(name, error, need)?;
    }
    Ok(Some(bytes))
}

/// Reads, opens and decodes an object of one part. Returns `None` as [`get`] does, or if the object
/// cannot be decoded. An object of which only the padding is damaged can be.
pub(super) fn open<T>(
    check: &Check<'_>,
    name: ObjectName,
    need: Need,
    decode: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<Option<T>> {
    open_unless(check, name, need, decode, || Ok(may_go(name)))
}

/// Reads, opens and decodes an object as [`open`] does; `may_be_gone` decides whether it is
/// legitimate that the object is missing.
pub(super) fn open_unless<T>(
    check: &Check<'_>,
    name: ObjectName,
    need: Need,
    decode: impl FnOnce(&[u8]) -> Result<T>,
    may_be_gone: impl FnOnce() -> Result<bool>,
) -> Result<Option<T>> {
    let Some(bytes) = get_unless(check, name, need, may_be_gone)? else { return Ok(None) };
    if let ObjectName::Commit(ticket) = name
        && let Ok(header) = Header::decode(&name, &bytes)
    {
        check.lock().epochs.insert(ticket, header.epoch);
    }
    match open_object(check.repository.keys(), name, &bytes).and_then(|body| decode(&body)) {
        Ok(value) => Ok(Some(value)),
        // The damage was reported by `get_unless`.
        Err(_) if !object_is_intact(&bytes) => Ok(None),
        // The object is intact, and claims to be of a newer version. Commits and prune records are
        // excluded, because every command needs their contents.
        Err(error) if error.kind() == Kind::Unsupported && !is_of_view(name) => {
            check.report(FindingKind::Foreign, name, plain(&name, error));
            Ok(None)
        }
        Err(error) => check.report_error(name, error, need).map(|()| None),
    }
}

/// Returns `true` if views are made of objects like this one.
fn is_of_view(name: ObjectName) -> bool {
    matches!(name.kind(), ObjectKind::Commit | ObjectKind::Prune)
}
