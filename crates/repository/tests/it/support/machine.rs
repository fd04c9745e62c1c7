//! The environment of a test's client: fixed random numbers, and a clock that only calls advance.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutpoint_storage::{Environment, Process, Result};
use cutpoint_testing::SplitMix64;

/// A process of a machine on which all processes with a smaller number are dead.
#[derive(Debug)]
pub(crate) struct Machine {
    random: Mutex<SplitMix64>,
    clock_ns: AtomicU64,
    process: u32,
}

impl Machine {
    /// Creates a process that begins at a fixed time.
    pub(crate) fn new(process: u32) -> Arc<Machine> {
        Machine::at(process, 1 << 60)
    }

    /// Creates a process that begins at this time.
    pub(crate) fn at(process: u32, clock_ns: u64) -> Arc<Machine> {
        let random = Mutex::new(SplitMix64::new(0xe0 + u64::from(process)));
        Arc::new(Machine { random, clock_ns: AtomicU64::new(clock_ns), process })
    }
}

impl Environment for Machine {
    fn now_ns(&self) -> i64 {
        i64::try_from(self.elapsed_ns()).expect("a time of this century")
    }

    fn elapsed_ns(&self) -> u64 {
        self.clock_ns.fetch_add(1_000_000, Ordering::SeqCst)
    }

    fn block(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).expect("a short time");
        self.clock_ns.fetch_add(ns, Ordering::SeqCst);
    }

    fn random(&self, bytes: &mut [u8]) -> Result<()> {
        let mut random = self.random.lock().expect("no test panics in here");
        bytes.copy_from_slice(&random.take(bytes.len()));
        Ok(())
    }

    fn process(&self) -> Process {
        Process {
            host: "machine".to_owned(),
            boot_id: "boot".to_owned(),
            namespace: String::new(),
            process_id: self.process,
            started: 1,
        }
    }

    fn machine_id(&self) -> Option<[u8; 16]> {
        Some([1; 16])
    }

    fn may_be_alive(&self, other: &Process) -> bool {
        other.process_id >= self.process
    }
}
