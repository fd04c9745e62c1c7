//! The same functions on a system without the calls of Linux. What no call can do is left out.

use std::fs::File;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Dir, FileType, Mode, OFlags, RawMode};
use rustix::io::Errno;

use super::MountId;

/// No flag: a read sets the time of the last access.
pub(crate) const NOATIME: OFlags = OFlags::empty();

/// The error of `open` for a symbolic link that is not to be followed. Source: `open(2)` of FreeBSD.
pub(crate) const LINK_REFUSED: Errno = Errno::MLINK;

/// The subject of the warning that nothing bounds the time for which a modified page stays in
/// memory.
pub(crate) const WRITEBACK_SETTING: &str = "writeback interval of the system";

/// Returns the twelve permission bits of `mode` for a system call.
#[allow(clippy::unnecessary_fallible_conversions, reason = "modes have 16 bits on some systems")]
pub(crate) fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(RawMode::try_from(mode & 0o7777).unwrap_or_default())
}

/// Calls `each` with the names in `folder`, among them `.` and `..`, in any order, and with the type
/// and the inode number that the folder records for each, until it returns `false`. The buffer is not
/// used, because `readdir` has its own.
///
/// # Errors
///
/// Returns any error of the system call, after the names that were read before.
pub(crate) fn list_folder(
    folder: impl AsFd,
    _buffer: &mut [MaybeUninit<u8>],
    mut each: impl FnMut(&[u8], FileType, u64) -> bool,
) -> Result<(), Errno> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if !each(entry.file_name().to_bytes(), entry.file_type(), entry.ino()) {
            break;
        }
    }
    Ok(())
}

/// Returns `None`, because `fstatat` of POSIX has no time of creation.
pub(crate) fn created_ns(_folder: impl AsFd, _name: &[u8]) -> Option<i128> {
    None
}

/// Returns the device on which `folder` is.
///
/// # Errors
///
/// Returns any error of the system call.
pub(crate) fn mount_of(folder: impl AsFd) -> Result<MountId, Errno> {
    Ok((super::device(&rustix::fs::fstat(folder)?), 0))
}

/// Sets the permissions of what `fd` is open for, even if that is its path only.
///
/// # Errors
///
/// Returns any error of the system call.
pub(crate) fn set_permissions(fd: impl AsFd, mode: Mode) -> Result<(), Errno> {
    #[cfg(not(target_vendor = "apple"))]
    return rustix::fs::chmodat(fd, "", mode, rustix::fs::AtFlags::EMPTY_PATH);
    #[cfg(target_vendor = "apple")]
    rustix::fs::fchmod(fd, mode)
}

/// Returns `false`, because no call makes holes in a file.
pub(crate) fn make_hole(_file: &File, _offset: u64, _length: u64) -> bool {
    false
}

/// Returns `false`, because no call shares the bytes of a file.
pub(crate) fn clone_bytes(_file: &File, _existing: &File) -> bool {
    false
}

/// Does nothing, because no call writes the data of one file system.
pub(crate) fn sync_file_system(_fd: impl AsFd) -> Result<(), Errno> {
    Ok(())
}

/// The extended attributes of a file or folder. They are neither read nor set.
#[derive(Debug)]
pub(crate) struct Xattrs<'a>(PhantomData<BorrowedFd<'a>>);

impl<'a> Xattrs<'a> {
    /// Stands for those of an open file or folder.
    pub(crate) fn of_open(_fd: BorrowedFd<'a>) -> Xattrs<'a> {
        Xattrs(PhantomData)
    }

    /// Stands for those of `name` in `folder`.
    pub(crate) fn of_name(_folder: BorrowedFd<'_>, _name: &[u8]) -> Xattrs<'static> {
        Xattrs(PhantomData)
    }

    /// Finds no names.
    ///
    /// # Errors
    ///
    /// Always fails with `OPNOTSUPP`, as on a file system without attributes.
    pub(crate) fn names(&self, _buffer: &mut [u8]) -> Result<usize, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Returns `false`.
    pub(crate) fn has(&self, _name: &[u8]) -> bool {
        false
    }

    /// Finds no value.
    pub(crate) fn value(&self, _name: &[u8], _buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
        Ok(None)
    }

    /// Sets nothing.
    ///
    /// # Errors
    ///
    /// Always fails with `OPNOTSUPP`.
    pub(crate) fn set(&self, _name: &[u8], _value: &[u8]) -> Result<(), Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Removes nothing.
    ///
    /// # Errors
    ///
    /// Always fails with `OPNOTSUPP`.
    pub(crate) fn remove(&self, _name: &[u8]) -> Result<(), Errno> {
        Err(Errno::OPNOTSUPP)
    }
}
