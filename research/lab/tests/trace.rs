//! Chunk traces: written traces are read back, and traces of other programs are read.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use cutpoint_estimate::Counter;
use cutpoint_estimate::scan::{Monitor, ScanOptions};
use cutpoint_lab::trace::{Format, Row, TraceOptions, TraceSavings, read_trace, trace};
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
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"behind a hole", 900_000).expect("written");
}

fn traced(folder: &Path, output: &Path, shard: Option<(u32, u32)>) -> (u64, PathBuf) {
    let options = TraceOptions {
        scan: ScanOptions {
            paths: vec![folder.to_owned()],
            shard,
            threads: 2,
            ..ScanOptions::default()
        },
        spec: "fixed:size=4096".parse().expect("a spec"),
        key: None,
        format: Format::of(output).expect("a form"),
    };
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
    assert_eq!((first.offset, first.length, first.flags), (0, 4096, 0), "the first chunk");
    let bytes = fs::read(data.join("a")).expect("the file");
    let hash = blake3::hash(&bytes[..4096]);
    assert_eq!(first.fingerprint, hash.as_bytes()[..16], "the hash of its bytes");
    let of_a: Vec<&Row> = rows.iter().filter(|row| row.path_id == first.path_id).collect();
    assert_eq!(of_a.iter().map(|row| row.length).sum::<u64>(), 300_000, "the whole file");
    let last = of_a.last().expect("a last one");
    assert_eq!((last.offset, last.flags), (299_008, Row::LAST), "the last chunk");
    let zeros = rows.iter().filter(|row| row.flags & Row::ZEROS != 0).count();
    assert!(zeros >= 24, "{zeros} chunks of zeros");
    assert!(rows.iter().any(|row| row.offset >= 897_000), "behind the hole");
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
        traced(&data, &output, Some((number, 3)));
        parts.add(&output, &|| false).expect("it is read");
    }
    assert_eq!(parts.savings(), all.savings(), "savings");
    assert_eq!((parts.file_count(), parts.zero_bytes()), (4, all.zero_bytes()), "files, zeros");
    assert!(all.savings().space_savings() > Some(0.3), "copies: {:?}", all.savings());
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
