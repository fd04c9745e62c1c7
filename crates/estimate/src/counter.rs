//! Counting chunks by their fingerprints, exactly.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use crate::Savings;

/// The length of a [`Fingerprint`] in bytes.
pub const FINGERPRINT_LEN: usize = 16;

/// The first 16 bytes of a chunk's fingerprint: enough that among 10^12 chunks two that differ are
/// taken for one with a probability of 10^-15.
pub type Fingerprint = [u8; FINGERPRINT_LEN];

/// Counts chunks; two are the same where fingerprint and length are.
///
/// Memory: between 20 and 40 bytes for each unique chunk.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    seen: HashSet<u128, BuildHasherDefault<KeyHasher>>,
    savings: Savings,
}

impl Counter {
    /// Begins with nothing.
    pub fn new() -> Counter {
        Counter::default()
    }

    /// Counts a chunk of `len` bytes, and returns whether there was none like it before.
    pub fn add(&mut self, fingerprint: &Fingerprint, len: u64) -> bool {
        let is_new = self.seen.insert(key(fingerprint, len));
        self.savings.read_bytes += len;
        self.savings.chunk_count += 1;
        if is_new {
            self.savings.stored_bytes += len;
            self.savings.unique_chunk_count += 1;
        }
        is_new
    }

    /// Returns what was counted so far; what is stored is each unique chunk as it is.
    pub fn savings(&self) -> Savings {
        self.savings
    }

    /// Returns how much memory the fingerprints take, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        table_bytes(self.seen.capacity(), size_of::<u128>())
    }
}

/// What tells chunks apart. Published traces have fingerprints of a few bytes, so that the length has a
/// say; where all 16 are there it changes nothing.
pub(crate) fn key(fingerprint: &Fingerprint, len: u64) -> u128 {
    u128::from_le_bytes(*fingerprint) ^ u128::from(len) << 64
}

/// The memory of a table of the standard library that has room for `capacity` entries: eight places for
/// seven of them, each with a byte beside it.
pub(crate) fn table_bytes(capacity: usize, entry_len: usize) -> u64 {
    (capacity as u64).saturating_mul(8) / 7 * (entry_len as u64 + 1)
}

/// A hash of keys that are mostly hashes.
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
        // Fibonacci hashing; its lower bits are weak, and tables use them.
        let product = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }

    fn write_u128(&mut self, value: u128) {
        let [low, high] = halves(value);
        self.write_u64(low ^ high.rotate_left(32));
    }
}

/// The low and the high half.
pub(crate) fn halves(value: u128) -> [u64; 2] {
    #[expect(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
    [value as u64, (value >> 64) as u64]
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

    /// As in traces with six bytes of a hash.
    #[test]
    fn short_fingerprints_spread() {
        let mut low = [0_u32; 256];
        let mut random = SplitMix64::new(5);
        for _ in 0..65_536 {
            let mut fingerprint = [0; FINGERPRINT_LEN];
            fingerprint[..6].copy_from_slice(&random.next().to_le_bytes()[..6]);
            let mut hasher = KeyHasher::default();
            hasher.write_u128(key(&fingerprint, 8192));
            low[usize::from(hasher.finish().to_le_bytes()[0])] += 1;
        }
        assert!(low.iter().all(|count| (128..512).contains(count)), "{low:?}");
    }

    #[test]
    fn memory_is_what_tables_take() {
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
