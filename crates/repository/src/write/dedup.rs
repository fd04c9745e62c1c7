//! The deduplicator: decides which chunks are known, and puts the payloads of new ones into regions.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cutpoint_storage::Result;

use super::burst::Bursts;
use super::cost::{Cost, spare_len};
use super::delta::{Delta, DeltaEncoder};
use super::region::{Probe, RawRegion, Verify};
use super::region_builder::RegionBuilder;
use crate::crypto::{Keys, TAG_LEN};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::PartName;
use crate::format::toc::Form;
use crate::index::{Index, Location, Scope};
use crate::rules;

/// A destination of metadata chunks, for the writers of recipes and trees.
pub trait ChunkSink {
    /// Stores a chunk unless it is known, and returns its fingerprint.
    ///
    /// # Errors
    ///
    /// Returns any error of the index.
    fn store_meta(&mut self, chunk: &[u8]) -> Result<Fingerprint>;
}

/// Maximum number of regions for which it is remembered whether their delta chunks count.
const CONFIRMED_MAX: usize = 64 * 1024;

/// Divisor of the target size for regions with delta chunks. What many versions have added to a file
/// lies in as many regions, and a reader of the file keeps all of them.
const DELTA_CHUNKS_DIVISOR: usize = 4;

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
    index: Arc<Index>,
    region_size: usize,
    verify: Verify,
    probe: Probe,
    worth: Cost,
    open: [Option<RegionBuilder>; 2],
    next_region: u64,
    /// Chunks stored by this writer that no published index segment lists yet.
    own: HashMap<(Class, Fingerprint), Own>,
    hits: BTreeSet<(Class, PartName)>,
    /// For each container and region: `true` if everything may be referred to that the delta chunks
    /// there refer to.
    confirmed: HashMap<(PartName, u16), bool>,
    delta_chunks: DeltaStatistics,
    ready: Vec<RawRegion>,
    spare: Vec<Vec<u8>>,
    new_chunk_count: [u64; 2],
    new_bytes: [u64; 2],
}

/// A chunk that this writer has stored.
#[derive(Clone, Copy, Debug)]
struct Own {
    /// The number of the region that contains the chunk.
    region: u64,
    is_full: bool,
}

fn slot(class: Class) -> usize {
    match class {
        Class::Data => 0,
        Class::Meta => 1,
    }
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
            keys,
            index,
            region_size: region_size as usize,
            verify,
            probe: Probe::new()?,
            worth: Cost::default(),
            open: [None, None],
            next_region: 0,
            own: HashMap::new(),
            hits: BTreeSet::new(),
            confirmed: HashMap::new(),
            delta_chunks: DeltaStatistics::default(),
            ready: Vec::new(),
            spare: Vec::new(),
            new_chunk_count: [0; 2],
            new_bytes: [0; 2],
        })
    }

    /// Stores a chunk whose fingerprint the caller has computed. Returns `true` if the chunk was
    /// new.
    ///
    /// # Errors
    ///
    /// Returns any error of the index.
    pub fn store(&mut self, class: Class, fingerprint: Fingerprint, chunk: &[u8]) -> Result<bool> {
        if self.is_known(class, &fingerprint)? {
            return Ok(false);
        }
        self.store_full_chunk(class, fingerprint, chunk);
        Ok(true)
    }

    /// Stores a data chunk as [`Deduplicator::store`] does. A new chunk in which `encoder` finds enough
    /// of an old stream is stored as a delta chunk (rules C1 to C5).
    ///
    /// # Errors
    ///
    /// Returns any error of the index, or of the storage from which old chunks are read.
    pub fn store_similar(
        &mut self,
        fingerprint: Fingerprint,
        chunk: &[u8],
        encoder: &mut DeltaEncoder<'_>,
    ) -> Result<bool> {
        if self.is_known(Class::Data, &fingerprint)? {
            encoder.pass(&fingerprint, chunk.len())?;
            return Ok(false);
        }
        let delta = encoder.compose(chunk)?;
        let stored = match &delta {
            Some(delta) => self.store_delta(Class::Data, fingerprint, chunk, delta),
            None => false,
        };
        if let Some(delta) = delta.as_ref().filter(|_| stored) {
            self.hits.extend(encoder.containers(delta).map(|name| (Class::Data, name)));
        }
        encoder.tell(stored, delta.as_ref().is_some_and(|it| it.has_most_of(chunk)));
        if !stored {
            self.store_full_chunk(Class::Data, fingerprint, chunk);
        }
        Ok(true)
    }

    /// Stores a data chunk as [`Deduplicator::store`] does, with BURST. A new chunk for which `bursts`
    /// finds a reference chunk is stored as a delta chunk, provided that this is smaller than the
    /// chunk.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Deduplicator::store_similar`].
    pub fn store_burst(
        &mut self,
        fingerprint: Fingerprint,
        chunk: &[u8],
        bursts: &mut Bursts<'_>,
    ) -> Result<bool> {
        if self.is_known(Class::Data, &fingerprint)? {
            return Ok(false);
        }
        let found = bursts.find(chunk, |delta| {
            let literals_len = delta.literals.len();
            self.push_delta(Class::Data, fingerprint, chunk, delta, |_, _, len| {
                literals_len + len < chunk.len()
            })
        })?;
        match found {
            Some(container) => self.hits.extend(container.map(|name| (Class::Data, name))),
            None => {
                self.store_full_chunk(Class::Data, fingerprint, chunk);
                bursts.replace(fingerprint, chunk);
            }
        }
        Ok(true)
    }

    /// Applies rule W2, and for delta chunks rule C3.
    fn is_known(&mut self, class: Class, fingerprint: &Fingerprint) -> Result<bool> {
        if self.own.contains_key(&(class, *fingerprint)) {
            return Ok(true);
        }
        let index = self.index.clone();
        let found = index.find_where(class, fingerprint, Scope::Write, |location| {
            // Delta chunks of this writer need no check: the writer has made sure that their
            // references exist.
            Ok(location.is_full() || index.is_own(location) || self.confirm(class, location)?)
        })?;
        let Some(location) = found else { return Ok(false) };
        self.hits.insert((class, location.container.name));
        Ok(true)
    }

    /// C3: returns `true` if everything may be referred to that the delta chunks of this region refer
    /// to. Chunks of this writer do not count, because the time at which they are found depends on
    /// timing.
    fn confirm(&mut self, class: Class, delta_chunk: &Location) -> Result<bool> {
        if !rules::must_confirm_references() {
            return Ok(true);
        }
        let region = (delta_chunk.container.name, delta_chunk.chunk().region);
        if let Some(is_confirmed) = self.confirmed.get(&region) {
            return Ok(*is_confirmed);
        }
        let mut places = Vec::new();
        for reference in delta_chunk.references() {
            let found = self.index.find_where(class, reference, Scope::Write, |location| {
                Ok(location.is_full() && !self.index.is_own(location))
            })?;
            let Some(found) = found else { break };
            places.push((class, found.container.name));
        }
        let is_confirmed = places.len() == delta_chunk.references().len();
        if is_confirmed {
            self.hits.extend(places);
        }
        if self.confirmed.len() >= CONFIRMED_MAX {
            self.confirmed.clear();
        }
        self.confirmed.insert(region, is_confirmed);
        Ok(is_confirmed)
    }

    /// Returns `true` if a chunk was stored by this writer or is in its index. If `whole` is set,
    /// only full chunks count. References of delta chunks are not checked.
    ///
    /// # Errors
    ///
    /// Returns any error of the index.
    pub(super) fn has(&self, class: Class, fingerprint: &Fingerprint, whole: bool) -> Result<bool> {
        if let Some(own) = self.own.get(&(class, *fingerprint))
            && (own.is_full || !whole)
        {
            return Ok(true);
        }
        let found = self.index.find_where(class, fingerprint, Scope::Write, |location| {
            Ok(location.is_full() || !whole)
        })?;
        Ok(found.is_some())
    }

    /// Stores a chunk as a full chunk, even if it is known.
    pub(super) fn store_full_chunk(
        &mut self,
        class: Class,
        fingerprint: Fingerprint,
        chunk: &[u8],
    ) {
        let open = self.open_for(class, chunk.len(), false);
        open.push_full_chunk(fingerprint, chunk);
        self.stored(class, fingerprint, chunk, true);
    }

    /// Stores a delta chunk if it is worthwhile. Returns `true` if it was stored.
    pub(super) fn store_delta(
        &mut self,
        class: Class,
        fingerprint: Fingerprint,
        chunk: &[u8],
        delta: &Delta,
    ) -> bool {
        let literals_len = delta.literals.len();
        // A delta chunk that is certainly refused must not close the open region.
        if spare_len(chunk, literals_len) == 0 {
            return false;
        }
        self.push_delta(class, fingerprint, chunk, delta, |worth, probe, len| {
            worth.is_worth(chunk, literals_len, len, probe)
        })
    }

    /// Stores a delta chunk if `is_worth` returns `true`. The last argument of `is_worth` is the
    /// number of bytes that the delta chunk takes besides its new ones. Returns `true` if the
    /// delta chunk was stored.
    fn push_delta(
        &mut self,
        class: Class,
        fingerprint: Fingerprint,
        chunk: &[u8],
        delta: &Delta,
        is_worth: impl FnOnce(&mut Cost, &mut Probe, usize) -> bool,
    ) -> bool {
        self.open_for(class, delta.literals.len(), true);
        let Some(open) = &mut self.open[slot(class)] else { return false };
        let (worth, probe) = (&mut self.worth, &mut self.probe);
        let is_worth = |len| is_worth(worth, probe, len);
        if !open.push_delta_chunk(fingerprint, chunk.len(), delta, is_worth) {
            return false;
        }
        self.delta_chunks.count += 1;
        self.delta_chunks.bytes += chunk.len() as u64;
        self.delta_chunks.literal_bytes += delta.literals.len() as u64;
        self.stored(class, fingerprint, chunk, false);
        true
    }

    /// Returns the maximum size of a region.
    fn size_max(&self, has_delta_chunks: bool) -> usize {
        if has_delta_chunks { self.region_size / DELTA_CHUNKS_DIVISOR } else { self.region_size }
    }

    /// Returns an open region with room for `len` more bytes of a delta chunk or a full chunk.
    fn open_for(&mut self, class: Class, len: usize, delta_chunk: bool) -> &mut RegionBuilder {
        let index = slot(class);
        let is_full = self.open[index].as_ref().is_some_and(|open| {
            let size_max = self.size_max(delta_chunk || open.has_delta_chunks());
            !open.is_empty() && open.len() + len > size_max
        });
        if is_full {
            self.close(class);
        }
        let number = &mut self.next_region;
        let (spare, verify, region_size) = (&mut self.spare, self.verify, self.region_size);
        self.open[index].get_or_insert_with(|| {
            let mut bytes =
                spare.pop().unwrap_or_else(|| Vec::with_capacity(region_size + TAG_LEN));
            bytes.clear();
            let region_builder =
                RegionBuilder::new(*number, class, bytes, verify.includes(class, *number));
            *number += 1;
            region_builder
        })
    }

    /// Updates the state after a chunk has been added to the open region.
    fn stored(&mut self, class: Class, fingerprint: Fingerprint, chunk: &[u8], is_full: bool) {
        let index = slot(class);
        self.new_chunk_count[index] += 1;
        self.new_bytes[index] += chunk.len() as u64;
        let Some(open) = &mut self.open[index] else { return };
        self.own.insert((class, fingerprint), Own { region: open.number(), is_full });
        open.probe(&mut self.probe);
        let is_over = open.is_incompressible();
        let (len, has_delta_chunks) = (open.len(), open.has_delta_chunks());
        if is_over || len >= self.size_max(has_delta_chunks) {
            self.close(class);
        }
    }

    fn close(&mut self, class: Class) {
        if let Some(open) = self.open[slot(class)].take() {
            let region = open.finish(&self.keys);
            let literals = region.chunks.iter().filter(|chunk| chunk.form == Form::Literal);
            let own = Own { region: region.number, is_full: true };
            self.own.extend(literals.map(|chunk| ((class, chunk.fingerprint), own)));
            self.ready.push(region);
        }
    }

    /// Closes both open regions, at the end of a source.
    pub fn flush(&mut self) {
        self.close(Class::Data);
        self.close(Class::Meta);
    }

    /// Returns the regions that were filled since the last call. Their numbers ascend only within a
    /// class, and the caller must forward them in the order of the list.
    pub fn take_regions(&mut self) -> Vec<RawRegion> {
        std::mem::take(&mut self.ready)
    }

    /// Returns `true` if there are filled regions to take.
    pub fn has_regions(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the buffer of a stored region for reuse.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < 4 {
            self.spare.push(buffer);
        }
    }

    /// Forgets the chunks that the index finds from now on: those in regions for which
    /// `is_published` returns `true`, because a segment names them.
    pub fn forget_published(&mut self, is_published: impl Fn(u64) -> bool) {
        self.own.retain(|_, own| !is_published(own.region));
    }

    /// Returns the containers of other writers in which chunks were found (W5).
    pub fn hits(&self) -> &BTreeSet<(Class, PartName)> {
        &self.hits
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
