//! Files that only their owner may read.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Creates a file for its owner only.
///
/// # Errors
///
/// `AlreadyExists` if there is a file, and any error of the file system.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}
