//! A plan: what is going to be read, told ahead.
//!
//! A restore knows what it will write long before it does. It tells a plan the chunks of each of its
//! steps, in the order in which it will take them. The plan looks up in which regions they are, and
//! has them fetched where the medium is far, several requests at once, those that lie side by side by
//! one. They are kept, decoded once, until the last of the steps that were told has used them. What lies farther apart
//! than the plan may hold is decoded again; [`ReadStatistics`](super::ReadStatistics) counts that.
//!
//! A plan is advice. What it does not know, cannot find or cannot read is read when it is needed, by
//! whoever needs it, who then hears what is wrong. Every chunk is verified as ever.

use std::collections::HashSet;
use std::sync::Arc;

use super::Reader;
use super::regions::{RegionName, Regions};
use crate::fingerprint::{Class, Fingerprint};
use crate::index::{Location, Scope};
use crate::name::ObjectName;

/// What is going to be read of data. There is one at a time for each reader.
#[derive(Debug)]
pub struct Plan<'a> {
    reader: &'a Reader,
    bytes_max: usize,
}

/// Chunks that will be read together, in some order. Dropped once they have been.
#[derive(Debug)]
pub struct Step {
    regions: Arc<Regions>,
    wanted: HashSet<RegionName>,
    /// Chunks of it that are composites, whose wholes are not wanted yet.
    composites: Vec<Location>,
    is_handed_over: bool,
}

impl Drop for Step {
    fn drop(&mut self) {
        self.regions.release(self.wanted.drain());
        if self.is_handed_over {
            self.regions.end_step();
        }
    }
}

impl Reader {
    /// A plan that holds about `bytes_max` of regions at most, counted as they are decoded; besides
    /// those that the reader keeps anyway.
    pub fn plan(&self, bytes_max: usize) -> Plan<'_> {
        let plan = Plan { reader: self, bytes_max };
        self.regions.open(plan.fetcher_count() > 0);
        plan
    }
}

impl Plan<'_> {
    /// How many threads should [`fetch`](Plan::fetch): none where the medium is near, and whoever needs
    /// something reads it.
    pub fn fetcher_count(&self) -> usize {
        self.reader.repository.media().requests_ahead_max()
    }

    /// Fetches what is wanted, until the plan [ends](Plan::end). What cannot be read is left to whoever
    /// needs it.
    pub fn fetch(&self) {
        let (media, regions) = (self.reader.repository.media(), &self.reader.regions);
        while let Some(fetch) = regions.next_fetch() {
            let (class, container) = fetch.container;
            let name = ObjectName::Container(class, container).to_string();
            if let Ok(bytes) = media.get_range(&name, fetch.offset, fetch.len) {
                regions.count_request(bytes.len());
                fetch.fetched(&bytes);
            }
        }
    }

    /// Nothing more is fetched.
    pub fn end(&self) {
        self.reader.regions.close();
    }

    /// Whether there is room to begin another step.
    pub fn has_room(&self) -> bool {
        !self.reader.regions.wants_at_least(self.bytes_max / 2)
    }

    /// Begins a step that reads the data chunks `chunks`: the regions in which they are stored are on
    /// their way. Never waits for them, or for room.
    pub fn begin<'c>(&self, chunks: impl IntoIterator<Item = &'c Fingerprint>) -> Step {
        let regions = self.reader.regions.clone();
        let (wanted, composites) = (HashSet::new(), Vec::new());
        let mut step = Step { regions, wanted, composites, is_handed_over: false };
        for chunk in chunks {
            // What is not found now is told to whoever reads it.
            let found = self.reader.index.find(Class::Data, chunk, Scope::Read);
            if let Ok(Some(location)) = found {
                // Half of the room is for the wholes of composites.
                step.want(&location, self.bytes_max / 2);
                if !location.is_whole() {
                    step.composites.push(location);
                }
            }
        }
        step
    }

    /// The step is about to be read: what its composites refer to is on its way, too. Waits for the
    /// composites, and for room, as long as other steps were handed over that give it back.
    pub fn hand_over(&self, step: &mut Step) {
        self.reader.regions.begin_step(self.bytes_max);
        step.is_handed_over = true;
        let mut seen: HashSet<Fingerprint> = HashSet::new();
        for location in std::mem::take(&mut step.composites) {
            let Ok(extents) = self.reader.extents(Class::Data, &location) else { continue };
            let references = location.references();
            for extent in extents {
                let Some(reference) = references.get(usize::from(extent.reference)) else {
                    continue;
                };
                if !seen.insert(*reference) {
                    continue;
                }
                let is_whole = |location: &Location| Ok(location.is_whole());
                let index = &self.reader.index;
                if let Ok(Some(whole)) =
                    index.find_where(Class::Data, reference, Scope::Read, is_whole)
                {
                    step.want(&whole, self.bytes_max);
                }
            }
        }
    }
}

impl Step {
    fn want(&mut self, location: &Location, bytes_max: usize) {
        let container = &location.container;
        let name = (container.class, container.name, location.chunk().region);
        if !self.wanted.contains(&name) && self.regions.want(name, location.region(), bytes_max) {
            self.wanted.insert(name);
        }
    }
}

impl Drop for Plan<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
