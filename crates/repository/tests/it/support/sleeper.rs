//! The environment of a test's client whose machine can sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cutpoint_storage::{Environment, Process, Result, WaitNotice};

use super::machine::Machine;

/// The environment of a machine that can sleep.
#[derive(Debug)]
pub(crate) struct Sleeper {
    machine: Arc<Machine>,
    slept_ns: AtomicU64,
    /// The time for which the machine sleeps whenever a wait is told.
    waiting_ns: AtomicU64,
}

impl Sleeper {
    /// Creates a process of a machine that has not slept yet.
    pub(crate) fn new(process: u32) -> Arc<Sleeper> {
        let (slept_ns, waiting_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Sleeper { machine: Machine::new(process), slept_ns, waiting_ns })
    }

    /// Lets the machine sleep whenever a wait is told.
    pub(crate) fn sleep_in_waits(&self, time_ns: u64) {
        self.waiting_ns.store(time_ns, Ordering::SeqCst);
    }

    /// Lets the machine sleep.
    pub(crate) fn sleep(&self, time_ns: u64) {
        self.slept_ns.fetch_add(time_ns, Ordering::SeqCst);
    }
}

impl Environment for Sleeper {
    fn tell_wait(&self, _: &WaitNotice) {
        self.sleep(self.waiting_ns.load(Ordering::SeqCst));
    }

    fn now_ns(&self) -> i64 {
        i64::try_from(self.elapsed_ns()).expect("a time of this century")
    }

    fn elapsed_ns(&self) -> u64 {
        self.awake_ns() + self.slept_ns.load(Ordering::SeqCst)
    }

    fn awake_ns(&self) -> u64 {
        self.machine.elapsed_ns()
    }

    fn block(&self, time: Duration) {
        self.machine.block(time);
    }

    fn random(&self, bytes: &mut [u8]) -> Result<()> {
        self.machine.random(bytes)
    }

    fn process(&self) -> Process {
        self.machine.process()
    }

    fn machine_id(&self) -> Option<[u8; 16]> {
        self.machine.machine_id()
    }

    fn may_be_alive(&self, other: &Process) -> bool {
        self.machine.may_be_alive(other)
    }
}
