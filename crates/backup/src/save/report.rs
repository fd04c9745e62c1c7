//! The result of a backup.

use std::collections::BTreeSet;

use cutpoint_repository::write::BurstStatistics;
use cutpoint_repository::{Statistics, TicketId};
use cutpoint_storage::{Error, Result};

use super::parent::Parents;
use super::pipeline::PipelineOutput;

/// The result of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// The new snapshot; `None` if nothing had changed and
    /// [`skip_if_unchanged`](super::BackupOptions::skip_if_unchanged) is set.
    pub snapshot: Option<TicketId>,
    /// The snapshot that this one was compared with.
    pub parent: Option<TicketId>,
    /// The content of the snapshot, and how much of it was new.
    pub statistics: Statistics,
    /// The absolute paths of the sources that were missing or could not be opened. The snapshot
    /// holds nothing of them, and each was reported as a problem.
    pub missing_sources: Vec<Vec<u8>>,
    /// Statistics on the new chunks, if they are compared by BURST.
    pub bursts: Option<BurstStatistics>,
    /// The number of files taken over from the parent without being read.
    pub unchanged_file_count: u64,
    /// The number of excluded names.
    pub excluded_count: u64,
    /// The number of times that the run restarted because another client had ended its ticket, or
    /// because the ticket was too old.
    pub restart_count: u64,
}

impl BackupReport {
    /// Creates the report of a run that has not committed a snapshot. `missing` has the positions
    /// in `sources` of those that did not exist at the start.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if no source could be read.
    pub(super) fn of(
        output: &PipelineOutput,
        parents: &Parents,
        sources: &[Vec<u8>],
        missing: &BTreeSet<usize>,
    ) -> Result<BackupReport> {
        let PipelineOutput { statistics, bursts, counts, .. } = output;
        // Each missing source has been reported as a problem.
        let problem_count = statistics.problem_count + missing.len() as u64;
        let missing: BTreeSet<usize> =
            missing.iter().chain(&counts.missing_sources).copied().collect();
        if missing.len() == sources.len() && !sources.is_empty() {
            return Err(Error::invalid("backup", "no source could be read"));
        }
        Ok(BackupReport {
            snapshot: None,
            parent: parents.parent.as_ref().map(|(id, _)| *id),
            statistics: Statistics { problem_count, ..*statistics },
            bursts: *bursts,
            missing_sources: missing.iter().map(|at| sources[*at].clone()).collect(),
            unchanged_file_count: counts.unchanged_files,
            excluded_count: counts.excluded,
            restart_count: 0,
        })
    }
}
