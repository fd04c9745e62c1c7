//! Commits and prune records that are missing, and are given up.

use std::collections::BTreeSet;
use std::sync::Arc;

use cutpoint_repository::crypto::HEADER_LEN;
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::format::recipe::Segment as Piece;
use cutpoint_repository::gc::prune::{PruneOptions, prune};
use cutpoint_repository::gc::sweep::{Sweep, SweepOptions, Sweeper};
use cutpoint_repository::repo::keys::OtherKeysPolicy;
use cutpoint_repository::verify::check::{Remedy, record};
use cutpoint_repository::verify::repair::{
    IndexOptions, PathLoss, RepairOutcome, SnapshotOptions, repair_index, repair_snapshots,
};
use cutpoint_repository::write::Inline;
use cutpoint_repository::{
    Class, Entry, ObjectName, PartName, Purpose, Repository, Verify, View, Writer,
};
use cutpoint_storage::Kind;

use super::{REPAIR, entries, errors, flip, has_ended, later, repair, sweep_all};
use crate::support::backup;
use crate::support::backup::{back_up, open};
use crate::support::damaged_repository::{Store, build};
use crate::support::failing_reads::FailingReads;
use crate::support::machine::Machine;

#[test]
fn missing_commit_can_be_given_up() {
    let objects = build();
    let view = View::list(&Store::new(&objects).repository).expect("it lists");
    let (first, _) = view.snapshots()[0];
    let name = ObjectName::Commit(first).to_string();
    for is_deleted in [false, true] {
        let store = Store::new(&objects);
        if is_deleted {
            store.replace(&name, None);
        } else {
            flip(&store, &name, 100);
        }
        assert!(store.check(false).has_error(&name), "it is named");
        // Other writers do not hide it. This one finds the writer's process dead.
        back_up(&later(&store), &[1, 2, 4, 5], false).expect("nothing fails here");
        assert!(store.check(false).has_error(&name), "deleted: {is_deleted}; it is named still");

        let (done, _) = repair(&store, REPAIR);
        assert_eq!(done.missing_commits, BTreeSet::from([first]), "it is told");
        assert!(store.check(false).has_error(&name), "it is not given up");
        let (done, _) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
        assert!(done.record.is_some(), "{done:?}");
        assert!(has_ended(&store, first), "deleted: {is_deleted}; no sweep waits for it");
        let (done, _) = repair(&store, REPAIR);
        assert_eq!(done.missing_commits, BTreeSet::new(), "deleted: {is_deleted}; once is enough");
        let findings = store.check(true);
        assert_eq!(errors(&findings), [""; 0], "deleted: {is_deleted}");
        store.compare(&findings, "given up");
        // Containers that only its snapshot had still exist, and are named.
        assert_eq!(findings.report.unreferenced_count, 0, "deleted: {is_deleted}");

        // The missing commit does not prevent deletion of condemned containers.
        let all = PruneOptions { unused_max: 0.0, ..PruneOptions::default() };
        let pruned = prune(&later(&store), &all, &(), |_| true).expect("it prunes");
        let number = pruned.and_then(|pruned| pruned.number);
        let last = sweep_all(&later(&store));
        assert!(
            number.is_some() && last == number,
            "deleted: {is_deleted}: {last:?} of {number:?}"
        );
        assert_eq!(errors(&store.check(true)), [""; 0], "deleted: {is_deleted}, swept");
    }
}

/// A commit that the storage refuses is not missing. One that it returns at the second attempt may
/// need chunks that were not looked at.
#[test]
fn refused_commits_are_not_given_up() {
    let store = Store::new(&build());
    let (id, _) = View::list(&store.repository).expect("it lists").snapshots()[0];
    let name = ObjectName::Commit(id).to_string();
    let repair_on = |count, process| {
        let storage = FailingReads::new(&store.storage, &name, Kind::Storage, count);
        repair_snapshots(&open(storage, process).expect("it opens"), &REPAIR, &())
    };
    let done = repair_on(u64::MAX, 60).expect("the rest can be read");
    assert_eq!(done.missing_commits, BTreeSet::new(), "{done:?}");
    let error = repair_on(1, 61).expect_err("it was not looked at");
    assert!(error.kind() == Kind::Storage && error.to_string().contains(&name), "{error}");
}

/// Without every prune record it is unknown what is condemned.
#[test]
fn repair_needs_all_prune_records() {
    let store = Store::new(&build());
    let name = ObjectName::Prune(1);
    store.repository.seal_and_put(name, &Prune::default().encode()).expect("memory takes it");
    flip(&store, &name.to_string(), 100);
    let error = repair_index(&store.repository, &IndexOptions::default(), &());
    assert_eq!(error.expect_err("it is unsafe").kind(), Kind::Corrupt);
}

/// A file whose other name is taken gets another one.
#[test]
fn taken_names_are_replaced() {
    let store = Store::new(&build());
    let repository = later(&store);
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let id = writer.ticket();
    let mut inline = Inline::new(writer, Verify::All).expect("the index opens");
    let mut tree = cutpoint_repository::write::TreeWriter::new();
    let taken = ["a", "a-b", "a.cutpoint-damaged", "a.cutpoint-damaged+", "b"];
    for (seed, name) in (100..).zip(taken) {
        let bytes = cutpoint_testing::SplitMix64::bytes(seed, 40_000);
        let mut recipe = cutpoint_repository::write::RecipeWriter::new("fixed");
        for chunk in bytes.chunks(10_000) {
            let fingerprint = inline.store_data(chunk).expect("memory takes it");
            let piece = Piece::Chunk { fingerprint, offset: 0, length: 10_000 };
            recipe.push(piece, &mut inline).expect("memory takes it");
        }
        let mut entry = Entry::new(name, cutpoint_repository::EntryKind::File);
        entry.size = 40_000;
        entry.content = recipe.finish(&mut inline).expect("memory takes it");
        tree.push(&entry, repository.keys(), &mut inline).expect("names rise");
    }
    let root = tree.finish(&mut inline).expect("memory takes it");
    let snapshot = cutpoint_repository::Snapshot { root, ..cutpoint_repository::Snapshot::empty() };
    inline.commit(Outcome::Snapshot(Box::new(snapshot))).expect("memory takes it");
    let name = ObjectName::Container(Class::Data, PartName { ticket: id, count: 0 }).to_string();
    flip(&store, &name, HEADER_LEN + 10);
    let read_data = Some(cutpoint_repository::verify::check::Portion::All);
    let (done, _) = repair(&store, SnapshotOptions { read_data, ..REPAIR });
    let [each] = &done.snapshots[..] else { panic!("{done:?}") };
    let RepairOutcome::Repaired(new) = each.outcome else { panic!("{each:?}") };
    let names: Vec<_> = entries(&store, new)
        .iter()
        .map(|entry| String::from_utf8_lossy(&entry.name).into_owned())
        .collect();
    let expected =
        ["a-b", "a.cutpoint-damaged", "a.cutpoint-damaged+", "a.cutpoint-damaged++", "b"];
    assert_eq!(names, expected);

    // A repaired file keeps its name when it loses more.
    flip(&store, &name, store.storage.get(&name).expect("it is there").len() / 4);
    let (done, heard) = repair(&store, SnapshotOptions { read_data, ..REPAIR });
    let twice: Vec<_> = heard.iter().filter(|(id, ..)| *id == new).collect();
    assert!(!twice.is_empty(), "it has lost more: {done:?}");
    for (_, _, loss) in twice {
        let PathLoss::Parts { kept_as, .. } = loss else { continue };
        assert!(!kept_as.ends_with(b"damaged.cutpoint-damaged"), "{loss:?}");
    }
}

/// A missing prune record, before or after its sweep, is given up once. Then it is no longer
/// missed, and it does not count if it reappears, because what it condemned may be needed by then.
#[test]
fn given_up_prune_record_does_not_count() {
    for is_swept in [false, true] {
        let case = format!("swept: {is_swept}");
        let store = Store::new(&build());
        let all = PruneOptions { unused_max: 0.0, ..PruneOptions::default() };
        let pruned = prune(&later(&store), &all, &(), |_| true).expect("it prunes");
        let number = pruned.and_then(|pruned| pruned.number).expect("there is a record");
        let name = ObjectName::Prune(number).to_string();
        let bytes = store.storage.get(&name).expect("it was put");
        if is_swept {
            assert_eq!(sweep_all(&later(&store)), Some(number), "{case}");
        }
        // Another writer has seen it.
        back_up(&later(&store), &[1, 2], false).expect("nothing fails here");
        let give_up = |number| IndexOptions {
            given_up_prunes: BTreeSet::from([number]),
            ..IndexOptions::default()
        };
        let kept = repair_index(&later(&store), &give_up(number), &()).expect_err("it is there");
        assert_eq!(kept.kind(), Kind::Invalid, "{case}");

        store.replace(&name, None);
        let named = store.check(true);
        let finding = named.all.iter().find(|finding| finding.object == name).expect("it is named");
        assert_eq!(finding.remedies, [Remedy::GiveUpPrune(number)], "{case}");
        back_up(&later(&store), &[1], false).expect_err("nothing can be written");
        let done = repair_index(&later(&store), &give_up(number), &()).expect("it repairs");
        assert!(done.record > Some(number), "{case}: no number is taken twice");
        // Chunks that its sweep has deleted are lost to the snapshot that it had taken.
        let findings = store.check(true);
        record(&later(&store), &findings.report.damages, |_, _| {}).expect("memory takes it");
        repair(&store, SnapshotOptions { forget: true, ..REPAIR });
        for is_back in [false, true] {
            if is_back {
                store.replace(&name, Some(bytes.clone()));
            }
            let view = View::list(&later(&store)).expect("it lists");
            assert!(!view.prunes.contains_key(&number), "{case}, back: {is_back}");
            view.require_prunes().expect("it is not missed");
            back_up(&later(&store), &[1, 2, 3, 4, 5], false).expect("it can be written to");
            let findings = store.check(true);
            assert_eq!(errors(&findings), [""; 0], "{case}, back: {is_back}");
            store.compare(&findings, &case);
            prune(&later(&store), &all, &(), |_| true).expect("it prunes");
            sweep_all(&later(&store));
            assert_eq!(errors(&store.check(true)), [""; 0], "{case}, back: {is_back}, swept");
        }
    }
}

/// A record that gave up another can itself be missing: each is given up by a command of its own.
#[test]
fn prune_record_that_gave_up_another_can_be_given_up() {
    let store = Store::new(&build());
    for number in 1..3 {
        let name = ObjectName::Prune(number);
        store.repository.seal_and_put(name, &Prune::default().encode()).expect("memory takes it");
    }
    let give_up = |number| {
        let given_up_prunes = BTreeSet::from([number]);
        let options = IndexOptions { given_up_prunes, ..IndexOptions::default() };
        repair_index(&later(&store), &options, &()).expect("it repairs").record.expect("a number")
    };
    store.replace(&ObjectName::Prune(1).to_string(), None);
    let second = give_up(1);
    flip(&store, &ObjectName::Prune(second).to_string(), 100);
    for number in [1, second] {
        assert!(store.check(false).has_error(&ObjectName::Prune(number).to_string()), "{number}");
    }
    give_up(1);
    give_up(second);
    back_up(&later(&store), &[1, 2], false).expect("it can be written to");
    assert_eq!(errors(&store.check(true)), [""; 0], "nothing is wrong");
}

/// Each record lists all records that were given up. If the one that gave up the first is itself
/// missing and given up, the first still does not count, although it may reappear.
#[test]
fn given_up_prune_record_stays_so_after_loss_of_the_later_record() {
    let store = Store::new(&build());
    let put = |number| {
        let name = ObjectName::Prune(number);
        store.repository.seal_and_put(name, &Prune::default().encode()).expect("memory takes it");
        name.to_string()
    };
    let first = put(1);
    let was_first = store.storage.get(&first).expect("it was put");
    put(2);
    let give_up = |number| {
        let given_up_prunes = BTreeSet::from([number]);
        let options = IndexOptions { given_up_prunes, ..IndexOptions::default() };
        repair_index(&later(&store), &options, &()).expect("it repairs").record.expect("a number")
    };
    store.replace(&first, None);
    let giving_up = give_up(1);
    repair_index(&later(&store), &IndexOptions::default(), &()).expect("another record");
    store.replace(&ObjectName::Prune(giving_up).to_string(), None);
    give_up(giving_up);
    store.replace(&first, Some(was_first));
    let view = View::list(&later(&store)).expect("it lists");
    assert_eq!(view.given_up_prunes(), BTreeSet::from([1, giving_up]));
    assert!(!view.prunes.contains_key(&1), "it counts no more");
    assert_eq!(errors(&store.check(true)), [""; 0], "nothing is wrong");
}

/// A writer that has not seen that a commit is given up could use its snapshot as a parent. Until
/// the record has settled, a sweep waits, and does not report damage.
#[test]
fn sweep_waits_until_a_given_up_commit_has_settled() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let store = Store::new(&build());
    let at = |process: u32, hours: u64| {
        let machine = Machine::at(process, (1 << 60) + hours * HOUR_NS);
        let opened = Repository::open(store.storage.clone(), machine, &backup::unlock());
        Arc::new(opened.expect("it opens"))
    };
    let options = PruneOptions { unused_max: 0.0, ..PruneOptions::default() };
    prune(&at(50, 0), &options, &(), |_| true).expect("it prunes");
    let (first, _) = View::list(&store.repository).expect("it lists").snapshots()[0];
    flip(&store, &ObjectName::Commit(first).to_string(), 100);
    let forget = SnapshotOptions { forget: true, ..REPAIR };
    let done = repair_snapshots(&at(51, 2), &forget, &()).expect("it repairs");
    assert_eq!(done.missing_commits, BTreeSet::from([first]), "it is given up");
    let settle_ns = i64::try_from(HOUR_NS).expect("an hour");
    let sweep = |process, hours| {
        let options = SweepOptions { settle_ns, ..SweepOptions::default() };
        Sweeper::new(at(process, hours), options).step(&()).expect("nothing is damaged")
    };
    assert!(matches!(sweep(52, 2), Sweep::Settling { .. }), "others may not have seen it");
    assert!(matches!(sweep(53, 4), Sweep::Done(_)), "everybody has seen it");
}

/// An object made with newer keys cannot be read by an older client, but is not missing.
#[test]
fn commit_of_a_newer_epoch_is_not_given_up() {
    let store = Store::new(&build());
    let process = Machine::new(60);
    let mut newer = Repository::open(store.storage.clone(), process, &backup::unlock());
    let newer = newer.as_mut().expect("it opens");
    newer.begin_epoch(&[backup::unlock()], OtherKeysPolicy::Remove).expect("a new epoch begins");
    let newer = open(store.storage.clone(), 61).expect("it opens");
    back_up(&newer, &[1, 2], false).expect("nothing fails here");
    let view = View::list(&newer).expect("it lists");
    let of_newer: BTreeSet<_> = view.commits.keys().copied().collect();
    // A client that opened the repository earlier: whatever else it reports, nothing is given up.
    repair_snapshots(&store.repository, &SnapshotOptions { forget: true, ..REPAIR }, &()).ok();
    let taken = View::list(&newer).expect("it lists").taken();
    assert!(of_newer.iter().all(|id| !taken.contains(id)), "{taken:?} of {of_newer:?}");
}
