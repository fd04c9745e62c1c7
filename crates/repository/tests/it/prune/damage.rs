//! Prunes of repositories in which objects are missing, damaged or unreadable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cutpoint_repository::format::commit::{Damage, Outcome};
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::format::segment::Segment;
use cutpoint_repository::gc::prune::{plan, prune};
use cutpoint_repository::write::Inline;
use cutpoint_repository::{
    Class, CommitResult, ObjectName, PartName, Purpose, Snapshot, Verify, View, Writer,
};
use cutpoint_storage::{Kind, ObjectKind, Storage};

use super::{ALL, STARTS, data_names, list_data, prune_all, record};
use crate::support::backup::{CHUNK_LEN, back_up, back_up_by, file, open, restore_all};
use crate::support::failing_reads::FailingReads;
use crate::support::pruning::{SkipCollector, forget, memory, size, start, sweep_all};

/// P3: if something is missing, nothing is condemned.
#[test]
fn repository_with_missing_chunks_is_left_alone() {
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
        // Another process, which has not read the commit before.
        let repository = open(storage.clone(), 2).expect("it opens");
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
    let named = SkipCollector::default();
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
    let named = SkipCollector::default();
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
    prune(&repository, &ALL, &SkipCollector::default(), |_| true)
        .expect("it works")
        .expect("it ran");
    sweep_all(&repository).expect("it works");
    for number in 0..2 {
        assert!(storage.head(&name(number)).expect("it answers").is_some(), "{}", name(number));
    }
    assert_eq!(restore_all(&repository).expect("the other has it"), 1);
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
        let named = SkipCollector::default();
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
        let named = SkipCollector::default();
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

/// A record that a check has found damaged is the last choice: a chunk that is nowhere else stays
/// there. Before that, other condemned records are tried.
#[test]
fn chunk_with_only_a_damaged_record_is_not_missing() {
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
    assert_eq!(committed, CommitResult::Done);
    let pruned = prune_all(&repository, &ALL).expect("nothing is lost");
    assert_eq!((pruned.number, pruned.written_bytes), (None, 0), "it stays where it is");
    record(&repository, Prune { condemned: vec![(class, container)], ..Prune::default() });
    let pruned = prune_all(&repository, &ALL).expect("it is not missing yet");
    assert!(pruned.written_bytes >= 30_000, "it is stored again: {pruned:?}");
    sweep_all(&repository).expect("it works");
    assert!(!data_names(&*storage).contains(&ObjectName::Container(class, container).to_string()));
    assert_eq!(restore_all(&repository).expect("it restores"), 1);
}

/// A missing chunk is an error that names the first, with the number of missing chunks.
#[test]
fn missing_chunks_are_counted() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[1], false).expect("it works");
    let before = data_names(&*storage);
    storage.delete(&before[0]).expect("it goes");
    let error = plan(&repository, &ALL, &()).expect_err("it is missing");
    assert_eq!(error.kind(), Kind::Missing, "{error}");
    assert!(error.to_string().contains("(6 such chunks)"), "{error}");
}
