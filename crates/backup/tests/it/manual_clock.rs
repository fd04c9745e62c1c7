//! A clock set by the test, a file system described by the test, and a small repository in memory.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use cutpoint_backup::source::{FileSystem, FileSystems};
use cutpoint_repository::{CipherSuite, InitOptions, Repository, Unlock};
use cutpoint_storage::{Environment, Memory, Process, Result, Storage};
use cutpoint_testing::SplitMix64;

pub(crate) const SECOND_NS: i64 = 1_000_000_000;
pub(crate) const HOUR_NS: i64 = 3600 * SECOND_NS;

/// A clock that stands still unless a test moves it, and randomness from a seed.
#[derive(Debug)]
pub(crate) struct Clock {
    now_ns: AtomicI64,
    elapsed_ns: AtomicU64,
    random: AtomicU64,
    /// The storage whose commits are all deleted whenever the time is read.
    pub(crate) forgets: OnceLock<Arc<dyn Storage>>,
}

impl Clock {
    fn new() -> Clock {
        Clock {
            // A time long after the files of the tests were made.
            now_ns: AtomicI64::new(3_000_000_000 * SECOND_NS),
            elapsed_ns: AtomicU64::new(0),
            random: AtomicU64::new(0),
            forgets: OnceLock::new(),
        }
    }

    /// Sets the time of day, in nanoseconds since 1970, without advancing the elapsed time.
    pub(crate) fn set(&self, now_ns: i64) {
        self.now_ns.store(now_ns, Ordering::SeqCst);
    }

    /// Advances the time of day and the elapsed time.
    pub(crate) fn advance(&self, ns: i64) {
        self.now_ns.fetch_add(ns, Ordering::SeqCst);
        self.elapsed_ns.fetch_add(ns.unsigned_abs(), Ordering::SeqCst);
    }
}

impl Environment for Clock {
    fn now_ns(&self) -> i64 {
        if let Some(storage) = self.forgets.get() {
            for (name, _) in storage.list("commits").expect("memory lists") {
                storage.delete(&name).expect("memory deletes");
            }
        }
        self.now_ns.load(Ordering::SeqCst)
    }

    fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns.load(Ordering::SeqCst)
    }

    fn random(&self, bytes: &mut [u8]) -> Result<()> {
        let seed = self.random.fetch_add(1, Ordering::SeqCst);
        bytes.copy_from_slice(&SplitMix64::new(seed).take(bytes.len()));
        Ok(())
    }

    fn process(&self) -> Process {
        Process { host: "test".to_owned(), process_id: 1, ..Process::default() }
    }

    fn may_be_alive(&self, _: &Process) -> bool {
        true
    }
}

/// A file system with the properties given by a test.
#[derive(Clone, Debug)]
pub(crate) struct MountedFileSystem(pub(crate) FileSystem);

impl FileSystems for MountedFileSystem {
    fn of(&self, _: BorrowedFd<'_>) -> FileSystem {
        self.0.clone()
    }

    fn writeback_ns(&self) -> Option<i64> {
        self.0.settling_ns
    }
}

/// Creates an empty repository in memory.
pub(crate) fn make() -> (Arc<Clock>, Arc<dyn Storage>, Arc<Repository>) {
    let (clock, storage) = (Arc::new(Clock::new()), Arc::new(Memory::new()));
    let options = InitOptions {
        suite: CipherSuite::None,
        cut: "fastcdc:level=1,min=2048,normal=8192,max=65536,seed=0".to_owned(),
        region_size: 64 * 1024,
        container_size: 4 * 1024 * 1024,
        compression_level: 1,
        delta_chunks: false,
        parity_percent: 0,
        ..InitOptions::default()
    };
    let repository =
        Repository::init(storage.clone(), clock.clone(), &Unlock::Nothing, &options).expect("init");
    (clock, storage, Arc::new(repository))
}
