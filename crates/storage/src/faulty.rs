//! A storage that fails on demand, for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::{Error, Kind, Result};
use crate::storage::{Deletion, Lock, Put, Staged, Storage, Visibility};

/// The time between looking and putting in a put that looks first.
const RACE: Duration = Duration::from_millis(2);

/// The maximum error of a stamp, in nanoseconds: 40 days.
const STAMP_ERROR_NS_MAX: u64 = 40 * 24 * 3600 * 1_000_000_000;

/// A fault, and its time. Calls of all methods are counted together, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// Every call from this number on fails and does nothing, as if the process were dead.
    DeadBefore(u64),
    /// The call with this number is carried out, but its answer and every later call fail.
    DeadAfter(u64),
    /// The call with this number fails and does nothing; everything else works.
    FailsAt(u64),
    /// A put at or after this call finds the storage full, except for the space that later
    /// deletions have freed. Everything else works.
    FullFrom(u64),
    /// The put with this number is carried out and visible, but does not reach the disk, and reports that.
    /// A second sync makes up for it.
    UnsyncedAt(u64),
    /// From this call on no put reaches the disk, even after a sync; each one reports that.
    UnsyncedFrom(u64),
    /// Every put creates the object and replaces an existing one, as with a storage that accepts
    /// the condition of a put and ignores it.
    Overwrites,
    /// The storage's clock is random: each object's stamp is shifted by up to 40 days in either
    /// direction, determined by this seed.
    WrongStamps(u64),
    /// A put checks for an existing object, and replaces one that appears after the check. Of
    /// simultaneous puts several succeed, as with a storage that emulates the missing condition.
    Races,
}

/// A storage that forwards and counts every call, and fails as [`Fault`] describes.
#[derive(Debug)]
pub struct Faulty {
    inner: Arc<dyn Storage>,
    plan: Arc<Plan>,
}

#[derive(Debug)]
struct Plan {
    fault: Fault,
    calls: AtomicU64,
    failures: AtomicU64,
    /// The number of the first call that failed as planned, `u64::MAX` before it.
    first_failure: AtomicU64,
    /// The space freed by deletions from a full storage and not used again, in bytes.
    room: AtomicU64,
}

impl Faulty {
    /// Wraps `inner`.
    pub fn new(inner: Arc<dyn Storage>, fault: Fault) -> Faulty {
        Faulty {
            inner,
            plan: Arc::new(Plan {
                fault,
                calls: AtomicU64::new(0),
                failures: AtomicU64::new(0),
                first_failure: AtomicU64::new(u64::MAX),
                room: AtomicU64::new(0),
            }),
        }
    }

    /// Returns the number of calls.
    pub fn calls(&self) -> u64 {
        self.plan.calls.load(Ordering::SeqCst)
    }

    /// Returns the number of calls that failed as planned.
    pub fn failures(&self) -> u64 {
        self.plan.failures.load(Ordering::SeqCst)
    }

    /// Returns `true` if the call with this number was the first that failed as planned. If no
    /// fault is due at that call, as a fault of puts at another call, the run is the same as with
    /// the number of a later call, or without a fault.
    pub fn failed_first_at(&self, call: u64) -> bool {
        self.plan.first_failure.load(Ordering::SeqCst) == call
    }

    fn call<T>(
        &self,
        put_len: Option<usize>,
        name: &str,
        act: impl FnOnce(&dyn Storage) -> Result<T>,
    ) -> Result<T> {
        self.plan.call(put_len, name, || act(&*self.inner))
    }
}

impl Plan {
    /// Carries out a call or fails it. `put_len` is the number of bytes that a put takes.
    fn call<T>(
        &self,
        put_len: Option<usize>,
        name: &str,
        act: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let fail = |kind, message: &str| {
            self.failures.fetch_add(1, Ordering::SeqCst);
            self.first_failure.fetch_min(call, Ordering::SeqCst);
            Err(Error::new(kind, name, message))
        };
        let dead = || fail(Kind::Storage, "the faulty storage is dead");
        let unsynced = || fail(Kind::Storage, "the faulty storage does not sync");
        match self.fault {
            Fault::DeadBefore(at) if call >= at => dead(),
            Fault::DeadAfter(at) if call > at => dead(),
            Fault::DeadAfter(at) if call == at => act().and_then(|_| dead()),
            Fault::FailsAt(at) if call == at => {
                fail(Kind::Storage, "the faulty storage fails once")
            }
            Fault::UnsyncedAt(at) if put_len.is_some() && call == at => {
                act().and_then(|_| unsynced())
            }
            Fault::UnsyncedFrom(at) if put_len.is_some() && call >= at => {
                act().and_then(|_| unsynced())
            }
            Fault::FullFrom(at) if call >= at => {
                if put_len.is_some_and(|len| !self.take_room(len)) {
                    return fail(Kind::Full, "no space left on the faulty storage");
                }
                act()
            }
            _ => act(),
        }
    }

    /// Takes space for `len` bytes, at least one. Returns `false` if there is not enough.
    fn take_room(&self, len: usize) -> bool {
        let take = |room: u64| room.checked_sub(len.max(1) as u64);
        self.room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
    }
}

/// Puts an object in the way that `fault` prescribes.
fn put_new(inner: &dyn Storage, fault: Fault, name: &str, bytes: Bytes) -> Result<Put> {
    match fault {
        Fault::Overwrites => {}
        Fault::Races => {
            if inner.head(name)?.is_some() {
                return Ok(Put::Exists);
            }
            // Any other put that looks now sees nothing either.
            std::thread::sleep(RACE);
        }
        _ => return inner.put_new(name, bytes),
    }
    // Other puts replace the object at the same time.
    while inner.put_new(name, bytes.clone())? == Put::Exists {
        inner.delete(name)?;
    }
    Ok(Put::Created)
}

/// An object in pieces, each of which is a call. The pieces are gathered if the storage takes only
/// whole objects.
#[derive(Debug)]
struct FaultyStaged {
    inner: Arc<dyn Storage>,
    plan: Arc<Plan>,
    name: String,
    staged: Option<Box<dyn Staged>>,
    bytes: Vec<u8>,
}

impl Staged for FaultyStaged {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let (staged, gathered) = (&mut self.staged, &mut self.bytes);
        self.plan.call(Some(bytes.len()), &self.name, || match staged {
            Some(staged) => staged.write(bytes),
            None => {
                gathered.extend_from_slice(bytes);
                Ok(())
            }
        })
    }

    fn finish(self: Box<Self>) -> Result<Put> {
        let FaultyStaged { inner, plan, name, staged, bytes } = *self;
        plan.call(Some(0), &name, || match staged {
            Some(staged) => staged.finish(),
            None => put_new(&*inner, plan.fault, &name, Bytes::from(bytes)),
        })
    }
}

impl Storage for Faulty {
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        let fault = self.plan.fault;
        self.call(Some(bytes.len()), name, |inner| put_new(inner, fault, name, bytes))
    }

    fn stage(&self, name: &str) -> Result<Option<Box<dyn Staged>>> {
        // A storage that replaces takes whole objects.
        let replaces = matches!(self.plan.fault, Fault::Overwrites | Fault::Races);
        let staged =
            self.call(Some(0), name, |inner| if replaces { Ok(None) } else { inner.stage(name) })?;
        Ok(Some(Box::new(FaultyStaged {
            inner: self.inner.clone(),
            plan: self.plan.clone(),
            name: name.to_owned(),
            staged,
            bytes: Vec::new(),
        })))
    }

    fn sync(&self, name: &str) -> Result<()> {
        self.call(Some(0), name, |inner| inner.sync(name))
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        self.call(None, name, |inner| inner.get_at_most(name, len_max))
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        self.call(None, name, |inner| inner.get_range(name, offset, len))
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        self.call(None, name, |inner| inner.head(name))
    }

    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        let stamp_ns = self.call(None, name, |inner| inner.stamp_ns(name))?;
        let Fault::WrongStamps(seed) = self.plan.fault else { return Ok(stamp_ns) };
        let span_ns = 2 * STAMP_ERROR_NS_MAX;
        let by = xxh3_64_with_seed(name.as_bytes(), seed) % span_ns;
        let by = i64::try_from(by).unwrap_or(0) - i64::try_from(STAMP_ERROR_NS_MAX).unwrap_or(0);
        Ok(stamp_ns.map(|stamp_ns| stamp_ns.saturating_add(by)))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        self.call(None, prefix, |inner| inner.list(prefix))
    }

    fn delete(&self, name: &str) -> Result<()> {
        let is_full = matches!(self.plan.fault, Fault::FullFrom(at) if self.calls() >= at);
        let freed = self.call(None, name, |inner| {
            let len = inner.head(name)?.unwrap_or(0);
            inner.delete(name).map(|()| len)
        })?;
        if is_full {
            self.plan.room.fetch_add(freed, Ordering::SeqCst);
        }
        Ok(())
    }

    fn deletion(&self) -> Result<Deletion> {
        self.call(None, "", |inner| inner.deletion())
    }

    fn locks(&self, names: &[String]) -> Result<Vec<Option<Lock>>> {
        self.call(None, "", |inner| inner.locks(names))
    }

    fn replace(&self, name: &str, bytes: Bytes) -> Result<()> {
        self.call(Some(bytes.len()), name, |inner| inner.replace(name, bytes))
    }

    fn prepare(&self) -> Result<()> {
        self.call(None, "", |inner| inner.prepare())
    }

    fn visibility(&self) -> Result<Visibility> {
        self.inner.visibility()
    }

    fn describe(&self) -> String {
        format!("faulty {}", self.inner.describe())
    }
}
