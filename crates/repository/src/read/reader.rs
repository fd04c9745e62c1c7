//! Reading: from a fingerprint to bytes, and from a snapshot to its trees and recipes.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cutpoint_storage::{Error, Kind, Result};
use minicbor::Decoder;
use zstd::bulk::Decompressor;

use super::regions::{Claim, ReadStatistics, Regions};
use crate::crypto::{HEADER_LEN, Opener, PartKind};
use crate::format::extents::{self, Extent};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName};
use crate::format::recipe::{Content, RecipeChunk, Segment};
use crate::format::region::decode_region_into;
use crate::format::toc::{ChunkRecord, Codec};
use crate::format::tree::Entry;
use crate::index::{Index, Location, Scope};
use crate::repo::repository::Repository;
use crate::repo::view::View;

/// Maximum number of recently read chunks that are kept, because small files share them.
const CHUNKS_MAX: usize = 8;
/// Maximum number of openers (keys of containers) that are kept.
const OPENERS_MAX: usize = 256;

/// Reads and verifies chunks. Can be shared by threads, and takes no ticket (R1).
#[derive(Debug)]
pub struct Reader {
    pub(super) repository: Arc<Repository>,
    pub(super) index: Arc<Index>,
    view: Mutex<View>,
    /// Number of times a newer view was taken up.
    listings: AtomicU64,
    /// Set if the cached part of the index has been rebuilt.
    is_rebuilt: AtomicBool,
    pub(super) regions: Arc<Regions>,
    /// The chunks that were read last, all verified.
    chunks: Mutex<VecDeque<(Class, Fingerprint, ChunkBytes)>>,
    openers: Mutex<HashMap<(Class, PartName), Arc<Opener>>>,
}

/// The bytes of a chunk, inside a decoded region that other chunks share.
#[derive(Clone, Debug)]
pub struct ChunkBytes {
    region: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl ChunkBytes {
    /// Returns the payload of `record`, if `record` lies within the decoded `region`.
    pub(crate) fn of_record(region: &Arc<Vec<u8>>, record: &ChunkRecord) -> Option<ChunkBytes> {
        let start = record.offset as usize;
        let range = start..start + record.payload_len as usize;
        region.get(range.clone())?;
        Some(ChunkBytes { region: region.clone(), range })
    }
}

impl AsRef<[u8]> for ChunkBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::ops::Deref for ChunkBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.region[self.range.clone()]
    }
}

fn nowhere(class: Class, fingerprint: &Fingerprint) -> Error {
    let message = "not in any container listed in the index";
    Error::missing(format!("{class} chunk {fingerprint}"), message)
}

/// Returns the error of a delta chunk whose reference is not stored whole anywhere (rules C1 and C2).
pub(crate) fn no_full_chunk(class: Class, fingerprint: &Fingerprint) -> Error {
    let message = "a delta chunk refers to it, but no container listed in the index has it as a \
         full chunk";
    Error::missing(format!("{class} chunk {fingerprint}"), message)
}

/// Assembles the `extents` of a delta chunk of `container` from the full chunks that `whole` returns. Only
/// one full chunk is held at a time, because those of a hostile container may lie in 64 regions of 16
/// MiB.
///
/// # Errors
///
/// Returns any error of `whole`, and `Corrupt` if a full chunk is too short or an extent names a
/// reference that does not exist.
pub(crate) fn gather(
    container: ObjectName,
    extents: &[Extent],
    references: &[Fingerprint],
    mut whole: impl FnMut(&Fingerprint) -> Result<ChunkBytes>,
) -> Result<Vec<u8>> {
    let mut places: Vec<(&Extent, usize)> = Vec::with_capacity(extents.len());
    let mut len = 0;
    for extent in extents {
        places.push((extent, len));
        len += extent.len as usize;
    }
    places.sort_by_key(|(extent, _)| extent.reference);
    let mut bytes = vec![0; len];
    for of_one in places.chunk_by(|(left, _), (right, _)| left.reference == right.reference) {
        let Some(reference) = references.get(usize::from(of_one[0].0.reference)) else {
            return Err(Error::corrupt(
                container,
                "a delta chunk uses a reference that does not exist",
            ));
        };
        let whole = whole(reference)?;
        for (extent, at) in of_one {
            let start = extent.offset as usize;
            let Some(found) = whole.get(start..start + extent.len as usize) else {
                let message = format!(
                    "a delta chunk takes {} bytes at {start} of {reference}, which has {} bytes",
                    extent.len,
                    whole.len()
                );
                return Err(Error::corrupt(container, message));
            };
            bytes[*at..at + found.len()].copy_from_slice(found);
        }
    }
    Ok(bytes)
}

impl Reader {
    /// Creates a reader of what `view` names, through `index`.
    pub fn new(repository: Arc<Repository>, index: Arc<Index>, view: View) -> Reader {
        Reader {
            repository,
            index,
            view: Mutex::new(view),
            listings: AtomicU64::new(0),
            is_rebuilt: AtomicBool::new(false),
            regions: Arc::default(),
            chunks: Mutex::default(),
            openers: Mutex::default(),
        }
    }

    /// Opens a reader of `view`, which was just listed, or of a newer listing if segments of `view`
    /// have been deleted since (R3). Objects that cannot be read are in [`View::unreadable`] and
    /// [`Index::unreadable`]; everything else can be read.
    ///
    /// # Errors
    ///
    /// Returns any error of [`View::list`] or [`Index::open`].
    pub fn open(repository: Arc<Repository>, mut view: View) -> Result<Reader> {
        let index = Arc::new(Index::open_to_read(repository.clone(), &view)?);
        if index.unreadable().values().any(|error| error.kind() == Kind::Missing) {
            view = view.list_again(&repository)?;
            index.refresh(&view)?;
        }
        Ok(Reader::new(repository, index, view))
    }

    /// Returns the repository.
    pub fn repository(&self) -> &Arc<Repository> {
        &self.repository
    }

    /// Returns the index.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Returns the view of the latest listing.
    pub fn view(&self) -> View {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a chunk whose fingerprint has been verified (R4).
    ///
    /// # Errors
    ///
    /// Returns `Missing` if the index has no place for the chunk, and `Corrupt` if the stored bytes
    /// are not those of the chunk. Both are returned only after another listing and another attempt
    /// (R3), and `Missing` only from an index that this process has itself built from the segments.
    pub fn chunk(&self, class: Class, fingerprint: &Fingerprint) -> Result<ChunkBytes> {
        let lock = || self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it =
            |kept: &&(Class, Fingerprint, ChunkBytes)| kept.0 == class && kept.1 == *fingerprint;
        if let Some((.., chunk)) = lock().iter().find(is_it) {
            return Ok(chunk.clone());
        }
        let chunk = self.reread_chunk(class, fingerprint)?;
        let mut chunks = lock();
        if chunks.len() >= CHUNKS_MAX {
            chunks.pop_front();
        }
        chunks.push_back((class, *fingerprint, chunk.clone()));
        Ok(chunk)
    }

    fn reread_chunk(&self, class: Class, fingerprint: &Fingerprint) -> Result<ChunkBytes> {
        let listings = self.listings.load(Ordering::Acquire);
        let mut error = match self.try_chunk(class, fingerprint) {
            Ok(chunk) => return Ok(chunk),
            Err(error) => error,
        };
        if error.is_loss() && self.list_again(listings)? {
            error = match self.try_chunk(class, fingerprint) {
                Ok(chunk) => return Ok(chunk),
                Err(error) => error,
            };
        }
        if error.kind() == Kind::Missing && self.rebuild_index()? {
            return self.try_chunk(class, fingerprint);
        }
        Err(error)
    }

    /// Takes up a newer view, because a sweep may have moved the missing object. Returns `true` if
    /// any thread has done so since the listing number `listings`.
    fn list_again(&self, listings: u64) -> Result<bool> {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let newer = view.list_again(&self.repository)?;
        // Equal views are not enough: an unreadable segment may be readable now, and another thread
        // may have taken up a newer view since the attempt.
        let is_same = newer.commits.keys().eq(view.commits.keys())
            && newer.prunes.keys().eq(view.prunes.keys())
            && self.index.unreadable().is_empty();
        if is_same && self.listings.load(Ordering::Acquire) == listings {
            return Ok(false);
        }
        // The view is replaced only after the index: if the index fails, the next attempt must not
        // take the view for known.
        self.index.refresh(&newer)?;
        *view = newer;
        // A segment was swept since this listing.
        if self.index.unreadable().values().any(|error| error.kind() == Kind::Missing) {
            *view = view.list_again(&self.repository)?;
            self.index.refresh(&view)?;
        }
        self.listings.fetch_add(1, Ordering::Release);
        Ok(true)
    }

    /// Rebuilds the cached part of the index, because a damaged cache must not be taken for a loss.
    /// Returns `true` if another attempt may find more.
    fn rebuild_index(&self) -> Result<bool> {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        if self.index.rebuild()? {
            self.index.refresh(&view)?;
            self.is_rebuilt.store(true, Ordering::Release);
        }
        // Another thread may have rebuilt the index since the attempt.
        Ok(self.is_rebuilt.load(Ordering::Acquire))
    }

    /// Does the same as [`Reader::chunk`], but without another listing. Tries every place that the
    /// index has, because a chunk that is damaged in one place may have been stored again in
    /// another.
    pub(crate) fn try_chunk(&self, class: Class, fingerprint: &Fingerprint) -> Result<ChunkBytes> {
        self.try_places(class, fingerprint, nowhere, |_| true)
    }

    /// Does the same as [`Reader::try_chunk`] for the places that `accepts` admits. `nowhere` makes
    /// the error if there is none.
    fn try_places(
        &self,
        class: Class,
        fingerprint: &Fingerprint,
        nowhere: fn(Class, &Fingerprint) -> Error,
        accepts: impl Fn(&Location) -> bool,
    ) -> Result<ChunkBytes> {
        let (mut chunk, mut failure) = (None, None);
        let found = self.index.find_where(class, fingerprint, Scope::Read, |location| {
            if !accepts(location) {
                return Ok(false);
            }
            match self.read(class, location) {
                Ok(read) => chunk = Some(read),
                // The first failure is reported, because it concerns the place that should have
                // been read.
                Err(error) if error.is_loss() => failure = failure.take().or(Some(error)),
                Err(error) => return Err(error),
            }
            Ok(chunk.is_some())
        });
        match (chunk, found, failure) {
            (Some(chunk), ..) => Ok(chunk),
            (_, Err(error), _) if !error.is_loss() => Err(error),
            (_, _, Some(error)) | (_, Err(error), None) => Err(error),
            (_, Ok(_), None) => Err(nowhere(class, fingerprint)),
        }
    }

    /// Reads and verifies the chunk at `location`.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` or `Missing`, naming the container and the chunk's place. For a delta chunk,
    /// the error may be that of a full chunk that cannot be read.
    pub fn read(&self, class: Class, location: &Location) -> Result<ChunkBytes> {
        let chunk = self.unverified(class, location);
        let chunk = chunk.and_then(|bytes| self.verify(class, location, bytes));
        if location.is_full() || chunk.is_ok() {
            return chunk;
        }
        // The references may be stored elsewhere as well, so every place of each is tried.
        let rebuilt =
            self.rebuild(class, location, |reference| self.try_full_chunk(class, reference));
        self.verify(class, location, rebuilt?)
    }

    fn verify(&self, class: Class, location: &Location, bytes: ChunkBytes) -> Result<ChunkBytes> {
        let record = location.chunk();
        let found = self.repository.keys().fingerprint(class, &bytes);
        if found == record.fingerprint {
            return Ok(bytes);
        }
        Err(Error::corrupt(
            ObjectName::Container(class, location.container.name),
            format!(
                "region {}, chunk at byte {}: wrong fingerprint (found {found}, expected {})",
                record.region, record.offset, record.fingerprint
            ),
        ))
    }

    /// Returns the bytes of the chunk at `location`, not verified.
    pub(crate) fn unverified(&self, class: Class, location: &Location) -> Result<ChunkBytes> {
        if location.is_full() {
            self.payload(class, location)
        } else {
            self.rebuild(class, location, |reference| self.whole(class, reference))
        }
    }

    /// Returns the stored payload of the chunk at `location`, not verified. For a full chunk, these are
    /// its bytes.
    pub(crate) fn payload(&self, class: Class, location: &Location) -> Result<ChunkBytes> {
        let record = location.chunk();
        let region = self.region(class, location)?;
        ChunkBytes::of_record(&region, record).ok_or_else(|| {
            let name = ObjectName::Container(class, location.container.name);
            Error::corrupt(name, "a chunk is outside its region")
        })
    }

    /// Returns the extents of the delta chunk at `location`.
    pub(crate) fn extents(&self, class: Class, location: &Location) -> Result<Vec<Extent>> {
        let payload = self.payload(class, location)?;
        let (record, references) = (location.chunk(), location.references());
        extents::decode(&payload, record.chunk_len, references.len()).map_err(|error| {
            let name = ObjectName::Container(class, location.container.name);
            error.of(format!("{name}: region {}", record.region))
        })
    }

    /// Assembles the bytes of the delta chunk at `location` from the full chunks that `whole` returns.
    fn rebuild(
        &self,
        class: Class,
        location: &Location,
        whole: impl Fn(&Fingerprint) -> Result<ChunkBytes>,
    ) -> Result<ChunkBytes> {
        let name = ObjectName::Container(class, location.container.name);
        let extents = self.extents(class, location)?;
        let bytes = gather(name, &extents, location.references(), whole)?;
        let range = 0..bytes.len();
        Ok(ChunkBytes { region: Arc::new(bytes), range })
    }

    /// Returns the bytes of a full chunk from the first place that the index finds, not verified.
    pub(crate) fn whole(&self, class: Class, fingerprint: &Fingerprint) -> Result<ChunkBytes> {
        let found =
            self.index.find_where(class, fingerprint, Scope::Read, |found| Ok(found.is_full()))?;
        self.payload(class, &found.ok_or_else(|| no_full_chunk(class, fingerprint))?)
    }

    /// Returns the bytes of a full chunk, verified, from any of its places.
    pub(crate) fn try_full_chunk(
        &self,
        class: Class,
        fingerprint: &Fingerprint,
    ) -> Result<ChunkBytes> {
        self.try_places(class, fingerprint, no_full_chunk, Location::is_full)
    }

    /// Returns the decoded region that contains a chunk.
    fn region(&self, class: Class, location: &Location) -> Result<Arc<Vec<u8>>> {
        let (container, number) = (location.container.name, location.chunk().region);
        let (turn, fetched) = match self.regions.claim((class, container, number)) {
            Claim::Decoded(bytes) => return Ok(bytes),
            Claim::Turn(turn, fetched) => (turn, fetched),
        };
        let name = ObjectName::Container(class, container);
        let record = location.region();
        let opener = self.opener(class, container)?;
        let part = match fetched {
            Some(part) => part,
            None => {
                let (offset, len) = (u64::from(record.offset), record.stored_len as usize);
                let part = self.repository.storage().get_range(&name.to_string(), offset, len)?;
                self.regions.count_request(len);
                part
            }
        };
        let mut part = Vec::from(part);
        opener.open(PartKind::Region(u32::from(number)), &mut part)?;
        // A region that is stored uncompressed needs no second buffer.
        let room = if record.codec == Codec::Store { 0 } else { record.raw_len as usize };
        let (buffer, decompressor) = turn.take_tools(room);
        let mut decompressor = match decompressor {
            Some(decompressor) => decompressor,
            None => Decompressor::new().map_err(|error| Error::invalid("zstd", error))?,
        };
        let (codec, raw_len) = (record.codec, record.raw_len);
        let bytes = decode_region_into(&mut decompressor, codec, part, raw_len, buffer)
            .map_err(|error| error.of(format!("{name}: region {number}")))?;
        let bytes = Arc::new(bytes);
        turn.decoded(&bytes, decompressor);
        Ok(bytes)
    }

    /// Returns the read counters so far.
    pub fn statistics(&self) -> ReadStatistics {
        self.regions.statistics()
    }

    fn opener(&self, class: Class, container: PartName) -> Result<Arc<Opener>> {
        let lock = || self.openers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opener) = lock().get(&(class, container)) {
            return Ok(opener.clone());
        }
        let name = ObjectName::Container(class, container);
        let header = self.repository.storage().get_range(&name.to_string(), 0, HEADER_LEN)?;
        let opener = Arc::new(Opener::new(self.repository.keys(), name, &header)?);
        let mut openers = lock();
        if openers.len() >= OPENERS_MAX {
            openers.clear();
        }
        openers.insert((class, container), opener.clone());
        Ok(opener)
    }

    /// Returns the segments of a stream, in order. Recipes are read when the iterator needs them.
    ///
    /// # Errors
    ///
    /// An item is an error if a recipe cannot be read; the iterator then ends.
    pub fn segments<'a>(&'a self, content: &Content) -> Segments<'a> {
        let mut stack = Vec::new();
        let mut next = None;
        match content {
            Content::Empty | Content::Raw(_) => {}
            Content::Segments(segments) => stack.push((0, segments.clone().into_iter())),
            Content::Recipe(fingerprint) => next = Some((*fingerprint, None)),
        }
        Segments { reader: self, stack, next }
    }

    /// Returns the entries of a folder, in order. Trees are read when the iterator needs them.
    pub fn tree<'a>(&'a self, content: &Content) -> Entries<'a> {
        Entries {
            segments: self.segments(content),
            reader: self,
            chunk: None,
            position: 0,
            name_last: Vec::new(),
        }
    }
}

/// An iterator over the segments of a stream.
#[derive(Debug)]
pub struct Segments<'a> {
    reader: &'a Reader,
    stack: Vec<(u32, std::vec::IntoIter<Segment>)>,
    /// The next recipe chunk to read, with the level and the length that it must have.
    next: Option<(Fingerprint, Option<(u32, u64)>)>,
}

impl Segments<'_> {
    fn descend(&mut self) -> Result<()> {
        let Some((fingerprint, expected)) = self.next.take() else { return Ok(()) };
        let object = || format!("recipe {fingerprint}");
        let bytes = self.reader.chunk(Class::Meta, &fingerprint)?;
        let recipe = RecipeChunk::decode(&bytes).map_err(|error| error.of(object()))?;
        if let Some((level, length)) = expected {
            let found: u64 = recipe.segments.iter().map(Segment::length).sum();
            // The level falls by one at each step, so a walk ends whatever a chunk contains.
            if recipe.level != level || found != length {
                return Err(Error::corrupt(
                    object(),
                    format!(
                        "has level {} and {found} bytes (expected level {level} and {length} \
                         bytes)",
                        recipe.level
                    ),
                ));
            }
        }
        self.stack.push((recipe.level, recipe.segments.into_iter()));
        Ok(())
    }
}

impl Iterator for Segments<'_> {
    type Item = Result<Segment>;

    fn next(&mut self) -> Option<Result<Segment>> {
        loop {
            if let Err(error) = self.descend() {
                self.stack.clear();
                return Some(Err(error));
            }
            let (level, segments) = self.stack.last_mut()?;
            match (segments.next(), *level) {
                (None, _) => {
                    self.stack.pop();
                }
                (Some(segment), 0) => return Some(Ok(segment)),
                (Some(segment), level) => {
                    if let Segment::Chunk { fingerprint, length, .. } = segment {
                        self.next = Some((fingerprint, Some((level - 1, length))));
                    }
                }
            }
        }
    }
}

/// An iterator over the entries of a folder.
#[derive(Debug)]
pub struct Entries<'a> {
    reader: &'a Reader,
    segments: Segments<'a>,
    chunk: Option<ChunkBytes>,
    position: usize,
    name_last: Vec<u8>,
}

impl Entries<'_> {
    fn next_entry(&mut self) -> Result<Option<Entry>> {
        loop {
            if let Some(chunk) = &self.chunk {
                if self.position < chunk.len() {
                    let d = &mut Decoder::new(chunk);
                    d.set_position(self.position);
                    let entry = Entry::decode(d).map_err(|error| error.of("tree"))?;
                    self.position = d.position();
                    // Ascending names cannot repeat, and two folders can be compared in one pass.
                    if !self.name_last.is_empty() && self.name_last >= entry.name {
                        return Err(Error::corrupt("tree", "names are not in ascending order"));
                    }
                    self.name_last.clone_from(&entry.name);
                    return Ok(Some(entry));
                }
                self.chunk = None;
            }
            match self.segments.next().transpose()? {
                None => return Ok(None),
                Some(Segment::Chunk { fingerprint, offset: 0, length }) => {
                    let chunk = self.reader.chunk(Class::Meta, &fingerprint)?;
                    if chunk.len() as u64 != length {
                        return Err(Error::corrupt(
                            format!("tree {fingerprint}"),
                            format!("has {} bytes (expected {length})", chunk.len()),
                        ));
                    }
                    self.chunk = Some(chunk);
                    self.position = 0;
                }
                Some(_) => return Err(Error::corrupt("tree", "has holes")),
            }
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        let next = self.next_entry().transpose();
        if matches!(next, Some(Err(_))) {
            // Nothing that follows an error can be trusted.
            self.chunk = None;
            self.segments.stack.clear();
            self.segments.next = None;
        }
        next
    }
}
