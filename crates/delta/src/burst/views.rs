//! HeadDT and TailDT: the chunk that a head or a tail leads to, and the number of its bursts.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::hash::Hash;

use super::options::Side;

/// Reference chunks by the fingerprints of their heads and tails.
///
/// `Key` is such a fingerprint, and `Reference` identifies the chunk. A chunk that is stored as it
/// is takes over the entries of its head and tail ([`Views::replace`]). A chunk that is stored as a
/// burst has no entries, so that no burst is a reference chunk.
///
/// Source: section III-C and algorithms 1 to 5, with their errors removed (`docs/notes/burst.md`).
#[derive(Clone, Debug)]
pub struct Views<Key, Reference> {
    c_max: u32,
    /// The tables, in the order of [`Side::ALL`].
    tables: [Table<Key, Reference>; 2],
}

#[derive(Clone, Debug)]
struct Table<Key, Reference> {
    entries: HashMap<Key, Entry<Reference>>,
    hit_count: u64,
    exhausted_count: u64,
    replaced_count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry<Reference> {
    reference: Reference,
    /// The number of live bursts that were found by this entry.
    burst_count: u32,
}

/// The size of one table, and the outcomes of lookups in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewStatistics {
    /// The current number of entries.
    pub entry_count: u64,
    /// The size of keys and values in bytes, without free slots of the hash table.
    pub entry_bytes: u64,
    /// The number of bursts found by the table so far.
    pub hit_count: u64,
    /// The number of lookups that found an entry that already had `c_max` bursts.
    pub exhausted_count: u64,
    /// The number of entries that a newer chunk took over.
    pub replaced_count: u64,
}

impl<Key: Copy + Eq + Hash, Reference: Copy + PartialEq> Views<Key, Reference> {
    /// Creates empty tables, whose entries may have at most `c_max` live bursts.
    #[must_use]
    pub fn new(c_max: u32) -> Views<Key, Reference> {
        let table = || Table {
            entries: HashMap::new(),
            hit_count: 0,
            exhausted_count: 0,
            replaced_count: 0,
        };
        Views { c_max, tables: [table(), table()] }
    }

    /// Sets the maximum number of live bursts of an entry for later calls of [`Views::find`].
    /// Entries that have more keep them.
    pub fn set_c_max(&mut self, c_max: u32) {
        self.c_max = c_max;
    }

    /// Finds the reference chunk of a new chunk with these keys, in HeadDT and then in TailDT.
    ///
    /// The burst is counted at the first entry that has less than `c_max` bursts and that `accept`
    /// accepts. Returns the side of that entry and the value from `accept`, or `None` if the chunk
    /// is to be stored as it is.
    ///
    /// # Errors
    ///
    /// Returns any error of `accept`, in which case no burst is counted.
    pub fn find<T, E>(
        &mut self,
        keys: &[Option<Key>; 2],
        mut accept: impl FnMut(Side, Reference) -> Result<Option<T>, E>,
    ) -> Result<Option<(Side, T)>, E> {
        for ((side, table), key) in Side::ALL.into_iter().zip(&mut self.tables).zip(keys) {
            let Some(entry) = key.and_then(|key| table.entries.get_mut(&key)) else { continue };
            if entry.burst_count >= self.c_max {
                table.exhausted_count += 1;
                continue;
            }
            if let Some(accepted) = accept(side, entry.reference)? {
                entry.burst_count += 1;
                table.hit_count += 1;
                return Ok(Some((side, accepted)));
            }
        }
        Ok(None)
    }

    /// Records that a chunk with these keys was stored as it is. The head and the tail of the chunk
    /// lead to it from now on, and have no bursts yet.
    pub fn replace(&mut self, keys: &[Option<Key>; 2], reference: Reference) {
        for (table, key) in self.tables.iter_mut().zip(keys) {
            if let Some(key) = key {
                let before = table.entries.insert(*key, Entry { reference, burst_count: 0 });
                table.replaced_count += u64::from(before.is_some());
            }
        }
    }

    /// Adds an entry that is known from before: `key` leads to `reference`, which has `burst_count`
    /// bursts. Returns `true` if the entry was added. An entry that the table already has for the
    /// key is newer, and stays.
    pub fn take_up(
        &mut self,
        side: Side,
        key: Key,
        reference: Reference,
        burst_count: u32,
    ) -> bool {
        match self.tables[side as usize].entries.entry(key) {
            Slot::Occupied(_) => false,
            Slot::Vacant(slot) => {
                slot.insert(Entry { reference, burst_count });
                true
            }
        }
    }

    /// Returns `true` if the table has an entry for `key`.
    #[must_use]
    pub fn has(&self, side: Side, key: Key) -> bool {
        self.tables[side as usize].entries.contains_key(&key)
    }

    /// Records that a burst that was found by this key is gone. If the entry still leads to the
    /// same chunk, the entry has room for another burst.
    pub fn remove_burst(&mut self, side: Side, key: Key, reference: Reference) {
        let entry = self.tables[side as usize].entries.get_mut(&key);
        if let Some(entry) = entry.filter(|entry| entry.reference == reference) {
            entry.burst_count = entry.burst_count.saturating_sub(1);
        }
    }

    /// Records that a chunk with these keys is gone. The entries that lead to the chunk are
    /// removed, and the entries that they replaced are not restored.
    pub fn remove_full_chunk(&mut self, keys: &[Option<Key>; 2], reference: Reference) {
        for (table, key) in self.tables.iter_mut().zip(keys) {
            if let Some(key) = key
                && let Slot::Occupied(slot) = table.entries.entry(*key)
                && slot.get().reference == reference
            {
                slot.remove();
            }
        }
    }

    /// Returns the entries of a table, in no order: key, reference, and number of bursts.
    pub fn entries(&self, side: Side) -> impl Iterator<Item = (Key, Reference, u32)> {
        let entries = self.tables[side as usize].entries.iter();
        entries.map(|(key, entry)| (*key, entry.reference, entry.burst_count))
    }

    /// Returns the statistics of a table.
    #[must_use]
    pub fn statistics(&self, side: Side) -> ViewStatistics {
        let table = &self.tables[side as usize];
        let entry_bytes = table.entries.len() * size_of::<(Key, Entry<Reference>)>();
        ViewStatistics {
            entry_count: table.entries.len() as u64,
            entry_bytes: entry_bytes as u64,
            hit_count: table.hit_count,
            exhausted_count: table.exhausted_count,
            replaced_count: table.replaced_count,
        }
    }
}
