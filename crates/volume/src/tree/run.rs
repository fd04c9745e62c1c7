//! A run: changes in the order of their keys, which never change themselves, in parts.
//!
//! A merge writes its result part by part, and each part is published at once: the inputs then lose the
//! changes that it has taken, so that memory and files for both are never needed for more than a part.

use std::sync::Arc;

use super::key::Key;
use super::part::Part;
use crate::core::Core;
use crate::error::{Error, Kind, Result};
use crate::format::run::RunMeta;
use crate::rules;

/// A run: parts with rising keys.
#[derive(Debug)]
pub(crate) struct Run {
    level: u8,
    has_all_keys_in_filter: bool,
    /// The least key that counts if a merge has begun to take the changes of the run.
    from: Option<Key>,
    parts: Vec<Arc<Part>>,
}

impl Run {
    /// Creates a run of one part.
    pub(super) fn new(level: u8, has_all_keys_in_filter: bool, part: Arc<Part>) -> Run {
        Run { level, has_all_keys_in_filter, from: None, parts: vec![part] }
    }

    /// Opens a run that a checkpoint names.
    ///
    /// # Errors
    ///
    /// Fails if a file does not exist or is damaged beyond its parity pages.
    pub(crate) fn open(core: &Core, meta: &RunMeta) -> Result<Run> {
        let parts = meta.parts.iter().map(|part| Part::open(core, part).map(Arc::new));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let is_ordered = parts.is_sorted_by(|one, other| one.first() < other.first());
        let from = Key::of_bytes(&meta.from);
        if parts.is_empty() || !is_ordered || from.is_none() != meta.from.is_empty() {
            return Err(Error::new(Kind::Corrupt, "tables", "a run contradicts itself"));
        }
        let RunMeta { level, has_all_keys_in_filter, .. } = *meta;
        Ok(Run { level, has_all_keys_in_filter, from, parts })
    }

    /// Returns the run as a checkpoint has it.
    pub(crate) fn meta(&self) -> RunMeta {
        RunMeta {
            level: self.level,
            has_all_keys_in_filter: self.has_all_keys_in_filter,
            from: self.from.map(|from| from.bytes().to_vec()).unwrap_or_default(),
            parts: self.parts.iter().map(|part| part.meta().clone()).collect(),
        }
    }

    /// Returns the run with another part behind its own.
    pub(super) fn with_part(&self, part: Arc<Part>) -> Run {
        let parts = self.parts.iter().cloned().chain([part]).collect();
        Run { parts, ..*self }
    }

    /// Returns the run without the changes of keys before `from`.
    pub(super) fn rest(&self, from: Key) -> Run {
        // The last part stays: its last key is not known.
        let parts = self.parts[self.index_of(&from)..].to_vec();
        Run { from: Some(from), parts, ..*self }
    }

    pub(crate) fn level(&self) -> u8 {
        self.level
    }

    /// Returns `true` if a merge has begun to take the changes of the run.
    pub(crate) fn is_merging(&self) -> bool {
        self.from.is_some()
    }

    /// Returns the least key that counts if a merge has begun to take the changes of the run.
    pub(super) fn from(&self) -> Option<Key> {
        self.from
    }

    /// Returns the parts, by rising keys.
    pub(crate) fn parts(&self) -> &[Arc<Part>] {
        &self.parts
    }

    pub(crate) fn entry_count(&self) -> u64 {
        self.parts.iter().map(|part| part.meta().entry_count).sum()
    }

    /// Returns the number of bytes of fences and filters.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.index_bytes()).sum()
    }

    /// Returns the index of the part that may have a key, or that is the first one behind it.
    fn index_of(&self, key: &Key) -> usize {
        self.parts.partition_point(|part| part.first() <= key).saturating_sub(1)
    }

    /// Returns the later one of a key and the least key that counts.
    pub(super) fn least_from(&self, from: Key) -> Key {
        let least = self.from.filter(|_| rules::must_hide_merged());
        least.map_or(from, |least| least.max(from))
    }

    /// Returns the parts that may have keys from `from` up to, not including, `to`.
    pub(super) fn parts_of(&self, from: &Key, to: &Key) -> &[Arc<Part>] {
        let end = self.parts.partition_point(|part| part.first() < to);
        self.parts.get(self.index_of(from)..end).unwrap_or_default()
    }

    /// Returns what `decode` makes of the value of a key whose hash is `filter_hash`: `Some(None)` if the
    /// key was deleted, `None` if it was not changed.
    ///
    /// # Errors
    ///
    /// Fails if the page of the key cannot be read.
    pub(crate) fn get<T>(
        &self,
        core: &Core,
        key: &Key,
        filter_hash: u64,
        decode: impl Fn(&[u8]) -> T,
    ) -> Result<Option<Option<T>>> {
        if self.from.is_some() && self.least_from(*key) != *key {
            return Ok(None);
        }
        let is_in_filter = self.has_all_keys_in_filter || is_hashed(key);
        let filter_hash = is_in_filter.then_some(filter_hash);
        self.parts[self.index_of(key)].get(core, key, filter_hash, decode)
    }

    /// Calls `take` with the changes of the keys from `from` up to, not including, `to`, in order.
    ///
    /// # Errors
    ///
    /// Fails if a page cannot be read.
    pub(super) fn for_each_in(
        &self,
        core: &Core,
        [from, to]: [&Key; 2],
        take: &mut impl FnMut(&Key, Option<&[u8]>),
    ) -> Result<()> {
        let from = self.least_from(*from);
        let mut parts = self.parts_of(&from, to).iter();
        parts.try_for_each(|part| part.for_each_in(core, [&from, to], take))
    }
}

/// The least tag of a table whose keys are hashes.
pub(super) const HASHED_TAG_MIN: u8 = 3;

/// Returns `true` if the key is a hash, so that most lookups find nothing.
pub(super) fn is_hashed(key: &Key) -> bool {
    key.bytes().first().is_some_and(|tag| *tag >= HASHED_TAG_MIN)
}
