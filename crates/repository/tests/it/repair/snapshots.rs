//! Snapshots with missing chunks, replaced by what is left of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use cutpoint_repository::crypto::HEADER_LEN;
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::verify::check::record;
use cutpoint_repository::verify::repair::{
    IndexOptions, PathLoss, RepairOutcome, SnapshotOptions, repair_index, repair_snapshots,
};
use cutpoint_repository::{ObjectName, PartName, View};

use super::{REPAIR, container, entries, errors, flip, later, names, read, repair, repair_all};
use crate::support::backup::{back_up, file, open};
use crate::support::bad_sectors::BadSectors;
use crate::support::damaged_repository::{Store, build, everything};

/// A file that has lost a part is kept under another name, with a hole. Everything else is
/// unchanged.
#[test]
fn remains_of_a_file_are_kept() {
    let store = Store::new(&build());
    let view = View::list(&store.repository).expect("it lists");
    let snapshots = view.snapshots();
    let [(first, _), (second, _)] = snapshots[..] else { panic!("{snapshots:?}") };
    let has_third = |id| entries(&store, id).iter().any(|entry| entry.name == b"file 0003");
    let ticket = if has_third(first) { first } else { second };
    // The first region of the first file: three chunks of six.
    let name = names(&store, "data")
        .into_iter()
        .find(|name| container(name).1 == PartName { ticket, count: 0 })
        .expect("it published in the middle");
    flip(&store, &name, HEADER_LEN + 10);
    let (done, heard) = repair(&store, REPAIR);
    assert!(done.snapshots.is_empty() && heard.is_empty(), "no check has run: {done:?}");

    let read_data = Some(cutpoint_repository::verify::check::Portion::All);
    let before = everything(&*store.storage);
    let dry = SnapshotOptions { dry_run: true, read_data, ..REPAIR };
    let (dry, dry_heard) = repair(&store, dry);
    assert_eq!(everything(&*store.storage), before, "a dry run writes nothing");
    assert!(
        dry.snapshots.iter().all(|each| each.outcome == RepairOutcome::WouldBeRepaired),
        "{dry:?}"
    );
    let (done, heard) = repair(&store, SnapshotOptions { read_data, ..REPAIR });
    assert_eq!(heard, dry_heard, "as announced");
    let kept_as = b"file 0001.cutpoint-damaged".to_vec();
    let ranges = [(0, 15_000)].map(|(start, end)| start..end).to_vec();
    let loss = PathLoss::Parts { ranges, size: 30_000, kept_as: kept_as.clone() };
    let expected = [first, second].map(|id| (id, "/file 0001".to_owned(), loss.clone()));
    assert_eq!(heard, expected, "what is lost");
    for (each, old) in done.snapshots.iter().zip([first, second]) {
        let RepairOutcome::Repaired(new) = each.outcome else { panic!("{each:?}") };
        let left = entries(&store, new);
        let names: Vec<_> = left.iter().map(|entry| entry.name.clone()).collect();
        let mut expected: Vec<_> = entries(&store, old).into_iter().map(|e| e.name).collect();
        expected[0].clone_from(&kept_as);
        assert_eq!(names, expected, "everything is there");
        let mut bytes = file(1);
        bytes[..15_000].fill(0);
        assert!(read(&store, &left[0]) == bytes, "what is left of it");
        for entry in &left[1..] {
            let number = String::from_utf8_lossy(&entry.name)[5..].parse().expect("a number");
            assert!(read(&store, entry) == file(number), "file {number} is intact");
        }
    }
    let view = View::list(&store.repository).expect("it lists");
    let ids: Vec<_> = view.snapshots().iter().map(|(id, _)| *id).collect();
    let new = done.snapshots.iter().map(|each| match each.outcome {
        RepairOutcome::Repaired(new) => new,
        outcome => panic!("{outcome:?}"),
    });
    let pairs: Vec<_> = [first, second].into_iter().zip(new).collect();
    // Both began at the same time in this test.
    for (old, new) in &pairs {
        let place = |id| ids.iter().position(|each| *each == id).expect("it is listed");
        assert!(place(*new) > place(*old), "the repaired one comes later");
    }
    assert!(!errors(&store.check(false)).is_empty(), "the old ones are on the lists still");

    // A second repair has nothing to do, and the old snapshots can be forgotten.
    let (again, _) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    for (each, (_, new)) in again.snapshots.iter().zip(&pairs) {
        assert_eq!(each.outcome, RepairOutcome::RepairedBefore(*new));
    }
    assert_eq!(again.forgotten, [first, second]);
    let findings = store.check(true);
    assert_eq!(errors(&findings), [""; 0], "nothing is wrong any more");
    assert!(findings.names(&name), "the damage is named all the same");
    let (last, _) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    assert!(last.snapshots.is_empty() && last.forgotten.is_empty(), "{last:?}");
}

/// Chunks that no index names are not lost while their container exists: no snapshot is forgotten
/// for them, and once the index is repaired none has to be. Here the only segment that named the
/// container was gone, and the storage refused the container when the index was rebuilt.
#[test]
fn chunks_missing_only_in_the_index_are_not_given_up() {
    let store = Store::new(&build());
    let (first, _) = View::list(&store.repository).expect("it lists").snapshots()[0];
    let of = |folder: &str| {
        let names = names(&store, folder).into_iter();
        names.filter(|name| match ObjectName::parse(name) {
            Ok(ObjectName::Segment(part) | ObjectName::Container(_, part)) => part.ticket == first,
            _ => false,
        })
    };
    of("index").for_each(|name| store.replace(&name, None));
    let prefix = of("data").next().expect("it has stored something");
    let (inner, name) = (store.storage.clone(), prefix.clone());
    let storage = Arc::new(BadSectors { inner, prefix, at: None });
    let repository = open(storage, 60).expect("it opens");
    let done = repair_index(&repository, &IndexOptions::default(), &()).expect("it repairs");
    assert_eq!(done.unreadable.len(), 1, "{done:?}");
    // A refused container may have the missing chunks; a damaged one does not.
    let dry = SnapshotOptions { dry_run: true, ..REPAIR };
    let done = repair_snapshots(&repository, &dry, &()).expect("the rest can be read");
    assert!(!done.snapshots.is_empty(), "{done:?}");
    assert!(done.snapshots.iter().all(|each| each.is_refused), "{done:?}");
    let damaged = Store::new(&everything(&*store.storage));
    damaged.replace(&name, Some(b"nothing".to_vec().into()));
    let (done, _) = repair(&damaged, dry);
    assert!(!done.snapshots.is_empty(), "{done:?}");
    assert!(done.snapshots.iter().all(|each| !each.is_refused), "{done:?}");

    let (done, heard) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    assert!(!heard.is_empty() && done.forgotten.is_empty(), "{done:?}");
    assert!(done.snapshots.iter().all(|each| each.is_refused), "{done:?}");
    let makeshift: Vec<_> = done
        .snapshots
        .iter()
        .filter_map(|each| match each.outcome {
            RepairOutcome::Repaired(new) => Some(new),
            _ => None,
        })
        .collect();
    assert!(!makeshift.is_empty(), "{done:?}");
    let (again, _) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    let is_makeshift =
        |outcome| matches!(outcome, RepairOutcome::RepairedBefore(it) if makeshift.contains(&it));
    assert!(again.snapshots.iter().all(|each| is_makeshift(each.outcome)), "{again:?}");
    repair_all(&store);
    let (done, heard) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    assert!(done.snapshots.is_empty() && heard.is_empty(), "{done:?}");
    assert_eq!(errors(&store.check(true)), [""; 0], "nothing is wrong");
}

/// Of files and folders of which nothing is left, only the remains of other entries are kept.
#[test]
fn entirely_missing_files_are_left_out() {
    let objects = build();
    let mut kinds = BTreeSet::new();
    for lost in objects.keys().filter(|name| name.starts_with("meta/") || name.starts_with("data/"))
    {
        let store = Store::new(&objects);
        store.replace(lost, None);
        let before = View::list(&store.repository).expect("it lists").snapshots().len();
        let (done, heard) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
        for (_, path, loss) in &heard {
            kinds.insert(match loss {
                PathLoss::Entries => "entries",
                PathLoss::File { .. } => "file",
                PathLoss::Parts { .. } => "parts",
            });
            assert_eq!(path.ends_with('/'), *loss == PathLoss::Entries, "{path}: {loss:?}");
        }
        let nothing_left =
            done.snapshots.iter().filter(|each| each.outcome == RepairOutcome::NothingLeft).count();
        let view = View::list(&store.repository).expect("it lists");
        assert_eq!(view.snapshots().len(), before - nothing_left, "{lost}: snapshots");
        assert_eq!(
            done.forgotten.len(),
            done.snapshots.len(),
            "{lost}: all that had lost something"
        );
        // The index still names the missing container.
        repair_all(&store);
        let findings = store.check(true);
        assert_eq!(errors(&findings), [""; 0], "{lost}");
        for (id, _) in view.snapshots() {
            for entry in entries(&store, id) {
                let found = read(&store, &entry);
                assert_eq!(found.len() as u64, entry.size, "{lost}: {entry:?}");
            }
        }
    }
    assert_eq!(kinds, BTreeSet::from(["entries", "file"]), "a container has complete files here");
}

/// A repair relies on nothing that a record calls damaged: chunks that can be read are stored
/// again.
#[test]
fn suspect_chunks_are_stored_again() {
    let store = Store::new(&build());
    let view = View::list(&store.repository).expect("it lists");
    let (first, _) = view.snapshots()[0];
    let of = |count| {
        let part = PartName { ticket: first, count };
        names(&store, "data")
            .into_iter()
            .find(|name| container(name).1 == part)
            .expect("it is there")
    };
    let (lost, suspect) = (of(0), of(1));
    // Both are damaged during the check, and one is intact again later.
    flip(&store, &suspect, HEADER_LEN + 10);
    let damages = store.check(true).report.damages;
    record(&later(&store), &damages, |_, _| {}).expect("memory takes it");
    flip(&store, &suspect, HEADER_LEN + 10);
    store.replace(&lost, None);
    assert!(store.check(false).report.missing_count > 0, "one is gone");
    let (done, heard) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    assert!(!heard.is_empty() && done.snapshots.iter().all(|each| !each.is_refused), "{done:?}");
    // From now on the suspect container is not needed.
    flip(&store, &suspect, HEADER_LEN + 10);
    repair_all(&store);
    let affected = errors(&store.check(true));
    assert_eq!(affected, [""; 0], "the repaired snapshots are intact");
}

/// With a damaged trailer, all chunks can be read as long as the index knows their places. They are
/// stored again. Until then the damage is an error, recorded or not.
#[test]
fn chunks_only_in_a_damaged_container_are_an_error() {
    let objects = build();
    let view = View::list(&Store::new(&objects).repository).expect("it lists");
    let ids: Vec<_> = view.snapshots().iter().map(|(id, _)| *id).collect();
    let is_listed = |name: &&String| {
        (name.starts_with("data/") || name.starts_with("meta/"))
            && ids.contains(&container(name).1.ticket)
    };
    for name in objects.keys().filter(is_listed) {
        let store = Store::new(&objects);
        flip(&store, name, objects[name].len() - 20);
        let findings = store.check(true);
        assert_eq!(findings.report.missing_count, 0, "{name}: all can be read");
        assert!(!findings.report.damages.is_empty(), "{name}: and it is recorded");
        record(&later(&store), &findings.report.damages, |_, _| {}).expect("memory takes it");
        assert!(store.check(true).has_error(name), "{name}: nothing else has its chunks");
        for files in [&[1, 2, 3][..], &[1, 2, 4, 5]] {
            back_up(&later(&store), files, false).expect("nothing fails here");
        }
        let findings = store.check(true);
        assert_eq!(errors(&findings), [""; 0], "{name}: now they are elsewhere");
        assert!(findings.names(name), "{name}: it is named all the same");
    }
}

#[test]
fn held_snapshots_are_not_forgotten() {
    let store = Store::new(&build());
    let view = View::list(&store.repository).expect("it lists");
    let (first, _) = view.snapshots()[0];
    let prune = Prune { held: vec![first], ..Prune::default() };
    store.repository.seal_and_put(ObjectName::Prune(1), &prune.encode()).expect("memory takes it");
    for name in names(&store, "data") {
        store.replace(&name, None);
    }
    let (done, _) = repair(&store, SnapshotOptions { forget: true, ..REPAIR });
    assert_eq!(done.held, [first], "{done:?}");
    assert!(!done.forgotten.contains(&first), "{done:?}");
}

/// An object that the storage refuses today may be readable tomorrow: the snapshot that has it
/// stays listed, beside its repaired version.
#[test]
fn snapshot_with_refused_objects_is_not_forgotten() {
    let store = Store::new(&build());
    let snapshots = View::list(&store.repository).expect("it lists").snapshots().len();
    let storage = BadSectors { inner: store.storage.clone(), prefix: "data/".to_owned(), at: None };
    let repository = open(Arc::new(storage), 60).expect("it opens");
    let options = SnapshotOptions { forget: true, ..REPAIR };
    let done = repair_snapshots(&repository, &options, &()).expect("the rest can be read");
    assert_eq!(done.snapshots.len(), snapshots, "{done:?}");
    assert!(done.snapshots.iter().all(|each| each.is_refused), "{done:?}");
    assert!(done.forgotten.is_empty(), "{done:?}");
    // The storage returns everything now, and no damage was recorded.
    let findings = store.check(true);
    assert_eq!(errors(&findings), [""; 0], "nothing is wrong");
    let view = View::list(&store.repository).expect("it lists");
    assert!(view.damaged().is_empty(), "nothing is recorded");
}
