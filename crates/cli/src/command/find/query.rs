//! The conditions of a search.

use std::hash::{BuildHasher, RandomState};

use cutpoint_repository::format::encoded_entry::EncodedEntry;
use cutpoint_repository::{Content, Entry, EntryKind, Reader};
use cutpoint_storage::Result;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::version::Version;
use crate::args::Find;

/// A search, as far as folders need it.
pub(super) struct Query<'a> {
    pub(super) reader: &'a Reader,
    args: &'a Find,
    /// Secrets of the run, so that no one can prepare two entries or contents with the same hash.
    seed: u64,
    hasher: RandomState,
}

/// The part of an entry that a search needs. At least one is there.
pub(super) struct Hit {
    /// The version, if the entry matches.
    pub(super) version: Option<Version>,
    /// The tree, if the entry is a folder to search.
    pub(super) tree: Option<Content>,
}

impl<'a> Query<'a> {
    /// Creates a search for `args` in snapshots that `reader` reads.
    pub(super) fn new(reader: &'a Reader, args: &'a Find) -> Query<'a> {
        let hasher = RandomState::new();
        Query { reader, args, seed: hasher.hash_one(()), hasher }
    }

    /// Returns the hash of an encoded entry or of a name.
    pub(super) fn hash(&self, bytes: &[u8]) -> u64 {
        xxh3_64_with_seed(bytes, self.seed)
    }

    /// Returns the key of a version of the entry `name`.
    pub(super) fn key(&self, name: &[u8], version: &Version) -> u64 {
        version.key(name, &self.hasher)
    }

    /// Returns the part of the entry at `path` that the search needs, if there is any. Most entries
    /// have another name and are not decoded.
    ///
    /// # Errors
    ///
    /// Returns any error of [`EncodedEntry::decode`].
    pub(super) fn hit(&self, entry: &EncodedEntry<'_>, path: &[u8]) -> Result<Option<Hit>> {
        let args = self.args;
        let is_folder = entry.kind == EntryKind::Folder;
        let is_named = args.kind.is_none_or(|kind| entry.kind == kind.into())
            && (args.sizes.is_empty() || entry.kind == EntryKind::File)
            && args.pattern.matches(path, is_folder);
        let is_searched = is_folder && args.pattern.may_match_below(path);
        if !is_named && !is_searched {
            return Ok(None);
        }
        let entry = entry.decode()?;
        let is_match = is_named && matches(args, &entry);
        let version = is_match.then(|| Version::new(&entry, &self.hasher));
        let is_searched = is_searched && entry.content != Content::Empty;
        let tree = is_searched.then_some(entry.content);
        Ok((version.is_some() || tree.is_some()).then_some(Hit { version, tree }))
    }
}

/// Returns `true` if an entry fulfils the conditions on its size and times.
fn matches(args: &Find, entry: &Entry) -> bool {
    let is_timed = args.newer.is_some() || args.older.is_some();
    args.sizes.iter().all(|condition| condition.accepts(entry.size))
        && !(is_timed && entry.is_above_sources())
        && args.newer.is_none_or(|time| entry.mtime >= time)
        && args.older.is_none_or(|time| entry.mtime < time)
}
