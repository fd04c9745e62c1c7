//! Changes in memory.

use std::collections::{BTreeMap, HashMap};

use super::key::Key;
use super::run::{HASHED_TAG_MIN, is_hashed};

/// The bytes of memory that an entry takes, without its value.
const ENTRY_BYTES: u64 = 88;

/// The new value of a key, `None` if it was deleted.
type Value = Option<Box<[u8]>>;

/// A change: a key and its new value, `None` if it was deleted.
pub(super) type Change<'a> = (Key, Option<&'a [u8]>);

/// Changes in memory. Those of tables with hashes as keys are rarely asked for in order, and are
/// sorted when they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryMap {
    ordered: BTreeMap<Key, Value>,
    hashed: HashMap<Key, Value>,
    value_bytes: u64,
}

impl MemoryMap {
    /// Returns the change of a key, `Some(None)` if it was deleted.
    pub(crate) fn get(&self, key: &Key) -> Option<Option<&[u8]>> {
        let found = if is_hashed(key) { self.hashed.get(key) } else { self.ordered.get(key) };
        found.map(Option::as_deref)
    }

    pub(crate) fn set(&mut self, key: Key, value: Option<&[u8]>) {
        self.value_bytes += value_len(value);
        let value = value.map(Into::into);
        let before = if is_hashed(&key) {
            self.hashed.insert(key, value)
        } else {
            self.ordered.insert(key, value)
        };
        self.value_bytes -= value_len(before.flatten().as_deref());
    }

    /// Removes the change of a key, as if the key had never been set.
    pub(crate) fn forget(&mut self, key: &Key) {
        let before =
            if is_hashed(key) { self.hashed.remove(key) } else { self.ordered.remove(key) };
        self.value_bytes -= value_len(before.flatten().as_deref());
    }

    /// Adds newer changes.
    pub(crate) fn append(&mut self, newer: MemoryMap) {
        for (key, value) in newer.ordered.into_iter().chain(newer.hashed) {
            self.set(key, value.as_deref());
        }
    }

    /// Returns the changes in order.
    pub(crate) fn in_order(&self) -> Vec<Change<'_>> {
        let ordered = self.ordered.iter().map(|(key, value)| (*key, value.as_deref()));
        let mut changes: Vec<_> = ordered.collect();
        // All keys that are hashes are behind the others.
        changes.extend(self.hashed_in_order(|_| true));
        changes
    }

    /// Returns the changes of the keys from `from` up to, not including, `to`, in order.
    pub(crate) fn range(&self, from: Key, to: Key) -> impl Iterator<Item = Change<'_>> {
        let to = to.max(from);
        let hashed = if to > Key::new(&[&[HASHED_TAG_MIN]]) {
            self.hashed_in_order(|key| (from..to).contains(key))
        } else {
            Vec::new()
        };
        let ordered = self.ordered.range(from..to);
        ordered.map(|(key, value)| (*key, value.as_deref())).chain(hashed)
    }

    fn hashed_in_order(&self, is_wanted: impl Fn(&Key) -> bool) -> Vec<Change<'_>> {
        let wanted = self.hashed.iter().filter(|(key, _)| is_wanted(key));
        let mut changes: Vec<_> = wanted.map(|(key, value)| (*key, value.as_deref())).collect();
        changes.sort_unstable_by_key(|(key, _)| *key);
        changes
    }

    /// Returns the number of changes.
    pub(crate) fn len(&self) -> u64 {
        (self.ordered.len() + self.hashed.len()) as u64
    }

    /// Returns the number of bytes of memory, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.value_bytes + ENTRY_BYTES * self.len()
    }
}

fn value_len(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| value.len() as u64)
}
