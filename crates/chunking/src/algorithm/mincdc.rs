//! MinCDC: a chunk ends at the position with the least value between the minimum and the maximum
//! size.
//!
//! Source: crate mincdc 0.1.0 (and mothcdc 0.7.2, which cuts alike), `MinCdcHash4` and `MinCdc4`
//! with `SliceChunker`, by their documentation and code.
//!
//! The rule, for a chunk that starts at byte 0:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! if n <= min:  cut at n
//! of all i from min to n:  cut at the first i for which value(i) is least
//! value(i) = bytes i - 4 to i - 1 as a little-endian number of 32 bits, x;
//!            with `value=hash`:  x * 0x915f77f5 + 0x34636463, modulo 2^32
//! ```
//!
//! All sizes between min and max are almost equally likely. If max is at most twice min, the mean
//! on random data is their midpoint. Above that ratio, the bytes behind a cut-point are known not
//! to have a lesser value, so that the next cut-point tends to lie behind them. The mean is then
//! larger, by 2.4 % for max = 3 min.

use alloc::boxed::Box;
use core::fmt;

use super::blocks::{LINE_SIZE, Values};
use super::bytes::{BlockRule, byte_chunker};
use super::{Algorithm, CHUNK_SIZE_LIMIT, bisect, check_range};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::kernel::{BLOCK_SIZE, Kernel, LANE_COUNT, LONG_BLOCK_SIZE, Mapping};
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, SpecError};

const NAME: &str = "mincdc";

const ABOUT: About = About {
    name: NAME,
    title: "least hash between two sizes, MinCDCHash4 and MinCDC4",
    rule: "Of all places between the smallest and the largest size, a chunk ends at the one whose \
           last four bytes have the least hash, the first of them if there are more.",
    source: "Crates mincdc 0.1.0 and mothcdc 0.7.2.",
    differences: "None for min from 4 on; smaller ones are refused.",
    good_at: "Every size is bounded, nothing is cut by force but the end, sizes vary little, and \
              there is no table.",
    bad_at: "A whole largest chunk must be available before any cut, and its bytes beyond the \
             cut-point are read again.",
    key: KeyUse::Permutation,
    parameters: &[
        Parameter::new("min", "bytes", "4 to max", "The smallest chunk."),
        Parameter::new("max", "bytes", "min to 1073741824", "The largest chunk."),
        Parameter::new(
            "value",
            "",
            "hash or plain",
            "Hash the four bytes, or compare them as they are.",
        )
        .or("hash"),
    ],
    short_forms: &[ShortForm::new(
        "avg",
        &["value"],
        "64 to 268435456",
        "Mean in bytes, which sets the sizes; the largest is three times the smallest.",
    )],
    dialects: &[Dialect::new(
        "value=plain",
        "MinCDC4: the four bytes themselves, which runs and text skew.",
    )],
};

/// The value of the four bytes in front of a position that is least at a cut-point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A multiplicative hash of the bytes: MinCDCHash4.
    Hash,
    /// The bytes themselves, little-endian: MinCDC4.
    Plain,
}

/// The parameters of MinCDC; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The minimum chunk size, at least 4.
    pub chunk_size_min: usize,
    /// The maximum chunk size, not below the minimum.
    pub chunk_size_max: usize,
    /// The value that is least at a cut-point.
    pub value: Value,
}

byte_chunker! {
    /// The chunker of MinCDC.
    MinCdc
}

/// Ratios of max to min, each with the mean on random data as a multiple of the midpoint between
/// min and max. The means were measured with 60,000 chunks each, and are interpolated linearly.
const FACTORS: [(f64, f64); 13] = [
    (2.0, 1.0),
    (2.5, 1.0115),
    (3.0, 1.0245),
    (3.5, 1.037),
    (4.0, 1.0475),
    (5.0, 1.0615),
    (6.0, 1.0745),
    (8.0, 1.0934),
    (12.0, 1.1052),
    (16.0, 1.1145),
    (24.0, 1.1253),
    (32.0, 1.1297),
    (64.0, 1.1367),
];

impl Params {
    /// The smallest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MIN: usize = 64;

    /// The largest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MAX: usize = 256 * 1024 * 1024;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless each parameter is within its limits.
    pub fn check(&self) -> Result<(), SpecError> {
        check_range(NAME, "max", self.chunk_size_max, 4, CHUNK_SIZE_LIMIT)?;
        check_range(NAME, "min", self.chunk_size_min, 4, self.chunk_size_max)
    }

    /// Returns the parameters whose mean on random data is `mean` bytes. The maximum size is three
    /// times the minimum, or up to 2 bytes less.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`].
    pub fn for_average(mean: usize, value: Value) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
        let of =
            |max: usize| Params { chunk_size_min: max.div_ceil(3), chunk_size_max: max, value };
        let is_enough = |max: usize| of(max).mean_on_random_data() >= Some(mean as f64);
        Ok(of(bisect(mean, 2 * mean, is_enough)))
    }

    /// Returns the mean on random data in bytes; `None` if the ratio of the sizes exceeds the
    /// table.
    fn mean_on_random_data(&self) -> Option<f64> {
        let (min, max) = (self.chunk_size_min as f64, self.chunk_size_max as f64);
        let ratio = max / min;
        let factor = if ratio <= FACTORS[0].0 {
            FACTORS[0].1
        } else {
            let two = FACTORS.windows(2).find(|two| ratio <= two[1].0)?;
            let ((low, at_low), (high, at_high)) = (two[0], two[1]);
            at_low + (ratio - low) / (high - low) * (at_high - at_low)
        };
        Some((min + max) / 2.0 * factor)
    }
}

/// The distance in bytes of the prefetch from memory. It mostly reaches into the next chunk, which
/// the hardware does not predict.
const FAR_AHEAD: usize = 12 * 1024;

/// The distance in bytes of the prefetch from the second-level cache.
const NEAR_AHEAD: usize = 4 * 1024;

impl BlockRule for Params {
    /// Returns `None`, because any later position may have a lesser value, up to the maximum size.
    #[inline(always)]
    fn find<K: Kernel>(&self, _: K, _: bool, _: &[u8], _: impl Values) -> Option<usize> {
        None
    }

    #[inline(always)]
    fn find_last<K: Kernel>(&self, kernel: K, data: &[u8], values: impl Values) -> usize {
        if data.len() <= self.chunk_size_min {
            return data.len();
        }
        // The four bytes of the first position, and the bytes behind them.
        let bytes = &data[self.chunk_size_min - 4..];
        // A constant mapping, so that the code for the bytes themselves has no product and no sum.
        let least = match self.value {
            Value::Hash => Numbers { kernel, bytes, values, mapping: HASH }.least(),
            Value::Plain => Numbers { kernel, bytes, values, mapping: PLAIN }.least(),
        };
        self.chunk_size_min + least
    }
}

/// The mapping of [`Value::Hash`].
const HASH: Mapping = Mapping { factor: 0x915f_77f5, summand: 0x3463_6463 };

/// The mapping of [`Value::Plain`].
const PLAIN: Mapping = Mapping { factor: 1, summand: 0 };

/// The numbers of four bytes each that begin in `bytes`, of which there are at least four.
#[derive(Clone, Copy)]
struct Numbers<'a, K, V> {
    kernel: K,
    bytes: &'a [u8],
    values: V,
    mapping: Mapping,
}

impl<K: Kernel, V: Values> Numbers<'_, K, V> {
    /// Returns the index of the least number; the first one if there are several.
    ///
    /// The least number of each lane is kept with its long block, so that no branch depends on the
    /// bytes.
    #[inline(always)]
    fn least(self) -> usize {
        let Numbers { kernel, bytes, values, mapping } = self;
        let number_count = bytes.len() - 3;
        // The last long block may overlap the one before.
        let Some(last) = number_count.checked_sub(LONG_BLOCK_SIZE) else {
            return self.least_of_few();
        };
        let mut least = [u32::MAX; LANE_COUNT];
        let mut least_at = [0_u32; LANE_COUNT];
        for index in 0..number_count.div_ceil(LONG_BLOCK_SIZE) {
            let at = last.min(index * LONG_BLOCK_SIZE);
            for offset in (0..LONG_BLOCK_SIZE).step_by(LINE_SIZE) {
                kernel.prefetch_far(bytes, at + offset + FAR_AHEAD);
                kernel.prefetch(bytes, at + offset + NEAR_AHEAD);
            }
            let Some(block) = bytes[at..].first_chunk() else { break };
            let numbers = values.least_numbers(kernel, block, mapping);
            #[expect(clippy::cast_possible_truncation, reason = "a chunk has fewer blocks")]
            let index = index as u32;
            for k in 0..LANE_COUNT {
                least_at[k] = if numbers[k] < least[k] { index } else { least_at[k] };
                least[k] = least[k].min(numbers[k]);
            }
        }
        // Of equal numbers, that of the first block. Pairs as numbers compare without a branch.
        let pair = |k: usize| u64::from(least[k]) << 32 | u64::from(least_at[k]);
        let mut first = pair(0);
        for k in 1..LANE_COUNT {
            first = first.min(pair(k));
        }
        #[expect(clippy::cast_possible_truncation, reason = "the halves are meant")]
        let (number, index) = ((first >> 32) as u32, first as u32);
        let at = last.min(index as usize * LONG_BLOCK_SIZE);
        let Some(block) = bytes[at..].first_chunk() else { return at };
        at + values.first_number(kernel, block, mapping, number)
    }

    /// Returns the first index of the number `least`; no number is less.
    #[inline(always)]
    fn first_of(self, least: u32) -> usize {
        let Numbers { kernel, bytes, values, mapping } = self;
        // If the least number is the greatest of all, all are equal.
        let Some(bound) = least.checked_add(1) else { return 0 };
        let mut at = 0;
        while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk())
            && !values.has_number_below(kernel, block, mapping, bound)
        {
            at += BLOCK_SIZE;
        }
        let mut numbers = bytes[at..].windows(4);
        at + numbers.position(|four| self.number(four) == least).unwrap_or(0)
    }

    /// Works as [`Numbers::least`], for fewer bytes than a long block.
    #[inline(always)]
    fn least_of_few(self) -> usize {
        let Numbers { kernel, bytes, values, mapping } = self;
        let mut least = u32::MAX;
        let mut at = 0;
        while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            least = least.min(values.least_number(kernel, block, mapping));
            at += BLOCK_SIZE;
        }
        let rest = bytes[at..].windows(4).map(|four| self.number(four));
        self.first_of(rest.fold(least, u32::min))
    }

    /// Returns the number of four bytes.
    #[inline(always)]
    fn number(self, four: &[u8]) -> u32 {
        self.mapping.map([0, 1, 2, 3].map(|k| self.values.value(four[k])))
    }
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let value = keys.word("value", &[("hash", Value::Hash), ("plain", Value::Plain)])?;
        if keys.form() == "avg" {
            return Params::for_average(keys.size("avg")?, value);
        }
        Ok(Params { chunk_size_min: keys.size("min")?, chunk_size_max: keys.size("max")?, value })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "min={},max={}", self.chunk_size_min, self.chunk_size_max)?;
        match self.value {
            Value::Hash => Ok(()),
            Value::Plain => f.write_str(",value=plain"),
        }
    }

    fn chunk_size_min(&self) -> usize {
        self.chunk_size_min
    }

    fn chunk_size_max(&self) -> Option<usize> {
        Some(self.chunk_size_max)
    }

    fn mean(&self) -> Option<f64> {
        self.mean_on_random_data()
    }
}
