//! Parameters for some data: which combinations have the wanted mean on random data, and which of
//! these save most on a sample of the data, and how fast they are.
//!
//! Source: Udayashankar et al., "SeqCDC: Hashless Content-Defined Chunking for Data Deduplication"
//! (Middleware 2024), section 5: parameters come from a Monte-Carlo simulation on random data, and of
//! the candidates the one is taken that is best on a data set. Here that is done with every algorithm,
//! by its formula of the mean where it has one; each candidate is also measured in speed, and what its
//! chunks cost in metadata counts.

mod collect;
mod grid;
mod signs;

use std::collections::HashSet;
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, available_parallelism};

use cutpoint_chunking::algorithm::bfbc::{self, PairCounts};
use cutpoint_chunking::algorithm::seqcdc::{Equal, Mode, Params, Rule};
use cutpoint_chunking::{KeyUse, Spec, algorithms, cuts};
use cutpoint_fingerprint::Blake3;
use cutpoint_testing::{SplitMix64, thread_cpu_time};

use crate::estimate::{CHUNK_COST, EstimateError};
use crate::{Counter, FINGERPRINT_LEN, Monitor, Savings, ScanOptions};
use grid::{FAR_MAX_FACTOR, Open, grid};
use signs::Signs;

/// The ranges of the papers for SeqCDC: sequences of 3 to 7, skips of 256 to 512 bytes, smallest sizes of a quarter
/// to a half of the average; the largest is twice the average, as in Table I.
const LENGTHS: [u32; 5] = [3, 4, 5, 6, 7];
const SKIP_SIZES: [usize; 3] = [256, 384, 512];
/// In eighths of the average.
const MIN_EIGHTHS: [usize; 3] = [2, 3, 4];
const MAX_FACTOR: usize = 2;
/// Triggers for which a mean is looked for; the papers give no range, and have 50 and 55.
const TRIGGERS: (u32, u32) = (10, 120);
/// A candidate's mean on random data is at most this far from the target.
const MEAN_TOLERANCE: f64 = 0.1;
/// How many chunks a simulation has, about: a mean is good to 2 %.
const SIMULATED_CHUNK_COUNT: usize = 2000;
const RANDOM_SIZE_MIN: usize = 1 << 20;
const RANDOM_SIZE_MAX: usize = 64 << 20;
/// What random data is made of: the same for everybody.
const RANDOM_SEED: u64 = 0x7475_6e65;

/// The rows of Table I.
const PAPER_SIZES: [usize; 3] = [4096, 8192, 16384];

/// What names a chunk in a recipe, beside the fingerprint: its length.
const RECIPE_COST: u64 = 32 + 3;

/// How much of the sample speed is measured on, and how often.
const SPEED_SIZE_MAX: usize = 64 << 20;
const SPEED_ROUND_COUNT: usize = 3;

/// What is tuned for.
#[derive(Clone, Debug)]
pub struct TuneOptions {
    /// Where the sample comes from.
    pub scan: ScanOptions,
    /// The algorithms that are tried, by their names; none for all whose cut-points can be secret.
    pub algorithms: Vec<String>,
    /// The mean chunk size that is wanted, on random data, in bytes.
    pub target_size: usize,
    /// How many bytes the sample has at most; they are kept in memory, with a quarter more.
    pub sample_size_max: u64,
}

/// How a specification came to be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The search found it.
    Grid,
    /// It is a row of Table I.
    Paper,
    /// It is what `avg=` gives.
    Average,
}

impl Origin {
    /// Returns `grid`, `paper` or `average`.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Grid => "grid",
            Origin::Paper => "paper",
            Origin::Average => "average",
        }
    }
}

/// A specification, and what it did to the sample.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// The specification.
    pub spec: Spec,
    /// How it came to be tried.
    pub origin: Origin,
    /// The mean chunk size on random data, in bytes: simulated, or by the rule's own formula.
    pub random_mean: Option<f64>,
    /// What it saved.
    pub savings: Savings,
    /// What directories, index and recipes take for these chunks, in bytes.
    pub metadata_bytes: u64,
    /// The same with that.
    pub net: Savings,
    /// Bytes a second of CPU time for cutting, one thread; 0 where it was not measured.
    pub bytes_per_second: f64,
    /// Nothing else is better in both, net savings and speed: it is of the Pareto front. Rows of Table
    /// I, whose means are others, stand beside it.
    pub is_best: bool,
    /// No other of its algorithm saves more, net, but for those rows.
    pub is_best_of_algorithm: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// All that was tried, the largest net savings first.
    pub tuned: Vec<Tuned>,
    /// How many bytes were looked at.
    pub sample_bytes: u64,
    /// Of how many files.
    pub file_count: u64,
    /// How many bytes of random data the simulation had.
    pub random_bytes: u64,
    /// How many simulations there were: those without a formula of their mean need some for each.
    pub simulated_count: u64,
    /// How many combinations of the grids have a mean near the target.
    pub candidate_count: u64,
    /// The algorithms of which nothing has such a mean.
    pub unreached_algorithms: Vec<String>,
    /// Whether somebody asked to stop before the end.
    pub is_partial: bool,
}

/// Finds parameters.
///
/// `step` is told what is at hand, and how much of it is done and to be done.
///
/// # Errors
///
/// As [`estimate`](crate::estimate()).
pub fn tune(
    options: &TuneOptions,
    monitor: &dyn Monitor,
    step: &(dyn Fn(&str, usize, usize) + Sync),
) -> Result<Tuning, EstimateError> {
    let sample = collect::collect(&options.scan, options.sample_size_max, monitor)?;
    if sample.streams.is_empty() {
        // There is nothing to try anything on.
        let file_count = sample.counts.file_count;
        let is_partial = monitor.cancelled();
        return Ok(Tuning { file_count, is_partial, ..Tuning::default() });
    }
    let threads = NonZero::new(options.scan.threads)
        .or_else(|| available_parallelism().ok())
        .map_or(1, NonZero::get);
    let many = Many { threads, monitor, step };
    let chosen: Vec<&str> = match options.algorithms.is_empty() {
        true => {
            let can_be_secret = algorithms().iter().filter(|about| about.key != KeyUse::Refused);
            can_be_secret.map(|about| about.name).collect()
        }
        false => options.algorithms.iter().map(String::as_str).collect(),
    };
    let target = options.target_size;
    let random_size = (target * SIMULATED_CHUNK_COUNT).clamp(RANDOM_SIZE_MIN, RANDOM_SIZE_MAX);
    let random = Random::new(random_size, target);
    let mut found = match chosen.contains(&"seqcdc") {
        true => {
            many.run("fitting SeqCDC", &seqcdc_grid(target), |params| random.fit_seqcdc(*params))
        }
        false => Vec::new(),
    };
    let open: Vec<Open> = chosen.iter().flat_map(|name| grid(name, target)).collect();
    found.extend(many.run("fitting to the mean", &open, |open| random.fit(open)));
    let simulated_count = random.simulated_count.into_inner();
    drop(random.bytes);
    drop(random.signs);
    if chosen.contains(&"bfbc") {
        step("counting pairs", 0, 1);
        found.extend(bfbc_learned(&sample.streams, target).into_iter().map(Some));
    }
    let found: Vec<Candidate> = found.into_iter().flatten().collect();
    let candidate_count = found.len() as u64;
    let mut candidates: Vec<Candidate> =
        chosen.iter().filter_map(|name| by_average(name, target)).collect();
    candidates.extend(found);
    let is_reached = |name: &&str| candidates.iter().any(|each| each.spec.algorithm() == *name);
    let unreached = chosen.iter().filter(|name| !is_reached(name));
    let unreached_algorithms = unreached.map(|name| (*name).to_owned()).collect();
    candidates.extend(PAPER_SIZES.iter().filter_map(|size| {
        let params = Params::paper(*size)?;
        Candidate::of_seqcdc(params, Origin::Paper, Some(params.mean()))
    }));
    let mut texts = HashSet::new();
    candidates.retain(|candidate| texts.insert(candidate.spec.to_string()));
    let signs: Vec<Signs> = many
        .run("comparing bytes", &sample.streams, |stream| Some(Signs::of(stream)))
        .into_iter()
        .flatten()
        .collect();
    let is_whole = signs.len() == sample.streams.len();
    let streams: Vec<(&[u8], &Signs)> =
        sample.streams.iter().map(Vec::as_slice).zip(&signs).collect();
    let mut tuned: Vec<Tuned> = match is_whole {
        true => many.run("cutting", &candidates, |candidate| Some(candidate.try_on(&streams))),
        // It was interrupted.
        false => Vec::new(),
    }
    .into_iter()
    .flatten()
    .collect();
    // One after the other: speed is measured where nothing else of this program runs.
    for number in 0..tuned.len() {
        if monitor.cancelled() {
            break;
        }
        step("measuring", number, tuned.len());
        tuned[number].bytes_per_second = speed(&tuned[number].spec, &sample.streams);
    }
    tuned.sort_by(|one, other| {
        let stored = one.net.stored_bytes.cmp(&other.net.stored_bytes);
        stored.then(other.bytes_per_second.total_cmp(&one.bytes_per_second))
    });
    mark_best(&mut tuned);
    mark_best_of_algorithms(&mut tuned);
    Ok(Tuning {
        tuned,
        sample_bytes: sample.streams.iter().map(|stream| stream.len() as u64).sum(),
        file_count: sample.counts.file_count,
        random_bytes: random_size as u64,
        simulated_count: simulated_count as u64,
        candidate_count,
        unreached_algorithms,
        is_partial: monitor.cancelled(),
    })
}

/// What is better in savings comes first: of the rest only what is faster than all before is best.
fn mark_best(tuned: &mut [Tuned]) {
    let mut fastest = 0.0;
    for each in tuned.iter_mut().filter(|each| each.origin != Origin::Paper) {
        each.is_best = each.bytes_per_second > fastest;
        fastest = each.bytes_per_second.max(fastest);
    }
}

/// Of each algorithm the first at the wanted mean.
fn mark_best_of_algorithms(tuned: &mut [Tuned]) {
    let mut seen = HashSet::new();
    for each in tuned.iter_mut().filter(|each| each.origin != Origin::Paper) {
        each.is_best_of_algorithm = seen.insert(each.spec.algorithm());
    }
}

/// The same for many, by several threads.
struct Many<'a> {
    threads: usize,
    monitor: &'a dyn Monitor,
    step: &'a (dyn Fn(&str, usize, usize) + Sync),
}

impl Many<'_> {
    /// Does `work` with each of `items`; `None` for those that were left when somebody asked to stop.
    fn run<T: Sync, R: Send>(
        &self,
        what: &str,
        items: &[T],
        work: impl Fn(&T) -> Option<R> + Sync,
    ) -> Vec<Option<R>> {
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
        thread::scope(|scope| {
            for _ in 0..self.threads.min(items.len()) {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Relaxed);
                        let Some(item) = items.get(number).filter(|_| !self.monitor.cancelled())
                        else {
                            return;
                        };
                        (self.step)(what, number, items.len());
                        let result = work(item);
                        results.lock().unwrap_or_else(PoisonError::into_inner)[number] = result;
                    }
                });
            }
        });
        results.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Random data, on which combinations get the mean that is wanted.
struct Random {
    bytes: Vec<u8>,
    signs: Signs,
    target: usize,
    simulated_count: AtomicUsize,
}

impl Random {
    fn new(size: usize, target: usize) -> Random {
        let bytes = SplitMix64::bytes(RANDOM_SEED, size);
        let signs = Signs::of(&bytes);
        Random { bytes, signs, target, simulated_count: AtomicUsize::new(0) }
    }

    /// The mean chunk size of a simulation.
    fn mean(&self, cuts: impl Iterator<Item = usize>) -> Option<f64> {
        self.simulated_count.fetch_add(1, Relaxed);
        // The last chunk ends where the data does, which is no cut.
        let ends: Vec<usize> = cuts.take(SIMULATED_CHUNK_COUNT + 1).collect();
        let (_, ends) = ends.split_last()?;
        Some(*ends.last()? as f64 / ends.len() as f64)
    }

    /// The candidate whose mean is nearest, if that is near: by its formula, else by simulation.
    fn fit(&self, open: &Open) -> Option<Candidate> {
        self.nearest(open.range.clone(), |number| {
            let spec: Spec = (open.spec)(number).parse().and_then(Spec::bounded).ok()?;
            let mean = match spec.chunk_size_average() {
                Some(mean) => mean as f64,
                None => self.mean(cuts(&*spec.chunker(), &self.bytes))?,
            };
            Some((Candidate::new(spec, Origin::Grid, Some(mean)), mean))
        })
    }

    /// The same of SeqCDC, by its trigger. Fewer opposing pairs before a skip are more skips, and larger
    /// chunks.
    fn fit_seqcdc(&self, params: Params) -> Option<Candidate> {
        let (least, most) = TRIGGERS;
        self.nearest(0..=(most - least) as usize, |number| {
            let trigger = most - u32::try_from(number).ok()?;
            let params = Params { trigger, ..params };
            let mean = self.mean(self.signs.cuts(&params))?;
            Some((Candidate::of_seqcdc(params, Origin::Grid, Some(mean))?, mean))
        })
    }

    /// What `of` makes of the number of `range` with which the mean, which rises with it, is nearest
    /// to the target; `None` where that is not near. What `of` cannot make ends the search.
    fn nearest<T>(
        &self,
        range: RangeInclusive<usize>,
        of: impl Fn(usize) -> Option<(T, f64)>,
    ) -> Option<T> {
        let target = self.target as f64;
        let (mut low, end) = range.into_inner();
        let mut high = end + 1;
        let mut best: Option<(T, f64)> = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let Some((found, mean)) = of(middle) else { break };
            if best.as_ref().is_none_or(|(_, known)| (mean - target).abs() < (known - target).abs())
            {
                best = Some((found, mean));
            }
            if mean > target {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        // A mean may jump, as where a number of bits does.
        best.filter(|(_, mean)| (mean / target - 1.0).abs() <= MEAN_TOLERANCE)
            .map(|(found, _)| found)
    }
}

/// SeqCDC's combinations, but for the trigger.
fn seqcdc_grid(target: usize) -> Vec<Params> {
    let mut grid = Vec::new();
    for length in LENGTHS {
        for skip_size in SKIP_SIZES {
            for eighths in MIN_EIGHTHS {
                grid.push(Params {
                    mode: Mode::Increasing,
                    length,
                    trigger: TRIGGERS.0,
                    skip_size,
                    chunk_size_min: (target * eighths / 8).max(1),
                    chunk_size_max: target * MAX_FACTOR,
                    equal: Equal::Absorb,
                    rule: Rule::Released,
                });
            }
        }
    }
    grid
}

/// What `avg=` gives, with a largest size where it gives none.
fn by_average(name: &str, target: usize) -> Option<Candidate> {
    let max = target * FAR_MAX_FACTOR;
    let spec = Spec::for_average(name, target).and_then(Spec::bounded).or_else(|_| {
        format!("{name}:avg={target},max={max}").parse::<Spec>().and_then(Spec::bounded)
    });
    let spec = spec.ok()?;
    let mean = spec.chunk_size_average().map(|mean| mean as f64);
    Some(Candidate::new(spec, Origin::Average, mean))
}

/// BFBC\*, whose pairs are learned: its mean is to be the target on the sample, not on random data. The
/// smallest size is that of its paper's code, or half the mean.
fn bfbc_learned(streams: &[Vec<u8>], target: usize) -> Vec<Candidate> {
    let mut counts = PairCounts::new();
    for stream in streams {
        counts.add(stream);
        counts.end_stream();
    }
    let learned = [2, target / 2].map(|min| bfbc::Params {
        chunk_size_max: Some(target * FAR_MAX_FACTOR),
        ..counts.for_average(target, min)
    });
    learned
        .into_iter()
        .filter(|params| !params.pairs.is_empty())
        .filter_map(|params| Spec::try_from(params).ok())
        .map(|spec| {
            let mean = spec.chunk_size_average().map(|mean| mean as f64);
            Candidate::new(spec, Origin::Grid, mean)
        })
        .collect()
}

/// What is tried on the sample.
struct Candidate {
    spec: Spec,
    /// If it is SeqCDC: cut by the signs.
    params: Option<Params>,
    origin: Origin,
    random_mean: Option<f64>,
}

impl Candidate {
    fn new(spec: Spec, origin: Origin, random_mean: Option<f64>) -> Candidate {
        Candidate { spec, params: None, origin, random_mean }
    }

    fn of_seqcdc(params: Params, origin: Origin, random_mean: Option<f64>) -> Option<Candidate> {
        let spec = Spec::try_from(params).ok()?;
        Some(Candidate { params: Some(params), ..Candidate::new(spec, origin, random_mean) })
    }

    /// Cuts and fingerprints the sample.
    fn try_on(&self, streams: &[(&[u8], &Signs)]) -> Tuned {
        let hash = Blake3::plain();
        let chunker = self.spec.chunker();
        let mut counter = Counter::new();
        let mut digests = Vec::new();
        for (bytes, signs) in streams {
            let mut start = 0;
            let mut chunks = Vec::new();
            let mut take = |end: usize| {
                chunks.push(&bytes[start..end]);
                start = end;
            };
            match &self.params {
                Some(params) => signs.cuts(params).for_each(&mut take),
                None => cuts(&*chunker, bytes).for_each(&mut take),
            }
            digests.clear();
            hash.digests(&chunks, &mut digests);
            for (chunk, digest) in chunks.iter().zip(&digests) {
                let mut fingerprint = [0; FINGERPRINT_LEN];
                fingerprint.copy_from_slice(&digest[..FINGERPRINT_LEN]);
                counter.add(&fingerprint, chunk.len() as u64);
            }
        }
        let savings = counter.savings();
        let metadata_bytes =
            savings.unique_chunk_count * CHUNK_COST + savings.chunk_count * RECIPE_COST;
        Tuned {
            spec: self.spec.clone(),
            origin: self.origin,
            random_mean: self.random_mean,
            savings,
            metadata_bytes,
            net: savings.with_stored_bytes(savings.stored_bytes + metadata_bytes),
            bytes_per_second: 0.0,
            is_best: false,
            is_best_of_algorithm: false,
        }
    }
}

/// How fast a sample is cut: the best of a few rounds, in bytes a second of CPU time.
fn speed(spec: &Spec, streams: &[Vec<u8>]) -> f64 {
    let chunker = spec.chunker();
    let mut best = 0.0;
    for _ in 0..SPEED_ROUND_COUNT {
        let (mut size, mut chunk_count) = (0, 0);
        let began = thread_cpu_time();
        for stream in streams {
            if size >= SPEED_SIZE_MAX {
                break;
            }
            let part = &stream[..stream.len().min(SPEED_SIZE_MAX - size)];
            chunk_count += cuts(&*chunker, part).count();
            size += part.len();
        }
        std::hint::black_box(chunk_count);
        let seconds = thread_cpu_time().saturating_sub(began).as_secs_f64();
        if seconds > 0.0 {
            best = f64::max(best, size as f64 / seconds);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The simulation against the exact chain of the chunking crate, for the papers' rows.
    #[test]
    fn simulated_means_are_true() {
        let random = Random::new(32 << 20, 8192);
        for size in PAPER_SIZES {
            let params = Params::paper(size).expect("a row");
            let mean = random.mean(random.signs.cuts(&params)).expect("a mean");
            let truth = params.mean();
            assert!((mean / truth - 1.0).abs() < 0.03, "{size}: {mean}, not {truth}");
        }
        assert_eq!(random.simulated_count.into_inner(), PAPER_SIZES.len(), "simulations");
    }

    /// Every combination must be one that exists, and of those with a formula of their mean nearly all
    /// must have the mean that is wanted.
    #[test]
    fn every_algorithm_gets_the_mean() {
        for target in [2048, 16_000, 45_056] {
            let random = Random::new(200 * target, target);
            for about in algorithms() {
                let grid = grid(about.name, target);
                let found: Vec<Candidate> =
                    grid.iter().filter_map(|open| random.fit(open)).collect();
                println!("{} at {target}: {} of {}", about.name, found.len(), grid.len());
                for each in &found {
                    assert_eq!(each.spec.algorithm(), about.name, "its own");
                    let text = each.spec.to_string();
                    assert_eq!(text.parse(), Ok(each.spec.clone()), "{text}");
                    let mean = each.random_mean.expect("a mean");
                    assert!((mean / target as f64 - 1.0).abs() <= MEAN_TOLERANCE, "{text}: {mean}");
                }
                // Found elsewhere; learned; no such mean.
                let has_none = ["seqcdc", "bfbc", "samplebyte"].contains(&about.name);
                assert_eq!(grid.is_empty(), has_none, "{}", about.name);
                let least = match (about.name, target) {
                    // Too small; between two numbers of bits, where `avg=` takes another smallest size.
                    ("ultracdc", 2048) | ("ronomon", 45_056) => 0,
                    _ => grid.len().div_ceil(2),
                };
                assert!(found.len() >= least, "{} at {target}: {}", about.name, found.len());
            }
        }
    }

    #[test]
    fn fastcdc_and_gear_have_every_level() {
        for target in [2048, 16_000, 45_056] {
            let random = Random::new(1, target);
            for (name, levels) in [("fastcdc", 0..=3), ("gear", 1..=3)] {
                let found: Vec<String> = grid(name, target)
                    .iter()
                    .filter_map(|open| random.fit(open))
                    .map(|candidate| candidate.spec.to_string())
                    .collect();
                for level in levels {
                    let text = format!("level={level},");
                    let of_level = found.iter().filter(|spec| spec.contains(&text));
                    assert!(of_level.count() > 0, "{name} at {target}: {text}");
                }
            }
        }
    }

    #[test]
    fn what_avg_gives_is_bounded() {
        for about in algorithms() {
            let found = by_average(about.name, 6232);
            let expected = !matches!(about.name, "bfbc" | "samplebyte");
            assert_eq!(found.is_some(), expected, "{}", about.name);
        }
    }

    #[test]
    fn pairs_are_learned_for_the_sample() {
        let text = cutpoint_testing::input::text(4 << 20);
        let found = bfbc_learned(std::slice::from_ref(&text), 8192);
        assert!(!found.is_empty(), "something is learned");
        for each in &found {
            let count = cuts(&*each.spec.chunker(), &text).count();
            let mean = text.len() / count;
            assert!((5000..13_000).contains(&mean), "{}: {mean}", each.spec);
        }
    }

    fn tuned(stored_bytes: u64, bytes_per_second: f64) -> Tuned {
        Tuned {
            spec: "fixed:size=4k".parse().expect("a spec"),
            origin: Origin::Grid,
            random_mean: None,
            savings: Savings::default(),
            metadata_bytes: 0,
            net: Savings { stored_bytes, ..Savings::default() },
            bytes_per_second,
            is_best: false,
            is_best_of_algorithm: false,
        }
    }

    #[test]
    fn the_best_of_an_algorithm_is_its_first_but_of_no_paper() {
        let of = |text: &str, origin| Tuned {
            spec: text.parse().expect("a spec"),
            origin,
            ..tuned(1, 1.0)
        };
        let mut all = [
            of("seqcdc:paper=4k", Origin::Paper),
            of("fixed:size=4k", Origin::Average),
            of("seqcdc:avg=8k", Origin::Average),
            of("fixed:size=8k", Origin::Grid),
            of("seqcdc:avg=9k", Origin::Grid),
        ];
        mark_best_of_algorithms(&mut all);
        let best: Vec<bool> = all.iter().map(|each| each.is_best_of_algorithm).collect();
        assert_eq!(best, [false, true, true, false, false], "one of each");
    }

    #[test]
    fn the_front_is_what_nothing_beats() {
        let paper = Tuned { origin: Origin::Paper, ..tuned(9, 9.0) };
        let mut all =
            [paper, tuned(10, 5.0), tuned(10, 4.0), tuned(11, 5.0), tuned(12, 7.0), tuned(13, 6.0)];
        mark_best(&mut all);
        let best: Vec<bool> = all.iter().map(|each| each.is_best).collect();
        assert_eq!(best, [false, true, false, false, true, false], "the first and the fastest");
    }
}
