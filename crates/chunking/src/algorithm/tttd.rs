//! TTTD: Rabin's fingerprint with two divisors, the second of which finds a position to fall back
//! to.
//!
//! Source: Eshghi and Tang, "A Framework for Analyzing and Improving Content-Based Chunking
//! Algorithms" (2005), the two thresholds, two divisors algorithm.
//!
//! The rule, for a chunk that starts at byte 0:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! first = the first byte at which a chunk of the minimum size can be cut, by `cut`
//! for i in first..n:
//!     hash = (the bytes of the window that ends with byte i as one number) modulo poly
//!     here = i + 1  (`cut=after`), or i  (`cut=before`)
//!     if hash modulo backup == remainder modulo backup:  fallback = here
//!     if hash modulo divisor == remainder:               cut at here
//! if there is a fallback, and n == max or `end=backup`:  cut at it
//! cut at n
//! ```
//!
//! The thresholds are `min` and `max`. The reduction modulo a polynomial is that of
//! [`rabin`](super::rabin); its result is taken as a number and divided. With `start=full`, only
//! full windows are tested, and a window may begin before `min`. With `start=cold`, nothing before
//! `first` is hashed, and the window fills from there, behind a single one.
//!
//! The paper uses the greatest remainder, which zeros do not leave, and takes the rest of a stream
//! as one chunk. dedup-bench uses the remainder 0, so that zeros are cut at every minimum size, and
//! cuts the rest of a stream at its fallback. Two of its properties are not followed here: without
//! a fallback it ignores the maximum size, and it looks at one byte beyond that size. Here the
//! maximum size always holds, and that byte is never looked at.
//!
//! # Mean
//!
//! After a chunk that ends at its fallback, nothing is left to be found from there to the chunk's
//! maximum size. The mean accounts for this where it reaches beyond the next minimum size.

use core::fmt;

pub use super::bytes::Cut;
use super::rabin::{POLYNOMIAL, Reduce, check_polynomial, check_window};
use super::{
    Algorithm, CHUNK_SIZE_LIMIT, bisect, check_range, check_sizes, constructors, debug_params,
    forward_chunk_sizes, paper, power,
};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::keys::Keys;
use crate::residue::Residue;
use crate::rolling::Rolling;
use crate::{Chunker, KeyMaterial, Level, SpecError};

const NAME: &str = "tttd";

const ABOUT: About = About {
    name: NAME,
    title: "two thresholds, two divisors",
    rule: "A chunk ends with the window whose fingerprint leaves the remainder when divided. A \
           smaller divisor finds more such windows: where the largest size is reached, the chunk \
           ends with the last of those, if there is one.",
    source: "Eshghi and Tang, A Framework for Analyzing and Improving Content-Based Chunking \
             Algorithms (2005); start=cold,cut=before,end=backup,remainder=0 is that of dedup-bench.",
    differences: "Any divisors, remainder, window and irreducible polynomial. The largest size \
                  holds without a fallback, too, and no byte behind it is looked at; in dedup-bench \
                  both are not so.",
    good_at: "Few chunks are cut by force at the largest size, so that it may be near the mean.",
    bad_at: "The fingerprint is slow, and bytes behind a fallback are hashed again.",
    key: KeyUse::Permutation,
    parameters: &[
        Parameter::new(
            "divisor",
            "",
            "2 to 1073741824, and to 2 to the degree of poly and to 8 times the window",
            "The divisor of the fingerprint (D).",
        ),
        Parameter::new(
            "backup",
            "",
            "1 to divisor - 1",
            "The divisor for fallback cut-points (D').",
        )
        .or("divisor / 2"),
        Parameter::new("window", "bytes", "1 to 65536", "The window."),
        Parameter::new(
            "poly",
            "",
            "irreducible, of degree 8 to 53, decimal or 0x...",
            "The polynomial, bit k the coefficient of x^k.",
        )
        .or("0x3da3358b4dc173"),
        Parameter::new(
            "remainder",
            "",
            "0 to divisor - 1",
            "The remainder of a match; for backup, this value modulo backup.",
        )
        .or("divisor - 1"),
        Parameter::new(
            "start",
            "",
            "full or cold",
            "Test only full windows, or all windows beyond the smallest size.",
        )
        .or("full"),
        Parameter::new("cut", "", "after or before", "Cut after or before the byte that is found.")
            .or("after"),
        Parameter::new(
            "end",
            "",
            "whole or backup",
            "The rest of a stream is one chunk, or is cut at its fallback.",
        )
        .or("whole"),
        Parameter::new("min", "bytes", "1 to 1073741824", "The smallest chunk (Tmin)."),
        Parameter::new(
            "max",
            "bytes",
            "min and, unless start=cold, window to 1073741824",
            "The largest chunk (Tmax).",
        ),
    ],
    short_forms: &[
        ShortForm::new(
            "avg",
            &["window", "poly", "start", "cut", "end", "max"],
            "256 to 16777216, above window and not above max",
            "The divisor that gives this mean, with sizes about as in the paper: min 0.45 and max \
             2.75 times the mean; window 48 unless given.",
        ),
        ShortForm::new(
            "paper",
            &[],
            "4k, 8k or 16k",
            "Udayashankar et al., SeqCDC, section 6: min half the average and max twice it, but \
             min 1k for 4k; what the paper leaves open, the average as the divisor, half of it as the \
             backup, the window of 48 and the dialect, is from dedup-bench, their code. Real means \
             4202, 9846, 19693 bytes.",
        ),
    ],
    dialects: &[Dialect::new(
        "remainder=0,start=cold,cut=before,end=backup",
        "dedup-bench: the rest of a stream is cut at its fallback, and the byte that is found is the \
         next chunk's first.",
    )],
};

/// The windows that are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Start {
    /// Only full windows.
    #[default]
    Full,
    /// All windows that begin behind the minimum size; a one stands in front of those that are not
    /// full.
    Cold,
}

/// The treatment of the rest of a stream in which only fallbacks are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum End {
    /// The rest is one chunk.
    #[default]
    Whole,
    /// The rest is cut at its last fallback.
    Backup,
}

/// The parameters of TTTD; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The divisor of the fingerprint: 2 to 2^30, but not above 2 to the degree of the polynomial
    /// or 2 to the number of bits in the window.
    pub divisor: u32,
    /// The divisor for positions to fall back to, at least 1 and below the divisor.
    pub backup_divisor: u32,
    /// The window, 1 byte to 64 KiB.
    pub window: usize,
    /// The irreducible polynomial, of degree 8 to 53; bit `k` is the coefficient of `x^k`.
    pub polynomial: u64,
    /// The remainder that a match leaves, below the divisor.
    pub remainder: u32,
    /// The windows that are tested.
    pub start: Start,
    /// The position of the cut-point relative to the byte that is found.
    pub cut: Cut,
    /// The treatment of the rest of a stream.
    pub end: End,
    /// The minimum chunk size, at least 1. If only full windows are tested, a chunk has at least a
    /// window, too.
    pub chunk_size_min: usize,
    /// The maximum chunk size, not below the minimum.
    pub chunk_size_max: usize,
}

impl Params {
    /// The smallest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MIN: usize = 256;

    /// The largest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MAX: usize = 16 * 1024 * 1024;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless each parameter is within its limits and the polynomial is
    /// irreducible. No size may exceed [`CHUNK_SIZE_LIMIT`].
    pub fn check(&self) -> Result<(), SpecError> {
        check_window(NAME, self.window)?;
        check_polynomial(NAME, self.polynomial)?;
        let bits_max = 30.min(self.polynomial.ilog2() as usize).min(8 * self.window);
        let divisor = self.divisor as usize;
        check_range(NAME, "divisor", divisor, 2, 1 << bits_max)?;
        check_range(NAME, "backup", self.backup_divisor as usize, 1, divisor - 1)?;
        check_range(NAME, "remainder", self.remainder as usize, 0, divisor - 1)?;
        let (min, max) = (self.chunk_size_min, self.chunk_size_max);
        check_sizes(NAME, min, self.chunk_size_min(), Some(max))
    }

    /// Returns the parameters of `self` changed so that the mean on random data is `mean` bytes:
    /// with an even divisor, half of it as the backup divisor, the greatest remainder, and 0.45
    /// times the mean as the minimum size.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`] and not above the maximum size, or if the window is too large for
    /// the mean.
    pub fn for_average(self, mean: usize) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
        check_range(NAME, "max", self.chunk_size_max, mean, CHUNK_SIZE_LIMIT)?;
        #[expect(clippy::cast_possible_truncation, reason = "it is at most 2^29")]
        let of = |half: usize| Params {
            divisor: 2 * half as u32,
            backup_divisor: half as u32,
            remainder: 2 * half as u32 - 1,
            chunk_size_min: mean * 9 / 20,
            ..self
        };
        let target = mean as f64;
        let params = of(bisect(1, 1 << 29, |half| of(half).mean() >= target));
        if params.mean() > target * 1.005 {
            let expected = "not possible with this window, which is too large";
            return Err(SpecError::new(NAME, "avg", mean, expected));
        }
        Ok(params)
    }

    /// Returns the setting of Udayashankar et al., "SeqCDC", section 6, for an expected average of
    /// 4, 8 or 16 KiB, with divisors, window and dialect of their code, dedup-bench; `None` for any
    /// other average.
    ///
    /// The mean is 3 to 20 % above the expected average; see [`Params::mean`].
    pub fn paper(nominal_size: usize) -> Option<Params> {
        let (chunk_size_min, chunk_size_max) = paper::sizes(nominal_size)?;
        let divisor = 1 << nominal_size.ilog2();
        Some(Params {
            divisor,
            backup_divisor: divisor / 2,
            window: 48,
            polynomial: POLYNOMIAL,
            remainder: 0,
            start: Start::Cold,
            cut: Cut::Before,
            end: End::Backup,
            chunk_size_min,
            chunk_size_max,
        })
    }

    /// Returns the mean chunk size in bytes on endless random data.
    ///
    /// The computation takes the fingerprints as independent from byte to byte, and a chunk behind
    /// several that end at a fallback like one behind a single such chunk. The result is within 0.5
    /// % of the truth if the minimum size is a quarter of the mean or more, and within 3 %
    /// otherwise.
    pub fn mean(&self) -> f64 {
        let divisor = f64::from(self.divisor);
        let backup = f64::from(self.backup_divisor);
        let common = f64::from(greatest_common_divisor(self.divisor, self.backup_divisor));
        // The chances that a position is not a cut-point, and that it is then no fallback.
        let found = 1.0 / divisor;
        let fallback = (1.0 / backup - common / (divisor * backup)) / (1.0 - found);
        let (passes, no_fallback) = (1.0 - found, 1.0 - fallback);
        let max = self.chunk_size_max;
        let tests_from = |first: usize| (max + 1 - first) as u64;
        // The mean of the chunks whose positions are tested from a size of `first` on.
        let mean_from = |first: usize| {
            let count = tests_from(first);
            let (passed, never) = (power(passes, count), power(no_fallback, count));
            // The distance from the last fallback to the maximum size; 0 if there is no fallback.
            let back = no_fallback * (1.0 - never) / fallback - count as f64 * never;
            first as f64 + passes * (1.0 - passed) / found - passed * (1.0 + back)
        };
        // Behind the one, fewer bytes than this cannot leave such a remainder.
        let bytes = match self.start {
            Start::Full => 1,
            Start::Cold => (self.divisor - 1).ilog2() as usize / 8 + 1,
        };
        let first = (self.chunk_size_min() + bytes - 1).min(max);
        // The ratio of chunks that begin this far in front of bytes known to contain nothing, to
        // all other chunks.
        let is_known = |from: usize| power(no_fallback, from as u64);
        let range = if max - first > first { is_known(first) - is_known(max - first) } else { 0.0 };
        let share = power(passes, tests_from(first)) * range;
        if share < 1e-9 {
            return mean_from(first);
        }
        // The mean of the known bytes, whose distribution is geometric except for its end.
        let span = (max - first - first) as f64;
        let beyond = no_fallback / fallback - span * is_known(max - first) / range;
        #[expect(clippy::cast_possible_truncation, reason = "it is the size of a chunk")]
        let known = first + beyond.clamp(0.0, span) as usize;
        (mean_from(first) + share * mean_from(known + 1)) / (1.0 + share)
    }
}

fn greatest_common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let params = Params {
            divisor: 2,
            backup_divisor: 1,
            window: keys.optional_size("window")?.unwrap_or(48),
            polynomial: keys.bits("poly", POLYNOMIAL)?,
            remainder: 0,
            start: keys.word("start", &[("full", Start::Full), ("cold", Start::Cold)])?,
            cut: keys.word("cut", Cut::WORDS)?,
            end: keys.word("end", &[("whole", End::Whole), ("backup", End::Backup)])?,
            chunk_size_min: 1,
            chunk_size_max: 1,
        };
        let max = keys.optional_size("max")?;
        if keys.form() == "paper" {
            return keys.setting(Params::paper);
        }
        if keys.form() == "avg" {
            let mean = keys.size("avg")?;
            let chunk_size_max = max.unwrap_or(mean.saturating_mul(11) / 4);
            return Params { chunk_size_max, ..params }.for_average(mean);
        }
        let divisor = keys.number("divisor")?;
        Ok(Params {
            divisor,
            backup_divisor: keys.optional_number("backup")?.unwrap_or(divisor / 2),
            remainder: keys.optional_number("remainder")?.unwrap_or(divisor.saturating_sub(1)),
            chunk_size_min: keys.size("min")?,
            chunk_size_max: keys.size("max")?,
            ..params
        })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "divisor={}", self.divisor)?;
        if self.backup_divisor != self.divisor / 2 {
            write!(f, ",backup={}", self.backup_divisor)?;
        }
        write!(f, ",window={}", self.window)?;
        if self.polynomial != POLYNOMIAL {
            write!(f, ",poly={:#x}", self.polynomial)?;
        }
        if self.remainder != self.divisor - 1 {
            write!(f, ",remainder={}", self.remainder)?;
        }
        if self.start == Start::Cold {
            write!(f, ",start=cold")?;
        }
        if self.cut == Cut::Before {
            write!(f, ",cut=before")?;
        }
        if self.end == End::Backup {
            write!(f, ",end=backup")?;
        }
        write!(f, ",min={},max={}", self.chunk_size_min, self.chunk_size_max)
    }

    fn chunk_size_min(&self) -> usize {
        match self.start {
            Start::Full => self.chunk_size_min.max(self.window),
            Start::Cold => self.chunk_size_min,
        }
    }

    fn chunk_size_max(&self) -> Option<usize> {
        Some(self.chunk_size_max)
    }

    fn mean(&self) -> Option<f64> {
        Some(self.mean())
    }
}

/// The chunker of TTTD.
#[derive(Clone)]
pub struct Tttd {
    params: Params,
    rolling: Rolling<Reduce>,
    residue: Residue,
    backup_residue: Residue,
}

constructors!(Tttd);

impl Tttd {
    pub(crate) fn from_checked(params: Params, material: Option<&KeyMaterial>, _: Level) -> Tttd {
        let remainder = u64::from(params.remainder);
        let backup_divisor = u64::from(params.backup_divisor);
        Tttd {
            params,
            rolling: Reduce::new(params.polynomial).rolling(params.window, material),
            residue: Residue::new(params.divisor.into(), remainder),
            backup_residue: Residue::new(backup_divisor, remainder % backup_divisor),
        }
    }
}

impl Chunker for Tttd {
    forward_chunk_sizes!();

    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        let max = self.params.chunk_size_max;
        let size = data.len().min(max);
        let is_complete = !more || size == max;
        let data = &data[..size];
        let step = self.params.cut.step();
        let first = self.chunk_size_min() - step;
        let mut fallback = None;
        let matches = |at, hash| {
            if self.backup_residue.matches(hash) {
                fallback = Some(at + step);
            }
            self.residue.matches(hash)
        };
        let found = match self.params.start {
            Start::Full => self.rolling.find(data, first, matches),
            Start::Cold => self.rolling.find_behind_one(data, first, first, matches),
        };
        if let Some(at) = found {
            return Some(at + step);
        }
        if !is_complete || size == 0 {
            return None;
        }
        let takes_fallback = size == max || self.params.end == End::Backup;
        Some(fallback.filter(|_| takes_fallback).unwrap_or(size))
    }
}

debug_params!(Tttd);
