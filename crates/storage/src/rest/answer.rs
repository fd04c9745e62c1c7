//! Answers of a server, which come over a network or over pipes.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use http::HeaderMap;

use super::failure::{Failure, Meaning};
use crate::remote;
use crate::throttle::{Direction, Throttle};

/// The minimum speed of an answer, in bytes per second; a slower one is given up.
const BYTES_PER_S_MIN: u64 = 10_000;
/// The maximum allocation before bytes arrive, in bytes.
const CAPACITY_MAX: u64 = 16 * 1024 * 1024;

/// The beginning of an answer, and the bytes that follow.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: BoxStream<'static, Result<Bytes, Failure>>,
}

impl Answer {
    /// Returns the value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the number of bytes that the answer announces.
    pub(super) fn len(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }

    /// Reads at most `len_max` bytes, each piece within `silence`, and no faster than `throttle`
    /// permits. Returns `None` if more bytes follow.
    pub(super) async fn read(
        mut self,
        len_max: u64,
        silence: Duration,
        throttle: &Throttle,
    ) -> Result<Option<Bytes>, Failure> {
        let announced = self.len();
        let capacity = announced.unwrap_or(0).min(len_max).min(CAPACITY_MAX);
        let mut bytes = BytesMut::with_capacity(usize::try_from(capacity).unwrap_or(0));
        let limit = silence + Duration::from_secs(len_max / BYTES_PER_S_MIN);
        let pieces = async {
            while let Some(piece) = within(silence, throttle, self.body.try_next()).await? {
                if (bytes.len() + piece.len()) as u64 > len_max {
                    return Ok(false);
                }
                throttle.pass(Direction::Download, piece.len()).await;
                bytes.extend_from_slice(&piece);
            }
            Ok(true)
        };
        if !within(limit, throttle, pieces).await.map_err(Failure::of_begun_answer)? {
            return Ok(None);
        }
        if announced.is_some_and(|announced| announced != bytes.len() as u64) {
            let text = format!("received {} of {} bytes", bytes.len(), announced.unwrap_or(0));
            return Err(Failure::new(Meaning::TryAgain, text));
        }
        Ok(Some(bytes.freeze()))
    }
}

/// Waits for `future`, at most for `limit`. Waits for the rate of what is received do not count.
pub(super) async fn within<T>(
    limit: Duration,
    throttle: &Throttle,
    future: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    within_for(Direction::Download, limit, throttle, future).await
}

/// Waits for `future`, at most for `limit`. Waits for the rate in `direction` do not count.
pub(super) async fn within_for<T>(
    direction: Direction,
    limit: Duration,
    throttle: &Throttle,
    future: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match remote::within(limit, throttle, direction, future).await {
        Some(done) => done,
        None => Err(Failure::outage(format!("no answer within {} s", limit.as_secs_f64()))),
    }
}
