//! The events of an estimate.

use std::path::Path;

use cutpoint_estimate::{Bursts, ConfigurationResult, ScratchBackup};
use cutpoint_terminal::event::PathText;
use cutpoint_terminal::scan::Figures;
use serde::Serialize;

/// The estimated savings of a cut specification. The schema describes the fields.
#[derive(Serialize)]
pub(crate) struct Estimate {
    cut: String,
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

/// The confidence intervals of an estimate from a sample.
#[derive(Serialize)]
struct Sample {
    rate: u64,
    sampled_count: u64,
    heavy_count: u64,
    unique_bytes_low: u64,
    unique_bytes_high: u64,
    dedup_space_savings_low: Option<f64>,
    dedup_space_savings_high: Option<f64>,
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

impl Estimate {
    /// Creates the event of a configuration.
    pub(crate) fn of(found: &ConfigurationResult) -> Estimate {
        let ConfigurationResult { dedup, stored, times, .. } = found;
        let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Estimate {
            cut: found.spec.clone(),
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
                    dedup_space_savings_low: interval.map(|(low, _)| low),
                    dedup_space_savings_high: interval.map(|(_, high)| high),
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

/// What a backup with the default settings would store. The schema describes the fields.
#[derive(Serialize)]
pub(crate) struct DefaultMode {
    /// The path of the version; `None` for all paths in one backup.
    #[serde(flatten)]
    path: Option<PathText>,
    file_count: u64,
    size_bytes: u64,
    new_chunk_count: u64,
    new_bytes: u64,
    delta_chunk_count: u64,
    delta_chunk_bytes: u64,
    literal_bytes: u64,
    added_bytes: u64,
    stored_bytes: u64,
    metadata_bytes: u64,
}

impl DefaultMode {
    /// Creates the event of a version, or of all paths.
    pub(crate) fn of(path: Option<&Path>, backup: &ScratchBackup) -> DefaultMode {
        let ScratchBackup { statistics, added_bytes, stored } = *backup;
        DefaultMode {
            path: path.map(PathText::of),
            file_count: statistics.file_count,
            size_bytes: statistics.size,
            new_chunk_count: statistics.new_chunk_count,
            new_bytes: statistics.new_bytes,
            delta_chunk_count: statistics.delta_chunk_count,
            delta_chunk_bytes: statistics.delta_chunk_bytes,
            literal_bytes: statistics.literal_bytes,
            added_bytes,
            stored_bytes: stored.total(),
            metadata_bytes: stored.metadata_bytes,
        }
    }
}
