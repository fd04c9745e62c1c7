//! MAXP: a chunk begins at a value that is the maximum of a window on both sides.
//!
//! Source: Bjorner et al., "Content-dependent chunking for differential compression, the local
//! maximum approach" (2010); Zhang et al., AE (2017), section 2; the released code of Udayashankar
//! et al. (dedup-bench).
//!
//! The rule, for a chunk that starts at byte 0; the value at `i` is byte `i` and, if values have
//! several bytes, those behind it, with the first as the most significant:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! v = n - (bytes of a value - 1)
//! for c in window..v, while c + window < v - 1  (`form=released`), or < v  (`form=strict`):
//!     if value c is greater than each of the `window` values behind it, and
//!        not below (`released`), or greater than (`strict`), each of the `window` values before it:
//!         cut at c
//! cut at n
//! ```
//!
//! The papers require strict maxima on both sides. The released code allows equal bytes on the
//! left, and ignores the last byte that could complete a window. Both forms need no state: within a
//! window behind a cut-point no value can be a maximum, and the values before a cut-point are in no
//! later window. The cut-points are therefore the same as without restarting at each of them,
//! except for those that a maximum size makes.
//!
//! The AE paper takes values of eight bytes as its example, for AE and for MAXP (section 3.1), and
//! leaves open whether they are big- or little-endian; here they compare as `memcmp` does. The
//! released code has values of one byte only. The last bytes of a stream, and of a largest chunk,
//! begin no value.

use alloc::boxed::Box;
use core::fmt;

use super::blocks::{AHEAD, Above, Blocks, Values};
use super::bytes::{BlockRule, byte_chunker};
use super::sequence::{Bytes, Numbers, Sequence};
use super::{
    Algorithm, CHUNK_SIZE_LIMIT, bisect, check_max, check_range, check_value_size, far_from_max,
    least_with_mean, power,
};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::kernel::{Extremes, Kernel};
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, SpecError};

const NAME: &str = "maxp";

const ABOUT: About = About {
    name: NAME,
    title: "local maxima",
    rule: "A chunk begins at a value that is greater than all values of a window behind it, and \
           than those of a window before it, of which the released form allows equal ones. Values \
           are bytes, or several bytes that begin at each byte.",
    source: "Bjorner et al., the local maximum approach (2010); Zhang et al., AE (2017), section 2; \
             the released code (dedup-bench).",
    differences: "None from the released code; the papers' text is form=strict. The papers do not say \
                  how the bytes of a value count: here the first counts most.",
    good_at: "Nothing is carried over a cut-point: a change is forgotten within two windows.",
    bad_at: "Constant and slowly changing data has no maxima, and is cut at the largest size only.",
    key: KeyUse::Permutation,
    parameters: &[
        Parameter::new("window", "bytes", "1 to 536870911", "The window on each side (w)."),
        Parameter::new("bytes", "bytes", "1, 2, 4 or 8", "The size of a value (S).").or("1"),
        Parameter::new(
            "form",
            "",
            "released or strict",
            "Treatment of equal values on the left, and of the end of a stream.",
        )
        .or("released"),
        Parameter::new("max", "bytes", "2 * window + bytes to 1073741824", "The largest chunk.")
            .or("none"),
    ],
    short_forms: &[ShortForm::new(
        "avg",
        &["bytes", "form", "max"],
        "2048 to 1048576",
        "Mean in bytes without max, which sets the window. Chunks have no largest size unless max is given.",
    )],
    dialects: &[
        Dialect::new("form=strict", "The papers' text: strictly greater on both sides."),
        Dialect::new("bytes=8", "Values of eight bytes, the example of the AE paper."),
    ],
};

/// The form of the rule; the module documentation gives the differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// The form of the released code.
    Released,
    /// The form in the texts of the papers.
    Strict,
}

/// The parameters of MAXP; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The window on each side in bytes, at least 1.
    pub window: usize,
    /// The size of a value: 1, 2, 4 or 8. The AE paper's S.
    pub value_size: usize,
    /// The form of the rule.
    pub form: Form,
    /// The maximum chunk size, at least two windows and a value; `None` for no limit.
    pub chunk_size_max: Option<usize>,
}

byte_chunker! {
    /// The chunker of MAXP.
    Maxp
}

impl Params {
    /// The smallest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MIN: usize = 2048;

    /// The largest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MAX: usize = 1024 * 1024;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless each parameter is within its limits. No size may exceed
    /// [`CHUNK_SIZE_LIMIT`].
    pub fn check(&self) -> Result<(), SpecError> {
        check_range(NAME, "window", self.window, 1, (CHUNK_SIZE_LIMIT - 1) / 2)?;
        check_value_size(NAME, self.value_size)?;
        check_max(NAME, 2 * self.window + self.value_size, self.chunk_size_max)
    }

    /// Returns the parameters of `self` with the window changed so that the mean on random data,
    /// without a maximum size, is `mean` bytes.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`].
    pub fn for_average(self, mean: usize) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
        let mean_of = |window| Params { window, ..self }.mean_without_max();
        // The mean of values of one byte rises exponentially.
        let window = match self.value_size {
            1 => bisect(1, mean / 2, |window| mean_of(window) >= mean as f64),
            _ => least_with_mean(1, mean, mean as f64, mean_of),
        };
        Ok(Params { window, ..self })
    }

    /// Returns the mean chunk size in bytes on endless random data without a maximum size: the
    /// inverse of the chance that a value is a maximum. For values of 1 byte it is exact; for values
    /// of 2 bytes, it is that of neighbours that share no bytes, and for longer ones, of which
    /// hardly two are equal, the inverse of the number of values in both windows.
    fn mean_without_max(&self) -> f64 {
        let count = match self.value_size {
            1 => 256,
            2 => 65536,
            _ => return (2 * self.window + 1) as f64,
        };
        let (window, steps) = (self.window as u64, f64::from(count));
        let mut chance = 0.0;
        // The chances of lesser values to be a maximum fall until they no longer count.
        for value in (0..count).rev() {
            let less = power(f64::from(value) / steps, window);
            let left = match self.form {
                Form::Released => power(f64::from(value + 1) / steps, window),
                Form::Strict => less,
            };
            let summand = less * left / steps;
            if summand < chance * 1e-20 {
                break;
            }
            chance += summand;
        }
        1.0 / chance
    }
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
        match self.value_size {
            1 => self.find_maximum(Bytes::<_, _, Above>::new(blocks)),
            size => self.find_maximum(Numbers::<_, _, Above>::new(blocks, size)),
        }
    }
}

impl Params {
    /// Searches for the maximum. Of candidates within a window of each other only one can be a
    /// maximum: the last of the greatest. Most candidates are therefore never looked at
    /// individually.
    #[inline(always)]
    fn find_maximum<S: Sequence>(&self, sequence: S) -> Option<usize> {
        let window = self.window;
        let end = match self.form {
            Form::Released => sequence.count().saturating_sub(1),
            Form::Strict => sequence.count(),
        };
        // All candidates before `first` are refuted. `before` is the last of them that was looked
        // at, a window and a value before `first`: all values between are less.
        let mut first = window;
        let mut before = None;
        while first + window < end {
            // The candidates from `first` to `seen` are refuted, too, except `at`: none of these
            // values is greater than the value at `at`, and none behind it is equal.
            let (mut at, mut seen) = (first, first + 1);
            if let Some(found) = sequence.extreme_from::<true>(first, window) {
                (at, seen) = found;
            }
            // If the greatest value of all was there, there may be others.
            if let Some(greatest) = before.filter(|&before| sequence.is_last(before))
                && let Some(last) = sequence.last_from(greatest, first..first + window + 1)
            {
                (at, seen) = (last, first + window + 1);
            }
            let mut greatest = sequence.value(at);
            loop {
                let behind = at + window + 1;
                if behind > end {
                    return None;
                }
                let found = if S::ARE_RARELY_EQUAL {
                    sequence.next_from(greatest, at + 1, seen..behind)
                } else {
                    sequence.next_extreme(greatest, at, seen..behind)
                };
                // Equal values may be many: the next greater one refutes all of them, and else the
                // last of them is the candidate.
                let (greater, equal) = match found {
                    Some(found) if S::is_beyond(sequence.value(found.last), greatest) => {
                        (Some(found), behind..behind)
                    }
                    Some(Extremes { last, end, .. }) => {
                        (sequence.next_extreme(greatest, at, end..behind), last..behind)
                    }
                    None if S::ARE_RARELY_EQUAL => break,
                    None => (None, seen..behind),
                };
                if let Some(found) = greater {
                    (at, seen) = (found.last, found.end);
                    greatest = sequence.value(at);
                } else if let Some(equal) = sequence.last_from(greatest, equal) {
                    if sequence.is_last(greatest) {
                        // From here on much is skipped, and the rest is looked at backwards.
                        sequence.prefetch(behind + AHEAD / 2..equal + window + 1 + AHEAD / 2);
                    }
                    (at, seen) = (equal, behind);
                } else {
                    break;
                }
            }
            if self.is_left_maximum(sequence, at, greatest, first, before) {
                return Some(at);
            }
            // Each value of the right window has a greater one within a window to its left.
            first = at + window + 1;
            before = Some(greatest);
        }
        None
    }

    /// Returns `true` if the value at `at`, which is `greatest`, is the maximum of the window
    /// before it. No value from `first` to `at` is greater, and all values of a window before
    /// `first` are less than `before`.
    #[inline(always)]
    fn is_left_maximum<S: Sequence>(
        &self,
        sequence: S,
        at: usize,
        greatest: S::Value,
        first: usize,
        before: Option<S::Value>,
    ) -> bool {
        let is_above_before = before.is_some_and(|before| !S::is_beyond(before, greatest));
        let start = if is_above_before { first } else { at - self.window };
        match self.form {
            Form::Released => sequence.next_extreme(greatest, start, start..first).is_none(),
            Form::Strict => sequence.next_from(greatest, start, start..at).is_none(),
        }
    }
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let params = Params {
            window: 1,
            value_size: keys.value_size()?,
            form: keys.word("form", &[("released", Form::Released), ("strict", Form::Strict)])?,
            chunk_size_max: keys.optional_size("max")?,
        };
        if keys.form() == "avg" {
            return params.for_average(keys.size("avg")?);
        }
        Ok(Params { window: keys.size("window")?, ..params })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "window={}", self.window)?;
        if self.value_size != 1 {
            write!(f, ",bytes={}", self.value_size)?;
        }
        if self.form == Form::Strict {
            write!(f, ",form=strict")?;
        }
        self.chunk_size_max.map_or(Ok(()), |max| write!(f, ",max={max}"))
    }

    fn chunk_size_min(&self) -> usize {
        self.window
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.chunk_size_max
    }

    fn mean(&self) -> Option<f64> {
        far_from_max(self.mean_without_max(), self.chunk_size_max, 8.0)
    }
}
