//! PCI, parity check of interval: a chunk ends with the first window that has many bits set.
//!
//! Source: Zhang et al., "Function of Content Defined Chunking Algorithms in Incremental
//! Synchronization" (2020), in the form of Gregoriadis et al., "A Thorough Investigation of
//! Content-Defined Chunking Algorithms for Data Deduplication" (algorithm 5).
//!
//! The rule, for a chunk that starts at byte 0:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! for end in window..=n:
//!     if bytes end - window to end - 1 have `threshold` bits set or more:  cut at end
//! cut at n
//! ```

mod means;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::bytes::{self, ByteRule};
use super::{
    Algorithm, check_max, check_range, constructors, cut_within, debug_params, forward_chunk_sizes,
    power, unreachable_average,
};
use crate::about::{About, KeyUse, Parameter, ShortForm};
use crate::candidates::{
    ColumnsKind, CountColumns, Selection, Stages, WINDOW_MAX, byte_table, forward_batches,
};
use crate::kernel::ByteTable;
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, Level, SpecError};
use means::MEANS;

const NAME: &str = "pci";

const ABOUT: About = About {
    name: NAME,
    title: "parity check of interval",
    rule: "A chunk ends as soon as its last bytes, `window` of them, have at least `threshold` bits \
           set between them.",
    source: "Zhang et al., PCI (2020); Gregoriadis et al., A Thorough Investigation, algorithm 5.",
    differences: "None from algorithm 5. The means of the published settings miss by up to 6 %; \
                  avg chooses window and threshold by measured means.",
    good_at: "A change moves cut-points within a window only, and there is no table.",
    bad_at: "Text has few bits set, so it is seldom cut, and some binary data at every window: a \
             largest size is required. Sizes vary as much as those of Gear.",
    key: KeyUse::Permutation,
    parameters: &[
        Parameter::new("window", "bytes", "1 to 65536", "The window (w)."),
        Parameter::new(
            "threshold",
            "bits",
            "1 to 8 * window",
            "Number of bits that must be set in the window (theta).",
        ),
        Parameter::new("max", "bytes", "window to 1073741824", "The largest chunk.").or("none"),
    ],
    short_forms: &[
        ShortForm::new(
            "avg",
            &["max"],
            "512 to 65536",
            "Mean in bytes without max, which sets window and threshold. Chunks have no largest size unless max is given.",
        ),
        ShortForm::new(
            "paper",
            &["max"],
            "512, 770, 1024, 2048, 4096, 5482 or 8192",
            "The setting of Gregoriadis et al., table 3, for that target.",
        ),
    ],
    dialects: &[],
};

/// The parameters of PCI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The number of bytes that are looked at: 1 to 65536. The papers' w.
    pub window: usize,
    /// The number of bits of the window that must be set to end a chunk: 1 to 8 times the window.
    /// The papers' theta.
    pub threshold: usize,
    /// The maximum chunk size in bytes, not below the window; `None` for no limit.
    pub chunk_size_max: Option<usize>,
}

/// The chunker of PCI.
#[derive(Clone)]
pub struct Pci {
    params: Params,
    /// The value that takes the place of each byte value; `None` without a key.
    permutation: Option<Box<[u8; 256]>>,
    /// The permutation in the form for vectors.
    seen: Option<ByteTable>,
    stages: Stages<CountColumns>,
}

constructors!(Pci);

impl Pci {
    pub(crate) fn from_checked(
        params: Params,
        material: Option<&KeyMaterial>,
        level: Level,
    ) -> Pci {
        let permutation = material.map(KeyMaterial::permutation);
        let seen = permutation.as_deref().map(byte_table);
        let scalar = Pci { params, permutation, seen, stages: Stages::at(Level::SCALAR, |_| None) };
        scalar.at_level(level)
    }

    /// Returns the same chunker on another level than the best of this CPU. The cut-points are the
    /// same; only the speed differs.
    #[must_use]
    pub fn at_level(self, level: Level) -> Pci {
        let stages = Stages::at(level, |kind| self.columns(kind));
        Pci { stages, ..self }
    }

    /// Returns the columns that find the candidates; `None` if the window is too large.
    fn columns(&self, _: ColumnsKind) -> Option<CountColumns> {
        let Params { window, threshold, .. } = self.params;
        let least = u16::try_from(threshold).ok()?;
        (window <= WINDOW_MAX).then(|| CountColumns::new(window, least))
    }
}

impl Selection for Pci {
    fn first(&self) -> usize {
        self.params.window - 1
    }

    fn step(&self) -> usize {
        1
    }

    fn permutation(&self) -> Option<&ByteTable> {
        self.seen.as_ref()
    }

    fn cut_from(&self, _: &[u8], data: &[u8], more: bool, from: usize) -> Option<usize> {
        cut_within(data, more, self.params.chunk_size_max, |data| match &self.permutation {
            None => self.params.find_from(data, |byte| byte, from),
            Some(values) => self.params.find_from(data, |byte| values[usize::from(byte)], from),
        })
    }
}

impl Chunker for Pci {
    forward_chunk_sizes!();
    forward_batches!();

    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        let permutation = self.permutation.as_deref();
        bytes::next_cut(&self.params, permutation, Level::SCALAR, true, data, more)
    }
}

debug_params!(Pci, permutation);

/// The first window in [`MEANS`].
const WINDOW_FIRST: usize = 32;

/// The settings of Gregoriadis et al., table 3: target, window, threshold.
const PAPER: [(usize, usize, usize); 7] = [
    (512, 58, 253),
    (770, 40, 181),
    (1024, 34, 157),
    (2048, 61, 273),
    (4096, 39, 183),
    (5482, 56, 256),
    (8192, 57, 262),
];

/// Returns every window and threshold whose mean was measured, with that mean in bytes.
fn measured() -> impl Iterator<Item = (usize, usize, u32)> {
    (WINDOW_FIRST..).zip(MEANS).flat_map(|(window, &(first, means))| {
        (first as usize..).zip(means).map(move |(threshold, &mean)| (window, threshold, mean))
    })
}

impl Params {
    /// The smallest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MIN: usize = 512;

    /// The largest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MAX: usize = 65_536;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless each parameter is within its limits.
    pub fn check(&self) -> Result<(), SpecError> {
        check_range(NAME, "window", self.window, 1, 65_536)?;
        check_range(NAME, "threshold", self.threshold, 1, 8 * self.window)?;
        check_max(NAME, self.window, self.chunk_size_max)
    }

    /// Returns the published setting for a target in bytes, without a maximum size; `None` unless
    /// it is one of the seven published targets. The mean on random data is up to 6 % off the
    /// target.
    pub fn paper(target: usize) -> Option<Params> {
        let &(_, window, threshold) = PAPER.iter().find(|&&(each, ..)| each == target)?;
        Some(Params { window, threshold, chunk_size_max: None })
    }

    /// Returns the parameters whose mean on random data is nearest to `mean` bytes, without a
    /// maximum size and with a window from 32 to 63. The mean is within 2 %.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`].
    pub fn for_average(mean: usize) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
        let distance = |reached: u32| (reached as usize).abs_diff(mean);
        match measured().min_by_key(|&(.., reached)| distance(reached)) {
            Some((window, threshold, reached)) if distance(reached) * 50 <= mean => {
                Ok(Params { window, threshold, chunk_size_max: None })
            }
            _ => {
                let mut all: Vec<usize> = measured().map(|(.., mean)| mean as usize).collect();
                all.sort_unstable();
                Err(unreachable_average(NAME, mean, &all))
            }
        }
    }
}

impl Params {
    /// Returns the end of the chunk in `data`, given that no window that ends before index `from`
    /// matches; `from` ends a full window.
    #[inline]
    fn find_from(
        &self,
        data: &[u8],
        value: impl Fn(u8) -> u8 + Copy,
        from: usize,
    ) -> Option<usize> {
        let bits = |byte: u8| value(byte).count_ones() as usize;
        let data = data.get(from + 1 - self.window..)?;
        let (window, rest) = data.split_at_checked(self.window)?;
        let mut sum: usize = window.iter().map(|&byte| bits(byte)).sum();
        if sum >= self.threshold {
            return Some(from + 1);
        }
        for (i, (&new, &old)) in rest.iter().zip(data).enumerate() {
            sum = sum + bits(new) - bits(old);
            if sum >= self.threshold {
                return Some(from + 1 + i + 1);
            }
        }
        None
    }
}

impl ByteRule for Params {
    #[inline]
    fn find(&self, data: &[u8], value: impl Fn(u8) -> u8 + Copy) -> Option<usize> {
        self.find_from(data, value, self.window - 1)
    }
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let params = match keys.form() {
            "avg" => Params::for_average(keys.size("avg")?)?,
            "paper" => keys.setting(Params::paper)?,
            _ => Params {
                window: keys.size("window")?,
                threshold: keys.size("threshold")?,
                chunk_size_max: None,
            },
        };
        Ok(Params { chunk_size_max: keys.optional_size("max")?, ..params })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "window={},threshold={}", self.window, self.threshold)?;
        self.chunk_size_max.map_or(Ok(()), |max| write!(f, ",max={max}"))
    }

    fn chunk_size_min(&self) -> usize {
        self.window
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.chunk_size_max
    }

    /// Returns the measured mean; with a maximum size, that of a geometric distribution behind the
    /// window.
    fn mean(&self) -> Option<f64> {
        let (.., mean) = measured()
            .find(|&(window, threshold, _)| (window, threshold) == (self.window, self.threshold))?;
        let behind = f64::from(mean) - self.window as f64;
        let cut_off = self
            .chunk_size_max
            .map_or(0.0, |max| power(1.0 - 1.0 / behind, (max - self.window) as u64));
        Some(self.window as f64 + behind * (1.0 - cut_off))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_average_is_reached_within_2_percent() {
        for mean in Params::AVERAGE_MIN..=Params::AVERAGE_MAX {
            let params = Params::for_average(mean).expect("one is near");
            let reached = params.mean().expect("it is measured");
            assert!((reached / mean as f64 - 1.0).abs() <= 0.02, "{mean}: {reached}");
        }
    }
}
