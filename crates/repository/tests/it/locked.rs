//! S5 on a storage that keeps objects from deletion, where a deletion hides a locked object and
//! succeeds: such objects stay untouched, and a later sweep deletes them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::gc::prune::prune;
use cutpoint_repository::gc::sweep::{LockedObjects, Sweep, SweepOptions, Sweeper};
use cutpoint_repository::rules::{self, Mutant};
use cutpoint_repository::{ObjectName, Repository, View};
use cutpoint_storage::{Error, Kind, Layer, Lock, Result, Storage};

use crate::support::backup::{back_up, open, restore_all};
use crate::support::pruning::{ALONE, WHOLE, assert_clean, forget, memory};

/// A storage with locks. Counts the requests for locks, and the locked objects that were hidden.
#[derive(Debug)]
struct Locking {
    inner: Arc<dyn Storage>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    locks: BTreeMap<String, Lock>,
    hidden: Vec<String>,
    asked: usize,
    has_failed_locks: bool,
}

impl Locking {
    fn new() -> Arc<Locking> {
        Arc::new(Locking { inner: memory(), state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics")
    }

    fn lock(&self, name: &str, lock: Lock) {
        self.state().locks.insert(name.to_owned(), lock);
    }

    fn names(&self, prefix: &str) -> Vec<String> {
        let listed = self.inner.list(prefix).expect("memory lists");
        listed.into_iter().map(|(name, _)| name).collect()
    }
}

impl Layer for Locking {
    fn below(&self) -> &dyn Storage {
        &*self.inner
    }

    fn locks(&self, names: &[String]) -> Result<Vec<Option<Lock>>> {
        let mut state = self.state();
        state.asked += names.len();
        if state.has_failed_locks {
            return Err(Error::new(Kind::Storage, &names[0], "as the test has it"));
        }
        Ok(names.iter().map(|name| state.locks.get(name).copied()).collect())
    }

    fn delete(&self, name: &str) -> Result<()> {
        let mut state = self.state();
        if state.locks.contains_key(name) {
            state.hidden.push(name.to_owned());
        }
        self.inner.delete(name)
    }
}

/// Creates a repository with two prunes, each of which has condemned some containers that no
/// snapshot needs. Returns the names of these containers, by prune.
fn two_prunes(storage: &Arc<Locking>) -> (Arc<Repository>, [Vec<String>; 2]) {
    let repository = open(storage.clone(), 1).expect("it opens");
    let condemned = [[1, 2], [3, 4]].map(|files| {
        back_up(&repository, &files, false).expect("it works");
        back_up(&repository, &[9], false).expect("it works");
        let view = View::list(&repository).expect("it lists");
        let made = view.commits.values().filter(|commit| commit.snapshot().is_some()).count();
        forget(&repository, &[made - 2]).expect("it works");
        let pruned = prune(&repository, &WHOLE, &(), |_| true).expect("it works");
        let number = pruned.expect("approved").number.expect("a record");
        let view = View::list(&repository).expect("it lists");
        let names = view.prunes[&number].condemned.iter();
        names.map(|(class, part)| ObjectName::Container(*class, *part).to_string()).collect()
    });
    (repository, condemned)
}

/// Sweeps until a step returns `Nothing`. Returns the steps before, and what is locked.
fn sweep(repository: &Arc<Repository>) -> (Vec<Sweep>, LockedObjects) {
    let mut sweeper = Sweeper::new(repository.clone(), ALONE);
    let mut steps = Vec::new();
    loop {
        match sweeper.step(&()).expect("it works") {
            Sweep::Nothing => return (steps, sweeper.locked()),
            step => steps.push(step),
        }
        assert!(steps.len() < 10, "it has no end: {steps:?}");
    }
}

#[test]
fn sweep_leaves_locked_objects_until_they_may_be_deleted() {
    let storage = Locking::new();
    let (repository, [first, second]) = two_prunes(&storage);
    assert!(first.len() > 1 && !second.is_empty(), "{first:?} {second:?}");
    storage.lock(&first[0], Lock::Until(7));
    let (steps, locked) = sweep(&repository);
    let [Sweep::Locked(one), Sweep::Done(two)] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!((one.number, two.number), (1, 2), "the second prune does not wait for the first");
    assert_eq!(one.container_count, first.len() as u64 - 1, "the others are deleted");
    let expected =
        LockedObjects { count: 1, first: vec![first[0].clone()], last_lock: Some(Lock::Until(7)) };
    assert_eq!(locked, expected);
    let left = [storage.names("data"), storage.names("meta")].concat();
    let is_left = |name: &&String| left.contains(name);
    assert_eq!(first.iter().chain(&second).filter(is_left).collect::<Vec<_>>(), [&first[0]]);
    assert!(storage.state().hidden.is_empty(), "{:?}", storage.state().hidden);
    assert_clean(&repository, "after the sweep");
    // What is stored meanwhile does not use the container that is left.
    back_up(&repository, &[1], false).expect("it works");
    let (steps, locked) = sweep(&repository);
    assert!(matches!(steps[..], [Sweep::Locked(_)]) && locked.count == 1, "{steps:?}");
    storage.state().locks.clear();
    let (steps, locked) = sweep(&repository);
    assert!(matches!(&steps[..], [Sweep::Done(done)] if done.container_count == 1), "{steps:?}");
    assert_eq!(locked, LockedObjects::default());
    assert_eq!(restore_all(&repository).expect("it restores"), 3);
    assert_clean(&repository, "after the second sweep");
    assert!(sweep(&repository).0.is_empty(), "nothing is left");
}

#[test]
fn locked_objects_are_counted_and_the_first_named() {
    let storage = Locking::new();
    let (repository, condemned) = two_prunes(&storage);
    let condemned = condemned.concat();
    for name in &condemned {
        storage.lock(name, Lock::Until(5));
    }
    storage.lock(&condemned[1], Lock::Held);
    let (steps, locked) = sweep(&repository);
    assert!(matches!(steps[..], [Sweep::Locked(_), Sweep::Locked(_)]), "{steps:?}");
    assert_eq!(locked.count, condemned.len() as u64);
    assert_eq!(locked.first.len(), 3.min(condemned.len()));
    assert_eq!(locked.last_lock, Some(Lock::Held), "a lock without an end is the last");
    assert!(storage.state().asked >= condemned.len(), "each object is asked for");
}

/// The tickets of ended writers, and commits that a prune has taken, are not condemned: they stay
/// as long as they are locked, and hold nothing up.
#[test]
fn locked_tickets_and_commits_hold_no_prune_up() {
    let storage = Locking::new();
    let (repository, _) = two_prunes(&storage);
    let tickets = storage.names("tickets");
    assert!(!tickets.is_empty(), "there are tickets to delete");
    for name in tickets.iter().chain(&storage.names("commits")) {
        storage.lock(name, Lock::Held);
    }
    let mut options = SweepOptions { settle_ns: 0, end_others: true, ..ALONE };
    for commit_ns in [i64::MAX, i64::MIN] {
        options.commit_ns = commit_ns;
        let mut sweeper = Sweeper::new(repository.clone(), options);
        let mut spared_count = 0;
        while let Sweep::Done(done) = sweeper.step(&()).expect("it works") {
            spared_count += done.spared_count;
        }
        assert_eq!(sweeper.locked(), LockedObjects::default());
        assert!(spared_count > 0 || commit_ns == i64::MIN, "the tickets are counted");
    }
    let left = storage.names("tickets");
    assert!(tickets.iter().all(|ticket| left.contains(ticket)), "they stay");
    assert!(storage.state().hidden.is_empty(), "{:?}", storage.state().hidden);
    let view = View::list(&repository).expect("it lists");
    let swept = view.commits.values().filter(|it| matches!(it.outcome, Outcome::Swept(_)));
    assert_eq!(swept.count(), 2, "both prunes are swept");
}

/// A storage that does not tell its locks hides nothing.
#[test]
fn sweep_that_cannot_ask_for_locks_deletes_nothing() {
    let storage = Locking::new();
    let (repository, condemned) = two_prunes(&storage);
    storage.state().has_failed_locks = true;
    let error = Sweeper::new(repository.clone(), ALONE).step(&()).expect_err("it cannot ask");
    assert_eq!(error.kind(), Kind::Storage, "{error}");
    let left = [storage.names("data"), storage.names("meta")].concat();
    assert!(condemned.concat().iter().all(|name| left.contains(name)), "{left:?}");
    storage.state().has_failed_locks = false;
    let (steps, _) = sweep(&repository);
    assert!(matches!(steps[..], [Sweep::Done(_), Sweep::Done(_)]), "{steps:?}");
}

#[test]
fn rules_about_locked_objects_are_needed() {
    for mutant in [Mutant::HidesLocked, Mutant::ForgetsLocked] {
        let storage = Locking::new();
        let (repository, [first, _]) = two_prunes(&storage);
        storage.lock(&first[0], Lock::Until(7));
        rules::activate(Some(mutant));
        let (steps, _) = sweep(&repository);
        rules::activate(None);
        let is_hidden = !storage.state().hidden.is_empty();
        storage.state().locks.clear();
        sweep(&repository);
        let is_left = [storage.names("data"), storage.names("meta")].concat().contains(&first[0]);
        let is_broken = match mutant {
            Mutant::HidesLocked => is_hidden,
            _ => is_left,
        };
        assert!(is_broken, "{mutant:?}: {steps:?}");
    }
}
