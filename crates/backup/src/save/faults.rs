//! Faults in the channels of a run, for tests. This module is compiled only with the feature
//! `faults`.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cutpoint_storage::{Error, Kind};

/// The error message of a send that fails.
pub const FAILURE: &str = "this send fails";

/// The faults of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultPlan {
    /// The index of the send that fails, counted over all channels.
    pub fails_at: Option<u64>,
    /// The pause before every send.
    pub pause: Duration,
}

impl FaultPlan {
    /// No faults.
    const NONE: FaultPlan = FaultPlan { fails_at: None, pause: Duration::ZERO };
}

thread_local! {
    static NEXT: Cell<FaultPlan> = const { Cell::new(FaultPlan::NONE) };
    static SENDS: Cell<u64> = const { Cell::new(0) };
}

/// Sets the faults of the next runs that this thread begins.
pub fn plan(plan: FaultPlan) {
    NEXT.set(plan);
}

/// The faults of one run, and the number of its sends.
#[derive(Debug)]
pub(super) struct Faults {
    plan: FaultPlan,
    sends: AtomicU64,
}

impl Faults {
    /// Returns the faults planned by this thread.
    pub(super) fn take() -> Faults {
        Faults { plan: NEXT.get(), sends: AtomicU64::new(0) }
    }

    /// Counts a send, pauses, and fails if this send is to fail.
    pub(super) fn at_send(&self) -> Result<(), Error> {
        let send = self.sends.fetch_add(1, Ordering::SeqCst);
        if !self.plan.pause.is_zero() {
            std::thread::sleep(self.plan.pause);
        }
        if self.plan.fails_at == Some(send) {
            return Err(Error::new(Kind::Storage, "a channel", FAILURE));
        }
        Ok(())
    }
}

impl Drop for Faults {
    /// Passes the number of sends on to the thread that drops the value, which is the one that
    /// began the run.
    fn drop(&mut self) {
        SENDS.set(*self.sends.get_mut());
    }
}

/// Returns the number of sends of the last run that this thread began and completed.
pub fn sends() -> u64 {
    SENDS.get()
}
