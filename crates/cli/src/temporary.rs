//! The folder for temporary files.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Returns the folder for temporary files without names: the first of `TMPDIR`, `/var/tmp` and
/// `/tmp` that is writable and on a disk. There may be none, for example in a small container.
pub(crate) fn temporary_folder() -> Option<PathBuf> {
    let given = env::var_os("TMPDIR").filter(|folder| !folder.is_empty());
    let usual = ["/var/tmp", "/tmp"].map(OsString::from);
    let mut folders = given.into_iter().chain(usual).map(PathBuf::from);
    folders.find(|folder| is_writable(folder) && is_on_disk(folder))
}

fn is_writable(folder: &Path) -> bool {
    folder.is_dir() && access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Returns `false` for file systems in memory, where a temporary file would save nothing.
#[cfg(target_os = "linux")]
fn is_on_disk(folder: &Path) -> bool {
    /// The magic numbers of tmpfs and ramfs (statfs(2)).
    const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
    // The type of the field depends on the platform; a magic number has 32 bits.
    let magic = |folder: &Path| Some(rustix::fs::statfs(folder).ok()?.f_type as u64 & 0xffff_ffff);
    magic(folder).is_some_and(|magic| !IN_MEMORY.contains(&magic))
}

#[cfg(not(target_os = "linux"))]
fn is_on_disk(_: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_in_memory_or_without_permission_is_not_used() {
        assert!(!is_writable(Path::new("/nonexistent")), "no folder");
        assert!(!is_writable(Path::new("/dev/null")), "a file");
        #[cfg(target_os = "linux")]
        if std::fs::read_to_string("/proc/mounts").is_ok_and(|it| it.contains(" /dev/shm tmpfs ")) {
            assert!(!is_on_disk(Path::new("/dev/shm")), "tmpfs");
        }
        #[cfg(target_os = "linux")]
        assert!(is_on_disk(Path::new("/proc")), "anything else");
        assert!(!is_on_disk(Path::new("/nonexistent")) || cfg!(not(target_os = "linux")));
    }
}
