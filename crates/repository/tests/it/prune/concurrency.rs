//! Prunes beside other clients.

use std::collections::BTreeSet;
use std::sync::Arc;

use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::gc::prune::{
    OptimizeOptions, PruneOptions, PruneReport, optimize, plan, prune,
};
use cutpoint_repository::gc::sweep::{Sweep, SweepOptions, Sweeper};
use cutpoint_repository::snapshots::{hold, unforget};
use cutpoint_repository::verify::repair::{IndexOptions, repair_index};
use cutpoint_repository::{CommitResult, Purpose, Repository, TicketId, View, Writer};
use cutpoint_storage::{Kind, Result};

use super::{ALL, list_data, prune_all, record};
use crate::support::backup::{back_up, open, restore_all};
use crate::support::overtaken::{OvertakenStorage, When};
use crate::support::pruning::{ALONE, assert_clean, forget, memory, start, sweep_all};

/// A backup that began before the prune finds its chunks in condemned containers, and ends in time.
#[test]
fn chunks_of_a_late_snapshot_are_stored_again() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[1, 2], false).expect("it works");
    let root = View::list(&repository).expect("it lists").snapshots()[0].1.clone();
    let mut late = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    forget(&repository, &[0]).expect("it works");
    let pruned = prune_all(&repository, &ALL).expect("it works");
    assert!(pruned.plan.condemned_count >= 2, "{pruned:?}");
    // The sweep waits for the backup, and names it.
    let patient = SweepOptions { end_others: false, ..ALONE };
    let mut sweeper = Sweeper::new(repository.clone(), patient);
    match sweeper.step(&()).expect("it works") {
        Sweep::Waiting { number: 1, writers } => {
            let found: Vec<TicketId> = writers.iter().map(|writer| writer.ticket).collect();
            assert_eq!(found, [late.ticket()]);
        }
        other => panic!("{other:?}"),
    }
    let outcome = Outcome::Snapshot(Box::new(root));
    let committed = late.commit(outcome, Vec::new(), &BTreeSet::new()).expect("it works");
    assert_eq!(committed, CommitResult::Done);
    let planned = plan(&repository, &ALL, &()).expect("it works");
    assert!(planned.rescued_count >= 12, "two files, and what leads to them: {planned:?}");
    match sweeper.step(&()).expect("it works") {
        Sweep::Done(swept) => assert!(swept.rescued_count > 0, "{swept:?}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(restore_all(&repository).expect("it restores"), 1);
    assert_clean(&repository, "after a rescue");
}

/// Prunes `start` while `act` runs in between. Returns the number of times that the plan was seen,
/// and the result.
fn prune_overtaken(
    options: &PruneOptions,
    act: impl FnOnce(&Arc<Repository>, &[TicketId]) + Send + 'static,
) -> (usize, PruneReport, Arc<Repository>) {
    let storage = start();
    let other = open(storage.clone(), 2).expect("it opens");
    let view = View::list(&other).expect("it lists");
    let mut ids: Vec<_> = view.takeable().into_iter().collect();
    ids.extend(view.snapshots().into_iter().map(|(id, _)| id));
    let when = When::BeforePut("prunes/");
    let repository =
        open(OvertakenStorage::new(storage, when, move || act(&other, &ids)), 3).expect("it opens");
    let mut seen = 0;
    let pruned = prune(&repository, options, &(), |_| {
        seen += 1;
        true
    });
    (seen, pruned.expect("it works").expect("it ran"), repository)
}

/// P5: of the records that come in between, only those that concern the prune make it plan again.
#[test]
fn prune_plans_again_only_for_concurrent_records_that_matter() {
    // Another client holds a snapshot that stays, which does not concern the merge.
    let merging = PruneOptions { segment_count_max: 2, ..ALL };
    let (seen, pruned, repository) = prune_overtaken(&merging, |other, ids| {
        hold(other, &ids[2..]).expect("memory takes it");
    });
    assert_eq!((seen, pruned.number), (1, Some(2)), "{pruned:?}");
    let view = View::list(&repository).expect("it lists");
    assert!(pruned.plan.merged_segment_count > 0, "{pruned:?}");
    assert!(!view.prunes[&2].superseded.is_empty(), "{:?}", view.prunes[&2]);
    assert!(!view.prunes[&2].coverings.is_empty(), "{:?}", view.prunes[&2]);
    // Records that concern the taken snapshots, or condemn anything, make it plan again.
    type Act = fn(&Arc<Repository>, &[TicketId]);
    let acts: [(&str, Act, bool); 4] = [
        (
            "hold",
            |other, ids| {
                hold(other, &ids[..1]).expect("memory takes it");
            },
            false,
        ),
        (
            "unforget",
            |other, ids| {
                unforget(other, &ids[..1]).expect("it comes back");
            },
            false,
        ),
        (
            "take",
            |other, ids| {
                record(other, Prune { taken: ids[..1].to_vec(), ..Prune::default() });
            },
            true,
        ),
        (
            "condemn",
            |other, _| {
                let mut names = list_data(&**other.storage()).into_iter();
                record(
                    other,
                    Prune { condemned: names.by_ref().take(1).collect(), ..Prune::default() },
                );
            },
            true,
        ),
    ];
    for (what, act, is_taken) in acts {
        let (seen, pruned, repository) = prune_overtaken(&ALL, act);
        assert_eq!((seen, pruned.number), (2, Some(2)), "{what}: {pruned:?}");
        let view = View::list(&repository).expect("it lists");
        let is_snapshot = |id: &TicketId| view.commits[id].snapshot().is_some();
        let taken = view.taken().into_iter().filter(is_snapshot);
        assert_eq!(taken.count(), 1 + usize::from(is_taken), "{what}");
        // Chunks that the first attempt stored again were published when it ended.
        assert_eq!(pruned.plan.orphan_count, 0, "{what}: {pruned:?}");
        sweep_all(&repository).expect("it works");
        restore_all(&repository).expect("it restores");
        assert_clean(&repository, what);
    }
}

/// A client that another one overtakes with a prune and a sweep, at any call, completes its work or
/// ends with a conflict. It finds no damage, because what is gone was taken. At every second call
/// the other client also takes it for dead and ends it.
#[test]
fn overtaken_client_finds_no_damage() {
    type Run = fn(&Arc<Repository>) -> Result<()>;
    let runs: [(&str, bool, Run); 4] = [
        ("prune", false, |repository| prune_all(repository, &ALL).map(drop)),
        ("optimize", false, |repository| {
            let options =
                OptimizeOptions { spares_incompressible: false, ..OptimizeOptions::default() };
            optimize(repository, &options, &(), |_| true).map(drop)
        }),
        ("repair index", false, |repository| {
            repair_index(repository, &IndexOptions::default(), &()).map(drop)
        }),
        ("sweep", true, |repository| sweep_all(repository).map(drop)),
    ];
    for (what, is_pruned, run) in runs {
        let (mut done, mut conflicts) = (0, 0);
        // At each second call the other client takes it for dead. Every third call of both kinds is
        // tried.
        for call in (0..).filter(|call| call % 6 < 2) {
            let storage = start();
            if is_pruned {
                prune_all(&open(storage.clone(), 2).expect("it opens"), &ALL).expect("it works");
            }
            let other = storage.clone();
            // Processes with a smaller number are dead to it.
            let process = if call % 2 == 0 { 9 } else { 3 };
            let overtaken =
                OvertakenStorage::new(storage.clone(), When::BeforeCall(call), move || {
                    let other = open(other, process).expect("it opens");
                    back_up(&other, &[1, 7, 9], false).expect("memory takes it");
                    prune_all(&other, &ALL).expect("it works");
                    sweep_all(&other).expect("it works");
                });
            let ran = run(&open(overtaken.clone(), 5).expect("it opens"));
            if !overtaken.has_acted() {
                break;
            }
            let when = format!("{what} overtaken before call {call} by process {process}");
            match ran {
                Ok(()) => done += 1,
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Conflict, "{when}: {error}");
                    conflicts += 1;
                }
            }
            let repository = open(storage, 11).expect("it opens");
            sweep_all(&repository).unwrap_or_else(|error| panic!("{when}: the sweep: {error}"));
            assert_eq!(restore_all(&repository).expect("it restores"), 2, "{when}");
            assert_clean(&repository, &when);
        }
        println!("{what}: {done} did their work, {conflicts} ended with a conflict");
        assert!(done > 10, "{what}: {done} runs are too few to mean anything");
    }
}
