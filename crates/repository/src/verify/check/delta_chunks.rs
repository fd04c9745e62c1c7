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

/// Maximum number of delta chunks per container that may rebuild to wrong bytes before the others are
/// no longer tried. No writer produces such delta chunks, but a client that seals them itself could
/// make each of very many cost 16 MiB.
const LIES_MAX: u64 = 16;

/// The result of rebuilding a delta chunk.
pub(super) enum Built {
    /// The delta chunk rebuilds to its chunk.
    Well,
    /// A whole cannot be read. The fault is that of the full chunk, and matters only if something needs
    /// the delta chunk, which the walk through the snapshots decides.
    Lacks,
    /// The stored bytes of the delta chunk are wrong.
    Bad(Error),
    /// The delta chunk was not tried, because too many others were wrong.
    Unbelieved,
}

/// Rebuilds the delta chunks of one container.
pub(super) struct DeltaChunks<'a> {
    check: &'a Check<'a>,
    reader: &'a Reader,
    task: &'a Task,
    lie_count: u64,
    unbelieved_count: u64,
}

impl<'a> DeltaChunks<'a> {
    pub(super) fn new(check: &'a Check<'a>, reader: &'a Reader, task: &'a Task) -> DeltaChunks<'a> {
        DeltaChunks { check, reader, task, lie_count: 0, unbelieved_count: 0 }
    }

    /// Returns the message about the delta chunks that were not tried, if any.
    pub(super) fn more(&self) -> Option<String> {
        let count = self.unbelieved_count;
        (count > 0).then(|| {
            format!("{count} more delta chunks were not verified, because {LIES_MAX} were wrong")
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
    ) -> Built {
        if self.lie_count >= LIES_MAX {
            self.unbelieved_count += 1;
            return Built::Unbelieved;
        }
        let Some(payload) = ChunkBytes::of_record(decoded, chunk) else {
            return Built::Bad(Error::corrupt("", "outside its region"));
        };
        let extents = match extents::decode(&payload, chunk.chunk_len, region.references.len()) {
            Ok(extents) => extents,
            Err(error) => return Built::Bad(error),
        };
        // Most full chunks are undamaged, and the chunk's own fingerprint confirms it. The full chunks are
        // verified one by one only if the fingerprint differs.
        let class = self.task.class;
        let name = ObjectName::Container(class, self.task.name);
        let gather = |whole: &dyn Fn(&Fingerprint) -> Result<ChunkBytes>| {
            gather(name, &extents, &region.references, |reference| match near.get(reference) {
                Some(whole) => Ok(whole.clone()),
                None => whole(reference),
            })
        };
        let found = gather(&|reference| self.reader.whole(class, reference));
        if found.is_ok_and(|bytes| self.fingerprint(&bytes) == chunk.fingerprint) {
            return Built::Well;
        }
        let lacks = Cell::new(false);
        let found = gather(&|reference| {
            let whole = self.try_full_chunk(reference);
            lacks.set(lacks.get() || whole.is_err());
            whole
        });
        match found {
            Ok(bytes) if self.fingerprint(&bytes) == chunk.fingerprint => Built::Well,
            Err(_) if lacks.get() => {
                if self.task.need != Need::Unnamed {
                    self.check.lock().unbuilt.insert(self.task.damage(chunk));
                }
                Built::Lacks
            }
            Err(error) => {
                self.lie_count += 1;
                Built::Bad(error)
            }
            Ok(bytes) => {
                self.lie_count += 1;
                let (found, recorded) = (self.fingerprint(&bytes), chunk.fingerprint);
                let message = format!("wrong fingerprint (expected {recorded}, found {found})");
                Built::Bad(Error::corrupt("", message))
            }
        }
    }

    fn fingerprint(&self, bytes: &[u8]) -> Fingerprint {
        self.check.repository.keys().fingerprint(self.task.class, bytes)
    }

    /// Returns a verified whole. One that could not be read is not tried again.
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
