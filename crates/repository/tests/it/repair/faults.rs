//! Repairs with a fault at every single call: no more is lost than before, and the next repair
//! completes the work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::support::backup::{back_up, file, init, open};
use crate::support::damaged_repository::{check_on, everything};
use bytes::Bytes;
use cutpoint_repository::crypto::HEADER_LEN;
use cutpoint_repository::format::recipe::Segment as Piece;
use cutpoint_repository::rules::{self, Mutant};
use cutpoint_repository::verify::check::{FindingKind, Portion};
use cutpoint_repository::verify::repair::{
    IndexOptions, ObjectsOptions, RepairOutcome, SnapshotOptions, SnapshotsRepair, repair_index,
    repair_objects, repair_snapshots,
};
use cutpoint_repository::write::Inline;
use cutpoint_repository::{
    Class, Entry, ObjectName, PartName, Purpose, Reader, Repository, TicketId, Verify, View, Writer,
};
use cutpoint_storage::{Fault, Faulty, Kind, Memory, Result, Storage};

/// Creates every object of a repository that has lost an index segment, the bytes of another, a
/// part of a file that two snapshots have, all of a file of one, the commit of a third, and the
/// ticket of an interrupted writer.
fn damaged() -> BTreeMap<String, Bytes> {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init(storage.clone()).expect("an empty memory takes a repository");
    let repository = open(storage.clone(), 1).expect("it opens");
    let mut ids = Vec::new();
    for files in [&[1, 2, 3][..], &[1, 2, 4], &[5]] {
        back_up(&repository, files, true).expect("nothing fails here");
        let view = View::list(&repository).expect("memory lists");
        let new = view.snapshots().into_iter().find(|(id, _)| !ids.contains(id));
        ids.push(new.expect("a new snapshot").0);
    }
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let cut_off = writer.ticket();
    let mut inline = Inline::new(writer, Verify::All).expect("the index opens");
    inline.store_data(&file(9)).expect("memory takes a container");
    inline.publish().expect("memory takes a segment");

    let mut objects = everything(&*storage);
    let [first, second, third] = ids[..] else { panic!("three: {ids:?}") };
    let part = |ticket, count| PartName { ticket, count };
    let flip = |objects: &mut BTreeMap<String, Bytes>, name: ObjectName, place: usize| {
        let bytes = objects.get_mut(&name.to_string()).expect("it is there");
        let mut changed = bytes.to_vec();
        changed[place] ^= 1;
        *bytes = changed.into();
    };
    flip(&mut objects, ObjectName::Container(Class::Data, part(first, 0)), HEADER_LEN + 10);
    flip(&mut objects, ObjectName::Commit(third), 100);
    flip(&mut objects, ObjectName::Ticket { ticket: cut_off, renewal: 0 }, 100);
    // The only container of file data that the second snapshot has put.
    let gone = ObjectName::Container(Class::Data, part(second, 0)).to_string();
    objects.remove(&gone).expect("it is there");
    let of = |ticket| {
        let segments = objects.keys().filter_map(|name| ObjectName::parse(name).ok());
        segments
            .filter(|name| matches!(name, ObjectName::Segment(part) if part.ticket == ticket))
            .collect::<Vec<_>>()
    };
    let ([first, ..], [second, ..]) = (&of(first)[..], &of(second)[..]) else { panic!("segments") };
    let (first, second) = (*first, *second);
    objects.remove(&first.to_string());
    flip(&mut objects, second, 100);
    objects
}

fn storage_of(objects: &BTreeMap<String, Bytes>) -> Arc<dyn Storage> {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    for (name, bytes) in objects {
        storage.put_new(name, bytes.clone()).expect("memory takes it");
    }
    storage
}

/// Repairs everything as one process. Returns the result, and `true` if the storage has refused
/// something.
fn mend(storage: Arc<dyn Storage>, process: u32) -> Result<(SnapshotsRepair, bool)> {
    let repository = open(storage, process)?;
    let index = repair_index(&repository, &IndexOptions::default(), &())?;
    let read_data = Some(Portion::All);
    let options = SnapshotOptions { forget: true, read_data, threads: 1, dry_run: false };
    let done = repair_snapshots(&repository, &options, &())?;
    let mut refused = index.unreadable.iter().chain(&index.unreadable_segments);
    let is_refused = refused.any(|error| error.kind() == Kind::Storage)
        || done.snapshots.iter().any(|each| each.is_refused);
    Ok((done, is_refused))
}

/// Returns the bytes of a file; holes are zeros.
fn read(reader: &Reader, entry: &Entry) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for piece in reader.segments(&entry.content) {
        match piece? {
            Piece::Chunk { fingerprint, .. } => {
                bytes.extend_from_slice(&reader.chunk(Class::Data, &fingerprint)?);
            }
            Piece::Hole { length } | Piece::Zeros { length } => {
                bytes.resize(bytes.len() + usize::try_from(length).expect("it is small"), 0);
            }
        }
    }
    Ok(bytes)
}

type Files = BTreeMap<String, Vec<u8>>;

/// Returns the readable files of each snapshot, forgotten or not, and the unreadable ones.
fn readable(repository: &Arc<Repository>) -> (BTreeMap<TicketId, Files>, BTreeSet<String>) {
    let view = View::list(repository).expect("memory lists");
    let reader = Reader::open(repository.clone(), view).expect("what is damaged stops nothing");
    let (mut all, mut failed) = (BTreeMap::new(), BTreeSet::new());
    for (id, commit) in &reader.view().commits {
        let Some(snapshot) = commit.snapshot() else { continue };
        let mut files = Files::new();
        for entry in reader.tree(&snapshot.root) {
            let path = |name: &str| format!("snapshot {}: /{name}", id.short());
            let Ok(entry) = entry else {
                failed.insert(path(""));
                break;
            };
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            let Ok(bytes) = read(&reader, &entry) else {
                failed.insert(path(&name));
                continue;
            };
            let number = name[5..9].parse().expect("a number");
            let complete = file(number);
            let is_kept = |(byte, expected): (&u8, &u8)| byte == expected || *byte == 0;
            if name.len() == 9 {
                assert!(bytes == complete, "{name} comes back as other bytes");
            } else {
                let is_left = bytes.iter().zip(&complete).all(is_kept);
                assert!(
                    bytes.len() == complete.len() && is_left,
                    "{name}: other bytes than were saved"
                );
            }
            files.insert(name, bytes);
        }
        all.insert(*id, files);
    }
    (all, failed)
}

/// Returns the content of the listed snapshots, without their names.
fn listed(repository: &Arc<Repository>) -> Vec<Files> {
    let view = View::list(repository).expect("memory lists");
    let (all, _) = readable(repository);
    let mut listed: Vec<Files> =
        view.snapshots().iter().filter_map(|(id, _)| all.get(id).cloned()).collect();
    listed.sort();
    listed
}

fn errors(repository: &Arc<Repository>) -> Vec<String> {
    let findings = check_on(repository, true, 1).all;
    let errors = findings.iter().filter(|finding| finding.is_error());
    errors.map(|finding| format!("{}: {}", finding.object, finding.message)).collect()
}

/// The results of a repair without faults.
struct FaultlessRun {
    objects: BTreeMap<String, Bytes>,
    /// The readable files before it.
    before: BTreeMap<TicketId, Files>,
    /// The content of the listed snapshots after it.
    after: Vec<Files>,
    calls: u64,
}

fn expected() -> FaultlessRun {
    let objects = damaged();
    let storage = storage_of(&objects);
    let (before, failed) = readable(&open(storage.clone(), 2).expect("it opens"));
    assert!(!failed.is_empty(), "something is lost");
    let faulty = Arc::new(Faulty::new(storage.clone(), Fault::None));
    let (done, is_refused) = mend(faulty.clone(), 2).expect("nothing fails here");
    assert!(!is_refused, "{done:?}");
    assert_eq!(done.snapshots.len(), 2, "{done:?}");
    assert!(
        done.snapshots.iter().all(|each| matches!(each.outcome, RepairOutcome::Repaired(_))),
        "{done:?}"
    );
    assert!(done.forgotten.len() == 2 && done.missing_commits.len() == 1, "{done:?}");
    let repository = open(storage, 3).expect("it opens");
    assert_eq!(errors(&repository), [""; 0], "a second check finds nothing wrong");
    let after = listed(&repository);
    let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
    let (part, complete) = ("file 0001.cutpoint-damaged", ["file 0002", "file 0003"]);
    let left = [vec![part, complete[0]], vec![part, complete[0], complete[1]]];
    assert_eq!(after.iter().map(names).collect::<Vec<_>>(), left, "what is left");
    FaultlessRun { objects, before, after, calls: faulty.calls() }
}

/// Runs into `fault`, checks what is left, and repairs again. Returns `None` if the fault did not
/// occur, or if the run was the same as with a fault at another call.
fn run_into(expected: &FaultlessRun, fault: Fault) -> Option<Result<()>> {
    let storage = storage_of(&expected.objects);
    let faulty = Arc::new(Faulty::new(storage.clone(), fault));
    let done = mend(faulty.clone(), 2);
    let is_same = matches!(fault, Fault::UnsyncedFrom(call) if !faulty.failed_first_at(call));
    if is_same || faulty.failures() == 0 {
        return None;
    }
    let after = everything(&*storage);
    for (name, bytes) in &expected.objects {
        assert!(after.get(name) == Some(bytes), "{fault:?}: {name} was changed or is gone");
    }
    let repository = open(storage.clone(), 3).expect("a crash needs no repair");
    // No less can be read than before.
    let (all, failed) = readable(&repository);
    for (id, files) in &expected.before {
        for (name, bytes) in files {
            assert!(all[id].get(name) == Some(bytes), "{fault:?}: {id}: {name} is lost, too");
        }
    }
    // Unreadable files of listed snapshots are named, and nothing else is.
    let findings = check_on(&repository, true, 1);
    let affected: BTreeSet<String> =
        findings.of(FindingKind::Affected).map(str::to_owned).collect();
    let view = View::list(&repository).expect("memory lists");
    let is_listed = |path: &&String| {
        view.snapshots().iter().any(|(id, _)| path[9..].starts_with(&id.short().to_string()))
    };
    let lost: BTreeSet<&String> = failed.iter().filter(is_listed).collect();
    assert_eq!(lost, affected.iter().collect(), "{fault:?}: what is lost is named");
    // Forgotten snapshots have a replacement.
    let forgotten = view.forgotten();
    for id in expected.before.keys().filter(|id| forgotten.contains(id)) {
        let is_twin = |(twin, _): &(TicketId, _)| {
            view.commits[twin].snapshot().is_some_and(|twin| twin.parent == Some(*id))
        };
        assert!(view.snapshots().into_iter().any(|each| is_twin(&each)), "{fault:?}: {id}");
    }
    // The bytes of a container that was refused once have not been looked at.
    if let (Ok((done, false)), false) = (&done, matches!(fault, Fault::FailsAt(_))) {
        let wrong: Vec<_> = findings.all.iter().filter(|each| each.is_error()).collect();
        assert!(wrong.is_empty(), "{fault:?}: {done:?}: {wrong:?}");
    }

    let again =
        mend(storage.clone(), 4).unwrap_or_else(|error| panic!("{fault:?}: the next one: {error}"));
    let repository = open(storage.clone(), 5).expect("it opens");
    assert_eq!(errors(&repository), [""; 0], "{fault:?}: after the next one");
    let names = |all: &[Files]| -> Vec<Vec<(String, usize)>> {
        let zeros = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == 0).count();
        let of = |files: &Files| files.iter().map(|it| (it.0.clone(), zeros(it.1))).collect();
        all.iter().map(of).collect()
    };
    let found = listed(&repository);
    let (left, right) = (names(&found), names(&expected.after));
    assert!(
        found == expected.after,
        "{fault:?}: {left:?} is left, without it {right:?}: {done:?}, {again:?}"
    );
    // Everything that could be read once can still be read.
    let (again, _) = readable(&repository);
    for (id, files) in &all {
        let left = files.iter().all(|(name, bytes)| again[id].get(name) == Some(bytes));
        assert!(left, "{fault:?}: {id} has lost something to the next one");
    }
    let committed = back_up(&open(storage, 6).expect("it opens"), &[1, 2, 6], true);
    committed.unwrap_or_else(|error| panic!("{fault:?}: the next backup: {error}"));
    Some(done.map(drop))
}

/// Each kind of fault at each call of a repair of the index and of snapshots. A process that dies
/// after a call leaves the state of one that dies before the next call.
#[test]
fn repair_failing_at_any_call_loses_nothing() {
    let expected = expected();
    assert!(expected.calls > 100, "{} calls are too few to mean anything", expected.calls);
    let kinds: [fn(u64) -> Fault; 5] = [
        Fault::DeadBefore,
        Fault::FailsAt,
        Fault::UnsyncedAt,
        Fault::UnsyncedFrom,
        Fault::FullFrom,
    ];
    let run = &|kind: fn(u64) -> Fault| {
        let (mut states, mut failed) = (0, 0);
        for fault in (0..expected.calls).map(kind) {
            let Some(done) = run_into(&expected, fault) else { continue };
            let kind = done.err().map(|error| error.kind());
            // Similarity objects, and the end of a ticket, are not essential.
            let is_full = matches!(fault, Fault::FullFrom(_));
            assert!(!is_full || matches!(kind, None | Some(Kind::Full)), "{fault:?}: {kind:?}");
            states += 1;
            failed += u64::from(kind.is_some());
        }
        (states, failed)
    };
    run_into(&expected, Fault::DeadAfter(expected.calls - 1));
    let counts: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let threads = kinds.map(|kind| scope.spawn(move || run(kind)));
        threads.into_iter().map(|thread| thread.join().expect("it holds")).collect()
    });
    let (states, failed) = counts.iter().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    let calls = expected.calls;
    println!("{states} states of repairs, {calls} calls; {failed} failed, nothing more is lost");
    assert!(states > 1000, "{states} states are too few");
}

/// A repair of objects puts exactly the original bytes. An object whose original bytes cannot be
/// had stays as it is.
#[test]
fn object_is_put_again_as_it_was_or_not_at_all() {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init(storage.clone()).expect("an empty memory takes a repository");
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[1, 2], true).expect("nothing fails here");
    let published = everything(&*storage);
    // Returns the names of objects whose bytes are not the original ones, and the number of
    // repaired objects.
    let repair = |mutant: Option<Mutant>| {
        let (mut mended, mut other) = (0, BTreeSet::new());
        for (name, bytes) in &published {
            let end = bytes.len();
            // In a sealed part, in the trailer, and in its checksum.
            for places in
                [&[HEADER_LEN + 40][..], &[end - 30], &[end - 5], &[HEADER_LEN + 40, end - 5]]
            {
                let mut changed = bytes.to_vec();
                places.iter().for_each(|place| changed[*place] ^= 1);
                let changed = Bytes::from(changed);
                let mut objects = published.clone();
                objects.insert(name.clone(), changed.clone());
                let storage = storage_of(&objects);
                let Ok(repository) = open(storage.clone(), 2) else { continue };
                let options = ObjectsOptions {
                    read_data: Some(Portion::All),
                    threads: 1,
                    ..ObjectsOptions::default()
                };
                rules::activate(mutant);
                let done = repair_objects(&repository, &options, &());
                rules::activate(None);
                mended += done.map_or(0, |done| done.mended.len());
                let now = storage.get(name).expect("it is there");
                if now != *bytes && now != changed {
                    other.insert(name.split('/').next().expect("a folder").to_owned());
                }
            }
        }
        (mended, other)
    };
    let (mended, other) = repair(None);
    assert!(mended > 10, "{mended} objects are too few to mean anything");
    assert_eq!(other, BTreeSet::new(), "put as they never were");
    let (_, broken) = repair(Some(Mutant::MendsUnread));
    assert!(broken.contains("data"), "the rule can be broken unnoticed: {broken:?}");
}
