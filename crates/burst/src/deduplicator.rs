//! The four tables, and writing, reading and deleting by them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::fmt;

use cutpoint_matching::burst::{Side, Tau, ViewStatistics, Views};

use crate::{Burst, Fingerprint, Options, SideStatistics, Statistics, TableStatistics};

#[cfg(test)]
mod tests;

/// Chunks in memory, equal ones once, similar ones as bursts.
///
/// What is written is counted: it can be read until it was deleted as often as it was written. No
/// order of calls panics or loses a chunk.
///
/// A reference chunk is always stored as it is (depth 1). It stays as long as a burst needs it, also
/// when it was deleted itself; then it can no longer be read, but still be found by its head and tail,
/// and becomes readable by being written again. When the last burst goes, it goes. Its entries in HeadDT
/// and TailDT go with it, if no younger chunk has taken them; an older one does not come back to them.
///
/// Source: section III-C and its algorithms 1 to 5, with their errors removed.
pub struct Deduplicator {
    options: Options,
    dt: HashMap<Fingerprint, Whole>,
    bt: HashMap<Fingerprint, BurstEntry>,
    /// HeadDT and TailDT.
    views: Views<Fingerprint, Fingerprint>,
    /// All but the sizes of tables, which the tables know.
    statistics: Statistics,
}

/// An entry of DT.
struct Whole {
    data: Box<[u8]>,
    /// How often it was written and not deleted.
    use_count: u64,
    /// How many entries of BT refer to it.
    burst_count: u64,
}

/// An entry of BT.
struct BurstEntry {
    burst: Burst,
    chunk_len: usize,
    reference: Fingerprint,
    /// By which table the reference chunk was found.
    side: Side,
    /// How often the chunk was written and not deleted: at least 1.
    use_count: u64,
}

/// There is no chunk of this fingerprint (any more).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown(pub Fingerprint);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chunk {}: not known", self.0)
    }
}

impl std::error::Error for Unknown {}

impl Deduplicator {
    /// Begins with empty tables.
    #[must_use]
    pub fn new(options: Options) -> Deduplicator {
        Deduplicator {
            options,
            dt: HashMap::new(),
            bt: HashMap::new(),
            views: Views::new(options.c_max),
            statistics: Statistics::default(),
        }
    }

    /// Stores `chunk`, or counts it where it is stored already, and returns its fingerprint.
    ///
    /// It is looked for in DT and BT by its fingerprint, then in HeadDT, then in TailDT. The first entry
    /// of the two that has less than `c_max` bursts gives the reference chunk, however long the burst.
    /// Where there is none, `chunk` is stored as it is, and its head and tail lead to it from now on.
    pub fn write(&mut self, chunk: &[u8]) -> Fingerprint {
        let fingerprint = Fingerprint::of(chunk);
        self.statistics.logical.add(chunk.len());
        if let Some(whole) = self.dt.get_mut(&fingerprint) {
            whole.use_count += 1;
            self.statistics.duplicate_count += 1;
        } else if let Some(entry) = self.bt.get_mut(&fingerprint) {
            entry.use_count += 1;
            self.statistics.burst_duplicate_count += 1;
        } else {
            let sub_fingerprints = sub_fingerprints(&self.options, chunk);
            if !self.write_burst(fingerprint, chunk, &sub_fingerprints) {
                self.write_whole(fingerprint, chunk, &sub_fingerprints);
            }
        }
        fingerprint
    }

    /// Stores `chunk` as a burst, if a reference chunk is found that may have one more.
    fn write_burst(
        &mut self,
        fingerprint: Fingerprint,
        chunk: &[u8],
        sub_fingerprints: &[Option<Fingerprint>; 2],
    ) -> bool {
        let dt = &self.dt;
        let Ok(found) = self.views.find(sub_fingerprints, |_, reference| {
            let whole = dt.get(&reference);
            Ok::<_, Infallible>(whole.map(|whole| (reference, Burst::between(&whole.data, chunk))))
        });
        let Some((side, (reference, burst))) = found else { return false };
        if let Some(whole) = self.dt.get_mut(&reference) {
            whole.burst_count += 1;
        }
        self.statistics.bursts.add(burst.post_len());
        self.statistics.burst_len_sixteenths[sixteenths(burst.post_len(), chunk.len())] += 1;
        let entry = BurstEntry { burst, chunk_len: chunk.len(), reference, side, use_count: 1 };
        self.bt.insert(fingerprint, entry);
        true
    }

    /// Stores `chunk` as it is: it is the reference chunk of its head and tail from now on.
    fn write_whole(
        &mut self,
        fingerprint: Fingerprint,
        chunk: &[u8],
        sub_fingerprints: &[Option<Fingerprint>; 2],
    ) {
        self.views.replace(sub_fingerprints, fingerprint);
        self.statistics.unique_count += 1;
        self.statistics.wholes.add(chunk.len());
        self.dt.insert(fingerprint, Whole { data: chunk.into(), use_count: 1, burst_count: 0 });
    }

    /// Returns the chunk of this fingerprint.
    ///
    /// # Errors
    ///
    /// If it was not written, or deleted as often as it was written.
    pub fn read(&self, fingerprint: &Fingerprint) -> Result<Vec<u8>, Unknown> {
        if let Some(whole) = self.dt.get(fingerprint).filter(|whole| whole.use_count > 0) {
            return Ok(whole.data.to_vec());
        }
        let entry = self.bt.get(fingerprint).ok_or(Unknown(*fingerprint))?;
        let whole = self.dt.get(&entry.reference).ok_or(Unknown(entry.reference))?;
        entry.burst.apply(&whole.data).ok_or(Unknown(*fingerprint))
    }

    /// Returns the burst that the chunk of this fingerprint is stored as, none if it is stored as it is
    /// or not at all.
    #[must_use]
    pub fn burst(&self, fingerprint: &Fingerprint) -> Option<&Burst> {
        self.bt.get(fingerprint).map(|entry| &entry.burst)
    }

    /// Returns the reference chunk of a chunk that is stored as a burst.
    #[must_use]
    pub fn reference(&self, fingerprint: &Fingerprint) -> Option<Fingerprint> {
        self.bt.get(fingerprint).map(|entry| entry.reference)
    }

    /// Takes back one write of the chunk of this fingerprint, and frees what nobody needs any more.
    ///
    /// # Errors
    ///
    /// If it was not written, or deleted as often as it was written. Then nothing changes.
    pub fn delete(&mut self, fingerprint: &Fingerprint) -> Result<(), Unknown> {
        if let Some(whole) = self.dt.get_mut(fingerprint) {
            whole.use_count = whole.use_count.checked_sub(1).ok_or(Unknown(*fingerprint))?;
            self.statistics.logical.remove(whole.data.len());
            self.free_unused(fingerprint);
            return Ok(());
        }
        let Entry::Occupied(mut slot) = self.bt.entry(*fingerprint) else {
            return Err(Unknown(*fingerprint));
        };
        self.statistics.logical.remove(slot.get().chunk_len);
        slot.get_mut().use_count -= 1;
        if slot.get().use_count == 0 {
            let entry = slot.remove();
            self.free_burst(&entry);
        }
        Ok(())
    }

    /// Forgets a burst that was taken out of BT. A duplicate of a burst counts in BT alone, so that the
    /// reference chunk is let go here, once, and not with each of the duplicates.
    fn free_burst(&mut self, entry: &BurstEntry) {
        let post_len = entry.burst.post_len();
        self.statistics.bursts.remove(post_len);
        self.statistics.burst_len_sixteenths[sixteenths(post_len, entry.chunk_len)] -= 1;
        let Some(whole) = self.dt.get_mut(&entry.reference) else { return };
        whole.burst_count -= 1;
        let sub_fingerprint = sub_fingerprint(&self.options, entry.side, &whole.data);
        if let Some(sub_fingerprint) = sub_fingerprint {
            self.views.remove_burst(entry.side, sub_fingerprint, entry.reference);
        }
        self.free_unused(&entry.reference);
    }

    /// Forgets a chunk of DT if it is neither used nor a reference chunk.
    fn free_unused(&mut self, fingerprint: &Fingerprint) {
        let Entry::Occupied(slot) = self.dt.entry(*fingerprint) else { return };
        if slot.get().use_count > 0 || slot.get().burst_count > 0 {
            return;
        }
        let whole = slot.remove();
        self.statistics.wholes.remove(whole.data.len());
        self.views.remove_whole(&sub_fingerprints(&self.options, &whole.data), *fingerprint);
    }

    /// Returns what is held now, and what writes have met so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let [head_dt, tail_dt] = Side::ALL.map(|side| {
            let view = self.views.statistics(side);
            let ViewStatistics { entry_count, entry_bytes, .. } = view;
            SideStatistics {
                table: TableStatistics { entry_count, entry_bytes },
                burst_count: view.hit_count,
                exhausted_count: view.exhausted_count,
            }
        });
        let (dt, bt) = (size_of_table(&self.dt), size_of_table(&self.bt));
        Statistics { dt, bt, head_dt, tail_dt, ..self.statistics }
    }
}

impl fmt::Debug for Deduplicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deduplicator")
            .field("options", &self.options)
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}

/// Returns the fingerprint of head or tail, none if `chunk` has no such sub-chunk.
fn sub_fingerprint(options: &Options, side: Side, chunk: &[u8]) -> Option<Fingerprint> {
    let sub_chunk = options.sub_chunk(side, chunk)?;
    match options.tau {
        Tau::Raw => Fingerprint::raw(sub_chunk),
        Tau::Fraction(_) | Tau::Bytes(_) => Some(Fingerprint::of(sub_chunk)),
    }
}

/// Those of both ends.
fn sub_fingerprints(options: &Options, chunk: &[u8]) -> [Option<Fingerprint>; 2] {
    Side::ALL.map(|side| sub_fingerprint(options, side, chunk))
}

fn size_of_table<Key, Value>(table: &HashMap<Key, Value>) -> TableStatistics {
    let entry_bytes = table.len() * size_of::<(Key, Value)>();
    TableStatistics { entry_count: table.len() as u64, entry_bytes: entry_bytes as u64 }
}

/// Which part of a chunk a burst is, in sixteenths, rounded up.
fn sixteenths(post_len: usize, chunk_len: usize) -> usize {
    // A chunk that is a burst has a head and a tail, so it is not empty.
    (16 * post_len).div_ceil(chunk_len.max(1))
}
