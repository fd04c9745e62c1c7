//! The parameters of SeqCDC, with their limits and the mean that they give.

use super::mean::{self, Period};
use crate::SpecError;
use crate::algorithm::{CHUNK_SIZE_LIMIT, check_range, check_sizes, paper, power};

pub(super) const NAME: &str = "seqcdc";

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

impl Rule {
    /// Returns the number of opposing pairs before a skip that the source of the rule has.
    pub(super) fn reach(self) -> Reach {
        match self {
            Rule::Released => Reach::At,
            Rule::Literal => Reach::Beyond,
        }
    }
}

/// The number of opposing pairs before a skip, relative to the trigger. The papers' texts say
/// both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Reach {
    /// The trigger: "when SkipTrigger pairs of bytes in opposing order are detected".
    #[default]
    At,
    /// One more: the pair "that causes the running total to exceed SkipTrigger".
    Beyond,
}

/// The treatment of the last skipped byte, which the papers' texts leave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Skipped {
    /// The first pair behind a skip is the last skipped byte and the byte behind it, as in the
    /// released code.
    #[default]
    Compared,
    /// The first pair behind a skip is that of the two bytes behind it, because the skipped bytes
    /// are to be "ignored".
    Ignored,
}

/// The opposing pairs that the trigger counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Opposing {
    /// All since the start of the chunk or the last skip, as in the papers.
    #[default]
    Total,
    /// Those of one run, which a pair in order ends, and an equal pair by [`Equal`]. A skip then
    /// depends only on the bytes before it, so that cut-points agree sooner behind a change.
    Run,
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
    /// The number of opposing pairs before a skip, relative to the trigger.
    pub reach: Reach,
    /// The treatment of the last skipped byte.
    pub skipped: Skipped,
    /// The opposing pairs that the trigger counts. Those of [`Opposing::Run`] are at most 32.
    pub opposing: Opposing,
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
        let trigger_max = if self.opposing == Opposing::Run { 32 } else { 65535 };
        check_range(NAME, "trigger", self.trigger as usize, 1, trigger_max)?;
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
            reach: Reach::At,
            skipped: Skipped::Compared,
            opposing: Opposing::Total,
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
    pub fn for_average(mean: usize, mode: Mode, opposing: Opposing) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
        let (length, skip_size) = match mean / 1024 {
            0..24 => (5, mean / 32),
            24..192 => (6, mean / 256),
            _ => (7, mean / 2048),
        };
        let trigger = match opposing {
            Opposing::Total => mean::KNOWN_TRIGGER,
            Opposing::Run => 4,
        };
        let mut params = Params {
            mode,
            length,
            trigger,
            skip_size,
            chunk_size_min: 1,
            chunk_size_max: mean * 4,
            equal: Equal::Absorb,
            rule: Rule::Released,
            reach: Reach::At,
            skipped: Skipped::Compared,
            opposing,
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
        let steps = self.steps();
        let Period { pair_count, cut_chance } = match (self.opposing, self.equal) {
            (Opposing::Total, Equal::Absorb) => mean::absorbing_period(steps.length, steps.trigger),
            (Opposing::Total, Equal::Break) => mean::breaking_period(steps.length, steps.trigger),
            (Opposing::Run, equal) => {
                mean::run_period(steps.length, steps.trigger, equal == Equal::Break)
            }
        };
        // The bytes before the pairs that are looked at.
        let min = steps.first as f64;
        let skip = steps.skip_size as f64;
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

    /// Returns the values in which the dialects differ.
    pub(super) fn steps(&self) -> Steps {
        let Params { length, chunk_size_min: min, .. } = *self;
        let (first, length) = match self.rule {
            Rule::Released => (min, length),
            Rule::Literal => (min.saturating_sub(length as usize) + 1, length - 1),
        };
        let trigger = match self.reach {
            Reach::At => self.trigger,
            Reach::Beyond => self.trigger + 1,
        };
        // Without a skip there is no skipped byte.
        let is_one_more = self.skipped == Skipped::Ignored && self.skip_size > 0;
        Steps { first, length, trigger, skip_size: self.skip_size + usize::from(is_one_more) }
    }

    /// Returns the approximate size in bytes of a period, including the skip at its end.
    pub(super) fn period_size(&self) -> usize {
        self.looked_size() + self.skip_size
    }

    /// Returns the approximate number of bytes between two skips that are looked at, on random
    /// data: half of the pairs are opposing, and one of (n + 1)! begins n of them in a row.
    pub(super) fn looked_size(&self) -> usize {
        match self.opposing {
            Opposing::Total => 2 * self.trigger as usize,
            Opposing::Run => (1..=self.trigger.min(7) as usize + 1).product(),
        }
    }
}

/// The values that differ between the dialects, in the terms of the pseudo-code.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    /// The `i` of the first pair that is looked at.
    pub(super) first: usize,
    /// The pairs of a run.
    pub(super) length: u32,
    /// The opposing pairs before a skip.
    pub(super) trigger: u32,
    /// The pairs of a skip that are not compared.
    pub(super) skip_size: usize,
}
