//! The calls of Windows.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::Existence;

/// The flag that lets a folder be opened (`FILE_FLAG_BACKUP_SEMANTICS`).
const FOLDER: u32 = 0x0200_0000;

/// Returns the time since 1970, in nanoseconds.
#[expect(clippy::disallowed_methods, reason = "this is where the rest of the store asks")]
pub(crate) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the time since the first call, in nanoseconds, which includes the time that the machine
/// sleeps.
pub(crate) fn elapsed_ns() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let elapsed = FIRST.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the same as [`elapsed_ns`], because the standard library has no other clock.
pub(crate) fn awake_ns() -> u64 {
    elapsed_ns()
}

/// Returns the id of this process.
pub(crate) fn process_id() -> u32 {
    std::process::id()
}

/// Returns the name of this machine.
pub(crate) fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// Does not ask.
pub(crate) fn existence(_process_id: u32) -> Existence {
    Existence::Unknown
}

/// Opens a file for reading.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Returns options with which a file is created with the rights that its folder passes on.
pub fn private_options() -> OpenOptions {
    OpenOptions::new()
}

/// Creates a folder with the rights that the one above it passes on, with its missing parents if it is
/// `recursive`.
///
/// # Errors
///
/// Returns any error of the file system.
pub fn create_private_folder(path: &Path, recursive: bool) -> io::Result<()> {
    DirBuilder::new().recursive(recursive).create(path)
}

/// Changes nothing.
///
/// # Errors
///
/// Never returns an error, because the system is not asked.
pub fn hide_from_others(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Makes the names in `folder` durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::options().write(true).custom_flags(FOLDER).open(folder)?.sync_all()
}

/// Fills `bytes` from `offset` of `file` on.
///
/// # Errors
///
/// Returns `UnexpectedEof` if the file is too short, and any other error of the file system.
pub fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let (mut rest, mut at) = (bytes, offset);
    while !rest.is_empty() {
        let len = match file.seek_read(rest, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        rest = &mut rest[len..];
        at += len as u64;
    }
    Ok(())
}

/// Returns `None`, because metadata do not name a file.
pub(crate) fn identity(_about: &Metadata) -> Option<(u64, u64)> {
    None
}

/// Returns `false`, because metadata do not name a file.
pub(crate) fn is_same_file(_one: &Metadata, _other: &Metadata) -> bool {
    false
}
