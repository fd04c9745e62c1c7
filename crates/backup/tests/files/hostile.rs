//! Hostile snapshots, which try to write outside of the target, and damaged ones.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use bytes::Bytes;
use cutpoint_backup::restore::{
    Overwrite, RestoreMonitor, RestoreOptions, SnapshotReader, restore,
};
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Content, Entry, EntryKind, Fingerprint};
use cutpoint_storage::{Kind, Result};
use cutpoint_testing::SplitMix64;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::store::{MemoryStore, TestMonitor, restore_into};

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

    /// Restores, and checks that nothing happened outside of the target.
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
fn tree_with_name_outside_its_folder_is_refused() {
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
fn link_of_the_snapshot_is_never_followed() {
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
    // The link is in a folder of the snapshot, with names that do not ascend.
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
fn link_of_the_target_is_never_followed() {
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

/// A reader that interferes with a restore at one of its calls, counted from 0.
struct Meddled<'a, F> {
    store: &'a MemoryStore,
    calls: AtomicU64,
    at: u64,
    act: F,
}

impl<'a, F: Fn()> Meddled<'a, F> {
    fn new(store: &'a MemoryStore, at: u64, act: F) -> Meddled<'a, F> {
        Meddled { store, calls: AtomicU64::new(0), at, act }
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

impl<F: Fn() + Sync> SnapshotReader for Meddled<'_, F> {
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
                let scene = Scene::new();
                let (target, outside) = (scene.target(), scene.outside());
                let act = || {
                    // Before the folder is created, there is only the link.
                    fs::rename(target.join(swapped), target.join("aside")).ok();
                    symlink(&outside, target.join(swapped)).ok();
                };
                let reader = Meddled::new(&store, at, act);
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
        let scene = Scene::new();
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
        let scene = Scene::new();
        let (target, outside) = (scene.target(), scene.outside());
        let middle = target.join(["d"; 50].join("/"));
        let act = || {
            fs::rename(&middle, target.join("aside")).unwrap();
            symlink(&outside, &middle).unwrap();
        };
        let reader = Meddled::new(&store, 190, act);
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
            let reader = Meddled::new(&store, 1 + u64::from(reads_a), act);
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
}

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
        again.args(["--exact", "hostile::devices_are_made_by_root_or_not_at_all"]);
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
    let scene = Scene::new();
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
    lost.content = Content::Recipe(cutpoint_repository::Fingerprint([9; 32]));
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
            Ok(stats) => assert_eq!(stats.written_files + stats.linked_names, 21, "{stats:?}"),
            Err(error) => assert_eq!(error.kind(), Kind::Interrupted, "{error}"),
        }
        for file in fs::read_dir(scratch.path()).unwrap() {
            let file = file.unwrap();
            let name = file.file_name().into_encoded_bytes();
            let entry = entries.iter().find(|entry| entry.name == name).unwrap();
            assert_eq!(file.metadata().unwrap().len(), entry.size, "{:?}", file.path());
        }
        // The restore can be completed.
        let overwrite = Overwrite::Changed;
        let options = RestoreOptions { overwrite, ..options };
        let (stats, _) = restore_into(&store, &root, scratch.path(), options);
        let all = stats.written_files + stats.linked_names + stats.unchanged_entries;
        assert_eq!(all, 21, "{stats:?}");
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
