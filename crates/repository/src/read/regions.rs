//! The regions of a reader: wanted ahead, being fetched, or decoded.
//!
//! A region that a [`super::plan::Plan`] wants stays until it is released. Of the other decoded
//! regions, the most recently used are kept.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use zstd::bulk::Decompressor;

use crate::format::fingerprint::Class;
use crate::format::names::PartName;
use crate::format::toc::RegionRecord;

/// Maximum size of decoded regions that are kept although no step wants them, in bytes, less the
/// size of the wanted ones.
const KEPT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Size up to which such regions are kept in any case, in bytes, because one step may want more
/// than there is room for.
const KEPT_BYTES_MIN: usize = 16 * 1024 * 1024;
/// Minimum size for which a region counts, in bytes, because its entry in the tables takes memory
/// too.
const REGION_BYTES_MIN: usize = 4096;
/// Maximum size of unused buffers that are kept, in bytes.
const SPARE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum length of one request in bytes, unless a single region is longer.
const FETCH_LEN_MAX: u64 = 2 * 1024 * 1024;
/// Maximum gap between two regions that is read and thrown away instead of asking for them
/// separately, in bytes.
const GAP_LEN_MAX: u64 = 128 * 1024;
/// Maximum number of unwanted regions between two that one request fetches.
const GAP_REGIONS_MAX: u16 = 16;

/// Class, container, and number of the region in the container.
pub(super) type RegionName = (Class, PartName, u16);

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
enum Stage {
    /// No thread is working on the region.
    Wanted,
    /// A thread is reading or decoding the region.
    Busy,
    /// The region was read. Its bytes are still sealed and encoded as they are stored.
    Fetched(Bytes),
    Decoded(Arc<Vec<u8>>),
}

struct Slot {
    stage: Stage,
    /// Number of steps that want the region.
    wants: u32,
    /// The region's place in its container, and its decoded length. All are zero if no step has
    /// wanted the region.
    offset: u32,
    stored_len: u32,
    raw_len: u32,
    /// The time of its last use, in uses of regions.
    used: u64,
}

impl Slot {
    fn new() -> Slot {
        Slot { stage: Stage::Wanted, wants: 0, offset: 0, stored_len: 0, raw_len: 0, used: 0 }
    }

    fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.stored_len)
    }

    fn wanted_bytes(&self) -> usize {
        (self.raw_len as usize).max(REGION_BYTES_MIN)
    }

    /// Returns the memory that the region takes although no step wants it.
    fn kept_bytes(&self) -> usize {
        match &self.stage {
            Stage::Decoded(bytes) if self.wants == 0 => bytes.len().max(REGION_BYTES_MIN),
            _ => 0,
        }
    }
}

#[derive(Default)]
struct State {
    slots: HashMap<RegionName, Slot>,
    /// The regions to fetch, in this order. Some of them may have been fetched already.
    queue: VecDeque<RegionName>,
    is_closed: bool,
    uses: u64,
    kept_bytes: usize,
    wanted_bytes: usize,
    /// Number of steps that were handed over and are not done.
    step_count: usize,
    /// Buffers to reuse, because fresh memory costs as much as filling it.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    /// Number of threads that wait for a change.
    waiting_count: usize,
    /// One decompressor for each thread that has decoded at the same time.
    decompressors: Vec<Decompressor<'static>>,
    statistics: ReadStatistics,
    /// One bit for each region of a container that was decoded.
    seen: HashMap<(Class, PartName), Vec<u64>>,
}

/// The regions of one reader, shared by its threads.
#[derive(Default)]
pub(super) struct Regions {
    state: Mutex<State>,
    /// Notified when a region has become available or room has become free.
    changed: Condvar,
    /// Notified when there is a region to fetch.
    queued: Condvar,
}

impl std::fmt::Debug for Regions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Regions").finish_non_exhaustive()
    }
}

/// The result of claiming a region.
pub(super) enum Claim<'a> {
    Decoded(Arc<Vec<u8>>),
    /// The caller has to decode the region, and first to read it if it has not been fetched.
    Turn(Turn<'a>, Option<Bytes>),
}

/// The duty to read or decode a region, for which other threads wait. If it is dropped before the
/// end, the duty passes to the next thread that needs the region.
pub(super) struct Turn<'a> {
    regions: &'a Regions,
    name: RegionName,
    is_done: bool,
}

impl Turn<'_> {
    /// Returns a buffer for `len` bytes, which may have no capacity yet, and a decompressor if
    /// there is a free one.
    pub(super) fn take_tools(&self, len: usize) -> (Vec<u8>, Option<Decompressor<'static>>) {
        let mut state = self.regions.lock();
        (state.take_spare(len), state.decompressors.pop())
    }

    /// Stores the decoded region and returns the decompressor.
    pub(super) fn decoded(mut self, bytes: &Arc<Vec<u8>>, decompressor: Decompressor<'static>) {
        let mut state = self.regions.lock();
        state.decompressors.push(decompressor);
        state.count_decoded(self.name, bytes.len());
        self.is_done = true;
        self.regions.end_turn(state, &self.name, Stage::Decoded(bytes.clone()));
    }

    /// Stores the region as it was read.
    fn fetched(mut self, bytes: Bytes) {
        self.is_done = true;
        self.regions.end_turn(self.regions.lock(), &self.name, Stage::Fetched(bytes));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.regions.end_turn(self.regions.lock(), &self.name, Stage::Wanted);
        }
    }
}

/// Regions of one container that one request fetches. If it is dropped without a result, each
/// thread that needs a region reads the region itself and gets the error.
pub(super) struct Fetch<'a> {
    pub(super) container: (Class, PartName),
    /// The place of the fetched bytes in the container.
    pub(super) offset: u64,
    pub(super) len: usize,
    /// The regions, each with its range in the fetched bytes.
    turns: Vec<(Turn<'a>, std::ops::Range<usize>)>,
}

impl Fetch<'_> {
    /// Distributes `bytes`, the result of the whole request, to the regions.
    pub(super) fn fetched(self, bytes: &Bytes) {
        for (turn, range) in self.turns {
            if range.end <= bytes.len() {
                turn.fetched(bytes.slice(range));
            }
        }
    }
}

impl Regions {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is harmless: a thread that panicked has given its turn back.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a region has become available or room has become free.
    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting_count += 1;
        let mut state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiting_count -= 1;
        state
    }

    /// Notifies the waiting threads, if there are any, because notifying is a system call.
    fn tell(&self, state: MutexGuard<'_, State>) {
        let is_awaited = state.waiting_count > 0;
        drop(state);
        if is_awaited {
            self.changed.notify_all();
        }
    }

    fn end_turn(&self, mut state: MutexGuard<'_, State>, name: &RegionName, stage: Stage) {
        state.end_turn(name, stage);
        self.tell(state);
    }

    /// Returns a region that is needed now. Waits while another thread works on the region.
    pub(super) fn claim(&self, name: RegionName) -> Claim<'_> {
        let mut state = self.lock();
        loop {
            state.uses += 1;
            let used = state.uses;
            let slot = state.slots.entry(name).or_insert_with(Slot::new);
            slot.used = used;
            let fetched = match &slot.stage {
                Stage::Decoded(bytes) => return Claim::Decoded(bytes.clone()),
                Stage::Busy => {
                    state = self.wait(state);
                    continue;
                }
                Stage::Fetched(bytes) => Some(bytes.clone()),
                Stage::Wanted => None,
            };
            slot.stage = Stage::Busy;
            return Claim::Turn(Turn { regions: self, name, is_done: false }, fetched);
        }
    }

    /// Counts a request that fetched `len` bytes.
    pub(super) fn count_request(&self, len: usize) {
        let mut state = self.lock();
        state.statistics.request_count += 1;
        state.statistics.fetched_bytes += len as u64;
    }

    pub(super) fn statistics(&self) -> ReadStatistics {
        self.lock().statistics
    }

    /// Wants a region until it is released, and queues it to be fetched, provided that all wanted
    /// regions together take less than `bytes_max`. Returns `true` if the region is now wanted.
    pub(super) fn want(&self, name: RegionName, record: &RegionRecord, bytes_max: usize) -> bool {
        let mut state = self.lock();
        if state.wanted_bytes >= bytes_max {
            return false;
        }
        let state = &mut *state;
        let slot = state.slots.entry(name).or_insert_with(Slot::new);
        state.kept_bytes -= slot.kept_bytes();
        slot.wants += 1;
        if slot.wants == 1 {
            (slot.offset, slot.stored_len) = (record.offset, record.stored_len);
            slot.raw_len = record.raw_len;
            state.wanted_bytes += slot.wanted_bytes();
            if matches!(slot.stage, Stage::Wanted) && !state.is_closed {
                state.queue.push_back(name);
                self.queued.notify_one();
            }
        }
        true
    }

    /// Releases regions, each of which was wanted once.
    pub(super) fn release(&self, names: impl Iterator<Item = RegionName>) {
        let mut state = self.lock();
        for name in names {
            state.release(&name);
        }
        state.evict();
        self.tell(state);
    }

    /// Returns `true` if all wanted regions together take `bytes` or more.
    pub(super) fn wants_at_least(&self, bytes: usize) -> bool {
        self.lock().wanted_bytes >= bytes
    }

    /// Counts a step that is handed over. Before that, waits until less than `bytes_max` is wanted
    /// or no other step is in progress.
    pub(super) fn begin_step(&self, bytes_max: usize) {
        let mut state = self.lock();
        while state.wanted_bytes >= bytes_max && state.step_count > 0 {
            state = self.wait(state);
        }
        state.step_count += 1;
    }

    /// Counts a step that was handed over as done.
    pub(super) fn end_step(&self) {
        let mut state = self.lock();
        state.step_count -= 1;
        self.tell(state);
    }

    /// Waits for regions to fetch and returns them. Returns `None` once closed.
    pub(super) fn next_fetch(&self) -> Option<Fetch<'_>> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            while let Some(name) = state.queue.pop_front() {
                if state.is_to_be_fetched(&name) {
                    return Some(self.gather_fetch(&mut state, name));
                }
            }
            state = self.queued.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Combines the region `first` with the wanted regions that lie close behind it into one
    /// request.
    fn gather_fetch(&self, state: &mut State, first: RegionName) -> Fetch<'_> {
        let (class, container, mut number) = first;
        let mut fetch =
            Fetch { container: (class, container), offset: 0, len: 0, turns: Vec::new() };
        let (mut end, mut gap) = (0, 0);
        loop {
            let name = (class, container, number);
            if state.is_to_be_fetched(&name)
                && let Some(slot) = state.slots.get_mut(&name)
            {
                let offset = u64::from(slot.offset);
                if name == first {
                    fetch.offset = offset;
                } else if offset < end
                    || offset - end > GAP_LEN_MAX
                    || slot.end() - fetch.offset > FETCH_LEN_MAX
                {
                    break;
                }
                slot.stage = Stage::Busy;
                (end, gap) = (slot.end(), 0);
                let place = |at: u64| usize::try_from(at - fetch.offset).unwrap_or(usize::MAX);
                let range = place(offset)..place(end);
                fetch.len = range.end;
                fetch.turns.push((Turn { regions: self, name, is_done: false }, range));
            } else {
                gap += 1;
            }
            match number.checked_add(1) {
                Some(next) if gap <= GAP_REGIONS_MAX => number = next,
                _ => break,
            }
        }
        fetch
    }

    /// Determines whether regions that are wanted from now on are queued to be fetched.
    pub(super) fn open(&self, is_fetched: bool) {
        self.lock().is_closed = !is_fetched;
    }

    /// Ends all fetching.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.queue.clear();
        self.queued.notify_all();
    }
}

impl State {
    fn is_to_be_fetched(&self, name: &RegionName) -> bool {
        let slot = self.slots.get(name);
        slot.is_some_and(|slot| slot.wants > 0 && matches!(slot.stage, Stage::Wanted))
    }

    fn end_turn(&mut self, name: &RegionName, stage: Stage) {
        let Some(slot) = self.slots.get_mut(name) else { return };
        if slot.wants == 0 && !matches!(stage, Stage::Decoded(_)) {
            self.slots.remove(name);
            return;
        }
        slot.stage = stage;
        self.kept_bytes += slot.kept_bytes();
        self.evict();
    }

    fn release(&mut self, name: &RegionName) {
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

    /// Returns the smallest spare buffer with room for `len` bytes.
    fn take_spare(&mut self, len: usize) -> Vec<u8> {
        if len == 0 {
            return Vec::new();
        }
        let fitting = self.spare.iter().enumerate().filter(|(_, spare)| spare.capacity() >= len);
        let Some((place, _)) = fitting.min_by_key(|(_, spare)| spare.capacity()) else {
            return Vec::new();
        };
        let spare = self.spare.swap_remove(place);
        self.spare_bytes -= spare.capacity();
        spare
    }

    /// Drops regions that no step wants, beginning with the one that has been unused for longest.
    fn evict(&mut self) {
        let kept_bytes_max = KEPT_BYTES_MAX.saturating_sub(self.wanted_bytes).max(KEPT_BYTES_MIN);
        while self.kept_bytes > kept_bytes_max {
            let kept = self.slots.iter().filter(|(_, slot)| slot.kept_bytes() > 0);
            let oldest = kept.min_by_key(|(_, slot)| slot.used).map(|(name, _)| *name);
            let Some(slot) = oldest.and_then(|name| self.slots.remove(&name)) else { return };
            self.kept_bytes -= slot.kept_bytes();
            if let Stage::Decoded(bytes) = slot.stage
                && let Some(bytes) = Arc::into_inner(bytes)
                && self.spare_bytes + bytes.capacity() <= SPARE_BYTES_MAX
            {
                self.spare_bytes += bytes.capacity();
                self.spare.push(bytes);
            }
        }
    }

    fn count_decoded(&mut self, (class, container, number): RegionName, len: usize) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::names::TicketId;
    use crate::format::toc::Codec;

    const ROOM: usize = usize::MAX;

    fn name(container: u32, number: u16) -> RegionName {
        (Class::Data, PartName { ticket: TicketId([1; 12]), count: container }, number)
    }

    /// The record of region `number` of a container whose regions each take 1000 stored bytes and
    /// 100,000 decoded ones.
    fn record(number: u16) -> RegionRecord {
        let (offset, stored_len) = (64 + u32::from(number) * 1000, 1000);
        let (codec, references) = (Codec::Zstd, Vec::new());
        RegionRecord { offset, stored_len, raw_len: 100_000, codec, references }
    }

    fn decode(regions: &Regions, name: RegionName, len: usize) {
        match regions.claim(name) {
            Claim::Turn(turn, _) => {
                let decompressor = Decompressor::new().expect("zstd works");
                turn.decoded(&Arc::new(vec![0; len]), decompressor);
            }
            Claim::Decoded(_) => panic!("{name:?} was decoded before"),
        }
    }

    fn is_decoded(regions: &Regions, name: RegionName) -> bool {
        matches!(regions.claim(name), Claim::Decoded(_))
    }

    /// The next request: container, offset, length, regions.
    fn next(regions: &Regions) -> (u32, u64, usize, Vec<u16>) {
        let fetch = regions.next_fetch().expect("it is open");
        let numbers = fetch.turns.iter().map(|(turn, _)| turn.name.2).collect();
        let (offset, len) = (fetch.offset, fetch.len);
        let container = fetch.container.1.count;
        fetch.fetched(&vec![7; len].into());
        (container, offset, len, numbers)
    }

    #[test]
    fn neighbours_are_fetched_by_one_request() {
        let regions = Regions::default();
        // Region 3 is decoded already, 40 lies far behind, and 0 lies before the first that is
        // needed.
        decode(&regions, name(1, 3), 100_000);
        for (container, number) in [(1, 1), (2, 0), (1, 2), (1, 4), (1, 3), (1, 40), (1, 0)] {
            assert!(regions.want(name(container, number), &record(number), ROOM), "room");
        }
        assert_eq!(next(&regions), (1, 1064, 4000, vec![1, 2, 4]), "with what lies between");
        assert_eq!(next(&regions), (2, 64, 1000, vec![0]), "another container");
        assert_eq!(next(&regions), (1, 40_064, 1000, vec![40]), "too far behind");
        assert_eq!(next(&regions), (1, 64, 1000, vec![0]), "its neighbours are there");
        let Claim::Turn(_turn, Some(bytes)) = regions.claim(name(1, 2)) else {
            panic!("it was fetched")
        };
        assert_eq!(bytes.len(), 1000, "its part of what was fetched");
    }

    #[test]
    fn request_length_is_limited() {
        let regions = Regions::default();
        for number in 0..3 {
            let (offset, stored_len) = (64 + u32::from(number) * 1_500_000, 1_500_000);
            let record = RegionRecord { offset, stored_len, ..record(number) };
            regions.want(name(1, number), &record, ROOM);
        }
        for number in 0..3 {
            assert_eq!(next(&regions).3, [number], "2 MiB have no room for two");
        }
    }

    #[test]
    fn eviction_keeps_wanted_and_recently_used_regions() {
        let regions = Regions::default();
        let large = KEPT_BYTES_MAX / 4;
        regions.want(name(1, 0), &record(0), ROOM);
        decode(&regions, name(1, 0), large);
        for number in 1..=6 {
            decode(&regions, name(1, number), large);
            assert!(is_decoded(&regions, name(1, 1)), "it is used");
        }
        let is_kept: Vec<bool> =
            (0..=6).map(|number| regions.lock().slots.contains_key(&name(1, number))).collect();
        assert_eq!(is_kept, [true, true, false, false, false, true, true], "0 wanted, 1 used");
        assert_eq!(regions.lock().kept_bytes, 3 * large, "with what is wanted no more than 4");
        regions.release([name(1, 0)].into_iter());
        let state = regions.lock();
        assert_eq!((state.kept_bytes, state.wanted_bytes), (4 * large, 0), "all is counted");
        drop(state);
        // Whatever is wanted, some other regions are kept.
        let record = RegionRecord { raw_len: 64 << 20, ..record(9) };
        regions.want(name(1, 9), &record, ROOM);
        regions.release(std::iter::empty());
        assert_eq!(regions.lock().kept_bytes, KEPT_BYTES_MIN, "two");
        assert!(!regions.lock().slots.contains_key(&name(1, 0)), "used long ago");
    }

    #[test]
    fn regions_beyond_the_room_are_not_wanted() {
        let regions = Regions::default();
        let wants = |number| regions.want(name(1, number), &record(number), 250_000);
        assert_eq!([0, 1, 2, 3, 0].map(wants), [true, true, true, false, false], "three");
        assert!(regions.wants_at_least(300_000) && !regions.wants_at_least(300_001), "bytes");
        regions.release([name(1, 1)].into_iter());
        assert!(wants(3), "there is room again");
        regions.release([name(1, 0), name(1, 2), name(1, 3)].into_iter());
        let state = regions.lock();
        assert_eq!((state.wanted_bytes, state.slots.len()), (0, 0), "nothing is left");
    }

    /// The next thread that needs the region must not be left waiting.
    #[test]
    fn dropped_turn_passes_to_the_next_caller() {
        let regions = Regions::default();
        regions.want(name(1, 0), &record(0), ROOM);
        drop(regions.next_fetch());
        for _ in 0..2 {
            assert!(matches!(regions.claim(name(1, 0)), Claim::Turn(_, None)), "to be read anew");
        }
        decode(&regions, name(1, 0), 10);
        assert!(is_decoded(&regions, name(1, 0)), "at last");
        // Released while a thread was working on the region.
        regions.want(name(1, 1), &record(1), ROOM);
        let turn = regions.claim(name(1, 1));
        regions.release([name(1, 1)].into_iter());
        drop(turn);
        assert!(!regions.lock().slots.contains_key(&name(1, 1)), "nobody needs it");
    }

    #[test]
    fn regions_decoded_again_are_counted() {
        let regions = Regions::default();
        for number in [0, 1, 100] {
            decode(&regions, name(1, number), KEPT_BYTES_MAX);
        }
        assert_eq!(regions.statistics().repeated_region_count, 0, "each once");
        decode(&regions, name(1, 1), KEPT_BYTES_MAX);
        let statistics = regions.statistics();
        assert_eq!((statistics.region_count, statistics.repeated_region_count), (4, 1), "1 twice");
    }

    #[test]
    fn step_waits_for_room_only_while_another_is_in_progress() {
        let regions = Regions::default();
        regions.want(name(1, 0), &record(0), ROOM);
        // The first step does not wait, because no other step could free room.
        regions.begin_step(1);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| regions.begin_step(1));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!second.is_finished(), "there is no room");
            regions.release([name(1, 0)].into_iter());
            regions.end_step();
        });
        assert_eq!(regions.lock().step_count, 1, "the second");
    }
}
