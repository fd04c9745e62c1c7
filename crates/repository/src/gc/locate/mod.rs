//! Locates the needed chunks: needs and hints, both sorted, are merged in one pass.
//!
//! Hints only narrow the choice. If only one container can have a needed chunk, that container
//! stays. If there is a choice, tables of contents decide by all 32 bytes of the fingerprint. If
//! tables of contents cannot decide either, nothing is condemned. A container whose table of contents has other
//! chunks than its hints say is never condemned.
//!
//! A chunk that snapshots reach is met by a record of either form, preferably a full chunk. A chunk that
//! staying delta chunks refer to is needed as a whole (rule C2), so tables of contents decide if a container
//! has delta chunks, too. References count by region: if any delta chunk of a region stays, all
//! references of the region are needed.

mod container;
mod join;
mod live_set;
mod locator;
mod weigh;

use cutpoint_storage::Result;

use crate::format::fingerprint::{Class, Fingerprint};
use crate::util::extsort::{Iter, SortedRecords};

pub(crate) use container::{Container, LiveChunks, list_containers, staying, staying_numbers};
pub(crate) use live_set::{LIVE_CHUNK_LEN, LiveChunk, LiveSet};
pub(crate) use locator::Locator;

/// Length of a record in bytes: the number of a container, then a need.
const PLACED_LEN: usize = 4 + LIVE_CHUNK_LEN;
/// Takes the place of a container number if no usable place is known.
const NO_CONTAINER: u32 = u32::MAX;

fn placed(container: u32, live: &[u8; LIVE_CHUNK_LEN]) -> [u8; PLACED_LEN] {
    let mut record = [0; PLACED_LEN];
    record[..4].copy_from_slice(&container.to_be_bytes());
    record[4..].copy_from_slice(live);
    record
}

fn unplace(record: &[u8; PLACED_LEN]) -> (u32, [u8; LIVE_CHUNK_LEN]) {
    let (mut container, mut live) = ([0; 4], [0; LIVE_CHUNK_LEN]);
    container.copy_from_slice(&record[..4]);
    live.copy_from_slice(&record[4..]);
    (u32::from_be_bytes(container), live)
}

/// The result of looking up all needs.
#[derive(Debug)]
pub(crate) struct Placement {
    /// All containers that the index or the caller names.
    pub(crate) containers: Vec<Container>,
    kept: SortedRecords<PLACED_LEN>,
    /// Chunks that only condemned containers have.
    pub(crate) only_condemned: Vec<LiveChunk>,
    /// Delta chunks that are to be stored again as full chunks, because they cost less than keeping what
    /// they refer to.
    pub(crate) inlined: Vec<(Class, Fingerprint)>,
    /// Total size of the inlined delta chunks in bytes.
    pub(crate) inlined_bytes: u64,
    /// Total size of the containers that had stayed only for inlined delta chunks, in bytes.
    pub(crate) released_bytes: u64,
    /// The first thousand chunks that are not stored anywhere.
    pub(crate) lost: Vec<(Class, Fingerprint)>,
    /// Number of chunks that are not stored anywhere.
    pub(crate) lost_count: u64,
}

/// The chunks that stay, container by container, in the order of the containers' numbers.
pub(crate) struct Kept<'a> {
    iter: Iter<'a, PLACED_LEN>,
    next: Option<(u32, [u8; LIVE_CHUNK_LEN])>,
}

impl Placement {
    /// Returns an iterator over the chunks that stay.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if a temporary file cannot be read.
    pub(crate) fn kept(&self) -> Result<Kept<'_>> {
        let mut iter = self.kept.iter()?;
        let next = iter.next()?.map(|record| unplace(&record));
        Ok(Kept { iter, next })
    }
}

impl Kept<'_> {
    /// Returns the chunks that stay in the container of number `container`. The numbers of
    /// successive calls must ascend.
    ///
    /// # Errors
    ///
    /// Returns `Storage` or `Corrupt` if a temporary file cannot be read or has changed.
    pub(crate) fn of(&mut self, container: u32) -> Result<LiveChunks> {
        let mut kept = LiveChunks::new();
        while let Some((number, live)) = self.next
            && number <= container
        {
            if number == container {
                let live = LiveChunk::decode(&live);
                kept.insert(live.fingerprint, live);
            }
            self.next = self.iter.next()?.map(|record| unplace(&record));
        }
        Ok(kept)
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
