//! Hostile snapshots, which try to write outside of the target.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use bytes::Bytes;
use cutpoint_backup::restore::{Overwrite, RestoreOptions, SnapshotReader, restore};
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Content, Entry, Fingerprint};
use cutpoint_storage::Result;
use cutpoint_testing::SplitMix64;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::guarded_target::{ALL, GuardedTarget, link};
use crate::memory_store::{MemoryStore, TestMonitor, restore_into};

#[test]
fn tree_with_name_outside_its_folder_is_refused() {
    for name in ["..", ".", "", "/", "../outside/new", "a/b", "a\0b"] {
        let scene = GuardedTarget::new();
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
fn link_of_the_snapshot_is_never_followed() {
    for order in [[0, 1, 2], [1, 0, 2], [0, 2, 1]] {
        let scene = GuardedTarget::new();
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
    // The link is in a folder of the snapshot, with names that do not ascend.
    let scene = GuardedTarget::new();
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
fn link_of_the_target_is_never_followed() {
    for overwrite in ALL {
        let scene = GuardedTarget::new();
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
        let (report, monitor) = restore_into(&store, &root, &scene.target(), options);
        let precious = scene.outside().join("precious");
        assert_eq!(fs::read(&precious).unwrap(), b"precious", "{overwrite:?}");
        assert_eq!(fs::metadata(&precious).unwrap().mode(), before, "{overwrite:?}");
        assert_eq!(fs::read_dir(scene.outside()).unwrap().count(), 1, "{overwrite:?}");
        if overwrite == Overwrite::Never {
            assert_eq!(report.failed_entries, 4, "{monitor:?}");
            let file = fs::symlink_metadata(scene.target().join("file")).unwrap();
            assert!(file.is_symlink(), "it stays");
        } else {
            assert_eq!(report.failed_entries, 0, "{monitor:?}");
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

/// A reader that interferes with a restore at one of its calls, counted from 0.
struct MeddlingReader<'a, F> {
    store: &'a MemoryStore,
    calls: AtomicU64,
    at: u64,
    act: F,
}

impl<'a, F: Fn()> MeddlingReader<'a, F> {
    fn new(store: &'a MemoryStore, at: u64, act: F) -> MeddlingReader<'a, F> {
        MeddlingReader { store, calls: AtomicU64::new(0), at, act }
    }

    fn call(&self) -> &'a MemoryStore {
        if self.calls.fetch_add(1, Relaxed) == self.at {
            (self.act)();
        }
        self.store
    }

    fn has_acted(&self) -> bool {
        self.calls.load(Relaxed) > self.at
    }
}

impl<F: Fn() + Sync> SnapshotReader for MeddlingReader<'_, F> {
    fn tree<'a>(
        &'a self,
        content: &Content,
    ) -> Result<Box<dyn Iterator<Item = Result<Entry>> + 'a>> {
        self.call().tree(content)
    }

    fn segments<'a>(
        &'a self,
        content: &Content,
    ) -> Result<Box<dyn Iterator<Item = Result<Segment>> + 'a>> {
        self.call().segments(content)
    }

    fn chunk(&self, fingerprint: &Fingerprint) -> Result<Bytes> {
        self.call().chunk(fingerprint)
    }

    fn fingerprint(&self, bytes: &[u8]) -> Fingerprint {
        self.call().fingerprint(bytes)
    }
}

/// A snapshot with nested folders, small and large files in them, links, and several names of one
/// file.
fn folders_and_files(store: &mut MemoryStore) -> Content {
    let mut named = store.file("name 1", b"several names");
    (named.links, named.inode) = (2, 7);
    let mut second = named.clone();
    second.name = b"name 2".to_vec();
    let mut large = store.file("large", b"after a hole");
    let chunk = store.chunk_of(b"after a hole");
    large.content = Content::Segments(vec![Segment::Hole { length: 9_000_000 }, chunk]);
    large.size += 9_000_000;
    let inner =
        vec![large, link("link", Path::new("precious")), named, store.file("precious", b"bad")];
    let inner = store.folder("inner", inner);
    let after = store.file("precious", b"bad");
    let folder = store.folder("folder", vec![inner, after, second]);
    let last = store.file("last", b"last");
    store.tree_of(vec![folder, last])
}

/// At each moment of a restore, a folder is moved and a link to the outside is put in its place.
/// The folder that was opened is still filled where it is now, and nothing else is.
#[test]
fn swapped_in_link_is_never_followed() {
    let mut store = MemoryStore::default();
    let root = folders_and_files(&mut store);
    let mut states = 0;
    for overwrite in ALL {
        for swapped in ["folder", "folder/inner"] {
            for at in 0.. {
                let scene = GuardedTarget::new();
                let (target, outside) = (scene.target(), scene.outside());
                let act = || {
                    // Before the folder is created, there is only the link.
                    fs::rename(target.join(swapped), target.join("aside")).ok();
                    symlink(&outside, target.join(swapped)).ok();
                };
                let reader = MeddlingReader::new(&store, at, act);
                let options = RestoreOptions { overwrite, threads: 2, ..RestoreOptions::default() };
                let before = scene.look();
                restore(&reader, &root, &target, &options, &()).unwrap();
                assert_eq!(scene.look(), before, "{overwrite:?}, {swapped}, call {at}");
                if !reader.has_acted() {
                    break;
                }
                states += 1;
            }
        }
    }
    println!("{states} moments");
    assert!(states > 40, "{states} moments are too few");
}

/// The same at moments that a test cannot choose: between creating a folder and opening it.
#[test]
fn link_that_comes_and_goes_is_never_followed() {
    let mut store = MemoryStore::default();
    let root = folders_and_files(&mut store);
    for round in 0..60 {
        let scene = GuardedTarget::new();
        let (target, done) = (scene.target(), AtomicBool::new(false));
        fs::create_dir(&target).unwrap();
        symlink(scene.outside(), target.join("link")).unwrap();
        let before = scene.look();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    let (folder, link) = (target.join("folder"), target.join("link"));
                    renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).ok();
                }
            });
            let overwrite = ALL[round % 3];
            let options = RestoreOptions { overwrite, threads: 2, ..RestoreOptions::default() };
            let restored = restore(&store, &root, &target, &options, &());
            done.store(true, Relaxed);
            restored.unwrap();
        });
        assert_eq!(scene.look(), before, "something happened outside, round {round}");
    }
}

/// The tree is deeper than the number of folders kept open. On the way back they are reopened, and
/// one of them is a link by then.
#[test]
fn link_swapped_in_far_above_is_never_followed() {
    let mut store = MemoryStore::default();
    let mut folder = store.folder("precious", vec![]);
    for _ in 0..200 {
        let after = store.file("z", b"bad");
        let mut above = store.folder("d", vec![folder, after]);
        above.mode = 0o700;
        folder = above;
    }
    let root = store.tree_of(vec![folder]);
    for overwrite in ALL {
        let scene = GuardedTarget::new();
        let (target, outside) = (scene.target(), scene.outside());
        let middle = target.join(["d"; 50].join("/"));
        let act = || {
            fs::rename(&middle, target.join("aside")).unwrap();
            symlink(&outside, &middle).unwrap();
        };
        let reader = MeddlingReader::new(&store, 190, act);
        let before = scene.look();
        let options = RestoreOptions { overwrite, threads: 1, ..RestoreOptions::default() };
        let monitor = TestMonitor::default();
        restore(&reader, &root, &target, &options, &monitor).unwrap();
        assert!(reader.has_acted(), "it was swapped");
        assert_eq!(scene.look(), before, "{overwrite:?}: {:?}", monitor.problem_paths());
    }
}

/// A target that does not distinguish `A` from `a` finds the file restored as `A` under the name
/// `a`, too. The later file must neither replace it nor be taken for it. The test simulates such a
/// target by giving the file that name during the restore.
#[test]
fn file_under_two_names_of_the_target_is_not_replaced() {
    for kept in [false, true] {
        for overwrite in ALL {
            let mut store = MemoryStore::default();
            let scratch = tempfile::tempdir().unwrap();
            let target = scratch.path().join("target");
            // Size and time are the same, so that a comparison would take one file for the other.
            let mut entries = vec![
                store.file("A", b"bytes of A"),
                store.file("B", b"bytes of B"),
                store.file("a", b"bytes of a"),
            ];
            entries.iter_mut().for_each(|entry| entry.mtime.seconds = 1_000_000);
            let root = store.tree_of(entries.clone());
            if kept {
                let first = store.tree_of(vec![entries[0].clone()]);
                restore_into(&store, &first, &target, RestoreOptions::default());
            }
            let reads_a = !kept || overwrite == Overwrite::Replace;
            let act = || fs::hard_link(target.join("A"), target.join("a")).unwrap();
            let reader = MeddlingReader::new(&store, 1 + u64::from(reads_a), act);
            let options = RestoreOptions { overwrite, threads: 1, ..RestoreOptions::default() };
            let monitor = TestMonitor::default();
            restore(&reader, &root, &target, &options, &monitor).unwrap();
            let case = format!("{overwrite:?}, {kept}: {monitor:?}");
            assert!(reader.has_acted(), "{case}");
            let problems = monitor.problem_paths();
            assert!(problems.contains(&"a".into()), "{case}");
            assert!(!problems.contains(&"B".into()), "{case}");
            for name in ["A", "a"] {
                assert_eq!(fs::read(target.join(name)).unwrap(), b"bytes of A", "{case}");
            }
        }
    }
}

/// The same for folders, and for a file and a folder.
#[test]
fn folder_under_two_names_of_the_target_is_not_merged() {
    for first_is_file in [false, true] {
        for overwrite in ALL {
            let mut store = MemoryStore::default();
            let scratch = tempfile::tempdir().unwrap();
            let target = scratch.path().join("target");
            let files = ["one", "two", "three"].map(|name| store.file(name, b"bytes"));
            let [one, two, three] = files;
            let first = match first_is_file {
                true => store.file("D", b"bytes of D"),
                false => store.folder("D", vec![one]),
            };
            let entries = vec![first, store.folder("E", vec![two]), store.folder("d", vec![three])];
            let root = store.tree_of(entries);
            let act = || {
                let whole = if first_is_file { "D" } else { "D/one" };
                while !fs::metadata(target.join(whole)).is_ok_and(|it| it.len() > 0) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                fs::rename(target.join("D"), target.join("d")).unwrap();
            };
            let reader = AtTree { store: &store, tree: &entry_of(&store, &root, "E"), act };
            let options = RestoreOptions { overwrite, threads: 1, ..RestoreOptions::default() };
            let monitor = TestMonitor::default();
            restore(&reader, &root, &target, &options, &monitor).unwrap();
            let case = format!("{overwrite:?}, {first_is_file}: {monitor:?}");
            assert_eq!(monitor.problem_paths(), [Path::new("d")], "{case}");
            let is_file = fs::metadata(target.join("d")).unwrap().is_file();
            assert_eq!(is_file, first_is_file, "{case}");
        }
    }
}

fn entry_of(store: &MemoryStore, root: &Content, name: &str) -> Content {
    let entries = store.tree(root).unwrap().map(|entry| entry.unwrap());
    entries.filter(|entry| entry.name == name.as_bytes()).map(|entry| entry.content).last().unwrap()
}

/// A reader that interferes when a given tree is requested.
struct AtTree<'a, F> {
    store: &'a MemoryStore,
    tree: &'a Content,
    act: F,
}

impl<F: Fn() + Sync> SnapshotReader for AtTree<'_, F> {
    fn tree<'a>(
        &'a self,
        content: &Content,
    ) -> Result<Box<dyn Iterator<Item = Result<Entry>> + 'a>> {
        if content == self.tree {
            (self.act)();
        }
        self.store.tree(content)
    }

    fn segments<'a>(
        &'a self,
        content: &Content,
    ) -> Result<Box<dyn Iterator<Item = Result<Segment>> + 'a>> {
        self.store.segments(content)
    }

    fn chunk(&self, fingerprint: &Fingerprint) -> Result<Bytes> {
        self.store.chunk(fingerprint)
    }

    fn fingerprint(&self, bytes: &[u8]) -> Fingerprint {
        self.store.fingerprint(bytes)
    }
}
