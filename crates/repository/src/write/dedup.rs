//! The deduplicator: decides which chunks are known, and puts the payloads of new ones into
//! regions.

use std::collections::BTreeSet;
use std::sync::Arc;

use cutpoint_storage::Result;

use super::cost::{Cost, Limit};
use super::delta::Delta;
use super::known::KnownChunks;
use super::open_regions::{OpenRegions, slot};
use super::region::{Probe, RawRegion, Verify};
use super::strategy::DeltaStrategy;
use crate::crypto::Keys;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::PartName;
use crate::index::Index;

/// A destination of metadata chunks, for the writers of recipes and trees.
pub trait ChunkSink {
    /// Stores a chunk unless it is known, and returns its fingerprint.
    ///
    /// # Errors
    ///
    /// Returns any error of the index.
    fn store_meta(&mut self, chunk: &[u8]) -> Result<Fingerprint>;
}

/// Counters of new chunks that are stored as delta chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeltaStatistics {
    /// Number of delta chunks.
    pub count: u64,
    /// Total size of the chunks that are stored as delta chunks, in bytes.
    pub bytes: u64,
    /// Number of bytes of delta chunks that are stored as literals.
    pub literal_bytes: u64,
}

/// The ordered stage of a backup that decides what is stored.
#[derive(Debug)]
pub struct Deduplicator {
    keys: Keys,
    known: KnownChunks,
    regions: OpenRegions,
    cost: Cost,
    delta_chunks: DeltaStatistics,
    new_chunk_count: [u64; 2],
    new_bytes: [u64; 2],
}

impl Deduplicator {
    /// Creates a deduplicator with a target region size of `region_size` bytes.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if zstd has no memory.
    pub fn new(
        keys: Keys,
        index: Arc<Index>,
        region_size: u32,
        verify: Verify,
    ) -> Result<Deduplicator> {
        Ok(Deduplicator {
            regions: OpenRegions::new(keys.clone(), region_size, verify)?,
            keys,
            known: KnownChunks::new(index),
            cost: Cost::default(),
            delta_chunks: DeltaStatistics::default(),
            new_chunk_count: [0; 2],
            new_bytes: [0; 2],
        })
    }

    /// Stores a chunk whose fingerprint the caller has computed. Returns `true` if the chunk was
    /// new.
    ///
    /// # Errors
    ///
    /// Returns any error of the index, and `Invalid` if the chunk is longer than the format allows.
    pub fn store(&mut self, class: Class, fingerprint: Fingerprint, chunk: &[u8]) -> Result<bool> {
        if self.known.contains(class, &fingerprint)? {
            return Ok(false);
        }
        self.store_full_chunk(class, fingerprint, chunk)?;
        Ok(true)
    }

    /// Stores a data chunk as [`Deduplicator::store`] does. A new chunk for which `strategy` finds
    /// old bytes is stored as a delta chunk if that is worthwhile (rules C1 to C5).
    ///
    /// # Errors
    ///
    /// Returns any error of [`Deduplicator::store`] or of the storage from which old chunks are
    /// read.
    pub fn store_similar(
        &mut self,
        fingerprint: Fingerprint,
        chunk: &[u8],
        strategy: &mut dyn DeltaStrategy,
    ) -> Result<bool> {
        if self.known.contains(Class::Data, &fingerprint)? {
            strategy.skip(&fingerprint, chunk.len())?;
            return Ok(false);
        }
        let stored = strategy.encode(chunk, &mut |delta, limit| {
            self.store_delta((Class::Data, fingerprint), chunk, delta, limit)
        })?;
        let is_full = stored.is_none();
        match stored {
            Some(containers) => self.known.add_hits(Class::Data, containers),
            None => self.store_full_chunk(Class::Data, fingerprint, chunk)?,
        }
        strategy.stored(fingerprint, chunk, is_full);
        let regions = self.regions.newly_closed();
        if !regions.is_empty() {
            strategy.stored_regions(regions)?;
        }
        Ok(true)
    }

    /// Returns `true` if a chunk is known (rules W2 and C3), so that the caller may refer to it
    /// without storing it.
    ///
    /// # Errors
    ///
    /// Returns any error of the index.
    pub fn refer(&mut self, class: Class, fingerprint: &Fingerprint) -> Result<bool> {
        self.known.contains(class, fingerprint)
    }

    /// Returns `true` if a chunk was stored by this writer or is in its index. If `only_full` is
    /// set, only full chunks count. References of delta chunks are not checked.
    ///
    /// # Errors
    ///
    /// Returns any error of the index.
    pub(super) fn has(
        &self,
        class: Class,
        fingerprint: &Fingerprint,
        only_full: bool,
    ) -> Result<bool> {
        self.known.has(class, fingerprint, only_full)
    }

    /// Stores a chunk as a full chunk, even if it is known.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if the chunk is longer than the format allows.
    pub(super) fn store_full_chunk(
        &mut self,
        class: Class,
        fingerprint: Fingerprint,
        chunk: &[u8],
    ) -> Result<()> {
        self.regions.push_full_chunk(class, fingerprint, chunk, &mut self.known)?;
        self.count(class, chunk);
        Ok(())
    }

    /// Stores a delta chunk if its cost is within `limit`. Returns `true` if it was stored.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if the delta chunk is longer than the format allows.
    pub(super) fn store_delta(
        &mut self,
        (class, fingerprint): (Class, Fingerprint),
        chunk: &[u8],
        delta: &Delta,
        limit: Limit,
    ) -> Result<bool> {
        let literals_len = delta.literals.len();
        // A delta chunk that is certainly refused must not close the open region.
        if !limit.admits(chunk, literals_len) {
            return Ok(false);
        }
        let name = (class, fingerprint);
        let (known, cost) = (&mut self.known, &mut self.cost);
        let is_within = |probe: &mut Probe, has_neighbours, len| {
            cost.is_within(limit, (chunk, has_neighbours), literals_len, len, probe)
        };
        let is_stored =
            self.regions.push_delta_chunk(name, chunk.len(), delta, known, is_within)?;
        if is_stored {
            self.delta_chunks.count += 1;
            self.delta_chunks.bytes += chunk.len() as u64;
            self.delta_chunks.literal_bytes += literals_len as u64;
            self.count(class, chunk);
        }
        Ok(is_stored)
    }

    /// Counts a new chunk.
    fn count(&mut self, class: Class, chunk: &[u8]) {
        self.new_chunk_count[slot(class)] += 1;
        self.new_bytes[slot(class)] += chunk.len() as u64;
    }

    /// Closes both open regions, at the end of a source.
    pub fn flush(&mut self) {
        self.regions.close(Class::Data, &mut self.known);
        self.regions.close(Class::Meta, &mut self.known);
    }

    /// Returns the regions that were filled since the last call. Their numbers ascend only within a
    /// class, and the caller must forward them in the order of the list.
    pub fn take_regions(&mut self) -> Vec<RawRegion> {
        self.regions.take()
    }

    /// Returns `true` if there are filled regions to take.
    pub fn has_regions(&self) -> bool {
        self.regions.has_closed()
    }

    /// Returns the buffer of a stored region for reuse.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.regions.recycle(buffer);
    }

    /// Forgets the chunks that the index finds from now on: those in regions for which
    /// `is_published` returns `true`, because a segment names them.
    pub fn forget_published(&mut self, is_published: impl Fn(u64) -> bool) {
        self.known.forget_published(is_published);
    }

    /// Returns the containers of other writers in which chunks were found (W5).
    pub fn hits(&self) -> &BTreeSet<(Class, PartName)> {
        self.known.hits()
    }

    /// Returns the counters of delta chunks.
    pub fn delta_chunks(&self) -> DeltaStatistics {
        self.delta_chunks
    }

    /// Returns the number of new chunks of `class`.
    pub fn new_chunk_count(&self, class: Class) -> u64 {
        self.new_chunk_count[slot(class)]
    }

    /// Returns the total size of the new chunks of `class` in bytes.
    pub fn new_bytes(&self, class: Class) -> u64 {
        self.new_bytes[slot(class)]
    }
}

impl ChunkSink for Deduplicator {
    fn store_meta(&mut self, chunk: &[u8]) -> Result<Fingerprint> {
        let fingerprint = self.keys.fingerprint(Class::Meta, chunk);
        self.store(Class::Meta, fingerprint, chunk)?;
        Ok(fingerprint)
    }
}
