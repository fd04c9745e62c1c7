//! Missing sources: the other sources are saved, and a source that comes back is compared with the
//! last snapshot that has it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use cutpoint_backup::save::{BackupMonitor, BackupOptions, BackupReport, Parent, Source, backup};
use cutpoint_backup::source::WalkOptions;
use cutpoint_repository::repo::keys::OtherKeysPolicy;
use cutpoint_repository::snapshots;
use cutpoint_repository::{Repository, Snapshot, View};
use cutpoint_storage::{Error, Kind, Memory, Result, Storage};

use crate::backup_options::options;
use crate::folder_comparison::restore_and_compare;
use crate::forged_snapshot::{forge, with_other_bytes};
use crate::seeded_repository::{SeededEnvironment, init, unlock};

#[derive(Default)]
struct Problems(Mutex<Vec<PathBuf>>);

impl BackupMonitor for Problems {
    fn problem(&self, path: &Path, _: &str) {
        self.0.lock().expect("no panic").push(path.to_path_buf());
    }
}

/// Two folders of two and three files, a file, and a repository.
struct Scene {
    folder: tempfile::TempDir,
    storage: Arc<dyn Storage>,
    repository: Arc<Repository>,
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["a/1", "a/2", "b/1", "b/2", "b/deep/3", "d/c"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, name.repeat(1000)).expect("written");
        }
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        Scene { folder, repository: init(&storage, &SeededEnvironment::new(1)), storage }
    }

    /// Begins a key epoch. Returns the repository as it is open in a client that the epoch shuts
    /// out.
    fn rotate(&mut self) -> Arc<Repository> {
        let later = SeededEnvironment::new(1 << 32);
        later.asked.store(1_000_000, Ordering::SeqCst);
        let mut next = Repository::open(self.storage.clone(), later, &unlock()).expect("it opens");
        next.begin_epoch(&[unlock()], OtherKeysPolicy::Refuse).expect("an epoch begins");
        std::mem::replace(&mut self.repository, Arc::new(next))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().expect("it is there").join(name)
    }

    fn hide(&self, name: &str) {
        fs::rename(self.path(name), self.path(&format!("hidden {name}"))).expect("it goes");
    }

    fn show(&self, name: &str) {
        fs::rename(self.path(&format!("hidden {name}")), self.path(name)).expect("it comes");
    }

    fn try_backup(&self, options: &BackupOptions, problems: &Problems) -> Result<BackupReport> {
        let paths = ["a", "b", "d/c"].map(|name| self.path(name)).to_vec();
        let source = Source::Files { paths, options: WalkOptions::default() };
        backup(&self.repository, source, options, problems)
    }

    fn backup(&self) -> (BackupReport, Snapshot) {
        let report = self.try_backup(&options(1), &Problems::default()).expect("a snapshot");
        let view = View::list(&self.repository).expect("it lists");
        let id = report.snapshot.expect("one was made");
        let snapshot = view.commits[&id].snapshot().expect("a snapshot").clone();
        (report, snapshot)
    }
}

#[test]
fn missing_source_is_reported_and_compared_with_its_last_snapshot() {
    let scene = Scene::new();
    let (first, _) = scene.backup();
    // Folders are renamed instead of files, because renaming a file would change its ctime.
    for gone in [&["b"][..], &["b", "d/c"], &["b"]] {
        let folder = |name: &str| name.split('/').next().map(str::to_owned).expect("a name");
        gone.iter().for_each(|name| scene.hide(&folder(name)));
        let problems = Problems::default();
        let report = scene.try_backup(&options(1), &problems).expect("the rest is saved");
        let paths: Vec<PathBuf> = gone.iter().map(|name| scene.path(name)).collect();
        assert_eq!(*problems.0.lock().expect("no panic"), paths, "named");
        let named: Vec<Vec<u8>> =
            paths.iter().map(|path| path.as_os_str().as_encoded_bytes().to_vec()).collect();
        assert_eq!(report.missing_sources, named);
        assert_eq!(report.statistics.problem_count, gone.len() as u64);
        assert_eq!(report.statistics.read_file_count, 0, "{gone:?}: the others are unchanged");
        let view = View::list(&scene.repository).expect("it lists");
        let id = report.snapshot.expect("a snapshot");
        let snapshot = view.commits[&id].snapshot().expect("a snapshot");
        assert_eq!(snapshot.sources.len(), 3, "as they were given");
        let missing: Vec<Vec<u8>> = snapshot.missing_sources().map(<[u8]>::to_vec).collect();
        assert_eq!(missing, named, "marked");
        gone.iter().for_each(|name| scene.show(&folder(name)));
    }
    // Nothing of `b`, and nothing deep in it, is read again.
    let (back, snapshot) = scene.backup();
    assert_ne!(back.parent, first.snapshot, "the incomplete one is the parent");
    assert_eq!((back.statistics.read_file_count, back.unchanged_file_count), (0, 6));
    assert_eq!((snapshot.missing, back.statistics.problem_count), (Vec::new(), 0));
    for name in ["a", "b"] {
        restore_and_compare(&scene.repository, &scene.path(name));
    }
}

#[test]
fn source_changed_while_missing_is_read() {
    let scene = Scene::new();
    scene.backup();
    scene.hide("b");
    scene.backup();
    scene.show("b");
    fs::write(scene.path("b/deep/3"), "something else").expect("written");
    let (back, _) = scene.backup();
    assert_eq!((back.statistics.read_file_count, back.unchanged_file_count), (1, 5));
    restore_and_compare(&scene.repository, &scene.path("b"));
}

/// Rule W3: a snapshot that a prune may take is not taken over.
#[test]
fn forgotten_snapshot_is_not_compared_with() {
    let scene = Scene::new();
    let (first, _) = scene.backup();
    scene.hide("b");
    scene.backup();
    scene.show("b");
    let first = first.snapshot.expect("a snapshot");
    snapshots::forget(&scene.repository, |_| Ok::<_, Error>(vec![first])).expect("forgotten");
    let (back, _) = scene.backup();
    assert_eq!((back.statistics.read_file_count, back.unchanged_file_count), (3, 3));
}

#[test]
fn backup_without_any_source_makes_no_snapshot() {
    let scene = Scene::new();
    scene.backup();
    ["a", "b", "d"].iter().for_each(|name| scene.hide(name));
    let error = scene.try_backup(&options(1), &Problems::default()).expect_err("nothing is there");
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    let view = View::list(&scene.repository).expect("it lists");
    assert_eq!(view.snapshots().len(), 1, "the first");
}

/// The sources exist when the run begins, and are gone when the walk reaches them.
#[test]
fn backup_that_loses_every_source_makes_no_snapshot() {
    struct Hides<'a>(&'a Scene, AtomicBool);
    impl BackupMonitor for Hides<'_> {
        fn cancelled(&self) -> bool {
            if !self.1.swap(true, Ordering::SeqCst) {
                ["a", "b", "d"].iter().for_each(|name| self.0.hide(name));
            }
            false
        }
    }
    let scene = Scene::new();
    let paths = ["a", "b", "d/c"].map(|name| scene.path(name)).to_vec();
    let source = Source::Files { paths, options: WalkOptions::default() };
    let hides = Hides(&scene, AtomicBool::new(false));
    let error = backup(&scene.repository, source, &options(1), &hides).expect_err("all are gone");
    assert!(error.to_string().contains("no source could be read"), "{error}");
    assert!(View::list(&scene.repository).expect("it lists").snapshots().is_empty());
}

#[test]
fn incomplete_snapshot_is_never_taken_for_unchanged() {
    let scene = Scene::new();
    let skip = BackupOptions { skip_if_unchanged: true, ..options(1) };
    let run = || scene.try_backup(&skip, &Problems::default()).expect("it ends well").snapshot;
    run().expect("the first");
    assert_eq!(run(), None, "nothing has changed");
    scene.hide("b");
    run().expect("an incomplete one");
    scene.show("b");
    let complete = run().expect("a complete one");
    // A snapshot with the same trees that records a missing source.
    let view = View::list(&scene.repository).expect("it lists");
    let complete = view.commits[&complete].snapshot().expect("a snapshot");
    let incomplete = Snapshot { missing: vec![1], ..complete.clone() };
    forge(&scene.repository, &incomplete, &|_, _| {});
    run().expect("a complete one again");
}

/// A client that a key epoch has shut out can still write with the old keys. The forged entries
/// equal the real files, except for their content.
#[test]
fn forged_snapshot_of_an_old_epoch_is_taken_over_by_no_backup() {
    for rotates in [false, true] {
        let mut scene = Scene::new();
        let (first, honest) = scene.backup();
        let previous = if rotates { scene.rotate() } else { scene.repository.clone() };
        forge(&previous, &honest, &with_other_bytes);
        let (next, _) = scene.backup();
        let counts = (next.statistics.read_file_count, next.unchanged_file_count);
        if !rotates {
            assert_eq!(counts, (0, 6), "a writer of this epoch is believed");
            continue;
        }
        assert_eq!((next.parent, counts), (None, (6, 0)), "nothing is compared with it");
        let parent = Parent::Snapshot(first.snapshot.expect("one was made"));
        let named = BackupOptions { parent, ..options(1) };
        let error = scene.try_backup(&named, &Problems::default()).expect_err("it is of before");
        let text = error.to_string();
        assert!(error.kind() == Kind::Invalid && text.contains("key epoch"), "{text}");
        for name in ["a", "b"] {
            restore_and_compare(&scene.repository, &scene.path(name));
        }
    }
}

/// The parent lacks a source, and only snapshots of an old epoch have it.
#[test]
fn snapshot_of_an_old_epoch_is_not_compared_with() {
    for rotates in [false, true] {
        let mut scene = Scene::new();
        let (_, honest) = scene.backup();
        let previous = if rotates { scene.rotate() } else { scene.repository.clone() };
        forge(&previous, &honest, &with_other_bytes);
        scene.hide("b");
        scene.backup();
        scene.show("b");
        let (back, _) = scene.backup();
        let counts = (back.statistics.read_file_count, back.unchanged_file_count);
        if !rotates {
            assert_eq!(counts, (0, 6), "a writer of this epoch is believed");
            continue;
        }
        assert_eq!(counts, (3, 3), "those of the source are read");
        for name in ["a", "b"] {
            restore_and_compare(&scene.repository, &scene.path(name));
        }
    }
}

/// A newer snapshot has different bytes for the source, and must not be compared with.
#[test]
fn missing_source_is_compared_only_with_complete_snapshots_of_the_host() {
    type Change = fn(&mut Snapshot);
    let changes: [(&str, Change); 3] = [
        ("partial", |snapshot| snapshot.partial = true),
        ("of another host", |snapshot| snapshot.host = "another".to_owned()),
        ("without the source", |snapshot| snapshot.missing = vec![1]),
    ];
    for (name, change) in changes {
        let scene = Scene::new();
        let (_, mut snapshot) = scene.backup();
        scene.hide("b");
        scene.backup();
        scene.show("b");
        change(&mut snapshot);
        forge(&scene.repository, &snapshot, &with_other_bytes);
        let (back, _) = scene.backup();
        assert_eq!(back.statistics.read_file_count, 0, "{name}: the one before stands in");
        restore_and_compare(&scene.repository, &scene.path("b"));
    }
}
