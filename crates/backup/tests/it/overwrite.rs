//! Restores over existing entries.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Mutex;

use cutpoint_backup::restore::{Overwrite, RestoreMonitor, RestoreOptions, restore};
use cutpoint_repository::{Content, Time};

use crate::memory_store::{MemoryStore, restore_into};

/// Returns a snapshot of files, an existing folder, a folder in the place of a file, and a file in
/// the place of a folder.
fn snapshot(store: &mut MemoryStore) -> Content {
    let mut old = store.file("changed", b"snapshot");
    old.mtime = Time { seconds: 1000, nanoseconds: 1 };
    let mut same = store.file("same", b"snapshot");
    same.mtime = Time { seconds: 1000, nanoseconds: 1 };
    let new = store.file("new", b"snapshot");
    let inside = store.file("inside", b"snapshot");
    let mut folder = store.folder("folder", vec![inside.clone()]);
    folder.mtime = Time { seconds: 2000, nanoseconds: 2 };
    folder.mode = 0o751;
    let file = store.file("was folder", b"snapshot");
    let was_file = store.folder("was file", vec![inside]);
    store.tree_of(vec![old, folder, new, same, was_file, file])
}

fn prepare(target: &std::path::Path) {
    fs::write(target.join("changed"), b"TARGET").unwrap();
    fs::write(target.join("same"), b"TARGET!!").unwrap();
    let file = fs::File::options().write(true).open(target.join("same")).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1000, 1);
    file.set_modified(time).unwrap();
    fs::create_dir_all(target.join("was folder/kept")).unwrap();
    fs::write(target.join("was file"), b"TARGET").unwrap();
    fs::create_dir(target.join("folder")).unwrap();
    fs::write(target.join("folder/other"), b"TARGET").unwrap();
    fs::set_permissions(target.join("folder"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn overwrite_never_keeps_existing_entries() {
    let scratch = tempfile::tempdir().unwrap();
    let target = scratch.path();
    let mut store = MemoryStore::default();
    let root = snapshot(&mut store);
    prepare(target);
    let (report, monitor) = restore_into(&store, &root, target, RestoreOptions::default());
    let refused = ["changed", "same", "was file", "was folder"].map(std::path::PathBuf::from);
    assert_eq!(monitor.problem_paths(), refused, "{monitor:?}");
    assert_eq!(report.written_files, 2, "new and folder/inside");
    assert_eq!(fs::read(target.join("changed")).unwrap(), b"TARGET", "untouched");
    assert_eq!(fs::read(target.join("was file")).unwrap(), b"TARGET", "untouched");
    let folder = fs::metadata(target.join("folder")).unwrap();
    assert_eq!(folder.mode() & 0o7777, 0o700, "a folder that was there keeps its metadata");
    assert!(target.join("folder/inside").exists() && target.join("folder/other").exists(), "both");
}

#[test]
fn overwrite_changed_and_replace_keep_folders_and_other_names() {
    for overwrite in [Overwrite::Changed, Overwrite::Replace] {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path();
        let mut store = MemoryStore::default();
        let root = snapshot(&mut store);
        prepare(target);
        fs::hard_link(target.join("changed"), target.join("other name")).unwrap();
        let options = RestoreOptions { overwrite, ..RestoreOptions::default() };
        let (report, monitor) = restore_into(&store, &root, target, options);
        assert_eq!(monitor.problem_paths(), ["was folder"].map(std::path::PathBuf::from));
        let same: &[u8] = if overwrite == Overwrite::Changed { b"TARGET!!" } else { b"snapshot" };
        assert_eq!(fs::read(target.join("same")).unwrap(), same, "{overwrite:?}");
        assert_eq!(report.unchanged_entries, u64::from(overwrite == Overwrite::Changed), "same");
        assert_eq!(fs::read(target.join("changed")).unwrap(), b"snapshot", "{overwrite:?}");
        assert_eq!(fs::read(target.join("other name")).unwrap(), b"TARGET", "its other name");
        assert!(target.join("was file/inside").exists(), "{overwrite:?}");
        assert!(target.join("was folder/kept").exists(), "no folder is removed");
        let folder = fs::metadata(target.join("folder")).unwrap();
        let found = (folder.mode() & 0o7777, folder.mtime(), folder.mtime_nsec());
        assert_eq!(found, (0o751, 2000, 2), "{overwrite:?}");
        assert!(target.join("folder/other").exists(), "what the snapshot does not know stays");
        let mut names = fs::read_dir(target).unwrap().map(|entry| entry.unwrap().file_name());
        let spare = names.find(|name| name.as_encoded_bytes().starts_with(b".cutpoint"));
        assert_eq!(spare, None, "{overwrite:?}: a spare name is left");
    }
}

#[test]
fn further_names_are_restored_if_the_first_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let mut store = MemoryStore::default();
    let mut entries = vec![];
    for name in ["a", "b", "c"] {
        let mut file = store.file(name, b"snapshot");
        (file.links, file.inode) = (3, 77);
        entries.push(file);
    }
    let root = store.tree_of(entries);
    fs::write(scratch.path().join("a"), b"TARGET").unwrap();
    let (report, monitor) = restore_into(&store, &root, scratch.path(), RestoreOptions::default());
    assert_eq!((report.written_files, report.linked_names), (1, 1), "{monitor:?}");
    assert_eq!(fs::read(scratch.path().join("a")).unwrap(), b"TARGET", "untouched");
    let inode = |name: &str| fs::metadata(scratch.path().join(name)).unwrap().ino();
    assert_eq!(inode("b"), inode("c"), "one file");
    assert_eq!(fs::read(scratch.path().join("c")).unwrap(), b"snapshot", "with its bytes");
}

/// Returns an ACL with a named user.
fn acl() -> Vec<u8> {
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, id) in [(1_u16, u32::MAX), (2, 12345), (4, u32::MAX), (16, u32::MAX), (32, u32::MAX)]
    {
        acl.extend(tag.to_le_bytes());
        acl.extend(7_u16.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    acl
}

/// A file whose owner, mode or attributes were changed is not read or written, but put right.
#[test]
fn metadata_of_an_unchanged_file_are_set_where_they_differ() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("changed");
    let mut store = MemoryStore::default();
    let mut changed = store.file("changed", b"snapshot");
    (changed.mode, changed.mtime) = (0o640, Time { seconds: 1000, nanoseconds: 1 });
    changed.xattrs = vec![(b"user.color".to_vec(), b"red".to_vec())];
    let mut same = changed.clone();
    same.name = b"same".to_vec();
    let root = store.tree_of(vec![changed, same]);
    restore_into(&store, &root, scratch.path(), RestoreOptions::default());

    let color = || {
        let mut value = [0; 8];
        let len = rustix::fs::getxattr(&path, "user.color", &mut value);
        len.map(|len| value[..len].to_vec())
    };
    let has_xattrs = color().is_ok();
    let state = || {
        let acl = rustix::fs::getxattr_query(&path, "system.posix_acl_access").is_ok();
        (fs::metadata(&path).unwrap().mode() & 0o7777, color().unwrap_or_default(), acl)
    };
    let right = state();
    assert_eq!(right.0, 0o640);
    type Change = fn(&std::path::Path) -> bool;
    let changes: [Change; 4] = [
        |path| fs::set_permissions(path, fs::Permissions::from_mode(0o666)).is_ok(),
        |path| set_xattr(path, "user.color", b"blue"),
        |path| set_xattr(path, "user.color", b"a longer value"),
        |path| set_xattr(path, "system.posix_acl_access", &acl()),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        if number > 0 && !has_xattrs {
            eprintln!("not tested: extended attributes");
            break;
        }
        if !change(&path) {
            eprintln!("not tested: change {number}");
            continue;
        }
        let wrong = state();
        assert_ne!(wrong, right, "{number}");
        let options = RestoreOptions { overwrite: Overwrite::Changed, ..Default::default() };
        let dry = RestoreOptions { dry_run: true, ..options.clone() };
        for (options, expected, counts) in [
            (dry, wrong, (1, 1)),
            (options.clone(), right.clone(), (1, 1)),
            (options, right.clone(), (0, 2)),
        ] {
            let (report, monitor) = restore_into(&store, &root, scratch.path(), options);
            assert!(monitor.problem_paths().is_empty(), "{number}: {monitor:?}");
            assert_eq!((report.adjusted_entries, report.unchanged_entries), counts, "{number}");
            assert_eq!((report.written_files, state()), (0, expected), "{number}");
        }
    }
}

fn set_xattr(path: &std::path::Path, name: &str, value: &[u8]) -> bool {
    rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty()).is_ok()
}

#[test]
fn inherited_acls_are_removed() {
    let scratch = tempfile::tempdir().unwrap();
    let acl = acl();
    let name = "system.posix_acl_default";
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(error) = rustix::fs::setxattr(scratch.path(), name, &acl, flags) {
        eprintln!("not tested: ACLs: {error}");
        return;
    }
    let mut store = MemoryStore::default();
    let file = store.file("file", b"bytes");
    let folder = store.folder("folder", vec![file.clone()]);
    let root = store.tree_of(vec![file, folder]);
    restore_into(&store, &root, scratch.path(), RestoreOptions::default());
    for path in ["file", "folder", "folder/file"] {
        for name in ["system.posix_acl_access", "system.posix_acl_default"] {
            let path = scratch.path().join(path);
            let result = rustix::fs::getxattr_query(&path, name);
            assert_eq!(result, Err(rustix::io::Errno::NODATA), "{} {name}", path.display());
        }
        let mode = fs::metadata(scratch.path().join(path)).unwrap().mode() & 0o777;
        assert_eq!(mode, if path == "folder" { 0o755 } else { 0o644 }, "{path}");
    }
    // Inherited ACLs do not stay on a target created for a folder of the snapshot either.
    let options = RestoreOptions { folder: Some(store.folder("f", vec![])), ..Default::default() };
    let target = scratch.path().join("made");
    restore_into(&store, &root, &target, options);
    for path in [target.clone(), target.join("file"), target.join("folder")] {
        for name in ["system.posix_acl_access", "system.posix_acl_default"] {
            let result = rustix::fs::getxattr_query(&path, name);
            assert_eq!(result, Err(rustix::io::Errno::NODATA), "{} {name}", path.display());
        }
    }
}

/// Records the permissions of the target while it is filled.
struct Looks<'a> {
    target: &'a std::path::Path,
    seen: Mutex<Vec<u32>>,
}

impl RestoreMonitor for Looks<'_> {
    fn progress(&self, _: u64, _: u64) {
        let mode = fs::metadata(self.target).map_or(0, |stat| stat.mode() & 0o7777);
        self.seen.lock().unwrap().push(mode);
    }
}

/// The contents of a private folder are inaccessible to other users during the restore.
#[test]
fn target_is_private_until_its_metadata_is_set() {
    let scratch = tempfile::tempdir().unwrap();
    let target = scratch.path().join("new/target");
    let mut store = MemoryStore::default();
    let files = ["a", "b"].map(|name| store.file(name, b"for few"));
    let root = store.tree_of(files.to_vec());
    let mut folder = store.folder("folder", vec![]);
    folder.mode = 0o750;
    let options = RestoreOptions { folder: Some(folder), threads: 1, ..Default::default() };
    let looks = Looks { target: &target, seen: Mutex::default() };
    restore(&store, &root, &target, &options, &looks).unwrap();
    let seen = looks.seen.into_inner().unwrap();
    assert!(!seen.is_empty() && seen.iter().all(|mode| *mode == 0o700), "{seen:?}");
    assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, 0o750, "in the end");
}
