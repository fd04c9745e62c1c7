//! Versions of entries, and the snapshots that have them.

use std::hash::BuildHasher;

use cutpoint_repository::{Entry, EntryKind, Time};

/// The snapshots that have something, by their positions in the list of snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Presence {
    pub(super) count: u64,
    pub(super) first: usize,
    pub(super) last: usize,
}

impl Presence {
    /// No snapshots.
    pub(super) const NOWHERE: Presence = Presence { count: 0, first: usize::MAX, last: 0 };

    /// Returns `true` if there are no snapshots.
    pub(super) fn is_nowhere(&self) -> bool {
        self.count == 0
    }

    /// Adds snapshots, none of which is counted yet.
    pub(super) fn add(&mut self, other: Presence) {
        self.count += other.count;
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

/// A version of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    pub(super) kind: EntryKind,
    pub(super) size: u64,
    /// `None` for a folder above the sources.
    pub(super) mtime: Option<Time>,
    /// The hash of a content that the version had; 0 for a folder, whose tree differs whenever
    /// anything below it does.
    content_hash: u32,
    ctime: Time,
}

impl Version {
    /// Creates the version of `entry`. Only versions with the same hasher can be compared.
    pub(super) fn new(entry: &Entry, hasher: &impl BuildHasher) -> Version {
        let content_hash = match entry.kind {
            EntryKind::Folder => 0,
            // The upper half of a hash has 32 bits.
            _ => u32::try_from(hasher.hash_one(&entry.content) >> 32).unwrap_or_default(),
        };
        Version {
            kind: entry.kind,
            size: entry.size,
            mtime: (!entry.is_above_sources()).then_some(entry.mtime),
            content_hash,
            ctime: entry.ctime,
        }
    }

    /// Returns a hash of `name` and of all but the content. The content of a small file changes with
    /// those of its neighbours, because they share a chunk.
    pub(super) fn key(&self, name: &[u8], hasher: &impl BuildHasher) -> u64 {
        hasher.hash_one((name, self.kind, self.size, self.mtime, self.ctime))
    }

    /// Returns the hash of a content that the version had.
    pub(super) fn content_hash(&self) -> u32 {
        self.content_hash
    }

    /// Returns `true` if the versions are the same: a file that is as it was has its ctime, and if
    /// only its ctime has changed, it has a content that it had before. `contents` and
    /// `other_contents` are all contents of the two.
    pub(super) fn is_same(
        &self,
        contents: &[u32],
        other: &Version,
        other_contents: &[u32],
    ) -> bool {
        self.kind == other.kind
            && self.size == other.size
            && self.mtime == other.mtime
            && (self.ctime == other.ctime
                || other_contents.iter().any(|content| contents.contains(content)))
    }
}
