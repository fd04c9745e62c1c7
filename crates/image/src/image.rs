//! The interface of all formats.

use std::fmt::Debug;

use crate::error::Result;

/// A stretch of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The length in bytes, at least 1.
    pub len: u64,
    /// Set if all bytes are known to be zeros, without reading them.
    pub is_zero: bool,
}

/// A disk image that is open for reading.
pub trait Image: Debug + Send {
    /// Returns the size of the disk in bytes.
    fn size(&self) -> u64;

    /// Returns the extent that begins at `offset`, which is within the disk. It ends at the end of the
    /// disk or before, and the next one can be of the same kind.
    ///
    /// # Errors
    ///
    /// Fails if the image is damaged there, or cannot be read.
    fn extent(&mut self, offset: u64) -> Result<Extent>;

    /// Fills `buffer` with the bytes of the disk from `offset` on, all of which are within the disk.
    ///
    /// # Errors
    ///
    /// Fails if the image is damaged there, or cannot be read.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()>;
}
