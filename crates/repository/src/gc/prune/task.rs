//! The common form of a prune and an optimization.

use super::options::PruneOptions;
use crate::format::grouping::Grouping;

/// The work to do: a prune or an optimization.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) options: PruneOptions,
    /// The target grouping of an optimization; `None` for a prune.
    pub(super) grouping: Option<Grouping>,
    /// Set if an optimization leaves incompressible containers alone.
    pub(super) spares_incompressible: bool,
}

impl Task {
    /// Returns the maximum size of delta chunks that may be stored as full chunks because the full
    /// chunks that they refer to take more.
    pub(super) fn inlined_bytes_max(&self) -> u64 {
        // An optimization does not inline delta chunks, because that would disturb its order. A
        // prune does.
        if self.grouping.is_some() { 0 } else { self.options.rewrite_bytes_max }
    }
}

impl From<PruneOptions> for Task {
    fn from(options: PruneOptions) -> Task {
        Task { options, grouping: None, spares_incompressible: false }
    }
}
