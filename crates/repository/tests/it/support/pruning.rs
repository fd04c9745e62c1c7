//! Starting states for tests of prunes, and the properties that must hold afterwards.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::toc::{ChunkRecord, Form};
use cutpoint_repository::gc::prune::{PruneMonitor, PruneOptions};
use cutpoint_repository::gc::sweep::{AtOnce, Sweep, SweepOptions, SweepReport, Sweeper};
use cutpoint_repository::index::load_toc;
use cutpoint_repository::verify::check::{CheckMonitor, CheckOptions, Finding, Portion, check};
use cutpoint_repository::{
    CommitResult, Index, Purpose, Repository, Snapshot, TicketId, View, Writer,
};
use cutpoint_storage::{Error, Memory, ObjectKind, Result, Storage};

use super::backup::{back_up, init, init_with, open};
use super::partial_knowledge::store_knowing;

/// Options with which containers are deleted, or stay unchanged.
pub(crate) const WHOLE: PruneOptions = PruneOptions {
    unused_max: 1.0,
    rewrite_bytes_max: 0,
    segment_count_max: usize::MAX,
    merged_hints_max: 1 << 20,
    small_count_max: usize::MAX,
    is_alone: false,
};

/// Options of a sweep that ends no writer that may be alive.
pub(crate) const PATIENT: SweepOptions =
    SweepOptions { settle_ns: 0, at_once: AtOnce::Never, commit_ns: i64::MAX, end_others: false };

pub(crate) const ALONE: SweepOptions =
    SweepOptions { settle_ns: 0, at_once: AtOnce::Never, commit_ns: i64::MAX, end_others: true };

pub(crate) fn memory() -> Arc<dyn Storage> {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init(storage.clone()).expect("an empty memory takes a repository");
    storage
}

/// Forgets the snapshots at these places, oldest first.
pub(crate) fn forget(repository: &Arc<Repository>, places: &[usize]) -> Result<()> {
    let mut writer = Writer::begin(repository.clone(), Purpose::Other)?;
    let ids: Vec<TicketId> = writer
        .view()
        .commits
        .iter()
        .filter(|(_, commit)| commit.snapshot().is_some())
        .map(|(id, commit)| (commit.time_ns, *id))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .map(|(_, id)| id)
        .collect();
    let chosen = places.iter().map(|place| ids[*place]).collect();
    writer.commit(Outcome::Forget(chosen), Vec::new(), &BTreeSet::new()).map(drop)
}

/// Sweeps until nothing is left to sweep.
pub(crate) fn sweep_all(repository: &Arc<Repository>) -> Result<SweepReport> {
    let mut sweeper = Sweeper::new(repository.clone(), ALONE);
    let mut total = SweepReport::default();
    loop {
        match sweeper.step(&())? {
            Sweep::Nothing => return Ok(total),
            Sweep::Done(swept) => {
                total.container_count += swept.container_count;
                total.container_bytes += swept.container_bytes;
                total.rescued_count += swept.rescued_count;
                total.segment_count += swept.segment_count;
            }
            waiting => panic!("a sweep waits without other clients: {waiting:?}"),
        }
    }
}

#[derive(Default)]
struct Findings(Mutex<Vec<String>>);

impl CheckMonitor for Findings {
    fn finding(&self, finding: &Finding) {
        if finding.is_error() {
            let text = format!("{}: {}", finding.object, finding.message);
            self.0.lock().expect("no panics").push(text);
        }
    }
}

/// Checks that nothing is wrong, and that every byte can be read.
pub(crate) fn assert_clean(repository: &Arc<Repository>, when: &str) {
    let findings = Findings::default();
    let options =
        CheckOptions { read_data: Some(Portion::All), threads: 1, ..CheckOptions::default() };
    check(repository, &options, &findings).expect("the check goes through");
    let findings = findings.0.into_inner().expect("no panics");
    assert!(findings.is_empty(), "{when}: {findings:#?}");
}

pub(crate) fn size(storage: &dyn Storage) -> u64 {
    let kinds = [ObjectKind::Data, ObjectKind::Meta].map(ObjectKind::folder);
    kinds.iter().flat_map(|kind| storage.list(kind).expect("it lists")).map(|(_, len)| len).sum()
}

/// Creates three snapshots that share some files; the first two are forgotten.
pub(crate) fn start() -> Arc<dyn Storage> {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    for files in [&[1, 2, 3, 4][..], &[3, 4, 5, 6], &[4, 6, 7, 8]] {
        let committed = back_up(&repository, files, true).expect("it works");
        assert_eq!(committed, CommitResult::Done, "no other client ends it");
    }
    forget(&repository, &[0, 1]).expect("it works");
    storage
}

/// Creates versions of two files, and some others; the first two snapshots are forgotten. The third
/// snapshot refers to some chunks of a container of the first, which has others as well, and to
/// another container.
pub(crate) fn start_similar() -> Arc<dyn Storage> {
    let storage = memory_with_delta_chunks();
    let repository = open(storage.clone(), 1).expect("it opens");
    for files in [&[2, 3, 100, 200, 4][..], &[3, 5, 101], &[5, 102, 250]] {
        let committed = back_up(&repository, files, true).expect("it works");
        assert_eq!(committed, CommitResult::Done, "no other client ends it");
    }
    assert!(delta_chunk_count(&repository) >= 6, "versions resemble each other");
    forget(&repository, &[0, 1]).expect("it works");
    storage
}

pub(crate) fn memory_with_delta_chunks() -> Arc<dyn Storage> {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init_with(storage.clone(), 0, true, 0).expect("an empty memory takes a repository");
    storage
}

/// Returns the records in the tables of contents of all containers that an index names.
pub(crate) fn records(repository: &Arc<Repository>) -> Vec<ChunkRecord> {
    let view = View::list(repository).expect("it lists");
    let containers = Index::open_without_cache(repository.clone(), &view).expect("it opens");
    let condemned = view.condemned();
    let mut records = Vec::new();
    for container in containers.containers() {
        if !condemned.contains(&(container.class, container.name)) {
            let toc = load_toc(repository, &container).expect("it is well");
            assert_eq!(container.has_delta_chunks, toc.has_delta_chunks(), "{container:?}");
            records.extend(toc.chunks);
        }
    }
    records
}

pub(crate) fn delta_chunk_count(repository: &Arc<Repository>) -> usize {
    records(repository).iter().filter(|record| record.form == Form::Delta).count()
}

/// Collects the skipped objects.
#[derive(Default)]
pub(crate) struct SkipCollector(pub(crate) Mutex<Vec<String>>);

impl PruneMonitor for SkipCollector {
    fn skipped(&self, error: &Error) {
        self.0.lock().expect("no panics").push(error.to_string());
    }
}

/// Stores file `number` as a writer that knows only of the snapshots `known`, one of which has
/// another version of it.
pub(crate) fn back_up_knowing(
    repository: &Arc<Repository>,
    number: u64,
    known: &[TicketId],
) -> TicketId {
    let mut writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let mut view = writer.view().clone();
    view.commits.retain(|id, _| known.contains(id));
    let ticket = writer.ticket();
    let (segments, root) =
        store_knowing(repository, ticket, view, number).expect("memory takes it");
    let snapshot = Snapshot { root, ..Snapshot::empty() };
    let outcome = Outcome::Snapshot(Box::new(snapshot));
    writer.commit(outcome, segments, &BTreeSet::new()).expect("it commits");
    ticket
}
