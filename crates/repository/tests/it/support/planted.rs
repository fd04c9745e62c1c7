//! Repositories that the writer of this crate has not written: validly sealed, with arbitrary
//! content.

use std::sync::Arc;

use bytes::Bytes;
use cutpoint_repository::crypto::{PartKind, Sealer};
use cutpoint_repository::format::commit::{Commit, Damage, Outcome, ViewRecord};
use cutpoint_repository::format::parity::ParityTable;
use cutpoint_repository::format::recipe::Segment as Piece;
use cutpoint_repository::format::segment::{ContainerRecord, Segment};
use cutpoint_repository::format::toc::{ChunkRecord, Codec, Form, RegionRecord, Toc};
use cutpoint_repository::format::tree::check_name;
use cutpoint_repository::gc::prune::{PruneOptions, plan};
use cutpoint_repository::verify::check::{self, CheckOptions, Portion, check};
use cutpoint_repository::verify::describe::describe;
use cutpoint_repository::verify::repair::{
    DataOptions, IndexOptions, SnapshotOptions, repair_data, repair_index, repair_snapshots,
};
use cutpoint_repository::{
    CipherSuite, Class, Content, EntryKind, Fingerprint, InitOptions, ObjectName, PartName, Reader,
    Repository, Snapshot, TicketId, Unlock, View,
};
use cutpoint_storage::{Memory, Result, Storage};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed, xxh3_128};

use super::machine::Machine;

/// The ticket of the only writer.
pub(crate) const TICKET: TicketId = TicketId([9; 12]);

/// The only container of its class.
pub(crate) const PART: PartName = PartName { ticket: TICKET, count: 0 };

/// Returns the table of contents of a container with one uncompressed region, which is one full
/// chunk of `len` bytes.
pub(crate) fn one_full_chunk(fingerprint: Fingerprint, len: u32) -> Toc {
    Toc {
        regions: vec![RegionRecord {
            offset: 64,
            stored_len: len + 16,
            raw_len: len,
            codec: Codec::Store,
            references: Vec::new(),
        }],
        chunks: vec![ChunkRecord {
            fingerprint,
            form: Form::Full,
            region: 0,
            offset: 0,
            payload_len: len,
            chunk_len: len,
        }],
        extra: Vec::new(),
    }
}

/// Puts a container with `regions` as its sealed parts, unchanged, and `toc` as its
/// table of contents. Returns its index entries.
pub(crate) fn put_container(
    repository: &Repository,
    class: Class,
    regions: &[Vec<u8>],
    toc: &[u8],
) -> Result<ContainerRecord> {
    let name = ObjectName::Container(class, PART);
    let mut sealer = Sealer::new(repository.keys(), name, [6; 16]);
    let mut bytes = sealer.header().to_vec();
    for (number, region) in (0..).zip(regions) {
        let mut part = region.clone();
        sealer.seal(PartKind::Region(number), &mut part);
        bytes.extend_from_slice(&part);
    }
    let toc_offset = u32::try_from(bytes.len()).expect("small");
    let mut part = toc.to_vec();
    let toc_len = u32::try_from(part.len() + 16).expect("small");
    sealer.finish(PartKind::Toc, &mut part);
    bytes.extend_from_slice(&part);
    let stored_len = u32::try_from(bytes.len()).expect("small");
    repository.put(name, Bytes::from(bytes))?;
    let read = Toc::decode(toc, u64::from(toc_offset));
    let has_delta_chunks = read.is_ok_and(|read| read.has_delta_chunks());
    let name = PART;
    Ok(ContainerRecord { name, class, has_delta_chunks, stored_len, toc_offset, toc_len })
}

/// Puts an index segment with `records`, and a commit of it with a snapshot of `root`.
pub(crate) fn put_commit(
    repository: &Repository,
    records: &[ContainerRecord],
    chunks: &[(Fingerprint, u32)],
    root: Content,
) -> Result<()> {
    let mut hints: Vec<(u64, u32)> =
        chunks.iter().map(|(chunk, container)| (chunk.hint(), *container)).collect();
    hints.sort_unstable();
    let segment = Segment { containers: records.to_vec(), hints, ..Segment::default() };
    repository.seal_and_put(ObjectName::Segment(PART), &segment.encode())?;
    let commit = Commit {
        outcome: Outcome::Snapshot(Box::new(Snapshot { root, ..Snapshot::empty() })),
        segments: vec![PART],
        embedded: None,
        view: ViewRecord::default(),
        time_ns: 1,
        extra: Vec::new(),
    };
    repository.seal_and_put(ObjectName::Commit(TICKET), &commit.encode())
}

/// Returns a folder whose tree is the chunk `fingerprint` of `length` bytes.
pub(crate) fn folder_of(fingerprint: Fingerprint, length: u64) -> Content {
    Content::Segments(vec![Piece::Chunk { fingerprint, offset: 0, length }])
}

/// Creates an unencrypted repository in memory, and opens it in another process than the one that
/// made it.
pub(crate) fn open_repository(storage: &Arc<dyn Storage>) -> Arc<Repository> {
    let options = InitOptions {
        suite: CipherSuite::None,
        cut: "fixed".to_owned(),
        region_size: 16 * 1024,
        container_size: 4 * 1024 * 1024,
        compression_level: 1,
        delta_chunks: false,
        parity_percent: 0,
        ..InitOptions::default()
    };
    Repository::init(storage.clone(), Machine::new(0), &Unlock::Nothing, &options)
        .expect("an empty storage takes a repository");
    let opened = Repository::open(storage.clone(), Machine::new(1), &Unlock::Nothing);
    Arc::new(opened.expect("it was just made"))
}

/// Runs everything that reads a repository: a check, a prune's plan, every path and every chunk,
/// and then repairs. Nothing may panic, and everything must end.
pub(crate) fn use_it(repository: &Arc<Repository>, chunks: &[Fingerprint]) {
    let read_data = Some(Portion::All);
    let options = CheckOptions { read_data, threads: 1, ..CheckOptions::default() };
    check(repository, &options, &()).ok();
    plan(repository, &PruneOptions::default(), &()).ok();
    read_it(repository, chunks).ok();
    repair_index(repository, &IndexOptions::default(), &()).ok();
    let options = SnapshotOptions { read_data, threads: 1, forget: true, dry_run: false };
    repair_snapshots(repository, &options, &()).ok();
}

fn read_it(repository: &Arc<Repository>, chunks: &[Fingerprint]) -> Result<()> {
    let reader = Reader::open(repository.clone(), View::list(repository)?)?;
    for (class, chunk) in
        [Class::Data, Class::Meta].into_iter().flat_map(|c| chunks.iter().map(move |f| (c, f)))
    {
        if let Ok(bytes) = reader.chunk(class, chunk) {
            assert_eq!(repository.keys().fingerprint(class, &bytes), *chunk, "other bytes");
        }
    }
    // A small repository may hold very many paths, and a small recipe a very long stream.
    let mut steps = 0..2000;
    let mut folders: Vec<Content> =
        reader.view().snapshots().iter().map(|(_, snapshot)| snapshot.root.clone()).collect();
    while let Some(folder) = folders.pop() {
        for entry in reader.tree(&folder) {
            let Ok(entry) = entry else { break };
            check_name(&entry.name).expect("a reader gives no name that leads elsewhere");
            if steps.next().is_none() {
                return Ok(());
            }
            if entry.kind == EntryKind::Folder {
                folders.push(entry.content);
            } else {
                reader.segments(&entry.content).take(20).for_each(drop);
            }
        }
    }
    Ok(())
}

/// Takes values from the front of an input, and zeros behind its end.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    fn bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()) | usize::from(self.byte() & 7) << 8;
        let (first, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        first
    }
}

/// Metadata chunks that are validly stored, with content from the input, as the tree of a snapshot:
/// trees and recipes that no writer writes. The bytes 0xf9 0x9f n stand for the fingerprint of the
/// n-th chunk before.
pub(crate) fn trees(bytes: &[u8]) {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = open_repository(&storage);
    let input = &mut Input(bytes);
    let how = input.byte();
    let mut chunks: Vec<(Fingerprint, u32)> = Vec::new();
    let mut region = Vec::new();
    let mut toc = Toc::default();
    while !input.0.is_empty() && chunks.len() < 64 {
        let mut raw = input.bytes();
        let mut payload = Vec::new();
        while let Some((first, rest)) = raw.split_first() {
            if let [0xf9, 0x9f, number, rest @ ..] = raw
                && let Some((named, _)) = chunks.get(usize::from(*number))
            {
                payload.extend_from_slice(&named.0);
                raw = rest;
            } else {
                payload.push(*first);
                raw = rest;
            }
        }
        let fingerprint = repository.keys().fingerprint(Class::Meta, &payload);
        let narrow = |len: usize| u32::try_from(len).expect("small");
        toc.chunks.push(ChunkRecord {
            fingerprint,
            form: Form::Full,
            region: 0,
            offset: narrow(region.len()),
            payload_len: narrow(payload.len()),
            chunk_len: narrow(payload.len()),
        });
        region.extend_from_slice(&payload);
        chunks.push((fingerprint, 0));
    }
    let Some(last) = toc.chunks.last() else { return };
    let root = match how & 1 {
        // The format cannot express that there are no bytes.
        0 if last.payload_len > 0 => folder_of(last.fingerprint, last.payload_len.into()),
        _ => Content::Recipe(last.fingerprint),
    };
    toc.regions.push(RegionRecord {
        offset: 64,
        stored_len: u32::try_from(region.len() + 16).expect("small"),
        raw_len: u32::try_from(region.len()).expect("small"),
        codec: Codec::Store,
        references: Vec::new(),
    });
    let record = put_container(&repository, Class::Meta, &[region], &toc.encode());
    let record = record.expect("memory takes it");
    put_commit(&repository, &[record], &chunks, root).expect("memory takes it");
    use_it(&repository, &[]);
}

/// A container of file data with sealed regions and a sealed table of contents from the input, and
/// an index that may contradict it.
pub(crate) fn containers(bytes: &[u8]) {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = open_repository(&storage);
    let input = &mut Input(bytes);
    let how = input.byte();
    let mut offset = 64;
    let (mut regions, mut toc) = (Vec::new(), Toc::default());
    for _ in 0..input.byte() % 4 {
        let region = input.bytes().to_vec();
        let shift = input.byte();
        let stored_len = u32::try_from(region.len() + 16).expect("small");
        toc.regions.push(RegionRecord {
            offset: offset + u32::from(shift / 64),
            stored_len,
            raw_len: input.number() >> (shift % 32),
            codec: if shift & 1 == 0 { Codec::Store } else { Codec::Zstd },
            references: Vec::new(),
        });
        offset += stored_len;
        regions.push(region);
    }
    for _ in 0..input.byte() % 16 {
        let payload = input.bytes();
        let len = input.number() % 20_000;
        toc.chunks.push(ChunkRecord {
            fingerprint: repository.keys().fingerprint(Class::Data, payload),
            form: [Form::Full, Form::Full, Form::Literal, Form::Delta]
                [usize::from(input.byte() % 4)],
            region: u16::from(input.byte() % 4),
            offset: input.number() % 20_000,
            payload_len: len,
            chunk_len: if how & 2 == 0 { len } else { input.number() },
        });
    }
    let Toc { regions: records, chunks: held, .. } = &mut toc;
    for region in records.iter_mut().filter(|_| !held.is_empty()) {
        for _ in 0..input.byte() % 4 {
            let number = usize::from(input.byte()) % held.len();
            region.references.push(held[number].fingerprint);
        }
    }
    let mut chunks: Vec<(Fingerprint, u32)> =
        toc.chunks.iter().map(|chunk| (chunk.fingerprint, 0)).collect();
    chunks.push((Fingerprint([1; 32]), 0));
    let body = if how & 1 == 0 { toc.encode() } else { input.0.to_vec() };
    let record = put_container(&repository, Class::Data, &regions, &body);
    let mut record = record.expect("memory takes it");
    if how & 4 != 0 {
        record.toc_offset = input.number();
        record.toc_len = input.number() % 100_000;
        record.stored_len = input.number();
    }
    put_commit(&repository, &[record], &chunks, Content::Empty).expect("memory takes it");
    let chunks: Vec<Fingerprint> = chunks.into_iter().map(|(chunk, _)| chunk).collect();
    use_it(&repository, &chunks);
}

/// One object of any kind, validly sealed, with the input as its body, or with the input as its
/// sealed bytes and its trailer, and a matching checksum.
pub(crate) fn objects(bytes: &[u8]) {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = open_repository(&storage);
    let input = &mut Input(bytes);
    let how = input.byte();
    let name = match how % 8 {
        7 if how & 96 == 96 => ObjectName::View { position: 0, version: 0 },
        7 if how & 32 != 0 => {
            ObjectName::Parity { class: Class::Meta, container: PART, writer: TICKET }
        }
        0 => ObjectName::Config { number: 1, copy: false },
        1 => ObjectName::Ticket { ticket: TICKET, renewal: u32::from(how >> 6) },
        2 => ObjectName::Commit(TICKET),
        3 => ObjectName::Prune(1),
        4 => ObjectName::Segment(PART),
        5 => ObjectName::Similarity(PART),
        6 => ObjectName::Key { id: [7; 16], copy: false },
        _ => ObjectName::Container(Class::Meta, PART),
    };
    if name == ObjectName::Segment(PART) {
        put_commit(&repository, &[], &[], Content::Empty).expect("memory takes it");
        storage.delete(&name.to_string()).expect("memory deletes");
    }
    if how & 8 == 0 {
        repository.seal_and_put(name, input.0).expect("memory takes it");
    } else {
        let mut object = Sealer::new(repository.keys(), name, [6; 16]).header().to_vec();
        if how & 16 != 0 {
            object[usize::from(input.byte() % 64)] ^= input.byte();
        }
        object.extend_from_slice(input.0);
        let checksum = xxh3_128(&object);
        object.extend_from_slice(&checksum.to_le_bytes());
        repository.put(name, Bytes::from(object)).expect("memory takes it");
    }
    describe(&repository, name).ok();
    // The object, or even the repository, may no longer open.
    use_it(&repository, &[]);
    if let Ok(again) = Repository::open(storage, Machine::new(2), &Unlock::Nothing) {
        use_it(&Arc::new(again), &[]);
    }
}

/// Validly sealed parity with content from the input, for a damaged container.
pub(crate) fn parity(bytes: &[u8]) {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = open_repository(&storage);
    let input = &mut Input(bytes);
    let how = input.byte();
    let payload = vec![how; 3000];
    let fingerprint = repository.keys().fingerprint(Class::Data, &payload);
    let toc = one_full_chunk(fingerprint, 3000);
    let record = put_container(&repository, Class::Data, &[payload], &toc.encode());
    let record = record.expect("memory takes it");
    put_commit(&repository, &[record], &[(fingerprint, 0)], Content::Empty)
        .expect("memory takes it");
    let container = ObjectName::Container(Class::Data, PART).to_string();
    let intact = storage.get(&container).expect("it was put");

    let shard_len = if how & 1 == 0 { 8192 } else { 64 << (input.byte() % 12) };
    let container_len =
        if how & 2 == 0 { intact.len() as u64 } else { u64::from(input.number() >> (how / 8)) };
    let parity_count = if how & 4 == 0 { 2 } else { u32::from(input.byte()) };
    // Limited, because the input would otherwise become large.
    let checksum_count = container_len.div_ceil(u64::from(shard_len)).min(10_000);
    let mut padded = intact.to_vec();
    padded.resize(intact.len().next_multiple_of(shard_len as usize), 0);
    let mut shards = padded.chunks(shard_len as usize);
    let checksums = (0..checksum_count).map(|_| {
        let hash = blake3::hash(shards.next().unwrap_or_default());
        hash.as_bytes()[..16].try_into().expect("16 bytes")
    });
    let table = ParityTable {
        class: Class::Data,
        container: PART,
        container_len,
        shard_len,
        parity_count,
        checksums: checksums.collect(),
        extra: Vec::new(),
    };
    let name = ObjectName::Parity { class: Class::Data, container: PART, writer: TICKET };
    let mut sealer = Sealer::new(repository.keys(), name, [6; 16]);
    let mut object = sealer.header().to_vec();
    for number in 0..parity_count.min(32) {
        let mut shard = input.bytes().to_vec();
        shard.resize(shard_len as usize, how);
        sealer.seal(PartKind::Region(number), &mut shard);
        object.extend_from_slice(&shard);
    }
    let mut body = if how & 8 == 0 { table.encode() } else { input.0.to_vec() };
    sealer.finish(PartKind::Toc, &mut body);
    object.extend_from_slice(&body);
    repository.put(name, Bytes::from(object)).expect("memory takes it");
    describe(&repository, name).ok();
    use_it(&repository, &[fingerprint]);

    let mut damaged = intact.to_vec();
    damaged[usize::from(input.byte())] ^= input.byte() | 1;
    storage.delete(&container).expect("memory deletes");
    storage.put_new(&container, Bytes::from(damaged)).expect("memory takes it");
    let options = DataOptions { read_data: Some(Portion::All), threads: 1, dry_run: false };
    let damage = Damage { class: Class::Data, container: PART, fingerprint };
    check::record(&repository, &[damage], |_, _| {}).expect("memory takes it");
    repair_data(&repository, &options, &()).ok();
    use_it(&repository, &[fingerprint]);
}

/// A run file of the local index with a valid head, and blocks with valid checksums. Its entries
/// lead nowhere, or to other chunks than are looked for.
pub(crate) fn runs(bytes: &[u8]) {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = open_repository(&storage);
    put_commit(&repository, &[], &[], Content::Empty).expect("memory takes it");
    let input = &mut Input(bytes);
    let how = input.byte();
    let container_count = u32::from(input.byte() % 4);
    let mut tail = PART.to_bytes().to_vec();
    for _ in 0..container_count {
        tail.extend_from_slice(&PART.to_bytes());
        tail.push(input.byte() % 2);
        (0..3).for_each(|_| tail.extend_from_slice(&input.number().to_le_bytes()));
    }
    let hints: Vec<[u8; 12]> = input.0.chunks(12).filter_map(|hint| hint.try_into().ok()).collect();
    // A filter that contains everything: 10 bits a hint in blocks of 64 bytes.
    let blocks = (hints.len() * 10).div_ceil(512).max(1);
    tail.resize(tail.len() + blocks * 64, 0xff);
    let mut fixed = b"CutPrun2".to_vec();
    fixed.extend_from_slice(&1_u32.to_le_bytes());
    fixed.extend_from_slice(&container_count.to_le_bytes());
    fixed.extend_from_slice(&(hints.len() as u64).to_le_bytes());
    if how & 1 != 0 {
        fixed[8 + usize::from(how >> 4)] ^= how;
    }
    let sum = xxh3_64(&[&fixed[..], &tail].concat());
    let identity = xxh3_64(&PART.to_bytes());
    let mut file = [&fixed[..], &sum.to_le_bytes(), &tail].concat();
    for (number, block) in (0_u64..).zip(hints.chunks(341)) {
        let block = block.concat();
        file.extend_from_slice(&block);
        file.extend_from_slice(&xxh3_64_with_seed(&block, identity ^ number).to_le_bytes()[..4]);
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let opened = Repository::open(storage, Machine::new(2), &Unlock::Nothing).expect("it opens");
    let repository = Arc::new(opened.with_cache(folder.path().to_path_buf()));
    let runs = repository.cache().expect("it has one").join("index");
    std::fs::create_dir_all(&runs).expect("a folder is made");
    std::fs::write(runs.join("0.run"), &file).expect("a file is written");
    let chunks: Vec<Fingerprint> = hints
        .iter()
        .take(3)
        .map(|hint| {
            let mut fingerprint = [0; 32];
            fingerprint[..8].copy_from_slice(&hint[..8]);
            Fingerprint(fingerprint)
        })
        .collect();
    use_it(&repository, &chunks);
}
