//! AE, asymmetric extremum: a chunk ends a window behind its most extreme value.
//!
//! Source: Zhang et al., "A Fast Asymmetric Extremum Content Defined Chunking Algorithm for Data
//! Deduplication in Backup Storage Systems" (2017), algorithms 1 (AE) and 3 (AE-Opt2); Gregoriadis et
//! al., "A Thorough Investigation of Content-Defined Chunking Algorithms for Data Deduplication",
//! algorithm 2 and its code.
//!
//! The rule, for a chunk that starts at byte 0; the value at `i` is byte `i` and, where values have
//! more bytes, those behind it, the first counting most:
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
//! The first of equal values is the extreme one, so that a constant stretch is cut every `window + 1`
//! bytes. `cut=after` is what both papers say (their positions count from 1); dedup-bench cuts
//! before the byte. A value of several bytes is not said to be big- or little-endian in the paper; here
//! it compares as `memcmp` does. The last bytes of a stream, and of a largest chunk, begin no value.
//!
//! AE-Opt1 (algorithm 2) is meant as another way to find the same cut-points, by not asking for the
//! end of the window before it can come; that is how it is done here. As printed it is another rule:
//! its inner loop stops at the first value equal to the extreme one and cuts, unseen, `window` behind
//! that.

use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;

use super::blocks::{Above, Below, Blocks, Extreme, Values};
pub use super::bytes::Cut;
use super::bytes::{BlockRule, byte_chunker};
use super::{Algorithm, CHUNK_SIZE_LIMIT, bisect, check_max, check_range, far_from_max, power};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::kernel::Kernel;
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, Level, SpecError};

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
        Parameter::new("mode", "", "max or min", "Which values are extreme."),
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
            "Whether the byte that completes the window is the chunk's last.",
        )
        .or("after"),
        Parameter::new(
            "lest",
            "bytes",
            "2 to window",
            "The low-entropy string threshold: so many equal values at the start are a chunk.",
        )
        .or("none"),
        Parameter::new("max", "bytes", "window + 1 to 1073741824", "The largest chunk.").or("none"),
    ],
    short_forms: &[
        ShortForm::new(
            "avg",
            &["mode", "bytes", "cut", "max"],
            "64 to 16777216",
            "The window whose mean is this many bytes, were there no max; mode max unless given.",
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

/// Which values are extreme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Greater ones: the papers' AE and AE_MAX.
    Maximum,
    /// Lesser ones: the papers' AE_MIN.
    Minimum,
}

/// The parameters of AE; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// Which values are extreme.
    pub mode: Mode,
    /// How far behind its most extreme value a chunk ends, at least 1.
    pub window: usize,
    /// How many bytes a value has: 1, 2, 4 or 8. The paper's S.
    pub value_size: usize,
    /// Where the chunk ends.
    pub cut: Cut,
    /// AE-Opt2's low-entropy string threshold: if the values up to there are all equal, the chunk ends
    /// there. From 2 to the window; `None` is AE.
    pub low_entropy_size: Option<usize>,
    /// The largest chunk, above the window; `None` for no limit. With one the paper calls AE
    /// AE_MAX_T or AE_MIN_T.
    pub chunk_size_max: Option<usize>,
}

byte_chunker! {
    /// The chunker of AE.
    Ae
}

/// e to the power of Euler's constant: the mean chunk of values that are never equal, in windows.
const MEAN_PER_WINDOW: f64 = 1.781_072_417_990_198;

impl Params {
    /// The smallest mean that [`Params::for_average`] can give, in bytes.
    pub const AVERAGE_MIN: usize = 64;

    /// The largest mean that [`Params::for_average`] can give, in bytes.
    pub const AVERAGE_MAX: usize = 16 * 1024 * 1024;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// [`SpecError`] unless each is in its limits; no size may be above [`CHUNK_SIZE_LIMIT`].
    pub fn check(&self) -> Result<(), SpecError> {
        check_range(NAME, "window", self.window, 1, CHUNK_SIZE_LIMIT - 1)?;
        if !matches!(self.value_size, 1 | 2 | 4 | 8) {
            return Err(SpecError::new(NAME, "bytes", self.value_size, "must be 1, 2, 4 or 8"));
        }
        if let Some(lest) = self.low_entropy_size {
            check_range(NAME, "lest", lest, 2, self.window.max(2))?;
        }
        check_max(NAME, self.window + 1, self.chunk_size_max)
    }

    /// Returns the parameters whose mean on random data is `mean` bytes: those of `self` with
    /// another window.
    ///
    /// # Errors
    ///
    /// [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to [`Params::AVERAGE_MAX`].
    pub fn for_average(self, mean: usize) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
        // The mean grows with the window, and is above it.
        let is_enough = |window| Params { window, ..self }.mean_without_max() >= mean as f64;
        Ok(Params { window: bisect(1, mean, is_enough), ..self })
    }

    /// Returns the setting of Gregoriadis et al., "A Thorough Investigation", section 4.2, for a target
    /// of 512, 770, 1024 or from 2048 bytes to [`Params::AVERAGE_MAX`], without a largest size; `None`
    /// for another.
    ///
    /// The mean is within 1 % of the target. Table 4 prints the cases below and above 2 KiB swapped; and
    /// the program of the paper takes a byte less at 770 and 5482, and one more at 2048.
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

    /// Returns the parameters whose mean is `target` bytes by the (e - 1) w of Zhang et al., section 3.1,
    /// without a largest size.
    ///
    /// Their evaluation has other windows, which it does not print: those with the means that
    /// Rabin_0.25 had. With values of 1 byte the real mean of a large window is that and 256 bytes,
    /// far below the target; with values of 4 or 8 bytes it is 4 % above it.
    ///
    /// # Errors
    ///
    /// [`SpecError`] unless `target` is from [`Params::AVERAGE_MIN`] to [`Params::AVERAGE_MAX`].
    pub fn paper_zhang(target: usize) -> Result<Params, SpecError> {
        Ok(Params { window: window_of_zhang("paper-zhang", target)?, ..PAPER })
    }

    /// Returns [`Params::paper_zhang`] with an eighth of `target` as the low-entropy string threshold,
    /// AE-Opt2 as in section 4.2 of Zhang et al.
    ///
    /// # Errors
    ///
    /// Those of [`Params::paper_zhang`].
    pub fn paper_zhang_opt2(target: usize) -> Result<Params, SpecError> {
        let window = window_of_zhang("paper-zhang-opt2", target)?;
        Ok(Params { window, low_entropy_size: Some(target / 8), ..PAPER })
    }

    /// The mean chunk size in bytes on random data without end, had it no largest size and no `lest`.
    ///
    /// For values of 1 and 2 bytes by the chain over extreme values, as if neighbouring values shared
    /// no bytes; for longer ones, of which hardly two are equal, `e^gamma * window`.
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
    fn find_extreme(&self, sequence: impl Sequence) -> Option<usize> {
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
        loop {
            // Nothing but a more extreme value can come before the end of the window.
            let end = at + self.window;
            match sequence.first_beyond(extreme, at + 1..(end + 1).min(count)) {
                Some(i) => (extreme, at) = (sequence.value(i), i),
                None => return (end < count).then_some(end + self.cut.step()),
            }
        }
    }
}

/// The values of a chunk.
trait Sequence: Copy {
    type Value: PartialEq + Copy;

    fn count(self) -> usize;

    fn value(self, index: usize) -> Self::Value;

    /// Returns the first of `range` that is more extreme than `value`.
    fn first_beyond(self, value: Self::Value, range: Range<usize>) -> Option<usize>;
}

/// Values of a byte, of which those of `E` are more extreme.
#[derive(Clone, Copy)]
struct Bytes<'a, K, V, E> {
    blocks: Blocks<'a, K, V>,
    window: usize,
    extreme: PhantomData<E>,
}

impl<K: Kernel, V: Values, E: Extreme> Sequence for Bytes<'_, K, V, E> {
    type Value = u8;

    #[inline(always)]
    fn count(self) -> usize {
        self.blocks.data.len()
    }

    #[inline(always)]
    fn value(self, index: usize) -> u8 {
        self.blocks.value(index)
    }

    #[inline(always)]
    fn first_beyond(self, value: u8, range: Range<usize>) -> Option<usize> {
        if value == E::LAST {
            self.blocks.prefetch_next(range.end, self.window);
        }
        self.blocks.first_beyond::<E>(value, range)
    }
}

/// Values of several bytes, of which the greater are more extreme.
#[derive(Clone, Copy)]
struct Numbers<'a, V> {
    data: &'a [u8],
    values: V,
    size: usize,
    /// What all bits are combined with, so that it is the greater that are.
    flip: u64,
}

impl<V: Values> Sequence for Numbers<'_, V> {
    type Value = u64;

    fn count(self) -> usize {
        (self.data.len() + 1).saturating_sub(self.size)
    }

    fn value(self, index: usize) -> u64 {
        let bytes = self.data[index..index + self.size].iter();
        let whole = bytes.fold(0, |whole, &byte| whole << 8 | u64::from(self.values.value(byte)));
        whole ^ self.flip
    }

    fn first_beyond(self, value: u64, mut range: Range<usize>) -> Option<usize> {
        range.find(|&i| self.value(i) > value)
    }
}

/// What papers' settings have in common, but for the window.
const PAPER: Params = Params {
    mode: Mode::Maximum,
    window: 1,
    value_size: 1,
    cut: Cut::After,
    low_entropy_size: None,
    chunk_size_max: None,
};

/// Returns the window whose mean is `target` bytes by Zhang et al., to the nearest byte.
fn window_of_zhang(parameter: &'static str, target: usize) -> Result<usize, SpecError> {
    check_range(NAME, parameter, target, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
    #[expect(clippy::cast_possible_truncation, reason = "it is below the target")]
    let window = (target as f64 / (core::f64::consts::E - 1.0) + 0.5) as usize;
    Ok(window)
}

/// Returns the mean position of the most extreme of a chunk's values, of which `count` are equally
/// likely.
///
/// From an extreme value with `q` the share of values that are not above it, the next one above comes
/// after `k` steps with the chance `q^(k-1) (1-q)`, if that is within the window, and is any of those
/// above; the chunk ends otherwise.
fn mean_position(window: usize, count: usize) -> f64 {
    let window = window as u64;
    let steps = count as f64;
    // How far the extreme value still moves: from the greatest down; the sum is of those above.
    let (mut sum_above, mut sum) = (0.0, 0.0);
    for above in 0..count {
        let (above, q) = (above as f64, 1.0 - above as f64 / steps);
        let moved = if above == 0.0 {
            0.0
        } else {
            let stays = power(q, window);
            // The mean of k, where k is at most the window, times the chance of that.
            let step = (1.0 - stays) / (1.0 - q) - window as f64 * stays;
            step + (1.0 - stays) * sum_above / above
        };
        sum_above += moved;
        sum += moved;
    }
    sum / steps
}

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
            (1, Mode::Maximum) => {
                let extreme = PhantomData::<Above>;
                self.find_extreme(Bytes { blocks, window: self.window, extreme })
            }
            (1, Mode::Minimum) => {
                let extreme = PhantomData::<Below>;
                self.find_extreme(Bytes { blocks, window: self.window, extreme })
            }
            (size, mode) => {
                let flip = if mode == Mode::Maximum { 0 } else { u64::MAX };
                self.find_extreme(Numbers { data, values, size, flip })
            }
        }
    }

    fn has_levels(&self) -> bool {
        self.value_size == 1
    }
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let params = Params {
            mode: keys.word("mode", &[("max", Mode::Maximum), ("min", Mode::Minimum)])?,
            window: 1,
            value_size: keys.optional_number("bytes")?.map_or(1, |bytes| bytes as usize),
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

    fn check(&self) -> Result<(), SpecError> {
        self.check()
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
        // Larger chunks than four means are one in thousands, and so are such starts.
        let is_lest_rare = self.low_entropy_size.is_none_or(|lest| lest >= 4);
        far_from_max(mean, self.chunk_size_max, 4.0).filter(|_| is_lest_rare)
    }

    fn chunker(&self, material: Option<&KeyMaterial>, level: Level) -> Box<dyn Chunker> {
        Box::new(Ae::from_checked(*self, material, level))
    }
}
