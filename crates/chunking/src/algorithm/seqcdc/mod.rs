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
//! The papers' texts differ in three points, which together are [`Rule::Literal`]: they count the
//! bytes of a run, not its pairs; they begin `length` bytes before `min`; and they cut behind the
//! last byte of the run, so that the first possible cut is at `min`.
//!
//! ```text
//! i = max(min - length, 0) + 1
//! ... run == length - 1: cut at i + 1
//! ```
//!
//! Four more points have names of their own, and can be combined freely with either rule:
//!
//! - [`Equal`]: in the vector form's masks an equal pair is not in order, so it breaks a run
//!   (`equal=break`).
//! - [`Reach`]: both texts skip when `trigger` opposing pairs "are detected" (section 3.3 of the
//!   first, III-C of the second); the vector form's section III-D skips at the pair "that causes
//!   the running total to exceed" the trigger (`reach=beyond`). The latter is the default of
//!   `rule=literal`, the former that of the released code.
//!
//!   ```text
//!   ... opposing == trigger + 1: opposing = 0;  i += 1 + skip
//!   ```
//!
//! - [`Skipped`]: the next `skip` bytes are "ignored" by both texts. The released code still
//!   compares the last of them with the byte behind it; with `skipped=ignored` the first pair is
//!   that of the two bytes behind the skip.
//!
//!   ```text
//!   ... opposing == trigger: opposing = 0;  i += 1 + skip, and 1 more if skip > 0
//!   ```
//!
//! - [`Opposing`]: of this crate, not of the papers. With `opposing=run` the trigger counts the
//!   opposing pairs of one run, so that a skip depends on the few bytes before it and not on the
//!   start of the chunk.
//!
//!   ```text
//!   in the mode's order: run += 1;  opposing = 0                  and 0 at an equal pair that breaks
//!   ```
//!
//! The text of the vector form, read literally, is `equal=break,rule=literal`, with or without
//! `skipped=ignored`; that of the first paper is `rule=literal,reach=at`.

mod mean;
mod params;
mod scan;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use params::NAME;
pub use params::{Equal, Mode, Opposing, Params, Reach, Rule, Skipped};
use scan::{DEPTH, DEPTH_ALONE, Scan};

use super::blocks::{AsItIs, PermutedBytes};
use super::{Algorithm, constructors, debug_params, forward_chunk_sizes};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::chunker::Batch;
use crate::kernel::{Kernel, Task};
use crate::keys::Keys;
use crate::segments::{List, Round, Segments};
use crate::{Chunker, KeyMaterial, Level, SpecError};

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
        Parameter::new(
            "reach",
            "",
            "at or beyond",
            "Skip when the opposing pairs are as many as the trigger, or one more.",
        )
        .or("at, or beyond with rule=literal"),
        Parameter::new(
            "skipped",
            "",
            "compared or ignored",
            "Compare the last skipped byte with the byte behind it, or no skipped byte.",
        )
        .or("compared"),
        Parameter::new(
            "opposing",
            "",
            "total or run",
            "The trigger counts all opposing pairs since the last skip, or those of one run (32 at \
             most).",
        )
        .or("total"),
    ],
    short_forms: &[
        ShortForm::new(
            "avg",
            &["mode", "opposing"],
            "2048 to 1048576",
            "Mean in bytes, which sets the other parameters; mode inc unless given.",
        ),
        ShortForm::new(
            "paper",
            &["mode", "equal", "rule", "reach", "skipped"],
            "4k, 8k or 16k",
            "Table I's setting of that name; real means 3578, 7041, 13268 bytes.",
        ),
    ],
    dialects: &[
        Dialect::new("equal=break", "An equal pair ends a run, as in the vector form's masks."),
        Dialect::new(
            "rule=literal",
            "The papers' text: length counts bytes, scanning begins length bytes before min, the \
             cut is behind the run. With reach=beyond, the default here, it is that of the vector \
             form; the other text is reach=at.",
        ),
        Dialect::new(
            "reach=beyond",
            "The skip comes at the pair that exceeds the trigger, as in one place of the vector \
             form's text; elsewhere the texts have it at the trigger.",
        ),
        Dialect::new(
            "skipped=ignored",
            "No skipped byte is compared, where the texts leave that open; the released code \
             compares the last one.",
        ),
        Dialect::new("equal=break,rule=literal", "The vector form's text, read literally."),
        Dialect::new(
            "opposing=run",
            "Of this crate: a skip behind a run of opposing pairs, wherever the chunk began, so that \
             cut-points agree sooner behind a change.",
        ),
        Dialect::new("skip=0", "No skipping: the papers' BASE; with min=1 their BDRY."),
    ],
};

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let mode = keys.word("mode", &[("inc", Mode::Increasing), ("dec", Mode::Decreasing)])?;
        let equal = keys.word("equal", &[("absorb", Equal::Absorb), ("break", Equal::Break)])?;
        let rule =
            keys.word("rule", &[("released", Rule::Released), ("literal", Rule::Literal)])?;
        let reach = match keys.given("reach") {
            None => rule.reach(),
            Some(_) => keys.word("reach", &[("at", Reach::At), ("beyond", Reach::Beyond)])?,
        };
        let skipped = keys
            .word("skipped", &[("compared", Skipped::Compared), ("ignored", Skipped::Ignored)])?;
        let opposing =
            keys.word("opposing", &[("total", Opposing::Total), ("run", Opposing::Run)])?;
        match keys.form() {
            "avg" => Params::for_average(keys.size("avg")?, mode, opposing),
            "paper" => {
                let paper = keys.setting(Params::paper)?;
                Ok(Params { mode, equal, rule, reach, skipped, ..paper })
            }
            _ => Ok(Params {
                mode,
                length: keys.number("length")?,
                trigger: keys.number("trigger")?,
                skip_size: keys.size("skip")?,
                chunk_size_min: keys.size("min")?,
                chunk_size_max: keys.size("max")?,
                equal,
                rule,
                reach,
                skipped,
                opposing,
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
        if self.reach != self.rule.reach() {
            let reach = if self.reach == Reach::At { "at" } else { "beyond" };
            write!(f, ",reach={reach}")?;
        }
        if self.skipped == Skipped::Ignored {
            write!(f, ",skipped=ignored")?;
        }
        if self.opposing == Opposing::Run {
            write!(f, ",opposing=run")?;
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
                let values = PermutedBytes(table);
                let $scan = Scan::<_, _, false, $depth> { params, kernel, data, more, values };
                $cut
            }
            (Some(table), Equal::Break) => {
                let values = PermutedBytes(table);
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

/// The number of segments that are cut at once. On Zen 5, more gain little.
const STREAM_COUNT: usize = 4;
/// The maximum size of a round of segments in bytes. All ends of a round are known before the first
/// is returned.
const ROUND_SIZE_MAX: usize = 256 * 1024 * 1024;

impl Params {
    /// Returns segments in which lists mostly meet soon. Lists meet when two of them look at the
    /// same bytes by chance, which takes longer the more bytes are skipped.
    fn segments(&self) -> Segments {
        let skipped = self.period_size() / self.looked_size();
        let least = self.chunk_size_min.saturating_mul(32 * skipped);
        let most = least.saturating_mul(4).min(ROUND_SIZE_MAX / STREAM_COUNT);
        Segments::new(STREAM_COUNT, least, most)
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
        let params = Params::for_average(4096, Mode::Increasing, Opposing::Total)
            .expect("the mean is right");
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
