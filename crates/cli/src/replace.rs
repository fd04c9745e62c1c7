//! Files that other programs read while they are replaced.

use std::ffi::OsString;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Replaces the file `path` atomically by one with `bytes` and these permission bits. Its folder must
/// exist.
///
/// # Errors
///
/// Returns any error of the file system, and `InvalidInput` if `path` is no file.
pub(crate) fn replace_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let is_other = fs::metadata(path).is_ok_and(|about| !about.is_file());
    let Some(name) = path.file_name().filter(|_| !is_other) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    };
    // The ending differs from that of the file, by which collectors choose what they read.
    let mut staged = OsString::from(".");
    staged.push(name);
    staged.push(format!(".{}", std::process::id()));
    let staged = path.with_file_name(staged);
    // An earlier process of the same number may have left the file.
    fs::remove_file(&staged).ok();
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&staged);
    let result = file
        .and_then(|mut file| {
            file.write_all(bytes)?;
            // Set apart from the creation, because the umask of a service may be strict.
            file.set_permissions(Permissions::from_mode(mode))?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&staged, path));
    if result.is_err() {
        fs::remove_file(&staged).ok();
    }
    result
}
