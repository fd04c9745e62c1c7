//! What a server needs of a disk.

use std::fmt::Debug;

use crate::error::Result;
use crate::volume::{Disk, Extent};

/// A disk that a server serves to several clients at once. The methods are those of [`Disk`].
pub trait Device: Debug + Send + Sync {
    /// Returns the size of the disk in bytes.
    fn size(&self) -> u64;

    /// Returns the size of the requests that are quickest, in bytes: a power of two.
    fn preferred_size(&self) -> u32;

    /// Returns `true` if the disk cannot be written.
    fn is_read_only(&self) -> bool;

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Disk::read`].
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Writes `bytes` from `offset` on.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Disk::write`].
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Makes all writes durable that have returned, of all clients.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Volume::flush`](crate::Volume::flush).
    fn flush(&self) -> Result<()>;

    /// Frees a range, whose contents are not needed any more.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Disk::trim`].
    fn trim(&self, offset: u64, len: u64) -> Result<()>;

    /// Makes a range zeros.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Disk::write_zeroes`].
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()>;

    /// Returns at most `count_max` extents of a range, from its beginning on.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Disk::extents`].
    fn extents(&self, offset: u64, len: u64, count_max: usize) -> Result<Vec<Extent>>;
}

impl Device for Disk {
    fn size(&self) -> u64 {
        Disk::size(self)
    }

    fn preferred_size(&self) -> u32 {
        u32::try_from(self.block_size()).expect("at most 64 KiB")
    }

    fn is_read_only(&self) -> bool {
        Disk::is_read_only(self)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        Disk::read(self, offset, buffer)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        Disk::write(self, offset, bytes)
    }

    fn flush(&self) -> Result<()> {
        self.volume().flush()
    }

    fn trim(&self, offset: u64, len: u64) -> Result<()> {
        Disk::trim(self, offset, len)
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        Disk::write_zeroes(self, offset, len)
    }

    fn extents(&self, offset: u64, len: u64, count_max: usize) -> Result<Vec<Extent>> {
        Disk::extents(self, offset, len, count_max)
    }
}
