//! What macOS does in another way than Linux and FreeBSD.

use std::num::NonZeroU64;
use std::os::fd::AsFd;

use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

/// The flag of `open` that stands for that of a handle without the permission to read, which is needed
/// here. Opening a pipe does not wait.
pub(crate) const PATH_ONLY: OFlags = OFlags::NONBLOCK;

/// Creates nothing.
///
/// # Errors
///
/// Always fails with `OPNOTSUPP`, because no call takes a folder and a name.
pub(crate) fn make_node(
    _folder: impl AsFd,
    _name: &[u8],
    _file_type: FileType,
    _device: [u32; 2],
) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Returns the number of the device on which a file is.
pub(crate) fn device(stat: &Stat) -> u64 {
    stat.st_dev.cast_unsigned().into()
}

/// Does nothing, because no call of `rustix` asks for it.
pub(crate) fn read_ahead(_file: impl AsFd, _offset: u64, _len: NonZeroU64) {}

/// Does nothing, because no call of `rustix` asks for it.
pub(crate) fn drop_from_memory(_file: impl AsFd) {}
