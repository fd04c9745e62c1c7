//! A region that is being filled.

use std::collections::HashMap;

use super::delta::{Delta, Part};
use super::region::{PROBE_LEN, Probe, RawChunk, RawRegion};
use crate::crypto::Keys;
use crate::format::extents::{self, Extent};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::toc::Form;

/// Size of a reference in the table of contents, in bytes. References do not compress.
const REFERENCE_LEN: usize = 32;
/// Estimated compressed size of the payloads of delta chunks, in percent.
const PAYLOAD_PERCENT: usize = 80;
/// Maximum number of references of a region, limited by the format.
const REFERENCE_COUNT_MAX: usize = u16::MAX as usize;

/// The full chunks of a region as they come, and separately the parts that will follow them: the new
/// bytes of delta chunks, which become one literal, and the payloads of delta chunks. So similar bytes
/// stand side by side.
#[derive(Debug)]
pub(super) struct RegionBuilder {
    region: RawRegion,
    literals: Vec<u8>,
    payloads: Vec<u8>,
    /// The delta chunks, with offsets relative to `payloads`.
    delta_chunks: Vec<RawChunk>,
    /// Maps a reference to its number.
    numbers: HashMap<Fingerprint, u16>,
    /// The number of the reference that the literal will be.
    literal: Option<u16>,
}

fn narrow(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

impl RegionBuilder {
    pub(super) fn new(number: u64, class: Class, bytes: Vec<u8>, verify: bool) -> RegionBuilder {
        RegionBuilder {
            region: RawRegion {
                number,
                class,
                bytes,
                chunks: Vec::new(),
                references: Vec::new(),
                verify,
                is_incompressible: false,
                is_probed: false,
            },
            literals: Vec::new(),
            payloads: Vec::new(),
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
        self.region.bytes.len() + self.literals.len() + self.payloads.len() + references
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn has_delta_chunks(&self) -> bool {
        !self.delta_chunks.is_empty()
    }

    pub(super) fn is_incompressible(&self) -> bool {
        self.region.is_incompressible
    }

    /// Determines whether the region is worth compressing, once there is enough of it.
    pub(super) fn probe(&mut self, probe: &mut Probe) {
        let region = &mut self.region;
        if !region.is_probed && region.bytes.len() >= PROBE_LEN {
            region.is_probed = true;
            region.is_incompressible = probe.looks_incompressible(&region.bytes);
        }
    }

    pub(super) fn push_full_chunk(&mut self, fingerprint: Fingerprint, chunk: &[u8]) {
        let (offset, len) = (narrow(self.region.bytes.len()), narrow(chunk.len()));
        self.region.bytes.extend_from_slice(chunk);
        let form = Form::Full;
        let chunk = RawChunk { fingerprint, form, offset, payload_len: len, chunk_len: len };
        self.region.chunks.push(chunk);
    }

    /// Adds a chunk of `chunk_len` bytes as a delta chunk if `is_worth` returns `true`. The argument
    /// of `is_worth` is the number of bytes that the delta chunk takes besides its new ones:
    /// compressed extents, and references that are new in this region. Returns `true` if the
    /// delta chunk was added.
    pub(super) fn push_delta_chunk(
        &mut self,
        fingerprint: Fingerprint,
        chunk_len: usize,
        delta: &Delta,
        is_worth: impl FnOnce(usize) -> bool,
    ) -> bool {
        let mut added: Vec<Fingerprint> = Vec::new();
        let mut numbers: HashMap<u32, u16> = HashMap::new();
        let mut next = self.region.references.len();
        let mut add = |reference: Option<Fingerprint>| {
            // The fingerprint of the literal is known when the region is full.
            added.push(reference.unwrap_or(Fingerprint([0; 32])));
            next += 1;
            u16::try_from(next - 1).unwrap_or(u16::MAX)
        };
        let mut literal = self.literal;
        let mut literal_at = self.literals.len();
        let mut list = Vec::with_capacity(delta.parts.len());
        for part in &delta.parts {
            list.push(match *part {
                Part::Literal { len } => {
                    let reference = *literal.get_or_insert_with(|| add(None));
                    literal_at += len;
                    Extent { reference, offset: narrow(literal_at - len), len: narrow(len) }
                }
                Part::Copy { source, offset, len } => {
                    let reference = *numbers.entry(source).or_insert_with(|| {
                        let fingerprint = delta.sources[source as usize];
                        let known = self.numbers.get(&fingerprint).copied();
                        known.unwrap_or_else(|| add(Some(fingerprint)))
                    });
                    Extent { reference, offset, len }
                }
            });
        }
        if next > REFERENCE_COUNT_MAX {
            return false;
        }
        let before = self.payloads.len();
        extents::encode(&list, &mut self.payloads);
        let payload_len = self.payloads.len() - before;
        if !is_worth(payload_len * PAYLOAD_PERCENT / 100 + added.len() * REFERENCE_LEN) {
            self.payloads.truncate(before);
            return false;
        }
        self.literals.extend_from_slice(&delta.literals);
        self.literal = literal;
        for (fingerprint, number) in added.iter().zip(self.region.references.len()..) {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            if Some(number) != literal {
                self.numbers.insert(*fingerprint, number);
            }
        }
        self.region.references.extend(added);
        self.delta_chunks.push(RawChunk {
            fingerprint,
            form: Form::Delta,
            offset: narrow(before),
            payload_len: narrow(payload_len),
            chunk_len: narrow(chunk_len),
        });
        true
    }

    /// Completes the region. The new bytes of delta chunks become a chunk of their own, with a
    /// fingerprint.
    pub(super) fn finish(self, keys: &Keys) -> RawRegion {
        let RegionBuilder { mut region, literals, payloads, delta_chunks, literal, .. } = self;
        // Rule W4.
        region.verify |= !delta_chunks.is_empty();
        if let Some(reference) = literal {
            let fingerprint = keys.fingerprint(region.class, &literals);
            region.references[usize::from(reference)] = fingerprint;
            let (offset, len) = (narrow(region.bytes.len()), narrow(literals.len()));
            let form = Form::Literal;
            let chunk = RawChunk { fingerprint, form, offset, payload_len: len, chunk_len: len };
            region.chunks.push(chunk);
            region.bytes.extend_from_slice(&literals);
        }
        let start = narrow(region.bytes.len());
        region.bytes.extend_from_slice(&payloads);
        let delta_chunks = delta_chunks.into_iter();
        region.chunks.extend(
            delta_chunks
                .map(|delta_chunk| RawChunk { offset: start + delta_chunk.offset, ..delta_chunk }),
        );
        region
    }
}
