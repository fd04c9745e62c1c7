//! A backup that is killed at every single call of the storage, and the next one, which continues.

use crate::support::backup;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::support::backup::{back_up, init, init_by, open, restore_all};
use bytes::Bytes;
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::segment::Segment;
use cutpoint_repository::index::load_toc;
use cutpoint_repository::rules::{self, Mutant};
use cutpoint_repository::write::Inline;
use cutpoint_repository::{
    Class, CommitResult, Fingerprint, ObjectName, PartName, Purpose, Repository, Snapshot,
    TicketId, Verify, View, Writer,
};
use cutpoint_storage::{Fault, Faulty, Kind, Memory, ObjectKind, Storage};

/// The files of the run that is killed. Files 1 and 2 are already stored.
const FILES: [u64; 5] = [1, 3, 4, 5, 6];

/// Creates a repository with one finished snapshot.
fn start() -> Arc<dyn Storage> {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init(storage.clone()).expect("an empty memory takes a repository");
    let repository = open(storage.clone(), 1).expect("it opens");
    let committed = back_up(&repository, &[1, 2], false).expect("nothing fails here");
    assert_eq!(committed, CommitResult::Done, "no other client ends it");
    storage
}

fn everything(storage: &dyn Storage) -> BTreeMap<String, Bytes> {
    let mut all = BTreeMap::new();
    for kind in ObjectKind::ALL {
        for (name, _) in storage.list(kind.folder()).expect("memory lists") {
            let bytes = storage.get(&name).expect("what is listed can be read");
            all.insert(name, bytes);
        }
    }
    all
}

/// Returns the chunks that segments of the repository name, each with the number of containers that
/// have it.
fn named_chunks(
    repository: &Repository,
    segments: impl IntoIterator<Item = PartName>,
) -> HashMap<(Class, Fingerprint), BTreeSet<PartName>> {
    let mut places: HashMap<_, BTreeSet<_>> = HashMap::new();
    for part in segments {
        let body = repository.get(ObjectName::Segment(part)).expect("a named segment is there");
        for container in Segment::decode(&body).expect("it decodes").containers {
            let toc = load_toc(repository, &container).expect("it is there");
            for chunk in toc.chunks {
                places
                    .entry((container.class, chunk.fingerprint))
                    .or_default()
                    .insert(container.name);
            }
        }
    }
    places
}

fn calls_of_a_backup() -> u64 {
    let faulty = Arc::new(Faulty::new(start(), Fault::None));
    let repository = open(faulty.clone(), 2).expect("it opens");
    back_up(&repository, &FILES, true).expect("nothing fails here");
    faulty.calls()
}

/// Runs into `fault`, checks what is left, and backs up again.
fn run_into(fault: Fault) {
    let storage = start();
    let before = everything(&*storage);
    let faulty: Arc<dyn Storage> = Arc::new(Faulty::new(storage.clone(), fault));
    let failed = open(faulty, 2).and_then(|repository| back_up(&repository, &FILES, true));
    if let (Fault::FullFrom(_), Err(error)) = (fault, &failed) {
        assert_eq!(error.kind(), Kind::Full, "{fault:?}: {error}");
    }
    let after = everything(&*storage);
    for (name, bytes) in &before {
        assert!(after.get(name) == Some(bytes), "{fault:?}: {name} was changed or is gone");
    }
    // Acknowledged snapshots exist. Others may exist, and are then complete.
    let repository = open(storage.clone(), 3).expect("a crash needs no repair");
    let snapshots = restore_all(&repository).expect("all snapshots restore");
    assert!((1..=2).contains(&snapshots), "{fault:?}: {snapshots} snapshots");
    assert!(failed.is_err() || snapshots == 2, "{fault:?}: the acknowledged snapshot is gone");

    let published: Vec<PartName> = storage
        .list(ObjectKind::Segment.folder())
        .expect("memory lists")
        .iter()
        .filter_map(|(name, _)| match ObjectName::parse(name) {
            Ok(ObjectName::Segment(part)) => Some(part),
            _ => None,
        })
        .collect();
    let known = named_chunks(&repository, published);
    let committed = back_up(&repository, &FILES, true).expect("the next run has a good storage");
    assert_eq!(committed, CommitResult::Done, "{fault:?}");
    let restored = restore_all(&repository).expect("all snapshots restore");
    assert_eq!(restored, snapshots + 1, "{fault:?}: the second run's snapshot");

    // The dead run was ended, so everything that it had published counts, and is not stored again.
    let view = View::list(&repository).expect("it lists");
    let tickets = storage.list(ObjectKind::Ticket.folder()).expect("memory lists").len();
    assert_eq!(tickets, view.commits.len(), "{fault:?}: a dead writer was not ended");
    for (chunk, places) in named_chunks(&repository, view.segments()) {
        if let Some(known) = known.get(&chunk) {
            assert_eq!(known, &places, "{fault:?}: {chunk:?} was stored again");
        }
    }
}

#[test]
fn backup_killed_before_any_call_loses_nothing() {
    let calls = calls_of_a_backup();
    assert!(calls > 20, "{calls} calls are too few to mean anything");
    println!("{calls} calls");
    (0..=calls).for_each(|call| run_into(Fault::DeadBefore(call)));
}

#[test]
fn backup_killed_after_any_call_loses_nothing() {
    (0..calls_of_a_backup()).for_each(|call| run_into(Fault::DeadAfter(call)));
}

#[test]
fn disk_full_at_any_put_loses_nothing() {
    (0..calls_of_a_backup()).for_each(|call| run_into(Fault::FullFrom(call)));
}

/// A visible object has not always reached the disk: a run that ignored that would promise too
/// much.
#[test]
fn unsynced_put_is_not_acknowledged() {
    let run = |fault| {
        let storage = start();
        let faulty = Arc::new(Faulty::new(storage.clone(), fault));
        let ended =
            open(faulty.clone(), 2).and_then(|repository| back_up(&repository, &FILES, true));
        let repository = open(storage, 3).expect("a crash needs no repair");
        let snapshots = restore_all(&repository).expect("all snapshots restore");
        (ended.is_ok(), snapshots, faulty.failures())
    };
    let (mut seen_alone, mut synced_again) = (0, 0);
    for call in 0..calls_of_a_backup() {
        let (is_acknowledged, snapshots, failures) = run(Fault::UnsyncedFrom(call));
        assert!(!is_acknowledged || failures == 0, "{call}: acknowledged");
        seen_alone += u64::from(!is_acknowledged && snapshots == 2);
        let (is_acknowledged, snapshots, failures) = run(Fault::UnsyncedAt(call));
        assert!(!is_acknowledged || snapshots == 2, "{call}: gone");
        synced_again += u64::from(is_acknowledged && failures > 0);
    }
    assert!(seen_alone >= 1, "no commit was seen that did not reach the disk");
    // Only the commit is read back and synced once more. Every other failure is an error of the
    // run.
    assert_eq!(synced_again, 1, "only the commit is worth a second try");
}

/// With equal state, environment and input the stored bytes are equal.
#[test]
fn equal_runs_store_equal_bytes() {
    let run = || {
        let storage = start();
        let repository = open(storage.clone(), 2).expect("it opens");
        back_up(&repository, &FILES, true).expect("nothing fails here");
        everything(&*storage)
    };
    let (first, second) = (run(), run());
    assert!(first.len() > 15, "{} objects are too few to mean anything", first.len());
    assert!(first.keys().eq(second.keys()), "the names differ");
    for (name, bytes) in first {
        assert!(second[&name] == bytes, "{name} differs");
    }
}

/// W5: a container disappears after the writer has found a chunk in it.
#[test]
fn commit_checks_that_its_hits_exist() {
    let run = |mutant| {
        let storage = start();
        let repository = open(storage.clone(), 2).expect("it opens");
        let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
        let root = writer.view().snapshots()[0].1.clone();
        let mut inline = Inline::new(writer, Verify::Some).expect("it begins");
        inline.store_data(&backup::file(1)[..5000]).expect("a hit");
        for (name, _) in storage.list("data").expect("memory lists") {
            storage.delete(&name).expect("memory deletes");
        }
        rules::activate(mutant);
        let committed = inline.commit(Outcome::Snapshot(Box::new(root)));
        rules::activate(None);
        (committed.expect("the storage works"), repository)
    };
    let (committed, repository) = run(None);
    assert_eq!(committed, CommitResult::Ended, "the hit's container is gone");
    assert_eq!(back_up(&repository, &[1, 2], false).expect("it works"), CommitResult::Done);
    let (committed, _) = run(Some(Mutant::TrustsHits));
    assert_eq!(committed, CommitResult::Done, "the mutant no longer breaks W5");
}

/// W5, with few hits and with many: if one of the containers in which the run has found chunks is
/// missing, there is only a void, and the caller learns that it has to begin again.
#[test]
fn commit_needs_every_container_that_was_hit() {
    for count in [1, 64, 65, 200] {
        for gone in [None, Some(0), Some(count - 1)] {
            let storage: Arc<dyn Storage> = Arc::new(Memory::new());
            init(storage.clone()).expect("an empty memory takes a repository");
            let repository = open(storage.clone(), 1).expect("it opens");
            let mut hits = BTreeSet::new();
            for number in 0..count {
                let class = if number % 3 == 0 { Class::Meta } else { Class::Data };
                let part = PartName { ticket: TicketId([7; 12]), count: number };
                hits.insert((class, part));
                if gone != Some(number) {
                    let name = ObjectName::Container(class, part).to_string();
                    storage.put_new(&name, Bytes::from_static(b"x")).expect("memory takes it");
                }
            }
            let mut writer = Writer::begin(repository, Purpose::Backup).expect("it begins");
            let outcome = Outcome::Snapshot(Box::new(Snapshot::empty()));
            let committed = writer.commit(outcome, Vec::new(), &hits).expect("memory takes it");
            let expected = if gone.is_none() { CommitResult::Done } else { CommitResult::Ended };
            assert_eq!(committed, expected, "{count} hits, {gone:?} gone");
            let view = View::list(writer.repository()).expect("it lists");
            let is_snapshot = view.commits[&writer.ticket()].snapshot().is_some();
            assert_eq!(is_snapshot, gone.is_none(), "{count} hits, {gone:?} gone");
        }
    }
}

/// Of two concurrent inits one wins, and has a repository that opens. The keyring that the other
/// leaves is skipped.
#[test]
fn keyring_of_an_interrupted_init_is_skipped() {
    for seed in 0..8 {
        let (won, lost): (Arc<dyn Storage>, Arc<dyn Storage>) =
            (Arc::new(Memory::new()), Arc::new(Memory::new()));
        for (storage, process) in [(&won, 1), (&lost, 100 + seed)] {
            init_by(storage.clone(), process).expect("an empty memory takes a repository");
        }
        for (name, _) in lost.list("keys").expect("memory lists") {
            let bytes = lost.get(&name).expect("it is there");
            won.put_new(&name, bytes).expect("memory takes it");
        }
        open(won, 1).expect("one of the keyrings opens the settings");
    }
}
