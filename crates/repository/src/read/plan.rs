//! A plan: the chunks that are going to be read, announced ahead.
//!
//! A restore knows what it will write long before it does. It announces the chunks of each of its
//! steps to a plan, in the order in which it will read them. The plan looks up the regions that
//! contain them. If the storage is remote, the plan also has the regions fetched ahead, by several
//! requests at once, with one request for regions that lie next to each other. Each region is
//! decoded once and kept until the last announced step has used it. A region whose uses lie farther
//! apart than the plan has room for is decoded again; [`ReadStatistics`](super::ReadStatistics)
//! counts these.
//!
//! A plan is advice. A chunk that the plan does not know, find or read is read when it is needed,
//! and the caller that reads the chunk gets the error. Every chunk is verified in any case.

use std::collections::HashSet;
use std::sync::Arc;

use cutpoint_storage::ObjectRange;

use super::Reader;
use super::regions::{RegionName, Regions};
use crate::crypto::HEADER_LEN;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::ObjectName;
use crate::index::{Location, Scope};

/// Maximum number of regions, or groups of regions, that are fetched at once. It is the number of
/// requests that a storage makes at a time.
const FETCH_COUNT_MAX: usize = 32;

/// The chunks that are going to be read. A reader has at most one plan at a time.
#[derive(Debug)]
pub struct ReadPlan<'a> {
    reader: &'a Reader,
    bytes_max: usize,
}

/// Chunks that will be read together, in any order. The step should be dropped once they have been
/// read.
#[derive(Debug)]
pub struct ReadStep {
    regions: Arc<Regions>,
    wanted: HashSet<RegionName>,
    /// Delta chunks among the chunks, whose full chunks are not wanted yet.
    delta_chunks: Vec<Location>,
    is_handed_over: bool,
}

impl Drop for ReadStep {
    fn drop(&mut self) {
        self.regions.release(self.wanted.drain());
        if self.is_handed_over {
            self.regions.end_step();
        }
    }
}

impl Reader {
    /// Creates a plan that holds at most about `bytes_max` of decoded regions, in addition to those
    /// that the reader keeps anyway.
    pub fn plan(&self, bytes_max: usize) -> ReadPlan<'_> {
        let plan = ReadPlan { reader: self, bytes_max };
        self.regions.open(plan.fetcher_count() > 0);
        plan
    }
}

impl ReadPlan<'_> {
    /// Returns the number of threads that should [`fetch`](ReadPlan::fetch). It is 0 for near
    /// storage, where each region is read by the caller that needs it.
    pub fn fetcher_count(&self) -> usize {
        self.reader.repository.storage().requests_ahead_max()
    }

    /// Fetches wanted regions until the plan [ends](ReadPlan::end). A region that cannot be read is
    /// left to the caller that needs it.
    pub fn fetch(&self) {
        let (storage, regions) = (self.reader.repository.storage(), &self.reader.regions);
        while let Some(fetch) = regions.next_fetch() {
            let (class, container) = fetch.container;
            let name = ObjectName::Container(class, container).to_string();
            if let Ok(bytes) = storage.get_range(&name, fetch.offset, fetch.len) {
                regions.count_request(bytes.len());
                fetch.fetched(&bytes);
            }
        }
    }

    /// Ends all fetching.
    pub fn end(&self) {
        self.reader.regions.close();
    }

    /// Returns `true` if there is room to begin another step.
    pub fn has_room(&self) -> bool {
        !self.reader.regions.wants_at_least(self.bytes_max / 2)
    }

    /// Waits until there is room to begin another step, as long as steps that were handed over will
    /// free some.
    pub fn wait_for_room(&self) {
        self.reader.regions.wait_for_room(self.bytes_max / 2);
    }

    /// Begins a step that reads the data chunks `chunks`, and has the regions that contain them
    /// fetched. Never waits for the regions or for room.
    pub fn begin<'c>(&self, chunks: impl IntoIterator<Item = &'c Fingerprint>) -> ReadStep {
        let mut step = self.empty_step();
        for chunk in chunks {
            // A chunk that is not found is reported to the caller that reads the chunk.
            let found = self.reader.index.find(Class::Data, chunk, Scope::Read);
            if let Ok(Some(location)) = found {
                // A step that begins while there is room is wanted as a whole, because each region
                // that is not wanted costs a request of its own, for which a thread waits. What is
                // left of the room is for the full chunks of delta chunks.
                step.want(&location, self.bytes_max / 4 * 3);
                if !location.is_full() {
                    step.delta_chunks.push(location);
                }
            }
        }
        step
    }

    fn empty_step(&self) -> ReadStep {
        let regions = self.reader.regions.clone();
        let (wanted, delta_chunks) = (HashSet::new(), Vec::new());
        ReadStep { regions, wanted, delta_chunks, is_handed_over: false }
    }

    /// Begins a step that reads the first of the metadata chunks `chunks`, and fetches the regions
    /// that contain them at once, with several requests at a time. Also returns the number of these
    /// chunks, which is at least 1 unless there is none. No other thread has to
    /// [`fetch`](ReadPlan::fetch).
    pub(crate) fn fetch_meta(&self, chunks: &[Fingerprint]) -> (ReadStep, usize) {
        let ReadPlan { reader, bytes_max } = self;
        let mut step = self.empty_step();
        let mut count = 0;
        for chunk in &chunks[..reader.index.prefetch(Class::Meta, chunks)] {
            if count > 0 && reader.regions.wants_at_least(*bytes_max) {
                break;
            }
            count += 1;
            if let Ok(Some(location)) = reader.index.find(Class::Meta, chunk, Scope::Read) {
                step.want(&location, usize::MAX);
            }
        }
        while self.fetch_queued() {}
        (step, count)
    }

    /// Fetches wanted regions, several requests at a time. Returns `false` if there are none.
    fn fetch_queued(&self) -> bool {
        let (reader, storage) = (self.reader, self.reader.repository.storage());
        let mut headers = HashSet::new();
        let mut ranges = Vec::new();
        let mut fetches = Vec::new();
        let queued = reader.regions.take_fetches(FETCH_COUNT_MAX);
        let was_queued = !queued.is_empty();
        for fetch in queued {
            let (class, container) = fetch.container;
            let offset = usize::try_from(fetch.offset).unwrap_or(usize::MAX);
            let front = reader.index.front(class, container);
            let end = offset.saturating_add(fetch.len);
            if let Some(front) = front.filter(|front| front.len() >= end) {
                fetch.fetched(&front.slice(offset..end));
                continue;
            }
            let name = ObjectName::Container(class, container).to_string();
            if !reader.has_opener(class, container) && headers.insert((class, container)) {
                ranges.push(ObjectRange { name: name.clone(), offset: 0, len: HEADER_LEN });
                fetches.push((class, container, None));
            }
            ranges.push(ObjectRange { name, offset: fetch.offset, len: fetch.len });
            fetches.push((class, container, Some(fetch)));
        }
        // What cannot be read is left to the caller that needs it.
        let read = storage.get_ranges(&ranges);
        for ((class, container, fetch), bytes) in fetches.into_iter().zip(read) {
            match (bytes, fetch) {
                (Ok(bytes), Some(fetch)) => {
                    reader.regions.count_request(bytes.len());
                    fetch.fetched(&bytes);
                }
                (Ok(header), None) => drop(reader.keep_opener(class, container, &header)),
                (Err(_), _) => {}
            }
        }
        was_queued
    }

    /// Prepares a step that is about to be read: the full chunks that its delta chunks refer to are
    /// fetched too. Waits for the delta chunks, and for room as long as other steps in progress
    /// will free some.
    pub fn hand_over(&self, step: &mut ReadStep) {
        self.reader.regions.begin_step(self.bytes_max);
        step.is_handed_over = true;
        let mut seen: HashSet<Fingerprint> = HashSet::new();
        for location in std::mem::take(&mut step.delta_chunks) {
            let Ok(extents) = self.reader.extents(Class::Data, &location) else { continue };
            let references = location.references();
            for extent in extents {
                let Some(reference) = references.get(usize::from(extent.reference)) else {
                    continue;
                };
                if !seen.insert(*reference) {
                    continue;
                }
                let is_full = |location: &Location| Ok(location.is_full());
                let index = &self.reader.index;
                if let Ok(Some(full_chunk)) =
                    index.find_where(Class::Data, reference, Scope::Read, is_full)
                {
                    step.want(&full_chunk, self.bytes_max);
                }
            }
        }
    }
}

impl ReadStep {
    fn want(&mut self, location: &Location, bytes_max: usize) {
        let container = &location.container;
        let name = (container.class, container.name, location.chunk().region);
        if !self.wanted.contains(&name) && self.regions.want(name, location.region(), bytes_max) {
            self.wanted.insert(name);
        }
    }
}

impl Drop for ReadPlan<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
