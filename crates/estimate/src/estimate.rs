//! What configurations would save on some data, all of them in one pass.

mod metadata;
mod regions;
mod similar;
mod tally;

use std::fmt;
use std::io;
use std::time::Duration;

use cutpoint_chunking::{Spec, SpecError};
use cutpoint_fingerprint::Blake3;

use crate::sampler::Options;
use crate::scan::{Cutter, Lane, run};
use crate::{Estimate, Monitor, Savings, ScanCounts, ScanOptions};
pub(crate) use metadata::CHUNK_COST;
use tally::Tally;

/// What is estimated.
#[derive(Clone, Debug)]
pub struct EstimateOptions {
    /// What is read.
    pub scan: ScanOptions,
    /// The ways to cut.
    pub specs: Vec<Spec>,
    /// Whether chunks that resemble others are looked for (BURST).
    pub bursts: bool,
    /// Whether what is new is compressed.
    pub compression: bool,
    /// The zstd level.
    pub compression_level: i32,
    /// The size of a region, in bytes.
    pub region_size: usize,
    /// The size of a container, in bytes.
    pub container_size: u64,
    /// How much is kept of the fingerprints; all of them where that is `None`. Bursts are not looked
    /// for in a sample: of a chunk that is not in it nobody knows whether it is new.
    pub sample: Option<Options>,
}

/// What one configuration came to.
#[derive(Clone, Debug)]
pub struct Configured {
    /// How the data was cut, written out.
    pub spec: String,
    /// Chunks that are there once; what is stored are unique chunks as they are. Chunks of zeros are
    /// counted, and not stored.
    pub dedup: Savings,
    /// Where that is an estimate, how good it is.
    pub sample: Option<Estimate>,
    /// Bytes in chunks of zeros.
    pub zero_bytes: u64,
    /// The same with bursts in the place of chunks that resemble others.
    pub bursts: Option<Bursts>,
    /// Unique chunks compressed, in bytes.
    pub compressed_bytes: Option<u64>,
    /// Trees, recipes, directories, index, and what pads objects, in bytes.
    pub metadata_bytes: u64,
    /// All that a repository with this data would take.
    pub stored: Savings,
    /// What the index would take in memory.
    pub index_memory_bytes: u64,
    /// CPU time.
    pub times: Times,
    /// What the estimate itself took in memory for this configuration.
    pub memory_bytes: u64,
}

/// What bursts came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// How many chunks are bursts.
    pub burst_count: u64,
    /// What is stored is wholes and the new bytes of bursts.
    pub dedup: Savings,
    /// The same compressed, in bytes.
    pub compressed_bytes: Option<u64>,
    /// Metadata, what bursts take among it.
    pub metadata_bytes: u64,
    /// All that a repository with this data would take.
    pub stored: Savings,
}

/// CPU time, of one thread, for the data that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// For finding cut-points.
    pub chunking: Duration,
    /// For fingerprints.
    pub fingerprinting: Duration,
    /// For compressing all that is new; of the most part it was measured.
    pub compressing: Duration,
}

/// What all configurations came to.
#[derive(Clone, Debug)]
pub struct Estimated {
    /// What was read.
    pub counts: ScanCounts,
    /// In the order in which they were asked for.
    pub configurations: Vec<Configured>,
}

/// Why there is no estimate.
#[derive(Debug)]
pub enum EstimateError {
    /// A specification cannot be used here.
    Spec(SpecError),
    /// A path cannot be reached, a pattern makes no sense, or there is no memory.
    Io(io::Error),
}

impl fmt::Display for EstimateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EstimateError::Spec(error) => error.fmt(f),
            EstimateError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EstimateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            EstimateError::Spec(error) => Some(error),
            EstimateError::Io(error) => Some(error),
        }
    }
}

impl From<SpecError> for EstimateError {
    fn from(error: SpecError) -> EstimateError {
        EstimateError::Spec(error)
    }
}

impl From<io::Error> for EstimateError {
    fn from(error: io::Error) -> EstimateError {
        EstimateError::Io(error)
    }
}

/// Reads the data once, and says what each configuration would make of it.
///
/// What it says does not depend on the number of threads, but for times. Memory: 20 to 40 bytes for
/// each unique chunk of each configuration, 60 to 120 where bursts are looked for, or what
/// `options.sample` allows; some 40 MiB beside that, and 4 MiB for each configuration and thread.
///
/// # Errors
///
/// Where a specification has no largest chunk, where a path cannot be reached, where there is no
/// memory for zstd. What cannot be read in between is told to `monitor`, and counted.
pub fn estimate(
    options: &EstimateOptions,
    monitor: &dyn Monitor,
) -> Result<Estimated, EstimateError> {
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
    Ok(Estimated { counts, configurations: configurations.collect() })
}
