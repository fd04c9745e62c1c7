//! Sweeps that free space at once, and the storages on which they do (S1, W9). The orders of calls in
//! which each rule matters are in `interleaving/at_once.rs`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutpoint_repository::gc::prune::prune;
use cutpoint_repository::gc::sweep::{AtOnce, Sweep, SweepOptions, Sweeper};
use cutpoint_repository::repo::lagging_clients::{LAG_MAX, announce, may_lag};
use cutpoint_repository::rules::{self, Mutant};
use cutpoint_repository::{ObjectName, Purpose, Repository, Writer};
use cutpoint_storage::stop::Stop;
use cutpoint_storage::{
    Environment, Interruptible, Layer, Memory, Result, Storage, Visibility, WaitReason,
};

use crate::support::backup::{back_up, init, open, restore_all, unlock};
use crate::support::damaged_repository::check_on;
use crate::support::machine::Machine;
use crate::support::pruning::{WHOLE, forget};
use crate::support::sleeper::Sleeper;

/// The promise of a storage whose listings a probe has to test.
const PROBED: Visibility = Visibility::IfProbed("s3");

/// A storage that promises this about its listings, and knows which objects have not reached the
/// disk.
#[derive(Debug)]
struct Promising {
    inner: Memory,
    visibility: Mutex<Visibility>,
    unsynced: Mutex<BTreeSet<String>>,
    /// Objects that were deleted while others had not reached the disk.
    deleted_early: Mutex<Vec<String>>,
}

impl Promising {
    fn new(visibility: Visibility) -> Arc<Promising> {
        let storage = Promising {
            inner: Memory::new(),
            visibility: Mutex::new(visibility),
            unsynced: Mutex::default(),
            deleted_early: Mutex::default(),
        };
        Arc::new(storage)
    }

    /// Makes the same objects a storage of another kind, as a server does that offers a folder.
    fn serve_as(&self, visibility: Visibility) {
        *self.visibility.lock().expect("no test panics in here") = visibility;
    }
}

impl Layer for Promising {
    fn below(&self) -> &dyn Storage {
        &self.inner
    }

    fn sync(&self, name: &str) -> Result<()> {
        self.unsynced.lock().expect("no test panics in here").remove(name);
        self.inner.sync(name)
    }

    fn delete(&self, name: &str) -> Result<()> {
        let is_early = !self.unsynced.lock().expect("no test panics in here").is_empty();
        // A test object for the time of the storage is no loss.
        if is_early && !name.starts_with("tmp/") {
            self.deleted_early.lock().expect("no test panics in here").push(name.to_owned());
        }
        self.inner.delete(name)
    }

    fn visibility(&self) -> Result<Visibility> {
        Ok(*self.visibility.lock().expect("no test panics in here"))
    }
}

/// Makes two snapshots, and condemns what only the first one needs.
fn condemned(storage: &Arc<Promising>) -> Arc<Repository> {
    init(storage.clone()).expect("an empty storage takes a repository");
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[1], false).expect("it works");
    back_up(&repository, &[2], false).expect("it works");
    forget(&repository, &[0]).expect("it works");
    prune(&repository, &WHOLE, &(), |_| true).expect("it works");
    repository
}

fn sweeping(at_once: AtOnce) -> SweepOptions {
    SweepOptions { at_once, ..SweepOptions::default() }
}

fn marks(storage: &dyn Storage) -> Vec<String> {
    let names = storage.list("tickets").expect("it lists").into_iter().map(|(name, _)| name);
    names.filter(|name| name.contains("lagging")).collect()
}

#[test]
fn record_is_swept_at_once_where_listings_show_puts_at_once() {
    for (promise, at_once, is_swept) in [
        (Visibility::AtOnce, AtOnce::Never, false),
        (Visibility::AtOnce, AtOnce::AsPromised, true),
        (Visibility::AtOnce, AtOnce::AsProbed, true),
        (PROBED, AtOnce::AsPromised, false),
        (PROBED, AtOnce::AsProbed, true),
        (Visibility::Later, AtOnce::AsProbed, false),
    ] {
        let storage = Promising::new(promise);
        let repository = condemned(&storage);
        let step = Sweeper::new(repository.clone(), sweeping(at_once)).step(&()).expect("it works");
        let is_done = matches!(step, Sweep::Done(report) if report.container_count > 0);
        assert_eq!(is_done, is_swept, "{promise:?}, {at_once:?}: {step:?}");
        assert_eq!(matches!(step, Sweep::Settling { .. }), !is_swept, "{promise:?}: {step:?}");
        restore_all(&repository).expect("what is kept comes back");
    }
}

#[test]
fn settings_without_atomic_creation_exclude_sweeping_at_once() {
    let storage = Promising::new(PROBED);
    let repository = condemned(&storage);
    let mut config = repository.config().clone();
    config.set_creates_atomically(false);
    let mut repository = Arc::into_inner(repository).expect("no other owner");
    repository.set_config(config).expect("it works");
    let repository = Arc::new(repository);
    assert!(may_lag(&repository).expect("it is known"), "an earlier probe has found that");
    let step = Sweeper::new(repository, sweeping(AtOnce::AsProbed)).step(&()).expect("it works");
    assert!(matches!(step, Sweep::Settling { .. }), "{step:?}");
}

/// A folder that passed its probe may be a bucket for another client, by a server that does not create
/// atomically or keeps old listings.
#[test]
fn settings_of_a_folder_prove_nothing_for_a_server_that_offers_it() {
    let storage = Promising::new(Visibility::AtOnce);
    let repository = condemned(&storage);
    assert!(!may_lag(&repository).expect("it is known"), "a folder");
    assert!(repository.creates_atomically().expect("it is known"), "a folder");
    let dead = Writer::begin(open(storage.clone(), 2).expect("it opens"), Purpose::Backup);
    let dead = dead.expect("it begins").ticket();
    // Tickets of the last minute are not read.
    storage.inner.shift_clock(3_600_000_000_000);
    storage.serve_as(PROBED);
    let served = open(storage.clone(), 3).expect("it opens");
    assert!(may_lag(&served).expect("it is known"), "no probe has tested the server");
    assert!(!served.creates_atomically().expect("it is known"), "nor that");
    let mut sweeper = Sweeper::new(served.clone(), sweeping(AtOnce::AsProbed));
    let step = sweeper.step(&()).expect("it works");
    assert!(matches!(step, Sweep::Settling { .. }), "{step:?}");
    let writer = Writer::begin(served.clone(), Purpose::Backup).expect("it begins");
    assert_eq!(writer.ended(), [], "a void could replace the commit of the other writer");
    assert_eq!(marks(&*storage).len(), 2, "clients of the folder wait for those of the server");
    drop((writer, sweeper));

    let mut served = Arc::into_inner(served).expect("no other owner");
    for (visibility, may_be_shared, is_trusted) in [
        (Visibility::AtOnce, true, false),
        (Visibility::IfProbed("gs"), true, false),
        (PROBED, true, true),
        (PROBED, false, false),
        (Visibility::AtOnce, true, false),
    ] {
        let mut config = served.config().clone();
        config.record_probe(visibility, may_be_shared);
        served.set_config(config).expect("it works");
        let served = open(storage.clone(), 2).expect("it opens");
        let found = (served.creates_atomically().expect("it is known"), may_lag(&served));
        assert_eq!(found.0, is_trusted, "after a probe of {visibility:?}");
        assert_eq!(found.1.ok(), Some(!is_trusted), "after a probe of {visibility:?}");
    }
    let mut config = served.config().clone();
    config.record_probe(PROBED, true);
    served.set_config(config).expect("it works");
    let next = Writer::begin(Arc::new(served), Purpose::Backup).expect("it begins");
    assert!(next.ended().contains(&dead), "one that passed its probe ends dead writers");
}

#[test]
fn open_backup_is_awaited_by_a_sweep_at_once() {
    let storage = Promising::new(Visibility::AtOnce);
    let repository = condemned(&storage);
    let other = open(storage.clone(), 2).expect("it opens");
    let mut writer = Writer::begin(other, Purpose::Backup).expect("it begins");
    let mut sweeper = Sweeper::new(repository, sweeping(AtOnce::AsPromised));
    for _ in 0..2 {
        let step = sweeper.step(&()).expect("it works");
        assert!(
            matches!(&step, Sweep::Waiting { writers, .. } if writers[0].ticket == writer.ticket()),
            "{step:?}"
        );
    }
    writer.void(Vec::new()).expect("it ends");
    assert!(matches!(sweeper.step(&()), Ok(Sweep::Done(_))), "nothing is in the way");
}

/// S1: one of the marks may be missing, because whoever removes them removes one first.
#[test]
fn either_mark_alone_keeps_every_sweep_from_hurrying() {
    let step_beside = |mark: &str, mutant| {
        let storage = Promising::new(Visibility::AtOnce);
        let repository = condemned(&storage);
        Storage::put_new(&*storage, mark, "as another client does".into()).expect("it is put");
        let mut sweeper = Sweeper::new(repository, sweeping(AtOnce::AsPromised));
        rules::activate(mutant);
        let step = sweeper.step(&()).expect("it works");
        rules::activate(None);
        if matches!(step, Sweep::Settling { .. }) {
            Storage::delete(&*storage, mark).expect("it goes");
            let next = sweeper.step(&());
            assert!(matches!(next, Ok(Sweep::Done(_))), "{mark} alone was in the way: {next:?}");
        }
        step
    };
    for mark in ["tickets/lagging", "tickets/lagging.1"] {
        let step = step_beside(mark, None);
        assert!(matches!(step, Sweep::Settling { .. }), "{mark}: {step:?}");
    }
    let step = step_beside("tickets/lagging.1", Some(Mutant::HeedsFirstMarkOnly));
    assert!(matches!(step, Sweep::Done(_)), "the mutant makes no difference: {step:?}");
}

#[test]
fn repository_on_lagging_storage_is_marked_from_the_beginning() {
    for (promise, expected) in [
        (Visibility::AtOnce, vec![]),
        (PROBED, vec![]),
        (Visibility::Later, vec!["tickets/lagging", "tickets/lagging.1"]),
    ] {
        let storage = Promising::new(promise);
        init(storage.clone()).expect("an empty storage takes a repository");
        assert_eq!(marks(&*storage), expected, "{promise:?}");
        let repository = open(storage.clone(), 1).expect("it opens");
        let findings = check_on(&repository, false, 1).all;
        assert!(findings.is_empty(), "{promise:?}: the marks are no foreign objects: {findings:?}");
        let began_ns = repository.environment().elapsed_ns();
        back_up(&repository, &[1], false).expect("it works");
        let elapsed_ns = repository.environment().elapsed_ns() - began_ns;
        assert!(elapsed_ns < 60_000_000_000, "{promise:?}: nothing is waited for");
    }
}

#[test]
fn first_writer_with_lagging_listings_waits_once() {
    let storage = Promising::new(Visibility::Later);
    init(storage.clone()).expect("an empty storage takes a repository");
    for mark in marks(&*storage) {
        Storage::delete(&*storage, &mark).expect("it goes");
    }
    let lag_ns = u64::try_from(LAG_MAX.as_nanos()).expect("minutes");
    for is_first in [true, false] {
        let repository = open(storage.clone(), 1).expect("it opens");
        let began_ns = repository.environment().elapsed_ns();
        let mut writer = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
        writer.void(Vec::new()).expect("it ends");
        let elapsed_ns = repository.environment().elapsed_ns() - began_ns;
        assert_eq!(elapsed_ns >= lag_ns, is_first, "{elapsed_ns} ns");
        assert_eq!(marks(&*storage).len(), 2, "both marks are put");
    }
}

#[test]
fn wait_of_an_announcement_tells_its_end_and_ends_with_that_of_another_client() {
    let storage = Promising::new(Visibility::Later);
    init(storage.clone()).expect("an empty storage takes a repository");
    Storage::delete(&*storage, "tickets/lagging.1").expect("it goes");
    let told = Arc::new(Mutex::new(Vec::new()));
    let (notices, target) = (told.clone(), storage.clone());
    let machine = Arc::into_inner(Machine::new(1)).expect("it is not shared");
    let environment =
        Arc::new(Interruptible::new(machine, Stop::default()).telling(move |notice| {
            let mut notices = notices.lock().expect("no test panics in here");
            notices.push(notice.clone());
            if notices.len() == 2 {
                Storage::put_new(&*target, "tickets/lagging.1", "by another client".into())
                    .expect("it is put");
            }
        }));
    let repository = Repository::open(storage.clone(), environment, &unlock()).expect("it opens");
    let began_ns = repository.environment().now_ns();
    announce(&repository, Duration::from_secs(100)).expect("it works");
    let told = told.lock().expect("no test panics in here");
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0].reason, WaitReason::LaggingListings, "{told:?}");
    let until_ns = told[0].until_ns;
    assert!(until_ns >= began_ns + 100_000_000_000 && until_ns == told[1].until_ns, "{told:?}");
    let elapsed_ns = repository.environment().now_ns() - began_ns;
    assert!(elapsed_ns < 60_000_000_000, "the other client has waited long enough");
}

/// W9: a listing that the system keeps may be as old after the machine has slept as before.
#[test]
fn wait_of_an_announcement_does_not_count_the_sleep_of_the_machine() {
    let wait_s = |mutant| {
        let storage = Promising::new(Visibility::Later);
        init(storage.clone()).expect("an empty storage takes a repository");
        marks(&*storage).iter().for_each(|mark| Storage::delete(&*storage, mark).expect("it goes"));
        let sleeper = Sleeper::new(1);
        let repository = Repository::open(storage, sleeper.clone(), &unlock()).expect("it opens");
        let repository = Arc::new(repository);
        let began_ns = sleeper.awake_ns();
        rules::activate(mutant);
        sleeper.sleep_in_waits(3600 * 1_000_000_000);
        let announced = announce(&repository, Duration::from_secs(100));
        rules::activate(None);
        announced.expect("it works");
        (sleeper.awake_ns() - began_ns) / 1_000_000_000
    };
    assert!(wait_s(None) >= 100, "the machine was awake for less than the lag");
    assert!(wait_s(Some(Mutant::CountsSleep)) < 100, "the mutant makes no difference");
}

/// S1: the client that has put the record died before the record had reached the disk.
#[test]
fn record_is_synced_before_it_is_swept_at_once() {
    let sweep = |mutant| deleted_before_synced(1, 1, mutant);
    assert_eq!(sweep(None), Vec::<String>::new(), "the rules as written");
    assert_ne!(sweep(Some(Mutant::TrustsVisibleRecord)), Vec::<String>::new(), "unnoticed");
}

/// S3: a sweep skips snapshots that a later record has taken, so it depends on that record as well.
#[test]
fn record_that_excuses_a_snapshot_is_synced_before_a_sweep_at_once() {
    let sweep = |mutant| deleted_before_synced(2, 2, mutant);
    assert_eq!(sweep(None), Vec::<String>::new(), "the rules as written");
    assert_ne!(sweep(Some(Mutant::ConfirmsOwnRecordOnly)), Vec::<String>::new(), "unnoticed");
}

/// Puts `record_count` records, of which the one with the number `unsynced` has not reached the disk,
/// sweeps the first one, and returns what was deleted before all had reached it.
fn deleted_before_synced(
    record_count: usize,
    unsynced: u64,
    mutant: Option<Mutant>,
) -> Vec<String> {
    let storage = Promising::new(Visibility::AtOnce);
    let repository = condemned(&storage);
    for number in 2..=record_count {
        back_up(&repository, &[number as u64 + 1], false).expect("it works");
        // The snapshots that were taken are still there.
        forget(&repository, &[number - 1]).expect("it works");
        prune(&repository, &WHOLE, &(), |_| true).expect("it works");
    }
    let record = ObjectName::Prune(unsynced).to_string();
    assert!(Storage::head(&*storage, &record).expect("it is asked").is_some(), "{record}");
    storage.unsynced.lock().expect("no test panics in here").insert(record);
    rules::activate(mutant);
    let step = Sweeper::new(repository, sweeping(AtOnce::AsPromised)).step(&());
    rules::activate(None);
    assert!(matches!(step, Ok(Sweep::Done(_))), "{step:?}");
    storage.deleted_early.lock().expect("no test panics in here").clone()
}
