//! The result of a prune.

use super::plan::PrunePlan;

/// The result of a prune.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PruneReport {
    /// The number of the record; `None` if there was nothing to record.
    pub number: Option<u64>,
    /// The plan that was carried out.
    pub plan: PrunePlan,
    /// Total size of what was written, in bytes.
    pub written_bytes: u64,
    /// Number of full chunks that resemble others and were stored again as delta chunks.
    pub reencoded_count: u64,
    /// Total size of the chunks that became delta chunks, in bytes.
    pub reencoded_bytes: u64,
}
