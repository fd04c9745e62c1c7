//! The regions that are being filled: one of each class.

use cutpoint_storage::Result;

use super::delta::Delta;
use super::known::{KnownChunks, OwnChunk};
use super::region::{Probe, RawRegion, Verify};
use super::region_builder::RegionBuilder;
use crate::crypto::{Keys, TAG_LEN};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::toc::Form;

/// Divisor of the target size for regions with delta chunks. What many versions have added to a
/// file lies in as many regions, and a reader of the file keeps all of them.
const DELTA_CHUNKS_DIVISOR: usize = 4;
/// Maximum number of buffers that are kept for further regions.
const SPARE_MAX: usize = 4;

/// Fills regions up to a target size, and tells the known chunks what they contain.
#[derive(Debug)]
pub(super) struct OpenRegions {
    keys: Keys,
    region_size: usize,
    verify: Verify,
    probe: Probe,
    open: [Option<RegionBuilder>; 2],
    /// The number of the next region.
    next: u64,
    ready: Vec<RawRegion>,
    /// Number of regions in `ready` that [`OpenRegions::newly_closed`] has returned.
    announced_count: usize,
    spare: Vec<Vec<u8>>,
}

/// The index of a class in arrays.
pub(super) fn slot(class: Class) -> usize {
    match class {
        Class::Data => 0,
        Class::Meta => 1,
    }
}

impl OpenRegions {
    /// Creates regions with a target size of `region_size` bytes.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if zstd has no memory.
    pub(super) fn new(keys: Keys, region_size: u32, verify: Verify) -> Result<OpenRegions> {
        Ok(OpenRegions {
            keys,
            region_size: region_size as usize,
            verify,
            probe: Probe::new()?,
            open: [None, None],
            next: 0,
            ready: Vec::new(),
            announced_count: 0,
            spare: Vec::new(),
        })
    }

    /// Adds a full chunk.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if the chunk is longer than the format allows.
    pub(super) fn push_full_chunk(
        &mut self,
        class: Class,
        fingerprint: Fingerprint,
        chunk: &[u8],
        known: &mut KnownChunks,
    ) -> Result<()> {
        let open = self.open_for(class, chunk.len(), false, known);
        open.push_full_chunk(fingerprint, chunk)?;
        known.add(class, fingerprint, OwnChunk { region: open.number(), is_full: true });
        self.close_if_full(class, known);
        Ok(())
    }

    /// Adds a chunk of `chunk_len` bytes as a delta chunk if `is_within` returns `true`. Its arguments
    /// tell if the region has full chunks, and the number of bytes that the delta chunk takes
    /// besides its new ones. Returns `true` if the delta chunk was added.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if the delta chunk is longer than the format allows.
    pub(super) fn push_delta_chunk(
        &mut self,
        (class, fingerprint): (Class, Fingerprint),
        chunk_len: usize,
        delta: &Delta,
        known: &mut KnownChunks,
        is_within: impl FnOnce(&mut Probe, bool, usize) -> bool,
    ) -> Result<bool> {
        self.open_for(class, delta.literals.len(), true, known);
        let Some(open) = &mut self.open[slot(class)] else { return Ok(false) };
        let has_full_chunks = open.has_full_chunks();
        let is_within = |len| is_within(&mut self.probe, has_full_chunks, len);
        if !open.push_delta_chunk(fingerprint, chunk_len, delta, is_within)? {
            return Ok(false);
        }
        known.add(class, fingerprint, OwnChunk { region: open.number(), is_full: false });
        self.close_if_full(class, known);
        Ok(true)
    }

    /// Returns the maximum size of a region.
    fn size_max(&self, has_delta_chunks: bool) -> usize {
        if has_delta_chunks { self.region_size / DELTA_CHUNKS_DIVISOR } else { self.region_size }
    }

    /// Returns an open region with room for `len` more bytes of a delta chunk or a full chunk.
    fn open_for(
        &mut self,
        class: Class,
        len: usize,
        is_delta: bool,
        known: &mut KnownChunks,
    ) -> &mut RegionBuilder {
        let index = slot(class);
        let is_full = self.open[index].as_ref().is_some_and(|open| {
            let size_max = self.size_max(is_delta || open.has_delta_chunks());
            !open.is_empty() && open.len() + len > size_max
        });
        if is_full {
            self.close(class, known);
        }
        let (next, spare) = (&mut self.next, &mut self.spare);
        let (verify, region_size) = (self.verify, self.region_size);
        self.open[index].get_or_insert_with(|| {
            let buffer = spare.pop().unwrap_or_else(|| Vec::with_capacity(region_size + TAG_LEN));
            let number = *next;
            *next += 1;
            RegionBuilder::new(number, class, buffer, verify.includes(class, number))
        })
    }

    /// Closes the region if it has reached its size, or if larger regions would not compress
    /// better.
    fn close_if_full(&mut self, class: Class, known: &mut KnownChunks) {
        let Some(open) = &mut self.open[slot(class)] else { return };
        open.probe(&mut self.probe);
        let is_over = open.is_incompressible();
        let (len, has_delta_chunks) = (open.len(), open.has_delta_chunks());
        if is_over || len >= self.size_max(has_delta_chunks) {
            self.close(class, known);
        }
    }

    /// Closes the region of a class. The literals of its delta chunks become known chunks.
    pub(super) fn close(&mut self, class: Class, known: &mut KnownChunks) {
        let Some(open) = self.open[slot(class)].take() else { return };
        let region = open.finish(&self.keys);
        for literal in region.chunks.iter().filter(|chunk| chunk.form == Form::Literal) {
            let own = OwnChunk { region: region.number, is_full: true };
            known.add(class, literal.fingerprint, own);
        }
        self.ready.push(region);
    }

    /// Returns the regions that were closed since the last call.
    pub(super) fn take(&mut self) -> Vec<RawRegion> {
        self.announced_count = 0;
        std::mem::take(&mut self.ready)
    }

    /// Returns the regions that were closed since the last call and not taken.
    pub(super) fn newly_closed(&mut self) -> &[RawRegion] {
        let first = std::mem::replace(&mut self.announced_count, self.ready.len());
        &self.ready[first..]
    }

    /// Returns `true` if there are closed regions to take.
    pub(super) fn has_closed(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Keeps the buffer of a stored region for another one.
    pub(super) fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(buffer);
        }
    }
}
