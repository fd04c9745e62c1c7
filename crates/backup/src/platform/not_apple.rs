//! Calls that Linux and FreeBSD have, and macOS lacks.

use std::num::NonZeroU64;
use std::os::fd::AsFd;

use rustix::fs::{Advice, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// The flag of `open` for a handle that reaches what is below a path, or changes its metadata, without
/// the permission to read.
pub(crate) const PATH_ONLY: OFlags = OFlags::PATH;

/// Creates a device with the numbers `device` (major and minor), a pipe or a socket, which its owner may
/// read and write.
///
/// # Errors
///
/// Returns any error of the system call.
pub(crate) fn make_node(
    folder: impl AsFd,
    name: &[u8],
    file_type: FileType,
    [major, minor]: [u32; 2],
) -> Result<(), Errno> {
    let device = rustix::fs::makedev(major, minor);
    rustix::fs::mknodat(folder, name, file_type, Mode::RUSR | Mode::WUSR, device)
}

/// Returns the number of the device on which a file is.
pub(crate) fn device(stat: &Stat) -> u64 {
    stat.st_dev
}

/// Asks the system to read `len` bytes of `file` from `offset` on, without waiting for them. They can be
/// read all the same if it does not.
pub(crate) fn read_ahead(file: impl AsFd, offset: u64, len: NonZeroU64) {
    rustix::fs::fadvise(file, offset, Some(len), Advice::WillNeed).ok();
}

/// Asks the system to take the bytes of `file` out of its memory, which a file system that keeps them
/// there refuses.
pub(crate) fn drop_from_memory(file: impl AsFd) {
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed).ok();
}
