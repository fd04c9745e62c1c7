//! Keys.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// The maximum length of a key in bytes: the tag of its table, and a raw head or tail.
const LEN_MAX: usize = 33;

/// The number of leading bytes of a key that a fence has.
pub(crate) const PREFIX_LEN: usize = 16;

/// A key: up to 33 bytes, ordered as bytes. No key is the beginning of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The bytes, and zeros.
    bytes: [u8; LEN_MAX],
    len: u8,
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        // Two numbers are compared faster than bytes.
        let number = |key: &Key| u128::from_be_bytes(key.prefix());
        number(self)
            .cmp(&number(other))
            .then_with(|| self.bytes[PREFIX_LEN..].cmp(&other.bytes[PREFIX_LEN..]))
            .then(self.len.cmp(&other.len))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // No key is the beginning of another one.
        state.write(self.bytes());
    }
}

impl Key {
    /// A key before all others.
    pub(crate) const LEAST: Key = Key { bytes: [0; LEN_MAX], len: 0 };

    /// Creates a key of parts. Bytes beyond the maximum length are cut off.
    pub(crate) fn new(parts: &[&[u8]]) -> Key {
        let mut key = Key { bytes: [0; LEN_MAX], len: 0 };
        parts.iter().for_each(|part| key.push(part));
        key
    }

    /// Creates a key of its bytes, or returns `None` if it is empty or longer than a key.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Key> {
        (1..=LEN_MAX).contains(&bytes.len()).then(|| Key::new(&[bytes]))
    }

    /// Creates a key of the first `shared` bytes of this one and others, or returns `None` if these
    /// are more than a key has.
    pub(crate) fn with_suffix(&self, shared: usize, suffix: &[u8]) -> Option<Key> {
        let is_right = shared <= self.bytes().len() && shared + suffix.len() <= LEN_MAX;
        is_right.then(|| Key::new(&[&self.bytes[..shared], suffix]))
    }

    fn push(&mut self, part: &[u8]) {
        let start = usize::from(self.len);
        let end = (start + part.len()).min(LEN_MAX);
        self.bytes[start..end].copy_from_slice(&part[..end - start]);
        self.len = u8::try_from(end).expect("at most the maximum");
    }

    /// Returns the bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns the first bytes, padded with zeros.
    pub(crate) fn prefix(&self) -> [u8; PREFIX_LEN] {
        let mut prefix = [0; PREFIX_LEN];
        prefix.copy_from_slice(&self.bytes[..PREFIX_LEN]);
        prefix
    }

    /// Returns the number of leading bytes that both keys have.
    pub(crate) fn shared_len(&self, other: &Key) -> usize {
        let pairs = self.bytes().iter().zip(other.bytes());
        pairs.take_while(|(one, other)| one == other).count()
    }

    /// Returns the hash of the key in filters: `docs/volume-format.md` has its definition.
    pub(crate) fn filter_hash(&self) -> u64 {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut hash = u64::from(self.len);
        for part in self.bytes().chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            let product = u128::from(hash ^ u64::from_le_bytes(word)) * u128::from(FACTOR);
            let (low, high) = (product & u128::from(u64::MAX), product >> 64);
            hash = u64::try_from(low ^ high).expect("64 bits") ^ FACTOR.rotate_left(29);
        }
        hash
    }
}
