//! Repair: losses are reported, everything else is kept, and a second check finds nothing wrong.

mod faults;
mod given_up;
mod index;
mod snapshots;
mod tree;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use cutpoint_repository::format::recipe::Segment as Piece;
use cutpoint_repository::gc::sweep::{Sweep, SweepOptions, Sweeper};
use cutpoint_repository::verify::check::CheckMonitor;
use cutpoint_repository::verify::repair::{
    IndexOptions, IndexRepair, PathLoss, RepairMonitor, SnapshotOptions, SnapshotsRepair,
    repair_index, repair_snapshots,
};
use cutpoint_repository::{Class, Entry, ObjectName, PartName, Repository, TicketId};

use crate::support::backup::open;
use crate::support::damaged_repository::{Findings, Store, build};

fn errors(findings: &Findings) -> Vec<String> {
    let errors = findings.all.iter().filter(|finding| finding.is_error());
    errors.map(|finding| format!("{}: {}", finding.object, finding.message)).collect()
}

fn flip(store: &Store, name: &str, place: usize) {
    let mut bytes = store.storage.get(name).expect("it is there").to_vec();
    bytes[place] ^= 1;
    store.replace(name, Some(bytes.into()));
}

/// Opens the repository as a process that comes after all others: they are dead, and its random
/// numbers are its own.
fn later(store: &Store) -> Arc<Repository> {
    static PROCESSES: AtomicU32 = AtomicU32::new(2);
    let process = PROCESSES.fetch_add(1, Ordering::Relaxed);
    open(store.storage.clone(), process).expect("it opens")
}

fn repair_all(store: &Store) -> IndexRepair {
    repair_index(&later(store), &IndexOptions::default(), &()).expect("it repairs")
}

fn names(store: &Store, folder: &str) -> Vec<String> {
    let listed = store.storage.list(folder).expect("memory lists");
    listed.into_iter().map(|(name, _)| name).collect()
}

fn container(name: &str) -> (Class, PartName) {
    match ObjectName::parse(name) {
        Ok(ObjectName::Container(class, part)) => (class, part),
        other => panic!("{name}: {other:?}"),
    }
}

fn has_ended(store: &Store, ticket: TicketId) -> bool {
    let commit = ObjectName::Commit(ticket).to_string();
    store.storage.head(&commit).expect("memory answers").is_some()
}

/// Collects the reports of a repair.
#[derive(Default)]
struct Heard(Mutex<Vec<(TicketId, String, PathLoss)>>);

impl CheckMonitor for Heard {}

impl RepairMonitor for Heard {
    fn loss(&self, snapshot: TicketId, path: &[u8], loss: &PathLoss) {
        let path = String::from_utf8_lossy(path).into_owned();
        self.0.lock().expect("no test panics in here").push((snapshot, path, loss.clone()));
    }
}

fn repair(
    store: &Store,
    options: SnapshotOptions,
) -> (SnapshotsRepair, Vec<(TicketId, String, PathLoss)>) {
    let heard = Heard::default();
    let done = repair_snapshots(&later(store), &options, &heard).expect("nothing fails here");
    (done, heard.0.into_inner().expect("no test panics in here"))
}

const REPAIR: SnapshotOptions =
    SnapshotOptions { dry_run: false, forget: false, read_data: None, threads: 1 };

/// Returns the bytes of an entry; holes are zeros.
fn read(store: &Store, entry: &Entry) -> Vec<u8> {
    let reader = store.reader();
    let mut bytes = Vec::new();
    for piece in reader.segments(&entry.content) {
        match piece.expect("its recipe is found") {
            Piece::Chunk { fingerprint, .. } => {
                let chunk = reader.chunk(Class::Data, &fingerprint);
                bytes.extend_from_slice(&chunk.expect("what is left can be read"));
            }
            Piece::Hole { length } | Piece::Zeros { length } => {
                bytes.resize(bytes.len() + usize::try_from(length).expect("it is small"), 0);
            }
        }
    }
    bytes
}

fn entries(store: &Store, snapshot: TicketId) -> Vec<Entry> {
    let reader = store.reader();
    let view = reader.view();
    let snapshot = view.commits[&snapshot].snapshot().expect("it is one").clone();
    reader.tree(&snapshot.root).map(|entry| entry.expect("nothing is damaged")).collect()
}

/// Sweeps until nothing is left to sweep. Returns the last record that was swept.
fn sweep_all(repository: &Arc<Repository>) -> Option<u64> {
    let options = SweepOptions { settle_ns: 0, ..SweepOptions::default() };
    let mut sweeper = Sweeper::new(repository.clone(), options);
    let mut last = None;
    while let Sweep::Done(swept) = sweeper.step(&()).expect("it sweeps") {
        last = Some(swept.number);
    }
    last
}

/// A sound repository.
#[test]
fn sound_repository_is_not_repaired() {
    let store = Store::new(&build());
    let before = names(&store, "commits").len();
    let (done, heard) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    assert!(done.snapshots.is_empty() && heard.is_empty(), "{done:?}");
    assert_eq!(names(&store, "commits").len(), before, "commits");
    assert_eq!(done.record, None);
}
