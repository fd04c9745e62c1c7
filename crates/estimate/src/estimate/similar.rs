//! BURST on streaming data: the bytes of a new chunk that are not in a chunk with the same head or
//! tail.
//!
//! The rules are those of [`cutpoint_delta::burst`]. Only the location of a chunk in its file is
//! kept, and the chunk is read again when another chunk resembles it.
//!
//! Source: Peng, Wu, Zhang, Yao and Liu, "BURST: A Chunk-Based Data Deduplication System with
//! Burst-Encoded Fingerprint Matching", section III.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::fs::File;
use std::hash::BuildHasherDefault;
use std::path::Path;
use std::sync::Arc;

use cutpoint_delta::burst::{Options, Tau};
use cutpoint_delta::common_edges;
use cutpoint_storage::system;
use xxhash_rust::xxh3::xxh3_64;

use crate::counter::{KeyHasher, table_bytes};

/// The maximum number of files kept open for reading chunks again.
const FILE_COUNT_MAX: usize = 32;

/// A chunk that is stored as it is.
#[derive(Clone, Copy, Debug)]
struct Whole {
    file: u32,
    len: u32,
    offset: u64,
}

/// The whole chunk that has a given head or tail.
#[derive(Clone, Copy, Debug)]
struct End {
    whole: u32,
    /// The number of bursts found by this head or tail.
    burst_count: u32,
}

type Ends = HashMap<u64, End, BuildHasherDefault<KeyHasher>>;

/// Finds chunks that resemble a chunk.
#[derive(Debug, Default)]
pub(super) struct Similar {
    full_chunks: Vec<Whole>,
    /// The full chunks by heads, and by tails.
    ends: [Ends; 2],
    files: Vec<Arc<Path>>,
    /// The current file, and its number in `files` if it is there already.
    file: Option<(Arc<Path>, Option<u32>)>,
    /// The open files by number, the most recently used at the end.
    open: VecDeque<(u32, File)>,
    reference: Vec<u8>,
}

impl Similar {
    /// Begins a file, to which the following chunks belong.
    pub(super) fn begin(&mut self, path: &Arc<Path>) {
        self.file = Some((path.clone(), None));
    }

    /// Returns the bytes of a new chunk at `offset` that are not in a chunk that it resembles.
    /// Returns `None` if there is no such chunk, and remembers the new chunk for later ones.
    pub(super) fn find<'a>(&mut self, chunk: &'a [u8], offset: u64) -> Option<&'a [u8]> {
        let len = Options::BURST.tau.len(chunk.len())?;
        let hashes = [xxh3_64(&chunk[..len]), xxh3_64(&chunk[chunk.len() - len..])];
        // Heads of different lengths are never equal.
        let hashes = hashes.map(|hash| hash ^ (len as u64) << 40);
        for (side, hash) in hashes.into_iter().enumerate() {
            let Some(end) = self.ends[side].get(&hash).copied() else { continue };
            if end.burst_count >= Options::BURST.c_max || !self.read(end.whole) {
                continue;
            }
            if let Some(end) = self.ends[side].get_mut(&hash) {
                end.burst_count += 1;
            }
            let (prefix, suffix) = common_edges(&self.reference, chunk);
            return Some(&chunk[prefix..chunk.len() - suffix]);
        }
        self.add(chunk.len(), offset, hashes);
        None
    }

    /// Remembers a chunk by the hashes of its head and tail.
    fn add(&mut self, len: usize, offset: u64, hashes: [u64; 2]) {
        let Some((path, number)) = &mut self.file else { return };
        let file = *number.get_or_insert_with(|| {
            self.files.push(path.clone());
            u32::try_from(self.files.len() - 1).unwrap_or(u32::MAX)
        });
        let (Ok(whole), Ok(len)) = (u32::try_from(self.full_chunks.len()), u32::try_from(len))
        else {
            return;
        };
        self.full_chunks.push(Whole { file, len, offset });
        for (side, hash) in hashes.into_iter().enumerate() {
            self.ends[side].insert(hash, End { whole, burst_count: 0 });
        }
    }

    /// Reads a whole chunk again. Returns `false` if that fails, in which case the chunk counts as
    /// absent.
    fn read(&mut self, whole: u32) -> bool {
        let Whole { file, len, offset } = self.full_chunks[whole as usize];
        let known = self.open.iter().position(|(number, _)| *number == file);
        let opened = match known.and_then(|at| self.open.remove(at)) {
            Some(opened) => opened,
            None => {
                let path = self.files.get(file as usize);
                let Some(Ok(opened)) = path.map(File::open) else { return false };
                (file, opened)
            }
        };
        self.reference.resize(len as usize, 0);
        let is_read = system::read_exact_at(&opened.1, &mut self.reference, offset).is_ok();
        self.open.push_back(opened);
        if self.open.len() > FILE_COUNT_MAX {
            self.open.pop_front();
        }
        is_read
    }

    /// Returns the memory that the tables take, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let entry_len = size_of::<(u64, End)>();
        let tables: u64 =
            self.ends.iter().map(|ends| table_bytes(ends.capacity(), entry_len)).sum();
        let paths: usize = self.files.iter().map(|path| path.as_os_str().len() + 32).sum();
        tables + (self.full_chunks.capacity() * size_of::<Whole>() + paths) as u64
    }
}

const _: () =
    assert!(matches!(Options::BURST.tau, Tau::Fraction(8)), "heads and tails are the paper's");

#[cfg(test)]
mod tests {
    use std::io::Write;

    use cutpoint_burst::Deduplicator;
    use cutpoint_testing::SplitMix64;

    use super::*;

    /// Versions of a file, each with a few changes, compared with the deduplicator that keeps all
    /// chunks in memory.
    #[test]
    fn bursts_are_those_of_the_deduplicator() {
        const CHUNK_LEN: usize = 4096;
        let mut random = SplitMix64::new(11);
        let mut data = random.take(100 * CHUNK_LEN);
        let mut deduplicator = Deduplicator::new(Options::BURST);
        let mut similar = Similar::default();
        let mut seen = std::collections::HashSet::new();
        let (mut stored, mut burst_count) = (0, 0);
        let folder = tempfile::tempdir().expect("a folder");
        for version in 0..6 {
            let path: Arc<Path> = folder.path().join(version.to_string()).into();
            let mut file = File::create(&path).expect("a file");
            file.write_all(&data).expect("it is written");
            similar.begin(&path);
            for (number, chunk) in data.chunks(CHUNK_LEN - version % 2).enumerate() {
                deduplicator.write(chunk);
                if !seen.insert(chunk.to_vec()) {
                    continue;
                }
                let offset = (number * (CHUNK_LEN - version % 2)) as u64;
                let found = similar.find(chunk, offset);
                burst_count += u64::from(found.is_some());
                stored += found.unwrap_or(chunk).len() as u64;
            }
            for _ in 0..60 {
                let place = random.below(data.len());
                data[place] ^= 1;
            }
        }
        let statistics = deduplicator.statistics();
        assert!(burst_count > 50, "{burst_count} bursts");
        assert_eq!(stored, statistics.stored_bytes(), "stored bytes");
        let expected: u64 =
            [statistics.head_dt, statistics.tail_dt].iter().map(|side| side.burst_count).sum();
        assert_eq!(burst_count, expected, "bursts");
    }

    #[test]
    fn chunk_that_cannot_be_read_again_resembles_nothing() {
        let mut similar = Similar::default();
        let path: Arc<Path> = Path::new("/nowhere/at all").into();
        similar.begin(&path);
        let mut chunk = SplitMix64::bytes(3, 5000);
        assert_eq!(similar.find(&chunk, 0), None, "the first");
        chunk[2500] ^= 1;
        assert_eq!(similar.find(&chunk, 5000), None, "its file is gone");
        assert_eq!(similar.find(&[], 10_000), None, "nothing");
        assert_eq!(similar.find(&[1; 7], 10_000), None, "too short for a head");
        assert!(similar.memory_bytes() > 0, "it takes memory");
    }
}
