//! The rules, one file each.
//!
//! Each file holds the rule, its parameters with their limits and their text form, the description
//! of the algorithm ([`About`]), and the chunker.

pub mod ae;
pub mod aes;
pub mod bfbc;
mod blocks;
pub mod buzhash;
mod bytes;
pub mod crc;
pub mod fastcdc;
pub mod fixed;
pub mod gear;
mod geometric;
mod greedy;
pub mod jc;
pub mod maxp;
pub mod mii;
pub mod mincdc;
mod paper;
pub mod pci;
pub mod rabin;
pub mod ram;
pub mod repmaxcdc;
pub mod ronomon;
pub mod samplebyte;
pub mod seqcdc;
mod sequence;
mod sieve;
pub mod tttd;
pub mod ultracdc;

use alloc::format;
use core::fmt;

use crate::keys::Keys;
use crate::{About, KeyUse, SpecError};

/// The maximum chunk size of any algorithm, in bytes: 1 GiB. The limit bounds the buffer of a
/// reader.
pub const CHUNK_SIZE_LIMIT: usize = 1 << 30;

/// The interface of every algorithm's parameters. The rest of the crate knows no algorithm by name,
/// except for the list in `spec.rs`, which also requires `Params::check` and the chunker's
/// `from_checked`.
pub(crate) trait Algorithm: Sized {
    /// The description. [`Algorithm::parse`] may ask only for the keys in it.
    const ABOUT: &'static About;

    /// Parses the parameters, without checking them.
    fn parse(keys: &Keys<'_>) -> Result<Self, SpecError>;

    /// Writes the written-out form that [`Algorithm::parse`] reads, with the keys in the order of
    /// [`About::parameters`]. The text for given parameters never changes.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Returns the minimum chunk size in bytes; only the last chunk of a stream may be smaller.
    fn chunk_size_min(&self) -> usize;

    /// Returns the maximum chunk size in bytes; `None` if there is no limit.
    fn chunk_size_max(&self) -> Option<usize>;

    /// Returns the mean chunk size in bytes on random data, computed or measured once; `None` if it
    /// is neither. It must be a function of the parameters that gives the same bits on every
    /// machine.
    fn mean(&self) -> Option<f64>;
}

/// Defines the constructors of a chunker, by its `from_checked(params, material, level)`.
macro_rules! constructors {
    ($Chunker:ident) => {
        impl $Chunker {
            /// Creates a chunker.
            ///
            /// # Errors
            ///
            /// Returns any error of [`Params::check`].
            pub fn new(params: Params) -> Result<$Chunker, SpecError> {
                params.check()?;
                Ok($Chunker::from_checked(params, None, $crate::Level::best()))
            }

            /// Creates a chunker with secret cut-points; [`KeyMaterial`] describes how they are
            /// made secret.
            ///
            /// # Errors
            ///
            /// Returns any error of [`Params::check`], and [`SpecError`] if the rule cannot be
            /// keyed.
            pub fn keyed(params: Params, material: &KeyMaterial) -> Result<$Chunker, SpecError> {
                params.check()?;
                $crate::algorithm::check_key(<Params as $crate::algorithm::Algorithm>::ABOUT)?;
                Ok($Chunker::from_checked(params, Some(material), $crate::Level::best()))
            }

            /// Returns the parameters.
            pub fn params(&self) -> &Params {
                &self.params
            }
        }
    };
}
use constructors;

/// Implements the sizes of a [`Chunker`](crate::Chunker) by those of its `params`.
macro_rules! forward_chunk_sizes {
    () => {
        fn chunk_size_min(&self) -> usize {
            $crate::algorithm::Algorithm::chunk_size_min(&self.params)
        }

        fn chunk_size_max(&self) -> Option<usize> {
            $crate::algorithm::Algorithm::chunk_size_max(&self.params)
        }
    };
}
use forward_chunk_sizes;

/// Implements `Debug` of a chunker by its `params`. Tables and permutations are omitted, because
/// they may be secret; for a given `Option` field, the output tells if it is `Some`.
macro_rules! debug_params {
    ($Chunker:ident) => {
        impl core::fmt::Debug for $Chunker {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let mut output = f.debug_struct(stringify!($Chunker));
                output.field("params", &self.params).finish_non_exhaustive()
            }
        }
    };
    ($Chunker:ident, $permutation:ident) => {
        impl core::fmt::Debug for $Chunker {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let mut output = f.debug_struct(stringify!($Chunker));
                output.field("params", &self.params);
                output.field("keyed", &self.$permutation.is_some()).finish()
            }
        }
    };
}
use debug_params;

/// Checks that the rule can be keyed.
pub(crate) fn check_key(about: &About) -> Result<(), SpecError> {
    if about.key == KeyUse::Refused {
        let expected = "cannot be used: this rule searches for patterns that were learned from \
                        data, so its cut-points cannot be secret";
        return Err(SpecError::new(about.name, "key", "", expected));
    }
    Ok(())
}

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

/// Checks that a minimum size is at least 1 and a maximum size, if there is one, at least `least`.
pub(crate) fn check_sizes(
    algorithm: &'static str,
    min: usize,
    least: usize,
    max: Option<usize>,
) -> Result<(), SpecError> {
    check_range(algorithm, "min", min, 1, CHUNK_SIZE_LIMIT)?;
    check_max(algorithm, least, max)
}

/// Checks the size of a value.
pub(crate) fn check_value_size(algorithm: &'static str, size: usize) -> Result<(), SpecError> {
    if matches!(size, 1 | 2 | 4 | 8) {
        Ok(())
    } else {
        Err(SpecError::new(algorithm, "bytes", size, "must be 1, 2, 4 or 8"))
    }
}

/// Checks that a maximum size, if there is one, is at least `least`.
pub(crate) fn check_max(
    algorithm: &'static str,
    least: usize,
    max: Option<usize>,
) -> Result<(), SpecError> {
    max.map_or(Ok(()), |max| check_range(algorithm, "max", max, least, CHUNK_SIZE_LIMIT))
}

/// Returns `mean`, the mean size of chunks without a maximum size, if `max` is at least `means`
/// times as large and thus hardly changes it, or if there is no maximum.
pub(crate) fn far_from_max(mean: f64, max: Option<usize>, means: f64) -> Option<f64> {
    max.is_none_or(|max| max as f64 >= means * mean).then_some(mean)
}

/// Returns the error that no parameters give `average`. It names the nearest of the `reachable`
/// averages, which are in ascending order, below and above.
pub(crate) fn unreachable_average(
    algorithm: &'static str,
    average: usize,
    reachable: &[usize],
) -> SpecError {
    let above = reachable.partition_point(|&each| each < average);
    let below = above.checked_sub(1).and_then(|below| reachable.get(below));
    let expected = match (below, reachable.get(above)) {
        (Some(below), Some(above)) => {
            format!("cannot be reached; the nearest averages are {below} and {above}")
        }
        (Some(largest), None) => format!("cannot be reached; the largest average is {largest}"),
        (None, Some(least)) => format!("cannot be reached; the smallest average is {least}"),
        (None, None) => "cannot be reached".into(),
    };
    SpecError::new(algorithm, "avg", average, expected)
}

/// Cuts `data` at the end of the chunk that `find` returns, given at most `max` bytes. If `find`
/// returns `None`, cuts at the end of these bytes, provided that the stream ends there or that they
/// have the maximum size.
#[inline]
pub(crate) fn cut_within(
    data: &[u8],
    more: bool,
    max: Option<usize>,
    find: impl FnOnce(&[u8]) -> Option<usize>,
) -> Option<usize> {
    let end = max.map_or(data.len(), |max| data.len().min(max));
    let is_complete = !more || Some(end) == max;
    find(&data[..end]).or((is_complete && end > 0).then_some(end))
}

/// Writes the sizes of a rule whose default minimum is 1 and whose default maximum is no limit.
pub(crate) fn write_sizes(
    f: &mut fmt::Formatter<'_>,
    min: usize,
    max: Option<usize>,
) -> fmt::Result {
    if min != 1 {
        write!(f, ",min={min}")?;
    }
    max.map_or(Ok(()), |max| write!(f, ",max={max}"))
}

/// Returns the smallest number from `low` to `high` that satisfies `is_enough`, or `high` if none
/// does. It serves to find averages, which rise with a parameter.
pub(crate) fn bisect(
    mut low: usize,
    mut high: usize,
    mut is_enough: impl FnMut(usize) -> bool,
) -> usize {
    while low < high {
        let middle = low + (high - low) / 2;
        if is_enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Returns the smallest number from `low` to `high` for which `mean` is not below `target`, or
/// `high` if there is none. The means rise.
///
/// The search interpolates, because a mean takes long to compute and is nearly a line.
pub(crate) fn least_with_mean(
    low: usize,
    high: usize,
    target: f64,
    mean: impl Fn(usize) -> f64,
) -> usize {
    // The result is above the first number, of which the mean is below the target, and not above
    // the second one. Before a mean is known, the line is that through zero.
    let (mut below, mut below_mean) = (low - 1, 0.0);
    let (mut reached, mut reached_mean) = (high, None);
    let mut steps = 0;
    while reached - below > 1 {
        let guess = match reached_mean {
            // The means may be far from a line.
            _ if steps % 4 == 3 => below + (reached - below) / 2,
            Some(reached_mean) => {
                let share = (target - below_mean) / (reached_mean - below_mean);
                below + ceiling(share * (reached - below) as f64)
            }
            None if below_mean > 0.0 => ceiling(below as f64 * (target / below_mean)),
            None => (low + high) / 2,
        };
        let guess = guess.clamp(below + 1, reached - 1);
        let guess_mean = mean(guess);
        if guess_mean >= target {
            (reached, reached_mean) = (guess, Some(guess_mean));
        } else {
            (below, below_mean) = (guess, guess_mean);
        }
        steps += 1;
    }
    reached
}

/// Returns the least whole number not below `number`, which is not negative.
#[expect(clippy::cast_possible_truncation, reason = "numbers are sizes")]
fn ceiling(number: f64) -> usize {
    let floor = number as usize;
    floor + usize::from((floor as f64) < number)
}

/// Returns the logarithm of `value` to base 2, rounded to the nearest whole number.
///
/// The computation is in whole numbers, so that it does not depend on a platform's logarithm:
/// `value` lies above 2^(n + 1/2) exactly if its square lies above 2^(2n + 1).
pub(crate) fn rounded_log2(value: usize) -> u32 {
    let value = value as u64;
    let floor = value.ilog2();
    floor + u32::from(value * value > 1 << (2 * floor + 1))
}

/// Returns `base` to the power of `exponent`.
///
/// The computation is by squaring, which gives the same bits on every platform; `f64::powi` does
/// not guarantee that.
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
