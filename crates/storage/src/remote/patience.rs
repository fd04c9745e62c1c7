//! The limits for repeating requests.
//!
//! A storage that cannot be reached, or says that it is unavailable, has an *outage*: its requests are
//! repeated for a time, however many attempts that takes, so that a storage that restarts ends no
//! run. An answer that reports the failure of one request is no outage, and limits the number of
//! attempts as well.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::environment::Environment;
use crate::error::Error;
use crate::wait;
use crate::wait_notice::{WaitNotice, WaitReason};

const SECOND_NS: u64 = 1_000_000_000;
/// The maximum time that is spent on failing attempts and on pauses, by one request, and by all
/// requests since the last one that has succeeded; simultaneous failures of several threads count
/// once.
const BUDGET_NS: u64 = 600 * SECOND_NS;
/// The maximum time before any request has succeeded. An address or a setting is likely to be
/// wrong then, and the user is waiting for the message.
const FIRST_BUDGET_NS: u64 = 15 * SECOND_NS;
/// The maximum number of attempts of one request before any request has succeeded.
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

    /// Returns `true` if the storage gave no answer, or is unavailable for all requests, so that
    /// only the time limits the attempts.
    fn is_outage(&self) -> bool;

    /// Returns the same failure as one after which another attempt may succeed.
    #[cfg(any(feature = "clouds", feature = "s3"))]
    fn again(self) -> Self;

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
    /// Maximum number of attempts of one request that end with an answer.
    tries_max: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Set once a request has succeeded.
    has_worked: bool,
    /// The time spent since the last success.
    spent_ns: u64,
    /// The time up to which spent time was counted.
    until_ns: u64,
    /// Set once there was an outage after a success.
    had_outage: bool,
}

/// The attempts of one request.
#[derive(Debug, Default)]
struct Tries {
    count: u32,
    /// The number of those that failed without an outage.
    answered_count: u32,
    spent_ns: u64,
}

impl Patience {
    /// Creates the state of a new run, in which each request gets at most `tries_max` answers.
    pub(crate) fn new(environment: Arc<dyn Environment>, tries_max: u32) -> Patience {
        Patience { environment, tries_max, state: Mutex::default() }
    }

    /// Returns the current time. Time in which the machine was asleep does not count.
    pub(crate) fn now_ns(&self) -> u64 {
        self.environment.awake_ns()
    }

    /// Returns the time of the wall clock, in nanoseconds since 1970.
    #[cfg(feature = "s3")]
    pub(crate) fn wall_ns(&self) -> i64 {
        self.environment.now_ns()
    }

    /// Notes that a request has succeeded, which ends an outage.
    pub(crate) fn worked(&self) {
        let now_ns = self.now_ns();
        let mut state = self.state();
        let until_ns = now_ns.max(state.until_ns);
        *state = State { has_worked: true, spent_ns: 0, until_ns, ..*state };
    }

    /// Notes a request without an answer.
    pub(crate) fn note_outage(&self) {
        let mut state = self.state();
        state.had_outage |= state.has_worked;
    }

    /// Returns `true` if there was an outage after a success.
    pub(crate) fn had_outage(&self) -> bool {
        self.state().had_outage
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits after the last of `tries`, which began at `began_ns` and failed. Returns `true` if the
    /// request should be repeated.
    fn wait(&self, tries: &mut Tries, began_ns: u64, failure: &impl Passing) -> bool {
        if failure.is_outage() {
            self.note_outage();
        }
        let (spent_ns, has_worked) = self.spend(began_ns);
        let failed_ns = self.now_ns().saturating_sub(began_ns);
        tries.answered_count += u32::from(!failure.is_outage());
        tries.spent_ns += failed_ns.min(TRY_NS_MAX);
        // A wrong address or setting looks like an outage.
        let (budget_ns, tries_max, count) = match has_worked {
            true => (BUDGET_NS, self.tries_max, tries.answered_count),
            false => (FIRST_BUDGET_NS, self.tries_max.min(FIRST_TRIES_MAX), tries.count),
        };
        let left_ns = budget_ns.saturating_sub(spent_ns.max(tries.spent_ns));
        if count >= tries_max || left_ns == 0 {
            return false;
        }
        // The last attempt is made at the end of the time.
        let pause_ns = self.pause_ns(tries.count).min(left_ns);
        if pause_ns.max(failed_ns) >= TOLD_NS_MIN {
            let attempt = match has_worked && failure.is_outage() {
                true => format!("attempt {}", tries.count),
                false => format!("attempt {count} of {tries_max}"),
            };
            self.tell(&attempt, failure.text(), left_ns);
        }
        let began_ns = self.now_ns();
        let is_slept = wait::sleep(&*self.environment, Duration::from_nanos(pause_ns));
        tries.spent_ns += self.now_ns().saturating_sub(began_ns).min(TRY_NS_MAX);
        self.spend(began_ns);
        is_slept
    }

    /// Tells that `attempt` of a request failed because of `text`, and that it is repeated for
    /// `left_ns` at the longest.
    fn tell(&self, attempt: &str, text: &str, left_ns: u64) {
        let left_ns = i64::try_from(left_ns).unwrap_or(i64::MAX);
        let until_ns = self.environment.now_ns().saturating_add(left_ns);
        let text = format!("a request to the storage failed and is repeated ({attempt}): {text}");
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
        let mut tries = Tries::default();
        loop {
            tries.count += 1;
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
                if self.wait(&mut tries, began_ns, &failure) {
                    continue;
                }
                if self.is_over() {
                    failure = F::interrupted();
                }
            }
            return Err((tries.count, failure));
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
    /// already or was before a success. Returns the total, and `true` if a request has ever
    /// succeeded.
    fn spend(&self, began_ns: u64) -> (u64, bool) {
        let now_ns = self.now_ns();
        let mut state = self.state();
        let from_ns = began_ns.max(state.until_ns);
        let more_ns = now_ns.saturating_sub(from_ns).min(TRY_NS_MAX);
        state.spent_ns = state.spent_ns.saturating_add(more_ns);
        state.until_ns = now_ns.max(state.until_ns);
        (state.spent_ns, state.has_worked)
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
    use std::sync::atomic::{AtomicU64, Ordering};

    const TRIES_MAX: u32 = 12;

    /// A clock that waits move, without randomness, and the notices of waits.
    #[derive(Debug, Default)]
    struct Clock(AtomicU64, Mutex<Vec<WaitNotice>>);

    impl Clock {
        fn pass(&self, ns: u64) {
            self.0.fetch_add(ns, Ordering::Relaxed);
        }

        fn notices(&self) -> Vec<WaitNotice> {
            self.1.lock().expect("no test panics in here").clone()
        }
    }

    impl Environment for Clock {
        fn now_ns(&self) -> i64 {
            i64::try_from(self.elapsed_ns()).expect("a short test")
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

        fn block(&self, time: Duration) {
            self.pass(u64::try_from(time.as_nanos()).expect("a short wait"));
        }

        fn tell_wait(&self, notice: &WaitNotice) {
            self.1.lock().expect("no test panics in here").push(notice.clone());
        }
    }

    /// A failure, and whether it is an outage.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Cut(bool);

    const REFUSED: Cut = Cut(true);
    const ANSWERED: Cut = Cut(false);

    impl Passing for Cut {
        fn may_pass(&self) -> bool {
            true
        }

        fn is_outage(&self) -> bool {
            self.0
        }

        #[cfg(any(feature = "clouds", feature = "s3"))]
        fn again(self) -> Cut {
            self
        }

        fn interrupted() -> Cut {
            unreachable!("nothing asks to stop")
        }

        fn text(&self) -> &str {
            if self.0 { "refused" } else { "500" }
        }

        fn into_error(self, name: &str, text: String) -> Error {
            Error::new(crate::error::Kind::Storage, name, text)
        }
    }

    fn of_working_storage() -> (Arc<Clock>, Patience) {
        let clock = Arc::new(Clock::default());
        let patience = Patience::new(clock.clone(), TRIES_MAX);
        patience.worked();
        (clock, patience)
    }

    /// Makes a request, each attempt of which takes `attempt_ns` and fails with `failure` until the
    /// clock has `back_ns`. Returns the number of attempts, if all failed.
    fn request(
        (clock, patience): &(Arc<Clock>, Patience),
        attempt_ns: u64,
        failure: Cut,
        back_ns: u64,
    ) -> Option<u32> {
        let attempted = patience.attempts(|| {
            clock.pass(attempt_ns);
            if clock.elapsed_ns() < back_ns { Err(failure) } else { Ok(()) }
        });
        attempted.err().map(|(count, _)| count)
    }

    const NEVER: u64 = u64::MAX;

    #[test]
    fn outage_ends_at_the_told_time_and_not_by_attempts() {
        let run = of_working_storage();
        let count = request(&run, 0, REFUSED, NEVER).expect("it never comes back");
        assert!(count > 3 * TRIES_MAX, "{count} attempts");
        assert_eq!(run.0.elapsed_ns(), BUDGET_NS, "all of the time, and no more");
        let told = run.0.notices();
        let budget_ns = i64::try_from(BUDGET_NS).expect("ten minutes");
        assert!(told.len() > 30 && told.iter().all(|notice| notice.until_ns == budget_ns));
        assert!(told[0].text.ends_with("repeated (attempt 6): refused"), "{:?}", told[0]);
        assert!(told.iter().all(|notice| notice.reason == WaitReason::Retry), "{told:?}");
        assert_eq!(request(&run, 0, REFUSED, NEVER), Some(1), "a later request does not wait");
        assert!(run.1.had_outage());
    }

    #[test]
    fn storage_that_restarts_again_and_again_ends_no_run() {
        let run = of_working_storage();
        for _ in 0..5 {
            let back_ns = run.0.elapsed_ns() + BUDGET_NS - SECOND_NS;
            assert_eq!(request(&run, 5 * SECOND_NS, REFUSED, back_ns), None, "it is back in time");
            // Requests of which the storage was sure meanwhile.
            assert_eq!(request(&run, 1, REFUSED, 0), None);
        }
    }

    #[test]
    fn failing_answers_are_limited_by_attempts() {
        let run = of_working_storage();
        assert_eq!(request(&run, 0, ANSWERED, NEVER), Some(TRIES_MAX));
        assert!(run.0.elapsed_ns() < 60 * SECOND_NS, "{} ns", run.0.elapsed_ns());
        let told = run.0.notices();
        assert!(told[0].text.ends_with("repeated (attempt 6 of 12): 500"), "{:?}", told[0]);
        assert!(!run.1.had_outage());
        // An outage before does not take its attempts.
        let run = of_working_storage();
        let mut count = 0;
        let attempted = run.1.attempts(|| {
            count += 1;
            Err::<(), _>(if count <= 20 { REFUSED } else { ANSWERED })
        });
        assert_eq!(attempted, Err((20 + TRIES_MAX, ANSWERED)));
    }

    #[test]
    fn request_that_fails_while_others_succeed_has_an_end() {
        let (clock, patience) = of_working_storage();
        let attempted = patience.attempts(|| {
            clock.pass(SECOND_NS);
            // Another thread.
            patience.worked();
            Err::<(), _>(REFUSED)
        });
        assert!(attempted.is_err());
        let expected = BUDGET_NS..BUDGET_NS + 2 * SECOND_NS;
        assert!(expected.contains(&clock.elapsed_ns()), "{} ns", clock.elapsed_ns());
    }

    #[test]
    fn requests_before_the_first_success_end_soon() {
        for failure in [REFUSED, ANSWERED] {
            let clock = Arc::new(Clock::default());
            let run = (clock.clone(), Patience::new(clock, TRIES_MAX));
            assert_eq!(request(&run, 0, failure, NEVER), Some(FIRST_TRIES_MAX));
            assert!(run.0.elapsed_ns() < SECOND_NS, "{} ns", run.0.elapsed_ns());
            assert_eq!(request(&run, FIRST_BUDGET_NS, failure, NEVER), Some(1), "a long attempt");
            assert!(!run.1.had_outage(), "nothing was stored before");
        }
        let clock = Arc::new(Clock::default());
        let run = (clock.clone(), Patience::new(clock, 1));
        assert_eq!(request(&run, 0, REFUSED, NEVER), Some(1), "fewer attempts than that");
    }

    #[test]
    fn long_pauses_and_long_attempts_are_told_with_their_end() {
        let run = of_working_storage();
        request(&run, 20 * SECOND_NS, REFUSED, 30 * SECOND_NS);
        let told = run.0.notices();
        assert_eq!(told.len(), 1, "{told:?}");
        let end_ns = i64::try_from(BUDGET_NS).expect("ten minutes");
        assert_eq!(told[0].until_ns, end_ns, "from the beginning of the attempt: {told:?}");
        let run = of_working_storage();
        request(&run, 0, REFUSED, SECOND_NS / 2);
        assert_eq!(run.0.notices(), [], "short pauses");
    }

    #[test]
    fn threads_that_fail_together_spend_time_once() {
        let (clock, patience) = of_working_storage();
        let spend = |began_ns| patience.spend(began_ns).0;
        clock.pass(10);
        assert_eq!(spend(0), 10, "all of it");
        assert_eq!(spend(4), 10, "counted already");
        clock.pass(5);
        assert_eq!(spend(8), 15, "what came since");
        assert_eq!(spend(20), 15, "a clock that goes back spends nothing");
        clock.pass(5);
        patience.worked();
        clock.pass(5);
        assert_eq!(spend(0), 5, "since the last success");
    }

    #[test]
    fn suspension_spends_little() {
        let run = of_working_storage();
        let mut is_first = true;
        let attempted = run.1.attempts(|| {
            if std::mem::take(&mut is_first) {
                run.0.pass(7 * 24 * 3600 * SECOND_NS);
                return Err(REFUSED);
            }
            Ok(())
        });
        assert_eq!(attempted, Ok(()), "what a suspended process has lost is tried again");
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
