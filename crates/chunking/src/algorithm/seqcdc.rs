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

use std::fmt;

use super::{CHUNK_SIZE_LIMIT, check_range, power};
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
    /// Runs are of 5 pairs below 24 KiB, of 6 below 192 KiB and of 7 above, so that a skip stays
    /// below twelve times what is looked at between two skips. A skip is a 32nd, a 256th or a 2048th
    /// of the mean; the trigger is 50, as in Table I from 8 KiB on. The smallest size is what is left
    /// to reach the mean (0.3 to 0.75 of it) and the largest is four times the mean.
    ///
    /// # Errors
    ///
    /// [`SpecError`] unless `mean` is from [`Params::MEAN_MIN`] to [`Params::MEAN_MAX`].
    pub fn for_mean(mean: usize, mode: Mode) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, Params::MEAN_MIN, Params::MEAN_MAX)?;
        let (length, skip_size) = match mean / 1024 {
            0..24 => (5, mean / 32),
            24..192 => (6, mean / 256),
            _ => (7, mean / 2048),
        };
        let mut params = Params {
            mode,
            length,
            trigger: 50,
            skip_size,
            chunk_size_min: 1,
            chunk_size_max: mean * 4,
        };
        #[expect(clippy::cast_possible_truncation, reason = "a mean is below the largest size")]
        let mean_beyond_min = (params.mean() - 0.5) as usize;
        params.chunk_size_min = mean - mean_beyond_min;
        Ok(params)
    }

    /// Returns the mean chunk size in bytes on random data without end.
    ///
    /// Between two skips the rule is a Markov chain over (opposing pairs, run, last byte), solved
    /// exactly; every period between skips is like the first, because its first byte is new (without
    /// a skip, `skip_size` 0, that is an approximation). How often the largest size cuts is taken
    /// from whole periods. Measured means differ by less than 0.5 %.
    pub fn mean(&self) -> f64 {
        let (pair_count, cut_chance) = self.period();
        let [min, max, skip] =
            [self.chunk_size_min, self.chunk_size_max, self.skip_size].map(|size| size as f64);
        // A period's pairs, and its skip unless it ended in a cut; then all periods.
        let beyond_min = (pair_count + skip * (1.0 - cut_chance)) / cut_chance;
        #[expect(clippy::cast_possible_truncation, reason = "at most 2^30")]
        let period_count = ((max - min) / (beyond_min * cut_chance)).round() as u64;
        min + beyond_min * (1.0 - power(1.0 - cut_chance, period_count))
    }

    /// Returns the mean number of pairs that a period between two skips compares, and the chance
    /// that it ends in a cut.
    fn period(&self) -> (f64, f64) {
        let (mut pair_count, mut cut_chance) = (0.0, 0.0);
        // `entry[v]`: the chance to come, with no run, to a last byte of value v.
        let mut entry = [1.0 / 256.0; 256];
        for _ in 0..self.trigger {
            let mut next_entry = [0.0; 256];
            let mut visits = entry.map(|chance| chance * 256.0 / 255.0);
            for _ in 0..self.length {
                // An equal pair stays; of the other 255 values, those above go on with the run and
                // those below end it.
                pair_count += visits.iter().sum::<f64>();
                let mut above = 0.0;
                for (chance, visit) in next_entry.iter_mut().zip(visits).rev() {
                    *chance += above / 256.0;
                    above += visit;
                }
                let mut below = 0.0;
                let mut risen = [0.0; 256];
                for (chance, visit) in risen.iter_mut().zip(visits) {
                    *chance = below / 256.0;
                    below += visit;
                }
                visits = risen.map(|chance| chance * 256.0 / 255.0);
            }
            // What has risen `length` times is cut; it does not stay, so the stay is taken back.
            cut_chance += visits.iter().sum::<f64>() * 255.0 / 256.0;
            entry = next_entry;
        }
        (pair_count, cut_chance)
    }
}

/// The chunker of SeqCDC.
#[derive(Clone)]
pub struct SeqCdc {
    params: Params,
    /// What each byte value counts as; `None` without a key.
    permutation: Option<Box<[u8; 256]>>,
}

impl SeqCdc {
    /// Makes a chunker that compares the bytes as they are.
    ///
    /// # Errors
    ///
    /// Those of [`Params::check`].
    pub fn new(params: Params) -> Result<SeqCdc, SpecError> {
        params.check()?;
        Ok(SeqCdc::from_checked(params, None))
    }

    /// Makes a chunker that compares bytes by a secret order.
    ///
    /// It cuts `data` where a chunker without a key cuts `data` with each byte `v` replaced by
    /// `permutation[v]`. The permutation begins with `permutation[v] = v`. For `i` from 255 down to
    /// 1, `permutation[i]` and `permutation[j]` change places, where `j = r mod (i + 1)` and `r` is
    /// the next unused pair of bytes of `material`, from byte 0 on, as a little-endian number. A
    /// pair is passed over where `r` is not below the largest multiple of `i + 1` that is not above
    /// 65536: so every permutation is equally likely (Fisher and Yates, by rejection). Should the
    /// 1024 pairs run out, as they do with no material that looks random, the rest stays in place.
    ///
    /// # Errors
    ///
    /// Those of [`Params::check`].
    pub fn keyed(params: Params, material: &KeyMaterial) -> Result<SeqCdc, SpecError> {
        params.check()?;
        Ok(SeqCdc::from_checked(params, Some(material)))
    }

    pub(crate) fn from_checked(params: Params, material: Option<&KeyMaterial>) -> SeqCdc {
        SeqCdc { params, permutation: material.map(permutation) }
    }

    /// Returns the parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }
}

/// Returns the permutation that [`SeqCdc::keyed`] describes.
fn permutation(material: &KeyMaterial) -> Box<[u8; 256]> {
    let mut permutation = Box::new([0; 256]);
    for (entry, value) in permutation.iter_mut().zip(0..=255) {
        *entry = value;
    }
    let mut pairs = material.bytes().as_chunks::<2>().0.iter();
    for i in (1..256).rev() {
        let choices = i + 1;
        let unbiased = 65536 / choices * choices;
        let Some(r) = pairs
            .by_ref()
            .map(|&pair| usize::from(u16::from_le_bytes(pair)))
            .find(|&r| r < unbiased)
        else {
            break;
        };
        permutation.swap(i, r % choices);
    }
    permutation
}

impl Chunker for SeqCdc {
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        let max = self.params.chunk_size_max;
        let end = data.len().min(max);
        let complete = !more || end == max;
        let found = match &self.permutation {
            None => self.params.scan(&data[..end], |byte| byte),
            Some(permutation) => {
                self.params.scan(&data[..end], |byte| permutation[usize::from(byte)])
            }
        };
        found.or((complete && end > 0).then_some(end))
    }

    fn chunk_size_min(&self) -> usize {
        self.params.chunk_size_min
    }

    fn chunk_size_max(&self) -> Option<usize> {
        Some(self.params.chunk_size_max)
    }
}

impl fmt::Debug for SeqCdc {
    /// Leaves the permutation out, which is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeqCdc")
            .field("params", &self.params)
            .field("keyed", &self.permutation.is_some())
            .finish()
    }
}

impl Params {
    /// Returns where the rule cuts `data`, which has at most the largest size, or `None` where it
    /// finds nothing in it.
    fn scan(&self, data: &[u8], value: impl Fn(u8) -> u8) -> Option<usize> {
        let (mut run, mut opposing, mut i) = (0, 0, self.chunk_size_min);
        while i < data.len() {
            let (before, byte) = (value(data[i - 1]), value(data[i]));
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
