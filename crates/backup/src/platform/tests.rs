//! Both implementations, compared on Linux.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{linux, portable};

fn open(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).expect("opened")
}

#[test]
fn listing_of_folder_is_the_same() {
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path();
    for number in 0..300 {
        File::create(path.join(format!("{number:0200}"))).expect("a file");
    }
    fs::create_dir(path.join("folder")).expect("a folder");
    symlink("nowhere", path.join("link")).expect("a link");
    let folder = File::open(path).expect("opened");
    // The buffer is too short for all names at once.
    let list = |is_portable| {
        let (mut buffer, mut names) = (Vec::with_capacity(1000), BTreeSet::new());
        let each = |name: &[u8], file_type: FileType, inode: u64| {
            assert!(names.insert((name.to_vec(), format!("{file_type:?}"), inode)), "named once");
            true
        };
        let buffer = buffer.spare_capacity_mut();
        let listed = match is_portable {
            true => portable::list_folder(&folder, buffer, each),
            false => linux::list_folder(&folder, buffer, each),
        };
        listed.expect("listed");
        names
    };
    let names = list(true);
    assert_eq!(names.len(), 304, "with . and ..");
    assert_eq!(names, list(false));
    assert!(
        portable::list_folder(open(path), &mut [], |_, _, _| true).is_err(),
        "open for its path"
    );
}

#[test]
fn permissions_are_twelve_bits_on_both() {
    for mode in [0, 0o644, 0o7777, 0o100_755, u32::MAX] {
        assert_eq!(portable::permissions(mode), linux::permissions(mode), "{mode:o}");
    }
}

#[test]
fn device_of_mount_is_the_same() {
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = open(scratch.path());
    let [one, other] = [portable::mount_of(&folder), linux::mount_of(&folder)];
    assert_eq!(one.expect("a device").0, other.expect("a device").0);
}

#[test]
fn permissions_are_set_by_handle_open_for_its_path() {
    let scratch = tempfile::tempdir().expect("a folder");
    linux::set_permissions(open(scratch.path()), linux::permissions(0o700)).expect("set");
    let set = || fs::metadata(scratch.path()).expect("metadata").permissions().mode() & 0o7777;
    assert_eq!(set(), 0o700);
    linux::set_permissions(open(scratch.path()), linux::permissions(0o750)).expect("set");
    assert_eq!(set(), 0o750);
}

#[test]
fn refused_link_is_told_by_its_error() {
    let scratch = tempfile::tempdir().expect("a folder");
    let link = scratch.path().join("link");
    symlink("nowhere", &link).expect("a link");
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let refused = rustix::fs::open(&link, flags, Mode::empty());
    assert_eq!(refused.expect_err("a link"), linux::LINK_REFUSED);
}

#[test]
fn system_without_attributes_seems_to_have_none() {
    let scratch = tempfile::tempfile().expect("a file");
    let xattrs = portable::Xattrs::of_open(std::os::fd::AsFd::as_fd(&scratch));
    assert_eq!(xattrs.names(&mut [0; 9]), Err(Errno::OPNOTSUPP));
    assert!(!xattrs.has(b"user.a"));
    assert_eq!(xattrs.set(b"user.a", b"1"), Err(Errno::OPNOTSUPP), "not passed over in silence");
}
