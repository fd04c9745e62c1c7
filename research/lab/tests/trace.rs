//! Chunk traces: written traces are read back, and traces of other programs are read.

use std::fs::{self, File};
use std::io;
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cutpoint_estimate::scan::{Monitor, ScanOptions, Shard};
use cutpoint_estimate::{Counter, EstimateError};
use cutpoint_lab::trace::{
    Format, JoinCounts, Row, TraceOptions, TraceSavings, join, read_trace, trace,
};
use cutpoint_testing::SplitMix64;

struct Nobody;

impl Monitor for Nobody {}

fn rows(path: &Path) -> io::Result<Vec<Row>> {
    let mut rows = Vec::new();
    read_trace(path, &mut |row| {
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

fn make_data(folder: &Path) {
    let random = SplitMix64::bytes(5, 300_000);
    fs::write(folder.join("a"), &random).expect("written");
    fs::write(folder.join("b"), [&random[..200_000], &[0; 100_000]].concat()).expect("written");
    fs::write(folder.join("c, \"d\""), b"short").expect("written");
    let sparse = File::create(folder.join("e")).expect("made");
    sparse.set_len(1 << 20).expect("it grows");
    sparse.write_all_at(b"behind a hole", 900_000).expect("written");
}

/// Returns the options of a trace of `folder`.
fn options(folder: &Path, output: &Path, spec: &str, shard: Option<Shard>) -> TraceOptions {
    let paths = vec![folder.to_owned()];
    TraceOptions {
        scan: ScanOptions { paths, shard, threads: 2, ..ScanOptions::default() },
        spec: spec.parse().expect("a spec"),
        key: None,
        format: Format::of(output).expect("a form"),
    }
}

/// Returns the part `number` of `count`, with ranges of `range_size` bytes.
fn shard(spec: &str, number: u32, count: u32, range_size: u64) -> Shard {
    let count = NonZero::new(count).expect("it is not 0");
    let range_size = NonZero::new(range_size).expect("it is not 0");
    let spec = spec.parse().expect("a spec");
    Shard::new(number, count, &spec, range_size).expect("it is bounded")
}

const FIXED: &str = "fixed:size=4096";

fn traced(folder: &Path, output: &Path, shard: Option<Shard>) -> (u64, PathBuf) {
    let options = options(folder, output, FIXED, shard);
    let paths = output.with_extension("paths");
    let file = |path: &Path| File::create(path).expect("made");
    let traced = trace(&options, file(output), Some(file(&paths)), &Nobody).expect("it is traced");
    (traced.row_count, paths)
}

#[test]
fn written_trace_is_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("made");
    make_data(&data);
    let mut both = Vec::new();
    for name in ["trace.csv", "trace.parquet"] {
        let output = folder.path().join(name);
        let (row_count, paths) = traced(&data, &output, None);
        let rows = rows(&output).expect("it is read");
        assert_eq!(rows.len() as u64, row_count, "{name}: rows");
        let paths = fs::read_to_string(paths).expect("the paths");
        assert_eq!(paths.lines().count(), 5, "a heading and four files: {paths}");
        assert!(paths.contains("c, \"\"d\"\"\""), "quoted: {paths}");
        both.push(rows);
    }
    assert_eq!(both[0], both[1], "CSV and Parquet say the same");
    let rows = &both[0];
    let first = rows[0];
    let start = (first.offset, first.length, first.flags);
    assert_eq!(start, (0, 4096, Row::FIRST), "the first chunk");
    let bytes = fs::read(data.join("a")).expect("the file");
    let hash = blake3::hash(&bytes[..4096]);
    assert_eq!(first.fingerprint, hash.as_bytes()[..16], "the hash of its bytes");
    let of_a: Vec<&Row> = rows.iter().filter(|row| row.path_id == first.path_id).collect();
    assert_eq!(of_a.iter().map(|row| row.length).sum::<u64>(), 300_000, "the whole file");
    let last = of_a.last().expect("a last one");
    assert_eq!((last.offset, last.flags), (299_008, Row::LAST), "the last chunk");
    let zeros = rows.iter().filter(|row| row.flags & Row::ZEROS != 0).count();
    assert!(zeros >= 24, "{zeros} chunks of zeros");
    let behind: Vec<&Row> = rows.iter().filter(|row| row.offset >= 897_000).collect();
    assert!(behind.iter().any(|row| row.flags & Row::FIRST != 0), "behind the hole: {behind:?}");
}

#[test]
fn shards_together_are_the_whole_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("made");
    make_data(&data);
    let whole = folder.path().join("whole.parquet");
    traced(&data, &whole, None);
    let mut all = TraceSavings::new();
    all.add(&whole, &|| false).expect("it is read");
    let mut parts = TraceSavings::new();
    for number in 0..3 {
        let output = folder.path().join(format!("{number}.csv"));
        traced(&data, &output, Some(shard(FIXED, number, 3, 50_000)));
        parts.add(&output, &|| false).expect("it is read");
    }
    assert_eq!(parts.savings(), all.savings(), "savings");
    assert_eq!((parts.file_count(), parts.zero_bytes()), (4, all.zero_bytes()), "files, zeros");
    assert_eq!((parts.broken_seam_count(), all.broken_seam_count()), (0, 0), "seams");
    assert!(all.savings().space_savings() > Some(0.3), "copies: {:?}", all.savings());
}

/// Makes a folder of large files: noise, noise with a run of zeros off phase, and noise with holes.
fn make_large(folder: &Path) {
    let noise = SplitMix64::bytes(9, 1_000_000);
    fs::write(folder.join("noise"), &noise).expect("written");
    let run = [&noise[..100_003], &vec![0; 700_000], &noise[..50_001]].concat();
    fs::write(folder.join("run"), run).expect("written");
    let sparse = File::create(folder.join("sparse")).expect("made");
    sparse.set_len(2 << 20).expect("it grows");
    sparse.write_all_at(&noise[..300_000], 65_536).expect("written");
    sparse.write_all_at(&noise[..77_777], 1_048_576).expect("written");
    fs::write(folder.join("small"), b"small").expect("written");
}

const SPEC: &str = "fastcdc:avg=4k";

/// Writes the shards of a trace of `data`, and returns their paths.
fn shards(data: &Path, spec: &str, count: u32, range_size: u64) -> Vec<PathBuf> {
    let parts = (0..count).map(|number| {
        let output = data.with_extension(format!("{number}.parquet"));
        let shard = shard(spec, number, count, range_size);
        let options = options(data, &output, spec, Some(shard));
        trace(&options, File::create(&output).expect("made"), None, &Nobody).expect("traced");
        output
    });
    parts.collect()
}

fn joined(data: &Path, spec: &str, parts: &[PathBuf]) -> Result<JoinCounts, EstimateError> {
    let output = data.with_extension("joined.csv");
    let file = File::create(&output).expect("made");
    join(&options(data, &output, spec, None), parts, file, &Nobody)
}

/// Returns the sorted rows of traces.
fn sorted(paths: &[PathBuf]) -> Vec<Row> {
    let mut all: Vec<Row> = paths.iter().flat_map(|path| rows(path).expect("it is read")).collect();
    all.sort_by_key(|row| (row.path_id, row.offset, row.length));
    all
}

/// Makes a folder of large files. Returns it, and the rows of one pass with `spec`.
fn large(folder: &Path, spec: &str) -> (PathBuf, Vec<Row>) {
    let data = folder.join("data");
    fs::create_dir(&data).expect("made");
    make_large(&data);
    let output = folder.join("whole.parquet");
    let options = options(&data, &output, spec, None);
    trace(&options, File::create(&output).expect("made"), None, &Nobody).expect("traced");
    (data, sorted(&[output]))
}

#[test]
fn joined_shards_of_large_files_are_one_pass() {
    // The specs cut zeros at their maximum, at a constant, and at none of both.
    for spec in [SPEC, "seqcdc:avg=4k", "ae:avg=4k,max=16k", FIXED, "mincdc:min=2k,max=6k"] {
        let folder = tempfile::tempdir().expect("a folder");
        let (data, expected) = large(folder.path(), spec);
        for (count, range_size) in [(1, 1000), (2, 100_000), (3, 1 << 18), (5, 3001)] {
            let parts = shards(&data, spec, count, range_size);
            let mut savings = TraceSavings::new();
            for part in &parts {
                savings.add(part, &|| false).expect("it is read");
            }
            let counts = joined(&data, spec, &parts).expect("it is joined");
            let case = format!("{spec}, {count} shards of {range_size}: {counts:?}");
            assert_eq!(savings.broken_seam_count(), counts.broken_seam_count, "{case}");
            let found = sorted(&[data.with_extension("joined.csv")]);
            assert_eq!(found.len() as u64, counts.row_count, "{case}");
            assert!(found == expected, "{case}");
            assert_eq!(counts.broken_seam_count == 0, counts.new_row_count == 0, "{case}");
            // Without a broken seam, the shards alone have the same rows.
            assert!(counts.broken_seam_count > 0 || sorted(&parts) == expected, "{case}");
        }
    }
}

#[test]
fn run_of_zeros_breaks_seams_that_are_joined() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, expected) = large(folder.path(), SPEC);
    let parts = shards(&data, SPEC, 3, 300_007);
    assert!(sorted(&parts) != expected, "the shards alone are not one pass");
    let counts = joined(&data, SPEC, &parts).expect("it is joined");
    assert_eq!(counts.broken_file_count, 1, "{counts:?}");
    assert!(counts.new_row_count > 0 && counts.dropped_row_count > 0, "{counts:?}");
    assert!(counts.new_bytes < 750_000, "only one file is read again: {counts:?}");
    assert!(sorted(&[data.with_extension("joined.csv")]) == expected, "one pass");
}

#[test]
fn missing_or_repeated_shards_are_mended() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, mut expected) = large(folder.path(), SPEC);
    let parts = shards(&data, SPEC, 3, 100_000);
    // Of files that are not divided, nothing tells that a shard is missing.
    let small = expected.iter().position(|row| row.length == 5).expect("the small file");
    let small = expected.remove(small);
    let rejoined = |parts: &[PathBuf]| {
        let counts = joined(&data, SPEC, parts).expect("it is joined");
        let mut found = sorted(&[data.with_extension("joined.csv")]);
        found.retain(|row| row.path_id != small.path_id);
        (counts, found)
    };
    let (counts, found) = rejoined(&parts[..2]);
    assert!(counts.broken_seam_count > 0 && found == expected, "one is missing: {counts:?}");
    let (counts, found) = rejoined(&[&parts[..], &parts[1..2]].concat());
    assert!(counts.broken_seam_count > 0 && found == expected, "one comes twice: {counts:?}");
}

#[test]
fn shards_of_other_data_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, _) = large(folder.path(), SPEC);
    let parts = shards(&data, SPEC, 3, 300_007);
    let refused = |data: &Path, spec: &str, text: &str| {
        let error = joined(data, spec, &parts).expect_err("it is refused");
        assert!(error.to_string().contains(text), "{text}: {error}");
    };
    refused(&data, "fastcdc:avg=8k", "run: the chunk at 0 is not that of the trace");
    refused(&data, "gear:bits=12", "no largest chunk");
    let keyed =
        TraceOptions { key: Some([7; 32]), ..options(&data, Path::new("x.csv"), SPEC, None) };
    let output = File::create(folder.path().join("x.csv")).expect("made");
    let error = join(&keyed, &parts, output, &Nobody).expect_err("another key");
    assert!(error.to_string().contains("not that of the trace"), "{error}");
    let run = File::options().write(true).open(data.join("run")).expect("opened");
    run.write_all_at(b"changed", 5).expect("written");
    refused(&data, SPEC, "run: the chunk at 0 is not that of the trace");
    fs::remove_file(data.join("run")).expect("removed");
    refused(&data, SPEC, "no such file below the given paths");
}

/// Returns an `fs-hasher` trace of two files, by the description of its layout. `version` is 1
/// to 7.
fn hasher_trace(version: u32, fixed: bool) -> Vec<u8> {
    let mut bytes = 0xdead_dead_u32.to_le_bytes().to_vec();
    let u32 = |bytes: &mut Vec<u8>, value: u32| bytes.extend(value.to_le_bytes());
    let u64 = |bytes: &mut Vec<u8>, value: u64| bytes.extend(value.to_le_bytes());
    let path = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend(text.as_bytes());
        bytes.extend(vec![0; 4096 - text.len()]);
    };
    u32(&mut bytes, version);
    u64(&mut bytes, 2);
    path(&mut bytes, "/root");
    u64(&mut bytes, 5);
    u32(&mut bytes, if fixed { 1 } else { 2 });
    // The parameter is the size if sizes are fixed, and the algorithm otherwise. The union takes 44
    // bytes.
    u32(&mut bytes, if fixed { 4096 } else { 3 });
    bytes.extend([7; 40]);
    u32(&mut bytes, 3);
    u32(&mut bytes, 48);
    if version >= 3 {
        path(&mut bytes, "system");
        u64(&mut bytes, 1);
        u64(&mut bytes, 2);
    }
    if version >= 5 {
        u64(&mut bytes, 18_000);
    }
    /// A path, a length, and the lengths and contents of chunks.
    type File = (&'static str, u64, &'static [(u64, u8)]);
    let files: [File; 2] = [
        ("one", 10_000, &[(4096, 1), (4096, 2), (1808, 3)]),
        ("two", 8192, &[(4096, 1), (4096, 9)]),
    ];
    for (name, size, chunks) in files {
        if version == 1 {
            path(&mut bytes, name);
        }
        u64(&mut bytes, size);
        if version >= 5 {
            u64(&mut bytes, 20);
        }
        if version >= 4 {
            u32(&mut bytes, 1000);
            u32(&mut bytes, 1000);
            (0..7).for_each(|_| u64(&mut bytes, 3));
        }
        u64(&mut bytes, chunks.len() as u64);
        if version >= 2 {
            u32(&mut bytes, 3);
        }
        if version >= 4 {
            u32(&mut bytes, 6);
        }
        if version >= 2 {
            bytes.extend(name.as_bytes());
        }
        if version >= 4 {
            bytes.extend(b"target");
        }
        for (length, hash) in chunks {
            match (fixed, version) {
                (true, _) => {}
                (false, 7) => u32(&mut bytes, u32::try_from(*length).expect("small")),
                (false, _) => u64(&mut bytes, *length),
            }
            bytes.extend([*hash; 6]);
            if version >= 6 {
                bytes.push(0);
            }
        }
    }
    bytes
}

#[test]
fn traces_of_fs_hasher_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    for (version, fixed) in (1..=7).flat_map(|version| [(version, true), (version, false)]) {
        let path = folder.path().join(format!("{version} {fixed}"));
        let bytes = hasher_trace(version, fixed);
        fs::write(&path, &bytes).expect("written");
        if !fixed && version < 3 {
            let error = rows(&path).expect_err("there are no sizes");
            assert!(error.to_string().contains("no sizes of chunks"), "{error}");
            continue;
        }
        let found = rows(&path).unwrap_or_else(|error| panic!("{version} {fixed}: {error}"));
        let seen: Vec<_> = found
            .iter()
            .map(|row| (row.path_id, row.offset, row.length, row.fingerprint[5], row.flags))
            .collect();
        let expected = [
            (0, 0, 4096, 1, 0),
            (0, 4096, 4096, 2, 0),
            (0, 8192, 1808, 3, 2),
            (1, 0, 4096, 1, 0),
            (1, 4096, 4096, 9, 2),
        ];
        assert_eq!(seen, expected, "version {version}, fixed: {fixed}");
        assert!(found.iter().all(|row| row.fingerprint[6..] == [0; 10]), "six bytes of a hash");
        let mut savings = TraceSavings::new();
        savings.add(&path, &|| false).expect("it is read");
        savings.add(&path, &|| false).expect("and again");
        assert_eq!(savings.savings().stored_bytes, 14_096, "one chunk of the five is a copy");
        assert_eq!((savings.file_count(), savings.savings().read_bytes), (4, 36_384), "twice");
        // A trace that is cut off is an error, wherever it is cut off.
        for len in [4, 100, 4176, bytes.len() - 1] {
            fs::write(&path, &bytes[..len]).expect("written");
            let error = rows(&path).expect_err("it is cut off");
            assert!(error.to_string().contains("truncated"), "{len}: {error}");
        }
    }
    let damaged = |place: usize, value: u8, text: &str| {
        let mut bytes = hasher_trace(7, true);
        bytes[place] = value;
        let path = folder.path().join("damaged");
        fs::write(&path, bytes).expect("written");
        let error = rows(&path).expect_err("it is damaged");
        assert!(error.to_string().contains(text), "{text}: {error}");
    };
    damaged(4, 8, "expected 1 to 7, found 8");
    damaged(4120, 5, "method of chunking 5");
    damaged(4172, 0, "hashes of 0 bits");
    damaged(4172, 47, "hashes of 47 bits");
}

#[test]
fn invalid_trace_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |bytes: &[u8], text: &str| {
        let path = folder.path().join("trace");
        fs::write(&path, bytes).expect("written");
        let error = rows(&path).expect_err("it is no trace");
        assert!(error.to_string().contains(text), "{text}: {error}");
    };
    refused(b"", "nor CSV that begins with `path_id");
    refused(b"x", "nor CSV that begins with `path_id");
    refused(&[0xff; 100], "neither Parquet, nor CSV");
    refused(b"path_id,offset,length,fingerprint,flags\n1,2,3,xy,0\n", "line 2: not");
    refused(b"path_id,offset,length,fingerprint,flags\n1,2,3\n", "line 2: not");
    refused(b"PAR1 and nothing that follows", "");
    let header = b"path_id,offset,length,fingerprint,flags\n";
    let path = folder.path().join("only a header");
    fs::write(&path, header).expect("written");
    assert_eq!(rows(&path).expect("it is read"), [], "a trace of nothing");
    assert_eq!(Format::of(Path::new("a.txt")), None, "no form of ours");
    assert_eq!(Format::of(Path::new("a.parquet")), Some(Format::Parquet), "Parquet");
}

/// Numbers up to 63 bits, and sums beyond.
#[test]
fn large_numbers_stay_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large.csv");
    let mut text = "path_id,offset,length,fingerprint,flags\n".to_owned();
    for number in 0..5_u64 {
        let length = 3_000_000_000_000_000_000_u64;
        text += &format!("{number},{},{length},{:032x},0\n", u64::MAX >> 1, number / 2);
    }
    fs::write(&path, text).expect("written");
    let found = rows(&path).expect("it is read");
    assert_eq!(found[4].offset, u64::MAX >> 1, "63 bits");
    let mut counter = Counter::new();
    found.iter().for_each(|row| {
        counter.add(&row.fingerprint, row.length);
    });
    assert_eq!(counter.savings().read_bytes, 15_000_000_000_000_000_000, "a sum above 63 bits");
}
