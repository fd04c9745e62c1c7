//! Forgetting, holding, bringing back, noting: beside prunes, beside each other, and with failures
//! of the storage.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::support::backup::{back_up, init, open, restore_all, unlock};
use crate::support::machine::Machine;
use crate::support::overtaken::{OvertakenStorage, When};
use crate::support::sleeper::Sleeper;
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::gc::prune::{PruneOptions, prune};
use cutpoint_repository::gc::sweep::{SweepOptions, Sweeper};
use cutpoint_repository::rules::{self, Mutant};
use cutpoint_repository::snapshots::{forget, hold, note, release, unforget};
use cutpoint_repository::verify::repair::{IndexOptions, repair_index};
use cutpoint_repository::write::prune_log::{AppendResult, append};
use cutpoint_repository::{
    CommitResult, ObjectName, PartName, Purpose, Repository, TicketId, View, Writer,
};
use cutpoint_storage::{Error, Fault, Faulty, Kind, Memory, Result, Storage};

/// Creates a repository with `count` snapshots. Returns their ids, oldest first.
fn start(count: u64) -> (Arc<dyn Storage>, Arc<Repository>, Vec<TicketId>) {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init(storage.clone()).expect("an empty memory takes a repository");
    let repository = open(storage.clone(), 1).expect("it opens");
    let mut ids = Vec::new();
    for number in 0..count {
        back_up(&repository, &[number], false).expect("nothing fails here");
        let new = listed(&view(&repository))
            .into_iter()
            .find(|id| !ids.contains(id))
            .expect("a new snapshot");
        ids.push(new);
    }
    (storage, repository, ids)
}

fn view(repository: &Repository) -> View {
    View::list(repository).expect("memory lists")
}

fn listed(view: &View) -> BTreeSet<TicketId> {
    view.snapshots().into_iter().map(|(id, _)| id).collect()
}

fn set<const N: usize>(ids: [TicketId; N]) -> BTreeSet<TicketId> {
    ids.into_iter().collect()
}

fn forget_these(repository: &Arc<Repository>, ids: &[TicketId]) -> Result<Option<TicketId>> {
    forget(repository, |_| Ok(ids.to_vec()))
}

/// Publishes a prune record that takes these snapshots and condemns nothing, whatever came before.
fn take(repository: &Arc<Repository>, ids: &[TicketId]) {
    let mut writer = Writer::begin(repository.clone(), Purpose::Prune).expect("it begins");
    let record = Prune { taken: ids.to_vec(), ..Prune::default() };
    let view = writer.view().clone();
    let recorded =
        append(&mut writer, &view, record, &BTreeSet::new(), |_, _, record| Ok(Some(record)));
    assert!(matches!(recorded, Ok(AppendResult::Done(_))), "a prune: {recorded:?}");
}

/// Opens the repository once more, and runs `act` before the first put below `prefix`. The process
/// of `act` has a smaller number, so it does not take the other for dead.
fn meddled(
    storage: &Arc<dyn Storage>,
    prefix: &'static str,
    act: impl FnOnce(Arc<Repository>) + Send + 'static,
) -> Arc<Repository> {
    let other = open(storage.clone(), 2).expect("it opens");
    let when = When::BeforePut(prefix);
    open(OvertakenStorage::new(storage.clone(), when, move || act(other)), 3).expect("it opens")
}

/// Checks that every ticket has an end, and that the numbers have no gap.
fn assert_tidy(repository: &Repository) {
    let view = view(repository);
    let tickets = repository.storage().list("tickets").expect("memory lists").len();
    assert_eq!(tickets, view.commits.len(), "a writer was left open");
    let numbers: Vec<u64> = view.prunes.keys().copied().collect();
    assert!(numbers.iter().zip(1..).all(|(number, expected)| *number == expected), "{numbers:?}");
}

#[test]
fn forgotten_snapshot_can_be_brought_back() {
    let (_, repository, ids) = start(3);
    let [a, b, c] = ids[..] else { panic!("three: {ids:?}") };
    forget_these(&repository, &[a, b]).expect("memory takes it").expect("something was chosen");
    assert_eq!(listed(&view(&repository)), set([c]), "what is left");
    assert_eq!(view(&repository).takeable(), set([a, b]), "what a prune may take");
    // One of two that were forgotten together: the other stays forgotten.
    unforget(&repository, &[a]).expect("no prune has taken it");
    assert_eq!(listed(&view(&repository)), set([a, c]), "what is back");
    assert_eq!(view(&repository).takeable(), set([b]), "the other");
    unforget(&repository, &[b]).expect("no prune has taken it");
    assert_eq!(listed(&view(&repository)), set([a, b, c]), "all are back");
    let again = unforget(&repository, &[b]).map_err(|error| error.to_string());
    let short = b.short();
    assert_eq!(again, Err(format!("snapshot {short}: not forgotten")), "a second time");
    assert_eq!(restore_all(&repository).expect("all restore"), 3, "snapshots");
    // If nothing is chosen, nothing is written except the end of the ticket.
    assert_eq!(forget_these(&repository, &[]).expect("memory takes it"), None, "no commit");
    assert_tidy(&repository);
}

#[test]
fn hold_and_unforget_after_a_prune_are_too_late() {
    let (_, repository, ids) = start(2);
    let [a, b] = ids[..] else { panic!("two: {ids:?}") };
    forget_these(&repository, &[a, b]).expect("memory takes it");
    take(&repository, &[a]);
    for result in [unforget(&repository, &[a]), hold(&repository, &[a])] {
        let error = result.expect_err("a prune has taken it");
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        let short = a.short();
        let text = format!("snapshot {short}: already removed by prune 1");
        assert_eq!(error.to_string(), text, "what it says");
    }
    // The snapshot that was forgotten with it can still be brought back.
    unforget(&repository, &[b]).expect("no prune has taken this one");
    assert_eq!(listed(&view(&repository)), set([b]), "the other");
    assert_eq!(view(&repository).takeable(), set([]), "a taken one is not taken again");
    assert_tidy(&repository);
}

#[test]
fn hold_and_unforget_overtaken_by_a_prune_are_too_late() {
    for verb in [hold, unforget] {
        let run = |mutant| {
            let (storage, repository, ids) = start(1);
            let id = ids[0];
            forget_these(&repository, &[id]).expect("memory takes it");
            let repository = meddled(&storage, "prunes/", move |other| {
                // The prune keeps the rules, whatever the client that it meets does.
                let broken = mutant;
                rules::activate(None);
                take(&other, &[id]);
                rules::activate(broken);
            });
            rules::activate(mutant);
            let result = verb(&repository, &[id]);
            rules::activate(None);
            assert_tidy(&repository);
            (result, view(&repository).taken().contains(&id))
        };
        let (result, is_taken) = run(None);
        let error = result.expect_err("a prune was faster");
        assert!(error.to_string().contains("already removed by prune 1"), "{error}");
        assert!(is_taken, "the prune has its number");
        // Without the judge, success is reported for a snapshot that is gone.
        let (result, is_taken) = run(Some(Mutant::TakesNextNumber));
        assert!(result.is_ok() && is_taken, "P5 broken is to be seen: {result:?}");
    }
}

#[test]
fn prune_notices_a_concurrent_hold() {
    let (storage, repository, ids) = start(2);
    let [a, b] = ids[..] else { panic!("two: {ids:?}") };
    forget_these(&repository, &[a, b]).expect("memory takes it");
    let repository = meddled(&storage, "prunes/", move |other| {
        hold(&other, &[a]).expect("no other client was faster");
    });
    let mut writer = Writer::begin(repository.clone(), Purpose::Prune).expect("it begins");
    let view_before = writer.view().clone();
    let record = Prune { taken: vec![a, b], ..Prune::default() };
    let none = BTreeSet::new();
    let recorded =
        append(&mut writer, &view_before, record.clone(), &none, |newer, faster, mine| {
            assert_eq!(faster.len(), 1, "one was faster");
            assert_eq!(faster[0].held, [a], "and this it was");
            let may_take = newer.takeable();
            Ok(mine.taken.iter().all(|id| may_take.contains(id)).then_some(mine))
        });
    let Ok(AppendResult::Stopped(newer)) = recorded else { panic!("it may not: {recorded:?}") };
    assert_eq!(newer.takeable(), set([b]), "what is left to take");
    // The prune plans again, and continues under its ticket.
    let record = Prune { taken: vec![b], ..record };
    let recorded = append(&mut writer, &newer, record, &none, |_, _, _| Ok(None));
    assert!(matches!(recorded, Ok(AppendResult::Done(2))), "the next number: {recorded:?}");
    let view = view(&repository);
    assert_eq!((view.taken().len(), view.held().len()), (1, 1), "one taken, one held");
    assert_eq!(view.prunes[&2].ticket, Some(writer.ticket()), "the writer of the record");
    assert_tidy(&repository);
}

/// A client that finds a number taken that is not listed yet reads the record by its name.
#[test]
fn record_that_is_not_listed_yet_is_noticed() {
    let (storage, _, ids) = start(2);
    let [a, b] = ids[..] else { panic!("two: {ids:?}") };
    let other = open(storage.clone(), 2).expect("it opens");
    let overtaken =
        OvertakenStorage::new(storage.clone(), When::BeforePutUnlisted("prunes"), move || {
            hold(&other, &[a]).expect("no other client was faster");
        });
    let repository = open(overtaken, 3).expect("it opens");
    let mut writer = Writer::begin(repository, Purpose::Other).expect("it begins");
    let view_before = writer.view().clone();
    let record = Prune { held: vec![b], ..Prune::default() };
    let none = BTreeSet::new();
    let recorded = append(&mut writer, &view_before, record, &none, |newer, faster, mine| {
        assert_eq!(faster.len(), 1, "one was faster");
        assert!(newer.held().contains(&a), "and this it held");
        Ok(Some(mine))
    });
    assert!(matches!(recorded, Ok(AppendResult::Done(2))), "the next number: {recorded:?}");
    let view = view(&open(storage, 4).expect("it opens"));
    assert_eq!(view.held(), ids.iter().copied().collect(), "both are held");
}

#[test]
fn concurrent_holds_both_count() {
    let (storage, repository, ids) = start(2);
    let [a, b] = ids[..] else { panic!("two: {ids:?}") };
    let repository = {
        drop(repository);
        meddled(&storage, "prunes/", move |other| {
            assert_eq!(hold(&other, &[b]).expect("memory takes it"), 1, "the first number");
        })
    };
    assert_eq!(hold(&repository, &[a]).expect("memory takes it"), 2, "the second number");
    assert_eq!(view(&repository).held(), ids.iter().copied().collect(), "both are held");
    assert_tidy(&repository);
    // And truly at the same time.
    let (_, repository, ids) = start(4);
    std::thread::scope(|scope| {
        for id in &ids {
            scope.spawn(|| hold(&repository, &[*id]).expect("memory takes it"));
        }
    });
    assert_eq!(view(&repository).held(), ids.iter().copied().collect(), "all are held");
    assert_tidy(&repository);
}

#[test]
fn held_snapshot_is_neither_forgotten_nor_taken() {
    let (_, repository, ids) = start(2);
    let [a, b] = ids[..] else { panic!("two: {ids:?}") };
    hold(&repository, &[a]).expect("memory takes it");
    let error = forget_these(&repository, &[a, b]).expect_err("one is held");
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert_eq!(listed(&view(&repository)), set([a, b]), "nothing is forgotten");
    // A snapshot that is forgotten first can still be held: then no prune takes it.
    forget_these(&repository, &[b]).expect("memory takes it");
    hold(&repository, &[b]).expect("no prune has taken it");
    assert_eq!(view(&repository).takeable(), set([]), "held");
    release(&repository, &[b]).expect("it is held");
    assert_eq!(view(&repository).takeable(), set([b]), "held no more");
    let error = release(&repository, &[b]).expect_err("it is held no more");
    assert_eq!(error.to_string(), format!("snapshot {}: not held", b.short()), "what it says");
    let unknown = TicketId([0xee; 12]);
    for result in [hold(&repository, &[unknown]), unforget(&repository, &[unknown])] {
        let error = result.expect_err("there is no such snapshot");
        assert_eq!(error.to_string(), "snapshot eeeeeeee: not found", "what it says");
    }
    assert_tidy(&repository);
}

#[test]
fn notes_replace_the_notes_in_their_view() {
    let (storage, repository, ids) = start(1);
    let id = ids[0];
    let add = |repository: &Arc<Repository>, tag: &str| {
        note(repository, id, |tags, _| tags.push(tag.to_owned())).expect("memory takes it")
    };
    assert!(add(&repository, "a"), "changed");
    assert!(add(&repository, "b"), "changed");
    let described = note(&repository, id, |_, text| "text".clone_into(text));
    assert!(described.expect("memory takes it"), "changed");
    let read = || {
        let view = view(&repository);
        let snapshot = view.commits[&id].snapshot().expect("a snapshot").clone();
        let tags = view.tags(id, &snapshot).join(" ");
        (tags, view.description(id, &snapshot).to_owned(), view.notes(id).len())
    };
    assert_eq!(read(), ("a b".to_owned(), "text".to_owned(), 1), "one note counts");
    assert!(!note(&repository, id, |_, _| {}).expect("memory takes it"), "nothing changed");
    // Of two concurrent notes one is visible. The next note has seen both.
    let both = meddled(&storage, "commits/", move |other| {
        note(&other, id, |tags, _| tags.push("d".to_owned())).expect("memory takes it");
    });
    assert!(add(&both, "c"), "changed");
    let (tags, _, count) = read();
    assert_eq!(count, 2, "two that do not know of each other");
    assert!(tags == "a b c" || tags == "a b d", "one of them: {tags}");
    assert!(add(&repository, "e"), "changed");
    assert_eq!(read(), (format!("{tags} e"), "text".to_owned(), 1), "one note counts again");
    assert_tidy(&repository);
}

/// Creates a repository in which `b` and `c` were forgotten together.
fn start_forgotten() -> (Arc<dyn Storage>, Arc<Repository>, [TicketId; 3]) {
    let (storage, repository, ids) = start(3);
    let [a, b, c] = ids[..] else { panic!("three: {ids:?}") };
    forget_these(&repository, &[b, c]).expect("memory takes it");
    (storage, repository, [a, b, c])
}

type Verb = fn(&Arc<Repository>, [TicketId; 3]) -> Result<()>;

const VERBS: [(&str, Verb); 4] = [
    ("forget", |repository, [a, _, _]| forget_these(repository, &[a]).map(drop)),
    ("unforget", |repository, [_, b, _]| unforget(repository, &[b]).map(drop)),
    ("hold", |repository, [a, ..]| hold(repository, &[a]).map(drop)),
    ("note", |repository, [a, ..]| {
        note(repository, a, |tags, _| tags.push("tag".to_owned())).map(drop)
    }),
];

/// Returns the visible state: the listed, takeable and held snapshots, and the tags of the first.
fn seen(
    repository: &Repository,
    [a, ..]: [TicketId; 3],
) -> (BTreeSet<TicketId>, BTreeSet<TicketId>, usize, usize) {
    let view = view(repository);
    let tags = view.note(a).map_or(0, |note| note.tags.len());
    (listed(&view), view.takeable(), view.held().len(), tags)
}

/// A crash before and after each call: the operation was done entirely or not at all, and
/// acknowledged operations were done.
#[test]
fn crash_leaves_all_or_nothing() {
    let mut states = 0;
    for (name, verb) in VERBS {
        let (storage, repository, ids) = start_forgotten();
        let before = seen(&repository, ids);
        let faulty = Arc::new(Faulty::new(storage, Fault::None));
        let repository = open(faulty.clone(), 2).expect("it opens");
        let opened = faulty.calls();
        verb(&repository, ids).expect("nothing fails here");
        let after = seen(&repository, ids);
        assert_ne!(before, after, "{name} does something");
        for call in opened..faulty.calls() {
            for fault in [Fault::DeadBefore(call), Fault::DeadAfter(call), Fault::UnsyncedAt(call)]
            {
                states += 1;
                let (storage, _, ids) = start_forgotten();
                let faulty: Arc<dyn Storage> = Arc::new(Faulty::new(storage.clone(), fault));
                let repository = open(faulty, 2).expect("it opens");
                let done = verb(&repository, ids);
                // The next process ends the tickets that the dead one has left.
                let repository = open(storage, 3).expect("it opens");
                Writer::begin(repository.clone(), Purpose::Other)
                    .and_then(|mut writer| writer.void(Vec::new()))
                    .expect("memory takes it");
                let left = seen(&repository, ids);
                let case = format!("{name}, {fault:?}, {done:?}");
                assert!(left == before || left == after, "{case}: {left:?}");
                assert!(done.is_err() || left == after, "{case}: acknowledged, and not done");
                assert_tidy(&repository);
                assert_eq!(restore_all(&repository).expect("all restore"), left.0.len(), "{case}");
            }
        }
    }
    println!("{states} states");
}

/// A put was carried out and its answer was lost: the outcome is queried until it is known.
#[test]
fn lost_answer_is_resolved() {
    let (storage, repository, ids) = start(1);
    let faulty = Arc::new(Faulty::new(storage, Fault::None));
    let repository = {
        drop(repository);
        open(faulty.clone(), 2).expect("it opens")
    };
    let mut writer = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
    let view_before = writer.view().clone();
    let put = faulty.calls();
    let record = Prune { held: ids.clone(), ..Prune::default() };
    // Before the put of the record, the writer checks whether its ticket was ended (P5).
    let fault =
        |storage: Arc<dyn Storage>| Arc::new(Faulty::new(storage, Fault::UnsyncedAt(put + 1)));
    append(&mut writer, &view_before, record.clone(), &BTreeSet::new(), |_, _, _| Ok(None))
        .expect("nothing fails here");
    // The same calls again, on a storage that loses the answer to this one.
    let (storage, _, again) = start(1);
    let faulty = fault(storage);
    let repository = open(faulty.clone(), 2).expect("it opens");
    let mut writer = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
    let view_before = writer.view().clone();
    assert_eq!(faulty.calls(), put, "the next call but one is the put of the record");
    let record = Prune { held: again.clone(), ..record };
    let recorded = append(&mut writer, &view_before, record, &BTreeSet::new(), |_, _, _| {
        panic!("no other client was faster")
    });
    assert!(matches!(recorded, Ok(AppendResult::Done(1))), "it was found: {recorded:?}");
    assert_eq!(faulty.failures(), 1, "the answer was lost");
    assert_eq!(view(&repository).prunes.len(), 1, "one record");
    assert_eq!(view(&repository).held(), again.into_iter().collect(), "held");
}

/// W5 holds for records: a writer that slept publishes none, neither at its first attempt nor while
/// it competes for a number.
#[test]
fn writer_that_missed_renewals_publishes_no_record() {
    const SLEPT_NS: u64 = 13 * 3600 * 1_000_000_000;
    for sleeps_in_between in [false, true] {
        let (storage, _, ids) = start(2);
        let sleeper = Sleeper::new(3);
        let other = open(storage.clone(), 2).expect("it opens");
        let (clock, first) = (sleeper.clone(), ids[0]);
        let overtaken = OvertakenStorage::new(storage, When::BeforePut("prunes/"), move || {
            if sleeps_in_between {
                hold(&other, &[first]).expect("memory takes it");
                clock.sleep(SLEPT_NS);
            }
        });
        let repository = Repository::open(overtaken, sleeper.clone(), &unlock()).expect("it opens");
        let repository = Arc::new(repository);
        let mut writer = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
        let view_before = writer.view().clone();
        if !sleeps_in_between {
            sleeper.sleep(SLEPT_NS);
        }
        let own = PartName { ticket: writer.ticket(), count: 0 };
        let others = PartName { ticket: ids[0], count: 1000 };
        let published = vec![others, own];
        let record = Prune { held: vec![ids[1]], published, ..Prune::default() };
        let recorded = append(&mut writer, &view_before, record, &BTreeSet::new(), |_, _, mine| {
            Ok(Some(mine))
        });
        assert!(matches!(recorded, Ok(AppendResult::Ended)), "{sleeps_in_between}: {recorded:?}");
        let view = view(&repository);
        assert!(!view.held().contains(&ids[1]), "it recorded nothing");
        assert!(view.commits.contains_key(&writer.ticket()), "and has ended");
        // The chunks that it has stored are still found. It does not publish the containers of
        // others.
        let ended = &view.commits[&writer.ticket()];
        assert_eq!(ended.segments, [own], "it publishes what it has put");
        // A new attempt succeeds.
        hold(&repository, &[ids[1]]).expect("memory takes it");
        assert_tidy(&repository);
    }
}

/// W5 and W8: a writer that renews its ticket once an hour may be as slow as it likes, but becomes
/// old after a day. A writer that was silent for too long publishes nothing, even if it renews
/// afterwards.
#[test]
fn writer_renews_its_ticket_once_an_hour() {
    const HOUR_NS: u64 = 3600 * 1_000_000_000;
    for (silent_hours, is_believed) in [(1, true), (11, true), (13, false)] {
        let (storage, repository, ids) = start(1);
        drop(repository);
        let sleeper = Sleeper::new(3);
        let sleep = |hours: u64| {
            sleeper.sleep(hours * HOUR_NS);
        };
        let repository = Repository::open(storage.clone(), sleeper.clone(), &unlock());
        let repository = Arc::new(repository.expect("it opens"));
        let mut writer = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
        assert_eq!(writer.ended(), [], "no client is dead");
        writer.renew().expect("memory takes it");
        let mut slept = 0;
        for renewal in 1..4 {
            assert!(!writer.is_old(), "after {slept} hours");
            sleep(1);
            slept += 1;
            writer.renew().expect("memory takes it");
            writer.renew().expect("once is enough");
            let ticket = writer.ticket().to_string();
            let listed = storage.list("tickets").expect("memory lists");
            let count = listed.iter().filter(|(name, _)| name.contains(&ticket)).count();
            assert_eq!(count, 1 + renewal, "after {slept} hours");
        }
        for _ in 0..2 {
            sleep(silent_hours);
            slept += silent_hours;
            writer.renew().expect("memory takes it");
        }
        assert_eq!(writer.is_old(), slept > 20, "after {slept} hours");
        let outcome = Outcome::Forget(ids.clone());
        let committed = writer.commit(outcome, Vec::new(), &BTreeSet::new()).expect("it ends");
        let expected = if is_believed { CommitResult::Done } else { CommitResult::Ended };
        assert_eq!(committed, expected, "silent for {silent_hours} hours");
        let is_forgotten = view(&repository).takeable() == set([ids[0]]);
        assert_eq!(is_forgotten, is_believed, "silent for {silent_hours} hours");
        // The ticket of a writer that disappears is found.
        let dead = Writer::begin(repository, Purpose::Other).expect("it begins").ticket();
        let next = open(storage, 4).expect("it opens");
        let next = Writer::begin(next, Purpose::Other).expect("it begins");
        assert_eq!(next.ended(), [dead], "it is dead");
    }
}

/// A prune record was missing and given up, and the snapshot that it had taken was brought back.
/// Then the storage has the record again.
#[test]
fn given_up_record_that_reappears_takes_nothing() {
    let restored = |mutant: Option<Mutant>| {
        let (storage, repository, ids) = start(2);
        forget_these(&repository, &ids[..1]).expect("memory takes it");
        prune(&repository, &PruneOptions::default(), &(), |_| true).expect("it prunes");
        // Another writer has seen it, so that it is missed.
        back_up(&repository, &[2], false).expect("nothing fails here");
        let record = ObjectName::Prune(1).to_string();
        let bytes = storage.get(&record).expect("it was put");
        storage.delete(&record).expect("it goes");
        let options =
            IndexOptions { given_up_prunes: BTreeSet::from([1]), ..IndexOptions::default() };
        repair_index(&repository, &options, &()).expect("it is given up");
        unforget(&repository, &ids[..1]).expect("nothing has taken it");
        storage.put_new(&record, bytes).expect("memory takes it");
        let other = open(storage.clone(), 2).expect("it opens");
        rules::activate(mutant);
        let options = SweepOptions { settle_ns: 0, ..SweepOptions::default() };
        let swept = Sweeper::new(other, options).step(&());
        rules::activate(None);
        swept.expect("memory deletes");
        restore_all(&repository)
    };
    assert_eq!(restored(None).expect("nothing is lost"), 3, "all snapshots are there");
    let broken = restored(Some(Mutant::CountsGivenUp));
    assert!(broken.is_err(), "without the rule the snapshot is lost: {broken:?}");
}

/// A writer that may be alive is taken for dead after a day without a renewal.
#[test]
fn writer_without_renewal_for_a_day_is_ended() {
    const HOUR_NS: i64 = 3600 * 1_000_000_000;
    let memory = Arc::new(Memory::new());
    let repository = Arc::new(init(memory.clone()).expect("an empty memory takes a repository"));
    let silent = Writer::begin(repository, Purpose::Other).expect("it begins").ticket();
    for (number, hours, ended) in [(1, 23, vec![]), (2, 2, vec![silent])] {
        memory.shift_clock(hours * HOUR_NS);
        // No two of them put the same bytes.
        let machine = Machine::at(0, (1 << 60) + number);
        let repository = Repository::open(memory.clone(), machine, &unlock()).expect("it opens");
        let mut next = Writer::begin(Arc::new(repository), Purpose::Other).expect("it begins");
        assert_eq!(next.ended(), ended, "after {hours} more hours");
        next.void(Vec::new()).expect("memory takes it");
    }
}

/// A judge that fails, and one that changes the record.
#[test]
fn judge_may_fail_or_change_the_record() {
    let (storage, _, ids) = start(2);
    let [a, b] = ids[..] else { panic!("two: {ids:?}") };
    let outcomes: BTreeMap<bool, bool> = [false, true]
        .into_iter()
        .map(|fails| {
            let repository = meddled(&storage, "prunes/", move |other| {
                hold(&other, &[a]).expect("memory takes it");
            });
            // Skips the random bytes of the ticket from last time, because that ticket has ended.
            let mut drawn = vec![0; usize::from(fails)];
            repository.environment().random(&mut drawn).expect("a test is random");
            let mut writer = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
            let view_before = writer.view().clone();
            let record = Prune { held: vec![a], ..Prune::default() };
            let none = BTreeSet::new();
            let recorded = append(&mut writer, &view_before, record, &none, |_, _, mine| {
                if fails {
                    return Err(Error::invalid("the test", "fails"));
                }
                Ok(Some(Prune { held: vec![b], ..mine }))
            });
            writer.void(Vec::new()).expect("memory takes it");
            (fails, recorded.is_ok())
        })
        .collect();
    assert_eq!(outcomes, BTreeMap::from([(false, true), (true, false)]), "as it says");
    let view = view(&open(storage, 4).expect("it opens"));
    let held: Vec<_> = view.prunes.values().map(|prune| prune.held.clone()).collect();
    assert_eq!(held, [vec![a], vec![b], vec![a]], "the records");
}
