//! Reading files: skipping holes, and detecting changes meanwhile.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use cutpoint_repository::{Entry, EntryKind};
use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::folder::{Handle, without_atime};
use super::{ctime, kind, links, mode, mtime, size};
use crate::platform;

/// A regular file or a block device, open for reading.
#[derive(Debug)]
pub struct SourceFile {
    file: File,
    /// The metadata; for a device, with the size and the blocks of its content.
    opened: Stat,
    is_device: bool,
}

/// A part of a file. The extents of one file follow each other without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileExtent {
    /// `len` bytes from `offset` on are stored.
    Data {
        /// The offset in bytes from the start of the file.
        offset: u64,
        /// The length in bytes.
        len: u64,
    },
    /// `len` bytes from `offset` on are not stored and read as zeros.
    Hole {
        /// The offset in bytes from the start of the file.
        offset: u64,
        /// The length in bytes.
        len: u64,
    },
}

/// Returns the metadata of the block device that `name` in `folder` is or links to, with the size of
/// its content; `None` if there is no such device, or if it cannot be opened.
pub(super) fn block_device(folder: &Handle, name: &[u8]) -> Option<Stat> {
    let found = rustix::fs::statat(folder, name, AtFlags::empty()).ok()?;
    if kind(&found) != Some(EntryKind::BlockDevice) {
        return None;
    }
    Some(open_device(folder, name).ok()?.opened)
}

/// Opens a block device or a link to one.
fn open_device(folder: &Handle, name: &[u8]) -> io::Result<SourceFile> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    let mut opened = rustix::fs::fstat(&fd)?;
    if kind(&opened) != Some(EntryKind::BlockDevice) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no longer a block device"));
    }
    let len = rustix::fs::seek(&fd, SeekFrom::End(0))?;
    opened.st_size = i64::try_from(len).unwrap_or(i64::MAX);
    // A device has no holes.
    opened.st_blocks = i64::try_from(len.div_ceil(512)).unwrap_or(i64::MAX);
    Ok(SourceFile { file: File::from(fd), opened, is_device: true })
}

/// Opens the regular file that `entry` of the folder `folder` describes, or the block device if the
/// entry has the number of one.
///
/// The time of the last access is preserved if the caller owns the file or is root.
///
/// # Errors
///
/// Returns `InvalidInput` if the name now denotes something other than a regular file, which is
/// neither followed nor waited for. Returns any other error of the system call.
pub fn open_file(folder: &Handle, entry: &Entry) -> io::Result<SourceFile> {
    let name = entry.name.as_slice();
    if entry.device_number != 0 {
        return open_device(folder, name);
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened =
        without_atime(|noatime| rustix::fs::openat(folder, name, flags | noatime, Mode::empty()));
    let other = || io::Error::new(io::ErrorKind::InvalidInput, "no longer a regular file");
    let fd = match opened {
        Ok(fd) => fd,
        // A symbolic link, a socket or a device without a driver.
        Err(platform::LINK_REFUSED | Errno::NXIO | Errno::NODEV) => return Err(other()),
        Err(error) => return Err(error.into()),
    };
    let opened = rustix::fs::fstat(&fd)?;
    if kind(&opened) != Some(EntryKind::File) {
        return Err(other());
    }
    Ok(SourceFile { file: File::from(fd), opened, is_device: false })
}

impl AsFd for SourceFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl SourceFile {
    /// The size of the file in bytes, at the time when it was opened.
    pub fn size(&self) -> u64 {
        size(&self.opened)
    }

    /// Updates `entry` to the state of the file at the time when it was opened, some time after the
    /// walk examined it. The names of owner and group are kept if the ids are the same.
    pub fn refresh(&self, entry: &mut Entry) {
        let stat = &self.opened;
        if self.is_device {
            // The content is saved as that of a file.
            entry.device_number = 0;
            entry.size = size(stat);
            return;
        }
        entry.mode = mode(stat);
        if entry.user_id != stat.st_uid {
            entry.user_id = stat.st_uid;
            entry.user.clear();
        }
        if entry.group_id != stat.st_gid {
            entry.group_id = stat.st_gid;
            entry.group.clear();
        }
        entry.mtime = mtime(stat);
        entry.ctime = ctime(stat);
        entry.inode = stat.st_ino;
        entry.links = links(stat);
        entry.size = size(stat);
    }

    /// Returns the data and holes from the byte `offset` to [`SourceFile::size`], none of them of
    /// length 0. A file that has all its blocks is one extent of data, without asking the system.
    pub fn extents(&self, offset: u64) -> FileExtents<'_> {
        let allocated = u64::try_from(self.opened.st_blocks).unwrap_or(0).saturating_mul(512);
        FileExtents { file: &self.file, offset, end: self.size(), ask: allocated < self.size() }
    }

    /// Reads bytes from `offset` on until `buffer` is full. Returns the number of bytes read, which
    /// is smaller than the length of `buffer` if the system has no more. That can happen before
    /// [`SourceFile::size`] and within an extent, because a file can be truncated meanwhile and a
    /// file system can be wrong.
    ///
    /// # Errors
    ///
    /// Returns any error of the system call except `Interrupted`, after which it reads on.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Compares the file, once it has been read, with `entry`. Returns a description of the change,
    /// or `None` if there is none. A change within the resolution of the file system's clock can go
    /// unnoticed, and no change of a device is noticed.
    ///
    /// # Errors
    ///
    /// Returns any error of the system call.
    pub fn changed(&self, entry: &Entry) -> io::Result<Option<String>> {
        if self.is_device {
            return Ok(None);
        }
        let stat = rustix::fs::fstat(&self.file)?;
        Ok(if size(&stat) != entry.size {
            Some(format!("size changed from {} to {} bytes", entry.size, size(&stat)))
        } else if mtime(&stat) != entry.mtime {
            Some("written to".to_owned())
        } else if ctime(&stat) != entry.ctime {
            Some("metadata changed".to_owned())
        } else {
            None
        })
    }
}

/// The extents of a [`SourceFile`], in order. The iterator ends after an error.
#[derive(Debug)]
pub struct FileExtents<'a> {
    file: &'a File,
    offset: u64,
    end: u64,
    ask: bool,
}

impl FileExtents<'_> {
    /// Returns the extent that begins at the current offset.
    fn find(&mut self) -> io::Result<FileExtent> {
        let (offset, end) = (self.offset, self.end);
        let rest = FileExtent::Data { offset, len: end - offset };
        if !self.ask {
            return Ok(rest);
        }
        match rustix::fs::seek(self.file, SeekFrom::Data(offset)) {
            Ok(data) if data > offset => {
                return Ok(FileExtent::Hole { offset, len: data.min(end) - offset });
            }
            Ok(_) => {}
            Err(Errno::NXIO) => return Ok(FileExtent::Hole { offset, len: end - offset }),
            // The file system does not support the query.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => return Ok(rest),
            Err(error) => return Err(error.into()),
        }
        let hole = rustix::fs::seek(self.file, SeekFrom::Hole(offset))?;
        // A file that is being written can yield any answer. The extent is never empty all the
        // same.
        let hole = if hole > offset { hole.min(end) } else { end };
        Ok(FileExtent::Data { offset, len: hole - offset })
    }
}

impl Iterator for FileExtents<'_> {
    type Item = io::Result<FileExtent>;

    fn next(&mut self) -> Option<io::Result<FileExtent>> {
        if self.offset >= self.end {
            return None;
        }
        let found = self.find();
        self.offset = match found {
            Ok(FileExtent::Data { offset, len } | FileExtent::Hole { offset, len }) => offset + len,
            Err(_) => self.end,
        };
        Some(found)
    }
}

impl std::iter::FusedIterator for FileExtents<'_> {}
