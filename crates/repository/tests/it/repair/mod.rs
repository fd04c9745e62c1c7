//! Repair: losses are reported, everything else is kept, and a second check finds nothing wrong.

mod faults;
mod tree;

use crate::support::backup;
use crate::support::machine::Machine;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::backup::{back_up, back_up_by, file, init, open, restore_all};
use crate::support::bad_sectors::BadSectors;
use crate::support::damaged_repository::{Findings, Store, build, everything};
use crate::support::failing_reads::FailingReads;
use cutpoint_repository::crypto::HEADER_LEN;
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::format::recipe::Segment as Piece;
use cutpoint_repository::gc::prune::{PruneOptions, prune};
use cutpoint_repository::gc::sweep::{Sweep, SweepOptions, Sweeper};
use cutpoint_repository::repo::keys::Others;
use cutpoint_repository::snapshots::lifecycle::forget;
use cutpoint_repository::verify::check::{CheckMonitor, Remedy, record};
use cutpoint_repository::verify::repair::{
    Fate, IndexOptions, IndexRepair, Loss, RepairMonitor, SnapshotOptions, SnapshotsRepair,
    repair_index, repair_snapshots,
};
use cutpoint_repository::write::Inline;
use cutpoint_repository::{
    Class, Entry, Index, ObjectName, PartName, Purpose, Repository, Snapshot, TicketId, Verify,
    View, Writer,
};
use cutpoint_storage::{Error, Kind, Memory, Storage};

fn errors(findings: &Findings) -> Vec<String> {
    let errors = findings.all.iter().filter(|finding| finding.is_error());
    errors.map(|finding| format!("{}: {}", finding.object, finding.message)).collect()
}

fn flip(store: &Store, name: &str, place: usize) {
    let mut bytes = store.storage.get(name).expect("it is there").to_vec();
    bytes[place] ^= 1;
    store.replace(name, Some(bytes.into()));
}

/// Opens the repository as a process that comes after all others: they are dead, and its random
/// numbers are its own.
fn later(store: &Store) -> Arc<Repository> {
    static PROCESSES: AtomicU32 = AtomicU32::new(2);
    let process = PROCESSES.fetch_add(1, Ordering::Relaxed);
    open(store.storage.clone(), process).expect("it opens")
}

fn repair_all(store: &Store) -> IndexRepair {
    repair_index(&later(store), &IndexOptions::default(), &()).expect("it repairs")
}

fn names(store: &Store, folder: &str) -> Vec<String> {
    let listed = store.storage.list(folder).expect("memory lists");
    listed.into_iter().map(|(name, _)| name).collect()
}

fn container(name: &str) -> (Class, PartName) {
    match ObjectName::parse(name) {
        Ok(ObjectName::Container(class, part)) => (class, part),
        other => panic!("{name}: {other:?}"),
    }
}

fn has_ended(store: &Store, ticket: TicketId) -> bool {
    let commit = ObjectName::Commit(ticket).to_string();
    store.storage.head(&commit).expect("memory answers").is_some()
}

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
    // Chunks that were given up are reported as lost.
    let findings = store.check(false);
    assert!(findings.report.lost_count > 0, "{findings:#?}");
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
    inline.commit(Outcome::Void).expect("memory takes it");
    let done = repair_index(&open(storage, 2).expect("it opens"), &IndexOptions::default(), &());
    assert_eq!(done.expect("it repairs").segment_count, 1);
    let view = View::list(&repository).expect("it lists");
    let index = Index::open(repository, &view).expect("it opens");
    assert_eq!(index.places(Class::Data, &chunk).expect("it looks").len(), 1);
}

/// Collects the reports of a repair.
#[derive(Default)]
struct Heard(Mutex<Vec<(TicketId, String, Loss)>>);

impl CheckMonitor for Heard {}

impl RepairMonitor for Heard {
    fn loss(&self, snapshot: TicketId, path: &[u8], loss: &Loss) {
        let path = String::from_utf8_lossy(path).into_owned();
        self.0.lock().expect("no test panics in here").push((snapshot, path, loss.clone()));
    }
}

fn repair(
    store: &Store,
    options: SnapshotOptions,
) -> (SnapshotsRepair, Vec<(TicketId, String, Loss)>) {
    let heard = Heard::default();
    let done = repair_snapshots(&later(store), &options, &heard).expect("nothing fails here");
    (done, heard.0.into_inner().expect("no test panics in here"))
}

const REPAIR: SnapshotOptions =
    SnapshotOptions { dry_run: false, forget: false, read_data: None, threads: 1 };

/// Returns the bytes of an entry; holes are zeros.
fn read(store: &Store, entry: &Entry) -> Vec<u8> {
    let reader = store.reader();
    let mut bytes = Vec::new();
    for piece in reader.segments(&entry.content) {
        match piece.expect("its recipe is found") {
            Piece::Chunk { fingerprint, .. } => {
                let chunk = reader.chunk(Class::Data, &fingerprint);
                bytes.extend_from_slice(&chunk.expect("what is left can be read"));
            }
            Piece::Hole { length } | Piece::Zeros { length } => {
                bytes.resize(bytes.len() + usize::try_from(length).expect("it is small"), 0);
            }
        }
    }
    bytes
}

fn entries(store: &Store, snapshot: TicketId) -> Vec<Entry> {
    let reader = store.reader();
    let view = reader.view();
    let snapshot = view.commits[&snapshot].snapshot().expect("it is one").clone();
    reader.tree(&snapshot.root).map(|entry| entry.expect("nothing is damaged")).collect()
}

/// A file that has lost a part is kept under another name, with a hole. Everything else is
/// unchanged.
#[test]
fn remains_of_a_file_are_kept() {
    let store = Store::new(&build());
    let view = View::list(&store.repository).expect("it lists");
    let snapshots = view.snapshots();
    let [(first, _), (second, _)] = snapshots[..] else { panic!("{snapshots:?}") };
    let has_third = |id| entries(&store, id).iter().any(|entry| entry.name == b"file 0003");
    let ticket = if has_third(first) { first } else { second };
    // The first region of the first file: three chunks of six.
    let name = names(&store, "data")
        .into_iter()
        .find(|name| container(name).1 == PartName { ticket, count: 0 })
        .expect("it published in the middle");
    flip(&store, &name, HEADER_LEN + 10);
    let (done, heard) = repair(&store, REPAIR);
    assert!(done.snapshots.is_empty() && heard.is_empty(), "nobody has looked: {done:?}");

    let read_data = Some(cutpoint_repository::verify::check::Portion::All);
    let before = everything(&*store.storage);
    let dry = SnapshotOptions { dry_run: true, read_data, ..REPAIR };
    let (dry, dry_heard) = repair(&store, dry);
    assert_eq!(everything(&*store.storage), before, "a dry run writes nothing");
    assert!(dry.snapshots.iter().all(|each| each.fate == Fate::WouldBeRepaired), "{dry:?}");
    let (done, heard) = repair(&store, SnapshotOptions { read_data, ..REPAIR });
    assert_eq!(heard, dry_heard, "as announced");
    let kept_as = b"file 0001.cutpoint-damaged".to_vec();
    let ranges = [(0, 15_000)].map(|(start, end)| start..end).to_vec();
    let loss = Loss::Parts { ranges, size: 30_000, kept_as: kept_as.clone() };
    let expected = [first, second].map(|id| (id, "/file 0001".to_owned(), loss.clone()));
    assert_eq!(heard, expected, "what is lost");
    for (each, old) in done.snapshots.iter().zip([first, second]) {
        let Fate::Repaired(new) = each.fate else { panic!("{each:?}") };
        let left = entries(&store, new);
        let names: Vec<_> = left.iter().map(|entry| entry.name.clone()).collect();
        let mut expected: Vec<_> = entries(&store, old).into_iter().map(|e| e.name).collect();
        expected[0].clone_from(&kept_as);
        assert_eq!(names, expected, "everything is there");
        let mut bytes = file(1);
        bytes[..15_000].fill(0);
        assert!(read(&store, &left[0]) == bytes, "what is left of it");
        for entry in &left[1..] {
            let number = String::from_utf8_lossy(&entry.name)[5..].parse().expect("a number");
            assert!(read(&store, entry) == file(number), "file {number} is whole");
        }
    }
    let view = View::list(&store.repository).expect("it lists");
    let ids: Vec<_> = view.snapshots().iter().map(|(id, _)| *id).collect();
    let new = done.snapshots.iter().map(|each| match each.fate {
        Fate::Repaired(new) => new,
        fate => panic!("{fate:?}"),
    });
    let pairs: Vec<_> = [first, second].into_iter().zip(new).collect();
    // Both began at the same time in this test.
    for (old, new) in &pairs {
        let place = |id| ids.iter().position(|each| *each == id).expect("it is listed");
        assert!(place(*new) > place(*old), "the repaired one comes later");
    }
    assert!(!errors(&store.check(false)).is_empty(), "the old ones are on the lists still");

    // A second repair has nothing to do, and the old snapshots can be forgotten.
    let (again, _) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    for (each, (_, new)) in again.snapshots.iter().zip(&pairs) {
        assert_eq!(each.fate, Fate::RepairedBefore(*new));
    }
    assert_eq!(again.forgotten, [first, second]);
    let findings = store.check(true);
    assert_eq!(errors(&findings), [""; 0], "nothing is wrong any more");
    assert!(findings.names(&name), "the damage is named all the same");
    let (last, _) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    assert!(last.snapshots.is_empty() && last.forgotten.is_empty(), "{last:?}");
}

/// Chunks that no index names are not lost while their container exists: no snapshot is forgotten
/// for them, and once the index is repaired none has to be. Here the only segment that named the
/// container was gone, and the storage refused the container when the index was rebuilt.
#[test]
fn chunks_lost_only_by_the_index_are_not_given_up() {
    let store = Store::new(&build());
    let (first, _) = View::list(&store.repository).expect("it lists").snapshots()[0];
    let of = |folder: &str| {
        let names = names(&store, folder).into_iter();
        names.filter(|name| match ObjectName::parse(name) {
            Ok(ObjectName::Segment(part) | ObjectName::Container(_, part)) => part.ticket == first,
            _ => false,
        })
    };
    of("index").for_each(|name| store.replace(&name, None));
    let prefix = of("data").next().expect("it has stored something");
    let (inner, name) = (store.storage.clone(), prefix.clone());
    let storage = Arc::new(BadSectors { inner, prefix, at: None });
    let repository = open(storage, 60).expect("it opens");
    let done = repair_index(&repository, &IndexOptions::default(), &()).expect("it repairs");
    assert_eq!(done.unreadable.len(), 1, "{done:?}");
    // A refused container may have the missing chunks; a damaged one does not.
    let dry = SnapshotOptions { dry_run: true, ..REPAIR };
    let done = repair_snapshots(&repository, &dry, &()).expect("the rest can be read");
    assert!(!done.snapshots.is_empty(), "{done:?}");
    assert!(done.snapshots.iter().all(|each| each.is_refused), "{done:?}");
    let damaged = Store::new(&everything(&*store.storage));
    damaged.replace(&name, Some(b"nothing".to_vec().into()));
    let (done, _) = repair(&damaged, dry);
    assert!(!done.snapshots.is_empty(), "{done:?}");
    assert!(done.snapshots.iter().all(|each| !each.is_refused), "{done:?}");

    let (done, heard) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    assert!(!heard.is_empty() && done.forgotten.is_empty(), "{done:?}");
    assert!(done.snapshots.iter().all(|each| each.is_refused), "{done:?}");
    let makeshift: Vec<_> = done
        .snapshots
        .iter()
        .filter_map(|each| match each.fate {
            Fate::Repaired(new) => Some(new),
            _ => None,
        })
        .collect();
    assert!(!makeshift.is_empty(), "{done:?}");
    let (again, _) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    let is_makeshift = |fate| matches!(fate, Fate::RepairedBefore(it) if makeshift.contains(&it));
    assert!(again.snapshots.iter().all(|each| is_makeshift(each.fate)), "{again:?}");
    repair_all(&store);
    let (done, heard) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    assert!(done.snapshots.is_empty() && heard.is_empty(), "{done:?}");
    assert_eq!(errors(&store.check(true)), [""; 0], "nothing is wrong");
}

/// Of files and folders of which nothing is left, only the remains of other entries are kept.
#[test]
fn entirely_lost_files_are_left_out() {
    let objects = build();
    let mut kinds = BTreeSet::new();
    for lost in objects.keys().filter(|name| name.starts_with("meta/") || name.starts_with("data/"))
    {
        let store = Store::new(&objects);
        store.replace(lost, None);
        let before = View::list(&store.repository).expect("it lists").snapshots().len();
        let (done, heard) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
        for (_, path, loss) in &heard {
            kinds.insert(match loss {
                Loss::Entries => "entries",
                Loss::File { .. } => "file",
                Loss::Parts { .. } => "parts",
            });
            assert_eq!(path.ends_with('/'), *loss == Loss::Entries, "{path}: {loss:?}");
        }
        let nothing_left =
            done.snapshots.iter().filter(|each| each.fate == Fate::NothingLeft).count();
        let view = View::list(&store.repository).expect("it lists");
        assert_eq!(view.snapshots().len(), before - nothing_left, "{lost}: snapshots");
        assert_eq!(
            done.forgotten.len(),
            done.snapshots.len(),
            "{lost}: all that had lost something"
        );
        // The index still names the missing container.
        repair_all(&store);
        let findings = store.check(true);
        assert_eq!(errors(&findings), [""; 0], "{lost}");
        for (id, _) in view.snapshots() {
            for entry in entries(&store, id) {
                let found = read(&store, &entry);
                assert_eq!(found.len() as u64, entry.size, "{lost}: {entry:?}");
            }
        }
    }
    assert_eq!(kinds, BTreeSet::from(["entries", "file"]), "a container has whole files here");
}

/// A repair relies on nothing that a record calls damaged: chunks that can be read are stored
/// again.
#[test]
fn suspect_chunks_are_stored_again() {
    let store = Store::new(&build());
    let view = View::list(&store.repository).expect("it lists");
    let (first, _) = view.snapshots()[0];
    let of = |count| {
        let part = PartName { ticket: first, count };
        names(&store, "data")
            .into_iter()
            .find(|name| container(name).1 == part)
            .expect("it is there")
    };
    let (lost, suspect) = (of(0), of(1));
    // Both are damaged during the check, and one is intact again later.
    flip(&store, &suspect, HEADER_LEN + 10);
    let damages = store.check(true).report.damages;
    record(&later(&store), &damages, |_, _| {}).expect("memory takes it");
    flip(&store, &suspect, HEADER_LEN + 10);
    store.replace(&lost, None);
    assert!(store.check(false).report.lost_count > 0, "one is gone");
    let (done, heard) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    assert!(!heard.is_empty() && done.snapshots.iter().all(|each| !each.is_refused), "{done:?}");
    // From now on the suspect container is not needed.
    flip(&store, &suspect, HEADER_LEN + 10);
    repair_all(&store);
    let affected = errors(&store.check(true));
    assert_eq!(affected, [""; 0], "the repaired snapshots are whole");
}

/// With a damaged trailer, all chunks can be read as long as the index knows their places. They are
/// stored again. Until then the damage is an error, recorded or not.
#[test]
fn chunks_only_in_a_damaged_container_are_an_error() {
    let objects = build();
    let view = View::list(&Store::new(&objects).repository).expect("it lists");
    let ids: Vec<_> = view.snapshots().iter().map(|(id, _)| *id).collect();
    let is_listed = |name: &&String| {
        (name.starts_with("data/") || name.starts_with("meta/"))
            && ids.contains(&container(name).1.ticket)
    };
    for name in objects.keys().filter(is_listed) {
        let store = Store::new(&objects);
        flip(&store, name, objects[name].len() - 20);
        let findings = store.check(true);
        assert_eq!(findings.report.lost_count, 0, "{name}: all can be read");
        assert!(!findings.report.damages.is_empty(), "{name}: and it is recorded");
        record(&later(&store), &findings.report.damages, |_, _| {}).expect("memory takes it");
        assert!(store.check(true).has_error(name), "{name}: nothing else has its chunks");
        for files in [&[1, 2, 3][..], &[1, 2, 4, 5]] {
            back_up(&later(&store), files, false).expect("nothing fails here");
        }
        let findings = store.check(true);
        assert_eq!(errors(&findings), [""; 0], "{name}: now they are elsewhere");
        assert!(findings.names(name), "{name}: it is named all the same");
    }
}

#[test]
fn lost_commit_can_be_given_up() {
    let objects = build();
    let view = View::list(&Store::new(&objects).repository).expect("it lists");
    let (first, _) = view.snapshots()[0];
    let name = ObjectName::Commit(first).to_string();
    for is_deleted in [false, true] {
        let store = Store::new(&objects);
        if is_deleted {
            store.replace(&name, None);
        } else {
            flip(&store, &name, 100);
        }
        assert!(store.check(false).has_error(&name), "it is named");
        // Other writers do not hide it. This one finds the writer's process dead.
        back_up(&later(&store), &[1, 2, 4, 5], false).expect("nothing fails here");
        assert!(store.check(false).has_error(&name), "deleted: {is_deleted}; it is named still");

        let (done, _) = repair(&store, REPAIR);
        assert_eq!(done.lost_commits, BTreeSet::from([first]), "it is told");
        assert!(store.check(false).has_error(&name), "nobody has given it up");
        let (done, _) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
        assert!(done.record.is_some(), "{done:?}");
        assert!(has_ended(&store, first), "deleted: {is_deleted}; nobody waits for it");
        let (done, _) = repair(&store, REPAIR);
        assert_eq!(done.lost_commits, BTreeSet::new(), "deleted: {is_deleted}; once is enough");
        let findings = store.check(true);
        assert_eq!(errors(&findings), [""; 0], "deleted: {is_deleted}");
        store.compare(&findings, "given up");
        // Containers that only its snapshot had still exist, and are named.
        assert_eq!(findings.report.unreferenced_count, 0, "deleted: {is_deleted}");

        // The lost commit does not prevent deletion of condemned containers.
        let all = PruneOptions { unused_max: 0.0, ..PruneOptions::default() };
        let pruned = prune(&later(&store), &all, &(), |_| true).expect("it prunes");
        let number = pruned.and_then(|pruned| pruned.number);
        let last = sweep_all(&later(&store));
        assert!(
            number.is_some() && last == number,
            "deleted: {is_deleted}: {last:?} of {number:?}"
        );
        assert_eq!(errors(&store.check(true)), [""; 0], "deleted: {is_deleted}, swept");
    }
}

/// Other snapshots still need what a lost commit had published: a rebuilt index names it, although
/// its writer still has a ticket. Once the commit is given up, nothing that is deleted with it is
/// relied on.
#[test]
fn segments_of_a_lost_commit_are_named_again() {
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
    restore_all(&later(&store)).expect_err("nobody says where it is");
    repair_all(&store);
    assert_eq!(read("a new index"), 1, "the snapshot that is left");

    let (done, _) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    assert_eq!(done.lost_commits, BTreeSet::from([first]), "it is given up");
    back_up(&later(&store), &[2, 3], false).expect("it works");
    let all = PruneOptions { unused_max: 0.0, ..PruneOptions::default() };
    prune(&later(&store), &all, &(), |_| true).expect("it prunes");
    sweep_all(&later(&store));
    assert_eq!(read("swept"), 2, "snapshots");
    assert_eq!(errors(&store.check(true)), [""; 0], "nothing is wrong");
}

/// Sweeps until nothing is left to sweep. Returns the last record that was swept.
fn sweep_all(repository: &Arc<Repository>) -> Option<u64> {
    let options = SweepOptions { settle_ns: 0, ..SweepOptions::default() };
    let mut sweeper = Sweeper::new(repository.clone(), options);
    let mut last = None;
    while let Sweep::Done(swept) = sweeper.step(&()).expect("it sweeps") {
        last = Some(swept.number);
    }
    last
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

#[test]
fn held_snapshots_are_not_forgotten() {
    let store = Store::new(&build());
    let view = View::list(&store.repository).expect("it lists");
    let (first, _) = view.snapshots()[0];
    let prune = Prune { held: vec![first], ..Prune::default() };
    store.repository.seal_and_put(ObjectName::Prune(1), &prune.encode()).expect("memory takes it");
    for name in names(&store, "data") {
        store.replace(&name, None);
    }
    let (done, _) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    assert_eq!(done.held, [first], "{done:?}");
    assert!(!done.forgotten.contains(&first), "{done:?}");
}

/// An object that the storage refuses today may be readable tomorrow: the snapshot that has it
/// stays listed, beside its repaired version.
#[test]
fn snapshot_with_refused_objects_is_not_forgotten() {
    let store = Store::new(&build());
    let snapshots = View::list(&store.repository).expect("it lists").snapshots().len();
    let storage = BadSectors { inner: store.storage.clone(), prefix: "data/".to_owned(), at: None };
    let repository = open(Arc::new(storage), 60).expect("it opens");
    let options = SnapshotOptions { forget: true, ..REPAIR };
    let done = repair_snapshots(&repository, &options, &()).expect("the rest can be read");
    assert_eq!(done.snapshots.len(), snapshots, "{done:?}");
    assert!(done.snapshots.iter().all(|each| each.is_refused), "{done:?}");
    assert!(done.forgotten.is_empty(), "{done:?}");
    // The storage returns everything now, and no damage was recorded.
    let findings = store.check(true);
    assert_eq!(errors(&findings), [""; 0], "nothing is wrong");
    let view = View::list(&store.repository).expect("it lists");
    assert!(view.damaged().is_empty(), "nothing is recorded");
}

/// A commit that the storage refuses is not lost. One that it returns at the second attempt may
/// need chunks that were not looked at.
#[test]
fn refused_commits_are_not_given_up() {
    let store = Store::new(&build());
    let (id, _) = View::list(&store.repository).expect("it lists").snapshots()[0];
    let name = ObjectName::Commit(id).to_string();
    let repair_on = |count, process| {
        let storage = FailingReads::new(&store.storage, &name, Kind::Storage, count);
        repair_snapshots(&open(storage, process).expect("it opens"), &REPAIR, &())
    };
    let done = repair_on(u64::MAX, 60).expect("the rest can be read");
    assert_eq!(done.lost_commits, BTreeSet::new(), "{done:?}");
    let error = repair_on(1, 61).expect_err("it was not looked at");
    assert!(error.kind() == Kind::Storage && error.to_string().contains(&name), "{error}");
}

/// A sound repository.
#[test]
fn sound_repository_is_not_repaired() {
    let store = Store::new(&build());
    let before = names(&store, "commits").len();
    let (done, heard) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    assert!(done.snapshots.is_empty() && heard.is_empty(), "{done:?}");
    assert_eq!(names(&store, "commits").len(), before, "commits");
    assert_eq!(done.record, None);
}

/// Without every prune record it is unknown what is condemned.
#[test]
fn repair_needs_all_prune_records() {
    let store = Store::new(&build());
    let name = ObjectName::Prune(1);
    store.repository.seal_and_put(name, &Prune::default().encode()).expect("memory takes it");
    flip(&store, &name.to_string(), 100);
    let error = repair_index(&store.repository, &IndexOptions::default(), &());
    assert_eq!(error.expect_err("it is unsafe").kind(), Kind::Corrupt);
}

/// A file whose other name is taken gets another one.
#[test]
fn taken_names_are_replaced() {
    let store = Store::new(&build());
    let repository = later(&store);
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let id = writer.ticket();
    let mut inline = Inline::new(writer, Verify::All).expect("the index opens");
    let mut tree = cutpoint_repository::write::TreeWriter::new();
    let taken = ["a", "a-b", "a.cutpoint-damaged", "a.cutpoint-damaged+", "b"];
    for (seed, name) in (100..).zip(taken) {
        let bytes = cutpoint_testing::SplitMix64::bytes(seed, 40_000);
        let mut recipe = cutpoint_repository::write::RecipeWriter::new("fixed");
        for chunk in bytes.chunks(10_000) {
            let fingerprint = inline.store_data(chunk).expect("memory takes it");
            let piece = Piece::Chunk { fingerprint, offset: 0, length: 10_000 };
            recipe.push(piece, &mut inline).expect("memory takes it");
        }
        let mut entry = Entry::new(name, cutpoint_repository::EntryKind::File);
        entry.size = 40_000;
        entry.content = recipe.finish(&mut inline).expect("memory takes it");
        tree.push(&entry, repository.keys(), &mut inline).expect("names rise");
    }
    let root = tree.finish(&mut inline).expect("memory takes it");
    let snapshot = cutpoint_repository::Snapshot { root, ..cutpoint_repository::Snapshot::empty() };
    inline.commit(Outcome::Snapshot(Box::new(snapshot))).expect("memory takes it");
    let name = ObjectName::Container(Class::Data, PartName { ticket: id, count: 0 }).to_string();
    flip(&store, &name, HEADER_LEN + 10);
    let read_data = Some(cutpoint_repository::verify::check::Portion::All);
    let (done, _) = repair(&store, SnapshotOptions { read_data, ..REPAIR });
    let [each] = &done.snapshots[..] else { panic!("{done:?}") };
    let Fate::Repaired(new) = each.fate else { panic!("{each:?}") };
    let names: Vec<_> = entries(&store, new)
        .iter()
        .map(|entry| String::from_utf8_lossy(&entry.name).into_owned())
        .collect();
    let expected =
        ["a-b", "a.cutpoint-damaged", "a.cutpoint-damaged+", "a.cutpoint-damaged++", "b"];
    assert_eq!(names, expected);

    // A repaired file keeps its name when it loses more.
    flip(&store, &name, store.storage.get(&name).expect("it is there").len() / 4);
    let (done, heard) = repair(&store, SnapshotOptions { read_data, ..REPAIR });
    let twice: Vec<_> = heard.iter().filter(|(id, ..)| *id == new).collect();
    assert!(!twice.is_empty(), "it has lost more: {done:?}");
    for (_, _, loss) in twice {
        let Loss::Parts { kept_as, .. } = loss else { continue };
        assert!(!kept_as.ends_with(b"damaged.cutpoint-damaged"), "{loss:?}");
    }
}

/// A lost prune record, before or after its sweep, is given up once. Then it is no longer missed,
/// and it does not count if it reappears, because what it condemned may be needed by then.
#[test]
fn given_up_prune_record_does_not_count() {
    for is_swept in [false, true] {
        let case = format!("swept: {is_swept}");
        let store = Store::new(&build());
        let all = PruneOptions { unused_max: 0.0, ..PruneOptions::default() };
        let pruned = prune(&later(&store), &all, &(), |_| true).expect("it prunes");
        let number = pruned.and_then(|pruned| pruned.number).expect("there is a record");
        let name = ObjectName::Prune(number).to_string();
        let bytes = store.storage.get(&name).expect("it was put");
        if is_swept {
            assert_eq!(sweep_all(&later(&store)), Some(number), "{case}");
        }
        // Another writer has seen it.
        back_up(&later(&store), &[1, 2], false).expect("nothing fails here");
        let give_up = |number| IndexOptions {
            given_up_prunes: BTreeSet::from([number]),
            ..IndexOptions::default()
        };
        let kept = repair_index(&later(&store), &give_up(number), &()).expect_err("it is there");
        assert_eq!(kept.kind(), Kind::Invalid, "{case}");

        store.replace(&name, None);
        let named = store.check(true);
        let finding = named.all.iter().find(|finding| finding.object == name).expect("it is named");
        assert_eq!(finding.remedies, [Remedy::GiveUpPrune(number)], "{case}");
        back_up(&later(&store), &[1], false).expect_err("nothing can be written");
        let done = repair_index(&later(&store), &give_up(number), &()).expect("it repairs");
        assert!(done.record > Some(number), "{case}: no number is taken twice");
        // Chunks that its sweep has deleted are lost to the snapshot that it had taken.
        let findings = store.check(true);
        record(&later(&store), &findings.report.damages, |_, _| {}).expect("memory takes it");
        repair(&store, SnapshotOptions { forget: true, ..REPAIR });
        for is_back in [false, true] {
            if is_back {
                store.replace(&name, Some(bytes.clone()));
            }
            let view = View::list(&later(&store)).expect("it lists");
            assert!(!view.prunes.contains_key(&number), "{case}, back: {is_back}");
            view.require_prunes().expect("it is not missed");
            back_up(&later(&store), &[1, 2, 3, 4, 5], false).expect("it can be written to");
            let findings = store.check(true);
            assert_eq!(errors(&findings), [""; 0], "{case}, back: {is_back}");
            store.compare(&findings, &case);
            prune(&later(&store), &all, &(), |_| true).expect("it prunes");
            sweep_all(&later(&store));
            assert_eq!(errors(&store.check(true)), [""; 0], "{case}, back: {is_back}, swept");
        }
    }
}

/// A record that gave up another can itself be lost: each is given up by a command of its own.
#[test]
fn prune_record_that_gave_up_another_can_be_given_up() {
    let store = Store::new(&build());
    for number in 1..3 {
        let name = ObjectName::Prune(number);
        store.repository.seal_and_put(name, &Prune::default().encode()).expect("memory takes it");
    }
    let give_up = |number| {
        let given_up_prunes = BTreeSet::from([number]);
        let options = IndexOptions { given_up_prunes, ..IndexOptions::default() };
        repair_index(&later(&store), &options, &()).expect("it repairs").record.expect("a number")
    };
    store.replace(&ObjectName::Prune(1).to_string(), None);
    let second = give_up(1);
    flip(&store, &ObjectName::Prune(second).to_string(), 100);
    for number in [1, second] {
        assert!(store.check(false).has_error(&ObjectName::Prune(number).to_string()), "{number}");
    }
    give_up(1);
    give_up(second);
    back_up(&later(&store), &[1, 2], false).expect("it can be written to");
    assert_eq!(errors(&store.check(true)), [""; 0], "nothing is wrong");
}

/// Each record lists all records that were given up. If the one that gave up the first is itself
/// lost and given up, the first still does not count, although it may reappear.
#[test]
fn given_up_prune_record_stays_so_after_loss_of_the_later_record() {
    let store = Store::new(&build());
    let put = |number| {
        let name = ObjectName::Prune(number);
        store.repository.seal_and_put(name, &Prune::default().encode()).expect("memory takes it");
        name.to_string()
    };
    let first = put(1);
    let was_first = store.storage.get(&first).expect("it was put");
    put(2);
    let give_up = |number| {
        let given_up_prunes = BTreeSet::from([number]);
        let options = IndexOptions { given_up_prunes, ..IndexOptions::default() };
        repair_index(&later(&store), &options, &()).expect("it repairs").record.expect("a number")
    };
    store.replace(&first, None);
    let giving_up = give_up(1);
    repair_index(&later(&store), &IndexOptions::default(), &()).expect("another record");
    store.replace(&ObjectName::Prune(giving_up).to_string(), None);
    give_up(giving_up);
    store.replace(&first, Some(was_first));
    let view = View::list(&later(&store)).expect("it lists");
    assert_eq!(view.given_up_prunes(), BTreeSet::from([1, giving_up]));
    assert!(!view.prunes.contains_key(&1), "it counts no more");
    assert_eq!(errors(&store.check(true)), [""; 0], "nothing is wrong");
}

/// A writer that has not seen that a commit is given up could use its snapshot as a parent. Until
/// the record has settled, a sweep waits, and does not report damage.
#[test]
fn sweep_waits_until_a_given_up_commit_has_settled() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let store = Store::new(&build());
    let at = |process: u32, hours: u64| {
        let machine = Machine::at(process, (1 << 60) + hours * HOUR_NS);
        let opened = Repository::open(store.storage.clone(), machine, &backup::unlock());
        Arc::new(opened.expect("it opens"))
    };
    let options = PruneOptions { unused_max: 0.0, ..PruneOptions::default() };
    prune(&at(50, 0), &options, &(), |_| true).expect("it prunes");
    let (first, _) = View::list(&store.repository).expect("it lists").snapshots()[0];
    flip(&store, &ObjectName::Commit(first).to_string(), 100);
    let forget = SnapshotOptions { forget: true, ..REPAIR };
    let done = repair_snapshots(&at(51, 2), &forget, &()).expect("it repairs");
    assert_eq!(done.lost_commits, BTreeSet::from([first]), "it is given up");
    let settle_ns = i64::try_from(HOUR_NS).expect("an hour");
    let sweep = |process, hours| {
        let options = SweepOptions { settle_ns, ..SweepOptions::default() };
        Sweeper::new(at(process, hours), options).step(&()).expect("nothing is damaged")
    };
    assert!(matches!(sweep(52, 2), Sweep::Settling { .. }), "others may not have seen it");
    assert!(matches!(sweep(53, 4), Sweep::Done(_)), "everybody has seen it");
}

/// An object made with newer keys cannot be read by an older client, but is not lost.
#[test]
fn commit_of_a_newer_epoch_is_not_given_up() {
    let store = Store::new(&build());
    let process = Machine::new(60);
    let mut newer = Repository::open(store.storage.clone(), process, &backup::unlock());
    let newer = newer.as_mut().expect("it opens");
    newer.begin_epoch(&[backup::unlock()], Others::Remove).expect("a new epoch begins");
    let newer = open(store.storage.clone(), 61).expect("it opens");
    back_up(&newer, &[1, 2], false).expect("nothing fails here");
    let view = View::list(&newer).expect("it lists");
    let of_newer: BTreeSet<_> = view.commits.keys().copied().collect();
    // A client that opened the repository earlier: whatever else it reports, nothing is given up.
    repair_snapshots(&store.repository, &SnapshotOptions { forget: true, ..REPAIR }, &()).ok();
    let taken = View::list(&newer).expect("it lists").taken();
    assert!(of_newer.iter().all(|id| !taken.contains(id)), "{taken:?} of {of_newer:?}");
}
