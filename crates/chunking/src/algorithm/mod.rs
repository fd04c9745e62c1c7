//! The rules, one file each.
//!
//! A file holds the rule's parameters, their limits and the chunker that they make. How parameters
//! are written as text is [`Spec`](crate::Spec)'s business, not theirs.

pub mod fastcdc;
pub mod fixed;
pub mod seqcdc;

use crate::SpecError;

/// No chunk of any algorithm may be larger, in bytes: 1 GiB. It bounds a reader's buffer.
pub const CHUNK_SIZE_LIMIT: usize = 1 << 30;

/// Checks that `low <= value <= high`.
pub(crate) fn check_range(
    algorithm: &'static str,
    parameter: &'static str,
    value: usize,
    low: usize,
    high: usize,
) -> Result<(), SpecError> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(SpecError::out_of_range(algorithm, parameter, value, low, high))
    }
}

/// Returns `base` to the power of `exponent`.
///
/// By squaring, so that every platform gets the same bits; `f64::powi` does not promise that.
pub(crate) fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}
