//! Deltas: new chunks expressed in terms of full chunks (rule C1).

use crate::format::fingerprint::Fingerprint;

/// A part of a delta chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The next new bytes.
    Literal { len: usize },
    /// `len` bytes of a full chunk, from `offset` on. `source` is an index into [`Delta::sources`].
    Copy { source: usize, offset: u32, len: u32 },
}

/// A chunk expressed as literals and copies.
#[derive(Debug, Default)]
pub struct Delta {
    pub(super) parts: Vec<Part>,
    /// The new bytes, concatenated.
    pub(super) literals: Vec<u8>,
    /// The full chunks that are copied from, each once.
    pub(super) sources: Vec<Fingerprint>,
}

impl Delta {
    /// Returns `true` if at least half of `chunk` is copied.
    pub(super) fn copies_most_of(&self, chunk: &[u8]) -> bool {
        self.literals.len() * 2 <= chunk.len()
    }
}
