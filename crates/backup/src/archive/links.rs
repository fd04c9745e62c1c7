//! The names of files that have several names in the archive.

use std::collections::HashMap;

use cutpoint_repository::Entry;

use crate::restore::SnapshotLinkKey;

/// The first name of a file, with the number of names that may still come.
struct FirstName {
    path: Vec<u8>,
    rest: u64,
}

/// The files whose further names are still to come.
#[derive(Default)]
pub(super) struct Links(HashMap<SnapshotLinkKey, FirstName>);

impl Links {
    /// Returns the path of the member that is the same file as `entry`, if there is one.
    pub(super) fn first_name(&mut self, entry: &Entry) -> Option<Vec<u8>> {
        if !entry.is_hard_link() {
            return None;
        }
        let key = SnapshotLinkKey::of(entry);
        let first = self.0.get_mut(&key)?;
        first.rest = first.rest.saturating_sub(1);
        if first.rest == 0 {
            return self.0.remove(&key).map(|first| first.path);
        }
        Some(first.path.clone())
    }

    /// Records that `entry` is the member at `path`.
    pub(super) fn add(&mut self, entry: &Entry, path: &[u8]) {
        if entry.is_hard_link() {
            let first = FirstName { path: path.to_vec(), rest: entry.links - 1 };
            self.0.insert(SnapshotLinkKey::of(entry), first);
        }
    }
}
