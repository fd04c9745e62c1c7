//! Random data, on which combinations are fitted to the wanted mean.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use cutpoint_chunking::algorithm::seqcdc::Params;
use cutpoint_chunking::{Spec, cuts};
use cutpoint_testing::SplitMix64;

use super::Origin;
use super::candidate::{Candidate, TRIGGERS};
use super::grid::Open;
use super::signs::Signs;

/// The maximum relative difference between the mean of a candidate on random data and the target.
pub(super) const MEAN_TOLERANCE: f64 = 0.1;
/// The approximate number of chunks in a simulation, which determines a mean to 2 %.
const SIMULATED_CHUNK_COUNT: usize = 2000;
const RANDOM_SIZE_MIN: usize = 1 << 20;
const RANDOM_SIZE_MAX: usize = 64 << 20;
/// The fixed seed of the random data, so that results are reproducible.
const RANDOM_SEED: u64 = 0x7475_6e65;

/// Random data, on which combinations are fitted to the wanted mean.
pub(super) struct Random {
    pub(super) bytes: Vec<u8>,
    pub(super) signs: Signs,
    target: usize,
    pub(super) simulated_count: AtomicUsize,
}

impl Random {
    /// Makes as much data as a simulation of this mean takes.
    pub(super) fn for_mean(target: usize) -> Random {
        let size = (target * SIMULATED_CHUNK_COUNT).clamp(RANDOM_SIZE_MIN, RANDOM_SIZE_MAX);
        Random::new(size, target)
    }

    pub(super) fn new(size: usize, target: usize) -> Random {
        let bytes = SplitMix64::bytes(RANDOM_SEED, size);
        let signs = Signs::of(&bytes);
        Random { bytes, signs, target, simulated_count: AtomicUsize::new(0) }
    }

    /// Simulates a combination, and returns the mean chunk size.
    pub(super) fn mean(&self, cuts: impl Iterator<Item = usize>) -> Option<f64> {
        self.simulated_count.fetch_add(1, Relaxed);
        // The last chunk ends at the end of the data, which is no cut-point.
        let ends: Vec<usize> = cuts.take(SIMULATED_CHUNK_COUNT + 1).collect();
        let (_, ends) = ends.split_last()?;
        Some(*ends.last()? as f64 / ends.len() as f64)
    }

    /// Returns the candidate whose mean, by formula or by simulation, is nearest to the target, if
    /// that is near enough.
    pub(super) fn fit(&self, open: &Open) -> Option<Candidate> {
        self.nearest(open.range.clone(), |number| {
            let spec: Spec = open.spec(number).parse().and_then(Spec::bounded).ok()?;
            let mean = match spec.chunk_size_average() {
                Some(mean) => mean as f64,
                None => self.mean(cuts(&*spec.chunker(), &self.bytes))?,
            };
            Some((Candidate::new(spec, Origin::Grid, Some(mean)), mean))
        })
    }

    /// Returns the candidate of SeqCDC whose mean is nearest to the target, by its trigger. A lower
    /// trigger causes more skips, and thereby larger chunks.
    pub(super) fn fit_seqcdc(&self, params: Params) -> Option<Candidate> {
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
