//! Reading files: skipping holes, and detecting changes meanwhile.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;

use bytes::{Bytes, BytesMut};
use cutpoint_repository::{Entry, EntryKind};
use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::folder::{Handle, without_atime};
use super::xattrs::{self, Xattrs};
use super::{ctime, kind, links, mode, mtime, size};
use crate::platform;

/// The number of bytes that the system is asked to read ahead at a time. Disks and servers answer
/// several requests at once, and the system itself asks for less.
const ADVISED_LEN: u64 = 8 << 20;

/// The number of bytes that the system is asked for by one call. Of a longer range, Linux reads only
/// the beginning: as much as it reads ahead on its own, which is 128 KiB unless the administrator has
/// set another number, or the largest request to the disk.
const ADVICE_STEP: u64 = 128 << 10;

/// A regular file or a block device, open for reading, or a small file with all its bytes.
#[derive(Debug)]
pub struct SourceFile {
    bytes: FileBytes,
    /// The metadata when the file was opened; for a device, with the size and the blocks of its
    /// content.
    opened: Stat,
    is_device: bool,
    /// The extended attributes, if they were read before.
    xattrs: Option<Xattrs>,
}

/// The place of the bytes of a file.
#[derive(Debug)]
enum FileBytes {
    /// The open file.
    Open(File),
    /// The bytes, read from the open file, and its metadata afterwards.
    Read { bytes: Bytes, after: Box<Stat> },
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
    Ok(SourceFile::new(File::from(fd), opened, true))
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
    match entry.device_number {
        0 => open_regular(folder, &entry.name),
        _ => open_device(folder, &entry.name),
    }
}

/// Opens the regular file `name` in `folder`, as [`open_file`] does.
fn open_regular(folder: &Handle, name: &[u8]) -> io::Result<SourceFile> {
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
    Ok(SourceFile::new(File::from(fd), opened, false))
}

/// Opens the regular file `name` in `folder`, as [`open_file`] does. If the file has at most `len_max`
/// bytes, reads it and its extended attributes, and closes it; returns `None` if it has holes.
/// Otherwise, asks the system to read its beginning ahead. The bytes of several files share a
/// `buffer`, which is empty before and after.
pub(crate) fn read_ahead(
    folder: &Handle,
    name: &[u8],
    len_max: u64,
    buffer: &mut BytesMut,
) -> io::Result<Option<SourceFile>> {
    let mut file = open_regular(folder, name)?;
    if file.size() > len_max {
        file.advise(0, file.size().min(ADVISED_LEN));
        return Ok(Some(file));
    }
    if !file.is_whole() {
        return Ok(None);
    }
    file.xattrs = Some(file.xattrs());
    buffer.resize(usize::try_from(file.size()).unwrap_or(0), 0);
    let read = file.read_at(buffer, 0);
    buffer.truncate(*read.as_ref().unwrap_or(&0));
    let bytes = buffer.split().freeze();
    // An error is found again by the one who reads from the open file.
    if read.is_err() {
        return Ok(None);
    }
    let FileBytes::Open(open) = &file.bytes else { return Ok(None) };
    let after = Box::new(rustix::fs::fstat(open)?);
    file.bytes = FileBytes::Read { bytes, after };
    Ok(Some(file))
}

impl SourceFile {
    fn new(file: File, opened: Stat, is_device: bool) -> SourceFile {
        SourceFile { bytes: FileBytes::Open(file), opened, is_device, xattrs: None }
    }

    /// Returns the extended attributes, as far as they can be read.
    pub fn xattrs(&mut self) -> Xattrs {
        match (self.xattrs.take(), &self.bytes) {
            (Some(xattrs), _) => xattrs,
            (None, FileBytes::Open(file)) => xattrs::of_file(file),
            // They are read before the bytes.
            (None, FileBytes::Read { .. }) => Xattrs::default(),
        }
    }

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
        let asked = match &self.bytes {
            FileBytes::Open(file) if self.may_have_holes() => Some(file),
            _ => None,
        };
        FileExtents { asked, offset, end: self.size() }
    }

    /// Returns `true` if the file has no holes.
    fn is_whole(&self) -> bool {
        self.extents(0).all(|extent| matches!(extent, Ok(FileExtent::Data { .. })))
    }

    /// Examines a file again that was opened some time ago.
    pub(crate) fn examine_again(&mut self) -> io::Result<()> {
        let FileBytes::Open(file) = &self.bytes else { return Ok(()) };
        if !self.is_device {
            self.opened = rustix::fs::fstat(file)?;
        }
        Ok(())
    }

    /// Returns `false` if the file has all its blocks.
    fn may_have_holes(&self) -> bool {
        let allocated = u64::try_from(self.opened.st_blocks).unwrap_or(0).saturating_mul(512);
        allocated < self.size()
    }

    /// Asks the system to read `len` bytes from `offset` on, without waiting for them.
    fn advise(&self, offset: u64, len: u64) {
        let FileBytes::Open(file) = &self.bytes else { return };
        let end = offset + len;
        let mut at = offset;
        while let Some(len) = NonZeroU64::new(ADVICE_STEP.min(end - at)) {
            platform::read_ahead(file, at, len);
            at += len.get();
        }
    }

    /// Asks the system to read the bytes behind `offset` ahead, up to `end`. `advised_end` is the
    /// place up to which it was asked before.
    pub(crate) fn advise_behind(&self, offset: u64, end: u64, advised_end: &mut u64) {
        let begin = offset.max(*advised_end);
        if begin < end && begin - offset <= ADVISED_LEN / 2 {
            *advised_end = end.min(begin + ADVISED_LEN);
            self.advise(begin, *advised_end - begin);
        }
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
        let file = match &self.bytes {
            FileBytes::Open(file) => file,
            FileBytes::Read { bytes, .. } => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let count = buffer.len().min(bytes.len() - start);
                buffer[..count].copy_from_slice(&bytes[start..start + count]);
                return Ok(count);
            }
        };
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], offset + filled as u64) {
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
        let stat = match &self.bytes {
            FileBytes::Open(file) => rustix::fs::fstat(file)?,
            FileBytes::Read { after, .. } => **after,
        };
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
    /// The file, if the system is to be asked for its holes.
    asked: Option<&'a File>,
    offset: u64,
    end: u64,
}

impl FileExtents<'_> {
    /// Returns the extent that begins at the current offset.
    fn find(&mut self) -> io::Result<FileExtent> {
        let (offset, end) = (self.offset, self.end);
        let rest = FileExtent::Data { offset, len: end - offset };
        let Some(file) = self.asked else { return Ok(rest) };
        match rustix::fs::seek(file, SeekFrom::Data(offset)) {
            Ok(data) if data > offset => {
                return Ok(FileExtent::Hole { offset, len: data.min(end) - offset });
            }
            Ok(_) => {}
            Err(Errno::NXIO) => return Ok(FileExtent::Hole { offset, len: end - offset }),
            // The file system does not support the query.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => return Ok(rest),
            Err(error) => return Err(error.into()),
        }
        let hole = rustix::fs::seek(file, SeekFrom::Hole(offset))?;
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::folder::{self, Access};
    use super::*;

    /// Returns all that a backup finds out about a file.
    fn describe(file: &SourceFile) -> String {
        let mut entry = Entry::new(b"name", EntryKind::File);
        file.refresh(&mut entry);
        let mut bytes = vec![7; 100];
        let count = file.read_at(&mut bytes, 3).expect("read");
        let extents: Vec<_> = file.extents(0).map(|extent| extent.expect("found")).collect();
        let changed = file.changed(&entry).expect("examined");
        format!("{entry:?} {count} {bytes:?} {extents:?} {changed:?}")
    }

    #[test]
    fn file_is_the_same_if_it_was_read_ahead() {
        let base = tempfile::tempdir().expect("a temporary folder");
        let path = base.path().as_os_str().as_encoded_bytes();
        let folder = folder::open(rustix::fs::CWD, path, Access::List).expect("opened");
        fs::write(base.path().join("empty"), "").expect("written");
        fs::write(base.path().join("short"), "text").expect("written");
        fs::write(base.path().join("long"), vec![1; 5000]).expect("written");
        let sparse = File::create(base.path().join("sparse")).expect("made");
        sparse.set_len(100_000).expect("longer");
        let mut buffer = BytesMut::new();
        for (name, is_read) in
            [("empty", true), ("short", true), ("long", false), ("sparse", false)]
        {
            let ahead = read_ahead(&folder, name.as_bytes(), 4000, &mut buffer);
            let ahead = ahead.expect("opened").expect("no small file with holes");
            let opened = open_regular(&folder, name.as_bytes()).expect("opened");
            assert_eq!(matches!(ahead.bytes, FileBytes::Read { .. }), is_read, "{name}");
            assert_eq!(describe(&ahead), describe(&opened), "{name}");
        }
        let with_hole = File::create(base.path().join("with a hole")).expect("made");
        with_hole.set_len(4000).expect("longer");
        let ahead = read_ahead(&folder, b"with a hole", 4000, &mut buffer).expect("opened");
        assert!(ahead.is_none(), "it is left to the one who needs it");
    }

    /// Nothing that happens after a file was read ahead is taken for a part of it.
    #[test]
    fn change_after_the_file_was_read_ahead_is_not_seen() {
        let base = tempfile::tempdir().expect("a temporary folder");
        let path = base.path().as_os_str().as_encoded_bytes();
        let folder = folder::open(rustix::fs::CWD, path, Access::List).expect("opened");
        fs::write(base.path().join("file"), "before").expect("written");
        let ahead = read_ahead(&folder, b"file", 4000, &mut BytesMut::new()).expect("opened");
        let mut ahead = ahead.expect("it has no holes");
        ahead.examine_again().expect("it was read");
        let before = describe(&ahead);
        fs::write(base.path().join("file"), "and afterwards").expect("written");
        ahead.examine_again().expect("it was read");
        assert_eq!(describe(&ahead), before);
    }

    /// A file that stays open has the metadata of the time when its turn comes.
    #[test]
    fn open_file_is_examined_again() {
        let base = tempfile::tempdir().expect("a temporary folder");
        let path = base.path().as_os_str().as_encoded_bytes();
        let folder = folder::open(rustix::fs::CWD, path, Access::List).expect("opened");
        fs::write(base.path().join("file"), vec![1; 5000]).expect("written");
        let ahead = read_ahead(&folder, b"file", 4000, &mut BytesMut::new()).expect("opened");
        let mut ahead = ahead.expect("it is large");
        fs::write(base.path().join("file"), vec![2; 6000]).expect("written");
        ahead.examine_again().expect("examined");
        let opened = open_regular(&folder, b"file").expect("opened");
        assert_eq!((ahead.size(), describe(&ahead)), (6000, describe(&opened)));
    }
}
