//! Damaged snapshots, and restores that end early.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use cutpoint_backup::restore::{Overwrite, RestoreMonitor, RestoreOptions, restore};
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Content, Entry, EntryKind};
use cutpoint_storage::Kind;
use cutpoint_testing::SplitMix64;

use crate::memory_store::{MemoryStore, restore_into};

#[test]
fn damaged_files_are_refused_and_the_others_restored() {
    let scratch = tempfile::tempdir().unwrap();
    let mut store = MemoryStore::default();
    let bytes = SplitMix64::bytes(3, 20_000_000);
    let mut entries = vec![store.file("large", &bytes), store.file("small", &bytes[..250_000])];
    let missing = store.chunk_of(&bytes[200_000..250_000]);
    let missing_large = store.chunk_of(&bytes[19_900_000..]);
    entries.push(store.file("well", &bytes[..10_000_000]));
    // Sizes and recipes that disagree.
    for (name, size, length) in [("x1", 10, 9), ("x2", 10, 11), ("x3", 1 << 40, 10), ("x4", 5, 0)] {
        let mut file = store.file(name, b"0123456789");
        if let Content::Segments(segments) = &mut file.content {
            let Segment::Chunk { length: len, .. } = &mut segments[0] else { panic!("a chunk") };
            *len = length;
        }
        file.size = size;
        entries.push(file);
    }
    // Offsets beyond the chunk.
    let mut file = store.file("y", b"0123456789");
    if let Content::Segments(segments) = &mut file.content {
        let Segment::Chunk { offset, .. } = &mut segments[0] else { panic!("a chunk") };
        *offset = u64::MAX;
    }
    entries.push(file);
    for missing in [missing, missing_large] {
        let Segment::Chunk { fingerprint, .. } = missing else { panic!("a chunk") };
        store.chunks.remove(&fingerprint);
    }
    let inside = store.file("inside", b"inside");
    let damage = Entry::new("DAMAGE", EntryKind::File);
    let unseen = store.file("unseen", b"unseen");
    entries.push(store.folder("z damaged", vec![inside, damage, unseen]));
    let mut missing = store.folder("z missing", vec![]);
    missing.content = Content::Recipe(cutpoint_repository::Fingerprint([9; 32]));
    entries.push(missing);
    entries.push(store.file("zz", b"last"));
    let root = store.tree_of(entries);

    fs::write(scratch.path().join("small"), b"was there").unwrap();
    fs::write(scratch.path().join("large"), b"was there").unwrap();
    for overwrite in [Overwrite::Replace, Overwrite::Changed] {
        let options = RestoreOptions { overwrite, ..RestoreOptions::default() };
        let (report, monitor) = restore_into(&store, &root, scratch.path(), options);
        let refused = ["large", "small", "x1", "x2", "x3", "x4", "y", "z damaged", "z missing"];
        assert_eq!(monitor.problem_paths(), refused.map(PathBuf::from), "{monitor:?}");
        let restored = report.written_files + report.unchanged_entries;
        assert_eq!(restored, 3, "well, zz, inside: {report:?}");
        for name in ["x1", "x2", "x3", "x4", "y", "z damaged/unseen"] {
            assert!(!scratch.path().join(name).exists(), "{name} is not half restored");
        }
        for name in ["small", "large"] {
            let bytes = fs::read(scratch.path().join(name)).unwrap();
            assert_eq!(bytes, b"was there", "{name} stays until there is something better");
        }
        assert!(scratch.path().join("z missing").is_dir(), "as much as is known");
    }
}

/// Cancels after some files.
struct Stop {
    after: u64,
    asked: AtomicU64,
}

impl RestoreMonitor for Stop {
    fn cancelled(&self) -> bool {
        self.asked.fetch_add(1, Relaxed) >= self.after
    }
}

#[test]
fn cancelled_restore_leaves_complete_files_only() {
    let mut store = MemoryStore::default();
    let bytes = SplitMix64::bytes(4, 30_000_000);
    let mut entries = vec![];
    for index in 0..20 {
        let mut file = store.file(&format!("f{index:02}"), &bytes[..1000 + index * 1_000_000]);
        if index % 3 == 0 {
            file.links = 2;
            file.inode = 1 + index as u64;
        }
        entries.push(file);
    }
    let mut further = entries[18].clone();
    further.name = b"g".to_vec();
    entries.push(further);
    let root = store.tree_of(entries.clone());
    for after in [0, 1, 10, 40, 100, 200] {
        let scratch = tempfile::tempdir().unwrap();
        let stop = Stop { after, asked: AtomicU64::new(0) };
        let options = RestoreOptions { threads: 3, ..RestoreOptions::default() };
        match restore(&store, &root, scratch.path(), &options, &stop) {
            Ok(report) => assert_eq!(report.written_files + report.linked_names, 21, "{report:?}"),
            Err(error) => assert_eq!(error.kind(), Kind::Interrupted, "{error}"),
        }
        for file in fs::read_dir(scratch.path()).unwrap() {
            let file = file.unwrap();
            let name = file.file_name().into_encoded_bytes();
            // The part of a large file, with which the next restore goes on.
            if name.ends_with(b".partial") {
                continue;
            }
            let entry = entries.iter().find(|entry| entry.name == name).unwrap();
            assert_eq!(file.metadata().unwrap().len(), entry.size, "{:?}", file.path());
        }
        // The restore can be completed.
        let overwrite = Overwrite::Changed;
        let options = RestoreOptions { overwrite, ..options };
        let (report, _) = restore_into(&store, &root, scratch.path(), options);
        let all = report.written_files + report.linked_names + report.unchanged_entries;
        assert_eq!(all, 21, "{report:?}");
        let names = fs::read_dir(scratch.path()).unwrap().count();
        assert_eq!(names, 21, "no part of a file is left");
    }
}

#[test]
fn selection_with_parent_folder_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let store = MemoryStore::default();
    let options = RestoreOptions { selection: vec!["a/../b".into()], ..RestoreOptions::default() };
    let error = restore(&store, &Content::Empty, scratch.path(), &options, &()).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
}
