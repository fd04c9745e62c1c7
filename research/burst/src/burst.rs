//! The replacement that turns a reference chunk into another chunk.

use std::ops::Range;

use cutpoint_delta::common_edges;

/// The replacement of one interval of a reference chunk, which turns it into another chunk.
///
/// The interval or the data may be empty, in which case the burst is an insertion or a deletion.
///
/// Source: equations (1) to (3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Burst {
    range: Range<usize>,
    data: Box<[u8]>,
}

impl Burst {
    /// Returns the shortest burst that turns `reference` into `chunk`. Of several, the one that
    /// begins last is returned.
    #[must_use]
    pub fn between(reference: &[u8], chunk: &[u8]) -> Burst {
        let (prefix, suffix) = Burst::kept(reference, chunk);
        Burst {
            range: prefix..reference.len() - suffix,
            data: chunk[prefix..chunk.len() - suffix].into(),
        }
    }

    /// Returns the lengths of the common prefix and suffix of the chunks, which the burst
    /// [`between`](Burst::between) them keeps. Prefix and suffix overlap in neither chunk.
    #[must_use]
    pub fn kept(reference: &[u8], chunk: &[u8]) -> (usize, usize) {
        common_edges(reference, chunk)
    }

    /// Returns the interval of the reference chunk that is replaced, as offsets.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Returns the bytes that replace the interval.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Returns the number of bytes of the reference chunk that are replaced.
    #[must_use]
    pub fn pre_len(&self) -> usize {
        self.range.len()
    }

    /// Returns the number of bytes that replace the interval, which must be stored.
    #[must_use]
    pub fn post_len(&self) -> usize {
        self.data.len()
    }

    /// Returns the chunk that results from `reference`, or `None` if `reference` ends before the
    /// interval does.
    #[must_use]
    pub fn apply(&self, reference: &[u8]) -> Option<Vec<u8>> {
        let behind = reference.get(self.range.end..)?;
        Some([&reference[..self.range.start], &self.data, behind].concat())
    }
}
