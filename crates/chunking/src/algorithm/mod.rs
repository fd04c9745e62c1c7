//! The rules, one file each.
//!
//! A file holds the rule, its parameters with their limits and their text, what there is to know
//! about it ([`About`]), and the chunker.

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
mod sieve;
pub mod tttd;
pub mod ultracdc;

use alloc::boxed::Box;
use alloc::format;
use core::fmt;

use crate::keys::Keys;
use crate::{About, Chunker, KeyMaterial, KeyUse, Level, SpecError};

/// No chunk of any algorithm may be larger, in bytes: 1 GiB. It bounds a reader's buffer.
pub const CHUNK_SIZE_LIMIT: usize = 1 << 30;

/// What the parameters of every algorithm know. The rest of the crate knows no algorithm by name,
/// but for the list in `spec.rs`.
pub(crate) trait Algorithm: Sized {
    /// What there is to know; the keys that [`Algorithm::parse`] may ask for are those in it.
    const ABOUT: &'static About;

    /// Reads the parameters. They are checked after this.
    fn parse(keys: &Keys<'_>) -> Result<Self, SpecError>;

    /// Writes what [`Algorithm::parse`] reads in the written-out form, keys in the order of
    /// [`About::parameters`]. What was once written for some parameters is written for ever.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Says whether every parameter is allowed, with the others as they are.
    fn check(&self) -> Result<(), SpecError>;

    /// The size in bytes that no chunk is smaller than, but for the last of a stream.
    fn chunk_size_min(&self) -> usize;

    /// The size in bytes that no chunk is larger than; `None` where there is no limit.
    fn chunk_size_max(&self) -> Option<usize>;

    /// The mean chunk size in bytes on random data, computed or measured once; `None` where neither
    /// was done. It must be a function of the parameters, equal to the bit on every machine.
    fn mean(&self) -> Option<f64>;

    /// Makes the chunker of parameters that are checked, on `level` if the rule has code for it.
    fn chunker(&self, material: Option<&KeyMaterial>, level: Level) -> Box<dyn Chunker>;
}

/// Writes the constructors that every chunker has, over its `from_checked(params, material, level)`.
macro_rules! constructors {
    ($Chunker:ident) => {
        impl $Chunker {
            /// Makes a chunker.
            ///
            /// # Errors
            ///
            /// Those of [`Params::check`].
            pub fn new(params: Params) -> Result<$Chunker, SpecError> {
                params.check()?;
                Ok($Chunker::from_checked(params, None, $crate::Level::best()))
            }

            /// Makes a chunker whose cut-points are secret; [`KeyMaterial`] says how.
            ///
            /// # Errors
            ///
            /// Those of [`Params::check`], and [`SpecError`] where the rule cannot be keyed.
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

/// Checks that the rule can be keyed.
pub(crate) fn check_key(about: &About) -> Result<(), SpecError> {
    if about.key == KeyUse::Refused {
        let expected = "cannot be used: what this rule looks for was learned from data, so that its \
                        cut-points cannot be secret";
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

/// Checks that a smallest size is at least 1, and a largest one, if there is one, at least `least`.
pub(crate) fn check_sizes(
    algorithm: &'static str,
    min: usize,
    least: usize,
    max: Option<usize>,
) -> Result<(), SpecError> {
    check_range(algorithm, "min", min, 1, CHUNK_SIZE_LIMIT)?;
    check_max(algorithm, least, max)
}

/// Checks that a largest size, if there is one, is at least `least`.
pub(crate) fn check_max(
    algorithm: &'static str,
    least: usize,
    max: Option<usize>,
) -> Result<(), SpecError> {
    max.map_or(Ok(()), |max| check_range(algorithm, "max", max, least, CHUNK_SIZE_LIMIT))
}

/// Returns the `mean` of chunks without a largest size if there is none, or it is so many means that it
/// hardly matters.
pub(crate) fn far_from_max(mean: f64, max: Option<usize>, means: f64) -> Option<f64> {
    max.is_none_or(|max| max as f64 >= means * mean).then_some(mean)
}

/// Says that no parameters give `average`, and which averages `reachable` are, in rising order: the
/// nearest below and above it are named.
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

/// Cuts `data` where `find`, which sees no more of it than the largest size, says that the chunk ends;
/// else at the end of what it sees, if that is the end of the stream or of a largest chunk.
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

/// Writes the sizes of a rule whose smallest chunk is 1 and whose largest is unlimited by default.
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

/// Returns the smallest number from `low` to `high` for which `is_enough` holds, or `high` where it
/// holds for none: for averages, which rise with a parameter.
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

/// Returns the logarithm of `value` to base 2, rounded to the nearest whole number.
///
/// In whole numbers, so that no platform's logarithm decides: `value` lies above 2^(n + 1/2) exactly
/// if its square lies above 2^(2n + 1).
pub(crate) fn rounded_log2(value: usize) -> u32 {
    let value = value as u64;
    let floor = value.ilog2();
    floor + u32::from(value * value > 1 << (2 * floor + 1))
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
