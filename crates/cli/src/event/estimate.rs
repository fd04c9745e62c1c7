//! The events of the commands that examine data before anything is stored.

use std::path::PathBuf;

use cutpoint_estimate::{Bursts, Configured, Savings, ScanCounts, TraceSavings};
use serde::Serialize;

/// The estimated savings of a cut specification. The schema describes the fields.
#[derive(Serialize)]
pub(crate) struct Estimate {
    spec: String,
    read_bytes: u64,
    zero_bytes: u64,
    chunk_count: u64,
    unique_chunk_count: u64,
    chunk_size_mean: Option<f64>,
    unique_bytes: u64,
    #[serde(flatten)]
    figures: Figures,
    sample: Option<Sample>,
    compressed_bytes: Option<u64>,
    metadata_bytes: u64,
    stored_bytes: u64,
    stored_space_savings: Option<f64>,
    stored_dedup_ratio: Option<f64>,
    bursts: Option<BurstsEstimate>,
    index_memory_bytes: u64,
    chunking_ns: u64,
    fingerprinting_ns: u64,
    compressing_ns: u64,
}

/// The two common figures of deduplication.
#[derive(Serialize)]
struct Figures {
    space_savings: Option<f64>,
    dedup_ratio: Option<f64>,
}

/// The confidence intervals of an estimate from a sample.
#[derive(Serialize)]
struct Sample {
    rate: u64,
    sampled_count: u64,
    heavy_count: u64,
    unique_bytes_low: u64,
    unique_bytes_high: u64,
    space_savings_low: Option<f64>,
    space_savings_high: Option<f64>,
}

/// The estimated savings with bursts.
#[derive(Serialize)]
struct BurstsEstimate {
    burst_count: u64,
    new_bytes: u64,
    #[serde(flatten)]
    figures: Figures,
    compressed_bytes: Option<u64>,
    metadata_bytes: u64,
    stored_bytes: u64,
    stored_space_savings: Option<f64>,
    stored_dedup_ratio: Option<f64>,
}

impl Figures {
    fn of(savings: &Savings) -> Figures {
        Figures { space_savings: savings.space_savings(), dedup_ratio: savings.dedup_ratio() }
    }
}

impl Estimate {
    /// Creates the event of a configuration.
    pub(crate) fn of(found: &Configured) -> Estimate {
        let Configured { dedup, stored, times, .. } = found;
        let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Estimate {
            spec: found.spec.clone(),
            read_bytes: dedup.read_bytes,
            zero_bytes: found.zero_bytes,
            chunk_count: dedup.chunk_count,
            unique_chunk_count: dedup.unique_chunk_count,
            chunk_size_mean: dedup.chunk_size_mean(),
            unique_bytes: dedup.stored_bytes,
            figures: Figures::of(dedup),
            sample: found.sample.as_ref().map(|sample| {
                let (unique_bytes_low, unique_bytes_high) = sample.stored_bytes_interval;
                let interval = sample.space_savings_interval();
                Sample {
                    rate: sample.rate,
                    sampled_count: sample.sampled_count,
                    heavy_count: sample.heavy_count,
                    unique_bytes_low,
                    unique_bytes_high,
                    space_savings_low: interval.map(|(low, _)| low),
                    space_savings_high: interval.map(|(_, high)| high),
                }
            }),
            compressed_bytes: found.compressed_bytes,
            metadata_bytes: found.metadata_bytes,
            stored_bytes: stored.stored_bytes,
            stored_space_savings: stored.space_savings(),
            stored_dedup_ratio: stored.dedup_ratio(),
            bursts: found.bursts.as_ref().map(|bursts: &Bursts| BurstsEstimate {
                burst_count: bursts.burst_count,
                new_bytes: bursts.dedup.stored_bytes,
                figures: Figures::of(&bursts.dedup),
                compressed_bytes: bursts.compressed_bytes,
                metadata_bytes: bursts.metadata_bytes,
                stored_bytes: bursts.stored.stored_bytes,
                stored_space_savings: bursts.stored.space_savings(),
                stored_dedup_ratio: bursts.stored.dedup_ratio(),
            }),
            index_memory_bytes: found.index_memory_bytes,
            chunking_ns: ns(times.chunking),
            fingerprinting_ns: ns(times.fingerprinting),
            compressing_ns: ns(times.compressing),
        }
    }
}

/// The counts of a scan.
#[derive(Serialize)]
pub(crate) struct Counted {
    file_count: u64,
    folder_count: u64,
    size: u64,
    hole_bytes: u64,
    excluded_count: u64,
    problem_count: u64,
    is_partial: bool,
}

impl Counted {
    /// Creates the fields of a summary.
    pub(crate) fn of(counts: &ScanCounts) -> Counted {
        let ScanCounts { file_count, folder_count, size, hole_bytes, .. } = *counts;
        let ScanCounts { excluded_count, problem_count, is_partial, .. } = *counts;
        Counted {
            file_count,
            folder_count,
            size,
            hole_bytes,
            excluded_count,
            problem_count,
            is_partial,
        }
    }
}

/// The savings computed from all traces together.
#[derive(Serialize)]
pub(crate) struct Trace {
    traces: Vec<String>,
    file_count: u64,
    read_bytes: u64,
    zero_bytes: u64,
    chunk_count: u64,
    unique_chunk_count: u64,
    chunk_size_mean: Option<f64>,
    unique_bytes: u64,
    #[serde(flatten)]
    figures: Figures,
}

impl Trace {
    /// Creates the event of these files.
    pub(crate) fn of(traces: &[PathBuf], found: &TraceSavings) -> Trace {
        let savings = found.savings();
        Trace {
            traces: traces.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
            file_count: found.file_count(),
            read_bytes: savings.read_bytes,
            zero_bytes: found.zero_bytes(),
            chunk_count: savings.chunk_count,
            unique_chunk_count: savings.unique_chunk_count,
            chunk_size_mean: savings.chunk_size_mean(),
            unique_bytes: savings.stored_bytes,
            figures: Figures::of(&savings),
        }
    }
}

/// The result of a specification on a sample.
#[derive(Serialize)]
pub(crate) struct Tuned {
    spec: String,
    origin: &'static str,
    random_chunk_size_mean: Option<f64>,
    chunk_count: u64,
    unique_chunk_count: u64,
    chunk_size_mean: Option<f64>,
    unique_bytes: u64,
    #[serde(flatten)]
    figures: Figures,
    metadata_bytes: u64,
    net_space_savings: Option<f64>,
    bytes_per_second: Option<f64>,
    is_best: bool,
    is_best_of_algorithm: bool,
}

impl Tuned {
    /// Creates the event of a specification.
    pub(crate) fn of(tuned: &cutpoint_estimate::Tuned) -> Tuned {
        let savings = &tuned.savings;
        Tuned {
            spec: tuned.spec.to_string(),
            origin: tuned.origin.name(),
            random_chunk_size_mean: tuned.random_mean,
            chunk_count: savings.chunk_count,
            unique_chunk_count: savings.unique_chunk_count,
            chunk_size_mean: savings.chunk_size_mean(),
            unique_bytes: savings.stored_bytes,
            figures: Figures::of(savings),
            metadata_bytes: tuned.metadata_bytes,
            net_space_savings: tuned.net.space_savings(),
            bytes_per_second: (tuned.bytes_per_second > 0.0).then_some(tuned.bytes_per_second),
            is_best: tuned.is_best,
            is_best_of_algorithm: tuned.is_best_of_algorithm,
        }
    }
}
