//! Optimizing: a thorough prune. Everything that stays is put into larger regions and compressed
//! more, in the order in which the newest snapshots are read, with similar chunks side by side.
//!
//! An optimization is a prune in all that decides what exists: it has the same survey, the same
//! record, and the same sweep after it (P1 to P5 of `docs/protocol.md`). The differences are which
//! containers are rewritten, namely those that do not record a grouping at least as strong, and the
//! order in which their chunks are stored again (`regroup`).

use std::sync::Arc;

use cutpoint_storage::{Error, Result};

use super::options::PruneOptions;
use super::outcome::PruneReport;
use super::plan::PrunePlan;
use super::run::{plan_task, run};
use super::task::Task;
use crate::format::grouping::Grouping;
use crate::format::toc::REGION_RAW_LEN_MAX;
use crate::gc::monitor::PruneMonitor;
use crate::repo::repository::Repository;

/// Minimum region size that may be asked for, in bytes.
const REGION_SIZE_MIN: u32 = 16 * 1024;
/// Compression levels of zstd that may be asked for.
const LEVELS: std::ops::RangeInclusive<i32> = 1..=19;

/// Options of an optimization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptimizeOptions {
    /// Target size of a region in bytes, 16 KiB to 16 MiB. Regions with delta chunks have a quarter
    /// of it.
    pub region_size: u32,
    /// The compression level of zstd, 1 to 19.
    pub compression_level: i32,
    /// Maximum total size of the containers to rewrite, in bytes.
    pub rewrite_bytes_max: u64,
    /// Set if containers that hold almost nothing compressed are left alone, because compressing
    /// them again would not make them smaller.
    pub spares_incompressible: bool,
    /// Same as [`PruneOptions::is_alone`].
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
            return Err(Error::invalid("region size", "out of range (expected 16 KiB to 16 MiB)"));
        }
        if !LEVELS.contains(&self.compression_level) {
            return Err(Error::invalid("compression level", "out of range (expected 1 to 19)"));
        }
        let Self { region_size, compression_level, rewrite_bytes_max, is_alone, .. } = *self;
        Ok(Task {
            options: PruneOptions { rewrite_bytes_max, is_alone, ..PruneOptions::default() },
            grouping: Some(Grouping { region_size, compression_level }),
            spares_incompressible: self.spares_incompressible,
        })
    }
}

/// Returns the plan of an optimization, which is not carried out. Estimates the resulting size by
/// compressing a sample. Writes nothing.
///
/// # Errors
///
/// Returns any error of [`optimize`].
pub fn plan_optimize(
    repository: &Arc<Repository>,
    options: &OptimizeOptions,
    monitor: &dyn PruneMonitor,
) -> Result<PrunePlan> {
    plan_task(repository, &options.task()?, monitor)
}

/// Stores again what stays of the containers that were not optimized with these or stronger
/// settings, and condemns these containers. Like a prune, it also takes forgotten snapshots and
/// condemns what is not live. A second run has nothing to do.
///
/// # Errors
///
/// Returns any error of [`super::prune`], and `Invalid` if an option is out of its range.
pub fn optimize(
    repository: &Arc<Repository>,
    options: &OptimizeOptions,
    monitor: &dyn PruneMonitor,
    approve: impl FnMut(&PrunePlan) -> bool,
) -> Result<Option<PruneReport>> {
    run(repository, options.task()?, monitor, approve)
}
