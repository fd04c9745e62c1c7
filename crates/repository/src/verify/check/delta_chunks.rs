//! Checks of delta chunks: their stored bytes, and the chunks that they rebuild to.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use cutpoint_storage::{Error, Result};

use super::containers::Task;
use super::context::{Check, Need};
use crate::format::extents;
use crate::format::fingerprint::Fingerprint;
use crate::format::names::ObjectName;
use crate::format::toc::{ChunkRecord, RegionRecord};
use crate::read::{ChunkBytes, Reader, gather};

/// Maximum number of delta chunks per container that may rebuild to wrong bytes before the others
/// are no longer tried. No writer produces such delta chunks, but a client that seals them itself
/// could make each of very many cost 16 MiB.
const WRONG_MAX: u64 = 16;

/// The result of rebuilding a delta chunk.
pub(super) enum AssemblyResult {
    /// The delta chunk rebuilds to its chunk.
    Correct,
    /// A full chunk cannot be read. The fault is that of the full chunk, and matters only if a
    /// snapshot needs the delta chunk, which the check of the snapshots decides.
    LacksFullChunk,
    /// The stored bytes of the delta chunk are wrong.
    Wrong(Error),
    /// The delta chunk was not tried, because too many others were wrong.
    Skipped,
}

/// Rebuilds the delta chunks of one container.
pub(super) struct DeltaChunks<'a> {
    check: &'a Check<'a>,
    reader: &'a Reader,
    task: &'a Task,
    wrong_count: u64,
    skipped_count: u64,
}

impl<'a> DeltaChunks<'a> {
    pub(super) fn new(check: &'a Check<'a>, reader: &'a Reader, task: &'a Task) -> DeltaChunks<'a> {
        DeltaChunks { check, reader, task, wrong_count: 0, skipped_count: 0 }
    }

    /// Returns the message about the delta chunks that were not tried, if any.
    pub(super) fn more(&self) -> Option<String> {
        let count = self.skipped_count;
        (count > 0).then(|| {
            format!("{count} more delta chunks were not verified, because {WRONG_MAX} were wrong")
        })
    }

    /// Rebuilds the delta chunk `chunk` of a region. `decoded` holds the bytes of the region, and
    /// `near` the region's verified full chunks.
    pub(super) fn rebuild(
        &mut self,
        region: &RegionRecord,
        chunk: &ChunkRecord,
        decoded: &Arc<Vec<u8>>,
        near: &HashMap<Fingerprint, ChunkBytes>,
    ) -> AssemblyResult {
        if self.wrong_count >= WRONG_MAX {
            self.skipped_count += 1;
            return AssemblyResult::Skipped;
        }
        let Some(payload) = ChunkBytes::of_record(decoded, chunk) else {
            return AssemblyResult::Wrong(Error::corrupt("", "outside its region"));
        };
        let extents = match extents::decode(&payload, chunk.chunk_len, region.references.len()) {
            Ok(extents) => extents,
            Err(error) => return AssemblyResult::Wrong(error),
        };
        // Most full chunks are undamaged, and the chunk's own fingerprint confirms it. The full
        // chunks are verified one by one only if the fingerprint differs.
        let class = self.task.class;
        let name = ObjectName::Container(class, self.task.name);
        let gather = |full_chunk: &dyn Fn(&Fingerprint) -> Result<ChunkBytes>| {
            gather(name, &extents, &region.references, |reference| match near.get(reference) {
                Some(near) => Ok(near.clone()),
                None => full_chunk(reference),
            })
        };
        let found = gather(&|reference| self.reader.full_chunk(class, reference));
        if found.is_ok_and(|bytes| self.fingerprint(&bytes) == chunk.fingerprint) {
            return AssemblyResult::Correct;
        }
        let lacks = Cell::new(false);
        let found = gather(&|reference| {
            let full_chunk = self.try_full_chunk(reference);
            lacks.set(lacks.get() || full_chunk.is_err());
            full_chunk
        });
        match found {
            Ok(bytes) if self.fingerprint(&bytes) == chunk.fingerprint => AssemblyResult::Correct,
            Err(_) if lacks.get() => {
                if self.task.need != Need::Unnamed {
                    self.check.lock().unassembled.insert(self.task.damage(chunk));
                }
                AssemblyResult::LacksFullChunk
            }
            Err(error) => {
                self.wrong_count += 1;
                AssemblyResult::Wrong(error)
            }
            Ok(bytes) => {
                self.wrong_count += 1;
                let (found, recorded) = (self.fingerprint(&bytes), chunk.fingerprint);
                let message = format!("wrong fingerprint (expected {recorded}, found {found})");
                AssemblyResult::Wrong(Error::corrupt("", message))
            }
        }
    }

    fn fingerprint(&self, bytes: &[u8]) -> Fingerprint {
        self.check.repository.keys().fingerprint(self.task.class, bytes)
    }

    /// Returns a verified full chunk. One that could not be read is not tried again.
    fn try_full_chunk(&self, reference: &Fingerprint) -> Result<ChunkBytes> {
        let key = (self.task.class, *reference);
        if let Some(error) = self.check.lock().lacking.get(&key) {
            return Err(Error::new(error.kind(), error.object(), "unavailable"));
        }
        self.reader.try_full_chunk(self.task.class, reference).map_err(|error| {
            let again = Error::new(error.kind(), error.object(), "unavailable");
            self.check.lock().lacking.entry(key).or_insert(error);
            again
        })
    }
}
