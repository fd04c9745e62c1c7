//! The damage matrix: every kind of object, and every kind of damage. A table of
//! `docs/reliability.md` has the findings of `check`, and the commands that it names and that bring
//! every command back to exit code 0. This test makes the table again and compares it.
//! `CUTPOINT_PRINT=1` prints it.

use crate::support::backup;
use crate::support::damaged_repository;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::support::backup::{back_up, init_with, open};
use crate::support::damaged_repository::{Store, build, everything};
use crate::support::delta_chunks::{Record, back_up_similar, of_form};
use crate::support::machine::Machine;
use crate::support::object_damage::{HARMS, harmed};
use bytes::Bytes;
use cutpoint_repository::format::commit::{Damage, Note, Outcome};
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::format::toc::Form;
use cutpoint_repository::format::view_part::ViewPart;
use cutpoint_repository::gc::prune::{PruneOptions, prune};
use cutpoint_repository::gc::sweep::{Sweep, SweepOptions, Sweeper};
use cutpoint_repository::verify::check::{FindingKind, Portion, Remedy, record};
use cutpoint_repository::verify::repair::{
    DataOptions, IndexOptions, ObjectsOptions, SnapshotOptions, repair_data, repair_index,
    repair_objects, repair_snapshots,
};
use cutpoint_repository::{
    Class, Fingerprint, ObjectName, PartName, Purpose, Reader, Repository, TicketId, View, Writer,
};
use cutpoint_storage::{Memory, ObjectKind, Storage};

const PAGE: &str = include_str!("../../../../../docs/reliability.md");

type Objects = BTreeMap<String, Bytes>;

/// Parity, in percent.
const PARITY_PERCENT: u32 = 10;

/// A process with a number of its own, which takes all earlier ones for dead.
const REPAIRER: u32 = 90;

/// Creates the content of [`build`], and one object of every other kind: commits of all kinds,
/// prune records, hints.
fn build_all_kinds() -> Objects {
    let mut objects = build();
    // The settings in force ask for parity.
    objects.retain(|name, _| !name.starts_with("config/00000000000000000001"));
    let store = Store::new(&objects);
    let storage = store.storage.clone();
    let mut settings =
        Repository::open(storage, Machine::new(0), &backup::unlock()).expect("it opens");
    let mut config = settings.config().clone();
    config.parity_percent = PARITY_PERCENT;
    settings.set_config(config).expect("memory takes settings");
    // To the first process, the interrupted writer may still be at work.
    let repository = open(store.storage.clone(), 0).expect("it opens");
    back_up_similar(&repository, &[1001]).expect("nothing fails here");
    let nothing = PartName { ticket: TicketId([0; 12]), count: 0 };
    let damage =
        Damage { class: Class::Data, container: nothing, fingerprint: Fingerprint([3; 32]) };
    let (first, _) = View::list(&repository).expect("it lists").snapshots()[0];
    let note = Note { snapshot: Some(first), tags: vec!["tag".to_owned()], ..Note::default() };
    let outcomes = [
        Outcome::Note(note),
        Outcome::Damage(vec![damage]),
        Outcome::Rescue,
        Outcome::Swept(1),
        Outcome::Void { is_own: true },
    ];
    for number in 1..3 {
        let bytes = Prune { time_ns: 7, ..Prune::default() }.encode();
        repository.seal_and_put(ObjectName::Prune(number), &bytes).expect("memory takes it");
    }
    for outcome in outcomes {
        let writer = Writer::begin(repository.clone(), Purpose::Other);
        let committed = writer.expect("it begins").commit(outcome, Vec::new(), &BTreeSet::new());
        committed.expect("memory takes it");
    }
    let seen = View::list(&repository).expect("memory lists").seen();
    let commits: Vec<String> =
        seen.into_iter().take(2).map(|id| ObjectName::Commit(id).to_string()).collect();
    let stored = commits.iter().map(|name| store.storage.get(name).expect("it is there"));
    let part = ViewPart { objects: stored.collect(), ..ViewPart::default() };
    for position in 0..2 {
        let name = ObjectName::View { position, version: 0 };
        repository.seal_and_put(name, &part.encode()).expect("memory takes it");
    }
    for count in 0..2 {
        let name = ObjectName::Similarity(PartName { ticket: TicketId([6; 12]), count });
        repository.seal_and_put(name, b"candidates").expect("memory takes it");
    }
    let options = DataOptions { threads: 1, ..DataOptions::default() };
    repair_data(&repository, &options, &()).expect("memory takes parity");
    everything(&*store.storage)
}

/// Returns the rows: the damaged kind, and the object that stands for it.
fn rows(objects: &Objects) -> Vec<(&'static str, String)> {
    let store = Store::new(objects);
    let view = View::list(&store.repository).expect("it lists");
    let seen = view.seen();
    let commit = |is_it: &dyn Fn(&Outcome) -> bool| {
        let mut commits = view.commits.iter();
        let found = commits.find(|(id, commit)| is_it(&commit.outcome) && seen.contains(*id));
        ObjectName::Commit(*found.expect("there is one").0).to_string()
    };
    let listed: BTreeSet<_> = view.snapshots().into_iter().map(|(id, _)| id).collect();
    let newest = view
        .commits
        .keys()
        .find(|id| !seen.contains(id))
        .expect("a commit that no client has seen");
    let first = |prefix: &str| {
        let of_snapshot = |name: &&String| {
            name.starts_with(prefix) && listed.iter().any(|id| name.contains(&id.to_string()))
        };
        objects.keys().find(of_snapshot).expect("there is one").clone()
    };
    let first_of = |prefix: &str| {
        objects.keys().find(|name| name.starts_with(prefix)).expect("there is one").clone()
    };
    let key = objects.keys().find(|name| name.starts_with("keys/")).expect("there is one");
    let at_work = objects.keys().find(|name| match ObjectName::parse(name) {
        Ok(ObjectName::Ticket { ticket, .. }) => !view.commits.contains_key(&ticket),
        _ => false,
    });
    let delta_chunk = of_form(&store.repository, Form::Delta).remove(0);
    let full_chunks = of_form(&store.repository, Form::Full);
    let refers =
        |full_chunk: &&Record| delta_chunk.references.contains(&full_chunk.chunk.fingerprint);
    let full_chunk = full_chunks.iter().find(refers).expect("it refers to full chunks of before");
    let container = |part| ObjectName::Container(Class::Data, part).to_string();
    vec![
        ("settings that hold", ObjectName::Config { number: 1, copy: false }.to_string()),
        ("their copy", ObjectName::Config { number: 1, copy: true }.to_string()),
        ("settings before", ObjectName::Config { number: 0, copy: false }.to_string()),
        ("keyring", key.clone()),
        ("its copy", format!("{key}.copy")),
        ("ticket of a writer at work", at_work.expect("there is one").clone()),
        ("ticket of one that has ended", first("tickets/")),
        ("snapshot", first("commits/")),
        ("newest commit", ObjectName::Commit(*newest).to_string()),
        ("void", commit(&|outcome| matches!(outcome, Outcome::Void { .. }))),
        ("forget", commit(&|outcome| matches!(outcome, Outcome::Forget(_)))),
        ("note", commit(&|outcome| matches!(outcome, Outcome::Note(_)))),
        ("damage", commit(&|outcome| matches!(outcome, Outcome::Damage(_)))),
        ("rescue", commit(&|outcome| *outcome == Outcome::Rescue)),
        ("swept", commit(&|outcome| matches!(outcome, Outcome::Swept(_)))),
        ("prune record", ObjectName::Prune(1).to_string()),
        ("index segment", first("index/")),
        ("container of data", first("data/")),
        ("full chunks that delta chunks refer to", container(full_chunk.container)),
        ("delta chunks", container(delta_chunk.container)),
        ("container of metadata", first("meta/")),
        ("parity", first_of("parity/")),
        ("view checkpoint", first_of("views/")),
        (
            "similarity",
            objects.keys().find(|n| n.starts_with("similarity/")).expect("there is one").clone(),
        ),
    ]
}

const OTHER_DAMAGES: [&str; 4] =
    ["another in its place", "as another", "of another repository", "back after deletion"];

/// Returns the name of another object of the same kind, which does not exist.
fn other_name(name: ObjectName) -> ObjectName {
    let ticket = TicketId([0x77; 12]);
    let part = PartName { ticket, count: 0 };
    match name {
        ObjectName::Config { copy, .. } => ObjectName::Config { number: 2, copy },
        ObjectName::Key { copy, .. } => ObjectName::Key { id: [0x77; 16], copy },
        ObjectName::Ticket { .. } => ObjectName::Ticket { ticket, renewal: 0 },
        ObjectName::Commit(_) => ObjectName::Commit(ticket),
        ObjectName::Prune(_) => ObjectName::Prune(3),
        ObjectName::Segment(_) => ObjectName::Segment(part),
        ObjectName::Container(class, _) => ObjectName::Container(class, part),
        ObjectName::Similarity(_) => ObjectName::Similarity(part),
        ObjectName::View { position, .. } => ObjectName::View { position, version: 7 },
        ObjectName::Parity { class, writer, .. } => {
            ObjectName::Parity { class, container: part, writer }
        }
    }
}

/// Returns the object as the other repository has it: sealed with the keys of that repository.
fn sealed_by_other(repository: &Repository, other: &Objects, name: ObjectName) -> Bytes {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    for (name, bytes) in other.iter().filter(|(name, _)| kind_is_root(name)) {
        storage.put_new(name, bytes.clone()).expect("memory takes it");
    }
    match name.kind() {
        ObjectKind::Key => {
            let key = other.keys().find(|name| name.starts_with("keys/"));
            other[key.expect("it has one")].clone()
        }
        ObjectKind::Data | ObjectKind::Meta | ObjectKind::Config | ObjectKind::Parity => {
            let folder = name.kind().folder();
            let first = other.keys().find(|each| each.starts_with(folder));
            other[first.expect("it has one")].clone()
        }
        _ => {
            let body = repository.get(name).expect("it is intact");
            let other = open(storage.clone(), 1).expect("it opens");
            other.seal_and_put(name, &body).expect("memory takes it");
            storage.get(&name.to_string()).expect("it was put")
        }
    }
}

/// Damages `name` in a copy of the repository. Returns the object that is to be named, or `None` if
/// there is no such damage.
fn damage(objects: &Objects, other: &Objects, name: &str, damage: &str) -> Option<(Store, String)> {
    let store = Store::new(objects);
    let parsed = ObjectName::parse(name).expect("a name");
    let bytes = &objects[name];
    let is_alike = |each: &&String| {
        let is_copy = |name: &str| name.ends_with(".copy");
        let folder = |name: &str| name.split_once('/').map(|(folder, _)| folder.to_owned());
        folder(each) == folder(name) && is_copy(each) == is_copy(name) && objects[*each] != *bytes
    };
    match damage {
        harm if HARMS.contains(&harm) => store.replace(name, harmed(bytes, harm)),
        "another in its place" => {
            let another = objects.keys().find(is_alike)?;
            store.replace(name, Some(objects[another].clone()));
        }
        "as another" => {
            let name = other_name(parsed);
            store.replace(&name.to_string(), Some(bytes.clone()));
            return Some((store, name.to_string()));
        }
        // The same name, sealed with the keys of the other repository.
        "of another repository" => {
            store.replace(name, Some(sealed_by_other(&store.repository, other, parsed)));
        }
        // Still present, although a prune record says that it may be deleted.
        _ => {
            let mut prune = Prune::default();
            match parsed {
                ObjectName::Commit(ticket) => prune.taken = vec![ticket],
                ObjectName::Ticket { ticket, .. } => {
                    prune.taken = vec![ticket];
                    // The ticket of a snapshot that was taken, and swept with its commit.
                    store.replace(&ObjectName::Commit(ticket).to_string(), None);
                }
                ObjectName::Segment(part) => prune.superseded = vec![part],
                ObjectName::Container(class, part) => prune.condemned = vec![(class, part)],
                ObjectName::Parity { class, container, .. } => {
                    prune.condemned = vec![(class, container)];
                }
                ObjectName::Key { .. } | ObjectName::Similarity(_) | ObjectName::View { .. } => {}
                // These are never deleted.
                ObjectName::Config { .. } | ObjectName::Prune(_) => return None,
            }
            let record = ObjectName::Prune(3);
            store.repository.seal_and_put(record, &prune.encode()).expect("memory takes it");
        }
    }
    Some((store, name.to_owned()))
}

fn kind_is_root(name: &str) -> bool {
    name.starts_with("config/") || name.starts_with("keys/")
}

/// Carries out a remedy. Only with `has_sources` a backup has anything to store again.
fn do_remedy(
    remedy: Remedy,
    repository: Arc<Repository>,
    has_sources: bool,
) -> cutpoint_storage::Result<()> {
    match remedy {
        Remedy::Objects { read_data } => {
            let read_data = read_data.then_some(Portion::All);
            let options = ObjectsOptions { read_data, threads: 1, ..ObjectsOptions::default() };
            repair_objects(&repository, &options, &()).map(drop)
        }
        Remedy::RemoveSettings(name) => {
            let removed = BTreeSet::from([name]);
            let options = ObjectsOptions { removed, threads: 1, ..ObjectsOptions::default() };
            repair_objects(&repository, &options, &()).map(drop)
        }
        Remedy::RemoveKey(id) => repository.remove_key(id, true),
        Remedy::ReplaceKey => {
            let storage = repository.storage().clone();
            let mut repository =
                Repository::open(storage, Machine::new(1 << 20), &backup::unlock())?;
            let id = repository.key_id().expect("a key has opened it");
            repository.replace_key(id, &backup::unlock()).map(drop)
        }
        Remedy::GiveUpPrune(number) => {
            let given_up_prunes = BTreeSet::from([number]);
            let options = IndexOptions { given_up_prunes, ..IndexOptions::default() };
            repair_index(&repository, &options, &()).map(drop)
        }
        Remedy::Data { read_data } => {
            let read_data = read_data.then_some(Portion::All);
            let options = DataOptions { read_data, threads: 1, ..DataOptions::default() };
            repair_data(&repository, &options, &()).map(drop)
        }
        Remedy::Backup if has_sources => back_up_all(&repository),
        Remedy::Backup => Ok(()),
        Remedy::Index => repair_index(&repository, &IndexOptions::default(), &()).map(drop),
        Remedy::Snapshots => {
            let options =
                SnapshotOptions { forget: true, threads: 1, ..SnapshotOptions::default() };
            repair_snapshots(&repository, &options, &()).map(drop)
        }
    }
}

/// Makes another backup of the unchanged sources.
fn back_up_all(repository: &Arc<Repository>) -> cutpoint_storage::Result<()> {
    back_up(repository, &[1, 2, 3], false)?;
    back_up(repository, &[1, 2, 4, 5], false)?;
    back_up_similar(repository, &[1001]).map(drop)
}

/// Returns a command as the table names it.
fn label(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::Objects { .. } => "repair objects",
        Remedy::RemoveSettings(_) => "repair objects --remove",
        Remedy::RemoveKey(_) => "key remove",
        Remedy::ReplaceKey => "key passwd",
        Remedy::GiveUpPrune(_) => "repair index --give-up",
        Remedy::Data { .. } => "repair data",
        Remedy::Backup => "backup",
        Remedy::Index => "repair index",
        Remedy::Snapshots => "repair snapshots --forget",
    }
}

/// Runs checks, and the commands that they name, until nothing is wrong. Then no command reports
/// anything. Returns the commands that were needed, or `None` if no command that would help is
/// named.
fn heal(store: &Store, case: &str, has_sources: bool) -> Option<BTreeSet<&'static str>> {
    const ROUNDS_MAX: u32 = 3;
    let mut process = REPAIRER;
    let mut later = || {
        process += 1;
        open(store.storage.clone(), process)
    };
    let mut needed = BTreeSet::new();
    for _ in 0..=ROUNDS_MAX {
        let repository = later().ok()?;
        let findings = damaged_repository::check_on(&repository, true, 1);
        record(&repository, &findings.report.damages, |_, _| {}).ok();
        if findings.report.error_count == 0 {
            let after = Store { storage: store.storage.clone(), repository };
            // The remains of a file that has lost parts have another name.
            if has_sources {
                after.compare(&findings, &format!("{case}, after {needed:?}"));
            }
            quiet(&mut later, &format!("{case}, after {needed:?}"));
            return Some(needed);
        }
        let remedies: BTreeSet<Remedy> =
            findings.all.iter().flat_map(|finding| finding.remedies.iter().copied()).collect();
        for remedy in &remedies {
            let repository = later().expect("it did a moment ago");
            let done = do_remedy(*remedy, repository, has_sources);
            done.unwrap_or_else(|error| panic!("{case}: {remedy}: {error}"));
            let repository = later().expect("it did a moment ago");
            needed.insert(label(*remedy));
            // A command that was no longer needed does not count.
            if damaged_repository::check_on(&repository, true, 1).report.error_count == 0 {
                break;
            }
        }
        if remedies.is_empty() {
            return None;
        }
    }
    let findings = damaged_repository::check_on(&later().ok()?, true, 1);
    panic!("{case}: {needed:?} do not end it: {:#?}", findings.all);
}

/// Expects that no command reports anything: each would end with 0.
fn quiet(later: &mut dyn FnMut() -> cutpoint_storage::Result<Arc<Repository>>, case: &str) {
    let mut next = || later().unwrap_or_else(|error| panic!("{case}: {error}"));
    // The reports of commands that list and read.
    let repository = next();
    let view = View::list(&repository).expect("memory lists");
    let unresolved: Vec<_> = view.unresolved().map(|(name, _)| *name).collect();
    assert_eq!(unresolved, [], "{case}: a listing tells of these");
    assert!(view.gone_commits().is_empty(), "{case}: a listing misses commits");
    assert!(view.missing_prunes().is_empty(), "{case}: a listing misses records");
    let reader = Reader::open(repository, view).expect("nothing fails here");
    assert_eq!(reader.index().unreadable().len(), 0, "{case}: an index tells of segments");
    let objects =
        repair_objects(&next(), &ObjectsOptions { threads: 1, ..Default::default() }, &());
    let objects = objects.unwrap_or_else(|error| panic!("{case}: repair objects: {error}"));
    assert_eq!(objects.left, [], "{case}: repair objects");
    let options = SnapshotOptions { threads: 1, ..SnapshotOptions::default() };
    let snapshots = repair_snapshots(&next(), &options, &());
    let snapshots = snapshots.unwrap_or_else(|error| panic!("{case}: repair snapshots: {error}"));
    assert_eq!(snapshots.snapshots.len() + snapshots.missing_commits.len(), 0, "{case}: snapshots");
    let data = repair_data(&next(), &DataOptions { threads: 1, ..DataOptions::default() }, &());
    let data = data.unwrap_or_else(|error| panic!("{case}: repair data: {error}"));
    assert_eq!(data.failed.len(), 0, "{case}: repair data: {:?}", data.failed);
    back_up_all(&next()).unwrap_or_else(|error| panic!("{case}: backup: {error}"));
    // Only unneeded containers are missing from a rebuilt index, as the check after it shows.
    let index = repair_index(&next(), &IndexOptions::default(), &());
    index.unwrap_or_else(|error| panic!("{case}: repair index: {error}"));
    prune(&next(), &PruneOptions::default(), &(), |_| true)
        .unwrap_or_else(|error| panic!("{case}: prune: {error}"));
    let options = SweepOptions { settle_ns: 0, end_others: true, ..SweepOptions::default() };
    let mut sweeper = Sweeper::new(next(), options);
    while let Sweep::Done(_) =
        sweeper.step(&()).unwrap_or_else(|error| panic!("{case}: sweep: {error}"))
    {}
    let findings = damaged_repository::check_on(&next(), true, 1);
    assert_eq!(findings.report.error_count, 0, "{case}: after all of it: {:#?}", findings.all);
}

fn table() -> String {
    let objects = build_all_kinds();
    let other: Arc<dyn Storage> = Arc::new(Memory::new());
    // Made with other random numbers, so its keys are different.
    init_with(other.clone(), 70, false, PARITY_PERCENT)
        .expect("an empty memory takes a repository");
    let repository = open(other.clone(), 71).expect("it opens");
    back_up(&repository, &[1], false).expect("nothing fails here");
    let other = everything(&*other);
    let damages = [&HARMS[..], &OTHER_DAMAGES].concat();
    let mut lines = vec![format!(
        "| object | {} | ends with | without parity | without sources |",
        damages.join(" | ")
    )];
    lines.push(format!("| --- |{}", " --- |".repeat(damages.len() + 3)));
    for (row, name) in rows(&objects) {
        let mut cells = Vec::new();
        let mut healed = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
        for &kind in &damages {
            let Some((store, target)) = damage(&objects, &other, &name, kind) else {
                cells.push("-");
                continue;
            };
            let findings = store.check(true);
            let case = format!("{row} ({name}), {kind}");
            store.compare(&findings, &case);
            let is_error = findings.has_error(&target);
            // The report of an open writer has nothing to do with the damage.
            let is_told = findings.names(&target)
                && !findings.of(FindingKind::Unfinished).any(|object| object == target);
            cells.push(match (is_error, is_told) {
                (true, _) => "error",
                (false, true) => "note",
                (false, false) => "unseen",
            });
            if is_error {
                let damaged = everything(&*store.storage);
                let needed = heal(&store, &case, true);
                let without = |folder: &str| {
                    let mut left = damaged.clone();
                    left.retain(|name, _| !name.starts_with(folder));
                    Store::new(&left)
                };
                let has = |needed: &Option<BTreeSet<&str>>, command| {
                    needed.as_ref().is_some_and(|needed| needed.contains(command))
                };
                if has(&needed, "repair data") && row != "parity" {
                    let needed = heal(&without("parity/"), &format!("{case}, no parity"), true);
                    let has_backup = has(&needed, "backup");
                    healed[1].extend(needed.expect("a backup is enough"));
                    if has_backup {
                        let case = format!("{case}, no parity, no sources");
                        let needed = heal(&without("parity/"), &case, false);
                        let needed = needed.expect("it can be given up").into_iter();
                        healed[2].extend(needed.filter(|command| *command != "backup"));
                    }
                }
                healed[0].extend(needed.unwrap_or(BTreeSet::from(["by hand"])));
            }
        }
        let names = |healed: &BTreeSet<&str>| match healed.len() {
            0 => "-".to_owned(),
            _ => healed.iter().copied().collect::<Vec<_>>().join(", "),
        };
        let healed = healed.each_ref().map(names).join(" | ");
        lines.push(format!("| {row} | {} | {healed} |", cells.join(" | ")));
    }
    lines.join("\n")
}

/// The table equals that of the page, cell for cell. Numbers in parentheses lead to reasons there.
#[test]
fn page_has_the_complete_matrix() {
    let table = table();
    if std::env::var_os("CUTPOINT_PRINT").is_some() {
        println!("{table}");
    }
    let without_numbers: String = PAGE
        .lines()
        .map(|line| {
            let words = line.split(' ').filter(|word| !word.starts_with('('));
            words.collect::<Vec<_>>().join(" ") + "\n"
        })
        .collect();
    for line in table.lines() {
        assert!(without_numbers.contains(line), "docs/reliability.md does not have:\n{line}");
    }
    // Each undetected damage has a reason there.
    for line in PAGE.lines().filter(|line| line.starts_with("| ")) {
        for cell in line.split('|').map(str::trim).filter(|cell| cell.starts_with("unseen")) {
            let number = cell.strip_prefix("unseen (").and_then(|rest| rest.strip_suffix(')'));
            let number = number.unwrap_or_else(|| panic!("{line}: no reason"));
            assert!(
                PAGE.lines().any(|line| line.starts_with(&format!("({number}) "))),
                "({number})"
            );
        }
    }
}
