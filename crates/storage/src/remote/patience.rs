//! The limits for repeating requests.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::environment::Environment;
use crate::error::Error;
use crate::wait;
use crate::wait_notice::{WaitNotice, WaitReason};

const SECOND_NS: u64 = 1_000_000_000;
/// The maximum total time of a run that is spent on failing attempts and on pauses; simultaneous
/// failures of several threads count once.
const BUDGET_NS: u64 = 600 * SECOND_NS;
/// The maximum total time before any request has succeeded. An address or a setting is likely to be
/// wrong then, and the user is waiting for the message.
const FIRST_BUDGET_NS: u64 = 15 * SECOND_NS;
const FIRST_TRIES_MAX: u32 = 3;
/// The maximum time that one attempt counts. A process whose attempt took longer was suspended
/// meanwhile.
const TRY_NS_MAX: u64 = 120 * SECOND_NS;
/// The first pause, which doubles up to the maximum.
const PAUSE_NS: u64 = SECOND_NS / 10;
const PAUSE_NS_MAX: u64 = 15 * SECOND_NS;
/// The shortest pause, or failed attempt, that the user is told of.
const TOLD_NS_MIN: u64 = SECOND_NS;

/// The failure of one attempt of a request.
pub(crate) trait Passing {
    /// Returns `true` if another attempt may succeed.
    fn may_pass(&self) -> bool;

    /// Returns the failure of a request that a request to stop has ended.
    fn interrupted() -> Self;

    /// Describes the failure.
    fn text(&self) -> &str;

    /// Returns the error of a request for `name`, with the message `text`.
    fn into_error(self, name: &str, text: String) -> Error;
}

/// Decides whether a request is repeated, and waits until then.
#[derive(Debug)]
pub(crate) struct Patience {
    environment: Arc<dyn Environment>,
    /// Maximum number of attempts of one request.
    tries_max: u32,
    spent: Mutex<Spent>,
    has_worked: AtomicBool,
}

#[derive(Debug, Default)]
struct Spent {
    total_ns: u64,
    /// The time up to which spent time was counted.
    until_ns: u64,
}

impl Patience {
    /// Creates the state of a new run, in which each request is attempted at most `tries_max`
    /// times.
    pub(crate) fn new(environment: Arc<dyn Environment>, tries_max: u32) -> Patience {
        let (spent, has_worked) = (Mutex::default(), AtomicBool::new(false));
        Patience { environment, tries_max, spent, has_worked }
    }

    /// Returns the current time for [`Patience::wait`]. Time in which the machine was asleep does
    /// not count.
    pub(crate) fn now_ns(&self) -> u64 {
        self.environment.awake_ns()
    }

    /// Returns the time of the wall clock, in nanoseconds since 1970.
    #[cfg(feature = "s3")]
    pub(crate) fn wall_ns(&self) -> i64 {
        self.environment.now_ns()
    }

    /// Notes that a request has succeeded.
    pub(crate) fn worked(&self) {
        self.has_worked.store(true, Ordering::Relaxed);
    }

    /// Waits after a failed attempt of a request, the number of which is `tries` (from 1) and which
    /// began at `began_ns`. `text` describes the failure. Returns `true` if the request should be
    /// repeated.
    pub(crate) fn wait(&self, tries: u32, began_ns: u64, text: &str) -> bool {
        let (budget_ns, tries_max) = if self.has_worked.load(Ordering::Relaxed) {
            (BUDGET_NS, self.tries_max)
        } else {
            (FIRST_BUDGET_NS, self.tries_max.min(FIRST_TRIES_MAX))
        };
        let spent_ns = self.spend(began_ns);
        if tries >= tries_max || spent_ns >= budget_ns {
            return false;
        }
        let failed_ns = self.now_ns().saturating_sub(began_ns);
        let began_ns = self.now_ns();
        let pause_ns = self.pause_ns(tries);
        if pause_ns.max(failed_ns) >= TOLD_NS_MIN {
            self.tell(text, budget_ns - spent_ns);
        }
        let is_slept = wait::sleep(&*self.environment, Duration::from_nanos(pause_ns));
        self.spend(began_ns);
        is_slept
    }

    /// Tells that requests fail because of `text`, and are repeated for `left_ns` at the longest.
    fn tell(&self, text: &str, left_ns: u64) {
        let left_ns = i64::try_from(left_ns).unwrap_or(i64::MAX);
        let until_ns = self.environment.now_ns().saturating_add(left_ns);
        let text = format!("a request to the storage failed and is repeated: {text}");
        self.environment.tell_wait(&WaitNotice { reason: WaitReason::Retry, text, until_ns });
    }

    /// Returns `true` if a request to stop has ended the waits of this thread.
    pub(crate) fn is_over(&self) -> bool {
        wait::is_over(&*self.environment)
    }

    /// Repeats `act`, which is one attempt, until it succeeds or must not be tried again. A failure
    /// comes with the number of attempts.
    pub(crate) fn attempts<T, F: Passing>(
        &self,
        mut act: impl FnMut() -> Result<T, F>,
    ) -> Result<T, (u32, F)> {
        let mut tries = 0;
        loop {
            tries += 1;
            let began_ns = self.now_ns();
            let tried = if self.is_over() { Err(F::interrupted()) } else { act() };
            let mut failure = match tried {
                Ok(done) => {
                    self.worked();
                    return Ok(done);
                }
                Err(failure) => failure,
            };
            if failure.may_pass() {
                if self.wait(tries, began_ns, failure.text()) {
                    continue;
                }
                if self.is_over() {
                    failure = F::interrupted();
                }
            }
            return Err((tries, failure));
        }
    }

    /// Runs `requests`, or gives them up after a request to stop, as soon as the remaining time has
    /// passed. Runs in a runtime; the remaining time is that of the caller's thread.
    pub(crate) async fn unless_over<T, F: Passing>(
        &self,
        requests: impl Future<Output = Result<T, F>>,
    ) -> Result<T, F> {
        let end = async {
            while !self.is_over() {
                tokio::time::sleep(wait::LOOK_EVERY).await;
            }
        };
        match select(pin!(requests), pin!(end)).await {
            Either::Left((done, _)) => done,
            Either::Right(_) => Err(F::interrupted()),
        }
    }

    /// Counts the time from `began_ns` to now as spent, up to [`TRY_NS_MAX`], unless it was counted
    /// already. Returns the total.
    fn spend(&self, began_ns: u64) -> u64 {
        let now_ns = self.now_ns();
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let from_ns = began_ns.max(spent.until_ns);
        let more_ns = now_ns.saturating_sub(from_ns).min(TRY_NS_MAX);
        spent.total_ns = spent.total_ns.saturating_add(more_ns);
        spent.until_ns = now_ns.max(spent.until_ns);
        spent.total_ns
    }

    /// Returns a pause between half and all of its maximum, so that clients that failed together do
    /// not come back together.
    fn pause_ns(&self, tries: u32) -> u64 {
        let longest =
            PAUSE_NS.saturating_mul(1 << tries.saturating_sub(1).min(20)).min(PAUSE_NS_MAX);
        let mut random = [0; 8];
        // Without randomness the pause has its maximum length.
        let part = match self.environment.random(&mut random) {
            Ok(()) => u64::from_le_bytes(random) % (longest / 2),
            Err(_) => longest / 2,
        };
        longest / 2 + part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Process;
    use crate::error::Result;
    use std::sync::atomic::AtomicU64;

    const TRIES_MAX: u32 = 12;

    /// A clock that is set by hand, without randomness, and the notices of waits.
    #[derive(Debug, Default)]
    struct Clock(AtomicU64, Mutex<Vec<WaitNotice>>);

    impl Environment for Clock {
        fn now_ns(&self) -> i64 {
            0
        }

        fn elapsed_ns(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn random(&self, bytes: &mut [u8]) -> Result<()> {
            bytes.fill(0);
            Ok(())
        }

        fn process(&self) -> Process {
            Process::default()
        }

        fn may_be_alive(&self, _: &Process) -> bool {
            true
        }

        fn block(&self, _: Duration) {}

        fn tell_wait(&self, notice: &WaitNotice) {
            self.1.lock().expect("no test panics in here").push(notice.clone());
        }
    }

    #[test]
    fn long_pauses_and_long_attempts_are_told_with_their_end() {
        let clock = Arc::new(Clock::default());
        let patience = Patience::new(clock.clone(), TRIES_MAX);
        patience.worked();
        assert!(patience.wait(1, 0, "refused"), "a short pause");
        assert_eq!(clock.1.lock().expect("no panic").len(), 0, "it is not told");
        assert!(patience.wait(6, 0, "refused"), "a pause of 1.6 s");
        clock.0.store(20 * SECOND_NS, Ordering::Relaxed);
        assert!(patience.wait(1, 0, "silent"), "an attempt of 20 s");
        let told = clock.1.lock().expect("no panic");
        let ends: Vec<_> = told.iter().map(|notice| notice.until_ns).collect();
        let second_ns = i64::try_from(SECOND_NS).expect("a second");
        assert_eq!(ends, [600 * second_ns, 580 * second_ns], "{told:?}");
        assert!(told[0].text.ends_with("refused") && told[1].text.ends_with("silent"), "{told:?}");
        assert!(told.iter().all(|notice| notice.reason == WaitReason::Retry), "{told:?}");
    }

    #[test]
    fn threads_that_fail_together_spend_time_once() {
        let clock = Arc::new(Clock::default());
        let patience = Patience::new(clock.clone(), TRIES_MAX);
        clock.0.store(10, Ordering::Relaxed);
        assert_eq!(patience.spend(0), 10, "all of it");
        assert_eq!(patience.spend(4), 10, "counted already");
        clock.0.store(15, Ordering::Relaxed);
        assert_eq!(patience.spend(8), 15, "what came since");
        assert_eq!(patience.spend(20), 15, "a clock that goes back spends nothing");
    }

    #[test]
    fn retries_end_at_their_limits() {
        let clock = Arc::new(Clock::default());
        let patience = Patience::new(clock.clone(), TRIES_MAX);
        assert!(patience.wait(1, 0, "cut"), "a second try is worth it");
        assert!(!patience.wait(FIRST_TRIES_MAX, 0, "cut"), "nothing has ever worked");
        clock.0.store(FIRST_BUDGET_NS, Ordering::Relaxed);
        assert!(!patience.wait(1, 0, "cut"), "too long for a beginning");
        patience.worked();
        assert!(
            patience.wait(1, FIRST_BUDGET_NS, "cut"),
            "a storage that has worked is waited for"
        );
        assert!(
            !patience.wait(TRIES_MAX, FIRST_BUDGET_NS, "cut"),
            "one request is not tried for ever"
        );
        let step = usize::try_from(TRY_NS_MAX).expect("two minutes fit");
        for began_ns in (FIRST_BUDGET_NS..BUDGET_NS).step_by(step) {
            assert!(patience.wait(1, began_ns, "cut"), "{began_ns} ns: there is time left");
            clock.0.store((began_ns + TRY_NS_MAX).min(BUDGET_NS), Ordering::Relaxed);
            patience.spend(began_ns);
        }
        assert!(!patience.wait(1, BUDGET_NS, "cut"), "the budget of the run is spent");
    }

    #[test]
    fn suspension_spends_little() {
        let clock = Arc::new(Clock::default());
        let patience = Patience::new(clock.clone(), TRIES_MAX);
        patience.worked();
        clock.0.store(7 * 24 * 3600 * SECOND_NS, Ordering::Relaxed);
        assert!(
            patience.wait(1, 0, "cut"),
            "a request that a suspended process has lost is tried again"
        );
    }

    #[test]
    fn pauses_grow_to_a_limit() {
        let patience = Patience::new(Arc::new(Clock::default()), TRIES_MAX);
        let pauses: Vec<u64> = (1..40).map(|tries| patience.pause_ns(tries)).collect();
        assert_eq!(pauses[0], PAUSE_NS / 2, "the first, at its shortest");
        assert!(pauses.is_sorted(), "they grow");
        assert_eq!(pauses.last(), Some(&(PAUSE_NS_MAX / 2)), "to the longest, at its shortest");
    }
}
