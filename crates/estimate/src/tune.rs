//! Parameters for some data: which combinations have the wanted mean on random data, and which of
//! these save most on a sample of the data, and how fast they are.
//!
//! Source: Udayashankar et al., "SeqCDC: Hashless Content-Defined Chunking for Data Deduplication"
//! (Middleware 2024), section 5: parameters come from a Monte-Carlo simulation on random data, and of
//! the candidates the one is taken that is best on a data set. Here each candidate is also measured in
//! speed, and what its chunks cost in metadata counts.

mod collect;
mod signs;

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, available_parallelism};

use cutpoint_chunking::algorithm::seqcdc::{Equal, Mode, Params, Rule};
use cutpoint_chunking::{Spec, cuts};
use cutpoint_fingerprint::Blake3;
use cutpoint_testing::{SplitMix64, thread_cpu_time};

use crate::estimate::{CHUNK_COST, EstimateError};
use crate::{Counter, FINGERPRINT_LEN, Monitor, Savings, ScanOptions};
use signs::Signs;

/// The ranges of the papers: sequences of 3 to 7, skips of 256 to 512 bytes, smallest sizes of a quarter
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

/// Normalization levels of FastCDC.
const LEVELS: [u32; 4] = [0, 1, 2, 3];
/// Its largest size.
const FASTCDC_MAX_FACTOR: usize = 4;
/// Rules with a parameter less to choose: `avg=` gives all.
const BY_AVERAGE: [&str; 8] =
    ["seqcdc", "fastcdc", "ram", "ae", "rabin", "tttd", "buzhash", "mincdc"];
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
    /// Nothing else is better in both, net savings and speed: it is of the Pareto front.
    pub is_best: bool,
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
    /// How many combinations were simulated.
    pub simulated_count: u64,
    /// How many of them have a mean near the target.
    pub candidate_count: u64,
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
    let target = options.target_size;
    let random_size = (target * SIMULATED_CHUNK_COUNT).clamp(RANDOM_SIZE_MIN, RANDOM_SIZE_MAX);
    let random = Signs::of(&SplitMix64::bytes(RANDOM_SEED, random_size));
    let combinations: Vec<(u32, usize, usize)> = LENGTHS
        .into_iter()
        .flat_map(|length| SKIP_SIZES.map(|skip| (length, skip)))
        .flat_map(|(length, skip)| MIN_EIGHTHS.map(|eighths| (length, skip, eighths)))
        .collect();
    let simulated_count = AtomicUsize::new(0);
    let found = many.run("simulating", &combinations, |(length, skip_size, eighths)| {
        let params = Params {
            mode: Mode::Increasing,
            length: *length,
            trigger: TRIGGERS.0,
            skip_size: *skip_size,
            chunk_size_min: (target * eighths / 8).max(1),
            chunk_size_max: target * MAX_FACTOR,
            equal: Equal::Absorb,
            rule: Rule::Released,
        };
        nearest(&random, params, target, &simulated_count)
    });
    drop(random);
    let mut candidates: Vec<Candidate> = found
        .into_iter()
        .flatten()
        .filter(|(_, mean)| (mean / target as f64 - 1.0).abs() <= MEAN_TOLERANCE)
        .filter_map(|(params, mean)| Candidate::of_seqcdc(params, Origin::Grid, Some(mean)))
        .collect();
    let candidate_count = candidates.len() as u64;
    candidates.extend(fastcdc(target));
    candidates.extend(PAPER_SIZES.iter().filter_map(|size| {
        let params = Params::paper(*size)?;
        Candidate::of_seqcdc(params, Origin::Paper, Some(params.mean()))
    }));
    candidates.extend(BY_AVERAGE.iter().filter_map(|name| {
        let spec = Spec::for_average(name, target).and_then(Spec::bounded).ok()?;
        Some(Candidate::new(spec, Origin::Average))
    }));
    if let Ok(spec) = format!("fixed:size={target}").parse() {
        candidates.push(Candidate::new(spec, Origin::Average));
    }
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
    Ok(Tuning {
        tuned,
        sample_bytes: sample.streams.iter().map(|stream| stream.len() as u64).sum(),
        file_count: sample.counts.file_count,
        random_bytes: random_size as u64,
        simulated_count: simulated_count.into_inner() as u64,
        candidate_count,
        is_partial: monitor.cancelled(),
    })
}

/// What is better in savings comes first: of the rest only what is faster than all before is best.
fn mark_best(tuned: &mut [Tuned]) {
    let mut fastest = 0.0;
    for each in tuned {
        each.is_best = each.bytes_per_second > fastest;
        fastest = each.bytes_per_second.max(fastest);
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

/// The mean chunk size of a simulation.
fn simulated_mean(random: &Signs, params: &Params, count: &AtomicUsize) -> Option<f64> {
    count.fetch_add(1, Relaxed);
    // The last chunk ends where the data does, which is no cut.
    let ends: Vec<usize> = random.cuts(params).take(SIMULATED_CHUNK_COUNT + 1).collect();
    let (_, ends) = ends.split_last()?;
    Some(*ends.last()? as f64 / ends.len() as f64)
}

/// The trigger with which the mean is nearest to `target`, and that mean. Fewer opposing pairs before a
/// skip are more skips, and larger chunks.
fn nearest(
    random: &Signs,
    params: Params,
    target: usize,
    count: &AtomicUsize,
) -> Option<(Params, f64)> {
    let target = target as f64;
    let (mut low, mut high) = TRIGGERS;
    let mut best: Option<(Params, f64)> = None;
    while low <= high {
        let trigger = low + (high - low) / 2;
        let params = Params { trigger, ..params };
        let mean = simulated_mean(random, &params, count)?;
        if best.is_none_or(|(_, known)| (mean - target).abs() < (known - target).abs()) {
            best = Some((params, mean));
        }
        if mean > target {
            low = trigger + 1;
        } else {
            high = trigger - 1;
        }
    }
    best
}

/// FastCDC at every level and with every smallest size, the normal size such that the mean is right.
fn fastcdc(target: usize) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for level in LEVELS {
        for eighths in MIN_EIGHTHS {
            // Its sizes are even: they are looked for in pairs of bytes.
            let (min, max) = (target * eighths / 16 * 2, target * FASTCDC_MAX_FACTOR / 2 * 2);
            let spec = |pairs: usize| -> Option<Spec> {
                let normal = 2 * pairs;
                let text =
                    format!("fastcdc:level={level},min={min},normal={normal},max={max},seed=0");
                text.parse().and_then(Spec::bounded).ok()
            };
            let (mut low, mut high) = (min / 2, target);
            let mut best: Option<(usize, Spec)> = None;
            while low <= high {
                let pairs = low + (high - low) / 2;
                let Some(found) = spec(pairs) else { break };
                let Some(mean) = found.chunk_size_average() else { break };
                let distance = mean.abs_diff(target);
                if best.as_ref().is_none_or(|(known, _)| distance < *known) {
                    best = Some((distance, found));
                }
                if mean > target {
                    high = pairs - 1;
                } else {
                    low = pairs + 1;
                }
            }
            // A mean jumps where the number of bits does.
            candidates.extend(best.and_then(|(distance, spec)| {
                let is_near = distance as f64 <= target as f64 * MEAN_TOLERANCE;
                is_near.then(|| Candidate::new(spec, Origin::Grid))
            }));
        }
    }
    candidates
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
    fn new(spec: Spec, origin: Origin) -> Candidate {
        let random_mean = spec.chunk_size_average().map(|mean| mean as f64);
        Candidate { spec, params: None, origin, random_mean }
    }

    fn of_seqcdc(params: Params, origin: Origin, random_mean: Option<f64>) -> Option<Candidate> {
        let spec = Spec::try_from(params).ok()?;
        Some(Candidate { spec, params: Some(params), origin, random_mean })
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
        let random = Signs::of(&SplitMix64::bytes(RANDOM_SEED, 32 << 20));
        for size in PAPER_SIZES {
            let params = Params::paper(size).expect("a row");
            let count = AtomicUsize::new(0);
            let mean = simulated_mean(&random, &params, &count).expect("a mean");
            let truth = params.mean();
            assert!((mean / truth - 1.0).abs() < 0.03, "{size}: {mean}, not {truth}");
        }
    }

    #[test]
    fn fastcdc_has_every_level() {
        for target in [2048, 16_000, 45_056] {
            let found = fastcdc(target);
            for level in LEVELS {
                let text = format!("fastcdc:level={level},");
                let of_level = found.iter().filter(|each| each.spec.to_string().starts_with(&text));
                assert!(of_level.count() > 0, "{target}: {text}");
            }
        }
    }

    #[test]
    fn the_front_is_what_nothing_beats() {
        let tuned = |stored_bytes, bytes_per_second| Tuned {
            spec: "fixed:size=4k".parse().expect("a spec"),
            origin: Origin::Grid,
            random_mean: None,
            savings: Savings::default(),
            metadata_bytes: 0,
            net: Savings { stored_bytes, ..Savings::default() },
            bytes_per_second,
            is_best: true,
        };
        let mut all =
            [tuned(10, 5.0), tuned(10, 4.0), tuned(11, 5.0), tuned(12, 7.0), tuned(13, 6.0)];
        mark_best(&mut all);
        let best: Vec<bool> = all.iter().map(|each| each.is_best).collect();
        assert_eq!(best, [true, false, false, true, false], "the first and the fastest");
    }
}
