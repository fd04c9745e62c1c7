//! Commits that are only history: a prune takes them, and a sweep deletes them (P6, P7).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::support::backup::{back_up, init, open, restore_all, unlock};
use crate::support::machine::Machine;
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::gc::prune::{PruneOptions, plan, prune};
use cutpoint_repository::gc::sweep::{AtOnce, Sweep, SweepOptions, Sweeper};
use cutpoint_repository::rules::{self, Mutant};
use cutpoint_repository::snapshots::{forget, hold, note, release};
use cutpoint_repository::{ObjectName, Purpose, Repository, TicketId, View, Writer};
use cutpoint_storage::{Error, Memory, ObjectKind, Storage};

const DAY_NS: i64 = 24 * 3600 * 1_000_000_000;

/// Deletes commits as soon as their record is swept.
const AT_ONCE: SweepOptions =
    SweepOptions { settle_ns: 0, at_once: AtOnce::Never, commit_ns: i64::MIN, end_others: false };

struct Fixture {
    storage: Arc<dyn Storage>,
    repository: Arc<Repository>,
}

impl Fixture {
    fn new() -> Fixture {
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        init(storage.clone()).expect("an empty memory takes a repository");
        let repository = open(storage.clone(), 1).expect("it opens");
        Fixture { storage, repository }
    }

    fn view(&self) -> View {
        View::list(&self.repository).expect("memory lists")
    }

    fn snapshots(&self) -> BTreeSet<TicketId> {
        self.view().snapshots().into_iter().map(|(id, _)| id).collect()
    }

    fn back_up(&self, file: u64) -> TicketId {
        let before = self.snapshots();
        back_up(&self.repository, &[file], false).expect("nothing fails here");
        let new = &self.snapshots() - &before;
        *new.first().expect("a new snapshot")
    }

    fn forget(&self, ids: &[TicketId]) {
        forget(&self.repository, |_| Ok::<_, Error>(ids.to_vec())).expect("memory takes it");
    }

    /// Prunes, and returns the record, if there is one.
    fn prune(&self) -> Option<Arc<Prune>> {
        let pruned = prune(&self.repository, &PruneOptions::default(), &(), |_| true);
        let number = pruned.expect("it works").expect("approved").number?;
        Some(self.view().prunes[&number].clone())
    }

    /// Returns the same repository, opened by a client whose clock is ahead.
    fn at(&self, days: u64) -> Fixture {
        // Another process has other random numbers.
        let process = 10 + u32::try_from(days).expect("a few days");
        let machine = Machine::at(process, (1 << 60) + days * DAY_NS.unsigned_abs());
        let repository = Repository::open(self.storage.clone(), machine, &unlock());
        Fixture {
            storage: self.storage.clone(),
            repository: Arc::new(repository.expect("it opens")),
        }
    }

    /// Sweeps until nothing is left, and returns the number of records that were swept.
    fn sweep(&self) -> u64 {
        self.sweep_with(AT_ONCE)
    }

    fn sweep_with(&self, options: SweepOptions) -> u64 {
        let mut sweeper = Sweeper::new(self.repository.clone(), options);
        let mut count = 0;
        loop {
            match sweeper.step(&()).expect("it works") {
                Sweep::Done(_) => count += 1,
                Sweep::Nothing => return count,
                other => panic!("no other client is there: {other:?}"),
            }
        }
    }

    fn end_without_result(&self) -> TicketId {
        let writer = Writer::begin(self.repository.clone(), Purpose::Other);
        let mut writer = writer.expect("it begins");
        writer.void(Vec::new()).expect("memory takes it");
        writer.ticket()
    }

    /// Returns the commits that are not snapshots.
    fn others(&self) -> usize {
        self.view().commits.values().filter(|commit| commit.snapshot().is_none()).count()
    }
}

/// Runs `scenario` with all rules kept, which must hold, and with a broken one, which must not.
fn rule_is_needed(mutant: Mutant, scenario: fn() -> bool) {
    assert!(scenario(), "the rules as written");
    rules::activate(Some(mutant));
    let holds = scenario();
    rules::activate(None);
    assert!(!holds, "{mutant:?} stays unnoticed");
}

#[test]
fn history_is_removed() {
    let fixture = Fixture::new();
    let (first, second) = (fixture.back_up(1), fixture.back_up(2));
    note(&fixture.repository, first, |tags, _| tags.push("tag".to_owned()))
        .expect("memory takes it");
    for _ in 0..20 {
        fixture.end_without_result();
    }
    assert_eq!(fixture.prune(), None, "a short history is not worth a record");
    fixture.forget(&[first]);
    let record = fixture.prune().expect("a snapshot was forgotten");
    // The snapshot, the forget, the note, the voids, and that of the prune that did nothing.
    assert_eq!(record.taken.len(), 24, "{record:?}");
    assert_eq!(fixture.sweep(), 1, "one record");
    // The end of the prune that put the record, and `swept`.
    assert_eq!(fixture.others(), 2, "{:?}", fixture.view().commits);
    assert_eq!(fixture.snapshots(), [second].into(), "the one that stays");
    assert_eq!(restore_all(&fixture.repository).expect("it restores"), 1);
    let tickets = fixture.storage.list(ObjectKind::Ticket.folder()).expect("memory lists");
    assert!(tickets.len() <= 3, "{tickets:?}");
    // The next record takes these two, and says what `swept` said.
    fixture.forget(&[second]);
    let record = fixture.prune().expect("a snapshot was forgotten");
    assert_eq!((record.taken.len(), &*record.swept), (4, &[1][..]), "{record:?}");
    assert_eq!(fixture.sweep(), 1, "the first record is not swept again");
    assert_eq!(fixture.view().commits.len(), 2, "the ends of the last prune and sweep");
}

#[test]
fn long_history_is_worth_a_record() {
    let fixture = Fixture::new();
    let snapshot = fixture.back_up(1);
    let retired_count = || {
        let planned = plan(&fixture.repository, &PruneOptions::default(), &());
        planned.expect("memory answers").history_count
    };
    let mut voids: BTreeSet<TicketId> = (0..63).map(|_| fixture.end_without_result()).collect();
    assert_eq!(retired_count(), 0, "no record is put for these");
    voids.insert(fixture.end_without_result());
    assert_eq!(retired_count(), 64);
    let record = fixture.prune().expect("a long history");
    assert_eq!(record.taken, voids.into_iter().collect::<Vec<_>>());
    assert_eq!((fixture.sweep(), fixture.prune()), (1, None));
    assert_eq!(fixture.snapshots(), [snapshot].into());
    assert_eq!(fixture.others(), 3, "the ends of two prunes, and `swept`");
}

#[test]
fn forget_with_a_held_snapshot_stays() {
    rule_is_needed(Mutant::TakesForgetsEarly, || {
        let fixture = Fixture::new();
        let (held, taken) = (fixture.back_up(1), fixture.back_up(2));
        fixture.forget(&[held, taken]);
        hold(&fixture.repository, &[held]).expect("no prune has taken it");
        fixture.prune().expect("a snapshot was forgotten");
        fixture.sweep();
        release(&fixture.repository, &[held]).expect("it is held");
        fixture.snapshots().is_empty() && fixture.view().takeable() == [held].into()
    });
}

#[test]
fn record_says_what_taken_commits_said_of_sweeps() {
    rule_is_needed(Mutant::DropsSwept, || {
        let fixture = Fixture::new();
        for file in 0..3 {
            let snapshot = fixture.back_up(file);
            fixture.forget(&[snapshot]);
            fixture.prune().expect("a snapshot was forgotten");
            if fixture.sweep() != 1 {
                return false;
            }
        }
        true
    });
}

/// The clock of the client that swept the first record is ahead, so that the commits of the second
/// record are due before those of the first.
#[test]
fn swept_stays_until_the_commits_of_its_record_are_gone() {
    rule_is_needed(Mutant::TakesSweptEarly, || {
        let fixture = Fixture::new();
        for (file, days) in [(0, 60), (1, 0)] {
            let snapshot = fixture.back_up(file);
            fixture.forget(&[snapshot]);
            fixture.prune().expect("a snapshot was forgotten");
            assert_eq!(
                fixture.at(days).sweep_with(SweepOptions { commit_ns: DAY_NS, ..AT_ONCE }),
                1
            );
        }
        for days in [30, 90] {
            fixture.at(days).sweep_with(SweepOptions { commit_ns: DAY_NS, ..AT_ONCE });
        }
        fixture.view().commits.values().all(|commit| commit.snapshot().is_none())
    });
}

/// A snapshot was deleted from the storage after the only commit that had recorded it.
#[test]
fn deleted_snapshot_is_noticed_although_its_witness_is_gone() {
    rule_is_needed(Mutant::DropsAttested, || {
        let fixture = Fixture::new();
        let kept = fixture.back_up(1);
        let witness = fixture.back_up(2);
        fixture.forget(&[witness]);
        fixture.prune().expect("a snapshot was forgotten");
        fixture.sweep();
        // Commits that were put since then attest it as well.
        for (name, _) in fixture.storage.list(ObjectKind::Commit.folder()).expect("it lists") {
            let is_other = name != ObjectName::Commit(kept).to_string();
            let view = fixture.view();
            let attests = view.commits.iter().any(|(id, commit)| {
                ObjectName::Commit(*id).to_string() == name && commit.view.new.contains(&kept)
            });
            if is_other && attests {
                fixture.storage.delete(&name).expect("memory deletes");
            }
        }
        fixture.storage.delete(&ObjectName::Commit(kept).to_string()).expect("memory deletes");
        let reopened = open(fixture.storage.clone(), 2).expect("it opens");
        View::list(&reopened).expect("it lists").gone_commits().contains(&kept)
    });
}

/// The request that put a commit comes a second time, after a sweep has deleted the commit.
#[test]
fn commit_that_arrives_after_its_deletion_does_not_count() {
    let fixture = Fixture::new();
    let (first, second) = (fixture.back_up(1), fixture.back_up(2));
    fixture.forget(&[first]);
    let names: Vec<String> = fixture
        .storage
        .list(ObjectKind::Commit.folder())
        .expect("it lists")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let bytes: Vec<_> =
        names.iter().map(|name| fixture.storage.get(name).expect("it is there")).collect();
    let record = fixture.prune().expect("a snapshot was forgotten");
    fixture.sweep();
    let is_gone = |id: &TicketId| !fixture.view().commits.contains_key(id);
    assert!(record.taken.iter().all(is_gone), "the sweep has deleted what the record took");
    for (name, bytes) in names.iter().zip(bytes) {
        fixture.storage.put_new(name, bytes).expect("memory takes it");
    }
    assert_eq!(fixture.snapshots(), [second].into(), "the late snapshot does not count");
    assert!(fixture.view().forgotten_snapshots().is_empty(), "it cannot be brought back");
    let short = first.short();
    let held = hold(&fixture.repository, &[first]).map_err(|error| error.to_string());
    assert_eq!(held, Err(format!("snapshot {short}: already removed by prune 1")));
    assert_eq!(fixture.prune(), None, "nothing is needed for it");
    assert_eq!(restore_all(&fixture.repository).expect("it restores"), 1);
    // As long as a `swept` commit tells of the record, late commits are deleted again.
    assert_eq!(fixture.sweep(), 0);
    assert!(record.taken.iter().all(is_gone), "deleted again");
}

/// A sweep's commit publishes what it has stored again; a prune takes the commit, and publishes it.
#[test]
fn rescued_chunks_stay_after_the_rescue_is_taken() {
    let fixture = Fixture::new();
    let first = fixture.back_up(1);
    let mut late = Writer::begin(fixture.repository.clone(), Purpose::Backup).expect("it begins");
    let parent = late.view().commits[&first].snapshot().expect("a snapshot").clone();
    fixture.forget(&[first]);
    fixture.prune().expect("a snapshot was forgotten");
    late.commit(Outcome::Snapshot(Box::new(parent)), Vec::new(), &BTreeSet::new())
        .expect("it commits");
    assert_eq!(fixture.sweep(), 1);
    let is_rescue = |view: &View| {
        view.commits.values().filter(|commit| commit.outcome == Outcome::Rescue).count()
    };
    assert_eq!(is_rescue(&fixture.view()), 1, "the late snapshot needed what was condemned");
    for round in 0..2 {
        let other = fixture.back_up(2 + round);
        fixture.forget(&[other]);
        fixture.prune().expect("a snapshot was forgotten");
        fixture.sweep();
    }
    assert_eq!(is_rescue(&fixture.view()), 0, "it is deleted");
    assert_eq!(restore_all(&fixture.repository).expect("it restores"), 1);
}

/// The marked snapshots of a record take room for those that are new, not for all.
#[test]
fn records_mark_differences() {
    let fixture = Fixture::new();
    let kept: Vec<TicketId> = (0..8).map(|file| fixture.back_up(file)).collect();
    let mut last = BTreeSet::from_iter(kept);
    for round in 0..3 {
        let other = fixture.back_up(100 + round);
        fixture.forget(&[other]);
        last.insert(fixture.back_up(200 + round));
        let record = fixture.prune().expect("a snapshot was forgotten");
        match record.marked_base {
            None => assert_eq!((round, record.marked.len()), (0, 9)),
            Some(base) => {
                assert_eq!((base, record.marked.len(), &*record.unmarked), (round, 1, &[][..]));
            }
        }
    }
    assert_eq!(fixture.snapshots(), last);
}

/// The request that put a ticket comes a second time, after a sweep has deleted the commit: no
/// sweep waits for the writer, although its process is alive.
#[test]
fn ticket_that_arrives_after_its_commit_was_deleted_delays_no_sweep() {
    let fixture = Fixture::new();
    let (first, second) = (fixture.back_up(1), fixture.back_up(2));
    let ticket = ObjectName::Ticket { ticket: first, renewal: 0 }.to_string();
    let bytes = fixture.storage.get(&ticket).expect("it is there");
    fixture.forget(&[first]);
    fixture.prune().expect("a snapshot was forgotten");
    fixture.sweep();
    fixture.storage.put_new(&ticket, bytes).expect("memory takes it");
    fixture.forget(&[second]);
    fixture.prune().expect("a snapshot was forgotten");
    assert_eq!(fixture.sweep(), 1, "it waits for no other client");
    assert!(!fixture.view().commits.contains_key(&first), "no void was put");
    let is_there = fixture.storage.head(&ticket).expect("memory answers").is_some();
    assert!(!is_there, "the ticket is deleted");
}
