//! The bytes with which an object was put: read from the object itself, or derived from what is
//! left of it and from its second copy.
//!
//! The content of an object cannot change by this: header and sealed parts are authenticated, and
//! padding and trailer follow from them. The two copies of settings and keyrings have the same bytes.

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, ObjectKind};

use crate::crypto::{
    HEADER_LEN, Header, KdfLimits, KeyAbout, KeyMethod, Keys, Opener, PartKind, Trailer, Unlock,
    object_as_put, object_is_intact, unwrap_keyring, with_tail_replaced,
};
use crate::format::names::ObjectName;
use crate::format::segment::ContainerRecord;
use crate::format::toc::Toc;
use crate::repo::repository::Repository;
use crate::rules;

/// The bytes with which an object was put, as far as they can be known.
pub(crate) enum OriginalBytes {
    /// The object has them.
    Intact,
    /// The object has other bytes, or is gone. Its original bytes follow from what is left.
    Restorable(Bytes),
    /// The original bytes cannot be determined. The error is that of reading the object, if any.
    Unknown(Option<Error>),
}

/// Returns the bytes with which an object was put; `record` is the index record of a container.
pub(crate) fn original_bytes(
    repository: &Repository,
    name: ObjectName,
    record: Option<ContainerRecord>,
) -> OriginalBytes {
    let (found, error) = match repository.storage().get(&name.to_string()) {
        Ok(bytes) => (Some(bytes), None),
        // An object that cannot be read may have a copy that can.
        Err(error) => (None, Some(error)),
    };
    let keys = repository.keys();
    let alone = found.as_ref().and_then(|bytes| match name {
        ObjectName::Container(..) => container_as_put(keys, name, bytes, record),
        ObjectName::Parity { .. } => None,
        ObjectName::Key { .. } => keyring_as_put(keys, name, bytes),
        _ => object_as_put(keys, name, bytes),
    });
    match alone.or_else(|| from_copy(repository, name)) {
        Some(bytes) if found.as_ref() == Some(&bytes) => OriginalBytes::Intact,
        Some(bytes) => OriginalBytes::Restorable(bytes),
        None => OriginalBytes::Unknown(error.filter(|error| error.kind() != Kind::Missing)),
    }
}

/// Returns the original bytes of a keyring. A keyring cannot be opened without its secret, so that
/// it must be intact. Padding and checksum can be restored only for one that opens without a
/// secret.
fn keyring_as_put(keys: &Keys, name: ObjectName, bytes: &Bytes) -> Option<Bytes> {
    if object_is_intact(bytes) && KeyMethod::of_object(name, bytes).is_ok() {
        return Some(bytes.clone());
    }
    let opened = unwrap_keyring(name, bytes, &Unlock::Nothing, KdfLimits::default()).ok()??;
    KeyAbout::of_object(keys, name, bytes).ok()?;
    let trailer = Trailer::decode(&name, bytes, bytes.len() as u64).ok()?;
    let is_own = opened.0 == *keys.keyring();
    is_own.then(|| with_tail_replaced(name, bytes, trailer.offset, trailer.length))?
}

/// Returns the name of the other copy of settings or of a keyring.
pub(crate) fn other_copy(name: ObjectName) -> Option<ObjectName> {
    match name {
        ObjectName::Config { number, copy } => Some(ObjectName::Config { number, copy: !copy }),
        ObjectName::Key { id, copy } => Some(ObjectName::Key { id, copy: !copy }),
        _ => None,
    }
}

/// Returns the bytes of an object from its other copy, which has the same bytes.
fn from_copy(repository: &Repository, name: ObjectName) -> Option<Bytes> {
    let copy = other_copy(name)?;
    let bytes = repository.storage().get(&copy.to_string()).ok()?;
    if copy.kind() == ObjectKind::Key {
        return keyring_as_put(repository.keys(), copy, &bytes);
    }
    object_as_put(repository.keys(), copy, &bytes)
}

/// Returns the original bytes of a container whose regions and table of contents are undamaged.
fn container_as_put(
    keys: &Keys,
    name: ObjectName,
    bytes: &Bytes,
    record: Option<ContainerRecord>,
) -> Option<Bytes> {
    let opener = Opener::new(keys, name, bytes).ok()?;
    let (offset, length) = match record {
        Some(record) => (u64::from(record.toc_offset), record.toc_len),
        None => {
            let trailer = Trailer::decode(&name, bytes, bytes.len() as u64).ok()?;
            (trailer.offset, trailer.length)
        }
    };
    let part = |kind, offset: u64, length: u32| {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        let mut part = bytes.get(start..end)?.to_vec();
        opener.open(kind, &mut part).ok()?;
        Some(part)
    };
    let toc = part(PartKind::Toc, offset, length)?;
    let toc = Toc::decode(&toc, offset).ok()?;
    let mut end = HEADER_LEN as u64;
    for (region, number) in toc.regions.iter().zip(0..) {
        let begin = u64::from(region.offset);
        if begin != end {
            return None;
        }
        let is_read = part(PartKind::Region(number), begin, region.stored_len).is_some();
        if !rules::may_put_back(is_read) {
            return None;
        }
        end = begin + u64::from(region.stored_len);
    }
    if end != offset {
        return None;
    }
    with_tail_replaced(name, bytes, offset, length)
}

/// Returns `true` if an intact object was put by a client that knows more than this one: a newer
/// key epoch, or a newer version. Such an object is not damaged, although this client cannot read
/// it. Returns `false` if objects that claim to be newer are ignored (`--ignore-newer`).
pub(crate) fn is_newer(repository: &Repository, name: ObjectName) -> bool {
    let Ok(bytes) = repository.storage().get(&name.to_string()) else { return false };
    match Header::decode(&name, &bytes) {
        _ if repository.ignores_newer() || !object_is_intact(&bytes) => false,
        Ok(header) => header.epoch > repository.keys().epoch(),
        Err(error) => error.kind() == Kind::Unsupported,
    }
}
