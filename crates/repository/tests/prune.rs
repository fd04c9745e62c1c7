//! Forget, prune and sweep: what is deleted, what stays, and a fault at every single call.

#[path = "common/backup.rs"]
mod backup;
#[path = "common/failing.rs"]
mod failing;
#[path = "common/failing_puts.rs"]
mod failing_puts;
#[path = "common/knowing.rs"]
mod knowing;
#[path = "common/overtaken.rs"]
#[expect(dead_code, reason = "other tests ask for other moments")]
mod overtaken;
#[path = "common/packed.rs"]
mod packed;
#[path = "common/retiring.rs"]
mod retiring;
#[path = "common/whole.rs"]
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use backup::{CHUNK_LEN, back_up, back_up_by, file, open, restore_all};
use bytes::Bytes;
use cutpoint_repository::crypto::HEADER_LEN;
use cutpoint_repository::format::commit::{Damage, Outcome};
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::format::segment::Segment;
use cutpoint_repository::gc::prune::{
    OptimizeOptions, Phase, Plan, PruneMonitor, PruneOptions, PruneReport, optimize, plan, prune,
};
use cutpoint_repository::gc::sweep::{Sweep, SweepOptions, SweepReport, Sweeper};
use cutpoint_repository::rules::{self, Mutant};
use cutpoint_repository::snapshots::{hold, unforget};
use cutpoint_repository::verify::repair::{IndexOptions, repair_index};
use cutpoint_repository::write::Inline;
use cutpoint_repository::write::prune_log::{Appended, append};
use cutpoint_repository::{
    Class, Committed, Index, ObjectName, PartName, Purpose, Repository, Snapshot, TicketId, Verify,
    View, Writer,
};
use cutpoint_storage::{Fault, Faulty, Kind, Layer, Memory, ObjectKind, Result, Storage};
use failing::FailingReads;
use failing_puts::FailingPuts;
use overtaken::{Overtaken, When};
use retiring::{
    ALONE, Named, assert_clean, back_up_knowing, delta_chunk_count, forget, memory,
    memory_with_delta_chunks, size, start, start_similar, sweep_all,
};

/// Options that remove everything that is not needed.
const ALL: PruneOptions = PruneOptions {
    unused_max: 0.0,
    rewrite_bytes_max: u64::MAX,
    segment_count_max: 500,
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

/// The references of delta chunks stay with them, or the delta chunks are stored again as full chunks,
/// whichever takes less.
#[test]
fn delta_chunks_stay_with_their_references_or_become_full_chunks() {
    // With no rewriting allowed, the references stay where they are.
    let storage = start_similar();
    let repository = open(storage.clone(), 2).expect("it opens");
    let sparing = PruneOptions { rewrite_bytes_max: 0, ..ALL };
    let pruned = prune_all(&repository, &sparing).expect("it works");
    assert!(pruned.plan.pinned_count >= 9, "{pruned:?}");
    assert!((45_000..50_000).contains(&pruned.plan.pinned_bytes), "{pruned:?}");
    assert_eq!((pruned.plan.inlined_count, pruned.plan.rewritten_count), (0, 0), "{pruned:?}");
    sweep_all(&repository).expect("it works");
    assert!(delta_chunk_count(&repository) >= 9, "they stay");
    assert_eq!(restore_all(&repository).expect("it restores"), 1);
    assert_clean(&repository, "what delta chunks refer to");
    let before = size(&*storage);
    // Six chunks of 5000 bytes take less than the container that stays only for them.
    let pruned = prune_all(&repository, &ALL).expect("it works");
    assert_eq!(pruned.plan.inlined_bytes, pruned.plan.inlined_count * 5000, "{pruned:?}");
    assert!(pruned.plan.inlined_count >= 6, "{pruned:?}");
    sweep_all(&repository).expect("it works");
    assert_eq!(restore_all(&repository).expect("it restores"), 1);
    assert_clean(&repository, "delta chunks that became full chunks");
    assert!(size(&*storage) < before, "it is less");
    let left = plan(&repository, &ALL, &()).expect("it works");
    assert_eq!(
        (left.inlined_count, left.condemned_count, left.rewritten_count),
        (0, 0, 0),
        "{left:?}"
    );
}

/// Regions of which most stays are copied in their compressed form, with their references.
#[test]
fn regions_with_delta_chunks_are_copied() {
    let storage = memory_with_delta_chunks();
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[3, 100], false).expect("it works");
    // Ten versions of one file in one container: small regions, mostly of delta chunks.
    let versions: Vec<u64> = (101..111).collect();
    back_up(&repository, &versions, false).expect("it works");
    back_up(&repository, &[100, 101, 102, 103, 104, 105, 106, 107, 108], false).expect("it works");
    let before = delta_chunk_count(&repository);
    assert!(before >= 30, "{before}");
    forget(&repository, &[1]).expect("it works");
    let pruned = prune_all(&repository, &ALL).expect("it works");
    assert!(pruned.plan.rewritten_count >= 1, "{pruned:?}");
    assert_eq!(pruned.plan.inlined_count, 0, "{pruned:?}");
    sweep_all(&repository).expect("it works");
    assert_eq!(delta_chunk_count(&repository), 24, "eight versions, three chunks each");
    assert_eq!(restore_all(&repository).expect("it restores"), 2);
    assert_clean(&repository, "copied delta chunks");
}

/// An unreached delta chunk lies in a container that stayed, and its references are gone. A later
/// writer stores the chunk again. The next prune must neither take the delta chunk for the chunk, nor
/// miss its references.
#[test]
fn delta_chunks_with_lost_references_do_no_harm() {
    // Which of two containers has the lesser name is random, and differs between the rounds.
    for process in 1..6 {
        let storage = memory_with_delta_chunks();
        let repository = open(storage.clone(), process).expect("it opens");
        back_up(&repository, &[100], false).expect("it works");
        back_up(&repository, &[3, 101], false).expect("it works");
        back_up(&repository, &[3], false).expect("it works");
        forget(&repository, &[0, 1]).expect("it works");
        let lazy = PruneOptions { unused_max: 1.0, rewrite_bytes_max: 0, ..ALL };
        prune_all(&repository, &lazy).expect("it works");
        let swept = sweep_all(&repository).expect("it works");
        assert!(swept.container_count > 0, "{swept:?}");
        assert_eq!(delta_chunk_count(&repository), 3, "they lie about");
        // Every chunk is another one; then delta chunks over these.
        for (files, delta_chunks) in [(&[150][..], 3), (&[101], 9), (&[101, 102], 15)] {
            back_up(&repository, files, false).expect("it works");
            assert_eq!(delta_chunk_count(&repository), delta_chunks, "{files:?}");
            prune_all(&repository, &lazy).expect("nothing is lost");
            sweep_all(&repository).expect("it works");
            restore_all(&repository).expect("it restores");
        }
        prune_all(&repository, &ALL).expect("it works");
        sweep_all(&repository).expect("it works");
        assert_eq!(restore_all(&repository).expect("it restores"), 4);
        assert_clean(&repository, "delta chunks that nothing reached");
    }
}

/// Two writers that do not know of each other store two chunks as each other's reference.
#[test]
fn delta_chunks_may_refer_to_each_others_chunks() {
    for forgotten in 0..15_u32 {
        for options in [
            ALL,
            PruneOptions { unused_max: 1.0, ..ALL },
            PruneOptions { rewrite_bytes_max: 0, ..ALL },
        ] {
            let storage = memory_with_delta_chunks();
            let repository = open(storage.clone(), 1).expect("it opens");
            let one = back_up_knowing(&repository, 100, &[]);
            let other = back_up_knowing(&repository, 101, &[]);
            back_up_knowing(&repository, 101, &[one]);
            back_up_knowing(&repository, 100, &[other]);
            assert_eq!(delta_chunk_count(&repository), 6, "three chunks each");
            let places: Vec<usize> = (0..4).filter(|bit| forgotten >> bit & 1 == 1).collect();
            let left = 4 - places.len();
            forget(&repository, &places).expect("it works");
            let when = format!("{forgotten:04b} of {options:?}");
            for _ in 0..2 {
                prune_all(&repository, &options).expect("it works");
                sweep_all(&repository).expect("it works");
                assert_eq!(restore_all(&repository).expect("it restores"), left, "{when}");
            }
            assert_clean(&repository, &when);
        }
    }
}

#[test]
fn forgotten_snapshots_go_and_the_rest_stays() {
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
    let one = plan_with(PruneOptions { rewrite_bytes_max: 70_000, ..ALL });
    assert!(one.rewritten_count < all.rewritten_count, "{one:?}");
    assert!(one.rewritten_bytes <= 70_000);
    let exactly = plan_with(PruneOptions { rewrite_bytes_max: all.rewritten_bytes, ..ALL });
    assert_eq!(exactly, all, "what just fits");
}

/// A run that died leaves containers that no segment names.
#[test]
fn leftovers_of_interrupted_runs_go() {
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

/// P3: if something is lost, nothing is condemned.
#[test]
fn repository_with_losses_is_left_alone() {
    for (kind, place) in [
        (ObjectKind::Data, 0),
        (ObjectKind::Meta, 0),
        (ObjectKind::Segment, 0),
        (ObjectKind::Commit, 1),
    ] {
        let storage = memory();
        let repository = open(storage.clone(), 1).expect("it opens");
        back_up(&repository, &[1, 2], false).expect("it works");
        back_up(&repository, &[3, 4], false).expect("it works");
        forget(&repository, &[0]).expect("it works");
        // A container of the second snapshot or, of commits, the one whose bytes are damaged.
        let view = View::list(&repository).expect("it lists");
        let (kept, _) = view.snapshots()[0];
        let objects = storage.list(kind.folder()).expect("it lists");
        let own = objects.iter().find(|(name, _)| name.contains(&kept.to_string()));
        let name = &own.unwrap_or(&objects[place]).0;
        let bytes = storage.get(name).expect("it is there");
        storage.delete(name).expect("it goes");
        if kind == ObjectKind::Commit {
            let mut bytes = bytes.to_vec();
            bytes[80] ^= 1;
            storage.put_new(name, bytes.into()).expect("memory takes it");
        }
        let before = size(&*storage);
        let error = prune_all(&repository, &ALL).expect_err("nothing may go");
        let expected = [Kind::Missing, Kind::Corrupt, Kind::Conflict];
        assert!(expected.contains(&error.kind()), "{kind:?}: {error}");
        let view = View::list(&repository).expect("it lists");
        assert!(view.prunes.is_empty(), "{kind:?}: something is condemned");
        sweep_all(&repository).ok();
        assert_eq!(size(&*storage), before, "{kind:?}: something is gone");
    }
}

/// Hints say that another container has what is needed: the right one stays, although nothing seems
/// to need it.
#[test]
fn wrong_hints_cost_no_data() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    let containers = || {
        let listed = storage.list(ObjectKind::Data.folder()).expect("it lists");
        listed.into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>()
    };
    back_up(&repository, &[1, 2], false).expect("it works");
    let before = containers();
    let segments = || View::list(&repository).expect("it lists").segments();
    let first_segment = segments();
    back_up(&repository, &[3], false).expect("it works");
    let second = containers().difference(&before).next().expect("it is new").clone();
    let read = |part| {
        let body = repository.get(ObjectName::Segment(part)).expect("it is there");
        Segment::decode(&body).expect("it decodes")
    };
    let wrong = *segments().difference(&first_segment).next().expect("it is new");
    let first = read(*first_segment.first().expect("one")).containers;
    let mut segment = read(wrong);
    for class in [Class::Data, Class::Meta] {
        let own = segment.containers.iter().position(|c| c.class == class).expect("one of each");
        let other = *first.iter().find(|c| c.class == class).expect("one of each");
        if class == Class::Data {
            let number = u32::try_from(segment.containers.len()).expect("few");
            segment.containers.push(other);
            for (_, place) in segment.hints.iter_mut().filter(|(_, p)| *p as usize == own) {
                *place = number;
            }
        }
    }
    segment.hints.sort_unstable();
    let name = ObjectName::Segment(wrong);
    storage.delete(&name.to_string()).expect("it goes");
    repository.seal_and_put(name, &segment.encode()).expect("memory takes it");
    forget(&repository, &[0]).expect("it works");
    let named = Named::default();
    prune(&repository, &ALL, &named, |_| true).expect("it works").expect("it ran");
    sweep_all(&repository).expect("it works");
    let named = named.0.into_inner().expect("no panics");
    assert!(named.iter().any(|text| text.contains(&second)), "{second}: {named:?}");
    assert!(containers().contains(&second), "what the snapshot needs is gone");
}

/// A damaged container that is needed in part stays as it is, and is named.
#[test]
fn damaged_container_is_not_rewritten() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[1, 2, 3], false).expect("it works");
    back_up(&repository, &[3], false).expect("it works");
    forget(&repository, &[0]).expect("it works");
    let (name, _) = storage.list(ObjectKind::Data.folder()).expect("it lists")[0].clone();
    let mut bytes = storage.get(&name).expect("it is there").to_vec();
    // The regions lie one behind another, and the last is among those that stay.
    for at in (64..90_000).step_by(1000) {
        bytes[at] ^= 1;
    }
    storage.delete(&name).expect("it goes");
    storage.put_new(&name, bytes.into()).expect("it comes back");
    let named = Named::default();
    let pruned = prune(&repository, &ALL, &named, |_| true).expect("it works").expect("it ran");
    assert!(pruned.plan.rewritten_count >= 1, "{pruned:?}");
    sweep_all(&repository).expect("it works");
    let named = named.0.into_inner().expect("no panics");
    assert!(named.iter().any(|text| text.contains(&name)), "{named:?}");
    assert!(storage.head(&name).expect("it answers").is_some(), "the damaged container is gone");
}

/// A chunk is in two containers, and the one to be rewritten cannot be read. Then the other stays
/// as well, although nothing else in it is needed.
#[test]
fn other_copy_of_an_unreadable_chunk_stays() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    let begin = || Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let (one, other) = (begin(), begin());
    for (writer, files) in [(one, [1, 2]), (other, [1, 3])] {
        back_up_by(writer, &files, BTreeMap::new(), false, Snapshot::empty()).expect("it works");
    }
    back_up(&repository, &[1], false).expect("it works");
    forget(&repository, &[0, 1]).expect("it works");
    let containers = list_data(&*storage);
    let name = |number: usize| {
        let (class, part) = containers[number];
        ObjectName::Container(class, part).to_string()
    };
    assert_eq!(containers.len(), 2, "the third has nothing new");
    let least = usize::from(containers[1].1 < containers[0].1);
    let mut bytes = storage.get(&name(least)).expect("it is there").to_vec();
    for at in (64..29_000).step_by(1000) {
        bytes[at] ^= 1;
    }
    storage.delete(&name(least)).expect("it goes");
    storage.put_new(&name(least), bytes.into()).expect("it comes back");
    let planned = plan(&repository, &ALL, &()).expect("it works");
    assert!(planned.condemned_count >= 1 && planned.rewritten_count >= 1, "{planned:?}");
    prune(&repository, &ALL, &Named::default(), |_| true).expect("it works").expect("it ran");
    sweep_all(&repository).expect("it works");
    for number in 0..2 {
        assert!(storage.head(&name(number)).expect("it answers").is_some(), "{}", name(number));
    }
    assert_eq!(restore_all(&repository).expect("the other has it"), 1);
}

/// Among two containers that have a chunk, the one that stays may be one that no segment had named.
#[test]
fn adopted_containers_are_found() {
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
        assert_clean(&repository, "what was adopted");
    }
}

/// An unreadable object stops a prune, which names it. A missing object may have been replaced, so
/// the prune begins again.
#[test]
fn prune_names_the_object_that_it_needs() {
    let begin = || {
        let storage = memory();
        let repository = open(storage.clone(), 1).expect("it opens");
        back_up(&repository, &[1, 2], false).expect("it works");
        back_up(&repository, &[3, 4], false).expect("it works");
        forget(&repository, &[0]).expect("it works");
        let view = View::list(&repository).expect("it lists");
        let (kept, _) = view.snapshots()[0];
        let segment = view.commits[&kept].segments[0];
        (storage, kept, ObjectName::Segment(segment).to_string())
    };
    let prune_on = |storage: Arc<dyn Storage>| {
        let pruned = prune_all(&open(storage, 2).expect("it opens"), &ALL);
        pruned.map_err(|error| (error.kind(), error.to_string()))
    };
    let (storage, kept, segment) = begin();
    let damage = |prefix: &str| {
        let listed = storage.list(prefix).expect("it lists");
        let own = listed.iter().find(|(name, _)| name.contains(&kept.to_string()));
        let name = &own.expect("it has some").0;
        let mut bytes = storage.get(name).expect("it is there").to_vec();
        bytes[100] ^= 1;
        storage.delete(name).expect("it goes");
        storage.put_new(name, bytes.into()).expect("memory takes it");
    };
    damage("meta");
    let (kind, message) = prune_on(storage.clone()).expect_err("its tree is damaged");
    let of = format!("snapshot {}, without which nothing is deleted", kept.short());
    assert!(kind == Kind::Corrupt && message.contains(&of), "{kind:?}: {message}");
    damage("index");
    let (kind, message) = prune_on(storage.clone()).expect_err("its segment is damaged");
    assert!(kind == Kind::Corrupt && message.contains(&segment), "{kind:?}: {message}");
    let (storage, _, segment) = begin();
    let once = FailingReads::new(&storage, &segment, Kind::Missing, 1);
    assert_eq!(prune_on(once).expect("the next try finds it").number, Some(1));
    let (storage, _, segment) = begin();
    storage.delete(&segment).expect("it goes");
    let (kind, message) = prune_on(storage).expect_err("its segment is gone");
    assert!(kind == Kind::Conflict && message.contains(&segment), "{kind:?}: {message}");
}

/// Unreadable leftovers of a dead run are named. Those that a sweep has just deleted are not.
#[test]
fn unreadable_orphans_are_skipped() {
    for (kind, count) in [(Kind::Corrupt, 1), (Kind::Storage, 1), (Kind::Missing, 0)] {
        let storage = start();
        let repository = open(storage.clone(), 2).expect("it opens");
        let writer = Writer::begin(repository, Purpose::Backup).expect("it begins");
        let mut inline = Inline::new(writer, Verify::All).expect("it begins");
        inline.store_data(&[7; 5000]).expect("it stores");
        inline.publish().expect("it publishes");
        let part = PartName { ticket: inline.writer().ticket(), count: 0 };
        drop(inline);
        let segment = ObjectName::Segment(part).to_string();
        storage.delete(&segment).expect("as if it had died before");
        let left = ObjectName::Container(Class::Data, part).to_string();
        let failing = FailingReads::new(&storage, &left, kind, u64::MAX);
        let repository = open(failing, 3).expect("it opens");
        let named = Named::default();
        prune(&repository, &ALL, &named, |_| true).expect("it works").expect("it ran");
        let named = named.0.into_inner().expect("no panics");
        assert_eq!(named.len(), count, "{kind:?}: {named:?}");
        assert!(named.iter().all(|text| text.contains(&left)), "{kind:?}: {named:?}");
        assert_eq!(restore_all(&repository).expect("it restores"), 1, "{kind:?}");
    }
}

/// A damaged container is skipped. A failing storage stops the prune.
#[test]
fn failing_storage_is_not_a_damaged_container() {
    for start in STARTS {
        let inner = start.1();
        let before = size(&*inner);
        let storage = FailingReads::new(&inner, "", Kind::Storage, 0);
        let repository = open(storage.clone(), 2).expect("it opens");
        let named = Named::default();
        // The plan to store chunks again is made, and none of them has been read.
        let pruned = prune(&repository, &ALL, &named, |plan| {
            assert!(plan.rewritten_count + plan.inlined_count > 0, "{plan:?}");
            storage.arm(1);
            true
        });
        let error = pruned.expect_err("the storage fails");
        assert_eq!(error.kind(), Kind::Storage, "{}: {error}", start.0);
        assert_eq!(*named.0.lock().expect("no panics"), [""; 0], "{}", start.0);
        assert!(View::list(&repository).expect("it lists").prunes.is_empty(), "{}", start.0);
        assert!(size(&*inner) >= before, "{}", start.0);
    }
}

/// Damages the regions of these containers of data, but not their tables of contents.
fn damage_regions(repository: &Arc<Repository>, is_meant: impl Fn(&str) -> bool) {
    let view = View::list(repository).expect("it lists");
    let index = Index::open_without_cache(repository.clone(), &view).expect("it opens");
    let storage = repository.storage();
    for container in index.containers() {
        let name = ObjectName::Container(container.class, container.name).to_string();
        if container.class == Class::Meta || !is_meant(&name) {
            continue;
        }
        let mut bytes = storage.get(&name).expect("it is there").to_vec();
        for byte in bytes[HEADER_LEN..container.toc_offset as usize].iter_mut().step_by(50) {
            *byte ^= 1;
        }
        storage.delete(&name).expect("it goes");
        storage.put_new(&name, bytes.into()).expect("it comes back");
    }
}

fn data_names(storage: &dyn Storage) -> Vec<String> {
    let listed = storage.list(ObjectKind::Data.folder()).expect("it lists");
    listed.into_iter().map(|(name, _)| name).collect()
}

/// Unreadable delta chunks cannot become full chunks: they stay, with their references.
#[test]
fn unreadable_delta_chunks_stay_as_they_are() {
    let storage = start_similar();
    let names = data_names(&*storage);
    let repository = open(storage.clone(), 2).expect("it opens");
    damage_regions(&repository, |_| true);
    let planned = plan(&repository, &ALL, &()).expect("it works");
    assert!(planned.inlined_count >= 6, "{planned:?}");
    let named = Named::default();
    let pruned = prune(&repository, &ALL, &named, |_| true).expect("it works").expect("it ran");
    assert_eq!(pruned.plan.inlined_count, 0, "{pruned:?}");
    assert!(pruned.plan.pinned_count >= 9, "{pruned:?}");
    assert!(!named.0.lock().expect("no panics").is_empty(), "it says so");
    sweep_all(&repository).expect("it works");
    assert!(delta_chunk_count(&repository) >= 9, "they stay");
    let left = data_names(&*storage);
    assert!(names.iter().filter(|name| left.contains(name)).count() >= 3, "{names:?}: {left:?}");
}

/// Rule C5: a delta chunk is copied only if it rebuilds to its fingerprint.
#[test]
fn delta_chunks_over_damaged_chunks_are_not_copied() {
    let storage = memory_with_delta_chunks();
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[3, 100], false).expect("it works");
    let base = data_names(&*storage);
    let versions: Vec<u64> = (101..111).collect();
    back_up(&repository, &versions, false).expect("it works");
    back_up(&repository, &[100, 101, 102, 103, 104, 105, 106, 107, 108], false).expect("it works");
    let names = data_names(&*storage);
    forget(&repository, &[1]).expect("it works");
    damage_regions(&repository, |name| base.iter().any(|each| each == name));
    let named = Named::default();
    let pruned = prune(&repository, &ALL, &named, |_| true).expect("it works").expect("it ran");
    assert!(pruned.plan.rewritten_count >= 1, "{pruned:?}");
    assert!(!named.0.lock().expect("no panics").is_empty(), "nothing was passed over");
    sweep_all(&repository).expect("it works");
    let left = data_names(&*storage);
    assert!(names.iter().all(|name| left.contains(name)), "{names:?}: {left:?}");
}

/// A record that a check has found damaged is the last choice: a chunk that is nowhere else stays
/// there. Before that, other condemned records are tried.
#[test]
fn chunk_with_only_a_damaged_record_is_not_lost() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[1], false).expect("it works");
    let (class, container) = list_data(&*storage)[0];
    let chunks = file(1);
    let fingerprints = chunks.chunks(CHUNK_LEN).map(|it| repository.keys().fingerprint(class, it));
    let damages = fingerprints.map(|fingerprint| Damage { class, container, fingerprint });
    let mut writer = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
    let outcome = Outcome::Damage(damages.collect());
    let committed = writer.commit(outcome, Vec::new(), &BTreeSet::new()).expect("it commits");
    assert_eq!(committed, Committed::Done);
    let pruned = prune_all(&repository, &ALL).expect("nothing is lost");
    assert_eq!((pruned.number, pruned.written_bytes), (None, 0), "it stays where it is");
    record(&repository, Prune { condemned: vec![(class, container)], ..Prune::default() });
    let pruned = prune_all(&repository, &ALL).expect("it is not lost yet");
    assert!(pruned.written_bytes >= 30_000, "it is stored again: {pruned:?}");
    sweep_all(&repository).expect("it works");
    assert!(!data_names(&*storage).contains(&ObjectName::Container(class, container).to_string()));
    assert_eq!(restore_all(&repository).expect("it restores"), 1);
}

/// A lost chunk is an error that names the first, with the number of lost chunks.
#[test]
fn lost_chunks_are_counted() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[1], false).expect("it works");
    let before = data_names(&*storage);
    storage.delete(&before[0]).expect("it goes");
    let error = plan(&repository, &ALL, &()).expect_err("it is lost");
    assert_eq!(error.kind(), Kind::Missing, "{error}");
    assert!(error.to_string().contains("(6 such chunks)"), "{error}");
}

/// Segments are merged although no container moves. Containers that are gone are in none of the new
/// ones.
#[test]
fn segments_of_containers_that_stay_are_merged() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    for number in 0..6 {
        back_up(&repository, &[number], true).expect("it works");
    }
    let options = PruneOptions { segment_count_max: 2, rewrite_bytes_max: 0, ..ALL };
    for (round, snapshots) in [(0, 5), (1, 5)] {
        forget(&repository, &[round]).expect("it works");
        let before = listed(&*storage);
        let pruned = prune_all(&repository, &options).expect("it works");
        assert_eq!(pruned.plan.rewritten_count, 0, "{pruned:?}");
        assert!(pruned.plan.merged_segment_count > 0, "{pruned:?}");
        sweep_all(&repository).expect("it works");
        let count = storage.list(ObjectKind::Segment.folder()).expect("it lists").len();
        assert_eq!(count, 1, "merged");
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
    assert_eq!(committed, Committed::Done);
    let planned = plan(&repository, &ALL, &()).expect("it works");
    assert!(planned.rescued_count >= 12, "two files, and what leads to them: {planned:?}");
    match sweeper.step(&()).expect("it works") {
        Sweep::Done(swept) => assert!(swept.rescued_count > 0, "{swept:?}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(restore_all(&repository).expect("it restores"), 1);
    assert_clean(&repository, "after a rescue");
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
fn needs_are_sorted_in_files_if_there_is_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let storage = start();
    let opened = Repository::open(storage, backup::Machine::new(1), &backup::unlock());
    let opened = opened.expect("it opens").with_cache(folder.path().to_owned());
    let repository = Arc::new(opened);
    prune_all(&repository, &ALL).expect("it works");
    sweep_all(&repository).expect("it works");
    assert_eq!(restore_all(&repository).expect("it restores"), 1);
    assert_clean(&repository, "with a cache");
}

// ---------------------------------------------------------------------------------------------
// The contents of a plan.

/// Containers are padded to whole multiples of this size. Those of trees and recipes take one.
const PADDED: u64 = 64 * 1024;

/// Returns all containers with their sizes.
fn listed(storage: &dyn Storage) -> BTreeMap<String, u64> {
    let kinds = [ObjectKind::Data, ObjectKind::Meta].map(ObjectKind::folder);
    kinds.iter().flat_map(|kind| storage.list(kind).expect("it lists")).collect()
}

/// Backs up files, one snapshot after another. Returns the data container of each snapshot that has
/// one.
fn back_up_each(storage: &Arc<dyn Storage>, process: u32, backups: &[&[u64]]) -> Vec<u64> {
    let repository = open(storage.clone(), process).expect("it opens");
    let mut sizes = Vec::new();
    for files in backups {
        let before = listed(&**storage);
        back_up(&repository, files, false).expect("it works");
        let new = listed(&**storage).into_iter().filter(|(name, _)| !before.contains_key(name));
        sizes.extend(new.filter(|(name, _)| name.starts_with("data/")).map(|(_, size)| size));
    }
    sizes
}

/// The freed bytes are those of deleted containers less those stored again.
#[test]
fn freed_bytes_exclude_bytes_stored_again() {
    let plan = Plan {
        condemned_bytes: 1000,
        rewritten_bytes: 500,
        moved_bytes: 100,
        inlined_bytes: 20,
        ..Plan::default()
    };
    assert_eq!(plan.freed_bytes(), 1380);
}

/// The sizes in a plan are those of the containers, and of what becomes of them.
#[test]
fn plan_counts_containers_and_bytes() {
    let storage = memory();
    let data = back_up_each(&storage, 1, &[&[1], &[2, 3, 4], &[4]]);
    let [dead, partly] = data[..] else { panic!("the third has no new data: {data:?}") };
    let repository = open(storage.clone(), 2).expect("it opens");
    forget(&repository, &[0, 1]).expect("it works");
    let lazy = PruneOptions { unused_max: 1.0, ..ALL };
    let left = plan(&repository, &lazy, &()).expect("it works");
    let there = listed(&*storage);
    assert_eq!(left.container_count, there.len() as u64, "{left:?}");
    assert_eq!(left.container_bytes, size(&*storage), "{left:?}");
    assert_eq!(left.condemned_bytes, dead + PADDED, "{left:?}");
    // Two of three files, with their trees and recipes.
    assert!((60_000..63_000).contains(&left.unused_bytes), "{left:?}");
    assert_eq!((left.rewritten_bytes, left.moved_bytes), (0, 0), "{left:?}");
    let planned = plan(&repository, &ALL, &()).expect("it works");
    assert_eq!(planned.rewritten_bytes, partly + PADDED, "{planned:?}");
    assert_eq!(planned.moved_bytes, partly + PADDED - left.unused_bytes, "{planned:?}");
    assert_eq!(planned.unused_bytes, 0, "{planned:?}");
    let segments = storage.list(ObjectKind::Segment.folder()).expect("it lists").into_iter();
    let segments: BTreeSet<String> = segments.map(|(name, _)| name).collect();
    let pruned = prune_all(&repository, &ALL).expect("it works");
    assert_eq!(pruned.plan, planned);
    let record = View::list(&repository).expect("it lists").prunes[&1].clone();
    assert_eq!((record.marked.len(), record.forgotten.len()), (1, 2), "{record:?}");
    let swept = sweep_all(&repository).expect("it works");
    let new = storage.list(ObjectKind::Segment.folder()).expect("it lists").into_iter();
    let segment: u64 = new.filter(|(name, _)| !segments.contains(name)).map(|(_, len)| len).sum();
    let gone = planned.condemned_bytes + planned.rewritten_bytes;
    assert_eq!((swept.container_count, swept.container_bytes), (4, gone), "{swept:?}");
    assert_eq!(pruned.written_bytes, 2 * PADDED + segment, "{pruned:?}");
    assert_eq!(size(&*storage), left.container_bytes - gone + 2 * PADDED, "{swept:?}");
}

/// Published containers that nothing needs are deleted, although nothing was forgotten.
#[test]
fn containers_published_by_a_voided_run_go() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[1], false).expect("it works");
    let before = size(&*storage);
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let mut inline = Inline::new(writer, Verify::All).expect("it begins");
    inline.store_data(&[7; 5000]).expect("it stores");
    inline.publish().expect("it publishes");
    drop(inline);
    // The next process ends the writer, and so publishes what it has put.
    let repository = open(storage.clone(), 2).expect("it opens");
    let pruned = prune_all(&repository, &ALL).expect("it works");
    let Plan { condemned_count, rewritten_count, orphan_count, forgotten_count, .. } = pruned.plan;
    assert_eq!((condemned_count, rewritten_count, orphan_count, forgotten_count), (1, 0, 0, 0));
    assert_eq!(pruned.number, Some(1), "it is recorded");
    sweep_all(&repository).expect("it works");
    assert_eq!(size(&*storage), before, "it is gone");
}

/// Among partially used containers, those with the greatest unused share are rewritten first,
/// whatever their sizes.
#[test]
fn greatest_unused_share_is_rewritten_first() {
    for process in 1..5 {
        let storage = memory();
        let files = [&[1, 2, 3, 4, 5, 6][..], &[7, 8, 9], &[1, 2, 3, 4, 9]];
        let data = back_up_each(&storage, process, &files);
        let [large, small] = data[..] else { panic!("the third has no new data: {data:?}") };
        let repository = open(storage.clone(), process + 1).expect("it opens");
        forget(&repository, &[0, 1]).expect("it works");
        // A third of the large container and two thirds of the other are unused, the same number of
        // bytes. Either the large one fits, or the other and one of trees.
        let options = PruneOptions { rewrite_bytes_max: large, ..ALL };
        let planned = plan(&repository, &options, &()).expect("it works");
        assert_eq!(small + PADDED, large);
        assert_eq!(planned.rewritten_count, 2, "{data:?}: {planned:?}");
    }
}

/// The maximum unused share is a share of what stays.
#[test]
fn dead_containers_do_not_count_for_the_unused_share() {
    let storage = memory();
    let dead: Vec<u64> = (10..20).collect();
    let files = [&dead[..], &[1, 2, 3, 4, 5, 6], &[1, 2, 3, 4, 5]];
    let data = back_up_each(&storage, 1, &files);
    let repository = open(storage.clone(), 2).expect("it opens");
    forget(&repository, &[0, 1]).expect("it works");
    let options = PruneOptions { unused_max: 0.05, ..ALL };
    let planned = plan(&repository, &options, &()).expect("it works");
    assert!(planned.rewritten_bytes >= data[1], "about a tenth is unused: {planned:?}");
}

/// Each rewritten container reduces what stays, and with it what may be unused.
#[test]
fn rewritten_containers_do_not_count_for_the_unused_share() {
    let storage = memory();
    let large: Vec<u64> = (1..11).collect();
    let data = back_up_each(&storage, 1, &[&large, &[11, 12, 13, 14], &[1, 11, 12]]);
    let repository = open(storage.clone(), 2).expect("it opens");
    forget(&repository, &[0, 1]).expect("it works");
    let options = PruneOptions { unused_max: 0.1, ..ALL };
    let planned = plan(&repository, &options, &()).expect("it works");
    assert_eq!(planned.rewritten_bytes, data[0] + data[1], "half of the second: {planned:?}");
}

/// A fully used container is not rewritten because another one does not fit.
#[test]
fn fully_used_container_stays() {
    let storage = memory();
    let files = [&[1, 2, 3, 4, 5, 6][..], &[7, 8], &[9], &[1, 2, 3]];
    back_up_each(&storage, 1, &files);
    let repository = open(storage.clone(), 2).expect("it opens");
    forget(&repository, &[0]).expect("it works");
    let options = PruneOptions { rewrite_bytes_max: 3 * PADDED - 1, ..ALL };
    let planned = plan(&repository, &options, &()).expect("it works");
    assert_eq!(planned.rewritten_bytes, PADDED, "the recipes of what is gone: {planned:?}");
    assert!(planned.unused_bytes >= 90_000, "{planned:?}");
}

/// Small containers are merged if there are many of one class. A container of an eighth of the
/// target size is not small.
#[test]
fn small_containers_are_below_an_eighth_and_count_by_class() {
    let storage = memory();
    let (one, other): (Vec<u64>, Vec<u64>) = ((1..19).collect(), (19..37).collect());
    let half: Vec<u64> = (1..10).collect();
    let data = back_up_each(&storage, 1, &[&one, &other, &half]);
    assert!(data.iter().all(|size| *size > 512 * 1024), "{data:?}");
    let repository = open(storage.clone(), 2).expect("it opens");
    let merging = PruneOptions { small_count_max: 2, ..ALL };
    let planned = plan(&repository, &merging, &()).expect("it works");
    assert_eq!(planned.rewritten_count, 3, "of trees and recipes: {planned:?}");
    assert_eq!(planned.rewritten_bytes, 3 * PADDED, "{planned:?}");
    // Large ones are still rewritten if they are used in part.
    forget(&repository, &[0]).expect("it works");
    let planned = plan(&repository, &ALL, &()).expect("it works");
    assert_eq!(planned.rewritten_bytes, data[0] + PADDED, "{planned:?}");
    // One small container of data, six of trees.
    let storage = memory();
    let data = back_up_each(&storage, 1, &[&[1, 2, 3, 4, 5], &[1], &[2], &[3], &[4], &[5]]);
    assert_eq!(data.len(), 1, "the rest is known");
    let repository = open(storage.clone(), 2).expect("it opens");
    let merging = PruneOptions { small_count_max: 6, ..ALL };
    let planned = plan(&repository, &merging, &()).expect("it works");
    assert_eq!((planned.rewritten_count, planned.rewritten_bytes), (6, 6 * PADDED), "{planned:?}");
    // As many segments as containers of trees.
    for (segment_count_max, merged) in [(6, 6), (7, 0)] {
        let options = PruneOptions { segment_count_max, ..ALL };
        let planned = plan(&repository, &options, &()).expect("it works");
        assert_eq!(planned.merged_segment_count, merged, "from {segment_count_max} on");
    }
}

/// Delta chunks in regions of which little stays are stored again as full chunks, and the plan says so.
#[test]
fn delta_chunks_of_regions_that_are_taken_apart_become_full_chunks() {
    let storage = memory_with_delta_chunks();
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[3, 100], false).expect("it works");
    let versions: Vec<u64> = (101..111).collect();
    back_up(&repository, &versions, false).expect("it works");
    back_up(&repository, &[100, 101], false).expect("it works");
    assert_eq!(delta_chunk_count(&repository), 30, "three of each");
    forget(&repository, &[1]).expect("it works");
    let pruned = prune_all(&repository, &ALL).expect("it works");
    let Plan { inlined_count, inlined_bytes, .. } = pruned.plan;
    assert_eq!((inlined_count, inlined_bytes), (3, 15_000), "{pruned:?}");
    sweep_all(&repository).expect("it works");
    assert_eq!(delta_chunk_count(&repository), 0, "no other version stays");
    assert_eq!(restore_all(&repository).expect("it restores"), 2);
    assert_clean(&repository, "delta chunks that became full chunks");
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
    let whole = Stopping { limit: u64::MAX, ..Stopping::default() };
    prune(&begin().1, &ALL, &whole, |_| true).expect("it works").expect("it ran");
    let phases = whole.phases.into_inner().expect("no panics");
    let heard: Vec<Phase> = phases.iter().map(|(phase, ..)| *phase).collect();
    assert_eq!(heard, [Phase::Mark, Phase::Locate, Phase::Examine, Phase::Rewrite]);
    assert!(phases.iter().all(|(_, done, total)| done == total && *total > 0), "{phases:?}");
    let asked = whole.asked.into_inner();
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
    assert!(matches!(recorded, Ok(Appended::Done(_))), "{recorded:?}");
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
        open(Overtaken::new(storage, when, move || act(&other, &ids)), 3).expect("it opens");
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
    // Another client holds a snapshot that stays. Merged segments are still not superseded, because
    // another client might have merged what was published meanwhile.
    let merging = PruneOptions { segment_count_max: 2, ..ALL };
    let (seen, pruned, repository) = prune_overtaken(&merging, |other, ids| {
        hold(other, &ids[2..]).expect("memory takes it");
    });
    assert_eq!((seen, pruned.number), (1, Some(2)), "{pruned:?}");
    let view = View::list(&repository).expect("it lists");
    assert!(pruned.plan.merged_segment_count > 0, "{pruned:?}");
    assert!(view.prunes[&2].superseded.is_empty(), "{:?}", view.prunes[&2]);
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
                record(other, Prune { forgotten: ids[..1].to_vec(), ..Prune::default() });
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
        assert_eq!(view.taken().len(), 1 + usize::from(is_taken), "{what}");
        // Chunks that the first attempt stored again were published when it ended.
        assert_eq!(pruned.plan.orphan_count, 0, "{what}: {pruned:?}");
        sweep_all(&repository).expect("it works");
        restore_all(&repository).expect("it restores");
        assert_clean(&repository, what);
    }
}

// ---------------------------------------------------------------------------------------------
// Faults.

/// Prunes and sweeps as one process.
fn retire(storage: Arc<dyn Storage>, process: u32) -> Result<()> {
    let repository = open(storage, process)?;
    let options = PruneOptions { segment_count_max: 2, ..ALL };
    prune_all(&repository, &options)?;
    sweep_all(&repository).map(drop)
}

/// The starting states for prunes with faults.
const STARTS: [Start; 2] = [("files", start), ("versions of files", start_similar)];

/// A starting state: its description, and how to create it.
type Start = (&'static str, fn() -> Arc<dyn Storage>);

fn calls_of_retiring(start: fn() -> Arc<dyn Storage>) -> u64 {
    let faulty = Arc::new(Faulty::new(start(), Fault::None));
    retire(faulty.clone(), 2).expect("nothing fails here");
    faulty.calls()
}

/// Runs into `fault`. Nothing is lost, and the next process completes the work.
fn run_into(fault: Fault, (what, start): Start) -> Result<()> {
    let storage = start();
    let failed = retire(Arc::new(Faulty::new(storage.clone(), fault)), 2);
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
    let left: Plan = plan(&repository, &ALL, &()).expect("it works");
    assert_eq!((left.condemned_count, left.rewritten_count), (0, 0), "{when}: {left:?}");
    let named: BTreeMap<String, u64> = ObjectKind::ALL
        .iter()
        .flat_map(|kind| storage.list(kind.folder()).expect("lists"))
        .collect();
    let containers = named.keys().filter(|name| name.starts_with("data/")).count();
    assert!(containers as u64 <= left.container_count, "{when}: {named:?}");
    failed
}

/// Each kind of fault at each call of prune and sweep.
#[test]
fn prune_failing_at_any_call_loses_nothing() {
    let kinds: [fn(u64) -> Fault; 5] = [
        Fault::DeadBefore,
        Fault::DeadAfter,
        Fault::FailsAt,
        Fault::UnsyncedAt,
        Fault::UnsyncedFrom,
    ];
    for start in STARTS {
        let calls = calls_of_retiring(start.1);
        assert!(calls > 60, "{calls} calls are too few to mean anything");
        let mut states = 0;
        for kind in kinds {
            for call in 0..calls {
                run_into(kind(call), start).ok();
                states += 1;
            }
        }
        println!("{}: {states} states of prune and sweep, {calls} calls, nothing lost", start.0);
    }
}

/// On a full disk nothing is rewritten, but dead containers are deleted.
#[test]
fn prune_frees_a_full_disk() {
    for start in STARTS {
        let calls = calls_of_retiring(start.1);
        for call in 0..calls {
            run_into(Fault::FullFrom(call), start)
                .unwrap_or_else(|error| panic!("{}: full from {call}: {error}", start.0));
        }
    }
}

// ---------------------------------------------------------------------------------------------
// Other clients.

/// Creates four containers of 4 MiB, half of each needed by the snapshot that stays: what is stored
/// again from two of them fills one.
fn start_half_needed() -> Arc<dyn Storage> {
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
    let whole = start_half_needed();
    for (what, run) in runs {
        let counting = FailingPuts::new(&copy_of(&*whole), "data/", Kind::Storage, None);
        run(&open(counting.clone(), 2).expect("it opens")).expect("nothing fails");
        let puts = counting.puts();
        assert!(puts >= 2, "{what}: {puts} containers are too few to mean anything");
        for (kind, put) in [Kind::Missing, Kind::Corrupt, Kind::Storage]
            .into_iter()
            .flat_map(|kind| (0..puts).map(move |put| (kind, put)))
        {
            let storage = copy_of(&*whole);
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
    let storage = copy_of(&*whole);
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
            let overtaken = Overtaken::new(storage.clone(), When::BeforeCall(call), move || {
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
    let commit_count = storage.list("commits/").expect("it lists").len() as u64;
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
