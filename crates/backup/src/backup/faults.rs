//! Faults in the channels of a run, for tests. Nothing of this is compiled without the feature
//! `faults`.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cutpoint_store::error::{Error, Kind};

/// The message of the failure of a send.
pub const FAILURE: &str = "this send fails";

/// Faults of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// The send that fails, from 0 on, counted over all channels.
    pub fails_at: Option<u64>,
    /// A pause before every send.
    pub pause: Duration,
}

thread_local! {
    static NEXT: Cell<Plan> = const { Cell::new(Plan { fails_at: None, pause: Duration::ZERO }) };
    static SENDS: Cell<u64> = const { Cell::new(0) };
}

/// Gives the next runs that this thread begins these faults.
pub fn plan(plan: Plan) {
    NEXT.set(plan);
}

/// The faults of a run that begins, and what it has sent.
#[derive(Debug)]
pub(super) struct Faults {
    plan: Plan,
    sends: AtomicU64,
}

impl Faults {
    /// The faults that were planned in this thread.
    pub(super) fn take() -> Faults {
        Faults { plan: NEXT.get(), sends: AtomicU64::new(0) }
    }

    /// A send begins.
    pub(super) fn at_send(&self) -> Result<(), Error> {
        let send = self.sends.fetch_add(1, Ordering::SeqCst);
        if !self.plan.pause.is_zero() {
            std::thread::sleep(self.plan.pause);
        }
        if self.plan.fails_at == Some(send) {
            return Err(Error::new(Kind::Media, "a channel", FAILURE));
        }
        Ok(())
    }
}

impl Drop for Faults {
    /// The thread that began the run hears how many sends there were.
    fn drop(&mut self) {
        SENDS.set(*self.sends.get_mut());
    }
}

/// The number of sends of the last run that this thread began and ended.
pub fn sends() -> u64 {
    SENDS.get()
}
