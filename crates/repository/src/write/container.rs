//! The container writer: seals encoded regions into containers, and names these in index segments.

use std::sync::Arc;

use cutpoint_storage::Result;

use super::open_container::{ClosedContainer, OpenContainer, VerifyBuffers};
use super::part::{CompletedObject, SealedPart};
use super::region::EncodedRegion;
use super::segment_writer::{Due, SegmentWriter};
use super::similarity_writer::SimilarityWriter;
use super::strategy::StrategyRecord;
use crate::format::fingerprint::Class;
use crate::format::grouping::Grouping;
use crate::format::map::Extra;
use crate::format::names::{PartName, TicketId};
use crate::format::segment::Segment;
use crate::repo::repository::Repository;

/// Counters of a container writer.
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
    /// The number of the next container of each class.
    next: [u32; 2],
    segments: SegmentWriter,
    similarity: SimilarityWriter,
    /// Additional content of every table of contents.
    extra: Extra,
    verify: VerifyBuffers,
    ready: Vec<SealedPart>,
    statistics: ContainerStatistics,
}

impl ContainerWriter {
    /// Creates a container writer for the writer of `ticket`.
    pub fn new(repository: Arc<Repository>, ticket: TicketId) -> ContainerWriter {
        let now_ns = repository.environment().elapsed_ns();
        ContainerWriter {
            segments: SegmentWriter::new(ticket, now_ns),
            similarity: SimilarityWriter::new(&repository, ticket),
            repository,
            ticket,
            open: [None, None],
            next: [0; 2],
            extra: Extra::new(),
            verify: VerifyBuffers::default(),
            ready: Vec::new(),
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
    /// Returns `Machine` if a sealed part does not open to what it was, `Storage` if there is no
    /// randomness, and `Invalid` if the region is longer than the format allows.
    pub fn append(&mut self, region: EncodedRegion) -> Result<()> {
        let class = region.raw.class;
        let mut open = match self.open[slot(class)].take() {
            Some(open) => open,
            None => self.create(class)?,
        };
        self.similarity.add(self.repository.keys(), &region.raw);
        self.ready.push(open.append(&self.repository, region, &mut self.verify)?);
        let is_full = open.is_full(self.repository.config().container_size as usize);
        self.open[slot(class)] = Some(open);
        if is_full {
            self.close(class)?;
        }
        self.publish_if_due()
    }

    fn create(&mut self, class: Class) -> Result<OpenContainer> {
        let next = &mut self.next[slot(class)];
        let name = PartName { ticket: self.ticket, count: *next };
        *next += 1;
        let (open, part) =
            OpenContainer::create(&self.repository, class, name, self.extra.clone())?;
        self.ready.push(part);
        Ok(open)
    }

    fn close(&mut self, class: Class) -> Result<()> {
        let Some(open) = self.open[slot(class)].take() else { return Ok(()) };
        if class == Class::Data {
            self.similarity.close(open.name());
        }
        let ClosedContainer { part, entries, regions, len } = open.close()?;
        self.segments.add(&entries, regions, len);
        self.statistics.container_count += 1;
        self.statistics.stored_bytes += len;
        self.ready.push(part.with_meaning(CompletedObject::Container(entries)));
        Ok(())
    }

    fn publish_if_due(&mut self) -> Result<()> {
        let now_ns = self.repository.environment().elapsed_ns();
        match self.segments.due(now_ns) {
            None => return Ok(()),
            Some(Due::Size) => {}
            Some(Due::Time) => {
                self.close(Class::Data)?;
                self.close(Class::Meta)?;
            }
        }
        self.publish(now_ns)
    }

    /// Publishes the closed containers.
    fn publish(&mut self, now_ns: u64) -> Result<()> {
        if self.similarity.is_due() {
            self.put_similarity()?;
        }
        let part = self.segments.publish(&self.repository, now_ns)?;
        self.push_object(part);
        Ok(())
    }

    fn put_similarity(&mut self) -> Result<()> {
        let part = self.similarity.seal(&self.repository)?;
        self.push_object(part);
        Ok(())
    }

    /// Appends an object of a single part.
    fn push_object(&mut self, part: Option<SealedPart>) {
        if let Some(part) = part {
            self.statistics.stored_bytes += part.bytes().len() as u64;
            self.ready.push(part);
        }
    }

    /// Publishes existing containers in a segment of this writer, and returns its name, if there are
    /// any. Everything that the writer has stored must be published already.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if there is no randomness.
    pub(crate) fn publish_existing(&mut self, containers: Segment) -> Result<Option<PartName>> {
        let count = self.segments.names().len();
        self.segments.add_existing(containers);
        self.publish(self.repository.environment().elapsed_ns())?;
        Ok(self.segments.names().get(count).copied())
    }

    /// Sets what the strategy by which chunks were compared records in the next similarity object.
    pub fn record(&mut self, record: StrategyRecord) {
        self.similarity.record(record);
    }

    /// Closes the open containers and publishes the pending ones.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if there is no randomness.
    pub fn finish(&mut self) -> Result<()> {
        self.close_all()?;
        self.publish(self.repository.environment().elapsed_ns())
    }

    /// Does the same as [`ContainerWriter::finish`], except that a segment which may lie in the
    /// commit is returned instead.
    ///
    /// # Errors
    ///
    /// Returns any error of [`ContainerWriter::finish`].
    pub fn finish_embedding(&mut self) -> Result<Option<Segment>> {
        self.close_all()?;
        let embedded = self.segments.take_small();
        if embedded.is_none() {
            self.publish(self.repository.environment().elapsed_ns())?;
        }
        Ok(embedded)
    }

    /// Closes the open containers, and puts the similarity records that are left.
    fn close_all(&mut self) -> Result<()> {
        self.close(Class::Data)?;
        self.close(Class::Meta)?;
        self.put_similarity()
    }

    /// Returns the parts to put now, in order.
    pub fn take_parts(&mut self) -> Vec<SealedPart> {
        std::mem::take(&mut self.ready)
    }

    /// Returns the segments published so far, which a commit has to name.
    pub fn segments(&self) -> &[PartName] {
        self.segments.names()
    }

    /// Returns the counters so far.
    pub fn statistics(&self) -> ContainerStatistics {
        self.statistics
    }
}

fn slot(class: Class) -> usize {
    usize::from(class == Class::Meta)
}
