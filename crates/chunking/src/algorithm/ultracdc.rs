//! UltraCDC: the number of bits in which eight bytes differ from a pattern; long runs of equal
//! bytes are cut.
//!
//! Source: Zhou et al., "UltraCDC" (IPCCC 2022), algorithm 1, in the form of
//! PlakarKorp/go-cdc-chunkers v1.1.0 under the name `ultracdc-v1.0.0`.
//!
//! The rule, for a chunk that starts at byte 0:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! distance(i) = the number of bits in which the 8 bytes in front of byte i differ from 8 times 0xaa
//! equal = 0
//! for i in min + 8, min + 16, ... while i + 8 <= n:
//!     if the 8 bytes from i on equal the 8 in front of i:
//!         equal = equal + 1
//!         if equal == lest:  cut at i + 8
//!         go on with the next i
//!     equal = 0
//!     mask = 0x2f  while i < normal, then 0x2c
//!     if distance(j) & mask == 0  for a j in i..i + 8:  cut at i + 8
//! cut at n
//! ```
//!
//! The first mask matches a distance of 0, 16 or 64, the second one a distance of 0 to 3, 16 to 19
//! or 64. A chunk that a distance ends has the minimum size plus a multiple of 8 bytes.
//!
//! The rule `ultracdc` of that module, without a version, cuts at `j`, unlike the paper.
//!
//! # Mean
//!
//! The masks are fixed, so that the mean depends on `normal`. The number of steps of 8 bytes that
//! each mask takes was measured: `examples/means.rs` with 400,000 chunks of
//! `ultracdc:min=8,normal=1048576,max=1048576` and of `ultracdc:min=8,normal=8,max=1048576` gives
//! means of 45229 and 2234 bytes, which are 16 bytes plus the steps.

use alloc::boxed::Box;
use core::fmt;

use super::bytes::{ByteRule, byte_chunker};
use super::{Algorithm, CHUNK_SIZE_LIMIT, bisect, check_range, power};
use crate::about::{About, KeyUse, Parameter, ShortForm};
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, SpecError};

const NAME: &str = "ultracdc";

const ABOUT: About = About {
    name: NAME,
    title: "the Hamming distance of eight bytes from a pattern",
    rule: "The bits in which eight bytes differ from a pattern are counted at every byte; a chunk ends \
           with the step of eight bytes in which the count has zeros at all bits of a mask. The mask is \
           harder up to a normal size. A chunk also ends where eight bytes were repeated so often.",
    source: "Zhou et al., UltraCDC (2022), algorithm 1, as in PlakarKorp/go-cdc-chunkers v1.1.0, \
             ultracdc-v1.0.0.",
    differences: "None in that form. The one without a version cuts at the byte instead of the step.",
    good_at: "No table; long runs of a constant are cut, with one size.",
    bad_at: "The masks do not depend on the sizes: below the normal size a match is rare, above it one \
             comes soon. Cut-points lie on a grid of eight bytes from the last one.",
    key: KeyUse::Permutation,
    parameters: &[
        Parameter::new("min", "bytes", "8 to 268435456", "The size at which the search begins."),
        Parameter::new(
            "normal",
            "bytes",
            "min to max",
            "The size from which the easier mask is used.",
        ),
        Parameter::new("max", "bytes", "min + 16 to 1073741824", "The largest chunk."),
        Parameter::new(
            "lest",
            "steps",
            "1 to 134217728",
            "Number of steps of 8 bytes in a row, each equal to the one before, that end a chunk \
             (LEST).",
        )
        .or("64"),
    ],
    short_forms: &[ShortForm::new(
        "avg",
        &["max", "lest"],
        "2304 to 65536, not above max",
        "The normal size that gives this mean, with a smallest size of about a quarter of it.",
    )],
    dialects: &[],
};

/// The parameters of UltraCDC; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The position at which the search begins: 8 to 2^28. A chunk has at least 16 bytes more.
    pub chunk_size_min: usize,
    /// The size at which the easier mask begins, from the minimum size to the maximum.
    pub normal_size: usize,
    /// The maximum chunk size, at least 16 bytes above the minimum size.
    pub chunk_size_max: usize,
    /// The number of steps of 8 bytes equal to the previous step that end a chunk: 1 to 2^27.
    pub low_entropy_steps: u32,
}

byte_chunker! {
    /// The chunker of UltraCDC.
    UltraCdc
}

/// The bits of a distance that must be zeros, up to the normal size and behind it.
const MASKS: [u32; 2] = [0x2f, 0x2c];

/// The measured mean number of steps until either mask matches in random data.
const STEPS: [f64; 2] = [5651.6, 277.25];

/// The default of [`Params::low_entropy_steps`].
const LEST: u32 = 64;

impl Params {
    /// The smallest mean that [`Params::for_average`] accepts, in bytes. The easier mask alone
    /// needs nearly as much.
    pub const AVERAGE_MIN: usize = 2304;

    /// The largest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MAX: usize = 64 * 1024;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless each parameter is within its limits.
    pub fn check(&self) -> Result<(), SpecError> {
        let Params { chunk_size_min: min, chunk_size_max: max, .. } = *self;
        check_range(NAME, "min", min, 8, CHUNK_SIZE_LIMIT / 4)?;
        check_range(NAME, "max", max, min + 16, CHUNK_SIZE_LIMIT)?;
        check_range(NAME, "normal", self.normal_size, min, max)?;
        check_range(NAME, "lest", self.low_entropy_steps as usize, 1, 1 << 27)
    }

    /// Returns the parameters of `self` with the normal and the minimum size changed so that the
    /// mean on random data is `mean` bytes. The minimum size is a quarter of the mean, but less if
    /// the easier mask alone needs more than the rest, and more if the harder one needs less.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`] and not above the maximum size, or if the maximum size is too near
    /// to the mean for any parameters to fit.
    pub fn for_average(self, mean: usize) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
        check_range(NAME, "max", self.chunk_size_max, mean, CHUNK_SIZE_LIMIT)?;
        let (target, max) = (mean as f64, self.chunk_size_max);
        let with = |chunk_size_min, normal_size| {
            Params { chunk_size_min, normal_size, ..self }.mean_on_random_data()
        };
        let above = bisect(9, mean / 4 + 1, |min| with(min, min) > target);
        let min = bisect(above - 1, mean, |min| with(min, max) >= target);
        let normal_size = bisect(min, max, |normal| with(min, normal) >= target);
        let params = Params { chunk_size_min: min, normal_size, ..self };
        if (params.mean_on_random_data() / target - 1.0).abs() > 0.005 {
            let expected = "not possible with this max, which is too near";
            return Err(SpecError::new(NAME, "avg", mean, expected));
        }
        Ok(params)
    }

    /// Returns the mean on random data in bytes, by two geometric distributions over the steps.
    fn mean_on_random_data(&self) -> f64 {
        let Params { chunk_size_min: min, chunk_size_max: max, .. } = *self;
        let hard = self.normal_size.saturating_sub(min + 8).div_ceil(8);
        let all = max.saturating_sub(min + 8) / 8;
        let [hard_steps, easy_steps] = STEPS;
        let passed = |steps: f64, count: usize| power(1.0 - 1.0 / steps, count as u64);
        let hard = hard.min(all);
        let behind = easy_steps * (1.0 - passed(easy_steps, all - hard));
        let passes = passed(hard_steps, hard);
        (min + 8).min(max) as f64 + 8.0 * (hard_steps * (1.0 - passes) + passes * behind)
    }
}

impl ByteRule for Params {
    #[inline]
    fn find(&self, data: &[u8], value: impl Fn(u8) -> u8 + Copy) -> Option<usize> {
        let tail = data.get(self.chunk_size_min..)?;
        let distance = |byte: u8| (value(byte) ^ 0xaa).count_ones();
        let mut sum: u32 = tail.iter().take(8).map(|&byte| distance(byte)).sum();
        let mut equal = 0;
        let ends = (self.chunk_size_min + 16..).step_by(8);
        for (end, both) in ends.zip(tail.windows(16).step_by(8)) {
            let (old, new) = both.split_at(8);
            if old == new {
                equal += 1;
                if equal == self.low_entropy_steps {
                    return Some(end);
                }
                continue;
            }
            equal = 0;
            let mask = MASKS[usize::from(end - 8 >= self.normal_size)];
            for (&old, &new) in old.iter().zip(new) {
                if sum & mask == 0 {
                    return Some(end);
                }
                sum = sum + distance(new) - distance(old);
            }
        }
        None
    }
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let params = Params {
            chunk_size_min: 8,
            normal_size: 8,
            chunk_size_max: keys.optional_size("max")?.unwrap_or(CHUNK_SIZE_LIMIT),
            low_entropy_steps: keys.optional_number("lest")?.unwrap_or(LEST),
        };
        if keys.form() == "avg" {
            let mean = keys.size("avg")?;
            let chunk_size_max = match keys.given("max") {
                Some(_) => params.chunk_size_max,
                None => mean.saturating_mul(8),
            };
            return Params { chunk_size_max, ..params }.for_average(mean);
        }
        Ok(Params {
            chunk_size_min: keys.size("min")?,
            normal_size: keys.size("normal")?,
            ..params
        })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Params { chunk_size_min, normal_size, chunk_size_max, low_entropy_steps } = self;
        write!(f, "min={chunk_size_min},normal={normal_size},max={chunk_size_max}")?;
        if *low_entropy_steps != LEST {
            write!(f, ",lest={low_entropy_steps}")?;
        }
        Ok(())
    }

    /// Returns the end of the first step.
    fn chunk_size_min(&self) -> usize {
        self.chunk_size_min + 16
    }

    fn chunk_size_max(&self) -> Option<usize> {
        Some(self.chunk_size_max)
    }

    fn mean(&self) -> Option<f64> {
        Some(self.mean_on_random_data())
    }
}
