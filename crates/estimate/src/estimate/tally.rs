//! The counts of one configuration.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cutpoint_chunking::Spec;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Entry, Fingerprint as StoreFingerprint};

use super::metadata::{self, BURST_COST, CHUNK_COST, ENDS_COST, Metadata};
use super::regions::{RegionTotals, Regions};
use super::similar::Similar;
use super::{Bursts, ConfigurationResult, EstimateOptions, Times};
use crate::scan::{Chunk, Job, Sink};
use crate::{Counter, Estimate, FINGERPRINT_LEN, Sampler, Savings};

/// The memory that the index of the store takes for a chunk, in bits: a hint, and 10 bits of a
/// filter. With a cache on this machine, only the filter is in memory, and the hints are in files.
const INDEX_MEMORY_BITS: u64 = 12 * 8 + 10;

/// The counter of chunks.
enum Count {
    Exact(Counter),
    Sampled(Box<Sampler>),
}

/// The sink for the chunks of one configuration.
pub(super) struct Tally {
    spec: String,
    container_size: u64,
    count: Count,
    zero_bytes: u64,
    zero_count: u64,
    /// The regions of new chunks.
    plain: Option<Regions>,
    similar: Option<Similarity>,
    metadata: Metadata,
}

/// The counts with bursts.
struct Similarity {
    similar: Similar,
    /// The regions of whole chunks and of the new bytes of bursts.
    regions: Option<Regions>,
    burst_count: u64,
    stored_bytes: u64,
}

impl Tally {
    pub(super) fn new(spec: &Spec, options: &EstimateOptions) -> io::Result<Tally> {
        let regions = || options.compression.then(|| Regions::new(options.region_size)).transpose();
        let count = match options.sample {
            None => Count::Exact(Counter::new()),
            Some(sample) => Count::Sampled(Box::new(Sampler::new(sample))),
        };
        let similar = match options.bursts && options.sample.is_none() {
            true => Some(Similarity {
                similar: Similar::default(),
                regions: regions()?,
                burst_count: 0,
                stored_bytes: 0,
            }),
            false => None,
        };
        Ok(Tally {
            spec: spec.to_string(),
            container_size: options.container_size,
            count,
            zero_bytes: 0,
            zero_count: 0,
            plain: regions()?,
            similar,
            metadata: Metadata::new(spec.to_string(), options.region_size)?,
        })
    }

    /// Returns the result of the configuration, once all jobs are done.
    pub(super) fn configured(
        &self,
        chunking: Duration,
        fingerprinting: Duration,
    ) -> ConfigurationResult {
        let (counted, sample, table_bytes) = match &self.count {
            Count::Exact(counter) => (counter.savings(), None, counter.memory_bytes()),
            Count::Sampled(sampler) => {
                let estimate = sampler.estimate();
                (estimate.savings, Some(estimate), sampler.memory_bytes())
            }
        };
        let dedup = self.with_zeros(counted);
        let packed = self.plain.as_ref().map(Regions::packed);
        let (metadata_bytes, compressed_bytes) =
            self.stored(dedup.stored_bytes, dedup.unique_chunk_count, packed, 0);
        let all = compressed_bytes.unwrap_or(dedup.stored_bytes) + metadata_bytes;
        let bursts = self.similar.as_ref().map(|similar| self.bursts(similar, dedup));
        let compressing_ns = packed.map_or(0, |packed| packed.compressing_ns);
        let similar_bytes =
            self.similar.as_ref().map_or(0, |similar| similar.similar.memory_bytes());
        ConfigurationResult {
            spec: self.spec.clone(),
            dedup,
            sample: sample.map(|sample| self.with_zeros_in(sample)),
            zero_bytes: self.zero_bytes,
            bursts,
            compressed_bytes,
            metadata_bytes,
            stored: dedup.with_stored_bytes(all),
            index_memory_bytes: (dedup.unique_chunk_count + self.metadata.packed().chunk_count)
                * INDEX_MEMORY_BITS
                / 8,
            times: Times {
                chunking,
                fingerprinting,
                compressing: Duration::from_nanos(compressing_ns),
            },
            memory_bytes: table_bytes + similar_bytes,
        }
    }

    fn with_zeros(&self, savings: Savings) -> Savings {
        Savings {
            read_bytes: savings.read_bytes + self.zero_bytes,
            chunk_count: savings.chunk_count + self.zero_count,
            ..savings
        }
    }

    fn with_zeros_in(&self, estimate: Estimate) -> Estimate {
        Estimate { savings: self.with_zeros(estimate.savings), ..estimate }
    }

    /// Returns the size of the metadata, and of the data after compression if it is compressed.
    fn stored(
        &self,
        data_bytes: u64,
        chunk_count: u64,
        packed: Option<RegionTotals>,
        extra_bytes: u64,
    ) -> (u64, Option<u64>) {
        let compressed = packed.map(|packed| packed.stored_bytes(data_bytes));
        let data = compressed.unwrap_or(data_bytes);
        // In a sample, the number of regions follows from their mean size. Without compression,
        // regions of 2 MiB are assumed.
        let region_count = packed.map_or(1 + data_bytes / (2 << 20), |packed| {
            match packed.raw_bytes.checked_div(packed.region_count) {
                Some(mean) if mean > 0 => data_bytes.div_ceil(mean),
                _ => 0,
            }
        });
        let meta = self.metadata.packed();
        let meta_bytes = meta.packed.stored_bytes(meta.packed.raw_bytes);
        let (data_len, data_containers) =
            metadata::containers(data, region_count, chunk_count, extra_bytes, self.container_size);
        let (meta_len, meta_containers) = metadata::containers(
            meta_bytes,
            meta.packed.region_count,
            meta.chunk_count,
            0,
            self.container_size,
        );
        let stored = data_len + meta_len;
        let index = metadata::index(
            chunk_count + meta.chunk_count,
            data_containers + meta_containers,
            stored,
        );
        (stored + index - data, compressed)
    }

    fn bursts(&self, similar: &Similarity, dedup: Savings) -> Bursts {
        let packed = similar.regions.as_ref().map(Regions::packed);
        let full_chunk_count = dedup.unique_chunk_count.saturating_sub(similar.burst_count);
        let extra = similar.burst_count * (BURST_COST - CHUNK_COST);
        let dedup = dedup.with_stored_bytes(similar.stored_bytes);
        let (metadata_bytes, compressed_bytes) =
            self.stored(dedup.stored_bytes, dedup.unique_chunk_count, packed, extra);
        let metadata_bytes = metadata_bytes + full_chunk_count * ENDS_COST;
        let all = compressed_bytes.unwrap_or(dedup.stored_bytes) + metadata_bytes;
        Bursts {
            burst_count: similar.burst_count,
            dedup,
            compressed_bytes,
            metadata_bytes,
            stored: dedup.with_stored_bytes(all),
        }
    }
}

impl Sink for Tally {
    fn enter(&mut self, entry: &Arc<Entry>) {
        self.metadata.enter(entry);
    }

    fn leave(&mut self) {
        self.metadata.leave();
    }

    fn item(&mut self, entry: &Entry) {
        self.metadata.item(entry);
    }

    fn link(&mut self, entry: &Entry) {
        self.metadata.link(entry);
    }

    fn begin(&mut self, path: &Arc<Path>) {
        if let Some(similar) = &mut self.similar {
            similar.similar.begin(path);
        }
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, jobs: &mut Vec<Job>) {
        let length = chunk.bytes.len() as u64;
        if chunk.is_zeros {
            self.zero_bytes += length;
            self.zero_count += 1;
            return self.metadata.segment(Segment::Zeros { length });
        }
        let fingerprint = StoreFingerprint(chunk.digest);
        self.metadata.segment(Segment::Chunk { fingerprint, offset: 0, length });
        self.metadata.take_jobs(jobs);
        let mut short = [0; FINGERPRINT_LEN];
        short.copy_from_slice(&chunk.digest[..FINGERPRINT_LEN]);
        let rate = match &mut self.count {
            Count::Exact(counter) => counter.add(&short, length).then_some(1),
            Count::Sampled(sampler) => sampler.add(&short, length),
        };
        let Some(rate) = rate else { return };
        if let Some(regions) = &mut self.plain {
            regions.push(chunk.bytes, rate, jobs);
        }
        if let Some(similarity) = &mut self.similar {
            let burst = similarity.similar.find(chunk.bytes, chunk.offset);
            let new = burst.unwrap_or(chunk.bytes);
            similarity.stored_bytes += new.len() as u64;
            similarity.burst_count += u64::from(burst.is_some());
            match (&mut similarity.regions, burst) {
                (Some(regions), Some(burst)) => regions.push_literal(burst, jobs),
                (Some(regions), None) => regions.push(chunk.bytes, 1, jobs),
                (None, _) => {}
            }
        }
    }

    fn hole(&mut self, length: u64) {
        self.metadata.segment(Segment::Hole { length });
    }

    fn file(&mut self, entry: &Entry) {
        self.metadata.file(entry);
    }

    fn dropped(&mut self) {
        self.metadata.dropped();
    }

    fn finish(&mut self, jobs: &mut Vec<Job>) {
        self.metadata.finish(jobs);
        if let Some(regions) = &mut self.plain {
            regions.finish(jobs);
        }
        if let Some(Similarity { regions: Some(regions), .. }) = &mut self.similar {
            regions.finish(jobs);
        }
    }
}
