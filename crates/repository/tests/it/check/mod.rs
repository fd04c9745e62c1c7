//! Checks beyond the damage matrix: second copies, prunes, other writers, a failing storage, and
//! many threads.

mod damage;
mod delta_chunks;
mod matrix;
mod missing_commits;
mod overtaken;

use crate::support::backup;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::support::backup::{back_up, open, restore_all};
use crate::support::bad_sectors::BadSectors;
use crate::support::complete_reader::reader_of_all;
use crate::support::damaged_repository::{Findings, Store, build, check_on};
use crate::support::store_again::store_again;
use bytes::Bytes;
use cutpoint_repository::crypto::HEADER_LEN;
use cutpoint_repository::format::commit::{Damage, Outcome};
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::format::recipe::Segment as Piece;
use cutpoint_repository::format::segment::Segment;
use cutpoint_repository::verify::check::{CheckMonitor, CheckOptions, FindingKind, check, record};
use cutpoint_repository::verify::describe::{Description, describe, describe_chunk};
use cutpoint_repository::verify::repair::{IndexOptions, repair_index};
use cutpoint_repository::{
    Class, Content, Fingerprint, Index, ObjectName, PartName, Purpose, TicketId, View, Writer,
};
use cutpoint_storage::{Fault, Faulty, Kind, Memory, Storage};

/// Returns the first container of file data.
fn data_container(store: &Store) -> String {
    let view = View::list(&store.repository).expect("it lists");
    let index = Index::open(store.repository.clone(), &view).expect("it opens");
    let containers = index.containers();
    let record = containers.iter().find(|record| record.class == Class::Data);
    let record = record.expect("there are containers of file data");
    ObjectName::Container(record.class, record.name).to_string()
}

fn flip(store: &Store, name: &str, place: usize) {
    let mut bytes = store.storage.get(name).expect("it is there").to_vec();
    bytes[place] ^= 1;
    store.replace(name, Some(bytes.into()));
}

/// After a `damage` commit the next backup stores missing chunks again. The damage stays, the loss
/// does not.
#[test]
fn chunks_stored_again_are_not_missing() {
    let store = Store::new(&build());
    let name = data_container(&store);
    // In the first region: other regions of the container are intact.
    flip(&store, &name, HEADER_LEN + 10);
    let findings = store.check(true);
    assert!(findings.has_error(&name), "{:#?}", findings.all);
    assert!(findings.of(FindingKind::Affected).count() > 0, "files need it");
    assert!(findings.report.missing_count > 0, "chunks are missing");
    store.compare(&findings, "before");

    let damages = &findings.report.damages;
    let mut counts = Vec::new();
    record(&store.repository, damages, |_, count| counts.push(count)).expect("memory takes it");
    assert_eq!(counts, [damages.len()], "all fits in one commit");
    assert_eq!(store.check(true).report.damages, [], "nothing is recorded twice");
    back_up(&store.repository, &[1, 2, 3, 4, 5], false).expect("nothing fails here");

    let findings = store.check(true);
    assert!(findings.names(&name), "it is damaged still: {:#?}", findings.all);
    assert_eq!(errors(&findings), [""; 0], "but nothing needs it");
    assert_eq!(findings.report.missing_count, 0, "all is there");
    store.compare(&findings, "after");
    assert_eq!(restore_all(&store.repository).expect("it restores"), 3, "snapshots");
}

/// Records that take two commits, of which the storage accepts one: that one counts.
#[test]
fn damage_recorded_before_a_failure_is_reported() {
    let damage = |number: u32| {
        let mut fingerprint = [0; 32];
        fingerprint[..4].copy_from_slice(&number.to_be_bytes());
        let container = PartName { ticket: TicketId([0; 12]), count: 0 };
        Damage { class: Class::Data, container, fingerprint: Fingerprint(fingerprint) }
    };
    let damages: Vec<_> = (0..100_001).map(damage).collect();
    let record_into = |fault| {
        let store = Store::new(&build());
        let faulty = Arc::new(Faulty::new(store.storage.clone(), fault));
        let repository = backup::open(faulty.clone(), 1).expect("it opens");
        let mut counts = Vec::new();
        let result = record(&repository, &damages, |_, count| counts.push(count));
        (result, counts, faulty.calls())
    };
    let (result, counts, calls) = record_into(Fault::None);
    result.expect("nothing fails here");
    assert_eq!(counts, [100_000, 1], "two commits");
    let (result, counts, _) = record_into(Fault::DeadBefore(calls - 1));
    result.expect_err("the storage is dead");
    assert_eq!(counts, [100_000], "the first commit was made");
}

fn put_prune(store: &Store, number: u64, prune: &Prune) {
    let name = ObjectName::Prune(number);
    store.repository.seal_and_put(name, &prune.encode()).expect("memory takes it");
}

fn errors(findings: &Findings) -> Vec<String> {
    let errors = findings.all.iter().filter(|finding| finding.is_error());
    errors.map(|finding| format!("{}: {}", finding.object, finding.message)).collect()
}

#[test]
fn objects_taken_by_a_prune_are_not_missing() {
    let objects = build();
    let store = Store::new(&objects);
    let view = View::list(&store.repository).expect("it lists");
    let snapshots = view.commits.iter().filter(|(_, commit)| commit.snapshot().is_some());
    let taken: Vec<TicketId> = snapshots.map(|(id, _)| *id).collect();
    let containers: Vec<_> = objects
        .keys()
        .filter_map(|name| match ObjectName::parse(name) {
            Ok(ObjectName::Container(class, part)) => Some((class, part)),
            _ => None,
        })
        .collect();
    let prune = Prune {
        superseded: view.segments().into_iter().collect(),
        condemned: containers.clone(),
        taken: taken.clone(),
        ..Prune::default()
    };
    put_prune(&store, 1, &prune);
    for ticket in taken {
        store.replace(&ObjectName::Commit(ticket).to_string(), None);
        store.replace(&ObjectName::Ticket { ticket, renewal: 0 }.to_string(), None);
    }
    for part in view.segments() {
        store.replace(&ObjectName::Segment(part).to_string(), None);
    }
    for (class, part) in containers {
        store.replace(&ObjectName::Container(class, part).to_string(), None);
    }
    let findings = store.check(true);
    assert_eq!(errors(&findings), [""; 0], "all of it was taken");
    assert_eq!(findings.report.snapshot_count, 0, "snapshots");

    // Without the record, the container is missing. The record itself is missing once another has
    // followed.
    put_prune(&store, 2, &Prune::default());
    let name = ObjectName::Prune(1).to_string();
    store.replace(&name, None);
    let findings = store.check(true);
    assert!(findings.of(FindingKind::Missing).any(|object| object == name), "{findings:#?}");
    assert!(errors(&findings).len() > 1, "and all that it explained: {findings:#?}");
}

#[test]
fn damaged_prune_record_is_named() {
    let store = Store::new(&build());
    put_prune(&store, 1, &Prune { time_ns: 5, ..Prune::default() });
    let name = ObjectName::Prune(1).to_string();
    flip(&store, &name, 70);
    let findings = store.check(false);
    assert_eq!(errors(&findings).len(), 1, "{findings:#?}");
    assert!(findings.has_error(&name), "{findings:#?}");
}

#[test]
fn foreign_file_is_a_note() {
    let store = Store::new(&build());
    for name in ["data/note.txt", "commits/README", "config/0"] {
        store.replace(name, Some(Bytes::from_static(b"hello")));
        let findings = store.check(true);
        assert!(findings.of(FindingKind::Foreign).any(|object| object == name), "{findings:#?}");
        assert!(findings.names(name) && !findings.has_error(name), "{findings:#?}");
        assert_eq!(errors(&findings), [""; 0], "{name}");
    }
}

#[test]
fn findings_are_independent_of_threads() {
    let objects = build();
    let store = Store::new(&objects);
    for name in objects.keys().filter(|n| n.starts_with("data/") || n.starts_with("meta/")) {
        flip(&store, name, 100);
    }
    let of = |threads| {
        let mut findings = check_on(&store.repository, true, threads);
        findings.report.covered.since_ns = None;
        let all: BTreeSet<String> = findings.all.iter().map(|f| format!("{f:?}")).collect();
        (all, findings.report)
    };
    let one = of(1);
    assert!(one.1.error_count > 7, "every container is damaged");
    for threads in [2, 7, 0] {
        assert_eq!(of(threads), one, "{threads} threads");
    }
}

#[test]
fn check_can_be_stopped() {
    struct Stop;

    impl CheckMonitor for Stop {
        fn cancelled(&self) -> bool {
            true
        }
    }

    let store = Store::new(&build());
    let error = check(&store.repository, &CheckOptions::default(), &Stop).expect_err("stopped");
    assert_eq!(error.kind(), Kind::Interrupted);
}

/// One object that the disk does not return is a finding. If it returns none, the check ends.
#[test]
fn bad_sector_does_not_end_the_check() {
    let objects = build();
    let store = Store::new(&objects);
    for name in
        objects.keys().filter(|name| !name.starts_with("config/") && !name.starts_with("keys/"))
    {
        let storage = BadSectors { inner: store.storage.clone(), prefix: name.clone(), at: None };
        let repository = open(Arc::new(storage), 1).expect("settings and keys can be read");
        let findings = check_on(&repository, true, 1);
        assert!(findings.names(name), "{name}: {:#?}", findings.all);
    }
    // All tickets, commits, segments and containers together exceed the tolerated number.
    for number in 0..20 {
        let ticket = ObjectName::Ticket { ticket: TicketId([number; 12]), renewal: 0 };
        store.replace(&ticket.to_string(), Some(Bytes::from_static(b"anything")));
    }
    let storage =
        BadSectors { inner: store.storage.clone(), prefix: "tickets/".to_owned(), at: None };
    let repository = open(Arc::new(storage), 1).expect("settings and keys can be read");
    let error = check(&repository, &CheckOptions::default(), &()).expect_err("nothing can be read");
    assert_eq!(error.kind(), Kind::Storage);
}

#[test]
fn every_object_can_be_described() {
    let objects = build();
    let store = Store::new(&objects);
    for name in objects.keys() {
        let Description { text, .. } =
            describe(&store.repository, ObjectName::parse(name).expect("a name"))
                .expect("nothing is damaged");
        assert!(text.contains(name.as_str()), "{name}: {text}");
        assert!(text.lines().count() > 8, "{name}: {text}");
    }
    let reader = reader_of_all(&store.repository).expect("it opens");
    let view = reader.view();
    let snapshots = view.commits.values().filter_map(|commit| commit.snapshot());
    for snapshot in snapshots {
        for entry in reader.tree(&snapshot.root) {
            let entry = entry.expect("nothing is damaged");
            if let Content::Recipe(fingerprint) = entry.content {
                let text = describe_chunk(&reader, Class::Meta, &fingerprint).expect("it is there");
                assert!(text.contains("level: "), "{text}");
            }
        }
    }
    // A damaged object is an error, not a panic.
    for name in objects.keys() {
        for place in [4, 70] {
            flip(&store, name, place);
            let _ = describe(&store.repository, ObjectName::parse(name).expect("a name"));
            flip(&store, name, place);
        }
    }
}

/// A prune may publish one segment for the containers of many writers.
#[test]
fn containers_published_by_a_prune_are_found_without_its_segment() {
    let store = Store::new(&build());
    let view = View::list(&store.repository).expect("it lists");
    let (mut merged, mut superseded) = (Segment::default(), Vec::new());
    for part in view.segments() {
        let body = store.repository.get(ObjectName::Segment(part)).expect("it is there");
        let segment = Segment::decode(&body).expect("it is intact");
        let first = u32::try_from(merged.containers.len()).expect("there are few");
        merged.containers.extend(segment.containers);
        merged.hints.extend(segment.hints.iter().map(|(hint, number)| (*hint, number + first)));
        superseded.push(part);
    }
    merged.hints.sort_unstable();
    let part = PartName { ticket: TicketId([0x55; 12]), count: 0 };
    let name = ObjectName::Segment(part);
    store.repository.seal_and_put(name, &merged.encode()).expect("memory takes it");
    put_prune(&store, 1, &Prune { published: vec![part], superseded, ..Prune::default() });
    assert_eq!(errors(&store.check(false)), [""; 0], "merged");
    for damaged in [name, ObjectName::Prune(1)] {
        flip(&store, &damaged.to_string(), 100);
        let findings = store.check(false);
        assert_eq!(errors(&findings).len(), 1, "{findings:#?}");
        assert!(findings.has_error(&damaged.to_string()), "{findings:#?}");
        store.compare(&findings, &damaged.to_string());
        flip(&store, &damaged.to_string(), 100);
    }
}

/// A writer relies only on what it can read (W2): chunks that only an unreadable segment names are
/// stored again, and from then on the segment is not needed.
#[test]
fn chunks_named_only_by_an_unreadable_segment_are_stored_again() {
    let objects = build();
    for (number, segment) in (2..).zip(objects.keys().filter(|name| name.starts_with("index/"))) {
        let store = Store::new(&objects);
        let name = ObjectName::parse(segment).expect("a name");
        let body = store.repository.get(name).expect("it is there");
        let named = Segment::decode(&body).expect("it is intact").containers;
        flip(&store, segment, 100);
        let view = View::list(&store.repository).expect("it lists");
        let repository = open(store.storage.clone(), number).expect("it opens");
        back_up(&repository, &[1, 2, 3, 4, 5], false).expect("nothing fails here");
        for container in named {
            let name = ObjectName::Container(container.class, container.name);
            store.replace(&name.to_string(), None);
        }
        let reader = store.reader();
        let snapshots = reader.view();
        let snapshots = snapshots.snapshots();
        let new = snapshots.iter().find(|(id, _)| !view.commits.contains_key(id));
        let (_, snapshot) = new.expect("it was made");
        for entry in reader.tree(&snapshot.root) {
            let entry = entry.expect("its tree is found");
            for piece in reader.segments(&entry.content) {
                let Piece::Chunk { fingerprint, .. } = piece.expect("its recipe is found") else {
                    continue;
                };
                let chunk = reader.chunk(Class::Data, &fingerprint);
                assert!(chunk.is_ok(), "{segment} is needed: {chunk:?}");
            }
        }
    }
}

/// Without a prune record it is unknown what is condemned: readers go on, writers must not.
#[test]
fn unreadable_prune_record_stops_only_writers() {
    let store = Store::new(&build());
    put_prune(&store, 1, &Prune::default());
    let name = ObjectName::Prune(1).to_string();
    flip(&store, &name, 100);
    let view = View::list(&store.repository).expect("it lists");
    assert_eq!(view.unreadable.len(), 1, "{:?}", view.unreadable);
    assert_eq!(view.snapshots().len(), 2, "snapshots");
    let error = Writer::begin(store.repository.clone(), Purpose::Backup).expect_err("it is unsafe");
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(error.to_string().contains(&name), "{error}");
}

/// The same holds for a record that is gone. The numbers show that, and so do writers that have
/// seen it.
#[test]
fn missing_prune_record_stops_only_writers() {
    for gone in [1, 2] {
        let store = Store::new(&build());
        put_prune(&store, 1, &Prune::default());
        put_prune(&store, 2, &Prune::default());
        let later = |process| open(store.storage.clone(), process).expect("it opens");
        back_up(&later(2), &[1, 2, 3], false).expect("nothing fails here");
        let name = ObjectName::Prune(gone).to_string();
        store.replace(&name, None);
        assert!(store.check(false).has_error(&name), "{name}");
        assert_eq!(restore_all(&store.repository).expect("it restores"), 3, "snapshots");
        let error = Writer::begin(later(3), Purpose::Backup).expect_err("it is unsafe");
        assert_eq!(error.kind(), Kind::Missing, "{error}");
        assert!(error.to_string().contains(&name), "{error}");
    }
}

/// Condemned containers do not excuse the loss of others.
#[test]
fn missing_container_that_no_prune_condemned_is_an_error() {
    let objects = build();
    let store = Store::new(&objects);
    let containers: Vec<_> = objects
        .keys()
        .filter_map(|name| match ObjectName::parse(name) {
            Ok(ObjectName::Container(class, part)) => Some((class, part)),
            _ => None,
        })
        .collect();
    let [first, second, ..] = containers[..] else { panic!("there are containers") };
    put_prune(&store, 1, &Prune { condemned: vec![first], ..Prune::default() });
    let name = |(class, part)| ObjectName::Container(class, part).to_string();
    for container in [first, second] {
        store.replace(&name(container), None);
    }
    let findings = store.check(false);
    let missing: Vec<_> = findings.of(FindingKind::Missing).collect();
    assert!(missing.contains(&name(second).as_str()), "{missing:?}");
    assert!(!missing.contains(&name(first).as_str()), "{missing:?}");
}

/// A writer with broken memory seals wrong bytes: only reading every chunk shows that.
#[test]
fn chunk_that_differs_from_its_record_is_found() {
    let store = Store::new(&build());
    let repository = &store.repository;
    let keys = repository.keys().clone();
    let mut writer = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
    let chunk = |name: &[u8], bytes: &[u8]| {
        (Class::Data, keys.fingerprint(Class::Data, name), bytes.to_vec())
    };
    let bad = keys.fingerprint(Class::Data, b"bad");
    let chunks = [chunk(b"good", b"good"), chunk(b"bad", b"b4d")];
    let segments = store_again(repository, writer.ticket(), chunks).expect("memory takes it");
    writer.void(segments).expect("memory takes it");
    assert_eq!(errors(&store.check(false)), [""; 0], "without a look at the data");
    let findings = store.check(true);
    let [error] = &errors(&findings)[..] else { panic!("{findings:#?}") };
    assert!(error.contains(&bad.to_string()), "the chunk is named: {error}");
    let damaged: Vec<_> = findings.report.damages.iter().map(|d| d.fingerprint).collect();
    assert_eq!(damaged, [bad], "and it can be recorded");
}

/// Prunes look for the references of delta chunks only where the index says that there are
/// delta chunks.
#[test]
fn index_that_is_wrong_about_delta_chunks_is_named() {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    backup::init_with(storage.clone(), 0, true, 0).expect("an empty memory takes a repository");
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[100], false).expect("it works");
    back_up(&repository, &[101, 7], false).expect("it works");
    let view = View::list(&repository).expect("it lists");
    let clean = check_on(&repository, false, 1);
    assert_eq!(errors(&clean), [""; 0], "nothing is wrong yet");
    let mut turned: BTreeSet<String> = BTreeSet::new();
    for part in view.segments() {
        let name = ObjectName::Segment(part);
        let body = repository.get(name).expect("it is there");
        let mut segment = Segment::decode(&body).expect("it decodes");
        for container in segment.containers.iter_mut().filter(|each| each.class == Class::Data) {
            container.has_delta_chunks = !container.has_delta_chunks;
            turned.insert(ObjectName::Container(Class::Data, container.name).to_string());
        }
        storage.delete(&name.to_string()).expect("it goes");
        repository.seal_and_put(name, &segment.encode()).expect("memory takes it");
    }
    assert_eq!(turned.len(), 2, "one with delta chunks, and one without");
    for read_data in [false, true] {
        let findings = check_on(&repository, read_data, 1);
        let named: BTreeSet<String> =
            findings.of(FindingKind::Corrupt).map(str::to_owned).collect();
        assert_eq!(named, turned, "{read_data}: {:#?}", findings.all);
        assert_eq!(findings.report.missing_count, 0, "all can be read");
    }
    repair_index(&repository, &IndexOptions::default(), &()).expect("it works");
    assert_eq!(errors(&check_on(&repository, true, 1)), [""; 0], "made again");
}

/// One copy of a key is missing. A similarity object is present and damaged.
#[test]
fn second_copies_and_hints_are_checked() {
    let store = Store::new(&build());
    let report = store.check(false);
    let keys: Vec<String> = list(&store, "keys");
    assert!(!keys.iter().any(|name| report.names(name)), "{:#?}", report.all);
    store.replace(&keys[0], None);
    let findings = store.check(false);
    assert!(findings.of(FindingKind::Missing).eq([keys[0].as_str()]), "{:#?}", findings.all);
    let hints =
        ObjectName::Similarity(PartName { ticket: TicketId([1; 12]), count: 0 }).to_string();
    store.replace(&hints, Some(Bytes::from_static(b"anything")));
    assert!(store.check(false).names(&hints), "damaged hints");
}

fn list(store: &Store, folder: &str) -> Vec<String> {
    let listed = store.storage.list(folder).expect("memory lists");
    listed.into_iter().map(|(name, _)| name).collect()
}

/// The counts of a check.
#[test]
fn check_counts_what_it_has_seen() {
    let objects = build();
    let store = Store::new(&objects);
    let report = store.check(false).report;
    let containers = objects.keys().filter(|name| name.starts_with("data/")).count()
        + objects.keys().filter(|name| name.starts_with("meta/")).count();
    assert_eq!(report.snapshot_count, 3, "one of them forgotten");
    assert_eq!(report.container_count, containers as u64);
    assert_eq!((report.unreferenced_count, report.unreferenced_bytes), (0, 0));
    // Seven files of six chunks, and trees.
    assert!(report.reference_count > 7 * 6 + 3, "{report:?}");
    // An unreadable segment may have named the containers of its writer.
    let view = View::list(&store.repository).expect("it lists");
    let (id, _) = view.snapshots()[0];
    let segment = *view.commits[&id].segments.first().expect("it has one");
    flip(&store, &ObjectName::Segment(segment).to_string(), 100);
    assert_eq!(store.check(false).report.container_count, containers as u64, "as before");
    // A container of an unknown writer, which no segment names, is unreferenced.
    let store = Store::new(&objects);
    let stranger = TicketId([9; 12]);
    let part = PartName { ticket: stranger, count: 0 };
    let name = ObjectName::Container(Class::Data, part).to_string();
    store.replace(&name, Some(Bytes::from(vec![0; 1000])));
    let report = store.check(false).report;
    assert_eq!((report.unreferenced_count, report.unreferenced_bytes), (1, 1000));
    assert_eq!(report.container_count, containers as u64, "it is not among them");
}

/// A container that is longer than what was put is named without being read.
#[test]
fn lengths_are_compared_with_the_listing() {
    let store = Store::new(&build());
    let name = data_container(&store);
    let mut bytes = store.storage.get(&name).expect("it is there").to_vec();
    bytes.extend_from_slice(&[0; 100]);
    store.replace(&name, Some(bytes.into()));
    let findings = store.check(false);
    let finding = findings.all.iter().find(|finding| finding.object == name).expect("it is named");
    assert!(finding.message.starts_with("wrong length"), "{finding:?}");
}

/// Chunks shared by listed and forgotten snapshots are missing. Those that only forgotten ones need
/// are counted.
#[test]
fn missing_chunks_of_forgotten_snapshots_are_only_counted() {
    for (files, missing_count) in [(&[1_u64][..], 0), (&[1, 2], 6)] {
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        backup::init(storage.clone()).expect("an empty memory takes a repository");
        let repository = open(storage.clone(), 1).expect("it opens");
        back_up(&repository, &[2], false).expect("nothing fails here");
        let (name, _) = storage.list("data").expect("memory lists").remove(0);
        let (id, _) = View::list(&repository).expect("it lists").snapshots()[0];
        back_up(&repository, files, false).expect("nothing fails here");
        let mut writer = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
        let outcome = Outcome::Forget(vec![id]);
        writer.commit(outcome, Vec::new(), &BTreeSet::new()).expect("memory takes it");
        drop(writer);
        let store = Store { storage, repository };
        store.replace(&name, None);
        let findings = store.check(false);
        assert_eq!(findings.report.missing_count, missing_count, "{:#?}", findings.all);
        let told: Vec<_> = findings.all.iter().filter(|it| it.object == "chunks").collect();
        let told: Vec<_> = told.iter().map(|it| (it.kind, it.message.as_str())).collect();
        let message = "6 needed only by forgotten snapshots are missing";
        let expected = (missing_count == 0).then_some((FindingKind::Unneeded, message));
        assert_eq!(told, Vec::from_iter(expected), "{:#?}", findings.all);
    }
}
