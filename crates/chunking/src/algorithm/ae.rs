//! AE, asymmetric extremum: a chunk ends at a fixed distance, the window, behind its most extreme
//! value.
//!
//! Source: Zhang et al., "A Fast Asymmetric Extremum Content Defined Chunking Algorithm for Data
//! Deduplication in Backup Storage Systems" (2017), algorithms 1 (AE) and 3 (AE-Opt2); Gregoriadis
//! et al., "A Thorough Investigation of Content-Defined Chunking Algorithms for Data
//! Deduplication", algorithm 2 and its code.
//!
//! The rule, for a chunk that starts at byte 0; the value at `i` is byte `i` and, if values have
//! several bytes, those behind it, with the first as the most significant:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! extreme = value 0;  at = 0
//! for i in 1..=n - bytes of a value:
//!     if value i is more extreme:  extreme = value i;  at = i
//!     else if i + 1 == lest and values 0 to i are all equal:  cut at i + 1     (AE-Opt2)
//!     else if i == at + window:  cut at i + 1  (`cut=after`), or at i  (`cut=before`)
//! cut at n
//! ```
//!
//! The first of equal values is the extreme one, so that a constant stretch is cut every `window +
//! 1` bytes. `cut=after` is the rule of both papers (their positions count from 1); dedup-bench
//! cuts before the byte. The paper does not say whether a value of several bytes is big- or
//! little-endian; here it compares as `memcmp` does. The last bytes of a stream, and of a largest
//! chunk, begin no value.
//!
//! AE-Opt1 (algorithm 2) is meant as another way to find the same cut-points, by not testing for
//! the end of the window before it can come; this implementation does the same. As printed,
//! algorithm 2 is a different rule: its inner loop stops at the first value equal to the extreme
//! one, and cuts `window` behind that value without looking at the bytes between.

use alloc::boxed::Box;
use core::fmt;

use super::blocks::{Above, Below, Blocks, Values};
pub use super::bytes::Cut;
use super::bytes::{BlockRule, byte_chunker};
use super::sequence::{Bytes, Numbers, Sequence};
use super::{
    Algorithm, CHUNK_SIZE_LIMIT, check_max, check_range, check_value_size, far_from_max,
    least_with_mean, power,
};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::kernel::Kernel;
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, SpecError};

const NAME: &str = "ae";

const ABOUT: About = About {
    name: NAME,
    title: "asymmetric extremum",
    rule: "A chunk ends a window behind the first of its most extreme values: once no value in the \
           window behind the greatest (or least) so far is more extreme. With `lest` a chunk that \
           begins with that many equal values ends there (AE-Opt2).",
    source: "Zhang et al., A Fast Asymmetric Extremum Content Defined Chunking Algorithm (2017), \
             algorithms 1 and 3; Gregoriadis et al., A Thorough Investigation, algorithm 2.",
    differences: "AE-Opt1 is how the cut-points are found; its printed form would cut elsewhere. The \
                  papers do not say how the bytes of a value count: here the first counts most. The \
                  last bytes of a stream and of a largest chunk begin no value.",
    good_at: "No smallest size is needed, and constant stretches become equal chunks.",
    bad_at: "Long stretches without a more extreme value: the window decides there, which knows \
             nothing of the content.",
    key: KeyUse::Permutation,
    parameters: &[
        Parameter::new("mode", "", "max or min", "The kind of extreme value."),
        Parameter::new(
            "window",
            "bytes",
            "1 to 1073741823",
            "The distance from the extreme value to the end (w).",
        ),
        Parameter::new("bytes", "bytes", "1, 2, 4 or 8", "The size of a value (S).").or("1"),
        Parameter::new(
            "cut",
            "",
            "after or before",
            "Cut after or before the byte that completes the window.",
        )
        .or("after"),
        Parameter::new(
            "lest",
            "bytes",
            "2 to window",
            "The low-entropy string threshold: number of equal values at the start that make a \
             chunk.",
        )
        .or("none"),
        Parameter::new("max", "bytes", "window + 1 to 1073741824", "The largest chunk.").or("none"),
    ],
    short_forms: &[
        ShortForm::new(
            "avg",
            &["mode", "bytes", "cut", "max"],
            "64 to 16777216",
            "Mean in bytes without max, which sets the window; mode max unless given. Chunks have no largest size unless max is given.",
        ),
        ShortForm::new(
            "paper-gregoriadis",
            &["max"],
            "512, 770, 1024 or from 2048 to 16777216",
            "Gregoriadis et al., section 4.2: from 2k on the window is the target - 256, below that \
             of their table 2. Table 4 prints these two cases swapped. The mean is the target.",
        ),
        ShortForm::new(
            "paper-zhang",
            &["mode", "bytes", "max"],
            "64 to 16777216",
            "Zhang et al., section 3.1: the window whose mean is this many bytes by their (e - 1) w, \
             to the nearest byte; with max eight times the target it is their AE_MAX_T. The real \
             mean for 8k is 5024 bytes, as that is w + 256, and with bytes=8 8493, as that is 1.78 w: \
             the formula takes values as never equal, and even so is 4 % off.",
        ),
        ShortForm::new(
            "paper-zhang-opt2",
            &["mode", "bytes", "lest", "max"],
            "64 to 16777216",
            "Their AE-Opt2 with that window, and lest an eighth of the target unless given, as in \
             section 4.2; they try a half and a quarter, too.",
        ),
    ],
    dialects: &[
        Dialect::new("mode=min", "AE_MIN; with max AE_MIN_T, as mode=max with max is AE_MAX_T."),
        Dialect::new("cut=before", "dedup-bench: that byte is the next chunk's first."),
    ],
};

/// The kind of values that are extreme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Greater values are more extreme: AE and AE_MAX in the papers.
    Maximum,
    /// Lesser values are more extreme: AE_MIN in the papers.
    Minimum,
}

/// The parameters of AE; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The kind of values that are extreme.
    pub mode: Mode,
    /// The distance from the most extreme value to the end of the chunk, at least 1.
    pub window: usize,
    /// The size of a value: 1, 2, 4 or 8. The paper's S.
    pub value_size: usize,
    /// The position of the cut-point relative to the byte that completes the window.
    pub cut: Cut,
    /// The low-entropy string threshold of AE-Opt2, from 2 to the window: if all values up to there
    /// are equal, the chunk ends there. `None` is AE.
    pub low_entropy_size: Option<usize>,
    /// The maximum chunk size, above the window; `None` for no limit. With a limit, the paper calls
    /// AE AE_MAX_T or AE_MIN_T.
    pub chunk_size_max: Option<usize>,
}

byte_chunker! {
    /// The chunker of AE.
    Ae
}

/// The mean chunk size in windows, if no two values are equal: e to the power of Euler's constant.
const MEAN_PER_WINDOW: f64 = 1.781_072_417_990_198;

impl Params {
    /// The smallest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MIN: usize = 64;

    /// The largest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MAX: usize = 16 * 1024 * 1024;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless each parameter is within its limits. No size may exceed
    /// [`CHUNK_SIZE_LIMIT`].
    pub fn check(&self) -> Result<(), SpecError> {
        check_range(NAME, "window", self.window, 1, CHUNK_SIZE_LIMIT - 1)?;
        check_value_size(NAME, self.value_size)?;
        if let Some(lest) = self.low_entropy_size {
            check_range(NAME, "lest", lest, 2, self.window.max(2))?;
        }
        check_max(NAME, self.window + 1, self.chunk_size_max)
    }

    /// Returns the parameters of `self` with the window changed so that the mean on random data is
    /// `mean` bytes.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`].
    pub fn for_average(self, mean: usize) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
        // The mean grows with the window, and is larger than the window.
        let mean_of = |window| Params { window, ..self }.mean_without_max();
        Ok(Params { window: least_with_mean(1, mean, mean as f64, mean_of), ..self })
    }

    /// Returns the setting of Gregoriadis et al., "A Thorough Investigation", section 4.2, for a
    /// target of 512, 770, 1024 or from 2048 bytes to [`Params::AVERAGE_MAX`], without a maximum
    /// size; `None` for any other target.
    ///
    /// The mean is within 1 % of the target. Table 4 prints the cases below and above 2 KiB
    /// swapped. The program of the paper takes one byte less at 770 and 5482, and one more at 2048.
    pub fn paper_gregoriadis(target: usize) -> Option<Params> {
        let window = match target {
            512 => 348,
            770 => 563,
            1024 => 793,
            2048..=Params::AVERAGE_MAX => target - 256,
            _ => return None,
        };
        Some(Params { window, ..PAPER })
    }

    /// Returns the parameters whose mean is `target` bytes according to the formula (e - 1) w of
    /// Zhang et al., section 3.1, without a maximum size.
    ///
    /// Their evaluation has other windows, which it does not print: those with the means of
    /// Rabin_0.25. With values of 1 byte, the real mean of a large window is the window plus 256
    /// bytes, far below the target. With values of 4 or 8 bytes, the mean is 4 % above the target.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `target` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`].
    pub fn paper_zhang(target: usize) -> Result<Params, SpecError> {
        Ok(Params { window: window_of_zhang("paper-zhang", target)?, ..PAPER })
    }

    /// Returns [`Params::paper_zhang`] with an eighth of `target` as the low-entropy string
    /// threshold: AE-Opt2 as in section 4.2 of Zhang et al.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Params::paper_zhang`].
    pub fn paper_zhang_opt2(target: usize) -> Result<Params, SpecError> {
        let window = window_of_zhang("paper-zhang-opt2", target)?;
        Ok(Params { window, low_entropy_size: Some(target / 8), ..PAPER })
    }

    /// Returns the mean chunk size in bytes on endless random data, without a maximum size and
    /// `lest`.
    ///
    /// For values of 1 and 2 bytes, the mean is computed by the chain over extreme values, as if
    /// neighbouring values shared no bytes. For longer values, of which hardly two are equal, it is
    /// `e^gamma * window`.
    fn mean_without_max(&self) -> f64 {
        let before_last = match self.value_size {
            1 => mean_position(self.window, 256),
            2 => mean_position(self.window, 65536),
            _ => (MEAN_PER_WINDOW - 1.0) * self.window as f64,
        };
        let last = match self.cut {
            Cut::After => 1.0,
            Cut::Before => 0.0,
        };
        before_last + self.window as f64 + last
    }

    #[inline(always)]
    fn find_extreme<S: Sequence>(&self, sequence: S) -> Option<usize> {
        let count = sequence.count();
        if count == 0 {
            return None;
        }
        let first = sequence.value(0);
        let (mut extreme, mut at) = (first, 0);
        if let Some(lest) = self.low_entropy_size
            && lest <= count
            && (1..lest).all(|i| sequence.value(i) == first)
        {
            return Some(lest);
        }
        let mut seen = 1;
        // Nearly all values that are more extreme than those before them are at the start, and each
        // would be a branch that is not predicted.
        if let Some((first, end)) = sequence.extreme_from::<false>(0, self.window) {
            (extreme, at, seen) = (sequence.value(first), first, end);
        }
        loop {
            // Only a more extreme value can come before the end of the window.
            let end = at + self.window;
            if sequence.is_last(extreme) {
                sequence.prefetch_next((end + 1).min(count), self.window);
            }
            match sequence.next_extreme(extreme, 0, seen..(end + 1).min(count)) {
                Some(found) => {
                    (extreme, at, seen) = (sequence.value(found.first), found.first, found.end);
                }
                None => return (end < count).then_some(end + self.cut.step()),
            }
        }
    }
}

/// The common part of the papers' settings. Each setting replaces the window by its own.
const PAPER: Params = Params {
    mode: Mode::Maximum,
    window: 1,
    value_size: 1,
    cut: Cut::After,
    low_entropy_size: None,
    chunk_size_max: None,
};

/// Returns the window whose mean is `target` bytes according to Zhang et al., to the nearest byte.
fn window_of_zhang(parameter: &'static str, target: usize) -> Result<usize, SpecError> {
    check_range(NAME, parameter, target, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
    #[expect(clippy::cast_possible_truncation, reason = "it is below the target")]
    let window = (target as f64 / (core::f64::consts::E - 1.0) + 0.5) as usize;
    Ok(window)
}

/// Returns the mean position of the most extreme value of a chunk, if there are `count` equally
/// likely values.
///
/// Let `q` be the share of values that are not above the extreme value so far. The next value above
/// it comes after `k` steps with the chance `q^(k-1) (1-q)`, if that is within the window, and is
/// any of the values above with equal chance. Otherwise the chunk ends.
///
/// From a certain number of values above on, one of them always comes within the window. From there
/// on the distance is the same for every lesser value: with the sum `s` of the distances of the
/// `above` values, it is `m = (count + s) / above`, and the next one, `(count + s + m) / (above +
/// 1)`, is `m` again.
fn mean_position(window: usize, count: usize) -> f64 {
    let window = window as u64;
    let steps = count as f64;
    // The sum of the distances that the extreme value still moves, from the greatest value down,
    // for which it is 0.
    let mut sum = 0.0;
    for above in 1..count {
        let (lesser_count, above) = ((count - above) as f64, above as f64);
        let q = 1.0 - above / steps;
        let stays = power(q, window);
        if stays < NEVER {
            return (sum + (steps + sum) / above * lesser_count) / steps;
        }
        // The mean of k, for k up to the window, times the chance of that.
        let step = (1.0 - stays) / (1.0 - q) - window as f64 * stays;
        sum += step + (1.0 - stays) * sum / above;
    }
    sum / steps
}

/// The chance below which an event changes no digit of a mean.
const NEVER: f64 = 1e-22;

impl BlockRule for Params {
    #[inline(always)]
    fn find<K: Kernel>(
        &self,
        kernel: K,
        _: bool,
        data: &[u8],
        values: impl Values,
    ) -> Option<usize> {
        let blocks = Blocks { kernel, data, values };
        match (self.value_size, self.mode) {
            (1, Mode::Maximum) => self.find_extreme(Bytes::<_, _, Above>::new(blocks)),
            (1, Mode::Minimum) => self.find_extreme(Bytes::<_, _, Below>::new(blocks)),
            (size, Mode::Maximum) => self.find_extreme(Numbers::<_, _, Above>::new(blocks, size)),
            (size, Mode::Minimum) => self.find_extreme(Numbers::<_, _, Below>::new(blocks, size)),
        }
    }
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let params = Params {
            mode: keys.word("mode", &[("max", Mode::Maximum), ("min", Mode::Minimum)])?,
            window: 1,
            value_size: keys.value_size()?,
            cut: keys.word("cut", Cut::WORDS)?,
            low_entropy_size: keys.optional_size("lest")?,
            chunk_size_max: keys.optional_size("max")?,
        };
        let paper = match keys.form() {
            "avg" => return params.for_average(keys.size("avg")?),
            "paper-gregoriadis" => keys.setting(Params::paper_gregoriadis)?,
            "paper-zhang" => Params::paper_zhang(keys.size("paper-zhang")?)?,
            "paper-zhang-opt2" => Params::paper_zhang_opt2(keys.size("paper-zhang-opt2")?)?,
            _ => return Ok(Params { window: keys.size("window")?, ..params }),
        };
        let low_entropy_size = params.low_entropy_size.or(paper.low_entropy_size);
        Ok(Params { window: paper.window, low_entropy_size, ..params })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            Mode::Maximum => "max",
            Mode::Minimum => "min",
        };
        write!(f, "mode={mode},window={}", self.window)?;
        if self.value_size != 1 {
            write!(f, ",bytes={}", self.value_size)?;
        }
        if self.cut == Cut::Before {
            write!(f, ",cut=before")?;
        }
        if let Some(lest) = self.low_entropy_size {
            write!(f, ",lest={lest}")?;
        }
        self.chunk_size_max.map_or(Ok(()), |max| write!(f, ",max={max}"))
    }

    fn chunk_size_min(&self) -> usize {
        let whole = match self.cut {
            Cut::After => self.window + 1,
            Cut::Before => self.window,
        };
        self.low_entropy_size.map_or(whole, |lest| lest.min(whole))
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.chunk_size_max
    }

    fn mean(&self) -> Option<f64> {
        let mean = self.mean_without_max();
        // Chunks larger than four means are one in thousands, and so are starts of equal values.
        let is_lest_rare = self.low_entropy_size.is_none_or(|lest| lest >= 4);
        far_from_max(mean, self.chunk_size_max, 4.0).filter(|_| is_lest_rare)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the mean position by the whole chain.
    fn mean_position_by_chain(window: usize, count: usize) -> f64 {
        let (mut sum_above, mut sum) = (0.0, 0.0);
        for above in 0..count {
            let (above, q) = (above as f64, 1.0 - above as f64 / count as f64);
            let moved = if above == 0.0 {
                0.0
            } else {
                let stays = power(q, window as u64);
                let step = (1.0 - stays) / (1.0 - q) - window as f64 * stays;
                step + (1.0 - stays) * sum_above / above
            };
            sum_above += moved;
            sum += moved;
        }
        sum / count as f64
    }

    #[test]
    fn mean_position_is_that_of_the_whole_chain() {
        for window in (1..300).chain((300..20_000).step_by(37)).chain([1 << 20, 1 << 24]) {
            let (found, expected) =
                (mean_position(window, 256), mean_position_by_chain(window, 256));
            assert!((found - expected).abs() < 1e-10, "{window}: {found}, not {expected}");
        }
        for window in [1, 100, 4096, 100_000] {
            let (found, expected) =
                (mean_position(window, 65_536), mean_position_by_chain(window, 65_536));
            assert!((found / expected - 1.0).abs() < 1e-10, "{window}: {found}, not {expected}");
        }
    }

    #[test]
    fn window_is_the_least_with_the_mean() {
        for value_size in [1, 4] {
            let params = Params { value_size, ..PAPER };
            for mean in (64..2000).chain((2000..30_000).step_by(29)) {
                let window = params.for_average(mean).expect("it is in the range").window;
                let mean_of = |window| Params { window, ..params }.mean_without_max();
                assert!(mean_of(window) >= mean as f64, "{mean}: {window}");
                assert!(mean_of(window - 1) < mean as f64, "{mean}: {window}");
            }
        }
    }
}
