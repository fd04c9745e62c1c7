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
//! Crate seq_chunking 0.1.0 cuts as this rule does with a skip of one byte less: its `jump_size` of
//! 256 is a skip of 255. Skipping off (`skip` 0) and `min` 1 are the papers' BASE and BDRY.
//!
//! # Dialects
//!
//! The papers' texts say otherwise in four points, which together are [`Rule::Literal`]: they count
//! the bytes of a run, not its pairs; they begin `length` bytes before `min`; they cut behind the
//! last byte of the run, so that the first cut they can make is at `min`; and they skip when the
//! count of opposing pairs exceeds the trigger (the vector form's text; the other leaves it open).
//!
//! ```text
//! i = max(min - length, 0) + 1
//! ... run == length - 1: cut at i + 1
//! ... opposing == trigger + 1: opposing = 0;  i += 1 + skip
//! ```
//!
//! In a fifth point they differ by the vector form's masks: an equal pair is not in order, so it
//! breaks a run: [`Equal::Break`]. The two can be combined freely; the text of the vector form is
//! both.

use alloc::boxed::Box;
use core::fmt;

use super::blocks::{AsItIs, LINE_SIZE, Permuted, Values, runs};
use super::{Algorithm, CHUNK_SIZE_LIMIT, check_range, check_sizes, constructors, paper, power};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::kernel::{BLOCK_SIZE, Kernel, Task};
use crate::keys::Keys;
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
            "Whether an equal pair leaves a run alone or ends it.",
        )
        .or("absorb"),
        Parameter::new(
            "rule",
            "",
            "released or literal",
            "Whether the released code or the papers' text is followed.",
        )
        .or("released"),
    ],
    short_forms: &[
        ShortForm::new(
            "avg",
            &["mode"],
            "2048 to 1048576",
            "The parameters whose mean is this many bytes; mode inc unless given.",
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

/// Which order of bytes ends a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Each byte above the one before.
    Increasing,
    /// Each byte below the one before.
    Decreasing,
}

/// What an equal pair does to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Equal {
    /// Nothing: the released code.
    #[default]
    Absorb,
    /// It ends the run, and is no opposing pair: the text of the vector form.
    Break,
}

/// Whose rule it is; the module says what differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Rule {
    /// That of the released code.
    #[default]
    Released,
    /// That of the papers' texts.
    Literal,
}

/// The parameters of SeqCDC; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The order that ends a chunk.
    pub mode: Mode,
    /// How many pairs in that order, not broken by one in the other, end a chunk: 1 to 32.
    /// The papers' SeqLength. By [`Rule::Literal`] it counts the bytes of a run, from 2.
    pub length: u32,
    /// How many pairs in the other order start a skip: 1 to 65535. The papers' SkipTrigger.
    pub trigger: u32,
    /// The bytes of a skip. The papers' SkipSize.
    pub skip_size: usize,
    /// The smallest chunk, at least 1: the first pair looked at is its last byte and the next one.
    pub chunk_size_min: usize,
    /// The largest chunk.
    pub chunk_size_max: usize,
    /// What an equal pair does.
    pub equal: Equal,
    /// Whose rule it is.
    pub rule: Rule,
}

impl Params {
    /// The smallest mean that [`Params::for_average`] can give, in bytes.
    pub const AVERAGE_MIN: usize = 2 * 1024;

    /// The largest mean that [`Params::for_average`] can give, in bytes.
    pub const AVERAGE_MAX: usize = 1024 * 1024;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// [`SpecError`] unless each is in its limits and `min <= max`; no size may be above
    /// [`CHUNK_SIZE_LIMIT`].
    pub fn check(&self) -> Result<(), SpecError> {
        let length_min = if self.rule == Rule::Literal { 2 } else { 1 };
        check_range(NAME, "length", self.length as usize, length_min, 32)?;
        check_range(NAME, "trigger", self.trigger as usize, 1, 65535)?;
        check_range(NAME, "skip", self.skip_size, 0, CHUNK_SIZE_LIMIT)?;
        let min = self.chunk_size_min;
        check_sizes(NAME, min, min, Some(self.chunk_size_max))
    }

    /// Returns Table I's setting for a nominal 4, 8 or 16 KiB, as printed there; `None` for another.
    ///
    /// What these give on random data is far from nominal: [`Params::mean`].
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
    /// Runs are of 5 pairs below 24 KiB, of 6 below 192 KiB and of 7 above, so that a skip stays
    /// below twelve times what is looked at between two skips. A skip is a 32nd, a 256th or a 2048th
    /// of the mean; the trigger is 50, as in Table I from 8 KiB on. The smallest size is what is left
    /// to reach the mean (0.3 to 0.75 of it) and the largest is four times the mean.
    ///
    /// # Errors
    ///
    /// [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to [`Params::AVERAGE_MAX`].
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

    /// Returns the mean chunk size in bytes on random data without end.
    ///
    /// Between two skips the rule is a Markov chain over (opposing pairs, run, last byte), solved
    /// exactly; every period between skips is like the first, because its first byte is new (without
    /// a skip, `skip_size` 0, that is an approximation). How often the largest size cuts is taken
    /// from a geometric law. Means measured with 40,000 chunks differ by less than 0.5 % for the
    /// parameters of [`Params::for_average`] and 1 % for those of [`Params::paper`], whose largest size is
    /// reached more often (`examples/means.rs`).
    pub fn mean(&self) -> f64 {
        let (pair_count, cut_chance) = self.period();
        let steps = self.steps();
        // The bytes before the pairs that are looked at.
        let min = steps.first as f64;
        let skip = self.skip_size as f64;
        // A period's pairs, and its skip unless it ended in a cut; then all periods.
        let beyond_min = (pair_count + skip * (1.0 - cut_chance)) / cut_chance;
        // Where hardly a chunk ends before the largest size, the chance below is 1 but for rounding.
        if ((self.chunk_size_max - self.chunk_size_min) as f64) < beyond_min / 1000.0 {
            return self.chunk_size_max as f64;
        }
        // The chance to come to the largest size, if each byte beyond min had the same chance to cut.
        let reach_max =
            power(1.0 - 1.0 / beyond_min, (self.chunk_size_max - self.chunk_size_min) as u64);
        min + beyond_min * (1.0 - reach_max)
    }

    /// Returns the mean number of pairs that a period between two skips compares, and the chance
    /// that it ends in a cut.
    fn period(&self) -> (f64, f64) {
        let Steps { length, trigger, .. } = self.steps();
        let (mut pair_count, mut cut_chance) = (0.0, 0.0);
        // `entry[v]`: the chance to come, with no run, to a last byte of value v.
        let mut entry = [1.0 / 256.0; 256];
        for _ in 0..trigger {
            let mut next_entry = [0.0; 256];
            match self.equal {
                Equal::Absorb => {
                    let mut visits = entry.map(|chance| chance * 256.0 / 255.0);
                    for _ in 0..length {
                        // An equal pair stays; of the other 255 values, those above go on with the
                        // run and those below end it.
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
                    // What has risen `length` times is cut; it does not stay, so the stay is taken
                    // back.
                    cut_chance += visits.iter().sum::<f64>() * 255.0 / 256.0;
                }
                Equal::Break => {
                    // By rising last byte: `below[r]` are the visits of lesser bytes after r pairs
                    // of a run. An equal pair leads back to the same byte without a run.
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

    fn check(&self) -> Result<(), SpecError> {
        self.check()
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

    fn chunker(&self, material: Option<&KeyMaterial>, level: Level) -> Box<dyn Chunker> {
        Box::new(SeqCdc::from_checked(*self, material, level))
    }
}

/// The chunker of SeqCDC.
#[derive(Clone)]
pub struct SeqCdc {
    params: Params,
    /// What each byte value counts as; `None` without a key.
    permutation: Option<Box<[u8; 256]>>,
    level: Level,
}

constructors!(SeqCdc);

impl SeqCdc {
    fn from_checked(params: Params, material: Option<&KeyMaterial>, level: Level) -> SeqCdc {
        let permutation = material.map(KeyMaterial::permutation);
        SeqCdc { params, permutation, level: level.of_kernel() }
    }

    /// The same on another level than the best of this CPU: as exact, and slower.
    #[must_use]
    pub fn at_level(self, level: Level) -> SeqCdc {
        SeqCdc { level: level.of_kernel(), ..self }
    }
}

impl Chunker for SeqCdc {
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        let max = self.params.chunk_size_max;
        let end = data.len().min(max);
        let complete = !more || end == max;
        let found = self.level.dispatch(Scan {
            params: &self.params,
            permutation: self.permutation.as_deref(),
            data,
            end,
        });
        // By the text the byte that completes the run is the chunk's last.
        let behind = usize::from(self.params.rule == Rule::Literal);
        found.map(|at| at + behind).or((complete && end > 0).then_some(end))
    }

    fn chunk_size_min(&self) -> usize {
        self.params.chunk_size_min
    }

    fn chunk_size_max(&self) -> Option<usize> {
        Some(self.params.chunk_size_max)
    }

    fn level(&self) -> Level {
        self.level
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

/// Looks for the end of a run in the first `end` bytes of `data`, bytes standing for what
/// `permutation` says.
struct Scan<'a> {
    params: &'a Params,
    permutation: Option<&'a [u8; 256]>,
    data: &'a [u8],
    end: usize,
}

impl Task for Scan<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> Option<usize> {
        let Scan { params, permutation, data, end } = self;
        match (permutation, params.equal) {
            (None, Equal::Absorb) => params.scan::<K, false>(kernel, data, end, AsItIs),
            (None, Equal::Break) => params.scan::<K, true>(kernel, data, end, AsItIs),
            (Some(table), Equal::Absorb) => {
                params.scan::<K, false>(kernel, data, end, Permuted(table))
            }
            (Some(table), Equal::Break) => {
                params.scan::<K, true>(kernel, data, end, Permuted(table))
            }
        }
    }
}

/// What the two [`Rule`]s do not share, in the words of the pseudo-code.
#[derive(Clone, Copy)]
struct Steps {
    /// The `i` of the first pair that is looked at.
    first: usize,
    /// The pairs of a run.
    length: u32,
    /// The opposing pairs before a skip.
    trigger: u32,
}

/// From this skip on the places are asked for one by one. On Zen 5 this is twice to three times as fast for
/// the papers' 16 and 64 KiB, and slower with shorter skips.
const SPARSE_SKIP_SIZE: usize = 512;

/// Asks for `count` lines of the cache from byte `offset` on.
#[inline(always)]
fn prefetch_lines<K: Kernel>(kernel: K, data: &[u8], offset: usize, count: usize) {
    for line in 0..count {
        kernel.prefetch(data, offset + line * LINE_SIZE);
    }
}

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

    /// Returns which of the first `end` bytes of `data` ends a run; `None` where the rule finds none.
    ///
    /// The comparisons of 64 pairs become two masks. Equal pairs are squeezed out of them, and then
    /// two questions are asked that are cheap and nearly always answered alike: does a run end here,
    /// and is the trigger reached? One branch a pair, which random data mispredicts every other time,
    /// would cost far more.
    ///
    /// `EQUAL_BREAKS` is [`Equal::Break`].
    #[inline(always)]
    fn scan<K: Kernel, const EQUAL_BREAKS: bool>(
        &self,
        kernel: K,
        data: &[u8],
        end: usize,
        values: impl Values,
    ) -> Option<usize> {
        let Steps { first, length, trigger } = self.steps();
        let (mut run, mut opposing, mut i) = (0, 0, first);
        self.prefetch_first(kernel, data, i);
        while let Some(bytes) = data[..end].get(i - 1..).and_then(|rest| rest.first_chunk()) {
            let (rising, falling) = values.compare(kernel, bytes);
            let (ordered, opposed) = match self.mode {
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
                // The first run may have begun before.
                let last =
                    if run + leading >= length { length - run - 1 } else { ends.trailing_zeros() };
                let at = kernel.nth_one(counted, last);
                let trigger_at =
                    if is_triggered { kernel.nth_one(opposed, trigger - opposing - 1) } else { 64 };
                if at < trigger_at {
                    return Some(i + at as usize);
                }
            }
            if is_triggered {
                i += kernel.nth_one(opposed, trigger - opposing - 1) as usize + 1 + self.skip_size;
                (run, opposing) = (0, 0);
                self.prefetch_next(kernel, data, i);
            } else {
                let count = counted.count_ones();
                // The ones at the high end of what was squeezed.
                let trailing = (squeezed << (63 - (count.wrapping_sub(1) & 63))).leading_ones();
                run = if leading >= count { run + count } else { trailing };
                opposing += opposed_count;
                i += BLOCK_SIZE;
            }
        }
        self.scan_pairs(&data[..end], |byte| values.value(byte), run, opposing, i)
    }

    /// About how many bytes a period takes, which ends with a skip.
    fn period_size(&self) -> usize {
        2 * self.trigger as usize + self.skip_size
    }

    /// Whether what is looked at is far between.
    fn is_sparse(&self) -> bool {
        self.skip_size >= SPARSE_SKIP_SIZE
    }

    /// Asks for what a chunk looks at first. What comes next is far from what came before, so the
    /// hardware foresees none of it; with these two the kernel is several times faster from memory.
    #[inline(always)]
    fn prefetch_first<K: Kernel>(&self, kernel: K, data: &[u8], i: usize) {
        if self.is_sparse() {
            for period in 0..4 {
                prefetch_lines(kernel, data, i + period * self.period_size(), 3);
            }
        } else {
            prefetch_lines(kernel, data, i, 24);
        }
    }

    /// Asks for what is looked at a little later, and for where the next chunk would begin to be
    /// looked at if this one ended soon. Real data skips when it likes, so all lines of a zone are asked
    /// for; with long skips these would be too many, and it is those that random data looks at.
    #[inline(always)]
    fn prefetch_next<K: Kernel>(&self, kernel: K, data: &[u8], i: usize) {
        let period_size = self.period_size();
        let next = i + period_size + self.chunk_size_min;
        if self.is_sparse() {
            prefetch_lines(kernel, data, i + 4 * period_size, 3);
            prefetch_lines(kernel, data, next, 4);
            prefetch_lines(kernel, data, next + period_size, 3);
        } else {
            prefetch_lines(kernel, data, i + 24 * LINE_SIZE, 6);
            prefetch_lines(kernel, data, next, 6);
        }
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
