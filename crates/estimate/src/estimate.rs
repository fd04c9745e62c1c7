//! The savings and costs of several configurations on some data, computed in one pass.

mod metadata;
mod regions;
mod similar;
mod tally;

use std::path::PathBuf;
use std::time::Duration;

use cutpoint_chunking::Spec;
use cutpoint_fingerprint::Blake3;

use crate::sampler::Options;
use crate::scan::{Cutter, Lane, run};
use crate::{Estimate, EstimateError, Monitor, Savings, ScanCounts, ScanOptions};
pub use metadata::CHUNK_COST;
use tally::Tally;

/// The specifications that an estimate compares by default: the default of new repositories,
/// smaller chunks by the same rule, chunks by the fastest rule, and fixed sizes as a lower bound.
pub const DEFAULT_SPECS: [&str; 5] =
    ["fastcdc:avg=64k", "fastcdc:avg=16k", "fastcdc:avg=8k", "seqcdc:avg=16k", "fixed:size=16k"];

/// The options of an estimate.
#[derive(Clone, Debug)]
pub struct EstimateOptions {
    /// The files to read.
    pub scan: ScanOptions,
    /// The ways to cut.
    pub specs: Vec<Spec>,
    /// Set to search for chunks that resemble others (BURST).
    pub bursts: bool,
    /// Set to compress new data.
    pub compression: bool,
    /// The zstd level.
    pub compression_level: i32,
    /// The size of a region, in bytes.
    pub region_size: usize,
    /// The size of a container, in bytes.
    pub container_size: u64,
    /// The size of the sample of fingerprints, or `None` to keep all fingerprints. There are no
    /// bursts with a sample, because a chunk outside the sample is not known to be new or old.
    pub sample: Option<Options>,
}

impl EstimateOptions {
    /// Returns the [default](EstimateOptions::default) options for these files and folders.
    pub fn of<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> EstimateOptions {
        let paths = paths.into_iter().map(Into::into).collect();
        let scan = ScanOptions { paths, ..ScanOptions::default() };
        EstimateOptions { scan, ..EstimateOptions::default() }
    }
}

impl Default for EstimateOptions {
    /// Returns the options of an estimate for a repository with the default settings, of
    /// [`DEFAULT_SPECS`], with bursts and compression. There are no files to read.
    fn default() -> EstimateOptions {
        let specs =
            DEFAULT_SPECS.iter().filter_map(|text| text.parse::<Spec>().ok()?.bounded().ok());
        EstimateOptions {
            scan: ScanOptions::default(),
            specs: specs.collect(),
            bursts: true,
            compression: true,
            compression_level: 3,
            region_size: 2 << 20,
            container_size: 16 << 20,
            sample: None,
        }
    }
}

/// The result for one configuration.
#[derive(Clone, Debug)]
pub struct ConfigurationResult {
    /// The specification by which the data was cut, in full.
    pub spec: String,
    /// The savings if each chunk is stored once, uncompressed. Chunks of zeros are counted and not
    /// stored.
    pub dedup: Savings,
    /// The sample behind `dedup` and its accuracy, if `dedup` is an estimate.
    pub sample: Option<Estimate>,
    /// The number of bytes in chunks of zeros.
    pub zero_bytes: u64,
    /// The result if chunks that resemble others are stored as bursts.
    pub bursts: Option<Bursts>,
    /// The size of the unique chunks after compression, in bytes.
    pub compressed_bytes: Option<u64>,
    /// The size of trees, recipes, tables of contents, index and padding of objects, in bytes.
    pub metadata_bytes: u64,
    /// The savings if all bytes of a repository with this data are counted as stored.
    pub stored: Savings,
    /// The memory that the index would take, in bytes.
    pub index_memory_bytes: u64,
    /// The CPU times.
    pub times: Times,
    /// The memory that the estimate itself took for this configuration, in bytes.
    pub memory_bytes: u64,
}

/// The result with bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// The number of chunks that are bursts.
    pub burst_count: u64,
    /// The savings if whole chunks and the new bytes of bursts are stored, uncompressed.
    pub dedup: Savings,
    /// The size of these stored bytes after compression, in bytes.
    pub compressed_bytes: Option<u64>,
    /// The size of metadata, including that of bursts, in bytes.
    pub metadata_bytes: u64,
    /// The savings if all bytes of a repository with this data are counted as stored.
    pub stored: Savings,
}

/// The CPU times of one thread for the data that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The time for finding cut-points.
    pub chunking: Duration,
    /// The time for fingerprinting.
    pub fingerprinting: Duration,
    /// The time for compressing all new data, extrapolated from the regions that were measured.
    pub compressing: Duration,
}

/// The result for all configurations.
#[derive(Clone, Debug)]
pub struct EstimateReport {
    /// The counts of the scan.
    pub counts: ScanCounts,
    /// The results in the order of the specifications.
    pub configurations: Vec<ConfigurationResult>,
}

/// Reads the data once, and computes the result of each configuration.
///
/// Except for the times, the result does not depend on the number of threads. Memory: 20 to 40
/// bytes for each unique chunk of each configuration, 60 to 120 bytes with bursts, or the maximum
/// that `options.sample` sets. In addition about 40 MiB, and 4 MiB for each configuration and
/// thread.
///
/// # Errors
///
/// Returns an error if a specification has no maximum chunk size, if a path cannot be reached, if a
/// pattern is invalid, or if zstd cannot be set up. Files that cannot be read during the scan are
/// reported to `monitor` and counted.
pub fn estimate(
    options: &EstimateOptions,
    monitor: &dyn Monitor,
) -> Result<EstimateReport, EstimateError> {
    let mut lanes = Vec::new();
    for spec in &options.specs {
        let cutter = Cutter::new(spec, Blake3::plain())?;
        lanes.push(Lane { cutter, sink: Tally::new(spec, options)? });
    }
    let (counts, lanes) = run(&options.scan, lanes, options.compression_level, monitor)?;
    let configurations = lanes.iter().map(|lane| {
        let Cutter { chunking, fingerprinting, .. } = lane.cutter;
        lane.sink.configured(chunking, fingerprinting)
    });
    Ok(EstimateReport { counts, configurations: configurations.collect() })
}
