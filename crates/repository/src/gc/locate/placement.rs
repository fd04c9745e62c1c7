//! The result of locating: which chunks stay in which container.

use std::collections::HashSet;
use std::path::Path;

use cutpoint_storage::Result;

use super::container::{Container, LiveChunks};
use super::live_set::{LIVE_CHUNK_LEN, LiveChunk, SORTER_BYTES};
use super::record::{PLACED_LEN, decode_placed};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::util::extsort::{ExternalSort, Iter, SortedRecords};

/// The result of locating all live chunks.
#[derive(Debug)]
pub(crate) struct Placement {
    /// All containers that the index or the caller names.
    pub(crate) containers: Vec<Container>,
    /// The chunks that stay, by container.
    pub(super) live: SortedRecords<PLACED_LEN>,
    /// Chunks that only condemned containers have.
    pub(crate) only_condemned: Vec<LiveChunk>,
    /// Delta chunks that are to be stored again as full chunks, because they cost less than keeping
    /// what they refer to.
    pub(crate) inlined: Vec<(Class, Fingerprint)>,
    /// Total size of the inlined delta chunks in bytes.
    pub(crate) inlined_bytes: u64,
    /// Total size of the containers that had stayed only for inlined delta chunks, in bytes.
    pub(crate) released_bytes: u64,
    /// The first thousand chunks that are not stored anywhere.
    pub(crate) missing: Vec<(Class, Fingerprint)>,
    /// Number of chunks that are not stored anywhere.
    pub(crate) missing_count: u64,
}

/// The chunks that stay, container by container, in the order of the containers' numbers.
pub(crate) struct LiveByContainer<'a> {
    iter: Iter<'a, PLACED_LEN>,
    next: Option<(u32, [u8; LIVE_CHUNK_LEN])>,
}

impl Placement {
    /// Returns an iterator over the chunks that stay.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if a temporary file cannot be read.
    pub(crate) fn live(&self) -> Result<LiveByContainer<'_>> {
        let mut iter = self.live.iter()?;
        let next = iter.next()?.map(|record| decode_placed(&record));
        Ok(LiveByContainer { iter, next })
    }

    /// Moves the chunks of `records` from those that stay to those that are stored again as full
    /// chunks.
    pub(super) fn inline(
        &mut self,
        records: &HashSet<[u8; PLACED_LEN]>,
        folder: Option<&Path>,
    ) -> Result<()> {
        let mut left = ExternalSort::new(folder, SORTER_BYTES);
        let mut iter = self.live.iter()?;
        while let Some(record) = iter.next()? {
            if records.contains(&record) {
                let (number, live) = decode_placed(&record);
                let LiveChunk { class, fingerprint, .. } = LiveChunk::decode(&live);
                self.containers[number as usize].live_count -= 1;
                self.inlined.push((class, fingerprint));
            } else {
                left.push(record)?;
            }
        }
        self.live = left.finish();
        Ok(())
    }
}

impl LiveByContainer<'_> {
    /// Returns the chunks that stay in the container of number `container`. The numbers of
    /// successive calls must ascend.
    ///
    /// # Errors
    ///
    /// Returns `Storage` or `Corrupt` if a temporary file cannot be read or has changed.
    pub(crate) fn of(&mut self, container: u32) -> Result<LiveChunks> {
        let mut chunks = LiveChunks::new();
        while let Some((number, live)) = self.next
            && number <= container
        {
            if number == container {
                let live = LiveChunk::decode(&live);
                chunks.insert(live.fingerprint, live);
            }
            self.next = self.iter.next()?.map(|record| decode_placed(&record));
        }
        Ok(chunks)
    }

    /// Reads to the end, which verifies that everything that was read is what had been written.
    ///
    /// # Errors
    ///
    /// Returns `Storage` or `Corrupt` if a temporary file cannot be read or has changed.
    pub(crate) fn end(mut self) -> Result<()> {
        while self.iter.next()?.is_some() {}
        Ok(())
    }
}
