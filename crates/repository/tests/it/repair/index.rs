//! The index, rebuilt from containers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::gc::prune::{PruneOptions, prune};
use cutpoint_repository::snapshots::forget;
use cutpoint_repository::verify::repair::{IndexOptions, SnapshotOptions, repair_index};
use cutpoint_repository::write::Inline;
use cutpoint_repository::{Class, Index, ObjectName, Purpose, Snapshot, Verify, View, Writer};
use cutpoint_storage::{Error, Memory, Storage};

use super::{
    REPAIR, container, errors, flip, has_ended, later, names, repair, repair_all, sweep_all,
};
use crate::support::backup::{back_up, back_up_by, init, open, restore_all};
use crate::support::damaged_repository::{Store, build, everything};

#[test]
fn index_is_rebuilt_from_containers_alone() {
    let store = Store::new(&build());
    for (number, name) in names(&store, "index").iter().enumerate() {
        if number % 2 == 0 {
            flip(&store, name, 100);
        } else {
            store.replace(name, None);
        }
    }
    assert!(errors(&store.check(false)).len() > 3, "all segments are damaged or gone");
    let before = everything(&*store.storage);
    let dry = IndexOptions { dry_run: true, ..IndexOptions::default() };
    let dry = repair_index(&store.repository, &dry, &()).expect("nothing fails here");
    assert_eq!(everything(&*store.storage), before, "a dry run writes nothing");

    let done = repair_all(&store);
    assert_eq!(done.record, Some(1), "the first record");
    assert!(done.superseded_count > 3 && done.found.len() > 7, "{done:?}");
    // The dry run ends no writer, and leaves out the containers of the interrupted one.
    assert_eq!(done.found.len(), dry.found.len() + 1, "as announced, and one container more");
    assert_eq!(errors(&store.check(true)), [""; 0], "nothing is wrong");
    assert_eq!(restore_all(&store.repository).expect("it restores"), 2, "snapshots");
    // The rebuilt index is as good as the one before: nothing is stored a second time.
    let containers = names(&store, "data").len();
    back_up(&later(&store), &[1, 2, 3, 4, 5], false).expect("nothing fails here");
    assert_eq!(names(&store, "data").len(), containers, "containers of file data");
}

/// A rebuilt index does not name containers that are unreadable, missing, or may still be written.
/// It does name condemned ones, because late snapshots need them until a sweep has stored them
/// again.
#[test]
fn rebuilt_index_names_what_counts() {
    let store = Store::new(&build());
    let [unreadable, gone, condemned, ..] = &names(&store, "data")[..] else { panic!("too few") };
    assert!(
        [unreadable, gone, condemned].iter().all(|n| has_ended(&store, container(n).1.ticket)),
        "the writer that was cut off has another"
    );
    // In the table of contents.
    let bytes = store.storage.get(unreadable).expect("it is there");
    let offset = bytes.len() - 24;
    flip(&store, unreadable, usize::from(bytes[offset]) + usize::from(bytes[offset + 1]) * 256);
    store.storage.delete(gone).expect("memory deletes");
    let prune = Prune { condemned: vec![container(condemned)], ..Prune::default() };
    let name = ObjectName::Prune(1);
    store.repository.seal_and_put(name, &prune.encode()).expect("memory takes it");
    let at_work: Vec<String> = names(&store, "data")
        .into_iter()
        .filter(|name| !has_ended(&store, container(name).1.ticket))
        .collect();
    assert_eq!(at_work.len(), 1, "the writer that was cut off");

    // To this process the writer may still be at work.
    let repository = open(store.storage.clone(), 1).expect("it opens");
    let done = repair_index(&repository, &IndexOptions::default(), &()).expect("it repairs");
    assert_eq!(done.record, Some(2));
    let names_gone: Vec<_> = done.gone.iter().map(ToString::to_string).collect();
    assert_eq!(names_gone.iter().collect::<Vec<_>>(), [gone]);
    let objects: Vec<_> = done.unreadable.iter().map(|error| error.object()).collect();
    assert_eq!(objects, [unreadable], "{:?}", done.unreadable);
    let view = View::list(&repository).expect("it lists");
    let index = Index::open(repository, &view).expect("it opens");
    let named: BTreeSet<_> = index.containers().iter().map(|c| (c.class, c.name)).collect();
    for name in [unreadable, gone, &at_work[0]] {
        assert!(!named.contains(&container(name)), "{name} is named");
    }
    for name in names(&store, "data").iter().chain(&names(&store, "meta")) {
        let is_left_out = [unreadable, &at_work[0]].contains(&name);
        assert_eq!(named.contains(&container(name)), !is_left_out, "{name}");
    }
    // Chunks that were given up are reported as missing.
    let findings = store.check(false);
    assert!(findings.report.missing_count > 0, "{findings:#?}");
    store.compare(&findings, "after the repair");
}

/// The writer of a damaged ticket may live or not. A repair ends it.
#[test]
fn writer_with_a_damaged_ticket_is_ended() {
    let store = Store::new(&build());
    let tickets = names(&store, "tickets");
    let is_open = |name: &&String| match ObjectName::parse(name) {
        Ok(ObjectName::Ticket { ticket, .. }) => !has_ended(&store, ticket),
        _ => false,
    };
    let name = tickets.iter().find(is_open).expect("a writer was cut off");
    flip(&store, name, 100);
    assert!(store.check(false).has_error(name));
    back_up(&later(&store), &[1], false).expect("nothing fails here");
    assert!(store.check(false).has_error(name), "other writers leave it alone");
    let done = repair_all(&store);
    assert_eq!(done.ended.len(), 1, "{done:?}");
    let findings = store.check(true);
    assert_eq!(errors(&findings), [""; 0], "nothing is wrong");
    assert!(findings.names(name), "it is named all the same");
    assert_eq!(findings.report.unreferenced_count, 0, "what it had put is named, too");
}

/// A rebuilt index names the same as before if nothing was wrong.
#[test]
fn rebuilt_index_counts_what_it_names() {
    let store = Store::new(&build());
    // The ticket of an ended writer is not needed.
    let ticket = names(&store, "tickets").into_iter().find(|name| match ObjectName::parse(name) {
        Ok(ObjectName::Ticket { ticket, .. }) => has_ended(&store, ticket),
        _ => false,
    });
    flip(&store, &ticket.expect("there is one"), 100);
    // The next writer ends the interrupted one, whose containers are then named.
    back_up(&later(&store), &[1], false).expect("nothing fails here");
    let done = repair_all(&store);
    assert_eq!((&done.ended[..], &done.found[..]), (&[][..], &[][..]), "{done:?}");
    let containers = names(&store, "data").len() + names(&store, "meta").len();
    assert_eq!((done.segment_count, done.container_count), (1, containers as u64), "{done:?}");
    let view = View::list(&store.repository).expect("it lists");
    let index = Index::open(store.repository.clone(), &view).expect("it opens");
    assert_eq!(index.statistics().hint_count, done.chunk_count, "{done:?}");
    assert_eq!(index.containers().len(), containers);
}

/// A single chunk is worth a segment.
#[test]
fn rebuilt_index_names_a_single_chunk() {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init(storage.clone()).expect("an empty memory takes a repository");
    let repository = open(storage.clone(), 1).expect("it opens");
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let mut inline = Inline::new(writer, Verify::All).expect("the index opens");
    let chunk = inline.store_data(&[7; 5000]).expect("memory takes it");
    inline.commit(Outcome::Void { is_own: true }).expect("memory takes it");
    let done = repair_index(&open(storage, 2).expect("it opens"), &IndexOptions::default(), &());
    assert_eq!(done.expect("it repairs").segment_count, 1);
    let view = View::list(&repository).expect("it lists");
    let index = Index::open(repository, &view).expect("it opens");
    assert_eq!(index.hinted_containers(Class::Data, &chunk).expect("it looks").len(), 1);
}

/// Other snapshots still need what a missing commit had published: a rebuilt index names it,
/// although its writer still has a ticket. Once the commit is given up, nothing that is deleted
/// with it is relied on.
#[test]
fn segments_of_a_missing_commit_are_named_again() {
    let store = Store::new(&everything(&*{
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        init(storage.clone()).expect("memory takes it");
        back_up(&open(storage.clone(), 0).expect("it opens"), &[2], false).expect("it works");
        storage
    }));
    let first = View::list(&store.repository).expect("it lists").snapshots()[0].0;
    // Everything that the snapshot needs exists.
    back_up(&later(&store), &[2], false).expect("it works");
    store.replace(&ObjectName::Commit(first).to_string(), None);
    let read = |when: &str| restore_all(&later(&store)).unwrap_or_else(|e| panic!("{when}: {e}"));
    restore_all(&later(&store)).expect_err("no segment names its container");
    repair_all(&store);
    assert_eq!(read("a new index"), 1, "the snapshot that is left");

    let (done, _) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    assert_eq!(done.missing_commits, BTreeSet::from([first]), "it is given up");
    back_up(&later(&store), &[2, 3], false).expect("it works");
    let all = PruneOptions { unused_max: 0.0, ..PruneOptions::default() };
    prune(&later(&store), &all, &(), |_| true).expect("it prunes");
    sweep_all(&later(&store));
    assert_eq!(read("swept"), 2, "snapshots");
    assert_eq!(errors(&store.check(true)), [""; 0], "nothing is wrong");
}

/// A snapshot that is committed during a prune needs condemned containers, until a sweep has stored
/// their chunks again. An index rebuilt in between must not hide them: otherwise the snapshot could
/// not be restored, and nothing could ever be swept again.
#[test]
fn rebuilt_index_names_chunks_of_late_snapshots() {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init(storage.clone()).expect("an empty memory takes a repository");
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[1, 2], false).expect("nothing fails here");
    let late = open(storage.clone(), 3).expect("it opens");
    let late = Writer::begin(late, Purpose::Backup).expect("it begins");
    // By a client that takes it for alive.
    let other = open(storage.clone(), 2).expect("it opens");
    let all = |view: &View| view.snapshots().into_iter().map(|(id, _)| id).collect();
    forget(&other, |view| Ok::<_, Error>(all(view))).expect("memory takes it");
    prune(&other, &PruneOptions::default(), &(), |_| true).expect("it prunes");
    back_up_by(late, &[1, 2], BTreeMap::new(), false, Snapshot::empty()).expect("it is in time");
    assert!(!View::list(&other).expect("it lists").condemned().is_empty(), "what it needs");

    let last = open(storage.clone(), 4).expect("it opens");
    repair_index(&last, &IndexOptions::default(), &()).expect("it repairs");
    assert_eq!(restore_all(&last).expect("it restores"), 1, "after the repair");
    sweep_all(&last);
    assert_eq!(restore_all(&last).expect("it restores"), 1, "after the sweep");
    let store = Store { storage, repository: last };
    assert_eq!(errors(&store.check(true)), [""; 0], "nothing is wrong");
}
