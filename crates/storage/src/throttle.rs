//! Limits for the rates at which the bytes of objects move to a storage and back.
//!
//! All storages of a process share one [`Throttle`], so that the sum of their transfers keeps the
//! limits, however many requests are under way. Each direction has a token bucket. A transfer takes
//! tokens piece by piece, in the order of the requests, and waits for them before an upload of the
//! piece, or after a download of it. A repeated attempt takes tokens again, because its bytes move
//! again. Rates change when bytes are moved, and never which bytes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::environment::Environment;
use crate::error::Result;
use crate::wait;

const SECOND_NS: u64 = 1_000_000_000;
/// The time for which a bucket collects tokens that no transfer takes, in nanoseconds. It makes up
/// for a thread that is woken late.
const SAVED_NS_MAX: u64 = SECOND_NS / 10;
/// The part of a second that the transfer of a piece takes.
const PIECES_PER_S: u64 = 16;
/// The minimum and the maximum number of bytes in a piece.
const PIECE_MIN: u64 = 4 * 1024;
const PIECE_MAX: u64 = 256 * 1024;

/// The maximum rates of all transfers together, in bytes per second; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// The maximum rate of bytes that are sent to storages.
    pub upload: Option<u64>,
    /// The maximum rate of bytes that are received from storages.
    pub download: Option<u64>,
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To a storage.
    Upload,
    /// From a storage.
    Download,
}

/// The limits of all storages that share it. Clones share the limits; the default has none.
#[derive(Clone, Debug, Default)]
pub struct Throttle(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    upload: Option<Bucket>,
    download: Option<Bucket>,
    environment: Arc<dyn Environment>,
}

/// Two values are equal if they share their limits.
impl PartialEq for Throttle {
    fn eq(&self, other: &Throttle) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Eq for Throttle {}

impl Throttle {
    /// Creates the limits of a process. Their waits end on a request to stop of the environment. A
    /// rate of 0 counts as 1.
    pub fn new(limits: RateLimits, environment: Arc<dyn Environment>) -> Throttle {
        if limits == RateLimits::default() {
            return Throttle::default();
        }
        let bucket = |rate: u64| Bucket { bytes_per_s: rate.max(1), state: Mutex::default() };
        let (upload, download) = (limits.upload.map(bucket), limits.download.map(bucket));
        Throttle(Some(Arc::new(Inner { upload, download, environment })))
    }

    /// Returns `true` if there is a limit in either direction.
    pub fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the maximum number of bytes to move before the next wait; `None` if there is no
    /// limit.
    pub(crate) fn piece_len(&self, direction: Direction) -> Option<usize> {
        let (bucket, _) = self.bucket(direction)?;
        let len = (bucket.bytes_per_s / PIECES_PER_S).clamp(PIECE_MIN, PIECE_MAX);
        usize::try_from(len).ok()
    }

    /// Blocks the thread until `len` bytes of `object` may move.
    ///
    /// # Errors
    ///
    /// Returns an `Interrupted` error if a request to stop ends the wait.
    pub(crate) fn wait(&self, direction: Direction, len: usize, object: &str) -> Result<()> {
        let Some((bucket, environment)) = self.bucket(direction) else { return Ok(()) };
        let time = bucket.take(environment.awake_ns(), len as u64);
        if time.is_zero() || wait::sleep(environment, time) {
            return Ok(());
        }
        Err(wait::interrupted(object))
    }

    /// Waits until `len` bytes may move. The caller gives the future up after a request to stop.
    #[cfg(any(feature = "clouds", feature = "rest", feature = "s3", feature = "sftp"))]
    pub(crate) async fn pass(&self, direction: Direction, len: usize) {
        let time = self.take(direction, len);
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
    }

    /// Takes the tokens of `len` bytes, and returns the time until these may move.
    #[cfg(any(feature = "clouds", feature = "rest", feature = "s3", feature = "sftp"))]
    pub(crate) fn take(&self, direction: Direction, len: usize) -> Duration {
        self.bucket(direction).map_or(Duration::ZERO, |(bucket, environment)| {
            bucket.take(environment.awake_ns(), len as u64)
        })
    }

    /// Returns the total time in which transfers of any request have waited, or will have once those
    /// end that wait now. Simultaneous waits count once. A limit for the silence of a server grows
    /// with it.
    #[cfg(any(feature = "clouds", feature = "rest", feature = "s3"))]
    pub(crate) fn waited(&self, direction: Direction) -> Duration {
        let bucket = self.bucket(direction);
        bucket.map_or(Duration::ZERO, |(bucket, _)| Duration::from_nanos(bucket.state().waited_ns))
    }

    fn bucket(&self, direction: Direction) -> Option<(&Bucket, &dyn Environment)> {
        let inner = self.0.as_deref()?;
        let bucket = match direction {
            Direction::Upload => inner.upload.as_ref(),
            Direction::Download => inner.download.as_ref(),
        };
        Some((bucket?, &*inner.environment))
    }
}

/// The token bucket of one direction, as the time at which it has the tokens of the next piece.
#[derive(Debug)]
struct Bucket {
    bytes_per_s: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The time from which on the next piece may move.
    free_ns: u64,
    /// The end of the waits so far.
    waiting_until_ns: u64,
    /// The total time of waits; simultaneous ones count once.
    waited_ns: u64,
}

impl Bucket {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the tokens of a piece of `len` bytes at `now_ns`. Returns the time until the piece may
    /// move. It need not hold the tokens of the piece itself by then: the next piece waits for them.
    fn take(&self, now_ns: u64, len: u64) -> Duration {
        let cost_ns = u128::from(len) * u128::from(SECOND_NS) / u128::from(self.bytes_per_s);
        let cost_ns = u64::try_from(cost_ns).unwrap_or(u64::MAX);
        let mut state = self.state();
        let at_ns = state.free_ns.max(now_ns.saturating_sub(SAVED_NS_MAX));
        state.free_ns = at_ns.saturating_add(cost_ns);
        let wait_from_ns = now_ns.max(state.waiting_until_ns);
        state.waited_ns = state.waited_ns.saturating_add(at_ns.saturating_sub(wait_from_ns));
        state.waiting_until_ns = state.waiting_until_ns.max(at_ns);
        Duration::from_nanos(at_ns.saturating_sub(now_ns))
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;
    use crate::environment::System;

    fn throttle(rate: u64) -> Throttle {
        let limits = RateLimits { upload: Some(rate), download: None };
        Throttle::new(limits, Arc::new(System))
    }

    /// Returns the times and lengths of the pieces that transfers send within a minute of simulated
    /// time. Each transfer sends a piece as soon as it may, and is woken up to `late_ns` too late.
    fn sent(rate: u64, transfers: u64, late_ns: u64) -> Vec<(u64, u64)> {
        let throttle = throttle(rate);
        let (bucket, _) = throttle.bucket(Direction::Upload).expect("there is a limit");
        let piece_len = throttle.piece_len(Direction::Upload).expect("there is a limit") as u64;
        let mut sent = Vec::new();
        // The times at which transfers ask for the tokens of a piece.
        let mut asks: BinaryHeap<_> = (0..transfers).map(|number| Reverse((0, number))).collect();
        while let Some(Reverse((now_ns, number))) = asks.pop()
            && now_ns < 60 * SECOND_NS
        {
            let len = piece_len - (number * 77 + now_ns / 1000) % (piece_len / 2);
            let wait = bucket.take(now_ns, len);
            let late_ns = if wait.is_zero() { 0 } else { now_ns % late_ns.max(1) };
            let at_ns = now_ns + u64::try_from(wait.as_nanos()).expect("it is short") + late_ns;
            sent.push((at_ns, len));
            asks.push(Reverse((at_ns, number)));
        }
        sent
    }

    #[test]
    fn transfers_of_a_minute_keep_their_common_rate() {
        for rate in [16 << 10, 100_000, 5 << 20, 1 << 30] {
            for transfers in [1, 2, 8, 40] {
                for late_ns in [0, 5_000_000] {
                    let sent = sent(rate, transfers, late_ns);
                    let within = |from_s: u64, to_s: u64| -> u64 {
                        let range = from_s * SECOND_NS..to_s * SECOND_NS;
                        let pieces = sent.iter().filter(|(at, _)| range.contains(at));
                        pieces.map(|(_, len)| len).sum()
                    };
                    let total = within(0, 60);
                    let case = format!("{rate} B/s, {transfers} transfers, late by {late_ns} ns");
                    let expected = 60 * rate * 9 / 10..=60 * rate * 11 / 10;
                    assert!(expected.contains(&total), "{case}: {total} in a minute");
                    for second in 1..60 {
                        let bytes = within(second, second + 1);
                        // Pieces of the slowest rate take a quarter of a second.
                        assert!(bytes <= rate * 14 / 10, "{case}: {bytes} in second {second}");
                    }
                }
            }
        }
    }

    #[test]
    fn pause_saves_tokens_of_a_tenth_of_a_second() {
        let throttle = throttle(1_000_000);
        let (bucket, _) = throttle.bucket(Direction::Upload).expect("there is a limit");
        let hour_ns = 3600 * SECOND_NS;
        assert_eq!(bucket.take(hour_ns, 50_000), Duration::ZERO, "saved");
        assert_eq!(bucket.take(hour_ns, 60_000), Duration::ZERO, "saved in part");
        assert_eq!(bucket.take(hour_ns, 1), Duration::from_millis(10), "nothing is left");
        assert_eq!(bucket.take(hour_ns, 1), Duration::from_nanos(10_001_000), "in turn");
        assert_eq!(bucket.state().waited_ns, 10_001_000, "the waits overlap");
    }

    #[test]
    fn directions_have_limits_of_their_own() {
        let throttle = throttle(1_000_000);
        assert_eq!(throttle.piece_len(Direction::Upload), Some(62_500), "a sixteenth of a second");
        assert_eq!(throttle.piece_len(Direction::Download), None, "no limit");
        throttle.wait(Direction::Download, usize::MAX, "x").expect("it does not wait");
        let none = Throttle::new(RateLimits::default(), Arc::new(System));
        assert!(!none.is_limited() && none == Throttle::default(), "no limit at all");
        assert!(throttle.clone() == throttle && throttle != none, "clones share");
    }
}
