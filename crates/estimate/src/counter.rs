//! Counting chunks by their fingerprints, exactly.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::Savings;

/// The length of a [`Fingerprint`] in bytes.
pub const FINGERPRINT_LEN: usize = 16;

/// The first 16 bytes of the fingerprint of a chunk. Among 10^12 chunks, the probability that two
/// different chunks are taken for the same one is 10^-15.
pub type Fingerprint = [u8; FINGERPRINT_LEN];

/// Counts chunks. Two chunks are the same if their fingerprints and their lengths are equal.
///
/// Memory: between 20 and 40 bytes for each unique chunk.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    seen: HashSet<Key, BuildHasherDefault<KeyHasher>>,
    savings: Savings,
}

impl Counter {
    /// Creates a counter without chunks.
    pub fn new() -> Counter {
        Counter::default()
    }

    /// Counts a chunk of `len` bytes. Returns `true` if the chunk is new.
    pub fn add(&mut self, fingerprint: &Fingerprint, len: u64) -> bool {
        let is_new = self.seen.insert(Key::new(fingerprint, len));
        self.savings.read_bytes += len;
        self.savings.chunk_count += 1;
        if is_new {
            self.savings.stored_bytes += len;
            self.savings.unique_chunk_count += 1;
        }
        is_new
    }

    /// Returns the savings so far. The stored bytes are those of the unique chunks, uncompressed.
    pub fn savings(&self) -> Savings {
        self.savings
    }

    /// Returns the memory that the fingerprints take, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        table_bytes(self.seen.capacity(), size_of::<Key>())
    }
}

/// A table indexed by keys of chunks.
pub(crate) type KeyMap<Value> = HashMap<Key, Value, BuildHasherDefault<KeyHasher>>;

/// The key of a chunk: two numbers, which a table packs more tightly than one of 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key([u64; 2]);

impl Key {
    /// Returns the key of a chunk. Published traces have fingerprints of a few bytes, so the length
    /// is part of the key. With fingerprints of all 16 bytes, the length makes no difference.
    pub(crate) fn new(fingerprint: &Fingerprint, len: u64) -> Key {
        let (first, second) = fingerprint.split_at(8);
        Key([number(first), number(second) ^ len])
    }

    /// Returns a hash that is as good as random for each `salt`, even if fingerprints are short.
    pub(crate) fn mixed(self, salt: u64) -> u64 {
        // The finalizer of SplitMix64, twice.
        let mix = |value: u64| {
            let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            value ^ value >> 31
        };
        mix(mix(self.0[0] ^ salt).wrapping_add(self.0[1]).wrapping_add(0x9e37_79b9_7f4a_7c15))
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[0] ^ self.0[1].rotate_left(32));
    }
}

/// Returns eight bytes as a number.
fn number(bytes: &[u8]) -> u64 {
    let mut array = [0; 8];
    array.copy_from_slice(bytes);
    u64::from_le_bytes(array)
}

/// Returns the memory of a table of the standard library with room for `capacity` entries, in
/// bytes. The table has eight places for every seven entries, and one more byte for each place.
pub(crate) fn table_bytes(capacity: usize, entry_len: usize) -> u64 {
    (capacity as u64).saturating_mul(8) / 7 * (entry_len as u64 + 1)
}

/// A hash function for keys that are mostly hashes themselves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        // Fibonacci hashing. The lower bits of the product are weak, and tables use the lower bits.
        let product = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

#[cfg(test)]
mod tests {
    use cutpoint_testing::SplitMix64;

    use super::*;

    #[test]
    fn equal_chunks_count_once() {
        let mut counter = Counter::new();
        for (fingerprint, len, is_new) in
            [(1, 10, true), (2, 20, true), (1, 10, false), (1, 11, true), (2, 20, false)]
        {
            assert_eq!(counter.add(&[fingerprint; 16], len), is_new, "{fingerprint} of {len}");
        }
        let savings = counter.savings();
        assert_eq!((savings.read_bytes, savings.stored_bytes), (71, 41), "bytes");
        assert_eq!((savings.chunk_count, savings.unique_chunk_count), (5, 3), "chunks");
    }

    #[test]
    fn every_byte_of_a_fingerprint_counts() {
        let mut counter = Counter::new();
        for place in 0..FINGERPRINT_LEN {
            for bit in 0..8 {
                let mut fingerprint = [0; FINGERPRINT_LEN];
                fingerprint[place] = 1 << bit;
                assert!(counter.add(&fingerprint, 0), "bit {bit} of byte {place}");
            }
        }
    }

    /// Fingerprints as in traces with six bytes of a hash.
    #[test]
    fn short_fingerprints_spread() {
        let mut low = [0_u32; 256];
        let mut random = SplitMix64::new(5);
        for _ in 0..65_536 {
            let mut fingerprint = [0; FINGERPRINT_LEN];
            fingerprint[..6].copy_from_slice(&random.next().to_le_bytes()[..6]);
            let mut hasher = KeyHasher::default();
            Key::new(&fingerprint, 8192).hash(&mut hasher);
            low[usize::from(hasher.finish().to_le_bytes()[0])] += 1;
        }
        assert!(low.iter().all(|count| (128..512).contains(count)), "{low:?}");
    }

    #[test]
    fn memory_is_the_size_of_the_tables() {
        let mut counter = Counter::new();
        assert_eq!(counter.memory_bytes(), 0, "nothing yet");
        let mut random = SplitMix64::new(6);
        for _ in 0..10_000 {
            let mut fingerprint = [0; FINGERPRINT_LEN];
            fingerprint[..8].copy_from_slice(&random.next().to_le_bytes());
            counter.add(&fingerprint, 4096);
        }
        assert_eq!(counter.memory_bytes(), 16_384 * 17, "10,000 chunks in 16,384 places");
    }
}
