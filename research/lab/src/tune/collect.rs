//! A sample of files, in memory.
//!
//! The hash of the file name decides whether a file is in the sample. Versions of a file in
//! different folders under the same name are therefore all in the sample, or none is.

use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use cutpoint_estimate::EstimateError;
use cutpoint_estimate::scan::{
    Chunk, Cutter, Job, Lane, Monitor, ScanCounts, ScanOptions, Sink, expected_of, run,
};
use cutpoint_fingerprint::Blake3;

use crate::until::Until;

/// The specification for collecting a stream, which is not cut yet, in pieces.
const PIECE: &str = "fixed:size=64k";

/// The streams of the sample: files without holes, and the parts of files before, between and after
/// holes.
pub(super) struct Sample {
    pub(super) streams: Vec<Vec<u8>>,
    pub(super) counts: ScanCounts,
}

/// Reads a sample of at most `size_max` bytes.
pub(super) fn collect(
    scan: &ScanOptions,
    size_max: u64,
    monitor: &dyn Monitor,
) -> Result<Sample, EstimateError> {
    let (_, total) = expected_of(scan, monitor, &AtomicBool::new(false)).unwrap_or((0, 0));
    let mut scan = scan.clone();
    if total > size_max {
        scan.name_share = Some(size_max as f64 / total as f64);
    }
    let mut sample = read(&scan, size_max, monitor)?;
    if sample.streams.is_empty() && scan.name_share.take().is_some() {
        // None of a few large files was chosen, so the sample is the beginning of the first file.
        sample = read(&scan, size_max, monitor)?;
    }
    Ok(sample)
}

fn read(scan: &ScanOptions, size_max: u64, monitor: &dyn Monitor) -> Result<Sample, EstimateError> {
    let cutter = Cutter::new(&PIECE.parse()?, Blake3::plain())?;
    let full = Arc::new(AtomicBool::new(false));
    let left = size_max;
    let sink = Gather { streams: Vec::new(), open: Vec::new(), left, full: full.clone() };
    let until = Until { monitor, broken: full.clone() };
    let (mut counts, lanes) = run(scan, vec![Lane { cutter, sink }], 1, &until)?;
    if full.load(Relaxed) {
        // The scan ended because the sample is full.
        counts.is_partial = monitor.cancelled();
    }
    let streams = lanes.into_iter().flat_map(|lane| lane.sink.streams).collect();
    Ok(Sample { streams, counts })
}

struct Gather {
    streams: Vec<Vec<u8>>,
    open: Vec<u8>,
    left: u64,
    full: Arc<AtomicBool>,
}

impl Sink for Gather {
    fn begin(&mut self, _: &Arc<Path>) {}

    fn chunk(&mut self, chunk: &Chunk<'_>, _: &mut Vec<Job>) {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX);
        let taken = &chunk.bytes[..chunk.bytes.len().min(room)];
        self.left -= taken.len() as u64;
        self.open.extend_from_slice(taken);
        if self.left == 0 {
            self.full.store(true, Relaxed);
        }
        if chunk.is_last || self.left == 0 {
            let stream = mem::take(&mut self.open);
            if !stream.is_empty() {
                self.streams.push(stream);
            }
        }
    }
}
