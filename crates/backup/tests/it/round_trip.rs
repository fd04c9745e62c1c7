//! Everything that a folder can hold, saved and restored.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use cutpoint_backup::restore::RestoreOptions;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_testing::SplitMix64;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags,
};

use crate::memory_store::{MemoryStore, assert_same, restore_into};

fn set_time(path: &Path, seconds: i64, nanoseconds: i64) {
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let last_modification = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: omit, last_modification };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Returns an ACL that grants read permission to the user 12345.
fn acl() -> Vec<u8> {
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in [
        (1_u16, 6_u16, u32::MAX),
        (2, 4, 12345),
        (4, 4, u32::MAX),
        (16, 4, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        acl.extend(tag.to_le_bytes());
        acl.extend(permissions.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    acl
}

/// Sets an extended attribute, if the file system has it.
fn set_xattr(path: &Path, name: &str, value: &[u8]) {
    match rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()) {
        Ok(()) => {}
        Err(error) => eprintln!("not tested: {name} of {}: {error}", path.display()),
    }
}

/// Makes a folder with every kind of entry, except those that the file system or the user cannot
/// create.
fn build(folder: &Path) {
    let random = SplitMix64::bytes(1, 9_000_000);
    build_files(folder, &random);
    build_links(folder);
    build_special_files(folder);
    build_modes(folder);
    build_attributes(folder, &random);
    set_times(folder);
}

fn build_files(folder: &Path, random: &[u8]) {
    for name in [
        &b"new\nline"[..],
        b"\xff\xfe not UTF-8",
        b" ",
        b"-rf",
        b"a\\b",
        "\u{e9}".as_bytes(),
        &[b'n'; 255],
    ] {
        fs::write(folder.join(OsStr::from_bytes(name)), name).unwrap();
    }
    fs::write(folder.join("empty"), b"").unwrap();
    fs::create_dir(folder.join("empty folder")).unwrap();
    fs::write(folder.join("small"), &random[..4000]).unwrap();
    fs::write(folder.join("large"), random).unwrap();
    symlink("nowhere/at all", folder.join("dangling")).unwrap();
    symlink("small", folder.join("link")).unwrap();
    symlink(OsStr::from_bytes(&[b'x'; 4000]), folder.join("long link")).unwrap();

    let sparse = File::create(folder.join("sparse")).unwrap();
    sparse.set_len(30 << 20).unwrap();
    sparse.write_all_at(&random[..65536], 4 << 20).unwrap();
    sparse.write_all_at(&random[..5], 20 << 20).unwrap();
    let sparse = File::create(folder.join("small sparse")).unwrap();
    sparse.write_all_at(b"begin", 0).unwrap();
    sparse.set_len(1 << 20).unwrap();
    File::create(folder.join("hole only")).unwrap().set_len(123_456).unwrap();
}

fn build_links(folder: &Path) {
    fs::create_dir_all(folder.join("links/deeper")).unwrap();
    fs::hard_link(folder.join("large"), folder.join("links/large")).unwrap();
    fs::hard_link(folder.join("small"), folder.join("links/deeper/small")).unwrap();
    fs::hard_link(folder.join("small"), folder.join("links/small")).unwrap();
    fs::hard_link(folder.join("dangling"), folder.join("links/dangling")).unwrap();
}

fn build_special_files(folder: &Path) {
    rustix::fs::mknodat(CWD, folder.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    // The path of a socket has room for about 100 bytes only.
    let short = tempfile::tempdir().unwrap();
    drop(UnixListener::bind(short.path().join("socket")).unwrap());
    fs::rename(short.path().join("socket"), folder.join("socket")).unwrap();
}

fn build_modes(folder: &Path) {
    for (name, mode) in
        [("setuid", 0o4755), ("setgid", 0o2711), ("read only", 0o444), ("secret", 0o600)]
    {
        fs::write(folder.join(name), name).unwrap();
        set_mode(&folder.join(name), mode);
    }
    for (name, mode) in [("sticky", 0o1777), ("setgid folder", 0o2775), ("closed", 0o500)] {
        fs::create_dir(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("inside"), b"something").unwrap();
        set_mode(&folder.join(name), mode);
    }
    set_mode(&folder.join("fifo"), 0o640);
}

fn build_attributes(folder: &Path, random: &[u8]) {
    let is_root = rustix::process::geteuid().is_root();
    fs::create_dir(folder.join("attributes")).unwrap();
    let with = folder.join("attributes/file");
    fs::write(&with, b"x").unwrap();
    set_xattr(&with, "user.zebra", b"last");
    set_xattr(&with, "user.apple", b"");
    set_xattr(&with, "user.large", &random[..2000]);
    set_xattr(&folder.join("attributes"), "user.folder", b"\0\xff");
    set_xattr(&with, "system.posix_acl_access", &acl());
    set_xattr(&folder.join("attributes"), "system.posix_acl_default", &acl());
    if is_root {
        symlink("file", folder.join("attributes/link")).unwrap();
        set_xattr(&folder.join("attributes/link"), "trusted.link", b"of the link itself");
        let (user, group) = (Some(Uid::from_raw(12345)), Some(Gid::from_raw(54321)));
        for name in ["setuid", "dangling", "sticky", "fifo"] {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(CWD, folder.join(name), user, group, flags).unwrap();
        }
        // The change of owner cleared the bit.
        set_mode(&folder.join("setuid"), 0o4755);
        let device = rustix::fs::makedev(1, 3);
        let path = folder.join("null");
        if let Err(error) =
            rustix::fs::mknodat(CWD, &path, FileType::CharacterDevice, Mode::RUSR, device)
        {
            eprintln!("not tested: devices: {error}");
        }
    }
}

fn set_times(folder: &Path) {
    set_time(&folder.join("small"), -1_000_000_000, 123_456_789);
    set_time(&folder.join("link"), -1, 999_999_999);
    set_time(&folder.join("fifo"), 0, 1);
    set_time(&folder.join("large"), 4_000_000_000, 5);
    set_time(&folder.join("links/deeper"), 1_000_000_000, 7);
    set_time(&folder.join("links"), 1_000_000_001, 8);
    set_time(&folder.join("closed"), -86_400, 9);
}

#[test]
fn restored_folder_is_the_same() {
    let scratch = tempfile::tempdir().unwrap();
    let (source, target) = (scratch.path().join("source"), scratch.path().join("target"));
    fs::create_dir(&source).unwrap();
    build(&source);
    let mut store = MemoryStore::default();
    let before = store.back_up(&source);
    let (report, monitor) = restore_into(&store, &before, &target, RestoreOptions::default());
    assert_eq!(report.failed_entries, 0, "{monitor:?}");
    assert_eq!(report.warnings, 0, "{monitor:?}");
    assert_eq!(report.linked_names, 3, "further names of files");
    assert_eq!(
        monitor.files.into_inner(),
        report.written_files + 3,
        "files told, of which three are other names"
    );
    let after = store.back_up(&target);
    assert_same(&store, &before, &after);
    let blocks = |name: &str| fs::metadata(target.join(name)).unwrap().blocks();
    assert!(blocks("sparse") < 1000, "{} blocks for 64 KiB of data", blocks("sparse"));
    assert_eq!(blocks("hole only"), 0, "a hole takes no space");

    // Restores again over the existing entries: `Replace` finds nothing the same, `Changed` finds
    // everything the same.
    for overwrite in
        [cutpoint_backup::restore::Overwrite::Replace, cutpoint_backup::restore::Overwrite::Changed]
    {
        let options = RestoreOptions { overwrite, ..RestoreOptions::default() };
        let (again, monitor) = restore_into(&store, &before, &target, options);
        assert_eq!(again.failed_entries, 0, "{monitor:?}");
        let names = report.written_files + report.linked_names;
        let all = names + report.made_symlinks + report.made_specials;
        let unchanged = match overwrite {
            cutpoint_backup::restore::Overwrite::Changed => all,
            _ => 0,
        };
        assert_eq!(again.unchanged_entries, unchanged, "{overwrite:?}");
        let after = store.back_up(&target);
        assert_same(&store, &before, &after);
    }
}

#[test]
fn zeros_become_holes() {
    let scratch = tempfile::tempdir().unwrap();
    let mut store = MemoryStore::default();
    for (name, zeros) in [("small", 1 << 20), ("large", 40 << 20)] {
        let mut file = store.file(name, b"");
        let segments = vec![store.chunk_of(b"begin"), Segment::Zeros { length: zeros }];
        let segments = [segments, vec![store.chunk_of(b"end")]].concat();
        file.size = zeros + 8;
        file.content = store.content_of(segments);
        let root = store.tree_of(vec![file]);
        restore_into(&store, &root, scratch.path(), RestoreOptions::default());
        let bytes = fs::read(scratch.path().join(name)).unwrap();
        assert_eq!(bytes.len() as u64, zeros + 8, "{name}");
        assert!(bytes.starts_with(b"begin\0") && bytes.ends_with(b"\0end"), "{name}");
        assert!(bytes[5..bytes.len() - 3].iter().all(|&byte| byte == 0), "{name}");
        let blocks = fs::metadata(scratch.path().join(name)).unwrap().blocks();
        assert!(blocks < 100, "{name} takes {blocks} blocks");
    }
}

#[test]
fn files_sharing_a_chunk_are_restored() {
    let scratch = tempfile::tempdir().unwrap();
    let mut store = MemoryStore::default();
    let Segment::Chunk { fingerprint, .. } = store.chunk_of(b"onetwothree") else {
        panic!("a chunk")
    };
    let mut entries = vec![];
    for (name, offset, length) in [("1", 0, 3), ("2", 3, 3), ("3", 6, 5)] {
        let mut file = store.file(name, b"");
        file.size = length;
        file.content = store.content_of(vec![Segment::Chunk { fingerprint, offset, length }]);
        entries.push(file);
    }
    let root = store.tree_of(entries);
    restore_into(&store, &root, scratch.path(), RestoreOptions::default());
    for (name, bytes) in [("1", "one"), ("2", "two"), ("3", "three")] {
        assert_eq!(fs::read_to_string(scratch.path().join(name)).unwrap(), bytes, "{name}");
    }
}

#[test]
fn selection_restores_only_selected_paths() {
    let scratch = tempfile::tempdir().unwrap();
    let mut store = MemoryStore::default();
    let file = store.file("file", b"bytes");
    let deep = store.folder("deep", vec![file.clone()]);
    let mut way = store.folder("way", vec![deep, file.clone()]);
    way.mode = 0o710;
    let other = store.folder("other", vec![file.clone()]);
    let root = store.tree_of(vec![file, other, way]);
    let options = RestoreOptions {
        selection: ["/way/deep", "other/file", "way/no", "file/no"].map(Into::into).to_vec(),
        ..RestoreOptions::default()
    };
    let (report, monitor) = restore_into(&store, &root, scratch.path(), options);
    assert_eq!(monitor.problem_paths(), [Path::new("file/no"), Path::new("way/no")], "missing");
    assert_eq!((report.written_files, report.made_folders), (2, 3), "{report:?}");
    assert!(scratch.path().join("way/deep/file").exists(), "what was selected");
    assert!(!scratch.path().join("way/file").exists(), "what was not");
    let mode = fs::metadata(scratch.path().join("way")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o710, "a new folder on the way gets its metadata");
}
