//! The view checkpoint: a client without a cache reads few objects instead of many commits, and a
//! damaged, exchanged, foreign or missing part costs requests and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::support::backup::{back_up, init_by, restore_all, unlock};
use crate::support::damaged_repository::everything;
use crate::support::machine::Machine;
use bytes::Bytes;
use cutpoint_repository::format::commit::{Note, Outcome};
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::format::view_part::ViewPart;
use cutpoint_repository::gc::prune::{PruneMonitor, PruneOptions, prune};
use cutpoint_repository::gc::sweep::{Sweep, SweepOptions, Sweeper};
use cutpoint_repository::repo::keys::OtherKeysPolicy;
use cutpoint_repository::verify::check::{CheckOptions, Finding, FindingKind, check};
use cutpoint_repository::verify::repair::{
    IndexOptions, SnapshotOptions, repair_index, repair_snapshots,
};
use cutpoint_repository::{ObjectName, Purpose, Repository, TicketId, View, Writer};
use cutpoint_storage::{Error, Kind, Layer, Memory, Put, Result, Storage};
use tempfile::TempDir;

/// Number of snapshots of the repository.
const SNAPSHOTS: u64 = 3;
/// Number of notes of the repository, which are enough for a checkpoint.
const NOTES: usize = 140;
/// Maximum number of commits that a client reads one by one although there is a checkpoint: those
/// that were put after it, and those below the threshold.
const SINGLE_MAX: u64 = 4;

/// A storage with a long way, which counts what is read, and refuses some puts.
#[derive(Debug)]
struct Remote {
    below: Arc<dyn Storage>,
    commit_count: AtomicU64,
    part_count: AtomicU64,
    refused: Option<&'static str>,
}

impl Remote {
    fn over(below: Arc<dyn Storage>) -> Arc<Remote> {
        let (commit_count, part_count) = Default::default();
        Arc::new(Remote { below, commit_count, part_count, refused: None })
    }

    /// Returns the numbers of commits or records and of parts that were read since the last call.
    fn take_counts(&self) -> (u64, u64) {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        (take(&self.commit_count), take(&self.part_count))
    }
}

impl Layer for Remote {
    fn below(&self) -> &dyn Storage {
        &*self.below
    }

    fn requests_ahead_max(&self) -> usize {
        8
    }

    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        match self.refused {
            Some(folder) if name.starts_with(folder) => {
                Err(Error::new(Kind::Storage, name, "refused by the test"))
            }
            _ => self.below.put_new(name, bytes),
        }
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        if name.starts_with("commits/") || name.starts_with("prunes/") {
            self.commit_count.fetch_add(1, Ordering::Relaxed);
        } else if name.starts_with("views/") {
            self.part_count.fetch_add(1, Ordering::Relaxed);
        }
        self.below.get_at_most(name, len_max)
    }
}

/// A repository with many commits.
struct Large {
    memory: Arc<dyn Storage>,
}

impl Large {
    /// Creates a repository with a checkpoint.
    fn new() -> Large {
        let large = Large::without_checkpoint(0);
        large.prune();
        assert_eq!(large.parts(), ["views/00000000-00000000"], "a prune puts it");
        large
    }

    /// Creates a repository, another one for each process.
    fn without_checkpoint(process: u32) -> Large {
        let memory: Arc<dyn Storage> = Arc::new(Memory::new());
        let repository = Arc::new(init_by(memory.clone(), process).expect("memory takes it"));
        for number in 1..=SNAPSHOTS {
            back_up(&repository, &[number], false).expect("nothing fails here");
        }
        let large = Large { memory };
        large.add_notes(NOTES, 10);
        large
    }

    /// Adds notes with descriptions of this length.
    fn add_notes(&self, count: usize, len: usize) {
        let repository = open(self.memory.clone());
        for _ in 0..count {
            let note = Note { description: "n".repeat(len), ..Note::default() };
            commit(&repository, Outcome::Note(note));
        }
    }

    fn prune(&self) {
        let repository = open(self.memory.clone());
        let pruned = prune(&repository, &PruneOptions::default(), &(), |_| true);
        assert!(pruned.expect("nothing fails here").is_some(), "it ends");
    }

    fn remote(&self) -> Arc<Remote> {
        Remote::over(self.memory.clone())
    }

    /// Returns what a client without a cache lists, and the numbers of commits and parts that it
    /// reads.
    fn list(&self) -> (View, (u64, u64)) {
        let remote = self.remote();
        let repository = open(remote.clone());
        remote.take_counts();
        (View::list(&repository).expect("it lists"), remote.take_counts())
    }

    /// Returns the names of the parts.
    fn parts(&self) -> Vec<String> {
        let listed = self.memory.list("views").expect("memory lists");
        listed.into_iter().map(|(name, _)| name).collect()
    }

    fn commit_count(&self) -> u64 {
        self.memory.list("commits").expect("memory lists").len() as u64
    }

    /// Expects that a client without a cache gets the view that the commits themselves give.
    fn expect_right_view(&self, case: &str) -> (u64, u64) {
        let (view, counts) = self.list();
        let own = View::list(&without_parts(&self.memory)).expect("it lists");
        assert_eq!(view.commits, own.commits, "{case}");
        assert_eq!(view.epochs, own.epochs, "{case}");
        assert_eq!(view.prunes, own.prunes, "{case}");
        assert!(view.unreadable.is_empty(), "{case}: {:?}", view.unreadable);
        assert!(view.gone_commits().is_empty(), "{case}");
        counts
    }

    /// Returns the objects of the first part.
    fn objects(&self) -> Vec<Bytes> {
        let body = open(self.memory.clone()).get(FIRST).expect("it opens");
        ViewPart::decode(&body.into()).expect("it is well").objects
    }

    /// Replaces the first part by a newer version with `objects`.
    fn put_part(&self, objects: Vec<Bytes>) {
        let body = ViewPart { objects, ..ViewPart::default() }.encode();
        let name = ObjectName::View { position: 0, version: 1 };
        open(self.memory.clone()).seal_and_put(name, &body).expect("memory takes it");
    }
}

const FIRST: ObjectName = ObjectName::View { position: 0, version: 0 };

fn open(storage: Arc<dyn Storage>) -> Arc<Repository> {
    static PROCESSES: AtomicU32 = AtomicU32::new(100);
    let process = PROCESSES.fetch_add(1, Ordering::Relaxed);
    Arc::new(Repository::open(storage, Machine::new(process), &unlock()).expect("it opens"))
}

/// Opens a copy of the repository that has no checkpoint.
fn without_parts(storage: &Arc<dyn Storage>) -> Arc<Repository> {
    let copy: Arc<dyn Storage> = Arc::new(Memory::new());
    for (name, bytes) in everything(&**storage) {
        if !name.starts_with("views/") {
            copy.put_new(&name, bytes).expect("memory takes it");
        }
    }
    open(copy)
}

fn commit(repository: &Arc<Repository>, outcome: Outcome) -> TicketId {
    let mut writer = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
    writer.commit(outcome, Vec::new(), &BTreeSet::new()).expect("memory takes it");
    writer.ticket()
}

#[test]
fn client_without_cache_reads_parts_instead_of_commits() {
    let large = Large::without_checkpoint(0);
    assert_eq!(large.expect_right_view("no checkpoint").1, 0);
    let large = Large::new();
    let (commits, parts) = large.expect_right_view("a checkpoint");
    assert!(commits <= SINGLE_MAX && parts == 1, "{commits} commits, {parts} parts");
    let remote: Arc<dyn Storage> = large.remote();
    assert_eq!(restore_all(&open(remote)).expect("all is well") as u64, SNAPSHOTS);
}

#[test]
fn second_process_reads_neither_parts_nor_commits() {
    let large = Large::new();
    let folder = TempDir::new().expect("made");
    let list = || {
        let remote = large.remote();
        let repository = Repository::open(remote.clone(), Machine::new(7), &unlock());
        let repository = repository.expect("it opens").with_cache(folder.path().to_path_buf());
        remote.take_counts();
        let view = View::list(&repository).expect("it lists");
        assert_eq!(view.commits.len() as u64, large.commit_count());
        (remote.take_counts(), repository.cache().expect("it has one").join("view/views"))
    };
    let ((_, parts), cached) = list();
    assert_eq!(parts, 1);
    assert_eq!(list().0, (0, 0), "the part and the other commits are in files");
    // A damaged file of the cache costs a request.
    let file = cached.join("00000000-00000000");
    let mut bytes = std::fs::read(&file).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).expect("written");
    assert_eq!(list().0, (0, 1), "the part is read again");
    assert_eq!(list().0, (0, 0));
    // A newer version takes the place of the old file.
    large.add_notes(130, 10);
    large.prune();
    list();
    let files: Vec<_> = std::fs::read_dir(&cached).expect("it lists").flatten().collect();
    assert_eq!(files.len(), 1, "{files:?}");
}

/// A few commits are read one by one, because a part is longer.
#[test]
fn client_that_lacks_few_commits_reads_no_part() {
    let large = Large::new();
    let remote = large.remote();
    let repository = open(remote.clone());
    let view = View::list(&repository).expect("it lists");
    large.add_notes(20, 10);
    large.memory.delete(&FIRST.to_string()).expect("memory deletes");
    remote.take_counts();
    view.list_again(&repository).expect("it lists");
    assert_eq!(remote.take_counts(), (20, 0));
}

#[test]
fn damaged_part_costs_requests() {
    let changes: [fn(&mut Vec<u8>); 5] = [
        |bytes| bytes[30] ^= 1,
        |bytes| bytes[4000] ^= 0x40,
        |bytes| bytes.truncate(bytes.len() / 2),
        |bytes| bytes.extend_from_slice(&[0; 256]),
        Vec::clear,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let large = Large::new();
        let mut bytes = large.memory.get(&FIRST.to_string()).expect("it is there").to_vec();
        change(&mut bytes);
        large.memory.replace(&FIRST.to_string(), bytes.into()).expect("memory replaces");
        let (commits, _) = large.expect_right_view(&format!("change {number}"));
        assert!(commits >= large.commit_count(), "change {number}: {commits} commits");
        // The next prune replaces it, once there are new objects.
        large.add_notes(130, 10);
        large.prune();
        assert_eq!(large.parts().len(), 2, "change {number}: another version");
        let (commits, _) = large.expect_right_view(&format!("change {number}, pruned"));
        assert!(commits <= SINGLE_MAX, "change {number}, pruned: {commits} commits");
    }
}

#[test]
fn part_of_another_name_or_repository_costs_requests() {
    let large = Large::new();
    let name = FIRST.to_string();
    let bytes = large.memory.get(&name).expect("it is there");
    large.memory.delete(&name).expect("memory deletes");
    let commits = large.expect_right_view("missing").0;
    assert!(commits >= large.commit_count());
    for other in ["views/00000001-00000000", "views/00000000-00000001"] {
        large.memory.put_new(other, bytes.clone()).expect("memory takes it");
        let commits = large.expect_right_view(other).0;
        assert!(commits >= large.commit_count(), "{other}: {commits} commits");
        large.memory.delete(other).expect("memory deletes");
    }
    let other = Large::without_checkpoint(50);
    other.prune();
    let foreign = other.memory.get(&name).expect("it is there");
    large.memory.put_new(&name, foreign).expect("memory takes it");
    let commits = large.expect_right_view("of another repository").0;
    assert!(commits >= large.commit_count());
}

/// A part that opens, but whose objects are damaged, exchanged, foreign or of another length.
#[test]
fn wrong_object_in_a_part_costs_a_request() {
    type Change = fn(&mut Vec<Bytes>);
    let cases: [(&str, u64, Change); 6] = [
        ("right", 0, |_| ()),
        ("a bit in the body", 1, |objects| flip(&mut objects[7], 90)),
        ("a bit in the name", 1, |objects| flip(&mut objects[7], 20)),
        ("longer", 1, |objects| objects[7] = [&objects[7][..], &[0; 256]].concat().into()),
        ("half of them", 70, |objects| objects.truncate(objects.len() - 70)),
        ("no objects", 3, |objects| objects[..3].fill(Bytes::from_static(b"CutP"))),
    ];
    for (case, cost, change) in cases {
        let large = Large::new();
        let right = large.expect_right_view(case).0;
        let mut objects = large.objects();
        change(&mut objects);
        large.put_part(objects);
        assert_eq!(large.expect_right_view(case).0, right + cost, "{case}");
    }
    let (large, other) = (Large::new(), Large::without_checkpoint(50));
    let right = large.expect_right_view("right").0;
    let foreign = other.memory.list("commits").expect("memory lists").swap_remove(0).0;
    let mut objects = large.objects();
    objects[0] = other.memory.get(&foreign).expect("it is there");
    large.put_part(objects);
    assert_eq!(large.expect_right_view("of another repository").0, right + 1);
}

fn flip(object: &mut Bytes, at: usize) {
    let mut bytes = object.to_vec();
    bytes[at] ^= 1;
    *object = bytes.into();
}

/// Deletes a commit and all that attest it but the checkpoint. Returns its name.
fn delete_attested(large: &Large) -> ObjectName {
    let in_part: BTreeSet<Bytes> = large.objects().into_iter().collect();
    let is_in_part = |name: &str| in_part.contains(&large.memory.get(name).expect("it is there"));
    let listed = large.memory.list("commits").expect("memory lists");
    for (name, _) in listed.iter().filter(|(name, _)| !is_in_part(name)) {
        large.memory.delete(name).expect("memory deletes");
    }
    let view = View::list(&without_parts(&large.memory)).expect("it lists");
    let seen = view.seen();
    let unseen = view.commits.keys().find(|id| !seen.contains(id)).expect("the newest one");
    let name = ObjectName::Commit(*unseen);
    large.memory.delete(&name.to_string()).expect("memory deletes");
    let view = View::list(&without_parts(&large.memory)).expect("it lists");
    assert!(view.gone_commits().is_empty(), "nothing else attests it");
    name
}

#[test]
fn deleted_commit_that_the_checkpoint_has_is_reported_until_given_up() {
    let large = Large::new();
    let name = delete_attested(&large);
    let gone = || {
        let repository = open(large.memory.clone());
        let view = View::list(&repository).expect("it lists");
        let gone = view.look_for_gone(&repository).expect("it lists");
        gone.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(gone(), [name]);
    let (view, (_, parts)) = large.list();
    assert!(!view.commits.contains_key(&ticket_of(name)) && parts == 1, "it does not count");
    let errors = || errors_of_check(&large.memory);
    assert_eq!(errors(), BTreeMap::from([(name.to_string(), FindingKind::Missing)]));
    let options = SnapshotOptions { forget: true, threads: 1, ..SnapshotOptions::default() };
    let repaired = repair_snapshots(&open(large.memory.clone()), &options, &());
    let repaired = repaired.expect("nothing fails here");
    assert_eq!(repaired.missing_commits, BTreeSet::from([ticket_of(name)]));
    assert_eq!(gone(), [], "a record takes it");
    assert_eq!(errors(), BTreeMap::new());
}

fn ticket_of(name: ObjectName) -> TicketId {
    let ObjectName::Commit(ticket) = name else { panic!("{name} is no commit") };
    ticket
}

fn errors_of_check(storage: &Arc<dyn Storage>) -> BTreeMap<String, FindingKind> {
    let found = Findings::default();
    check(&open(storage.clone()), &CheckOptions::default(), &found).expect("it runs");
    let findings = found.0.into_inner().expect("no test panics in here");
    let errors = findings.into_iter().filter(Finding::is_error);
    errors.map(|finding| (finding.object, finding.kind)).collect()
}

#[derive(Default)]
struct Findings(std::sync::Mutex<Vec<Finding>>);

impl cutpoint_repository::verify::check::CheckMonitor for Findings {
    fn finding(&self, finding: &Finding) {
        self.0.lock().expect("no test panics in here").push(finding.clone());
    }
}

/// The newest record has a number that nothing else attests. It can be given up, and its number is
/// not used again.
#[test]
fn deleted_record_that_the_checkpoint_has_is_reported_until_given_up() {
    let large = Large::without_checkpoint(0);
    let bytes = Prune { time_ns: 7, ..Prune::default() }.encode();
    let repository = open(large.memory.clone());
    repository.seal_and_put(ObjectName::Prune(1), &bytes).expect("memory takes it");
    let before = large.memory.list("commits").expect("memory lists");
    large.prune();
    for (name, _) in large.memory.list("commits").expect("memory lists") {
        if !before.iter().any(|(known, _)| *known == name) {
            large.memory.delete(&name).expect("memory deletes");
        }
    }
    large.memory.delete(&ObjectName::Prune(1).to_string()).expect("memory deletes");
    assert_eq!(large.list().0.missing_prunes(), [1]);
    let name = ObjectName::Prune(1).to_string();
    let errors = errors_of_check(&large.memory);
    assert_eq!(errors, BTreeMap::from([(name, FindingKind::Missing)]));
    let options = IndexOptions { given_up_prunes: BTreeSet::from([1]), ..IndexOptions::default() };
    let repaired = repair_index(&open(large.memory.clone()), &options, &());
    assert_eq!(repaired.expect("nothing fails here").record, Some(2), "another number");
    assert_eq!(large.list().0.missing_prunes(), [0; 0]);
    assert_eq!(errors_of_check(&large.memory), BTreeMap::new());
}

/// A prune must not delete by copies of commits: it stops at a commit that it cannot read, although
/// the checkpoint has it, and although the process has listed before.
#[test]
fn prune_and_sweep_read_commits_themselves() {
    let large = Large::new();
    let objects = large.objects();
    let name = large
        .memory
        .list("commits")
        .expect("memory lists")
        .into_iter()
        .map(|(name, _)| name)
        .find(|name| objects.contains(&large.memory.get(name).expect("it is there")))
        .expect("it has commits");
    let mut bytes = large.memory.get(&name).expect("it is there");
    flip(&mut bytes, 90);
    large.memory.replace(&name, bytes).expect("memory replaces");
    let repository = open(large.remote());
    let view = View::list(&repository).expect("it lists");
    assert!(view.unreadable.is_empty(), "the checkpoint has it");
    let pruned = prune(&repository, &PruneOptions::default(), &(), |_| true);
    assert_eq!(pruned.expect_err("it cannot be read").object(), name);
    let repository = open(large.remote());
    View::list(&repository).expect("it lists");
    let swept = Sweeper::new(repository, SweepOptions::default()).step(&());
    assert_eq!(swept.expect_err("it cannot be read").object(), name);
    assert_eq!(errors_of_check(&large.memory).keys().collect::<Vec<_>>(), [&name]);
}

/// Parts that are half full stay. A smaller one is replaced, and a sweep deletes its old version.
#[test]
fn full_parts_stay_and_small_ones_are_replaced_and_swept() {
    const LONG: usize = 200 << 10;
    let large = Large::new();
    let first = large.parts();
    large.prune();
    assert_eq!(large.parts(), first, "nothing new");
    large.add_notes(25, LONG);
    large.add_notes(130, 10);
    large.prune();
    assert_eq!(large.parts(), ["views/00000000-00000000", "views/00000000-00000001"]);
    large.expect_right_view("replaced");
    sweep_a_snapshot(&large);
    assert_eq!(large.parts(), ["views/00000000-00000001"], "the sweep deletes the old version");
    let counts = large.expect_right_view("swept");
    assert!(counts.0 <= 10 && counts.1 == 1, "{counts:?}");
    large.add_notes(200, 10);
    large.prune();
    let parts = ["views/00000000-00000001", "views/00000001-00000000"];
    assert_eq!(large.parts(), parts, "the first one is full");
    large.add_notes(60, LONG);
    large.add_notes(130, 10);
    large.prune();
    let counts = large.expect_right_view("several");
    assert!(counts.0 <= SINGLE_MAX && counts.1 >= 3, "{counts:?}");
}

/// Forgets the oldest snapshot, prunes and sweeps.
fn sweep_a_snapshot(large: &Large) {
    let repository = open(large.memory.clone());
    let (oldest, _) = View::list(&repository).expect("it lists").snapshots()[0];
    commit(&repository, Outcome::Forget(vec![oldest]));
    large.prune();
    let options = SweepOptions { settle_ns: 0, end_others: true, ..SweepOptions::default() };
    let mut sweeper = Sweeper::new(open(large.memory.clone()), options);
    let mut done_count = 0;
    while let Sweep::Done(_) = sweeper.step(&()).expect("nothing fails here") {
        done_count += 1;
    }
    assert!(done_count > 0, "there is something to delete");
}

/// Counts reports that the checkpoint was not extended.
#[derive(Default)]
struct FailureCount(AtomicU64);

impl PruneMonitor for FailureCount {
    fn checkpoint_failed(&self, error: &Error) {
        assert_eq!(error.kind(), Kind::Storage, "{error}");
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn refused_checkpoint_does_not_fail_the_prune() {
    let large = Large::without_checkpoint(0);
    let remote = Remote::over(large.memory.clone());
    let refusing = Remote { refused: Some("views/"), ..Arc::into_inner(remote).expect("one") };
    let repository = open(Arc::new(refusing));
    let monitor = FailureCount::default();
    let pruned = prune(&repository, &PruneOptions::default(), &monitor, |_| true);
    assert!(pruned.expect("the prune itself ends well").is_some());
    assert_eq!(monitor.0.into_inner(), 1);
    assert_eq!(large.parts(), [""; 0]);
}

/// The objects in a part keep the key epochs with which they were sealed.
#[test]
fn objects_of_earlier_epochs_open() {
    let large = Large::new();
    let storage = large.memory.clone();
    let mut repository = Repository::open(storage, Machine::new(90), &unlock()).expect("it opens");
    let others = OtherKeysPolicy::Refuse;
    repository.begin_epoch(&[unlock()], others).expect("memory takes it");
    large.add_notes(130, 10);
    large.prune();
    let (commits, parts) = large.expect_right_view("two epochs");
    assert!(commits <= SINGLE_MAX && parts == 1, "{commits} commits, {parts} parts");
    let epochs: BTreeSet<u32> = large.list().0.epochs.into_values().collect();
    assert_eq!(epochs, BTreeSet::from([1, 2]));
}

#[test]
fn check_names_a_damaged_part_without_consequence() {
    let large = Large::new();
    let mut objects = large.objects();
    flip(&mut objects[3], 90);
    large.put_part(objects);
    let found = Findings::default();
    let report = check(&open(large.memory.clone()), &CheckOptions::default(), &found);
    assert_eq!(report.expect("it runs").error_count, 0, "nothing depends on it");
    let findings = found.0.into_inner().expect("no test panics in here");
    let named: Vec<_> = findings.iter().filter(|it| it.object.starts_with("views/")).collect();
    assert_eq!(named.len(), 1, "{findings:?}");
    assert!(named[0].message.contains("its copy of commits/"), "{named:?}");
}
