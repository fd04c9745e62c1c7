//! Repairs of snapshots with folders, long files, and tags and descriptions.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::backup::{init, open};
use crate::support::bad_sectors::BadSectors;
use cutpoint_repository::format::commit::{Damage, Outcome};
use cutpoint_repository::format::recipe::Segment as Piece;
use cutpoint_repository::format::segment::ContainerRecord;
use cutpoint_repository::format::toc::Toc;
use cutpoint_repository::index::load_toc;
use cutpoint_repository::snapshots::note;
use cutpoint_repository::verify::check::{
    CheckMonitor, CheckOptions, Finding, Portion, check, record,
};
use cutpoint_repository::verify::repair::{
    PathLoss, RepairMonitor, RepairOutcome, SnapshotOptions, SnapshotsRepair, repair_snapshots,
};
use cutpoint_repository::write::{Inline, RecipeWriter, TreeWriter};
use cutpoint_repository::{
    Class, Content, Entry, EntryKind, Index, ObjectName, PartName, Purpose, Reader, Repository,
    Snapshot, Statistics, TicketId, Verify, View, Writer,
};
use cutpoint_storage::{Kind, Memory, Storage};
use cutpoint_testing::SplitMix64;

/// Length of a chunk. Three of them fill a region.
const CHUNK_LEN: usize = 5000;
const SHORT_LEN: usize = 100;
const STARTED_NS: i64 = 1_000_000;
/// The numbers that the writer gave to the containers of the files.
const WHOLE: u32 = 0;
const LOST: u32 = 1;
const DAMAGED: u32 = 2;
const ALSO_LOST: u32 = 3;
const ONCE: u32 = 5;

fn random(seed: u64, len: usize) -> Vec<u8> {
    SplitMix64::bytes(seed, len)
}

/// Creates a file of these chunks, which get a container of their own.
fn file(inline: &mut Inline, name: &str, chunks: &[&[u8]]) -> Entry {
    let mut recipe = RecipeWriter::new("fixed");
    let mut entry = Entry::new(name, EntryKind::File);
    for chunk in chunks {
        let fingerprint = inline.store_data(chunk).expect("memory takes it");
        let length = chunk.len() as u64;
        entry.size += length;
        let piece = Piece::Chunk { fingerprint, offset: 0, length };
        recipe.push(piece, inline).expect("memory takes it");
    }
    entry.content = recipe.finish(inline).expect("memory takes it");
    inline.publish().expect("memory takes it");
    entry
}

fn folder(inline: &mut Inline, name: &str, entries: &[Entry]) -> Entry {
    let repository = inline.writer().repository().clone();
    let mut tree = TreeWriter::new();
    for entry in entries {
        tree.push(entry, repository.keys(), inline).expect("names rise");
    }
    let mut entry = Entry::new(name, EntryKind::Folder);
    // Some trees are short, and lie in the entries of their folders.
    let content = match name {
        "b" | "d" => tree.finish_below(inline),
        _ => tree.finish(inline),
    };
    entry.content = content.expect("memory takes it");
    entry
}

/// A snapshot of folders, with its files' bytes by path.
struct Place {
    storage: Arc<dyn Storage>,
    id: TicketId,
    files: BTreeMap<String, Vec<u8>>,
}

impl Place {
    fn new() -> Place {
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        init(storage.clone()).expect("an empty memory takes a repository");
        let repository = open(storage.clone(), 1).expect("it opens");
        let writer = Writer::begin(repository, Purpose::Backup).expect("it begins");
        let id = writer.ticket();
        let mut inline = Inline::new(writer, Verify::All).expect("the index opens");
        let mut files = BTreeMap::new();
        let mut put = |inline: &mut Inline, path: &str, bytes: Vec<u8>, chunk_len: usize| {
            let name = path.rsplit_once('/').expect("in a folder").1;
            let chunks: Vec<&[u8]> = bytes.chunks(chunk_len).collect();
            let entry = file(inline, name, &chunks);
            files.insert(path.to_owned(), bytes);
            entry
        };
        let intact = put(&mut inline, "/a/whole", random(1, 2 * CHUNK_LEN), CHUNK_LEN);
        let lost = put(&mut inline, "/b/lost", random(2, 2 * CHUNK_LEN), CHUNK_LEN);
        let damaged = put(&mut inline, "/b/parts", random(3, 9 * CHUNK_LEN), CHUNK_LEN);
        let also_lost = put(&mut inline, "/c/lost", random(4, CHUNK_LEN), CHUNK_LEN);
        let often = random(5, SHORT_LEN);
        let short = put(&mut inline, "/d/short", often.clone(), SHORT_LEN);
        let once = random(6, SHORT_LEN);
        let long = [often.repeat(20_000), once, often.repeat(20_000)].concat();
        let long = put(&mut inline, "/d/long", long, SHORT_LEN);
        assert!(matches!(long.content, Content::Recipe(_)), "more than an entry has room for");
        let folders = [
            folder(&mut inline, "a", &[intact]),
            folder(&mut inline, "b", &[lost, damaged]),
            folder(&mut inline, "c", &[also_lost]),
            folder(&mut inline, "d", &[long, short]),
        ];
        let root = folder(&mut inline, "root", &folders).content;
        let size = files.values().map(|bytes| bytes.len() as u64).sum();
        let snapshot = Snapshot {
            root,
            started_ns: STARTED_NS,
            tags: vec!["monthly".to_owned()],
            description: "mine".to_owned(),
            statistics: Statistics { file_count: 6, size, ..Statistics::default() },
            ..Snapshot::empty()
        };
        inline.commit(Outcome::Snapshot(Box::new(snapshot))).expect("memory takes it");
        Place { storage, id, files }
    }

    fn open(&self) -> Arc<Repository> {
        static PROCESSES: AtomicU64 = AtomicU64::new(2);
        let process = PROCESSES.fetch_add(1, Ordering::Relaxed);
        open(self.storage.clone(), u32::try_from(process).expect("few")).expect("it opens")
    }

    fn container(&self, number: u32) -> String {
        let part = PartName { ticket: self.id, count: number };
        let names = [Class::Data, Class::Meta].map(|class| ObjectName::Container(class, part));
        let mut names = names.iter().map(ToString::to_string);
        let is_there = |name: &String| self.storage.head(name).expect("memory answers").is_some();
        names.find(is_there).expect("it was put")
    }

    fn replace(&self, name: &str, change: impl Fn(&mut Vec<u8>)) {
        let mut bytes = self.storage.get(name).expect("it is there").to_vec();
        change(&mut bytes);
        self.storage.delete(name).expect("it goes");
        self.storage.put_new(name, bytes.into()).expect("memory takes it");
    }

    /// Returns the index record of a container, and its table of contents.
    fn look(&self, name: &str) -> (ContainerRecord, Toc) {
        let repository = self.open();
        let view = View::list(&repository).expect("it lists");
        let index = Index::open(repository.clone(), &view).expect("it opens");
        let is_it =
            |it: &ContainerRecord| ObjectName::Container(it.class, it.name).to_string() == name;
        let container = index.containers().into_iter().find(is_it).expect("the index names it");
        let toc = load_toc(&repository, &container).expect("it is well");
        (container, toc)
    }

    /// Damages the first and the third region of the file of which parts are to be left.
    fn damage_parts(&self) {
        let name = self.container(DAMAGED);
        let regions = self.look(&name).1.regions;
        assert_eq!(regions.len(), 3, "three chunks each");
        self.replace(&name, |bytes| {
            bytes[regions[0].offset as usize + 5] ^= 1;
            bytes[regions[2].offset as usize + 5] ^= 1;
        });
    }

    fn snapshot(&self, id: TicketId) -> Snapshot {
        let view = View::list(&self.open()).expect("it lists");
        view.commits[&id].snapshot().expect("it is one").clone()
    }

    /// Returns the files of a snapshot by path.
    fn read(&self, id: TicketId) -> BTreeMap<String, Vec<u8>> {
        let repository = self.open();
        let view = View::list(&repository).expect("it lists");
        let reader = Reader::open(repository, view).expect("it opens");
        let mut files = BTreeMap::new();
        let mut open = vec![(String::new(), self.snapshot(id).root)];
        while let Some((at, content)) = open.pop() {
            for entry in reader.tree(&content) {
                let entry = entry.expect("it can be read");
                let path = format!("{at}/{}", String::from_utf8_lossy(&entry.name));
                if entry.kind == EntryKind::Folder {
                    open.push((path, entry.content));
                    continue;
                }
                let mut bytes = Vec::new();
                for piece in reader.segments(&entry.content) {
                    match piece.expect("its recipe can be read") {
                        Piece::Chunk { fingerprint, .. } => {
                            let chunk = reader.chunk(Class::Data, &fingerprint);
                            bytes.extend_from_slice(&chunk.expect("what is left can be read"));
                        }
                        hole => {
                            let length = usize::try_from(hole.length()).expect("small");
                            bytes.resize(bytes.len() + length, 0);
                        }
                    }
                }
                files.insert(path, bytes);
            }
        }
        files
    }
}

/// Collects losses, and cancels after a number of questions.
struct Heard {
    losses: Mutex<Vec<(String, PathLoss)>>,
    expected: AtomicU64,
    progress: AtomicU64,
    asked: AtomicU64,
    limit: u64,
}

impl Heard {
    fn new(limit: u64) -> Heard {
        let [expected, progress, asked] = [0; 3].map(AtomicU64::new);
        Heard { losses: Mutex::default(), expected, progress, asked, limit }
    }
}

impl CheckMonitor for Heard {
    fn expected(&self, containers: u64, _: u64) {
        self.expected.fetch_add(containers, Ordering::SeqCst);
    }

    fn progress(&self, containers: u64, _: u64) {
        self.progress.fetch_add(containers, Ordering::SeqCst);
    }

    fn finding(&self, finding: &Finding) {
        panic!("losses are told, not findings: {finding:?}");
    }

    fn cancelled(&self) -> bool {
        self.asked.fetch_add(1, Ordering::SeqCst) >= self.limit
    }
}

impl RepairMonitor for Heard {
    fn loss(&self, _: TicketId, path: &[u8], loss: &PathLoss) {
        let path = String::from_utf8_lossy(path).into_owned();
        self.losses.lock().expect("no test panics in here").push((path, loss.clone()));
    }
}

const REPAIR: SnapshotOptions =
    SnapshotOptions { dry_run: false, forget: false, read_data: Some(Portion::All), threads: 1 };

fn repair(repository: &Arc<Repository>, options: SnapshotOptions) -> SnapshotsRepair {
    repair_snapshots(repository, &options, &()).expect("nothing fails here")
}

/// Each folder keeps what is left of it, with holes in files where something is lost, and the
/// snapshot keeps the properties of the old one.
#[test]
fn remains_of_folders_are_kept() {
    let place = Place::new();
    assert_eq!(place.read(place.id), place.files, "as it was stored");
    for number in [LOST, ALSO_LOST, ONCE] {
        place.storage.delete(&place.container(number)).expect("it goes");
    }
    place.damage_parts();
    let noted = note(&place.open(), place.id, |tags, description| {
        tags.push("noted".to_owned());
        "noted".clone_into(description);
    });
    assert!(noted.expect("memory takes it"), "it says other things now");
    let heard = Heard::new(u64::MAX);
    let done = repair_snapshots(&place.open(), &REPAIR, &heard).expect("nothing fails here");
    let [each] = &done.snapshots[..] else { panic!("{done:?}") };
    let RepairOutcome::Repaired(new) = each.outcome else { panic!("{each:?}") };
    assert_eq!((each.loss_count, each.unnamed_count, each.is_refused), (4, 0, false));
    let heard: BTreeMap<_, _> = heard.losses.into_inner().expect("no panics").into_iter().collect();
    let long = (20_000 * SHORT_LEN, 20_001 * SHORT_LEN, 40_001 * SHORT_LEN);
    let parts = |ranges: &[(usize, usize)], size: usize, kept_as: &str| PathLoss::Parts {
        ranges: ranges.iter().map(|(start, end)| *start as u64..*end as u64).collect(),
        size: size as u64,
        kept_as: kept_as.as_bytes().to_vec(),
    };
    let lost = |chunks: usize| PathLoss::File { size: (chunks * CHUNK_LEN) as u64 };
    let ranges = [(0, 3 * CHUNK_LEN), (6 * CHUNK_LEN, 9 * CHUNK_LEN)];
    let expected = [
        ("/b/lost", lost(2)),
        ("/b/parts", parts(&ranges, 9 * CHUNK_LEN, "parts.cutpoint-damaged")),
        ("/c/lost", lost(1)),
        ("/d/long", parts(&[(long.0, long.1)], long.2, "long.cutpoint-damaged")),
    ];
    assert_eq!(heard, expected.map(|(path, loss)| (path.to_owned(), loss)).into());
    let mut left = place.files.clone();
    left.retain(|path, _| !path.ends_with("/lost"));
    for (path, ranges) in [("/b/parts", &ranges[..]), ("/d/long", &[(long.0, long.1)])] {
        let mut bytes = left.remove(path).expect("it is there");
        ranges.iter().for_each(|(start, end)| bytes[*start..*end].fill(0));
        left.insert(format!("{path}.cutpoint-damaged"), bytes);
    }
    assert!(place.read(new) == left, "{:?}", place.read(new).keys());
    let (old, new) = (place.snapshot(place.id), place.snapshot(new));
    assert_eq!((new.started_ns, new.parent), (STARTED_NS + 1, Some(place.id)));
    assert_eq!(new.tags, ["monthly", "noted"]);
    let description = format!("noted (repaired from {})", place.id.short());
    assert_eq!(new.description, description);
    let size = old.statistics.size - 3 * CHUNK_LEN as u64;
    let expected = Statistics { file_count: 4, size, problem_count: 4, ..Statistics::default() };
    assert_eq!(new.statistics, expected);
}

#[test]
fn entirely_missing_entries_are_not_written() {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init(storage.clone()).expect("an empty memory takes a repository");
    let repository = open(storage.clone(), 1).expect("it opens");
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let mut inline = Inline::new(writer, Verify::All).expect("the index opens");
    let entry = file(&mut inline, "alone", &[&random(1, CHUNK_LEN)]);
    let root = folder(&mut inline, "root", &[entry]).content;
    let snapshot = Snapshot { root, ..Snapshot::empty() };
    inline.commit(Outcome::Snapshot(Box::new(snapshot))).expect("memory takes it");
    let (name, _) = storage.list("data").expect("memory lists").remove(0);
    storage.delete(&name).expect("it goes");
    let done = repair(&open(storage.clone(), 2).expect("it opens"), REPAIR);
    let outcomes: Vec<_> = done.snapshots.iter().map(|each| each.outcome).collect();
    assert_eq!(outcomes, [RepairOutcome::NothingLeft]);
    assert_eq!(View::list(&repository).expect("it lists").snapshots().len(), 1);
}

/// While the storage refuses something, the repaired snapshot is makeshift: it is replaced once
/// more can be read.
#[test]
fn makeshift_snapshot_is_replaced() {
    let place = Place::new();
    let refusing = || {
        let (inner, prefix) = (place.storage.clone(), place.container(LOST));
        static PROCESSES: AtomicU64 = AtomicU64::new(100);
        let process = PROCESSES.fetch_add(1, Ordering::Relaxed);
        let storage = BadSectors { inner, prefix, at: None };
        open(Arc::new(storage), u32::try_from(process).expect("few")).expect("it opens")
    };
    let options = SnapshotOptions { forget: true, ..REPAIR };
    let done = repair(&refusing(), options);
    let [each] = &done.snapshots[..] else { panic!("{done:?}") };
    let RepairOutcome::Repaired(makeshift) = each.outcome else { panic!("{each:?}") };
    assert!(each.is_refused && done.forgotten.is_empty(), "{done:?}");
    assert_eq!(place.snapshot(makeshift).started_ns, STARTED_NS + 2, "it can be told");
    let again = repair(&refusing(), options);
    let of_first = again.snapshots.iter().find(|each| each.snapshot == place.id);
    assert_eq!(
        of_first.map(|each| each.outcome),
        Some(RepairOutcome::RepairedBefore(makeshift)),
        "{again:?}"
    );
    assert!(again.makeshift.is_empty() && again.forgotten.is_empty(), "{again:?}");
    place.storage.delete(&place.container(LOST)).expect("it goes");
    let last = repair(&open(place.storage.clone(), 1000).expect("it opens"), options);
    let of_first = last.snapshots.iter().find(|each| each.snapshot == place.id).expect("it is");
    assert!(
        matches!(of_first.outcome, RepairOutcome::Repaired(_)) && !of_first.is_refused,
        "{last:?}"
    );
    assert_eq!(last.makeshift, [makeshift], "{last:?}");
    assert!(last.forgotten.contains(&makeshift) && last.forgotten.contains(&place.id), "{last:?}");
}

/// Trees, recipes and data that a record calls damaged are stored again when a snapshot is
/// repaired, although they can be read.
#[test]
fn suspect_chunks_in_folders_are_stored_again() {
    let place = Place::new();
    let mut suspects: Vec<String> = place
        .storage
        .list("meta")
        .expect("memory lists")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert!(suspects.len() > 1, "recipes, and trees: {suspects:?}");
    suspects.push(place.container(WHOLE));
    for suspect in &suspects {
        let place = Place::new();
        // Damaged during the check, and intact again later.
        let damage = || {
            place.replace(suspect, |bytes| {
                for byte in bytes[100..].iter_mut().step_by(50) {
                    *byte ^= 1;
                }
            });
        };
        let intact = place.storage.get(suspect).expect("it is there");
        let (container, toc) = place.look(suspect);
        let damages: Vec<_> = toc
            .chunks
            .iter()
            .map(|chunk| Damage {
                class: container.class,
                container: container.name,
                fingerprint: chunk.fingerprint,
            })
            .collect();
        record(&place.open(), &damages, |_, _| {}).expect("memory takes it");
        place.storage.delete(&place.container(LOST)).expect("it goes");
        let done = repair(&place.open(), REPAIR);
        let [each] = &done.snapshots[..] else { panic!("{done:?}") };
        let RepairOutcome::Repaired(new) = each.outcome else { panic!("{each:?}") };
        damage();
        let mut left = place.files.clone();
        left.remove("/b/lost");
        assert!(place.read(new) == left, "{suspect}: it does without");
        assert!(place.storage.get(suspect).expect("it is there") != intact, "it is damaged");
    }
}

/// A repair can be stopped at any moment, and reports its progress.
#[test]
fn repair_can_be_stopped() {
    struct Asked(AtomicU64);
    impl CheckMonitor for Asked {
        fn cancelled(&self) -> bool {
            self.0.fetch_add(1, Ordering::SeqCst);
            false
        }
    }

    let place = Place::new();
    place.storage.delete(&place.container(LOST)).expect("it goes");
    let repository = place.open();
    let asked = Asked(AtomicU64::new(0));
    let options =
        CheckOptions { read_data: Some(Portion::All), threads: 1, ..CheckOptions::default() };
    check(&repository, &options, &asked).expect("nothing fails here");
    let by_check = asked.0.into_inner();
    let dry = SnapshotOptions { dry_run: true, ..REPAIR };
    let run = |limit| {
        let heard = Heard::new(limit);
        let done = repair_snapshots(&repository, &dry, &heard).map_err(|error| error.kind());
        (heard, done.map(drop))
    };
    let (heard, done) = run(u64::MAX);
    done.expect("nothing fails here");
    let [expected, progress, asked] =
        [heard.expected, heard.progress, heard.asked].map(AtomicU64::into_inner);
    assert!(expected > 5 && progress == expected, "{progress} of {expected} containers");
    assert!(asked > by_check + 15, "asked {asked} times, {by_check} of them by the check");
    for limit in (0..asked).rev().step_by(usize::try_from(asked / 100 + 1).expect("small")) {
        assert_eq!(run(limit).1, Err(Kind::Interrupted), "after {limit} of {asked}");
    }
}
