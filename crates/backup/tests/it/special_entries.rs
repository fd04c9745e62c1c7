//! Entries that need care: devices, names of one file, and values with a special meaning.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use cutpoint_backup::restore::{Overwrite, RestoreOptions};
use cutpoint_repository::{Entry, EntryKind};

use crate::guarded_target::{ALL, GuardedTarget, link};
use crate::memory_store::{MemoryStore, restore_into};

/// If the test runs as root, it runs itself once more as a user who may not create devices.
#[test]
fn devices_are_made_by_root_or_not_at_all() {
    const UNPRIVILEGED: u32 = 65_534;
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut store = MemoryStore::default();
    let mut null = Entry::new("null", EntryKind::CharDevice);
    (null.mode, null.device_number) = (0o666, 1 << 32 | 3);
    let mut disk = Entry::new("disk", EntryKind::BlockDevice);
    (disk.mode, disk.device_number) = (0o600, 7 << 32);
    let (mut pipe, last) = (Entry::new("pipe", EntryKind::Fifo), store.file("zz", b"last"));
    pipe.mode = 0o600;
    let root = store.tree_of(vec![disk, null, pipe, last]);
    let target = scratch.path().join("target");
    let (_, monitor) = restore_into(&store, &root, &target, RestoreOptions::default());
    assert_eq!(fs::read(target.join("zz")).unwrap(), b"last", "the others are restored");
    assert!(fs::metadata(target.join("pipe")).unwrap().file_type().is_fifo(), "pipes are");
    let problems = monitor.problems.into_inner().unwrap();
    if problems.is_empty() {
        let null = fs::metadata(target.join("null")).unwrap();
        assert!(null.file_type().is_char_device() && null.mode() & 0o777 == 0o666, "{null:?}");
        let disk = fs::metadata(target.join("disk")).unwrap();
        assert!(disk.file_type().is_block_device() && disk.mode() & 0o777 == 0o600, "{disk:?}");
        let own = std::env::current_exe().unwrap();
        let mut again = Command::new(own);
        again.args(["--exact", "special_entries::devices_are_made_by_root_or_not_at_all"]);
        match again.uid(UNPRIVILEGED).gid(UNPRIVILEGED).output() {
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(output.status.success() && text.contains("1 passed"), "{text}");
            }
            Err(error) => println!("SKIPPED as another user, who cannot run this test: {error}"),
        }
    } else {
        let text = "a device, which only root can create".to_owned();
        let expected = ["disk", "null"].map(|name| (PathBuf::from(name), text.clone()));
        let mut problems = problems;
        problems.sort();
        assert_eq!(problems, expected, "a clear line");
        for name in ["disk", "null"] {
            assert!(!target.join(name).exists(), "{name} is not there as something else");
        }
    }
}

#[test]
fn false_hard_links_are_restored_as_files() {
    let scene = GuardedTarget::new();
    let mut store = MemoryStore::default();
    // The first name is a symbolic link, and the second claims to be the same file.
    let mut first = link("a", &scene.outside().join("precious"));
    let mut second = store.file("b", b"bytes of b");
    let mut third = store.file("c", b"bytes of c");
    for entry in [&mut first, &mut second, &mut third] {
        entry.links = u64::MAX;
        entry.inode = 5;
    }
    let root = store.tree_of(vec![first, second, third]);
    for overwrite in ALL {
        let problems = scene.restore(&store, root.clone(), overwrite);
        let expected = if overwrite == Overwrite::Never { 0 } else { problems.len() };
        assert_eq!(problems.len(), expected, "{problems:?}");
        assert_eq!(fs::read(scene.target().join("b")).unwrap(), b"bytes of b", "{overwrite:?}");
        assert_eq!(fs::read(scene.target().join("c")).unwrap(), b"bytes of c", "{overwrite:?}");
    }
}

/// Files with equal numbers: on two disks below one FUSE mount, or one after the other.
#[test]
fn names_with_equal_inodes_are_links_only_of_equal_files() {
    let mut store = MemoryStore::default();
    let mut entries = vec![];
    let mut add = |mut entry: Entry, change: &dyn Fn(&mut Entry)| {
        (entry.inode, entry.links, entry.mtime.seconds) = (5, 99, 7);
        change(&mut entry);
        entries.push(entry);
    };
    for number in 0..3 {
        add(store.file(&format!("a{number} one"), b"one"), &|_| {});
        add(store.file(&format!("a{number} two"), b"two"), &|_| {});
    }
    add(store.file("b mode", b"one"), &|entry| entry.mode = 0o600);
    add(store.file("c time", b"one"), &|entry| entry.mtime.nanoseconds = 1);
    add(store.file("d owner", b"one"), &|entry| entry.user_id = 77);
    add(store.file("e group", b"one"), &|entry| entry.group_id = 77);
    add(store.file("f attribute", b"one"), &|entry| {
        entry.xattrs = vec![(b"user.a".to_vec(), b"b".to_vec())];
    });
    add(store.file("g ctime", b"one"), &|entry| entry.ctime.seconds = 9);
    add(store.file("h user", b"one"), &|entry| entry.user = "u".to_owned());
    add(store.file("i group", b"one"), &|entry| entry.group = "g".to_owned());
    let root = store.tree_of(entries);
    let scratch = tempfile::tempdir().unwrap();
    let options = RestoreOptions { owners: false, ..RestoreOptions::default() };
    restore_into(&store, &root, scratch.path(), options);
    let inode = |name: &str| fs::metadata(scratch.path().join(name)).unwrap().ino();
    for number in 1..3 {
        assert_eq!(inode(&format!("a{number} one")), inode("a0 one"), "one file");
        assert_eq!(inode(&format!("a{number} two")), inode("a0 two"), "another file");
    }
    assert_eq!(inode("g ctime"), inode("a0 one"), "a new name sets the ctime, and nothing else");
    let others = [
        "a0 one",
        "a0 two",
        "b mode",
        "c time",
        "d owner",
        "e group",
        "f attribute",
        "h user",
        "i group",
    ];
    let inodes: std::collections::BTreeSet<u64> = others.iter().map(|name| inode(name)).collect();
    assert_eq!(inodes.len(), others.len(), "each is a file of its own");
}

#[test]
fn ids_modes_and_times_with_special_meaning_do_no_harm() {
    let scratch = tempfile::tempdir().unwrap();
    let mut store = MemoryStore::default();
    let mut file = store.file("file", b"bytes");
    (file.user_id, file.group_id) = (u32::MAX, u32::MAX);
    file.mode = 0o104_755;
    file.mtime.nanoseconds = 0x3fff_ffff;
    let mut device = Entry::new("z", EntryKind::CharDevice);
    device.device_number = u64::MAX;
    let root = store.tree_of(vec![file, device]);
    let options = RestoreOptions { owners: true, ..RestoreOptions::default() };
    let (report, monitor) = restore_into(&store, &root, scratch.path(), options);
    assert!(report.warnings >= 2, "no owner, so no set-user-id: {monitor:?}");
    let meta = fs::metadata(scratch.path().join("file")).unwrap();
    assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o755, 0), "{monitor:?}");
}
