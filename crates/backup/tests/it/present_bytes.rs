//! Restores of large files of which the target has a part already.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use cutpoint_backup::restore::{Overwrite, RestoreMonitor, RestoreOptions, restore};
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Content, Entry};
use cutpoint_storage::Kind;
use cutpoint_testing::SplitMix64;

use crate::memory_store::{CHUNK_LEN, MemoryStore, restore_into};

/// The size of the file, in chunks.
const CHUNK_COUNT: usize = 400;

fn bytes() -> Vec<u8> {
    SplitMix64::bytes(1, CHUNK_COUNT * CHUNK_LEN)
}

/// Returns a snapshot of one large file, `image`.
fn snapshot(store: &mut MemoryStore) -> Content {
    let image = store.file("image", &bytes());
    store.tree_of(vec![image])
}

fn options(in_place: bool) -> RestoreOptions {
    RestoreOptions { overwrite: Overwrite::Changed, in_place, ..RestoreOptions::default() }
}

#[track_caller]
fn require_image(target: &Path) {
    assert!(fs::read(target.join("image")).unwrap() == bytes(), "the restored bytes");
    let names = fs::read_dir(target).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> =
        names.filter(|name| name.as_encoded_bytes().starts_with(b".cutpoint")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Writes an existing file that differs in two chunks and is longer. Returns its inode.
fn write_existing(target: &Path) -> u64 {
    let mut existing = bytes();
    existing[5 * CHUNK_LEN + 7] ^= 1;
    existing[399 * CHUNK_LEN] ^= 1;
    existing.extend_from_slice(b"and more");
    fs::write(target.join("image"), existing).unwrap();
    fs::metadata(target.join("image")).unwrap().ino()
}

#[test]
fn only_chunks_that_differ_are_fetched() {
    let mut store = MemoryStore::default();
    let root = snapshot(&mut store);
    for in_place in [false, true] {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path();
        let inode = write_existing(target);
        let asked = store.asked.load(Relaxed);
        let (report, monitor) = restore_into(&store, &root, target, options(in_place));
        assert_eq!(store.asked.load(Relaxed) - asked, 2, "chunks fetched: {report:?}");
        let reused = ((CHUNK_COUNT - 2) * CHUNK_LEN) as u64;
        assert_eq!(report.reused_bytes, reused, "{report:?}");
        require_image(target);
        let is_same = fs::metadata(target.join("image")).unwrap().ino() == inode;
        assert_eq!(is_same, in_place, "the same file, or a new one");
        if in_place {
            assert_eq!(report.copied_bytes, 0, "nothing is copied in place");
        } else {
            assert!([0, reused].contains(&report.copied_bytes), "shared, or copied: {report:?}");
        }
        assert_eq!(monitor.bytes.load(Relaxed), bytes().len() as u64, "progress");
        assert_eq!((report.written_files, report.replaced_entries), (1, 1), "{report:?}");
    }
}

#[test]
fn file_with_other_names_is_replaced_even_in_place() {
    let mut store = MemoryStore::default();
    let root = snapshot(&mut store);
    let scratch = tempfile::tempdir().unwrap();
    let target = scratch.path();
    write_existing(target);
    fs::hard_link(target.join("image"), target.join("other")).unwrap();
    let before = fs::read(target.join("other")).unwrap();
    restore_into(&store, &root, target, options(true));
    require_image(target);
    assert!(fs::read(target.join("other")).unwrap() == before, "the other name");
}

#[test]
fn small_file_is_changed_in_place_on_request() {
    let mut store = MemoryStore::default();
    let file = store.file("file", b"snapshot");
    let root = store.tree_of(vec![file]);
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("file");
    fs::write(&path, b"longer than the snapshot").unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    restore_into(&store, &root, scratch.path(), options(true));
    assert_eq!(fs::read(&path).unwrap(), b"snapshot");
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode, "the same file");
}

/// Existing bytes in the place of holes and zeros are removed.
#[test]
fn holes_are_made_in_existing_bytes() {
    let mut store = MemoryStore::default();
    let chunk = store.chunk_of(&bytes()[..CHUNK_LEN]);
    let hole = 12 << 20;
    let zeros = Segment::Zeros { length: 100 };
    let segments = vec![chunk, Segment::Hole { length: hole }, chunk, zeros];
    let mut entry: Entry = store.file("sparse", b"");
    entry.size = segments.iter().map(Segment::length).sum();
    entry.content = store.content_of(segments);
    let size = entry.size;
    let root = store.tree_of(vec![entry]);
    for in_place in [false, true] {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("sparse");
        fs::write(&path, vec![7; 9 << 20]).unwrap();
        restore_into(&store, &root, scratch.path(), options(in_place));
        let found = fs::read(&path).unwrap();
        assert_eq!(found.len() as u64, size);
        let hole_end = CHUNK_LEN + usize::try_from(hole).unwrap();
        assert!(found[..CHUNK_LEN] == bytes()[..CHUNK_LEN], "the first chunk");
        assert!(found[CHUNK_LEN..hole_end].iter().all(|&byte| byte == 0), "the hole");
        assert!(found[hole_end..hole_end + CHUNK_LEN] == bytes()[..CHUNK_LEN], "the last chunk");
        assert!(found[hole_end + CHUNK_LEN..].iter().all(|&byte| byte == 0), "the zeros");
    }
}

/// Cancels once some bytes are written.
#[derive(Default)]
struct Impatient(AtomicU64);

impl RestoreMonitor for Impatient {
    fn progress(&self, _files: u64, bytes: u64) {
        self.0.fetch_add(bytes, Relaxed);
    }

    fn cancelled(&self) -> bool {
        self.0.load(Relaxed) >= 9 << 20
    }
}

/// Begins a restore of the image, which is interrupted in the middle.
fn interrupt(store: &MemoryStore, root: &Content, target: &Path) {
    let options = RestoreOptions { threads: 1, ..options(false) };
    let error = restore(store, root, target, &options, &Impatient::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Interrupted, "{error}");
    assert!(!target.join("image").exists(), "not before it is complete");
}

/// Returns the path of the file in progress.
fn partial(target: &Path) -> std::path::PathBuf {
    let mut names = fs::read_dir(target).unwrap().map(|entry| entry.unwrap().path());
    names.find(|path| path.to_string_lossy().ends_with(".partial")).expect("a file in progress")
}

#[test]
fn interrupted_restore_goes_on_inside_a_file() {
    let mut store = MemoryStore::default();
    let root = snapshot(&mut store);
    let scratch = tempfile::tempdir().unwrap();
    let target = scratch.path();
    interrupt(&store, &root, target);
    assert_eq!(fs::metadata(partial(target)).unwrap().mode() & 0o777, 0o600, "private");
    // A damaged part is noticed.
    let file = fs::File::options().write(true).open(partial(target)).unwrap();
    file.write_all_at(b"damage", 5).unwrap();
    let asked = store.asked.load(Relaxed);
    let (report, _) = restore_into(&store, &root, target, options(false));
    require_image(target);
    assert!(report.reused_bytes >= 8 << 20, "{report:?}");
    let fetched = (store.asked.load(Relaxed) - asked) * CHUNK_LEN as u64;
    assert_eq!(fetched + report.reused_bytes, bytes().len() as u64, "nothing is fetched again");
}

/// A file with the name of one in progress is used only if no other process can have a hand in it.
#[test]
fn foreign_files_in_progress_are_neither_followed_nor_changed() {
    let mut store = MemoryStore::default();
    let root = snapshot(&mut store);
    let scratch = tempfile::tempdir().unwrap();
    let target = scratch.path().join("target");
    let precious = scratch.path().join("precious");
    fs::create_dir(&target).unwrap();
    fs::write(&precious, b"precious").unwrap();
    fs::set_permissions(&precious, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    interrupt(&store, &root, &target);
    let name = partial(&target);
    for is_symlink in [true, false] {
        fs::remove_file(&name).unwrap();
        fs::remove_file(target.join("image")).ok();
        if is_symlink {
            symlink(&precious, &name).unwrap();
        } else {
            fs::hard_link(&precious, &name).unwrap();
        }
        let (report, _) = restore_into(&store, &root, &target, options(false));
        assert_eq!(report.reused_bytes, 0, "{report:?}");
        assert!(fs::read(target.join("image")).unwrap() == bytes(), "the restored bytes");
        assert_eq!(fs::read(&precious).unwrap(), b"precious", "outside of the target");
    }
}

/// The snapshot itself can have an entry with the name of a file in progress.
#[test]
fn entry_with_the_name_of_a_file_in_progress_is_restored_too() {
    let mut store = MemoryStore::default();
    let root = snapshot(&mut store);
    let scratch = tempfile::tempdir().unwrap();
    interrupt(&store, &root, scratch.path());
    let name = partial(scratch.path()).file_name().unwrap().to_str().unwrap().to_owned();
    let mut odd = store.file(&name, b"an odd file");
    odd.mode = 0o600;
    let image = store.file("image", &bytes());
    let root = store.tree_of(vec![odd, image]);
    for overwrite in [Overwrite::Never, Overwrite::Changed, Overwrite::Replace] {
        let target = tempfile::tempdir().unwrap();
        let options = RestoreOptions { overwrite, ..RestoreOptions::default() };
        for _ in 0..2 {
            restore(&store, &root, target.path(), &options, &()).unwrap();
            let image = fs::read(target.path().join("image"));
            assert!(image.is_ok_and(|found| found == bytes()), "{overwrite:?}: the image");
        }
        let odd = fs::read(target.path().join(&name)).unwrap();
        assert_eq!(odd, b"an odd file", "{overwrite:?}");
    }
}
