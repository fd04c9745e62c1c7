//! The calls of Unix.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::process::{Pid, getpid, test_kill_process};
use rustix::time::ClockId;

use super::Existence;

/// The mode of a folder that is created for a repository: access for its owner only.
const FOLDER_MODE: u32 = 0o700;

/// The mode of a file that is created for a repository.
const FILE_MODE: u32 = 0o600;

/// The permission bits of all users but the owner.
const OTHERS_MODE: u32 = 0o077;

/// Returns the time since 1970, in nanoseconds.
pub(crate) fn now_ns() -> i64 {
    ns_of(ClockId::Realtime)
}

/// Returns the time of a clock that only goes forward, in nanoseconds. On Linux it counts the time that
/// the machine sleeps.
pub(crate) fn elapsed_ns() -> u64 {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    u64::try_from(ns_of(clock)).unwrap_or(0)
}

/// Returns the time of a clock that only goes forward while the machine is awake, in nanoseconds.
pub(crate) fn awake_ns() -> u64 {
    u64::try_from(ns_of(ClockId::Monotonic)).unwrap_or(0)
}

#[expect(clippy::disallowed_methods, reason = "this is where the rest of the store asks")]
fn ns_of(clock: ClockId) -> i64 {
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// Returns the id of this process.
#[expect(clippy::disallowed_methods, reason = "this is where the rest of the store asks")]
pub(crate) fn process_id() -> u32 {
    u32::try_from(getpid().as_raw_nonzero().get()).unwrap_or(0)
}

/// Returns the name of this machine.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Asks for a process by a signal that is not sent (`kill` with 0).
pub(crate) fn existence(process_id: u32) -> Existence {
    let raw = i32::try_from(process_id).ok();
    // 0 would stand for this process's own group.
    let Some(pid) = raw.and_then(Pid::from_raw) else {
        return Existence::Unknown;
    };
    match test_kill_process(pid) {
        Ok(()) | Err(rustix::io::Errno::PERM) => Existence::Exists,
        Err(rustix::io::Errno::SRCH) => Existence::Absent,
        Err(_) => Existence::Unknown,
    }
}

/// Opens a file for reading. A pipe is not waited for.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let no_wait = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    File::options().read(true).custom_flags(no_wait).open(path)
}

/// Returns options with which a file is created for its owner only.
pub fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}

/// Creates a folder for its owner only, with its missing parents if it is `recursive`.
///
/// # Errors
///
/// Returns any error of the file system.
pub fn create_private_folder(path: &Path, recursive: bool) -> io::Result<()> {
    DirBuilder::new().recursive(recursive).mode(FOLDER_MODE).create(path)
}

/// Removes the permissions of all users but the owner from `folder`.
///
/// # Errors
///
/// Returns any error of the file system.
pub fn hide_from_others(folder: &Path) -> io::Result<()> {
    let mode = std::fs::metadata(folder)?.mode();
    if mode & OTHERS_MODE == 0 {
        return Ok(());
    }
    std::fs::set_permissions(folder, Permissions::from_mode(mode & !OTHERS_MODE & 0o7777))
}

/// Makes the names in `folder` durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all())
}

/// Fills `bytes` from `offset` of `file` on.
///
/// # Errors
///
/// Returns `UnexpectedEof` if the file is too short, and any other error of the file system.
pub fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(bytes, offset)
}

/// Returns the numbers of the device and the inode of a file or folder, which no other one has while
/// it is open.
#[expect(clippy::unnecessary_wraps, reason = "other systems do not tell")]
pub(crate) fn identity(about: &Metadata) -> Option<(u64, u64)> {
    Some((about.dev(), about.ino()))
}

/// Returns `true` if both are of one file.
pub(crate) fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    identity(one) == identity(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_of_another_user_exists() {
        // The first process of a namespace seldom belongs to the user of the test; either answer is
        // `Exists`.
        assert_eq!(existence(1), Existence::Exists, "EPERM is an answer");
        assert_eq!(existence(0), Existence::Unknown, "0 is no process");
        assert_eq!(existence(u32::MAX), Existence::Unknown, "nor is a number that no process has");
        assert_eq!(existence(i32::MAX.unsigned_abs()), Existence::Absent, "no process has it");
    }
}
