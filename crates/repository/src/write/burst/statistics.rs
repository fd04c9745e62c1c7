//! Counters of a backup with BURST.

use cutpoint_delta::burst::ViewStatistics;

/// Counters of the new chunks of a backup with BURST.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BurstStatistics {
    /// Counters of HeadDT.
    pub head: ViewStatistics,
    /// Counters of TailDT.
    pub tail: ViewStatistics,
    /// Number of new chunks that are too short for a head and a tail by tau.
    pub short_count: u64,
    /// Number of entries that led to a chunk that may no longer be referred to, or cannot be read.
    pub missing_count: u64,
    /// Number of bursts that would not have been smaller than their chunks, including the
    /// references.
    pub refused_count: u64,
}
