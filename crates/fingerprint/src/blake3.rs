//! BLAKE3.

use crate::lanes::{Level, Levels};
use crate::{Digest, tree};

/// The minimum number of chunks in a batch that is hashed in lanes.
///
/// A single chunk cannot fill the lanes. Measured on Zen 5 with chunks of unequal sizes: for one
/// chunk of 1 to 44 KiB, the crate is up to 1.5 times as fast without AVX-512. With AVX-512 the
/// crate is 1.05 to 1.3 times as fast if the chunk comes from memory, and 0.8 to 0.97 times as fast
/// if a chunk of at least 4 KiB is in the cache. For two and more chunks the lanes win. There is no
/// chunk size above which the crate is used instead: with chunks of 256 KiB the crate is at most 13
/// % faster from the cache, and 6 to 30 % slower from memory (docs/notes/fingerprints.md has the tables).
const LANES_FROM_CHUNK_COUNT: usize = 2;

/// The minimum number of bytes that are hashed together, if there are as many.
///
/// The last leaf of each chunk is hashed after all full ones, and all results after these, so the
/// bytes of a batch should stay in the second-level cache.
const BATCH_SIZE: usize = 256 * 1024;

/// BLAKE3 with or without a key, on the widest vectors of this CPU.
#[derive(Clone)]
pub struct Blake3 {
    /// The words of the key, or the initial values of the plain hash.
    words: [u32; 8],
    key: Option<[u8; 32]>,
    level: Level,
}

impl Blake3 {
    /// Creates the hash without a key, at the fastest level of this CPU.
    pub fn plain() -> Blake3 {
        Blake3 { words: tree::INITIAL, key: None, level: Level::best() }
    }

    /// Creates the keyed hash, at the fastest level of this CPU.
    pub fn keyed(key: &[u8; 32]) -> Blake3 {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(key.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Blake3 { words, key: Some(*key), level: Level::best() }
    }

    /// Returns the same hash at the named level: `crate` (the crate `blake3`, one chunk after
    /// another), `avx2`, `avx512`, or `emulated` (lanes in plain Rust, slow, for tests). Returns
    /// `None` if there is no such level or this CPU lacks it.
    ///
    /// A batch of one chunk is hashed by the crate at every level.
    pub fn at_level(self, name: &str) -> Option<Blake3> {
        Level::named(name).map(|level| Blake3 { level, ..self })
    }

    /// Returns the names of all levels of this CPU, slowest first.
    pub fn levels() -> Vec<&'static str> {
        Level::available()
    }

    /// Appends the digest of each chunk to `digests`, in order.
    ///
    /// Any number of chunks may be given at once.
    pub fn digests(&self, chunks: &[&[u8]], digests: &mut Vec<Digest>) {
        let level = if chunks.len() < LANES_FROM_CHUNK_COUNT { Level::Crate } else { self.level };
        let mut rest = chunks;
        while !rest.is_empty() {
            let batch;
            (batch, rest) = rest.split_at(batch_count(rest));
            self.digests_of_batch(level, batch, digests);
        }
    }

    fn digests_of_batch(&self, level: Level, chunks: &[&[u8]], digests: &mut Vec<Digest>) {
        match level.dispatch(tree::Hash { words: &self.words, key: self.key.is_some(), chunks }) {
            Some(results) => digests.extend(results),
            None => digests.extend(chunks.iter().map(|chunk| {
                *match &self.key {
                    None => ::blake3::hash(chunk),
                    Some(key) => ::blake3::keyed_hash(key, chunk),
                }
                .as_bytes()
            })),
        }
    }
}

/// Returns the number of chunks to hash together, from the first on: those of at least
/// [`BATCH_SIZE`] bytes, or all if few bytes are left behind these.
fn batch_count(chunks: &[&[u8]]) -> usize {
    let mut size = 0;
    let mut ends = chunks.iter().map(|chunk| {
        size += chunk.len();
        size
    });
    let Some(index) = ends.position(|end| end >= BATCH_SIZE) else { return chunks.len() };
    // A small batch would leave lanes empty.
    let is_much_left = ends.any(|end| end >= 2 * BATCH_SIZE);
    if is_much_left { index + 1 } else { chunks.len() }
}

impl std::fmt::Debug for Blake3 {
    /// Formats the hash without the key, which is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Blake3 { key, level, .. } = self;
        f.debug_struct("Blake3").field("keyed", &key.is_some()).field("level", level).finish()
    }
}

impl Drop for Blake3 {
    /// Erases the key as well as safe Rust can.
    fn drop(&mut self) {
        self.words = std::hint::black_box([0; 8]);
        self.key = std::hint::black_box(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_of_like_size_and_leave_nothing() {
        let bytes = vec![0; 2 * BATCH_SIZE];
        for size in [1, 1000, 5000, BATCH_SIZE / 2, BATCH_SIZE, 2 * BATCH_SIZE] {
            let chunks: Vec<&[u8]> = vec![&bytes[..size]; 5 * BATCH_SIZE / size + 7];
            let mut rest = &chunks[..];
            while !rest.is_empty() {
                let (batch, others) = rest.split_at(batch_count(rest));
                let batch_size = batch.len() * size;
                assert!(batch_size >= BATCH_SIZE || others.is_empty(), "{size}: {}", batch.len());
                assert!(batch_size < 2 * BATCH_SIZE + size, "{size}: {}", batch.len());
                rest = others;
            }
        }
        assert_eq!(batch_count(&[&[]]), 1);
    }
}
