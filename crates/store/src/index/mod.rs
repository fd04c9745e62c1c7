//! The index: from a fingerprint to a place.
//!
//! Only directories are believed. The index holds hints, and filters that spare a look at them: a
//! hint leads to a container whose directory is read and counts only where all 32 bytes agree. So
//! a hint that is false, old or made up by somebody costs a lookup or a second copy, and no data.

mod directories;
mod filter;
mod run;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result, Tolerance};
use crate::fingerprint::{Class, Fingerprint};
use crate::format::commit::Damage;
use crate::format::directory::{ChunkRecord, Directory, Form, RegionRecord};
use crate::format::segment::{ContainerRecord, Segment};
use crate::name::{ObjectName, PartName};
use crate::repository::Repository;
use crate::seal::{HEADER_LEN, Opener, PartKind};
use crate::view::View;
#[cfg(feature = "mutants")]
use crate::writer::mutant::{self, Mutant};
use directories::Directories;
use run::Run;

/// A container's directory, opened, and where the container is.
#[derive(Debug)]
pub struct Loaded {
    /// The container.
    pub container: ContainerRecord,
    /// What it holds.
    pub directory: Directory,
}

/// Where a chunk is.
#[derive(Clone, Debug)]
pub struct Location {
    /// In which container.
    pub loaded: Arc<Loaded>,
    /// The chunk's number in the directory.
    pub chunk: usize,
}

impl Location {
    /// The chunk's record.
    pub fn chunk(&self) -> &ChunkRecord {
        &self.loaded.directory.chunks[self.chunk]
    }

    /// The region that the chunk is in.
    pub fn region(&self) -> &RegionRecord {
        &self.loaded.directory.regions[usize::from(self.chunk().region)]
    }
}

/// Which containers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those that a writer may refer to (rule W2): not condemned, the record not known as damaged.
    Write,
    /// All that exist (rule R2).
    Read,
}

/// Finds chunks. Shared by threads.
#[derive(Debug)]
pub struct Index {
    repository: Arc<Repository>,
    /// Where runs are kept; in memory without.
    folder: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    runs: Vec<Run>,
    directories: Directories,
    condemned: HashSet<(Class, PartName)>,
    damaged: HashSet<Damage>,
    unreadable: BTreeMap<ObjectName, Arc<Error>>,
    /// Segments that came by [`Index::add`]: no view names them yet.
    own: BTreeSet<PartName>,
}

/// Sizes of an index.
#[derive(Clone, Copy, Debug, Default)]
pub struct IndexStatistics {
    /// Hints: chunks, each place counted.
    pub hint_count: u64,
    /// Containers.
    pub container_count: u64,
    /// What the index holds in memory, directories and container tables apart, in bytes.
    pub memory_bytes: u64,
    /// What the cached directories take, in bytes, about.
    pub directory_bytes: u64,
}

impl Index {
    /// The index of what `view` names. A segment that cannot be read does not stop the others: it
    /// is in [`Index::unreadable`], and what only it names is not found.
    ///
    /// # Errors
    ///
    /// `Media` where the cache cannot be written and there is no memory either, or where the medium
    /// fails for so many segments that it is to blame itself.
    pub fn open(repository: Arc<Repository>, view: &View) -> Result<Index> {
        let folder = repository.cache().map(|cache| cache.join("index"));
        Index::with_folder(repository, folder, view)
    }

    /// The same from the segments alone, whatever the cache of this machine has.
    ///
    /// # Errors
    ///
    /// As [`Index::open`].
    pub fn open_without_cache(repository: Arc<Repository>, view: &View) -> Result<Index> {
        Index::with_folder(repository, None, view)
    }

    fn with_folder(
        repository: Arc<Repository>,
        folder: Option<PathBuf>,
        view: &View,
    ) -> Result<Index> {
        let index = Index { repository, folder, state: Mutex::default() };
        if let Some(folder) = &index.folder {
            index.lock().runs = run::open_all(folder, &view.segments());
        }
        index.refresh(view)?;
        Ok(index)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked left nothing half done that a lookup could trip over.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up what a newer view names.
    ///
    /// # Errors
    ///
    /// As [`Index::open`].
    pub fn refresh(&self, view: &View) -> Result<()> {
        let live = view.segments();
        let mut runs: Vec<Run> = Vec::new();
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
            // Others look up meanwhile, and may merge what was counted on: hence the loop.
            drop(state);
            let object = ObjectName::Segment(name);
            match self.repository.read(object, Segment::decode) {
                Ok(segment) => runs.push(self.run(name, &segment)?),
                Err(error) => {
                    unreadable.insert(object, Arc::new(tolerance.of_one(error)?));
                }
            }
        };
        // All at once: a lookup meanwhile found what it found before.
        let mut kept = std::mem::take(&mut state.runs);
        kept.retain(|run| state.is_live(run, &live));
        state.runs = kept;
        state.condemned = view.condemned();
        state.damaged = view.damaged();
        state.unreadable = unreadable;
        for run in runs {
            self.push(&mut state, run)?;
        }
        Ok(())
    }

    /// The segments of the view that could not be read when it was taken up, and why. One that is
    /// missing may have been replaced since: a newer view tells.
    pub fn unreadable(&self) -> BTreeMap<ObjectName, Arc<Error>> {
        self.lock().unreadable.clone()
    }

    /// The containers to which hints lead for a chunk. Some may not have it: a hint is short.
    ///
    /// # Errors
    ///
    /// `Media` where the cache cannot be read.
    pub fn places(&self, class: Class, fingerprint: &Fingerprint) -> Result<Vec<PartName>> {
        let state = self.lock();
        let mut candidates = Vec::new();
        for run in &state.runs {
            run.find(fingerprint.hint(), &mut candidates)?;
        }
        let of_class = candidates.into_iter().filter(|container| container.class == class);
        Ok(of_class.map(|container| container.name).collect())
    }

    /// Takes up a segment that the caller has just put.
    ///
    /// # Errors
    ///
    /// `Media` where the cache cannot be written and there is no memory either.
    pub fn add(&self, name: PartName, segment: &Segment) -> Result<()> {
        let run = self.run(name, segment)?;
        let mut state = self.lock();
        state.own.insert(name);
        self.push(&mut state, run)
    }

    fn run(&self, name: PartName, segment: &Segment) -> Result<Run> {
        Run::create(self.folder.as_deref(), name, segment)
    }

    fn push(&self, state: &mut State, run: Run) -> Result<()> {
        state.runs.push(run);
        run::merge_tiers(self.folder.as_deref(), &mut state.runs)
    }

    /// Looks a chunk up.
    ///
    /// # Errors
    ///
    /// `Corrupt` or `Missing` where a container that a hint leads to cannot be opened, and no other
    /// place has the chunk.
    pub fn find(
        &self,
        class: Class,
        fingerprint: &Fingerprint,
        scope: Scope,
    ) -> Result<Option<Location>> {
        self.find_where(class, fingerprint, scope, |_| true)
    }

    /// Looks for a place of a chunk that `accepts` agrees to. One chunk can have several: what was
    /// damaged is stored again elsewhere.
    ///
    /// # Errors
    ///
    /// As [`Index::find`].
    pub fn find_where(
        &self,
        class: Class,
        fingerprint: &Fingerprint,
        scope: Scope,
        accepts: impl Fn(&Location) -> bool,
    ) -> Result<Option<Location>> {
        let state = self.lock();
        // What is condemned may be gone at any time: a reader takes it only where nothing else is.
        if let Some(location) = state.directories.find(fingerprint)
            && state.allows(&location, class, scope)
            && !state.is_condemned(class, location.loaded.container.name)
            && accepts(&location)
        {
            return Ok(Some(location));
        }
        let mut candidates = Vec::new();
        for run in &state.runs {
            run.find(fingerprint.hint(), &mut candidates)?;
        }
        candidates.sort_by_key(|container| state.is_condemned(class, container.name));
        drop(state);
        let mut failure = None;
        for container in candidates {
            let mut state = self.lock();
            let is_condemned = state.is_condemned(class, container.name);
            if container.class != class || (scope == Scope::Write && is_condemned) {
                continue;
            }
            let loaded = match state.directories.get(container.name, class) {
                Some(loaded) => loaded,
                None => {
                    // Others need not wait for the medium. Two may read the same one: no harm.
                    drop(state);
                    let directory = match load_directory(&self.repository, &container) {
                        Ok(directory) => directory,
                        Err(error) => {
                            failure = Some(error);
                            continue;
                        }
                    };
                    let loaded = Arc::new(Loaded { container, directory });
                    state = self.lock();
                    state.directories.insert(loaded.clone());
                    loaded
                }
            };
            let chunks = loaded.directory.chunks.iter().enumerate();
            for (chunk, _) in chunks.filter(|(_, chunk)| {
                chunk.fingerprint == *fingerprint && chunk.form != Form::Literal
            }) {
                let location = Location { loaded: loaded.clone(), chunk };
                if state.allows(&location, class, scope) && accepts(&location) {
                    return Ok(Some(location));
                }
            }
        }
        // A writer stores again what it cannot confirm; a reader has to know.
        match failure {
            Some(error) if scope == Scope::Read => Err(error),
            _ => Ok(None),
        }
    }

    /// All containers that the index knows.
    pub fn containers(&self) -> Vec<ContainerRecord> {
        let state = self.lock();
        let mut seen = HashSet::new();
        let all = state.runs.iter().flat_map(|run| run.containers().iter().copied());
        all.filter(|container| seen.insert((container.class, container.name))).collect()
    }

    /// How large the index is.
    pub fn statistics(&self) -> IndexStatistics {
        let state = self.lock();
        IndexStatistics {
            hint_count: state.runs.iter().map(Run::hint_count).sum(),
            container_count: state.runs.iter().map(|run| run.containers().len() as u64).sum(),
            memory_bytes: state.runs.iter().map(Run::memory_bytes).sum(),
            directory_bytes: state.directories.bytes(),
        }
    }
}

impl State {
    /// Whether all that a run covers counts: by a view, whose segments are `live`, or as our own.
    fn is_live(&self, run: &Run, live: &BTreeSet<PartName>) -> bool {
        run.covers().iter().all(|segment| live.contains(segment) || self.own.contains(segment))
    }

    fn allows(&self, location: &Location, class: Class, scope: Scope) -> bool {
        let container = &location.loaded.container;
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
        #[cfg(feature = "mutants")]
        if mutant::is_active(Mutant::UsesCondemned) {
            return false;
        }
        self.condemned.contains(&(class, container))
    }
}

/// Reads and opens the directory of a container.
///
/// # Errors
///
/// `Missing` or `Corrupt`, naming the container.
pub fn load_directory(repository: &Repository, container: &ContainerRecord) -> Result<Directory> {
    let name = ObjectName::Container(container.class, container.name);
    let path = name.to_string();
    let media = repository.media();
    let header = media.get_range(&path, 0, HEADER_LEN)?;
    let opener = Opener::new(repository.keys(), name, &header)?;
    let offset = u64::from(container.directory_offset);
    let length = container.directory_len;
    if offset + u64::from(length) > u64::from(container.stored_len) {
        return Err(Error::corrupt(name, "the index names a directory behind its end"));
    }
    let mut part = media.get_range(&path, offset, length as usize)?.to_vec();
    opener.open(PartKind::Directory, &mut part)?;
    Directory::decode(&part, offset).map_err(|error| error.of(name))
}
