//! CRC: the CRC-32 of a window, tested at its low bits.
//!
//! Source: Ni, Lin and Jiang, "SS-CDC: A Two-stage Parallel Content-Defined Chunking for Deduplicating
//! Backup Storage" (2019), whose hash it is, in the form of dedup-bench.
//!
//! The rule, for a chunk that starts at byte 0:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! first = max(min, window) - 1  (`cut=after`), or max(min, window)  (`cut=before`)
//! for i in first..n:
//!     hash = the CRC-32 register after the bytes i + 1 - window to i, which begins as 0
//!     if the lowest `bits` bits of hash are 0:  cut at i + 1  (`cut=after`), or at i
//! cut at n
//! ```
//!
//! The CRC is that of zip and Ethernet, reflected (`0xedb88320`), but its register begins as 0 and is
//! not inverted in the end. A window of zeros matches, so that zeros are cut at every smallest size.
//!
//! dedup-bench cuts before the byte. It reads a largest size and ignores it, and computes another hash
//! for other windows than 256; here both are what they say.

use alloc::boxed::Box;
use core::fmt;

use super::rabin::mean;
use super::rolling::{Rolling, Step};
use super::{Algorithm, CHUNK_SIZE_LIMIT, bisect, check_range, constructors};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, SpecError};

const NAME: &str = "crc";

const ABOUT: About = About {
    name: NAME,
    title: "the CRC-32 of a window",
    rule: "A chunk ends where the CRC-32 of the last bytes has zeros at its lowest bits.",
    source: "Ni et al., SS-CDC (2019), in the form of dedup-bench.",
    differences: "The largest size is kept, which dedup-bench ignores; any window has its own CRC, \
                  which there only one of 256 bytes has. The chunk ends with the byte that is found \
                  unless said otherwise.",
    good_at: "A hash of exactly the window, known everywhere.",
    bad_at: "Zeros match: they are cut at every smallest size.",
    key: KeyUse::Permutation,
    parameters: &[
        Parameter::new("bits", "bits", "1 to 30", "How many lowest bits must be zeros."),
        Parameter::new("window", "bytes", "4 to 65536", "The window."),
        Parameter::new(
            "cut",
            "",
            "after or before",
            "Whether the byte that is found is the chunk's last.",
        )
        .or("after"),
        Parameter::new("min", "bytes", "1 to 1073741824", "The smallest chunk.").or("1"),
        Parameter::new("max", "bytes", "min and window to 1073741824", "The largest chunk.")
            .or("none"),
    ],
    short_forms: &[ShortForm::new(
        "avg",
        &["window", "cut", "max"],
        "256 to 16777216, above window and not above max",
        "The parameters whose mean is this many bytes; window 48 unless given.",
    )],
    dialects: &[Dialect::new(
        "cut=before",
        "dedup-bench: the byte that is found is the next chunk's first.",
    )],
};

/// Where a chunk ends, seen from the byte that is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Cut {
    /// The byte is the chunk's last.
    #[default]
    After,
    /// The byte is the next chunk's first.
    Before,
}

/// The parameters of CRC; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// How many lowest bits must be zeros, 1 to 30.
    pub bits: u32,
    /// The window, 4 bytes to 64 KiB.
    pub window: usize,
    /// Where the chunk ends.
    pub cut: Cut,
    /// The smallest chunk, at least 1; a window is one, too.
    pub chunk_size_min: usize,
    /// The largest chunk; `None` for no limit.
    pub chunk_size_max: Option<usize>,
}

impl Params {
    /// The smallest mean that [`Params::for_average`] can give, in bytes.
    pub const AVERAGE_MIN: usize = 256;

    /// The largest mean that [`Params::for_average`] can give, in bytes.
    pub const AVERAGE_MAX: usize = 16 * 1024 * 1024;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// [`SpecError`] unless each is in its limits; no size may be above [`CHUNK_SIZE_LIMIT`].
    pub fn check(&self) -> Result<(), SpecError> {
        check_range(NAME, "bits", self.bits as usize, 1, 30)?;
        check_range(NAME, "window", self.window, 4, Rolling::<Crc32>::WINDOW_MAX)?;
        check_range(NAME, "min", self.chunk_size_min, 1, CHUNK_SIZE_LIMIT)?;
        if let Some(max) = self.chunk_size_max {
            check_range(NAME, "max", max, self.chunk_size_min(), CHUNK_SIZE_LIMIT)?;
        }
        Ok(())
    }

    /// Returns the parameters whose mean on random data is `mean` bytes: those of `self` with other
    /// bits, as many as leave at least a fifth of the mean for the smallest size, and another smallest
    /// size.
    ///
    /// # Errors
    ///
    /// [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to [`Params::AVERAGE_MAX`] and not
    /// above the largest size, and where the window is too large for it.
    pub fn for_average(self, mean: usize) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
        let max = self.chunk_size_max.unwrap_or(CHUNK_SIZE_LIMIT);
        check_range(NAME, "max", max, mean, CHUNK_SIZE_LIMIT)?;
        let bits = (mean * 4 / 5).ilog2();
        let of = |chunk_size_min| Params { bits, chunk_size_min, ..self };
        let params = of(bisect(1, mean, |min| of(min).mean() >= mean as f64));
        if params.mean() > mean as f64 * 1.005 {
            let expected = "not possible with this window, which is too large";
            return Err(SpecError::new(NAME, "avg", mean, expected));
        }
        Ok(params)
    }

    /// Returns the mean chunk size in bytes on random data without end.
    ///
    /// It is exact for a hash that is independent from byte to byte.
    pub fn mean(&self) -> f64 {
        mean(self.chunk_size_min(), self.bits, self.chunk_size_max)
    }
}

/// A step of the register: by 8 zero bits.
#[derive(Clone)]
struct Crc32(Box<[u64; 256]>);

impl Crc32 {
    fn new() -> Crc32 {
        let mut table = Box::new([0; 256]);
        for (value, entry) in (0u64..).zip(table.iter_mut()) {
            *entry = (0..8).fold(value, |register, _| {
                register >> 1 ^ if register & 1 == 1 { 0xedb8_8320 } else { 0 }
            });
        }
        Crc32(table)
    }
}

impl Step for Crc32 {
    #[inline]
    fn step(&self, hash: u64) -> u64 {
        hash >> 8 ^ self.0[(hash & 255) as usize]
    }
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let params = Params {
            bits: 1,
            window: keys.optional_size("window")?.unwrap_or(48),
            cut: keys.word("cut", &[("after", Cut::After), ("before", Cut::Before)])?,
            chunk_size_min: keys.optional_size("min")?.unwrap_or(1),
            chunk_size_max: keys.optional_size("max")?,
        };
        if keys.form() == "avg" {
            return params.for_average(keys.size("avg")?);
        }
        Ok(Params { bits: keys.number("bits")?, ..params })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bits={},window={}", self.bits, self.window)?;
        if self.cut == Cut::Before {
            write!(f, ",cut=before")?;
        }
        if self.chunk_size_min != 1 {
            write!(f, ",min={}", self.chunk_size_min)?;
        }
        self.chunk_size_max.map_or(Ok(()), |max| write!(f, ",max={max}"))
    }

    fn check(&self) -> Result<(), SpecError> {
        self.check()
    }

    fn chunk_size_min(&self) -> usize {
        self.chunk_size_min.max(self.window)
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.chunk_size_max
    }

    fn mean(&self) -> Option<f64> {
        Some(self.mean())
    }

    fn chunker(&self, material: Option<&KeyMaterial>) -> Box<dyn Chunker> {
        Box::new(Crc::from_checked(*self, material))
    }
}

/// The chunker of CRC.
#[derive(Clone)]
pub struct Crc {
    params: Params,
    rolling: Rolling<Crc32>,
}

constructors!(Crc);

impl Crc {
    fn from_checked(params: Params, material: Option<&KeyMaterial>) -> Crc {
        let permutation = material.map(KeyMaterial::permutation);
        let crc = Crc32::new();
        let table = crc.0.clone();
        let rolling = Rolling::new(crc, params.window, |byte| {
            let seen = permutation.as_ref().map_or(byte, |seen| seen[usize::from(byte)]);
            table[usize::from(seen)]
        });
        Crc { params, rolling }
    }
}

impl Chunker for Crc {
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        let max = self.params.chunk_size_max;
        let end = max.map_or(data.len(), |max| data.len().min(max));
        let is_complete = !more || Some(end) == max;
        let mask = (1 << self.params.bits) - 1;
        // From the byte that is found to the cut-point.
        let step = match self.params.cut {
            Cut::After => 1,
            Cut::Before => 0,
        };
        let first = self.chunk_size_min() - step;
        let found = self.rolling.find(&data[..end], first, |_, hash| hash & mask == 0);
        found.map(|at| at + step).or((is_complete && end > 0).then_some(end))
    }

    fn chunk_size_min(&self) -> usize {
        Algorithm::chunk_size_min(&self.params)
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.params.chunk_size_max
    }
}

impl fmt::Debug for Crc {
    /// Leaves the tables out, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crc").field("params", &self.params).finish_non_exhaustive()
    }
}
