//! The index itself: opening it, keeping it up to date with views, and its size.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cutpoint_storage::{Error, ObjectKind, Result};

use super::runs::{self, Run};
use super::state::State;
use super::unnamed;
use crate::format::names::{ObjectName, PartName};
use crate::format::segment::{ContainerRecord, Segment};
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::util::tolerance::Tolerance;

/// Maximum number of damaged runs that are replaced by files. After that, runs are kept in memory,
/// because a failing disk is unsuitable for a cache.
const DAMAGED_RUNS_MAX: u32 = 16;

/// Finds chunks. Can be shared by threads.
#[derive(Debug)]
pub struct Index {
    pub(super) repository: Arc<Repository>,
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
    /// prune record that cannot be read are included, because their own tables of contents list
    /// their contents. Each such table of contents has to be read.
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
            index.lock().runs = runs::open_all(folder, &view.segments(), now_ns);
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

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
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
            let open: Vec<PartName> = live.iter().filter(is_open).copied().collect();
            if open.is_empty() {
                break state;
            }
            // The lock is released while segments are read. Other threads may look up chunks, and
            // merge runs that were counted, so the loop starts over.
            let folder = self.folder(&state);
            drop(state);
            self.repository.get_many(&self.listed(&open)?, |object, bytes| {
                let ObjectName::Segment(name) = object else { return Ok(()) };
                let read = |bytes| self.repository.open_bytes(object, &bytes, Segment::decode);
                match bytes.and_then(read) {
                    Ok((_, segment)) => runs.push(Arc::new(runs::create(folder, name, &segment))),
                    Err(error) => {
                        unreadable.insert(object, Arc::new(tolerance.of_one(error)?));
                    }
                }
                Ok(())
            })?;
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
        if self.purpose == Purpose::Read { self.search_unnamed(view, tolerance) } else { Ok(()) }
    }

    /// Returns the names of segments with their lengths, which a listing gives for several of them.
    /// The length of one that no listing shows is the maximum of its kind.
    fn listed(&self, segments: &[PartName]) -> Result<Vec<(ObjectName, u64)>> {
        let mut lens: HashMap<ObjectName, u64> = HashMap::new();
        if segments.len() > 1 {
            lens.extend(self.repository.list_objects(ObjectKind::Segment)?);
        }
        let names = segments.iter().map(|segment| ObjectName::Segment(*segment));
        let len = |name| lens.get(&name).copied().unwrap_or(ObjectKind::Segment.len_max());
        Ok(names.map(|name| (name, len(name))).collect())
    }

    /// Looks for containers that may be named only by objects that cannot be read.
    fn search_unnamed(&self, view: &View, tolerance: Tolerance) -> Result<()> {
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
        let unnamed = unnamed::search(&self.repository, &hidden, &named, tolerance)?;
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
        self.reread(&mut state, segments)?;
        Ok(!found.is_empty())
    }

    /// Returns the segments of the view that could not be read, with the errors. A segment that is
    /// missing may have been replaced in the meantime, which a newer view shows.
    pub fn unreadable(&self) -> BTreeMap<ObjectName, Arc<Error>> {
        self.lock().unreadable.clone()
    }

    /// Adds a segment that the caller has just put.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Index::hinted_containers`].
    pub fn add(&self, name: PartName, segment: &Segment) -> Result<()> {
        let mut state = self.lock();
        let folder = self.folder(&state);
        drop(state);
        let run = Arc::new(runs::create(folder, name, segment));
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
        self.reread(state, segments)
    }

    /// Merges runs. Returns the segments of damaged runs that were dropped.
    fn merge(&self, state: &mut State) -> Vec<PartName> {
        let mut segments = Vec::new();
        while let Some(damaged) = runs::merge_tiers(self.folder(state), &mut state.runs) {
            segments.extend(state.drop_damaged(&damaged));
        }
        segments
    }

    /// Reads segments again whose runs were dropped. Other threads have to wait, because their
    /// lookups would miss the hints of these segments.
    pub(super) fn reread(&self, state: &mut State, mut segments: Vec<PartName>) -> Result<()> {
        let mut tolerance = Tolerance::default();
        while let Some(name) = segments.pop() {
            let object = ObjectName::Segment(name);
            match self.repository.read(object, Segment::decode) {
                Ok(segment) => {
                    let run = runs::create(self.folder(state), name, &segment);
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
