//! BFBC, bytes-frequency-based chunking: byte pairs that are frequent in the data end chunks.
//!
//! Source: Saeed and George, "Data Deduplication System Based on Content Defined Chunking Using
//! Bytes Pair Frequency Occurrence" (2020), in the form of Gregoriadis et al., "A Thorough
//! Investigation of Content-Defined Chunking Algorithms for Data Deduplication" (algorithms 6 and
//! 7).
//!
//! The rule, for a chunk that starts at byte 0:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! for end in min..=n:
//!     if (byte end - 2, byte end - 1) is one of the pairs:  cut at end
//! cut at n
//! ```
//!
//! Here `min` is the minimum chunk size, as in the code of Gregoriadis et al. Their algorithm 6
//! tests `position > min`, so that its setting m is `min = m + 1` here.
//!
//! # The pairs
//!
//! The pairs are learned from data in a separate step, and are then part of the spec's text.
//! [`PairCounts`] counts pairs, and makes [`Params`] of the most frequent ones (BFBC) or of those
//! that give a certain mean (BFBC\*, which differs in nothing else).
//!
//! ```
//! use cutpoint_chunking::Spec;
//! use cutpoint_chunking::algorithm::bfbc::PairCounts;
//!
//! let mut counts = PairCounts::new();
//! counts.add(b"see the bees in the trees");
//! let spec = Spec::try_from(counts.most_frequent(2, 8))?;
//! assert_eq!(spec.to_string(), "bfbc:pairs=2074.6520,min=8");
//! # Ok::<(), cutpoint_chunking::SpecError>(())
//! ```
//!
//! Gregoriadis et al. leave the order of pairs of equal frequency open (in their code it is
//! random); here the lower pair comes first.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;

use super::sieve::Sieve;
use super::{
    Algorithm, CHUNK_SIZE_LIMIT, check_max, check_range, constructors, cut_within, debug_params,
    forward_chunk_sizes, greedy, power,
};
use crate::about::{About, KeyUse, Parameter};
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, Level, SpecError};

const NAME: &str = "bfbc";

const ABOUT: About = About {
    name: NAME,
    title: "bytes-frequency-based chunking, BFBC and BFBC*",
    rule: "A chunk ends, from its smallest size on, with the first pair of bytes that is one of a \
           set, which was learned from data before.",
    source: "Saeed and George, BFBC (2020); Gregoriadis et al., A Thorough Investigation, \
             algorithms 6 and 7.",
    differences: "min is the smallest chunk, as in the code of Gregoriadis et al.; algorithm 6 \
                  wants a byte more. Pairs of one frequency rank by value, in their code by chance.",
    good_at: "One table look-up (8 KiB) per byte, and none before the smallest size.",
    bad_at: "The pairs must be learned, and suit no other data: sizes drift with the content. \
             Cannot be keyed, because other pairs than the learned ones would not work.",
    key: KeyUse::Refused,
    parameters: &[
        Parameter::new(
            "pairs",
            "",
            "pairs of bytes as 4 hexadecimal digits, with dots between; none",
            "The pairs that end a chunk (divisors, D).",
        ),
        Parameter::new(
            "min",
            "bytes",
            "2 to 1073741824",
            "The smallest chunk (lambda_min). Gregoriadis et al., table 4, set it to 128 below the \
             target, beside the 3 most frequent pairs; with BFBC*, whose pairs are chosen for the \
             target, their code sets it to 2.",
        ),
        Parameter::new("max", "bytes", "min to 1073741824", "The largest chunk.").or("none"),
    ],
    short_forms: &[],
    dialects: &[],
};

/// The number of possible pairs.
const PAIRS: usize = 65_536;

/// The parameters of BFBC, usually made by [`PairCounts`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The pairs that end a chunk, in ascending order, each once; the papers' divisors. Without
    /// any, only a maximum size cuts.
    pub pairs: Vec<[u8; 2]>,
    /// The minimum chunk size in bytes, at least 2.
    pub chunk_size_min: usize,
    /// The maximum chunk size in bytes; `None` for no limit.
    pub chunk_size_max: Option<usize>,
}

impl Params {
    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless each parameter is within its limits and the pairs are in
    /// ascending order.
    pub fn check(&self) -> Result<(), SpecError> {
        if let Some(two) = self.pairs.windows(2).find(|two| two[0] >= two[1]) {
            let text = format!("{:04x}", u16::from_be_bytes(two[1]));
            return Err(SpecError::new(NAME, "pairs", text, "each pair once, in rising order"));
        }
        check_range(NAME, "min", self.chunk_size_min, 2, CHUNK_SIZE_LIMIT)?;
        check_max(NAME, self.chunk_size_min, self.chunk_size_max)
    }

    /// Returns the mean on random data in bytes; infinite if there are no pairs.
    ///
    /// Let `e(b)` be the mean number of bytes up to the cut behind a byte `b`, and `m` the mean of
    /// all `e(b)`. Then `e(b) = 1 + m - (sum of e(c) over pairs (b, c)) / 256`, and all `e(b)` are
    /// linear in `1 + m`.
    fn mean_on_random_data(&self) -> f64 {
        let mut share = [1.0; 256];
        for _ in 0..100 {
            for pairs in self.pairs.chunk_by(|one, other| one[0] == other[0]) {
                let sum: f64 = pairs.iter().map(|pair| share[usize::from(pair[1])]).sum();
                share[usize::from(pairs[0][0])] = 1.0 - sum / 256.0;
            }
        }
        let lacking = share.iter().map(|share| 1.0 - share).sum::<f64>() / 256.0;
        let behind = (1.0 - lacking) / lacking;
        let before = self.chunk_size_min - 1;
        // Behind `before` bytes the sizes are about geometrically distributed.
        let within = self
            .chunk_size_max
            .map_or(1.0, |max| 1.0 - power(1.0 - 1.0 / behind.max(1.0), (max - before) as u64));
        before as f64 + behind * within
    }
}

/// Counts of the occurrences of each pair of bytes.
///
/// Pairs overlap: `aaa` contains `aa` twice. Data may be added in portions, as a stream; a pair
/// across two portions counts.
#[derive(Clone)]
pub struct PairCounts {
    counts: Box<[u64]>,
    size: u64,
    last: Option<u8>,
}

impl PairCounts {
    /// Returns counts that are all 0.
    pub fn new() -> PairCounts {
        PairCounts { counts: vec![0; PAIRS].into_boxed_slice(), size: 0, last: None }
    }

    /// Adds the next bytes of a stream.
    pub fn add(&mut self, data: &[u8]) {
        let Some(&first) = data.first() else { return };
        if let Some(last) = self.last {
            self.counts[index([last, first])] += 1;
        }
        for pair in data.windows(2) {
            self.counts[index([pair[0], pair[1]])] += 1;
        }
        self.last = data.last().copied();
        self.size += data.len() as u64;
    }

    /// Ends a stream: the bytes added next form no pair with the last one.
    pub fn end_stream(&mut self) {
        self.last = None;
    }

    /// Returns the number of bytes added.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of occurrences of `pair`.
    pub fn count(&self, pair: [u8; 2]) -> u64 {
        self.counts[index(pair)]
    }

    /// Returns the pairs that occurred, by falling count, and among equal counts in ascending
    /// order.
    pub fn ranked(&self) -> Vec<([u8; 2], u64)> {
        let all = (0..=u16::MAX).map(|pair| (pair.to_be_bytes(), self.counts[usize::from(pair)]));
        let mut ranked: Vec<_> = all.filter(|&(_, count)| count > 0).collect();
        ranked.sort_by_key(|&(_, count)| Reverse(count));
        ranked
    }

    /// Returns BFBC with the `count` most frequent pairs (k), or all pairs if there are fewer, and
    /// without a maximum size.
    pub fn most_frequent(&self, count: usize, chunk_size_min: usize) -> Params {
        let ranked = self.ranked();
        params(ranked.iter().take(count).map(|&(pair, _)| pair).collect(), chunk_size_min)
    }

    /// Returns BFBC with the setting of Gregoriadis et al., "A Thorough Investigation", table 4,
    /// for a target in bytes: the 3 most frequent pairs, and a minimum size of 128 bytes below the
    /// target, as their code counts it.
    ///
    /// The mean is near the target if these pairs are frequent. On random data it is nearly 22 KB
    /// above the target.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `target` is from 130, at which the minimum size is 2, to
    /// [`CHUNK_SIZE_LIMIT`].
    pub fn paper(&self, target: usize) -> Result<Params, SpecError> {
        check_range(NAME, "target", target, 130, CHUNK_SIZE_LIMIT)?;
        Ok(self.most_frequent(3, target - 128))
    }

    /// Returns BFBC\*, without a maximum size: the pairs whose mean on data like the counted data
    /// is about `mean` bytes, chosen by algorithm 7 with equation 3. Gregoriadis et al. use it with
    /// a minimum size of 2. The result has no pairs if every pair alone is too frequent.
    pub fn for_average(&self, mean: usize, chunk_size_min: usize) -> Params {
        let ranked = self.ranked();
        let pairs = greedy::choose(ranked.into_iter(), self.size, chunk_size_min, mean);
        params(pairs, chunk_size_min)
    }
}

fn params(mut pairs: Vec<[u8; 2]>, chunk_size_min: usize) -> Params {
    pairs.sort_unstable();
    Params { pairs, chunk_size_min, chunk_size_max: None }
}

impl Default for PairCounts {
    fn default() -> PairCounts {
        PairCounts::new()
    }
}

impl fmt::Debug for PairCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairCounts").field("size", &self.size).finish_non_exhaustive()
    }
}

fn index(pair: [u8; 2]) -> usize {
    usize::from(u16::from_be_bytes(pair))
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let pairs: Option<Vec<u16>> = keys.hex_list("pairs", 4);
        let mut pairs: Vec<[u8; 2]> = pairs
            .ok_or_else(|| {
                keys.error(
                    "pairs",
                    "must be pairs of 4 hexadecimal digits with dots between, or none",
                )
            })?
            .into_iter()
            .map(u16::to_be_bytes)
            .collect();
        pairs.sort_unstable();
        Ok(Params {
            pairs,
            chunk_size_min: keys.size("min")?,
            chunk_size_max: keys.optional_size("max")?,
        })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pairs=")?;
        if self.pairs.is_empty() {
            f.write_str("none")?;
        }
        for (i, &pair) in self.pairs.iter().enumerate() {
            let dot = if i == 0 { "" } else { "." };
            write!(f, "{dot}{:04x}", u16::from_be_bytes(pair))?;
        }
        write!(f, ",min={}", self.chunk_size_min)?;
        self.chunk_size_max.map_or(Ok(()), |max| write!(f, ",max={max}"))
    }

    fn chunk_size_min(&self) -> usize {
        self.chunk_size_min
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.chunk_size_max
    }

    /// Returns the mean on random data, although the pairs were probably learned from other data.
    fn mean(&self) -> Option<f64> {
        if self.pairs.is_empty() {
            return self.chunk_size_max.map(|max| max as f64);
        }
        Some(self.mean_on_random_data())
    }
}

/// The chunker of BFBC.
#[derive(Clone)]
pub struct Bfbc {
    params: Params,
    /// The set of pairs, with one bit for each possible pair.
    is_end: Box<[u64; PAIRS / 64]>,
    sieve: Sieve,
    level: Level,
}

constructors!(Bfbc);

impl Bfbc {
    pub(crate) fn from_checked(params: Params, _: Option<&KeyMaterial>, level: Level) -> Bfbc {
        let mut is_end = Box::new([0; PAIRS / 64]);
        for &pair in &params.pairs {
            is_end[index(pair) / 64] |= 1 << (index(pair) % 64);
        }
        let sieve = Sieve::of_pairs(&params.pairs);
        Bfbc { params, is_end, sieve, level: sieve.level(level) }
    }

    /// Returns the same chunker on another level than the best of this CPU. The cut-points are the
    /// same; only the speed differs.
    #[must_use]
    pub fn at_level(self, level: Level) -> Bfbc {
        Bfbc { level: self.sieve.level(level), ..self }
    }
}

impl Chunker for Bfbc {
    forward_chunk_sizes!();

    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        let Params { chunk_size_min: min, chunk_size_max: max, .. } = self.params;
        let is_end = |pair: &[u8]| {
            let index = index([pair[0], pair[1]]);
            self.is_end[index / 64] >> (index % 64) & 1 != 0
        };
        cut_within(data, more, max, |data| {
            let first = match self.sieve.first(self.level, data, min - 2, is_end) {
                Ok(at) => return Some(at + 2),
                Err(first) => first,
            };
            let at = data.get(first..)?.windows(2).position(is_end)?;
            Some(first + at + 2)
        })
    }

    fn level(&self) -> Level {
        self.level
    }
}

debug_params!(Bfbc);
