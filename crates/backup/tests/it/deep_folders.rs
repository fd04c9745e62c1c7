//! Folders deeper than the number of descriptors, with paths longer than the system accepts.

use std::os::fd::OwnedFd;
use std::path::Path;

use cutpoint_backup::restore::RestoreOptions;
use cutpoint_repository::EntryKind;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::memory_store::{MemoryStore, assert_same, flatten, restore_into};

const LEVELS: usize = 1200;

/// Makes `LEVELS` nested folders with long names, with files before and after each next folder.
fn build(folder: &Path) {
    let name = "deep-".repeat(8);
    let mut at: OwnedFd =
        rustix::fs::openat(CWD, folder, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
    for level in 0..LEVELS {
        for file in ["a", "z"] {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
            let file = rustix::fs::openat(&at, file, flags, Mode::RUSR | Mode::WUSR).unwrap();
            rustix::io::write(&file, format!("{level}").as_bytes()).unwrap();
        }
        rustix::fs::symlinkat("a", &at, "link").unwrap();
        if level % 100 == 7 {
            rustix::fs::linkat(&at, "a", &at, "linked", rustix::fs::AtFlags::empty()).unwrap();
        }
        rustix::fs::mkdirat(&at, name.as_str(), Mode::RWXU).unwrap();
        let flags = OFlags::DIRECTORY | OFlags::RDONLY;
        at = rustix::fs::openat(&at, name.as_str(), flags, Mode::empty()).unwrap();
    }
}

#[test]
fn deep_tree_with_long_paths_is_restored() {
    let limit = getrlimit(Resource::Nofile);
    let mut low = limit;
    low.current = Some(1024);
    setrlimit(Resource::Nofile, low).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let (source, target) = (scratch.path().join("source"), scratch.path().join("target"));
    std::fs::create_dir(&source).unwrap();
    build(&source);
    let mut store = MemoryStore::default();
    let before = store.back_up(&source);
    let entries = flatten(&store, &before);
    let folders = entries.iter().filter(|(_, entry)| entry.kind == EntryKind::Folder).count();
    assert_eq!(folders, LEVELS, "folders");
    let longest = entries.iter().map(|(path, _)| path.as_os_str().len()).max().unwrap();
    assert!(longest > 4096 * 10, "{longest}");
    let (report, monitor) = restore_into(&store, &before, &target, RestoreOptions::default());
    assert_eq!((report.failed_entries, report.warnings), (0, 0), "{monitor:?}");
    let after = store.back_up(&target);
    assert_same(&store, &before, &after);
    // The usual ways to remove a folder need a descriptor per level.
    for folder in [source, target] {
        std::process::Command::new("rm").arg("-rf").arg(folder).status().unwrap();
    }
}
