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

use super::Reader;
use super::regions::{RegionName, Regions};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::ObjectName;
use crate::index::{Location, Scope};

/// The data chunks that are going to be read. A reader has at most one plan at a time.
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

    /// Begins a step that reads the data chunks `chunks`, and has the regions that contain them
    /// fetched. Never waits for the regions or for room.
    pub fn begin<'c>(&self, chunks: impl IntoIterator<Item = &'c Fingerprint>) -> ReadStep {
        let regions = self.reader.regions.clone();
        let (wanted, delta_chunks) = (HashSet::new(), Vec::new());
        let mut step = ReadStep { regions, wanted, delta_chunks, is_handed_over: false };
        for chunk in chunks {
            // A chunk that is not found is reported to the caller that reads the chunk.
            let found = self.reader.index.find(Class::Data, chunk, Scope::Read);
            if let Ok(Some(location)) = found {
                // The other half of the room is for the full chunks of delta chunks.
                step.want(&location, self.bytes_max / 2);
                if !location.is_full() {
                    step.delta_chunks.push(location);
                }
            }
        }
        step
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
