//! The view cache: a process that has seen a commit or prune record does not read it again, and a
//! damaged, exchanged or foreign file costs requests and nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::support::backup::{back_up, init_by, restore_all, unlock};
use crate::support::machine::Machine;
use bytes::Bytes;
use cutpoint_repository::verify::check::{CheckOptions, check};
use cutpoint_repository::{Repository, View};
use cutpoint_storage::{Layer, Memory, Result, Storage};
use tempfile::TempDir;

/// Number of snapshots of the repository.
const SNAPSHOTS: u64 = 5;

/// A storage with a long way, which counts the commits and prune records that are read.
#[derive(Debug)]
struct Remote {
    below: Arc<dyn Storage>,
    reads: AtomicU64,
}

impl Remote {
    fn over(below: Arc<dyn Storage>) -> Arc<Remote> {
        Arc::new(Remote { below, reads: AtomicU64::new(0) })
    }

    /// Returns the number of reads since the last call.
    fn take_reads(&self) -> u64 {
        self.reads.swap(0, Ordering::Relaxed)
    }
}

impl Layer for Remote {
    fn below(&self) -> &dyn Storage {
        &*self.below
    }

    fn requests_ahead_max(&self) -> usize {
        8
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        if name.starts_with("commits/") || name.starts_with("prunes/") {
            self.reads.fetch_add(1, Ordering::Relaxed);
        }
        self.below.get_at_most(name, len_max)
    }
}

/// A repository with [`SNAPSHOTS`] commits, and a cache that has them all.
struct Cached {
    storage: Arc<Remote>,
    folder: TempDir,
}

impl Cached {
    fn new() -> Cached {
        Cached::by(0)
    }

    /// Creates another repository for each process, whose random numbers differ.
    fn by(process: u32) -> Cached {
        let memory: Arc<dyn Storage> = Arc::new(Memory::new());
        let storage = Remote::over(memory.clone());
        let repository = init_by(memory, process).expect("memory takes a repository");
        let repository = Arc::new(repository);
        for number in 1..=SNAPSHOTS {
            back_up(&repository, &[number], false).expect("nothing fails here");
        }
        let cached = Cached { storage, folder: TempDir::new().expect("made") };
        assert_eq!(cached.reads_of_a_listing(), SNAPSHOTS, "each is read once");
        assert_eq!(cached.files().len() as u64, SNAPSHOTS, "and kept");
        cached
    }

    /// The repository as another process of this machine has it.
    fn open(&self) -> Arc<Repository> {
        static PROCESSES: AtomicU32 = AtomicU32::new(2);
        let process = PROCESSES.fetch_add(1, Ordering::Relaxed);
        let storage: Arc<dyn Storage> = self.storage.clone();
        let repository = Repository::open(storage, Machine::new(process), &unlock());
        Arc::new(repository.expect("it opens").with_cache(self.folder.path().to_path_buf()))
    }

    /// Returns the number of commits and records that a new process reads to list all of them.
    fn reads_of_a_listing(&self) -> u64 {
        self.storage.take_reads();
        let view = View::list(&self.open()).expect("it lists");
        assert_eq!(view.commits.len() as u64, SNAPSHOTS, "all are in the view");
        assert!(view.unreadable.is_empty(), "{:?}", view.unreadable);
        self.storage.take_reads()
    }

    fn view_folder(&self) -> PathBuf {
        self.open().cache().expect("it has one").join("view")
    }

    /// Returns the files of the cached commits, sorted.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.view_folder().join("commits")).expect("it lists");
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("it lists").path()).collect();
        paths.sort();
        paths
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn second_process_reads_no_commit_again() {
    let cached = Cached::new();
    assert_eq!(cached.reads_of_a_listing(), 0, "all are in files");
    let repository = cached.open();
    back_up(&repository, &[9], false).expect("nothing fails here");
    let reads = cached.storage.take_reads();
    assert!(reads <= 1, "a run reads at most its own commit: {reads}");
}

#[test]
fn process_without_files_reads_each_commit_once() {
    let cached = Cached::new();
    let storage: Arc<dyn Storage> = cached.storage.clone();
    let repository = Repository::open(storage, Machine::new(99), &unlock()).expect("it opens");
    cached.storage.take_reads();
    for _ in 0..3 {
        View::list(&repository).expect("it lists");
    }
    assert_eq!(cached.storage.take_reads(), SNAPSHOTS);
}

#[test]
fn damaged_file_costs_a_request() {
    let changes: [fn(&mut Vec<u8>); 4] = [
        // A byte of the header, and one of the sealed body.
        |bytes| bytes[30] ^= 1,
        |bytes| bytes[90] ^= 0x40,
        |bytes| bytes.truncate(bytes.len() / 2),
        Vec::clear,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let cached = Cached::new();
        let file = &cached.files()[1];
        let mut bytes = fs::read(file).expect("it is there");
        change(&mut bytes);
        fs::write(file, bytes).expect("written");
        assert_eq!(cached.reads_of_a_listing(), 1, "change {number}: the damaged one");
        assert_eq!(cached.reads_of_a_listing(), 0, "change {number}: the file is whole again");
        assert_eq!(restore_all(&cached.open()).expect("all is well") as u64, SNAPSHOTS);
    }
}

/// A commit that takes the place of another one, of the same repository or of another one, does not
/// open under the other name.
#[test]
fn exchanged_files_cost_requests() {
    let cached = Cached::new();
    let files = cached.files();
    let (first, second) =
        (fs::read(&files[0]).expect("it is there"), fs::read(&files[1]).expect("it is there"));
    fs::write(&files[0], &second).expect("written");
    fs::write(&files[1], &first).expect("written");
    assert_eq!(cached.reads_of_a_listing(), 2, "two in the place of each other");

    let (another, files) = (Cached::by(50), cached.files());
    let (other, len) = (another.files(), fs::read(&files[2]).expect("it is there").len());
    let foreign = fs::read(&other[2]).expect("it is there");
    assert_eq!(foreign.len(), len, "both are padded alike");
    fs::write(&files[2], foreign).expect("written");
    assert_eq!(cached.reads_of_a_listing(), 1, "one of another repository");
}

#[test]
fn files_of_deleted_commits_are_removed() {
    let cached = Cached::new();
    let name = cached.storage.below.list("commits").expect("memory lists")[0].0.clone();
    cached.storage.below.delete(&name).expect("memory deletes");
    let view = View::list(&cached.open()).expect("it lists");
    assert_eq!(view.commits.len() as u64, SNAPSHOTS - 1, "only the listing counts");
    assert_eq!(cached.files().len() as u64, SNAPSHOTS - 1);
}

#[test]
fn cache_is_private() {
    let cached = Cached::new();
    let folder = cached.view_folder();
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("commits")), 0o700);
    cached.files().iter().for_each(|file| assert_eq!(mode(file), 0o600));
}

/// A check must notice a commit that is damaged in the storage, although the cache has it.
#[test]
fn check_reads_the_storage_itself() {
    let cached = Cached::new();
    let name = cached.storage.below.list("commits").expect("memory lists")[2].0.clone();
    let mut bytes = cached.storage.below.get(&name).expect("it is there").to_vec();
    bytes[90] ^= 1;
    cached.storage.below.replace(&name, bytes.into()).expect("memory replaces");
    let repository = cached.open();
    let view = View::list(&repository).expect("it lists");
    assert_eq!(view.commits.len() as u64, SNAPSHOTS, "the cache has it");
    let report = check(&repository, &CheckOptions::default(), &()).expect("it runs");
    assert!(report.error_count > 0, "the check does not use the cache");
    let view = View::list(&repository).expect("it lists");
    assert_eq!(view.unreadable.len(), 1, "nor does anything behind it");
}
