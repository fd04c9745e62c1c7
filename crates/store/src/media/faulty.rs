//! A medium that fails on command, for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::{Media, Put};
use crate::error::{Error, Kind, Result};

/// What goes wrong, and when. Calls are counted from 0, over all verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Every call from this one on fails and does nothing: the process is dead.
    DeadBefore(u64),
    /// This call is carried out, but its answer and every later call fail.
    DeadAfter(u64),
    /// A put at or after this call finds the storage full; everything else works.
    FullFrom(u64),
}

/// A medium that passes every call on, counts it, and fails as [`Fault`] says.
#[derive(Debug)]
pub struct Faulty {
    inner: Arc<dyn Media>,
    fault: Fault,
    calls: AtomicU64,
}

impl Faulty {
    /// Wraps `inner`.
    pub fn new(inner: Arc<dyn Media>, fault: Fault) -> Faulty {
        Faulty { inner, fault, calls: AtomicU64::new(0) }
    }

    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    fn call<T>(
        &self,
        is_put: bool,
        name: &str,
        act: impl FnOnce(&dyn Media) -> Result<T>,
    ) -> Result<T> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let dead = || Err(Error::new(Kind::Media, name, "the faulty medium is dead"));
        match self.fault {
            Fault::DeadBefore(at) if call >= at => dead(),
            Fault::DeadAfter(at) if call > at => dead(),
            Fault::DeadAfter(at) if call == at => {
                act(&*self.inner)?;
                dead()
            }
            Fault::FullFrom(at) if is_put && call >= at => {
                Err(Error::new(Kind::Full, name, "no space left on the faulty medium"))
            }
            _ => act(&*self.inner),
        }
    }
}

impl Media for Faulty {
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        self.call(true, name, |inner| inner.put_new(name, bytes))
    }

    fn get(&self, name: &str) -> Result<Bytes> {
        self.call(false, name, |inner| inner.get(name))
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        self.call(false, name, |inner| inner.get_range(name, offset, len))
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        self.call(false, name, |inner| inner.head(name))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        self.call(false, prefix, |inner| inner.list(prefix))
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.call(false, name, |inner| inner.delete(name))
    }

    fn prepare(&self) -> Result<()> {
        self.call(false, "", |inner| inner.prepare())
    }

    fn describe(&self) -> String {
        format!("faulty {}", self.inner.describe())
    }
}
