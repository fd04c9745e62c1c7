//! The search for parameters: combinations with the wanted mean on random data, ranked by their
//! savings on a sample of the data, with their speed.
//!
//! Source: Udayashankar et al., "SeqCDC: Hashless Content-Defined Chunking for Data Deduplication"
//! (Middleware 2024), section 5. There, parameters come from a Monte-Carlo simulation on random
//! data, and the best candidate on a data set is chosen. Here the same is done for every algorithm,
//! with the formula of the mean instead of a simulation if the algorithm has one. The speed of each
//! candidate is measured as well, and the metadata of its chunks counts.

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
use cutpoint_estimate::scan::{Monitor, ScanOptions};
use cutpoint_estimate::{CHUNK_COST, Counter, EstimateError, FINGERPRINT_LEN, Savings};
use cutpoint_fingerprint::Blake3;
use cutpoint_testing::{SplitMix64, thread_cpu_time};

use grid::{FAR_MAX_FACTOR, Open, grid};
use signs::Signs;

/// The sequence lengths of SeqCDC to try. The ranges of the papers are sequences of 3 to 7, skips
/// of 256 to 512 bytes, and minimum sizes of a quarter to a half of the average. The maximum size
/// is twice the average, as in Table I.
const LENGTHS: [u32; 5] = [3, 4, 5, 6, 7];
const SKIP_SIZES: [usize; 3] = [256, 384, 512];
/// The minimum sizes to try, in eighths of the average.
const MIN_EIGHTHS: [usize; 3] = [2, 3, 4];
const MAX_FACTOR: usize = 2;
/// The range of triggers to try. The papers give no range, and use 50 and 55.
const TRIGGERS: (u32, u32) = (10, 120);
/// The maximum relative difference between the mean of a candidate on random data and the target.
const MEAN_TOLERANCE: f64 = 0.1;
/// The approximate number of chunks in a simulation, which determines a mean to 2 %.
const SIMULATED_CHUNK_COUNT: usize = 2000;
const RANDOM_SIZE_MIN: usize = 1 << 20;
const RANDOM_SIZE_MAX: usize = 64 << 20;
/// The fixed seed of the random data, so that results are reproducible.
const RANDOM_SEED: u64 = 0x7475_6e65;

/// The chunk sizes of the rows of Table I, in bytes.
const PAPER_SIZES: [usize; 3] = [4096, 8192, 16384];

/// The cost of a chunk in a recipe, in bytes: a fingerprint of 32 bytes and a length of 3.
const RECIPE_COST: u64 = 32 + 3;

/// The maximum part of the sample on which speed is measured, in bytes.
const SPEED_SIZE_MAX: usize = 64 << 20;
/// The number of measurements, of which the fastest counts.
const SPEED_ROUND_COUNT: usize = 3;

/// The options of a search for parameters.
#[derive(Clone, Debug)]
pub struct TuneOptions {
    /// The files from which the sample is taken.
    pub scan: ScanOptions,
    /// The names of the algorithms to try. If empty, all algorithms whose cut-points can be secret.
    pub algorithms: Vec<String>,
    /// The wanted mean chunk size on random data, in bytes.
    pub target_size: usize,
    /// The maximum size of the sample in bytes. The sample is kept in memory, and takes a quarter
    /// more than its size.
    pub sample_size_max: u64,
}

/// The origin of a specification that is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The search.
    Grid,
    /// A row of Table I.
    Paper,
    /// The specification of `avg=`.
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

/// A specification, and its results on the sample.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// The specification.
    pub spec: Spec,
    /// The origin of the specification.
    pub origin: Origin,
    /// The mean chunk size on random data in bytes, from a simulation or from the formula of the
    /// algorithm.
    pub random_mean: Option<f64>,
    /// The savings without metadata.
    pub savings: Savings,
    /// The size of directories, index and recipes for the chunks, in bytes.
    pub metadata_bytes: u64,
    /// The savings if the metadata counts as stored.
    pub net: Savings,
    /// The speed of cutting in bytes per second of CPU time of one thread; 0 if it was not
    /// measured.
    pub bytes_per_second: f64,
    /// Set if the specification is on the Pareto front: no other has both better net savings and a
    /// better speed. Rows of Table I do not take part, because their means differ.
    pub is_best: bool,
    /// Set if no other specification of the algorithm has better net savings, the rows of Table I
    /// aside.
    pub is_best_of_algorithm: bool,
}

/// The result of a search for parameters.
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// The specifications that were tried, the largest net savings first.
    pub tuned: Vec<Tuned>,
    /// The size of the sample in bytes.
    pub sample_bytes: u64,
    /// The number of files in the sample.
    pub file_count: u64,
    /// The size of the random data for simulations, in bytes.
    pub random_bytes: u64,
    /// The number of simulations. A combination without a formula of the mean takes several.
    pub simulated_count: u64,
    /// The number of combinations of the grids whose mean is near the target.
    pub candidate_count: u64,
    /// The algorithms without a specification whose mean is near the target.
    pub unreached_algorithms: Vec<String>,
    /// Set if the search was stopped before its end.
    pub is_partial: bool,
}

/// Searches for parameters.
///
/// `step` is called with the name of the current step, the number of items done and the total
/// number of items.
///
/// # Errors
///
/// Returns any error of [`estimate`](cutpoint_estimate::estimate()).
pub fn tune(
    options: &TuneOptions,
    monitor: &dyn Monitor,
    step: &(dyn Fn(&str, usize, usize) + Sync),
) -> Result<Tuning, EstimateError> {
    let sample = collect::collect(&options.scan, options.sample_size_max, monitor)?;
    if sample.streams.is_empty() {
        // Nothing can be tried without a sample.
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
        // The search was interrupted.
        false => Vec::new(),
    }
    .into_iter()
    .flatten()
    .collect();
    // Speed is measured one specification after another, while nothing else of this program runs.
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

/// Marks the Pareto front. The specifications are sorted by savings, so that one is on the front if
/// it is faster than all before it.
fn mark_best(tuned: &mut [Tuned]) {
    let mut fastest = 0.0;
    for each in tuned.iter_mut().filter(|each| each.origin != Origin::Paper) {
        each.is_best = each.bytes_per_second > fastest;
        fastest = each.bytes_per_second.max(fastest);
    }
}

/// Marks the first specification of each algorithm at the wanted mean.
fn mark_best_of_algorithms(tuned: &mut [Tuned]) {
    let mut seen = HashSet::new();
    for each in tuned.iter_mut().filter(|each| each.origin != Origin::Paper) {
        each.is_best_of_algorithm = seen.insert(each.spec.algorithm());
    }
}

/// Runs the same work on many items, in several threads.
struct Many<'a> {
    threads: usize,
    monitor: &'a dyn Monitor,
    step: &'a (dyn Fn(&str, usize, usize) + Sync),
}

impl Many<'_> {
    /// Calls `work` with each of `items`. The result is `None` for items that were left when the
    /// search was stopped.
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

/// Random data, on which combinations are fitted to the wanted mean.
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

    /// Simulates a combination, and returns the mean chunk size.
    fn mean(&self, cuts: impl Iterator<Item = usize>) -> Option<f64> {
        self.simulated_count.fetch_add(1, Relaxed);
        // The last chunk ends at the end of the data, which is no cut-point.
        let ends: Vec<usize> = cuts.take(SIMULATED_CHUNK_COUNT + 1).collect();
        let (_, ends) = ends.split_last()?;
        Some(*ends.last()? as f64 / ends.len() as f64)
    }

    /// Returns the candidate whose mean, by formula or by simulation, is nearest to the target, if
    /// that is near enough.
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

    /// Returns the candidate of SeqCDC whose mean is nearest to the target, by its trigger. A lower
    /// trigger causes more skips, and thereby larger chunks.
    fn fit_seqcdc(&self, params: Params) -> Option<Candidate> {
        let (least, most) = TRIGGERS;
        self.nearest(0..=(most - least) as usize, |number| {
            let trigger = most - u32::try_from(number).ok()?;
            let params = Params { trigger, ..params };
            let mean = self.mean(self.signs.cuts(&params))?;
            Some((Candidate::of_seqcdc(params, Origin::Grid, Some(mean))?, mean))
        })
    }

    /// Returns the result of `of` for the number in `range` whose mean is nearest to the target, or
    /// `None` if that mean is not near enough. The mean must rise with the number. The search ends
    /// if `of` returns `None`.
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
        // The mean may jump from one number to the next.
        best.filter(|(_, mean)| (mean / target - 1.0).abs() <= MEAN_TOLERANCE)
            .map(|(found, _)| found)
    }
}

/// Returns the combinations of SeqCDC, without the trigger.
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

/// Returns the candidate of `avg=`, with a maximum size added if the specification has none.
fn by_average(name: &str, target: usize) -> Option<Candidate> {
    let max = target * FAR_MAX_FACTOR;
    let spec = Spec::for_average(name, target).and_then(Spec::bounded).or_else(|_| {
        format!("{name}:avg={target},max={max}").parse::<Spec>().and_then(Spec::bounded)
    });
    let spec = spec.ok()?;
    let mean = spec.chunk_size_average().map(|mean| mean as f64);
    Some(Candidate::new(spec, Origin::Average, mean))
}

/// Returns the candidates of BFBC\*, whose pairs are learned from the sample. The mean of BFBC\* is
/// the target on the sample instead of on random data. The minimum size is that of the code of its
/// paper, or half the mean.
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

/// A specification to try on the sample.
struct Candidate {
    spec: Spec,
    /// The parameters of SeqCDC, which is cut by the signs.
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

    /// Cuts and fingerprints the sample, and counts the savings.
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

/// Measures the speed of cutting a sample: the best of a few rounds, in bytes per second of CPU
/// time.
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

    /// The simulation compared with the exact chain of the chunking crate, for the rows of Table I.
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

    /// Every combination must be valid, and at least half of the combinations of an algorithm must
    /// reach the wanted mean.
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
                // SeqCDC has a search of its own, BFBC learns, and samplebyte has no such mean.
                let has_none = ["seqcdc", "bfbc", "samplebyte"].contains(&about.name);
                assert_eq!(grid.is_empty(), has_none, "{}", about.name);
                let least = match (about.name, target) {
                    // The target is too small for UltraCDC. For Ronomon it is between two numbers
                    // of bits, where `avg=` uses another minimum size.
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
    fn specification_by_average_is_bounded() {
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
    fn best_of_an_algorithm_is_its_first_except_paper_rows() {
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
    fn pareto_front_is_marked() {
        let paper = Tuned { origin: Origin::Paper, ..tuned(9, 9.0) };
        let mut all =
            [paper, tuned(10, 5.0), tuned(10, 4.0), tuned(11, 5.0), tuned(12, 7.0), tuned(13, 6.0)];
        mark_best(&mut all);
        let best: Vec<bool> = all.iter().map(|each| each.is_best).collect();
        assert_eq!(best, [false, true, false, false, true, false], "the first and the fastest");
    }
}
