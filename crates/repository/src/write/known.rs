//! The chunks that count as known (rules W2 and C3).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cutpoint_storage::Result;

use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::PartName;
use crate::index::{Index, Location, Scope};
use crate::rules;

/// Maximum number of regions for which it is remembered whether their delta chunks count.
const CONFIRMED_MAX: usize = 64 * 1024;

/// A chunk that this writer has stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnChunk {
    /// The number of the region that contains the chunk.
    pub(super) region: u64,
    pub(super) is_full: bool,
}

/// The chunks that the index has, and those that this writer has stored.
#[derive(Debug)]
pub(super) struct KnownChunks {
    index: Arc<Index>,
    /// Chunks stored by this writer that no published index segment lists yet.
    own: HashMap<(Class, Fingerprint), OwnChunk>,
    hits: BTreeSet<(Class, PartName)>,
    /// For each container and region: `true` if everything may be referred to that the delta chunks
    /// there refer to.
    confirmed: HashMap<(PartName, u16), bool>,
}

impl KnownChunks {
    pub(super) fn new(index: Arc<Index>) -> KnownChunks {
        KnownChunks { index, own: HashMap::new(), hits: BTreeSet::new(), confirmed: HashMap::new() }
    }

    /// Applies rule W2, and for delta chunks rule C3.
    pub(super) fn contains(&mut self, class: Class, fingerprint: &Fingerprint) -> Result<bool> {
        if self.own.contains_key(&(class, *fingerprint)) {
            return Ok(true);
        }
        let index = self.index.clone();
        let found = index.find_where(class, fingerprint, Scope::Write, |location| {
            // Delta chunks of this writer need no check: the writer has made sure that their
            // references exist.
            Ok(location.is_full() || index.is_own(location) || self.confirm(class, location)?)
        })?;
        let Some(location) = found else { return Ok(false) };
        self.hits.insert((class, location.container.name));
        Ok(true)
    }

    /// C3: returns `true` if everything may be referred to that the delta chunks of this region
    /// refer to. Chunks of this writer do not count, because the time at which they are found
    /// depends on timing.
    fn confirm(&mut self, class: Class, delta_chunk: &Location) -> Result<bool> {
        if !rules::must_confirm_references() {
            return Ok(true);
        }
        let region = (delta_chunk.container.name, delta_chunk.chunk().region);
        if let Some(is_confirmed) = self.confirmed.get(&region) {
            return Ok(*is_confirmed);
        }
        let mut containers = Vec::new();
        for reference in delta_chunk.references() {
            let found = self.index.find_where(class, reference, Scope::Write, |location| {
                Ok(location.is_full() && !self.index.is_own(location))
            })?;
            let Some(found) = found else { break };
            containers.push((class, found.container.name));
        }
        let is_confirmed = containers.len() == delta_chunk.references().len();
        if is_confirmed {
            self.hits.extend(containers);
        }
        if self.confirmed.len() >= CONFIRMED_MAX {
            self.confirmed.clear();
        }
        self.confirmed.insert(region, is_confirmed);
        Ok(is_confirmed)
    }

    /// Returns `true` if a chunk was stored by this writer or is in its index. If `only_full` is
    /// set, only full chunks count. References of delta chunks are not checked.
    pub(super) fn has(
        &self,
        class: Class,
        fingerprint: &Fingerprint,
        only_full: bool,
    ) -> Result<bool> {
        if let Some(own) = self.own.get(&(class, *fingerprint))
            && (own.is_full || !only_full)
        {
            return Ok(true);
        }
        let found = self.index.find_where(class, fingerprint, Scope::Write, |location| {
            Ok(location.is_full() || !only_full)
        })?;
        Ok(found.is_some())
    }

    /// Adds a chunk that this writer has stored.
    pub(super) fn add(&mut self, class: Class, fingerprint: Fingerprint, own: OwnChunk) {
        self.own.insert((class, fingerprint), own);
    }

    /// Adds containers of other writers that this writer relies on.
    pub(super) fn add_hits(&mut self, class: Class, containers: Vec<PartName>) {
        self.hits.extend(containers.into_iter().map(|name| (class, name)));
    }

    /// Forgets the chunks in regions for which `is_published` returns `true`.
    pub(super) fn forget_published(&mut self, is_published: impl Fn(u64) -> bool) {
        self.own.retain(|_, own| !is_published(own.region));
    }

    /// Returns the containers of other writers in which chunks were found (W5).
    pub(super) fn hits(&self) -> &BTreeSet<(Class, PartName)> {
        &self.hits
    }
}
