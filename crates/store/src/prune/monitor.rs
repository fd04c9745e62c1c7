//! Progress of a prune, and requests to stop it.

use crate::error::{Error, Kind, Result};

/// The phase of a prune, for progress reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Goes through snapshots: `done` of `total`.
    Mark,
    /// Looks up what they need.
    Look,
    /// Reads what containers that are used in part have: containers.
    Weigh,
    /// Compresses a sample of what is to be optimized: containers.
    Sample,
    /// Looks for what resembles each other: containers.
    Compare,
    /// Stores again what has to move: bytes, of containers where it is a prune, of chunks where it
    /// optimizes.
    Rewrite,
}

/// Hears of what a prune does.
pub trait PruneMonitor: Sync {
    /// `done` of `total` is done of what the phase counts.
    fn progress(&self, phase: Phase, done: u64, total: u64) {
        let _ = (phase, done, total);
    }

    /// A container cannot be read, and stays as it is.
    fn passed_over(&self, error: &Error) {
        let _ = error;
    }

    /// Whether to stop. Asked often.
    fn cancelled(&self) -> bool {
        false
    }
}

/// A monitor that hears nothing.
impl PruneMonitor for () {}

pub(crate) fn stop_if_cancelled(monitor: &dyn PruneMonitor) -> Result<()> {
    if monitor.cancelled() {
        Err(Error::new(Kind::Interrupted, "prune", "interrupted"))
    } else {
        Ok(())
    }
}
