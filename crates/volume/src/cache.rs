//! Pages of runs in memory.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;

use crate::format::run::PAGE_SIZE;

/// The number of a run and of a page in it.
type PageId = (u64, u64);

/// The pages of runs that were used last.
pub(crate) struct PageCache(Mutex<LruCache<PageId, Arc<[u8]>>>);

impl std::fmt::Debug for PageCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageCache").finish_non_exhaustive()
    }
}

impl PageCache {
    /// Creates a cache of about `bytes`.
    pub(crate) fn new(bytes: u64) -> PageCache {
        let count = usize::try_from(bytes / PAGE_SIZE as u64).unwrap_or(usize::MAX);
        // The map grows with its contents only.
        let cap = NonZeroUsize::new(count.max(16)).unwrap_or(NonZeroUsize::MIN);
        let mut cache = LruCache::unbounded();
        cache.resize(cap);
        PageCache(Mutex::new(cache))
    }

    /// Returns a page of a run, and reads it if the cache does not have it.
    ///
    /// # Errors
    ///
    /// Returns the error of `read`.
    pub(crate) fn get<E>(
        &self,
        page: PageId,
        read: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Arc<[u8]>, E> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = lock().get(&page) {
            return Ok(Arc::clone(found));
        }
        let bytes: Arc<[u8]> = read()?.into();
        lock().put(page, Arc::clone(&bytes));
        Ok(bytes)
    }
}
