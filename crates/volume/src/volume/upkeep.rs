//! The work on a volume beside reads and writes.

use std::thread;
use std::time::{Duration, Instant};

use super::Volume;
use crate::error::{Error, Result};

/// The interval at which the log is looked through for dead segments.
const CLEAN_EVERY: Duration = Duration::from_secs(5);
/// The maximum time until a request to stop is noticed.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Volume {
    /// Writes the checkpoints that are due and cleans the log, in two threads, until `is_asked_to_stop`
    /// returns `true`, which is asked at least every 100 ms. `warn` is told of errors, after which
    /// reads and writes go on: a write that meets the same error fails with it. It is told as well when
    /// space becomes short.
    pub fn keep_up(
        &self,
        is_asked_to_stop: &(dyn Fn() -> bool + Sync),
        warn: &(dyn Fn(&str, &Error) + Sync),
    ) {
        if self.is_read_only {
            while wait(CLEAN_EVERY, is_asked_to_stop) {}
            return;
        }
        thread::scope(|scope| {
            scope.spawn(|| {
                if let Err(error) = self.write_checkpoints(&is_asked_to_stop) {
                    warn("cannot write a checkpoint", &error);
                }
            });
            let mut is_told = false;
            while !is_asked_to_stop() {
                let shortage = self.shortage();
                if let Some(error) = shortage.as_ref().filter(|_| !is_told) {
                    warn("writes may soon be refused", error);
                }
                is_told = shortage.is_some();
                let merged = self.merge_for(CLEAN_EVERY, is_asked_to_stop);
                // What a client leaves without a flush is not kept in memory for long.
                let ended = merged.and_then(|()| self.end_partial_if_any());
                let cleaned = ended.and_then(|()| self.clean_if_due(&is_asked_to_stop));
                if let Err(error) = cleaned {
                    warn("cannot free dead segments", &error);
                    wait(CLEAN_EVERY, is_asked_to_stop);
                }
            }
        });
    }

    /// Merges runs as soon as they are due: each run makes lookups slower.
    fn merge_for(&self, time: Duration, is_asked_to_stop: &dyn Fn() -> bool) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < time && wait(LOOK_EVERY, is_asked_to_stop) {
            self.merge_runs(is_asked_to_stop)?;
        }
        Ok(())
    }
}

/// Waits, and returns `false` as soon as `is_asked_to_stop` returns `true`.
fn wait(time: Duration, is_asked_to_stop: &dyn Fn() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < time && !is_asked_to_stop() {
        thread::sleep(LOOK_EVERY);
    }
    !is_asked_to_stop()
}
