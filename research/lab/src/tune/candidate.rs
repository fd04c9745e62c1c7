//! The specifications that are tried on the sample.

use cutpoint_chunking::algorithm::bfbc::{self, PairCounts};
use cutpoint_chunking::algorithm::seqcdc::Params;
use cutpoint_chunking::{Spec, cuts};
use cutpoint_estimate::{CHUNK_COST, Counter, FINGERPRINT_LEN};
use cutpoint_fingerprint::Blake3;

use super::grid::FAR_MAX_FACTOR;
use super::signs::Signs;
use super::{Origin, TuneResult};

/// The sequence lengths of SeqCDC to try. The ranges of the papers are sequences of 3 to 7, skips
/// of 256 to 512 bytes, and minimum sizes of a quarter to a half of the average. The maximum size
/// is twice the average, as in Table I.
const LENGTHS: [u32; 5] = [3, 4, 5, 6, 7];
const SKIP_SIZES: [usize; 3] = [256, 384, 512];
/// The minimum sizes to try, in eighths of the average.
const MIN_EIGHTHS: [usize; 3] = [2, 3, 4];
const MAX_FACTOR: usize = 2;
/// The range of triggers to try. The papers give no range, and use 50 and 55.
pub(super) const TRIGGERS: (u32, u32) = (10, 120);

/// The chunk sizes of the rows of Table I, in bytes.
pub(super) const PAPER_SIZES: [usize; 3] = [4096, 8192, 16384];

/// The cost of a chunk in a recipe, in bytes: a fingerprint of 32 bytes and a length of 3.
const RECIPE_COST: u64 = 32 + 3;

/// Returns the candidates of Table I.
pub(super) fn paper_rows() -> Vec<Candidate> {
    let row = |size: &usize| {
        let params = Params::paper(*size)?;
        Candidate::of_seqcdc(params, Origin::Paper, Some(params.mean()))
    };
    PAPER_SIZES.iter().filter_map(row).collect()
}

/// Returns the combinations of SeqCDC, without the trigger.
pub(super) fn seqcdc_grid(target: usize) -> Vec<Params> {
    let mut grid = Vec::new();
    // Mode and dialect are those of Table I.
    let Some(table) = Params::paper(PAPER_SIZES[0]) else { return grid };
    for length in LENGTHS {
        for skip_size in SKIP_SIZES {
            for eighths in MIN_EIGHTHS {
                grid.push(Params {
                    length,
                    trigger: TRIGGERS.0,
                    skip_size,
                    chunk_size_min: (target * eighths / 8).max(1),
                    chunk_size_max: target * MAX_FACTOR,
                    ..table
                });
            }
        }
    }
    grid
}

/// Returns the candidate of `avg=`, with a maximum size added if the specification has none.
pub(super) fn by_average(name: &str, target: usize) -> Option<Candidate> {
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
pub(super) fn bfbc_learned(streams: &[Vec<u8>], target: usize) -> Vec<Candidate> {
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
pub(super) struct Candidate {
    pub(super) spec: Spec,
    /// The parameters of SeqCDC, which is cut by the signs.
    params: Option<Params>,
    origin: Origin,
    pub(super) random_mean: Option<f64>,
}

impl Candidate {
    pub(super) fn new(spec: Spec, origin: Origin, random_mean: Option<f64>) -> Candidate {
        Candidate { spec, params: None, origin, random_mean }
    }

    pub(super) fn of_seqcdc(
        params: Params,
        origin: Origin,
        random_mean: Option<f64>,
    ) -> Option<Candidate> {
        let spec = Spec::try_from(params).ok()?;
        Some(Candidate { params: Some(params), ..Candidate::new(spec, origin, random_mean) })
    }

    /// Cuts and fingerprints the sample, and counts the savings.
    pub(super) fn try_on(&self, streams: &[(&[u8], &Signs)]) -> TuneResult {
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
        TuneResult {
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
