//! Index segments that lie in commits.

use std::collections::BTreeSet;
use std::sync::Arc;

use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::gc::prune::{PruneOptions, prune};
use cutpoint_repository::gc::sweep::{AtOnce, Sweep, SweepOptions, Sweeper};
use cutpoint_repository::verify::repair::{IndexOptions, repair_index};
use cutpoint_repository::write::Inline;
use cutpoint_repository::{
    CommitResult, Index, ObjectName, PartName, Purpose, Snapshot, TicketId, Verify, View, Writer,
};
use cutpoint_storage::{ObjectKind, Storage};

use crate::coverings::{Client, expect_complete, list, open, record};
use crate::support::backup::{back_up_embedding, file, restore_all};
use crate::support::overtaken::{OvertakenStorage, When};
use crate::support::pruning::{WHOLE, assert_clean, memory};

/// Makes one backup of each list of files. Returns the snapshots, oldest first.
fn back_up_each(storage: &Arc<dyn Storage>, backups: &[&[u64]]) -> Vec<TicketId> {
    let mut all: Vec<TicketId> = Vec::new();
    for files in backups {
        back_up_embedding(&open(storage), files, false).expect("it works");
        let view = list(storage);
        let new = view.commits.keys().find(|id| !all.contains(id));
        all.push(*new.expect("a new commit"));
    }
    all
}

fn segment_objects(storage: &Arc<dyn Storage>) -> usize {
    storage.list(ObjectKind::Segment.folder()).expect("it lists").len()
}

fn segment_of(writer: TicketId) -> PartName {
    PartName { ticket: writer, count: 0 }
}

fn forget(storage: &Arc<dyn Storage>, snapshots: &[TicketId]) {
    let mut writer = Writer::begin(open(storage), Purpose::Other).expect("it begins");
    let outcome = Outcome::Forget(snapshots.to_vec());
    writer.commit(outcome, Vec::new(), &BTreeSet::new()).expect("memory takes it");
}

/// Forgets snapshots, and prunes.
fn retire(storage: &Arc<dyn Storage>, snapshots: &[TicketId]) {
    forget(storage, snapshots);
    let repository = open(storage);
    prune(&repository, &WHOLE, &(), |_| true).expect("it works").expect("it ran");
}

/// Sweeps everything, and deletes taken commits at once.
fn sweep_commits(storage: &Arc<dyn Storage>) {
    let options = SweepOptions {
        settle_ns: 0,
        at_once: AtOnce::Never,
        commit_ns: i64::MIN,
        end_others: true,
    };
    let mut sweeper = Sweeper::new(open(storage), options);
    while !matches!(sweeper.step(&()).expect("it works"), Sweep::Nothing) {}
}

#[test]
fn segments_of_small_backups_are_no_objects() {
    let storage = memory();
    let all = back_up_each(&storage, &[&[1, 2], &[2, 3], &[3, 4]]);
    assert_eq!(segment_objects(&storage), 0);
    let segments: BTreeSet<PartName> = all.iter().map(|id| segment_of(*id)).collect();
    assert_eq!(list(&storage).segments(), segments);
    let repository = open(&storage);
    let index = Index::open_without_cache(repository.clone(), &list(&storage)).expect("it opens");
    expect_complete(&storage, &index);
    assert_eq!(restore_all(&repository).expect("it restores"), 3);
    assert_clean(&repository, "three backups");
    // A large backup has its segment outside of the commit.
    let many: Vec<u64> = (10..50).collect();
    back_up_embedding(&repository, &many, false).expect("it works");
    assert_eq!(segment_objects(&storage), 1);
    // One that has published segments before may embed the last one, which has the next name.
    back_up_embedding(&repository, &[60, 61], true).expect("it works");
    let view = list(&storage);
    let last = view.commits.values().find(|commit| commit.segments.len() > 1);
    let last = last.expect("the last commit has several");
    let part = last.segments.last().expect("it has several");
    assert!(view.embedded_segment(part).is_some(), "{part}");
    assert_eq!(part.count as usize + 1, last.segments.len());
    assert_eq!(segment_objects(&storage), last.segments.len(), "one more, and one less");
    assert_clean(&repository, "five backups");
}

/// The segment goes with the commit, and others need a container that it names.
#[test]
fn segment_in_a_taken_commit_is_merged() {
    let storage = memory();
    let all = back_up_each(&storage, &[&[1, 2], &[2, 3], &[3, 4], &[5]]);
    let client = Client::new(&storage);
    let running = client.index();
    let before = client.runs();
    retire(&storage, &all[..1]);
    let Prune { published, superseded, coverings, spent, .. } = &*record(&storage, 1);
    assert_eq!(superseded, &[segment_of(all[0])]);
    assert_eq!((published.len(), coverings.len(), spent.len()), (1, 1, 0));
    assert_eq!(coverings[0].covered, *superseded);
    let cold = Client::new(&storage);
    expect_complete(&storage, &cold.index());
    assert_eq!(cold.take_reads(), BTreeSet::new(), "the commit is still there");
    sweep_commits(&storage);
    let cold = Client::new(&storage);
    expect_complete(&storage, &cold.index());
    assert_eq!(cold.take_reads(), published.iter().copied().collect(), "the merged one");
    let view = list(&storage);
    assert!(!view.commits.contains_key(&all[0]), "it is deleted");
    assert_eq!((segment_objects(&storage), view.segments().len()), (1, 4));
    running.refresh(&view).expect("it works");
    expect_complete(&storage, &running);
    expect_complete(&storage, &client.index());
    assert_eq!(client.take_reads(), BTreeSet::new(), "the client has all of it");
    assert_eq!(client.runs(), before, "and keeps it");
    assert_eq!(restore_all(&open(&storage)).expect("it restores"), 3);
    assert_clean(&open(&storage), "a merged segment");
    // The merged one counts until the others are gone as well.
    retire(&storage, &all[1..3]);
    sweep_commits(&storage);
    assert_eq!(restore_all(&open(&storage)).expect("it restores"), 1);
    assert_clean(&open(&storage), "all but the last");
}

/// Nothing stays of a spent segment, so that nothing is stored for it, and clients keep their runs.
#[test]
fn spent_segment_goes_with_its_commit() {
    let storage = memory();
    let all = back_up_each(&storage, &[&[1], &[2], &[3]]);
    let client = Client::new(&storage);
    client.index();
    let before = client.runs();
    retire(&storage, &all[..1]);
    let Prune { published, superseded, spent, .. } = &*record(&storage, 1);
    assert_eq!((published.len(), superseded.len()), (0, 0));
    assert_eq!(spent, &[segment_of(all[0])]);
    assert!(list(&storage).segments().contains(&spent[0]), "a sweep needs it");
    assert_clean(&open(&storage), "a spent segment");
    sweep_commits(&storage);
    let counting: BTreeSet<PartName> = all[1..].iter().map(|id| segment_of(*id)).collect();
    assert_eq!(list(&storage).segments(), counting);
    expect_complete(&storage, &client.index());
    assert_eq!(client.runs(), before, "of which a third leads to nothing");
    assert_eq!(restore_all(&client.open()).expect("it restores"), 2);
    assert_clean(&open(&storage), "no segment");
}

/// A repair that rebuilds the index takes the number that a prune was about to take.
#[test]
fn merge_out_of_taken_commits_is_planned_again() {
    let storage = memory();
    let all = back_up_each(&storage, &[&[1, 2], &[2, 3], &[4]]);
    forget(&storage, &all[..1]);
    let other = open(&storage);
    let overtaken = OvertakenStorage::new(storage.clone(), When::BeforePut("prunes/"), move || {
        let done = repair_index(&other, &IndexOptions::default(), &()).expect("it works");
        assert_eq!((done.record, done.superseded_count), (Some(1), 3), "{done:?}");
    });
    let acting: Arc<dyn Storage> = overtaken.clone();
    let pruned = prune(&open(&acting), &WHOLE, &(), |_| true).expect("it works");
    assert_eq!(pruned.expect("it ran").number, Some(2));
    assert!(overtaken.has_acted(), "the repair was faster");
    let record = record(&storage, 2);
    assert!(record.superseded.is_empty() && record.spent.is_empty(), "{record:?}");
    sweep_commits(&storage);
    assert_eq!(restore_all(&open(&storage)).expect("it restores"), 2);
    assert_clean(&open(&storage), "a repair and a prune");
}

/// The index is rebuilt into objects.
#[test]
fn rebuilt_index_supersedes_segments_in_commits() {
    let storage = memory();
    let all = back_up_each(&storage, &[&[1, 2], &[2, 3]]);
    let done = repair_index(&open(&storage), &IndexOptions::default(), &()).expect("it works");
    assert_eq!((done.superseded_count, done.found.len()), (2, 0), "{done:?}");
    assert_eq!((segment_objects(&storage), list(&storage).segments().len()), (1, 1));
    assert_eq!(restore_all(&open(&storage)).expect("it restores"), 2);
    retire(&storage, &all[..1]);
    sweep_commits(&storage);
    assert_clean(&open(&storage), "a rebuilt index");
}

/// W5: a container is gone in which the writer had found a chunk. What it has stored itself is
/// published with the void.
#[test]
fn void_names_the_segment_that_was_to_be_embedded() {
    let storage = memory();
    let first = back_up_each(&storage, &[&[1]]);
    let writer = Writer::begin(open(&storage), Purpose::Backup).expect("it begins");
    let ticket = writer.ticket();
    let mut inline = Inline::new(writer, Verify::All).expect("it begins");
    inline.store_data(&file(1)[..5000]).expect("a hit");
    inline.store_data(&file(2)[..5000]).expect("it is stored");
    for (name, _) in storage.list("data").expect("memory lists") {
        let is_of_first = matches!(ObjectName::parse(&name),
            Ok(ObjectName::Container(_, part)) if part.ticket == first[0]);
        if is_of_first {
            storage.delete(&name).expect("memory deletes");
        }
    }
    let committed = inline.commit_embedding(Snapshot::empty()).expect("it ends");
    assert_eq!(committed, CommitResult::Ended, "the hit is gone");
    let view = View::list(&open(&storage)).expect("it lists");
    assert_eq!(view.commits[&ticket].segments, [segment_of(ticket)]);
    assert!(view.embedded_segment(&segment_of(ticket)).is_none(), "a void has none");
    assert_eq!(segment_objects(&storage), 1);
}

/// Many segments in commits are not merged, because they cost nothing.
#[test]
fn segments_in_commits_are_not_merged_while_they_stay() {
    let storage = memory();
    back_up_each(&storage, &[&[1], &[2], &[3], &[4]]);
    let options = PruneOptions { segment_count_max: 2, ..WHOLE };
    let pruned = prune(&open(&storage), &options, &(), |_| true).expect("it works");
    let pruned = pruned.expect("it ran");
    assert_eq!((pruned.number, pruned.plan.merged_segment_count), (None, 0));
}
