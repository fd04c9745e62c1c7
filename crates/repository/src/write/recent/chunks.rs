//! The chunks in the last regions.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use cutpoint_storage::Result;
use zstd::bulk::Decompressor;

use super::budget::Budget;
use super::regions::RecentRegions;
use crate::format::extents::{self, Extent};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::toc::{Codec, Form};
use crate::read::ChunkBytes;
use crate::write::region::{RawChunk, RawRegion, undecodable};

/// Maximum total length of encoded regions that are kept, in bytes, besides those that are not
/// counted yet.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum part of that for regions that did not shrink in a sample. Such bytes rarely resemble
/// others, and keeping more of them costs an eighth of the CPU time of their backup: fresh memory,
/// and bytes that leave the processor's cache before they are sealed.
const INCOMPRESSIBLE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum number of chunks and references in all of them.
const RECORD_COUNT_MAX: usize = 64 * 1024;
/// Maximum number of last regions whose encoded length is not counted yet, and their maximum total
/// length before they are encoded, in bytes. If they were counted, the ordered stage would wait for
/// each region to be encoded.
const UNCOUNTED_COUNT_MAX: usize = 32;
const UNCOUNTED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Maximum total length of decoded regions that are kept, in bytes.
const DECODED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The chunks of a region.
#[derive(Debug)]
struct Contents {
    chunks: Vec<RawChunk>,
    references: Vec<Fingerprint>,
    /// The length before the region is encoded.
    raw_len: usize,
    /// The encoded length, once it is counted.
    len: usize,
}

impl Contents {
    fn record_count(&self) -> usize {
        self.chunks.len() + self.references.len()
    }
}

/// A delta chunk: its extents, and the references of its region.
pub(in crate::write) type Extents = (Vec<Extent>, Vec<Fingerprint>);

/// The chunks in the last regions of file data that this writer has filled. Which regions these are
/// depends on the regions alone.
#[derive(Debug)]
pub(in crate::write) struct RecentChunks {
    encoded: Arc<RecentRegions>,
    regions: BTreeMap<u64, Contents>,
    /// The numbers of the regions that are not counted yet, and their total length before they are
    /// encoded.
    uncounted: VecDeque<u64>,
    uncounted_bytes: usize,
    /// The numbers of the regions that did not shrink in a sample, and their total length. They are
    /// counted at once.
    incompressible: VecDeque<u64>,
    incompressible_bytes: usize,
    /// The total encoded length of the counted regions.
    bytes: usize,
    /// The number of chunks and references in all regions.
    record_count: usize,
    bytes_max: usize,
    /// Maps a chunk to the number of its region, and to its number there.
    places: HashMap<Fingerprint, (u64, usize)>,
    /// The regions that were decoded last.
    decoded: VecDeque<(u64, Arc<Vec<u8>>)>,
    /// A buffer to reuse, because fresh memory costs as much as filling it.
    spare: Vec<u8>,
    budget: Budget,
}

impl RecentChunks {
    pub(in crate::write) fn new(encoded: Arc<RecentRegions>) -> RecentChunks {
        RecentChunks {
            encoded,
            regions: BTreeMap::new(),
            uncounted: VecDeque::new(),
            uncounted_bytes: 0,
            incompressible: VecDeque::new(),
            incompressible_bytes: 0,
            bytes: 0,
            record_count: 0,
            bytes_max: BYTES_MAX,
            places: HashMap::new(),
            decoded: VecDeque::new(),
            spare: Vec::new(),
            budget: Budget::new(),
        }
    }

    /// Sets the maximum total length of encoded regions that are kept, in bytes.
    pub(in crate::write) fn set_bytes_max(&mut self, bytes: usize) {
        self.bytes_max = bytes;
    }

    pub(in crate::write) fn encoded(&self) -> &Arc<RecentRegions> {
        &self.encoded
    }

    /// Adds regions that are full, and drops the oldest ones beyond the limits. Those of earlier
    /// calls must have been handed over to be encoded.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if the run has ended.
    pub(in crate::write) fn add(&mut self, regions: &[RawRegion]) -> Result<()> {
        let regions = regions.iter().filter(|region| region.class == Class::Data);
        let (count, bytes) = regions
            .clone()
            .filter(|region| !region.is_incompressible)
            .fold((0, 0), |(count, bytes), region| (count + 1, bytes + region.len()));
        // Only regions of earlier calls are counted, and waited for.
        while self.uncounted.len() + count > UNCOUNTED_COUNT_MAX
            || self.uncounted_bytes + bytes > UNCOUNTED_BYTES_MAX
        {
            let Some(number) = self.uncounted.pop_front() else { break };
            let len = self.encoded.get(number)?.bytes.len();
            if let Some(contents) = self.regions.get_mut(&number) {
                contents.len = len;
                self.bytes += len;
                self.uncounted_bytes -= contents.raw_len;
            }
        }
        for region in regions {
            self.encoded.expect(region.number);
            for (number, chunk) in region.chunks.iter().enumerate() {
                self.places.insert(chunk.fingerprint, (region.number, number));
            }
            let (chunks, references) = (region.chunks.clone(), region.references.clone());
            let raw_len = region.len();
            let len = if region.is_incompressible { raw_len } else { 0 };
            let contents = Contents { chunks, references, raw_len, len };
            self.record_count += contents.record_count();
            self.regions.insert(region.number, contents);
            if region.is_incompressible {
                self.bytes += len;
                self.incompressible_bytes += len;
                self.incompressible.push_back(region.number);
            } else {
                self.uncounted_bytes += raw_len;
                self.uncounted.push_back(region.number);
            }
        }
        while self.incompressible_bytes > INCOMPRESSIBLE_BYTES_MAX
            && let Some(number) = self.incompressible.front().copied()
            && let Some(contents) = self.regions.remove(&number)
        {
            self.drop_region(number, &contents);
        }
        while self.bytes > self.bytes_max || self.record_count > RECORD_COUNT_MAX {
            let Some((number, contents)) = self.regions.pop_first() else { break };
            self.drop_region(number, &contents);
        }
        Ok(())
    }

    fn drop_region(&mut self, number: u64, contents: &Contents) {
        self.encoded.remove(number);
        self.record_count -= contents.record_count();
        if self.uncounted.front() == Some(&number) {
            self.uncounted.pop_front();
            self.uncounted_bytes -= contents.raw_len;
        } else {
            self.bytes -= contents.len;
            if self.incompressible.front() == Some(&number) {
                self.incompressible.pop_front();
                self.incompressible_bytes -= contents.len;
            }
        }
        self.decoded.retain(|(decoded, _)| *decoded != number);
        for chunk in &contents.chunks {
            if self.places.get(&chunk.fingerprint).is_some_and(|(region, _)| *region == number) {
                self.places.remove(&chunk.fingerprint);
            }
        }
    }

    /// Returns `true` if comparisons with chunks of the run are worth their work so far.
    pub(in crate::write) fn is_worthwhile(&self) -> bool {
        self.budget.is_left()
    }

    /// Records that a new chunk of `len` bytes is stored, `copied_len` of which a delta copies from
    /// chunks of the run.
    pub(in crate::write) fn record(&mut self, len: usize, copied_len: usize) {
        self.budget.earn(len, copied_len);
    }

    /// Returns `true` if a chunk is in the last regions.
    pub(in crate::write) fn contains(&self, fingerprint: &Fingerprint) -> bool {
        self.places.contains_key(fingerprint)
    }

    /// Returns the bytes of a chunk, if it is in the last regions as a full chunk.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if the run has ended, and `Machine` if a region does not decode.
    pub(in crate::write) fn full_chunk(
        &mut self,
        fingerprint: &Fingerprint,
    ) -> Result<Option<ChunkBytes>> {
        match self.find(fingerprint) {
            Some((region, chunk, _)) if chunk.form != Form::Delta => {
                self.payload(region, &chunk).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Returns the extents of a chunk, if it is in the last regions as a delta chunk.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if the run has ended, and `Machine` if a region does not decode.
    pub(in crate::write) fn extents(
        &mut self,
        fingerprint: &Fingerprint,
    ) -> Result<Option<Extents>> {
        let Some((region, chunk, contents)) = self.find(fingerprint) else { return Ok(None) };
        if chunk.form != Form::Delta {
            return Ok(None);
        }
        let references = contents.references.clone();
        let payload = self.payload(region, &chunk)?;
        let extents = extents::decode(&payload, chunk.chunk_len, references.len())?;
        Ok(Some((extents, references)))
    }

    fn find(&self, fingerprint: &Fingerprint) -> Option<(u64, RawChunk, &Contents)> {
        let (region, number) = *self.places.get(fingerprint)?;
        let contents = self.regions.get(&region)?;
        Some((region, *contents.chunks.get(number)?, contents))
    }

    /// Returns the payload of a chunk.
    fn payload(&mut self, region: u64, chunk: &RawChunk) -> Result<ChunkBytes> {
        let start = chunk.offset as usize;
        let decoded = self.decoded(region)?;
        ChunkBytes::within(&decoded, start..start + chunk.payload_len as usize)
            .ok_or_else(|| undecodable(region))
    }

    /// Returns the bytes of a region.
    fn decoded(&mut self, number: u64) -> Result<Arc<Vec<u8>>> {
        if let Some(found) = self.decoded.iter().position(|(decoded, _)| *decoded == number)
            && let Some(last) = self.decoded.remove(found)
        {
            let bytes = last.1.clone();
            self.decoded.push_back(last);
            return Ok(bytes);
        }
        let region = self.encoded.get(number)?;
        self.budget.spend(region.raw_len);
        let mut total = region.raw_len + self.decoded.iter().map(|(_, it)| it.len()).sum::<usize>();
        while total > DECODED_BYTES_MAX
            && let Some((_, oldest)) = self.decoded.pop_front()
        {
            total -= oldest.len();
            if let Ok(buffer) = Arc::try_unwrap(oldest) {
                self.spare = buffer;
            }
        }
        let mut bytes = std::mem::take(&mut self.spare);
        bytes.clear();
        match region.codec {
            Codec::Store => bytes.extend_from_slice(&region.bytes),
            Codec::Zstd => {
                bytes.reserve_exact(region.raw_len);
                Decompressor::new()
                    .and_then(|mut it| it.decompress_to_buffer(&region.bytes, &mut bytes))
                    .map_err(|_| undecodable(number))?;
            }
        }
        let bytes = Arc::new(bytes);
        self.decoded.push_back((number, bytes.clone()));
        Ok(bytes)
    }
}
