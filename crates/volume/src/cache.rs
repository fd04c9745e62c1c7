//! Bytes in memory that never change: pages of runs, and stored blocks.

use std::hash::Hash;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

/// The minimum number of entries of a cache.
const ENTRIES_MIN: usize = 16;

/// The entries that were used last. All have about the same size.
pub(crate) struct Cache<Id: Eq + Hash>(Mutex<LruCache<Id, Arc<[u8]>>>);

impl<Id: Eq + Hash> std::fmt::Debug for Cache<Id> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

impl<Id: Eq + Hash> Cache<Id> {
    /// Creates a cache of about `bytes` for entries of `entry_size` bytes each.
    pub(crate) fn new(bytes: u64, entry_size: usize) -> Cache<Id> {
        let count = usize::try_from(bytes / entry_size as u64).unwrap_or(usize::MAX);
        // The map grows with its contents only.
        let cap = NonZeroUsize::new(count.max(ENTRIES_MIN)).unwrap_or(NonZeroUsize::MIN);
        let mut cache = LruCache::unbounded();
        cache.resize(cap);
        Cache(Mutex::new(cache))
    }

    fn entries(&self) -> MutexGuard<'_, LruCache<Id, Arc<[u8]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, id: &Id) -> Option<Arc<[u8]>> {
        self.entries().get(id).cloned()
    }

    pub(crate) fn put(&self, id: Id, bytes: Arc<[u8]>) {
        self.entries().put(id, bytes);
    }

    /// Returns an entry, and reads it if the cache does not have it.
    ///
    /// # Errors
    ///
    /// Returns the error of `read`.
    pub(crate) fn get_or_read<E>(
        &self,
        id: Id,
        read: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Arc<[u8]>, E> {
        if let Some(found) = self.get(&id) {
            return Ok(found);
        }
        let bytes: Arc<[u8]> = read()?.into();
        self.put(id, Arc::clone(&bytes));
        Ok(bytes)
    }
}
