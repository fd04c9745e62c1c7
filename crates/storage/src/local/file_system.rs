//! The kind of the file system below a folder, which decides when listings show new files.

use std::path::Path;

use crate::error::Result;
use crate::kind::ObjectKind;
use crate::storage::Visibility;

/// The folders whose listings decide what a sweep may delete.
const LISTED: [ObjectKind; 3] = [ObjectKind::Ticket, ObjectKind::Commit, ObjectKind::Prune];

/// Returns the promise about listings of the repository in the folder `root`. Each of its folders
/// may be a link to another file system.
///
/// # Errors
///
/// Returns a `Storage` error if the system does not name a file system.
pub(super) fn visibility(root: &Path) -> Result<Visibility> {
    let folders = LISTED.iter().map(|kind| root.join(kind.folder()));
    for folder in folders.chain([root.to_path_buf()]) {
        if !is_local(&folder)? {
            return Ok(Visibility::Later);
        }
    }
    Ok(Visibility::AtOnce)
}

/// Returns `true` if the kernel of this machine alone changes the file system of `folder`, so that a
/// listing by any process shows what another process has completed. A folder that does not exist has
/// no objects, and will be created in the folder above.
///
/// # Errors
///
/// Returns a `Storage` error if the system does not name the file system.
#[cfg(target_os = "linux")]
fn is_local(folder: &Path) -> Result<bool> {
    use rustix::io::Errno;

    // The type of the field depends on the platform; a magic number has 32 bits.
    match rustix::fs::statfs(folder) {
        Ok(found) => Ok(LOCAL.contains(&(found.f_type as u64 & 0xffff_ffff))),
        Err(Errno::NOENT) => Ok(true),
        Err(error) => Err(super::files::io_error(&folder.display(), error.into())),
    }
}

/// On other systems nothing is known about file systems.
#[cfg(not(target_os = "linux"))]
fn is_local(_: &Path) -> Result<bool> {
    Ok(false)
}

/// The magic numbers (statfs(2)) of file systems on the devices, or in the memory, of one machine.
///
/// Left out are network file systems (NFS, SMB, Ceph, AFS), file systems that several machines mount
/// at once (GFS2, OCFS2), shares of a virtual machine (9p, virtiofs), FUSE, which may be any of
/// them, and eCryptfs, which may lie on any of them. The layers of a mounted overlay must not be
/// changed by another way, so that its mount sees all changes.
#[cfg(target_os = "linux")]
const LOCAL: [u64; 18] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0xca45_1a4e, // bcachefs
    0xf2f5_2010, // F2FS
    0x2fc1_2fc1, // ZFS
    0x3153_464a, // JFS
    0x3434,      // NILFS2
    0x5265_4973, // ReiserFS
    0x2405_1905, // UBIFS
    0x72b6,      // JFFS2
    0x7366_746e, // NTFS3
    0x4d44,      // FAT
    0x2011_bab0, // exFAT
    0x482b,      // HFS+
    0x794c_7630, // overlay
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
];

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn folder_of_a_disk_or_of_memory_shows_puts_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let visibility = visibility(folder.path()).expect("the system names the file system");
        assert_eq!(visibility, Visibility::AtOnce, "{}", folder.path().display());
    }

    #[test]
    fn folder_of_another_file_system_shows_puts_later() {
        // The kernel computes the files of /proc, as a server computes those of a network share.
        let later = visibility(Path::new("/proc")).expect("the system names the file system");
        assert_eq!(later, Visibility::Later, "/proc");
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join(ObjectKind::Prune.folder());
        std::os::unix::fs::symlink("/proc", link).expect("linked");
        let linked = visibility(folder.path()).expect("the system names the file system");
        assert_eq!(linked, Visibility::Later, "a folder of the repository lies elsewhere");
    }
}
