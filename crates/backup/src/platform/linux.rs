//! The calls of Linux.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags, RawDir, StatxFlags, XattrFlags};
use rustix::io::Errno;

use super::MountId;

/// The flag of `open` that preserves the time of the last access.
pub(crate) const NOATIME: OFlags = OFlags::NOATIME;

/// The error of `open` for a symbolic link that is not to be followed.
pub(crate) const LINK_REFUSED: Errno = Errno::LOOP;

/// The setting that bounds the time for which a modified page stays in memory.
pub(crate) const WRITEBACK_SETTING: &str = "/proc/sys/vm/dirty_writeback_centisecs";

/// Returns the twelve permission bits of `mode` for a system call.
pub(crate) fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o7777)
}

/// Calls `each` with the names in `folder`, among them `.` and `..`, in any order, and with the type
/// and the inode number that the folder records for each, until it returns `false`. `buffer` is for the
/// entries of one system call.
///
/// # Errors
///
/// Returns any error of the system call, after the names that were read before.
pub(crate) fn list_folder(
    folder: impl AsFd,
    buffer: &mut [MaybeUninit<u8>],
    mut each: impl FnMut(&[u8], FileType, u64) -> bool,
) -> Result<(), Errno> {
    let mut entries = RawDir::new(folder, buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !each(entry.file_name().to_bytes(), entry.file_type(), entry.ino()) {
            break;
        }
    }
    Ok(())
}

/// Returns the time at which `name` in `folder` was created, in nanoseconds since 1970; `None` if it
/// is not known.
pub(crate) fn created_ns(folder: impl AsFd, name: &[u8]) -> Option<i128> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let found = rustix::fs::statx(folder, name, flags, StatxFlags::BTIME).ok()?;
    let is_known = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    let created = found.stx_btime;
    let ns = i128::from(created.tv_sec) * 1_000_000_000 + i128::from(created.tv_nsec);
    is_known.then_some(ns)
}

/// Returns the device and the mount on which `folder` is.
///
/// # Errors
///
/// Returns any error of the system call.
pub(crate) fn mount_of(folder: impl AsFd) -> Result<MountId, Errno> {
    let device = rustix::fs::fstat(&folder)?.st_dev;
    let found = rustix::fs::statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID);
    Ok((device, found.map_or(0, |found| found.stx_mnt_id)))
}

/// Sets the permissions of what `fd` is open for, even if that is its path only.
///
/// # Errors
///
/// Returns any error of the system call.
pub(crate) fn set_permissions(fd: impl AsFd, mode: Mode) -> Result<(), Errno> {
    rustix::fs::chmod(path_of(fd.as_fd()), mode)
}

/// Makes a range of `file` a hole. Returns `false` if the file system cannot do that.
pub(crate) fn make_hole(file: &File, offset: u64, length: u64) -> bool {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(file, flags, offset, length).is_ok()
}

/// Lets `file` share the bytes of `existing`. Returns `false` if the file system cannot do that.
pub(crate) fn clone_bytes(file: &File, existing: &File) -> bool {
    rustix::fs::ioctl_ficlone(file, existing).is_ok()
}

/// Writes everything that is modified in memory to the disk of the file system of `fd`.
///
/// # Errors
///
/// Returns any error of the system call.
pub(crate) fn sync_file_system(fd: impl AsFd) -> Result<(), Errno> {
    rustix::fs::syncfs(fd)
}

/// The extended attributes of a file or folder.
#[derive(Debug)]
pub(crate) enum Xattrs<'a> {
    /// Those of an open file or folder, which is not open for its path only.
    Open(BorrowedFd<'a>),
    /// Those of the entry at this path, which is not opened, and not followed if it is a symbolic
    /// link.
    Named(Vec<u8>),
}

impl<'a> Xattrs<'a> {
    /// Chooses those of an open file or folder, which must not be open for its path only.
    pub(crate) fn of_open(fd: BorrowedFd<'a>) -> Xattrs<'a> {
        Xattrs::Open(fd)
    }

    /// Chooses those of `name` in `folder`; for a symbolic link, those of the link itself. Needs
    /// `/proc`.
    pub(crate) fn of_name(folder: BorrowedFd<'_>, name: &[u8]) -> Xattrs<'static> {
        // A path of bounded length.
        Xattrs::Named([path_of(folder).as_bytes(), b"/", name].concat())
    }

    /// Fills `buffer` with the names, each with a NUL byte behind it, and returns their length.
    ///
    /// # Errors
    ///
    /// Returns `RANGE` if the buffer is too short, `OPNOTSUPP` if the file system has no attributes,
    /// and any other error of the system call.
    pub(crate) fn names(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Xattrs::Open(fd) => rustix::fs::flistxattr(fd, buffer),
            Xattrs::Named(path) => rustix::fs::llistxattr(path.as_slice(), buffer),
        }
    }

    /// Returns `true` if there is an attribute `name`.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        match self {
            Xattrs::Open(fd) => rustix::fs::fgetxattr_query(fd, name).is_ok(),
            Xattrs::Named(path) => rustix::fs::lgetxattr_query(path.as_slice(), name).is_ok(),
        }
    }

    /// Fills `buffer` with the value of `name`, and returns its length; `None` if there is no such
    /// attribute.
    ///
    /// # Errors
    ///
    /// Returns `RANGE` if the buffer is too short, and any other error of the system call.
    pub(crate) fn value(&self, name: &[u8], buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
        let found = match self {
            Xattrs::Open(fd) => rustix::fs::fgetxattr(fd, name, buffer),
            Xattrs::Named(path) => rustix::fs::lgetxattr(path.as_slice(), name, buffer),
        };
        match found {
            Err(Errno::NODATA) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Creates or replaces the attribute `name`.
    ///
    /// # Errors
    ///
    /// Returns any error of the system call.
    pub(crate) fn set(&self, name: &[u8], value: &[u8]) -> Result<(), Errno> {
        let flags = XattrFlags::empty();
        match self {
            Xattrs::Open(fd) => rustix::fs::fsetxattr(fd, name, value, flags),
            Xattrs::Named(path) => rustix::fs::lsetxattr(path.as_slice(), name, value, flags),
        }
    }

    /// Removes the attribute `name`.
    ///
    /// # Errors
    ///
    /// Returns any error of the system call.
    pub(crate) fn remove(&self, name: &[u8]) -> Result<(), Errno> {
        match self {
            Xattrs::Open(fd) => rustix::fs::fremovexattr(fd, name),
            Xattrs::Named(path) => rustix::fs::lremovexattr(path.as_slice(), name),
        }
    }
}

/// Returns a path to what `fd` is open for.
fn path_of(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}
