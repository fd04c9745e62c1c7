//! Second requests in place of those that take much longer than others of their size.
//!
//! One connection of many stalls now and then, and a caller that waits for all of its requests waits
//! for the slowest. A read can be made twice, because it changes nothing, and so can a put of an object
//! that no other client puts, because both have the same bytes ([`PUT_TWICE`]).

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};

/// The folders of objects whose puts may be made twice: a name belongs to one writer, and always to the
/// same bytes. Not the others: a ticket, a commit or a prune record is put only if there is none, and
/// that decides between clients. The second of two puts would be told that the object exists.
pub(super) const PUT_TWICE: [&str; 3] = ["data", "index", "meta"];
/// Number of the last requests of a size whose times are kept.
const TIMES_MAX: usize = 64;
/// Number of requests of a size after which another one is compared with them.
const TIMES_MIN: usize = 32;
/// The share of requests that are quicker than the time with which a request is compared, in percent.
const PERCENTILE: usize = 95;
/// A second request is made after this multiple of that time.
const TIMES_AS_LONG: u32 = 3;
/// A second request is made after this time at the earliest.
const DELAY_MIN: Duration = Duration::from_secs(2);
/// At most one request in this number gets a second one, because a server that is slow for all
/// requests must not get twice as many.
const REQUESTS_PER_SECOND_ONE: u64 = 20;
/// Requests of up to 2 to the power of this number bytes count as one size, and so do those of up to each
/// further power of two.
const SIZE_BITS_MIN: u32 = 16;
/// Number of sizes.
const SIZE_COUNT: usize = 12;

/// The failure of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed<E> {
    pub(crate) error: E,
    /// Set if the request was made twice.
    pub(crate) is_of_two: bool,
}

/// The times of the reads, or puts, of a storage, and the number of second requests.
#[derive(Debug)]
pub(crate) struct Hedge {
    state: Mutex<State>,
    delay_min: Duration,
}

#[derive(Debug, Default)]
struct State {
    times: [VecDeque<Duration>; SIZE_COUNT],
    request_count: u64,
    second_count: u64,
}

impl Default for Hedge {
    fn default() -> Hedge {
        Hedge { state: Mutex::default(), delay_min: DELAY_MIN }
    }
}

impl Hedge {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a request for about `len` bytes by `act`. If that takes much longer than earlier requests,
    /// calls `act` again, and returns the success that comes first. `now_ns` is a clock.
    ///
    /// # Errors
    ///
    /// Returns the error of `act`. If there are two calls, both have failed, or the error is one that
    /// `ends` both. [`Failed::is_of_two`] tells.
    pub(crate) async fn run<T, E, F: Future<Output = Result<T, E>>>(
        &self,
        len: u64,
        now_ns: impl Fn() -> u64,
        act: impl Fn() -> F,
        ends: impl Fn(&E) -> bool,
    ) -> Result<T, Failed<E>> {
        let began_ns = now_ns();
        let mut first = pin!(act());
        let delay = self.delay(len);
        let quick = match delay {
            Some(delay) => tokio::time::timeout(delay, &mut first).await.ok(),
            None => Some((&mut first).await),
        };
        if let Some(done) = quick {
            if done.is_ok() {
                let elapsed_ns = now_ns().saturating_sub(began_ns);
                self.lock().note(len, Duration::from_nanos(elapsed_ns));
            }
            return done.map_err(|error| Failed { error, is_of_two: false });
        }
        if !self.lock().begins_second() {
            return first.await.map_err(|error| Failed { error, is_of_two: false });
        }
        let second = pin!(act());
        let (done, other) = match select(first, second).await {
            Either::Left((done, other)) | Either::Right((done, other)) => (done, other),
        };
        let done = match done {
            Err(error) if !ends(&error) => other.await.or(Err(error)),
            done => done,
        };
        done.map_err(|error| Failed { error, is_of_two: true })
    }

    /// Counts a request, and returns the time after which a second request is made for it; `None` if too
    /// little is known.
    fn delay(&self, len: u64) -> Option<Duration> {
        let mut state = self.lock();
        state.request_count += 1;
        let times = &state.times[size_of(len)];
        if times.len() < TIMES_MIN {
            return None;
        }
        let mut sorted: Vec<Duration> = times.iter().copied().collect();
        sorted.sort_unstable();
        let time = *sorted.get(sorted.len() * PERCENTILE / 100)?;
        Some((time * TIMES_AS_LONG).max(self.delay_min))
    }
}

impl State {
    fn note(&mut self, len: u64, elapsed: Duration) {
        let times = &mut self.times[size_of(len)];
        if times.len() == TIMES_MAX {
            times.pop_front();
        }
        times.push_back(elapsed);
    }

    /// Returns `true` if there may be another second request, and counts it.
    fn begins_second(&mut self) -> bool {
        let may_begin = (self.second_count + 1) * REQUESTS_PER_SECOND_ONE <= self.request_count;
        self.second_count += u64::from(may_begin);
        may_begin
    }
}

fn size_of(len: u64) -> usize {
    let bits = len.max(1).next_power_of_two().ilog2();
    (bits.saturating_sub(SIZE_BITS_MIN) as usize).min(SIZE_COUNT - 1)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;

    use super::*;

    const LEN: u64 = 100_000;

    /// A clock that stands still, so that every read seems to be quick.
    fn clock() -> u64 {
        0
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build();
        runtime.expect("threads start").block_on(test)
    }

    /// Makes a request of which no error ends both.
    async fn read<T, E, F: Future<Output = Result<T, E>>>(
        hedge: &Hedge,
        len: u64,
        act: impl Fn() -> F,
    ) -> Result<T, E> {
        hedge.run(len, clock, act, |_| false).await.map_err(|failed| failed.error)
    }

    /// Returns a hedge that has seen `count` quick reads.
    async fn after_quick_reads(count: usize) -> Hedge {
        let hedge = Hedge { delay_min: Duration::from_millis(20), ..Hedge::default() };
        for number in 0..count {
            assert_eq!(read(&hedge, LEN, || async { Ok::<_, ()>(number) }).await, Ok(number));
        }
        hedge
    }

    /// Reads by attempts, of which the first never ends unless it `fails`. Returns the result and the
    /// number of attempts.
    async fn read_stalled(
        hedge: &Hedge,
        fails: bool,
        second: Result<(), u32>,
    ) -> (Result<(), u32>, u32) {
        let attempts = Cell::new(0);
        let read = || {
            attempts.set(attempts.get() + 1);
            let number = attempts.get();
            async move {
                match number {
                    1 if fails => {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        Err(1)
                    }
                    1 => pending().await,
                    _ => second,
                }
            }
        };
        let result = self::read(hedge, LEN, read).await;
        (result, attempts.get())
    }

    #[test]
    fn stalled_read_gets_a_second_request() {
        run(async {
            let hedge = after_quick_reads(TIMES_MIN).await;
            assert_eq!(read_stalled(&hedge, false, Ok(())).await, (Ok(()), 2));
        });
    }

    #[test]
    fn failure_is_returned_after_both_requests_have_failed() {
        run(async {
            let hedge = after_quick_reads(2 * TIMES_MIN).await;
            assert_eq!(read_stalled(&hedge, true, Ok(())).await, (Ok(()), 2));
            assert_eq!(read_stalled(&hedge, true, Err(2)).await.1, 2);
            assert_eq!(read_stalled(&hedge, true, Err(2)).await.0, Err(2));
        });
    }

    #[test]
    fn unknown_size_and_quick_failure_get_no_second_request() {
        run(async {
            let hedge = after_quick_reads(TIMES_MIN - 1).await;
            let attempts = Cell::new(0);
            let slow = || {
                attempts.set(attempts.get() + 1);
                tokio::time::sleep(Duration::from_millis(100))
            };
            let act = || async {
                slow().await;
                Ok::<_, ()>(())
            };
            assert_eq!(read(&hedge, LEN, act).await, Ok(()));
            assert_eq!(read(&hedge, 100 * LEN, act).await, Ok(()));
            assert_eq!(attempts.get(), 2, "one request a read");
            let fail = || {
                attempts.set(attempts.get() + 1);
                async { Err::<(), _>(()) }
            };
            assert_eq!(read(&hedge, LEN, fail).await, Err(()));
            assert_eq!(attempts.get(), 3);
        });
    }

    #[test]
    fn error_that_ends_both_is_returned_at_once() {
        run(async {
            let hedge = after_quick_reads(TIMES_MIN).await;
            let attempts = Cell::new(0);
            let act = || {
                attempts.set(attempts.get() + 1);
                let number = attempts.get();
                async move {
                    match number {
                        1 => pending::<Result<(), u32>>().await,
                        _ => Err(number),
                    }
                }
            };
            let done = hedge.run(LEN, clock, act, |error| *error == 2).await;
            assert_eq!(done, Err(Failed { error: 2, is_of_two: true }));
            let failed = hedge.run(LEN, clock, || async { Err::<(), _>(7) }, |_| true).await;
            assert_eq!(failed, Err(Failed { error: 7, is_of_two: false }));
        });
    }

    #[test]
    fn second_requests_are_a_small_share() {
        run(async {
            let hedge = after_quick_reads(TIMES_MIN).await;
            let mut second_count = 0;
            for _ in 0..40 {
                second_count += read_stalled(&hedge, true, Ok(())).await.1 - 1;
            }
            let read_count = TIMES_MIN as u64 + 40;
            assert_eq!(u64::from(second_count), read_count / REQUESTS_PER_SECOND_ONE);
        });
    }

    #[test]
    fn sizes_ascend() {
        let sizes: Vec<usize> = (0..64).map(|bits| size_of(1 << bits)).collect();
        assert!(sizes.is_sorted());
        assert_eq!((sizes[0], sizes[16], sizes[17], sizes[63]), (0, 0, 1, SIZE_COUNT - 1));
        assert_eq!(size_of(0), 0);
        assert_eq!(size_of(u64::MAX / 2), SIZE_COUNT - 1);
    }
}
