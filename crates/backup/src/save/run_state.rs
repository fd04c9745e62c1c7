//! The state that all stages of a run share, besides the channels.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cutpoint_repository::Statistics;

use super::monitor::BackupProgress;
use super::shutdown::Shutdown;

/// The end of a run, its counters, and the age of its ticket.
#[derive(Debug, Default)]
pub(super) struct RunState {
    /// The end of the run.
    pub(super) shutdown: Shutdown,
    read_files: AtomicU64,
    read_bytes: AtomicU64,
    stored_bytes: AtomicU64,
    ticket_is_old: AtomicBool,
    statistics: Mutex<Statistics>,
}

impl RunState {
    /// Counts a file that is read.
    pub(super) fn add_read_file(&self) {
        self.read_files.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_read(&self, bytes: u64) {
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_stored(&self, bytes: u64) {
        self.stored_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records that the ticket has reached its maximum age for writing (W8).
    pub(super) fn set_old(&self) {
        self.ticket_is_old.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_old(&self) -> bool {
        self.ticket_is_old.load(Ordering::Relaxed)
    }

    pub(super) fn set_statistics(&self, statistics: Statistics) {
        *self.statistics.lock().unwrap_or_else(PoisonError::into_inner) = statistics;
    }

    pub(super) fn progress(&self) -> BackupProgress {
        let mut statistics = *self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        statistics.read_file_count = self.read_files.load(Ordering::Relaxed);
        statistics.read_bytes = self.read_bytes.load(Ordering::Relaxed);
        BackupProgress { statistics, stored_bytes: self.stored_bytes.load(Ordering::Relaxed) }
    }
}
