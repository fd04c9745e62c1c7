//! The conditions of a search.

use cutpoint_repository::{Content, Entry, EntryKind};

use super::version::Version;
use crate::args::Find;

/// The part of an entry that a search needs. At least one is there.
pub(super) struct Hit {
    /// The version, if the entry matches.
    pub(super) version: Option<Version>,
    /// The tree, if the entry is a folder to search.
    pub(super) tree: Option<Content>,
}

/// Returns the part of the entry at `path` that the search for `args` needs, if there is any.
pub(super) fn hit(args: &Find, entry: Entry, path: &[u8]) -> Option<Hit> {
    let version = matches(args, &entry, path).then(|| Version::new(&entry));
    let is_searched = entry.kind == EntryKind::Folder
        && entry.content != Content::Empty
        && args.pattern.may_match_below(path);
    let tree = is_searched.then_some(entry.content);
    (version.is_some() || tree.is_some()).then_some(Hit { version, tree })
}

/// Returns `true` if the entry at `path` fulfils all conditions. The pattern is the most expensive
/// one.
fn matches(args: &Find, entry: &Entry, path: &[u8]) -> bool {
    let is_timed = args.newer.is_some() || args.older.is_some();
    args.kind.is_none_or(|kind| entry.kind == kind.into())
        && (args.sizes.is_empty() || entry.kind == EntryKind::File)
        && args.sizes.iter().all(|condition| condition.accepts(entry.size))
        && !(is_timed && entry.is_above_sources())
        && args.newer.is_none_or(|time| entry.mtime >= time)
        && args.older.is_none_or(|time| entry.mtime < time)
        && args.pattern.matches(path, entry.kind == EntryKind::Folder)
}
