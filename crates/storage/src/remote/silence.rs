//! Limits for the time that a request takes.

use std::pin::pin;
use std::time::Duration;

use crate::throttle::{Direction, Throttle};

/// Waits for `request`, at most for `limit` and the time that transfers in `direction` wait for
/// their tokens meanwhile. Returns `None` at the end of that time.
pub(crate) async fn within<T>(
    limit: Duration,
    throttle: &Throttle,
    direction: Direction,
    request: impl Future<Output = T>,
) -> Option<T> {
    let mut request = pin!(request);
    let mut counted = throttle.waited(direction);
    let mut left = limit;
    loop {
        if let Ok(done) = tokio::time::timeout(left, &mut request).await {
            return Some(done);
        }
        let waited = throttle.waited(direction);
        left = waited.saturating_sub(counted);
        if left.is_zero() {
            return None;
        }
        counted = waited;
    }
}
