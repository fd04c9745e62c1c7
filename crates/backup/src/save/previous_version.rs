//! Previous versions: the snapshots that a source is compared with, and rule W3, which decides
//! about the files to take over without reading them.

use std::collections::HashSet;

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{
    Class, Content, Entry, EntryKind, Fingerprint, Index, Reader, Scope, Time,
};

use crate::source::FileSystem;

/// A previous snapshot to compare with.
#[derive(Clone)]
pub(super) struct PreviousVersion<'a> {
    pub(super) reader: &'a Reader,
    /// The index of the writer: the chunks that are known and may be referenced.
    pub(super) index: &'a Index,
    pub(super) root: Content,
    /// The time, in nanoseconds since 1970, before which no file of the snapshot was read.
    pub(super) read_since_ns: i64,
    /// Set if the snapshot is a checkpoint of this run, which has itself read the files in it.
    pub(super) is_own: bool,
    /// The identities of its file systems, indexed by the `device` of its entries.
    pub(super) file_systems: Vec<String>,
    /// The chunks that a check has found damaged after the snapshot was made. Files that need one
    /// are read again.
    pub(super) damaged: HashSet<Fingerprint>,
    /// Set if the index is complete. Otherwise, each chunk is located before a file is taken over.
    pub(super) index_is_complete: bool,
    /// Set if the run of the snapshot was cut off, so that its last file may be incomplete.
    pub(super) partial: bool,
    /// The sources that are compared with this snapshot because the parent lacks them, as positions
    /// in the list of all sources. Empty for the parent itself.
    pub(super) sources: Vec<usize>,
}

impl PreviousVersion<'_> {
    /// Returns `true` if any change after the snapshot was made, to the file of `before` and
    /// `entry`, would show in ctime, or in mtime for a file. The file is on `file_system` now.
    pub(super) fn is_settled(
        &self,
        before: &Entry,
        entry: &Entry,
        file_system: &FileSystem,
    ) -> bool {
        let is_same = item(&self.file_systems, before.device) == Some(&file_system.identity);
        // A file that this run has read need not be read again. Without the checkpoint, a change
        // after that would not be in the snapshot either.
        if self.is_own || !is_same {
            return is_same;
        }
        let Some(settling_ns) = file_system.settling_ns else { return false };
        let settled_ns = self.read_since_ns.saturating_sub(settling_ns);
        let is_file = entry.kind == EntryKind::File;
        !file_system.identity.is_empty()
            && is_before(entry.ctime, settled_ns)
            && (is_before(entry.mtime, settled_ns) || !is_file)
            && (!file_system.copies_mtime || entry.ctime > entry.mtime)
    }

    /// Returns `true` if the file `entry` is unchanged since it was read as `before`, as far as it
    /// was read.
    pub(super) fn is_same(&self, before: &Entry, entry: &Entry, file_system: &FileSystem) -> bool {
        before.kind == EntryKind::File
            && before.defect.is_none()
            && before.mtime == entry.mtime
            && before.ctime == entry.ctime
            && before.inode == entry.inode
            && self.is_settled(before, entry, file_system)
            && !self.needs_damaged(before)
    }

    /// Returns `true` if a chunk that the file needs was found damaged after the snapshot was made,
    /// or cannot be found.
    fn needs_damaged(&self, before: &Entry) -> bool {
        if self.damaged.is_empty() && self.index_is_complete {
            return false;
        }
        if let Content::Recipe(fingerprint) = &before.content
            && self.damaged.contains(fingerprint)
        {
            return true;
        }
        self.reader.segments(&before.content).any(|segment| match segment {
            Ok(Segment::Chunk { fingerprint, .. }) => {
                let is_known = || {
                    let found = self.index.find(Class::Data, &fingerprint, Scope::Write);
                    found.is_ok_and(|location| location.is_some())
                };
                self.damaged.contains(&fingerprint) || !(self.index_is_complete || is_known())
            }
            Ok(_) => false,
            Err(_) => true,
        })
    }
}

/// Returns `true` if `time` is before `ns`, in nanoseconds since 1970.
pub(super) fn is_before(time: Time, ns: i64) -> bool {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds) < i128::from(ns)
}

/// Returns the item of a list for the file system `device`.
pub(super) fn item<T>(list: &[T], device: u64) -> Option<&T> {
    usize::try_from(device).ok().and_then(|device| list.get(device))
}
