//! Previous versions: the snapshots that a source is compared with, and rule W3, which decides
//! about the files to take over without reading them.

use std::collections::HashSet;

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{
    Class, Content, Entry, EntryKind, Fingerprint, Index, Reader, Scope, Time,
};

use super::chunk_rebuilder::DamagedParts;
use super::decision::ReadReason;
use super::options::IgnoredProperties;
use crate::source::FileSystem;

/// A previous snapshot to compare with.
#[derive(Clone)]
pub(super) struct PreviousVersion<'a> {
    pub(super) reader: &'a Reader,
    /// The index of the writer: the chunks that are known and may be referenced.
    pub(super) index: &'a Index,
    pub(super) root: Content,
    /// The cut specification of the snapshot.
    pub(super) cut: String,
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
    /// The properties of files that need not agree.
    pub(super) ignored: IgnoredProperties,
    /// Set if the run of the snapshot was cut off, so that its last file may be incomplete, or if
    /// the snapshot is a copy without some of the entries.
    pub(super) partial: bool,
    /// The sources that are compared with this snapshot because the parent lacks them, as positions
    /// in the list of all sources. Empty for the parent itself.
    pub(super) sources: HashSet<usize>,
}

impl PreviousVersion<'_> {
    /// Returns the reason why a change after the snapshot was made, to the file of `before` and
    /// `entry`, might not show in ctime, or in mtime for a file. Returns `None` if any change would
    /// show. The file is on `file_system` now.
    pub(super) fn unsettled(
        &self,
        before: &Entry,
        entry: &Entry,
        file_system: &FileSystem,
    ) -> Option<ReadReason> {
        if item(&self.file_systems, before.device) != Some(&file_system.identity) {
            return Some(ReadReason::FileSystem);
        }
        // A file that this run has read need not be read again. Without the checkpoint, a change
        // after that would not be in the snapshot either.
        if self.is_own {
            return None;
        }
        let is_file = entry.kind == EntryKind::File;
        let by_mtime = self.ignored.ctime && is_file;
        let settling_ns = match by_mtime {
            true => file_system.mtime_settling_ns,
            false => file_system.settling_ns,
        };
        let has_copy = file_system.copies_mtime && entry.ctime <= entry.mtime && !by_mtime;
        let Some(settling_ns) =
            settling_ns.filter(|_| !file_system.identity.is_empty() && !has_copy)
        else {
            return Some(ReadReason::WeakTimes);
        };
        let settled_ns = self.read_since_ns.saturating_sub(settling_ns);
        let is_settled = (is_before(entry.ctime, settled_ns) || by_mtime)
            && (is_before(entry.mtime, settled_ns) || !is_file);
        (!is_settled).then_some(ReadReason::TooFresh)
    }

    /// Returns the reason why the file `entry` may have changed since it was read as `before`, as
    /// far as it was read; `None` if it has not.
    pub(super) fn change(
        &self,
        before: &Entry,
        entry: &Entry,
        file_system: &FileSystem,
    ) -> Option<ReadReason> {
        let differences = [
            (before.kind != EntryKind::File, ReadReason::Type),
            (before.mtime != entry.mtime, ReadReason::Mtime),
            (before.ctime != entry.ctime && !self.ignored.ctime, ReadReason::Ctime),
            (before.inode != entry.inode && !self.ignored.inode, ReadReason::Inode),
            (before.defect.is_some(), ReadReason::Incomplete),
        ];
        let difference =
            differences.into_iter().find_map(|(differs, reason)| differs.then_some(reason));
        difference
            .or_else(|| self.unsettled(before, entry, file_system))
            .or_else(|| self.needs_damaged(before).then_some(ReadReason::Damaged))
    }

    /// Returns `true` if nothing that the snapshot needs can be incomplete, damaged or missing.
    pub(super) fn is_whole(&self) -> bool {
        !self.partial && self.damaged.is_empty() && self.index_is_complete
    }

    /// Returns the parts of the file that lie in chunks that were found damaged after the snapshot was
    /// made.
    pub(super) fn damaged_parts(&self, before: &Entry) -> DamagedParts {
        if self.damaged.is_empty() || before.kind != EntryKind::File {
            return DamagedParts::default();
        }
        let segments = self.reader.segments(&before.content).map_while(Result::ok);
        DamagedParts::of(segments, |fingerprint| self.damaged.contains(fingerprint))
    }

    /// Returns `true` if a chunk that the file needs was found damaged after the snapshot was made,
    /// or cannot be found.
    pub(super) fn needs_damaged(&self, before: &Entry) -> bool {
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
