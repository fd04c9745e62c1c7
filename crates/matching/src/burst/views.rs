//! HeadDT and TailDT: which chunk a head or a tail leads to, and how often it has.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::hash::Hash;

use super::options::Side;

/// Reference chunks by the fingerprints of their heads and tails.
///
/// `Key` is such a fingerprint; `Reference` says which chunk it is. A chunk that is stored as it is
/// takes the entries of its head and tail over ([`Views::replace`]); one that is stored as a burst has
/// none, so that a burst is nobody's reference chunk.
///
/// Source: section III-C and algorithms 1 to 5, with their errors removed (`docs/notes/burst.md`).
#[derive(Clone, Debug)]
pub struct Views<Key, Reference> {
    c_max: u32,
    /// In the order of [`Side::ALL`].
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
    /// How many bursts live that were found by this one.
    burst_count: u32,
}

/// What one table holds, and what it was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewStatistics {
    /// How many entries it has now.
    pub entry_count: u64,
    /// What keys and values take, without free slots of the hash table.
    pub entry_bytes: u64,
    /// How many bursts were ever found by it.
    pub hit_count: u64,
    /// How often it had an entry that had `c_max` bursts.
    pub exhausted_count: u64,
    /// How often a younger chunk took an entry over.
    pub replaced_count: u64,
}

impl<Key: Copy + Eq + Hash, Reference: Copy + PartialEq> Views<Key, Reference> {
    /// Empty tables, whose entries may have `c_max` bursts at a time.
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

    /// Looks for the reference chunk of a new chunk with these keys: in HeadDT, then in TailDT. The first
    /// entry that has less than `c_max` bursts and that `accept` takes gets one more burst. Returns which
    /// side it was, and what `accept` made of it; nothing where the chunk is to be stored as it is.
    ///
    /// # Errors
    ///
    /// Those of `accept`; then nothing is counted.
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

    /// A chunk with these keys was stored as it is: its head and tail lead to it from now on, and have no
    /// bursts yet.
    pub fn replace(&mut self, keys: &[Option<Key>; 2], reference: Reference) {
        for (table, key) in self.tables.iter_mut().zip(keys) {
            if let Some(key) = key {
                let before = table.entries.insert(*key, Entry { reference, burst_count: 0 });
                table.replaced_count += u64::from(before.is_some());
            }
        }
    }

    /// Takes up what is known from before: `key` leads to `reference`, which has `burst_count` bursts.
    /// Returns whether it does now; where the table has the key, that one is younger and stays.
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

    /// Whether the table has an entry for `key`.
    #[must_use]
    pub fn has(&self, side: Side, key: Key) -> bool {
        self.tables[side as usize].entries.contains_key(&key)
    }

    /// A burst that was found by this key is gone: there is room for another, if the entry still leads to
    /// the same chunk.
    pub fn remove_burst(&mut self, side: Side, key: Key, reference: Reference) {
        let entry = self.tables[side as usize].entries.get_mut(&key);
        if let Some(entry) = entry.filter(|entry| entry.reference == reference) {
            entry.burst_count = entry.burst_count.saturating_sub(1);
        }
    }

    /// A chunk with these keys is gone: entries that lead to it go, and an older one does not come back.
    pub fn remove_whole(&mut self, keys: &[Option<Key>; 2], reference: Reference) {
        for (table, key) in self.tables.iter_mut().zip(keys) {
            if let Some(key) = key
                && let Slot::Occupied(slot) = table.entries.entry(*key)
                && slot.get().reference == reference
            {
                slot.remove();
            }
        }
    }

    /// The entries of a table, in no order: key, reference, and how many bursts it has.
    pub fn entries(&self, side: Side) -> impl Iterator<Item = (Key, Reference, u32)> {
        let entries = self.tables[side as usize].entries.iter();
        entries.map(|(key, entry)| (*key, entry.reference, entry.burst_count))
    }

    /// What a table holds, and what it was asked for.
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
