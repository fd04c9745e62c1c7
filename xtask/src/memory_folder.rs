//! A folder in memory for the temporary files of tests.
//!
//! Tests of storages sync every file, which takes most of their time on a disk and does not change
//! their results.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{XattrFlags, setxattr, statvfs};

/// The file system in memory that Linux provides.
const PLACE: &str = "/dev/shm";
/// The free space in bytes below which the tests use the usual place.
const FREE_BYTES_MIN: u64 = 4 << 30;

/// The number of folders that this process has created.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A folder in memory, removed when the value is dropped.
#[derive(Debug)]
pub(crate) struct MemoryFolder(PathBuf);

impl MemoryFolder {
    /// Creates the folder. Returns `None` if `TMPDIR` names another place, or if there is no file
    /// system in memory with enough space and extended attributes.
    fn create() -> Option<MemoryFolder> {
        let space = statvfs(PLACE).ok()?;
        let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
        if std::env::var_os("TMPDIR").is_some() || free_bytes < FREE_BYTES_MIN {
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cutpoint-check-{}-{number}", std::process::id());
        let path = Path::new(PLACE).join(name);
        fs::create_dir(&path).ok()?;
        let folder = MemoryFolder(path);
        // Some tests run as another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).ok()?;
        setxattr(folder.path(), "user.cutpoint", b"", XattrFlags::CREATE).ok()?;
        Some(folder)
    }

    /// Creates the folder, and makes it the place of the temporary files of `command`. To be kept
    /// until the command has ended.
    pub(crate) fn for_command(command: &mut Command) -> Option<MemoryFolder> {
        let folder = MemoryFolder::create()?;
        command.env("TMPDIR", &folder.0);
        Some(folder)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for MemoryFolder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}
