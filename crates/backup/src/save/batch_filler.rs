//! The batch that the source stage fills at present.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use cutpoint_storage::{Error, Kind};

use super::batch::{BATCH_EVENTS_MAX, Batch, Event};
use super::channels::SaveJob;
use super::monitor::BackupMonitor;
use super::run_state::RunState;
use super::shutdown::Result;

/// The interval at which a wait for a batch checks for a request to stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A batch that is being filled.
pub(super) struct OpenBatch {
    pub(super) batch: Batch,
    /// The number of bytes of the batch that are filled.
    pub(super) fill: usize,
}

impl OpenBatch {
    /// Returns `true` if there is no room for another byte.
    pub(super) fn has_all_bytes(&self) -> bool {
        self.fill >= self.batch.bytes.len()
    }

    /// Returns `true` if the batch has its maximum number of bytes or events.
    pub(super) fn is_full(&self) -> bool {
        self.has_all_bytes() || self.batch.events.len() >= BATCH_EVENTS_MAX
    }
}

/// Fills batches with bytes and events, and sends them to the workers.
pub(super) struct BatchFiller<'a> {
    monitor: &'a dyn BackupMonitor,
    state: &'a RunState,
    free_batches: Receiver<Batch>,
    jobs: Sender<SaveJob>,
    open: Option<OpenBatch>,
    next_number: u64,
}

impl<'a> BatchFiller<'a> {
    pub(super) fn new(
        monitor: &'a dyn BackupMonitor,
        state: &'a RunState,
        free_batches: Receiver<Batch>,
        jobs: Sender<SaveJob>,
    ) -> BatchFiller<'a> {
        BatchFiller { monitor, state, free_batches, jobs, open: None, next_number: 0 }
    }

    /// Ends the stage if the monitor cancels the backup, or if the run is over.
    pub(super) fn check_stop(&self) -> Result<()> {
        if self.monitor.cancelled() {
            return Err(interrupted().into());
        }
        Ok(self.state.shutdown.check()?)
    }

    /// Returns the current batch. Waits for a free one if there is none.
    pub(super) fn batch(&mut self) -> Result<&mut OpenBatch> {
        let open = match self.open.take() {
            Some(open) => open,
            None => self.next_batch()?,
        };
        Ok(self.open.insert(open))
    }

    fn next_batch(&mut self) -> Result<OpenBatch> {
        let mut batch = loop {
            match self.state.shutdown.expect_within(&self.free_batches, CHECK_INTERVAL)? {
                Some(batch) => break batch,
                None => self.check_stop()?,
            }
        };
        batch.number = self.next_number;
        batch.events.clear();
        self.next_number += 1;
        Ok(OpenBatch { batch, fill: 0 })
    }

    /// Adds an event. Sends the batch if it is full; [`Cutter`](super::cutter::Cutter) does that
    /// itself between the chunks of a file.
    pub(super) fn push(&mut self, event: Event) -> Result<()> {
        let open = self.batch()?;
        open.batch.events.push(event);
        if open.is_full() { self.send() } else { Ok(()) }
    }

    /// Sends the current batch, if there is one.
    pub(super) fn send(&mut self) -> Result<()> {
        match self.open.take() {
            Some(open) => {
                Ok(self.state.shutdown.send(&self.jobs, SaveJob::Fingerprint(open.batch))?)
            }
            None => Ok(()),
        }
    }

    /// Sends the current batch, and begins the next one with the bytes of the current batch from
    /// `start` on.
    pub(super) fn send_and_carry(&mut self, start: usize) -> Result<()> {
        let Some(full) = self.open.take() else { return Ok(()) };
        let mut next = match self.next_batch() {
            Ok(next) => next,
            Err(halt) => {
                // The dedup stage waits for each number that was given, so this batch is sent at the
                // end.
                self.open = Some(full);
                return Err(halt);
            }
        };
        let carried = &full.batch.bytes[start..full.fill];
        next.batch.bytes[..carried.len()].copy_from_slice(carried);
        next.fill = carried.len();
        self.open = Some(next);
        Ok(self.state.shutdown.send(&self.jobs, SaveJob::Fingerprint(full.batch))?)
    }

    /// Returns `true` if at least three quarters of the current batch are filled.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.fill >= open.batch.bytes.len() / 4 * 3)
    }

    /// Sends the last batch. Returns the number of batches.
    pub(super) fn finish(mut self) -> Result<u64> {
        self.send()?;
        Ok(self.next_number)
    }
}

/// Returns the error of a backup that the monitor cancels.
pub(super) fn interrupted() -> Error {
    Error::new(Kind::Interrupted, "backup", "interrupted")
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;

    use super::*;

    struct Cancelled;

    impl BackupMonitor for Cancelled {
        fn cancelled(&self) -> bool {
            true
        }
    }

    /// A request to stop comes while the source stage waits for a free batch.
    #[test]
    fn batch_that_cannot_be_carried_on_is_sent_at_the_end() {
        let state = RunState::default();
        let (free, free_batches) = unbounded();
        let (jobs, sent) = unbounded();
        free.send(Batch::new(10)).expect("it is open");
        let mut batches = BatchFiller::new(&Cancelled, &state, free_batches, jobs);
        batches.batch().unwrap_or_else(|_| panic!("there is a free batch")).fill = 10;
        assert!(batches.send_and_carry(5).is_err(), "there is no other batch");
        let count = batches.finish().unwrap_or_else(|_| panic!("the run goes on"));
        assert_eq!((count, sent.len()), (1, 1), "each number was sent");
    }
}
