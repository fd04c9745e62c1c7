//! Optimizing: a prune that takes its time. What stays is put into larger regions, compressed more, in
//! the order in which the newest snapshots are read, like beside like.
//!
//! It is a prune in all that decides what exists: the same survey, the same record, the same sweep after
//! it (P1 to P5 of `docs/protocol.md`). What differs is which containers are rewritten (those that were not
//! made so before, which they say themselves) and in what order their chunks are stored again
//! (`regroup`).

use std::sync::Arc;

use super::monitor::PruneMonitor;
use super::{Plan, PruneOptions, Pruned, Task};
use crate::error::{Error, Result};
use crate::format::directory::REGION_RAW_LEN_MAX;
use crate::format::grouping::Grouping;
use crate::repository::Repository;

/// The smallest region that may be asked for, in bytes.
const REGION_SIZE_MIN: u32 = 16 * 1024;
/// The levels of zstd that may be asked for.
const LEVELS: std::ops::RangeInclusive<i32> = 1..=19;

/// How to optimize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptimizeOptions {
    /// A region gathers so many bytes: 16 KiB to 16 MiB. Those with composites a quarter of it.
    pub region_size: u32,
    /// The level of zstd, 1 to 19.
    pub compression_level: i32,
    /// How much may be rewritten at most: the size of the containers concerned, in bytes.
    pub rewrite_bytes_max: u64,
    /// Whether containers are left alone that hold next to nothing that is compressed: compressing it
    /// again would not make it smaller.
    pub spares_incompressible: bool,
    /// As [`PruneOptions::is_alone`].
    pub is_alone: bool,
}

impl Default for OptimizeOptions {
    fn default() -> OptimizeOptions {
        OptimizeOptions {
            region_size: 4 * 1024 * 1024,
            compression_level: 12,
            rewrite_bytes_max: u64::MAX,
            spares_incompressible: true,
            is_alone: false,
        }
    }
}

impl OptimizeOptions {
    fn task(&self) -> Result<Task> {
        if !(REGION_SIZE_MIN..=REGION_RAW_LEN_MAX).contains(&self.region_size) {
            return Err(Error::invalid("region size", "is not from 16 KiB to 16 MiB"));
        }
        if !LEVELS.contains(&self.compression_level) {
            return Err(Error::invalid("compression level", "is not from 1 to 19"));
        }
        let Self { region_size, compression_level, rewrite_bytes_max, is_alone, .. } = *self;
        Ok(Task {
            options: PruneOptions { rewrite_bytes_max, is_alone, ..PruneOptions::default() },
            grouping: Some(Grouping { region_size, compression_level }),
            spares_incompressible: self.spares_incompressible,
        })
    }
}

/// What optimizing would do now: what is read, and how small it would become by a sample that is
/// compressed. Writes nothing.
///
/// # Errors
///
/// As [`optimize`].
pub fn plan_optimize(
    repository: &Arc<Repository>,
    options: &OptimizeOptions,
    monitor: &dyn PruneMonitor,
) -> Result<Plan> {
    super::plan_task(repository, &options.task()?, monitor)
}

/// Stores again what stays of the containers that were not optimized by these settings or stronger
/// ones, and condemns them; and takes forgotten snapshots and condemns what is not needed, as a prune
/// does. A second run has nothing to do.
///
/// # Errors
///
/// As [`super::prune`]; `Invalid` where the options are out of their range.
pub fn optimize(
    repository: &Arc<Repository>,
    options: &OptimizeOptions,
    monitor: &dyn PruneMonitor,
    approve: impl FnMut(&Plan) -> bool,
) -> Result<Option<Pruned>> {
    super::run(repository, options.task()?, monitor, approve)
}
