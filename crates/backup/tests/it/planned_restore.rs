//! A planned restore has the same result as one without a plan, with fewer requests.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cutpoint_backup::restore::{RestoreMonitor, RestoreOptions, RestoreReport, restore};
use cutpoint_backup::save::backup;
use cutpoint_repository::format::HEADER_LEN;
use cutpoint_repository::read::{Entries, ReadStatistics, TreesAheadEnd};
use cutpoint_repository::{Content, EntryKind, Reader, Repository, View};
use cutpoint_storage::{Layer, Memory, ObjectRange, Result, Storage};
use cutpoint_testing::SplitMix64;

use crate::backup_options::{files, options};
use crate::folder_comparison::compare;
use crate::seeded_repository::{SeededEnvironment, init, unlock};

/// A storage that delays reads of one folder, and counts the concurrent ones.
#[derive(Debug)]
struct Far {
    memory: Memory,
    folder: &'static str,
    pause: Duration,
    waiting_count: AtomicU64,
    waiting_count_max: AtomicU64,
    /// The maximum number of ranges of the folder that were asked for together.
    together_max: AtomicU64,
    /// The number of reads of the header of a container of data.
    header_count: AtomicU64,
}

impl Far {
    /// Creates a storage that delays reads of data.
    fn new(pause: Duration) -> Far {
        Far::of("data/", pause)
    }

    fn of(folder: &'static str, pause: Duration) -> Far {
        let (waiting_count, waiting_count_max) = (AtomicU64::new(0), AtomicU64::new(0));
        let (memory, header_count) = (Memory::new(), AtomicU64::new(0));
        let together_max = AtomicU64::new(0);
        Far { memory, folder, pause, waiting_count, waiting_count_max, together_max, header_count }
    }
}

impl Layer for Far {
    fn below(&self) -> &dyn Storage {
        &self.memory
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        if name.starts_with(self.folder) && !self.pause.is_zero() {
            let waiting_count = self.waiting_count.fetch_add(1, Relaxed) + 1;
            self.waiting_count_max.fetch_max(waiting_count, Relaxed);
            std::thread::sleep(self.pause);
            self.waiting_count.fetch_sub(1, Relaxed);
        }
        if name.starts_with("data/") && (offset, len) == (0, HEADER_LEN) {
            self.header_count.fetch_add(1, Relaxed);
        }
        self.memory.get_range(name, offset, len)
    }

    fn get_ranges(&self, wanted: &[ObjectRange]) -> Vec<Result<Bytes>> {
        let count = wanted.iter().filter(|range| range.name.starts_with(self.folder)).count();
        self.together_max.fetch_max(count as u64, Relaxed);
        wanted
            .iter()
            .map(|range| Layer::get_range(self, &range.name, range.offset, range.len))
            .collect()
    }

    fn requests_ahead_max(&self) -> usize {
        4
    }
}

/// Saves five versions of a large file in which some bytes change each day, a storage-sized file,
/// holes, many small files, and two names of one file.
fn save_versions(storage: &Arc<dyn Storage>, root: &Path) -> Arc<Repository> {
    let repository = init(storage, &SeededEnvironment::new(1));
    let mut random = SplitMix64::new(3);
    let mut large: Vec<u8> = random.take(9_500_000).iter().map(|byte| byte & 15).collect();
    large[4_000_000..5_000_000].fill(0);
    let mut middle: Vec<u8> = random.take(900_000).iter().map(|byte| byte & 31).collect();
    fs::create_dir(root.join("small")).expect("a folder");
    for number in 0..40 {
        let path = root.join(format!("small/{number}"));
        fs::write(path, random.take(300 * number)).expect("a file");
    }
    fs::hard_link(root.join("small/7"), root.join("seven")).expect("a link");
    for day in 0..5 {
        for bytes in [&mut large, &mut middle] {
            for _ in 0..bytes.len() / 30_000 {
                let at = random.below(bytes.len() - 20);
                bytes[at..at + 20].copy_from_slice(&random.take(20));
            }
        }
        fs::write(root.join("large"), &large).expect("a file");
        fs::write(root.join("middle"), &middle).expect("a file");
        let report = backup(&repository, files(root), &options(2), &()).expect("it is saved");
        assert!(day == 0 || report.statistics.delta_chunk_count > 100, "day {day}");
    }
    repository
}

#[derive(Default)]
struct Problems(Mutex<Vec<(PathBuf, String)>>);

impl RestoreMonitor for Problems {
    fn problem(&self, path: &Path, message: &str) {
        let mut problems = self.0.lock().expect("no thread panics");
        problems.push((path.to_path_buf(), message.to_owned()));
    }
}

struct RestoreRun {
    target: tempfile::TempDir,
    stats: RestoreReport,
    read: ReadStatistics,
    problems: Vec<(PathBuf, String)>,
}

fn restore_last(repository: &Arc<Repository>, options: &RestoreOptions) -> RestoreRun {
    let view = View::list(repository).expect("it lists");
    let root = view.snapshots().last().expect("a snapshot").1.root.clone();
    let reader = Reader::open(repository.clone(), view).expect("a reader");
    let target = tempfile::tempdir().expect("a target");
    let problems = Problems::default();
    let stats = restore(&reader, &root, target.path(), options, &problems).expect("it ends");
    let mut problems = problems.0.into_inner().expect("no thread panics");
    problems.sort();
    RestoreRun { target, stats, read: reader.statistics(), problems }
}

/// Returns the options of a restore whose plan may hold `plan_bytes_max` bytes. A maximum of 0
/// stands for no plan.
fn holding(plan_bytes_max: usize, threads: usize) -> RestoreOptions {
    RestoreOptions { plan_bytes_max, threads, ..RestoreOptions::default() }
}

fn source_in(root: &Path, target: &Path) -> PathBuf {
    target.join(root.strip_prefix("/").expect("absolute"))
}

#[test]
fn plan_saves_requests_and_changes_nothing_else() {
    let root = tempfile::tempdir().expect("a folder");
    // Requests gather during the delay of others. Without a delay, there may be one request per
    // region.
    let storage: Arc<dyn Storage> = Arc::new(Far::new(Duration::from_millis(1)));
    let repository = save_versions(&storage, root.path());
    let mut unplanned = None;
    for (plan_bytes_max, threads) in [(0, 1), (1, 1), (500_000, 2), (96 << 20, 1), (96 << 20, 4)] {
        let case = format!("{plan_bytes_max} bytes, {threads} threads");
        let restored = restore_last(&repository, &holding(plan_bytes_max, threads));
        assert_eq!(restored.problems, [], "{case}");
        compare(root.path(), &source_in(root.path(), restored.target.path()));
        let (stats, read) = (restored.stats, restored.read);
        assert_eq!(read.repeated_region_count, 0, "{case}: all fits into what is kept");
        let (stats_before, read_before) = unplanned.get_or_insert((stats, read));
        assert_eq!(stats, *stats_before, "{case}");
        assert_eq!(read.region_count, read_before.region_count, "{case}");
        if plan_bytes_max == 0 {
            // The regions of a small container come with its table of contents.
            assert!(read.request_count <= read.region_count, "{case}: {read:?}");
            assert!(read.request_count * 10 > read.region_count * 9, "{case}: {read:?}");
        } else if plan_bytes_max > 1 << 20 {
            assert!(read.request_count * 3 < read.region_count, "{case}: {read:?}");
        }
    }
}

/// Each piece of a file that is larger than the plan is announced once there is room for it.
#[test]
fn file_larger_than_the_plan_takes_few_requests() {
    let root = tempfile::tempdir().expect("a folder");
    fs::write(root.path().join("large"), SplitMix64::bytes(5, 40 << 20)).expect("a file");
    let far = Arc::new(Far::new(Duration::from_millis(1)));
    let storage: Arc<dyn Storage> = far.clone();
    let repository = init(&storage, &SeededEnvironment::new(1));
    backup(&repository, files(root.path()), &options(2), &()).expect("it is saved");
    let container_count = storage.list("data").expect("memory lists").len() as u64;
    far.header_count.store(0, Relaxed);
    for threads in [1, 2] {
        let restored = restore_last(&repository, &holding(16 << 20, threads));
        assert_eq!(restored.problems, [], "{threads} threads");
        let read = restored.read;
        assert!(read.request_count * 3 < read.region_count, "{threads} threads: {read:?}");
        // Only with its table of contents.
        assert_eq!(far.header_count.swap(0, Relaxed), container_count, "{threads} threads");
    }
}

#[test]
fn far_storage_gets_concurrent_requests() {
    let root = tempfile::tempdir().expect("a folder");
    let memory: Arc<dyn Storage> = Arc::new(Memory::new());
    save_versions(&memory, root.path());
    let mut counts = Vec::new();
    for plan_bytes_max in [0, 96 << 20] {
        let far = Arc::new(Far::new(Duration::from_millis(3)));
        for (name, bytes) in crate::seeded_repository::contents(&*memory) {
            far.memory.put_new(&name, bytes.into()).expect("memory takes it");
        }
        let storage: Arc<dyn Storage> = far.clone();
        let environment = SeededEnvironment::new(9);
        let repository =
            Arc::new(Repository::open(storage, environment, &unlock()).expect("it opens"));
        let restored = restore_last(&repository, &holding(plan_bytes_max, 1));
        assert_eq!(restored.problems, [], "{plan_bytes_max}");
        counts.push(far.waiting_count_max.load(Relaxed));
    }
    assert!(counts[0] <= 2 && counts[1] >= 3, "waiting at once, at most: {counts:?}");
}

/// Saves folders in folders, some of which change from one snapshot to the next, so that their trees are
/// in many containers.
fn save_folders(storage: &Arc<dyn Storage>, root: &Path) -> Arc<Repository> {
    let repository = init(storage, &SeededEnvironment::new(1));
    for number in 0..64 {
        let folder = root.join(format!("{}/{}/{}", number % 4, number / 4 % 4, number / 16));
        fs::create_dir_all(&folder).expect("folders");
        fs::write(folder.join("file"), SplitMix64::bytes(number, 100)).expect("a file");
        // The tree of this folder is too long for an entry of the folder above, whose tree is not.
        for letter in ["a", "b", "c", "d", "e"] {
            fs::write(folder.join(format!("new {}", letter.repeat(200))), "").expect("a file");
        }
    }
    for day in 0..24 {
        let folder = root.join(format!("{}/{}/{}", day % 4, day / 4 % 4, day % 3));
        fs::write(folder.join("new"), SplitMix64::bytes(day, 200)).expect("a file");
        backup(&repository, files(root), &options(2), &()).expect("it is saved");
    }
    repository
}

/// Walks through folders that `tree` opens, and leaves out some of them if `skips` is set.
fn walk<'a>(
    tree: &dyn Fn(&Content) -> Entries<'a>,
    content: &Content,
    skips: bool,
    found: &mut Vec<String>,
) {
    for entry in tree(content) {
        match entry {
            Ok(entry) => {
                found.push(String::from_utf8_lossy(&entry.name).into_owned());
                // Those above have longer names, and depend on the machine.
                let is_of_test = entry.name.len() == 1;
                let is_skipped = skips && is_of_test && found.len().is_multiple_of(3);
                if entry.kind == EntryKind::Folder && !is_skipped {
                    walk(tree, &entry.content, skips, found);
                    found.push("..".to_owned());
                }
            }
            Err(error) => found.push(error.to_string()),
        }
    }
}

/// Damages a container of trees without which the walk finds something else, but not much less.
fn damage_some_folders(memory: &Memory, undamaged: &[String], walk: impl Fn() -> Vec<String>) {
    for (name, _) in memory.list("meta").expect("memory lists") {
        let bytes = memory.get(&name).expect("it was listed");
        memory.delete(&name).expect("memory deletes");
        memory.put_new(&name, vec![0; bytes.len()].into()).expect("memory takes it");
        let found = walk();
        if found != undamaged && found.len() > 50 {
            return;
        }
        memory.delete(&name).expect("memory deletes");
        memory.put_new(&name, bytes).expect("memory takes it");
    }
    panic!("no container has only some of the folders");
}

#[test]
fn trees_read_ahead_are_those_of_the_walk() {
    let root = tempfile::tempdir().expect("a folder");
    let far = Arc::new(Far::of("meta/", Duration::from_millis(1)));
    let storage: Arc<dyn Storage> = far.clone();
    let repository = save_folders(&storage, root.path());
    let view = View::list(&repository).expect("it lists");
    let root = view.snapshots().last().expect("a snapshot").1.root.clone();
    let open = || Reader::open(repository.clone(), view.clone()).expect("a reader");
    let walk_plainly = |skips| {
        let (reader, mut found) = (open(), Vec::new());
        walk(&|content| reader.tree(content), &root, skips, &mut found);
        found
    };
    let undamaged = walk_plainly(false);
    for (skips, is_damaged) in [(false, false), (true, false), (false, true)] {
        let case = format!("skips: {skips}, is damaged: {is_damaged}");
        if is_damaged {
            damage_some_folders(&far.memory, &undamaged, || walk_plainly(false));
        }
        let expected = walk_plainly(skips);
        assert!(expected.len() > 50, "{case}: {expected:?}");
        let reader = open();
        let mut found = Vec::new();
        let ahead = reader.trees_ahead(&root, 1 << 20).expect("it is far");
        far.together_max.store(0, Relaxed);
        std::thread::scope(|scope| {
            let _end = TreesAheadEnd(&ahead);
            scope.spawn(|| ahead.run());
            walk(&|content| ahead.tree(content), &root, skips, &mut found);
        });
        assert_eq!(found, expected, "{case}");
        assert_eq!(found != undamaged, skips || is_damaged, "{case}");
        let at_once = far.together_max.load(Relaxed);
        assert!(at_once >= 3, "{case}: {at_once} ranges together");
    }
}

#[test]
fn restore_reads_trees_ahead_unless_little_is_selected() {
    let root = tempfile::tempdir().expect("a folder");
    let far = Arc::new(Far::of("meta/", Duration::from_millis(1)));
    let storage: Arc<dyn Storage> = far.clone();
    let repository = save_folders(&storage, root.path());
    let include = vec!["file".to_owned(), "new*".to_owned()];
    let some = RestoreOptions { include, ..holding(96 << 20, 1) };
    for (options, reads_ahead) in [(holding(96 << 20, 1), true), (some, false)] {
        far.together_max.store(0, Relaxed);
        let restored = restore_last(&repository, &options);
        assert_eq!(restored.problems, [], "reads ahead: {reads_ahead}");
        compare(root.path(), &source_in(root.path(), restored.target.path()));
        let at_once = far.together_max.load(Relaxed);
        assert_eq!(at_once >= 3, reads_ahead, "{at_once} ranges together");
    }
}

/// Damage is found by the thread that reads ahead, and reported by the thread that writes the file.
#[test]
fn damage_is_reported_as_without_a_plan() {
    let root = tempfile::tempdir().expect("a folder");
    let storage: Arc<dyn Storage> = Arc::new(Far::new(Duration::ZERO));
    let repository = save_versions(&storage, root.path());
    let containers = storage.list("data").expect("memory lists");
    let (name, len) = containers.first().expect("a container");
    let mut bytes = storage.get(name).expect("memory has it").to_vec();
    bytes[usize::try_from(*len).expect("small") / 3] ^= 1;
    storage.delete(name).expect("memory deletes");
    storage.put_new(name, bytes.into()).expect("memory takes it");
    let without = restore_last(&repository, &holding(0, 1));
    assert!(!without.problems.is_empty(), "something is damaged");
    for threads in [1, 4] {
        let with = restore_last(&repository, &holding(96 << 20, threads));
        assert_eq!(with.stats, without.stats, "{threads} threads");
        let paths = |restored: &RestoreRun| -> Vec<PathBuf> {
            restored.problems.iter().map(|(path, _)| path.clone()).collect()
        };
        assert_eq!(paths(&with), paths(&without), "{threads} threads");
        for (path, message) in &with.problems {
            assert!(message.contains("authentication failed"), "{}: {message}", path.display());
            let file = with.target.path().join(path.strip_prefix("/").unwrap_or(path));
            assert!(!file.exists(), "{} is not restored", path.display());
        }
    }
    storage.delete(name).expect("memory deletes");
    let gone = restore_last(&repository, &holding(96 << 20, 2));
    assert!(gone.problems.len() >= without.problems.len(), "{:?}", gone.problems);
}

/// A monitor that panics once it is told of progress.
struct Panicking;

impl RestoreMonitor for Panicking {
    fn progress(&self, _: u64, _: u64) {
        panic!("the monitor panics");
    }
}

/// The jobs that were sent to the workers take room that nothing frees.
#[test]
fn restore_whose_workers_panic_ends() {
    let root = tempfile::tempdir().expect("a folder");
    for number in 0..400 {
        let bytes = SplitMix64::bytes(number, 40_000);
        fs::write(root.path().join(number.to_string()), bytes).expect("a file");
    }
    let storage: Arc<dyn Storage> = Arc::new(Far::new(Duration::from_millis(1)));
    let repository = init(&storage, &SeededEnvironment::new(1));
    backup(&repository, files(root.path()), &options(2), &()).expect("it is saved");
    for plan_bytes_max in [1, 500_000, 4 << 20] {
        let (repository, (ended, wait)) = (repository.clone(), channel());
        std::thread::spawn(move || {
            let view = View::list(&repository).expect("it lists");
            let root = view.snapshots().last().expect("a snapshot").1.root.clone();
            let reader = Reader::open(repository, view).expect("a reader");
            let target = tempfile::tempdir().expect("a target");
            let options = holding(plan_bytes_max, 2);
            let restored = catch_unwind(AssertUnwindSafe(|| {
                restore(&reader, &root, target.path(), &options, &Panicking)
            }));
            ended.send(restored.is_err()).expect("it is awaited");
        });
        let panicked = wait.recv_timeout(Duration::from_secs(60));
        assert_eq!(panicked, Ok(true), "{plan_bytes_max} bytes: it ends by a panic");
    }
}
