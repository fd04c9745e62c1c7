//! SampleByte: byte values that were chosen for the data end chunks, after a skip.
//!
//! Source: Aggarwal et al., "EndRE: An End-System Redundancy Elimination Service for Enterprises"
//! (2010), as described by Zhang et al., "A Fast Asymmetric Extremum Content Defined Chunking
//! Algorithm for Data Deduplication in Backup Storage Systems", in the section on related work.
//!
//! The rule, for a chunk that starts at byte 0:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! for i in period / 2 .. n:
//!     if byte i is a marker:  cut at i + 1
//! cut at n
//! ```
//!
//! A byte has 256 values, so on random data no set of values occurs less often than once in 256
//! bytes, and periods and averages above 256 bytes are refused. EndRE looks for the first marker of
//! a stream from byte 0 on; here every chunk is cut alike.
//!
//! # The markers
//!
//! The markers are learned from data in a separate step, and are then part of the spec's text.
//! [`ByteCounts`] counts byte values and makes [`Params`] of them. The source leaves the making of
//! the table to the workload. Here values are chosen as BFBC\* chooses its pairs (Gregoriadis et
//! al., algorithm 7): by falling count, so that the mean comes near the period.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;

use super::sieve::Sieve;
use super::{
    Algorithm, check_max, check_range, constructors, cut_within, debug_params, forward_chunk_sizes,
    greedy, power,
};
use crate::about::{About, KeyUse, Parameter, ShortForm};
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, Level, SpecError};

const NAME: &str = "samplebyte";

const ABOUT: About = About {
    name: NAME,
    title: "EndRE's SampleByte",
    rule: "Half a sampling period is skipped at the start of a chunk; then the first byte that is a \
           marker ends it. Markers are byte values that were learned from data before.",
    source: "Aggarwal et al., EndRE (2010), as Zhang et al., AE (2017), describe it in related work.",
    differences: "The first chunk of a stream is cut like all others. The learning of markers is \
                  our own: by falling frequency, until the mean is near the period.",
    good_at: "Very small chunks: one table look-up per byte, and a skip.",
    bad_at: "No mean above 256 bytes; the markers must be learned, and suit no other data. Cannot \
             be keyed, because other markers than the learned ones would not work.",
    key: KeyUse::Refused,
    parameters: &[
        Parameter::new("period", "bytes", "2 to 256, even", "Twice the skip (p)."),
        Parameter::new(
            "markers",
            "",
            "bytes as 2 hexadecimal digits, with dots between",
            "The byte values that end a chunk.",
        ),
        Parameter::new("max", "bytes", "period / 2 + 1 to 1073741824", "The largest chunk.")
            .or("none"),
    ],
    short_forms: &[ShortForm::new(
        "avg",
        &["markers", "max"],
        "above 256 / the number of markers, by up to 128, and at most 256",
        "Mean in bytes without max, which sets the period for these markers. Chunks have no largest size unless max is given.",
    )],
    dialects: &[],
};

/// The parameters of SampleByte, usually made by [`ByteCounts`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The sampling period in bytes: even, 2 to 256. Half a period is skipped behind a cut-point.
    pub period: usize,
    /// The byte values that end a chunk, in ascending order, each once; at least one.
    pub markers: Vec<u8>,
    /// The maximum chunk size in bytes, above half the period; `None` for no limit.
    pub chunk_size_max: Option<usize>,
}

impl Params {
    /// The largest mean, and the largest period, in bytes.
    pub const AVERAGE_MAX: usize = 256;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless each parameter is within its limits and the markers are in
    /// ascending order.
    pub fn check(&self) -> Result<(), SpecError> {
        check_range(NAME, "period", self.period, 2, Params::AVERAGE_MAX)?;
        if !self.period.is_multiple_of(2) {
            return Err(SpecError::new(NAME, "period", self.period, "must be even"));
        }
        if self.markers.is_empty() {
            return Err(SpecError::new(NAME, "markers", "", "at least one is needed"));
        }
        if let Some(two) = self.markers.windows(2).find(|two| two[0] >= two[1]) {
            let text = format!("{:02x}", two[1]);
            return Err(SpecError::new(NAME, "markers", text, "each once, in rising order"));
        }
        check_max(NAME, self.period / 2 + 1, self.chunk_size_max)
    }

    /// Returns the parameters of `self` with the period changed so that the mean on random data,
    /// without a maximum size, is within 2 % of `mean` bytes.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] if there is no such period; the error gives the range of possible
    /// means.
    pub fn for_average(self, mean: usize) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, 2, Params::AVERAGE_MAX)?;
        let of = |skip: usize| Params { period: 2 * skip, chunk_size_max: None, ..self.clone() };
        let distance = |skip: &usize| (of(*skip).mean_on_random_data() - mean as f64).abs();
        let nearest =
            (1..=Params::AVERAGE_MAX / 2).min_by(|a, b| distance(a).total_cmp(&distance(b)));
        let skip = nearest.unwrap_or(1);
        if distance(&skip) > 0.02 * mean as f64 {
            let count = self.markers.len();
            let expected = format!(
                "cannot be reached with {count} markers; the averages are those from {} to {}",
                1 + 256usize.div_ceil(count),
                (128 + 256 / count).min(Params::AVERAGE_MAX)
            );
            return Err(SpecError::new(NAME, "avg", mean, expected));
        }
        Ok(Params { period: 2 * skip, ..self })
    }

    /// Returns the mean on random data in bytes. Each byte behind the skip is a marker with the
    /// same chance.
    fn mean_on_random_data(&self) -> f64 {
        let chance = self.markers.len() as f64 / 256.0;
        let skip = self.period / 2;
        let within =
            self.chunk_size_max.map_or(1.0, |max| 1.0 - power(1.0 - chance, (max - skip) as u64));
        skip as f64 + within / chance
    }
}

/// Counts of the occurrences of each byte value.
#[derive(Clone, Debug)]
pub struct ByteCounts {
    counts: [u64; 256],
    size: u64,
}

impl ByteCounts {
    /// Returns counts that are all 0.
    pub fn new() -> ByteCounts {
        ByteCounts { counts: [0; 256], size: 0 }
    }

    /// Adds the values of `data` to the counts.
    pub fn add(&mut self, data: &[u8]) {
        for &byte in data {
            self.counts[usize::from(byte)] += 1;
        }
        self.size += data.len() as u64;
    }

    /// Returns the parameters whose mean on data like the counted data is about `period` bytes,
    /// without a maximum size. The result has no markers, which no spec accepts, if every value
    /// that occurs is too frequent alone, or if nothing was counted.
    pub fn for_period(&self, period: usize) -> Params {
        let counts = (0..=255).zip(self.counts);
        let mut ranked: Vec<(u8, u64)> = counts.filter(|&(_, count)| count > 0).collect();
        ranked.sort_by_key(|&(_, count)| Reverse(count));
        let mut markers = greedy::choose(ranked.into_iter(), self.size, period / 2, period);
        markers.sort_unstable();
        Params { period, markers, chunk_size_max: None }
    }
}

impl Default for ByteCounts {
    fn default() -> ByteCounts {
        ByteCounts::new()
    }
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let markers: Option<Vec<u8>> = keys.hex_list("markers", 2);
        let mut markers = markers.filter(|markers| !markers.is_empty()).ok_or_else(|| {
            keys.error("markers", "must be bytes as 2 hexadecimal digits with dots between")
        })?;
        markers.sort_unstable();
        let params = Params { period: 2, markers, chunk_size_max: keys.optional_size("max")? };
        if keys.form() == "avg" {
            return params.for_average(keys.size("avg")?);
        }
        Ok(Params { period: keys.size("period")?, ..params })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "period={},markers=", self.period)?;
        for (i, marker) in self.markers.iter().enumerate() {
            let dot = if i == 0 { "" } else { "." };
            write!(f, "{dot}{marker:02x}")?;
        }
        self.chunk_size_max.map_or(Ok(()), |max| write!(f, ",max={max}"))
    }

    fn chunk_size_min(&self) -> usize {
        self.period / 2 + 1
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.chunk_size_max
    }

    fn mean(&self) -> Option<f64> {
        Some(self.mean_on_random_data())
    }
}

/// The chunker of SampleByte.
#[derive(Clone)]
pub struct SampleByte {
    params: Params,
    is_marker: Box<[bool; 256]>,
    sieve: Sieve,
    level: Level,
}

constructors!(SampleByte);

impl SampleByte {
    pub(crate) fn from_checked(
        params: Params,
        _: Option<&KeyMaterial>,
        level: Level,
    ) -> SampleByte {
        let mut is_marker = Box::new([false; 256]);
        params.markers.iter().for_each(|&marker| is_marker[usize::from(marker)] = true);
        let sieve = Sieve::of_bytes(&params.markers);
        SampleByte { params, is_marker, sieve, level: sieve.level(level) }
    }

    /// Returns the same chunker on another level than the best of this CPU. The cut-points are the
    /// same; only the speed differs.
    #[must_use]
    pub fn at_level(self, level: Level) -> SampleByte {
        SampleByte { level: self.sieve.level(level), ..self }
    }
}

impl Chunker for SampleByte {
    forward_chunk_sizes!();

    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        let skip = self.params.period / 2;
        let is_marker = |byte: u8| self.is_marker[usize::from(byte)];
        cut_within(data, more, self.params.chunk_size_max, |data| {
            let first = match self.sieve.first(self.level, data, skip, |pair| is_marker(pair[0])) {
                Ok(at) => return Some(at + 1),
                Err(first) => first,
            };
            let at = data.get(first..)?.iter().position(|&byte| is_marker(byte))?;
            Some(first + at + 1)
        })
    }

    fn level(&self) -> Level {
        self.level
    }
}

debug_params!(SampleByte);
