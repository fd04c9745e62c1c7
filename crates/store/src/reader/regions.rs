//! Regions as a reader has them: told ahead, on their way, decoded.
//!
//! What a [`super::plan::Plan`] wants stays until nobody wants it any more. Of what nobody wants, that
//! which was used last is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use zstd::bulk::Decompressor;

use crate::fingerprint::Class;
use crate::format::directory::RegionRecord;
use crate::name::PartName;

/// How much is kept of decoded regions that nobody wants, in bytes, less what is wanted.
const KEPT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// So much is kept of them in any case, in bytes: a step may need more than there is room for.
const KEPT_BYTES_MIN: usize = 16 * 1024 * 1024;
/// A region counts as so many bytes at least: its place in the tables takes some, too.
const REGION_BYTES_MIN: usize = 4096;
/// How much memory is kept in buffers without use, in bytes.
const SPARE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// One request fetches no more than this, unless one region has more, in bytes.
const FETCH_LEN_MAX: u64 = 2 * 1024 * 1024;
/// So much between two regions is read and thrown away rather than asked for separately, in bytes.
const GAP_LEN_MAX: u64 = 128 * 1024;
/// So many regions that nobody wants may lie between two that one request fetches.
const GAP_REGIONS_MAX: u16 = 16;

/// Class and container, and which of its regions.
pub(super) type RegionName = (Class, PartName, u16);

/// What was read, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStatistics {
    /// Requests for regions. One can fetch several.
    pub request_count: u64,
    /// Bytes that they fetched.
    pub fetched_bytes: u64,
    /// Regions that were decoded, each time counted.
    pub region_count: u64,
    /// Bytes that they decoded to.
    pub region_bytes: u64,
    /// How many of them had been decoded before, and had not been kept.
    pub repeated_region_count: u64,
}

/// How far a region is.
enum Stage {
    /// Nobody is at it.
    Wanted,
    /// Somebody reads or decodes it.
    Busy,
    /// Read; sealed and encoded as it was stored.
    Fetched(Bytes),
    Decoded(Arc<Vec<u8>>),
}

struct Slot {
    stage: Stage,
    /// How many want it.
    wants: u32,
    /// Where it is stored in its container, and how long it is decoded; zeros if nobody has wanted it.
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

    /// What it takes though nobody wants it.
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
    /// What is to be fetched, in this order; some may be on their way by now.
    queue: VecDeque<RegionName>,
    is_closed: bool,
    uses: u64,
    kept_bytes: usize,
    wanted_bytes: usize,
    /// Steps of a plan that were handed over, and are not done.
    step_count: usize,
    /// Fresh memory costs as much as filling it: buffers are used again.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    /// How many wait for a change.
    waiting_count: usize,
    /// As many as threads have decoded at once.
    decompressors: Vec<Decompressor<'static>>,
    statistics: ReadStatistics,
    /// A bit for each region of a container that was decoded.
    seen: HashMap<(Class, PartName), Vec<u64>>,
}

/// The regions of one reader, shared by its threads.
#[derive(Default)]
pub(super) struct Regions {
    state: Mutex<State>,
    /// Something is there, or free, that was not.
    changed: Condvar,
    /// There is something to fetch.
    queued: Condvar,
}

impl std::fmt::Debug for Regions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Regions").finish_non_exhaustive()
    }
}

/// What there is of a region that somebody needs.
pub(super) enum Claim<'a> {
    Decoded(Arc<Vec<u8>>),
    /// It is the caller's turn to decode it, and to read it where it has not been fetched.
    Turn(Turn<'a>, Option<Bytes>),
}

/// The duty to go on with a region. Others wait meanwhile. Dropped before the end, it leaves the duty
/// to the next who needs the region.
pub(super) struct Turn<'a> {
    regions: &'a Regions,
    name: RegionName,
    is_done: bool,
}

impl Turn<'_> {
    /// A buffer for `len` bytes, perhaps without memory, and a decompressor, where there is one.
    pub(super) fn take_tools(&self, len: usize) -> (Vec<u8>, Option<Decompressor<'static>>) {
        let mut state = self.regions.lock();
        (state.take_spare(len), state.decompressors.pop())
    }

    /// The region is there, decoded by `decompressor`.
    pub(super) fn decoded(mut self, bytes: &Arc<Vec<u8>>, decompressor: Decompressor<'static>) {
        let mut state = self.regions.lock();
        state.decompressors.push(decompressor);
        state.count_decoded(self.name, bytes.len());
        self.is_done = true;
        self.regions.end_turn(state, &self.name, Stage::Decoded(bytes.clone()));
    }

    /// The region was read.
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

/// Regions of one container that one request fetches. What is dropped instead, whoever needs it reads
/// himself, and then says what is wrong.
pub(super) struct Fetch<'a> {
    pub(super) container: (Class, PartName),
    /// Where they lie in it.
    pub(super) offset: u64,
    pub(super) len: usize,
    /// Each with its place in what is fetched.
    turns: Vec<(Turn<'a>, std::ops::Range<usize>)>,
}

impl Fetch<'_> {
    /// Hands `bytes` out, which are all that was to be fetched.
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
        // A thread that panicked has given its turn back.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something is there, or free, that was not.
    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting_count += 1;
        let mut state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiting_count -= 1;
        state
    }

    /// Tells those who wait, if any: that is a call of the system.
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

    /// A region that is needed now. Waits for those who are at it.
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

    /// Counts a request that fetched so many bytes.
    pub(super) fn count_request(&self, len: usize) {
        let mut state = self.lock();
        state.statistics.request_count += 1;
        state.statistics.fetched_bytes += len as u64;
    }

    pub(super) fn statistics(&self) -> ReadStatistics {
        self.lock().statistics
    }

    /// Wants a region until it is released, and has it fetched, if all that is wanted takes less than
    /// `bytes_max` so far. Returns whether it does.
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

    /// Releases what was wanted once.
    pub(super) fn release(&self, names: impl Iterator<Item = RegionName>) {
        let mut state = self.lock();
        for name in names {
            state.release(&name);
        }
        state.evict();
        self.tell(state);
    }

    /// Whether all that is wanted takes `bytes` or more.
    pub(super) fn wants_at_least(&self, bytes: usize) -> bool {
        self.lock().wanted_bytes >= bytes
    }

    /// Counts a step that is handed over. Waits before, until less than `bytes_max` is wanted or
    /// no other is handed over.
    pub(super) fn begin_step(&self, bytes_max: usize) {
        let mut state = self.lock();
        while state.wanted_bytes >= bytes_max && state.step_count > 0 {
            state = self.wait(state);
        }
        state.step_count += 1;
    }

    /// A step that was handed over is done.
    pub(super) fn end_step(&self) {
        let mut state = self.lock();
        state.step_count -= 1;
        self.tell(state);
    }

    /// What is to be fetched next; waits for it. `None` once closed.
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

    /// The region `first`, and those that lie near behind it.
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

    /// What is wanted from now on is to be fetched, until [`Regions::close`]; or is not.
    pub(super) fn open(&self, is_fetched: bool) {
        self.lock().is_closed = !is_fetched;
    }

    /// Nothing more is fetched.
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

    /// The smallest buffer that has room for `len` bytes.
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

    /// Lets go of what nobody wants, the longest unused first.
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
    use crate::format::directory::Codec;
    use crate::name::TicketId;

    const ROOM: usize = usize::MAX;

    fn name(container: u32, number: u16) -> RegionName {
        (Class::Data, PartName { ticket: TicketId([1; 12]), count: container }, number)
    }

    /// The region of this number where each takes 1000 stored bytes, and 100,000 decoded ones.
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

    /// What is fetched next: container, offset, length, regions.
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
        // 3 is decoded already, 40 is far behind, and 0 lies before what is needed first.
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
    fn a_request_has_an_end() {
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
    fn what_is_wanted_stays_and_what_was_used_last() {
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
        // Whatever is wanted, something else is kept.
        let record = RegionRecord { raw_len: 64 << 20, ..record(9) };
        regions.want(name(1, 9), &record, ROOM);
        regions.release(std::iter::empty());
        assert_eq!(regions.lock().kept_bytes, KEPT_BYTES_MIN, "two");
        assert!(!regions.lock().slots.contains_key(&name(1, 0)), "used long ago");
    }

    #[test]
    fn no_more_is_wanted_than_there_is_room_for() {
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

    /// Whoever fails gives his turn back: the next who needs the region is not left waiting.
    #[test]
    fn a_turn_comes_back() {
        let regions = Regions::default();
        regions.want(name(1, 0), &record(0), ROOM);
        drop(regions.next_fetch());
        for _ in 0..2 {
            assert!(matches!(regions.claim(name(1, 0)), Claim::Turn(_, None)), "to be read anew");
        }
        decode(&regions, name(1, 0), 10);
        assert!(is_decoded(&regions, name(1, 0)), "at last");
        // Released while somebody was at it.
        regions.want(name(1, 1), &record(1), ROOM);
        let turn = regions.claim(name(1, 1));
        regions.release([name(1, 1)].into_iter());
        drop(turn);
        assert!(!regions.lock().slots.contains_key(&name(1, 1)), "nobody needs it");
    }

    #[test]
    fn what_is_decoded_again_is_counted() {
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
    fn a_step_waits_for_room_only_while_others_are_done() {
        let regions = Regions::default();
        regions.want(name(1, 0), &record(0), ROOM);
        // Nobody else is there who could give room back.
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
