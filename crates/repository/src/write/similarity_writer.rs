//! Similarity objects: heads and tails of new chunks, by which later backups find them.

use cutpoint_storage::Result;

use super::part::SealedPart;
use super::region::RawRegion;
use super::strategies;
use super::strategy::{SimilarityExtra, StrategyRecord};
use crate::crypto::{Keys, seal_object};
use crate::format::edges::{ContainerEdges, Edges, SimilarityObject, has_edges};
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::repo::repository::Repository;

/// Number of chunks with edges at which a similarity object is put.
const EDGES_COUNT_MAX: usize = 1 << 20;

/// Collects the edges of new chunks. Nothing depends on similarity objects.
#[derive(Debug)]
pub(super) struct SimilarityWriter {
    ticket: TicketId,
    /// The number of the next object.
    next: u32,
    /// Set if the repository has delta chunks, for which edges are of use.
    is_on: bool,
    /// The edges of the open container of file data.
    open: Vec<Edges>,
    /// The edges of closed containers that no object has yet.
    object: SimilarityObject,
    /// The addition of the strategy by which chunks are compared.
    extra: Option<Box<dyn SimilarityExtra>>,
}

impl SimilarityWriter {
    pub(super) fn new(repository: &Repository, ticket: TicketId) -> SimilarityWriter {
        let config = repository.config();
        SimilarityWriter {
            ticket,
            next: 0,
            is_on: config.uses_delta_chunks(),
            open: Vec::new(),
            object: SimilarityObject::default(),
            extra: strategies::similarity_extra(config),
        }
    }

    /// Adds the chunks of a region of the open container.
    pub(super) fn add(&mut self, keys: &Keys, region: &RawRegion) {
        if region.class != Class::Data || !self.is_on {
            return;
        }
        for chunk in &region.chunks {
            let payload = region.bytes.get(chunk.offset as usize..);
            let payload = payload.and_then(|bytes| bytes.get(..chunk.payload_len as usize));
            if has_edges(chunk.form, chunk.chunk_len) {
                let edges = payload.and_then(|chunk| keys.edges(chunk));
                self.open.push(edges.unwrap_or_default());
            }
            if let Some(extra) = &mut self.extra {
                extra.add(keys, chunk.form, chunk.chunk_len, payload);
            }
        }
    }

    /// Assigns the edges since the last call to a container of file data, which was closed.
    pub(super) fn close(&mut self, container: PartName) {
        let extra_count = self.extra.as_ref().map_or(0, |extra| extra.open_count());
        if self.open.is_empty() && extra_count == 0 {
            return;
        }
        let edges = std::mem::take(&mut self.open);
        self.object.containers.push(ContainerEdges { container, edges });
        if let Some(extra) = &mut self.extra {
            extra.close();
        }
    }

    /// Sets what the strategy records in the next object.
    pub(super) fn record(&mut self, record: StrategyRecord) {
        if let Some(extra) = &mut self.extra {
            extra.record(record);
        }
    }

    /// Returns `true` if there are enough edges for an object.
    pub(super) fn is_due(&self) -> bool {
        let count: usize = self.object.containers.iter().map(|it| it.edges.len()).sum();
        let extra_count = self.extra.as_ref().map_or(0, |extra| extra.count());
        count.max(extra_count) >= EDGES_COUNT_MAX
    }

    /// Seals an object for the edges that none has yet; `None` if there are none.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if there is no randomness.
    pub(super) fn seal(&mut self, repository: &Repository) -> Result<Option<SealedPart>> {
        let has_record = self.extra.as_ref().is_some_and(|extra| extra.has_record());
        if self.object.containers.is_empty() && !has_record {
            return Ok(None);
        }
        let mut object = std::mem::take(&mut self.object);
        if let Some(extra) = &mut self.extra {
            object.extra = extra.take();
        }
        let name = ObjectName::Similarity(PartName { ticket: self.ticket, count: self.next });
        self.next += 1;
        let bytes = seal_object(repository.keys(), name, repository.salt()?, &object.encode());
        Ok(Some(SealedPart::new(name, bytes.into(), true)))
    }
}
