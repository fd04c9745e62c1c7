//! A bounded cache of decoded chunks.

use std::collections::HashMap;

use cutpoint_repository::Fingerprint;

/// A map from fingerprints with two generations, limited by the size of its values. A value that
/// has not been used for a whole generation is dropped.
#[derive(Debug)]
pub(crate) struct SizedCache<V> {
    young: HashMap<Fingerprint, (V, usize)>,
    old: HashMap<Fingerprint, (V, usize)>,
    young_bytes: usize,
    generation_bytes_max: usize,
}

impl<V: Clone> SizedCache<V> {
    /// Creates a cache for values of `bytes_max` bytes altogether.
    pub(crate) fn new(bytes_max: usize) -> SizedCache<V> {
        let (young, old) = (HashMap::new(), HashMap::new());
        SizedCache { young, old, young_bytes: 0, generation_bytes_max: bytes_max / 2 }
    }

    pub(crate) fn get(&mut self, key: &Fingerprint) -> Option<V> {
        if let Some((value, _)) = self.young.get(key) {
            return Some(value.clone());
        }
        let (value, size) = self.old.remove(key)?;
        self.put(*key, value.clone(), size);
        Some(value)
    }

    /// Keeps a value of `size` bytes. A value larger than a generation is the only one in it.
    pub(crate) fn put(&mut self, key: Fingerprint, value: V, size: usize) {
        if self.young_bytes.saturating_add(size) > self.generation_bytes_max {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        if let Some((_, replaced)) = self.young.insert(key, (value, size)) {
            self.young_bytes -= replaced;
        }
        self.young_bytes += size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> Fingerprint {
        Fingerprint([number; 32])
    }

    #[test]
    fn used_values_stay_within_the_limit() {
        let mut cache = SizedCache::new(100);
        for number in 0..100 {
            cache.put(key(number), number, 10);
            assert_eq!(cache.get(&key(0)), Some(0), "used each time, at {number}");
        }
        assert_eq!(cache.get(&key(99)), Some(99), "the newest");
        assert_eq!(cache.get(&key(50)), None, "unused for long");
        let kept = cache.young.len() + cache.old.len();
        assert!(kept <= 11, "{kept} values of 10 bytes");
        cache.put(key(200), 200, 1000);
        cache.put(key(201), 201, 10);
        cache.put(key(202), 202, 45);
        assert_eq!(cache.get(&key(200)), None, "the large value did not stay");
    }
}
