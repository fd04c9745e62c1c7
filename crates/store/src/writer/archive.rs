//! The archive: seals encoded regions into containers, and says in segments where chunks are.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cutpoint_matching::burst::{Side, Tau};

use super::region::{EncodedRegion, RegionBuffers};
use crate::error::{Error, Kind, Result};
use crate::fingerprint::{Class, FINGERPRINT_LEN};
use crate::format::bursts::{BurstCount, BurstHints, has_sub_chunks};
use crate::format::directory::{
    CHUNK_RECORD_LEN, ChunkRecord, Codec, DIRECTORY_PADDING, Directory, REGION_COUNT_MAX,
    REGION_RECORD_LEN, RegionRecord,
};
use crate::format::ends::{ContainerEnds, Ends, Hints, has_ends};
use crate::format::grouping::Grouping;
use crate::format::map::Extra;
use crate::format::segment::{ContainerRecord, Segment};
use crate::name::{ObjectName, PartName, TicketId};
use crate::repository::Repository;
use crate::seal::{Opener, PADDING_CONTAINER, PartKind, Sealer, TAG_LEN, TRAILER_LEN, seal_object};

/// A segment is due at least every so many stored bytes (W4) ...
const SEGMENT_BYTES: u64 = 256 * 1024 * 1024;
/// ... or so many nanoseconds, whichever comes first.
const SEGMENT_NS: u64 = 60 * 1_000_000_000;
/// A hints object is put when there is so much for it, in chunks.
const ENDS_COUNT_MAX: usize = 1 << 20;
/// So much padding is borne at three quarters of a container's size, and when it is full, in bytes.
const PADDING_BORNE: Range<usize> = 2048..16 * 1024;

/// The next bytes of an object that is to be put. Objects must be ended in the order in which
/// their last parts come.
#[derive(Debug)]
pub struct SealedPart {
    /// The object's name.
    pub name: ObjectName,
    /// The bytes of the part are in one of them.
    buffers: RegionBuffers,
    codec: Codec,
    is_region: bool,
    /// Whether the object ends here.
    pub is_last: bool,
    /// What the object that ends here is to the index.
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

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self.codec {
            Codec::Store => &self.buffers.raw,
            Codec::Zstd => &self.buffers.encoded,
        }
    }

    /// The buffers of a region that has been written, for the next one.
    pub fn into_buffers(self) -> Option<RegionBuffers> {
        self.is_region.then_some(self.buffers)
    }
}

/// What an object is to the index.
#[derive(Debug)]
pub enum Stored {
    /// A container: what a segment will say of it.
    Container(Segment),
    /// An index segment.
    Segment(Published),
}

/// What a segment publishes.
#[derive(Debug)]
pub struct Published {
    /// The segment's name.
    pub name: PartName,
    /// The segment's content, for the local index.
    pub segment: Segment,
    /// The numbers of the regions whose chunks it names.
    pub regions: BTreeSet<u64>,
}

/// What an archive has produced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveStatistics {
    /// Containers.
    pub container_count: u64,
    /// Containers and segments, in bytes.
    pub stored_bytes: u64,
}

/// The second ordered stage: takes regions in order, gives the parts of objects in order.
#[derive(Debug)]
pub struct Archive {
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
    /// What no hints object says yet.
    hints: Hints,
    /// The same for BURST, where that is how chunks are compared: beside `hints`.
    bursts: BurstHints,
    tau: Option<Tau>,
    /// What every directory says besides.
    extra: Extra,
    ready: Vec<SealedPart>,
    /// What is sealed, for comparing, and what it opens to.
    plain: Vec<u8>,
    opened: Vec<u8>,
    statistics: ArchiveStatistics,
}

#[derive(Debug)]
struct OpenContainer {
    name: PartName,
    sealer: Sealer,
    opener: Option<Opener>,
    directory: Directory,
    regions: BTreeSet<u64>,
    /// Of chunks by which others may be found.
    ends: Vec<Ends>,
    /// The same, by BURST.
    burst_ends: Vec<Ends>,
}

impl OpenContainer {
    /// The length of the sealed directory, should the container be closed now.
    fn directory_len(&self) -> usize {
        let references: usize =
            self.directory.regions.iter().map(|region| region.references.len()).sum();
        let records = self.directory.regions.len() * REGION_RECORD_LEN
            + references * FINGERPRINT_LEN
            + self.directory.chunks.len() * CHUNK_RECORD_LEN;
        (12 + records + 1).next_multiple_of(DIRECTORY_PADDING) + TAG_LEN
    }

    /// The zeros that would pad the container, should it be closed now.
    fn padding(&self) -> usize {
        let len = self.sealer.len() + self.directory_len() + TRAILER_LEN;
        len.next_multiple_of(PADDING_CONTAINER) - len
    }
}

impl Archive {
    /// Seals for the writer of `ticket`.
    pub fn new(repository: Arc<Repository>, ticket: TicketId) -> Archive {
        let now = repository.environment().elapsed_ns();
        let tau = repository.config().burst().map(|options| options.tau);
        Archive {
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
            hints: Hints::default(),
            bursts: BurstHints::default(),
            extra: Extra::new(),
            ready: Vec::new(),
            plain: Vec::new(),
            opened: Vec::new(),
            statistics: ArchiveStatistics::default(),
        }
    }

    /// The same, with containers that say of themselves how their regions were made.
    pub(super) fn grouped(self, grouping: Grouping) -> Archive {
        Archive { extra: grouping.encode(), ..self }
    }

    /// Takes the next region.
    ///
    /// # Errors
    ///
    /// `Machine` where what was sealed does not open to what it was; `Media` without randomness.
    pub fn append(&mut self, region: EncodedRegion) -> Result<()> {
        let EncodedRegion { raw, codec, encoded } = region;
        let class = raw.class;
        let index = usize::from(class == Class::Meta);
        if self.open[index].is_none() {
            self.open[index] = Some(self.create(class)?);
        }
        let Some(open) = self.open[index].as_mut() else { return Ok(()) };
        let name = ObjectName::Container(class, open.name);
        let number = open.directory.regions.len();
        let kind = PartKind::Region(u32::try_from(number).unwrap_or(u32::MAX));
        let raw_len = raw.bytes.len();
        if class == Class::Data && self.repository.config().matches_imperfectly() {
            let keys = self.repository.keys();
            for chunk in &raw.chunks {
                let payload = raw.bytes.get(chunk.offset as usize..);
                let payload = payload.and_then(|bytes| bytes.get(..chunk.payload_len as usize));
                if has_ends(chunk.form, chunk.chunk_len) {
                    let ends = payload.and_then(|chunk| keys.ends(chunk));
                    open.ends.push(ends.unwrap_or_default());
                }
                if let Some(tau) = self.tau
                    && has_sub_chunks(tau, chunk.form, chunk.chunk_len)
                {
                    let end = |side| {
                        let sub_chunk = payload.and_then(|chunk| tau.sub_chunk(side, chunk));
                        sub_chunk.map_or(0, |sub_chunk| keys.end(sub_chunk))
                    };
                    open.burst_ends.push(Side::ALL.map(end));
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
        open.directory.regions.push(RegionRecord {
            offset: u32::try_from(offset).unwrap_or(u32::MAX),
            stored_len: narrow(part.len()),
            raw_len: narrow(raw_len),
            codec,
            references: raw.references,
        });
        let region_number = u16::try_from(number).unwrap_or(u16::MAX);
        open.directory.chunks.extend(raw.chunks.iter().map(|chunk| ChunkRecord {
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
        // Near the target, end after a region that leaves little to pad; less the more may follow.
        let target = self.repository.config().container_size as usize;
        let near = open.sealer.len().checked_sub(target - target / 4);
        let fits = near.is_some_and(|near| {
            let borne = PADDING_BORNE.start + near * PADDING_BORNE.len() / (target / 4).max(1);
            open.padding() < borne
        });
        if open.sealer.len() >= target
            || fits
            || open.directory_len() >= target / 2
            || open.directory.regions.len() == REGION_COUNT_MAX
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
        let directory = Directory { extra: self.extra.clone(), ..Directory::default() };
        let (opener, regions, ends, burst_ends) = (None, BTreeSet::new(), Vec::new(), Vec::new());
        Ok(OpenContainer { name, sealer, opener, directory, regions, ends, burst_ends })
    }

    fn close(&mut self, class: Class) {
        let Some(open) = self.open[usize::from(class == Class::Meta)].take() else { return };
        let mut part = open.directory.encode();
        let directory_len = u32::try_from(part.len() + TAG_LEN).unwrap_or(u32::MAX);
        let directory_offset = u32::try_from(open.sealer.len()).unwrap_or(u32::MAX);
        let name = ObjectName::Container(class, open.name);
        let before = open.sealer.len();
        open.sealer.finish(PartKind::Directory, &mut part);
        let stored_len = before + part.len();
        let record = ContainerRecord {
            name: open.name,
            class,
            has_composites: open.directory.has_composites(),
            stored_len: u32::try_from(stored_len).unwrap_or(u32::MAX),
            directory_offset,
            directory_len,
        };
        let hints = open.directory.chunks.iter().map(|chunk| (chunk.fingerprint.hint(), 0));
        let container =
            Segment { containers: vec![record], hints: hints.collect(), ..Segment::default() };
        self.pending.append(&container);
        self.pending_regions.extend(open.regions);
        self.pending_bytes += stored_len as u64;
        self.statistics.container_count += 1;
        self.statistics.stored_bytes += stored_len as u64;
        if !open.ends.is_empty() || !open.burst_ends.is_empty() {
            self.hints.containers.push(ContainerEnds { container: open.name, ends: open.ends });
            self.bursts.ends.push(open.burst_ends);
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

    /// Hints of what is in containers; nobody needs them.
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
        let name = ObjectName::Hints(PartName { ticket: self.ticket, count: self.hints_count });
        self.hints_count += 1;
        let salt = self.repository.salt()?;
        let bytes = seal_object(self.repository.keys(), name, salt, &body);
        self.statistics.stored_bytes += bytes.len() as u64;
        self.ready.push(SealedPart::new(name, bytes.into(), true));
        Ok(())
    }

    fn publish(&mut self, now: u64) -> Result<()> {
        let ends_count: usize =
            self.hints.containers.iter().map(|container| container.ends.len()).sum();
        let burst_ends_count: usize = self.bursts.ends.iter().map(Vec::len).sum();
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

    /// Publishes containers that exist already, in a segment of this writer, with what is pending.
    ///
    /// # Errors
    ///
    /// `Media` without randomness.
    pub(crate) fn publish_existing(&mut self, containers: &Segment) -> Result<()> {
        self.pending.append(containers);
        self.publish(self.repository.environment().elapsed_ns())
    }

    /// Has the next hints object say what bursts there are.
    pub fn count_bursts(&mut self, counts: Vec<BurstCount>) {
        self.bursts.counts = counts;
    }

    /// Closes what is open and publishes what is pending.
    ///
    /// # Errors
    ///
    /// `Media` without randomness.
    pub fn finish(&mut self) -> Result<()> {
        self.close(Class::Data);
        self.close(Class::Meta);
        self.put_hints()?;
        self.publish(self.repository.environment().elapsed_ns())
    }

    /// The parts that are to be put now, in order.
    pub fn take_parts(&mut self) -> Vec<SealedPart> {
        std::mem::take(&mut self.ready)
    }

    /// The segments published so far: what a commit names.
    pub fn segments(&self) -> &[PartName] {
        &self.segments
    }

    /// What was produced so far.
    pub fn statistics(&self) -> ArchiveStatistics {
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

/// Opens what was sealed a moment ago and compares it (W4).
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
    // Nothing was read: that it does not open says nothing about what is stored.
    if opener.open(kind, sealed).is_ok() && sealed == plain {
        Ok(())
    } else {
        Err(Error::new(
            Kind::Machine,
            name,
            "what was sealed does not open to what it was: check this machine's memory",
        ))
    }
}
