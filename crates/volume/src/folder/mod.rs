//! The folder of a volume: all I/O of the engine goes through one trait.

mod faulty;
mod local;

use std::fmt::Debug;
use std::io::{self, IoSliceMut};

pub use faulty::{FaultyFolder, Kept, Survival};
pub use local::{Access, LocalFolder};

/// A folder of files that are written from the start to the end.
///
/// What was written is visible to reads at once. After a power cut, the bytes of a file up to its
/// last [`sync`](Folder::sync) are there, if the name of the file is: names that were created,
/// changed or deleted are durable after [`sync_names`](Folder::sync_names). Anything else may or may
/// not have reached the disk, in any order.
pub trait Folder: Debug + Send + Sync {
    /// Returns the names of all files, in no order.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be listed.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Creates an empty file.
    ///
    /// # Errors
    ///
    /// Fails if the file exists or cannot be created.
    fn create(&self, name: &str) -> io::Result<()>;

    /// Gives a file another name, and begins it anew: it is written from the start on, over its bytes. Bytes that are not overwritten stay, and those that are may come back by a power cut before
    /// the next [`sync`](Folder::sync). Before the next [`sync_names`](Folder::sync_names), a power cut may
    /// bring back the old name as well, with the new bytes. Returns the length of the file.
    ///
    /// # Errors
    ///
    /// Fails, and changes nothing, if a file has the name `to`, if the file does not exist or has a second
    /// name, and if the folder cannot do it.
    fn reuse(&self, from: &str, to: &str) -> io::Result<u64> {
        let _ = (from, to);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Writes `bytes` to a file behind the first `offset` bytes, which are all that was written since it was
    /// created or begun anew. After an error, any part of them may have been written.
    ///
    /// # Errors
    ///
    /// Fails if the file does not exist or cannot be written.
    fn write_at(&self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Fills `buffer` with the bytes of a file from `offset` on.
    ///
    /// # Errors
    ///
    /// Fails with `UnexpectedEof` if the file has fewer bytes, and if it cannot be read.
    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Fills buffers one behind the other with the bytes of a file from `offset` on.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Folder::read_at`].
    fn read_parts_at(
        &self,
        name: &str,
        mut offset: u64,
        parts: &mut [IoSliceMut<'_>],
    ) -> io::Result<()> {
        for part in parts {
            self.read_at(name, offset, part)?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    /// Returns the length of a file in bytes, with those of a file that was begun anew that are not
    /// overwritten yet.
    ///
    /// # Errors
    ///
    /// Fails if the file does not exist.
    fn size(&self, name: &str) -> io::Result<u64>;

    /// Makes the bytes of a file durable.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot promise that. A later success does not undo the failure.
    fn sync(&self, name: &str) -> io::Result<()>;

    /// Makes the creations, changes and deletions of names durable.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot promise that. A later success does not undo the failure.
    fn sync_names(&self) -> io::Result<()>;

    /// Deletes a file.
    ///
    /// # Errors
    ///
    /// Fails if the file does not exist or cannot be deleted.
    fn delete(&self, name: &str) -> io::Result<()>;

    /// Returns the number of bytes by which files can grow before the storage is full, or `None` if the
    /// storage does not tell.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
}
