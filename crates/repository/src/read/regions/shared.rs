//! The regions of one reader, shared by its threads: what steps want, and what they release.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::slots::{FETCH_LEN, ReadStatistics, RegionName, Slot, Stage, State};
use crate::format::toc::RegionRecord;

/// The result of wanting a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) enum Want {
    /// There is no room for the region, which is not wanted.
    NoRoom,
    /// The region is wanted, and is there, or is fetched for another step.
    Known,
    /// The region is wanted, and has to be fetched.
    ToFetch,
}

/// The regions of one reader, shared by its threads.
#[derive(Default)]
pub(in crate::read) struct Regions {
    pub(super) state: Mutex<State>,
    /// Notified when a region has become available or room has become free.
    pub(super) changed: Condvar,
    /// Notified when there is a region to fetch.
    pub(super) queued: Condvar,
}

impl std::fmt::Debug for Regions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Regions").finish_non_exhaustive()
    }
}

impl Regions {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is harmless: a thread that panicked has given its turn back.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a region has become available or room has become free.
    pub(super) fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting_count += 1;
        let mut state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiting_count -= 1;
        state
    }

    /// Notifies the waiting threads, if there are any, because notifying is a system call.
    pub(super) fn notify(&self, state: MutexGuard<'_, State>) {
        let is_awaited = state.waiting_count > 0;
        drop(state);
        if is_awaited {
            self.changed.notify_all();
        }
    }

    pub(super) fn end_turn(
        &self,
        mut state: MutexGuard<'_, State>,
        name: &RegionName,
        stage: Stage,
    ) {
        state.end_turn(name, stage);
        self.notify(state);
    }

    /// Counts a request that fetched `len` bytes.
    pub(in crate::read) fn count_request(&self, len: usize) {
        let mut state = self.lock();
        state.statistics.request_count += 1;
        state.statistics.fetched_bytes += len as u64;
    }

    pub(in crate::read) fn statistics(&self) -> ReadStatistics {
        self.lock().statistics
    }

    /// Wants a region until it is released, provided that all wanted regions together take less than
    /// `bytes_max`.
    pub(in crate::read) fn want(
        &self,
        name: RegionName,
        record: &RegionRecord,
        bytes_max: usize,
    ) -> Want {
        let mut state = self.lock();
        if state.wanted_bytes >= bytes_max {
            return Want::NoRoom;
        }
        let state = &mut *state;
        let slot = state.slots.entry(name).or_insert_with(Slot::new);
        state.kept_bytes -= slot.kept_bytes();
        slot.wants += 1;
        if slot.wants == 1 {
            (slot.offset, slot.stored_len) = (record.offset, record.stored_len);
            slot.raw_len = record.raw_len;
            state.wanted_bytes += slot.wanted_bytes();
            if matches!(slot.stage, Stage::Wanted) {
                return Want::ToFetch;
            }
        }
        Want::Known
    }

    /// Announces wanted regions, which are fetched as soon as a request is full of announced regions,
    /// few requests are in progress, or [`Regions::fetch_announced`] is called with the returned
    /// number.
    pub(in crate::read) fn announce(&self, names: impl IntoIterator<Item = RegionName>) -> u64 {
        let mut state = self.lock();
        let batch = state.announced_batch;
        if state.is_closed {
            return batch;
        }
        for name in names {
            let Some(slot) = state.slots.get(&name) else { continue };
            state.announced_len += u64::from(slot.stored_len);
            state.announced.push(name);
        }
        if state.announced_len >= FETCH_LEN || state.has_idle_fetchers() {
            self.queue_announced(&mut state);
        }
        batch
    }

    /// Has the regions fetched that were announced with the number `batch`, unless they are already,
    /// because a thread is about to need them.
    pub(in crate::read) fn fetch_announced(&self, batch: u64) {
        let mut state = self.lock();
        if state.announced_batch == batch {
            self.queue_announced(&mut state);
        }
    }

    pub(super) fn queue_announced(&self, state: &mut State) {
        state.announced_batch += 1;
        state.announced_len = 0;
        if !state.announced.is_empty() {
            state.queue.extend(state.announced.drain(..));
            self.queued.notify_one();
        }
    }

    /// Releases regions, each of which was wanted once.
    pub(in crate::read) fn release(&self, names: impl Iterator<Item = RegionName>) {
        let mut state = self.lock();
        for name in names {
            state.release(&name);
        }
        state.evict();
        self.notify(state);
    }

    /// Returns `true` if all wanted regions together take `bytes` or more.
    pub(in crate::read) fn wants_at_least(&self, bytes: usize) -> bool {
        self.lock().wanted_bytes >= bytes
    }

    /// Counts a step that is handed over. Before that, waits until less than `bytes_max` is wanted,
    /// no other step is in progress, or all has ended.
    pub(in crate::read) fn begin_step(&self, bytes_max: usize) {
        self.with_room(bytes_max).step_count += 1;
    }

    /// Waits until less than `bytes_max` is wanted, no step is in progress, or all has ended.
    pub(in crate::read) fn wait_for_room(&self, bytes_max: usize) {
        drop(self.with_room(bytes_max));
    }

    fn with_room(&self, bytes_max: usize) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        while state.wanted_bytes >= bytes_max && state.step_count > 0 && !state.is_ended {
            state = self.wait(state);
        }
        state
    }

    /// Counts a step that was handed over as done.
    pub(in crate::read) fn end_step(&self) {
        let mut state = self.lock();
        state.step_count -= 1;
        self.notify(state);
    }

    /// Has announced regions fetched from now on, by `fetcher_count` threads. With 0, nothing is
    /// fetched ahead.
    pub(in crate::read) fn open(&self, fetcher_count: usize) {
        let mut state = self.lock();
        (state.is_closed, state.is_ended) = (fetcher_count == 0, false);
        state.fetcher_count = fetcher_count;
    }

    /// Ends all fetching, and all waiting for room.
    pub(in crate::read) fn close(&self) {
        let mut state = self.lock();
        (state.is_closed, state.is_ended) = (true, true);
        state.announced.clear();
        state.announced_len = 0;
        state.queue.clear();
        self.queued.notify_all();
        self.notify(state);
    }
}
