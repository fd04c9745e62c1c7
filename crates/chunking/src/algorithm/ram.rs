//! RAM, rapid asymmetric maximum: the first byte behind a window that is not below its maximum.
//!
//! Source: Widodo et al., "A new content-defined chunking algorithm for data deduplication in cloud
//! storage" (2017), as Gregoriadis et al., "A Thorough Investigation of Content-Defined Chunking
//! Algorithms for Data Deduplication", state it (algorithm 3).
//!
//! The rule, for a chunk that starts at byte 0:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! m = the greatest of bytes 0 to window - 1
//! for i in window..n:
//!     if byte i >= m  (`equal=cut`), or > m  (`equal=pass`):  cut at i + 1  (`cut=after`), or at i
//! cut at n
//! ```
//!
//! dedup-bench cuts before the byte. The code of Gregoriadis et al. takes the maximum of one byte
//! more than their algorithm says (its window of h is one of h + 1 here), but for its optimized form.
//! Udayashankar et al. write `>`.

use alloc::boxed::Box;
use core::fmt;

use super::blocks::{Above, AtLeast, Blocks, Values};
pub use super::bytes::Cut;
use super::bytes::{BlockRule, byte_chunker};
use super::{Algorithm, CHUNK_SIZE_LIMIT, bisect, check_max, check_range, power};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::kernel::{BLOCK_SIZE, Kernel};
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, Level, SpecError};

const NAME: &str = "ram";

const ABOUT: About = About {
    name: NAME,
    title: "rapid asymmetric maximum",
    rule: "A chunk ends with the first byte behind a window at its start that is not below the \
           greatest byte of the window.",
    source: "Widodo et al., RAM (2017); Gregoriadis et al., A Thorough Investigation, algorithm 3.",
    differences: "None from algorithm 3; the programs differ by a byte, see the module.",
    good_at: "Speed: the window needs no decision at all, and behind it one comparison a byte.",
    bad_at: "Where bytes after the window are all below its maximum, chunks grow without end: it \
             needs a largest size.",
    key: KeyUse::Permutation,
    parameters: &[
        Parameter::new("window", "bytes", "1 to 1073741823", "The window at the start (w or h)."),
        Parameter::new(
            "cut",
            "",
            "after or before",
            "Whether the byte that is found is the chunk's last.",
        )
        .or("after"),
        Parameter::new("equal", "", "cut or pass", "Whether a byte equal to the maximum ends it.")
            .or("cut"),
        Parameter::new("max", "bytes", "window + 1 to 1073741824", "The largest chunk.").or("none"),
    ],
    short_forms: &[
        ShortForm::new(
            "avg",
            &["cut", "max"],
            "64 to 16777216",
            "The window whose mean is this many bytes, were there no max.",
        ),
        ShortForm::new(
            "paper",
            &["cut", "equal", "max"],
            "64 to 16777216",
            "The window that equation 1 of Gregoriadis et al. gives for this target, to the nearest \
             byte; one byte more is the window of their code. The equation has the inverse of a mean \
             where a mean of inverses belongs: real means for 512, 770 and 1024 are 544, 784, 1030 \
             bytes; from 2k on it is right.",
        ),
    ],
    dialects: &[
        Dialect::new("cut=before", "dedup-bench: that byte is the next chunk's first."),
        Dialect::new("equal=pass", "Udayashankar et al.: only a greater byte ends a chunk."),
    ],
};

/// What a byte equal to the maximum does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Equal {
    /// It ends the chunk.
    Cut,
    /// Nothing.
    Pass,
}

/// The parameters of RAM; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The window at the chunk's start, of which the maximum is taken; at least 1.
    pub window: usize,
    /// Where the chunk ends.
    pub cut: Cut,
    /// What a byte equal to the maximum does.
    pub equal: Equal,
    /// The largest chunk, above the window; `None` for no limit.
    pub chunk_size_max: Option<usize>,
}

byte_chunker! {
    /// The chunker of RAM.
    Ram
}

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
        check_max(NAME, self.window + 1, self.chunk_size_max)
    }

    /// Returns the parameters whose mean on random data, were there no largest size, is `mean`
    /// bytes: those of `self` with another window.
    ///
    /// # Errors
    ///
    /// [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to [`Params::AVERAGE_MAX`], and
    /// where equal bytes pass: without a largest size no mean is finite then.
    pub fn for_average(self, mean: usize) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
        let mean_of = |window| Params { window, chunk_size_max: None, ..self }.mean();
        // The mean first falls with the window, as its maximum is better known, then grows.
        let least = bisect(1, mean, |window| mean_of(window + 1) >= mean_of(window));
        Ok(Params { window: bisect(least, mean, |window| mean_of(window) >= mean as f64), ..self })
    }

    /// Returns the parameters whose mean by equation 1 of Gregoriadis et al., "A Thorough
    /// Investigation", is nearest to `target` bytes, without a largest size.
    ///
    /// From 2 KiB on [`Params::mean`] is the target. Below it is more, by 6 % at 512 bytes: the equation
    /// has the inverse of a mean chance where the mean of the inverse chances belongs.
    ///
    /// # Errors
    ///
    /// [`SpecError`] unless `target` is from [`Params::AVERAGE_MIN`] to [`Params::AVERAGE_MAX`].
    pub fn paper(target: usize) -> Result<Params, SpecError> {
        check_range(NAME, "paper", target, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
        let distance = |window| (printed_mean(window) - target as f64).abs();
        let above = bisect(2, target, |window| printed_mean(window) >= target as f64);
        let window = if distance(above - 1) < distance(above) { above - 1 } else { above };
        Ok(Params { window, cut: Cut::After, equal: Equal::Cut, chunk_size_max: None })
    }

    /// Returns the mean chunk size in bytes on random data without end; infinite where equal bytes
    /// pass and there is no largest size.
    ///
    /// Where the byte that is found begins the next chunk, that chunk's maximum is not below it, and
    /// so on: the mean is that of the chain over first bytes, after so many chunks that it has
    /// settled. Else chunks know nothing of each other, and one step is all.
    pub fn mean(&self) -> f64 {
        if (self.equal, self.chunk_size_max) == (Equal::Pass, None) {
            return f64::INFINITY;
        }
        let (steps, after) = match self.cut {
            Cut::After => (1, 1.0),
            Cut::Before => (256, 0.0),
        };
        let others = (self.window - 1) as u64;
        let mut first = [1.0 / 256.0; 256];
        let mut mean = 0.0;
        for _ in 0..steps {
            mean = 0.0;
            let mut next = [0.0; 256];
            // The chances of first bytes, and of maxima, up to a value; and of first bytes that
            // follow on a maximum up to it, for each value.
            let (mut first_below, mut greatest_below, mut next_each) = (0.0, 0.0, 0.0);
            let mut reset = 0.0;
            for (greatest, next) in next.iter_mut().enumerate() {
                first_below += first[greatest];
                let up_to = first_below * power((greatest + 1) as f64 / 256.0, others);
                let chance = up_to - greatest_below;
                greatest_below = up_to;
                let passing = match self.equal {
                    Equal::Cut => greatest,
                    Equal::Pass => greatest + 1,
                };
                let passes = passing as f64 / 256.0;
                // The bytes behind the window that pass, and the chance that one is found.
                let (passed, found) = match self.chunk_size_max {
                    None => (passes / (1.0 - passes), 1.0),
                    Some(max) => {
                        let count = (max - self.window) as u64;
                        let found = 1.0 - power(passes, count);
                        match passing {
                            256 => (count as f64, found),
                            _ => (passes * found / (1.0 - passes), found),
                        }
                    }
                };
                if chance > 0.0 {
                    mean += chance * (self.window as f64 + passed + after * found);
                }
                // A greater byte begins the next chunk; or any, behind a largest chunk.
                let each =
                    if passing < 256 { chance * found / (256 - passing) as f64 } else { 0.0 };
                if self.equal == Equal::Cut {
                    next_each += each;
                }
                *next = next_each;
                if self.equal == Equal::Pass {
                    next_each += each;
                }
                reset += chance * (1.0 - found) / 256.0;
            }
            first = next.map(|chance| chance + reset);
        }
        mean
    }
}

/// The right side of equation 1 of Gregoriadis et al.
fn printed_mean(window: usize) -> f64 {
    // The chance that the greatest of the window's bytes is below a value.
    let below = |value: u32| power(f64::from(value) / 256.0, window as u64);
    let sum: f64 = (0..256).map(|m| f64::from(m) * (below(m + 1) - below(m))).sum();
    window as f64 + 1.0 / (1.0 - sum / 256.0)
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
        let rest = self.window..data.len();
        if rest.is_empty() {
            return None;
        }
        let blocks = Blocks { kernel, data, values };
        let mut greatest = blocks.value(0);
        if self.window < 4 * BLOCK_SIZE {
            // So few are simply looked at.
            let window = data[..self.window].iter();
            greatest = window.fold(greatest, |greatest, &byte| values.value(byte).max(greatest));
        } else {
            // Each byte that is greater than all before, until there is none, or none can be.
            let mut next = 1;
            while let Some(at) = blocks.first_beyond::<Above>(greatest, next..self.window) {
                (greatest, next) = (blocks.value(at), at + 1);
            }
        }
        if greatest == u8::MAX {
            blocks.prefetch_next(self.window, self.window);
        }
        let found = match self.equal {
            Equal::Cut => blocks.first(AtLeast(greatest), rest),
            Equal::Pass => blocks.first_beyond::<Above>(greatest, rest),
        }?;
        Some(found + self.cut.step())
    }
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let params = Params {
            window: 1,
            cut: keys.word("cut", Cut::WORDS)?,
            equal: keys.word("equal", &[("cut", Equal::Cut), ("pass", Equal::Pass)])?,
            chunk_size_max: keys.optional_size("max")?,
        };
        match keys.form() {
            "avg" => params.for_average(keys.size("avg")?),
            "paper" => Ok(Params { window: Params::paper(keys.size("paper")?)?.window, ..params }),
            _ => Ok(Params { window: keys.size("window")?, ..params }),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "window={}", self.window)?;
        if self.cut == Cut::Before {
            write!(f, ",cut=before")?;
        }
        if self.equal == Equal::Pass {
            write!(f, ",equal=pass")?;
        }
        self.chunk_size_max.map_or(Ok(()), |max| write!(f, ",max={max}"))
    }

    fn check(&self) -> Result<(), SpecError> {
        self.check()
    }

    fn chunk_size_min(&self) -> usize {
        match self.cut {
            Cut::After => self.window + 1,
            Cut::Before => self.window,
        }
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.chunk_size_max
    }

    fn mean(&self) -> Option<f64> {
        Some(self.mean()).filter(|mean| mean.is_finite())
    }

    fn chunker(&self, material: Option<&KeyMaterial>, level: Level) -> Box<dyn Chunker> {
        Box::new(Ram::from_checked(*self, material, level))
    }
}
