//! What is known of chunks that were met: of most of them, in bounded memory.

use std::collections::HashMap;

use crate::fingerprint::Fingerprint;

/// How many chunks one generation has: a table of 2^20 slots, 18 MB and the values.
const GENERATION_LEN: usize = 900_000;

/// Half a fingerprint, and as what its chunk was met.
pub(crate) type Key = [u8; 16];

/// The key of a chunk that is met as a certain `kind`: what one is taken for decides what it says.
pub(crate) fn key(fingerprint: &Fingerprint, kind: u8) -> Key {
    let mut half = [0; 16];
    half.copy_from_slice(&fingerprint.0[..16]);
    half[15] ^= kind;
    half
}

/// A map from chunks. Bounded: what has not been asked for for long is forgotten.
#[derive(Clone, Debug)]
pub(crate) struct Recent<V> {
    young: HashMap<Key, V>,
    old: HashMap<Key, V>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Recent { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<V> Recent<V> {
    /// What was put last for `key`, unless it was forgotten.
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
