//! CRC: the CRC-32 of a window, tested at its low bits.
//!
//! Source: Ni, Lin and Jiang, "SS-CDC: A Two-stage Parallel Content-Defined Chunking for
//! Deduplicating Backup Storage" (2019), for the hash, in the form of dedup-bench.
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
//! The CRC is that of zip and Ethernet, reflected (`0xedb88320`), but its register begins as 0 and
//! is not inverted at the end. A window of zeros matches, so that zeros are cut at every minimum
//! size.
//!
//! dedup-bench cuts before the byte. It reads a maximum size but ignores it, and computes a
//! different hash for windows other than 256. Here both parameters have their documented meaning.

use alloc::boxed::Box;
use core::fmt;

pub use super::bytes::Cut;
use super::{
    Algorithm, check_range, check_sizes, constructors, cut_within, debug_params,
    forward_chunk_sizes, geometric, paper, write_sizes,
};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::candidates::{
    ColumnsKind, CrcColumns, Selection, Stages, WINDOW_MAX, byte_table, forward_batches,
    is_candidate_search_faster, linear_gain,
};
use crate::kernel::ByteTable;
use crate::keys::Keys;
use crate::rolling::{Rolling, Step};
use crate::{Chunker, KeyMaterial, Level, SpecError};

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
        Parameter::new("bits", "bits", "1 to 30", "Number of lowest bits that must be zero."),
        Parameter::new("window", "bytes", "4 to 65536", "The window."),
        Parameter::new("cut", "", "after or before", "Cut after or before the byte that is found.")
            .or("after"),
        Parameter::new("min", "bytes", "1 to 1073741824", "The smallest chunk.").or("1"),
        Parameter::new("max", "bytes", "min and window to 1073741824", "The largest chunk.")
            .or("none"),
    ],
    short_forms: &[
        ShortForm::new(
            "avg",
            &["window", "cut", "max"],
            "256 to 16777216, above window and not above max",
            "Mean in bytes, which sets the other parameters; window 48 unless given. Chunks have no largest size unless max is given.",
        ),
        ShortForm::new(
            "paper",
            &[],
            "4k, 8k or 16k",
            "Udayashankar et al., SeqCDC, section 6: min half the average and max twice it, but \
             min 1k for 4k; what the paper leaves open, 12, 13 or 14 bits, the window of 256 and \
             cut=before, is from dedup-bench, their code. Real means 4408, 10460, 20920 \
             bytes.",
        ),
    ],
    dialects: &[Dialect::new(
        "cut=before",
        "dedup-bench: the byte that is found is the next chunk's first.",
    )],
};

/// The parameters of CRC; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The number of lowest bits that must be zeros, 1 to 30.
    pub bits: u32,
    /// The window, 4 bytes to 64 KiB.
    pub window: usize,
    /// The position of the cut-point relative to the byte that is found.
    pub cut: Cut,
    /// The minimum chunk size, at least 1. A chunk has at least a window, too.
    pub chunk_size_min: usize,
    /// The maximum chunk size; `None` for no limit.
    pub chunk_size_max: Option<usize>,
}

impl Params {
    /// The smallest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MIN: usize = geometric::AVERAGE_MIN;

    /// The largest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MAX: usize = geometric::AVERAGE_MAX;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless each parameter is within its limits. No size may exceed
    /// [`CHUNK_SIZE_LIMIT`](super::CHUNK_SIZE_LIMIT).
    pub fn check(&self) -> Result<(), SpecError> {
        check_range(NAME, "bits", self.bits as usize, 1, 30)?;
        check_range(NAME, "window", self.window, 4, Rolling::<Crc32>::WINDOW_MAX)?;
        check_sizes(NAME, self.chunk_size_min, self.chunk_size_min(), self.chunk_size_max)
    }

    /// Returns the parameters of `self` with the bits and the minimum size changed so that the mean
    /// on random data is `mean` bytes. The number of bits leaves at least a fifth of the mean for
    /// the minimum size.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`] and not above the maximum size, or if the window is too large for
    /// the mean.
    pub fn for_average(self, mean: usize) -> Result<Params, SpecError> {
        let of = |bits, chunk_size_min| Params { bits, chunk_size_min, ..self };
        geometric::for_average(NAME, mean, self.chunk_size_max, of, Params::mean)
    }

    /// Returns the setting of Udayashankar et al., "SeqCDC", section 6, for an expected average of
    /// 4, 8 or 16 KiB, with bits, window and cut of their code, dedup-bench; `None` for any other
    /// average.
    ///
    /// The mean is 8 to 28 % above the expected average; see [`Params::mean`].
    pub fn paper(nominal_size: usize) -> Option<Params> {
        let (chunk_size_min, max) = paper::sizes(nominal_size)?;
        Some(Params {
            bits: nominal_size.ilog2(),
            window: 256,
            cut: Cut::Before,
            chunk_size_min,
            chunk_size_max: Some(max),
        })
    }

    /// Returns the mean chunk size in bytes on endless random data.
    ///
    /// The mean is exact for a hash that is independent from byte to byte.
    pub fn mean(&self) -> f64 {
        let divisor = f64::from(1u32 << self.bits);
        geometric::mean(self.chunk_size_min(), divisor, self.chunk_size_max)
    }
}

/// A step of the register, by 8 zero bits.
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
            cut: keys.word("cut", Cut::WORDS)?,
            chunk_size_min: keys.optional_size("min")?.unwrap_or(1),
            chunk_size_max: keys.optional_size("max")?,
        };
        match keys.form() {
            "avg" => params.for_average(keys.size("avg")?),
            "paper" => keys.setting(Params::paper),
            _ => Ok(Params { bits: keys.number("bits")?, ..params }),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bits={},window={}", self.bits, self.window)?;
        if self.cut == Cut::Before {
            write!(f, ",cut=before")?;
        }
        write_sizes(f, self.chunk_size_min, self.chunk_size_max)
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
}

/// The chunker of CRC.
#[derive(Clone)]
pub struct Crc {
    params: Params,
    rolling: Rolling<Crc32>,
    /// The value that takes the place of each byte value, with a key.
    seen: Option<ByteTable>,
    stages: Stages<CrcColumns>,
}

constructors!(Crc);

impl Crc {
    pub(crate) fn from_checked(
        params: Params,
        material: Option<&KeyMaterial>,
        level: Level,
    ) -> Crc {
        let permutation = material.map(KeyMaterial::permutation);
        let crc = Crc32::new();
        let table = crc.0.clone();
        let rolling = Rolling::new(crc, params.window, |byte| {
            let seen = permutation.as_ref().map_or(byte, |seen| seen[usize::from(byte)]);
            table[usize::from(seen)]
        });
        let seen = permutation.map(|permutation| byte_table(&permutation));
        let scalar = Crc { params, rolling, seen, stages: Stages::at(Level::SCALAR, |_| None) };
        scalar.at_level(level)
    }

    /// Returns the same chunker on another level than the best of this CPU. The cut-points are the
    /// same; only the speed differs.
    #[must_use]
    pub fn at_level(self, level: Level) -> Crc {
        let stages = Stages::at(level, |kind| self.columns(kind));
        Crc { stages, ..self }
    }

    /// Returns the columns that find the candidates; `None` if the window is too large or if they
    /// do not pay.
    fn columns(&self, kind: ColumnsKind) -> Option<CrcColumns> {
        let min = Algorithm::chunk_size_min(&self.params);
        let uses_candidates = self.params.window <= WINDOW_MAX
            && is_candidate_search_faster(min, self.params.mean(), linear_gain(kind));
        uses_candidates.then(|| CrcColumns::new(&self.rolling, self.params.bits))
    }
}

impl Selection for Crc {
    fn first(&self) -> usize {
        Chunker::chunk_size_min(self) - self.params.cut.step()
    }

    fn step(&self) -> usize {
        self.params.cut.step()
    }

    fn permutation(&self) -> Option<&ByteTable> {
        self.seen.as_ref()
    }

    fn cut_from(&self, _: &[u8], data: &[u8], more: bool, from: usize) -> Option<usize> {
        let mask = (1 << self.params.bits) - 1;
        let step = self.step();
        cut_within(data, more, self.params.chunk_size_max, |data| {
            self.rolling.find(data, from, |_, hash| hash & mask == 0).map(|at| at + step)
        })
    }
}

impl Chunker for Crc {
    forward_chunk_sizes!();
    forward_batches!();

    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        self.cut_from(&[], data, more, self.first())
    }
}

debug_params!(Crc);
