//! The place of a chunk, and which places count for which purpose.

use std::sync::Arc;

use super::container_toc::ContainerToc;
use crate::format::fingerprint::Fingerprint;
use crate::format::names::PartName;
use crate::format::segment::ContainerRecord;
use crate::format::toc::{ChunkRecord, Form, RegionRecord};

/// The place of a chunk.
#[derive(Clone, Debug)]
pub struct Location {
    /// The container that holds the chunk.
    pub container: ContainerRecord,
    /// The chunk's number in the table of contents.
    pub number: usize,
    pub(super) chunk: ChunkRecord,
    /// The region that holds the chunk, without its references.
    pub(super) region: RegionRecord,
    /// The table of contents; `None` if it was dropped after the full chunk had been found.
    pub(super) loaded: Option<Arc<ContainerToc>>,
}

impl Location {
    /// Creates the location of the chunk with this number.
    ///
    /// # Panics
    ///
    /// Panics if the table of contents has no such chunk, or does not have its region.
    pub(crate) fn new(loaded: &Arc<ContainerToc>, number: usize) -> Location {
        let chunk = loaded.toc.chunks[number];
        let region = &loaded.toc.regions[usize::from(chunk.region)];
        let region = RegionRecord { references: Vec::new(), ..*region };
        let container = loaded.container;
        Location { container, number, chunk, region, loaded: Some(loaded.clone()) }
    }

    /// Returns the location of a full chunk without the table of contents.
    pub(super) fn without_toc(&self) -> Location {
        Location { region: self.region.clone(), loaded: None, ..*self }
    }

    /// Returns the record of the chunk.
    pub fn chunk(&self) -> &ChunkRecord {
        &self.chunk
    }

    /// Returns `true` if the bytes of the chunk are stored, so that delta chunks can refer to it.
    pub fn is_full(&self) -> bool {
        self.chunk.form != Form::Delta
    }

    /// Returns the key that distinguishes this location from all others.
    pub(super) fn key(&self) -> (PartName, usize) {
        (self.container.name, self.number)
    }

    /// Returns the region that holds the chunk, without its references.
    pub(crate) fn region(&self) -> &RegionRecord {
        &self.region
    }

    /// Returns the full chunks to which a delta chunk refers, by the numbers in its extents. May be
    /// empty for a full chunk.
    pub fn references(&self) -> &[Fingerprint] {
        let region =
            self.loaded.as_ref().map(|loaded| &loaded.toc.regions[usize::from(self.chunk.region)]);
        region.map_or(&[], |region| &region.references)
    }
}

/// The set of containers that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The containers that a writer may refer to (rule W2): not condemned, and without a damage
    /// record for the chunk.
    Write,
    /// All existing containers (rule R2).
    Read,
}
