//! A storage with failing reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, Layer, Result, Storage};

/// Forwards every call, but the first reads of objects below a prefix fail.
#[derive(Debug)]
pub(crate) struct FailingReads {
    inner: Arc<dyn Storage>,
    prefix: String,
    kind: Kind,
    left: AtomicU64,
}

impl FailingReads {
    /// Makes the first reads of objects below `prefix` fail with an error of `kind`.
    pub(crate) fn new(
        inner: &Arc<dyn Storage>,
        prefix: &str,
        kind: Kind,
        count: u64,
    ) -> Arc<FailingReads> {
        let (inner, prefix, left) = (inner.clone(), prefix.to_owned(), AtomicU64::new(count));
        Arc::new(FailingReads { inner, prefix, kind, left })
    }

    /// Sets the number of reads that fail from now on.
    pub(crate) fn arm(&self, count: u64) {
        self.left.store(count, Ordering::SeqCst);
    }

    fn fail(&self, name: &str) -> Result<()> {
        let take = |left: u64| left.checked_sub(1);
        let fails = name.starts_with(&self.prefix)
            && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok();
        if fails { Err(Error::new(self.kind, name, "as the test has it")) } else { Ok(()) }
    }
}

impl Layer for FailingReads {
    fn below(&self) -> &dyn Storage {
        &*self.inner
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        self.fail(name)?;
        self.inner.get_at_most(name, len_max)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        self.fail(name)?;
        self.inner.get_range(name, offset, len)
    }
}
