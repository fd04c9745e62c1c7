//! What compression leaves of what is new: measured in regions, as the store makes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cutpoint_store::writer::{PROBE_LEN, Probe};
use cutpoint_testing::thread_cpu_time;

use crate::scan::{Job, Tools};

/// A region that does not shrink below so many percent is not compressed: the store's number
/// (`docs/format.md`, section 7).
const REGION_PERCENT: usize = 97;

/// So many regions are compressed, and of all behind them one in `MEASURED_ONE_IN`, which stands for
/// the others: a quarter of the time, for a difference in the third digit.
const MEASURED_FIRST: u64 = 64;
const MEASURED_ONE_IN: u64 = 4;

/// What regions came to, filled in by jobs.
#[derive(Debug, Default)]
struct Totals {
    /// Bytes of the measured regions, each as often as it counts, before and behind compression.
    raw_bytes: AtomicU64,
    stored_bytes: AtomicU64,
    /// CPU time of compressing, each as often as it counts.
    compressing_ns: AtomicU64,
}

/// Gathers payloads of chunks in regions, and has these compressed.
pub(super) struct Regions {
    size_max: usize,
    probe: Probe,
    bytes: Vec<u8>,
    /// What is to stand behind the rest: like beside like.
    literals: Vec<u8>,
    /// The probe has looked at this one.
    is_probed: bool,
    /// Of how many regions like it this one is one, for the sampler.
    rate: u64,
    /// All that was pushed.
    raw_bytes: u64,
    count: u64,
    totals: Arc<Totals>,
}

/// What all regions together came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packed {
    /// How many regions there are.
    pub(super) region_count: u64,
    /// What was pushed.
    pub(super) raw_bytes: u64,
    /// The share of it that is left.
    pub(super) share: f64,
    /// How long compressing all of it takes, from what was measured.
    pub(super) compressing_ns: u64,
}

impl Packed {
    /// What is left of so many bytes.
    pub(super) fn stored_bytes(&self, raw_bytes: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "a share of a number of bytes")]
        #[expect(clippy::cast_sign_loss, reason = "a share of a number of bytes")]
        {
            (raw_bytes as f64 * self.share).round() as u64
        }
    }
}

impl Regions {
    /// Regions of `size_max` bytes.
    ///
    /// # Errors
    ///
    /// Where zstd has no memory.
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

    /// Takes the bytes of a chunk, which is one of `rate` like it.
    pub(super) fn push(&mut self, payload: &[u8], rate: u64, jobs: &mut Vec<Job>) {
        if !self.is_empty() && self.len() + payload.len() > self.size_max {
            self.close(jobs);
        }
        self.rate = self.rate.max(rate);
        self.bytes.extend_from_slice(payload);
        self.pushed(payload.len(), jobs);
    }

    /// Takes new bytes of a chunk that resembles another.
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

    /// Ends a region that is not worth compressing.
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

    /// What came of them, once all jobs are done.
    pub(super) fn packed(&self) -> Packed {
        let raw = self.totals.raw_bytes.load(Relaxed);
        let stored = self.totals.stored_bytes.load(Relaxed);
        Packed {
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
        // zstd fails where it has no memory: then it counts as not compressed.
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
