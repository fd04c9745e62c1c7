//! A storage with one failing put, whose error may be of any kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, Layer, Put, Result, Storage};

/// Forwards every call, except for one put below a prefix.
#[derive(Debug)]
pub(crate) struct FailingPuts {
    inner: Arc<dyn Storage>,
    prefix: &'static str,
    kind: Kind,
    fails_at: Option<u64>,
    puts: AtomicU64,
}

impl FailingPuts {
    /// Makes the put of this number below `prefix`, from 0, fail with an error of `kind` and do
    /// nothing.
    pub(crate) fn new(
        inner: &Arc<dyn Storage>,
        prefix: &'static str,
        kind: Kind,
        fails_at: Option<u64>,
    ) -> Arc<FailingPuts> {
        let inner = inner.clone();
        Arc::new(FailingPuts { inner, prefix, kind, fails_at, puts: AtomicU64::new(0) })
    }

    /// Returns the number of puts below the prefix so far.
    pub(crate) fn puts(&self) -> u64 {
        self.puts.load(Ordering::SeqCst)
    }
}

impl Layer for FailingPuts {
    fn below(&self) -> &dyn Storage {
        &*self.inner
    }

    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        if name.starts_with(self.prefix) {
            let put = self.puts.fetch_add(1, Ordering::SeqCst);
            if self.fails_at == Some(put) {
                return Err(Error::new(self.kind, name, "as the test has it"));
            }
        }
        self.inner.put_new(name, bytes)
    }
}
