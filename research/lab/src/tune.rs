//! The search for parameters: combinations with the wanted mean on random data, ranked by their
//! savings on a sample of the data, with their speed.
//!
//! Source: Udayashankar et al., "SeqCDC: Hashless Content-Defined Chunking for Data Deduplication"
//! (Middleware 2024), section 5. There, parameters come from a Monte-Carlo simulation on random
//! data, and the best candidate on a data set is chosen. Here the same is done for every algorithm,
//! with the formula of the mean instead of a simulation if the algorithm has one. The speed of each
//! candidate is measured as well, and the metadata of its chunks counts.

mod candidate;
mod collect;
mod grid;
mod many;
mod random;
mod rank;
mod signs;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::num::NonZero;
use std::thread::available_parallelism;

use cutpoint_chunking::algorithm::seqcdc::Params;
use cutpoint_chunking::{KeyUse, Spec, algorithms};
use cutpoint_estimate::scan::{Monitor, ScanOptions};
use cutpoint_estimate::{EstimateError, Savings};

use candidate::{Candidate, bfbc_learned, by_average, paper_rows, seqcdc_grid};
use collect::Sample;
use grid::{Open, grid};
use many::Many;
use random::Random;
use rank::{rank, speed};
use signs::Signs;

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
pub struct TuneResult {
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
    pub tuned: Vec<TuneResult>,
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
    let search = Search { options, sample, many };
    let found = search.find();
    let tuned = search.measure(search.try_all(&found.candidates));
    Ok(Tuning {
        tuned,
        sample_bytes: search.sample.streams.iter().map(|stream| stream.len() as u64).sum(),
        file_count: search.sample.counts.file_count,
        random_bytes: found.random_bytes,
        simulated_count: found.simulated_count,
        candidate_count: found.candidate_count,
        unreached_algorithms: found.unreached_algorithms,
        is_partial: monitor.cancelled(),
    })
}

/// A search with its sample.
struct Search<'a> {
    options: &'a TuneOptions,
    sample: Sample,
    many: Many<'a>,
}

/// The specifications that have the wanted mean, and the work that it took to find them.
struct Found {
    candidates: Vec<Candidate>,
    /// The number of candidates that the grids have.
    candidate_count: u64,
    unreached_algorithms: Vec<String>,
    random_bytes: u64,
    simulated_count: u64,
}

impl Search<'_> {
    /// Returns the names of the algorithms to try.
    fn algorithms(&self) -> Vec<&str> {
        if !self.options.algorithms.is_empty() {
            return self.options.algorithms.iter().map(String::as_str).collect();
        }
        let can_be_secret = algorithms().iter().filter(|about| about.key != KeyUse::Refused);
        can_be_secret.map(|about| about.name).collect()
    }

    /// Finds the specifications to try on the sample.
    fn find(&self) -> Found {
        let (chosen, target) = (self.algorithms(), self.options.target_size);
        let random = Random::for_mean(target);
        let mut from_grids = Vec::new();
        if chosen.contains(&"seqcdc") {
            let fit = |params: &Params| random.fit_seqcdc(*params);
            from_grids.extend(self.many.run("fitting SeqCDC", &seqcdc_grid(target), fit));
        }
        let open: Vec<Open> = chosen.iter().flat_map(|name| grid(name, target)).collect();
        from_grids.extend(self.many.run("fitting to the mean", &open, |open| random.fit(open)));
        let random_bytes = random.bytes.len() as u64;
        let simulated_count = random.simulated_count.into_inner() as u64;
        drop(random.bytes);
        drop(random.signs);
        if chosen.contains(&"bfbc") {
            (self.many.step)("counting pairs", 0, 1);
            from_grids.extend(bfbc_learned(&self.sample.streams, target).into_iter().map(Some));
        }
        let from_grids: Vec<Candidate> = from_grids.into_iter().flatten().collect();
        let candidate_count = from_grids.len() as u64;
        let mut candidates: Vec<Candidate> =
            chosen.iter().filter_map(|name| by_average(name, target)).collect();
        candidates.extend(from_grids);
        let is_reached = |name: &&str| candidates.iter().any(|each| each.spec.algorithm() == *name);
        let unreached = chosen.iter().filter(|name| !is_reached(name));
        let unreached_algorithms = unreached.map(|name| (*name).to_owned()).collect();
        candidates.extend(paper_rows());
        let mut texts = HashSet::new();
        candidates.retain(|candidate| texts.insert(candidate.spec.to_string()));
        Found { candidates, candidate_count, unreached_algorithms, random_bytes, simulated_count }
    }

    /// Cuts the sample by each candidate. The result is empty if the search is interrupted.
    fn try_all(&self, candidates: &[Candidate]) -> Vec<TuneResult> {
        let streams = &self.sample.streams;
        let signs = self.many.run("comparing bytes", streams, |stream| Some(Signs::of(stream)));
        let signs: Vec<Signs> = signs.into_iter().flatten().collect();
        if signs.len() < streams.len() {
            return Vec::new();
        }
        let streams: Vec<(&[u8], &Signs)> = streams.iter().map(Vec::as_slice).zip(&signs).collect();
        let tuned = self.many.run("cutting", candidates, |each| Some(each.try_on(&streams)));
        tuned.into_iter().flatten().collect()
    }

    /// Measures the speed of one specification after another, while nothing else of this program
    /// runs, and ranks them.
    fn measure(&self, mut tuned: Vec<TuneResult>) -> Vec<TuneResult> {
        for number in 0..tuned.len() {
            if self.many.monitor.cancelled() {
                break;
            }
            (self.many.step)("measuring", number, tuned.len());
            tuned[number].bytes_per_second = speed(&tuned[number].spec, &self.sample.streams);
        }
        rank(&mut tuned);
        tuned
    }
}
