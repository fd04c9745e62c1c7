//! A bounded map from chunks that keeps the most recently used entries.

use std::collections::HashMap;

use crate::format::fingerprint::Fingerprint;

/// Maximum number of entries in one generation: a table of 2^20 slots, 18 MB and the values.
const GENERATION_LEN: usize = 900_000;

/// Cache key: half of the fingerprint, tagged with the kind of node.
pub(crate) type Key = [u8; 16];

/// Returns the key of a chunk that is decoded as `kind`. The kind is part of the key because the
/// same bytes mean something else for each kind.
pub(crate) fn key(fingerprint: &Fingerprint, kind: u8) -> Key {
    let mut half = [0; 16];
    half.copy_from_slice(&fingerprint.0[..16]);
    half[15] ^= kind;
    half
}

/// A map from chunks with two generations. An entry that has not been used for a whole generation
/// is dropped.
#[derive(Clone, Debug)]
pub(crate) struct TwoGenerationCache<V> {
    young: HashMap<Key, V>,
    old: HashMap<Key, V>,
}

impl<V> Default for TwoGenerationCache<V> {
    fn default() -> Self {
        TwoGenerationCache { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<V> TwoGenerationCache<V> {
    /// Returns the value that was last put for `key`, unless it has been dropped.
    pub(crate) fn get(&mut self, key: &Key) -> Option<&V> {
        if !self.young.contains_key(key) {
            let value = self.old.remove(key)?;
            self.put(*key, value);
        }
        self.young.get(key)
    }

    pub(crate) fn put(&mut self, key: Key, value: V) {
        if self.young.len() >= GENERATION_LEN {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}
