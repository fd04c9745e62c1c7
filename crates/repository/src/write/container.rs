//! The container writer: seals encoded regions into containers, and records in index segments where chunks
//! are.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cutpoint_delta::burst::{Side, Tau};
use cutpoint_storage::{Error, Kind, Result};

use super::region::{EncodedRegion, RegionBuffers};
use crate::crypto::{
    Opener, PADDING_CONTAINER, PartKind, Sealer, TAG_LEN, TRAILER_LEN, seal_object,
};
use crate::format::bursts::{BurstCount, BurstHints, has_sub_chunks};
use crate::format::edges::{ContainerEdges, Edges, SimilarityObject, has_edges};
use crate::format::fingerprint::{Class, FINGERPRINT_LEN};
use crate::format::grouping::Grouping;
use crate::format::map::Extra;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::segment::{ContainerRecord, Segment};
use crate::format::toc::{
    CHUNK_RECORD_LEN, ChunkRecord, Codec, REGION_COUNT_MAX, REGION_RECORD_LEN, RegionRecord,
    TOC_PADDING, Toc,
};
use crate::repo::repository::Repository;

/// Number of stored bytes after which an index segment is due (W4).
const SEGMENT_BYTES: u64 = 256 * 1024 * 1024;
/// Time in nanoseconds after which an index segment is due, even with fewer bytes.
const SEGMENT_NS: u64 = 60 * 1_000_000_000;
/// Number of heads and tails at which a similarity object is put.
const ENDS_COUNT_MAX: usize = 1 << 20;
/// Padding up to which a container is closed early, in bytes: the start at three quarters of the
/// target size, the end at the full size.
const PADDING_BORNE: Range<usize> = 2048..16 * 1024;

/// The next bytes of an object to put. Objects must be completed in the order in which their last
/// parts come.
#[derive(Debug)]
pub struct SealedPart {
    /// The name of the object.
    pub name: ObjectName,
    /// The buffers of the part. The codec determines which of them has the bytes.
    buffers: RegionBuffers,
    codec: Codec,
    is_region: bool,
    /// Set if the object ends with this part.
    pub is_last: bool,
    /// The meaning of the completed object for the index, if it has one.
    pub(super) stored: Option<Stored>,
}

impl SealedPart {
    fn new(name: ObjectName, bytes: Vec<u8>, is_last: bool) -> SealedPart {
        SealedPart {
            name,
            buffers: RegionBuffers { raw: bytes, encoded: Vec::new() },
            codec: Codec::Store,
            is_region: false,
            is_last,
            stored: None,
        }
    }

    /// Returns the bytes of the part.
    pub fn bytes(&self) -> &[u8] {
        match self.codec {
            Codec::Store => &self.buffers.raw,
            Codec::Zstd => &self.buffers.encoded,
        }
    }

    /// Returns the buffers of a region that has been written, for the next region.
    pub fn into_buffers(self) -> Option<RegionBuffers> {
        self.is_region.then_some(self.buffers)
    }
}

/// The meaning of an object for the index.
#[derive(Debug)]
pub enum Stored {
    /// A container, with the entries that a segment will have for it.
    Container(Segment),
    /// An index segment.
    Segment(Published),
}

/// The content of a published index segment.
#[derive(Debug)]
pub struct Published {
    /// The name of the segment.
    pub name: PartName,
    /// The content of the segment, for the local index.
    pub segment: Segment,
    /// The numbers of the regions whose chunks the segment names.
    pub regions: BTreeSet<u64>,
}

/// Counters of an container writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerStatistics {
    /// Number of containers.
    pub container_count: u64,
    /// Total size of containers, segments and similarity objects in bytes.
    pub stored_bytes: u64,
}

/// The second ordered stage of a backup: takes regions in order, and returns the parts of objects
/// in order.
#[derive(Debug)]
pub struct ContainerWriter {
    repository: Arc<Repository>,
    ticket: TicketId,
    open: [Option<OpenContainer>; 2],
    container_counts: [u32; 2],
    segment_count: u32,
    hints_count: u32,
    segments: Vec<PartName>,
    pending: Segment,
    pending_regions: BTreeSet<u64>,
    pending_bytes: u64,
    published_ns: u64,
    /// Ends of chunks that no similarity object has yet.
    hints: SimilarityObject,
    /// Additions to `hints` for BURST, if chunks are compared in that way.
    bursts: BurstHints,
    tau: Option<Tau>,
    /// Additional content of every table of contents.
    extra: Extra,
    ready: Vec<SealedPart>,
    /// Buffers for verification: a copy of a part before it is sealed, and the part as it opens.
    plain: Vec<u8>,
    opened: Vec<u8>,
    statistics: ContainerStatistics,
}

#[derive(Debug)]
struct OpenContainer {
    name: PartName,
    sealer: Sealer,
    opener: Option<Opener>,
    toc: Toc,
    regions: BTreeSet<u64>,
    /// Ends of the chunks by which similar ones may be found.
    edges: Vec<Edges>,
    /// Ends of the chunks by the rules of BURST.
    burst_edges: Vec<Edges>,
}

impl OpenContainer {
    /// Returns the length that the sealed table of contents would have if the container were closed now.
    fn toc_len(&self) -> usize {
        let references: usize = self.toc.regions.iter().map(|region| region.references.len()).sum();
        let records = self.toc.regions.len() * REGION_RECORD_LEN
            + references * FINGERPRINT_LEN
            + self.toc.chunks.len() * CHUNK_RECORD_LEN;
        (12 + records + 1).next_multiple_of(TOC_PADDING) + TAG_LEN
    }

    /// Returns the number of zeros that would pad the container if it were closed now.
    fn padding(&self) -> usize {
        let len = self.sealer.len() + self.toc_len() + TRAILER_LEN;
        len.next_multiple_of(PADDING_CONTAINER) - len
    }
}

impl ContainerWriter {
    /// Creates an container writer for the writer of `ticket`.
    pub fn new(repository: Arc<Repository>, ticket: TicketId) -> ContainerWriter {
        let now = repository.environment().elapsed_ns();
        let tau = repository.config().burst().map(|options| options.tau);
        ContainerWriter {
            tau,
            repository,
            ticket,
            open: [None, None],
            container_counts: [0; 2],
            segment_count: 0,
            hints_count: 0,
            segments: Vec::new(),
            pending: Segment::default(),
            pending_regions: BTreeSet::new(),
            pending_bytes: 0,
            published_ns: now,
            hints: SimilarityObject::default(),
            bursts: BurstHints::default(),
            extra: Extra::new(),
            ready: Vec::new(),
            plain: Vec::new(),
            opened: Vec::new(),
            statistics: ContainerStatistics::default(),
        }
    }

    /// Makes every container record how its regions were made.
    pub(super) fn grouped(self, grouping: Grouping) -> ContainerWriter {
        ContainerWriter { extra: grouping.encode(), ..self }
    }

    /// Appends the next region.
    ///
    /// # Errors
    ///
    /// Returns `Machine` if a sealed part does not open to what it was, and `Storage` if there is no
    /// randomness.
    pub fn append(&mut self, region: EncodedRegion) -> Result<()> {
        let EncodedRegion { raw, codec, encoded } = region;
        let class = raw.class;
        let index = usize::from(class == Class::Meta);
        if self.open[index].is_none() {
            self.open[index] = Some(self.create(class)?);
        }
        let Some(open) = self.open[index].as_mut() else { return Ok(()) };
        let name = ObjectName::Container(class, open.name);
        let number = open.toc.regions.len();
        let kind = PartKind::Region(u32::try_from(number).unwrap_or(u32::MAX));
        let raw_len = raw.bytes.len();
        if class == Class::Data && self.repository.config().uses_delta_chunks() {
            let keys = self.repository.keys();
            for chunk in &raw.chunks {
                let payload = raw.bytes.get(chunk.offset as usize..);
                let payload = payload.and_then(|bytes| bytes.get(..chunk.payload_len as usize));
                if has_edges(chunk.form, chunk.chunk_len) {
                    let edges = payload.and_then(|chunk| keys.edges(chunk));
                    open.edges.push(edges.unwrap_or_default());
                }
                if let Some(tau) = self.tau
                    && has_sub_chunks(tau, chunk.form, chunk.chunk_len)
                {
                    let end = |side| {
                        let sub_chunk = payload.and_then(|chunk| tau.sub_chunk(side, chunk));
                        sub_chunk.map_or(0, |sub_chunk| keys.edge(sub_chunk))
                    };
                    open.burst_edges.push(Side::ALL.map(end));
                }
            }
        }
        let mut buffers = RegionBuffers { raw: raw.bytes, encoded };
        let part = match codec {
            Codec::Store => &mut buffers.raw,
            Codec::Zstd => &mut buffers.encoded,
        };
        if raw.verify {
            self.plain.clone_from(part);
        }
        let offset = open.sealer.seal(kind, part);
        if raw.verify {
            self.opened.clone_from(part);
            verify(open, &self.repository, kind, &mut self.opened, &self.plain)?;
        }
        let narrow = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        open.toc.regions.push(RegionRecord {
            offset: u32::try_from(offset).unwrap_or(u32::MAX),
            stored_len: narrow(part.len()),
            raw_len: narrow(raw_len),
            codec,
            references: raw.references,
        });
        let region_number = u16::try_from(number).unwrap_or(u16::MAX);
        open.toc.chunks.extend(raw.chunks.iter().map(|chunk| ChunkRecord {
            fingerprint: chunk.fingerprint,
            form: chunk.form,
            region: region_number,
            offset: chunk.offset,
            payload_len: chunk.payload_len,
            chunk_len: chunk.chunk_len,
        }));
        open.regions.insert(raw.number);
        self.ready.push(SealedPart {
            name,
            buffers,
            codec,
            is_region: true,
            is_last: false,
            stored: None,
        });
        // Near the target size, the container ends after a region that leaves little to pad. The
        // accepted padding grows as the room for further regions shrinks.
        let target = self.repository.config().container_size as usize;
        let near = open.sealer.len().checked_sub(target - target / 4);
        let fits = near.is_some_and(|near| {
            let borne = PADDING_BORNE.start + near * PADDING_BORNE.len() / (target / 4).max(1);
            open.padding() < borne
        });
        if open.sealer.len() >= target
            || fits
            || open.toc_len() >= target / 2
            || open.toc.regions.len() == REGION_COUNT_MAX
        {
            self.close(class);
        }
        self.publish_if_due()
    }

    fn create(&mut self, class: Class) -> Result<OpenContainer> {
        let count = &mut self.container_counts[usize::from(class == Class::Meta)];
        let name = PartName { ticket: self.ticket, count: *count };
        *count += 1;
        let object = ObjectName::Container(class, name);
        let salt = self.repository.salt()?;
        let sealer = Sealer::new(self.repository.keys(), object, salt);
        self.ready.push(SealedPart::new(object, sealer.header().to_vec(), false));
        let toc = Toc { extra: self.extra.clone(), ..Toc::default() };
        let (opener, regions, edges, burst_edges) = (None, BTreeSet::new(), Vec::new(), Vec::new());
        Ok(OpenContainer { name, sealer, opener, toc, regions, edges, burst_edges })
    }

    fn close(&mut self, class: Class) {
        let Some(open) = self.open[usize::from(class == Class::Meta)].take() else { return };
        let mut part = open.toc.encode();
        let toc_len = u32::try_from(part.len() + TAG_LEN).unwrap_or(u32::MAX);
        let toc_offset = u32::try_from(open.sealer.len()).unwrap_or(u32::MAX);
        let name = ObjectName::Container(class, open.name);
        let before = open.sealer.len();
        open.sealer.finish(PartKind::Toc, &mut part);
        let stored_len = before + part.len();
        let record = ContainerRecord {
            name: open.name,
            class,
            has_delta_chunks: open.toc.has_delta_chunks(),
            stored_len: u32::try_from(stored_len).unwrap_or(u32::MAX),
            toc_offset,
            toc_len,
        };
        let hints = open.toc.chunks.iter().map(|chunk| (chunk.fingerprint.hint(), 0));
        let container =
            Segment { containers: vec![record], hints: hints.collect(), ..Segment::default() };
        self.pending.append(&container);
        self.pending_regions.extend(open.regions);
        self.pending_bytes += stored_len as u64;
        self.statistics.container_count += 1;
        self.statistics.stored_bytes += stored_len as u64;
        if !open.edges.is_empty() || !open.burst_edges.is_empty() {
            self.hints.containers.push(ContainerEdges { container: open.name, edges: open.edges });
            self.bursts.edges.push(open.burst_edges);
        }
        let stored = Some(Stored::Container(container));
        self.ready.push(SealedPart { stored, ..SealedPart::new(name, part, true) });
    }

    fn publish_if_due(&mut self) -> Result<()> {
        let now = self.repository.environment().elapsed_ns();
        if self.pending_bytes >= SEGMENT_BYTES {
            self.publish(now)
        } else if now.saturating_sub(self.published_ns) >= SEGMENT_NS {
            self.close(Class::Data);
            self.close(Class::Meta);
            self.publish(now)
        } else {
            Ok(())
        }
    }

    /// Puts a similarity object for the ends that none has yet. Nothing depends on similarity objects.
    fn put_hints(&mut self) -> Result<()> {
        if self.hints.containers.is_empty() && self.bursts.counts.is_empty() {
            return Ok(());
        }
        let (mut hints, bursts) =
            (std::mem::take(&mut self.hints), std::mem::take(&mut self.bursts));
        if let Some(tau) = self.tau {
            hints.extra = BurstHints { tau: tau.to_string(), ..bursts }.encode();
        }
        let body = hints.encode();
        let name =
            ObjectName::Similarity(PartName { ticket: self.ticket, count: self.hints_count });
        self.hints_count += 1;
        let salt = self.repository.salt()?;
        let bytes = seal_object(self.repository.keys(), name, salt, &body);
        self.statistics.stored_bytes += bytes.len() as u64;
        self.ready.push(SealedPart::new(name, bytes.into(), true));
        Ok(())
    }

    fn publish(&mut self, now: u64) -> Result<()> {
        let ends_count: usize =
            self.hints.containers.iter().map(|container| container.edges.len()).sum();
        let burst_ends_count: usize = self.bursts.edges.iter().map(Vec::len).sum();
        if ends_count.max(burst_ends_count) >= ENDS_COUNT_MAX {
            self.put_hints()?;
        }
        self.published_ns = now;
        if self.pending.containers.is_empty() {
            return Ok(());
        }
        let mut segment = std::mem::take(&mut self.pending);
        let name = PartName { ticket: self.ticket, count: self.segment_count };
        self.segment_count += 1;
        let bytes = seal_segment(&self.repository, name, &mut segment)?;
        self.pending_bytes = 0;
        self.statistics.stored_bytes += bytes.len() as u64;
        self.segments.push(name);
        let regions = std::mem::take(&mut self.pending_regions);
        let stored = Some(Stored::Segment(Published { name, segment, regions }));
        let part = SealedPart::new(ObjectName::Segment(name), bytes.into(), true);
        self.ready.push(SealedPart { stored, ..part });
        Ok(())
    }

    /// Publishes existing containers in a segment of this writer, together with the pending ones.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if there is no randomness.
    pub(crate) fn publish_existing(&mut self, containers: &Segment) -> Result<()> {
        self.pending.append(containers);
        self.publish(self.repository.environment().elapsed_ns())
    }

    /// Sets the counts of bursts that the next similarity object records.
    pub fn count_bursts(&mut self, counts: Vec<BurstCount>) {
        self.bursts.counts = counts;
    }

    /// Closes the open containers and publishes the pending ones.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if there is no randomness.
    pub fn finish(&mut self) -> Result<()> {
        self.close(Class::Data);
        self.close(Class::Meta);
        self.put_hints()?;
        self.publish(self.repository.environment().elapsed_ns())
    }

    /// Returns the parts to put now, in order.
    pub fn take_parts(&mut self) -> Vec<SealedPart> {
        std::mem::take(&mut self.ready)
    }

    /// Returns the segments published so far, which a commit has to name.
    pub fn segments(&self) -> &[PartName] {
        &self.segments
    }

    /// Returns the counters so far.
    pub fn statistics(&self) -> ContainerStatistics {
        self.statistics
    }
}

/// Sorts and seals an index segment.
pub(super) fn seal_segment(
    repository: &Repository,
    name: PartName,
    segment: &mut Segment,
) -> Result<Bytes> {
    segment.hints.sort_unstable();
    let salt = repository.salt()?;
    Ok(seal_object(repository.keys(), ObjectName::Segment(name), salt, &segment.encode()))
}

/// Opens a part that was just sealed, and compares it with the original (W4).
fn verify(
    open: &mut OpenContainer,
    repository: &Repository,
    kind: PartKind,
    sealed: &mut Vec<u8>,
    plain: &[u8],
) -> Result<()> {
    let name = open.sealer.name();
    let opener = match &mut open.opener {
        Some(opener) => opener,
        none => {
            let opener = Opener::new(repository.keys(), name, &open.sealer.header());
            none.insert(opener.map_err(|error| Error::new(Kind::Machine, name, error))?)
        }
    };
    // The error is `Machine`, because nothing was read: the failure says nothing about what is
    // stored.
    if opener.open(kind, sealed).is_ok() && sealed == plain {
        Ok(())
    } else {
        Err(Error::new(
            Kind::Machine,
            name,
            "sealed data does not open to the original: check the memory of this machine",
        ))
    }
}
