//! The end of several requests that were made at a time.

use super::Passing;
use crate::error::{Error, Kind, Result};

/// Makes the requests that failed and may succeed once more by `again`, one after another, until the
/// storage fails one after all attempts. `fail` converts the other failures. Both get the position
/// of the request.
pub(crate) fn settle<T, F: Passing>(
    answered: Vec<Result<T, F>>,
    fail: impl Fn(usize, F) -> Error,
    again: impl Fn(usize) -> Result<T>,
) -> Vec<Result<T>> {
    let mut is_down = false;
    let settled = answered.into_iter().enumerate().map(|(at, answer)| match answer {
        Ok(answer) => Ok(answer),
        Err(failure) if is_down || !failure.may_pass() => Err(fail(at, failure)),
        Err(_) => again(at).inspect_err(|error| {
            is_down |= matches!(error.kind(), Kind::Storage | Kind::Interrupted);
        }),
    });
    settled.collect()
}
