//! The needed chunks and the form in which each is needed.

use std::path::Path;

use cutpoint_storage::Result;

use crate::format::fingerprint::{Class, FINGERPRINT_LEN, Fingerprint};
use crate::format::toc::Form;
#[cfg(feature = "mutants")]
use crate::rules::{self, Mutant};
use crate::util::extsort::{ExternalSort, Iter, SortedRecords};

/// Length of an encoded need in bytes: the fingerprint, then the flags.
pub(crate) const NEED_LEN: usize = FINGERPRINT_LEN + 1;
/// Memory of each sorter, in bytes.
pub(super) const SORTER_BYTES: usize = 24 * 1024 * 1024;

/// Flag in the last byte of a need: the chunk is metadata.
const META: u8 = 1;
/// Flag: a delta chunk refers to the chunk, so that only a whole meets the need.
const FULL: u8 = 2;
/// Flag of a need for a full chunk: snapshots reach the chunk as well.
const REACHED: u8 = 4;

/// A chunk that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) class: Class,
    pub(crate) fingerprint: Fingerprint,
    /// Set if only a whole meets the need, because delta chunks refer to the chunk.
    pub(crate) is_full: bool,
    /// Set if snapshots reach the chunk, not only delta chunks.
    pub(crate) is_reached: bool,
}

impl Need {
    pub(super) fn encode(self) -> [u8; NEED_LEN] {
        let mut need = [0; NEED_LEN];
        need[..FINGERPRINT_LEN].copy_from_slice(&self.fingerprint.0);
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        need[FINGERPRINT_LEN] = flag(self.class == Class::Meta, META)
            | flag(self.is_full, FULL)
            | flag(self.is_full && self.is_reached, REACHED);
        need
    }

    pub(super) fn decode(need: &[u8; NEED_LEN]) -> Need {
        let mut fingerprint = Fingerprint([0; FINGERPRINT_LEN]);
        fingerprint.0.copy_from_slice(&need[..FINGERPRINT_LEN]);
        let flags = need[FINGERPRINT_LEN];
        Need {
            class: if flags & META == 0 { Class::Data } else { Class::Meta },
            fingerprint,
            is_full: flags & FULL != 0,
            is_reached: flags & FULL == 0 || flags & REACHED != 0,
        }
    }

    /// Returns `true` if a record of this form meets the need.
    pub(super) fn is_met_by(&self, form: Form) -> bool {
        #[cfg(feature = "mutants")]
        if rules::is_active(Mutant::MeetsReferencesByDeltaChunks) {
            return true;
        }
        !self.is_full || form != Form::Delta
    }
}

/// Collects the needed chunks, each once.
pub(crate) struct Needs {
    pub(super) sorter: ExternalSort<NEED_LEN>,
}

impl Needs {
    /// Creates an empty collection with temporary files in `folder`, if there is one.
    pub(crate) fn new(folder: Option<&Path>) -> Needs {
        Needs { sorter: ExternalSort::new(folder, SORTER_BYTES) }
    }

    /// Adds a chunk that a snapshot reaches. Any record of the chunk meets the need.
    ///
    /// # Errors
    ///
    /// Returns `Full` or `Storage` if a temporary file cannot be written.
    pub(crate) fn push(&mut self, class: Class, fingerprint: &Fingerprint) -> Result<()> {
        let fingerprint = *fingerprint;
        let need = Need { class, fingerprint, is_full: false, is_reached: true };
        self.sorter.push(need.encode())
    }

    /// Adds a chunk that a delta chunk refers to. Only a whole meets the need.
    pub(super) fn push_reference(&mut self, class: Class, fingerprint: &Fingerprint) -> Result<()> {
        let fingerprint = *fingerprint;
        let need = Need { class, fingerprint, is_full: true, is_reached: false };
        self.sorter.push(need.encode())
    }

    /// Returns all needs, sorted by fingerprint.
    pub(crate) fn finish(self) -> SortedRecords<NEED_LEN> {
        self.sorter.finish()
    }
}

/// Merges the needs of snapshots with those of delta chunks.
pub(super) struct Both<'a> {
    iters: [Iter<'a, NEED_LEN>; 2],
    next: [Option<[u8; NEED_LEN]>; 2],
}

impl<'a> Both<'a> {
    pub(super) fn new(
        one: &'a SortedRecords<NEED_LEN>,
        other: &'a SortedRecords<NEED_LEN>,
    ) -> Result<Both<'a>> {
        let mut iters = [one.iter()?, other.iter()?];
        let next = [iters[0].next()?, iters[1].next()?];
        Ok(Both { iters, next })
    }

    pub(super) fn next(&mut self) -> Result<Option<[u8; NEED_LEN]>> {
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

/// Merges needs that begin with one hint, in order. A need for a full chunk of a chunk absorbs another
/// need of the same chunk.
pub(super) fn merge(needs: &mut Vec<[u8; NEED_LEN]>) {
    if needs.len() < 2 {
        return;
    }
    let mut merged: Vec<[u8; NEED_LEN]> = Vec::with_capacity(needs.len());
    for need in needs.drain(..) {
        let each = Need::decode(&need);
        let any = Need { is_full: false, ..each }.encode();
        match merged.iter_mut().find(|before| each.is_full && **before == any) {
            Some(before) => *before = Need { is_reached: true, ..each }.encode(),
            None => merged.push(need),
        }
    }
    *needs = merged;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A need for a whole absorbs what snapshots need of the same chunk, but no need of other
    /// chunks with the same hint.
    #[test]
    fn need_for_a_whole_absorbs_other_needs_of_its_chunk() {
        let need = |last: u8, is_full: bool, is_reached: bool| {
            let mut fingerprint = Fingerprint([5; FINGERPRINT_LEN]);
            fingerprint.0[FINGERPRINT_LEN - 1] = last;
            Need { class: Class::Data, fingerprint, is_full, is_reached }
        };
        let (one, other, third) =
            (need(1, false, true), need(2, false, true), need(3, true, false));
        let full = need(2, true, false);
        let mut needs = [one, other, full, third].map(Need::encode).to_vec();
        merge(&mut needs);
        let merged: Vec<Need> = needs.iter().map(Need::decode).collect();
        assert_eq!(merged, [one, need(2, true, true), third]);
        let meta = Need { class: Class::Meta, ..full };
        let mut needs = [other, meta].map(Need::encode).to_vec();
        merge(&mut needs);
        assert_eq!(
            needs.iter().map(Need::decode).collect::<Vec<_>>(),
            [other, meta],
            "of two classes"
        );
    }
}
