//! SeqCDC: a chunk ends in a run of rising (or falling) bytes; unpromising regions are skipped.
//!
//! Source: Udayashankar et al., "SeqCDC: Hashless Content-Defined Chunking for Data Deduplication"
//! (Middleware 2024), section 3, and the same authors' vectorized form of it, section III. The two
//! texts and the code that the authors released differ in details; the rule here is the released
//! one (dedup-bench; crate seq_chunking cuts alike), to which the parameters of Table I belong:
//!
//! ```text
//! if n < min: cut at n
//! end = min(n, max);  i = min;  run = 0;  opposing = 0
//! while i < end:
//!     compare byte i - 1 with byte i
//!     equal:             i += 1                                  neither count changes
//!     in the mode's order:
//!         run += 1
//!         if run == length: cut at i, else i += 1                byte i opens the next chunk
//!     in the other order:
//!         run = 0;  opposing += 1
//!         if opposing == trigger: opposing = 0;  i += 1 + skip
//!         else i += 1
//! cut at end
//! ```
//!
//! Where the papers' texts say otherwise: they count bytes, not pairs; they begin `length` bytes
//! before `min`; they cut behind the last byte of the run; the vector form skips when the count
//! exceeds the trigger, and lets an equal pair break a run.

use super::{CHUNK_SIZE_LIMIT, check_range};
use crate::{Chunker, KeyMaterial, SpecError};

const NAME: &str = "seqcdc";

/// Which order of bytes ends a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Each byte above the one before.
    Increasing,
    /// Each byte below the one before.
    Decreasing,
}

/// The parameters of SeqCDC; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The order that ends a chunk.
    pub mode: Mode,
    /// How many pairs in that order, not broken by one in the other, end a chunk: 1 to 32.
    /// The papers' SeqLength.
    pub length: u32,
    /// How many pairs in the other order start a skip: 1 to 65535. The papers' SkipTrigger.
    pub trigger: u32,
    /// The bytes of a skip. The papers' SkipSize.
    pub skip_size: usize,
    /// The smallest chunk, at least 1: the first pair looked at is its last byte and the next one.
    pub chunk_size_min: usize,
    /// The largest chunk.
    pub chunk_size_max: usize,
}

impl Params {
    /// The smallest mean that [`Params::for_mean`] can give, in bytes.
    pub const MEAN_MIN: usize = 2 * 1024;

    /// The largest mean that [`Params::for_mean`] can give, in bytes.
    pub const MEAN_MAX: usize = 1024 * 1024;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// [`SpecError`] unless each is in its limits and `min <= max`; no size may be above
    /// [`CHUNK_SIZE_LIMIT`].
    pub fn check(&self) -> Result<(), SpecError> {
        check_range(NAME, "length", self.length as usize, 1, 32)?;
        check_range(NAME, "trigger", self.trigger as usize, 1, 65535)?;
        check_range(NAME, "skip", self.skip_size, 0, CHUNK_SIZE_LIMIT)?;
        check_range(NAME, "min", self.chunk_size_min, 1, CHUNK_SIZE_LIMIT)?;
        check_range(NAME, "max", self.chunk_size_max, self.chunk_size_min, CHUNK_SIZE_LIMIT)
    }

    /// Returns Table I's setting for a nominal 4, 8 or 16 KiB, as printed there; `None` for another.
    ///
    /// Its means on random data are 3578, 7041 and 13268 bytes.
    pub fn paper(nominal_size: usize) -> Option<Params> {
        let (trigger, skip_size, chunk_size_min, chunk_size_max) = match nominal_size {
            4096 => (55, 256, 1024, 8192),
            8192 => (50, 256, 4096, 16384),
            16384 => (50, 512, 8192, 32768),
            _ => return None,
        };
        Some(Params {
            mode: Mode::Increasing,
            length: 5,
            trigger,
            skip_size,
            chunk_size_min,
            chunk_size_max,
        })
    }

    /// Returns parameters whose mean chunk size on random data is `mean` bytes.
    ///
    /// # Errors
    ///
    /// [`SpecError`] unless `mean` is from [`Params::MEAN_MIN`] to [`Params::MEAN_MAX`].
    pub fn for_mean(mean: usize, mode: Mode) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, Params::MEAN_MIN, Params::MEAN_MAX)?;
        let skip_size = mean / 32;
        let beyond_min = 535 + 887 * skip_size / 100;
        Ok(Params {
            mode,
            length: 5,
            trigger: 50,
            skip_size,
            chunk_size_min: mean - beyond_min,
            chunk_size_max: 4 * mean,
        })
    }
}

/// The chunker of SeqCDC.
#[derive(Clone, Debug)]
pub struct SeqCdc {
    params: Params,
}

impl SeqCdc {
    /// Makes a chunker that compares the bytes as they are.
    ///
    /// # Errors
    ///
    /// Those of [`Params::check`].
    pub fn new(params: Params) -> Result<SeqCdc, SpecError> {
        params.check()?;
        Ok(SeqCdc { params })
    }

    /// Returns the parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }
}

impl Chunker for SeqCdc {
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        let max = self.params.chunk_size_max;
        let end = data.len().min(max);
        let complete = !more || end == max;
        self.params.scan(&data[..end]).or((complete && end > 0).then_some(end))
    }

    fn chunk_size_min(&self) -> usize {
        self.params.chunk_size_min
    }

    fn chunk_size_max(&self) -> Option<usize> {
        Some(self.params.chunk_size_max)
    }
}

impl Params {
    fn scan(&self, data: &[u8]) -> Option<usize> {
        let (mut run, mut opposing, mut i) = (0, 0, self.chunk_size_min);
        while i < data.len() {
            let (before, byte) = (data[i - 1], data[i]);
            let in_order = match self.mode {
                Mode::Increasing => before < byte,
                Mode::Decreasing => before > byte,
            };
            if in_order {
                run += 1;
                if run == self.length {
                    return Some(i);
                }
            } else if before != byte {
                run = 0;
                opposing += 1;
                if opposing == self.trigger {
                    opposing = 0;
                    i += self.skip_size;
                }
            }
            i += 1;
        }
        None
    }
}
