//! A fault at every single call of prune and sweep.

use std::collections::BTreeMap;
use std::sync::Arc;

use cutpoint_repository::gc::prune::{OptimizeOptions, PruneOptions, PrunePlan, optimize, plan};
use cutpoint_repository::gc::sweep::{Sweep, SweepOptions, Sweeper};
use cutpoint_repository::rules::{self, Mutant};
use cutpoint_repository::{ObjectName, Purpose, Repository, TicketId, View, Writer};
use cutpoint_storage::{Fault, Faulty, Kind, Memory, ObjectKind, Result, Storage};

use super::{ALL, STARTS, Start, prune_all};
use crate::support::backup::{back_up, open, restore_all};
use crate::support::failing_puts::FailingPuts;
use crate::support::failing_reads::FailingReads;
use crate::support::pruning::{assert_clean, forget, memory, start, sweep_all};

/// Prunes and sweeps as one process.
fn retire(storage: Arc<dyn Storage>, process: u32) -> Result<()> {
    let repository = open(storage, process)?;
    let options = PruneOptions { segment_count_max: 2, ..ALL };
    prune_all(&repository, &options)?;
    sweep_all(&repository).map(drop)
}

fn calls_of_retiring(start: fn() -> Arc<dyn Storage>) -> u64 {
    let faulty = Arc::new(Faulty::new(start(), Fault::None));
    retire(faulty.clone(), 2).expect("nothing fails here");
    faulty.calls()
}

/// Runs into `fault`. Nothing is lost, and the next process completes the work. Returns `None` if
/// the run was the same as with a fault at another call.
fn run_into(fault: Fault, (what, start): Start) -> Option<Result<()>> {
    let storage = start();
    let faulty = Arc::new(Faulty::new(storage.clone(), fault));
    let failed = retire(faulty.clone(), 2);
    if matches!(fault, Fault::UnsyncedAt(call) | Fault::UnsyncedFrom(call) if !faulty.failed_first_at(call))
    {
        return None;
    }
    let repository = open(storage.clone(), 3).expect("a crash needs no repair");
    let when = format!("{what}: {fault:?}");
    assert_eq!(restore_all(&repository).expect("it restores"), 1, "{when}");
    assert_clean(&repository, &when);
    retire(storage.clone(), 4).unwrap_or_else(|error| panic!("{when}: the next one: {error}"));
    let repository = open(storage.clone(), 5).expect("it opens");
    assert_eq!(restore_all(&repository).expect("it restores"), 1, "{when}");
    assert_clean(&repository, &when);
    // References of delta chunks that became full chunks go with the next run.
    retire(storage.clone(), 6).unwrap_or_else(|error| panic!("{when}: the last one: {error}"));
    let left: PrunePlan = plan(&repository, &ALL, &()).expect("it works");
    assert_eq!((left.condemned_count, left.rewritten_count), (0, 0), "{when}: {left:?}");
    let named: BTreeMap<String, u64> = ObjectKind::ALL
        .iter()
        .flat_map(|kind| storage.list(kind.folder()).expect("lists"))
        .collect();
    let containers = named.keys().filter(|name| name.starts_with("data/")).count();
    assert!(containers as u64 <= left.container_count, "{when}: {named:?}");
    Some(failed)
}

/// Each kind of fault at each call of prune and sweep. A process that dies after a call leaves the
/// state of one that dies before the next call.
#[test]
fn prune_failing_at_any_call_loses_nothing() {
    let kinds: [fn(u64) -> Fault; 4] =
        [Fault::DeadBefore, Fault::FailsAt, Fault::UnsyncedAt, Fault::UnsyncedFrom];
    for start in STARTS {
        let calls = calls_of_retiring(start.1);
        assert!(calls > 60, "{calls} calls are too few to mean anything");
        let faults = kinds.iter().flat_map(|kind| (0..calls).map(kind));
        let faults = faults.chain([Fault::DeadAfter(calls - 1)]);
        let states = faults.filter_map(|fault| run_into(fault, start)).count();
        println!("{}: {states} states of prune and sweep, {calls} calls, nothing lost", start.0);
    }
}

/// On a full disk nothing is rewritten, but dead containers are deleted.
#[test]
fn prune_frees_a_full_disk() {
    for start in STARTS {
        let calls = calls_of_retiring(start.1);
        for call in 0..calls {
            let done = run_into(Fault::FullFrom(call), start).expect("each run is another");
            done.unwrap_or_else(|error| panic!("{}: full from {call}: {error}", start.0));
        }
    }
}

/// Creates four containers of 4 MiB, half of each needed by the snapshot that stays: what is stored
/// again from two of them fills one.
fn start_half_live() -> Arc<dyn Storage> {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    let kept: Vec<u64> = (1..=260).collect();
    for kept in kept.chunks(65) {
        let dropped = kept.iter().map(|number| number + 10_000_000);
        let files: Vec<u64> = kept.iter().copied().zip(dropped).flat_map(|(k, d)| [k, d]).collect();
        back_up(&repository, &files, false).expect("memory takes it");
    }
    back_up(&repository, &kept, false).expect("memory takes it");
    forget(&repository, &[0, 1, 2, 3]).expect("memory takes it");
    storage
}

/// Copies the present content of a storage into another one.
fn copy_of(storage: &dyn Storage) -> Arc<dyn Storage> {
    let copy = Memory::new();
    for kind in ObjectKind::ALL {
        for (name, _) in storage.list(kind.folder()).expect("memory lists") {
            let bytes = storage.get(&name).expect("it was listed");
            copy.put_new(&name, bytes).expect("memory takes it");
        }
    }
    Arc::new(copy)
}

/// P4: a container that cannot be put is not a source that cannot be read, whatever the error.
/// Otherwise the record would condemn the sources of that container.
#[test]
fn failed_put_condemns_nothing() {
    type Run = fn(&Arc<Repository>) -> Result<()>;
    let runs: [(&str, Run); 2] = [
        ("prune", |repository| prune_all(repository, &ALL).map(drop)),
        ("optimize", |repository| {
            let options = OptimizeOptions {
                region_size: 256 * 1024,
                spares_incompressible: false,
                ..OptimizeOptions::default()
            };
            optimize(repository, &options, &(), |_| true).map(drop)
        }),
    ];
    let original = start_half_live();
    for (what, run) in runs {
        let counting = FailingPuts::new(&copy_of(&*original), "data/", Kind::Storage, None);
        run(&open(counting.clone(), 2).expect("it opens")).expect("nothing fails");
        let puts = counting.puts();
        assert!(puts >= 2, "{what}: {puts} containers are too few to mean anything");
        for (kind, put) in [Kind::Missing, Kind::Corrupt, Kind::Storage]
            .into_iter()
            .flat_map(|kind| (0..puts).map(move |put| (kind, put)))
        {
            let storage = copy_of(&*original);
            let failing = FailingPuts::new(&storage, "data/", kind, Some(put));
            let when = format!("{what}: put {put} of data fails as {kind:?}");
            let ended = run(&open(failing, 2).expect("it opens")).expect_err(&when);
            assert_eq!(ended.kind(), Kind::Storage, "{when}: {ended}");
            let repository = open(storage, 3).expect("it opens");
            let view = View::list(&repository).expect("it lists");
            assert!(view.prunes.is_empty(), "{when}: {:?}", view.prunes);
            sweep_all(&repository).expect("nothing is to be swept");
            assert_eq!(restore_all(&repository).expect("it restores"), 1, "{when}");
        }
    }
    // A prune that takes such a put for damage of a source loses what the container was to hold.
    let storage = copy_of(&*original);
    let failing = FailingPuts::new(&storage, "data/", Kind::Missing, Some(0));
    rules::activate(Some(Mutant::ToleratesFailedPuts));
    let pruned = prune_all(&open(failing, 2).expect("it opens"), &ALL);
    rules::activate(None);
    assert!(pruned.is_ok_and(|pruned| pruned.number.is_some()), "the mutant goes on");
    let repository = open(storage, 3).expect("it opens");
    sweep_all(&repository).expect("it works");
    assert!(restore_all(&repository).is_err(), "the rule can be broken unnoticed");
}

/// A commit that is listed but missing in the storage was not deleted by a sweep, because no record
/// has taken it: nothing is condemned, and nothing is deleted.
#[test]
fn vanished_commit_is_not_skipped() {
    let storage = start();
    let writer = open(storage.clone(), 6).expect("it opens");
    let before = View::list(&writer).expect("it lists");
    // The commit has chunks of the forgotten snapshots, and no other client has seen it.
    back_up(&writer, &[1, 2, 3, 5], false).expect("memory takes it");
    let after = View::list(&writer).expect("it lists");
    let newest = after.commits.keys().find(|id| !before.commits.contains_key(id));
    let name = ObjectName::Commit(*newest.expect("a commit")).to_string();
    let hiding = FailingReads::new(&storage, &name, Kind::Missing, u64::MAX);
    let other = open(hiding, 7).expect("it opens");
    prune_all(&other, &ALL).expect_err("it is not known what is needed");
    sweep_all(&other).expect_err("it is not known what is needed");
    let repository = open(storage, 8).expect("it opens");
    assert!(View::list(&repository).expect("it lists").prunes.is_empty(), "nothing is condemned");
    assert_eq!(restore_all(&repository).expect("it restores"), 2);
}

/// S1: the writer of a missing ticket without a commit has not ended.
#[test]
fn vanished_ticket_is_waited_for() {
    let storage = start();
    let repository = open(storage.clone(), 2).expect("it opens");
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let ticket = writer.ticket();
    prune_all(&repository, &ALL).expect("it works");
    let name = ObjectName::Ticket { ticket, renewal: 0 }.to_string();
    let hiding = FailingReads::new(&storage, &name, Kind::Missing, u64::MAX);
    let options = SweepOptions { settle_ns: 0, end_others: false, ..SweepOptions::default() };
    let mut sweeper = Sweeper::new(open(hiding, 2).expect("it opens"), options);
    match sweeper.step(&()).expect("it works") {
        Sweep::Waiting { writers, .. } => {
            let waited_for: Vec<TicketId> = writers.iter().map(|each| each.ticket).collect();
            assert_eq!(waited_for, [ticket]);
        }
        other => panic!("it does not wait: {other:?}"),
    }
}
