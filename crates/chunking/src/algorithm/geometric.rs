//! Chunks that every byte behind a minimum size ends with the same chance.

use super::{CHUNK_SIZE_LIMIT, bisect, check_range};
use crate::SpecError;
use crate::algorithm::power;

/// The smallest mean that [`for_average`] gives, in bytes.
pub(super) const AVERAGE_MIN: usize = 256;

/// The largest mean that [`for_average`] gives, in bytes.
pub(super) const AVERAGE_MAX: usize = 16 * 1024 * 1024;

/// Returns the mean size in bytes of chunks that each byte ends with the chance `1 / divisor`, from
/// a size of `least` on, up to the maximum size.
pub(super) fn mean(least: usize, divisor: f64, max: Option<usize>) -> f64 {
    let passes = 1.0 - 1.0 / divisor;
    let left = max.map_or(0.0, |max| power(passes, max.saturating_sub(least) as u64));
    least as f64 + (passes - passes * left) * divisor
}

/// Returns the parameters whose mean is `average` bytes. `of` makes parameters from the logarithm
/// of the divisor, chosen to leave at least a fifth of the mean for the minimum size, and from a
/// minimum size.
pub(super) fn for_average<P>(
    algorithm: &'static str,
    average: usize,
    max: Option<usize>,
    of: impl Fn(u32, usize) -> P,
    mean: impl Fn(&P) -> f64,
) -> Result<P, SpecError> {
    check_range(algorithm, "avg", average, AVERAGE_MIN, AVERAGE_MAX)?;
    let max = max.unwrap_or(CHUNK_SIZE_LIMIT);
    check_range(algorithm, "max", max, average, CHUNK_SIZE_LIMIT)?;
    let bits = (average * 4 / 5).ilog2();
    let target = average as f64;
    let params = of(bits, bisect(1, average, |min| mean(&of(bits, min)) >= target));
    if mean(&params) > target * 1.005 {
        let expected = "not possible with this window, which is too large";
        return Err(SpecError::new(algorithm, "avg", average, expected));
    }
    Ok(params)
}
