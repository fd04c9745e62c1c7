//! Fingerprints of many chunks at once.
//!
//! BLAKE3 splits what it hashes into leaves of 1 KiB, and pairs their results up to a root. A vector
//! register can work on as many leaves at once as it has lanes of 32 bits. The crate `blake3` does
//! so with the leaves of one input, and a chunk of a few KiB has too few of them. [`Blake3`] fills
//! the lanes with leaves of all chunks of a batch. The digests are those of the crate, to the bit.
//!
//! ```
//! use cutpoint_fingerprint::Blake3;
//!
//! let mut digests = Vec::new();
//! Blake3::plain().digests(&[b"one".as_slice(), b"two"], &mut digests);
//! assert_eq!(digests[1], *blake3::hash(b"two").as_bytes());
//! ```

#![deny(unsafe_code)]

mod lanes;
mod tree;

use lanes::Level;

/// The length of a digest in bytes.
pub const DIGEST_SIZE: usize = 32;

/// A digest.
pub type Digest = [u8; DIGEST_SIZE];

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

    /// The same on the level of this name: `crate` (the crate `blake3`, a chunk after the other),
    /// `avx2` or `avx512`; and `emulated`, lanes in plain Rust, which is slow and for tests. `None`
    /// where there is no such level, or not on this CPU.
    pub fn at_level(self, name: &str) -> Option<Blake3> {
        Level::named(name).map(|level| Blake3 { level, ..self })
    }

    /// The names of all levels of this CPU, slowest first.
    pub fn levels() -> Vec<&'static str> {
        lanes::NAMES.into_iter().filter(|name| Level::named(name).is_some()).collect()
    }

    /// Appends the digest of each chunk to `digests`, in order.
    pub fn digests(&self, chunks: &[&[u8]], digests: &mut Vec<Digest>) {
        match self.level.dispatch(tree::Hash {
            words: &self.words,
            key: self.key.is_some(),
            chunks,
        }) {
            Some(results) => digests.extend(results),
            None => digests.extend(chunks.iter().map(|chunk| {
                *match &self.key {
                    None => blake3::hash(chunk),
                    Some(key) => blake3::keyed_hash(key, chunk),
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
