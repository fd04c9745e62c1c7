//! The size of new data after compression, measured in regions as the store makes them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::clock::thread_cpu_time;
use cutpoint_repository::write::{PROBE_LEN, Probe};

use crate::scan::{Job, Tools};

/// The maximum compressed size of a region in percent of its size, above which the region is stored
/// uncompressed. The number is that of the store (`docs/format.md`, section 7).
const REGION_PERCENT: usize = 97;

/// The number of regions that are all compressed, from the first on. Of the following regions only
/// one in `MEASURED_ONE_IN` is compressed and stands for the others, which takes a quarter of the
/// time and makes a difference in the third digit.
const MEASURED_FIRST: u64 = 64;
const MEASURED_ONE_IN: u64 = 4;

/// The totals of the regions, filled in by jobs.
#[derive(Debug, Default)]
struct Totals {
    /// The weighted sizes of the measured regions before compression, in bytes.
    raw_bytes: AtomicU64,
    /// The weighted sizes of the measured regions after compression, in bytes.
    stored_bytes: AtomicU64,
    /// The weighted CPU times of compression.
    compressing_ns: AtomicU64,
}

/// Collects payloads of chunks in regions, and makes jobs that compress the regions.
pub(super) struct Regions {
    size_max: usize,
    probe: Probe,
    bytes: Vec<u8>,
    /// The literals of bursts, which follow the other bytes so that like data is together.
    literals: Vec<u8>,
    /// Set if the current region has been probed.
    is_probed: bool,
    /// The number of regions that the current region stands for, because of the sampler.
    rate: u64,
    /// The number of bytes pushed.
    raw_bytes: u64,
    count: u64,
    totals: Arc<Totals>,
}

/// The result for all regions together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RegionTotals {
    /// The number of regions.
    pub(super) region_count: u64,
    /// The number of bytes pushed.
    pub(super) raw_bytes: u64,
    /// The compressed size as a share of the original size.
    pub(super) share: f64,
    /// The time for compressing all regions, extrapolated from the measured ones.
    pub(super) compressing_ns: u64,
}

impl RegionTotals {
    /// Returns the compressed size of `raw_bytes` bytes.
    pub(super) fn stored_bytes(&self, raw_bytes: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "a share of a number of bytes")]
        #[expect(clippy::cast_sign_loss, reason = "a share of a number of bytes")]
        {
            (raw_bytes as f64 * self.share).round() as u64
        }
    }
}

impl Regions {
    /// Creates regions of `size_max` bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if zstd has no memory.
    pub(super) fn new(size_max: usize) -> std::io::Result<Regions> {
        Ok(Regions {
            size_max,
            probe: Probe::new().map_err(std::io::Error::other)?,
            bytes: Vec::new(),
            literals: Vec::new(),
            is_probed: false,
            rate: 1,
            raw_bytes: 0,
            count: 0,
            totals: Arc::default(),
        })
    }

    /// Adds the bytes of a chunk, which stands for `rate` chunks.
    pub(super) fn push(&mut self, payload: &[u8], rate: u64, jobs: &mut Vec<Job>) {
        if !self.is_empty() && self.len() + payload.len() > self.size_max {
            self.close(jobs);
        }
        self.rate = self.rate.max(rate);
        self.bytes.extend_from_slice(payload);
        self.pushed(payload.len(), jobs);
    }

    /// Adds the new bytes of a chunk that resembles another.
    pub(super) fn push_literal(&mut self, literal: &[u8], jobs: &mut Vec<Job>) {
        if !self.is_empty() && self.len() + literal.len() > self.size_max {
            self.close(jobs);
        }
        self.literals.extend_from_slice(literal);
        self.pushed(literal.len(), jobs);
    }

    fn len(&self) -> usize {
        self.bytes.len() + self.literals.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn pushed(&mut self, len: usize, jobs: &mut Vec<Job>) {
        self.raw_bytes += len as u64;
        if !self.is_probed && self.bytes.len() >= PROBE_LEN {
            self.is_probed = true;
            if self.probe.looks_incompressible(&self.bytes) {
                self.close_stored();
                return;
            }
        }
        if self.len() >= self.size_max {
            self.close(jobs);
        }
    }

    /// Ends the current region without compression, because its data looks incompressible.
    fn close_stored(&mut self) {
        let len = self.len() as u64 * self.rate;
        self.totals.raw_bytes.fetch_add(len, Relaxed);
        self.totals.stored_bytes.fetch_add(len, Relaxed);
        self.bytes.clear();
        self.literals.clear();
        self.reset();
    }

    fn reset(&mut self) {
        self.is_probed = false;
        self.rate = 1;
        self.count += 1;
    }

    fn close(&mut self, jobs: &mut Vec<Job>) {
        let weight = match self.count {
            0..MEASURED_FIRST => 1,
            count if count.is_multiple_of(MEASURED_ONE_IN) => MEASURED_ONE_IN,
            _ => {
                self.bytes.clear();
                self.literals.clear();
                return self.reset();
            }
        };
        let weight = weight * self.rate;
        let mut raw = std::mem::take(&mut self.bytes);
        raw.append(&mut self.literals);
        self.reset();
        let totals = self.totals.clone();
        jobs.push(Box::new(move |tools| totals.measure(&raw, weight, tools)));
    }

    /// Ends the last region.
    pub(super) fn finish(&mut self, jobs: &mut Vec<Job>) {
        if !self.is_empty() {
            self.close(jobs);
        }
    }

    /// Returns the result for all regions, once all jobs are done.
    pub(super) fn packed(&self) -> RegionTotals {
        let raw = self.totals.raw_bytes.load(Relaxed);
        let stored = self.totals.stored_bytes.load(Relaxed);
        RegionTotals {
            region_count: self.count,
            raw_bytes: self.raw_bytes,
            share: if raw > 0 { stored as f64 / raw as f64 } else { 1.0 },
            compressing_ns: self.totals.compressing_ns.load(Relaxed),
        }
    }
}

impl Totals {
    fn measure(&self, raw: &[u8], weight: u64, tools: &mut Tools) {
        let began = thread_cpu_time();
        tools.buffer.clear();
        tools.buffer.reserve(zstd::zstd_safe::compress_bound(raw.len()));
        // If zstd fails for lack of memory, the region counts as uncompressed.
        let compressed = tools.compressor.compress_to_buffer(raw, &mut tools.buffer);
        let stored = compressed.unwrap_or(raw.len());
        let stored = if stored * 100 > raw.len() * REGION_PERCENT { raw.len() } else { stored };
        let elapsed = thread_cpu_time().saturating_sub(began);
        self.raw_bytes.fetch_add(raw.len() as u64 * weight, Relaxed);
        self.stored_bytes.fetch_add(stored as u64 * weight, Relaxed);
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.compressing_ns.fetch_add(elapsed_ns.saturating_mul(weight), Relaxed);
    }
}
