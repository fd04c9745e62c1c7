//! The space that a part of a repository takes.

use std::collections::HashSet;
use std::path::Path;

use cutpoint_storage::Result;

use super::locate::{
    ContainerLens, LIVE_CHUNK_LEN, LiveChunk, LiveSet, Locator, list_containers, staying,
};
use super::marking::mark_to_count;
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::recipe::{Content, Segment as RecipeSegment};
use crate::format::segment::Segment;
use crate::format::toc::{ChunkRecord, Form, Toc};
use crate::read::Reader;
use crate::util::extsort::SortedRecords;

/// The space that chunks take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Number of distinct chunks of files.
    pub data_chunk_count: u64,
    /// Total size of these chunks in bytes, before delta encoding and compression.
    pub data_bytes: u64,
    /// Bytes that these chunks take in their containers. A chunk has the share of its region that
    /// its length has, as if all chunks of a region shrank alike.
    pub stored_bytes: u64,
    /// Number of distinct chunks of trees and recipes.
    pub metadata_chunk_count: u64,
    /// Bytes that these chunks take in their containers.
    pub metadata_stored_bytes: u64,
}

/// The footprints of a part of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprints {
    /// The footprint of all chunks of the part.
    pub all: Footprint,
    /// The footprint of the chunks that no other snapshot has.
    pub exclusive: Footprint,
}

/// A folder or a file of a snapshot.
#[derive(Clone, Debug)]
pub enum Part {
    /// The tree of a folder.
    Folder(Content),
    /// The content of a file.
    File(Content),
}

/// Measures `part` of the snapshot `id`, and how much of it no other snapshot has. Snapshots that
/// are forgotten do not count. What chunks of the part refer to, as differences from another chunk,
/// is not part of it.
///
/// # Errors
///
/// Returns `Corrupt` or `Missing` if a tree, a recipe or a chunk cannot be found, any error of the
/// storage and of temporary files, and any error of `stop`, which is called often.
pub fn footprints(
    reader: &Reader,
    id: TicketId,
    part: &Part,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Footprints> {
    let view = reader.view();
    let folder = reader.repository().temporary_folder();
    let others: Vec<(TicketId, Content)> = view
        .snapshots()
        .into_iter()
        .filter(|(other, _)| *other != id)
        .map(|(other, snapshot)| (other, snapshot.root.clone()))
        .collect();
    let live = part.mark(reader, id, folder.as_deref(), stop)?;
    let of_others = mark_to_count(reader, &others, folder.as_deref(), &|_| stop())?;
    let exclusive = difference(&live, &of_others, folder.as_deref())?;
    let survey = Survey {
        reader,
        condemned: view.condemned(),
        there: list_containers(reader.repository())?,
        folder: folder.as_deref(),
        stop,
    };
    Ok(Footprints { all: survey.measure(&live)?, exclusive: survey.measure(&exclusive)? })
}

impl Part {
    /// Returns the chunks of the part.
    fn mark(
        &self,
        reader: &Reader,
        id: TicketId,
        folder: Option<&Path>,
        stop: &dyn Fn() -> Result<()>,
    ) -> Result<SortedRecords<LIVE_CHUNK_LEN>> {
        match self {
            Part::Folder(content) => {
                mark_to_count(reader, &[(id, content.clone())], folder, &|_| stop())
            }
            Part::File(content) => {
                let mut live = LiveSet::new(folder);
                for segment in reader.segments(content) {
                    stop()?;
                    if let RecipeSegment::Chunk { fingerprint, .. } = segment? {
                        live.push(Class::Data, &fingerprint)?;
                    }
                }
                Ok(live.finish())
            }
        }
    }
}

/// Returns the chunks of `live` that are not among `others`.
fn difference(
    live: &SortedRecords<LIVE_CHUNK_LEN>,
    others: &SortedRecords<LIVE_CHUNK_LEN>,
    folder: Option<&Path>,
) -> Result<SortedRecords<LIVE_CHUNK_LEN>> {
    let (mut iter, mut others) = (live.iter()?, others.iter()?);
    let mut found = LiveSet::new(folder);
    let mut other = others.next()?;
    while let Some(record) = iter.next()? {
        while other.is_some_and(|other| other < record) {
            other = others.next()?;
        }
        if other != Some(record) {
            let LiveChunk { class, fingerprint, .. } = LiveChunk::decode(&record);
            found.push(class, &fingerprint)?;
        }
    }
    // Reading to the end verifies the temporary file.
    while other.is_some() {
        other = others.next()?;
    }
    Ok(found.finish())
}

/// The containers in which chunks are measured.
struct Survey<'a> {
    reader: &'a Reader,
    condemned: HashSet<(Class, PartName)>,
    there: ContainerLens,
    folder: Option<&'a Path>,
    stop: &'a dyn Fn() -> Result<()>,
}

impl Survey<'_> {
    /// Measures the chunks `live`, each in one container.
    fn measure(&self, live: &SortedRecords<LIVE_CHUNK_LEN>) -> Result<Footprint> {
        let Survey { reader, condemned, there, folder, stop } = self;
        let index = reader.index();
        let locator = Locator {
            repository: reader.repository(),
            index,
            condemned,
            damaged: &reader.view().damaged(),
            orphans: &Segment::default(),
            there,
            folder: *folder,
            inlined_bytes_max: 0,
            stop_if_cancelled: *stop,
        };
        let placement = locator.locate(live)?;
        if let Some((class, fingerprint)) = placement.missing.first() {
            let message = "in no container; `cutpoint check` names the affected files";
            return Err(cutpoint_storage::Error::missing(
                format!("{class} chunk {fingerprint}"),
                message,
            ));
        }
        let mut footprint = Footprint::default();
        let mut by_container = placement.live()?;
        let containers = (0..).zip(&placement.containers);
        let wanted = containers
            .filter(|(_, container)| container.live_count > 0)
            .map(|(number, container)| ((number, container), Some(container.record)));
        index.each_toc(wanted, |(number, container), toc| {
            stop()?;
            let (class, part) = container.name();
            let name = ObjectName::Container(class, part);
            let Some(toc) = toc.transpose().map_err(|error| error.of(name))? else { return Ok(()) };
            let chunks = by_container.of(number)?;
            let reached = staying(&toc.toc, &chunks)
                .into_iter()
                .filter(|chunk| chunks[&chunk.fingerprint].is_reached);
            for chunk in reached {
                footprint.add(class, chunk, &toc.toc);
            }
            Ok(())
        })?;
        by_container.end()?;
        Ok(footprint)
    }
}

impl Footprint {
    fn add(&mut self, class: Class, chunk: &ChunkRecord, toc: &Toc) {
        let region = &toc.regions[usize::from(chunk.region)];
        let stored_bytes = u64::from(region.stored_len) * u64::from(chunk.payload_len)
            / u64::from(region.raw_len).max(1);
        match class {
            Class::Meta => {
                self.metadata_chunk_count += 1;
                self.metadata_stored_bytes += stored_bytes;
            }
            Class::Data => {
                self.data_chunk_count += u64::from(chunk.form != Form::Literal);
                self.data_bytes += u64::from(chunk.chunk_len);
                self.stored_bytes += stored_bytes;
            }
        }
    }
}
