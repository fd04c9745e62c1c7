//! RAM, rapid asymmetric maximum: a chunk ends at the first byte behind a window that is not below
//! the window's maximum.
//!
//! Source: Widodo et al., "A new content-defined chunking algorithm for data deduplication in cloud
//! storage" (2017), in the form of Gregoriadis et al., "A Thorough Investigation of Content-Defined
//! Chunking Algorithms for Data Deduplication" (algorithm 3).
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
//! dedup-bench cuts before the byte. The code of Gregoriadis et al., except for its optimized form,
//! takes the maximum of one byte more than their algorithm says (its window of h is a window of h +
//! 1 here). Udayashankar et al. write `>`.

use alloc::boxed::Box;
use core::fmt;

use super::blocks::{Above, AtLeast, Blocks, Values};
pub use super::bytes::Cut;
use super::bytes::{BlockRule, byte_chunker};
use super::{Algorithm, CHUNK_SIZE_LIMIT, bisect, check_max, check_range, least_with_mean, power};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::kernel::{BLOCK_SIZE, Kernel};
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, SpecError};

const NAME: &str = "ram";

const ABOUT: About = About {
    name: NAME,
    title: "rapid asymmetric maximum",
    rule: "A chunk ends with the first byte behind a window at its start that is not below the \
           greatest byte of the window.",
    source: "Widodo et al., RAM (2017); Gregoriadis et al., A Thorough Investigation, algorithm 3.",
    differences: "None from algorithm 3; the programs differ by a byte, see the module.",
    good_at: "Speed: the window needs no decision at all, and behind it one comparison a byte.",
    bad_at: "If all bytes after the window are below its maximum, chunks grow without end: a \
             largest size is required.",
    key: KeyUse::Permutation,
    parameters: &[
        Parameter::new("window", "bytes", "1 to 1073741823", "The window at the start (w or h)."),
        Parameter::new("cut", "", "after or before", "Cut after or before the byte that is found.")
            .or("after"),
        Parameter::new(
            "equal",
            "",
            "cut or pass",
            "Whether a byte equal to the maximum ends the chunk.",
        )
        .or("cut"),
        Parameter::new("max", "bytes", "window + 1 to 1073741824", "The largest chunk.").or("none"),
    ],
    short_forms: &[
        ShortForm::new(
            "avg",
            &["cut", "max"],
            "64 to 16777216",
            "Mean in bytes without max, which sets the window. Chunks have no largest size unless max is given.",
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

/// The effect of a byte equal to the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Equal {
    /// The byte ends the chunk.
    Cut,
    /// The byte does not end the chunk.
    Pass,
}

/// The parameters of RAM; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The window at the chunk's start whose maximum is taken, in bytes; at least 1.
    pub window: usize,
    /// The position of the cut-point relative to the byte that is found.
    pub cut: Cut,
    /// The effect of a byte equal to the maximum.
    pub equal: Equal,
    /// The maximum chunk size, above the window; `None` for no limit.
    pub chunk_size_max: Option<usize>,
}

byte_chunker! {
    /// The chunker of RAM.
    Ram
}

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
        check_max(NAME, self.window + 1, self.chunk_size_max)
    }

    /// Returns the parameters of `self` with the window changed so that the mean on random data,
    /// without a maximum size, is `mean` bytes.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`], or if equal bytes pass, because then no mean is finite without a
    /// maximum size.
    pub fn for_average(self, mean: usize) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
        let mean_of = |window| Params { window, chunk_size_max: None, ..self }.mean();
        // With a growing window the mean first falls, because the maximum varies less, and then
        // grows.
        let least = bisect(1, mean, |window| mean_of(window + 1) >= mean_of(window));
        Ok(Params { window: least_with_mean(least, mean, mean as f64, mean_of), ..self })
    }

    /// Returns the parameters whose mean by equation 1 of Gregoriadis et al., "A Thorough
    /// Investigation", is nearest to `target` bytes, without a maximum size.
    ///
    /// From 2 KiB on, [`Params::mean`] is the target. Below 2 KiB it is more, by 6 % at 512 bytes:
    /// the equation has the inverse of a mean chance where the mean of the inverse chances belongs.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `target` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`].
    pub fn paper(target: usize) -> Result<Params, SpecError> {
        check_range(NAME, "paper", target, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
        let distance = |window| (printed_mean(window) - target as f64).abs();
        let above = bisect(2, target, |window| printed_mean(window) >= target as f64);
        let window = if distance(above - 1) < distance(above) { above - 1 } else { above };
        Ok(Params { window, cut: Cut::After, equal: Equal::Cut, chunk_size_max: None })
    }

    /// Returns the mean chunk size in bytes on endless random data; infinite if equal bytes pass
    /// and there is no maximum size.
    ///
    /// If the byte that is found begins the next chunk, the maximum of that chunk is not below this
    /// byte, and so on. The mean is then that of the chain over first bytes, after enough chunks
    /// for it to settle. Otherwise chunks are independent of each other, and a single step
    /// suffices.
    pub fn mean(&self) -> f64 {
        if (self.equal, self.chunk_size_max) == (Equal::Pass, None) {
            return f64::INFINITY;
        }
        let (steps, after) = match self.cut {
            Cut::After => (1, 1.0),
            Cut::Before => (256, 0.0),
        };
        let others = (self.window - 1) as u64;
        // Lesser values are never the maximum of that many bytes.
        let least = bisect(0, 255, |value| power((value + 1) as f64 / 256.0, others) > NEVER);
        let mut first = [1.0 / 256.0; 256];
        let mut mean = 0.0;
        for _ in 0..steps {
            mean = 0.0;
            let mut next = [0.0; 256];
            // The chances of first bytes up to a value, and of maxima up to a value; and, for each
            // value, the chance of first bytes that follow a maximum up to this value.
            let (mut first_below, mut greatest_below, mut next_each) = (0.0, 0.0, 0.0);
            let mut reset = 0.0;
            for (greatest, next) in next.iter_mut().enumerate() {
                first_below += first[greatest];
                if greatest < least {
                    continue;
                }
                let up_to = first_below * power((greatest + 1) as f64 / 256.0, others);
                let chance = up_to - greatest_below;
                greatest_below = up_to;
                let passing = match self.equal {
                    Equal::Cut => greatest,
                    Equal::Pass => greatest + 1,
                };
                let passes = passing as f64 / 256.0;
                // The number of bytes behind the window that pass, and the chance that a byte is
                // found.
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
                // The next chunk begins with a greater byte, or with any byte behind a largest
                // chunk.
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

/// The chance below which an event changes no digit of a mean.
const NEVER: f64 = 1e-30;

/// Returns the right side of equation 1 of Gregoriadis et al.
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
            // A small window is scanned byte by byte.
            let window = data[..self.window].iter();
            greatest = window.fold(greatest, |greatest, &byte| values.value(byte).max(greatest));
        } else {
            // The search moves to each byte that is greater than all before it, until no byte is or
            // can be.
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
}
