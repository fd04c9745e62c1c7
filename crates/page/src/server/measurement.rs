//! The measurement of the space that is running, or the last one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cutpoint_repository::TicketId;

use super::lock;
use crate::space::{Space, SpaceMonitor};

/// The progress of a measurement.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) done: AtomicU64,
    pub(super) total: AtomicU64,
    is_cancelled: AtomicBool,
}

impl SpaceMonitor for Arc<Progress> {
    fn progress(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// A measurement.
#[derive(Debug, Default)]
pub(super) enum State {
    #[default]
    None,
    Running(Arc<Progress>),
    /// The result, and the snapshots that were looked at.
    Done(Arc<Space>, Vec<TicketId>),
    Failed(String),
}

/// The measurement that is running, or the last one.
#[derive(Debug, Default)]
pub(super) struct SpaceJob(pub(super) Mutex<State>);

impl SpaceJob {
    /// Stops a measurement that is running.
    pub(super) fn cancel(&self) {
        if let State::Running(progress) = &*lock(&self.0) {
            progress.is_cancelled.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the last measurement, if there is one.
    pub(super) fn done(&self) -> Option<Arc<Space>> {
        match &*lock(&self.0) {
            State::Done(space, _) => Some(Arc::clone(space)),
            _ => None,
        }
    }
}
