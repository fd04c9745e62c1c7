//! Versions of entries, and the snapshots that have them.

use cutpoint_repository::{Content, Entry, EntryKind, Time};

/// The snapshots that have something, by their positions in the list of snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Presence {
    pub(super) count: u64,
    pub(super) first: usize,
    pub(super) last: usize,
}

impl Presence {
    /// Adds snapshots, none of which is counted yet.
    pub(super) fn add(&mut self, other: Presence) {
        self.count += other.count;
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

/// A version of an entry.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) kind: EntryKind,
    pub(super) size: u64,
    /// `None` for a folder above the sources.
    pub(super) mtime: Option<Time>,
    /// The content; empty for a folder, whose tree differs whenever anything below it does.
    content: Content,
    ctime: Time,
}

impl Version {
    pub(super) fn new(entry: &Entry) -> Version {
        let content = match entry.kind {
            EntryKind::Folder => Content::Empty,
            _ => entry.content.clone(),
        };
        Version {
            kind: entry.kind,
            size: entry.size,
            mtime: (!entry.is_above_sources()).then_some(entry.mtime),
            content,
            ctime: entry.ctime,
        }
    }

    /// Returns `true` if the versions are the same. Small files share chunks, so equal bytes can
    /// have several contents; a file that is as it was has its ctime, however.
    pub(super) fn is_same(&self, other: &Version) -> bool {
        self.kind == other.kind
            && self.size == other.size
            && self.mtime == other.mtime
            && (self.ctime == other.ctime || self.content == other.content)
    }
}
