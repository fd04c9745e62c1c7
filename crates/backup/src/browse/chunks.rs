//! Verified chunks of files. The reader keeps the regions that have them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cutpoint_repository::read::ChunkBytes;
use cutpoint_repository::{Class, Fingerprint, Reader};
use cutpoint_storage::Error;

/// The time for which a damaged chunk is not read again. Readers ask for each page of a damaged
/// range, and each attempt lists the repository.
const DAMAGED_FOR: Duration = Duration::from_secs(30);
/// The maximum number of damaged chunks that are known.
const DAMAGED_MAX: usize = 4096;

/// The chunks of a repository, and those that were found damaged.
#[derive(Debug)]
pub(super) struct Chunks {
    reader: Arc<Reader>,
    damaged: Mutex<HashMap<Fingerprint, (Instant, Arc<Error>)>>,
}

impl Chunks {
    pub(super) fn new(reader: Arc<Reader>) -> Chunks {
        Chunks { reader, damaged: Mutex::default() }
    }

    /// Decodes what [`Chunks::get`] will need for a chunk. An error is left to that call.
    pub(super) fn prepare(&self, fingerprint: &Fingerprint) {
        self.reader.prepare(Class::Data, fingerprint).ok();
    }

    /// Returns the bytes of a chunk.
    pub(super) fn get(&self, fingerprint: &Fingerprint) -> Result<ChunkBytes, Arc<Error>> {
        let lock = || self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        match lock().get(fingerprint) {
            Some((since, error)) if since.elapsed() < DAMAGED_FOR => return Err(Arc::clone(error)),
            _ => {}
        }
        let error = match self.reader.chunk(Class::Data, fingerprint) {
            Ok(chunk) => return Ok(chunk),
            Err(error) => Arc::new(error),
        };
        if error.is_loss() {
            let mut damaged = lock();
            if damaged.len() >= DAMAGED_MAX {
                damaged.clear();
            }
            damaged.insert(*fingerprint, (Instant::now(), Arc::clone(&error)));
        }
        Err(error)
    }
}
