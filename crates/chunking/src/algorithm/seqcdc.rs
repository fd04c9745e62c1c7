//! SeqCDC: a chunk ends in a run of rising (or falling) bytes; unpromising regions are skipped.
//!
//! Source: Udayashankar et al., "SeqCDC: Hashless Content-Defined Chunking for Data Deduplication"
//! (Middleware 2024), section 3, and the same authors' vectorized form of it, section III. The two
//! texts and the code that the authors released differ in details; the rule here is that of the code
//! (dedup-bench), to which the parameters of Table I belong:
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
//! exceeds the trigger, and lets an equal pair break a run. Crate seq_chunking 0.1.0 cuts as this rule
//! does with a skip of one byte less: its `jump_size` of 256 is a skip of 255.

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
    /// What these give on random data is far from nominal: [`Params::mean`].
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
    /// from a geometric law. Means measured with 40,000 chunks differ by less than 0.5 % for the
    /// parameters of [`Params::for_mean`] and 1 % for those of [`Params::paper`], whose largest size is
    /// reached more often (`examples/means.rs`).
    pub fn mean(&self) -> f64 {
        let (pair_count, cut_chance) = self.period();
        let (min, skip) = (self.chunk_size_min as f64, self.skip_size as f64);
        // A period's pairs, and its skip unless it ended in a cut; then all periods.
        let beyond_min = (pair_count + skip * (1.0 - cut_chance)) / cut_chance;
        // The chance to come to the largest size, if each byte beyond min had the same chance to cut.
        let reach_max =
            power(1.0 - 1.0 / beyond_min, (self.chunk_size_max - self.chunk_size_min) as u64);
        min + beyond_min * (1.0 - reach_max)
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

/// How many pairs are compared at once.
const BLOCK_SIZE: usize = 64;

impl Params {
    /// Returns where the rule cuts `data`, which has at most the largest size, or `None` where it
    /// finds nothing in it. Bytes are compared by their `value`.
    ///
    /// The comparisons of 64 pairs become two masks, and the masks are asked two questions that are
    /// cheap and nearly always answered with no: does a run end here, and is the trigger reached?
    /// One branch a pair, which random data mispredicts every other time, would cost far more.
    #[inline]
    fn scan(&self, data: &[u8], value: impl Fn(u8) -> u8 + Copy) -> Option<usize> {
        let (mut run, mut opposing, mut i) = (0, 0, self.chunk_size_min);
        while let Some(bytes) = data.get(i - 1..).and_then(|rest| rest.first_chunk()) {
            // Zeros and other constant stretches: no count changes.
            if bytes[..BLOCK_SIZE] == bytes[1..] {
                i += BLOCK_SIZE;
                continue;
            }
            let (rising, falling) = compare(bytes, value);
            let (ordered, mut opposed) = match self.mode {
                Mode::Increasing => (rising, falling),
                Mode::Decreasing => (falling, rising),
            };
            // The pair that reaches the trigger, if it is here. No run goes on from it.
            let opposed_count = opposed.count_ones();
            let trigger_at = (opposing + opposed_count >= self.trigger)
                .then(|| nth_one(opposed, self.trigger - opposing - 1));
            if let Some(at) = trigger_at {
                opposed |= u64::MAX << at;
            }
            if self.may_end_run(ordered, opposed, run)
                && let Some(at) = self.end_of_run(ordered, opposed, run)
            {
                return Some(i + at);
            }
            if let Some(at) = trigger_at {
                (run, opposing) = (0, 0);
                i += at + 1 + self.skip_size;
            } else {
                opposing += opposed_count;
                run = if opposed == 0 { run } else { 0 }
                    + ordered.unbounded_shr(u64::BITS - opposed.leading_zeros()).count_ones();
                i += BLOCK_SIZE;
            }
        }
        self.scan_pairs(data, value, run, opposing, i)
    }

    /// Returns whether a run of `self.length` may end in a block that follows on `run` pairs of one.
    ///
    /// False is certain. The pairs of a run stand side by side but for equal ones, so `self.length`
    /// pairs in a row that are not opposed are needed, or `run` and what precedes the first opposed.
    #[inline]
    fn may_end_run(&self, ordered: u64, opposed: u64, run: u32) -> bool {
        let mut free = !opposed;
        let mut width = 1;
        while 2 * width <= self.length {
            free &= free >> width;
            width *= 2;
        }
        free &= free >> (self.length - width);
        let leading = opposed.trailing_zeros();
        (free != 0 || run + leading >= self.length) && run + ordered.count_ones() >= self.length
    }

    /// Returns which pair of a block ends a run of `self.length`, of which `run` lie before.
    #[cold]
    fn end_of_run(&self, ordered: u64, opposed: u64, mut run: u32) -> Option<usize> {
        for at in 0..BLOCK_SIZE {
            if opposed >> at & 1 == 1 {
                run = 0;
            } else {
                run += u32::from(ordered >> at & 1 == 1);
                if run == self.length {
                    return Some(at);
                }
            }
        }
        None
    }

    /// Goes on pair by pair from pair `i`: the rule as it is written, for the last bytes.
    fn scan_pairs(
        &self,
        data: &[u8],
        value: impl Fn(u8) -> u8,
        mut run: u32,
        mut opposing: u32,
        mut i: usize,
    ) -> Option<usize> {
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

/// Compares each of the 65 bytes but the last with the one after.
///
/// Returns two masks: bit `k` of the first says that byte `k` has the lesser value, of the second
/// that it has the greater.
#[inline(always)]
fn compare(bytes: &[u8; BLOCK_SIZE + 1], value: impl Fn(u8) -> u8) -> (u64, u64) {
    let values = bytes.map(value);
    let (mut rising, mut falling) = (0, 0);
    let (before, after) = (values[..BLOCK_SIZE].as_chunks(), values[1..].as_chunks());
    for (&before, &after) in before.0.iter().zip(after.0).rev() {
        let (before, after) = (u64::from_le_bytes(before), u64::from_le_bytes(after));
        let less = less(before, after);
        rising = rising << 8 | gather(less);
        falling = falling << 8 | gather(unequal(before, after) & !less);
    }
    (rising, falling)
}

/// The top bit of each byte.
const TOPS: u64 = 0x8080_8080_8080_8080;

/// Returns the top bit of each byte of `a` that is less than its counterpart in `b`.
#[inline(always)]
fn less(a: u64, b: u64) -> u64 {
    // Byte by byte, with the top bits set and clear so that nothing is borrowed from a neighbour:
    // the difference keeps its top bit if the lower seven bits of a are not less.
    let not_less = (a | TOPS) - (b & !TOPS);
    (!a & b | !(a ^ b) & !not_less) & TOPS
}

/// Returns the top bit of each byte of `a` that is not its counterpart in `b`.
#[inline(always)]
fn unequal(a: u64, b: u64) -> u64 {
    let changed = a ^ b;
    // The sum carries into the top bit if any of the lower seven bits is set.
    (((changed & !TOPS) + !TOPS) | changed) & TOPS
}

/// Moves the top bits of the 8 bytes to the lowest 8 bits, in order.
#[inline(always)]
fn gather(tops: u64) -> u64 {
    (tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// Returns the index of one bit of `mask`: that with `n` one bits below it.
#[inline]
fn nth_one(mut mask: u64, mut n: u32) -> usize {
    // Halve first: on average n is near 30, and clearing one bit at a time would take as many steps.
    let mut index = 0;
    for width in [32, 16, 8] {
        let low_count = (mask & ((1 << width) - 1)).count_ones();
        if n >= low_count {
            n -= low_count;
            mask >>= width;
            index += width;
        }
    }
    for _ in 0..n {
        mask &= mask - 1;
    }
    (index + mask.trailing_zeros()) as usize
}
