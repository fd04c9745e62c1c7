//! The index itself: opening it, keeping it up to date with views, and its size.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cutpoint_storage::{Error, Result};

use super::cached;
use super::reading::Reading;
use super::runs::{self, Run, RunBuilder, RunStore};
use super::segments::Segments;
use super::state::State;
use super::unnamed;
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName};
use crate::format::segment::{ContainerRecord, Segment};
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::util::tolerance::Tolerance;

/// Finds chunks. Can be shared by threads.
#[derive(Debug)]
pub struct Index {
    pub(super) repository: Arc<Repository>,
    /// The place of the runs.
    store: RunStore,
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
        let store = cache_of(&repository);
        Index::with_store(repository, store, Purpose::Write, view)
    }

    /// Opens the index for a reader. Containers that may be named only by a segment, commit or
    /// prune record that cannot be read are included, because their own tables of contents list
    /// their contents. Each such table of contents has to be read.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Index::open`].
    pub fn open_to_read(repository: Arc<Repository>, view: &View) -> Result<Index> {
        let store = cache_of(&repository);
        Index::with_store(repository, store, Purpose::Read, view)
    }

    /// Opens the index for a reader, as [`Index::open_to_read`] does, without the cache of this
    /// machine. The index is kept in temporary files, or in memory if the repository has no folder
    /// for these.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Index::open`].
    pub fn open_without_cache(repository: Arc<Repository>, view: &View) -> Result<Index> {
        let store = beside_cache(&repository);
        Index::with_store(repository, store, Purpose::Read, view)
    }

    /// Creates an index that finds only what is added to it, and does not use the cache.
    pub(crate) fn empty(repository: Arc<Repository>) -> Index {
        let store = beside_cache(&repository);
        Index { repository, store, purpose: Purpose::Write, state: Mutex::default() }
    }

    fn with_store(
        repository: Arc<Repository>,
        store: RunStore,
        purpose: Purpose,
        view: &View,
    ) -> Result<Index> {
        let index = Index { repository, store, purpose, state: Mutex::default() };
        if let RunStore::Folder(folder) = &index.store {
            let now_ns = index.repository.environment().now_ns();
            index.lock().runs = cached::open(folder, view, now_ns);
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
            segments: state.segments.clone(),
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
            store: self.store.clone(),
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
        let segments = Arc::new(Segments::new(view));
        let store = self.lock().store(&self.store).clone();
        let mut reading = Reading::new(&self.repository, &segments, store);
        let mut state = loop {
            let state = self.lock();
            let open = reading.open(segments.live().iter(), state.available(&segments));
            if open.is_empty() {
                break state;
            }
            // The lock is released while segments are read. Other threads may look up chunks, and
            // merge runs that were counted, so the loop starts over.
            drop(state);
            reading.read(&open)?;
        };
        // The state is replaced at once, so that a concurrent lookup sees the previous state.
        let mut read = reading.finish();
        let tolerance = std::mem::take(&mut read.tolerance);
        state.unreadable = BTreeMap::new();
        state.condemned = view.condemned();
        state.damaged = view.damaged();
        let is_damaged = state.take_up(read);
        state.change_segments(segments);
        if self.merge(&mut state) || is_damaged {
            self.reread(&mut state)?;
        }
        drop(state);
        if self.purpose == Purpose::Read { self.search_unnamed(view, tolerance) } else { Ok(()) }
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
        self.reread(&mut state)?;
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
        let mut builder = RunBuilder::new(self.lock().store(&self.store).clone());
        builder.add(name, segment);
        let (runs, _) = builder.finish();
        let mut state = self.lock();
        state.own.insert(name);
        state.runs.extend(runs);
        if self.merge(&mut state) { self.reread(&mut state) } else { Ok(()) }
    }

    /// Merges runs. Returns `true` if damaged runs were dropped, whose segments have to be read
    /// again.
    fn merge(&self, state: &mut State) -> bool {
        let mut is_damaged = false;
        while let Some(damaged) = runs::merge_tiers(state.store(&self.store), &mut state.runs) {
            state.drop_damaged(&damaged);
            is_damaged = true;
        }
        is_damaged
    }

    /// Reads segments again whose runs were dropped. Other threads have to wait, because their
    /// lookups would miss the hints of these segments.
    pub(super) fn reread(&self, state: &mut State) -> Result<()> {
        let segments = state.segments.clone();
        loop {
            let store = state.store(&self.store).clone();
            let mut reading = Reading::new(&self.repository, &segments, store);
            loop {
                let wanted = state.wanted();
                let open = reading.open(wanted, state.available(&segments));
                if open.is_empty() {
                    break;
                }
                reading.read(&open)?;
            }
            let is_damaged = state.take_up(reading.finish());
            if !(self.merge(state) || is_damaged) {
                return Ok(());
            }
        }
    }

    /// Returns all containers that the index knows.
    pub fn containers(&self) -> Vec<ContainerRecord> {
        let state = self.lock();
        let mut seen = HashSet::new();
        let all = state.all_runs().flat_map(|run| run.containers().iter().copied());
        all.filter(|container| seen.insert((container.class, container.name))).collect()
    }

    /// Returns the names of all containers that the index knows, in ascending order.
    pub(crate) fn container_names(&self) -> Vec<(Class, PartName)> {
        let state = self.lock();
        let count = state.all_runs().map(|run| run.containers().len()).sum();
        let mut names = Vec::with_capacity(count);
        for run in state.all_runs() {
            names.extend(run.containers().iter().map(|each| (each.class, each.name)));
        }
        names.sort_unstable();
        names.dedup();
        names
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

/// Returns the place of the runs of a repository that has a cache, or the place beside it.
fn cache_of(repository: &Repository) -> RunStore {
    match repository.cache() {
        Some(cache) => RunStore::Folder(cache.join("index")),
        None => beside_cache(repository),
    }
}

/// Returns the place of runs that are not kept in the cache.
fn beside_cache(repository: &Repository) -> RunStore {
    repository.temporary_folder().map_or(RunStore::Memory, RunStore::Temporary)
}
