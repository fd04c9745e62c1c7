//! Snapshots that want to write elsewhere, and damaged ones.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cutpoint_backup::restore::{Overwrite, RestoreMonitor, RestoreOptions, restore};
use cutpoint_store::error::Kind;
use cutpoint_store::format::recipe::{Content, Segment};
use cutpoint_store::format::tree::{Entry, EntryKind};
use cutpoint_testing::SplitMix64;

use crate::store::{MemoryStore, restore_into};

fn link(name: &str, target: &Path) -> Entry {
    let mut entry = Entry::new(name, EntryKind::Symlink);
    entry.content = Content::Raw(target.as_os_str().as_encoded_bytes().to_vec());
    entry.size = target.as_os_str().len() as u64;
    entry
}

const ALL: [Overwrite; 3] = [Overwrite::Never, Overwrite::Changed, Overwrite::Replace];

/// A target, and a folder beside it in which nothing may ever appear or change.
struct Scene {
    scratch: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("outside")).unwrap();
        fs::write(scratch.path().join("outside/precious"), b"precious").unwrap();
        Scene { scratch }
    }

    fn outside(&self) -> PathBuf {
        self.scratch.path().join("outside")
    }

    fn target(&self) -> PathBuf {
        self.scratch.path().join("target")
    }

    /// Restores, and checks that nothing happened outside.
    fn restore(&self, store: &MemoryStore, entries: Content, overwrite: Overwrite) -> Vec<PathBuf> {
        let options = RestoreOptions { overwrite, ..RestoreOptions::default() };
        let before = self.look();
        let (_, monitor) = restore_into(store, &entries, &self.target(), options);
        assert_eq!(self.look(), before, "something happened outside, {overwrite:?}");
        monitor.problem_paths()
    }

    fn look(&self) -> Vec<(PathBuf, u32, i64, i64, Vec<u8>)> {
        let mut seen = vec![];
        for path in [self.outside(), self.outside().join("precious")] {
            let meta = fs::symlink_metadata(&path).unwrap();
            let bytes = fs::read(&path).unwrap_or_default();
            seen.push((path, meta.mode(), meta.mtime_nsec(), meta.ctime_nsec(), bytes));
        }
        assert_eq!(fs::read_dir(self.outside()).unwrap().count(), 1, "names outside");
        assert!(fs::read_dir(self.scratch.path()).unwrap().count() <= 2, "names beside");
        seen
    }
}

#[test]
fn names_that_lead_elsewhere() {
    for name in ["..", ".", "", "/", "../outside/new", "a/b", "a\0b"] {
        let scene = Scene::new();
        let mut store = MemoryStore::default();
        let file = store.file("precious", b"bad");
        let mut folder = store.folder("x", vec![file.clone()]);
        folder.name = name.into();
        let mut bad = file.clone();
        bad.name = name.into();
        let good = store.file("good", b"good");
        for bad in [folder, bad] {
            let root = store.tree_of(vec![bad, good.clone()]);
            for overwrite in ALL {
                let problems = scene.restore(&store, root.clone(), overwrite);
                assert_eq!(problems, [Path::new("")], "{name:?}: the tree is refused");
            }
        }
    }
}

#[test]
fn a_link_of_the_snapshot_is_never_followed() {
    for order in [[0, 1, 2], [1, 0, 2], [0, 2, 1]] {
        let scene = Scene::new();
        let mut store = MemoryStore::default();
        let file = store.file("precious", b"bad");
        let entries = [
            link("a", &scene.outside()),
            store.folder("a", vec![file.clone()]),
            store.file("a", b"bad"),
        ];
        let root = store.tree_of(order.map(|index| entries[index].clone()).to_vec());
        for overwrite in ALL {
            let problems = scene.restore(&store, root.clone(), overwrite);
            assert!(problems.contains(&PathBuf::new()), "the second `a` is refused: {problems:?}");
        }
    }
    // In a folder of the snapshot, with names that do not rise.
    let scene = Scene::new();
    let mut store = MemoryStore::default();
    let file = store.file("precious", b"bad");
    let a = store.folder("a", vec![file]);
    let z = store.file("z", b"z");
    let folder = store.folder("f", vec![link("a", &scene.outside()), z, a]);
    let root = store.tree_of(vec![folder]);
    for overwrite in ALL {
        assert!(scene.restore(&store, root.clone(), overwrite).contains(&"f".into()), "refused");
    }
}

#[test]
fn a_link_of_the_target_is_never_followed() {
    for overwrite in ALL {
        let scene = Scene::new();
        fs::create_dir(scene.target()).unwrap();
        symlink(scene.outside(), scene.target().join("folder")).unwrap();
        symlink(scene.outside().join("precious"), scene.target().join("file")).unwrap();
        symlink(scene.outside().join("new"), scene.target().join("new")).unwrap();
        fs::hard_link(scene.outside().join("precious"), scene.target().join("hard")).unwrap();
        let mut store = MemoryStore::default();
        let large = SplitMix64::bytes(7, 9_000_000);
        let inside = store.file("precious", b"bad");
        let entries = vec![
            store.file("file", b"bad"),
            store.folder("folder", vec![inside]),
            store.file("hard", &large),
            store.file("new", &large),
        ];
        let root = store.tree_of(entries);
        let before = fs::metadata(scene.outside().join("precious")).unwrap().mode();
        let options = RestoreOptions { overwrite, ..RestoreOptions::default() };
        let (stats, monitor) = restore_into(&store, &root, &scene.target(), options);
        let precious = scene.outside().join("precious");
        assert_eq!(fs::read(&precious).unwrap(), b"precious", "{overwrite:?}");
        assert_eq!(fs::metadata(&precious).unwrap().mode(), before, "{overwrite:?}");
        assert_eq!(fs::read_dir(scene.outside()).unwrap().count(), 1, "{overwrite:?}");
        if overwrite == Overwrite::Never {
            assert_eq!(stats.failed_entries, 4, "{monitor:?}");
            let file = fs::symlink_metadata(scene.target().join("file")).unwrap();
            assert!(file.is_symlink(), "it stays");
        } else {
            assert_eq!(stats.failed_entries, 0, "{monitor:?}");
            for (name, len) in [("file", 3), ("hard", 9_000_000), ("new", 9_000_000)] {
                let meta = fs::symlink_metadata(scene.target().join(name)).unwrap();
                assert!(meta.is_file() && meta.len() == len && meta.nlink() == 1, "{name}");
            }
            assert!(
                fs::symlink_metadata(scene.target().join("folder")).unwrap().is_dir(),
                "folder"
            );
        }
    }
}

#[test]
fn hard_links_that_lie() {
    let scene = Scene::new();
    let mut store = MemoryStore::default();
    // The first name is a symbolic link, the second claims to be the same file.
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

#[test]
fn ids_modes_and_times_that_mean_something_else() {
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
    let (stats, monitor) = restore_into(&store, &root, scratch.path(), options);
    assert!(stats.warnings >= 2, "no owner, so no set-user-id: {monitor:?}");
    let meta = fs::metadata(scratch.path().join("file")).unwrap();
    assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o755, 0), "{monitor:?}");
}

#[test]
fn damaged_files_are_refused_and_the_others_restored() {
    let scratch = tempfile::tempdir().unwrap();
    let mut store = MemoryStore::default();
    let bytes = SplitMix64::bytes(3, 20_000_000);
    let mut entries = vec![store.file("large", &bytes), store.file("small", &bytes[..250_000])];
    let lost = store.chunk_of(&bytes[200_000..250_000]);
    let lost_large = store.chunk_of(&bytes[19_900_000..]);
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
    for lost in [lost, lost_large] {
        let Segment::Chunk { fingerprint, .. } = lost else { panic!("a chunk") };
        store.chunks.remove(&fingerprint);
    }
    let inside = store.file("inside", b"inside");
    let damage = Entry::new("DAMAGE", EntryKind::File);
    let unseen = store.file("unseen", b"unseen");
    entries.push(store.folder("z damaged", vec![inside, damage, unseen]));
    let mut lost = store.folder("z lost", vec![]);
    lost.content = Content::Recipe(cutpoint_store::fingerprint::Fingerprint([9; 32]));
    entries.push(lost);
    entries.push(store.file("zz", b"last"));
    let root = store.tree_of(entries);

    fs::write(scratch.path().join("small"), b"was there").unwrap();
    fs::write(scratch.path().join("large"), b"was there").unwrap();
    for overwrite in [Overwrite::Replace, Overwrite::Changed] {
        let options = RestoreOptions { overwrite, ..RestoreOptions::default() };
        let (stats, monitor) = restore_into(&store, &root, scratch.path(), options);
        let refused = ["large", "small", "x1", "x2", "x3", "x4", "y", "z damaged", "z lost"];
        assert_eq!(monitor.problem_paths(), refused.map(PathBuf::from), "{monitor:?}");
        let restored = stats.written_files + stats.unchanged_entries;
        assert_eq!(restored, 3, "well, zz, inside: {stats:?}");
        for name in ["x1", "x2", "x3", "x4", "y", "z damaged/unseen"] {
            assert!(!scratch.path().join(name).exists(), "{name} is not half restored");
        }
        let nameless = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::WRONLY;
        let mode = rustix::fs::Mode::RUSR;
        let kept: &[&str] = match rustix::fs::open(scratch.path(), nameless, mode) {
            Ok(_) => &["small", "large"],
            Err(_) => &["small"],
        };
        for name in kept {
            let bytes = fs::read(scratch.path().join(name)).unwrap();
            assert_eq!(bytes, b"was there", "{name} stays until there is something better");
        }
        assert!(scratch.path().join("z lost").is_dir(), "as much as is known");
    }
}

/// Wants to stop after some files.
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
fn stopping_leaves_whole_files_only() {
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
            Ok(stats) => assert_eq!(stats.written_files + stats.linked_names, 21, "{stats:?}"),
            Err(error) => assert_eq!(error.kind(), Kind::Interrupted, "{error}"),
        }
        for file in fs::read_dir(scratch.path()).unwrap() {
            let file = file.unwrap();
            let name = file.file_name().into_encoded_bytes();
            let entry = entries.iter().find(|entry| entry.name == name).unwrap();
            assert_eq!(file.metadata().unwrap().len(), entry.size, "{:?}", file.path());
        }
        // And it can be completed.
        let overwrite = Overwrite::Changed;
        let options = RestoreOptions { overwrite, ..options };
        let (stats, _) = restore_into(&store, &root, scratch.path(), options);
        let all = stats.written_files + stats.linked_names + stats.unchanged_entries;
        assert_eq!(all, 21, "{stats:?}");
    }
}

#[test]
fn a_selection_cannot_climb() {
    let scratch = tempfile::tempdir().unwrap();
    let store = MemoryStore::default();
    let options = RestoreOptions { selection: vec!["a/../b".into()], ..RestoreOptions::default() };
    let error = restore(&store, &Content::Empty, scratch.path(), &options, &()).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
}
