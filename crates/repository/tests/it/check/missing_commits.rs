//! Deleted commits are reported. Commits that a prune took, that arrive meanwhile, or that a
//! lagging listing lacks are not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::backup::{back_up, init, open};
use crate::support::overtaken::{OvertakenStorage, When};
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::verify::check::{CheckOptions, check};
use cutpoint_repository::verify::repair::{SnapshotOptions, repair_snapshots};
use cutpoint_repository::write::prune_log::{AppendResult, append};
use cutpoint_repository::{ObjectName, Purpose, Repository, TicketId, View, Writer};
use cutpoint_storage::{Layer, Memory, Result, Storage};

/// A storage whose first listings lack one name.
#[derive(Debug)]
struct Lagging {
    inner: Arc<dyn Storage>,
    hidden: String,
    listings: AtomicU64,
}

impl Layer for Lagging {
    fn below(&self) -> &dyn Storage {
        &*self.inner
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let mut listed = self.inner.list(prefix)?;
        let is_of_folder = self.hidden.starts_with(&format!("{prefix}/"));
        if is_of_folder && self.listings.load(Ordering::SeqCst) > 0 {
            self.listings.fetch_sub(1, Ordering::SeqCst);
            listed.retain(|(name, _)| *name != self.hidden);
        }
        Ok(listed)
    }
}

/// A storage that lists an object which it does not have.
#[derive(Debug)]
struct Listing {
    inner: Arc<dyn Storage>,
    extra: (String, u64),
}

impl Layer for Listing {
    fn below(&self) -> &dyn Storage {
        &*self.inner
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let mut listed = self.inner.list(prefix)?;
        if self.extra.0.starts_with(prefix) {
            listed.push(self.extra.clone());
            listed.sort();
        }
        Ok(listed)
    }
}

/// Creates a repository with three snapshots, each of which has the previous one in its view.
/// Returns the middle one as well.
fn start() -> (Arc<dyn Storage>, TicketId) {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init(storage.clone()).expect("an empty memory takes a repository");
    let repository = open(storage.clone(), 1).expect("it opens");
    let mut middle = None;
    for number in 0..3 {
        back_up(&repository, &[number], false).expect("nothing fails here");
        let view = View::list(&repository).expect("memory lists");
        middle = middle.or(view.snapshots().get(1).map(|(id, _)| *id));
    }
    (storage, middle.expect("three"))
}

fn gone(storage: Arc<dyn Storage>) -> Vec<ObjectName> {
    let repository = open(storage, 2).expect("it opens");
    let view = View::list(&repository).expect("it lists");
    let gone = view.look_for_gone(&repository).expect("it lists");
    gone.into_iter().map(|(name, _)| name).collect()
}

fn take(repository: &Arc<Repository>, id: TicketId) {
    let mut writer = Writer::begin(repository.clone(), Purpose::Prune).expect("it begins");
    let record = Prune { taken: vec![id], ..Prune::default() };
    let view = writer.view().clone();
    let recorded = append(&mut writer, &view, record, &Default::default(), |_, _, it| Ok(Some(it)));
    assert!(matches!(recorded, Ok(AppendResult::Done(_))), "a prune: {recorded:?}");
}

#[test]
fn deleted_commit_is_reported() {
    let (storage, middle) = start();
    assert_eq!(gone(storage.clone()), [], "all are there");
    let name = ObjectName::Commit(middle);
    storage.delete(&name.to_string()).expect("it goes");
    assert_eq!(gone(storage), [name]);
}

#[test]
fn commit_missing_from_listings_is_no_alarm() {
    for listings in [1, 2, u64::MAX] {
        let (inner, middle) = start();
        let hidden = ObjectName::Commit(middle).to_string();
        let listings = AtomicU64::new(listings);
        assert_eq!(gone(Arc::new(Lagging { inner, hidden, listings })), [], "it is there");
    }
}

/// A sweep has deleted the commit, and the record that had taken it is listed later.
#[test]
fn commit_taken_by_an_unlisted_prune_is_no_alarm() {
    let (inner, middle) = start();
    take(&open(inner.clone(), 3).expect("it opens"), middle);
    inner.delete(&ObjectName::Commit(middle).to_string()).expect("it goes");
    let hidden = ObjectName::Prune(1).to_string();
    assert_eq!(gone(Arc::new(Lagging { inner, hidden, listings: AtomicU64::new(1) })), []);
}

#[test]
fn commit_taken_by_a_prune_is_no_alarm_during_its_sweep() {
    // Between the listing of commits and reading them, between that and the listing of records, and
    // before both.
    for when in [When::AfterList("commits"), When::BeforeCall(0), When::AfterList("prunes")] {
        let (storage, middle) = start();
        let other = open(storage.clone(), 3).expect("it opens");
        let swept = storage.clone();
        let overtaken = OvertakenStorage::new(storage, when, move || {
            take(&other, middle);
            swept.delete(&ObjectName::Commit(middle).to_string()).expect("it goes");
        });
        assert_eq!(gone(overtaken.clone()), [], "{when:?}");
        assert!(overtaken.has_acted(), "{when:?}: the sweep was beside it");
    }
}

/// Returns the errors of a check, and the commits that a repair gives up.
fn errors_and_given_up(storage: Arc<dyn Storage>) -> (u64, BTreeSet<TicketId>) {
    let repository = open(storage, 4).expect("it opens");
    let report = check(&repository, &CheckOptions::default(), &()).expect("it lists");
    let options = SnapshotOptions { forget: true, threads: 1, ..SnapshotOptions::default() };
    let repaired = repair_snapshots(&repository, &options, &()).expect("it lists");
    (report.error_count, repaired.missing_commits)
}

#[test]
fn commit_missing_from_listings_is_not_given_up() {
    for listings in [1, u64::MAX] {
        let (inner, middle) = start();
        let hidden = ObjectName::Commit(middle).to_string();
        let storage = Arc::new(Lagging { inner: inner.clone(), hidden, listings: listings.into() });
        let repository = open(storage.clone(), 3).expect("it opens");
        let view = View::list(&repository).expect("it lists");
        assert_eq!(view.snapshots().len(), 3, "what is there by its name is there");
        view.complete(&repository).expect("nothing is gone");
        assert_eq!(errors_and_given_up(storage), (0, BTreeSet::new()));
        assert_eq!(errors_and_given_up(inner), (0, BTreeSet::new()), "it was not given up");
    }
}

#[test]
fn commit_listed_but_missing_is_reported_and_can_be_given_up() {
    let (inner, middle) = start();
    let missing = ObjectName::Commit(middle).to_string();
    let len = inner.head(&missing).expect("memory tells").expect("it is there");
    inner.delete(&missing).expect("it goes");
    let storage: Arc<dyn Storage> = Arc::new(Listing { inner, extra: (missing, len) });
    let repository = open(storage.clone(), 3).expect("it opens");
    View::list(&repository).and_then(|view| view.complete(&repository)).expect_err("it is missed");
    assert_eq!(errors_and_given_up(storage.clone()), (1, BTreeSet::from([middle])));
    assert_eq!(errors_and_given_up(storage.clone()), (0, BTreeSet::new()), "it is given up");
    let repository = open(storage, 5).expect("it opens");
    View::list(&repository).and_then(|view| view.complete(&repository)).expect("nothing misses it");
}
