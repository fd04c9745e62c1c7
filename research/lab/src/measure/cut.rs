//! Sizes of chunks compared with their law, and the savings of deduplication.

use cutpoint_chunking::cuts;
use cutpoint_estimate::{Counter, Savings};
use cutpoint_fingerprint::Blake3;

use super::{Task, absent, ask};
use crate::algorithm::{ParameterChoice, choose};
use crate::data::DataSet;
use crate::law::Law;
use crate::{LabError, Row};

/// The metadata of the store for each stored chunk in bytes: 12 in the index and 47 in a directory
/// (`docs/format.md`, sections 7 and 8).
pub(crate) const METADATA_UNIQUE: u64 = 59;
/// The metadata of the store for each reference to a chunk in bytes: a packed segment (section 9)
/// with a length of 3 bytes.
pub(crate) const METADATA_NAMED: u64 = 35;

/// The approximate number of bytes that are fingerprinted at once.
const BATCH_SIZE: usize = 1 << 20;

/// The shares of chunks for which the curve of sizes has a point, denser at both ends.
const QUANTILES: [f64; 33] = [
    0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5,
    0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999,
    1.0,
];

/// The multiples of the mean for which the share of longer chunks is counted, as in table 4 of the
/// AE paper.
const LONGER_THAN: [f64; 7] = [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];

/// The number of bins per target in the histogram.
const BINS_A_TARGET: usize = 8;
/// The range of the histogram in targets.
const BINS_TARGETS: usize = 4;

pub(super) fn rows(task: &Task<'_>, goes_on: &dyn Fn() -> bool) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    for part in &task.algorithms {
        let chosen = choose(part, task.selection, task.target, task.set, goes_on);
        ask(goes_on)?;
        let spec = match chosen {
            ParameterChoice::Spec(spec) => spec,
            ParameterChoice::None(reason) => {
                rows.push(absent(part, reason));
                continue;
            }
        };
        let (savings, sizes) = count(&spec, task.set, part.drop_last, goes_on)?;
        let law = Law::of(&spec);
        let mut found = savings_rows(&savings);
        found.extend(size_rows(&sizes, task.target, law.as_ref()));
        for row in &mut found {
            row.algorithm.clone_from(part.name.get_ref());
            row.spec = spec.to_string();
        }
        rows.extend(found);
    }
    Ok(rows)
}

/// Counts the chunks of all streams, and returns the savings and the sizes of the chunks.
pub(super) fn count(
    spec: &cutpoint_chunking::Spec,
    set: &DataSet,
    drop_last: bool,
    goes_on: &dyn Fn() -> bool,
) -> Result<(Savings, Vec<usize>), LabError> {
    let chunker = spec.chunker();
    let hash = Blake3::plain();
    let (mut counter, mut sizes) = (Counter::new(), Vec::new());
    let (mut batch, mut batch_size, mut digests) = (Vec::new(), 0, Vec::new());
    for stream in set.streams() {
        ask(goes_on)?;
        let mut start = 0;
        for end in cuts(&*chunker, stream) {
            let chunk = &stream[start..end];
            if !(drop_last && end == stream.len()) {
                sizes.push(chunk.len());
            }
            start = end;
            batch_size += chunk.len();
            batch.push(chunk);
            if batch_size >= BATCH_SIZE {
                flush(&hash, &mut batch, &mut digests, &mut counter);
                batch_size = 0;
            }
        }
    }
    flush(&hash, &mut batch, &mut digests, &mut counter);
    Ok((counter.savings(), sizes))
}

fn flush(
    hash: &Blake3,
    batch: &mut Vec<&[u8]>,
    digests: &mut Vec<cutpoint_fingerprint::Digest>,
    counter: &mut Counter,
) {
    digests.clear();
    hash.digests(batch, digests);
    for (chunk, digest) in batch.drain(..).zip(digests.iter()) {
        if let Some(fingerprint) = digest.first_chunk() {
            counter.add(fingerprint, chunk.len() as u64);
        }
    }
}

fn savings_rows(savings: &Savings) -> Vec<Row> {
    let metadata =
        savings.unique_chunk_count * METADATA_UNIQUE + savings.chunk_count * METADATA_NAMED;
    let with_metadata = savings.with_stored_bytes(savings.stored_bytes + metadata);
    let share = |savings: &Savings| 100.0 * savings.space_savings().unwrap_or(0.0);
    let ratio = |savings: &Savings| savings.dedup_ratio().unwrap_or(1.0);
    vec![
        Row::new("space_savings", share(savings), "%"),
        Row::new("dedup_ratio", ratio(savings), ""),
        Row::new("stored_bytes", savings.stored_bytes as f64, "bytes"),
        Row::new("metadata_bytes", metadata as f64, "bytes"),
        Row::new("space_savings_with_metadata", share(&with_metadata), "%"),
        Row::new("dedup_ratio_with_metadata", ratio(&with_metadata), ""),
        Row::new("stored_bytes_with_metadata", with_metadata.stored_bytes as f64, "bytes"),
        Row::new("chunks", savings.chunk_count as f64, "chunks"),
        Row::new("unique_chunks", savings.unique_chunk_count as f64, "chunks"),
    ]
}

fn size_rows(sizes: &[usize], target: usize, law: Option<&Law>) -> Vec<Row> {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else { return Vec::new() };
    let count = sorted.len() as f64;
    let mean = sorted.iter().sum::<usize>() as f64 / count;
    let variance = sorted.iter().map(|size| (*size as f64 - mean).powi(2)).sum::<f64>() / count;
    let error = (variance / count).sqrt();
    let mean_row = Row {
        // The quartiles of the distribution of the mean of this number of chunks.
        lower_quartile: mean - 0.6745 * error,
        upper_quartile: mean + 0.6745 * error,
        count: sorted.len() as u64,
        ..Row::new("mean", mean, "bytes")
    };
    let mut rows = vec![
        mean_row,
        Row::new("deviation", variance.sqrt(), "bytes"),
        Row::new("min", *min as f64, "bytes"),
        Row::new("max", *max as f64, "bytes"),
        Row::new("median", sorted[sorted.len() / 2] as f64, "bytes"),
    ];
    let longer = LONGER_THAN.map(|means| {
        let below = sorted.partition_point(|size| *size as f64 <= means * mean);
        (sorted.len() - below) as f64 / count
    });
    rows.push(
        Row::new("longer_than", longer[0], "")
            .samples(&longer)
            .note("the shares of chunks that are longer than 2 to 8 means"),
    );
    let points: Vec<f64> = QUANTILES.iter().map(|share| quantile(&sorted, *share)).collect();
    rows.push(
        Row::new("quantiles", count, "chunks")
            .samples(&points)
            .note(format!("sizes at shares {}", texts(&QUANTILES))),
    );
    let width = (target / BINS_A_TARGET).max(1);
    let mut bins = vec![0.0; BINS_A_TARGET * BINS_TARGETS + 1];
    let last = bins.len() - 1;
    sorted.iter().for_each(|size| bins[(size / width).min(last)] += 1.0);
    rows.push(
        Row::new("histogram", width as f64, "bytes")
            .samples(&bins)
            .note("chunks in bins of this width; the last has all above"),
    );
    if let Some(law) = law {
        if let Some(mean) = law.mean() {
            rows.push(Row::new("law_mean", mean, "bytes").note(law.name()));
        }
        let shares: Vec<f64> = points.iter().map(|size| law.at_most(*size)).collect();
        let distance = distance(&sorted, law);
        rows.push(
            Row::new("law_distance", distance, "")
                .samples(&shares)
                .note(format!("{}; shares of chunks at the sizes of the quantiles", law.name())),
        );
    }
    rows
}

/// Returns the maximum distance between the shares of chunks and the law (Kolmogorov and Smirnov).
fn distance(sorted: &[usize], law: &Law) -> f64 {
    let count = sorted.len() as f64;
    let (mut largest, mut before) = (0.0_f64, 0);
    for group in sorted.chunk_by(|one, other| one == other) {
        let size = group[0] as f64;
        let below = (law.at_most(size - 1.0) - before as f64 / count).abs();
        before += group.len();
        let here = (law.at_most(size) - before as f64 / count).abs();
        largest = largest.max(below).max(here);
    }
    largest
}

fn quantile(sorted: &[usize], share: f64) -> f64 {
    let last = sorted.len() - 1;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is at most `last`"
    )]
    let place = (last as f64 * share).round() as usize;
    sorted[place.min(last)] as f64
}

fn texts(shares: &[f64]) -> String {
    let texts: Vec<String> = shares.iter().map(f64::to_string).collect();
    texts.join(" ")
}
