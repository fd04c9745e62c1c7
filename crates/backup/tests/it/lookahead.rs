//! The expectation of a restore and of an archive, which a second walk through the snapshot finds.

use std::io;
use std::path::Path;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use cutpoint_backup::archive::{ArchiveFormat, ArchiveOptions, write_archive};
use cutpoint_backup::restore::{RestoreMonitor, RestoreOptions, restore};
use cutpoint_repository::{Content, Entry, Time};

use crate::memory_store::MemoryStore;

/// A monitor that stops the work until there is an expectation.
#[derive(Debug, Default)]
struct Waits {
    expected: Mutex<Option<(u64, u64)>>,
    changed: Condvar,
}

impl Waits {
    fn wait(&self) {
        let expected = self.expected.lock().unwrap();
        let limit = Duration::from_secs(20);
        drop(self.changed.wait_timeout_while(expected, limit, |it| it.is_none()).unwrap());
    }
}

impl RestoreMonitor for Waits {
    fn looks_ahead(&self) -> bool {
        true
    }

    fn expected(&self, files: u64, bytes: u64) {
        *self.expected.lock().unwrap() = Some((files, bytes));
        self.changed.notify_all();
    }

    fn writing(&self, _: &Path) {
        self.wait();
    }

    fn progress(&self, _: u64, _: u64) {
        self.wait();
    }
}

/// Returns a folder with files of 10 and 20 bytes in it, and one of 40 bytes below it.
fn folder(store: &mut MemoryStore) -> Entry {
    let files =
        [("a", 10), ("b", 20), ("c", 40)].map(|(name, len)| store.file(name, &[1; 40][..len]));
    let [a, b, c] = files;
    let below = store.folder("below", vec![c]);
    store.folder("folder", vec![a, b, below])
}

#[test]
fn restore_of_a_part_expects_the_files_in_it() {
    let mut store = MemoryStore::default();
    let folder = folder(&mut store);
    let other = store.file("other", b"of no interest");
    let root = store.tree_of(vec![folder, other]);
    for (options, expected) in [
        (RestoreOptions { selection: vec!["folder".into()], ..RestoreOptions::default() }, (3, 70)),
        (RestoreOptions { exclude: vec!["b".to_owned()], ..RestoreOptions::default() }, (3, 64)),
    ] {
        let target = tempfile::tempdir().unwrap();
        let monitor = Waits::default();
        let report = restore(&store, &root, target.path(), &options, &monitor).unwrap();
        assert_eq!(report.failed_entries, 0, "{report:?}");
        assert_eq!(*monitor.expected.lock().unwrap(), Some(expected), "files and bytes");
    }
}

#[test]
fn archive_of_an_entry_expects_the_files_in_it() {
    let mut store = MemoryStore::default();
    let folder = folder(&mut store);
    let file = store.file("file", &[2; 5]);
    for (entry, expected) in [(&folder, (3, 70)), (&file, (1, 5))] {
        let options = ArchiveOptions {
            format: ArchiveFormat::Tar,
            entry: Some(entry),
            default_time: Time::default(),
        };
        let monitor = Waits::default();
        let root = Content::Empty;
        let report = write_archive(&store, &root, &options, &mut io::sink(), &monitor).unwrap();
        assert_eq!((report.files, report.bytes), expected, "what is written");
        assert_eq!(*monitor.expected.lock().unwrap(), Some(expected), "files and bytes");
    }
}
