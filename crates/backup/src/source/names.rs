//! The names in a folder, in one block of memory.

use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;

use rustix::fs::FileType;

use super::folder::Handle;
use crate::platform;

/// The size of the buffer for directory entries of one system call, in bytes.
pub(super) const LIST_BUFFER_LEN: usize = 64 * 1024;

/// Names and the types that the folder records for them, sorted by bytes, with a position.
#[derive(Debug, Default)]
pub(super) struct Names {
    bytes: Vec<u8>,
    items: Vec<(Range<usize>, FileType)>,
    next: usize,
}

impl Names {
    /// Lists `folder`. The names read before an error are kept.
    pub(super) fn list(
        &mut self,
        folder: &Handle,
        buffer: &mut [MaybeUninit<u8>],
    ) -> io::Result<()> {
        let listed = platform::list_folder(folder, buffer, |name, file_type| {
            if name != b"." && name != b".." {
                self.push(name, file_type);
            }
        });
        Ok(listed?)
    }

    /// Returns `true` if there is no name.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds a name.
    pub(super) fn push(&mut self, name: &[u8], file_type: FileType) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.items.push((start..self.bytes.len(), file_type));
    }

    /// Sorts the names and removes duplicates, which a folder that changes while it is listed can
    /// contain. Of duplicates, one with a known type stays.
    pub(super) fn sort(&mut self) {
        let Names { bytes, items, .. } = self;
        items.sort_unstable_by(|(a, a_type), (b, b_type)| {
            let unknown = |file_type: &FileType| *file_type == FileType::Unknown;
            bytes[a.clone()].cmp(&bytes[b.clone()]).then(unknown(a_type).cmp(&unknown(b_type)))
        });
        items.dedup_by(|(a, _), (b, _)| bytes[a.clone()] == bytes[b.clone()]);
    }

    /// Returns `true` if `name` is among the sorted names, taken or not.
    pub(super) fn contains(&self, name: &[u8]) -> bool {
        self.items.binary_search_by(|(range, _)| self.bytes[range.clone()].cmp(name)).is_ok()
    }

    /// Takes the next name, with its type.
    pub(super) fn take(&mut self) -> Option<(&[u8], FileType)> {
        let (range, file_type) = self.items.get(self.next)?.clone();
        self.next += 1;
        Some((&self.bytes[range], file_type))
    }
}
