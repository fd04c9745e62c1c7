//! Reads the sources of what a prune stores again.
//!
//! A prune can do without a source that is damaged or gone: its container stays as it is. An error
//! of what the prune puts must never be mistaken for that, or a container would be condemned of
//! which not everything was stored again. So the two are different types. [`Unreadable`] is made
//! only in this module and only from reads, and every other error becomes [`Failure::Other`], which
//! ends the prune.

use std::sync::Arc;

use cutpoint_storage::{Error, Result};
use zstd::bulk::Decompressor;

use crate::crypto::{HEADER_LEN, Opener, PartKind};
use crate::format::extents::Extent;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName};
use crate::format::region::decode_region;
use crate::format::segment::ContainerRecord;
use crate::format::toc::{ChunkRecord, RegionRecord};
use crate::gc::locate::Container;
use crate::index::{ContainerToc, Location};
use crate::read::{ChunkBytes, Reader};
use crate::repo::repository::Repository;
use crate::snapshots::mark::{Node, NodeContents};

/// A source that is damaged or gone.
#[derive(Debug)]
pub(super) struct Unreadable(Error);

impl Unreadable {
    /// Returns the error, to be reported.
    pub(super) fn into_error(self) -> Error {
        self.0
    }
}

/// The failure of storing something again.
#[derive(Debug)]
pub(super) enum Failure {
    /// A source cannot be read. Its container may stay as it is.
    Source(Unreadable),
    /// Anything else, above all a failed put. The prune ends.
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Other(error)
    }
}

impl Failure {
    /// Returns the error, for callers that end the run in both cases.
    pub(super) fn into_error(self) -> Error {
        match self {
            Failure::Source(Unreadable(error)) | Failure::Other(error) => error,
        }
    }
}

/// The result of an operation that reads sources and may store what it has read.
pub(super) type SourceResult<T> = Result<T, Failure>;

/// Classifies the error of a read. A failing storage does not count as damage of a source.
fn of_read<T>(result: Result<T>) -> SourceResult<T> {
    result.map_err(|error| {
        if error.is_loss() { Failure::Source(Unreadable(error)) } else { Failure::Other(error) }
    })
}

/// Returns the value, or `None` if the source is damaged or gone.
pub(super) fn readable<T>(result: SourceResult<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Failure::Source(_)) => Ok(None),
        Err(Failure::Other(error)) => Err(error),
    }
}

/// The sources of a prune.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    repository: &'a Repository,
    reader: &'a Reader,
}

impl<'a> Sources<'a> {
    pub(super) fn new(repository: &'a Repository, reader: &'a Reader) -> Sources<'a> {
        Sources { repository, reader }
    }

    /// Returns the bytes of a chunk ([`Reader::chunk`]).
    pub(super) fn chunk(self, class: Class, fingerprint: &Fingerprint) -> SourceResult<ChunkBytes> {
        of_read(self.reader.chunk(class, fingerprint))
    }

    /// Returns the bytes of the chunk at a location ([`Reader::read`]).
    pub(super) fn read(self, class: Class, location: &Location) -> SourceResult<ChunkBytes> {
        of_read(self.reader.read(class, location))
    }

    /// Returns the payload of the chunk at a location ([`Reader::payload`]).
    pub(super) fn payload(self, class: Class, location: &Location) -> SourceResult<ChunkBytes> {
        of_read(self.reader.payload(class, location))
    }

    /// Returns the extents of a delta chunk ([`Reader::extents`]).
    pub(super) fn extents(self, class: Class, location: &Location) -> SourceResult<Vec<Extent>> {
        of_read(self.reader.extents(class, location))
    }

    /// Returns the places of a chunk that can be read, or the error of the storage if it failed.
    pub(super) fn locations(
        self,
        class: Class,
        fingerprint: &Fingerprint,
    ) -> Result<Vec<Location>> {
        let (locations, failure) = self.reader.index().locations(class, fingerprint);
        match failure.map(|error| of_read::<()>(Err(error))) {
            Some(Err(Failure::Other(error))) => Err(error),
            _ => Ok(locations),
        }
    }

    /// Decodes a tree or recipe.
    pub(super) fn decode(self, node: &Node, bytes: &[u8]) -> SourceResult<NodeContents> {
        of_read(node.decode(bytes))
    }

    /// Loads the table of contents of a container.
    pub(super) fn load(self, record: ContainerRecord) -> SourceResult<ContainerToc> {
        of_read(ContainerToc::at(self.repository, record))
    }

    /// Opens a container, to be read region by region.
    pub(super) fn open(self, container: &Container) -> SourceResult<Source<'a>> {
        let loaded = Arc::new(self.load(container.record)?);
        let name = object(container.name());
        let header = self.repository.storage().get_range(&name.to_string(), 0, HEADER_LEN);
        let opener = header.and_then(|header| Opener::new(self.repository.keys(), name, &header));
        let opener = of_read(opener)?;
        let decompressor = Decompressor::new().map_err(|error| Error::invalid("zstd", error))?;
        Ok(Source { sources: self, loaded, name, opener, decompressor })
    }
}

/// A container whose regions are read.
pub(super) struct Source<'a> {
    sources: Sources<'a>,
    loaded: Arc<ContainerToc>,
    name: ObjectName,
    opener: Opener,
    decompressor: Decompressor<'static>,
}

impl Source<'_> {
    /// Returns the table of contents of the container.
    pub(super) fn loaded(&self) -> &Arc<ContainerToc> {
        &self.loaded
    }

    /// Returns the class of the container's chunks.
    pub(super) fn class(&self) -> Class {
        self.loaded.container.class
    }

    /// Returns the regions of the container.
    pub(super) fn regions(&self) -> &[RegionRecord] {
        &self.loaded.toc.regions
    }

    /// Returns the region `number`, which must exist: decoded, and encoded as it is stored.
    pub(super) fn decode(&mut self, number: u16) -> SourceResult<(Vec<u8>, Vec<u8>)> {
        let name = self.name;
        let region = &self.loaded.toc.regions[usize::from(number)];
        let (offset, stored_len) = (u64::from(region.offset), region.stored_len as usize);
        let storage = self.sources.repository.storage();
        let mut part = of_read(storage.get_range(&name.to_string(), offset, stored_len))?.to_vec();
        of_read(self.opener.open(PartKind::Region(u32::from(number)), &mut part))?;
        let bytes =
            decode_region(&mut self.decompressor, region.codec, part.clone(), region.raw_len)
                .map_err(|error| error.of(format!("{name}: region {number}")));
        Ok((of_read(bytes)?, part))
    }

    /// Returns the payload of a chunk in a decoded region. The payload of a full chunk is compared
    /// with its fingerprint.
    pub(super) fn payload<'r>(
        &self,
        region: &'r [u8],
        chunk: &ChunkRecord,
        is_full: bool,
    ) -> SourceResult<&'r [u8]> {
        let start = chunk.offset as usize;
        let payload = region.get(start..start + chunk.payload_len as usize).unwrap_or_default();
        let keys = self.sources.repository.keys();
        if is_full && keys.fingerprint(self.class(), payload) != chunk.fingerprint {
            let (number, chunk) = (chunk.region, chunk.fingerprint);
            return self.damaged(format!("region {number}: bytes differ from chunk {chunk}"));
        }
        Ok(payload)
    }

    /// Returns the failure of a source that differs from what its table of contents says.
    pub(super) fn damaged<T>(&self, message: String) -> SourceResult<T> {
        of_read(Err(Error::corrupt(self.name, message)))
    }

    /// Returns the bytes of a delta chunk, verified.
    pub(super) fn rebuild(&self, delta_chunk: &ChunkRecord) -> SourceResult<ChunkBytes> {
        let chunks = &self.loaded.toc.chunks;
        let place = |chunk: &ChunkRecord| (chunk.region, chunk.offset);
        let first = chunks.partition_point(|chunk| place(chunk) < place(delta_chunk));
        let behind = chunks[first..].iter().position(|chunk| chunk == delta_chunk);
        let chunk = first + behind.unwrap_or_default();
        self.sources.read(self.class(), &Location::new(&self.loaded, chunk))
    }
}

/// Returns a container's name for messages.
pub(super) fn object(name: (Class, PartName)) -> ObjectName {
    ObjectName::Container(name.0, name.1)
}
