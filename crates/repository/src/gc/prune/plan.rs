//! The plan of a prune, in numbers for the caller.

/// The plan of a prune. All sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrunePlan {
    /// Number of snapshots that the prune takes.
    pub forgotten_count: u64,
    /// Number of snapshots that stay.
    pub kept_count: u64,
    /// Number of containers that exist and are not condemned yet.
    pub container_count: u64,
    /// Total size of the containers that are not condemned yet.
    pub container_bytes: u64,
    /// Number of containers that are condemned because no chunk in them is live.
    pub condemned_count: u64,
    /// Total size of the containers that are condemned because no chunk in them is live.
    pub condemned_bytes: u64,
    /// Number of containers that are condemned after their live chunks have been stored again.
    pub rewritten_count: u64,
    /// Total size of the rewritten containers.
    pub rewritten_bytes: u64,
    /// Estimated size of what is stored again from the rewritten containers.
    pub moved_bytes: u64,
    /// Estimated size of the chunks that are not live in the containers that stay.
    pub unused_bytes: u64,
    /// Number of containers of interrupted runs that no segment had named.
    pub orphan_count: u64,
    /// Number of live chunks that only condemned containers have, and that are stored again.
    pub rescued_count: u64,
    /// Number of chunks that stay only because delta chunks refer to them.
    pub pinned_count: u64,
    /// Estimated size of the pinned chunks in their containers.
    pub pinned_bytes: u64,
    /// Number of delta chunks that are stored again as full chunks, because the full chunks that
    /// they refer to would take more or because too little of their regions is live.
    pub inlined_count: u64,
    /// Total uncompressed size of the inlined delta chunks. At most about as much is written.
    pub inlined_bytes: u64,
    /// Total size of the containers that had stayed only for such delta chunks, and are condemned
    /// now.
    pub released_bytes: u64,
    /// Number of commits that the prune takes and that are only history, such as those of runs
    /// without a result. They are deleted long after the snapshots that it takes.
    pub history_count: u64,
    /// Number of index segments that are merged into a few.
    pub merged_segment_count: u64,
    /// Number of containers that were optimized before and stay as they are. Counted by an
    /// optimization.
    pub optimized_count: u64,
    /// Total size of the containers that were optimized before.
    pub optimized_bytes: u64,
    /// Number of containers that are left alone because almost nothing in them is compressed.
    pub spared_count: u64,
    /// Total size of the spared containers.
    pub spared_bytes: u64,
    /// Total uncompressed size of the chunks that are regrouped and compressed again.
    pub raw_bytes: u64,
    /// Part of [`PrunePlan::raw_bytes`] that was compressed to estimate [`PrunePlan::moved_bytes`].
    pub sampled_bytes: u64,
}

impl PrunePlan {
    /// Returns the estimated number of bytes by which the repository is smaller after the next
    /// sweep.
    pub fn freed_bytes(&self) -> u64 {
        let written_bytes = self.moved_bytes + self.inlined_bytes;
        (self.condemned_bytes + self.rewritten_bytes).saturating_sub(written_bytes)
    }
}
