//! MAXP: a chunk begins at a byte that is the maximum of a window on both sides.
//!
//! Source: Bjorner et al., "Content-dependent chunking for differential compression, the local
//! maximum approach" (2010); Zhang et al., AE (2017), section 2; the released code of Udayashankar
//! et al. (dedup-bench).
//!
//! The rule, for a chunk that starts at byte 0:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! for c in window..n, while c + window < n - 1  (`form=released`), or < n  (`form=strict`):
//!     if byte c is greater than each of the `window` bytes behind it, and
//!        not below (`released`), or greater than (`strict`), each of the `window` bytes before it:
//!         cut at c
//! cut at n
//! ```
//!
//! The papers require strict maxima on both sides. The released code allows equal bytes on the
//! left, and ignores the last byte that could complete a window. Both forms need no state: within a
//! window behind a cut-point no byte can be a maximum, and the bytes before a cut-point are in no
//! later window. The cut-points are therefore the same as without restarting at each of them,
//! except for those that a maximum size makes.

use alloc::boxed::Box;
use core::fmt;

use super::blocks::{AHEAD, Above, AtLeast, Blocks, Values};
use super::bytes::{BlockRule, byte_chunker};
use super::{Algorithm, CHUNK_SIZE_LIMIT, bisect, check_max, check_range, far_from_max, power};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::kernel::Kernel;
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, SpecError};

const NAME: &str = "maxp";

const ABOUT: About = About {
    name: NAME,
    title: "local maxima",
    rule: "A chunk begins at a byte that is greater than all bytes of a window behind it, and than \
           those of a window before it, of which the released form allows equal ones.",
    source: "Bjorner et al., the local maximum approach (2010); Zhang et al., AE (2017), section 2; \
             the released code (dedup-bench).",
    differences: "None from the released code; the papers' text is form=strict.",
    good_at: "Nothing is carried over a cut-point: a change is forgotten within two windows.",
    bad_at: "Constant and slowly changing data has no maxima, and is cut at the largest size only.",
    key: KeyUse::Permutation,
    parameters: &[
        Parameter::new("window", "bytes", "1 to 536870911", "The window on each side (w)."),
        Parameter::new(
            "form",
            "",
            "released or strict",
            "Treatment of equal bytes on the left, and of the end of a stream.",
        )
        .or("released"),
        Parameter::new("max", "bytes", "2 * window + 1 to 1073741824", "The largest chunk.")
            .or("none"),
    ],
    short_forms: &[ShortForm::new(
        "avg",
        &["form", "max"],
        "2048 to 1048576",
        "Mean in bytes without max, which sets the window.",
    )],
    dialects: &[Dialect::new("form=strict", "The papers' text: strictly greater on both sides.")],
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
    /// The form of the rule.
    pub form: Form,
    /// The maximum chunk size, at least two windows and a byte; `None` for no limit.
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
        check_max(NAME, 2 * self.window + 1, self.chunk_size_max)
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
        let is_enough = |window| Params { window, ..self }.mean_without_max() >= mean as f64;
        Ok(Params { window: bisect(1, mean, is_enough), ..self })
    }

    /// Returns the mean chunk size in bytes on endless random data without a maximum size: exactly
    /// the inverse of the chance that a byte is a maximum.
    fn mean_without_max(&self) -> f64 {
        let window = self.window as u64;
        let chance: f64 = (0..256)
            .map(|value| {
                let less = power(f64::from(value) / 256.0, window);
                let left = match self.form {
                    Form::Released => power(f64::from(value + 1) / 256.0, window),
                    Form::Strict => less,
                };
                less * left / 256.0
            })
            .sum();
        1.0 / chance
    }
}

impl BlockRule for Params {
    /// Searches for the maximum. Of candidates within a window of each other only one can be a
    /// maximum: the last of the greatest. Most candidates are therefore never looked at
    /// individually.
    #[inline(always)]
    fn find<K: Kernel>(
        &self,
        kernel: K,
        _: bool,
        data: &[u8],
        values: impl Values,
    ) -> Option<usize> {
        let window = self.window;
        let blocks = Blocks { kernel, data, values };
        let end = match self.form {
            Form::Released => data.len().saturating_sub(1),
            Form::Strict => data.len(),
        };
        // All candidates before `first` are refuted.
        let mut first = window;
        let mut greatest = 0;
        while first + window < end {
            // The candidates from `first` to `seen` are refuted, too, except `at`: none of these
            // bytes is greater than the byte at `at`, and none behind it is equal.
            let (mut at, mut seen) = (first, first + 1);
            // If there was a byte of 255, there may be others.
            if greatest == u8::MAX
                && let Some(last) = blocks.last(AtLeast(greatest), first..first + window + 1)
            {
                (at, seen) = (last, first + window + 1);
            }
            greatest = blocks.value(at);
            loop {
                let behind = at + window + 1;
                if behind > end {
                    return None;
                }
                if let Some(greater) = blocks.first_beyond::<Above>(greatest, seen..behind) {
                    (at, seen) = (greater, greater + 1);
                    greatest = blocks.value(at);
                } else if let Some(equal) = blocks.last(AtLeast(greatest), seen..behind) {
                    if greatest == u8::MAX {
                        // From here on much is skipped, and the rest is looked at backwards.
                        blocks.prefetch(behind + AHEAD / 2..equal + window + 1 + AHEAD / 2);
                    }
                    (at, seen) = (equal, behind);
                } else {
                    break;
                }
            }
            let is_maximum = match self.form {
                Form::Released => {
                    blocks.first_beyond::<Above>(greatest, at - window..first).is_none()
                }
                Form::Strict => blocks.first(AtLeast(greatest), at - window..at).is_none(),
            };
            if is_maximum {
                return Some(at);
            }
            // Each byte of the right window has a greater one within a window to its left.
            first = at + window + 1;
        }
        None
    }
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let params = Params {
            window: 1,
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
