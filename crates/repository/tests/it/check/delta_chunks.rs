//! Checks of delta chunks: the findings, the recorded damage, and what heals it.

use crate::support::delta_chunks;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::support::backup::{back_up, init, open, restore_all};
use crate::support::damaged_repository::{Findings, Store, everything};
use crate::support::delta_chunks::{Record, back_up_similar, of_form};
use crate::support::pruning::sweep_all;
use bytes::Bytes;
use cutpoint_repository::format::commit::{Damage, Outcome};
use cutpoint_repository::format::toc::Form;
use cutpoint_repository::gc::prune::{OptimizeOptions, optimize};
use cutpoint_repository::verify::check::{
    CheckOptions, Coverage, FindingKind, Portion, check, record,
};
use cutpoint_repository::verify::describe::describe;
use cutpoint_repository::{
    Class, CommitResult, ObjectName, PartName, Purpose, Repository, View, Writer,
};
use cutpoint_storage::{Memory, Storage};

/// Three files; then later versions of two of them, as delta chunks, and an unchanged one; then a
/// later version of one of those. The first two snapshots are forgotten.
fn build() -> BTreeMap<String, Bytes> {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init(storage.clone()).expect("an empty memory takes a repository");
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[1, 2, 3], false).expect("nothing fails here");
    let back_up_next = |files| {
        let committed = back_up_similar(&repository, files).expect("nothing fails here");
        assert_eq!(committed, CommitResult::Done, "no other client ends it");
    };
    back_up_next(&[3, 1001, 2001]);
    let view = View::list(&repository).expect("it lists");
    back_up_next(&LAST);
    let mut writer = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
    let earlier = view.snapshots().into_iter().map(|(id, _)| id).collect();
    writer
        .commit(Outcome::Forget(earlier), Vec::new(), &BTreeSet::new())
        .expect("memory takes a commit");
    assert_eq!(of_form(&repository, Form::Delta).len(), 18, "each chunk of three versions");
    assert_eq!(of_form(&repository, Form::Literal).len(), 2, "their new bytes");
    assert_eq!(restore_all(&repository).expect("all is well"), 1, "a snapshot on the lists");
    everything(&*storage)
}

/// The files of the last snapshot.
const LAST: [u64; 3] = [3, 1_001_001, 2001];

fn container(part: PartName) -> String {
    ObjectName::Container(Class::Data, part).to_string()
}

/// Damages the region of a record.
fn damage_region(store: &Store, record: &Record) {
    let name = container(record.container);
    let mut bytes = store.storage.get(&name).expect("it is there").to_vec();
    bytes[record.region_offset as usize + 3] ^= 1;
    store.replace(&name, Some(bytes.into()));
}

/// Returns a full chunk of the first version of a file that delta chunks refer to.
fn old_full_chunk(repository: &Arc<Repository>) -> Record {
    let references: BTreeSet<_> = of_form(repository, Form::Delta)
        .into_iter()
        .flat_map(|delta_chunk| delta_chunk.references)
        .collect();
    let mut full_chunks = of_form(repository, Form::Full).into_iter();
    full_chunks
        .find(|full_chunk| references.contains(&full_chunk.chunk.fingerprint))
        .expect("there is one")
}

#[test]
fn sound_repository_has_no_findings() {
    let objects = build();
    for read_data in [false, true] {
        let store = Store::new(&objects);
        let findings = store.check(read_data);
        assert_eq!(findings.all, [], "nothing");
        assert_eq!(findings.report.damages, [], "nothing");
        store.compare(&findings, "undamaged");
        let count = delta_chunks::records(&store.repository).len() as u64;
        assert!(!read_data || findings.report.chunk_count >= count, "delta chunks are rebuilt");
    }
}

/// A chunk that only delta chunks refer to is damaged or gone. The check says so, and names what
/// depends on it. The next backup stores that again, and only that.
#[test]
fn missing_full_chunk_names_everything_that_depends_on_it() {
    let objects = build();
    let repository = Store::new(&objects).repository;
    let literals = of_form(&repository, Form::Literal);
    let of_last = of_form(&repository, Form::Delta);
    let is_last = |record: &&Record| {
        let refers = |it: &Record| it.references.contains(&record.chunk.fingerprint);
        of_last.iter().any(|it| it.container != record.container && refers(it))
    };
    let old = literals.iter().find(is_last).expect("the last version refers to an earlier literal");
    let full_chunk = old_full_chunk(&repository);
    for (case, record) in [("literal", old), ("full chunk", &full_chunk)] {
        for (is_gone, read_data) in [(false, true), (true, false), (true, true)] {
            let store = Store::new(&objects);
            let name = container(record.container);
            if is_gone {
                store.replace(&name, None);
            } else {
                damage_region(&store, record);
                assert_eq!(store.check(false).all, [], "{case}: nothing of it was looked at");
            }
            let findings = store.check(read_data);
            let case = format!("{case}, gone: {is_gone}, read: {read_data}");
            assert!(findings.has_error(&name), "{case}: {:#?}", findings.all);
            store.compare(&findings, &case);
            let affected = findings.of(FindingKind::Affected).any(|path| path.ends_with("1001001"));
            assert!(affected, "{case}: {:#?}", findings.all);
            let lacks =
                findings.all.iter().filter(|it| it.message.contains("lacks the full chunk"));
            let named: Vec<_> = lacks.map(|it| it.object.as_str()).collect();
            assert!(!named.is_empty(), "{case}: delta chunks are named: {:#?}", findings.all);
            assert!(named.iter().all(|it| it.starts_with("data chunk ")), "{case}: {named:?}");
            heal(&store, &findings, &case);
        }
    }
}

/// In a region in which one delta chunk lacks a full chunk, the others can be read. They are stored
/// again all the same, because a prune keeps all references of a region or none.
#[test]
fn neighbours_of_a_delta_chunk_with_a_missing_full_chunk_are_stored_again() {
    let store = Store::new(&build());
    let full_chunk = old_full_chunk(&store.repository);
    damage_region(&store, &full_chunk);
    let findings = store.check(true);
    let missing = findings.report.missing_count;
    let damages = &findings.report.damages;
    let delta_chunks = of_form(&store.repository, Form::Delta);
    let recorded = delta_chunks.iter().filter(|delta_chunk| {
        let is_it = |it: &&Damage| {
            it.container == delta_chunk.container && it.fingerprint == delta_chunk.chunk.fingerprint
        };
        damages.iter().any(|it| is_it(&it))
    });
    let count = recorded.count() as u64;
    assert!(missing > 0 && missing < count, "{missing} are missing, {count} recorded");
    heal(&store, &findings, "neighbours");
}

/// An optimization has moved everything, and a sweep has deleted the old containers, which segments
/// still name. The new container of a full chunk is damaged: only existing containers are named.
#[test]
fn deleted_containers_of_a_damaged_full_chunk_are_not_named() {
    let store = Store::new(&build());
    let options = OptimizeOptions { spares_incompressible: false, ..OptimizeOptions::default() };
    let optimized = optimize(&store.repository, &options, &(), |_| true).expect("it works");
    assert!(optimized.expect("approved").plan.rewritten_count > 0, "everything moves");
    sweep_all(&store.repository).expect("it works");
    assert_eq!(store.check(true).all, [], "before");
    let full_chunk = old_full_chunk(&store.repository);
    damage_region(&store, &full_chunk);
    let findings = store.check(true);
    assert!(findings.has_error(&container(full_chunk.container)), "{:#?}", findings.all);
    for finding in &findings.all {
        if let Ok(name @ ObjectName::Container(..)) = ObjectName::parse(&finding.object) {
            let exists = store.storage.head(&name.to_string()).expect("memory answers").is_some();
            assert!(exists, "{finding:?}");
        }
        assert!(!finding.message.contains("not found"), "{finding:?}");
    }
}

/// Only some containers are read: the full chunk is in one that is not, and its delta chunks are in
/// one that is.
#[test]
fn partial_check_finds_the_damaged_full_chunk_in_an_unread_container() {
    let store = Store::new(&build());
    let full_chunk = old_full_chunk(&store.repository);
    damage_region(&store, &full_chunk);
    let name = container(full_chunk.container);
    let coverage = Mutex::new(Coverage::default());
    let options = CheckOptions {
        read_data: Some(Portion::Share(150_000)),
        coverage: Some(&coverage),
        threads: 1,
    };
    // The newest container is read last, which takes several runs.
    let mut found = Vec::new();
    for _ in 0..7 {
        let report = check(&store.repository, &options, &()).expect("the storage works");
        found.push(report.error_count > 0);
        if let Some(damage) = report.damages.iter().find(|it| it.container == full_chunk.container)
        {
            assert_eq!(damage.class, Class::Data, "{name}");
        }
    }
    assert!(found.contains(&true), "{found:?}");
}

/// Records the damage, backs up the same files again, and expects that all is well.
fn heal(store: &Store, findings: &Findings, case: &str) {
    record(&store.repository, &findings.report.damages, |_, _| {}).expect("memory takes it");
    let again = store.check(true);
    assert!(again.report.error_count > 0, "{case}: it is missing until it is stored again");
    assert_eq!(again.report.damages, [], "{case}: all was recorded");
    store.compare(&again, case);
    // Another process, with other random numbers.
    let repository = open(store.storage.clone(), 40).expect("it opens");
    back_up_similar(&repository, &LAST).expect("nothing fails here");
    let healed = store.check(true);
    let errors: Vec<_> = healed.all.iter().filter(|finding| finding.is_error()).collect();
    assert!(errors.is_empty(), "{case}: {errors:#?}");
    store.compare(&healed, case);
    assert_eq!(restore_all(&repository).expect("it restores"), 2, "{case}: snapshots");
}

#[test]
fn delta_chunks_can_be_described() {
    let store = Store::new(&build());
    let delta_chunk = of_form(&store.repository, Form::Delta).remove(0);
    let name = ObjectName::Container(Class::Data, delta_chunk.container);
    let text = describe(&store.repository, name).expect("it is well").text;
    for (number, reference) in delta_chunk.references.iter().enumerate() {
        let line = format!("reference {number:>5}  {reference}");
        assert!(text.contains(&line), "{line}:\n{text}");
    }
    let line = format!("{:9} {}", "Delta", delta_chunk.chunk.fingerprint);
    assert!(text.contains(&line), "{line}:\n{text}");
    // 2000 bytes of the previous version lie before the new ones.
    let extents = text.lines().filter(|line| line.contains(" of reference "));
    assert!(extents.clone().any(|line| line.contains(" 2000  of reference ")), "{text}");
    assert!(extents.count() >= 3 * 6, "a copy, new bytes, a copy: {text}");
}
