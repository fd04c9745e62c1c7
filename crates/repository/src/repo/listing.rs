//! The objects of one listing that exist in two copies.

use std::collections::BTreeMap;

use bytes::Bytes;
use cutpoint_storage::{Result, Storage};

use crate::format::names::ObjectName;

/// Groups the objects of one listing by `key_of`, with the listed lengths of original and copy.
pub(super) fn copies<K: Ord>(
    names: &[(String, u64)],
    key_of: impl Fn(ObjectName) -> Option<(K, bool)>,
) -> BTreeMap<K, [Option<u64>; 2]> {
    let mut found: BTreeMap<K, [Option<u64>; 2]> = BTreeMap::new();
    for (path, len) in names {
        let Ok(name) = ObjectName::parse(path) else { continue };
        let Some((key, is_copy)) = key_of(name) else { continue };
        found.entry(key).or_default()[usize::from(is_copy)] = Some(*len);
    }
    found
}

/// Reads an object of at most the length that a listing gave, and at most the maximum of its kind.
pub(super) fn get_listed(storage: &dyn Storage, name: ObjectName, len: u64) -> Result<Bytes> {
    storage.get_at_most(&name.to_string(), listed_len_max(name, len))
}

/// Returns the maximum length of an object for which a listing gave the length `len`, in bytes.
pub(super) fn listed_len_max(name: ObjectName, len: u64) -> u64 {
    len.min(name.kind().len_max())
}
