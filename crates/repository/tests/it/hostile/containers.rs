//! Containers: regions with wrong sizes, and delta chunks that claim or refer to too much.

use std::sync::Arc;

use cutpoint_repository::format::extents::{self, Extent};
use cutpoint_repository::format::recipe::Segment as Piece;
use cutpoint_repository::format::toc::{ChunkRecord, Codec, Form, RegionRecord, Toc};
use cutpoint_repository::read::ChunkBytes;
use cutpoint_repository::{Class, Content, Fingerprint, Repository};
use cutpoint_storage::{Kind, Local, Result, Storage};
use cutpoint_testing::SplitMix64;

use super::{MIB, encode, file, findings, new_repository, reader};
use crate::support::own_process::{in_own_process, peak_memory};
use crate::support::planted::{
    folder_of, one_full_chunk, open_repository, put_commit, put_container,
};

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
    let name = "hostile::containers::regions_with_wrong_sizes_are_refused";
    in_own_process(name, refuse_regions_with_wrong_sizes);
}

fn refuse_regions_with_wrong_sizes() {
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
struct PlantedRecord {
    form: Form,
    payload: Vec<u8>,
    fingerprint: Fingerprint,
    chunk_len: u32,
}

impl PlantedRecord {
    fn full_chunk(repository: &Repository, bytes: &[u8]) -> PlantedRecord {
        let fingerprint = repository.keys().fingerprint(Class::Data, bytes);
        let chunk_len = u32::try_from(bytes.len()).expect("small");
        PlantedRecord { form: Form::Full, payload: bytes.to_vec(), fingerprint, chunk_len }
    }

    /// A delta chunk that claims to become `bytes`.
    fn delta_chunk(
        repository: &Repository,
        bytes: &[u8],
        list: &[(u16, u32, u32)],
    ) -> PlantedRecord {
        let extent = |(reference, offset, len): &_| Extent {
            reference: *reference,
            offset: *offset,
            len: *len,
        };
        let list: Vec<Extent> = list.iter().map(extent).collect();
        let mut payload = Vec::new();
        extents::encode(&list, &mut payload);
        PlantedRecord { form: Form::Delta, payload, ..PlantedRecord::full_chunk(repository, bytes) }
    }
}

/// Puts a container of these regions, each with its references, and a snapshot with a file for each
/// chunk that `is_file` accepts.
fn plant_regions(
    repository: &Repository,
    regions: &[(Vec<Fingerprint>, Vec<PlantedRecord>)],
    is_file: impl Fn(&PlantedRecord) -> bool,
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
    let meta = one_full_chunk(fingerprint, len);
    let meta = put_container(repository, Class::Meta, &[tree], &meta.encode());
    hints.push((fingerprint, 1));
    let records = [data.expect("memory takes it"), meta.expect("memory takes it")];
    let root = folder_of(fingerprint, u64::from(len));
    put_commit(repository, &records, &hints, root).expect("it is put");
}

/// Delta chunks that no writer writes. Each is an error of the reader, and the check names the
/// file.
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
    let full_chunk = fingerprint(&old);
    let middle = [&old[..300], &old[310..]].concat();
    let cases: [Case<'_>; 10] = [
        ("well", &good, &new, vec![full_chunk], ""),
        ("itself", &good, &new, vec![fingerprint(&new)], "as a full chunk"),
        (
            "a delta chunk",
            &[(0, 0, 900)],
            &middle[..900],
            vec![fingerprint(&middle)],
            "as a full chunk",
        ),
        ("nothing", &good, &new, vec![nowhere], "as a full chunk"),
        ("beyond", &[(0, 0, 500), (0, 601, 400)], &new, vec![full_chunk], "takes 400 bytes at 601"),
        (
            "another chunk",
            &[(0, 0, 500), (0, 599, 400)],
            &new,
            vec![full_chunk],
            "wrong fingerprint",
        ),
        ("unknown reference", &[(1, 0, 900)], &new, vec![full_chunk], "a reference"),
        (
            "65 references",
            &many,
            &old[..16].repeat(65),
            vec![full_chunk; 65],
            "undefined reference",
        ),
        ("short extents", &short, &every_second, vec![full_chunk], "more extents than its length"),
        ("65,535 that are nowhere", &good, &new, vec![nowhere; 65_535], "as a full chunk"),
    ];
    for (case, list, bytes, references, message) in cases {
        let repository = new_repository();
        assert_eq!(
            repository.keys().fingerprint(Class::Data, &old),
            full_chunk,
            "the keys are the same"
        );
        let records = vec![
            PlantedRecord::full_chunk(&repository, &old),
            PlantedRecord::delta_chunk(&repository, &middle, &[(0, 0, 300), (0, 310, 690)]),
        ];
        let delta_chunk = PlantedRecord::delta_chunk(&repository, bytes, list);
        let chunk = delta_chunk.fingerprint;
        let regions = [(vec![full_chunk], records), (references, vec![delta_chunk])];
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

/// However its extents lie, a chunk needs its own region and at most one for each of 64 full
/// chunks.
#[test]
fn chunk_needs_at_most_65_regions() {
    let repository = new_repository();
    let full_chunks: Vec<Vec<u8>> = (0..64).map(|seed| SplitMix64::bytes(seed, 50)).collect();
    // Each full chunk is used twice.
    let list: Vec<(u16, u32, u32)> =
        (0..128).map(|number| (number % 64, u32::from(number / 64) * 25, 25)).collect();
    let halves = [0..25, 25..50]
        .map(|half| full_chunks.iter().flat_map(move |it| it[half.clone()].to_vec()));
    let bytes: Vec<u8> = halves.into_iter().flatten().collect();
    let mut regions: Vec<_> = full_chunks
        .iter()
        .map(|bytes| (vec![], vec![PlantedRecord::full_chunk(&repository, bytes)]))
        .collect();
    let references = regions.iter().map(|(_, records)| records[0].fingerprint).collect();
    regions.push((references, vec![PlantedRecord::delta_chunk(&repository, &bytes, &list)]));
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
    let name = "hostile::containers::delta_chunks_with_excessive_claims_cost_little";
    in_own_process(name, check_delta_chunks_with_excessive_claims);
}

fn check_delta_chunks_with_excessive_claims() {
    let repository = new_repository();
    let zeros = vec![0; 16 * MIB];
    let full_chunk = PlantedRecord::full_chunk(&repository, &zeros);
    let references = vec![full_chunk.fingerprint];
    let liar = |number: u16| {
        let mut liar = PlantedRecord::delta_chunk(&repository, b"", &[(0, 0, 16 << 20)]);
        liar.chunk_len = 16 << 20;
        liar.fingerprint.0[..2].copy_from_slice(&number.to_le_bytes());
        liar
    };
    let liars = (0..5000).map(liar).collect();
    let regions = [(vec![], vec![full_chunk]), (references, liars)];
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

/// An index that claims a table of contents of four gibibytes. In a folder, which could allocate
/// the requested length before it reads.
#[test]
fn lengths_claimed_by_an_index_take_no_memory() {
    let name = "hostile::containers::lengths_claimed_by_an_index_take_no_memory";
    in_own_process(name, read_by_an_index_with_excessive_lengths);
}

fn read_by_an_index_with_excessive_lengths() {
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
