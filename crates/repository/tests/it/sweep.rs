//! Orders of events in which a prune, a sweep or a repair could lose acknowledged data, or never
//! end.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::support::backup::{back_up, file, init, open, restore_all};
use crate::support::overtaken::{OvertakenStorage, When};
use crate::support::pruning::{PATIENT, WHOLE};
use cutpoint_repository::format::commit::{Damage, Outcome};
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::format::segment::Segment;
use cutpoint_repository::gc::prune::prune;
use cutpoint_repository::gc::sweep::{OpenWriter, Sweep, SweepReport, Sweeper};
use cutpoint_repository::rules::{self, Mutant};
use cutpoint_repository::snapshots::forget;
use cutpoint_repository::verify::repair::{IndexOptions, repair_index};
use cutpoint_repository::write::prune_log::{AppendResult, append};
use cutpoint_repository::{
    Class, CommitResult, Index, ObjectName, PartName, Purpose, Repository, TicketId, View, Writer,
};
use cutpoint_storage::{Fault, Faulty, Kind, Memory, ObjectKind, Result, Storage};

fn memory() -> Arc<dyn Storage> {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init(storage.clone()).expect("an empty memory takes a repository");
    storage
}

fn snapshots(repository: &Repository) -> BTreeSet<TicketId> {
    let view = View::list(repository).expect("it lists");
    view.snapshots().into_iter().map(|(id, _)| id).collect()
}

/// Backs up, and returns the snapshot.
fn snapshot(repository: &Arc<Repository>, files: &[u64]) -> TicketId {
    let before = snapshots(repository);
    let committed = back_up(repository, files, false).expect("it works");
    assert_eq!(committed, CommitResult::Done, "no other client ends it");
    let new = &snapshots(repository) - &before;
    *new.first().expect("a new one")
}

fn forget_these(repository: &Arc<Repository>, ids: &[TicketId]) {
    forget(repository, |_| Ok::<_, cutpoint_storage::Error>(ids.to_vec())).expect("it works");
}

fn prune_whole(repository: &Arc<Repository>) -> u64 {
    let pruned = prune(repository, &WHOLE, &(), |_| true).expect("it works").expect("approved");
    pruned.number.expect("there was something to record")
}

/// Returns the places of the chunks that begin a file.
fn places(repository: &Arc<Repository>, number: u64) -> (Vec<Damage>, Vec<PartName>) {
    let view = View::list(repository).expect("it lists");
    let index = Index::open_without_cache(repository.clone(), &view).expect("it opens");
    let mut found = (Vec::new(), Vec::new());
    for chunk in file(number).chunks(5000).take(3) {
        let fingerprint = repository.keys().fingerprint(Class::Data, chunk);
        for container in index.hinted_containers(Class::Data, &fingerprint).expect("it finds") {
            found.0.push(Damage { class: Class::Data, container, fingerprint });
            found.1.push(container);
        }
    }
    found
}

/// An intact copy is not deleted because another one stays that a check has found damaged.
#[test]
fn sweep_stores_again_chunks_damaged_elsewhere() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    let first = snapshot(&repository, &[1, 2]);
    snapshot(&repository, &[2]);
    let (damage, containers) = places(&repository, 1);
    let name = ObjectName::Container(Class::Data, containers[0]).to_string();
    let mut bytes = storage.get(&name).expect("it is there").to_vec();
    bytes[100] ^= 1;
    storage.delete(&name).expect("it goes");
    storage.put_new(&name, bytes.into()).expect("it comes back");
    let mut checker = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
    checker.commit(Outcome::Damage(damage), Vec::new(), &BTreeSet::new()).expect("it works");
    // The next backup stores it again, and a late one takes over from this.
    let healed = snapshot(&repository, &[1]);
    let view = View::list(&repository).expect("it lists");
    let parent = view.commits[&healed].snapshot().expect("a snapshot").clone();
    let mut late = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    forget_these(&repository, &[first, healed]);
    prune_whole(&repository);
    let outcome = Outcome::Snapshot(Box::new(parent));
    let committed = late.commit(outcome, Vec::new(), &BTreeSet::new()).expect("it works");
    assert_eq!(committed, CommitResult::Done);
    let step = Sweeper::new(repository.clone(), PATIENT).step(&()).expect("it works");
    assert!(matches!(step, Sweep::Done(_)), "{step:?}");
    assert_eq!(restore_all(&repository).expect("nothing is lost"), 2);
}

/// The index says that another container has what a late snapshot needs: the condemned one, which
/// has it, is not deleted.
#[test]
fn wrong_hints_delete_nothing_that_a_late_snapshot_needs() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    snapshot(&repository, &[1, 2]);
    let taken = snapshot(&repository, &[3]);
    let view = View::list(&repository).expect("it lists");
    let parent = view.commits[&taken].snapshot().expect("a snapshot").clone();
    let mut late = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    forget_these(&repository, &[taken]);
    prune_whole(&repository);
    let outcome = Outcome::Snapshot(Box::new(parent));
    late.commit(outcome, Vec::new(), &BTreeSet::new()).expect("it works");
    let (damages, containers) = places(&repository, 3);
    let (_, others) = places(&repository, 1);
    let view = View::list(&repository).expect("it lists");
    let read = |part| {
        let body = repository.get(ObjectName::Segment(part)).expect("it is there");
        Segment::decode(&body).expect("it decodes")
    };
    let part = |ticket| *view.segments().iter().find(|it| it.ticket == ticket).expect("one");
    let wrong = part(containers[0].ticket);
    let mut segment = read(wrong);
    let other = read(part(others[0].ticket)).containers;
    let other = *other.iter().find(|it| it.class == Class::Data).expect("one of each");
    let own = segment.containers.iter().position(|it| it.class == Class::Data).expect("one");
    let number = u32::try_from(segment.containers.len()).expect("few");
    segment.containers.push(other);
    for (_, place) in segment.hints.iter_mut().filter(|(_, place)| *place as usize == own) {
        *place = number;
    }
    segment.hints.sort_unstable();
    let name = ObjectName::Segment(wrong);
    storage.delete(&name.to_string()).expect("it goes");
    repository.seal_and_put(name, &segment.encode()).expect("memory takes it");
    let repository = open(storage.clone(), 2).expect("it opens");
    let error = Sweeper::new(repository, PATIENT).step(&()).expect_err("the index is wrong");
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    let name = ObjectName::Container(Class::Data, damages[0].container).to_string();
    assert!(storage.head(&name).expect("it answers").is_some(), "the only copy is gone");
}

/// A snapshot that was committed after a prune has lost something: once it is given up, space is
/// freed.
#[test]
fn sweep_continues_once_the_damage_is_given_up() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    let first = snapshot(&repository, &[1]);
    snapshot(&repository, &[2]);
    forget_these(&repository, &[first]);
    let condemning = prune_whole(&repository);
    let broken = snapshot(&repository, &[3]);
    let (_, containers) = places(&repository, 3);
    let name = ObjectName::Container(Class::Data, containers[0]).to_string();
    storage.delete(&name).expect("it goes");
    let mut sweeper = Sweeper::new(repository.clone(), PATIENT);
    let error = sweeper.step(&()).expect_err("nothing may go");
    assert_eq!(error.kind(), Kind::Missing, "{error}");
    forget_these(&repository, &[broken]);
    let taking = prune_whole(&repository);
    for expected in [condemning, taking] {
        match sweeper.step(&()).expect("what is broken was taken") {
            Sweep::Done(swept) => assert_eq!(swept.number, expected),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(sweeper.step(&()).expect("it works"), Sweep::Nothing);
    assert_eq!(restore_all(&repository).expect("it restores"), 1);
}

/// A client that gave up a commit may have been killed before it ended the ticket.
#[test]
fn sweep_does_not_wait_for_a_given_up_commit() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    let missing = snapshot(&repository, &[1]);
    snapshot(&repository, &[2]);
    storage.delete(&ObjectName::Commit(missing).to_string()).expect("it goes");
    let mut writer = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
    let record = Prune { taken: vec![missing], ..Prune::default() };
    let view = writer.view().clone();
    let recorded =
        append(&mut writer, &view, record, &BTreeSet::new(), |_, _, record| Ok(Some(record)));
    assert!(matches!(recorded, Ok(AppendResult::Done(_))), "{recorded:?}");
    // Another process of the same machine: the previous one is dead.
    let repository = open(storage, 2).expect("it opens");
    let step = Sweeper::new(repository, PATIENT).step(&()).expect("it works");
    assert!(matches!(step, Sweep::Done(_)), "{step:?}");
}

/// Returns the writers that a waiting sweep of a record names.
fn awaited(step: Result<Sweep>, record: u64) -> Vec<(TicketId, Option<u32>)> {
    match step.expect("it works") {
        Sweep::Waiting { number, writers } => {
            assert_eq!(number, record, "the record at hand");
            let id = |each: &OpenWriter| each.process.as_ref().map(|process| process.process_id);
            writers.iter().map(|each| (each.ticket, id(each))).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// A sweep waits for the backups that had begun when it first looked at the record, and for no
/// others.
#[test]
fn sweep_waits_only_for_writers_of_its_first_look() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    let begin = |process, purpose| {
        let repository = open(storage.clone(), process).expect("it opens");
        Writer::begin(repository, purpose).expect("it begins")
    };
    let [one, two, _] = [[1], [2], [3]].map(|files| snapshot(&repository, &files));
    let mut first = begin(20, Purpose::Backup);
    begin(19, Purpose::Other);
    forget_these(&repository, &[one]);
    assert_eq!(prune_whole(&repository), 1);
    let (mut sweeper, mut faster) =
        (Sweeper::new(repository.clone(), PATIENT), Sweeper::new(repository.clone(), PATIENT));
    // A writer that is not a backup cannot end in a snapshot.
    let seen = [(first.ticket(), Some(20))];
    assert_eq!(awaited(sweeper.step(&()), 1), seen);
    assert_eq!(awaited(faster.step(&()), 1), seen);
    let mut late = begin(18, Purpose::Backup);
    assert_eq!(awaited(sweeper.step(&()), 1), seen, "the late one has seen the record");
    first.void(Vec::new()).expect("memory takes it");
    let step = faster.step(&()).expect("it works");
    assert!(matches!(step, Sweep::Done(SweepReport { number: 1, .. })), "{step:?}");
    // The late writer has not seen the next record.
    forget_these(&repository, &[two]);
    assert_eq!(prune_whole(&repository), 2);
    assert_eq!(awaited(sweeper.step(&()), 2), [(late.ticket(), Some(18))]);
    late.void(Vec::new()).expect("memory takes it");
    let step = sweeper.step(&()).expect("it works");
    assert!(matches!(step, Sweep::Done(SweepReport { number: 2, .. })), "{step:?}");
}

/// The look of a sweep serves every record that all writers had seen, and no record that is put
/// after the look, even if the listings after the look (S2) show that record.
#[test]
fn look_at_writers_serves_the_records_that_they_have_seen() {
    let waits = || {
        let storage = memory();
        let repository = open(storage.clone(), 1).expect("it opens");
        let begin = |process| {
            let repository = open(storage.clone(), process).expect("it opens");
            Writer::begin(repository, Purpose::Backup).expect("it begins")
        };
        let [one, two, three, _] = [[1], [2], [3], [4]].map(|files| snapshot(&repository, &files));
        let mut first = begin(20);
        for (number, id) in [(1, one), (2, two)] {
            forget_these(&repository, &[id]);
            assert_eq!(prune_whole(&repository), number);
        }
        let mut sweeper = Sweeper::new(repository.clone(), PATIENT);
        assert_eq!(awaited(sweeper.step(&()), 1), [(first.ticket(), Some(20))]);
        let late = begin(18);
        forget_these(&repository, &[three]);
        assert_eq!(prune_whole(&repository), 3);
        first.void(Vec::new()).expect("memory takes it");
        for expected in [1, 2] {
            let step = sweeper.step(&()).expect("it works");
            assert!(
                matches!(step, Sweep::Done(SweepReport { number, .. }) if number == expected),
                "the late writer has seen record {expected}: {step:?}"
            );
        }
        match sweeper.step(&()).expect("it works") {
            Sweep::Waiting { number: 3, writers } => writers[0].ticket == late.ticket(),
            step => {
                assert!(matches!(step, Sweep::Done(_)), "{step:?}");
                false
            }
        }
    };
    assert!(waits(), "the rules as written");
    rules::activate(Some(Mutant::SharesLook));
    let waits = waits();
    rules::activate(None);
    assert!(!waits, "the mutant stays unnoticed");
}

/// The other objects that a sweep deletes besides containers: tickets of ended writers, and
/// segments.
#[test]
fn tickets_of_ended_writers_are_deleted() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    let one = snapshot(&repository, &[1]);
    snapshot(&repository, &[2]);
    forget_these(&repository, &[one]);
    prune_whole(&repository);
    let tickets = || storage.list(ObjectKind::Ticket.folder()).expect("it lists").len() as u64;
    let before = tickets();
    match Sweeper::new(repository, PATIENT).step(&()).expect("it works") {
        Sweep::Done(swept) => assert_eq!(swept.ticket_count, before, "{swept:?}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(tickets(), 1, "its own");
}

/// The writer of an unreadable ticket may be at work. The writer of a deleted ticket has ended.
#[test]
fn unreadable_ticket_is_waited_for_and_missing_one_has_ended() {
    let begin = || {
        let storage = memory();
        let repository = open(storage.clone(), 1).expect("it opens");
        let one = snapshot(&repository, &[1]);
        snapshot(&repository, &[2]);
        let open_one = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
        let ticket = open_one.ticket();
        forget_these(&repository, &[one]);
        prune_whole(&repository);
        (storage, repository, ticket, ObjectName::Ticket { ticket, renewal: 0 }.to_string())
    };
    let (storage, repository, ticket, name) = begin();
    let bytes = storage.get(&name).expect("it is there");
    storage.delete(&name).expect("it goes");
    storage.put_new(&name, bytes.slice(..bytes.len() - 1)).expect("memory takes it");
    let step = Sweeper::new(repository, PATIENT).step(&());
    assert_eq!(awaited(step, 1), [(ticket, None)], "its process is unknown");
    let mut outcomes = BTreeSet::new();
    for call in 0.. {
        let (storage, _, ticket, name) = begin();
        let below = storage.clone();
        let overtaken = OvertakenStorage::new(storage, When::BeforeCall(call), move || {
            below.delete(&name).expect("it goes");
        });
        // A process that draws other tickets.
        let sweeping = open(overtaken.clone(), 0).expect("it opens");
        let done = match Sweeper::new(sweeping, PATIENT).step(&()) {
            Ok(Sweep::Done(_)) => true,
            step => awaited(step, 1) != [(ticket, Some(1))],
        };
        outcomes.insert(done);
        if !overtaken.has_acted() {
            break;
        }
    }
    assert_eq!(outcomes.len(), 2, "it went before and after it was looked at");
}

/// If the storage fails, no writer is taken for ended.
#[test]
fn storage_failure_ends_no_writer() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    let one = snapshot(&repository, &[1]);
    snapshot(&repository, &[2]);
    let _at_work = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    forget_these(&repository, &[one]);
    prune_whole(&repository);
    let faulty = Arc::new(Faulty::new(storage.clone(), Fault::None));
    let step = Sweeper::new(open(faulty.clone(), 0).expect("it opens"), PATIENT).step(&());
    assert!(matches!(step, Ok(Sweep::Waiting { .. })), "{step:?}");
    // From a process that draws other tickets.
    for call in 0..faulty.calls() {
        let faulty = Arc::new(Faulty::new(storage.clone(), Fault::FailsAt(call)));
        let Ok(sweeping) = open(faulty, 0) else { continue };
        let step = Sweeper::new(sweeping, PATIENT).step(&());
        assert!(matches!(step, Err(_) | Ok(Sweep::Waiting { .. })), "call {call}: {step:?}");
    }
}

/// A container is put after the containers were listed, and committed before the commits are
/// listed.
#[test]
fn rebuilt_index_loses_nothing_committed_meanwhile() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    snapshot(&repository, &[1]);
    let when = When::AfterList(ObjectKind::Meta.folder());
    let overtaken = OvertakenStorage::new(storage.clone(), when, move || {
        snapshot(&repository, &[2]);
    });
    let repairing = open(overtaken.clone(), 1).expect("it opens");
    let report = repair_index(&repairing, &IndexOptions::default(), &()).expect("it works");
    assert!(overtaken.has_acted(), "nothing came in between");
    assert!(report.gone.is_empty(), "{:?}", report.gone);
    let repository = open(storage, 1).expect("it opens");
    assert_eq!(restore_all(&repository).expect("both can be read"), 2);
}
