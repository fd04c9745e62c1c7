//! Parity: partial damage is repaired without the sources, and nothing depends on parity.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::backup::{back_up, init_with, open, restore_all, unlock};
use crate::support::bad_sectors::BadSectors;
use crate::support::failing_reads::FailingReads;
use crate::support::machine::Machine;
use bytes::Bytes;
use cutpoint_repository::crypto::HEADER_LEN;
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::gc::prune::{PruneOptions, prune};
use cutpoint_repository::gc::sweep::{AtOnce, Sweep, SweepOptions, Sweeper};
use cutpoint_repository::verify::check::{
    CheckMonitor, CheckOptions, CheckReport, Finding, FindingKind, Portion, check, record,
};
use cutpoint_repository::verify::repair::{DataOptions, DataRepair, repair_data};
use cutpoint_repository::{ObjectName, PartName, Purpose, Repository, TicketId, View, Writer};
use cutpoint_storage::{Error, Fault, Faulty, Kind, Memory, ObjectKind, Put, Result, Storage};
use xxhash_rust::xxh3::xxh3_128;

/// PathLoss by one bad sector, in bytes.
const SHARD_LEN: usize = 8192;
const PERCENT: u32 = 10;
const ALL: DataOptions = DataOptions { dry_run: false, read_data: Some(Portion::All), threads: 1 };

/// Creates a repository with one backup of about 600 KB.
fn memory(percent: u32) -> Arc<dyn Storage> {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init_with(storage.clone(), 0, false, percent).expect("an empty memory takes a repository");
    let repository = open(storage.clone(), 1).expect("it opens");
    let files: Vec<u64> = (1..21).collect();
    back_up(&repository, &files, false).expect("nothing fails here");
    storage
}

fn copy(storage: &dyn Storage) -> Arc<dyn Storage> {
    let copy: Arc<dyn Storage> = Arc::new(Memory::new());
    for kind in ObjectKind::ALL {
        for (name, _) in storage.list(kind.folder()).expect("memory lists") {
            let bytes = storage.get(&name).expect("what is listed can be read");
            copy.put_new(&name, bytes).expect("memory takes it");
        }
    }
    copy
}

fn names(storage: &dyn Storage, kind: ObjectKind) -> Vec<String> {
    let listed = storage.list(kind.folder()).expect("memory lists");
    listed.into_iter().map(|(name, _)| name).collect()
}

fn replace(storage: &dyn Storage, name: &str, bytes: Vec<u8>) {
    storage.delete(name).expect("memory deletes");
    let put = storage.put_new(name, Bytes::from(bytes)).expect("memory takes it");
    assert_eq!(put, Put::Created, "{name} was deleted");
}

#[derive(Default)]
struct Findings(Mutex<Vec<Finding>>);

impl CheckMonitor for Findings {
    fn finding(&self, finding: &Finding) {
        self.0.lock().expect("no test panics in here").push(finding.clone());
    }
}

/// Checks every byte. Returns the errors as well.
fn checked(repository: &Arc<Repository>) -> (CheckReport, BTreeSet<String>) {
    check_with(repository, Some(Portion::All))
}

fn check_with(
    repository: &Arc<Repository>,
    read_data: Option<Portion>,
) -> (CheckReport, BTreeSet<String>) {
    let findings = Findings::default();
    let options = CheckOptions { read_data, threads: 1, ..CheckOptions::default() };
    let report = check(repository, &options, &findings).expect("the check goes through");
    let findings = findings.0.into_inner().expect("no test panics in here");
    let errors = findings.into_iter().filter(Finding::is_error);
    (report, errors.map(|finding| finding.object).collect())
}

fn assert_clean(repository: &Arc<Repository>, case: &str) {
    let (report, errors) = checked(repository);
    assert!(errors.is_empty(), "{case}: {errors:#?}");
    assert_eq!(report.unprotected_count, 0, "{case}: containers without parity");
}

fn repaired(storage: &Arc<dyn Storage>, process: u32) -> DataRepair {
    let repository = open(storage.clone(), process).expect("it opens");
    repair_data(&repository, &ALL, &()).expect("memory takes it")
}

/// Returns the containers of both kinds.
fn containers(storage: &dyn Storage) -> Vec<String> {
    let mut all = names(storage, ObjectKind::Data);
    all.append(&mut names(storage, ObjectKind::Meta));
    all
}

fn zeroed(mut bytes: Vec<u8>, range: Range<usize>) -> Vec<u8> {
    bytes[range].fill(0);
    bytes
}

/// Returns typical damages: a description, and the damaged bytes.
fn damages(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let len = bytes.len();
    let flipped = |place: usize| {
        let mut bytes = bytes.to_vec();
        bytes[place] ^= 4;
        bytes
    };
    let mut all: Vec<_> = [5, 40, HEADER_LEN + 100, len / 2, len - 25, len - 1]
        .into_iter()
        .map(|place| (format!("bit of byte {place}"), flipped(place)))
        .collect();
    for cut in [1, 31, 4096, 2 * SHARD_LEN] {
        all.push((format!("{cut} bytes cut off"), bytes[..len - cut].to_vec()));
    }
    for range in [0..64, 0..2 * SHARD_LEN, 4096..12_288, len - 2 * SHARD_LEN..len] {
        all.push((format!("zeros at {range:?}"), zeroed(bytes.to_vec(), range)));
    }
    let mut longer = bytes.to_vec();
    longer.extend_from_slice(&[7; 100]);
    all.push(("100 bytes more".to_owned(), longer));
    let another = flipped(len / 2 + 1);
    all.push(("two bits".to_owned(), zeroed(another, 0..1)));
    all
}

/// Each container, damaged in each way: the check names it, the repair restores everything, and the
/// second check finds nothing.
#[test]
fn partially_damaged_containers_are_restored() {
    let original = memory(PERCENT);
    let all = containers(&*original);
    assert_eq!(all.len(), 2, "one of each kind");
    for name in all {
        let bytes = original.get(&name).expect("it is there").to_vec();
        for (damage, damaged) in damages(&bytes) {
            let case = format!("{name}: {damage}");
            let storage = copy(&*original);
            replace(&*storage, &name, damaged);
            let repository = open(storage.clone(), 2).expect("it opens");
            let (_, errors) = checked(&repository);
            assert!(errors.contains(&name), "{case}: the check names {errors:?}");
            let (_, unread) = check_with(&repository, None);
            for errors in [&errors, &unread] {
                let is_parity = |object: &String| object.starts_with("parity/");
                assert!(!errors.iter().any(is_parity), "{case}: parity is intact: {errors:?}");
            }
            let before = names(&*storage, ObjectKind::Data).len();
            let dry = DataOptions { dry_run: true, ..ALL };
            let dry = repair_data(&repository, &dry, &()).expect("memory can be read");
            assert_eq!(names(&*storage, ObjectKind::Data).len(), before, "{case}: a dry run");
            let done = repaired(&storage, 3);
            assert!(done.failed.is_empty(), "{case}: {:?}", done.failed);
            assert_eq!(dry.rebuilt, done.rebuilt, "{case}: the dry run");
            let repository = open(storage.clone(), 4).expect("it opens");
            assert_clean(&repository, &case);
            assert_eq!(restore_all(&repository).expect("all is there"), 1, "{case}");
            // A second repair has nothing to do.
            let again = repaired(&storage, 5);
            assert!(again.rebuilt.is_empty() && again.failed.is_empty(), "{case}: {again:?}");
        }
    }
}

/// With one damaged shard more than there is parity, nothing is invented: the container is named,
/// and everything outside of it is unchanged.
#[test]
fn damage_beyond_the_parity_is_lost() {
    let storage = memory(PERCENT);
    let name = names(&*storage, ObjectKind::Data).remove(0);
    let bytes = storage.get(&name).expect("it is there").to_vec();
    let parity_count = bytes.len().div_ceil(SHARD_LEN).div_ceil(10);
    let begin = SHARD_LEN;
    let most = begin..begin + parity_count * SHARD_LEN;
    for (range, comes_back) in [(most.clone(), true), (most.start..most.end + 1, false)] {
        let storage = copy(&*storage);
        let case = format!("zeros at {range:?}");
        replace(&*storage, &name, zeroed(bytes.clone(), range));
        let done = repaired(&storage, 3);
        assert_eq!(done.rebuilt.len(), usize::from(comes_back), "{case}: {done:?}");
        let failed: Vec<&str> = done.failed.iter().map(Error::object).collect();
        assert_eq!(failed, if comes_back { vec![] } else { vec![name.as_str()] }, "{case}");
        let repository = open(storage.clone(), 4).expect("it opens");
        assert_eq!(restore_all(&repository).is_ok(), comes_back, "{case}");
    }
    storage.delete(&name).expect("memory deletes");
    let done = repaired(&storage, 3);
    assert_eq!(done.failed.len(), 1, "a container that is gone: {done:?}");
}

/// A simultaneous change of a container and its parity is detected by the container's own seals.
#[test]
fn rebuilt_bytes_are_verified() {
    let storage = memory(0);
    let name = names(&*storage, ObjectKind::Data).remove(0);
    let mut forged = storage.get(&name).expect("it is there").to_vec();
    forged[3 * SHARD_LEN] ^= 1;
    let end = forged.len() - 16;
    let checksum = xxh3_128(&forged[..end]).to_le_bytes();
    forged[end..].copy_from_slice(&checksum);
    replace(&*storage, &name, forged.clone());
    ask_for(&storage, 2, PERCENT);
    // Its checksum matches, so it gets parity.
    let unread = DataOptions { read_data: None, ..ALL };
    let repository = open(storage.clone(), 3).expect("it opens");
    let done = repair_data(&repository, &unread, &()).expect("memory takes it");
    assert_eq!(done.protected_count, 2, "{done:?}");
    replace(&*storage, &name, zeroed(forged, 0..100));
    let done = repaired(&storage, 4);
    assert!(done.failed.iter().any(|error| error.object() == name), "{done:?}");
    let repository = open(storage.clone(), 5).expect("it opens");
    let (_, errors) = checked(&repository);
    assert!(errors.iter().any(|object| object.starts_with("snapshot ")), "{errors:?}");
}

fn ask_for(storage: &Arc<dyn Storage>, process: u32, percent: u32) {
    let mut repository =
        Repository::open(storage.clone(), Machine::new(process), &unlock()).expect("it opens");
    let mut config = repository.config().clone();
    config.parity_percent = percent;
    repository.set_config(config).expect("memory takes settings");
}

/// Parity that is requested later is made once for the existing containers.
#[test]
fn parity_is_made_for_containers_without() {
    let storage = memory(0);
    let repository = open(storage.clone(), 2).expect("it opens");
    assert_clean(&repository, "no parity is asked for");
    assert!(names(&*storage, ObjectKind::Parity).is_empty(), "no parity is asked for");
    ask_for(&storage, 3, PERCENT);
    let repository = open(storage.clone(), 4).expect("it opens");
    let (report, errors) = checked(&repository);
    assert_eq!((report.unprotected_count, errors.len()), (2, 0), "{errors:?}");
    let done = repaired(&storage, 5);
    assert_eq!(done.protected_count, 2, "{done:?}");
    let stored: u64 = storage
        .list(ObjectKind::Parity.folder())
        .expect("memory lists")
        .into_iter()
        .map(|(_, len)| len)
        .sum();
    assert_eq!(done.parity_bytes, stored, "what it takes");
    assert_clean(&repository, "after the repair");
    assert_eq!(repaired(&storage, 6).protected_count, 0, "there is nothing left to do");
    ask_for(&storage, 7, 0);
    let repository = open(storage.clone(), 8).expect("it opens");
    back_up(&repository, &[50, 51], false).expect("nothing fails here");
    assert_eq!(names(&*storage, ObjectKind::Parity).len(), 2, "no more is asked for");
    assert_clean(&repository, "parity that is not asked for");
}

/// Damaged parity is an error that the repair removes by making new parity.
#[test]
fn damaged_parity_is_made_again() {
    let original = memory(PERCENT);
    for name in names(&*original, ObjectKind::Parity) {
        let bytes = original.get(&name).expect("it is there").to_vec();
        let len = bytes.len();
        for damaged in [
            zeroed(bytes.clone(), 20..30),
            zeroed(bytes.clone(), 500..501),
            zeroed(bytes.clone(), len - 100..len),
            bytes[..len / 2].to_vec(),
        ] {
            let storage = copy(&*original);
            replace(&*storage, &name, damaged);
            let repository = open(storage.clone(), 2).expect("it opens");
            let (report, errors) = checked(&repository);
            assert_eq!(errors, BTreeSet::from([name.clone()]), "what is named");
            assert_eq!(report.unprotected_count, 1, "{name}");
            assert!(report.damages.is_empty(), "no chunk is damaged");
            assert_eq!(repaired(&storage, 3).protected_count, 1, "{name}");
            assert_clean(&repository, &name);
        }
    }
}

/// Cancels after a number of questions, and makes reads fail once parity is made.
struct Meddling {
    asked: AtomicU64,
    limit: u64,
    storage: Option<Arc<FailingReads>>,
}

impl CheckMonitor for Meddling {
    fn expected(&self, _: u64, _: u64) {
        self.storage.iter().for_each(|storage| storage.arm(1));
    }

    fn cancelled(&self) -> bool {
        self.asked.fetch_add(1, Ordering::SeqCst) >= self.limit
    }
}

/// Parity is made of containers that can be read and are intact. Containers that a sweep has just
/// deleted are skipped, and those that the storage refuses are named.
#[test]
fn parity_is_made_only_of_intact_containers() {
    let unread = DataOptions { read_data: None, ..ALL };
    let begin = || {
        let storage = memory(0);
        ask_for(&storage, 3, PERCENT);
        let name = names(&*storage, ObjectKind::Data).remove(0);
        (storage, name)
    };
    for (kind, failed_count) in [(Kind::Missing, 0), (Kind::Storage, 1)] {
        let (storage, name) = begin();
        let failing = FailingReads::new(&storage, &name, kind, 0);
        let repository = open(failing.clone(), 4).expect("it opens");
        let asked = AtomicU64::new(0);
        let meddling = Meddling { asked, limit: u64::MAX, storage: Some(failing) };
        let done = repair_data(&repository, &unread, &meddling).expect("the rest is made");
        assert_eq!((done.protected_count, done.failed.len()), (1, failed_count), "{done:?}");
    }
    let (storage, name) = begin();
    let mut bytes = storage.get(&name).expect("it is there").to_vec();
    bytes[1000] ^= 1;
    replace(&*storage, &name, bytes);
    let repository = open(storage.clone(), 4).expect("it opens");
    let done = repair_data(&repository, &unread, &()).expect("the rest is made");
    assert_eq!((done.protected_count, done.failed.len()), (1, 0), "{done:?}");
}

/// A repair of data can be stopped between any two containers.
#[test]
fn data_repair_can_be_stopped() {
    let storage = memory(0);
    ask_for(&storage, 3, PERCENT);
    let repository = open(storage.clone(), 4).expect("it opens");
    let dry = DataOptions { dry_run: true, read_data: None, threads: 1 };
    let monitor = |limit| Meddling { asked: AtomicU64::new(0), limit, storage: None };
    let by_check = monitor(u64::MAX);
    let options = CheckOptions { threads: 1, ..CheckOptions::default() };
    check(&repository, &options, &by_check).expect("nothing fails here");
    let by_repair = monitor(u64::MAX);
    repair_data(&repository, &dry, &by_repair).expect("nothing fails here");
    let (by_check, by_repair) = (by_check.asked.into_inner(), by_repair.asked.into_inner());
    assert!(by_repair >= by_check + 2, "{by_repair} times, {by_check} of them by the check");
    for limit in 0..by_repair {
        let error = repair_data(&repository, &dry, &monitor(limit)).expect_err("it was stopped");
        assert_eq!(error.kind(), Kind::Interrupted, "after {limit}");
    }
}

/// Parity without its container is a note, and a container without parity is counted.
#[test]
fn parity_without_container_is_a_note() {
    let storage = memory(PERCENT);
    let repository = open(storage.clone(), 2).expect("it opens");
    let (report, _) = checked(&repository);
    assert_eq!((report.note_count, report.unprotected_count), (0, 0), "nothing is amiss");
    let name = names(&*storage, ObjectKind::Parity).remove(0);
    let Ok(ObjectName::Parity { class, container, writer }) = ObjectName::parse(&name) else {
        panic!("{name}")
    };
    let bytes = storage.get(&name).expect("it is there");
    let nobodys = PartName { count: container.count + 1000, ..container };
    let other = ObjectName::Parity { class, container: nobodys, writer }.to_string();
    storage.put_new(&other, bytes).expect("memory takes it");
    let findings = Findings::default();
    check(&repository, &CheckOptions::default(), &findings).expect("the check goes through");
    let findings = findings.0.into_inner().expect("no test panics in here");
    let named: Vec<_> = findings.iter().map(|it| (it.kind, it.object.as_str())).collect();
    assert_eq!(named, [(FindingKind::Foreign, other.as_str())]);
    storage.delete(&name).expect("it goes");
    let (report, _) = checked(&repository);
    let container = ObjectName::Container(class, container).to_string();
    let len = storage.head(&container).expect("memory answers").expect("it is there");
    assert_eq!((report.unprotected_count, report.unprotected_bytes), (1, len));
}

/// A damaged shard of parity costs that shard. The others still repair what they can.
#[test]
fn damaged_parity_helps_as_far_as_possible() {
    let storage = memory(PERCENT);
    let data = names(&*storage, ObjectKind::Data).remove(0);
    let parity = names(&*storage, ObjectKind::Parity);
    let parity = parity.into_iter().find(|name| name.contains("/data-")).expect("there is one");
    let bytes = storage.get(&parity).expect("it is there").to_vec();
    replace(&*storage, &parity, zeroed(bytes, 500..501));
    let bytes = storage.get(&data).expect("it is there").to_vec();
    replace(&*storage, &data, zeroed(bytes, 0..3 * SHARD_LEN));
    let done = repaired(&storage, 2);
    assert_eq!(done.rebuilt.len(), 1, "{done:?}");
    let repository = open(storage.clone(), 3).expect("it opens");
    assert_clean(&repository, "after the repair");
    assert_eq!(restore_all(&repository).expect("all is there"), 1);
}

/// A disk that cannot read one sector refuses the entire file, and returns the other sectors one by
/// one.
#[test]
fn container_with_an_unreadable_sector_is_restored() {
    let storage = memory(PERCENT);
    let name = names(&*storage, ObjectKind::Data).remove(0);
    let bad: Arc<dyn Storage> =
        Arc::new(BadSectors { inner: storage, prefix: name, at: Some(20_000) });
    let repository = open(bad.clone(), 2).expect("it opens");
    assert!(restore_all(&repository).is_err(), "the sector has something of a file");
    let done = repaired(&bad, 3);
    assert!(done.failed.is_empty() && done.rebuilt.len() == 1, "{done:?}");
    let repository = open(bad.clone(), 4).expect("it opens");
    assert_eq!(restore_all(&repository).expect("all is there"), 1);
}

/// Backs up, forgets the first of the previous snapshots, prunes and sweeps.
fn go_on(repository: &Arc<Repository>) -> Result<()> {
    go_on_to_prune(repository)?;
    sweep_all(repository).map(drop)
}

fn go_on_to_prune(repository: &Arc<Repository>) -> Result<()> {
    // Clocks of processes restart here: by time, the new snapshot may be the first.
    let first = View::list(repository)?.snapshots().first().map(|(id, _)| *id);
    back_up(repository, &[1, 2, 30, 31], false)?;
    let ids: Vec<TicketId> = first.into_iter().collect();
    let mut writer = Writer::begin(repository.clone(), Purpose::Other)?;
    writer.commit(Outcome::Forget(ids), Vec::new(), &BTreeSet::new())?;
    let everything = PruneOptions {
        unused_max: 0.0,
        rewrite_bytes_max: u64::MAX,
        small_count_max: usize::MAX,
        ..PruneOptions::default()
    };
    prune(repository, &everything, &(), |_| true).map(drop)
}

/// Sweeps, and returns the number of deleted parity objects.
fn sweep_all(repository: &Arc<Repository>) -> Result<u64> {
    let options = SweepOptions {
        settle_ns: 0,
        at_once: AtOnce::Never,
        commit_ns: i64::MAX,
        end_others: true,
    };
    let mut sweeper = Sweeper::new(repository.clone(), options);
    let mut parity_count = 0;
    while let Sweep::Done(swept) = sweeper.step(&())? {
        parity_count += swept.parity_count;
    }
    Ok(parity_count)
}

/// Checks that exactly the existing containers have parity.
fn assert_parity_follows(storage: &dyn Storage, case: &str) {
    let protected: BTreeSet<String> = names(storage, ObjectKind::Parity)
        .iter()
        .map(|name| match ObjectName::parse(name) {
            Ok(ObjectName::Parity { class, container, .. }) => {
                ObjectName::Container(class, container).to_string()
            }
            _ => panic!("{name} is no name of parity"),
        })
        .collect();
    assert_eq!(protected, containers(storage).into_iter().collect(), "{case}");
}

/// A prune writes parity for what it copies. A sweep deletes the parity of what it deletes, and of
/// what was deleted before.
#[test]
fn parity_is_deleted_with_its_container() {
    let storage = memory(PERCENT);
    let before = copy(&*storage);
    let repository = open(storage.clone(), 2).expect("it opens");
    go_on(&repository).expect("nothing fails here");
    assert_parity_follows(&*storage, "after the sweep");
    let mut all = names(&*before, ObjectKind::Parity).into_iter();
    let left_over = all.find(|name| storage.head(name).is_ok_and(|len| len.is_none()));
    let left_over = left_over.expect("a container has gone");
    let bytes = before.get(&left_over).expect("it was there");
    assert_clean(&repository, "after the sweep");
    assert_eq!(restore_all(&repository).expect("all is there"), 1);
    // The parity arrives late, after its container was swept.
    storage.put_new(&left_over, bytes).expect("memory takes it");
    assert_clean(&repository, "with parity that came late");
    let repository = open(storage.clone(), 3).expect("it opens");
    back_up(&repository, &[60], false).expect("nothing fails here");
    go_on(&repository).expect("nothing fails here");
    assert_parity_follows(&*storage, "after the next sweep");
}

/// Parity of a missing container that was not condemned stays, because it may be needed with what a
/// rescue of the disk finds of the container.
#[test]
fn parity_of_a_missing_container_stays() {
    let storage = memory(PERCENT);
    let repository = open(storage.clone(), 2).expect("it opens");
    go_on_to_prune(&repository).expect("nothing fails here");
    let condemned = View::list(&repository).expect("memory lists").condemned();
    let mut live = containers(&*storage).into_iter().filter(|name| match ObjectName::parse(name) {
        Ok(ObjectName::Container(class, part)) => !condemned.contains(&(class, part)),
        _ => panic!("{name} is no container"),
    });
    let missing = live.next().expect("something stays");
    let bytes = storage.get(&missing).expect("it is there").to_vec();
    storage.delete(&missing).expect("memory deletes");
    let before = names(&*storage, ObjectKind::Parity);
    let gone = sweep_all(&repository).expect("nothing needs it here");
    let after = names(&*storage, ObjectKind::Parity);
    assert!(gone > 0, "that of what was condemned goes");
    assert_eq!(after.len() as u64, before.len() as u64 - gone);
    storage.put_new(&missing, zeroed(bytes, 20_000..20_100).into()).expect("memory takes it");
    let done = repaired(&storage, 3);
    assert_eq!(done.rebuilt.len(), 1, "{done:?}");
    assert_clean(&open(storage.clone(), 4).expect("it opens"), "after the repair");
}

/// A run that is interrupted at any call, or has one failed call, leaves at most containers without
/// parity, and the repair makes it.
#[test]
fn interrupted_run_leaves_parity_to_be_made() {
    let original = memory(PERCENT);
    let count = {
        let faulty = Arc::new(Faulty::new(copy(&*original), Fault::None));
        go_on(&open(faulty.clone(), 2).expect("it opens")).expect("nothing fails here");
        faulty.calls()
    };
    let mut unprotected = 0;
    for call in 0..count {
        for fault in [Fault::DeadBefore(call), Fault::DeadAfter(call), Fault::FailsAt(call)] {
            let storage = copy(&*original);
            let faulty: Arc<dyn Storage> = Arc::new(Faulty::new(storage.clone(), fault));
            if let Ok(repository) = open(faulty, 2) {
                go_on(&repository).ok();
            }
            let case = format!("{fault:?}");
            let repository = open(storage.clone(), 3).expect("it opens");
            let (report, errors) = checked(&repository);
            assert!(errors.is_empty(), "{case}: {errors:?}");
            unprotected += report.unprotected_count;
            repaired(&storage, 4);
            assert_clean(&repository, &case);
            assert!(restore_all(&repository).expect("all is there") > 0, "{case}");
        }
    }
    assert!(unprotected > 0, "no run was cut off between a container and its parity");
}

/// The recorded damage is sufficient: no further check is needed.
#[test]
fn recorded_damage_is_rebuilt_without_another_check() {
    let storage = memory(PERCENT);
    let name = names(&*storage, ObjectKind::Data).remove(0);
    let bytes = storage.get(&name).expect("it is there").to_vec();
    replace(&*storage, &name, zeroed(bytes, 20_000..20_001));
    let repository = open(storage.clone(), 2).expect("it opens");
    let unread = DataOptions { read_data: None, ..ALL };
    let done = repair_data(&repository, &unread, &()).expect("memory takes it");
    assert!(done.rebuilt.is_empty(), "no check has run: {done:?}");
    let (report, _) = checked(&repository);
    record(&repository, &report.damages, |_, _| {}).expect("memory takes it");
    let repository = open(storage.clone(), 3).expect("it opens");
    let done = repair_data(&repository, &unread, &()).expect("memory takes it");
    assert_eq!(done.rebuilt.len(), 1, "{done:?}");
    assert_clean(&open(storage.clone(), 4).expect("it opens"), "after the repair");
}
