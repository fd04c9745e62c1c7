//! The table of regions: which are wanted, fetched or decoded, and which are dropped first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use zstd::bulk::Decompressor;

use crate::format::fingerprint::Class;
use crate::format::names::PartName;

/// Maximum size of decoded regions that are kept although no step wants them, in bytes, less the
/// size of the wanted ones.
pub(super) const KEPT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Size up to which such regions are kept in any case, in bytes, because one step may want more
/// than there is room for.
pub(super) const KEPT_BYTES_MIN: usize = 16 * 1024 * 1024;
/// Minimum size for which a region counts, in bytes, because its entry in the tables takes memory
/// too.
const REGION_BYTES_MIN: usize = 4096;
/// Minimum size of a buffer that is kept when it is not used any more, in bytes. The allocator gives
/// smaller ones from memory that the process has.
const SPARE_LEN_MIN: usize = 512 * 1024;
/// Maximum total size of unused buffers that are kept, in bytes.
pub(super) const SPARE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Length that a request should have, in bytes: that many announced regions are fetched together.
pub(super) const FETCH_LEN: u64 = 3 * 1024 * 1024;
/// Number of requests in progress from which announced regions are held back until they fill a
/// request.
const BUSY_FETCHERS_MIN: usize = 4;

/// Class, container, and number of the region in the container.
pub(in crate::read) type RegionName = (Class, PartName, u16);

/// Read counters of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStatistics {
    /// Number of requests for regions. One request can fetch several regions.
    pub request_count: u64,
    /// Total number of bytes that were fetched.
    pub fetched_bytes: u64,
    /// Number of decoded regions. A region counts each time it is decoded.
    pub region_count: u64,
    /// Total size of the decoded regions in bytes.
    pub region_bytes: u64,
    /// Number of regions that were decoded again because they had not been kept.
    pub repeated_region_count: u64,
}

/// The state of a region.
pub(super) enum Stage {
    /// No thread is working on the region.
    Wanted,
    /// A thread is reading or decoding the region.
    Busy,
    /// The region was read. Its bytes are still sealed and encoded as they are stored.
    Fetched(Bytes),
    Decoded(Arc<Vec<u8>>),
}

pub(super) struct Slot {
    pub(super) stage: Stage,
    /// Number of steps that want the region.
    pub(super) wants: u32,
    /// The region's place in its container, and its decoded length. All are zero if no step has
    /// wanted the region.
    pub(super) offset: u32,
    pub(super) stored_len: u32,
    pub(super) raw_len: u32,
    /// The time of its last use, in uses of regions.
    pub(super) used: u64,
}

impl Slot {
    pub(super) fn new() -> Slot {
        Slot { stage: Stage::Wanted, wants: 0, offset: 0, stored_len: 0, raw_len: 0, used: 0 }
    }

    pub(super) fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.stored_len)
    }

    pub(super) fn wanted_bytes(&self) -> usize {
        (self.raw_len as usize).max(REGION_BYTES_MIN)
    }

    /// Returns the memory that the region takes although no step wants it.
    pub(super) fn kept_bytes(&self) -> usize {
        match &self.stage {
            Stage::Decoded(bytes) if self.wants == 0 => bytes.len().max(REGION_BYTES_MIN),
            _ => 0,
        }
    }
}

#[derive(Default)]
pub(super) struct State {
    pub(super) slots: HashMap<RegionName, Slot>,
    /// The regions that will be fetched once they fill a request, or are needed.
    pub(super) announced: Vec<RegionName>,
    /// The total stored length of the announced regions in bytes.
    pub(super) announced_len: u64,
    /// The number of times that the announced regions were queued.
    pub(super) announced_batch: u64,
    /// The regions to fetch, in this order. Some of them may have been fetched already.
    pub(super) queue: VecDeque<RegionName>,
    /// Set if nothing is fetched ahead.
    pub(super) is_closed: bool,
    /// Set once no thread waits for room any more.
    pub(super) is_ended: bool,
    /// Number of threads that fetch, and of those that wait for regions to fetch.
    pub(super) fetcher_count: usize,
    pub(super) idle_fetcher_count: usize,
    pub(super) uses: u64,
    pub(super) kept_bytes: usize,
    pub(super) wanted_bytes: usize,
    /// Number of steps that were handed over and are not done.
    pub(super) step_count: usize,
    /// Buffers to reuse, oldest first, because fresh memory costs as much as filling it.
    pub(super) spare: VecDeque<Vec<u8>>,
    pub(super) spare_bytes: usize,
    /// Number of threads that wait for a change.
    pub(super) waiting_count: usize,
    /// One decompressor for each thread that has decoded at the same time.
    pub(super) decompressors: Vec<Decompressor<'static>>,
    pub(super) statistics: ReadStatistics,
    /// One bit for each region of a container that was decoded.
    pub(super) seen: HashMap<(Class, PartName), Vec<u64>>,
}

impl State {
    /// Returns `true` if a small request does not delay others, because few are in progress.
    pub(super) fn has_idle_fetchers(&self) -> bool {
        self.fetcher_count.saturating_sub(self.idle_fetcher_count) < BUSY_FETCHERS_MIN
    }

    pub(super) fn is_to_be_fetched(&self, name: &RegionName) -> bool {
        let slot = self.slots.get(name);
        slot.is_some_and(|slot| slot.wants > 0 && matches!(slot.stage, Stage::Wanted))
    }

    pub(super) fn end_turn(&mut self, name: &RegionName, stage: Stage) {
        let Some(slot) = self.slots.get_mut(name) else { return };
        if slot.wants == 0 && !matches!(stage, Stage::Decoded(_)) {
            self.slots.remove(name);
            return;
        }
        slot.stage = stage;
        self.kept_bytes += slot.kept_bytes();
        self.evict();
    }

    pub(super) fn release(&mut self, name: &RegionName) {
        let Some(slot) = self.slots.get_mut(name) else { return };
        slot.wants -= 1;
        if slot.wants > 0 {
            return;
        }
        self.wanted_bytes -= slot.wanted_bytes();
        self.kept_bytes += slot.kept_bytes();
        if matches!(slot.stage, Stage::Wanted | Stage::Fetched(_)) {
            self.slots.remove(name);
        }
    }

    /// Returns the smallest spare buffer with room for `len` bytes, but for twice as many at most.
    pub(super) fn take_spare(&mut self, len: usize) -> Vec<u8> {
        let is_fitting = |spare: &Vec<u8>| (len..=2 * len).contains(&spare.capacity());
        let fitting = self.spare.iter().enumerate().filter(|(_, spare)| is_fitting(spare));
        let place = fitting.min_by_key(|(_, spare)| spare.capacity()).map(|(place, _)| place);
        let spare = place.and_then(|place| self.spare.remove(place)).unwrap_or_default();
        self.spare_bytes -= spare.capacity();
        spare
    }

    fn keep_spare(&mut self, spare: Vec<u8>) {
        if spare.capacity() < SPARE_LEN_MIN {
            return;
        }
        self.spare_bytes += spare.capacity();
        self.spare.push_back(spare);
        while self.spare_bytes > SPARE_BYTES_MAX
            && let Some(oldest) = self.spare.pop_front()
        {
            self.spare_bytes -= oldest.capacity();
        }
    }

    /// Drops regions that no step wants, beginning with the one that has been unused for longest.
    pub(super) fn evict(&mut self) {
        let kept_bytes_max = KEPT_BYTES_MAX.saturating_sub(self.wanted_bytes).max(KEPT_BYTES_MIN);
        while self.kept_bytes > kept_bytes_max {
            let kept = self.slots.iter().filter(|(_, slot)| slot.kept_bytes() > 0);
            let oldest = kept.min_by_key(|(_, slot)| slot.used).map(|(name, _)| *name);
            let Some(slot) = oldest.and_then(|name| self.slots.remove(&name)) else { return };
            self.kept_bytes -= slot.kept_bytes();
            if let Stage::Decoded(bytes) = slot.stage
                && let Some(bytes) = Arc::into_inner(bytes)
            {
                self.keep_spare(bytes);
            }
        }
    }

    pub(super) fn count_decoded(&mut self, (class, container, number): RegionName, len: usize) {
        self.statistics.region_count += 1;
        self.statistics.region_bytes += len as u64;
        let bits = self.seen.entry((class, container)).or_default();
        let (word, bit) = (usize::from(number / 64), number % 64);
        if bits.len() <= word {
            bits.resize(word + 1, 0);
        }
        self.statistics.repeated_region_count += bits[word] >> bit & 1;
        bits[word] |= 1 << bit;
    }
}
