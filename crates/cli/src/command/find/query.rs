//! The conditions of a search.

use cutpoint_repository::format::encoded_entry::EncodedEntry;
use cutpoint_repository::{Content, Entry, EntryKind};
use cutpoint_storage::Result;

use super::version::Version;
use crate::args::Find;

/// The part of an entry that a search needs. At least one is there.
pub(super) struct Hit {
    /// The version, if the entry matches.
    pub(super) version: Option<Version>,
    /// The tree, if the entry is a folder to search.
    pub(super) tree: Option<Content>,
}

/// Returns the part of the entry at `path` that the search for `args` needs, if there is any. Most
/// entries have another name and are not decoded.
///
/// # Errors
///
/// Returns any error of [`EncodedEntry::decode`].
pub(super) fn hit(args: &Find, entry: &EncodedEntry<'_>, path: &[u8]) -> Result<Option<Hit>> {
    let is_folder = entry.kind == EntryKind::Folder;
    let is_named = args.kind.is_none_or(|kind| entry.kind == kind.into())
        && (args.sizes.is_empty() || entry.kind == EntryKind::File)
        && args.pattern.matches(path, is_folder);
    let is_searched = is_folder && args.pattern.may_match_below(path);
    if !is_named && !is_searched {
        return Ok(None);
    }
    let entry = entry.decode()?;
    let version = (is_named && matches(args, &entry)).then(|| Version::new(&entry));
    let is_searched = is_searched && entry.content != Content::Empty;
    let tree = is_searched.then_some(entry.content);
    Ok((version.is_some() || tree.is_some()).then_some(Hit { version, tree }))
}

/// Returns `true` if an entry fulfils the conditions on its size and times.
fn matches(args: &Find, entry: &Entry) -> bool {
    let is_timed = args.newer.is_some() || args.older.is_some();
    args.sizes.iter().all(|condition| condition.accepts(entry.size))
        && !(is_timed && entry.is_above_sources())
        && args.newer.is_none_or(|time| entry.mtime >= time)
        && args.older.is_none_or(|time| entry.mtime < time)
}
