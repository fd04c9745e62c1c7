//! The index, which leads from fingerprints to places.
//!
//! Only tables of contents are trusted. The index holds hints, and filters that avoid most lookups of
//! them. A hint leads to a container, whose table of contents is read and counts only if all 32 bytes
//! agree. A hint that is wrong, outdated or forged therefore costs a lookup or a second copy, but
//! no data. The cache of this machine is not trusted either: a damaged run is rebuilt from the
//! segments.

mod filter;
mod hints;
mod run;
mod tocs;
mod unnamed;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cutpoint_storage::{Error, Result};
use run::Run;
use tocs::TocCache;

use crate::crypto::{HEADER_LEN, Opener, PartKind, TRAILER_LEN, Trailer};
use crate::format::commit::Damage;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName};
use crate::format::segment::{ContainerRecord, Segment};
use crate::format::toc::{ChunkRecord, Form, RegionRecord, Toc};
use crate::repo::repository::{Repository, refuse_longer};
use crate::repo::view::View;
use crate::rules;
use crate::util::tolerance::Tolerance;

/// The opened table of contents of a container, and the place of the container.
#[derive(Debug)]
pub struct Loaded {
    /// The record of the container.
    pub container: ContainerRecord,
    /// The contents of the container.
    pub toc: Toc,
    /// The numbers of the chunks sorted by fingerprint, created if the table of contents is searched often.
    sorted: OnceLock<Vec<u32>>,
    lookup_count: AtomicU32,
}

/// Maximum number of linear searches of a table of contents; more of them would take longer than sorting
/// it.
const UNSORTED_LOOKUPS_MAX: u32 = 8;

impl Loaded {
    /// Reads the table of contents of a container of `stored_len` bytes.
    ///
    /// # Errors
    ///
    /// Returns a `Missing` or `Corrupt` error that names the container.
    pub(crate) fn read(
        repository: &Repository,
        class: Class,
        part: PartName,
        stored_len: u64,
    ) -> Result<Loaded> {
        Loaded::at(repository, read_record(repository, class, part, stored_len)?)
    }

    /// Reads the table of contents of a container whose place the index knows.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Loaded::read`].
    pub(crate) fn at(repository: &Repository, container: ContainerRecord) -> Result<Loaded> {
        let toc = load_toc(repository, &container)?;
        let has_delta_chunks = toc.has_delta_chunks();
        let container = ContainerRecord { has_delta_chunks, ..container };
        Ok(Loaded::new(container, toc))
    }

    fn new(container: ContainerRecord, toc: Toc) -> Loaded {
        let (sorted, lookup_count) = (OnceLock::new(), AtomicU32::new(0));
        Loaded { container, toc, sorted, lookup_count }
    }

    /// Returns the numbers of the records of a chunk, in the order of the table of contents.
    fn records(&self, fingerprint: &Fingerprint) -> Vec<usize> {
        let chunks = &self.toc.chunks;
        if self.sorted.get().is_none()
            && self.lookup_count.fetch_add(1, Ordering::Relaxed) < UNSORTED_LOOKUPS_MAX
        {
            let found = chunks.iter().enumerate();
            let found = found.filter(|(_, chunk)| chunk.fingerprint == *fingerprint);
            return found.map(|(number, _)| number).collect();
        }
        let sorted = self.sorted.get_or_init(|| {
            let mut numbers: Vec<u32> = (0..).take(chunks.len()).collect();
            numbers.sort_by_key(|number| chunks[*number as usize].fingerprint);
            numbers
        });
        let numbers = sorted.iter().map(|number| *number as usize);
        let start = sorted.partition_point(|at| chunks[*at as usize].fingerprint < *fingerprint);
        let found = numbers.skip(start);
        found.take_while(|number| chunks[*number].fingerprint == *fingerprint).collect()
    }

    /// Returns the index segment of this container.
    pub(crate) fn segment(&self) -> Segment {
        let chunks = self.toc.chunks.iter();
        let hints = chunks.map(|chunk| (chunk.fingerprint.hint(), 0)).collect();
        Segment { containers: vec![self.container], hints, ..Segment::default() }
    }
}

/// The place of a chunk.
#[derive(Clone, Debug)]
pub struct Location {
    /// The container that holds the chunk.
    pub container: ContainerRecord,
    /// The chunk's number in the table of contents.
    pub number: usize,
    chunk: ChunkRecord,
    /// The region that holds the chunk, without its references.
    region: RegionRecord,
    /// The table of contents; `None` if it was dropped after the whole had been found.
    loaded: Option<Arc<Loaded>>,
}

impl Location {
    /// Creates the location of the chunk with this number.
    ///
    /// # Panics
    ///
    /// Panics if the table of contents has no such chunk, or does not have its region.
    pub(crate) fn new(loaded: &Arc<Loaded>, number: usize) -> Location {
        let chunk = loaded.toc.chunks[number];
        let region = &loaded.toc.regions[usize::from(chunk.region)];
        let region = RegionRecord { references: Vec::new(), ..*region };
        let container = loaded.container;
        Location { container, number, chunk, region, loaded: Some(loaded.clone()) }
    }

    /// Returns the location of a whole without the table of contents.
    fn alone(&self) -> Location {
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
    fn place(&self) -> (PartName, usize) {
        (self.container.name, self.number)
    }

    /// Returns the region that holds the chunk, without its references.
    pub(crate) fn region(&self) -> &RegionRecord {
        &self.region
    }

    /// Returns the full chunks to which a delta chunk refers, by the numbers in its extents. May be empty
    /// for a full chunk.
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

/// Maximum number of damaged runs that are replaced by files. After that, runs are kept in memory,
/// because a failing disk is unsuitable for a cache.
const DAMAGED_RUNS_MAX: u32 = 16;

/// Finds chunks. Can be shared by threads.
#[derive(Debug)]
pub struct Index {
    repository: Arc<Repository>,
    /// The folder of the runs; `None` to keep them in memory.
    folder: Option<PathBuf>,
    purpose: Purpose,
    state: Mutex<State>,
}

/// The treatment of containers that only an unreadable object may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Such containers do not count (W2), so that their chunks are stored again, which heals
    /// losses.
    Write,
    /// The tables of contents of such containers are read.
    Read,
}

#[derive(Debug, Default)]
struct State {
    runs: Vec<Arc<Run>>,
    /// Containers that no readable segment names, and the unreadable objects that made the search
    /// for them necessary.
    unnamed: Option<Arc<Run>>,
    hiding: BTreeSet<ObjectName>,
    /// Number of runs whose files were damaged.
    damaged_run_count: u32,
    tocs: TocCache,
    condemned: HashSet<(Class, PartName)>,
    damaged: HashSet<Damage>,
    unreadable: BTreeMap<ObjectName, Arc<Error>>,
    /// Segments that were added by [`Index::add`], which no view names yet.
    own: BTreeSet<PartName>,
}

/// The size of an index.
#[derive(Clone, Copy, Debug, Default)]
pub struct IndexStatistics {
    /// Number of hints: one for each place of a chunk.
    pub hint_count: u64,
    /// Number of containers.
    pub container_count: u64,
    /// The memory of the index without tables of contents and container tables, in bytes.
    pub memory_bytes: u64,
    /// The approximate memory of the cached tables of contents, in bytes.
    pub toc_bytes: u64,
}

impl Index {
    /// Opens the index of the segments of `view`, for a writer. A segment that cannot be read does
    /// not stop the others. It is added to [`Index::unreadable`], and chunks that only it names are
    /// not found.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the storage fails for more segments than single bad sectors
    /// explain.
    pub fn open(repository: Arc<Repository>, view: &View) -> Result<Index> {
        let folder = cache_folder(&repository);
        Index::with_folder(repository, folder, Purpose::Write, view)
    }

    /// Opens the index for a reader. Containers that may be named only by a segment, commit or
    /// prune record that cannot be read are included, because their own tables of contents list their
    /// contents. Each such table of contents has to be read.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Index::open`].
    pub fn open_to_read(repository: Arc<Repository>, view: &View) -> Result<Index> {
        let folder = cache_folder(&repository);
        Index::with_folder(repository, folder, Purpose::Read, view)
    }

    /// Opens the index for a reader, as [`Index::open_to_read`] does, without the cache of this
    /// machine.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Index::open`].
    pub fn open_without_cache(repository: Arc<Repository>, view: &View) -> Result<Index> {
        Index::with_folder(repository, None, Purpose::Read, view)
    }

    /// Creates an index that finds only what is added to it, and does not use the cache.
    pub(crate) fn empty(repository: Arc<Repository>) -> Index {
        Index { repository, folder: None, purpose: Purpose::Write, state: Mutex::default() }
    }

    fn with_folder(
        repository: Arc<Repository>,
        folder: Option<PathBuf>,
        purpose: Purpose,
        view: &View,
    ) -> Result<Index> {
        let index = Index { repository, folder, purpose, state: Mutex::default() };
        if let Some(folder) = &index.folder {
            let now_ns = index.repository.environment().now_ns();
            index.lock().runs = run::open_all(folder, &view.segments(), now_ns);
        }
        index.refresh(view)?;
        Ok(index)
    }

    /// Returns a second index with the present state of this one. The two share the large parts,
    /// which are the filters and files of the runs. Neither waits for lookups of the other or drops
    /// its tables of contents, and segments that one adds later are unknown to the other.
    #[must_use]
    pub fn fork(&self) -> Index {
        let state = self.lock();
        let forked = State {
            runs: state.runs.clone(),
            unnamed: state.unnamed.clone(),
            hiding: state.hiding.clone(),
            condemned: state.condemned.clone(),
            damaged: state.damaged.clone(),
            unreadable: state.unreadable.clone(),
            own: state.own.clone(),
            ..State::default()
        };
        Index {
            repository: self.repository.clone(),
            folder: self.folder.clone(),
            purpose: self.purpose,
            state: Mutex::new(forked),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked left no partial state that could mislead a lookup.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the index to the segments of a newer view.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Index::open`].
    pub fn refresh(&self, view: &View) -> Result<()> {
        let live = view.segments();
        let mut runs: Vec<Arc<Run>> = Vec::new();
        let mut unreadable = BTreeMap::new();
        let mut tolerance = Tolerance::default();
        let mut state = loop {
            let state = self.lock();
            let kept = state.runs.iter().filter(|run| state.is_live(run, &live)).chain(&runs);
            let covered: BTreeSet<PartName> =
                kept.flat_map(|run| run.covers().iter().copied()).collect();
            let is_open = |name: &&PartName| {
                !covered.contains(*name) && !unreadable.contains_key(&ObjectName::Segment(**name))
            };
            let Some(name) = live.iter().find(is_open).copied() else { break state };
            // The lock is released while a segment is read. Other threads may look up chunks, and
            // merge runs that were counted, so the loop starts over.
            let folder = self.folder(&state);
            drop(state);
            let object = ObjectName::Segment(name);
            match self.repository.read(object, Segment::decode) {
                Ok(segment) => runs.push(Arc::new(Run::create(folder, name, &segment))),
                Err(error) => {
                    unreadable.insert(object, Arc::new(tolerance.of_one(error)?));
                }
            }
        };
        // The state is replaced at once, so that a concurrent lookup sees the previous state.
        let mut kept = std::mem::take(&mut state.runs);
        kept.retain(|run| state.is_live(run, &live));
        state.runs = kept;
        state.condemned = view.condemned();
        state.damaged = view.damaged();
        state.unreadable = unreadable;
        for run in runs {
            self.push(&mut state, run)?;
        }
        drop(state);
        if self.purpose == Purpose::Read { self.take_up_unnamed(view, tolerance) } else { Ok(()) }
    }

    /// Looks for containers that may be named only by objects that cannot be read.
    fn take_up_unnamed(&self, view: &View, tolerance: Tolerance) -> Result<()> {
        let (hiding, named) = {
            let mut state = self.lock();
            let hiding: BTreeSet<ObjectName> = view
                .unresolved()
                .map(|(name, _)| *name)
                .chain(state.unreadable.keys().copied())
                .collect();
            // The containers were looked for already, or there is no need to.
            if hiding == state.hiding {
                return Ok(());
            }
            if hiding.is_empty() {
                (state.unnamed, state.hiding) = (None, hiding);
                return Ok(());
            }
            let named = state.runs.iter().flat_map(|run| run.containers());
            let named: HashSet<_> = named.map(|c| (c.class, c.name)).collect();
            (hiding, named)
        };
        let hidden = view.hidden(&hiding);
        let unnamed = unnamed::look_for(&self.repository, &hidden, &named, tolerance)?;
        let mut state = self.lock();
        (state.unnamed, state.hiding) = (Some(Arc::new(unnamed)), hiding);
        Ok(())
    }

    /// Reads the segments again whose runs an earlier process had cached, because the cache may
    /// differ from the segments although it looks undamaged. Returns `true` if there were such
    /// runs. Afterwards, [`Index::refresh`] adds containers that only an unreadable segment names.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Index::open`].
    pub fn rebuild(&self) -> Result<bool> {
        let mut state = self.lock();
        let runs = std::mem::take(&mut state.runs);
        let (found, made): (Vec<_>, Vec<_>) = runs.into_iter().partition(|run| run.is_found());
        state.runs = made;
        found.iter().for_each(|run| run.remove_file());
        let segments = found.iter().flat_map(|run| run.covers()).copied().collect();
        self.read_again(&mut state, segments)?;
        Ok(!found.is_empty())
    }

    /// Returns the segments of the view that could not be read, with the errors. A segment that is
    /// missing may have been replaced in the meantime, which a newer view shows.
    pub fn unreadable(&self) -> BTreeMap<ObjectName, Arc<Error>> {
        self.lock().unreadable.clone()
    }

    /// Returns the containers to which hints lead for a chunk. Some of them may not have the chunk,
    /// because a hint is short.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the cache is damaged, and the storage fails as well.
    pub fn places(&self, class: Class, fingerprint: &Fingerprint) -> Result<Vec<PartName>> {
        let candidates = self.candidates(&mut self.lock(), class, fingerprint)?;
        Ok(candidates.into_iter().map(|(_, container)| container.name).collect())
    }

    /// Returns the containers to which hints lead for a chunk, without repetition and sorted by
    /// name, each with `true` if it is condemned. Condemned ones come last, because they may
    /// disappear at any time.
    fn candidates(
        &self,
        state: &mut State,
        class: Class,
        fingerprint: &Fingerprint,
    ) -> Result<Vec<(bool, ContainerRecord)>> {
        let hint = fingerprint.hint();
        loop {
            let mut found = Vec::new();
            let damaged = state.all_runs().position(|run| run.find(hint, &mut found).is_err());
            let Some(damaged) = damaged else {
                found.retain(|container| container.class == class);
                let is_condemned =
                    |record: &ContainerRecord| state.is_condemned(class, record.name);
                let mut found: Vec<_> =
                    found.into_iter().map(|it| (is_condemned(&it), it)).collect();
                found.sort_by_key(|(is_condemned, container)| (*is_condemned, container.name));
                found.dedup_by_key(|(_, container)| container.name);
                return Ok(found);
            };
            // The damaged run is in a file, whereas the run of unnamed containers is in memory and
            // comes last.
            let damaged = state.runs.swap_remove(damaged);
            let segments = state.drop_damaged(&damaged);
            self.read_again(state, segments)?;
        }
    }

    /// Adds a segment that the caller has just put.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Index::places`].
    pub fn add(&self, name: PartName, segment: &Segment) -> Result<()> {
        let mut state = self.lock();
        let folder = self.folder(&state);
        drop(state);
        let run = Arc::new(Run::create(folder, name, segment));
        state = self.lock();
        state.own.insert(name);
        self.push(&mut state, run)
    }

    /// Returns the folder in which runs are kept at present.
    fn folder(&self, state: &State) -> Option<&Path> {
        self.folder.as_deref().filter(|_| state.damaged_run_count < DAMAGED_RUNS_MAX)
    }

    fn push(&self, state: &mut State, run: Arc<Run>) -> Result<()> {
        state.runs.push(run);
        let segments = self.merge(state);
        self.read_again(state, segments)
    }

    /// Merges runs. Returns the segments of damaged runs that were dropped.
    fn merge(&self, state: &mut State) -> Vec<PartName> {
        let mut segments = Vec::new();
        while let Some(damaged) = run::merge_tiers(self.folder(state), &mut state.runs) {
            segments.extend(state.drop_damaged(&damaged));
        }
        segments
    }

    /// Reads segments again whose runs were dropped. Other threads have to wait, because their
    /// lookups would miss the hints of these segments.
    fn read_again(&self, state: &mut State, mut segments: Vec<PartName>) -> Result<()> {
        let mut tolerance = Tolerance::default();
        while let Some(name) = segments.pop() {
            let object = ObjectName::Segment(name);
            match self.repository.read(object, Segment::decode) {
                Ok(segment) => {
                    let run = Run::create(self.folder(state), name, &segment);
                    state.runs.push(Arc::new(run));
                    segments.extend(self.merge(state));
                }
                Err(error) => {
                    state.unreadable.insert(object, Arc::new(tolerance.of_one(error)?));
                }
            }
        }
        Ok(())
    }

    /// Looks up a chunk.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` or `Missing` error if a container to which a hint leads cannot be
    /// opened, and no other place has the chunk.
    pub fn find(
        &self,
        class: Class,
        fingerprint: &Fingerprint,
        scope: Scope,
    ) -> Result<Option<Location>> {
        self.find_where(class, fingerprint, scope, |_| Ok(true))
    }

    /// Offers the places of a chunk to `accepts` until it accepts one. Each place is offered once,
    /// and no lock is held meanwhile. A chunk can have several places, because a damaged chunk is
    /// stored again elsewhere.
    ///
    /// Full chunks come before delta chunks; otherwise, the order is that of the containers' names.
    /// Condemned containers come last. A recently used place comes first of all, but never a
    /// delta chunk if a writer asks: the form that is found must not depend on earlier lookups,
    /// because the stored data depends on it.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Index::find`] and of `accepts`.
    pub fn find_where(
        &self,
        class: Class,
        fingerprint: &Fingerprint,
        scope: Scope,
        mut accepts: impl FnMut(&Location) -> Result<bool>,
    ) -> Result<Option<Location>> {
        // A condemned container may disappear at any time, so that a reader uses it only if there
        // is no other place.
        let recent = {
            let mut state = self.lock();
            let found = state.tocs.find(fingerprint);
            found.filter(|location| {
                state.allows(location, class, scope)
                    && !state.is_condemned(class, location.container.name)
                    && (scope == Scope::Read || location.is_full())
            })
        };
        if let Some(recent) = &recent
            && accepts(recent)?
        {
            return Ok(Some(recent.clone()));
        }
        let offered = recent.map(|recent| recent.place());
        let candidates = self.candidates(&mut self.lock(), class, fingerprint)?;
        let mut failure = None;
        for group in candidates.chunk_by(|(one, _), (other, _)| one == other) {
            let mut delta_chunks = Vec::new();
            for (_, container) in group {
                if scope == Scope::Write && self.lock().is_condemned(class, container.name) {
                    continue;
                }
                let loaded = match self.load(*container) {
                    Ok(loaded) => loaded,
                    Err(error) => {
                        failure = Some(error);
                        continue;
                    }
                };
                for chunk in loaded.records(fingerprint) {
                    let location = Location::new(&loaded, chunk);
                    let is_offered = offered == Some(location.place());
                    if is_offered || !self.lock().allows(&location, class, scope) {
                        continue;
                    }
                    if !location.is_full() {
                        delta_chunks.push(location);
                    } else if accepts(&location)? {
                        self.lock().tocs.remember(&location);
                        return Ok(Some(location));
                    }
                }
            }
            for delta_chunk in delta_chunks {
                if accepts(&delta_chunk)? {
                    return Ok(Some(delta_chunk));
                }
            }
        }
        // A writer stores a chunk again that it cannot confirm, whereas a reader has to know the
        // error.
        match failure {
            Some(error) if scope == Scope::Read => Err(error),
            _ => Ok(None),
        }
    }

    /// Returns the table of contents of a container.
    fn load(&self, container: ContainerRecord) -> Result<Arc<Loaded>> {
        if let Some(loaded) = self.lock().tocs.get(container.name, container.class) {
            return Ok(loaded);
        }
        // No lock is held, so that other threads need not wait for the storage. Two threads may read
        // the same table of contents, which does no harm.
        let loaded = Arc::new(Loaded::at(&self.repository, container)?);
        self.lock().tocs.insert(loaded.clone());
        Ok(loaded)
    }

    /// Returns the table of contents of a container to which a writer may refer.
    ///
    /// # Errors
    ///
    /// Returns a `Missing` or `Corrupt` error that names the container.
    pub(crate) fn container(&self, class: Class, name: PartName) -> Result<Option<Arc<Loaded>>> {
        let found = {
            let state = self.lock();
            let mut all = state.all_runs().flat_map(|run| run.containers());
            let found = all.find(|record| (record.class, record.name) == (class, name)).copied();
            found.filter(|_| !state.is_condemned(class, name))
        };
        found.map(|record| self.load(record)).transpose()
    }

    /// Returns `true` if the writer of this index has stored the chunk at `location`.
    pub(crate) fn is_own(&self, location: &Location) -> bool {
        let ticket = location.container.name.ticket;
        self.lock().own.iter().any(|segment| segment.ticket == ticket)
    }

    /// Returns every place of a chunk that readers may use, and the error that hides others, if
    /// any.
    pub(crate) fn locations(
        &self,
        class: Class,
        fingerprint: &Fingerprint,
    ) -> (Vec<Location>, Option<Error>) {
        let mut found = Vec::new();
        let failure = self.find_where(class, fingerprint, Scope::Read, |location| {
            found.push(location.clone());
            Ok(false)
        });
        (found, failure.err())
    }

    /// Returns all containers that the index knows.
    pub fn containers(&self) -> Vec<ContainerRecord> {
        let state = self.lock();
        let mut seen = HashSet::new();
        let all = state.all_runs().flat_map(|run| run.containers().iter().copied());
        all.filter(|container| seen.insert((container.class, container.name))).collect()
    }

    /// Returns the size of the index.
    pub fn statistics(&self) -> IndexStatistics {
        let state = self.lock();
        IndexStatistics {
            hint_count: state.all_runs().map(Run::hint_count).sum(),
            container_count: state.all_runs().map(|run| run.containers().len() as u64).sum(),
            memory_bytes: state.all_runs().map(Run::memory_bytes).sum(),
            toc_bytes: state.tocs.bytes(),
        }
    }
}

/// Returns the folder in which the runs of a repository are kept.
fn cache_folder(repository: &Repository) -> Option<PathBuf> {
    repository.cache().map(|cache| cache.join("index"))
}

impl State {
    fn all_runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().chain(&self.unnamed).map(|run| &**run)
    }

    /// Removes the file of a damaged run, which has been taken off the list. Returns the segments
    /// that the run covered.
    fn drop_damaged(&mut self, damaged: &Run) -> Vec<PartName> {
        damaged.remove_file();
        self.damaged_run_count += 1;
        damaged.covers().to_vec()
    }

    /// Returns `true` if every segment that a run covers counts: it is in `live`, the segments of a
    /// view, or was added by this process.
    fn is_live(&self, run: &Run, live: &BTreeSet<PartName>) -> bool {
        run.covers().iter().all(|segment| live.contains(segment) || self.own.contains(segment))
    }

    fn allows(&self, location: &Location, class: Class, scope: Scope) -> bool {
        let container = &location.container;
        if container.class != class {
            return false;
        }
        if scope == Scope::Read {
            return true;
        }
        let damage =
            Damage { class, container: container.name, fingerprint: location.chunk().fingerprint };
        !self.is_condemned(class, container.name) && !self.damaged.contains(&damage)
    }

    fn is_condemned(&self, class: Class, container: PartName) -> bool {
        !rules::may_use_condemned() && self.condemned.contains(&(class, container))
    }
}

/// Returns the index record of a container of `stored_len` bytes, as far as its trailer tells. The
/// trailer does not tell whether the container has delta chunks.
///
/// # Errors
///
/// Returns a `Missing` or `Corrupt` error that names the container.
pub(crate) fn read_record(
    repository: &Repository,
    class: Class,
    part: PartName,
    stored_len: u64,
) -> Result<ContainerRecord> {
    let name = ObjectName::Container(class, part);
    refuse_longer(name, stored_len)?;
    let offset = stored_len.saturating_sub(TRAILER_LEN as u64);
    let bytes = repository.storage().get_range(&name.to_string(), offset, TRAILER_LEN)?;
    let trailer = Trailer::decode(&name, &bytes, stored_len)?;
    let number = |number: u64| {
        u32::try_from(number).map_err(|_| Error::corrupt(name, format!("{number} is too large")))
    };
    Ok(ContainerRecord {
        name: part,
        class,
        has_delta_chunks: false,
        stored_len: number(stored_len)?,
        toc_offset: number(trailer.offset)?,
        toc_len: trailer.length,
    })
}

/// Reads and opens the table of contents of a container.
///
/// # Errors
///
/// Returns a `Missing` or `Corrupt` error that names the container.
pub fn load_toc(repository: &Repository, container: &ContainerRecord) -> Result<Toc> {
    let name = ObjectName::Container(container.class, container.name);
    let path = name.to_string();
    let storage = repository.storage();
    let header = storage.get_range(&path, 0, HEADER_LEN)?;
    let opener = Opener::new(repository.keys(), name, &header)?;
    let offset = u64::from(container.toc_offset);
    let length = container.toc_len;
    if offset + u64::from(length) > u64::from(container.stored_len) {
        return Err(Error::corrupt(
            name,
            "the index lists a table of contents beyond the end of its container",
        ));
    }
    let mut part = storage.get_range(&path, offset, length as usize)?.to_vec();
    opener.open(PartKind::Toc, &mut part)?;
    Toc::decode(&part, offset).map_err(|error| error.of(name))
}
