//! Changes in memory.

use std::collections::{BTreeMap, HashMap};

use super::key::Key;
use super::run::{HASHED_TAG_MIN, is_hashed};

/// The bytes of memory that an entry takes, without its value.
const ENTRY_BYTES: u64 = 96;

/// A change: a key and its new value, `None` if it was deleted.
pub(super) type Change<'a> = (Key, Option<&'a [u8]>);

/// The place of the new value of a key, `None` if it was deleted.
type Slot = Option<ValuePlace>;

/// The place of a value among the bytes of all values.
#[derive(Clone, Copy, Debug)]
struct ValuePlace {
    start: usize,
    /// Values have less than 255 bytes.
    len: u8,
}

/// Changes in memory. Those of tables with hashes as keys are rarely asked for in order, and are
/// sorted when they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryMap {
    ordered: BTreeMap<Key, Slot>,
    hashed: HashMap<Key, Slot>,
    /// All values, those that were replaced among them: they go with the map, after a checkpoint.
    values: Vec<u8>,
    /// The length of all values before the transaction, if one is open.
    values_before: Option<usize>,
    /// The changes of the transaction in their order: the keys, with what they had before, `None` for no
    /// change.
    undo: Vec<(Key, Option<Slot>)>,
}

impl MemoryMap {
    /// Returns the change of a key, `Some(None)` if it was deleted.
    pub(crate) fn get(&self, key: &Key) -> Option<Option<&[u8]>> {
        let found = if is_hashed(key) { self.hashed.get(key) } else { self.ordered.get(key) };
        found.map(|slot| self.value(*slot))
    }

    fn value(&self, slot: Slot) -> Option<&[u8]> {
        slot.map(|ValuePlace { start, len }| &self.values[start..start + usize::from(len)])
    }

    pub(crate) fn set(&mut self, key: Key, value: Option<&[u8]>) {
        let slot = value.map(|value| {
            let start = self.values.len();
            self.values.extend_from_slice(value);
            ValuePlace {
                start,
                len: u8::try_from(value.len()).expect("values have less than 255 bytes"),
            }
        });
        self.put(key, Some(slot));
    }

    /// Removes the change of a key, as if the key had never been set.
    pub(crate) fn forget(&mut self, key: Key) {
        self.put(key, None);
    }

    fn put(&mut self, key: Key, slot: Option<Slot>) {
        let before = self.replace(key, slot);
        if self.values_before.is_some() {
            self.undo.push((key, before));
        }
    }

    fn replace(&mut self, key: Key, slot: Option<Slot>) -> Option<Slot> {
        match (is_hashed(&key), slot) {
            (true, Some(slot)) => self.hashed.insert(key, slot),
            (true, None) => self.hashed.remove(&key),
            (false, Some(slot)) => self.ordered.insert(key, slot),
            (false, None) => self.ordered.remove(&key),
        }
    }

    /// Begins a transaction.
    pub(crate) fn begin(&mut self) {
        self.values_before = Some(self.values.len());
    }

    /// Keeps the changes of the transaction.
    pub(crate) fn commit(&mut self) {
        self.values_before = None;
        self.undo.clear();
    }

    /// Takes the changes of the transaction back.
    pub(crate) fn roll_back(&mut self) {
        let Some(value_bytes) = self.values_before.take() else { return };
        while let Some((key, slot)) = self.undo.pop() {
            self.replace(key, slot);
        }
        self.values.truncate(value_bytes);
    }

    /// Adds newer changes. Values that were replaced are dropped.
    pub(crate) fn append(&mut self, newer: &MemoryMap) {
        let older = std::mem::take(self);
        let kept = older.changes().filter(|(key, _)| newer.get(key).is_none());
        for (key, value) in kept.chain(newer.changes()) {
            self.set(key, value);
        }
    }

    /// Returns the changes in no order.
    fn changes(&self) -> impl Iterator<Item = Change<'_>> {
        let slots = self.ordered.iter().chain(&self.hashed);
        slots.map(|(key, slot)| (*key, self.value(*slot)))
    }

    /// Returns the changes in order.
    pub(crate) fn in_order(&self) -> Vec<Change<'_>> {
        let ordered = self.ordered.iter().map(|(key, slot)| (*key, self.value(*slot)));
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
        ordered.map(|(key, slot)| (*key, self.value(*slot))).chain(hashed)
    }

    fn hashed_in_order(&self, is_wanted: impl Fn(&Key) -> bool) -> Vec<Change<'_>> {
        let wanted = self.hashed.iter().filter(|(key, _)| is_wanted(key));
        let mut changes: Vec<_> = wanted.map(|(key, slot)| (*key, self.value(*slot))).collect();
        changes.sort_unstable_by_key(|(key, _)| *key);
        changes
    }

    /// Returns the number of changes.
    pub(crate) fn len(&self) -> u64 {
        (self.ordered.len() + self.hashed.len()) as u64
    }

    /// Returns the number of bytes of memory, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.values.len() as u64 + ENTRY_BYTES * self.len()
    }
}
