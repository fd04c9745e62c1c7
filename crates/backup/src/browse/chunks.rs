//! Verified chunks of files: each is decoded by one thread, for which others that need it wait.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cutpoint_repository::{Class, Fingerprint, Reader};
use cutpoint_storage::Error;

use super::sized_cache::SizedCache;

/// The maximum size of chunks that are kept, in bytes.
const BYTES_MAX: usize = 24 << 20;
/// The size that a chunk has in the tables at least, in bytes.
const CHUNK_BYTES_MIN: usize = 256;
/// The time for which a damaged chunk is not read again. Readers ask for each page of a damaged
/// range, and each attempt lists the repository.
const DAMAGED_FOR: Duration = Duration::from_secs(30);
/// The maximum number of damaged chunks that are known.
const DAMAGED_MAX: usize = 4096;

/// The chunks that were read last.
#[derive(Debug)]
pub(super) struct Chunks {
    reader: Arc<Reader>,
    state: Mutex<State>,
    /// Notified when a chunk has been read, or could not be read.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    ready: SizedCache<Bytes>,
    /// The chunks that threads are reading.
    busy: HashSet<Fingerprint>,
    damaged: HashMap<Fingerprint, (Instant, Arc<Error>)>,
}

impl Chunks {
    pub(super) fn new(reader: Arc<Reader>) -> Chunks {
        let ready = SizedCache::new(BYTES_MAX);
        let state = State { ready, busy: HashSet::new(), damaged: HashMap::new() };
        Chunks { reader, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes of a chunk.
    pub(super) fn get(&self, fingerprint: &Fingerprint) -> Result<Bytes, Arc<Error>> {
        let mut state = self.lock();
        loop {
            if let Some(chunk) = state.ready.get(fingerprint) {
                return Ok(chunk);
            }
            match state.damaged.get(fingerprint) {
                Some((since, error)) if since.elapsed() < DAMAGED_FOR => {
                    return Err(Arc::clone(error));
                }
                _ => {}
            }
            if state.busy.insert(*fingerprint) {
                break;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        let turn = Turn { chunks: self, fingerprint };
        let read = self.reader.chunk(Class::Data, fingerprint).map_err(Arc::new);
        // A copy, because the chunk would keep its whole region in memory.
        let read = read.map(|chunk| Bytes::copy_from_slice(&chunk));
        let mut state = self.lock();
        match &read {
            Ok(chunk) => {
                state.damaged.remove(fingerprint);
                let size = chunk.len().max(CHUNK_BYTES_MIN);
                state.ready.put(*fingerprint, chunk.clone(), size);
            }
            Err(error) if error.is_loss() => {
                if state.damaged.len() >= DAMAGED_MAX {
                    state.damaged.clear();
                }
                state.damaged.insert(*fingerprint, (Instant::now(), Arc::clone(error)));
            }
            Err(_) => {}
        }
        drop(state);
        drop(turn);
        read
    }
}

/// The duty to read a chunk, which ends when dropped.
struct Turn<'a> {
    chunks: &'a Chunks,
    fingerprint: &'a Fingerprint,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.chunks.lock().busy.remove(self.fingerprint);
        self.chunks.changed.notify_all();
    }
}
