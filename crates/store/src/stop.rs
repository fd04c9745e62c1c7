//! A request to stop, and the time that waits have left after it.
//!
//! A client that is asked to stop gives up what it waits for at once, but for what makes its work of
//! use: storing what is on its way takes [`STORING_MAX`] at most, and publishing it
//! [`PUBLISHING_MAX`], both from the request on. A wait looks for a request 20 times a second.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The maximum time after a request to stop in which objects are put that were on their way.
pub const STORING_MAX: Duration = Duration::from_secs(20);
/// The maximum time after a request to stop in which stored objects are published.
pub const PUBLISHING_MAX: Duration = Duration::from_secs(30);

/// A request to stop, made or not. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The time of the request, in nanoseconds of the environment's clock.
    asked_ns: OnceLock<u64>,
    /// The number of guards that hold off an end.
    holds: AtomicUsize,
}

thread_local! {
    /// The time that waits of this thread have after a request.
    pub(crate) static LIMIT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

impl Stop {
    /// Makes the request, at `now_ns` of the environment's clock
    /// ([`elapsed_ns`](crate::environment::Environment::elapsed_ns)). Later calls change nothing.
    pub fn ask(&self, now_ns: u64) {
        self.0.asked_ns.set(now_ns).ok();
    }

    /// Whether the request was made.
    pub fn is_asked(&self) -> bool {
        self.0.asked_ns.get().is_some()
    }

    /// The time that waits of this thread have left at `now_ns`; `None` where no request was made.
    pub fn left(&self, now_ns: u64) -> Option<Duration> {
        let since = now_ns.saturating_sub(*self.0.asked_ns.get()?);
        Some(LIMIT.get().saturating_sub(Duration::from_nanos(since)))
    }

    /// Says that the process has something to bring to an end, after a request too, until the guard
    /// is dropped.
    pub fn hold(&self) -> Hold {
        self.0.holds.fetch_add(1, Ordering::SeqCst);
        Hold(self.clone())
    }

    /// Whether anything is to be brought to an end.
    pub fn is_held(&self) -> bool {
        self.0.holds.load(Ordering::SeqCst) > 0
    }
}

/// A guard of [`Stop::hold`].
#[derive(Debug)]
pub struct Hold(Stop);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.0.holds.fetch_sub(1, Ordering::SeqCst);
    }
}
