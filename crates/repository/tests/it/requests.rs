//! The number of requests to a storage with a long way: what is needed together is requested
//! together, and nothing is requested twice.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::support::backup::{back_up, open, restore_all};
use crate::support::far::{Far, Round};
use crate::support::pruning::{
    PATIENT, SkipCollector, WHOLE, assert_clean, forget, memory, sweep_all,
};
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::gc::prune::{PruneOptions, prune};
use cutpoint_repository::gc::sweep::{Sweep, Sweeper};
use cutpoint_repository::write::{Inline, TreeWriter};
use cutpoint_repository::{
    Content, Entry, EntryKind, Purpose, Repository, Snapshot, TicketId, Verify, View, Writer,
};
use cutpoint_storage::{Kind, ObjectRange, Storage};
use cutpoint_testing::SplitMix64;

use crate::support::failing_reads::FailingReads;

fn is_container(name: &str) -> bool {
    name.starts_with("data/") || name.starts_with("meta/")
}

/// Makes a repository of `count` snapshots, each with a file of its own. Returns the snapshots in the
/// order of their commits.
fn snapshots(count: u64) -> (Arc<dyn Storage>, Vec<TicketId>) {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    for number in 1..=count {
        back_up(&repository, &[number], false).expect("it works");
    }
    let view = View::list(&repository).expect("it lists");
    let mut ids: Vec<TicketId> = view.commits.keys().copied().collect();
    ids.sort_by_key(|id| view.commits[id].time_ns);
    (storage, ids)
}

fn open_far(storage: &Arc<dyn Storage>, process: u32) -> (Arc<Far>, Arc<Repository>) {
    let far = Far::over(storage);
    let repository = open(far.clone(), process).expect("it opens");
    far.take_rounds(|_| true);
    (far, repository)
}

/// Checks that no byte of a container is requested twice.
fn assert_once(rounds: &[Round]) {
    let mut seen: HashSet<(&str, u64)> = HashSet::new();
    for ObjectRange { name, offset, len } in rounds.iter().flatten() {
        for byte in *offset..*offset + *len as u64 {
            assert!(seen.insert((name, byte)), "{name}: byte {byte} is requested again");
        }
    }
}

/// Most containers are dead: those that stay are compared with the index instead, each with one
/// request, which the marking has made for trees.
#[test]
fn prune_reads_only_what_stays_if_that_is_less() {
    let (storage, ids) = snapshots(9);
    let (far, repository) = open_far(&storage, 2);
    forget(&repository, &[0, 1, 2, 3, 4, 5, 6]).expect("it works");
    far.take_rounds(|_| true);
    let named = SkipCollector::default();
    let pruned = prune(&repository, &WHOLE, &named, |_| true).expect("it works").expect("it ran");
    assert_eq!(pruned.plan.condemned_count, 14, "{pruned:?}");
    let rounds = far.take_rounds(is_container);
    assert_once(&rounds);
    let read: Vec<&str> = rounds.iter().flatten().map(|range| &*range.name).collect();
    let stay = |name: &&str| ids[7..].iter().any(|id| name.contains(&id.to_string()));
    assert!(read.iter().all(stay), "{read:?}");
    assert_eq!((read.len(), rounds.len()), (4, 2), "{rounds:?}");
    sweep_all(&repository).expect("it works");
    assert_eq!(restore_all(&repository).expect("it restores"), 2);
    assert_clean(&repository, "after the sweep");
}

/// Few containers are dead: they are read together, with one request each.
#[test]
fn prune_reads_dead_containers_together() {
    let (storage, ids) = snapshots(6);
    let (far, repository) = open_far(&storage, 2);
    forget(&repository, &[0, 1]).expect("it works");
    far.take_rounds(|_| true);
    let pruned = prune(&repository, &WHOLE, &(), |_| true).expect("it works").expect("it ran");
    assert_eq!(pruned.plan.condemned_count, 4, "{pruned:?}");
    let is_dead = |name: &str| ids[..2].iter().any(|id| name.contains(&id.to_string()));
    let rounds = far.take_rounds(|name| is_container(name) && is_dead(name));
    assert_eq!(rounds.iter().map(Vec::len).collect::<Vec<_>>(), [4], "{rounds:?}");
}

/// The trees of many small snapshots are requested together.
#[test]
fn marking_reads_small_snapshots_together() {
    let (storage, _) = snapshots(12);
    let (far, repository) = open_far(&storage, 2);
    forget(&repository, &[0]).expect("it works");
    far.take_rounds(|_| true);
    prune(&repository, &WHOLE, &(), |_| true).expect("it works").expect("it ran");
    let rounds = far.take_rounds(|name| name.starts_with("meta/"));
    assert_once(&rounds);
    assert_eq!(rounds.iter().map(Vec::len).collect::<Vec<_>>(), [11, 1], "{rounds:?}");
}

/// Makes a snapshot of a wide folder, whose tree is longer than what is read with a table of
/// contents.
fn wide_snapshot(repository: &Arc<Repository>) {
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let mut inline = Inline::new(writer, Verify::All).expect("it begins");
    let mut tree = TreeWriter::new();
    let mut names: BTreeSet<Vec<u8>> = BTreeSet::new();
    for number in 0..3000 {
        let name = SplitMix64::bytes(number, 120).into_iter().map(|byte| byte.max(1));
        names.insert(name.map(|byte| if byte == b'/' { b'0' } else { byte }).collect());
    }
    for name in names {
        let mut entry = Entry::new("x", EntryKind::File);
        (entry.name, entry.content) = (name, Content::Empty);
        tree.push(&entry, repository.keys(), &mut inline).expect("it stores");
    }
    let root = tree.finish(&mut inline).expect("it stores");
    let outcome = Outcome::Snapshot(Box::new(Snapshot { root, ..Snapshot::empty() }));
    inline.commit(outcome).expect("it commits");
}

/// The regions of a large tree are requested together.
#[test]
fn marking_reads_large_tree_by_few_rounds() {
    let (storage, _) = snapshots(1);
    let repository = open(storage.clone(), 2).expect("it opens");
    wide_snapshot(&repository);
    let (far, repository) = open_far(&storage, 3);
    forget(&repository, &[0]).expect("it works");
    far.take_rounds(|_| true);
    prune(&repository, &WHOLE, &(), |_| true).expect("it works").expect("it ran");
    let view = View::list(&repository).expect("it lists");
    let (id, _) = view.snapshots()[0];
    let rounds = far.take_rounds(|name| is_container(name) && name.contains(&id.to_string()));
    let lens: usize = rounds.iter().flatten().map(|range| range.len).sum();
    assert!(lens > 200_000, "the tree is large: {lens}");
    assert!(rounds.len() <= 5, "of {} rounds: {rounds:?}", rounds.len());
    let regions = rounds.iter().flatten().filter(|range| range.offset > 0).cloned().collect();
    assert_once(&[regions]);
}

/// A snapshot was committed after a prune, and a later prune has marked it: the sweep of the first
/// does not walk it.
#[test]
fn sweep_does_not_walk_what_a_later_record_marked() {
    let (storage, ids) = snapshots(2);
    let repository = open(storage.clone(), 2).expect("it opens");
    forget(&repository, &[0]).expect("it works");
    prune(&repository, &WHOLE, &(), |_| true).expect("it works").expect("it ran");
    back_up(&repository, &[3], false).expect("it works");
    let walks = |repository: &Arc<Repository>| {
        let mut sweeper = Sweeper::new(repository.clone(), PATIENT);
        sweeper.step(&()).map_err(|error| error.kind())
    };
    let failing: Arc<dyn Storage> = FailingReads::new(&storage, "meta/", Kind::Storage, u64::MAX);
    let repository_without_trees = open(failing, 3).expect("it opens");
    assert_eq!(walks(&repository_without_trees), Err(Kind::Storage), "it is walked");

    forget_one(&repository, ids[1]);
    prune(&repository, &WHOLE, &(), |_| true).expect("it works").expect("it ran");
    let swept = walks(&repository_without_trees).expect("no tree is read");
    assert!(matches!(swept, Sweep::Done(report) if report.number == 1), "{swept:?}");
    sweep_all(&repository).expect("it works");
    assert_eq!(restore_all(&repository).expect("it restores"), 1);
    assert_clean(&repository, "after the sweeps");
}

/// Segments of forgotten backups are not read to be merged: they stay until their containers are
/// deleted, and the next prune supersedes them.
#[test]
fn segments_of_deleted_containers_are_superseded_unread() {
    let (storage, ids) = snapshots(8);
    let (far, repository) = open_far(&storage, 2);
    let options = PruneOptions { segment_count_max: 4, ..WHOLE };
    forget(&repository, &[0, 1, 2, 3, 4, 5]).expect("it works");
    let pruned = prune(&repository, &options, &(), |_| true).expect("it works").expect("it ran");
    assert_eq!((pruned.plan.condemned_count, pruned.plan.merged_segment_count), (12, 0));
    let view = View::list(&repository).expect("it lists");
    assert_eq!(view.segments().len(), 8, "a sweep finds chunks by them");
    sweep_all(&repository).expect("it works");
    far.take_rounds(|_| true);
    let pruned = prune(&repository, &options, &(), |_| true).expect("it works").expect("it ran");
    assert_eq!((pruned.number, pruned.plan.merged_segment_count), (Some(2), 0), "{pruned:?}");
    let read = far.take_rounds(|name| name.starts_with("index/")).concat();
    assert_eq!(read.len(), 8, "for the index of the prune only: {read:?}");
    let view = View::list(&repository).expect("it lists");
    let left: Vec<TicketId> = view.segments().iter().map(|part| part.ticket).collect();
    assert!(left.len() == 2 && left.iter().all(|id| ids[6..].contains(id)), "{left:?}");
    sweep_all(&repository).expect("it works");
    assert_eq!(restore_all(&repository).expect("it restores"), 2);
    assert_clean(&repository, "after the sweeps");
}

fn forget_one(repository: &Arc<Repository>, id: TicketId) {
    let mut writer = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
    let outcome = Outcome::Forget(vec![id]);
    writer.commit(outcome, Vec::new(), &BTreeSet::new()).expect("it commits");
}
