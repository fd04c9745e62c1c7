//! Repositories made by an attacker who has the keys, or needs none. Whatever they contain costs
//! bounded memory and time, and the error says what is wrong.

mod containers;
mod random_input;
mod trees;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::verify::check::{CheckMonitor, CheckOptions, Finding, Portion, check};
use cutpoint_repository::verify::repair::{
    PathLoss, RepairMonitor, SnapshotOptions, SnapshotsRepair, repair_snapshots,
};
use cutpoint_repository::write::Inline;
use cutpoint_repository::{
    Content, Entry, EntryKind, Purpose, Reader, Repository, Snapshot, TicketId, Verify, View,
    Writer,
};
use cutpoint_storage::{Memory, Result, Storage};

use crate::support::planted::open_repository;

const MIB: usize = 1024 * 1024;

fn new_repository() -> Arc<Repository> {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    open_repository(&storage)
}

/// Stores what `fill` stores, and a snapshot of the content that it returns.
fn plant(repository: &Arc<Repository>, fill: impl FnOnce(&mut Inline) -> Result<Content>) {
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let mut inline = Inline::new(writer, Verify::All).expect("the index opens");
    let root = fill(&mut inline).expect("memory takes it");
    let snapshot = Snapshot { root, ..Snapshot::empty() };
    inline.commit(Outcome::Snapshot(Box::new(snapshot))).expect("memory takes it");
}

fn reader(repository: &Arc<Repository>) -> Reader {
    let view = View::list(repository).expect("it lists");
    Reader::open(repository.clone(), view).expect("it opens")
}

/// Collects findings, and fails an operation that asks too often whether to stop, because it would
/// never end.
#[derive(Debug, Default)]
struct Collect {
    findings: Mutex<Vec<String>>,
    losses: Mutex<Vec<String>>,
    asked: AtomicU64,
}

/// Number of questions that counts as too often.
const STEPS_MAX: u64 = 2_000_000;

impl CheckMonitor for Collect {
    fn finding(&self, finding: &Finding) {
        let text = format!("{}: {}", finding.object, finding.message);
        self.findings.lock().expect("no test panics in here").push(text);
    }

    fn cancelled(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) > STEPS_MAX
    }
}

impl RepairMonitor for Collect {
    fn loss(&self, _: TicketId, path: &[u8], loss: &PathLoss) {
        let text = format!("{}: {loss:?}", String::from_utf8_lossy(path));
        self.losses.lock().expect("no test panics in here").push(text);
    }
}

/// Returns the findings of a check that reads everything.
fn findings(repository: &Arc<Repository>) -> Vec<String> {
    let collect = Collect::default();
    let options =
        CheckOptions { read_data: Some(Portion::All), threads: 1, ..CheckOptions::default() };
    check(repository, &options, &collect).expect("the storage works, and it ends");
    collect.findings.into_inner().expect("no test panics in here")
}

/// Repairs and forgets. Returns the result and the reported losses.
fn repair(repository: &Arc<Repository>) -> (SnapshotsRepair, Vec<String>) {
    let collect = Collect::default();
    let options = SnapshotOptions { forget: true, ..SnapshotOptions::default() };
    let done = repair_snapshots(repository, &options, &collect).expect("it works, and it ends");
    (done, collect.losses.into_inner().expect("no test panics in here"))
}

fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    entries.iter().for_each(|entry| entry.encode_into(&mut bytes));
    bytes
}

fn file(name: &str, size: u64, content: Content) -> Entry {
    let mut file = Entry::new(name, EntryKind::File);
    (file.size, file.content) = (size, content);
    file
}
