//! The bytes read, the bytes to be stored, and the figures that compare the two.

use std::ops::AddAssign;

/// The result of a count of chunks.
///
/// The field has two figures for the same quantity, and papers call either of them "deduplication
/// ratio". Here each figure has a name of its own: [`space_savings`](Savings::space_savings) and
/// [`dedup_ratio`](Savings::dedup_ratio).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Savings {
    /// The size of all chunks in bytes.
    pub read_bytes: u64,
    /// The number of bytes to be stored.
    pub stored_bytes: u64,
    /// The number of chunks.
    pub chunk_count: u64,
    /// The number of chunks that differ from all chunks before.
    pub unique_chunk_count: u64,
}

impl Savings {
    /// Returns 1 - stored / read, the share of the bytes read that need not be stored. The result
    /// is below 0 if more is stored than was read, and `None` if nothing was read.
    pub fn space_savings(&self) -> Option<f64> {
        (self.read_bytes > 0).then(|| 1.0 - self.stored_bytes as f64 / self.read_bytes as f64)
    }

    /// Returns read / stored, the number of bytes that each stored byte stands for, or `None` if
    /// nothing is stored.
    pub fn dedup_ratio(&self) -> Option<f64> {
        (self.stored_bytes > 0).then(|| self.read_bytes as f64 / self.stored_bytes as f64)
    }

    /// Returns the mean size of the chunks in bytes, or `None` if there were no chunks.
    pub fn chunk_size_mean(&self) -> Option<f64> {
        (self.chunk_count > 0).then(|| self.read_bytes as f64 / self.chunk_count as f64)
    }

    /// Returns the same savings with another number of stored bytes, for example after compression.
    #[must_use]
    pub fn with_stored_bytes(self, stored_bytes: u64) -> Savings {
        Savings { stored_bytes, ..self }
    }
}

impl AddAssign for Savings {
    /// Adds the count of other data that shares no chunk with this data.
    fn add_assign(&mut self, other: Savings) {
        self.read_bytes += other.read_bytes;
        self.stored_bytes += other.stored_bytes;
        self.chunk_count += other.chunk_count;
        self.unique_chunk_count += other.unique_chunk_count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn savings_of_nothing_have_no_figures() {
        let nothing = Savings::default();
        assert_eq!(nothing.space_savings(), None, "space savings");
        assert_eq!(nothing.dedup_ratio(), None, "dedup ratio");
        assert_eq!(nothing.chunk_size_mean(), None, "mean");
    }

    #[test]
    fn both_figures_agree() {
        let savings =
            Savings { read_bytes: 4000, stored_bytes: 1000, chunk_count: 8, unique_chunk_count: 2 };
        assert_eq!(savings.space_savings(), Some(0.75), "space savings");
        assert_eq!(savings.dedup_ratio(), Some(4.0), "dedup ratio");
        assert_eq!(savings.chunk_size_mean(), Some(500.0), "mean");
        let larger = savings.with_stored_bytes(5000);
        assert_eq!(larger.space_savings(), Some(-0.25), "more than was read");
        assert_eq!(larger.unique_chunk_count, 2, "the rest stays");
        let mut sum = savings;
        sum += larger;
        assert_eq!((sum.read_bytes, sum.stored_bytes), (8000, 6000), "bytes");
        assert_eq!((sum.chunk_count, sum.unique_chunk_count), (16, 4), "chunks");
    }
}
