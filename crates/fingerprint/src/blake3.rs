//! BLAKE3.

use crate::lanes::{Level, Levels};
use crate::{Digest, tree};

/// From how many chunks a batch has lanes.
///
/// A lone chunk has nothing to fill them with. Measured on Zen 5, chunks of unlike sizes: without
/// AVX-512 the crate is up to 1.5 times as fast with one of 1 to 44 KiB. With AVX-512 it is 1.05 to 1.3
/// times as fast if the chunk comes from memory, and from 4 KiB on 0.8 to 0.97 times if it is in the
/// cache. For two and more the lanes win, and there is no chunk size from which the crate is taken instead: with chunks
/// of 256 KiB in the cache it is at most 13 % faster, and from memory 6 to 30 % slower
/// (docs/notes/fingerprints.md has the tables).
const LANES_FROM_CHUNK_COUNT: usize = 2;

/// BLAKE3 with or without a key, on the widest vectors of this CPU.
#[derive(Clone)]
pub struct Blake3 {
    /// The key's words, or the initial values of the plain hash.
    words: [u32; 8],
    key: Option<[u8; 32]>,
    level: Level,
}

impl Blake3 {
    /// The hash.
    pub fn plain() -> Blake3 {
        Blake3 { words: tree::INITIAL, key: None, level: Level::best() }
    }

    /// The keyed hash.
    pub fn keyed(key: &[u8; 32]) -> Blake3 {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(key.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Blake3 { words, key: Some(*key), level: Level::best() }
    }

    /// The same on the level of this name: `crate` (the crate `blake3`, a chunk after the other, as a
    /// batch of one chunk is on every level), `avx2` or `avx512`; and `emulated`, lanes in plain Rust, which is slow and for tests. `None`
    /// where there is no such level, or not on this CPU.
    pub fn at_level(self, name: &str) -> Option<Blake3> {
        Level::named(name).map(|level| Blake3 { level, ..self })
    }

    /// The names of all levels of this CPU, slowest first.
    pub fn levels() -> Vec<&'static str> {
        Level::available()
    }

    /// Appends the digest of each chunk to `digests`, in order.
    pub fn digests(&self, chunks: &[&[u8]], digests: &mut Vec<Digest>) {
        let level = if chunks.len() < LANES_FROM_CHUNK_COUNT { Level::Crate } else { self.level };
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

impl std::fmt::Debug for Blake3 {
    /// Leaves the key out, which is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Blake3 { key, level, .. } = self;
        f.debug_struct("Blake3").field("keyed", &key.is_some()).field("level", level).finish()
    }
}

impl Drop for Blake3 {
    /// Forgets the key as well as safe Rust can.
    fn drop(&mut self) {
        self.words = std::hint::black_box([0; 8]);
        self.key = std::hint::black_box(None);
    }
}
