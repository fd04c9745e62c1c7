//! Progress of a prune, and requests to stop it.

use cutpoint_storage::{Error, Kind, Result};

/// The phase of a prune, for progress reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Marks the chunks that snapshots reach. Counts snapshots.
    Mark,
    /// Locates the live chunks.
    Locate,
    /// Reads the tables of contents of containers that are used in part. Counts containers.
    Examine,
    /// Compresses a sample of the chunks to optimize. Counts containers.
    Sample,
    /// Searches for chunks that resemble each other. Counts containers.
    Compare,
    /// Stores the chunks again that have to move. Counts bytes, of containers in a prune and of
    /// chunks in an optimization.
    Rewrite,
}

/// Callbacks of a running prune.
pub trait PruneMonitor: Sync {
    /// Reports that `done` of the `total` units of the phase are done.
    fn progress(&self, phase: Phase, done: u64, total: u64) {
        let _ = (phase, done, total);
    }

    /// Reports a container that cannot be read and stays as it is.
    fn skipped(&self, error: &Error) {
        let _ = error;
    }

    /// Reports that the storage has lost objects that it had acknowledged, and that the prune begins
    /// again, which stores them again.
    fn lost(&self) {}

    /// Reports that the view checkpoint was not extended, which only costs later requests.
    fn checkpoint_failed(&self, error: &Error) {
        let _ = error;
    }

    /// Returns `true` if the prune should stop. Called often.
    fn cancelled(&self) -> bool {
        false
    }
}

/// A monitor that ignores every report.
impl PruneMonitor for () {}

/// Returns an `Interrupted` error if the monitor asks to stop.
pub(crate) fn stop_if_cancelled(monitor: &dyn PruneMonitor) -> Result<()> {
    if monitor.cancelled() {
        Err(Error::new(Kind::Interrupted, "prune", "interrupted"))
    } else {
        Ok(())
    }
}
