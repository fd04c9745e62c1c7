//! The chunks of another program's repository that are going to be read, read ahead by several
//! threads.
//!
//! Steps announce their chunks in the order in which they will be read. Fetchers read the chunks in
//! that order, several at a time, and keep each until the last announced step that needs it has
//! ended.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cutpoint_repository::Fingerprint;
use cutpoint_storage::{Error, Result};

use super::foreign::ForeignRepository;

/// The number of bytes that a fetcher reads at a time. Chunks of other programs have about 1 MiB.
const FETCH_LEN: u64 = 4 << 20;
/// The maximum number of chunks that a fetcher reads at a time.
const FETCH_COUNT_MAX: usize = 64;

/// The plan of one run.
#[derive(Debug)]
pub(crate) struct ForeignPlan<'a> {
    repository: &'a dyn ForeignRepository,
    bytes_max: u64,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    wanted: Mutex<Wanted>,
    /// Notified when a chunk is wanted, when chunks were read, and at the end.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Wanted {
    chunks: HashMap<Fingerprint, Chunk>,
    /// The chunks that no fetcher has taken yet, in order.
    queue: VecDeque<Fingerprint>,
    /// The total size of the wanted chunks.
    bytes: u64,
    is_over: bool,
}

#[derive(Debug)]
struct Chunk {
    /// The number of steps that need the chunk.
    step_count: usize,
    size: u64,
    /// The bytes, once a fetcher has tried to read them. The caller that needs a chunk that cannot
    /// be read tries it again, and gets the error.
    bytes: Option<Option<Bytes>>,
}

/// The chunks of a step. They are kept until this is dropped.
#[derive(Debug)]
pub(crate) struct ForeignStep {
    state: Arc<State>,
    wanted: HashSet<Fingerprint>,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, wanted: MutexGuard<'g, Wanted>) -> MutexGuard<'g, Wanted> {
        self.changed.wait(wanted).unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> ForeignPlan<'a> {
    pub(crate) fn new(repository: &'a dyn ForeignRepository, bytes_max: usize) -> ForeignPlan<'a> {
        ForeignPlan { repository, bytes_max: bytes_max as u64, state: Arc::default() }
    }

    pub(crate) fn fetcher_count(&self) -> usize {
        self.repository.fetcher_count()
    }

    /// Returns `true` if there is room to begin another step.
    pub(crate) fn has_room(&self) -> bool {
        self.state.lock().bytes < self.bytes_max
    }

    /// Begins a step that reads chunks of these sizes. Never waits.
    pub(crate) fn begin(&self, chunks: impl Iterator<Item = (Fingerprint, u64)>) -> ForeignStep {
        let mut step = ForeignStep { state: self.state.clone(), wanted: HashSet::new() };
        let mut state = self.state.lock();
        for (id, size) in chunks {
            if !step.wanted.insert(id) {
                continue;
            }
            let Wanted { chunks, queue, bytes, .. } = &mut *state;
            let chunk = chunks.entry(id).or_insert_with(|| {
                queue.push_back(id);
                *bytes += size;
                Chunk { step_count: 0, size, bytes: None }
            });
            chunk.step_count += 1;
        }
        drop(state);
        self.state.changed.notify_all();
        step
    }

    /// Reads wanted chunks until the plan ends.
    pub(crate) fn fetch(&self) {
        let mut state = self.state.lock();
        loop {
            if state.is_over {
                return;
            }
            let taken = state.take();
            if taken.is_empty() {
                state = self.state.wait(state);
                continue;
            }
            drop(state);
            let read = self.repository.chunks(&taken);
            state = self.state.lock();
            for (id, bytes) in taken.into_iter().zip(read) {
                if let Some(chunk) = state.chunks.get_mut(&id) {
                    chunk.bytes = Some(bytes.ok());
                }
            }
            self.state.changed.notify_all();
        }
    }

    /// Ends all fetching.
    pub(crate) fn end(&self) {
        self.state.lock().is_over = true;
        self.state.changed.notify_all();
    }

    /// Returns the bytes of a chunk. Waits for a fetcher if one reads it, or will.
    pub(crate) fn chunk(&self, id: &Fingerprint) -> Result<Bytes> {
        let mut state = self.state.lock();
        while let Some(chunk) = state.chunks.get(id) {
            match &chunk.bytes {
                Some(Some(bytes)) => return Ok(bytes.clone()),
                Some(None) => break,
                None if state.is_over || self.fetcher_count() == 0 => break,
                None => state = self.state.wait(state),
            }
        }
        drop(state);
        let mut read = self.repository.chunks(&[*id]);
        read.pop().unwrap_or_else(|| Err(Error::missing(format!("chunk {id}"), "not found")))
    }
}

impl Wanted {
    /// Takes the chunks that a fetcher reads next.
    fn take(&mut self) -> Vec<Fingerprint> {
        let mut taken = Vec::new();
        let mut len = 0;
        while len < FETCH_LEN && taken.len() < FETCH_COUNT_MAX {
            let Some(id) = self.queue.pop_front() else { break };
            // A step that was dropped needs its chunks no more.
            if let Some(chunk) = self.chunks.get(&id).filter(|chunk| chunk.bytes.is_none()) {
                len += chunk.size;
                taken.push(id);
            }
        }
        taken
    }
}

impl Drop for ForeignStep {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        for id in &self.wanted {
            let Some(chunk) = state.chunks.get_mut(id) else { continue };
            chunk.step_count -= 1;
            if chunk.step_count == 0 {
                let size = chunk.size;
                state.chunks.remove(id);
                state.bytes -= size;
            }
        }
    }
}
