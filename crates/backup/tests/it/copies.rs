//! Copies of snapshots between repositories.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cutpoint_backup::copy::{
    CopyMonitor, CopyReport, CopyRules, copy, plan_copies, plan_rewrites, rewrite,
};
use cutpoint_backup::save::{BackupMonitor, BackupOptions, BackupProgress, backup};
use cutpoint_repository::format::commit::OriginId;
use cutpoint_repository::gc::prune::{PruneOptions, prune};
use cutpoint_repository::gc::sweep::{Sweep, SweepOptions, Sweeper};
use cutpoint_repository::verify::check::{CheckOptions, Portion, check};
use cutpoint_repository::{
    CipherSuite, Class, Content, Entry, EntryKind, InitOptions, Reader, Repository, Snapshot,
    TicketId, Unlock, View,
};
use cutpoint_storage::{Environment, Error, Kind, Memory, Storage};
use cutpoint_testing::SplitMix64;

use crate::backup_options::{files, options};
use crate::far_repository::from_far;
use crate::long_runs::{Ages, LONG_LEN};
use crate::manual_clock::make;
use crate::seeded_repository::{SeededEnvironment, init};

/// Creates a repository of another form: not encrypted, with other cut-points and no delta chunks.
pub(crate) fn other() -> Arc<Repository> {
    let options = InitOptions {
        suite: CipherSuite::None,
        cut: "fastcdc:level=1,min=1024,normal=4096,max=32768,seed=0".to_owned(),
        compression_level: 1,
        delta_chunks: false,
        ..InitOptions::default()
    };
    create(&Unlock::Nothing, &options)
}

/// Creates a repository whose chunks are those of `source`.
pub(crate) fn like(source: &Repository) -> Arc<Repository> {
    let options = source.comparable_options().expect("a repository with a chunk secret");
    create(&crate::seeded_repository::unlock(), &options)
}

fn create(unlock: &Unlock, options: &InitOptions) -> Arc<Repository> {
    let environment: Arc<dyn Environment> = SeededEnvironment::new(77_000);
    let made = Repository::init(Arc::new(Memory::new()), environment, unlock, options);
    Arc::new(made.expect("a new repository"))
}

pub(crate) fn reader(repository: &Arc<Repository>) -> Arc<Reader> {
    let view = View::list(repository).expect("it lists");
    Arc::new(Reader::open(repository.clone(), view).expect("it opens"))
}

/// Copies every snapshot that `target` lacks.
pub(crate) fn copy_all(source: &Arc<Repository>, target: &Arc<Repository>) -> CopyReport {
    copy_with(source, target, &()).expect("a copy")
}

pub(crate) fn copy_with(
    source: &Arc<Repository>,
    target: &Arc<Repository>,
    monitor: &dyn CopyMonitor,
) -> cutpoint_storage::Result<CopyReport> {
    let reader = reader(source);
    let wanted: Vec<TicketId> = reader.view().snapshots().iter().map(|(id, _)| *id).collect();
    let view = View::list(target).expect("it lists");
    let rules = CopyRules::default();
    let plan = plan_copies(&reader, target, &view, &wanted, rules, monitor)?;
    copy(target, &plan, &options(2), monitor)
}

/// Makes a folder with all that a snapshot can hold: small and large files, a sparse file, zeros,
/// hard links, a symbolic link, extended attributes.
fn make_folder(root: &Path) {
    let mut random = SplitMix64::new(5);
    for number in 0..40 {
        let folder = root.join(format!("folder {}", number % 4));
        fs::create_dir_all(&folder).expect("folder");
        let size = random.below(20_000);
        fs::write(folder.join(format!("file {number}")), random.take(size)).expect("file");
    }
    fs::write(root.join("large"), random.take(2_000_000)).expect("large");
    fs::write(root.join("zeros"), vec![0; 500_000]).expect("zeros");
    let sparse = fs::File::create(root.join("sparse")).expect("sparse");
    sparse.set_len(30_000_000).expect("length");
    sparse.write_all_at(b"an island", 20_000_001).expect("island");
    fs::hard_link(root.join("large"), root.join("folder 1/large too")).expect("hard link");
    std::os::unix::fs::symlink("nowhere", root.join("dangling")).expect("symbolic link");
}

/// Returns every entry below a tree with its path, without its content, and the bytes of each file.
pub(crate) fn entries(
    reader: &Reader,
    tree: &Content,
    path: &str,
) -> Vec<(String, Entry, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in reader.tree(tree) {
        let mut entry = entry.expect("an entry");
        let content = std::mem::replace(&mut entry.content, Content::Empty);
        let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
        let is_folder = entry.kind == EntryKind::Folder;
        let bytes = match &content {
            _ if is_folder => Vec::new(),
            Content::Raw(bytes) => bytes.clone(),
            content => bytes_of(reader, content),
        };
        all.push((path.clone(), entry, bytes));
        if is_folder {
            all.extend(entries(reader, &content, &path));
        }
    }
    all
}

fn as_usize(number: u64) -> usize {
    usize::try_from(number).expect("it is small")
}

/// Returns the bytes of a file, in which each hole is one `h` for 4096 bytes.
fn bytes_of(reader: &Reader, content: &Content) -> Vec<u8> {
    use cutpoint_repository::format::recipe::Segment;
    let mut bytes = Vec::new();
    for segment in reader.segments(content) {
        match segment.expect("a segment") {
            Segment::Hole { length } => bytes.extend(vec![b'h'; (length / 4096) as usize]),
            Segment::Zeros { length } => bytes.extend(vec![0; as_usize(length)]),
            Segment::Chunk { fingerprint, offset, length } => {
                let chunk = reader.chunk(Class::Data, &fingerprint).expect("a chunk");
                bytes.extend(&chunk[as_usize(offset)..as_usize(offset + length)]);
            }
        }
    }
    bytes
}

/// Returns the parts of a snapshot that a copy must keep.
pub(crate) fn kept(snapshot: &Snapshot) -> Snapshot {
    let mut statistics = snapshot.statistics;
    statistics.new_chunk_count = 0;
    statistics.new_bytes = 0;
    statistics.stored_bytes = 0;
    statistics.delta_chunk_count = 0;
    statistics.delta_chunk_bytes = 0;
    statistics.literal_bytes = 0;
    Snapshot {
        root: Content::Empty,
        cut: String::new(),
        parent: None,
        origin: None,
        statistics,
        ..snapshot.clone()
    }
}

/// Compares all snapshots of both repositories: metadata, trees and bytes.
pub(crate) fn assert_same_snapshots(source: &Arc<Repository>, target: &Arc<Repository>) {
    let (source, target) = (reader(source), reader(target));
    let (left, right) = (source.view(), target.view());
    let (left, right) = (left.snapshots(), right.snapshots());
    assert_eq!(left.len(), right.len(), "the number of snapshots");
    for ((id, a), (_, b)) in left.into_iter().zip(right) {
        let origin = b.copied_from().expect("a copy");
        assert_eq!(origin.key.snapshot, id.into(), "origin");
        assert_eq!(kept(a), kept(b), "the snapshot itself");
        let (a, b) = (entries(&source, &a.root, ""), entries(&target, &b.root, ""));
        assert!(a.len() > 45, "the tree has entries");
        for (a, b) in a.iter().zip(&b) {
            assert_eq!((&a.0, &a.1), (&b.0, &b.1), "metadata");
            assert!(a.2 == b.2, "{} has other bytes", a.0);
        }
        assert_eq!(a.len(), b.len(), "the number of entries");
    }
}

pub(crate) fn assert_sound(repository: &Arc<Repository>) {
    let options = CheckOptions { read_data: Some(Portion::All), ..CheckOptions::default() };
    let report = check(repository, &options, &()).expect("a check");
    assert_eq!(report.error_count, 0, "{report:?}");
}

/// Makes a repository with two snapshots, the second of which has one changed file.
pub(crate) fn source(folder: &Path) -> Arc<Repository> {
    make_folder(folder);
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = init(&storage, &SeededEnvironment::new(1));
    let mut options = options(2);
    options.tags = vec!["tag".to_owned()];
    options.description = "first".to_owned();
    backup(&repository, files(folder), &options, &()).expect("a backup");
    let mut bytes = fs::read(folder.join("folder 2/file 2")).expect("file");
    bytes.extend(b"changed");
    fs::write(folder.join("folder 2/file 2"), bytes).expect("file");
    backup(&repository, files(folder), &options, &()).expect("a backup");
    repository
}

/// The containers of many files are looked up together.
#[test]
fn copy_from_far_is_that_from_near() {
    let folder = tempfile::tempdir().expect("folder");
    let near = source(folder.path());
    fs::write(folder.path().join("larger"), SplitMix64::bytes(8, 9_000_000)).expect("file");
    backup(&near, files(folder.path()), &options(2), &()).expect("a backup");
    for target in [other(), like(&near)] {
        let (far, remote) = from_far(&near);
        let report = copy_all(&far, &target);
        assert_eq!(report.saved.len(), 3, "{report:?}");
        assert_same_snapshots(&near, &target);
        assert_sound(&target);
        let together = remote.together_max.load(Ordering::SeqCst);
        assert!(together >= 6, "{together} ranges, of which a table of contents takes two");
    }
}

#[test]
fn copy_between_keys_and_cuts_keeps_everything() {
    let folder = tempfile::tempdir().expect("folder");
    let source = source(folder.path());
    let target = other();
    let report = copy_all(&source, &target);
    assert_eq!(report.saved.len(), 2, "{report:?}");
    assert_same_snapshots(&source, &target);
    assert_sound(&target);
    let second = reader(&target).view().snapshots()[1].1.clone();
    assert!(second.parent.is_some(), "compared with the first copy");
    // 42 files, one of which is changed: the second snapshot copies only that one, and its name
    // with the same content is a link.
    let size = second.statistics.size;
    assert!(report.read_bytes < size + 40_000, "unchanged files are taken over: {report:?}");
    assert!(second.statistics.new_bytes < 100_000, "the rest is deduplicated: {second:?}");
    let again = copy_all(&source, &target);
    assert_eq!(again, CopyReport::default(), "nothing is left to copy");
    // A backup to the target continues with the copies.
    let next = backup(&target, files(folder.path()), &options(2), &()).expect("a backup");
    assert_eq!(next.parent, Some(reader(&target).view().snapshots()[1].0), "the parent");
    assert_eq!(next.statistics.new_bytes, 0, "the copy cuts as a backup does");
}

#[test]
fn copy_with_the_same_chunks_reads_only_what_the_target_lacks() {
    let folder = tempfile::tempdir().expect("folder");
    let source = source(folder.path());
    let target = like(&source);
    // Another host, because the clocks of both repositories are equal.
    let of_other = BackupOptions { host: "other".to_owned(), ..options(2) };
    backup(&target, files(folder.path()), &of_other, &()).expect("a backup");
    let before = reader(&target).view().snapshots()[0].0;
    let report = copy_all(&source, &target);
    // The old version of the changed file lies in a bundle with its neighbours.
    assert!(report.new_bytes < 100_000, "only the changed bundle is new: {report:?}");
    cutpoint_repository::forget(&target, |_| Ok::<_, cutpoint_storage::Error>(vec![before]))
        .expect("it forgets");
    assert_same_snapshots(&source, &target);
    assert_sound(&target);
    let (left, right) = (reader(&source).view(), reader(&target).view());
    for ((_, a), (_, b)) in left.snapshots().into_iter().zip(right.snapshots()) {
        assert_eq!(a.root, b.root, "equal chunks and keys give equal trees");
    }
    let fresh = like(&source);
    copy_all(&source, &fresh);
    assert_same_snapshots(&source, &fresh);
    assert_sound(&fresh);
}

/// Stops when progress tells of a number of bytes, and holds the file `LAST` up until then: a fast
/// machine copies all before progress is told.
struct StopAt(u64, AtomicU64);

/// The name of the last file of the copy that is stopped.
const LAST: &str = "very last";

impl BackupMonitor for StopAt {
    fn progress(&self, progress: &BackupProgress) {
        self.1.fetch_max(progress.statistics.read_bytes, Ordering::SeqCst);
    }

    fn reading(&self, path: &Path) {
        let began_at = Instant::now();
        while path.ends_with(LAST)
            && !self.cancelled()
            && began_at.elapsed() < Duration::from_secs(60)
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn cancelled(&self) -> bool {
        self.1.load(Ordering::SeqCst) >= self.0
    }
}

impl CopyMonitor for StopAt {}

#[test]
fn interrupted_copy_stores_nothing_twice() {
    let folder = tempfile::tempdir().expect("folder");
    make_folder(folder.path());
    let large = SplitMix64::bytes(9, 40_000_000);
    fs::write(folder.path().join("very large"), &large).expect("file");
    fs::write(folder.path().join(LAST), &large[..100_000]).expect("file");
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let source = init(&storage, &SeededEnvironment::new(1));
    backup(&source, files(folder.path()), &options(2), &()).expect("a backup");
    let expected = copy_all(&source, &other());
    let target = other();
    let monitor = StopAt(1, AtomicU64::new(0));
    let stopped = copy_with(&source, &target, &monitor);
    match stopped {
        Ok(_) => panic!("the copy was not interrupted"),
        Err(error) => assert_eq!(error.kind(), Kind::Interrupted, "{error}"),
    }
    assert!(reader(&target).view().snapshots().is_empty(), "nothing is committed");
    let report = copy_all(&source, &target);
    assert_eq!(report.saved.len(), 1, "{report:?}");
    assert!(report.new_bytes < expected.new_bytes, "{report:?} of {expected:?}");
    let stored = |repository: &Arc<Repository>| -> u64 {
        let storage = repository.storage();
        storage.list("data").expect("it lists").iter().map(|(_, len)| len).sum()
    };
    let whole = other();
    copy_all(&source, &whole);
    let (stored, expected) = (stored(&target), stored(&whole));
    assert!(stored < expected + expected / 50, "{stored} bytes of {expected}");
    assert_sound(&target);
}

/// Rule W8: two tickets grow old while one long file is copied.
#[test]
fn long_copy_continues_from_its_checkpoints() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = SplitMix64::bytes(3, LONG_LEN);
    fs::write(folder.path().join("long"), &bytes).expect("a file");
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let source = init(&storage, &SeededEnvironment::new(1));
    backup(&source, files(folder.path()), &options(2), &()).expect("a backup");
    let (clock, storage, target) = make();
    let monitor = Ages::new(&clock, &storage);
    let report = copy_with(&source, &target, &monitor).expect("a copy");
    assert_eq!(report.saved.len(), 1, "{report:?}");
    let reader = reader(&target);
    let view = reader.view();
    let snapshots = view.snapshots();
    let partial: Vec<_> = snapshots.iter().map(|(_, snapshot)| snapshot.partial).collect();
    assert_eq!(partial.iter().filter(|partial| **partial).count(), 2, "{partial:?}");
    let last = view.commits[&report.saved[0].1].snapshot().expect("a snapshot");
    assert!(last.copied_from().is_some(), "the last one is complete");
    let begun = snapshots.iter().filter(|(_, snapshot)| snapshot.partial);
    let begun: Vec<_> = begun.map(|(_, snapshot)| snapshot.statistics).collect();
    let covered = begun.iter().map(|it| it.size).max().expect("two checkpoints");
    assert!(covered > 0, "{begun:?}");
    assert_eq!(report.read_bytes, LONG_LEN as u64 - covered, "the rest was copied before");
    let new: u64 = begun.iter().map(|it| it.new_bytes).sum::<u64>() + report.new_bytes;
    assert!(new < LONG_LEN as u64 + 1_000_000, "nothing is stored twice: {new}");
    let found = entries(&reader, &last.root, "");
    assert!(found.last().is_some_and(|(_, _, found)| *found == bytes), "the bytes of the file");
    assert_eq!(copy_all(&source, &target), CopyReport::default(), "nothing is left to copy");
    assert_sound(&target);
}

/// Returns the number of names and the total size of the files in a tree. A file of several names
/// counts once in the size.
fn measure(reader: &Reader, tree: &Content) -> (u64, u64) {
    let mut inodes = std::collections::HashSet::new();
    let (mut count, mut size) = (0, 0);
    for (_, entry, _) in entries(reader, tree, "") {
        if entry.kind == EntryKind::File {
            count += 1;
            if inodes.insert(entry.inode) {
                size += entry.size;
            }
        }
    }
    (count, size)
}

#[test]
fn file_of_several_names_counts_once() {
    let folder = tempfile::tempdir().expect("folder");
    let source = source(folder.path());
    let reader_before = reader(&source);
    let view = reader_before.view();
    let first = view.snapshots()[0];
    let (count, size) = measure(&reader_before, &first.1.root);
    assert_eq!((count, size), (first.1.statistics.file_count, first.1.statistics.size), "a backup");
    let target = other();
    let target_view = View::list(&target).expect("it lists");
    let rules = CopyRules::default();
    let plan = plan_copies(&reader_before, &target, &target_view, &[first.0], rules, &());
    let plan = plan.expect("a plan");
    let planned = &plan.copies[0];
    assert_eq!((planned.read_file_count, planned.read_bytes), (count - 1, size), "the plan");
    let report = copy(&target, &plan, &options(2), &()).expect("a copy");
    assert_eq!((report.read_file_count, report.read_bytes), (count - 1, size), "the copy");

    // Without one of the two names, all of the bytes stay; without both, the file is gone.
    let rewritten = |exclude: &[&str]| {
        let exclude: Vec<String> = exclude.iter().map(|it| (*it).to_owned()).collect();
        let plan = plan_rewrites(&reader_before, &[first.0], &exclude, &()).expect("a plan");
        let planned = plan.rewrites[0].clone();
        let report = rewrite(&source, &plan, &options(2), &()).expect("it rewrites");
        let reader = reader(&source);
        let made = reader.view().commits[&report.saved[0].1].snapshot().expect("one").clone();
        let statistics = (made.statistics.file_count, made.statistics.size);
        assert_eq!(statistics, measure(&reader, &made.root), "the new snapshot");
        (planned.excluded_file_count, planned.excluded_bytes)
    };
    assert_eq!(rewritten(&["/**/large"]), (1, 0), "one name of two");
    assert_eq!(rewritten(&["large*"]), (2, 2_000_000), "both names");
}

/// A snapshot of an interrupted run has the beginning of a file, which then changed. Its copy is
/// what the next one is compared with, but nothing of the file is taken from it.
#[test]
fn copy_beside_that_of_a_checkpoint_has_the_new_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("long");
    fs::write(&path, SplitMix64::bytes(3, LONG_LEN)).expect("a file");
    let (clock, storage, source) = make();
    backup(&source, files(folder.path()), &options(2), &Ages::new(&clock, &storage)).expect("one");
    let partial = reader(&source).view().snapshots()[0].0;
    fs::write(&path, SplitMix64::bytes(4, LONG_LEN)).expect("a file");
    let report = backup(&source, files(folder.path()), &options(2), &()).expect("a backup");
    let wanted = [partial, report.snapshot.expect("a snapshot")];
    let (source, target) = (reader(&source), other());
    let view = View::list(&target).expect("it lists");
    let plan = plan_copies(&source, &target, &view, &wanted, CopyRules::default(), &());
    let report = copy(&target, &plan.expect("a plan"), &options(2), &()).expect("a copy");
    let target = reader(&target);
    let made = target.view().commits[&report.saved[1].1].snapshot().expect("a snapshot").clone();
    assert_eq!(made.parent, Some(report.saved[0].1), "compared with the checkpoint");
    let found = entries(&target, &made.root, "");
    let is_new = found.last().is_some_and(|it| it.2 == SplitMix64::bytes(4, LONG_LEN));
    assert!(is_new, "the bytes of the second snapshot");
}

/// Removes everything that no snapshot needs.
fn prune_all(repository: &Arc<Repository>) {
    let options = PruneOptions { unused_max: 0.0, is_alone: true, ..PruneOptions::default() };
    prune(repository, &options, &(), |_| true).expect("it prunes").expect("approved");
    let options = SweepOptions { settle_ns: 0, end_others: true, ..SweepOptions::default() };
    let swept = Sweeper::new(repository.clone(), options).step(&()).expect("it sweeps");
    assert!(matches!(swept, Sweep::Done(_)), "{swept:?}");
}

/// Forgets a snapshot of the source and prunes there, while a file is copied.
struct PrunesAt {
    repository: Arc<Repository>,
    forgotten: TicketId,
    name: &'static str,
    is_done: AtomicBool,
    failed: Mutex<Vec<String>>,
}

impl PrunesAt {
    fn new(repository: &Arc<Repository>, forgotten: TicketId, name: &'static str) -> PrunesAt {
        let (is_done, failed) = (AtomicBool::new(false), Mutex::default());
        PrunesAt { repository: repository.clone(), forgotten, name, is_done, failed }
    }
}

impl BackupMonitor for PrunesAt {
    fn reading(&self, path: &Path) {
        if path.ends_with(self.name) && !self.is_done.swap(true, Ordering::SeqCst) {
            let forgotten = |_: &View| Ok::<_, cutpoint_storage::Error>(vec![self.forgotten]);
            cutpoint_repository::forget(&self.repository, forgotten).expect("it forgets");
            let storage = self.repository.storage();
            let data = || storage.list("data").expect("it lists");
            let before = data();
            prune_all(&self.repository);
            let is_gone = before.iter().any(|it| !data().contains(it));
            assert!(is_gone, "the prune deletes containers: {before:?}");
        }
    }

    fn problem(&self, path: &Path, message: &str) {
        self.failed.lock().expect("no panic").push(format!("{}: {message}", path.display()));
    }
}

impl CopyMonitor for PrunesAt {
    fn failed(&self, id: &OriginId, error: &Error) {
        self.failed.lock().expect("no panic").push(format!("{}: {error}", id.short()));
    }
}

/// Makes a repository with a snapshot of two large files, and one of the second file alone, in the
/// same containers.
fn with_shared_containers(folder: &Path) -> Arc<Repository> {
    let random = |seed| SplitMix64::bytes(seed, 3_000_000);
    fs::write(folder.join("a"), random(1)).expect("file");
    fs::write(folder.join("b"), random(2)).expect("file");
    fs::write(folder.join("c"), random(3)).expect("file");
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = init(&storage, &SeededEnvironment::new(1));
    backup(&repository, files(folder), &options(2), &()).expect("a backup");
    fs::remove_file(folder.join("b")).expect("removed");
    backup(&repository, files(folder), &options(2), &()).expect("a backup");
    repository
}

/// Rule R3: chunks that a prune of the source has moved are found in their new containers.
#[test]
fn copy_beside_a_prune_of_the_source_finds_moved_chunks() {
    let folder = tempfile::tempdir().expect("folder");
    let source = with_shared_containers(folder.path());
    let ids: Vec<TicketId> = reader(&source).view().snapshots().iter().map(|it| it.0).collect();
    let target = other();
    let monitor = PrunesAt::new(&source, ids[0], "a");
    let reader_before = reader(&source);
    let view = View::list(&target).expect("it lists");
    let rules = CopyRules::default();
    let plan = plan_copies(&reader_before, &target, &view, &ids[1..], rules, &monitor);
    let report = copy(&target, &plan.expect("a plan"), &options(2), &monitor).expect("a copy");
    assert_eq!(report.failed_count, 0, "{:?}", monitor.failed);
    assert!(monitor.is_done.load(Ordering::SeqCst), "it was pruned meanwhile");
    assert_eq!(*monitor.failed.lock().expect("no panic"), [""; 0]);
    let (source, target) = (reader(&source), reader(&target));
    let root = |reader: &Reader| reader.view().snapshots()[0].1.root.clone();
    let (left, right) = (root(&source), root(&target));
    assert!(entries(&source, &left, "") == entries(&target, &right, ""), "the entries");
    let copied = target.view().snapshots()[0].1.copied_from();
    assert!(copied.is_some(), "the copy is complete");
}

/// A snapshot that a prune removes while it is copied is no damage.
#[test]
fn snapshot_pruned_meanwhile_is_named() {
    let folder = tempfile::tempdir().expect("folder");
    let source = with_shared_containers(folder.path());
    let first = reader(&source).view().snapshots()[0].0;
    let target = other();
    let monitor = PrunesAt::new(&source, first, "a");
    let report = copy_with(&source, &target, &monitor).expect("a copy");
    let failed = monitor.failed.lock().expect("no panic").join("; ");
    assert!(failed.contains("removed by a prune meanwhile"), "{failed}");
    assert_eq!((report.saved.len(), report.failed_count), (1, 1), "the other one is copied");
    assert!(!failed.contains("not copied"), "no file is blamed: {failed}");
    assert_sound(&target);
}

/// Flips a bit in the middle of an object.
fn damage_one(storage: &dyn Storage, name: &str) {
    let mut bytes = storage.get(name).expect("it is there").to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    storage.delete(name).expect("it goes");
    storage.put_new(name, bytes.into()).expect("it comes back");
}

/// Flips a bit in each object of a folder of a repository.
fn damage(repository: &Arc<Repository>, folder: &str) {
    let storage = repository.storage();
    for (name, _) in storage.list(folder).expect("it lists") {
        damage_one(&**storage, &name);
    }
}

/// Collects what a copy reports.
#[derive(Default)]
struct Problems(Mutex<Vec<String>>);

impl BackupMonitor for Problems {
    fn problem(&self, path: &Path, message: &str) {
        self.0.lock().expect("no panic").push(format!("{}: {message}", path.display()));
    }
}

impl CopyMonitor for Problems {}

#[test]
fn damage_at_the_source_costs_the_files_in_it_only() {
    let folder = tempfile::tempdir().expect("folder");
    let source = with_shared_containers(folder.path());
    let second = reader(&source).view().snapshots()[1].0;
    // The folder is the same, but the copy of the second snapshot will lack a file.
    backup(&source, files(folder.path()), &options(2), &()).expect("a backup");
    damage(&source, "data");
    let (far, _) = from_far(&source);
    let near = source;
    let cases = [(&near, other()), (&near, like(&near)), (&far, other()), (&far, like(&near))];
    for (source, target) in cases {
        let monitor = Problems::default();
        let report = copy_with(source, &target, &monitor).expect("a copy");
        assert_eq!((report.saved.len(), report.failed_count), (3, 0), "{report:?}");
        let problems = monitor.0.into_inner().expect("no panic");
        assert!(problems.iter().all(|it| it.contains("authentication")), "{problems:?}");
        let of_second = format!("{}:{}/", second.short(), folder.path().display());
        let named: Vec<_> = problems.iter().filter(|it| it.starts_with(&of_second)).collect();
        assert!(named.len() == 1 || named.len() == 2, "{problems:?}");
        let (from, to) = (reader(source), reader(&target));
        let (view, expected) = (to.view(), from.view());
        for ((_, copy), (_, original)) in view.snapshots().iter().zip(expected.snapshots()) {
            assert_eq!(copy.copied_from(), None, "it is not complete");
            assert!(copy.original().is_some(), "but it is a copy");
            assert!(copy.statistics.problem_count > original.statistics.problem_count);
            for (path, entry, bytes) in entries(&to, &copy.root, "") {
                if entry.kind == EntryKind::File {
                    let name = path.rsplit('/').next().expect("a name");
                    let seed = 1 + u64::from(name.as_bytes()[0] - b'a');
                    assert!(bytes == SplitMix64::bytes(seed, 3_000_000), "{path} is whole");
                }
            }
        }
        let count = |reader: &Reader| -> usize {
            let view = reader.view();
            view.snapshots().iter().map(|it| as_usize(measure(reader, &it.1.root).0)).sum()
        };
        assert_eq!(count(&to) + problems.len(), 7, "what is not reported is there");
        assert_sound(&target);
        // The lost files are tried again, and nothing is stored if they are still lost.
        let monitor = Problems::default();
        let again = copy_with(source, &target, &monitor).expect("a copy");
        assert_eq!((again.saved.len(), again.unchanged_count, again.stored_bytes), (0, 3, 0));
        assert_eq!(monitor.0.into_inner().expect("no panic").len(), problems.len(), "reported");
    }
}

/// The tree of a folder cannot be read. The other folders are copied, and the folder stays as a
/// folder that lacks something.
#[test]
fn damaged_tree_costs_its_folder_only() {
    let folder = tempfile::tempdir().expect("folder");
    let fill = |name: &str| {
        fs::create_dir(folder.path().join(name)).expect("folder");
        for number in 0..300 {
            let path = folder.path().join(name).join(format!("a file with the number {number}"));
            fs::write(path, format!("{name} {number}")).expect("file");
        }
    };
    fill("first");
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let source = init(&storage, &SeededEnvironment::new(1));
    backup(&source, files(folder.path()), &options(2), &()).expect("a backup");
    let of_first = storage.list("meta").expect("it lists");
    fill("second");
    let report = backup(&source, files(folder.path()), &options(2), &()).expect("a backup");
    let second = report.snapshot.expect("a snapshot");
    for (name, _) in &of_first {
        damage_one(&*storage, name);
    }
    let (target, monitor) = (other(), Problems::default());
    let report = copy_with(&source, &target, &monitor).expect("a copy");
    assert_eq!((report.saved.len(), report.failed_count), (1, 1), "no root, no copy: {report:?}");
    let problems = monitor.0.into_inner().expect("no panic");
    let lost = format!("{}:{}/first: not copied", second.short(), folder.path().display());
    assert!(problems.len() == 1 && problems[0].starts_with(&lost), "{problems:?}");
    let target_reader = reader(&target);
    let view = target_reader.view();
    let copied = view.snapshots()[0].1;
    assert!(copied.copied_from().is_none() && copied.original().is_some(), "it lacks something");
    let found = entries(&target_reader, &copied.root, "");
    let named = |name: &str| found.iter().filter(|it| it.0.contains(name)).count();
    assert_eq!((named("/first"), named("/second/")), (1, 300), "the folder, and the other files");
    let lacking = found.iter().find(|it| it.0.ends_with("/first")).expect("the folder");
    assert!(lacking.1.defect.is_some(), "it is marked");
    assert_sound(&target);
}
