//! Copies of snapshots between repositories, and snapshots without some entries.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cutpoint_backup::copy::{
    CopyMonitor, CopyReport, CopyRules, copy, plan_copies, plan_rewrites, rewrite,
};
use cutpoint_backup::save::{BackupMonitor, BackupProgress, backup};
use cutpoint_repository::verify::check::{CheckOptions, Portion, check};
use cutpoint_repository::{
    CipherSuite, Class, Content, Entry, EntryKind, InitOptions, Reader, Repository, Snapshot,
    TicketId, Unlock, View,
};
use cutpoint_storage::{Environment, Kind, Memory, Storage};
use cutpoint_testing::SplitMix64;

use crate::backup_options::{files, options};
use crate::long_runs::{Ages, LONG_LEN};
use crate::manual_clock::make;
use crate::seeded_repository::{SeededEnvironment, init};

/// Creates a repository of another form: not encrypted, with other cut-points and no delta chunks.
fn other() -> Arc<Repository> {
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
fn like(source: &Repository) -> Arc<Repository> {
    let options = source.comparable_options().expect("a repository with a chunk secret");
    create(&crate::seeded_repository::unlock(), &options)
}

fn create(unlock: &Unlock, options: &InitOptions) -> Arc<Repository> {
    let environment: Arc<dyn Environment> = SeededEnvironment::new(77_000);
    let made = Repository::init(Arc::new(Memory::new()), environment, unlock, options);
    Arc::new(made.expect("a new repository"))
}

fn reader(repository: &Arc<Repository>) -> Arc<Reader> {
    let view = View::list(repository).expect("it lists");
    Arc::new(Reader::open(repository.clone(), view).expect("it opens"))
}

/// Copies every snapshot that `target` lacks.
fn copy_all(source: &Arc<Repository>, target: &Arc<Repository>) -> CopyReport {
    copy_with(source, target, &()).expect("a copy")
}

fn copy_with(
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
fn entries(reader: &Reader, tree: &Content, path: &str) -> Vec<(String, Entry, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in reader.tree(tree) {
        let mut entry = entry.expect("an entry");
        let content = std::mem::replace(&mut entry.content, Content::Empty);
        let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
        let is_folder = entry.kind == EntryKind::Folder;
        let bytes = match &content {
            Content::Raw(bytes) => bytes.clone(),
            content if !is_folder => bytes_of(reader, content),
            _ => Vec::new(),
        };
        all.push((path.clone(), entry, bytes));
        if is_folder {
            all.extend(entries(reader, &content, &path));
        }
    }
    all
}

/// Returns the bytes of a file, in which each hole is one `h` for 4096 bytes.
fn bytes_of(reader: &Reader, content: &Content) -> Vec<u8> {
    use cutpoint_repository::format::recipe::Segment;
    let mut bytes = Vec::new();
    for segment in reader.segments(content) {
        match segment.expect("a segment") {
            Segment::Hole { length } => bytes.extend(vec![b'h'; (length / 4096) as usize]),
            Segment::Zeros { length } => bytes.extend(vec![0; length as usize]),
            Segment::Chunk { fingerprint, offset, length } => {
                let chunk = reader.chunk(Class::Data, &fingerprint).expect("a chunk");
                bytes.extend(&chunk[offset as usize..(offset + length) as usize]);
            }
        }
    }
    bytes
}

/// Returns the parts of a snapshot that a copy must keep.
fn kept(snapshot: &Snapshot) -> Snapshot {
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
fn assert_same_snapshots(source: &Arc<Repository>, target: &Arc<Repository>) {
    let (source, target) = (reader(source), reader(target));
    let (left, right) = (source.view(), target.view());
    let (left, right) = (left.snapshots(), right.snapshots());
    assert_eq!(left.len(), right.len(), "the number of snapshots");
    for ((id, a), (_, b)) in left.into_iter().zip(right) {
        let origin = b.copied_from().expect("a copy");
        assert_eq!(origin.snapshot, id, "origin");
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

fn assert_sound(repository: &Arc<Repository>) {
    let options = CheckOptions { read_data: Some(Portion::All), ..CheckOptions::default() };
    let report = check(repository, &options, &()).expect("a check");
    assert_eq!(report.error_count, 0, "{report:?}");
}

/// Makes a repository with two snapshots, the second of which has one changed file.
fn source(folder: &Path) -> Arc<Repository> {
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
    backup(&target, files(folder.path()), &options(2), &()).expect("a backup");
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

/// Stops when a number of bytes has been put.
struct StopAt(u64, AtomicU64);

impl BackupMonitor for StopAt {
    fn progress(&self, progress: &BackupProgress) {
        self.1.fetch_max(progress.statistics.read_bytes, Ordering::SeqCst);
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

#[test]
fn rewritten_snapshots_lack_the_path_and_keep_the_rest() {
    let folder = tempfile::tempdir().expect("folder");
    let repository = source(folder.path());
    let reader_before = reader(&repository);
    let view = reader_before.view();
    let all: Vec<TicketId> = view.snapshots().iter().map(|(id, _)| *id).collect();
    let exclude = ["folder 1/".to_owned(), "large".to_owned(), "absent".to_owned()];
    let plan = plan_rewrites(&reader_before, &all, &exclude, &()).expect("a plan");
    assert_eq!(plan.rewrites.len(), 2, "both snapshots have it");
    assert_eq!(plan.unmatched.iter().collect::<Vec<_>>(), ["absent"], "a pattern without effect");
    let report = rewrite(&repository, &plan, &options(2), &()).expect("it rewrites");
    assert_eq!((report.read_bytes, report.new_bytes), (0, 0), "no file is read: {report:?}");
    assert_sound(&repository);
    let reader_after = reader(&repository);
    let view = reader_after.view();
    for (old, new) in &report.saved {
        let of = |id: &TicketId| view.commits[id].snapshot().expect("a snapshot").clone();
        let (old, new) = (of(old), of(new));
        let is_kept = |path: &str| !path.contains("/folder 1") && !path.ends_with("/large");
        let mut expected = entries(&reader_after, &old.root, "");
        expected.retain(|(path, ..)| is_kept(path));
        let found = entries(&reader_after, &new.root, "");
        assert_eq!(found.len(), expected.len(), "the number of entries");
        assert!(found == expected, "the entries");
        let count = found.iter().filter(|it| it.1.kind == EntryKind::File).count() as u64;
        assert_eq!(new.statistics.file_count, count, "the number of files");
        let (mut old, mut new) = (kept(&old), kept(&new));
        (old.statistics, new.statistics) = Default::default();
        assert_eq!(old, new, "times, host and tags");
    }
    let again = plan_rewrites(&reader_after, &[report.saved[0].1], &exclude, &()).expect("a plan");
    assert_eq!((again.rewrites.len(), again.unchanged_count), (0, 1), "nothing is left to remove");
}
