//! Optimizing: versions become smaller, the newest is stored in order, nothing is lost, and a
//! second run has nothing to do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::backup::{back_up, open, restore_all};
use crate::support::complete_reader::reader_of_all;
use crate::support::pruning::{
    ALONE, SkipCollector, assert_clean, back_up_knowing, delta_chunk_count, forget, memory,
    memory_with_delta_chunks, records, size, start, start_similar, sweep_all,
};
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::recipe::Segment as Piece;
use cutpoint_repository::format::toc::Form;
use cutpoint_repository::gc::prune::{
    OptimizeOptions, PruneMonitor, PruneReport, optimize, plan_optimize, prune,
};
use cutpoint_repository::gc::sweep::{Sweep, SweepOptions, Sweeper};
use cutpoint_repository::{Class, Fingerprint, PartName, Purpose, Repository, Scope, View, Writer};
use cutpoint_storage::{Fault, Faulty, Kind, ObjectKind, Result, Storage};

/// The files of tests are random numbers.
const OPTIONS: OptimizeOptions = OptimizeOptions {
    region_size: 1024 * 1024,
    compression_level: 5,
    rewrite_bytes_max: u64::MAX,
    spares_incompressible: false,
    is_alone: false,
};

fn optimize_all(repository: &Arc<Repository>, options: &OptimizeOptions) -> Result<PruneReport> {
    Ok(optimize(repository, options, &(), |_| true)?.expect("it was approved"))
}

/// Creates twenty versions of a file, by writers that knew nothing of each other, so that each
/// stores everything again.
fn versions(storage: Arc<dyn Storage>) -> Arc<Repository> {
    let repository = open(storage, 1).expect("it opens");
    for version in 100..120 {
        back_up_knowing(&repository, version, &[]);
    }
    repository
}

/// Checks that everything can be restored before and after a sweep. Returns the size of the
/// repository.
fn swept(repository: &Arc<Repository>, snapshots: usize, when: &str) -> u64 {
    assert_eq!(restore_all(repository).expect("it restores"), snapshots, "{when}, not swept");
    sweep_all(repository).expect("it works");
    assert_eq!(restore_all(repository).expect("it restores"), snapshots, "{when}");
    assert_clean(repository, when);
    size(&**repository.storage())
}

#[test]
fn versions_become_smaller_and_a_second_run_has_nothing_to_do() {
    for (what, storage) in [("full chunks", memory()), ("delta chunks", memory_with_delta_chunks())]
    {
        let repository = versions(storage.clone());
        let before = size(&*storage);
        let planned = plan_optimize(&repository, &OPTIONS, &()).expect("it works");
        assert!(planned.rewritten_count >= 30 && planned.sampled_bytes > 0, "{what}: {planned:?}");
        // Every other chunk is the same in all.
        assert!(planned.raw_bytes > 10 * 30_000, "{what}: {planned:?}");
        assert_eq!(size(&*storage), before, "{what}: nothing is done yet");
        let done = optimize_all(&repository, &OPTIONS).expect("it works");
        assert_eq!((done.number, &done.plan), (Some(1), &planned), "{what}: as it was planned");
        let after = swept(&repository, 20, what);
        assert!(after * 3 < before, "{what}: {before} became {after}");
        // Six chunks, each stored in two forms or more.
        let is_delta = done.reencoded_count >= 50;
        assert_eq!(is_delta, what == "delta chunks", "{done:?}");
        assert_eq!(delta_chunk_count(&repository) as u64, done.reencoded_count, "{what}");
        let weaker = OptimizeOptions { compression_level: 4, ..OPTIONS };
        let other = OptimizeOptions { compression_level: 9, region_size: 1 << 19, ..OPTIONS };
        for options in [OPTIONS, weaker, other] {
            let again = optimize_all(&repository, &options).expect("it works");
            assert_eq!((again.number, again.written_bytes), (None, 0), "{what}: {again:?}");
            assert!(again.plan.optimized_count > 0, "{what}: {again:?}");
        }
        let stronger = OptimizeOptions { compression_level: 9, ..OPTIONS };
        let again = optimize_all(&repository, &stronger).expect("it works");
        assert!(again.number.is_some() && again.plan.optimized_count == 0, "{what}: {again:?}");
        swept(&repository, 20, what);
        // New chunks are added, and the rest is left alone.
        back_up(&repository, &[1, 2], false).expect("it works");
        let again = optimize_all(&repository, &stronger).expect("it works");
        assert!(again.number.is_some() && again.plan.optimized_count > 0, "{what}: {again:?}");
        swept(&repository, 21, what);
    }
}

/// Returns the place of each chunk of the newest snapshot's files, in the order of the files.
fn places(repository: &Arc<Repository>) -> Vec<(PartName, u16, u32)> {
    let reader = reader_of_all(repository).expect("it opens");
    let view = reader.view();
    let newest = view.commits.values().filter(|commit| commit.snapshot().is_some());
    let newest = newest.max_by_key(|commit| commit.time_ns).expect("there is one");
    let snapshot = newest.snapshot().expect("it is one");
    let mut places = Vec::new();
    for entry in reader.tree(&snapshot.root) {
        for piece in reader.segments(&entry.expect("it is read").content) {
            let Piece::Chunk { fingerprint, .. } = piece.expect("it is read") else { continue };
            let found = reader.index().find(Class::Data, &fingerprint, Scope::Read);
            let place = found.expect("it answers").expect("it is there");
            let chunk = place.chunk();
            places.push((place.container.name, chunk.region, chunk.offset));
        }
    }
    places
}

#[test]
fn newest_snapshot_is_stored_in_order() {
    let repository = open(memory(), 1).expect("it opens");
    for files in [&[5, 9, 2][..], &[7, 1, 9], &[8, 3, 6], &[1, 2, 3, 4, 5, 6, 7, 8, 9]] {
        back_up(&repository, files, false).expect("it works");
    }
    assert!(!places(&repository).is_sorted(), "files lie as they came");
    optimize_all(&repository, &OPTIONS).expect("it works");
    sweep_all(&repository).expect("it works");
    let places = places(&repository);
    assert!(places.len() >= 54 && places.is_sorted(), "{places:?}");
}

/// The references of delta chunks move with them, and they stay delta chunks.
#[test]
fn delta_chunks_are_moved_unchanged() {
    let repository = open(start_similar(), 2).expect("it opens");
    back_up(&repository, &[103, 203, 260], false).expect("it works");
    let delta_chunks = |repository: &Arc<Repository>| {
        let all = records(repository).into_iter();
        let delta_chunks = all.filter(|record| record.form == Form::Delta);
        delta_chunks.map(|record| record.fingerprint).collect::<BTreeSet<_>>()
    };
    let before: BTreeSet<Fingerprint> = delta_chunks(&repository);
    let done = optimize_all(&repository, &OPTIONS).expect("it works");
    assert_eq!(done.plan.forgotten_count, 2, "it is a prune: {done:?}");
    swept(&repository, 2, "delta chunks");
    let after = delta_chunks(&repository);
    assert!(after.len() >= 9, "{} delta chunks of {}", after.len(), before.len());
    assert!(after.is_subset(&before), "nothing else resembles here");
}

/// Incompressible containers are left alone, unless optimizing them is requested.
#[test]
fn incompressible_containers_are_spared() {
    let repository = open(memory(), 1).expect("it opens");
    back_up(&repository, &[1, 2, 3, 4, 5, 6, 7, 8], false).expect("it works");
    let sparing = OptimizeOptions { spares_incompressible: true, ..OPTIONS };
    let done = optimize_all(&repository, &sparing).expect("it works");
    assert!(done.plan.spared_count >= 1 && done.plan.spared_bytes > 200_000, "{done:?}");
    let moved = records(&repository).len();
    assert!(done.plan.rewritten_bytes < 200_000 && moved > 48, "trees alone: {done:?}");
}

#[test]
fn limits_are_kept_and_the_rest_follows() {
    let storage = memory_with_delta_chunks();
    let repository = versions(storage.clone());
    let some = OptimizeOptions { rewrite_bytes_max: 300_000, ..OPTIONS };
    let mut runs = 0;
    while optimize_all(&repository, &some)
        .map(|done| {
            assert!(done.plan.rewritten_bytes <= 300_000, "{done:?}");
            done.number.is_some()
        })
        .expect("it works")
    {
        runs += 1;
        swept(&repository, 20, "a part");
        assert!(runs < 20, "it comes to an end");
    }
    assert!(runs > 2, "{runs} runs");
    let out_of_range = [
        OptimizeOptions { region_size: 1, ..OPTIONS },
        OptimizeOptions { region_size: 32 << 20, ..OPTIONS },
        OptimizeOptions { compression_level: 23, ..OPTIONS },
    ];
    for options in out_of_range {
        let error = optimize_all(&repository, &options).expect_err("out of range");
        assert_eq!(error.kind(), Kind::Invalid, "{options:?}");
    }
}

/// A damaged container stays, is named, and does not prevent anything else.
#[test]
fn damaged_container_stays_as_it_is() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[1, 2, 3], false).expect("it works");
    let (name, _) = storage.list(ObjectKind::Data.folder()).expect("it lists")[0].clone();
    back_up(&repository, &[4, 5, 6], false).expect("it works");
    let mut bytes = storage.get(&name).expect("it is there").to_vec();
    bytes[10_000] ^= 1;
    storage.delete(&name).expect("it goes");
    storage.put_new(&name, bytes.into()).expect("it comes back");
    let named = SkipCollector::default();
    let done = optimize(&repository, &OPTIONS, &named, |_| true).expect("it works");
    let done = done.expect("it was approved");
    assert!(done.number.is_some() && done.plan.rewritten_count >= 4, "{done:?}");
    sweep_all(&repository).expect("it works");
    let named = named.0.into_inner().expect("no panics");
    assert!(named.iter().any(|text| text.contains(&name)), "{named:?}");
    assert!(storage.head(&name).expect("it answers").is_some(), "the damaged container is gone");
    let data = storage.list(ObjectKind::Data.folder()).expect("it lists");
    assert_eq!(data.len(), 2, "the other one went: {data:?}");
}

/// A backup that began before finds its chunks in condemned containers.
#[test]
fn chunks_of_a_late_snapshot_are_stored_again() {
    let repository = open(start_similar(), 2).expect("it opens");
    let root = View::list(&repository).expect("it lists").snapshots()[0].1.clone();
    let mut late = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    forget(&repository, &[0, 1, 2]).expect("it works");
    back_up(&repository, &[104, 7], false).expect("it works");
    optimize_all(&repository, &OPTIONS).expect("it works");
    let mut sweeper = Sweeper::new(repository.clone(), SweepOptions { end_others: false, ..ALONE });
    assert!(matches!(sweeper.step(&()).expect("it works"), Sweep::Waiting { .. }));
    let outcome = Outcome::Snapshot(Box::new(root));
    late.commit(outcome, Vec::new(), &BTreeSet::new()).expect("it works");
    let step = sweeper.step(&()).expect("it works");
    assert!(matches!(&step, Sweep::Done(swept) if swept.rescued_count > 0), "{step:?}");
    swept(&repository, 2, "after a rescue");
}

/// Cancels at the n-th question.
struct Impatient(AtomicU64);

impl PruneMonitor for Impatient {
    fn cancelled(&self) -> bool {
        self.0.fetch_sub(1, Ordering::SeqCst) == 0
    }
}

#[test]
fn optimize_can_be_stopped_at_any_time() {
    let mut stops = 0;
    for asked in (0..).step_by(7) {
        let repository = open(start_similar(), 2).expect("it opens");
        match optimize(&repository, &OPTIONS, &Impatient(AtomicU64::new(asked)), |_| true) {
            Ok(done) => {
                assert!(done.is_some_and(|done| done.number.is_some()));
                break;
            }
            Err(error) => assert_eq!(error.kind(), Kind::Interrupted, "{asked}"),
        }
        stops += 1;
        swept(&repository, 1, "stopped");
        optimize_all(&repository, &OPTIONS).expect("the next one works");
        swept(&repository, 1, "gone on with");
    }
    assert!(stops > 10, "{stops} stops");
}

// ---------------------------------------------------------------------------------------------
// Faults.

/// Optimizes and sweeps as one process.
fn retire(storage: Arc<dyn Storage>, process: u32) -> Result<()> {
    let repository = open(storage, process)?;
    optimize_all(&repository, &OPTIONS)?;
    sweep_all(&repository).map(drop)
}

/// A starting state: its description, and how to create it.
type Start = (&'static str, fn() -> Arc<dyn Storage>);

/// Creates a few versions that no writer has compared.
fn start_whole() -> Arc<dyn Storage> {
    let storage = memory_with_delta_chunks();
    let repository = open(storage.clone(), 1).expect("it opens");
    for version in [100, 101, 102] {
        back_up_knowing(&repository, version, &[]);
    }
    forget(&repository, &[0, 1]).expect("it works");
    back_up_knowing(&repository, 103, &[]);
    back_up_knowing(&repository, 104, &[]);
    forget(&repository, &[3]).expect("it works");
    storage
}

const STARTS: [(Start, usize); 3] = [
    (("files", start), 1),
    (("versions of files", start_similar), 1),
    (("versions that were not compared", start_whole), 2),
];

/// Runs into `fault`. Nothing is lost, and the next process completes the work. Returns `None` if
/// the run was the same as with a fault at another call.
fn run_into(fault: Fault, ((what, start), snapshots): (Start, usize)) -> Option<Result<()>> {
    let storage = start();
    let faulty = Arc::new(Faulty::new(storage.clone(), fault));
    let failed = retire(faulty.clone(), 2);
    if matches!(fault, Fault::UnsyncedAt(call) | Fault::UnsyncedFrom(call) if !faulty.failed_first_at(call))
    {
        return None;
    }
    let when = format!("{what}: {fault:?}");
    let repository = open(storage.clone(), 3).expect("a crash needs no repair");
    assert_eq!(restore_all(&repository).expect("it restores"), snapshots, "{when}");
    assert_clean(&repository, &when);
    retire(storage.clone(), 4).unwrap_or_else(|error| panic!("{when}: the next one: {error}"));
    let repository = open(storage.clone(), 5).expect("it opens");
    swept(&repository, snapshots, &when);
    // Duplicates that the fault has caused go with the next run.
    retire(storage.clone(), 6).unwrap_or_else(|error| panic!("{when}: the last one: {error}"));
    let last = open(storage, 7).expect("it opens");
    let left = plan_optimize(&last, &OPTIONS, &()).expect("it works");
    assert_eq!((left.condemned_count, left.rewritten_count), (0, 0), "{when}: {left:?}");
    Some(failed)
}

fn calls_of_retiring(start: fn() -> Arc<dyn Storage>) -> u64 {
    let faulty = Arc::new(Faulty::new(start(), Fault::None));
    retire(faulty.clone(), 2).expect("nothing fails here");
    faulty.calls()
}

/// A process that dies after a call leaves the state of one that dies before the next call.
#[test]
fn optimize_failing_at_any_call_loses_nothing() {
    let dead: &[fn(u64) -> Fault] = &[Fault::DeadBefore];
    let all: &[fn(u64) -> Fault] =
        &[Fault::DeadBefore, Fault::FailsAt, Fault::UnsyncedAt, Fault::UnsyncedFrom];
    for (start, kinds) in STARTS.into_iter().zip([dead, dead, all]) {
        let calls = calls_of_retiring(start.0.1);
        assert!(calls > 60, "{calls} calls are too few to mean anything");
        let faults = kinds.iter().flat_map(|kind| (0..calls).map(kind));
        let faults = faults.chain([Fault::DeadAfter(calls - 1)]);
        let states = faults.filter_map(|fault| run_into(fault, start)).count();
        println!("{}: {states} states, nothing lost", start.0.0);
    }
}

/// On a full disk nothing is rewritten, but dead containers are deleted.
#[test]
fn full_disk_does_not_stop_deletion() {
    for start in STARTS {
        for call in 0..calls_of_retiring(start.0.1) {
            let done = run_into(Fault::FullFrom(call), start).expect("each run is another");
            done.unwrap_or_else(|error| panic!("{}: full from {call}: {error}", start.0.0));
        }
    }
}

/// Later prunes find what they need, and free the rest.
#[test]
fn prune_after_optimize_frees_what_is_left() {
    let storage = memory_with_delta_chunks();
    let repository = versions(storage.clone());
    optimize_all(&repository, &OPTIONS).expect("it works");
    swept(&repository, 20, "optimized");
    forget(&repository, &(0..18).collect::<Vec<_>>()).expect("it works");
    let options =
        cutpoint_repository::gc::prune::PruneOptions { unused_max: 0.0, ..Default::default() };
    prune(&repository, &options, &(), |_| true).expect("it works");
    swept(&repository, 2, "pruned");
    prune(&repository, &options, &(), |_| true).expect("it works");
    let left = swept(&repository, 2, "pruned again");
    assert!(left <= 4 * 64 * 1024, "{left} bytes are left");
}
