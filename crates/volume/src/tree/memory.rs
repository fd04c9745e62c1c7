//! Changes in memory.

use std::collections::BTreeMap;

use super::key::Key;

/// The bytes of memory that an entry takes, without its value.
const ENTRY_BYTES: u64 = 88;

/// Changes in memory: `None` for a key that was deleted.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryMap {
    changes: BTreeMap<Key, Option<Box<[u8]>>>,
    value_bytes: u64,
}

impl MemoryMap {
    /// Returns the change of a key, `Some(None)` if it was deleted.
    pub(crate) fn get(&self, key: &Key) -> Option<Option<&[u8]>> {
        self.changes.get(key).map(Option::as_deref)
    }

    pub(crate) fn set(&mut self, key: Key, value: Option<&[u8]>) {
        self.value_bytes += value_len(value);
        let before = self.changes.insert(key, value.map(Into::into));
        self.value_bytes -= value_len(before.flatten().as_deref());
    }

    /// Removes the change of a key, as if the key had never been set.
    pub(crate) fn forget(&mut self, key: &Key) {
        let before = self.changes.remove(key);
        self.value_bytes -= value_len(before.flatten().as_deref());
    }

    /// Adds newer changes.
    pub(crate) fn append(&mut self, newer: MemoryMap) {
        for (key, value) in newer.changes {
            self.set(key, value.as_deref());
        }
    }

    /// Returns the changes in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, Option<&[u8]>)> {
        self.changes.iter().map(|(key, value)| (*key, value.as_deref()))
    }

    /// Returns the changes of the keys from `from` up to, not including, `to`, in order.
    pub(crate) fn range(
        &self,
        from: Key,
        to: Key,
    ) -> impl Iterator<Item = (Key, Option<&[u8]>)> + use<'_> {
        let to = to.max(from);
        self.changes.range(from..to).map(|(key, value)| (*key, value.as_deref()))
    }

    /// Returns the number of changes.
    pub(crate) fn len(&self) -> u64 {
        self.changes.len() as u64
    }

    /// Returns the number of bytes of memory, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.value_bytes + ENTRY_BYTES * self.len()
    }
}

fn value_len(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| value.len() as u64)
}
