//! The four tables, and writing, reading and deleting with them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::fmt;

use cutpoint_delta::burst::{Side, Tau, ViewStatistics, Views};

use crate::{Burst, Fingerprint, Options, SideStatistics, Statistics, TableStatistics};

#[cfg(test)]
mod tests;

/// A store of chunks in memory, in which equal chunks are stored once and similar chunks as bursts.
///
/// Writes are counted: a chunk can be read until it was deleted as often as it was written. No
/// order of calls panics or loses a chunk.
///
/// A reference chunk is always stored as it is (depth 1). The reference chunk stays as long as a
/// burst needs it, even if it was deleted itself. In that case the chunk can no longer be read, but
/// it is still found by its head and tail, and becomes readable when it is written again. A deleted
/// reference chunk is removed with its last burst. Its entries in HeadDT and TailDT are removed as
/// well, unless a newer chunk has taken them over. An older chunk does not regain its entries.
///
/// Source: section III-C and its algorithms 1 to 5, with their errors removed.
pub struct Deduplicator {
    options: Options,
    dt: HashMap<Fingerprint, Whole>,
    bt: HashMap<Fingerprint, BurstEntry>,
    /// HeadDT and TailDT.
    views: Views<Fingerprint, Fingerprint>,
    /// All statistics except the sizes of tables, which come from the tables.
    statistics: Statistics,
}

/// An entry of DT.
struct Whole {
    data: Box<[u8]>,
    /// The number of writes minus the number of deletions.
    use_count: u64,
    /// The number of entries of BT that refer to the chunk.
    burst_count: u64,
}

/// An entry of BT.
struct BurstEntry {
    burst: Burst,
    chunk_len: usize,
    reference: Fingerprint,
    /// The side of the table that found the reference chunk.
    side: Side,
    /// The number of writes minus the number of deletions, at least 1.
    use_count: u64,
}

/// The error that no chunk of this fingerprint exists (any more).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown(pub Fingerprint);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chunk {}: not known", self.0)
    }
}

impl std::error::Error for Unknown {}

impl Deduplicator {
    /// Creates a deduplicator with empty tables.
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

    /// Stores `chunk`, or counts it if it is already stored, and returns its fingerprint.
    ///
    /// The chunk is looked up in DT and BT by its fingerprint, then in HeadDT, then in TailDT. The
    /// first entry of HeadDT and TailDT with less than `c_max` bursts gives the reference chunk,
    /// however long the burst is. If there is no such entry, `chunk` is stored as it is, and its
    /// head and tail lead to it from now on.
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

    /// Stores `chunk` as a burst, if a reference chunk is found that may have another burst.
    /// Returns `true` if the chunk was stored.
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

    /// Stores `chunk` as it is, which makes it the reference chunk of its head and tail.
    fn write_whole(
        &mut self,
        fingerprint: Fingerprint,
        chunk: &[u8],
        sub_fingerprints: &[Option<Fingerprint>; 2],
    ) {
        self.views.replace(sub_fingerprints, fingerprint);
        self.statistics.unique_count += 1;
        self.statistics.full_chunks.add(chunk.len());
        self.dt.insert(fingerprint, Whole { data: chunk.into(), use_count: 1, burst_count: 0 });
    }

    /// Returns the chunk of this fingerprint.
    ///
    /// # Errors
    ///
    /// Returns [`Unknown`] if the chunk was not written, or was deleted as often as it was written.
    pub fn read(&self, fingerprint: &Fingerprint) -> Result<Vec<u8>, Unknown> {
        if let Some(whole) = self.dt.get(fingerprint).filter(|whole| whole.use_count > 0) {
            return Ok(whole.data.to_vec());
        }
        let entry = self.bt.get(fingerprint).ok_or(Unknown(*fingerprint))?;
        let whole = self.dt.get(&entry.reference).ok_or(Unknown(entry.reference))?;
        entry.burst.apply(&whole.data).ok_or(Unknown(*fingerprint))
    }

    /// Returns the burst as which the chunk of this fingerprint is stored, or `None` if the chunk
    /// is stored as it is or not at all.
    #[must_use]
    pub fn burst(&self, fingerprint: &Fingerprint) -> Option<&Burst> {
        self.bt.get(fingerprint).map(|entry| &entry.burst)
    }

    /// Returns the reference chunk of a chunk that is stored as a burst.
    #[must_use]
    pub fn reference(&self, fingerprint: &Fingerprint) -> Option<Fingerprint> {
        self.bt.get(fingerprint).map(|entry| entry.reference)
    }

    /// Reverts one write of the chunk of this fingerprint, and frees the entries that are no longer
    /// needed.
    ///
    /// # Errors
    ///
    /// Returns [`Unknown`], without any change, if the chunk was not written, or was deleted as
    /// often as it was written.
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

    /// Frees a burst that was removed from BT. Duplicates of a burst count in BT only, so that the
    /// reference chunk is released once, here, and not with each of the duplicates.
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

    /// Removes a chunk from DT if it is neither used nor a reference chunk.
    fn free_unused(&mut self, fingerprint: &Fingerprint) {
        let Entry::Occupied(slot) = self.dt.entry(*fingerprint) else { return };
        if slot.get().use_count > 0 || slot.get().burst_count > 0 {
            return;
        }
        let whole = slot.remove();
        self.statistics.full_chunks.remove(whole.data.len());
        self.views.remove_full_chunk(&sub_fingerprints(&self.options, &whole.data), *fingerprint);
    }

    /// Returns the current contents, and the outcomes of all writes so far.
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

/// Returns the fingerprint of the head or the tail, or `None` if `chunk` has no such sub-chunk.
fn sub_fingerprint(options: &Options, side: Side, chunk: &[u8]) -> Option<Fingerprint> {
    let sub_chunk = options.sub_chunk(side, chunk)?;
    match options.tau {
        Tau::Raw => Fingerprint::raw(sub_chunk),
        Tau::Fraction(_) | Tau::Bytes(_) => Some(Fingerprint::of(sub_chunk)),
    }
}

/// Returns the fingerprints of the head and the tail.
fn sub_fingerprints(options: &Options, chunk: &[u8]) -> [Option<Fingerprint>; 2] {
    Side::ALL.map(|side| sub_fingerprint(options, side, chunk))
}

fn size_of_table<Key, Value>(table: &HashMap<Key, Value>) -> TableStatistics {
    let entry_bytes = table.len() * size_of::<(Key, Value)>();
    TableStatistics { entry_count: table.len() as u64, entry_bytes: entry_bytes as u64 }
}

/// Returns the length of a burst in sixteenths of its chunk, rounded up.
fn sixteenths(post_len: usize, chunk_len: usize) -> usize {
    // A chunk that is stored as a burst has a head and a tail, so it is not empty.
    (16 * post_len).div_ceil(chunk_len.max(1))
}
