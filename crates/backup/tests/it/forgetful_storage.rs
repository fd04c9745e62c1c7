//! Backups to a storage that restarts and has lost an object that it had acknowledged.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use cutpoint_backup::restore::{RestoreOptions, restore};
use cutpoint_backup::save::{BackupMonitor, BackupReport, Source, backup};
use cutpoint_repository::{Reader, Repository, View};
use cutpoint_storage::{Kind, Layer, Memory, Put, Result, Storage};
use cutpoint_testing::SplitMix64;

use crate::backup_options::{files, options};
use crate::folder_comparison::compare;
use crate::seeded_repository::{SeededEnvironment, init};

/// The length of what is saved, in bytes: several containers.
const LEN: usize = 10 << 20;

/// A storage that loses the first objects of a folder as soon as it has acknowledged them.
#[derive(Debug)]
struct Forgetful {
    memory: Memory,
    folder: &'static str,
    /// The number of objects that it still loses.
    left: AtomicU64,
    had_outage: AtomicBool,
    /// Set if the storage restarts during the commit, and loses a container.
    restarts_at_commit: bool,
}

impl Layer for Forgetful {
    fn below(&self) -> &dyn Storage {
        &self.memory
    }

    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        if self.restarts_at_commit && name.starts_with("commits/") {
            let (lost, _) = self.memory.list("data")?.swap_remove(0);
            self.memory.delete(&lost)?;
            self.had_outage.store(true, Ordering::SeqCst);
        }
        let put = self.memory.put_new(name, bytes)?;
        let lose = |left: u64| left.checked_sub(1);
        if name.starts_with(self.folder)
            && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lose).is_ok()
        {
            self.memory.delete(name)?;
        }
        Ok(put)
    }

    fn had_outage(&self) -> bool {
        self.had_outage.load(Ordering::SeqCst)
    }
}

/// The number of messages that objects were lost.
#[derive(Default)]
struct Losses(AtomicU64);

impl BackupMonitor for Losses {
    fn lost(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Saves `source` to a storage that loses `lost_count` objects of `folder`. Returns the repository,
/// the result, and the number of messages.
fn save(
    source: Source,
    folder: &'static str,
    lost_count: u64,
    had_outage: bool,
) -> (Arc<Repository>, Result<BackupReport>, u64) {
    let (left, had_outage) = (AtomicU64::new(lost_count), AtomicBool::new(had_outage));
    let memory = Memory::new();
    let storage = Forgetful { memory, folder, left, had_outage, restarts_at_commit: false };
    save_to(storage, source)
}

/// Saves `source` to `storage`. Returns the same as [`save`].
fn save_to(storage: Forgetful, source: Source) -> (Arc<Repository>, Result<BackupReport>, u64) {
    let storage: Arc<dyn Storage> = Arc::new(storage);
    let repository = init(&storage, &SeededEnvironment::new(1));
    let losses = Losses::default();
    let result = backup(&repository, source, &options(2), &losses);
    (repository, result, losses.0.load(Ordering::SeqCst))
}

fn snapshot_count(repository: &Arc<Repository>) -> usize {
    View::list(repository).expect("a view").snapshots().len()
}

#[test]
fn lost_object_is_stored_again_before_the_commit() {
    let source = tempfile::tempdir().expect("a folder");
    fs::write(source.path().join("file"), SplitMix64::new(1).take(LEN)).expect("a file");
    for folder in ["data/", "meta/"] {
        let (repository, result, told_count) = save(files(source.path()), folder, 1, true);
        let report = result.unwrap_or_else(|error| panic!("{folder}: {error}"));
        assert_eq!((report.restart_count, told_count), (1, 1), "{folder}");
        let view = View::list(&repository).expect("a view");
        let root = view.snapshots()[0].1.root.clone();
        let reader = Reader::open(repository, view).expect("a reader");
        let target = tempfile::tempdir().expect("a target");
        restore(&reader, &root, target.path(), &RestoreOptions::default(), &()).expect("it ends");
        let relative = source.path().strip_prefix("/").expect("absolute");
        compare(source.path(), &target.path().join(relative));
    }
    // Nothing is asked, and nothing noticed, where every request was answered.
    let (_, result, told_count) = save(files(source.path()), "data/", 1, false);
    assert_eq!((result.expect("a snapshot").restart_count, told_count), (0, 0));
}

#[test]
fn nothing_is_committed_if_objects_are_lost_again_or_cannot_be_read_again() {
    let source = tempfile::tempdir().expect("a folder");
    fs::write(source.path().join("file"), SplitMix64::new(1).take(LEN)).expect("a file");
    let bytes = std::io::Cursor::new(SplitMix64::new(1).take(LEN));
    let stream = Source::Stream { name: b"stream".to_vec(), reader: Box::new(bytes) };
    for (source, lost_count) in [(files(source.path()), u64::MAX), (stream, 1)] {
        let (repository, result, _) = save(source, "data/", lost_count, true);
        let error = result.expect_err("objects are lost");
        assert_eq!(error.kind(), Kind::Storage, "{error}");
        assert!(error.to_string().contains("nothing was committed"), "{error}");
        assert_eq!(snapshot_count(&repository), 0, "{lost_count}");
    }
}

#[test]
fn loss_during_the_commit_is_an_error() {
    let source = tempfile::tempdir().expect("a folder");
    fs::write(source.path().join("file"), SplitMix64::new(1).take(LEN)).expect("a file");
    let storage = Forgetful {
        memory: Memory::new(),
        folder: "none/",
        left: AtomicU64::new(0),
        had_outage: AtomicBool::new(false),
        restarts_at_commit: true,
    };
    let (repository, result, _) = save_to(storage, files(source.path()));
    let error = result.expect_err("a container is lost");
    assert_eq!(error.kind(), Kind::Storage, "{error}");
    assert!(error.to_string().contains("the snapshot is damaged"), "{error}");
    assert_eq!(snapshot_count(&repository), 1, "it was committed before that was known");
}
