//! Waits that a request to stop ends.

use std::marker::PhantomData;
use std::time::Duration;

use crate::environment::Environment;
use crate::error::{Error, Kind};
use crate::stop::{Hold, LIMIT, Stop};

/// The interval at which a wait looks for a request to stop.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A guard of [`finishing`]. It cannot leave its thread.
#[derive(Debug)]
pub struct Finishing {
    limit_before: Duration,
    _hold: Option<Hold>,
    _of_thread: PhantomData<*const ()>,
}

/// Allows the waits of this thread to go on for `limit` after a request to stop, until the guard is
/// dropped. Of nested guards, the longest time counts.
pub fn finishing(environment: &dyn Environment, limit: Duration) -> Finishing {
    let limit_before = LIMIT.get();
    LIMIT.set(limit.max(limit_before));
    let hold = environment.stop().map(Stop::hold);
    Finishing { limit_before, _hold: hold, _of_thread: PhantomData }
}

impl Drop for Finishing {
    fn drop(&mut self) {
        LIMIT.set(self.limit_before);
    }
}

/// Returns `true` if waits of this thread are over because of a request to stop.
pub fn is_over(environment: &dyn Environment) -> bool {
    let left = environment.stop().and_then(|stop| stop.left(environment.elapsed_ns()));
    left.is_some_and(|left| left.is_zero())
}

/// Waits for `time`, or until a request to stop ends the wait. Returns `true` if the whole time has
/// passed.
pub fn sleep(environment: &dyn Environment, time: Duration) -> bool {
    let mut left = time;
    while !is_over(environment) {
        if left.is_zero() {
            return true;
        }
        let slice = left.min(LOOK_EVERY);
        environment.block(slice);
        left -= slice;
    }
    false
}

/// Returns the error of a wait that a request to stop has ended.
pub fn interrupted(object: impl std::fmt::Display) -> Error {
    Error::new(Kind::Interrupted, object, "interrupted")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::{Interruptible, System};

    #[test]
    fn time_is_left_only_for_what_is_finished() {
        let stop = Stop::default();
        let second_ns = 1_000_000_000;
        assert_eq!(stop.left(second_ns), None, "nothing was asked");
        stop.ask(second_ns);
        stop.ask(5 * second_ns);
        assert_eq!(stop.left(second_ns), Some(Duration::ZERO), "a wait");
        assert!(!stop.is_held(), "nothing is to be finished");
        let environment = Interruptible::new(System, stop.clone());
        {
            let _storing = finishing(&environment, Duration::from_secs(20));
            assert_eq!(stop.left(2 * second_ns), Some(Duration::from_secs(19)), "storing");
            {
                let _publishing = finishing(&environment, Duration::from_secs(30));
                let _shorter = finishing(&environment, Duration::from_secs(1));
                assert_eq!(stop.left(2 * second_ns), Some(Duration::from_secs(29)), "publishing");
            }
            assert_eq!(stop.left(2 * second_ns), Some(Duration::from_secs(19)), "storing again");
            assert!(stop.is_held(), "something is to be finished");
            let other = std::thread::scope(|scope| scope.spawn(|| stop.left(0)).join());
            assert_eq!(other.ok(), Some(Some(Duration::ZERO)), "another thread only waits");
        }
        assert!(!stop.is_held(), "all is finished");
        assert!(is_over(&environment), "a wait");
        assert!(!sleep(&environment, Duration::from_secs(3600)), "a sleep ends at once");
    }

    #[test]
    fn without_a_request_sleeps_last() {
        let environment = Interruptible::new(System, Stop::default());
        assert!(sleep(&environment, Duration::from_millis(1)), "the time has passed");
        assert!(sleep(&System, Duration::from_millis(1)), "nobody can ask");
    }
}
