//! A region that is being filled.

use std::collections::HashMap;

use cutpoint_storage::{Error, Result};

use super::delta::{Delta, Part};
use super::region::{PROBE_LEN, Probe, RawChunk, RawRegion};
use super::width::narrow;
use crate::crypto::Keys;
use crate::format::extents::{self, Extent};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::toc::Form;

/// Size of a reference in the table of contents, in bytes. References do not compress.
const REFERENCE_LEN: usize = 32;
/// Estimated compressed size of the payloads of delta chunks, in percent.
const PAYLOAD_PERCENT: usize = 80;

/// Bytes that grow, with their length in the width of the format.
#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    len: u32,
}

impl Block {
    /// Appends `bytes`. Returns their offset and their length.
    fn push(&mut self, bytes: &[u8]) -> Result<(u32, u32)> {
        let len = narrow(bytes.len(), "chunk")?;
        let end = self.len.checked_add(len).ok_or_else(too_long)?;
        self.bytes.extend_from_slice(bytes);
        Ok((std::mem::replace(&mut self.len, end), len))
    }
}

fn too_long() -> Error {
    Error::invalid("region", "longer than the format allows")
}

/// The references that a delta chunk would add to its region.
#[derive(Debug)]
struct NewReferences {
    list: Vec<Fingerprint>,
    /// The number of the first one in the region.
    first: usize,
}

impl NewReferences {
    /// Adds a reference and returns its number; `None` if the region has no number left.
    fn add(&mut self, reference: Fingerprint) -> Option<u16> {
        let number = u16::try_from(self.first + self.list.len()).ok()?;
        self.list.push(reference);
        // The format counts the references in 16 bits, too.
        (number < u16::MAX).then_some(number)
    }
}

/// The full chunks of a region as they come, and separately the parts that will follow them: the
/// new bytes of delta chunks, which become one literal, and the payloads of delta chunks. So
/// similar bytes stand side by side.
#[derive(Debug)]
pub(super) struct RegionBuilder {
    region: RawRegion,
    full_chunks: Block,
    literals: Block,
    payloads: Block,
    /// The delta chunks, with offsets relative to `payloads`.
    delta_chunks: Vec<RawChunk>,
    /// Maps a reference to its number.
    numbers: HashMap<Fingerprint, u16>,
    /// The number of the reference that the literal will be.
    literal: Option<u16>,
}

impl RegionBuilder {
    /// Creates an empty region, which reuses the memory of `buffer`.
    pub(super) fn new(number: u64, class: Class, buffer: Vec<u8>, verify: bool) -> RegionBuilder {
        let mut bytes = buffer;
        bytes.clear();
        RegionBuilder {
            region: RawRegion {
                number,
                class,
                bytes: Vec::new(),
                chunks: Vec::new(),
                references: Vec::new(),
                verify,
                is_incompressible: false,
                is_probed: false,
            },
            full_chunks: Block { bytes, len: 0 },
            literals: Block::default(),
            payloads: Block::default(),
            delta_chunks: Vec::new(),
            numbers: HashMap::new(),
            literal: None,
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.region.number
    }

    /// Returns the size of the region so far, with its references, in bytes.
    pub(super) fn len(&self) -> usize {
        let references = self.region.references.len() * REFERENCE_LEN;
        let blocks = [&self.full_chunks, &self.literals, &self.payloads];
        blocks.iter().map(|block| block.bytes.len()).sum::<usize>() + references
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn has_full_chunks(&self) -> bool {
        self.full_chunks.len > 0
    }

    pub(super) fn has_delta_chunks(&self) -> bool {
        !self.delta_chunks.is_empty()
    }

    pub(super) fn is_incompressible(&self) -> bool {
        self.region.is_incompressible
    }

    /// Samples the region once there is enough of it: compression may save nothing.
    pub(super) fn probe(&mut self, probe: &mut Probe) {
        let bytes = &self.full_chunks.bytes;
        if !self.region.is_probed && bytes.len() >= PROBE_LEN {
            self.region.is_probed = true;
            self.region.is_incompressible = probe.looks_incompressible(bytes);
        }
    }

    /// Refuses `more` bytes if the region would become longer than its format allows.
    fn require_room(&self, more: usize) -> Result<()> {
        u32::try_from(self.len() + more).map(drop).map_err(|_| too_long())
    }

    /// Adds a full chunk.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if the region would become longer than the format allows.
    pub(super) fn push_full_chunk(&mut self, fingerprint: Fingerprint, chunk: &[u8]) -> Result<()> {
        self.require_room(chunk.len())?;
        let (offset, len) = self.full_chunks.push(chunk)?;
        let form = Form::Full;
        let chunk = RawChunk { fingerprint, form, offset, payload_len: len, chunk_len: len };
        self.region.chunks.push(chunk);
        Ok(())
    }

    /// Adds a chunk of `chunk_len` bytes as a delta chunk if `is_within` returns `true`. The
    /// argument of `is_within` is the number of bytes that the delta chunk takes besides its new
    /// ones: compressed extents, and references that are new in this region. Returns `true` if the
    /// delta chunk was added.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if the region would become longer than the format allows.
    pub(super) fn push_delta_chunk(
        &mut self,
        fingerprint: Fingerprint,
        chunk_len: usize,
        delta: &Delta,
        is_within: impl FnOnce(usize) -> bool,
    ) -> Result<bool> {
        let first = self.region.references.len();
        let mut added = NewReferences { list: Vec::new(), first };
        let mut literal = self.literal;
        let Some(extents) = self.extents(delta, &mut literal, &mut added)? else {
            return Ok(false);
        };
        let mut payload = Vec::new();
        extents::encode(&extents, &mut payload);
        if !is_within(payload.len() * PAYLOAD_PERCENT / 100 + added.list.len() * REFERENCE_LEN) {
            return Ok(false);
        }
        self.require_room(payload.len() + delta.literals.len())?;
        let chunk_len = narrow(chunk_len, "chunk")?;
        let (offset, payload_len) = self.payloads.push(&payload)?;
        self.literals.push(&delta.literals)?;
        self.literal = literal;
        for (fingerprint, number) in added.list.iter().zip(first..) {
            let number = narrow(number, "references of a region")?;
            if Some(number) != literal {
                self.numbers.insert(*fingerprint, number);
            }
        }
        self.region.references.extend(added.list);
        let form = Form::Delta;
        self.delta_chunks.push(RawChunk { fingerprint, form, offset, payload_len, chunk_len });
        Ok(true)
    }

    /// Returns the extents of a delta, and adds the references that are new in this region to
    /// `added`. Returns `None` if the region would have too many references.
    fn extents(
        &self,
        delta: &Delta,
        literal: &mut Option<u16>,
        added: &mut NewReferences,
    ) -> Result<Option<Vec<Extent>>> {
        // The numbers of the sources.
        let mut numbers: Vec<Option<u16>> = vec![None; delta.sources.len()];
        let mut literal_at = self.literals.len;
        let mut extents = Vec::with_capacity(delta.parts.len());
        for part in &delta.parts {
            extents.push(match *part {
                Part::Literal { len } => {
                    // The fingerprint of the literal is known when the region is full.
                    let known = literal.or_else(|| added.add(Fingerprint([0; 32])));
                    let Some(reference) = known else { return Ok(None) };
                    *literal = Some(reference);
                    let (offset, len) = (literal_at, narrow(len, "literal")?);
                    literal_at = literal_at.checked_add(len).ok_or_else(too_long)?;
                    Extent { reference, offset, len }
                }
                Part::Copy { source, offset, len } => {
                    let fingerprint = delta.sources[source];
                    let known = numbers[source].or_else(|| self.numbers.get(&fingerprint).copied());
                    let number = known.or_else(|| added.add(fingerprint));
                    let Some(reference) = number else { return Ok(None) };
                    numbers[source] = number;
                    Extent { reference, offset, len }
                }
            });
        }
        Ok(Some(extents))
    }

    /// Completes the region. The new bytes of delta chunks become a chunk of their own, with a
    /// fingerprint.
    pub(super) fn finish(self, keys: &Keys) -> RawRegion {
        let RegionBuilder { mut region, full_chunks, literals, payloads, delta_chunks, .. } = self;
        region.bytes = full_chunks.bytes;
        // Rule W4.
        region.verify |= !delta_chunks.is_empty();
        if let Some(reference) = self.literal {
            let fingerprint = keys.fingerprint(region.class, &literals.bytes);
            region.references[usize::from(reference)] = fingerprint;
            let (offset, len, form) = (full_chunks.len, literals.len, Form::Literal);
            let chunk = RawChunk { fingerprint, form, offset, payload_len: len, chunk_len: len };
            region.chunks.push(chunk);
            region.bytes.extend_from_slice(&literals.bytes);
        }
        // The sum is in range, because `require_room` has checked the sum of all three.
        let start = full_chunks.len + literals.len;
        region.bytes.extend_from_slice(&payloads.bytes);
        let delta_chunks = delta_chunks.into_iter();
        let moved = delta_chunks.map(|chunk| RawChunk { offset: start + chunk.offset, ..chunk });
        region.chunks.extend(moved);
        region
    }
}
