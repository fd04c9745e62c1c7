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

#[test]
fn inherited_acls_are_removed() {
    let scratch = tempfile::tempdir().unwrap();
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, id) in [(1_u16, u32::MAX), (2, 12345), (4, u32::MAX), (16, u32::MAX), (32, u32::MAX)]
    {
        acl.extend(tag.to_le_bytes());
        acl.extend(7_u16.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
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
