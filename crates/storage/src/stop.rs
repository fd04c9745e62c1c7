//! A request to stop, and the time that waits have left after it.
//!
//! A client that is asked to stop gives up its waits at once, except those that save its work:
//! storing the objects that are on their way may take [`STORING_MAX`], and publishing them
//! [`PUBLISHING_MAX`], both counted from the request. A wait looks for a request 20 times a second.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The maximum time after a request to stop for storing the objects that are on their way.
pub const STORING_MAX: Duration = Duration::from_secs(20);
/// The maximum time after a request to stop for publishing stored objects.
pub const PUBLISHING_MAX: Duration = Duration::from_secs(30);

/// A request to stop, which may or may not have been made. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The time of the request, by [`Environment::elapsed_ns`].
    asked_ns: OnceLock<u64>,
    /// The number of guards that delay the end of the process.
    holds: AtomicUsize,
}

thread_local! {
    /// The time after a request in which waits of this thread may go on.
    pub(crate) static LIMIT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

impl Stop {
    /// Makes the request, at `now_ns` of the environment's clock
    /// ([`elapsed_ns`](crate::environment::Environment::elapsed_ns)). Later calls change nothing.
    pub fn ask(&self, now_ns: u64) {
        self.0.asked_ns.set(now_ns).ok();
    }

    /// Returns `true` if the request was made.
    pub fn is_asked(&self) -> bool {
        self.0.asked_ns.get().is_some()
    }

    /// Returns the time that waits of this thread have left at `now_ns`; `None` if no request was
    /// made.
    pub fn left(&self, now_ns: u64) -> Option<Duration> {
        let since = now_ns.saturating_sub(*self.0.asked_ns.get()?);
        Some(LIMIT.get().saturating_sub(Duration::from_nanos(since)))
    }

    /// Marks the process as having work to finish, even after a request, until the guard is
    /// dropped.
    pub fn hold(&self) -> Hold {
        self.0.holds.fetch_add(1, Ordering::SeqCst);
        Hold(self.clone())
    }

    /// Returns `true` if there is work to finish.
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
