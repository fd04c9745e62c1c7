//! Reading a file: only where it has bytes, and knowing whether it changed meanwhile.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use cutpoint_store::format::tree::{Entry, EntryKind};
use rustix::fs::{Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::folder::{Handle, without_atime};
use super::{ctime, kind, links, mode, mtime, size};

/// A regular file, open for reading.
#[derive(Debug)]
pub struct SourceFile {
    file: File,
    opened: Stat,
}

/// A piece of a file. The pieces of one file follow each other without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// `len` bytes from `offset` on are stored.
    Data {
        /// Where, in bytes from the start of the file.
        offset: u64,
        /// How many bytes.
        len: u64,
    },
    /// `len` bytes from `offset` on are not stored: they read as zeros.
    Hole {
        /// Where, in bytes from the start of the file.
        offset: u64,
        /// How many bytes.
        len: u64,
    },
}

/// Opens the regular file that `entry` of the folder `folder` describes.
///
/// The time of the last access stays as it is where the caller is the file's owner or root.
///
/// # Errors
///
/// What the system says; `InvalidInput` if there is something else than a regular file by now.
/// Such a thing is neither followed nor waited for.
pub fn open_file(folder: &Handle, entry: &Entry) -> io::Result<SourceFile> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let name = entry.name.as_slice();
    let opened =
        without_atime(|noatime| rustix::fs::openat(folder, name, flags | noatime, Mode::empty()));
    let other = || io::Error::new(io::ErrorKind::InvalidInput, "no longer a regular file");
    let fd = match opened {
        Ok(fd) => fd,
        // A symbolic link, a socket or a device without a driver.
        Err(Errno::LOOP | Errno::NXIO | Errno::NODEV) => return Err(other()),
        Err(error) => return Err(error.into()),
    };
    let opened = rustix::fs::fstat(&fd)?;
    if kind(&opened) != Some(EntryKind::File) {
        return Err(other());
    }
    Ok(SourceFile { file: File::from(fd), opened })
}

impl AsFd for SourceFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl SourceFile {
    /// The size when it was opened, in bytes.
    pub fn size(&self) -> u64 {
        size(&self.opened)
    }

    /// Brings `entry` to the state in which the file was when it was opened, some time after the
    /// walk looked at it. Owner and group keep their names if their ids are the same.
    pub fn refresh(&self, entry: &mut Entry) {
        let stat = &self.opened;
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

    /// The data and holes from the byte `offset` to [`SourceFile::size`], none of length 0. A file
    /// that has all its blocks is one piece of data, and the system is not asked.
    pub fn extents(&self, offset: u64) -> Extents<'_> {
        let allocated = u64::try_from(self.opened.st_blocks).unwrap_or(0).saturating_mul(512);
        Extents { file: &self.file, offset, end: self.size(), ask: allocated < self.size() }
    }

    /// Reads the bytes from `offset` on until `buffer` is full, and returns their number: less than
    /// `buffer` holds where the system has no more. That need not be at [`SourceFile::size`], nor at
    /// the end of an extent: a file can be cut short meanwhile, and a file system be wrong.
    ///
    /// # Errors
    ///
    /// What the system says.
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

    /// Says what of the file is no longer as in `entry`, once it has been read; `None` if nothing
    /// is. A change within the resolution of the file system's clock can go unseen.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn changed(&self, entry: &Entry) -> io::Result<Option<String>> {
        let stat = rustix::fs::fstat(&self.file)?;
        Ok(if size(&stat) != entry.size {
            Some(format!("its size went from {} to {} bytes", entry.size, size(&stat)))
        } else if mtime(&stat) != entry.mtime {
            Some("it was written to".to_owned())
        } else if ctime(&stat) != entry.ctime {
            Some("its metadata changed".to_owned())
        } else {
            None
        })
    }
}

/// The pieces of a [`SourceFile`], in order. Ends after an error.
#[derive(Debug)]
pub struct Extents<'a> {
    file: &'a File,
    offset: u64,
    end: u64,
    ask: bool,
}

impl Extents<'_> {
    /// The next piece, of a file that has no data where `offset` is, or has.
    fn find(&mut self) -> io::Result<Extent> {
        let (offset, end) = (self.offset, self.end);
        let rest = Extent::Data { offset, len: end - offset };
        if !self.ask {
            return Ok(rest);
        }
        match rustix::fs::seek(self.file, SeekFrom::Data(offset)) {
            Ok(data) if data > offset => {
                return Ok(Extent::Hole { offset, len: data.min(end) - offset });
            }
            Ok(_) => {}
            Err(Errno::NXIO) => return Ok(Extent::Hole { offset, len: end - offset }),
            // The file system cannot tell.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => return Ok(rest),
            Err(error) => return Err(error.into()),
        }
        let hole = rustix::fs::seek(self.file, SeekFrom::Hole(offset))?;
        // A file that is being written can answer anything; progress is certain all the same.
        let hole = if hole > offset { hole.min(end) } else { end };
        Ok(Extent::Data { offset, len: hole - offset })
    }
}

impl Iterator for Extents<'_> {
    type Item = io::Result<Extent>;

    fn next(&mut self) -> Option<io::Result<Extent>> {
        if self.offset >= self.end {
            return None;
        }
        let found = self.find();
        self.offset = match found {
            Ok(Extent::Data { offset, len } | Extent::Hole { offset, len }) => offset + len,
            Err(_) => self.end,
        };
        Some(found)
    }
}

impl std::iter::FusedIterator for Extents<'_> {}
