//! MII, minimal incremental interval: a chunk ends as soon as a run of rising bytes reaches a given
//! length.
//!
//! Source: Zhang et al., "MII: A Novel Content Defined Chunking Algorithm for Finding Incremental
//! Data in Data Synchronization" (2019), in the form of Gregoriadis et al., "A Thorough
//! Investigation of Content-Defined Chunking Algorithms for Data Deduplication" (algorithm 4), and
//! of their code.
//!
//! The rule, for a chunk that starts at byte 0:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! run = 1  (`first=0`: 0 in the first chunk of the stream)
//! for i in 1..n:
//!     run = run + 1 if byte i > byte i - 1, else 1
//!     if run == length:  cut at i + 1
//! cut at n
//! ```
//!
//! `length` counts bytes, as do the code and equation 2 of Gregoriadis et al.; algorithm 4 counts
//! the steps between bytes. In their code the first chunk of a stream begins with a run of 0 and
//! all others with a run of 1, so that a run at the start of the stream needs one byte more. That
//! is `first=0`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::blocks::{Values, runs};
use super::bytes::{BlockRule, byte_chunker};
use super::{Algorithm, check_max, check_range, far_from_max, unreachable_average};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::kernel::{BLOCK_SIZE, Kernel};
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, SpecError};

const NAME: &str = "mii";

const ABOUT: About = About {
    name: NAME,
    title: "minimal incremental interval",
    rule: "A chunk ends as soon as its last bytes, `length` of them, each are greater than the one \
           before.",
    source: "Zhang et al., MII (2019); Gregoriadis et al., A Thorough Investigation, algorithm 4.",
    differences: "Length counts bytes, as in the code of Gregoriadis et al., where their algorithm \
                  counts steps.",
    good_at: "A change moves cut-points within a few bytes only; one comparison a byte.",
    bad_at: "Only few averages can be reached. Text, whose bytes rise often, is cut into chunks of \
             another size than random data.",
    key: KeyUse::Permutation,
    parameters: &[
        Parameter::new("length", "bytes", "2 to 32", "The rising bytes that end a chunk (w)."),
        Parameter::new(
            "first",
            "bytes",
            "0 or 1",
            "The run that the first chunk of a stream begins with; all other chunks begin with 1.",
        )
        .or("1"),
        Parameter::new("max", "bytes", "length to 1073741824", "The largest chunk.").or("none"),
    ],
    short_forms: &[
        ShortForm::new(
            "avg",
            &["max"],
            "within 2 % of 8, 31, 149, 888, 6232, 50461 or 463007",
            "Mean in bytes without max, which sets the length. Chunks have no largest size unless max is given.",
        ),
        ShortForm::new(
            "paper",
            &["first", "max"],
            "64 to 16777216",
            "The length whose mean by equation 2 of Gregoriadis et al. is nearest to this target; \
             first=0 is their code. The equation prints 130, 770 and 5482 bytes for lengths of 5, 6 \
             and 7, whose real means are 149, 888 and 6232.",
        ),
    ],
    dialects: &[Dialect::new("first=0", "The code of Gregoriadis et al.")],
};

/// The parameters of MII; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The number of rising bytes that end a chunk: 2 to 32.
    pub length: u32,
    /// The initial length of the run in the first chunk of a stream: 0 or 1.
    pub first_run: u32,
    /// The maximum chunk size; `None` for no limit.
    pub chunk_size_max: Option<usize>,
}

byte_chunker! {
    /// The chunker of MII.
    Mii
}

/// The means on random data of the lengths from [`LENGTH_FIRST`] on, in bytes: the solutions of the
/// chain over (run, last byte), as computed by the test below.
const MEANS: [f64; 7] =
    [7.990390, 30.576679, 149.183434, 887.598787, 6232.473030, 50460.506816, 463006.801527];

/// The first length with a mean in [`MEANS`].
const LENGTH_FIRST: u32 = 3;

impl Params {
    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless each parameter is within its limits.
    pub fn check(&self) -> Result<(), SpecError> {
        check_range(NAME, "length", self.length as usize, 2, 32)?;
        check_range(NAME, "first", self.first_run as usize, 0, 1)?;
        check_max(NAME, self.length as usize, self.chunk_size_max)
    }

    /// Returns the parameters of `self` with the length changed so that the mean on random data,
    /// without a maximum size, is within 2 % of `mean` bytes.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] if there is no such length; the error names the nearest means.
    pub fn for_average(self, mean: usize) -> Result<Params, SpecError> {
        let is_near = |reached: f64| (reached / mean as f64 - 1.0).abs() <= 0.02;
        match (LENGTH_FIRST..).zip(MEANS).find(|&(_, reached)| is_near(reached)) {
            Some((length, _)) => Ok(Params { length, ..self }),
            None => {
                #[expect(clippy::cast_possible_truncation, reason = "all are below a gigabyte")]
                let reachable: Vec<usize> =
                    MEANS.iter().map(|mean| (mean + 0.5) as usize).collect();
                Err(unreachable_average(NAME, mean, &reachable))
            }
        }
    }
}

impl Params {
    /// The smallest target of [`Params::paper`], in bytes.
    pub const TARGET_MIN: usize = 64;

    /// The largest target of [`Params::paper`], in bytes.
    pub const TARGET_MAX: usize = 16 * 1024 * 1024;

    /// Returns the parameters whose mean by equation 2 of Gregoriadis et al., "A Thorough
    /// Investigation", is nearest to `target` bytes, without a maximum size.
    ///
    /// The real mean of a length is up to 15 % above the result of the equation, as the authors
    /// also measured. The means of consecutive lengths are far apart.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `target` is from [`Params::TARGET_MIN`] to
    /// [`Params::TARGET_MAX`].
    pub fn paper(target: usize) -> Result<Params, SpecError> {
        check_range(NAME, "paper", target, Params::TARGET_MIN, Params::TARGET_MAX)?;
        let distance = |length: u32| (printed_mean(length) - target as f64).abs();
        // The mean of each length is at least twice that of the length before.
        let is_nearest = |&length: &u32| distance(length) <= distance(length + 1);
        let length = (2..32).find(is_nearest).unwrap_or(32);
        Ok(Params { length, first_run: 1, chunk_size_max: None })
    }
}

/// Returns the right side of equation 2 of Gregoriadis et al.: the number of strings of the length
/// for each one that rises, plus the length.
fn printed_mean(length: u32) -> f64 {
    let of_each = |place| 256.0 * f64::from(place + 1) / f64::from(256 - place);
    (0..length).map(of_each).product::<f64>() + f64::from(length)
}

impl BlockRule for Params {
    #[inline(always)]
    fn find<K: Kernel>(
        &self,
        kernel: K,
        is_first: bool,
        data: &[u8],
        values: impl Values,
    ) -> Option<usize> {
        // The number of rising pairs in a run. A run of 0 bytes becomes a run of 1 after the next
        // pair, whatever its bytes are, so one pair less is looked at.
        let count = self.length - 1;
        let skipped = if is_first { 1 - self.first_run as usize } else { 0 };
        let mut i = skipped;
        while let Some(bytes) = data.get(i..).and_then(|rest| rest.first_chunk()) {
            let ends = runs(values.compare(kernel, bytes).0, count);
            if ends != 0 {
                return Some(i + ends.trailing_zeros() as usize + 2);
            }
            // A run that ends behind these pairs began with the last of them, or later.
            i += BLOCK_SIZE + 1 - count as usize;
        }
        let rest = data.get(i..)?;
        let mut run = 0;
        for (k, pair) in rest.windows(2).enumerate() {
            run = if values.value(pair[0]) < values.value(pair[1]) { run + 1 } else { 0 };
            if run == count {
                return Some(i + k + 2);
            }
        }
        None
    }

    fn knows_first(&self) -> bool {
        self.first_run != 1
    }
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let params = Params {
            length: 2,
            first_run: keys.optional_number("first")?.unwrap_or(1),
            chunk_size_max: keys.optional_size("max")?,
        };
        match keys.form() {
            "avg" => params.for_average(keys.size("avg")?),
            "paper" => Ok(Params { length: Params::paper(keys.size("paper")?)?.length, ..params }),
            _ => Ok(Params { length: keys.number("length")?, ..params }),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "length={}", self.length)?;
        if self.first_run != 1 {
            write!(f, ",first={}", self.first_run)?;
        }
        self.chunk_size_max.map_or(Ok(()), |max| write!(f, ",max={max}"))
    }

    fn chunk_size_min(&self) -> usize {
        self.length as usize
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.chunk_size_max
    }

    fn mean(&self) -> Option<f64> {
        let index = self.length.checked_sub(LENGTH_FIRST)?;
        let mean = *MEANS.get(index as usize)?;
        far_from_max(mean, self.chunk_size_max, 8.0).filter(|_| self.first_run == 1)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    /// Returns the mean by the chain over (run, last byte). For each byte that begins a run, a row
    /// holds the mean number of bytes in the run and the chances that it ends before each byte
    /// instead of a cut. The linear equations are solved by elimination.
    fn mean(length: u32) -> f64 {
        let mut rows: Vec<Vec<f64>> = Vec::new();
        for first in 0..256 {
            let mut row = vec![0.0; 257];
            row[first] = 1.0;
            let mut chances = vec![0.0; 256];
            chances[first] = 1.0;
            for _ in 1..length {
                row[256] += chances.iter().sum::<f64>();
                let mut above = 0.0;
                for value in (0..256).rev() {
                    above += chances[value];
                    row[value] -= above / 256.0;
                }
                let mut below = 0.0;
                for chance in &mut chances {
                    let here = *chance;
                    *chance = below / 256.0;
                    below += here;
                }
            }
            rows.push(row);
        }
        for column in 0..256 {
            let pivot = rows[column].clone();
            for (index, row) in rows.iter_mut().enumerate() {
                let factor = if index == column { 0.0 } else { row[column] / pivot[column] };
                row.iter_mut().zip(&pivot).for_each(|(cell, pivot)| *cell -= factor * pivot);
            }
        }
        let solutions = (0..256).map(|index| rows[index][256] / rows[index][index]);
        1.0 + solutions.sum::<f64>() / 256.0
    }

    #[test]
    fn means_equal_solutions_of_chain() {
        for (length, frozen) in (LENGTH_FIRST..).zip(MEANS) {
            let mean = mean(length);
            assert!((mean / frozen - 1.0).abs() < 1e-6, "length {length}: {mean}, not {frozen}");
        }
    }
}
