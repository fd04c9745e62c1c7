//! SeqCDC: a chunk ends in a run of rising (or falling) bytes; unpromising regions are skipped.
//!
//! Source: Udayashankar et al., "SeqCDC: Hashless Content-Defined Chunking for Data Deduplication"
//! (Middleware 2024), section 3, and the same authors' vectorized form, section III. The two texts
//! and the released code differ in details. The rule here is that of the code (dedup-bench), to
//! which the parameters of Table I belong:
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
//! Crate seq_chunking 0.1.0 cuts as this rule does with a skip of one byte less: its `jump_size` of
//! 256 is a skip of 255. Skipping off (`skip` 0) and `min` 1 are the papers' BASE and BDRY.
//!
//! # Dialects
//!
//! The papers' texts differ in four points, which together are [`Rule::Literal`]: they count the
//! bytes of a run, not its pairs; they begin `length` bytes before `min`; they cut behind the last
//! byte of the run, so that the first possible cut is at `min`; and they skip when the count of
//! opposing pairs exceeds the trigger (this is the text of the vector form; the other text leaves
//! it open).
//!
//! ```text
//! i = max(min - length, 0) + 1
//! ... run == length - 1: cut at i + 1
//! ... opposing == trigger + 1: opposing = 0;  i += 1 + skip
//! ```
//!
//! A fifth difference is in the vector form's masks: an equal pair is not in order, so it breaks a
//! run. This is [`Equal::Break`]. Both can be combined freely; the text of the vector form is the
//! combination of both.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::blocks::{AsItIs, LINE_SIZE, Permuted, Values, runs};
use super::{
    Algorithm, CHUNK_SIZE_LIMIT, check_range, check_sizes, constructors, debug_params,
    forward_chunk_sizes, paper, power,
};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::chunker::Batch;
use crate::kernel::{BLOCK_SIZE, Kernel, Task};
use crate::keys::Keys;
use crate::segments::{List, Round, Segments};
use crate::{Chunker, KeyMaterial, Level, SpecError};

const NAME: &str = "seqcdc";

const ABOUT: About = About {
    name: NAME,
    title: "a run of rising or falling bytes, with skips",
    rule: "From the smallest size on, neighbouring bytes are compared. A chunk ends where `length` \
           pairs in the mode's order have come without one in the other order; equal pairs do not \
           count. After `trigger` pairs in the other order, `skip` bytes are passed over unseen.",
    source: "Udayashankar et al., SeqCDC: Hashless Content-Defined Chunking for Data Deduplication \
             (Middleware 2024), section 3, and its vectorized form, section III; the rule is that \
             of the code that the authors released (dedup-bench).",
    differences: "None from the released code. The papers' texts differ from it: see the dialects.",
    good_at: "Speed: a few comparisons a byte, and many bytes never seen. No hash, no table.",
    bad_at: "Constant and slowly changing data is cut at the largest size; a change in a skipped \
             region can shift the skips behind it until the next cut-point.",
    key: KeyUse::Permutation,
    parameters: &[
        Parameter::new("mode", "", "inc or dec", "The order that ends a chunk."),
        Parameter::new("length", "pairs", "1 to 32", "The pairs of a run (SeqLength)."),
        Parameter::new(
            "trigger",
            "pairs",
            "1 to 65535",
            "The opposing pairs before a skip (SkipTrigger).",
        ),
        Parameter::new("skip", "bytes", "0 to 1073741824", "The bytes of a skip (SkipSize)."),
        Parameter::new("min", "bytes", "1 to 1073741824", "The smallest chunk."),
        Parameter::new("max", "bytes", "min to 1073741824", "The largest chunk."),
        Parameter::new(
            "equal",
            "",
            "absorb or break",
            "An equal pair leaves a run unchanged, or ends the run.",
        )
        .or("absorb"),
        Parameter::new(
            "rule",
            "",
            "released or literal",
            "The form that is followed: the released code or the papers' text.",
        )
        .or("released"),
    ],
    short_forms: &[
        ShortForm::new(
            "avg",
            &["mode"],
            "2048 to 1048576",
            "Mean in bytes, which sets the other parameters; mode inc unless given.",
        ),
        ShortForm::new(
            "paper",
            &["mode", "equal", "rule"],
            "4k, 8k or 16k",
            "Table I's setting of that name; real means 3578, 7041, 13268 bytes.",
        ),
    ],
    dialects: &[
        Dialect::new("equal=break", "An equal pair ends a run, as in the vector form's masks."),
        Dialect::new(
            "rule=literal",
            "The papers' text: length counts bytes, scanning begins length bytes before min, the \
             cut is behind the run, the skip comes when the trigger is exceeded.",
        ),
        Dialect::new("equal=break,rule=literal", "The vector form's text, read literally."),
        Dialect::new("skip=0", "No skipping: the papers' BASE; with min=1 their BDRY."),
    ],
};

/// The order of bytes that ends a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Each byte is above the one before.
    Increasing,
    /// Each byte is below the one before.
    Decreasing,
}

/// The effect of an equal pair on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Equal {
    /// The run is unaffected, as in the released code.
    #[default]
    Absorb,
    /// The run ends, but the pair does not count as opposing, as in the text of the vector form.
    Break,
}

/// The origin of the rule; the module documentation gives the differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Rule {
    /// The rule of the released code.
    #[default]
    Released,
    /// The rule of the papers' texts.
    Literal,
}

/// The parameters of SeqCDC; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The order that ends a chunk.
    pub mode: Mode,
    /// The number of pairs in that order, without an opposing pair between them, that end a chunk:
    /// 1 to 32. The papers' SeqLength. By [`Rule::Literal`] it is the number of bytes of a run,
    /// from 2.
    pub length: u32,
    /// The number of opposing pairs that start a skip: 1 to 65535. The papers' SkipTrigger.
    pub trigger: u32,
    /// The size of a skip. The papers' SkipSize.
    pub skip_size: usize,
    /// The minimum chunk size, at least 1. The first pair looked at is the last byte of this size
    /// and the byte behind it.
    pub chunk_size_min: usize,
    /// The maximum chunk size.
    pub chunk_size_max: usize,
    /// The effect of an equal pair on a run.
    pub equal: Equal,
    /// The origin of the rule.
    pub rule: Rule,
}

impl Params {
    /// The smallest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MIN: usize = 2 * 1024;

    /// The largest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MAX: usize = 1024 * 1024;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless each parameter is within its limits and `min <= max`. No size
    /// may exceed [`CHUNK_SIZE_LIMIT`].
    pub fn check(&self) -> Result<(), SpecError> {
        let length_min = if self.rule == Rule::Literal { 2 } else { 1 };
        check_range(NAME, "length", self.length as usize, length_min, 32)?;
        check_range(NAME, "trigger", self.trigger as usize, 1, 65535)?;
        check_range(NAME, "skip", self.skip_size, 0, CHUNK_SIZE_LIMIT)?;
        let min = self.chunk_size_min;
        check_sizes(NAME, min, min, Some(self.chunk_size_max))
    }

    /// Returns Table I's setting for a nominal 4, 8 or 16 KiB, as printed there; `None` for any
    /// other size.
    ///
    /// The mean of these settings on random data is far from nominal; see [`Params::mean`].
    pub fn paper(nominal_size: usize) -> Option<Params> {
        let (trigger, skip_size) = match nominal_size {
            4096 => (55, 256),
            8192 => (50, 256),
            16384 => (50, 512),
            _ => return None,
        };
        let (chunk_size_min, chunk_size_max) = paper::sizes(nominal_size)?;
        Some(Params {
            mode: Mode::Increasing,
            length: 5,
            trigger,
            skip_size,
            chunk_size_min,
            chunk_size_max,
            equal: Equal::Absorb,
            rule: Rule::Released,
        })
    }

    /// Returns parameters whose mean chunk size on random data is `mean` bytes.
    ///
    /// Runs have 5 pairs below 24 KiB, 6 below 192 KiB and 7 above, so that a skip stays below
    /// twelve times the number of bytes looked at between two skips. A skip is a 32nd, a 256th or a
    /// 2048th of the mean; the trigger is 50, as in Table I from 8 KiB on. The minimum size is the
    /// rest of the mean (0.3 to 0.75 of it), and the maximum size is four times the mean.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`].
    pub fn for_average(mean: usize, mode: Mode) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
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
            equal: Equal::Absorb,
            rule: Rule::Released,
        };
        #[expect(clippy::cast_possible_truncation, reason = "a mean is below the largest size")]
        let mean_beyond_min = (params.mean() - 0.5) as usize;
        params.chunk_size_min = mean - mean_beyond_min;
        Ok(params)
    }

    /// Returns the mean chunk size in bytes on endless random data.
    ///
    /// Between two skips the rule is a Markov chain over (opposing pairs, run, last byte), solved
    /// exactly. Every period between skips is like the first, because its first byte is new;
    /// without a skip (`skip_size` 0) this is an approximation. The frequency of cuts at the
    /// maximum size is taken from a geometric distribution. Means measured with 40,000 chunks
    /// differ by less than 0.5 % for the parameters of [`Params::for_average`], and by less than 1
    /// % for those of [`Params::paper`], whose maximum size is reached more often
    /// (`examples/means.rs`).
    pub fn mean(&self) -> f64 {
        let (pair_count, cut_chance) = self.period();
        let steps = self.steps();
        // The bytes before the pairs that are looked at.
        let min = steps.first as f64;
        let skip = self.skip_size as f64;
        // The pairs of a period, and its skip unless it ended in a cut; then the sum over all
        // periods.
        let beyond_min = (pair_count + skip * (1.0 - cut_chance)) / cut_chance;
        // If hardly any chunk ends before the maximum size, the chance below is 1 except for
        // rounding.
        if ((self.chunk_size_max - self.chunk_size_min) as f64) < beyond_min / 1000.0 {
            return self.chunk_size_max as f64;
        }
        // The chance to reach the maximum size if each byte beyond min had the same chance to cut.
        let reach_max =
            power(1.0 - 1.0 / beyond_min, (self.chunk_size_max - self.chunk_size_min) as u64);
        min + beyond_min * (1.0 - reach_max)
    }

    /// Returns the mean number of pairs that a period between two skips compares, and the chance
    /// that the period ends in a cut.
    fn period(&self) -> (f64, f64) {
        let Steps { length, trigger, .. } = self.steps();
        let (mut pair_count, mut cut_chance) = (0.0, 0.0);
        // `entry[v]` is the chance to reach a last byte of value v without a run.
        let mut entry = [1.0 / 256.0; 256];
        for _ in 0..trigger {
            let mut next_entry = [0.0; 256];
            match self.equal {
                Equal::Absorb => {
                    let mut visits = entry.map(|chance| chance * 256.0 / 255.0);
                    for _ in 0..length {
                        // An equal pair stays at the same value. Of the other 255 values, those
                        // above continue the run, and those below end it.
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
                    // A run that has risen `length` times is a cut. It does not stay at its value,
                    // so the factor for staying is taken back.
                    cut_chance += visits.iter().sum::<f64>() * 255.0 / 256.0;
                }
                Equal::Break => {
                    // The loop goes by rising last byte: `below[r]` are the visits of lesser bytes
                    // after r pairs of a run. An equal pair leads back to the same byte without a
                    // run.
                    let mut below = [0.0; 32];
                    let mut visits = [0.0; 256];
                    for (visit, chance) in visits.iter_mut().zip(entry) {
                        let risen: [f64; 33] = core::array::from_fn(|run| match run {
                            0 => 0.0,
                            _ => below[run - 1] / 256.0,
                        });
                        let runs = &risen[1..length as usize];
                        let in_runs = runs.iter().sum::<f64>();
                        let without = (chance + in_runs / 256.0) * 256.0 / 255.0;
                        *visit = without + in_runs;
                        cut_chance += risen[length as usize];
                        below[0] += without;
                        for (below, risen) in below[1..].iter_mut().zip(runs) {
                            *below += risen;
                        }
                    }
                    pair_count += visits.iter().sum::<f64>();
                    let mut above = 0.0;
                    for (chance, visit) in next_entry.iter_mut().zip(visits).rev() {
                        *chance += above / 256.0;
                        above += visit;
                    }
                }
            }
            entry = next_entry;
        }
        (pair_count, cut_chance)
    }
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let mode = keys.word("mode", &[("inc", Mode::Increasing), ("dec", Mode::Decreasing)])?;
        let equal = keys.word("equal", &[("absorb", Equal::Absorb), ("break", Equal::Break)])?;
        let rule =
            keys.word("rule", &[("released", Rule::Released), ("literal", Rule::Literal)])?;
        match keys.form() {
            "avg" => Params::for_average(keys.size("avg")?, mode),
            "paper" => Ok(Params { mode, equal, rule, ..keys.setting(Params::paper)? }),
            _ => Ok(Params {
                mode,
                length: keys.number("length")?,
                trigger: keys.number("trigger")?,
                skip_size: keys.size("skip")?,
                chunk_size_min: keys.size("min")?,
                chunk_size_max: keys.size("max")?,
                equal,
                rule,
            }),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Params { length, trigger, skip_size, chunk_size_min, chunk_size_max, .. } = self;
        let mode = match self.mode {
            Mode::Increasing => "inc",
            Mode::Decreasing => "dec",
        };
        write!(f, "mode={mode},length={length},trigger={trigger},skip={skip_size}")?;
        write!(f, ",min={chunk_size_min},max={chunk_size_max}")?;
        if self.equal == Equal::Break {
            write!(f, ",equal=break")?;
        }
        if self.rule == Rule::Literal {
            write!(f, ",rule=literal")?;
        }
        Ok(())
    }

    fn chunk_size_min(&self) -> usize {
        self.chunk_size_min
    }

    fn chunk_size_max(&self) -> Option<usize> {
        Some(self.chunk_size_max)
    }

    fn mean(&self) -> Option<f64> {
        Some(self.mean())
    }
}

/// The chunker of SeqCDC.
///
/// A large buffer is cut at several places at once, in one thread: while one place waits for
/// memory, another continues ([`Parallel`](crate::Parallel) explains why the cut-points stay the
/// same).
#[derive(Clone)]
pub struct SeqCdc {
    params: Params,
    /// The value that takes the place of each byte value; `None` without a key.
    permutation: Option<Box<[u8; 256]>>,
    level: Level,
    segments: Segments,
}

constructors!(SeqCdc);

impl SeqCdc {
    pub(crate) fn from_checked(
        params: Params,
        material: Option<&KeyMaterial>,
        level: Level,
    ) -> SeqCdc {
        let permutation = material.map(KeyMaterial::permutation);
        SeqCdc { params, permutation, level: level.of_kernel(), segments: params.segments() }
    }

    /// Returns the same chunker on another level than the best of this CPU. The cut-points are the
    /// same; only the speed differs.
    #[must_use]
    pub fn at_level(self, level: Level) -> SeqCdc {
        SeqCdc { level: level.of_kernel(), ..self }
    }
}

impl Chunker for SeqCdc {
    forward_chunk_sizes!();

    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        let permutation = self.permutation.as_deref();
        self.level.dispatch(CutOne { params: &self.params, permutation, data, more })
    }

    fn next_cuts(&self, data: &[u8], start: usize, more: bool, ends: &mut Vec<usize>) {
        self.segments.next_cuts(&Alone(self), Batch { data, start, more, ends }, |round| {
            let permutation = self.permutation.as_deref();
            self.level.dispatch(CutAll { params: &self.params, permutation, round })
        });
    }

    fn batch_size_max(&self) -> usize {
        self.segments.round_size_max()
    }

    fn level(&self) -> Level {
        self.level
    }
}

debug_params!(SeqCdc, permutation);

/// The same chunker, cutting one chunk after the other.
#[derive(Debug)]
struct Alone<'a>(&'a SeqCdc);

impl Chunker for Alone<'_> {
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        self.0.next_cut(data, more)
    }

    fn chunk_size_min(&self) -> usize {
        self.0.chunk_size_min()
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.0.chunk_size_max()
    }
}

/// Evaluates `$cut`, a function over `Scan<K, V, EQUAL_BREAKS, DEPTH>`, with the type of scan that
/// the parameters require.
macro_rules! with_scan {
    ($depth:ident, $kernel:ident, $params:ident, $permutation:ident, $data:expr, $more:expr, |$scan:ident| $cut:expr) => {{
        let (params, kernel, data, more) = ($params, $kernel, $data, $more);
        match ($permutation, $params.equal) {
            (None, Equal::Absorb) => {
                let $scan =
                    Scan::<_, _, false, $depth> { params, kernel, data, more, values: AsItIs };
                $cut
            }
            (None, Equal::Break) => {
                let $scan =
                    Scan::<_, _, true, $depth> { params, kernel, data, more, values: AsItIs };
                $cut
            }
            (Some(table), Equal::Absorb) => {
                let values = Permuted(table);
                let $scan = Scan::<_, _, false, $depth> { params, kernel, data, more, values };
                $cut
            }
            (Some(table), Equal::Break) => {
                let values = Permuted(table);
                let $scan = Scan::<_, _, true, $depth> { params, kernel, data, more, values };
                $cut
            }
        }
    }};
}

/// Cuts the chunk at the start of `data`, after mapping the bytes by `permutation`.
struct CutOne<'a> {
    params: &'a Params,
    permutation: Option<&'a [u8; 256]>,
    data: &'a [u8],
    more: bool,
}

impl Task for CutOne<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> Option<usize> {
        let CutOne { params, permutation, data, more } = self;
        with_scan!(DEPTH_ALONE, kernel, params, permutation, data, more, |scan| scan.cut_one())
    }
}

/// Cuts the segments of a round alongside each other, and returns a list for each, as required by
/// [`Segments::next_cuts`].
struct CutAll<'a> {
    params: &'a Params,
    permutation: Option<&'a [u8; 256]>,
    round: Round<'a>,
}

impl Task for CutAll<'_> {
    type Output = Vec<List>;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> Vec<List> {
        let CutAll { params, permutation, round } = self;
        let Round { data, more, .. } = round;
        with_scan!(DEPTH, kernel, params, permutation, data, more, |scan| scan.cut_all(round))
    }
}

/// The values that differ between the two [`Rule`]s, in the terms of the pseudo-code.
#[derive(Clone, Copy)]
struct Steps {
    /// The `i` of the first pair that is looked at.
    first: usize,
    /// The pairs of a run.
    length: u32,
    /// The opposing pairs before a skip.
    trigger: u32,
}

/// The number of segments that are cut at once. On Zen 5, more gain little.
const STREAM_COUNT: usize = 4;
/// The maximum size of a round of segments in bytes. All ends of a round are known before the first
/// is returned.
const ROUND_SIZE_MAX: usize = 256 * 1024 * 1024;

/// The prefetch distance in periods if several segments are cut at once.
const DEPTH: usize = 3;
/// The prefetch distance in periods if one chunk is cut after the other, which has to hide the
/// latency of memory alone.
const DEPTH_ALONE: usize = 6;
/// The prefetch distance in bytes within a period that is longer than most.
const AHEAD: usize = 2048;

impl Params {
    fn steps(&self) -> Steps {
        let Params { length, trigger, chunk_size_min: min, .. } = *self;
        match self.rule {
            Rule::Released => Steps { first: min, length, trigger },
            Rule::Literal => Steps {
                first: min.saturating_sub(length as usize) + 1,
                length: length - 1,
                trigger: trigger + 1,
            },
        }
    }

    /// Returns the approximate size in bytes of a period, including the skip at its end.
    fn period_size(&self) -> usize {
        2 * self.trigger as usize + self.skip_size
    }

    /// Returns segments in which lists mostly meet soon. Lists meet when two of them look at the
    /// same bytes by chance, which takes longer the more bytes are skipped.
    fn segments(&self) -> Segments {
        let skipped = self.period_size() / (2 * self.trigger as usize);
        let least = self.chunk_size_min.saturating_mul(32 * skipped);
        let most = least.saturating_mul(4).min(ROUND_SIZE_MAX / STREAM_COUNT);
        Segments::new(STREAM_COUNT, least, most)
    }

    /// Continues pair by pair from pair `i` of `data`. This is the rule as written, used for the
    /// last bytes.
    fn scan_pairs(
        &self,
        data: &[u8],
        value: impl Fn(u8) -> u8,
        mut run: u32,
        mut opposing: u32,
        mut i: usize,
    ) -> Option<usize> {
        let Steps { length, trigger, .. } = self.steps();
        while i < data.len() {
            let (before, byte) = (value(data[i - 1]), value(data[i]));
            let in_order = match self.mode {
                Mode::Increasing => before < byte,
                Mode::Decreasing => before > byte,
            };
            if in_order {
                run += 1;
                if run == length {
                    return Some(i);
                }
            } else if before != byte {
                run = 0;
                opposing += 1;
                if opposing == trigger {
                    opposing = 0;
                    i += self.skip_size;
                }
            } else if self.equal == Equal::Break {
                run = 0;
            }
            i += 1;
        }
        None
    }
}

/// The state shared by all searches. `EQUAL_BREAKS` stands for [`Equal::Break`]; `DEPTH` is the
/// prefetch distance in periods.
#[derive(Clone, Copy)]
struct Scan<'a, K, V, const EQUAL_BREAKS: bool, const DEPTH: usize> {
    params: &'a Params,
    kernel: K,
    data: &'a [u8],
    /// Set if bytes may follow the data.
    more: bool,
    values: V,
}

/// The state of the search for a chunk's end.
#[derive(Clone, Copy)]
struct Search {
    /// The chunk's first byte.
    start: usize,
    /// The end of the chunk if nothing is found: the maximum size, or the end of the data.
    end: usize,
    /// The second byte of the next pair to look at.
    i: usize,
    run: u32,
    opposing: u32,
}

enum Found {
    /// There is no end in this period.
    Nothing,
    /// The end of the chunk.
    End(usize),
    /// The end cannot be found with the bytes given.
    TooFew,
}

impl<K: Kernel, V: Values, const EQUAL_BREAKS: bool, const DEPTH: usize>
    Scan<'_, K, V, EQUAL_BREAKS, DEPTH>
{
    /// Cuts the chunk at the start of the data.
    #[inline(always)]
    fn cut_one(self) -> Option<usize> {
        if self.data.is_empty() {
            return None;
        }
        let mut search = self.search(0);
        loop {
            match self.period(&mut search) {
                Found::Nothing => {}
                Found::End(end) => return Some(end),
                Found::TooFew => return None,
            }
        }
    }

    /// Cuts the segments of a round, one period of each in turn. Each segment is cut until an end
    /// is in the next segment's list, or until it is exceeded by a quarter of its size.
    #[inline(always)]
    fn cut_all(self, round: Round<'_>) -> Vec<List> {
        let mut lists: Vec<List> = round.starts().map(List::at).collect();
        let mut searches: Vec<Option<Search>> =
            round.starts().map(|start| Some(self.search(start))).collect();
        let mut going_count = searches.len();
        while going_count > 0 {
            for (index, going) in searches.iter_mut().enumerate() {
                let Some(search) = going else { continue };
                let is_done = match self.period(search) {
                    Found::Nothing => continue,
                    Found::End(end) => {
                        lists[index].push(end);
                        *search = self.search(end);
                        end == self.data.len() || is_enough(round, &lists, index, end)
                    }
                    Found::TooFew => true,
                };
                if is_done {
                    *going = None;
                    going_count -= 1;
                }
            }
        }
        lists
    }

    /// Starts the search for the end of the chunk that begins at `start`.
    #[inline(always)]
    fn search(self, start: usize) -> Search {
        let Scan { params, data, .. } = self;
        let i = start + params.steps().first;
        // The next bytes are far from the previous ones, so the hardware does not predict them.
        // With prefetching, the kernel is several times faster from memory.
        for period in 0..DEPTH {
            self.prefetch(i, period, 3);
            self.prefetch(i + params.chunk_size_min, period, 4);
        }
        let end = data.len().min(start.saturating_add(params.chunk_size_max));
        Search { start, end, i, run: 0, opposing: 0 }
    }

    /// Prefetches the first lines of the period that begins about `period` periods behind byte
    /// `offset`.
    #[inline(always)]
    fn prefetch(self, offset: usize, period: usize, line_count: usize) {
        let offset = offset.wrapping_add(self.params.period_size().wrapping_mul(period));
        for line in 0..line_count {
            self.kernel.prefetch(self.data, offset.wrapping_add(line * LINE_SIZE));
        }
    }

    /// Searches until a skip or the end of the chunk.
    ///
    /// The comparisons of 64 pairs become two masks. After equal pairs are squeezed out of them,
    /// two questions remain that are cheap and nearly always have the same answer: does a run end
    /// here, and is the trigger reached? One branch for each pair, which random data mispredicts
    /// every other time, would cost far more.
    #[inline(always)]
    fn period(self, search: &mut Search) -> Found {
        let Scan { params, kernel, data, more, values } = self;
        let Steps { length, trigger, .. } = params.steps();
        // By the papers' text, the byte that completes the run is the chunk's last.
        let behind = usize::from(params.rule == Rule::Literal);
        let Search { start, end, mut i, mut run, mut opposing } = *search;
        while let Some(bytes) = data[..end].get(i - 1..).and_then(|rest| rest.first_chunk()) {
            let (rising, falling) = values.compare(kernel, bytes);
            let (ordered, opposed) = match params.mode {
                Mode::Increasing => (rising, falling),
                Mode::Decreasing => (falling, rising),
            };
            // The pairs that count, at the low end: those in order are the ones of `squeezed`.
            let counted = if EQUAL_BREAKS { u64::MAX } else { ordered | opposed };
            let squeezed = if EQUAL_BREAKS { ordered } else { kernel.squeeze(ordered, counted) };
            let opposed_count = opposed.count_ones();
            let is_triggered = opposing + opposed_count >= trigger;
            let ends = runs(squeezed, length);
            let leading = squeezed.trailing_ones();
            if ends != 0 || run + leading >= length {
                // The first run may have begun in the block before.
                let last =
                    if run + leading >= length { length - run - 1 } else { ends.trailing_zeros() };
                let at = kernel.nth_one(counted, last);
                let trigger_at =
                    if is_triggered { kernel.nth_one(opposed, trigger - opposing - 1) } else { 64 };
                if at < trigger_at {
                    return Found::End(i + at as usize + behind);
                }
            }
            if is_triggered {
                i +=
                    kernel.nth_one(opposed, trigger - opposing - 1) as usize + 1 + params.skip_size;
                // These bytes are looked at a little later, by this chunk or, if it ends soon, by
                // the next one: wherever in this period it ends, the next chunk's periods are about
                // here.
                self.prefetch(i, DEPTH, 3);
                self.prefetch(i + params.chunk_size_min, DEPTH, 4);
                *search = Search { start, end, i, run: 0, opposing: 0 };
                return Found::Nothing;
            }
            let count = counted.count_ones();
            // The ones at the high end of the squeezed bits.
            let trailing = (squeezed << (63 - (count.wrapping_sub(1) & 63))).leading_ones();
            run = if leading >= count { run + count } else { trailing };
            opposing += opposed_count;
            i += BLOCK_SIZE;
            // If there are hardly any opposing pairs, no skip comes soon.
            if i - search.i >= 2 * BLOCK_SIZE {
                kernel.prefetch(data, i + AHEAD);
            }
        }
        match params.scan_pairs(&data[..end], |byte| values.value(byte), run, opposing, i) {
            Some(at) => Found::End(at + behind),
            None if !more || end - start == params.chunk_size_max => Found::End(end),
            None => Found::TooFew,
        }
    }
}

/// Returns `true` if segment `index`, of which a chunk ended at `end`, need not be cut any further.
fn is_enough(round: Round<'_>, lists: &[List], index: usize, end: usize) -> bool {
    match lists.get(index + 1).map(List::ends) {
        // The last segment.
        None => end >= round.end(),
        Some(next) => {
            end >= next[0] && (end >= next[0] + round.size / 4 || next.binary_search(&end).is_ok())
        }
    }
}

#[cfg(test)]
mod tests {
    use cutpoint_testing::SplitMix64;

    use super::*;
    use crate::segments::joined;

    /// The lists of the segments are mostly taken; otherwise cutting them together would gain
    /// nothing.
    #[test]
    fn lists_of_noise_segments_are_taken() {
        let data = SplitMix64::bytes(1, 1 << 20);
        let params = Params::for_average(4096, Mode::Increasing).expect("the mean is right");
        for level in Level::available() {
            let chunker = SeqCdc::from_checked(params, None, level);
            let round = Round { data: &data, more: false, start: 0, count: 4, size: 1 << 18 };
            let lists = level.dispatch(CutAll { params: &params, permutation: None, round });
            assert_eq!(lists.len(), 4, "{}: lists", level.name());
            let joined = joined(&Alone(&chunker), round, &lists, &mut Vec::new());
            let (reached, gained_size) = joined.expect("it can be told");
            assert_eq!(reached.end, data.len(), "{}", level.name());
            assert!(gained_size > 700_000, "{}: {gained_size} of 786432 bytes", level.name());
        }
    }

    /// Data of many smallest chunks is cut in several segments, and an ordinary file in one.
    #[test]
    fn segments_hold_many_chunks() {
        let params = Params::paper(16 * 1024).expect("it is one of the three");
        let chunker = SeqCdc::from_checked(params, None, Level::SCALAR);
        let wanted_size = chunker.batch_size_max();
        assert!((16 << 20..64 << 20).contains(&wanted_size), "{wanted_size} bytes at once");
        assert_eq!(chunker.batch_size(), 0, "a reader's buffer need not be large");
    }
}
