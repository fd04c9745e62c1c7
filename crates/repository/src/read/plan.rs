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
use super::regions::{Fetch, RegionName, Regions, Want};
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
    /// The wanted regions that have to be fetched.
    to_fetch: Vec<RegionName>,
    /// The number with which regions were announced.
    batch: Option<u64>,
    /// Delta chunks among the chunks, whose full chunks are not wanted yet.
    delta_chunks: Vec<Location>,
    /// The decoded size of the wanted regions, in bytes.
    size: usize,
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
        self.regions.open(plan.fetcher_count());
        plan
    }

    fn empty_step(&self) -> ReadStep {
        ReadStep {
            regions: self.regions.clone(),
            wanted: HashSet::new(),
            to_fetch: Vec::new(),
            batch: None,
            delta_chunks: Vec::new(),
            size: 0,
            is_handed_over: false,
        }
    }

    /// Fetches the regions that contain the first of the metadata chunks `chunks` at once, with
    /// several requests at a time. Also returns the number of these chunks, which is at least 1
    /// unless there is none: no more begin once they want regions of `bytes_max` bytes.
    pub(super) fn fetch_meta(&self, chunks: &[Fingerprint], bytes_max: usize) -> (ReadStep, usize) {
        let mut step = self.empty_step();
        let mut count = 0;
        for chunk in &chunks[..self.index.prefetch(Class::Meta, chunks)] {
            if count > 0 && step.size >= bytes_max {
                break;
            }
            count += 1;
            if let Ok(Some(location)) = self.index.find(Class::Meta, chunk, Scope::Read) {
                step.want(&location, usize::MAX);
            }
        }
        let mut fetches = self.regions.take_fetches(step.to_fetch.drain(..));
        while !fetches.is_empty() {
            let rest = fetches.split_off(fetches.len().min(FETCH_COUNT_MAX));
            self.fetch_together(std::mem::replace(&mut fetches, rest));
        }
        (step, count)
    }

    /// Fetches regions by requests that are made at the same time.
    fn fetch_together(&self, fetches: Vec<Fetch<'_>>) {
        let storage = self.repository.storage();
        let mut headers = HashSet::new();
        let mut ranges = Vec::new();
        let mut expected = Vec::new();
        for fetch in fetches {
            let (class, container) = fetch.container;
            let offset = usize::try_from(fetch.offset).unwrap_or(usize::MAX);
            let front = self.index.front(class, container);
            let end = offset.saturating_add(fetch.len);
            if let Some(front) = front.filter(|front| front.len() >= end) {
                fetch.fetched(&front.slice(offset..end));
                continue;
            }
            let name = ObjectName::Container(class, container).to_string();
            if !self.has_opener(class, container) && headers.insert((class, container)) {
                ranges.push(ObjectRange { name: name.clone(), offset: 0, len: HEADER_LEN });
                expected.push((class, container, None));
            }
            ranges.push(ObjectRange { name, offset: fetch.offset, len: fetch.len });
            expected.push((class, container, Some(fetch)));
        }
        // What cannot be read is left to the caller that needs it.
        let read = storage.get_ranges(&ranges);
        for ((class, container, fetch), bytes) in expected.into_iter().zip(read) {
            match (bytes, fetch) {
                (Ok(bytes), Some(fetch)) => {
                    self.regions.count_request(bytes.len());
                    fetch.fetched(&bytes);
                }
                (Ok(header), None) => drop(self.keep_opener(class, container, &header)),
                (Err(_), _) => {}
            }
        }
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

    /// Ends all fetching, and all waiting for room, because no step will free any.
    pub fn end(&self) {
        self.reader.regions.close();
    }

    /// Returns `true` if there is room to begin another step.
    pub fn has_room(&self) -> bool {
        !self.reader.regions.wants_at_least(self.bytes_max / 4 * 3)
    }

    /// Waits until there is room to begin another step, as long as steps that were handed over will
    /// free some.
    pub fn wait_for_room(&self) {
        self.reader.regions.wait_for_room(self.bytes_max / 4 * 3);
    }

    /// Finds out where the data chunks `chunks` are, by several requests at a time, so that
    /// [`ReadPlan::begin`] needs none for them. Worthwhile for far storage only. What is not found
    /// is left to the steps.
    pub fn look_up(&self, chunks: &[Fingerprint]) {
        self.reader.index.look_up(Class::Data, chunks);
    }

    /// Begins a step that reads the data chunks `chunks`, and has the regions that contain them
    /// fetched. Never waits for the regions or for room.
    pub fn begin<'c>(&self, chunks: impl IntoIterator<Item = &'c Fingerprint>) -> ReadStep {
        let mut step = self.reader.empty_step();
        for chunk in chunks {
            // A chunk that is not found is reported to the caller that reads the chunk.
            let found = self.reader.index.find(Class::Data, chunk, Scope::Read);
            if let Ok(Some(location)) = found {
                // A step that begins while there is room is wanted as a whole, because each region
                // that is not wanted costs a request of its own, for which a thread waits. What is
                // left of the room is for the full chunks of delta chunks.
                step.want(&location, self.bytes_max / 8 * 7);
                if !location.is_full() {
                    step.delta_chunks.push(location);
                }
            }
        }
        step.announce();
        step
    }

    /// Fetches metadata as [`Reader::fetch_meta`] does, within the room of the plan.
    pub(crate) fn fetch_meta(&self, chunks: &[Fingerprint]) -> (ReadStep, usize) {
        self.reader.fetch_meta(chunks, self.bytes_max)
    }

    /// Prepares a step that is about to be read: the full chunks that its delta chunks refer to are
    /// fetched too. Waits for the delta chunks, and for room as long as other steps in progress
    /// will free some.
    pub fn hand_over(&self, step: &mut ReadStep) {
        step.fetch_announced();
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
        step.announce();
        step.fetch_announced();
    }
}

impl ReadStep {
    /// Returns the decoded size of the wanted regions, in bytes.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    fn want(&mut self, location: &Location, bytes_max: usize) {
        let container = &location.container;
        let name = (container.class, container.name, location.chunk().region);
        if self.wanted.contains(&name) {
            return;
        }
        match self.regions.want(name, location.region(), bytes_max) {
            Want::NoRoom => return,
            Want::Known => {}
            Want::ToFetch => self.to_fetch.push(name),
        }
        self.size += location.region().raw_len as usize;
        self.wanted.insert(name);
    }

    fn announce(&mut self) {
        if !self.to_fetch.is_empty() {
            self.batch = Some(self.regions.announce(self.to_fetch.drain(..)));
        }
    }

    fn fetch_announced(&mut self) {
        if let Some(batch) = self.batch.take() {
            self.regions.fetch_announced(batch);
        }
    }
}

impl Drop for ReadPlan<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
