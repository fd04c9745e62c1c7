//! Orders of events in which a prune, a sweep or a repair could lose what was acknowledged, or come
//! to no end.

#[path = "common/backup.rs"]
mod backup;
#[path = "common/overtaken.rs"]
#[expect(dead_code, reason = "other tests ask for other moments")]
mod overtaken;
#[path = "common/whole.rs"]
mod whole;

use std::collections::BTreeSet;
use std::sync::Arc;

use cutpoint_store::error::Kind;
use cutpoint_store::fingerprint::Class;
use cutpoint_store::format::commit::{Damage, Outcome};
use cutpoint_store::format::prune::Prune;
use cutpoint_store::format::ticket::Purpose;
use cutpoint_store::index::Index;
use cutpoint_store::lifecycle::forget;
use cutpoint_store::media::{Media, Memory};
use cutpoint_store::name::{ObjectKind, ObjectName, PartName, TicketId};
use cutpoint_store::prune::{PruneOptions, prune};
use cutpoint_store::record::{Recorded, publish};
use cutpoint_store::repair::{IndexOptions, repair_index};
use cutpoint_store::repository::Repository;
use cutpoint_store::sweep::{Sweep, SweepOptions, Sweeper};
use cutpoint_store::view::View;
use cutpoint_store::writer::{Committed, Writer};

use backup::{back_up, file, init, open, restore_all};
use overtaken::{Overtaken, When};

/// Containers go, or stay as they are.
const WHOLE: PruneOptions = PruneOptions {
    unused_max: 1.0,
    rewrite_bytes_max: 0,
    segment_count_max: usize::MAX,
    small_count_max: usize::MAX,
    is_alone: false,
};
/// Of a sweep that ends nobody who may be alive.
const PATIENT: SweepOptions = SweepOptions { settle_ns: 0, commit_ns: i64::MAX, end_others: false };

fn memory() -> Arc<dyn Media> {
    let media: Arc<dyn Media> = Arc::new(Memory::new());
    init(media.clone()).expect("an empty memory takes a repository");
    media
}

fn snapshots(repository: &Repository) -> BTreeSet<TicketId> {
    let view = View::list(repository).expect("it lists");
    view.snapshots().into_iter().map(|(id, _)| id).collect()
}

/// Backs up, and returns the snapshot.
fn snapshot(repository: &Arc<Repository>, files: &[u64]) -> TicketId {
    let before = snapshots(repository);
    let committed = back_up(repository, files, false).expect("it works");
    assert_eq!(committed, Committed::Done, "nobody is there to end it");
    let new = &snapshots(repository) - &before;
    *new.first().expect("a new one")
}

fn forget_these(repository: &Arc<Repository>, ids: &[TicketId]) {
    forget(repository, |_| Ok::<_, cutpoint_store::error::Error>(ids.to_vec())).expect("it works");
}

fn prune_whole(repository: &Arc<Repository>) -> u64 {
    let pruned = prune(repository, &WHOLE, &(), |_| true).expect("it works").expect("approved");
    pruned.number.expect("there was something to record")
}

/// Where the chunks are that begin a file.
fn places(repository: &Arc<Repository>, number: u64) -> (Vec<Damage>, Vec<PartName>) {
    let view = View::list(repository).expect("it lists");
    let index = Index::open_without_cache(repository.clone(), &view).expect("it opens");
    let mut found = (Vec::new(), Vec::new());
    for chunk in file(number).chunks(5000).take(3) {
        let fingerprint = repository.keys().fingerprint(Class::Data, chunk);
        for container in index.places(Class::Data, &fingerprint).expect("it finds") {
            found.0.push(Damage { class: Class::Data, container, fingerprint });
            found.1.push(container);
        }
    }
    found
}

/// A copy that is whole does not go because another is left that a check has found broken.
#[test]
fn a_sweep_prefers_to_store_again_what_is_broken_elsewhere() {
    let media = memory();
    let repository = open(media.clone(), 1).expect("it opens");
    let first = snapshot(&repository, &[1, 2]);
    snapshot(&repository, &[2]);
    let (damage, containers) = places(&repository, 1);
    let name = ObjectName::Container(Class::Data, containers[0]).to_string();
    let mut bytes = media.get(&name).expect("it is there").to_vec();
    bytes[100] ^= 1;
    media.delete(&name).expect("it goes");
    media.put_new(&name, bytes.into()).expect("it comes back");
    let mut checker = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
    checker.commit(Outcome::Damage(damage), Vec::new(), &BTreeSet::new()).expect("it works");
    // The backup after that stores it again; a late one takes over from this.
    let healed = snapshot(&repository, &[1]);
    let view = View::list(&repository).expect("it lists");
    let parent = view.commits[&healed].snapshot().expect("a snapshot").clone();
    let mut late = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    forget_these(&repository, &[first, healed]);
    prune_whole(&repository);
    let outcome = Outcome::Snapshot(Box::new(parent));
    let committed = late.commit(outcome, Vec::new(), &BTreeSet::new()).expect("it works");
    assert_eq!(committed, Committed::Done);
    let step = Sweeper::new(repository.clone(), PATIENT).step(&()).expect("it works");
    assert!(matches!(step, Sweep::Done(_)), "{step:?}");
    assert_eq!(restore_all(&repository).expect("nothing is lost"), 2);
}

/// A snapshot that came after a prune has lost something: once it is given up, space comes back.
#[test]
fn a_sweep_goes_on_once_what_is_broken_was_given_up() {
    let media = memory();
    let repository = open(media.clone(), 1).expect("it opens");
    let first = snapshot(&repository, &[1]);
    snapshot(&repository, &[2]);
    forget_these(&repository, &[first]);
    let condemning = prune_whole(&repository);
    let broken = snapshot(&repository, &[3]);
    let (_, containers) = places(&repository, 3);
    let name = ObjectName::Container(Class::Data, containers[0]).to_string();
    media.delete(&name).expect("it goes");
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

/// Who gave up a commit may have been killed before it ended the ticket.
#[test]
fn nobody_waits_for_a_commit_that_was_given_up() {
    let media = memory();
    let repository = open(media.clone(), 1).expect("it opens");
    let lost = snapshot(&repository, &[1]);
    snapshot(&repository, &[2]);
    media.delete(&ObjectName::Commit(lost).to_string()).expect("it goes");
    let mut writer = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
    let record = Prune { forgotten: vec![lost], ..Prune::default() };
    let view = writer.view().clone();
    let recorded =
        publish(&mut writer, &view, record, &BTreeSet::new(), |_, _, record| Ok(Some(record)));
    assert!(matches!(recorded, Ok(Recorded::Done(_))), "{recorded:?}");
    // Another process of the same machine: the former is dead.
    let repository = open(media, 2).expect("it opens");
    let step = Sweeper::new(repository, PATIENT).step(&()).expect("it works");
    assert!(matches!(step, Sweep::Done(_)), "{step:?}");
}

/// What is put after the containers were listed and committed before the commits are.
#[test]
fn an_index_made_anew_loses_nothing_that_is_committed_meanwhile() {
    let media = memory();
    let repository = open(media.clone(), 1).expect("it opens");
    snapshot(&repository, &[1]);
    let when = When::AfterList(ObjectKind::Meta.folder());
    let overtaken = Overtaken::new(media.clone(), when, move || {
        snapshot(&repository, &[2]);
    });
    let repairing = open(overtaken.clone(), 1).expect("it opens");
    let report = repair_index(&repairing, &IndexOptions::default(), &()).expect("it works");
    assert!(overtaken.has_acted(), "nothing came in between");
    assert!(report.gone.is_empty(), "{:?}", report.gone);
    let repository = open(media, 1).expect("it opens");
    assert_eq!(restore_all(&repository).expect("both can be read"), 2);
}
