//! The live chunks, and the form in which each is needed.

use std::path::Path;

use cutpoint_storage::Result;

use crate::format::fingerprint::{Class, FINGERPRINT_LEN, Fingerprint};
use crate::format::toc::Form;
use crate::rules;
use crate::util::extsort::{ExternalSort, Iter, SortedRecords};

/// Length of an encoded live chunk in bytes: the fingerprint, then the flags.
pub(crate) const LIVE_CHUNK_LEN: usize = FINGERPRINT_LEN + 1;
/// Memory of each sorter, in bytes.
pub(super) const SORTER_BYTES: usize = 24 * 1024 * 1024;

/// Flag in the last byte of a live chunk: the chunk is metadata.
const META: u8 = 1;
/// Flag: a delta chunk refers to the chunk, so that only a full chunk will do.
const FULL: u8 = 2;
/// Flag of a chunk that is needed as a full chunk: snapshots reach the chunk as well.
const REACHED: u8 = 4;

/// A chunk that snapshots reach, or to which a staying delta chunk refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveChunk {
    pub(crate) class: Class,
    pub(crate) fingerprint: Fingerprint,
    /// Set if only a full chunk will do, because delta chunks refer to the chunk.
    pub(crate) is_full: bool,
    /// Set if snapshots reach the chunk, not only delta chunks.
    pub(crate) is_reached: bool,
}

impl LiveChunk {
    pub(super) fn encode(self) -> [u8; LIVE_CHUNK_LEN] {
        let mut live = [0; LIVE_CHUNK_LEN];
        live[..FINGERPRINT_LEN].copy_from_slice(&self.fingerprint.0);
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        live[FINGERPRINT_LEN] = flag(self.class == Class::Meta, META)
            | flag(self.is_full, FULL)
            | flag(self.is_full && self.is_reached, REACHED);
        live
    }

    pub(crate) fn decode(live: &[u8; LIVE_CHUNK_LEN]) -> LiveChunk {
        let mut fingerprint = Fingerprint([0; FINGERPRINT_LEN]);
        fingerprint.0.copy_from_slice(&live[..FINGERPRINT_LEN]);
        let flags = live[FINGERPRINT_LEN];
        LiveChunk {
            class: if flags & META == 0 { Class::Data } else { Class::Meta },
            fingerprint,
            is_full: flags & FULL != 0,
            is_reached: flags & FULL == 0 || flags & REACHED != 0,
        }
    }

    /// Returns `true` if a record of this form will do.
    pub(super) fn accepts(&self, form: Form) -> bool {
        !self.is_full || rules::satisfies_reference(form != Form::Delta)
    }
}

/// Collects the live chunks, each once.
pub(crate) struct LiveSet {
    pub(super) sorter: ExternalSort<LIVE_CHUNK_LEN>,
}

impl LiveSet {
    /// Creates an empty collection with temporary files in `folder`, if there is one.
    pub(crate) fn new(folder: Option<&Path>) -> LiveSet {
        LiveSet { sorter: ExternalSort::new(folder, SORTER_BYTES) }
    }

    /// Adds a chunk that a snapshot reaches. A record of either form will do.
    ///
    /// # Errors
    ///
    /// Returns `Full` or `Storage` if a temporary file cannot be written.
    pub(crate) fn push(&mut self, class: Class, fingerprint: &Fingerprint) -> Result<()> {
        let fingerprint = *fingerprint;
        let live = LiveChunk { class, fingerprint, is_full: false, is_reached: true };
        self.sorter.push(live.encode())
    }

    /// Adds a chunk that a delta chunk refers to. Only a full chunk will do.
    pub(super) fn push_reference(&mut self, class: Class, fingerprint: &Fingerprint) -> Result<()> {
        let fingerprint = *fingerprint;
        let live = LiveChunk { class, fingerprint, is_full: true, is_reached: false };
        self.sorter.push(live.encode())
    }

    /// Returns all live chunks, sorted by fingerprint.
    pub(crate) fn finish(self) -> SortedRecords<LIVE_CHUNK_LEN> {
        self.sorter.finish()
    }
}

/// Merges the chunks that snapshots reach with those to which delta chunks refer.
pub(super) struct MergedLive<'a> {
    iters: [Iter<'a, LIVE_CHUNK_LEN>; 2],
    next: [Option<[u8; LIVE_CHUNK_LEN]>; 2],
}

impl<'a> MergedLive<'a> {
    pub(super) fn new(
        one: &'a SortedRecords<LIVE_CHUNK_LEN>,
        other: &'a SortedRecords<LIVE_CHUNK_LEN>,
    ) -> Result<MergedLive<'a>> {
        let mut iters = [one.iter()?, other.iter()?];
        let next = [iters[0].next()?, iters[1].next()?];
        Ok(MergedLive { iters, next })
    }

    pub(super) fn next(&mut self) -> Result<Option<[u8; LIVE_CHUNK_LEN]>> {
        let least = match self.next {
            [Some(one), Some(other)] => usize::from(other < one),
            [None, _] => 1,
            _ => 0,
        };
        let next = self.next[least];
        if next.is_some() {
            self.next[least] = self.iters[least].next()?;
        }
        Ok(next)
    }
}

/// Merges live chunks that begin with one hint, in order. An entry that needs the full chunk
/// absorbs another entry of the same chunk.
pub(super) fn merge_forms(live_set: &mut Vec<[u8; LIVE_CHUNK_LEN]>) {
    if live_set.len() < 2 {
        return;
    }
    let mut merged: Vec<[u8; LIVE_CHUNK_LEN]> = Vec::with_capacity(live_set.len());
    for live in live_set.drain(..) {
        let each = LiveChunk::decode(&live);
        let any = LiveChunk { is_full: false, ..each }.encode();
        match merged.iter_mut().find(|before| each.is_full && **before == any) {
            Some(before) => *before = LiveChunk { is_reached: true, ..each }.encode(),
            None => merged.push(live),
        }
    }
    *live_set = merged;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry that needs the full chunk absorbs the entry of a snapshot for the same chunk, but
    /// no entry of another chunk with the same hint.
    #[test]
    fn full_chunk_entry_absorbs_other_entry_of_its_chunk() {
        let live = |last: u8, is_full: bool, is_reached: bool| {
            let mut fingerprint = Fingerprint([5; FINGERPRINT_LEN]);
            fingerprint.0[FINGERPRINT_LEN - 1] = last;
            LiveChunk { class: Class::Data, fingerprint, is_full, is_reached }
        };
        let (one, other, third) =
            (live(1, false, true), live(2, false, true), live(3, true, false));
        let full = live(2, true, false);
        let mut live_set = [one, other, full, third].map(LiveChunk::encode).to_vec();
        merge_forms(&mut live_set);
        let merged: Vec<LiveChunk> = live_set.iter().map(LiveChunk::decode).collect();
        assert_eq!(merged, [one, live(2, true, true), third]);
        let meta = LiveChunk { class: Class::Meta, ..full };
        let mut live_set = [other, meta].map(LiveChunk::encode).to_vec();
        merge_forms(&mut live_set);
        assert_eq!(
            live_set.iter().map(LiveChunk::decode).collect::<Vec<_>>(),
            [other, meta],
            "of two classes"
        );
    }
}
