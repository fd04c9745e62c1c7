//! The state of single chunks: present, suspect, or missing.

use std::collections::HashSet;

use crate::format::fingerprint::{Class, Fingerprint};
use crate::read::Reader;
use crate::verify::check::MissingData;

/// The chunks of the repository, as far as they can still be read.
pub(super) struct ChunkStates<'a> {
    pub(super) reader: &'a Reader,
    pub(super) missing: &'a MissingData,
    /// Chunks that are recorded as damaged. Those that can be read all the same are stored again,
    /// because backups that compare with the new snapshot rely on them.
    pub(super) suspects: &'a HashSet<Fingerprint>,
    /// Set if a missing chunk of the current snapshot may come back, because the storage has only
    /// refused it.
    pub(super) is_refused: bool,
}

impl ChunkStates<'_> {
    pub(super) fn is_missing(&mut self, class: Class, fingerprint: Fingerprint) -> bool {
        let is_missing = self.missing.chunks.contains(&(class, fingerprint));
        self.is_refused |= is_missing && self.missing.refused.contains(&fingerprint);
        is_missing
    }

    pub(super) fn is_suspect(&self, fingerprint: &Fingerprint) -> bool {
        self.suspects.contains(fingerprint)
    }
}
