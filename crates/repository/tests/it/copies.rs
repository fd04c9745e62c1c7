//! Copies of a repository on another storage (`docs/scale.md`, "Many clients").

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cutpoint_repository::Repository;
use cutpoint_repository::gc::prune::{PruneOptions, prune};
use cutpoint_repository::gc::sweep::{Sweep, SweepOptions, Sweeper};
use cutpoint_repository::snapshots::forget;
use cutpoint_repository::verify::check::Finding;
use cutpoint_storage::{Error, Memory, ObjectKind, Storage};

use crate::support::backup::{back_up, back_up_embedding, init, open, restore_all};
use crate::support::damaged_repository::{Findings, Store, everything};

type Objects = BTreeMap<String, Bytes>;

fn repository_with_snapshots() -> (Arc<dyn Storage>, Arc<Repository>) {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init(storage.clone()).expect("an empty memory takes a repository");
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[1, 2], true).expect("nothing fails here");
    back_up_embedding(&repository, &[2, 3], false).expect("nothing fails here");
    (storage, repository)
}

/// Forgets the first snapshot, and deletes what no other needs.
fn forget_and_sweep(repository: &Arc<Repository>) {
    forget(repository, |view| Ok::<_, Error>(vec![view.snapshots()[0].0])).expect("it forgets");
    let pruned = prune(repository, &PruneOptions::default(), &(), |_| true);
    pruned.expect("it prunes").expect("approved").number.expect("a record");
    let options = SweepOptions { settle_ns: 0, ..SweepOptions::default() };
    let swept = Sweeper::new(repository.clone(), options).step(&());
    assert!(matches!(swept, Ok(Sweep::Done(_))), "{swept:?}");
}

fn errors(findings: &Findings) -> Vec<&Finding> {
    findings.all.iter().filter(|finding| finding.is_error()).collect()
}

#[test]
fn copy_that_lacks_an_object_is_readable_but_for_it() {
    let (storage, repository) = repository_with_snapshots();
    forget_and_sweep(&repository);
    back_up(&repository, &[3, 4], false).expect("nothing fails here");
    back_up_embedding(&repository, &[1, 4], false).expect("nothing fails here");
    let objects = everything(&*storage);
    let mut named_count = 0;
    for (lost, bytes) in &objects {
        let mut left = objects.clone();
        left.remove(lost);
        let copy = Store::new(&left);
        let findings = copy.check(true);
        // What the check does not name comes back equal.
        copy.compare(&findings, lost);
        named_count += usize::from(!errors(&findings).is_empty());
        copy.storage.put_new(lost, bytes.clone()).expect("memory takes it");
        let completed = open(copy.storage.clone(), 2).expect("it opens");
        assert_eq!(restore_all(&completed).expect("nothing is lost"), 3, "{lost}");
    }
    // At least the containers and segments, which every snapshot needs.
    let needed =
        |name: &&String| ["data/", "meta/", "index/"].iter().any(|at| name.starts_with(at));
    assert!(named_count >= objects.keys().filter(needed).count(), "{named_count} were named");
}

/// Copies while backups run: the commits are listed first and put last.
#[test]
fn copy_beside_backups_has_the_snapshots_of_its_beginning() {
    for commits_are_listed_first in [true, false] {
        let (storage, repository) = repository_with_snapshots();
        let listed = storage.list(ObjectKind::Commit.folder()).expect("memory lists");
        let mut copied = Objects::new();
        let mut copy = |names: Vec<(String, u64)>| {
            for (name, _) in names {
                let bytes = storage.get(&name).expect("nothing is deleted");
                copied.insert(name, bytes);
            }
        };
        for (kind, file) in ObjectKind::ALL.into_iter().zip(10..) {
            if kind != ObjectKind::Commit {
                copy(storage.list(kind.folder()).expect("memory lists"));
            }
            back_up(&repository, &[file], false).expect("nothing fails here");
        }
        let last = storage.list(ObjectKind::Commit.folder()).expect("memory lists");
        copy(if commits_are_listed_first { listed } else { last });
        let copy = Store::new(&copied);
        let findings = copy.check(true);
        assert_eq!(errors(&findings).is_empty(), commits_are_listed_first, "{:?}", findings.all);
        if commits_are_listed_first {
            assert_eq!(restore_all(&copy.repository).expect("nothing is lost"), 2);
        }
    }
}
