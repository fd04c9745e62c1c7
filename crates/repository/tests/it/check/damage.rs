//! The damage matrix: `check` names every kind of damage to every kind of object, and undamaged
//! objects can still be read.

use crate::support::backup;
use std::collections::BTreeMap;

use crate::support::damaged_repository::{Findings, Store, build};
use bytes::Bytes;
use cutpoint_repository::verify::check::FindingKind;
use cutpoint_repository::{Class, ObjectName, PartName, TicketId};

type Objects = BTreeMap<String, Bytes>;

fn parse(name: &str) -> ObjectName {
    ObjectName::parse(name).expect("only objects are listed")
}

/// Returns the class that a test treats alike: the kind, and `true` for a second copy.
fn kind_of(name: &str) -> (&str, bool) {
    (name.split_once('/').expect("a folder").0, name.ends_with(".copy"))
}

/// Returns `true` if anything depends on an object. Nothing depends on settings that newer ones
/// have replaced, nor on the ticket of a writer that has ended.
fn counts(objects: &Objects, name: &str) -> bool {
    match parse(name) {
        ObjectName::Config { number, .. } => number == 1,
        ObjectName::Ticket { ticket, .. } => {
            !objects.contains_key(&ObjectName::Commit(ticket).to_string())
        }
        _ => true,
    }
}

/// Returns `true` if the check names an object, by an error if anything depends on it.
fn is_found(objects: &Objects, findings: &Findings, name: &str) -> bool {
    findings.names(name) && findings.has_error(name) == counts(objects, name)
}

/// Returns the first object that counts of each kind, copies separately.
fn one_of_each(objects: &Objects) -> Vec<&str> {
    let mut chosen: Vec<&str> = Vec::new();
    for name in objects.keys().filter(|name| counts(objects, name)) {
        if chosen.last().is_none_or(|_| chosen.iter().all(|c| kind_of(c) != kind_of(name))) {
            chosen.push(name);
        }
    }
    assert_eq!(chosen.len(), 9, "config and key twice, and five more: {chosen:?}");
    chosen
}

/// Replaces one object, and expects that the check names it and that everything else can be read.
fn expect_named(objects: &Objects, name: &str, bytes: Option<Bytes>, case: &str) {
    let store = Store::new(objects);
    store.replace(name, bytes);
    let findings = store.check(true);
    assert!(findings.has_error(name), "{name}: {case} was not found: {:#?}", findings.all);
    store.compare(&findings, &format!("{name}: {case}"));
}

#[test]
fn sound_repository_has_no_findings() {
    let objects = build();
    for read_data in [false, true] {
        let store = Store::new(&objects);
        let findings = store.check(read_data);
        let kinds: Vec<_> = findings.all.iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, [FindingKind::Unfinished], "{:#?}", findings.all);
        store.compare(&findings, "undamaged");
        let report = findings.report;
        assert_eq!(report.snapshot_count, 3, "snapshots, the forgotten one too");
        assert!(report.container_count >= 7, "{} containers", report.container_count);
        assert_eq!(report.unreferenced_count, 0, "all are named");
        let containers =
            objects.iter().filter(|(name, _)| matches!(parse(name), ObjectName::Container(..)));
        let stored: usize = containers.map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(report.read_bytes, if read_data { stored as u64 } else { 0 }, "bytes read");
        assert_eq!(report.chunk_count > 0, read_data, "chunks verified");
    }
}

/// Every object of the repository, except those whose deletion cannot be told from an allowed one.
#[test]
fn deletion_of_any_object_is_found() {
    let objects = build();
    let mut unseen = 0;
    for name in objects.keys() {
        let store = Store::new(&objects);
        store.replace(name, None);
        let findings = store.check(true);
        store.compare(&findings, &format!("{name}: deleted"));
        if is_found(&objects, &findings, name) {
            continue;
        }
        unseen += 1;
        match parse(name) {
            // Sweeps delete the tickets of ended writers without a trace of each ticket, and
            // nothing depends on such a ticket. Without the ticket of an open writer, nothing
            // names its segments.
            ObjectName::Ticket { .. } => {}
            // No other client has seen the commit, so its writer looks like one that died before
            // its commit. The remaining ticket shows that.
            ObjectName::Commit(ticket) => {
                let ticket = ObjectName::Ticket { ticket, renewal: 0 }.to_string();
                assert!(
                    findings.of(FindingKind::Unfinished).any(|object| object == ticket),
                    "{name}: deleted, and no ticket is left over"
                );
                let later = objects.keys().filter(|other| other.starts_with("commits/")).count();
                assert!(later > 1, "all commits but the newest are named by a later one");
            }
            // No other client has seen what an open writer has put.
            ObjectName::Segment(_) => assert!(
                findings.report.unreferenced_count > 0,
                "{name}: the containers that only it names are left"
            ),
            _ => panic!("{name}: its deletion was not found"),
        }
    }
    let tickets = objects.keys().filter(|name| name.starts_with("tickets/")).count();
    assert_eq!(unseen, tickets + 2, "tickets, the newest commit, one segment");
}

#[test]
fn truncation_of_any_object_is_found() {
    let objects = build();
    for name in one_of_each(&objects) {
        let bytes = &objects[name];
        let len = bytes.len();
        for cut in [0, 1, 63, 64, 65, len / 4, len / 2, len - 33, len - 32, len - 16, len - 1] {
            expect_named(&objects, name, Some(bytes.slice(..cut)), &format!("cut at {cut}"));
        }
    }
}

#[test]
fn bytes_behind_the_end_are_found() {
    let objects = build();
    for name in one_of_each(&objects) {
        for zeros in [1, 256, 64 * 1024] {
            let mut bytes = objects[name].to_vec();
            bytes.resize(bytes.len() + zeros, 0);
            let bytes = Bytes::from(bytes);
            expect_named(&objects, name, Some(bytes.clone()), &format!("{zeros} bytes more"));
            // The length alone shows the damage, without reading the data.
            let store = Store::new(&objects);
            store.replace(name, Some(bytes));
            assert!(store.check(false).has_error(name), "{name}: {zeros} bytes more");
        }
    }
}

/// One bit each: every byte of header and trailer, and a spread of those between, in parts, their
/// tags and the padding.
#[test]
fn flipped_bits_are_found() {
    let objects = build();
    for name in one_of_each(&objects) {
        let bytes = &objects[name];
        let len = bytes.len();
        let step = (len / 48).max(5);
        let between = (64..len - 32).step_by(step);
        for place in (0..64).chain(between).chain(len - 32..len) {
            let mut flipped = bytes.to_vec();
            flipped[place] ^= 1 << (place % 8);
            let case = format!("bit {} of byte {place} flipped", place % 8);
            expect_named(&objects, name, Some(flipped.into()), &case);
        }
    }
}

/// Every pair of objects, each in the place of the other.
#[test]
fn swapped_objects_are_found() {
    let objects = build();
    let chosen = one_of_each(&objects);
    let same = chosen.iter().filter_map(|name| {
        let mut others = objects.keys().filter(|other| kind_of(other) == kind_of(name));
        Some((*name, others.rfind(|other| other != name)?.as_str()))
    });
    let same: Vec<_> = same.collect();
    assert_eq!(same.len(), 9, "there are two of each kind: {same:?}");
    let mixed = chosen.iter().flat_map(|a| chosen.iter().map(|b| (*a, *b)));
    for (one, other) in same.into_iter().chain(mixed) {
        // The copies of one object have the same bytes.
        if objects[one] == objects[other] {
            continue;
        }
        let store = Store::new(&objects);
        store.replace(one, Some(objects[other].clone()));
        store.replace(other, Some(objects[one].clone()));
        let findings = store.check(true);
        for name in [one, other] {
            let is_found = is_found(&objects, &findings, name);
            assert!(is_found, "{one} and {other} swapped: {:#?}", findings.all);
        }
        store.compare(&findings, &format!("{one} and {other} swapped"));
    }
}

/// A valid object under a new name. Nothing needs it, so it is an error only if anything could come
/// to need it.
#[test]
fn duplicated_objects_are_found() {
    let objects = build();
    let ticket = TicketId([0x77; 12]);
    let part = PartName { ticket, count: 0 };
    for name in one_of_each(&objects) {
        let other = match parse(name) {
            ObjectName::Config { copy, .. } => ObjectName::Config { number: 2, copy },
            ObjectName::Key { copy, .. } => ObjectName::Key { id: [0x77; 16], copy },
            ObjectName::Ticket { .. } => ObjectName::Ticket { ticket, renewal: 0 },
            ObjectName::Commit(_) => ObjectName::Commit(ticket),
            ObjectName::Segment(_) => ObjectName::Segment(part),
            ObjectName::Container(class, _) => ObjectName::Container(class, part),
            ObjectName::Prune(_)
            | ObjectName::Similarity(_)
            | ObjectName::Parity { .. }
            | ObjectName::View { .. } => {
                unreachable!("there are none")
            }
        };
        for read_data in [false, true] {
            let store = Store::new(&objects);
            store.replace(&other.to_string(), Some(objects[name].clone()));
            let findings = store.check(read_data);
            assert!(findings.names(&other.to_string()), "{name} as {other}: {:#?}", findings.all);
            let needed = !matches!(other, ObjectName::Segment(_) | ObjectName::Container(..));
            assert_eq!(findings.has_error(&other.to_string()), needed, "{name} as {other}");
            store.compare(&findings, &format!("{name} as {other}"));
        }
    }
}

/// Older settings in the place of newer ones, and an older segment or container of the same writer
/// in the place of its next.
#[test]
fn replayed_objects_are_found() {
    let objects = build();
    let config = |number, copy| ObjectName::Config { number, copy }.to_string();
    for copy in [false, true] {
        let older = objects[&config(0, copy)].clone();
        expect_named(&objects, &config(1, copy), Some(older), "older settings");
    }
    let mut replayed = 0;
    for name in objects.keys() {
        let older = match parse(name) {
            ObjectName::Segment(PartName { ticket, count: 1 }) => {
                ObjectName::Segment(PartName { ticket, count: 0 })
            }
            ObjectName::Container(class, PartName { ticket, count: 1 }) => {
                ObjectName::Container(class, PartName { ticket, count: 0 })
            }
            _ => continue,
        };
        let bytes = objects[&older.to_string()].clone();
        expect_named(&objects, name, Some(bytes), "the one before");
        replayed += 1;
    }
    assert!(replayed >= 4, "{replayed} segments and containers have one before them");
}

/// Both copies are damaged: only a client that already has the keys can open the repository.
#[test]
fn damage_of_both_copies_is_found() {
    let objects = build();
    for kind in ["config/", "keys/"] {
        let store = Store::new(&objects);
        let names: Vec<_> = objects.keys().filter(|name| name.starts_with(kind)).collect();
        assert_eq!(names.len(), 4, "two objects, twice");
        for name in &names {
            let mut bytes = objects[*name].to_vec();
            // In the salt, so that no key fits any more.
            bytes[40] ^= 1;
            store.replace(name, Some(bytes.into()));
        }
        let findings = store.check(false);
        for name in names {
            assert!(is_found(&objects, &findings, name), "{name} was damaged");
        }
        assert!(backup::open(store.storage.clone(), 1).is_err(), "{kind} are all damaged");
    }
}

/// Containers describe their own contents, so the objects that named them can be missing.
#[test]
fn containers_are_found_without_the_object_that_named_them() {
    let objects = build();
    let has_ended = |ticket| objects.contains_key(&ObjectName::Commit(ticket).to_string());
    let mut tried = 0;
    for name in objects.keys() {
        // The deletion of a commit leaves an open writer, which is tested elsewhere.
        let deletions: &[bool] = match parse(name) {
            ObjectName::Segment(part) if has_ended(part.ticket) => &[false, true],
            ObjectName::Commit(_) => &[false],
            _ => continue,
        };
        for is_deleted in deletions {
            let store = Store::new(&objects);
            let mut flipped = objects[name].to_vec();
            flipped[100] ^= 1;
            store.replace(name, (!is_deleted).then(|| flipped.into()));
            let findings = store.check(false);
            assert!(findings.has_error(name), "{name}: {:#?}", findings.all);
            assert_eq!(findings.report.error_count, 1, "{name}: {:#?}", findings.all);
            assert_eq!(findings.report.missing_count, 0, "{name}: chunks");
            assert_eq!(findings.report.unreferenced_count, 0, "{name}: no run was interrupted");
            store.compare(&findings, name);
            tried += 1;
        }
    }
    assert!(tried > 10, "{tried} segments and commits");
}

/// One container and the segment that names it: only the container is missing.
#[test]
fn missing_container_is_named_despite_an_unreadable_segment() {
    let objects = build();
    let segments = objects.keys().filter(|name| name.starts_with("index/"));
    let containers = objects.keys().filter(|name| name.starts_with("data/"));
    let mut affected = 0;
    for container in containers {
        let ObjectName::Container(_, part) = parse(container) else { continue };
        for segment in segments.clone().filter(|name| name.contains(&part.ticket.to_string())) {
            let store = Store::new(&objects);
            for name in [container, segment] {
                let mut flipped = objects[name].to_vec();
                let place = flipped.len() - 20;
                flipped[place] ^= 1;
                flipped[70] ^= 1;
                store.replace(name, Some(flipped.into()));
            }
            let findings = store.check(true);
            for name in [container, segment] {
                assert!(findings.has_error(name), "{container}, {segment}: {:#?}", findings.all);
            }
            store.compare(&findings, &format!("{container}, {segment}"));
            affected += findings.of(FindingKind::Affected).count();
        }
    }
    assert!(affected > 0, "files need them");
}

/// The structure alone, without the data: missing and shortened containers are found, with the
/// files that they affect.
#[test]
fn missing_container_affects_files_without_reading_data() {
    let objects = build();
    let mut affected = 0;
    for name in objects.keys() {
        if !matches!(parse(name), ObjectName::Container(Class::Data, _)) {
            continue;
        }
        let store = Store::new(&objects);
        store.replace(name, None);
        let findings = store.check(false);
        assert!(findings.has_error(name), "{name} is gone: {:#?}", findings.all);
        store.compare(&findings, &format!("{name}: gone"));
        affected += findings.of(FindingKind::Affected).count();
    }
    assert!(affected >= 7, "each file of each snapshot, but {affected} were named");
}
