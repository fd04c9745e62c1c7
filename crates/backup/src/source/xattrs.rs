//! Extended attributes, which on Linux include the POSIX ACLs. Other systems seem to have none.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;

use super::folder::Handle;
use crate::platform;

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
pub(super) fn of_file(fd: impl AsFd) -> Xattrs {
    read(&platform::Xattrs::of_open(fd.as_fd()))
}

/// Reads the attributes of `name` in `folder` without opening it. For a symbolic link, these are
/// the attributes of the link itself. A file system without attributes yields none. Needs `/proc` on
/// Linux.
pub fn of_name(folder: &Handle, name: &[u8]) -> Xattrs {
    read(&platform::Xattrs::of_name(folder.as_fd(), name))
}

fn read(all: &platform::Xattrs<'_>) -> Xattrs {
    let mut xattrs = Xattrs::default();
    let names = match fill(|buffer| all.names(buffer).map(Some)) {
        Ok(names) => names.unwrap_or_default(),
        Err(Errno::OPNOTSUPP) => return xattrs,
        Err(error) => {
            xattrs.problem = Some(error.into());
            return xattrs;
        }
    };
    for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        match fill(|buffer| all.value(name, buffer)) {
            Ok(Some(value)) => xattrs.pairs.push((name.to_vec(), value)),
            // Removed meanwhile.
            Ok(None) => {}
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

/// Calls `call` with a buffer that is long enough for the answer, if there is one.
fn fill(
    call: impl Fn(&mut [u8]) -> Result<Option<usize>, Errno>,
) -> Result<Option<Vec<u8>>, Errno> {
    let mut short = [0; 256];
    match call(&mut short) {
        Ok(len) => Ok(len.map(|len| short[..len].to_vec())),
        Err(Errno::RANGE) => {
            let mut long = vec![0; LEN_MAX];
            let len = call(&mut long)?;
            long.truncate(len.unwrap_or_default());
            Ok(len.map(|_| long))
        }
        Err(error) => Err(error),
    }
}
