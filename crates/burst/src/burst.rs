//! One replacement that makes a chunk of its reference chunk.

use std::ops::Range;

use cutpoint_matching::common_ends;

/// What is to be done to a reference chunk so that it becomes another: one interval of it is replaced.
///
/// Interval and data may be empty: then the burst is an insertion or a deletion.
///
/// Source: equations (1) to (3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Burst {
    range: Range<usize>,
    data: Box<[u8]>,
}

impl Burst {
    /// Returns the shortest burst that makes `chunk` of `reference`; it begins as late as it can.
    #[must_use]
    pub fn between(reference: &[u8], chunk: &[u8]) -> Burst {
        let (prefix, suffix) = Burst::kept(reference, chunk);
        Burst {
            range: prefix..reference.len() - suffix,
            data: chunk[prefix..chunk.len() - suffix].into(),
        }
    }

    /// Returns how many bytes at the start and at the end of both chunks the burst
    /// [`between`](Burst::between) them leaves alone. They overlap in neither.
    #[must_use]
    pub fn kept(reference: &[u8], chunk: &[u8]) -> (usize, usize) {
        common_ends(reference, chunk)
    }

    /// Which bytes of the reference chunk are replaced, as offsets in it.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// What they are replaced with.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// How many bytes of the reference chunk are replaced.
    #[must_use]
    pub fn pre_len(&self) -> usize {
        self.range.len()
    }

    /// How many bytes they are replaced with: what must be stored.
    #[must_use]
    pub fn post_len(&self) -> usize {
        self.data.len()
    }

    /// Returns the chunk that this burst makes of `reference`, none if `reference` ends before the
    /// interval does.
    #[must_use]
    pub fn apply(&self, reference: &[u8]) -> Option<Vec<u8>> {
        let behind = reference.get(self.range.end..)?;
        Some([&reference[..self.range.start], &self.data, behind].concat())
    }
}
