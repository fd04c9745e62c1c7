//! The same work on many items, in several threads.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;

use cutpoint_estimate::scan::Monitor;

/// Runs the same work on many items, in several threads.
pub(super) struct Many<'a> {
    pub(super) threads: usize,
    pub(super) monitor: &'a dyn Monitor,
    pub(super) step: &'a (dyn Fn(&str, usize, usize) + Sync),
}

impl Many<'_> {
    /// Calls `work` with each of `items`. The result is `None` for items that were left when the
    /// search was stopped.
    pub(super) fn run<T: Sync, R: Send>(
        &self,
        what: &str,
        items: &[T],
        work: impl Fn(&T) -> Option<R> + Sync,
    ) -> Vec<Option<R>> {
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
        thread::scope(|scope| {
            for _ in 0..self.threads.min(items.len()) {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Relaxed);
                        let Some(item) = items.get(number).filter(|_| !self.monitor.cancelled())
                        else {
                            return;
                        };
                        (self.step)(what, number, items.len());
                        let result = work(item);
                        results.lock().unwrap_or_else(PoisonError::into_inner)[number] = result;
                    }
                });
            }
        });
        results.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
