//! ronomon: FastCDC in the form of the deduplication module of ronomon, with a hash of 31 bits that
//! moves right.
//!
//! Source: crate fastcdc 5.0.0, module `ronomon`, a port of ronomon/deduplication; after Xia et
//! al., "FastCDC" (2016).
//!
//! The rule, for a chunk that starts at byte 0:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! if n <= min:  cut at n
//! bits = log2(average), rounded;  center = average - min(average, min + min / 2 rounded up)
//! hash = 0
//! for i in min..n:
//!     hash = hash / 2 + TABLE[byte i]
//!     if the lowest bits + 1 (i < center), or bits - 1 (i >= center), of hash are 0:  cut at i + 1
//! cut at n
//! ```
//!
//! The table is made from a key stream; `examples/tables_of_others.rs` prints it.

mod table;

use alloc::boxed::Box;
use core::fmt;

use super::{
    Algorithm, CHUNK_SIZE_LIMIT, bisect, check_range, constructors, debug_params,
    forward_chunk_sizes, power, rounded_log2,
};
use crate::about::{About, KeyUse, Parameter, ShortForm};
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, Level, SpecError};
use table::TABLE;

const NAME: &str = "ronomon";

const ABOUT: About = About {
    name: NAME,
    title: "FastCDC of ronomon",
    rule: "A chunk ends where the lowest bits of a rolling hash are zero: more bits up to a center, \
           fewer after it.",
    source: "Crate fastcdc 5.0.0, module ronomon, after ronomon/deduplication and Xia et al., FastCDC.",
    differences: "None.",
    good_at: "Cut-points equal to those of ronomon, and of PyPI's fastcdc.",
    bad_at: "The average is nominal: the mean on random data differs. The hash needs a shift and \
             an addition per byte, each waiting for the other.",
    key: KeyUse::Table,
    parameters: &[
        Parameter::new("min", "bytes", "64 to 67108864", "The smallest chunk."),
        Parameter::new("average", "bytes", "256 to 268435456", "The nominal average."),
        Parameter::new("max", "bytes", "above min, 1024 to 1073741824", "The largest chunk."),
    ],
    short_forms: &[ShortForm::new(
        "avg",
        &[],
        "1024 to 16777216",
        "Mean in bytes, which sets the sizes; the largest is eight times the mean.",
    )],
    dialects: &[],
};

/// The parameters of ronomon; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The minimum chunk size: 64 to 2^26.
    pub chunk_size_min: usize,
    /// The nominal average, which determines center and bits: 256 to 2^28.
    pub nominal_average: usize,
    /// The maximum chunk size, above the minimum: 1024 to 2^30.
    pub chunk_size_max: usize,
}

impl Params {
    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless each parameter is within its limits.
    pub fn check(&self) -> Result<(), SpecError> {
        check_range(NAME, "min", self.chunk_size_min, 64, 1 << 26)?;
        check_range(NAME, "average", self.nominal_average, 256, 1 << 28)?;
        let low = (self.chunk_size_min + 1).max(1024);
        check_range(NAME, "max", self.chunk_size_max, low, CHUNK_SIZE_LIMIT)
    }

    /// Returns parameters whose mean on random data is within 1 % of `mean` bytes.
    ///
    /// The minimum size is a quarter of the nominal average if possible, as with the defaults of
    /// the source. Otherwise the center lies below the minimum size, and only the easier mask is
    /// used.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `mean` is from 1024 to 16 MiB.
    pub fn for_average(mean: usize) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, 1024, 1 << 24)?;
        let chunk_size_max = 8 * mean;
        let target = mean as f64;
        let is_near = |params: &Params| (params.mean_on_random_data() / target - 1.0).abs() < 0.01;
        for bits in mean.ilog2() - 1..=mean.ilog2() + 1 {
            // All averages in this range have these bits.
            let (low, high) = ((1usize << bits) * 5 / 7, (1usize << bits) * 7 / 5);
            let of = |nominal_average: usize| Params {
                chunk_size_min: nominal_average / 4,
                nominal_average,
                chunk_size_max,
            };
            let params = of(bisect(low, high, |each| of(each).mean_on_random_data() >= target));
            if is_near(&params) {
                return Ok(params);
            }
        }
        for bits in mean.ilog2() - 1..=mean.ilog2() + 1 {
            let nominal_average = 1 << bits;
            let of =
                |chunk_size_min: usize| Params { chunk_size_min, nominal_average, chunk_size_max };
            let params = of(bisect(nominal_average / 2, mean, |each| {
                of(each).mean_on_random_data() >= target
            }));
            if is_near(&params) {
                return Ok(params);
            }
        }
        Err(SpecError::new(NAME, "avg", mean, "cannot be reached"))
    }

    /// Returns the number of bits from which both masks differ by one.
    fn bits(&self) -> u32 {
        rounded_log2(self.nominal_average)
    }

    /// Returns the size at which the mask changes.
    fn center(&self) -> usize {
        self.nominal_average.saturating_sub(self.chunk_size_min + self.chunk_size_min.div_ceil(2))
    }

    /// Returns the mean on random data in bytes, by one geometric distribution up to the center and
    /// another behind it.
    fn mean_on_random_data(&self) -> f64 {
        let (min, max) = (self.chunk_size_min, self.chunk_size_max);
        let center = self.center().clamp(min, max);
        let chance = |bits: u32| 1.0 / (1u64 << bits) as f64;
        let (hard, easy) = (chance(self.bits() + 1), chance(self.bits() - 1));
        let passed = power(1.0 - hard, (center - min) as u64);
        let behind = (1.0 - power(1.0 - easy, (max - center) as u64)) / easy;
        min as f64 + (1.0 - passed) / hard + passed * behind
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
            nominal_average: keys.size("average")?,
            chunk_size_max: keys.size("max")?,
        })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Params { chunk_size_min, nominal_average, chunk_size_max } = self;
        write!(f, "min={chunk_size_min},average={nominal_average},max={chunk_size_max}")
    }

    /// Returns one byte more than `min`, because the source first cuts behind the byte at `min`.
    /// Only the last chunk of a stream may be smaller.
    fn chunk_size_min(&self) -> usize {
        self.chunk_size_min + 1
    }

    fn chunk_size_max(&self) -> Option<usize> {
        Some(self.chunk_size_max)
    }

    fn mean(&self) -> Option<f64> {
        Some(self.mean_on_random_data())
    }
}

/// The chunker of ronomon.
#[derive(Clone)]
pub struct Ronomon {
    params: Params,
    table: Box<[u32; 256]>,
}

constructors!(Ronomon);

impl Ronomon {
    pub(crate) fn from_checked(
        params: Params,
        material: Option<&KeyMaterial>,
        _: Level,
    ) -> Ronomon {
        let mut table = Box::new(TABLE);
        if let Some(material) = material {
            for (entry, secret) in table.iter_mut().zip(*material.table()) {
                *entry = u32::try_from(secret & 0x7fff_ffff).unwrap_or(0);
            }
        }
        Ronomon { params, table }
    }
}

impl Chunker for Ronomon {
    forward_chunk_sizes!();

    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        let Params { chunk_size_min: min, chunk_size_max: max, .. } = self.params;
        let end = data.len().min(max);
        let bits = self.params.bits();
        let switch = self.params.center().clamp(min, max).min(end);
        let mut hash = 0;
        let mut scan = |from: usize, to: usize, bits: u32| {
            let found = data.get(from..to)?.iter().position(|&byte| {
                hash = (hash >> 1) + self.table[usize::from(byte)];
                hash & ((1 << bits) - 1) == 0
            });
            found.map(|at| from + at + 1)
        };
        let found = scan(min, switch, bits + 1).or_else(|| scan(switch.max(min), end, bits - 1));
        let is_complete = !more || end == max;
        found.or((is_complete && end > 0).then_some(end))
    }
}

debug_params!(Ronomon);
