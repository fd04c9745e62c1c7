//! Second requests for reads that take much longer than others of their size.
//!
//! One connection of many stalls now and then, and a caller that waits for all of its reads waits for
//! the slowest. A read can be made twice, because it changes nothing.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};

/// Number of the last reads of a size whose times are kept.
const TIMES_MAX: usize = 64;
/// Number of reads of a size after which another one is compared with them.
const TIMES_MIN: usize = 32;
/// The share of reads that are quicker than the time with which a read is compared, in percent.
const PERCENTILE: usize = 95;
/// A second request is made after this multiple of that time.
const TIMES_AS_LONG: u32 = 3;
/// A second request is made after this time at the earliest.
const DELAY_MIN: Duration = Duration::from_secs(2);
/// At most one read in this number gets a second request, because a server that is slow for all reads
/// must not get twice as many.
const READS_PER_SECOND_REQUEST: u64 = 20;
/// Reads of up to 2 to the power of this number bytes count as one size, and so do those of up to each
/// further power of two.
const SIZE_BITS_MIN: u32 = 16;
/// Number of sizes.
const SIZE_COUNT: usize = 12;

/// The times of the reads of a storage, and the number of second requests.
#[derive(Debug)]
pub(crate) struct Hedge {
    state: Mutex<State>,
    delay_min: Duration,
}

#[derive(Debug, Default)]
struct State {
    times: [VecDeque<Duration>; SIZE_COUNT],
    read_count: u64,
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

    /// Reads about `len` bytes by `read`. If that takes much longer than earlier reads, calls `read`
    /// again, and returns the result that comes first. `now_ns` is a clock.
    ///
    /// # Errors
    ///
    /// Returns the error of `read`, after both calls have failed if there are two.
    pub(crate) async fn read<T, E, F: Future<Output = Result<T, E>>>(
        &self,
        len: u64,
        now_ns: impl Fn() -> u64,
        read: impl Fn() -> F,
    ) -> Result<T, E> {
        let began_ns = now_ns();
        let mut first = pin!(read());
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
            return done;
        }
        if !self.lock().begins_second() {
            return first.await;
        }
        let second = pin!(read());
        match select(first, second).await {
            Either::Left((Ok(done), _)) | Either::Right((Ok(done), _)) => Ok(done),
            Either::Left((Err(error), other)) => other.await.or(Err(error)),
            Either::Right((Err(error), other)) => other.await.or(Err(error)),
        }
    }

    /// Counts a read, and returns the time after which a second request is made for it; `None` if too
    /// little is known.
    fn delay(&self, len: u64) -> Option<Duration> {
        let mut state = self.lock();
        state.read_count += 1;
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
        let may_begin = (self.second_count + 1) * READS_PER_SECOND_REQUEST <= self.read_count;
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

    /// Returns a hedge that has seen `count` quick reads.
    async fn after_quick_reads(count: usize) -> Hedge {
        let hedge = Hedge { delay_min: Duration::from_millis(20), ..Hedge::default() };
        for number in 0..count {
            assert_eq!(hedge.read(LEN, clock, || async { Ok::<_, ()>(number) }).await, Ok(number));
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
        let result = hedge.read(LEN, clock, read).await;
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
            let read = || async {
                slow().await;
                Ok::<_, ()>(())
            };
            assert_eq!(hedge.read(LEN, clock, read).await, Ok(()));
            assert_eq!(hedge.read(100 * LEN, clock, read).await, Ok(()));
            assert_eq!(attempts.get(), 2, "one request a read");
            let fail = || {
                attempts.set(attempts.get() + 1);
                async { Err::<(), _>(()) }
            };
            assert_eq!(hedge.read(LEN, clock, fail).await, Err(()));
            assert_eq!(attempts.get(), 3);
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
            assert_eq!(u64::from(second_count), read_count / READS_PER_SECOND_REQUEST);
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
