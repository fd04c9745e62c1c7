//! Images of which only the changed blocks are read: their recipes are those of a complete read.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use cutpoint_backup::save::{BackupOptions, BackupReport, ChangedBlocks, backup};
use cutpoint_chunking::Spec;
use cutpoint_repository::{
    CipherSuite, Content, EntryKind, InitOptions, Reader, Repository, TicketId, View,
};
use cutpoint_storage::{Environment, Error, Memory, Storage};
use cutpoint_testing::SplitMix64;

use crate::backup_options::{files, options};
use crate::seeded_repository::{SeededEnvironment, unlock};

/// The size of a block of the image, in bytes.
const BLOCK_LEN: usize = 4096;

fn repository(cut: &str) -> Arc<Repository> {
    let cut: Spec = cut.parse().unwrap();
    let options = InitOptions {
        suite: CipherSuite::ChaCha20Poly1305,
        cut: cut.to_string(),
        region_size: 256 * 1024,
        ..InitOptions::default()
    };
    let environment: Arc<dyn Environment> = SeededEnvironment::new(1);
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    Arc::new(Repository::init(storage, environment, &unlock(), &options).unwrap())
}

/// Makes an image with random data, text, repeated blocks and zeros.
fn image(random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = random.take(6_000_000);
    bytes[1_000_000..2_500_000].fill(0);
    bytes[3_000_000..3_400_000].fill(b'x');
    let repeated = bytes[0..64 * 1024].to_vec();
    for at in 0..8 {
        let start = 3_500_000 + at * repeated.len();
        bytes[start..start + repeated.len()].copy_from_slice(&repeated);
    }
    bytes.truncate(5_999_000);
    bytes
}

/// Changes ranges of the image. Returns them.
fn change(random: &mut SplitMix64, bytes: &mut [u8], count: usize) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    for _ in 0..count {
        let start = random.below(bytes.len() / BLOCK_LEN) * BLOCK_LEN;
        let end = (start + (1 + random.below(5)) * BLOCK_LEN).min(bytes.len());
        match random.below(4) {
            0 => bytes[start..end].fill(0),
            1 => bytes[start + (end - start) / 2] ^= 1,
            // A listed range that has not changed.
            2 => {}
            _ => bytes[start..end].copy_from_slice(&random.take(end - start)),
        }
        ranges.push(start as u64..end as u64);
    }
    ranges
}

/// Returns a map with one range.
fn one(range: Range<u64>) -> Vec<Range<u64>> {
    std::iter::once(range).collect()
}

fn save(
    repository: &Arc<Repository>,
    path: &Path,
    changed: Option<Vec<Range<u64>>>,
) -> Result<BackupReport, Error> {
    let changed_blocks = changed.map(|ranges| Arc::new(ChangedBlocks::new(ranges)));
    // Without a map, the file is read although nothing shows that it has changed.
    let force_read = changed_blocks.is_none();
    let options = BackupOptions { changed_blocks, force_read, ..options(2) };
    backup(repository, files(path), &options, &())
}

/// Returns the content of the only file of a snapshot.
fn content(repository: &Arc<Repository>, id: TicketId) -> Content {
    let reader = Reader::open(repository.clone(), View::list(repository).unwrap()).unwrap();
    let mut content = reader.view().commits[&id].snapshot().unwrap().root.clone();
    loop {
        let entries: Vec<_> = reader.tree(&content).collect::<Result<_, _>>().unwrap();
        let [entry] = &entries[..] else { panic!("one entry: {entries:?}") };
        content = entry.content.clone();
        if entry.kind == EntryKind::File {
            return content;
        }
    }
}

#[test]
fn recipes_by_a_map_are_those_of_a_complete_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("image");
    for cut in ["fastcdc:avg=8k", "seqcdc:avg=8k", "mincdc:min=4k,max=16k", "fixed:size=10000"] {
        let mut random = SplitMix64::new(3);
        let mut bytes = image(&mut random);
        let repository = repository(cut);
        fs::write(&path, &bytes).unwrap();
        save(&repository, &path, None).unwrap();
        for (round, count) in [1, 1, 1, 0, 5, 40, 300].into_iter().enumerate() {
            let ranges = change(&mut random, &mut bytes, count);
            let listed: u64 = ChangedBlocks::new(ranges.clone()).size();
            File::options().write(true).open(&path).unwrap().write_all_at(&bytes, 0).unwrap();
            let by_map = save(&repository, &path, Some(ranges)).unwrap();
            let complete = save(&repository, &path, None).unwrap();
            let contents =
                [&by_map, &complete].map(|it| content(&repository, it.snapshot.unwrap()));
            assert!(contents[0] == contents[1], "{cut}, round {round}: the recipes differ");
            let read = [by_map, complete].map(|it| it.statistics.read_bytes);
            let few = listed + 600_000 * count as u64 + 400_000;
            assert!(count > 10 || read[0] < few.min(read[1]), "{cut}: {} bytes are read", read[0]);
            assert_eq!(read[1], bytes.len() as u64, "{cut}: all bytes");
        }
    }
}

/// Chunks of zeros behind a change begin elsewhere than those of the previous version.
#[test]
fn zeros_behind_a_change_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("image");
    for cut in ["fastcdc:avg=8k", "seqcdc:avg=8k", "mincdc:min=4k,max=16k", "fixed:size=10000"] {
        let mut random = SplitMix64::new(5);
        let mut bytes = random.take(12 << 20);
        bytes[100_000..].fill(0);
        let repository = repository(cut);
        fs::write(&path, &bytes).unwrap();
        save(&repository, &path, None).unwrap();
        for start in [2_000_000, 90_000, 12_500_000, 2_100_000] {
            bytes[start..start + 5000].copy_from_slice(&random.take(5000));
            File::options().write(true).open(&path).unwrap().write_all_at(&bytes, 0).unwrap();
            let changed = one(start as u64..start as u64 + 5000);
            let by_map = save(&repository, &path, Some(changed)).unwrap();
            let complete = save(&repository, &path, None).unwrap();
            let contents =
                [&by_map, &complete].map(|it| content(&repository, it.snapshot.unwrap()));
            assert!(contents[0] == contents[1], "{cut}, change at {start}: the recipes differ");
            let read = by_map.statistics.read_bytes;
            assert!(read < 1_000_000, "{cut}, change at {start}: {read} bytes are read");
        }
    }
}

/// The data of a file with holes is cut from hole to hole.
#[test]
fn recipes_of_files_with_holes_are_those_of_a_complete_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("image");
    let mut random = SplitMix64::new(9);
    let repository = repository("fastcdc:avg=8k");
    let file = File::create(&path).unwrap();
    file.set_len(20 << 20).unwrap();
    for at in [0, 5 << 20, 11 << 20] {
        file.write_all_at(&random.take(2 << 20), at).unwrap();
    }
    save(&repository, &path, None).unwrap();
    // Into data, into a hole, at the border of both, and at the end.
    for (at, len) in
        [(6 << 20, 4096), (15 << 20, 8192), (7 << 20, 65536), ((20 << 20) - 4096, 4096)]
    {
        file.write_all_at(&random.take(len), at).unwrap();
        let map = one(at..at + len as u64);
        let by_map = save(&repository, &path, Some(map)).unwrap().snapshot.unwrap();
        let complete = save(&repository, &path, None).unwrap().snapshot.unwrap();
        let contents = [by_map, complete].map(|id| content(&repository, id));
        assert!(contents[0] == contents[1], "{len} bytes at {at}: the recipes differ");
    }
}

#[test]
fn map_without_suitable_previous_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("image");
    let repository = repository("fastcdc:avg=8k");
    fs::write(&path, SplitMix64::bytes(1, 3_000_000)).unwrap();
    let refused = |changed: Vec<Range<u64>>, path: &Path, text: &str| {
        let error = save(&repository, path, Some(changed)).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    refused(one(0..1), &path, "no previous snapshot has this path");
    refused(one(0..1), folder.path(), "needs exactly one path");
    save(&repository, &path, None).unwrap();
    refused(one(0..3_000_001), &path, "reaches to byte 3000001 (expected 3000000 at most)");
    fs::write(&path, SplitMix64::bytes(1, 3_000_001)).unwrap();
    refused(vec![], &path, "the size has changed (expected 3000000 bytes, found 3000001)");
}

/// A change that the map does not list is noticed by the sample, if it is large enough.
#[test]
fn wrong_map_fails_the_backup() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("image");
    let repository = repository("fastcdc:avg=8k");
    fs::write(&path, SplitMix64::bytes(1, 8_000_000)).unwrap();
    save(&repository, &path, None).unwrap();
    save(&repository, &path, Some(vec![])).unwrap();
    fs::write(&path, SplitMix64::bytes(2, 8_000_000)).unwrap();
    let error = save(&repository, &path, Some(one(5..6))).unwrap_err().to_string();
    assert!(error.contains("differ from the previous snapshot"), "{error}");
}
