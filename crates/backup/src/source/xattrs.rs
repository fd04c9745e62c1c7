//! Extended attributes, which on Linux include the POSIX ACLs.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

use super::folder::Handle;

/// The maximum length in bytes that Linux returns for a value, and for a list of names.
///
/// Source: `XATTR_SIZE_MAX` and `XATTR_LIST_MAX` in the kernel's `limits.h`.
const LEN_MAX: usize = 65536;

/// The extended attributes of a file, as far as they could be read.
#[derive(Debug, Default)]
pub struct Xattrs {
    /// Names and values, sorted by the names.
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The reason why attributes are missing from `pairs`, for a warning.
    pub problem: Option<io::Error>,
}

/// Reads the attributes of an open file or folder, which must not be open for its path only. A file
/// system without attributes yields none.
pub fn of_file(fd: impl AsFd) -> Xattrs {
    let fd = fd.as_fd();
    read(
        |buffer| rustix::fs::flistxattr(fd, buffer),
        |name, buffer| rustix::fs::fgetxattr(fd, name, buffer),
    )
}

/// Reads the attributes of `name` in `folder` without opening it. For a symbolic link, these are
/// the attributes of the link itself. A file system without attributes yields none. Needs `/proc`.
pub fn of_name(folder: &Handle, name: &[u8]) -> Xattrs {
    let path = path_of(folder, name);
    let path = path.as_slice();
    read(
        |buffer| rustix::fs::llistxattr(path, buffer),
        |name, buffer| rustix::fs::lgetxattr(path, name, buffer),
    )
}

/// Returns a path of bounded length to `name` in `folder`.
pub(crate) fn path_of(folder: &Handle, name: &[u8]) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", folder.as_fd().as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    path
}

fn read(
    list: impl Fn(&mut [u8]) -> Result<usize, Errno>,
    get: impl Fn(&[u8], &mut [u8]) -> Result<usize, Errno>,
) -> Xattrs {
    let mut xattrs = Xattrs::default();
    let names = match fill(list) {
        Ok(names) => names,
        Err(Errno::OPNOTSUPP) => return xattrs,
        Err(error) => {
            xattrs.problem = Some(error.into());
            return xattrs;
        }
    };
    for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        match fill(|buffer| get(name, buffer)) {
            Ok(value) => xattrs.pairs.push((name.to_vec(), value)),
            // Removed meanwhile.
            Err(Errno::NODATA) => {}
            Err(error) => {
                let error = io::Error::from(error);
                let message =
                    format!("extended attribute {}: {error}", String::from_utf8_lossy(name));
                xattrs.problem = Some(io::Error::new(error.kind(), message));
            }
        }
    }
    xattrs.pairs.sort_unstable();
    xattrs
}

/// Calls `call` with a buffer that is long enough for the answer.
fn fill(call: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut short = [0; 256];
    match call(&mut short) {
        Ok(len) => Ok(short[..len].to_vec()),
        Err(Errno::RANGE) => {
            let mut long = vec![0; LEN_MAX];
            let len = call(&mut long)?;
            long.truncate(len);
            Ok(long)
        }
        Err(error) => Err(error),
    }
}
