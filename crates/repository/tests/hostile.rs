//! Repositories made by an attacker who has the keys, or needs none. Whatever they contain costs
//! bounded memory and time, and the error says what is wrong.

#[path = "common/backup.rs"]
#[expect(dead_code, reason = "honest backups matter elsewhere")]
mod backup;
#[path = "common/planted.rs"]
mod planted;
#[path = "common/whole.rs"]
mod whole;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::extents::{self, Extent};
use cutpoint_repository::format::recipe::{LEVEL_MAX, RecipeChunk, Segment as Piece};
use cutpoint_repository::format::toc::{ChunkRecord, Codec, Form, RegionRecord, Toc};
use cutpoint_repository::gc::prune::{PruneOptions, plan};
use cutpoint_repository::read::ChunkBytes;
use cutpoint_repository::verify::check::{CheckMonitor, CheckOptions, Finding, Portion, check};
use cutpoint_repository::verify::repair::{
    PathLoss, RepairMonitor, RepairOutcome, SnapshotOptions, SnapshotsRepair, repair_snapshots,
};
use cutpoint_repository::write::{ChunkSink, Inline};
use cutpoint_repository::{
    Class, Content, Entry, EntryKind, Fingerprint, Purpose, Reader, Repository, Snapshot, TicketId,
    Verify, View, Writer,
};
use cutpoint_storage::{Kind, Local, Memory, Result, Storage};
use cutpoint_testing::SplitMix64;
use planted::{folder_of, one_whole, open_repository, put_commit, put_container};

const MIB: usize = 1024 * 1024;

fn new_repository() -> Arc<Repository> {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    open_repository(&storage)
}

/// Returns the peak memory of this process in bytes, if the system tells.
fn peak_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib * 1024)
}

/// Stores what `fill` stores, and a snapshot of the content that it returns.
fn plant(repository: &Arc<Repository>, fill: impl FnOnce(&mut Inline) -> Result<Content>) {
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let mut inline = Inline::new(writer, Verify::All).expect("the index opens");
    let root = fill(&mut inline).expect("memory takes it");
    let snapshot = Snapshot { root, ..Snapshot::empty() };
    inline.commit(Outcome::Snapshot(Box::new(snapshot))).expect("memory takes it");
}

fn reader(repository: &Arc<Repository>) -> Reader {
    let view = View::list(repository).expect("it lists");
    Reader::open(repository.clone(), view).expect("it opens")
}

/// Collects findings, and fails an operation that asks too often whether to stop, because it would
/// never end.
#[derive(Debug, Default)]
struct Collect {
    findings: Mutex<Vec<String>>,
    losses: Mutex<Vec<String>>,
    asked: AtomicU64,
}

/// Number of questions that counts as too often.
const STEPS_MAX: u64 = 2_000_000;

impl CheckMonitor for Collect {
    fn finding(&self, finding: &Finding) {
        let text = format!("{}: {}", finding.object, finding.message);
        self.findings.lock().expect("no test panics in here").push(text);
    }

    fn cancelled(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) > STEPS_MAX
    }
}

impl RepairMonitor for Collect {
    fn loss(&self, _: TicketId, path: &[u8], loss: &PathLoss) {
        let text = format!("{}: {loss:?}", String::from_utf8_lossy(path));
        self.losses.lock().expect("no test panics in here").push(text);
    }
}

/// Returns the findings of a check that reads everything.
fn findings(repository: &Arc<Repository>) -> Vec<String> {
    let collect = Collect::default();
    let options =
        CheckOptions { read_data: Some(Portion::All), threads: 1, ..CheckOptions::default() };
    check(repository, &options, &collect).expect("the storage works, and it ends");
    collect.findings.into_inner().expect("no test panics in here")
}

/// Repairs and forgets. Returns the result and the reported losses.
fn repair(repository: &Arc<Repository>) -> (SnapshotsRepair, Vec<String>) {
    let collect = Collect::default();
    let options = SnapshotOptions { forget: true, ..SnapshotOptions::default() };
    let done = repair_snapshots(repository, &options, &collect).expect("it works, and it ends");
    (done, collect.losses.into_inner().expect("no test panics in here"))
}

fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    entries.iter().for_each(|entry| entry.encode_into(&mut bytes));
    bytes
}

/// Recipes of recipes, a thousand times the same on each level: a stream of 10^15 bytes in a few
/// chunks. Every operation visits each chunk once.
#[test]
fn repeated_recipe_is_visited_once() {
    let repository = new_repository();
    let mut size = 1000_u64;
    plant(&repository, |inline| {
        let mut below = inline.store_data(&[7; 1000])?;
        for level in 0..4 {
            let piece = Piece::Chunk { fingerprint: below, offset: 0, length: size };
            let segments = vec![piece; 1000];
            let recipe = RecipeChunk { level, cut: "fixed".to_owned(), segments, extra: vec![] };
            below = inline.store_meta(&recipe.encode())?;
            size *= 1000;
        }
        let mut file = Entry::new("file", EntryKind::File);
        (file.size, file.content) = (size, Content::Recipe(below));
        let tree = encode(&[file]);
        Ok(folder_of(inline.store_meta(&tree)?, tree.len() as u64))
    });
    assert_eq!(findings(&repository), [""; 0], "nothing is wrong with it");
    let planned = plan(&repository, &PruneOptions::default(), &()).expect("it can be planned");
    assert_eq!(planned.condemned_count, 0, "everything is needed");
    let reader = reader(&repository);
    let view = reader.view();
    let (_, snapshot) = view.snapshots().into_iter().next().expect("a snapshot");
    let file = reader.tree(&snapshot.root).next().expect("a file").expect("it can be read");
    assert_eq!(reader.segments(&file.content).take(5000).filter(Result::is_ok).count(), 5000);
}

/// Creates folders in folders, each twice in the one above it, with `levels` levels above the tree
/// of `leaf`. Sixty levels make 2^60 paths in sixty chunks.
fn folders_twice(inline: &mut Inline, leaf: &[Entry], levels: usize) -> Result<Content> {
    let mut below = match leaf {
        [] => Content::Empty,
        leaf => tree_of(inline, leaf)?,
    };
    for _ in 0..levels {
        let entries = ["a", "b"].map(|name| {
            let mut folder = Entry::new(name, EntryKind::Folder);
            folder.content = below.clone();
            folder
        });
        below = tree_of(inline, &entries)?;
    }
    Ok(below)
}

fn tree_of(inline: &mut Inline, entries: &[Entry]) -> Result<Content> {
    let tree = encode(entries);
    Ok(folder_of(inline.store_meta(&tree)?, tree.len() as u64))
}

/// A chunk that is not stored anywhere.
const NOWHERE: Piece = Piece::Chunk { fingerprint: Fingerprint([0xee; 32]), offset: 0, length: 8 };

fn file(name: &str, size: u64, content: Content) -> Entry {
    let mut file = Entry::new(name, EntryKind::File);
    (file.size, file.content) = (size, content);
    file
}

#[test]
fn repeated_folder_is_visited_once() {
    let repository = new_repository();
    plant(&repository, |inline| folders_twice(inline, &[], 60));
    assert_eq!(findings(&repository), [""; 0], "nothing is wrong with it");
    plan(&repository, &PruneOptions::default(), &()).expect("it can be planned");
}

/// Something is lost on each of 2^60 paths, or on more than can be counted. Some paths are named.
/// The others are counted without visiting them.
#[test]
fn losses_on_very_many_paths_are_counted() {
    for (levels, more) in [(60, (1 << 60) - 1000), (70, u64::MAX - 1000)] {
        let repository = new_repository();
        plant(&repository, |inline| {
            let whole = inline.store_data(b"8 bytes.")?;
            let piece = Piece::Chunk { fingerprint: whole, offset: 0, length: 8 };
            let lost = file("lost", 8, Content::Segments(vec![NOWHERE]));
            let leaf = [lost, file("whole", 8, Content::Segments(vec![piece]))];
            folders_twice(inline, &leaf, levels)
        });
        let found = findings(&repository);
        let named = found.iter().filter(|text| text.contains("/lost: cannot")).count();
        assert_eq!(named, 1000, "paths that are named");
        let text = format!("snapshots: {more} more paths are affected");
        assert!(found.contains(&text), "{:?}", found.last());

        let (done, losses) = repair(&repository);
        let [each] = &done.snapshots[..] else { panic!("{done:?}") };
        assert!(matches!(each.fate, RepairOutcome::Repaired(_)), "{each:?}");
        assert_eq!(losses.len(), 10_000, "losses that are named");
        let all = if levels < 64 { 1 << levels } else { u64::MAX };
        assert_eq!(each.loss_count, all, "losses");
        let unnamed = all - 10_000;
        // Beyond the highest number the count is not exact.
        assert!(each.unnamed_count == unnamed || levels > 64 && each.unnamed_count > unnamed);
        let left: Vec<String> =
            findings(&repository).into_iter().filter(|text| !text.contains("forgotten")).collect();
        assert_eq!(left, [""; 0], "what is left is whole");
        let reader = reader(&repository);
        let mut content = reader.view().snapshots()[0].1.root.clone();
        for level in 0..levels {
            let entries: Result<Vec<Entry>> = reader.tree(&content).collect();
            let mut entries = entries.expect("it can be read");
            assert_eq!(entries.len(), 2, "both are there");
            content = entries.swap_remove(level % 2).content;
        }
        let leaf: Vec<_> = reader.tree(&content).filter_map(Result::ok).map(|it| it.name).collect();
        assert_eq!(leaf, [b"whole"], "what is not lost");
    }
}

/// A lost part of a folder, below recipes that repeat it, is counted without visiting all paths.
#[test]
fn folder_lost_very_often_is_named_once() {
    let repository = new_repository();
    plant(&repository, |inline| {
        let (mut below, mut size) = (NOWHERE, 8);
        for level in 0..5 {
            let segments = vec![below; 1000];
            let recipe = RecipeChunk { level, cut: "fixed".to_owned(), segments, extra: vec![] };
            size *= 1000;
            let fingerprint = inline.store_meta(&recipe.encode())?;
            below = Piece::Chunk { fingerprint, offset: 0, length: size };
        }
        let Piece::Chunk { fingerprint, .. } = below else { panic!("a chunk") };
        let mut folder = Entry::new("folder", EntryKind::Folder);
        folder.content = Content::Recipe(fingerprint);
        // As a file, it has lost more parts than can be visited.
        let entries = [file("file", size, Content::Recipe(fingerprint)), folder];
        folders_twice(inline, &entries, 3)
    });
    let found = findings(&repository);
    assert_eq!(found.iter().filter(|text| text.contains("/folder/: ")).count(), 8, "{found:?}");
    assert_eq!(found.iter().filter(|text| text.contains("/file: ")).count(), 8, "{found:?}");
    let (done, losses) = repair(&repository);
    assert_eq!(done.snapshots.len(), 1, "{done:?}");
    assert_eq!(losses.iter().filter(|text| text.ends_with("/: Entries")).count(), 8, "{losses:?}");
    assert_eq!(losses.iter().filter(|text| text.contains("/file: File")).count(), 8, "{losses:?}");
    let left: Vec<String> =
        findings(&repository).into_iter().filter(|text| !text.contains("forgotten")).collect();
    assert_eq!(left, [""; 0], "what is left is whole");
}

/// Two references to one chunk, one of which has a wrong length. The check reports it, whichever
/// comes first.
#[test]
fn contradictory_length_is_found() {
    for names in [["a", "b"], ["b", "a"]] {
        let repository = new_repository();
        plant(&repository, |inline| {
            let data = inline.store_data(b"8 bytes.")?;
            let piece = Piece::Chunk { fingerprint: data, offset: 0, length: 8 };
            let recipe = |level, segments| {
                RecipeChunk { level, cut: "fixed".to_owned(), segments, extra: vec![] }.encode()
            };
            let below = inline.store_meta(&recipe(0, vec![piece]))?;
            let mut entries = Vec::new();
            for (name, length) in names.into_iter().zip([8, 9]) {
                let piece = Piece::Chunk { fingerprint: below, offset: 0, length };
                let top = inline.store_meta(&recipe(1, vec![piece]))?;
                entries.push(file(name, length, Content::Recipe(top)));
            }
            entries.sort_by(|left, right| left.name.cmp(&right.name));
            tree_of(inline, &entries)
        });
        let (liar, found) = (format!("/{}: ", names[1]), findings(&repository));
        assert!(found.iter().any(|text| text.contains(&liar)), "{liar}: {found:?}");
    }
}

/// Recipes whose levels or lengths differ from those in the references to them. A cycle is
/// impossible, because a chunk cannot contain its own fingerprint.
#[test]
fn recipe_levels_must_descend() {
    let recipe = |level, segments| {
        RecipeChunk { level, cut: "fixed".to_owned(), segments, extra: vec![] }.encode()
    };
    let piece = |fingerprint, length| Piece::Chunk { fingerprint, offset: 0, length };
    let cases: [(&str, u32, u64, u32); 5] = [
        ("the same level", 1, 8, 1),
        ("a level between is left out", 2, 8, 0),
        ("rising", 1, 8, 2),
        ("another length", 1, 9, 0),
        ("too high", LEVEL_MAX + 1, 8, LEVEL_MAX),
    ];
    for (case, upper, length, lower) in cases {
        let repository = new_repository();
        plant(&repository, |inline| {
            let data = inline.store_data(b"8 bytes.")?;
            let below = inline.store_meta(&recipe(lower, vec![piece(data, 8)]))?;
            let top = inline.store_meta(&recipe(upper, vec![piece(below, length)]))?;
            let mut file = Entry::new("file", EntryKind::File);
            (file.size, file.content) = (8, Content::Recipe(top));
            tree_of(inline, &[file])
        });
        let found = findings(&repository);
        assert!(found.iter().any(|text| text.contains("/file")), "{case}: {found:?}");
        let reader = reader(&repository);
        let view = reader.view();
        let (_, snapshot) = view.snapshots().into_iter().next().expect("a snapshot");
        let file = reader.tree(&snapshot.root).next().expect("a file").expect("it can be read");
        let last = reader.segments(&file.content).last().expect("an error at least");
        assert_eq!(last.map_err(|error| error.kind()), Err(Kind::Corrupt), "{case}");
    }
}

/// Names that lead out of a folder are never followed, and the check says where they are.
#[test]
fn names_that_lead_out_of_a_folder_are_not_read() {
    let long = "x".repeat(4097);
    for name in ["", ".", "..", "/", "/etc/passwd", "a/b", "../x", "a\0b", &long] {
        let repository = new_repository();
        plant(&repository, |inline| {
            let mut folder = Entry::new("folder", EntryKind::Folder);
            let tree = encode(&[Entry::new(name, EntryKind::File)]);
            folder.content = folder_of(inline.store_meta(&tree)?, tree.len() as u64);
            let tree = encode(&[folder]);
            Ok(folder_of(inline.store_meta(&tree)?, tree.len() as u64))
        });
        let found = findings(&repository);
        assert!(found.iter().any(|text| text.contains("invalid name")), "{name:?}: {found:?}");
        let reader = reader(&repository);
        let view = reader.view();
        let (_, snapshot) = view.snapshots().into_iter().next().expect("a snapshot");
        let folder = reader.tree(&snapshot.root).next().expect("a folder").expect("it is well");
        let entries: Vec<_> = reader.tree(&folder.content).collect();
        assert!(matches!(&entries[..], [Err(error)] if error.kind() == Kind::Corrupt), "{name:?}");
    }
}

/// Creates a container with one region and one chunk. Returns the result of reading the chunk, and
/// the findings of a check.
fn of_region(
    region: Vec<u8>,
    codec: Codec,
    raw_len: u32,
    chunk: &[u8],
    form: Form,
) -> (Result<ChunkBytes>, Vec<String>) {
    let repository = new_repository();
    let fingerprint = repository.keys().fingerprint(Class::Data, chunk);
    let len = u32::try_from(chunk.len()).expect("small");
    let toc = Toc {
        regions: vec![RegionRecord {
            offset: 64,
            stored_len: u32::try_from(region.len() + 16).expect("small"),
            raw_len,
            codec,
            references: Vec::new(),
        }],
        chunks: vec![ChunkRecord {
            fingerprint,
            form,
            region: 0,
            offset: 0,
            payload_len: len,
            chunk_len: len,
        }],
        extra: Vec::new(),
    };
    let record = put_container(&repository, Class::Data, &[region], &toc.encode());
    let record = record.expect("memory takes it");
    put_commit(&repository, &[record], &[(fingerprint, 0)], Content::Empty).expect("it is put");
    let read = reader(&repository).chunk(Class::Data, &fingerprint);
    (read, findings(&repository))
}

/// Frames that decompress to more, or to less, than the table of contents says.
#[test]
fn regions_with_wrong_sizes_are_refused() {
    let frame = |len: usize| zstd::bulk::compress(&vec![0; len], 3).expect("zstd works");
    let (read, found) = of_region(frame(5000), Codec::Zstd, 5000, &[0; 100], Form::Full);
    assert_eq!((read.expect("it is well").len(), found), (100, vec![]), "what is true");
    let bomb = frame(1024 * MIB);
    assert!(bomb.len() < MIB, "a bomb is small");
    let mut headless = Vec::new();
    zstd::stream::copy_encode(&vec![0; 64 * MIB][..], &mut headless, 3).expect("zstd works");
    let before = peak_memory();
    for (case, region, codec, raw_len) in [
        ("a gibibyte as 5000 bytes", bomb.clone(), Codec::Zstd, 5000),
        ("a gibibyte as 16 MiB", bomb, Codec::Zstd, 16 << 20),
        ("64 MiB that do not say so", headless, Codec::Zstd, 16 << 20),
        ("5000 bytes as 16 MiB", frame(5000), Codec::Zstd, 16 << 20),
        ("more than a region may have", frame(5000), Codec::Zstd, (16 << 20) + 1),
        ("5000 bytes as they are, as 16 MiB", vec![0; 5000], Codec::Store, 16 << 20),
        ("no frame", vec![0x55; 5000], Codec::Zstd, 5000),
        ("nothing", vec![], Codec::Zstd, 5000),
    ] {
        let (read, found) = of_region(region, codec, raw_len, &[0; 100], Form::Full);
        assert_eq!(read.err().map(|error| error.kind()), Some(Kind::Corrupt), "{case}");
        assert!(!found.is_empty(), "{case}: the check says so");
    }
    if let (Some(before), Some(after)) = (before, peak_memory()) {
        assert!(after < before + 256 * MIB, "{} MiB were taken", (after - before) / MIB);
    }
}

/// A record of a region: its form, its payload, and the chunk that it claims to be.
struct Planted {
    form: Form,
    payload: Vec<u8>,
    fingerprint: Fingerprint,
    chunk_len: u32,
}

impl Planted {
    fn whole(repository: &Repository, bytes: &[u8]) -> Planted {
        let fingerprint = repository.keys().fingerprint(Class::Data, bytes);
        let chunk_len = u32::try_from(bytes.len()).expect("small");
        Planted { form: Form::Full, payload: bytes.to_vec(), fingerprint, chunk_len }
    }

    /// A delta chunk that claims to become `bytes`.
    fn delta_chunk(repository: &Repository, bytes: &[u8], list: &[(u16, u32, u32)]) -> Planted {
        let extent = |(reference, offset, len): &_| Extent {
            reference: *reference,
            offset: *offset,
            len: *len,
        };
        let list: Vec<Extent> = list.iter().map(extent).collect();
        let mut payload = Vec::new();
        extents::encode(&list, &mut payload);
        Planted { form: Form::Delta, payload, ..Planted::whole(repository, bytes) }
    }
}

/// Puts a container of these regions, each with its references, and a snapshot with a file for each
/// chunk that `is_file` accepts.
fn plant_regions(
    repository: &Repository,
    regions: &[(Vec<Fingerprint>, Vec<Planted>)],
    is_file: impl Fn(&Planted) -> bool,
) {
    let narrow = |len: usize| u32::try_from(len).expect("small");
    let mut toc = Toc::default();
    let (mut parts, mut hints, mut entries) = (Vec::new(), Vec::new(), Vec::new());
    let mut offset = 64;
    for (number, (references, records)) in (0..).zip(regions) {
        let mut raw = Vec::new();
        for record in records {
            toc.chunks.push(ChunkRecord {
                fingerprint: record.fingerprint,
                form: record.form,
                region: number,
                offset: narrow(raw.len()),
                payload_len: narrow(record.payload.len()),
                chunk_len: record.chunk_len,
            });
            raw.extend_from_slice(&record.payload);
            hints.push((record.fingerprint, 0));
            if is_file(record) {
                let (fingerprint, length) = (record.fingerprint, u64::from(record.chunk_len));
                let piece = Piece::Chunk { fingerprint, offset: 0, length };
                let name = format!("file {:04}", entries.len());
                entries.push(file(&name, length, Content::Segments(vec![piece])));
            }
        }
        let part = zstd::bulk::compress(&raw, 3).expect("zstd works");
        toc.regions.push(RegionRecord {
            offset,
            stored_len: narrow(part.len() + 16),
            raw_len: narrow(raw.len()),
            codec: Codec::Zstd,
            references: references.clone(),
        });
        offset += narrow(part.len() + 16);
        parts.push(part);
    }
    let data = put_container(repository, Class::Data, &parts, &toc.encode());
    let tree = encode(&entries);
    let fingerprint = repository.keys().fingerprint(Class::Meta, &tree);
    let len = narrow(tree.len());
    let meta = one_whole(fingerprint, len);
    let meta = put_container(repository, Class::Meta, &[tree], &meta.encode());
    hints.push((fingerprint, 1));
    let records = [data.expect("memory takes it"), meta.expect("memory takes it")];
    let root = folder_of(fingerprint, u64::from(len));
    put_commit(repository, &records, &hints, root).expect("it is put");
}

/// Delta chunks that no writer writes. Each is an error of the reader, and the check names the file.
#[test]
fn malformed_delta_chunks_are_refused() {
    let old = SplitMix64::bytes(1, 1000);
    let new: Vec<u8> = [&old[..500], &old[600..]].concat();
    let good = [(0, 0, 500), (0, 600, 400)];
    let many: Vec<(u16, u32, u32)> = (0..65).map(|number| (number, 0, 16)).collect();
    let short: Vec<(u16, u32, u32)> = (0..100).map(|number| (0, 2 * number, 1)).collect();
    let every_second: Vec<u8> = old[..200].iter().step_by(2).copied().collect();
    let nowhere = Fingerprint([7; 32]);
    type Case<'a> = (&'a str, &'a [(u16, u32, u32)], &'a [u8], Vec<Fingerprint>, &'a str);
    let keys = new_repository().keys().clone();
    let fingerprint = |bytes: &[u8]| keys.fingerprint(Class::Data, bytes);
    let whole = fingerprint(&old);
    let middle = [&old[..300], &old[310..]].concat();
    let cases: [Case<'_>; 10] = [
        ("well", &good, &new, vec![whole], ""),
        ("itself", &good, &new, vec![fingerprint(&new)], "as a full chunk"),
        (
            "a delta chunk",
            &[(0, 0, 900)],
            &middle[..900],
            vec![fingerprint(&middle)],
            "as a full chunk",
        ),
        ("nothing", &good, &new, vec![nowhere], "as a full chunk"),
        ("beyond", &[(0, 0, 500), (0, 601, 400)], &new, vec![whole], "takes 400 bytes at 601"),
        ("another chunk", &[(0, 0, 500), (0, 599, 400)], &new, vec![whole], "wrong fingerprint"),
        ("unknown reference", &[(1, 0, 900)], &new, vec![whole], "a reference"),
        ("65 references", &many, &old[..16].repeat(65), vec![whole; 65], "undefined reference"),
        ("short extents", &short, &every_second, vec![whole], "more extents than its length"),
        ("65,535 that are nowhere", &good, &new, vec![nowhere; 65_535], "as a full chunk"),
    ];
    for (case, list, bytes, references, message) in cases {
        let repository = new_repository();
        assert_eq!(
            repository.keys().fingerprint(Class::Data, &old),
            whole,
            "the keys are the same"
        );
        let records = vec![
            Planted::whole(&repository, &old),
            Planted::delta_chunk(&repository, &middle, &[(0, 0, 300), (0, 310, 690)]),
        ];
        let delta_chunk = Planted::delta_chunk(&repository, bytes, list);
        let chunk = delta_chunk.fingerprint;
        let regions = [(vec![whole], records), (references, vec![delta_chunk])];
        plant_regions(&repository, &regions, |_| true);
        let read = reader(&repository).chunk(Class::Data, &chunk);
        let found = findings(&repository);
        if message.is_empty() {
            assert_eq!((&*read.expect("it is well"), found), (bytes, vec![]), "{case}");
            continue;
        }
        let error = read.expect_err("it lies");
        assert!(matches!(error.kind(), Kind::Corrupt | Kind::Missing), "{case}: {error}");
        assert!(error.to_string().contains(message), "{case}: {error}");
        assert!(found.iter().any(|text| text.contains(message)), "{case}: {found:?}");
        let affected: Vec<_> = found.iter().filter(|text| text.contains("/file")).collect();
        assert_eq!(affected.len(), 1, "{case}: {found:?}");
        assert!(affected[0].contains("/file 0002"), "{case}: {found:?}");
    }
}

/// However its extents lie, a chunk needs its own region and at most one for each of 64 full chunks.
#[test]
fn chunk_needs_at_most_65_regions() {
    let repository = new_repository();
    let full_chunks: Vec<Vec<u8>> = (0..64).map(|seed| SplitMix64::bytes(seed, 50)).collect();
    // Each whole is used twice.
    let list: Vec<(u16, u32, u32)> =
        (0..128).map(|number| (number % 64, u32::from(number / 64) * 25, 25)).collect();
    let halves = [0..25, 25..50]
        .map(|half| full_chunks.iter().flat_map(move |it| it[half.clone()].to_vec()));
    let bytes: Vec<u8> = halves.into_iter().flatten().collect();
    let mut regions: Vec<_> = full_chunks
        .iter()
        .map(|bytes| (vec![], vec![Planted::whole(&repository, bytes)]))
        .collect();
    let references = regions.iter().map(|(_, records)| records[0].fingerprint).collect();
    regions.push((references, vec![Planted::delta_chunk(&repository, &bytes, &list)]));
    plant_regions(&repository, &regions, |record| record.form == Form::Delta);
    let reader = reader(&repository);
    let chunk = repository.keys().fingerprint(Class::Data, &bytes);
    assert_eq!(*reader.chunk(Class::Data, &chunk).expect("it is well"), bytes, "its bytes");
    let statistics = reader.statistics();
    assert_eq!((statistics.region_count, statistics.request_count), (65, 65), "{statistics:?}");
}

/// Each delta chunk claims 16 MiB, from three bytes. A few are tried, and the check reports that it
/// left out the others.
#[test]
fn delta_chunks_with_excessive_claims_cost_little() {
    let repository = new_repository();
    let zeros = vec![0; 16 * MIB];
    let whole = Planted::whole(&repository, &zeros);
    let references = vec![whole.fingerprint];
    let liar = |number: u16| {
        let mut liar = Planted::delta_chunk(&repository, b"", &[(0, 0, 16 << 20)]);
        liar.chunk_len = 16 << 20;
        liar.fingerprint.0[..2].copy_from_slice(&number.to_le_bytes());
        liar
    };
    let liars = (0..5000).map(liar).collect();
    let regions = [(vec![], vec![whole]), (references, liars)];
    plant_regions(&repository, &regions, |record| record.form == Form::Delta);
    let before = peak_memory();
    let found = findings(&repository);
    let more = "4984 more delta chunks were not verified";
    assert!(found.iter().any(|text| text.contains(more)), "{:?}", &found[..20]);
    assert!(found.iter().any(|text| text.contains("/file 0000")), "files are named");
    if let (Some(before), Some(after)) = (before, peak_memory()) {
        assert!(after < before + 256 * MIB, "{} MiB were taken", (after - before) / MIB);
    }
}

/// An index that claims a table of contents of four gibibytes. In a folder, which could allocate the
/// requested length before it reads.
#[test]
fn lengths_claimed_by_an_index_take_no_memory() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let storage: Arc<dyn Storage> = Arc::new(Local::create(folder.path()).expect("a folder"));
    let repository = open_repository(&storage);
    let record = put_container(&repository, Class::Data, &[], &Toc::default().encode());
    let mut record = record.expect("the folder takes it");
    (record.stored_len, record.toc_len) = (u32::MAX, u32::MAX - record.toc_offset);
    let chunk = Fingerprint([1; 32]);
    put_commit(&repository, &[record], &[(chunk, 0)], Content::Empty).expect("it is put");
    let before = peak_memory();
    let error =
        reader(&repository).chunk(Class::Data, &chunk).expect_err("there is no table of contents");
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(error.to_string().contains("too short"), "{error}");
    assert!(!findings(&repository).is_empty(), "the check says so");
    if let (Some(before), Some(after)) = (before, peak_memory()) {
        assert!(after < before + 1024 * MIB, "{} MiB were taken", (after - before) / MIB);
    }
}

/// Runs the bodies of the fuzz targets on random input that is partly meaningful.
fn on_random_input(body: fn(&[u8]), seed: u64, count: usize) {
    let mut random = SplitMix64::new(seed);
    for _ in 0..count {
        let len = random.below(600);
        let mut input = random.take(len);
        // Fewer large numbers, and meaningful pieces.
        for at in 0..input.len() {
            match random.below(8) {
                0..3 => input[at] &= 7,
                3 => input[at] = 0,
                4 if at + 4 < input.len() => {
                    let words: [&[u8]; 6] = [
                        &[0xf9, 0x9f, 0],
                        &[0xa2, 0, 0x41],
                        &[0xf9, 0x9f, 1],
                        &[0x28, 0xb5, 0x2f, 0xfd],
                        &[0xa3, 0, 0, 1],
                        &[0x0e, 0x82, 1],
                    ];
                    let word = words[random.below(6)];
                    input[at..at + word.len()].copy_from_slice(word);
                }
                _ => {}
            }
        }
        body(&input);
    }
}

#[test]
fn random_trees_do_no_harm() {
    on_random_input(planted::trees, 1, 300);
    // Found by the fuzzer: a tree of no bytes.
    planted::trees(&[0x0a, 0x5b]);
}

#[test]
fn random_containers_do_no_harm() {
    on_random_input(planted::containers, 2, 300);
}

#[test]
fn random_objects_do_no_harm() {
    on_random_input(planted::objects, 3, 300);
}

#[test]
fn random_runs_do_no_harm() {
    on_random_input(planted::runs, 4, 300);
}

#[test]
fn random_parity_does_no_harm() {
    on_random_input(planted::parity, 5, 300);
}
