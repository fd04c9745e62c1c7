//! Forget, prune and sweep: what is deleted, what stays, and a fault at every single call.

mod concurrency;
mod damage;
mod delta_chunks;
mod faults;
mod forgetful;
mod selection;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::gc::prune::{Phase, PruneMonitor, PruneOptions, PruneReport, plan, prune};
use cutpoint_repository::gc::sweep::{Sweep, SweepOptions, SweepReport, Sweeper};
use cutpoint_repository::write::Inline;
use cutpoint_repository::write::prune_log::{AppendResult, append};
use cutpoint_repository::{
    Class, Index, ObjectName, PartName, Purpose, Repository, Verify, View, Writer,
};
use cutpoint_storage::{Kind, Layer, ObjectKind, Result, Storage};
use selection::listed;

use crate::support::backup;
use crate::support::backup::{CHUNK_LEN, back_up, file, open, restore_all};
use crate::support::machine::Machine;
use crate::support::pruning::{
    ALONE, assert_clean, forget, memory, size, start, start_similar, sweep_all,
};

/// Options that remove everything that is not needed.
const ALL: PruneOptions = PruneOptions {
    unused_max: 0.0,
    rewrite_bytes_max: u64::MAX,
    segment_count_max: 500,
    merged_hints_max: 1 << 20,
    small_count_max: usize::MAX,
    is_alone: false,
};

fn prune_all(repository: &Arc<Repository>, options: &PruneOptions) -> Result<PruneReport> {
    Ok(prune(repository, options, &(), |_| true)?.expect("it was approved"))
}

/// Returns the size of a repository with only these snapshots.
fn size_of(backups: &[&[u64]]) -> u64 {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    for files in backups {
        back_up(&repository, files, false).expect("it works");
    }
    size(&*storage)
}

#[test]
fn forgotten_snapshots_are_removed_and_the_rest_stays() {
    let storage = start();
    let repository = open(storage.clone(), 1).expect("it opens");
    let before = size(&*storage);
    let planned = plan(&repository, &ALL, &()).expect("it works");
    assert_eq!((planned.forgotten_count, planned.kept_count), (2, 1));
    assert_eq!((planned.pinned_count, planned.pinned_bytes), (0, 0), "there are no delta chunks");
    assert!(planned.rewritten_count >= 1, "containers that are used in part: {planned:?}");
    let pruned = prune_all(&repository, &ALL).expect("it works");
    assert_eq!((pruned.number, pruned.plan), (Some(1), planned), "what was planned is done");
    assert_eq!(restore_all(&repository).expect("it restores"), 1, "before anything is deleted");
    assert!(size(&*storage) > before, "nothing is deleted yet");
    let swept = sweep_all(&repository).expect("it works");
    assert!(swept.container_count > 0 && swept.rescued_count == 0, "{swept:?}");
    assert_eq!(restore_all(&repository).expect("it restores"), 1);
    assert_clean(&repository, "after the sweep");
    let least = size_of(&[&[4, 6, 7, 8]]);
    let after = size(&*storage);
    assert!(after <= least + 4 * 64 * 1024, "{after} bytes are left; {least} would do");
    // A second prune has nothing to do, and what was stored is found.
    assert_eq!(prune_all(&repository, &ALL).expect("it works").number, None);
    back_up(&repository, &[4, 6, 7, 8], false).expect("it works");
    assert_eq!(size(&*storage), after, "all of it is known");
}

#[test]
fn prune_without_forgotten_snapshots_changes_nothing() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[1, 2], true).expect("it works");
    assert_eq!(prune_all(&repository, &ALL).expect("it works").number, None);
    assert_eq!(sweep_all(&repository).expect("it works"), SweepReport::default());
    assert_eq!(restore_all(&repository).expect("it restores"), 1);
}

#[test]
fn declined_plan_changes_nothing() {
    let storage = start();
    let repository = open(storage.clone(), 1).expect("it opens");
    let before = size(&*storage);
    assert_eq!(prune(&repository, &ALL, &(), |_| false).expect("it works"), None);
    assert_eq!(size(&*storage), before);
    assert!(View::list(&repository).expect("it lists").prunes.is_empty());
}

#[test]
fn limits_leave_containers_as_they_are() {
    let plan_with = |options: PruneOptions| {
        plan(&open(start(), 1).expect("it opens"), &options, &()).expect("it works")
    };
    let all = plan_with(ALL);
    let none = plan_with(PruneOptions { unused_max: 1.0, ..ALL });
    assert_eq!((none.rewritten_count, none.moved_bytes), (0, 0));
    assert!(none.unused_bytes > all.unused_bytes && none.freed_bytes() < all.freed_bytes());
    let one = plan_with(PruneOptions { rewrite_bytes_max: 10_000, ..ALL });
    assert!(one.rewritten_count < all.rewritten_count, "{one:?}");
    assert!(one.rewritten_bytes <= 10_000);
    let exactly = plan_with(PruneOptions { rewrite_bytes_max: all.rewritten_bytes, ..ALL });
    assert_eq!(exactly, all, "what just fits");
}

/// A run that died leaves containers that no segment names.
#[test]
fn leftovers_of_interrupted_runs_are_removed() {
    let storage = start();
    let repository = open(storage.clone(), 2).expect("it opens");
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let mut inline = Inline::new(writer, Verify::All).expect("it begins");
    inline.store_data(&[7; 5000]).expect("it stores");
    inline.publish().expect("it publishes");
    let segments = storage.list(ObjectKind::Segment.folder()).expect("it lists");
    let ticket = inline.writer().ticket().to_string();
    let own = segments.iter().find(|(name, _)| name.contains(&ticket)).expect("its segment");
    storage.delete(&own.0).expect("as if it had died before");
    drop(inline);
    // Another process of the same machine: the previous one is dead.
    let repository = open(storage.clone(), 3).expect("it opens");
    let pruned = prune_all(&repository, &ALL).expect("it works");
    assert_eq!(pruned.plan.orphan_count, 1);
    sweep_all(&repository).expect("it works");
    let left = storage.list(ObjectKind::Data.folder()).expect("it lists");
    assert!(left.iter().all(|(name, _)| !name.contains(&ticket)), "{ticket} in {left:?}");
    assert_clean(&repository, "after an interrupted run");
}

#[test]
fn segments_and_small_containers_are_merged() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    for number in 0..12 {
        back_up(&repository, &[number], true).expect("it works");
    }
    let options = PruneOptions { segment_count_max: 10, small_count_max: 10, ..ALL };
    let pruned = prune_all(&repository, &options).expect("it works");
    assert!(pruned.plan.merged_segment_count >= 12, "{pruned:?}");
    assert!(pruned.plan.rewritten_count >= 12, "{pruned:?}");
    let swept = sweep_all(&repository).expect("it works");
    assert!(swept.segment_count >= 12, "{swept:?}");
    let count = |kind: ObjectKind| storage.list(kind.folder()).expect("it lists").len();
    assert!(count(ObjectKind::Segment) <= 3, "{} segments", count(ObjectKind::Segment));
    assert_eq!((count(ObjectKind::Data), count(ObjectKind::Meta)), (1, 1));
    assert_eq!(restore_all(&repository).expect("it restores"), 12);
    assert_clean(&repository, "after merging");
}

/// Among two containers that have a chunk, the one that stays may be one that no segment had named.
#[test]
fn orphans_that_are_indexed_are_found() {
    for process in 1..6 {
        let storage = memory();
        let repository = open(storage.clone(), process).expect("it opens");
        let writer = Writer::begin(repository, Purpose::Backup).expect("it begins");
        let mut inline = Inline::new(writer, Verify::All).expect("it begins");
        for chunk in file(1).chunks(CHUNK_LEN) {
            inline.store_data(chunk).expect("it stores");
        }
        inline.publish().expect("it publishes");
        drop(inline);
        let (segment, _) = storage.list(ObjectKind::Segment.folder()).expect("it lists").remove(0);
        storage.delete(&segment).expect("as if it had died before");
        let repository = open(storage.clone(), process + 10).expect("it opens");
        back_up(&repository, &[1], false).expect("it works");
        let pruned = prune_all(&repository, &ALL).expect("it works");
        assert_eq!((pruned.plan.orphan_count, pruned.plan.condemned_count), (1, 1), "{pruned:?}");
        sweep_all(&repository).expect("it works");
        assert_eq!(restore_all(&repository).expect("it restores"), 1);
        assert_clean(&repository, "an orphan that was indexed");
    }
}

fn data_names(storage: &dyn Storage) -> Vec<String> {
    let listed = storage.list(ObjectKind::Data.folder()).expect("it lists");
    listed.into_iter().map(|(name, _)| name).collect()
}

/// Segments are merged although no container moves. Containers that are gone are in none of the new
/// ones. The two segments of a backup of which nothing stays are left for the next prune.
#[test]
fn segments_of_containers_that_stay_are_merged() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    for number in 0..6 {
        back_up(&repository, &[number], true).expect("it works");
    }
    let options = PruneOptions { segment_count_max: 2, rewrite_bytes_max: 0, ..ALL };
    for (round, snapshots, segments) in [(0, 5, 3), (1, 5, 1)] {
        forget(&repository, &[round]).expect("it works");
        let before = listed(&*storage);
        let pruned = prune_all(&repository, &options).expect("it works");
        assert_eq!(pruned.plan.rewritten_count, 0, "{pruned:?}");
        assert!(pruned.plan.merged_segment_count > 0, "{pruned:?}");
        sweep_all(&repository).expect("it works");
        let count = storage.list(ObjectKind::Segment.folder()).expect("it lists").len();
        assert_eq!(count, segments, "merged");
        assert_eq!(restore_all(&repository).expect("it restores"), snapshots);
        assert_clean(&repository, "after merging");
        let view = View::list(&repository).expect("it lists");
        let index = Index::open_without_cache(repository.clone(), &view).expect("it opens");
        for container in index.containers() {
            let name = ObjectName::Container(container.class, container.name).to_string();
            assert!(before.contains_key(&name), "{name} was gone before");
        }
        // There is a second segment, so there is something to merge.
        back_up(&repository, &[10 + round as u64], true).expect("it works");
    }
}

#[test]
fn young_prune_is_not_swept() {
    let storage = start();
    let repository = open(storage, 1).expect("it opens");
    prune_all(&repository, &ALL).expect("it works");
    let options = SweepOptions { settle_ns: 3_600_000_000_000, ..ALONE };
    let step = Sweeper::new(repository, options).step(&()).expect("it works");
    assert!(matches!(step, Sweep::Settling { number: 1, .. }), "{step:?}");
}

#[test]
fn live_chunks_are_sorted_in_files_if_there_is_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let storage = start();
    let opened = Repository::open(storage, Machine::new(1), &backup::unlock());
    let opened = opened.expect("it opens").with_cache(folder.path().to_owned());
    let repository = Arc::new(opened);
    prune_all(&repository, &ALL).expect("it works");
    sweep_all(&repository).expect("it works");
    assert_eq!(restore_all(&repository).expect("it restores"), 1);
    assert_clean(&repository, "with a cache");
}

/// Cancels after a number of questions.
#[derive(Default)]
struct Stopping {
    asked: AtomicU64,
    limit: u64,
    /// The latest report of each phase.
    phases: Mutex<Vec<(Phase, u64, u64)>>,
}

impl PruneMonitor for Stopping {
    fn progress(&self, phase: Phase, done: u64, total: u64) {
        assert!(done <= total, "{phase:?}: {done} of {total}");
        let mut phases = self.phases.lock().expect("no panics");
        phases.retain(|(each, ..)| *each != phase);
        phases.push((phase, done, total));
    }

    fn cancelled(&self) -> bool {
        self.asked.fetch_add(1, Ordering::SeqCst) >= self.limit
    }
}

/// A prune, and a sweep, can be stopped at any time, and nothing is deleted by then.
#[test]
fn prune_can_be_stopped() {
    let begin = || {
        let storage = start();
        let repository = open(storage.clone(), 2).expect("it opens");
        (storage, repository)
    };
    let complete = Stopping { limit: u64::MAX, ..Stopping::default() };
    prune(&begin().1, &ALL, &complete, |_| true).expect("it works").expect("it ran");
    let phases = complete.phases.into_inner().expect("no panics");
    let heard: Vec<Phase> = phases.iter().map(|(phase, ..)| *phase).collect();
    assert_eq!(heard, [Phase::Mark, Phase::Locate, Phase::Examine, Phase::Rewrite]);
    assert!(phases.iter().all(|(_, done, total)| done == total && *total > 0), "{phases:?}");
    let asked = complete.asked.into_inner();
    assert!(asked > 10, "asked {asked} times");
    for limit in 0..asked {
        let (storage, repository) = begin();
        let before = size(&*storage);
        let stopping = Stopping { limit, ..Stopping::default() };
        let error = prune(&repository, &ALL, &stopping, |_| true).expect_err("it was stopped");
        assert_eq!(error.kind(), Kind::Interrupted, "after {limit}: {error}");
        assert_eq!(stopping.asked.into_inner(), limit + 1, "it stops at once");
        assert!(View::list(&repository).expect("it lists").prunes.is_empty(), "after {limit}");
        assert!(size(&*storage) >= before, "after {limit}");
        let tickets = storage.list(ObjectKind::Ticket.folder()).expect("it lists").len();
        let commits = storage.list(ObjectKind::Commit.folder()).expect("it lists").len();
        assert_eq!(tickets, commits, "after {limit}: a writer was left open");
    }
    let (storage, repository) = begin();
    prune_all(&repository, &ALL).expect("it works");
    let before = size(&*storage);
    let stopping = Stopping::default();
    let error = Sweeper::new(repository, ALONE).step(&stopping).expect_err("it was stopped");
    assert_eq!((error.kind(), size(&*storage)), (Kind::Interrupted, before), "{error}");
}

/// Puts a record in the place of another client.
fn record(repository: &Arc<Repository>, record: Prune) {
    let mut writer = Writer::begin(repository.clone(), Purpose::Prune).expect("it begins");
    let view = writer.view().clone();
    let none = BTreeSet::new();
    let recorded = append(&mut writer, &view, record, &none, |_, _, record| Ok(Some(record)));
    assert!(matches!(recorded, Ok(AppendResult::Done(_))), "{recorded:?}");
}

fn list_data(storage: &dyn Storage) -> Vec<(Class, PartName)> {
    let listed = storage.list(ObjectKind::Data.folder()).expect("it lists");
    let names = listed.iter().map(|(name, _)| ObjectName::parse(name).expect("a name"));
    names
        .map(|name| match name {
            ObjectName::Container(class, part) => (class, part),
            other => panic!("{other} among containers"),
        })
        .collect()
}

/// The starting states for prunes with faults.
const STARTS: [Start; 2] = [("files", start), ("versions of files", start_similar)];

/// A starting state: its description, and how to create it.
type Start = (&'static str, fn() -> Arc<dyn Storage>);

/// Counts reads of commits.
#[derive(Debug)]
struct CommitReads {
    below: Arc<dyn Storage>,
    count: AtomicU64,
}

impl Layer for CommitReads {
    fn below(&self) -> &dyn Storage {
        &*self.below
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        if name.starts_with("commits/") {
            self.count.fetch_add(1, Ordering::SeqCst);
        }
        self.below.get_at_most(name, len_max)
    }
}

/// A backlog of records costs one read of each commit, not one for each record.
#[test]
fn sweeps_of_many_records_read_each_commit_once() {
    const RECORDS: usize = 6;
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    for seed in 0..=RECORDS as u64 {
        back_up(&repository, &[10 * seed, 10 * seed + 1], false).expect("it works");
    }
    for place in 0..RECORDS {
        forget(&repository, &[place]).expect("it works");
        prune_all(&repository, &ALL).expect("it works");
    }
    let reads = Arc::new(CommitReads { below: storage.clone(), count: AtomicU64::new(0) });
    let repository = open(reads.clone(), 2).expect("it opens");
    let commit_count = storage.list(ObjectKind::Commit.folder()).expect("it lists").len() as u64;
    reads.count.store(0, Ordering::SeqCst);
    let swept = sweep_all(&repository).expect("it works");
    assert!(swept.container_count >= RECORDS as u64, "{swept:?}");
    let read_count = reads.count.load(Ordering::SeqCst);
    // What each sweep commits is read by the next.
    assert!(
        read_count <= commit_count + RECORDS as u64,
        "{read_count} reads of {commit_count} commits"
    );
    assert_clean(&repository, "all records are swept");
}
