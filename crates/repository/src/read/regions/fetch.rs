//! Fetching ahead: regions that lie close to each other are fetched by one request.

use std::sync::PoisonError;

use bytes::Bytes;

use super::claim::Turn;
use super::shared::Regions;
use super::slots::{RegionName, Stage, State};
use crate::format::fingerprint::Class;
use crate::format::names::PartName;

/// Maximum length of one request in bytes, unless a single region is longer. What is announced at a
/// time is often a bit longer than a request should be.
const FETCH_LEN_MAX: u64 = 5 * 1024 * 1024;
/// Maximum gap between two regions that is read and thrown away instead of asking for them
/// separately, in bytes.
const GAP_LEN_MAX: u64 = 128 * 1024;
/// Maximum number of unwanted regions between two that one request fetches.
const GAP_REGIONS_MAX: u16 = 16;

/// Regions of one container that one request fetches. If it is dropped without a result, each
/// thread that needs a region reads the region itself and gets the error.
pub(in crate::read) struct Fetch<'a> {
    pub(in crate::read) container: (Class, PartName),
    /// The place of the fetched bytes in the container.
    pub(in crate::read) offset: u64,
    pub(in crate::read) len: usize,
    /// The regions, each with its range in the fetched bytes.
    pub(super) turns: Vec<(Turn<'a>, std::ops::Range<usize>)>,
}

impl Fetch<'_> {
    /// Distributes `bytes`, the result of the whole request, to the regions.
    pub(in crate::read) fn fetched(self, bytes: &Bytes) {
        for (turn, range) in self.turns {
            if range.end <= bytes.len() {
                turn.fetched(bytes.slice(range));
            }
        }
    }
}

impl Regions {
    /// Waits for regions to fetch and returns them. Returns `None` once closed.
    pub(in crate::read) fn next_fetch(&self) -> Option<Fetch<'_>> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            while let Some(name) = state.queue.pop_front() {
                if state.is_to_be_fetched(&name) {
                    let fetch = self.gather_fetch(&mut state, name);
                    if !state.queue.is_empty() {
                        self.queued.notify_one();
                    }
                    return Some(fetch);
                }
            }
            state.idle_fetcher_count += 1;
            if !state.announced.is_empty() && state.has_idle_fetchers() {
                self.queue_announced(&mut state);
            } else {
                state = self.queued.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.idle_fetcher_count -= 1;
        }
    }

    /// Returns groups of the wanted regions `names`, which the caller has to fetch.
    pub(in crate::read) fn take_fetches(
        &self,
        names: impl IntoIterator<Item = RegionName>,
    ) -> Vec<Fetch<'_>> {
        let mut state = self.lock();
        let mut fetches = Vec::new();
        for name in names {
            if state.is_to_be_fetched(&name) {
                fetches.push(self.gather_fetch(&mut state, name));
            }
        }
        fetches
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
}
