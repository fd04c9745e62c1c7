//! The names in a folder, in one block of memory.

use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;

use rustix::fs::FileType;

use super::folder::Handle;
use crate::platform;

/// The size of the buffer for directory entries of one system call, in bytes.
pub(super) const LIST_BUFFER_LEN: usize = 64 * 1024;

/// Names and what the folder records for them, sorted by bytes.
#[derive(Debug, Default)]
pub(super) struct Names {
    bytes: Vec<u8>,
    items: Vec<Item>,
}

#[derive(Clone, Debug)]
struct Item {
    range: Range<usize>,
    file_type: FileType,
    /// The number that the folder records, which is another one for a mounted file system; 0 if there
    /// is none.
    inode: u64,
}

impl Names {
    /// Lists `folder`, up to `count_max` names. The names read before an error are kept.
    pub(super) fn list(
        &mut self,
        folder: &Handle,
        buffer: &mut [MaybeUninit<u8>],
        count_max: usize,
    ) -> io::Result<()> {
        let listed = platform::list_folder(folder, buffer, |name, file_type, inode| {
            if name != b"." && name != b".." {
                self.push(name, file_type, inode);
            }
            self.items.len() < count_max
        });
        Ok(listed?)
    }

    /// Returns `true` if there is no name.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The number of names.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Adds a name.
    pub(super) fn push(&mut self, name: &[u8], file_type: FileType, inode: u64) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.items.push(Item { range: start..self.bytes.len(), file_type, inode });
    }

    /// Sorts the names and removes duplicates, which a folder that changes while it is listed can
    /// contain. Of duplicates, one with a known type stays.
    pub(super) fn sort(&mut self) {
        let Names { bytes, items } = self;
        items.sort_unstable_by(|a, b| {
            let unknown = |item: &Item| item.file_type == FileType::Unknown;
            bytes[a.range.clone()].cmp(&bytes[b.range.clone()]).then(unknown(a).cmp(&unknown(b)))
        });
        items.dedup_by(|a, b| bytes[a.range.clone()] == bytes[b.range.clone()]);
    }

    /// Returns `true` if `name` is among the sorted names.
    pub(super) fn contains(&self, name: &[u8]) -> bool {
        self.items.binary_search_by(|item| self.bytes[item.range.clone()].cmp(name)).is_ok()
    }

    /// Returns the name at the position `index`, with its type.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], FileType)> {
        let item = self.items.get(index)?;
        Some((&self.bytes[item.range.clone()], item.file_type))
    }

    /// Returns the positions in `range`, in ascending order of the inode numbers. The metadata of most
    /// file systems lies on the disk in this order.
    pub(super) fn by_inode(&self, range: Range<usize>) -> Vec<usize> {
        let mut positions: Vec<usize> = range.collect();
        positions.sort_by_key(|&index| self.items.get(index).map(|item| item.inode));
        positions
    }
}
