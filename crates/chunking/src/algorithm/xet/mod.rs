//! xet: the gear hash with three sizes, as Xet stores cut.
//!
//! Source: huggingface/xet-core, `Chunker`, with the table and the hash of crate gearhash 0.1.4.
//!
//! The rule, for a chunk that starts at byte 0:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! hash = 0
//! for i in min - 65 (or 0) .. n:
//!     hash = 2 * hash + TABLE[byte i], modulo 2^64
//!     if i + 1 >= min and the highest log2(target) bits of hash are 0:  cut at i + 1
//! cut at n
//! ```
//!
//! xet-core has `min = target / 8` and `max = 2 * target`, with a target of 64 KiB in use.

mod table;

use alloc::boxed::Box;
use core::fmt;

use super::{Algorithm, CHUNK_SIZE_LIMIT, bisect, check_range, constructors, power};
use crate::about::{About, KeyUse, Parameter, ShortForm};
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, SpecError};
use table::TABLE;

const NAME: &str = "xet";

const ABOUT: About = About {
    name: NAME,
    title: "the gear hash of Xet",
    rule: "A chunk ends, from its smallest size on, where the highest bits of the gear hash of its \
           last 64 bytes are zero.",
    source: "huggingface/xet-core, Chunker, with crate gearhash 0.1.4.",
    differences: "None; there smallest and largest size follow from the target.",
    good_at: "Cut-points equal to those of Xet.",
    bad_at: "The target is not the mean; the largest size, twice the target, cuts a seventh of the \
             chunks of random data.",
    key: KeyUse::Table,
    parameters: &[
        Parameter::new("min", "bytes", "1 to max", "The smallest chunk."),
        Parameter::new("target", "bytes", "a power of two, 2 to 1073741824", "2 to the bits."),
        Parameter::new("max", "bytes", "min to 1073741824", "The largest chunk."),
    ],
    short_forms: &[ShortForm::new(
        "avg",
        &[],
        "512 to 16777216",
        "The sizes whose mean is this many bytes; the largest is twice the target.",
    )],
    dialects: &[],
};

/// The parameters of xet; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The smallest chunk, at least 1.
    pub chunk_size_min: usize,
    /// A power of two from 2 on: one in so many places ends a chunk.
    pub target: usize,
    /// The largest chunk, not below the smallest.
    pub chunk_size_max: usize,
}

impl Params {
    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// [`SpecError`] unless each is in its limits.
    pub fn check(&self) -> Result<(), SpecError> {
        check_range(NAME, "target", self.target, 2, CHUNK_SIZE_LIMIT)?;
        if !self.target.is_power_of_two() {
            return Err(SpecError::new(NAME, "target", self.target, "must be a power of two"));
        }
        check_range(NAME, "max", self.chunk_size_max, 1, CHUNK_SIZE_LIMIT)?;
        check_range(NAME, "min", self.chunk_size_min, 1, self.chunk_size_max)
    }

    /// Returns parameters whose mean on random data is `mean` bytes: a target from half of it to all
    /// of it, twice that as the largest size, and the smallest size that fits.
    ///
    /// # Errors
    ///
    /// [`SpecError`] unless `mean` is from 512 to 16 MiB.
    pub fn for_average(mean: usize) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, 512, 1 << 24)?;
        let target = 1 << mean.ilog2();
        let of = |chunk_size_min| Params { chunk_size_min, target, chunk_size_max: 2 * target };
        Ok(of(bisect(1, mean, |min| of(min).mean_on_random_data() >= mean as f64)))
    }

    /// A geometric law from the smallest size on.
    fn mean_on_random_data(&self) -> f64 {
        let before = self.chunk_size_min - 1;
        let target = self.target as f64;
        let passed = power(1.0 - 1.0 / target, (self.chunk_size_max - before) as u64);
        before as f64 + (1.0 - passed) * target
    }
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        if keys.form() == "avg" {
            return Params::for_average(keys.size("avg")?);
        }
        Ok(Params {
            chunk_size_min: keys.size("min")?,
            target: keys.size("target")?,
            chunk_size_max: keys.size("max")?,
        })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Params { chunk_size_min, target, chunk_size_max } = self;
        write!(f, "min={chunk_size_min},target={target},max={chunk_size_max}")
    }

    fn check(&self) -> Result<(), SpecError> {
        self.check()
    }

    fn chunk_size_min(&self) -> usize {
        self.chunk_size_min
    }

    fn chunk_size_max(&self) -> Option<usize> {
        Some(self.chunk_size_max)
    }

    fn mean(&self) -> Option<f64> {
        Some(self.mean_on_random_data())
    }

    fn chunker(&self, material: Option<&KeyMaterial>) -> Box<dyn Chunker> {
        Box::new(Xet::from_checked(*self, material))
    }
}

/// The chunker of xet.
#[derive(Clone)]
pub struct Xet {
    params: Params,
    table: Box<[u64; 256]>,
}

constructors!(Xet);

impl Xet {
    fn from_checked(params: Params, material: Option<&KeyMaterial>) -> Xet {
        Xet { params, table: material.map_or_else(|| Box::new(TABLE), KeyMaterial::table) }
    }
}

impl Chunker for Xet {
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        let Params { chunk_size_min: min, target, chunk_size_max: max } = self.params;
        let end = data.len().min(max);
        let is_complete = !more || end == max;
        if end >= min {
            let shift = 64 - target.ilog2();
            let step =
                |hash: u64, &byte: &u8| (hash << 1).wrapping_add(self.table[usize::from(byte)]);
            let mut hash = data[min.saturating_sub(65)..min - 1].iter().fold(0, step);
            let found = data[min - 1..end].iter().position(|byte| {
                hash = step(hash, byte);
                hash >> shift == 0
            });
            if let Some(at) = found {
                return Some(min + at);
            }
        }
        (is_complete && end > 0).then_some(end)
    }

    fn chunk_size_min(&self) -> usize {
        self.params.chunk_size_min
    }

    fn chunk_size_max(&self) -> Option<usize> {
        Some(self.params.chunk_size_max)
    }
}

impl fmt::Debug for Xet {
    /// Leaves the table out, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Xet").field("params", &self.params).finish_non_exhaustive()
    }
}
