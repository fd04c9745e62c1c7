//! Checks beside other clients: objects that disappear after the listing may have been deleted
//! rightly.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::backup::{back_up, open};
use crate::support::failing_reads::FailingReads;
use crate::support::overtaken::{OvertakenStorage, When};
use crate::support::pruning::{memory, start, start_similar, sweep_all};
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::gc::prune::{PruneOptions, prune};
use cutpoint_repository::verify::check::{
    CheckMonitor, CheckOptions, CheckReport, Finding, FindingKind, Portion, check,
};
use cutpoint_repository::write::prune_log::{AppendResult, append};
use cutpoint_repository::{ObjectName, Purpose, Repository, View, Writer};
use cutpoint_storage::{Fault, Faulty, Kind, Result, Storage};

/// Collects findings, and stops the check after a given number of questions.
struct Findings {
    all: Mutex<Vec<Finding>>,
    asked: AtomicU64,
    limit: u64,
}

impl Findings {
    fn new(limit: u64) -> Findings {
        Findings { all: Mutex::default(), asked: AtomicU64::new(0), limit }
    }
}

impl CheckMonitor for Findings {
    fn finding(&self, finding: &Finding) {
        self.all.lock().expect("no test panics in here").push(finding.clone());
    }

    fn cancelled(&self) -> bool {
        self.asked.fetch_add(1, Ordering::SeqCst) >= self.limit
    }
}

fn options(reads_data: bool) -> CheckOptions<'static> {
    let read_data = reads_data.then_some(Portion::All);
    CheckOptions { read_data, threads: 1, ..CheckOptions::default() }
}

fn check_on(storage: Arc<dyn Storage>, reads_data: bool) -> (CheckReport, Vec<Finding>) {
    let findings = Findings::new(u64::MAX);
    let repository = open(storage, 3).expect("it opens");
    let report = check(&repository, &options(reads_data), &findings).expect("the storage works");
    (report, findings.all.into_inner().expect("no panics"))
}

fn errors(findings: &[Finding]) -> Vec<&Finding> {
    findings.iter().filter(|finding| finding.is_error()).collect()
}

/// Prunes, leaving at most the given number of segments, and sweeps.
fn retire(repository: &Arc<Repository>, segment_count_max: usize) -> Result<()> {
    let options = PruneOptions { unused_max: 0.0, segment_count_max, ..PruneOptions::default() };
    prune(repository, &options, &(), |_| true)?.expect("it was approved");
    sweep_all(repository).map(drop)
}

/// Creates the storage that a check reads.
type Start = fn() -> Arc<dyn Storage>;

/// A prune and a sweep run between two calls of a check, which finds nothing wrong.
#[test]
fn check_overtaken_by_a_sweep_at_any_call_finds_nothing() {
    let starts: [(bool, usize, Start); 4] =
        [(false, 2, start), (true, 2, start), (false, 500, start), (true, 500, start_similar)];
    for (reads_data, segment_count_max, start) in starts {
        let counting = Arc::new(Faulty::new(start(), Fault::None));
        let (report, findings) = check_on(counting.clone(), reads_data);
        assert!(errors(&findings).is_empty(), "{findings:#?}");
        assert_eq!(report.snapshot_count, 3, "all are there");
        let calls = counting.calls();
        assert!(calls > 40, "{calls} calls are too few to mean anything");
        for call in 0..calls {
            let storage = start();
            let other = open(storage.clone(), 2).expect("it opens");
            let overtaken = OvertakenStorage::new(storage, When::BeforeCall(call), move || {
                retire(&other, segment_count_max).expect("nothing fails here");
            });
            let (_, findings) = check_on(overtaken.clone(), reads_data);
            assert!(overtaken.has_acted(), "before call {call} of {calls}");
            let errors = errors(&findings);
            assert!(errors.is_empty(), "before call {call} of {calls}: {errors:#?}");
        }
    }
}

/// Puts a record that condemns a container.
fn condemn(repository: &Arc<Repository>, name: &str) {
    let Ok(ObjectName::Container(class, part)) = ObjectName::parse(name) else { panic!("{name}") };
    let mut writer = Writer::begin(repository.clone(), Purpose::Prune).expect("it begins");
    let view = writer.view().clone();
    let record = Prune { condemned: vec![(class, part)], ..Prune::default() };
    let put = append(&mut writer, &view, record, &BTreeSet::new(), |_, _, it| Ok(Some(it)));
    assert!(matches!(put, Ok(AppendResult::Done(_))), "{put:?}");
}

/// An object that is listed and then gone is named, unless its kind may be deleted or it was
/// condemned.
#[test]
fn object_deleted_during_a_check_is_named_unless_it_may_go() {
    let begin = || {
        let storage = memory();
        let repository = open(storage.clone(), 1).expect("it opens");
        back_up(&repository, &[1, 2], false).expect("it works");
        back_up(&repository, &[1, 2], false).expect("it works");
        let (name, _) = storage.list("data").expect("memory lists").remove(0);
        (storage, repository, name)
    };
    for (folder, kind, expected) in [
        ("tickets/", Kind::Missing, None),
        ("tickets/", Kind::Storage, Some(FindingKind::Unneeded)),
        ("keys/", Kind::Missing, None),
        ("index/", Kind::Missing, Some(FindingKind::Missing)),
        ("data/", Kind::Missing, Some(FindingKind::Missing)),
        ("data/", Kind::Storage, Some(FindingKind::Corrupt)),
    ] {
        let (storage, _, _) = begin();
        let failing = FailingReads::new(&storage, folder, kind, 0);
        let repository = open(failing.clone(), 3).expect("it opens");
        failing.arm(u64::MAX);
        let findings = Findings::new(u64::MAX);
        check(&repository, &options(true), &findings).expect("it goes on");
        let findings = findings.all.into_inner().expect("no panics");
        let named = findings.iter().find(|finding| finding.object.starts_with(folder));
        assert_eq!(named.map(|it| it.kind), expected, "{folder}: {kind:?}: {findings:#?}");
    }
    // A commit was put meanwhile, which does not excuse the loss.
    let (storage, repository, name) = begin();
    let failing = FailingReads::new(&storage, &name, Kind::Missing, u64::MAX);
    let overtaken = OvertakenStorage::new(failing, When::AfterList("parity"), move || {
        back_up(&repository, &[1, 2], false).expect("nothing fails here");
    });
    let (_, findings) = check_on(overtaken, true);
    assert!(findings.iter().any(|it| it.object == name && it.is_error()), "{findings:#?}");
    // Condemned before the check, or meanwhile.
    for is_before in [true, false] {
        let (storage, repository, name) = begin();
        let failing = FailingReads::new(&storage, &name, Kind::Missing, u64::MAX);
        let of_container = |findings: &[Finding]| {
            findings.iter().filter(|it| it.object == name).cloned().collect::<Vec<_>>()
        };
        let overtaken = if is_before {
            condemn(&repository, &name);
            failing
        } else {
            let condemned = name.clone();
            let act = move || condemn(&repository, &condemned);
            OvertakenStorage::new(failing, When::AfterList("parity"), act) as Arc<dyn Storage>
        };
        let (_, findings) = check_on(overtaken, true);
        assert_eq!(of_container(&findings), [], "before: {is_before}");
    }
}

/// A commit that others have seen is gone. It is named, whatever was put since.
#[test]
fn missing_commit_is_named_whatever_follows() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[1], false).expect("it works");
    let (gone, _) = View::list(&repository).expect("it lists").snapshots()[0];
    back_up(&repository, &[1, 2], false).expect("it works");
    let name = ObjectName::Commit(gone).to_string();
    let bytes = storage.get(&name).expect("it is there");
    storage.delete(&name).expect("it goes");
    let overtaken = OvertakenStorage::new(storage.clone(), When::AfterList("parity"), move || {
        back_up(&repository, &[1, 2], false).expect("nothing fails here");
    });
    let (_, findings) = check_on(overtaken, false);
    let named = findings.iter().find(|finding| finding.object == name);
    assert_eq!(named.map(|finding| finding.kind), Some(FindingKind::Missing), "{findings:#?}");
    // The commit was only not listed.
    let (other, path) = (storage.clone(), name.clone());
    let overtaken = OvertakenStorage::new(storage, When::AfterList("parity"), move || {
        other.put_new(&path, bytes).expect("memory takes it");
    });
    let (_, findings) = check_on(overtaken, false);
    assert!(findings.iter().all(|finding| finding.object != name), "{findings:#?}");
}

/// A check can be stopped at any moment, also among delta chunks.
#[test]
fn check_can_be_stopped_at_any_moment() {
    let storage = start_similar();
    let repository = open(storage.clone(), 3).expect("it opens");
    let run = |limit| {
        let findings = Findings::new(limit);
        let checked = check(&repository, &options(true), &findings);
        let all = findings.all.into_inner().expect("no panics");
        (findings.asked.into_inner(), checked.map_err(|error| error.kind()), all)
    };
    let (asked, checked, complete) = run(u64::MAX);
    checked.expect("nothing fails here");
    assert!(asked > 30, "asked {asked} times");
    for limit in 0..asked {
        let (_, checked, findings) = run(limit);
        assert_eq!(checked.err(), Some(Kind::Interrupted), "after {limit}");
        assert!(
            findings.iter().all(|each| complete.contains(each)),
            "after {limit}: {findings:#?}"
        );
    }
}
