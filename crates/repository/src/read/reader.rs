//! The reader: from a fingerprint to the verified bytes of its chunk.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cutpoint_storage::{Error, Kind, Result};

use super::assemble::{gather, no_full_chunk};
use super::chunk_bytes::ChunkBytes;
use super::regions::Regions;
use crate::crypto::Opener;
use crate::format::extents::{self, Extent};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName};
use crate::index::{Index, Location, Scope};
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::rules;

/// Maximum number of recently read chunks that are kept, because small files share them.
const CHUNKS_MAX: usize = 8;

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
    pub(super) openers: Mutex<HashMap<(Class, PartName), Arc<Opener>>>,
}

fn nowhere(class: Class, fingerprint: &Fingerprint) -> Error {
    let message = "not in any container listed in the index";
    Error::missing(format!("{class} chunk {fingerprint}"), message)
}

/// The result of another listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relisted {
    /// Nothing has changed, so another attempt finds nothing new.
    Same,
    /// Nothing has changed, but a segment could not be read, and may be readable now.
    Unreadable,
    /// There is a newer view.
    Newer,
}

/// Returns `true` if two views have the same commits and prune records.
fn has_same_names(one: &View, other: &View) -> bool {
    one.commits.keys().eq(other.commits.keys()) && one.prunes.keys().eq(other.prunes.keys())
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
        for _ in 0..rules::listings_max() {
            if !index.unreadable().values().any(|error| error.kind() == Kind::Missing) {
                break;
            }
            let newer = view.list_again(&repository)?;
            let is_same = has_same_names(&newer, &view);
            view = newer;
            index.refresh(&view)?;
            if is_same {
                break;
            }
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

    /// Lists the repository again, and returns the view of that listing. Snapshots that were
    /// committed meanwhile can be read from then on.
    ///
    /// # Errors
    ///
    /// Returns any error of [`View::list`] or [`Index::refresh`].
    pub fn refresh(&self) -> Result<View> {
        self.list_again(self.listings.load(Ordering::Acquire)).map(|_| self.view())
    }

    /// Returns a chunk whose fingerprint has been verified (R4).
    ///
    /// # Errors
    ///
    /// Returns `Missing` if the index has no place for the chunk, and `Corrupt` if the stored bytes
    /// are not those of the chunk. Both are returned only after another listing has shown nothing new,
    /// or after several further attempts (R3), and `Missing` only from an index that this process has itself built from the segments.
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

    /// Decodes the regions that a chunk needs, that of the chunk and those of the full chunks that it
    /// copies from, so that [`Reader::chunk`] will find them decoded. The chunk itself may be damaged
    /// or missing nevertheless.
    ///
    /// # Errors
    ///
    /// Returns the error of the first place that the index has, without another listing.
    pub fn prepare(&self, class: Class, fingerprint: &Fingerprint) -> Result<()> {
        let found = self.index.find_where(class, fingerprint, Scope::Read, |_| Ok(true))?;
        let Some(location) = found else { return Err(nowhere(class, fingerprint)) };
        if location.is_full() {
            return self.region(class, &location).map(drop);
        }
        let extents = self.extents(class, &location)?;
        let numbers: BTreeSet<u16> = extents.iter().map(|extent| extent.reference).collect();
        let references =
            numbers.iter().filter_map(|at| location.references().get(usize::from(*at)));
        for reference in references {
            let is_full = |found: &Location| Ok(found.is_full());
            if let Some(found) = self.index.find_where(class, reference, Scope::Read, is_full)? {
                self.region(class, &found)?;
            }
        }
        Ok(())
    }

    fn reread_chunk(&self, class: Class, fingerprint: &Fingerprint) -> Result<ChunkBytes> {
        let mut left = rules::listings_max();
        let error = loop {
            let listings = self.listings.load(Ordering::Acquire);
            let error = match self.try_chunk(class, fingerprint) {
                Ok(chunk) => return Ok(chunk),
                Err(error) => error,
            };
            if !error.is_loss() || left == 0 {
                break error;
            }
            left -= 1;
            match self.list_again(listings)? {
                Relisted::Same => break error,
                Relisted::Unreadable => left = 0,
                // Another prune and sweep may come before the next attempt.
                Relisted::Newer => {}
            }
        };
        if error.kind() == Kind::Missing && self.rebuild_index()? {
            return self.try_chunk(class, fingerprint);
        }
        Err(error)
    }

    /// Takes up a newer view, because a sweep may have moved the missing object. A view that any
    /// thread has taken up since the listing number `listings` is newer as well.
    fn list_again(&self, listings: u64) -> Result<Relisted> {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let newer = view.list_again(&self.repository)?;
        let is_newer =
            !has_same_names(&newer, &view) || self.listings.load(Ordering::Acquire) != listings;
        // An unreadable segment may be readable now.
        if !is_newer && self.index.unreadable().is_empty() {
            return Ok(Relisted::Same);
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
        Ok(if is_newer { Relisted::Newer } else { Relisted::Unreadable })
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
    /// Returns `Corrupt` or `Missing`, naming the container and the chunk's place. For a delta
    /// chunk, the error may be that of a full chunk that cannot be read.
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
            self.rebuild(class, location, |reference| self.full_chunk(class, reference))
        }
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

    /// Assembles the bytes of the delta chunk at `location` from the full chunks that `full_chunk`
    /// returns.
    fn rebuild(
        &self,
        class: Class,
        location: &Location,
        full_chunk: impl Fn(&Fingerprint) -> Result<ChunkBytes>,
    ) -> Result<ChunkBytes> {
        let name = ObjectName::Container(class, location.container.name);
        let extents = self.extents(class, location)?;
        let bytes = gather(name, &extents, location.references(), full_chunk)?;
        Ok(ChunkBytes::from(bytes))
    }

    /// Returns the bytes of a full chunk from the first place that the index finds, not verified.
    pub(crate) fn full_chunk(&self, class: Class, fingerprint: &Fingerprint) -> Result<ChunkBytes> {
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
}
