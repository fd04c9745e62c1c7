//! The run of a copy.

use std::collections::HashSet;
use std::sync::Arc;

use cutpoint_repository::format::commit::OriginId;
use cutpoint_repository::{Repository, Snapshot, TicketId};
use cutpoint_storage::{Error, Kind, Result};

use super::monitor::CopyMonitor;
use super::plan::{CopyPlan, after_failure};
use crate::save::{
    BackupOptions, BackupReport, CopyForm, SnapshotSource, Source, SourceRepository, backup,
};

/// The result of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// The snapshots that were saved, and their new identifiers.
    pub saved: Vec<(OriginId, TicketId)>,
    /// The number of snapshots that could not be read, including those of the plan.
    pub failed_count: u64,
    /// The number of snapshots of which the target already has the same copy, complete or not.
    pub unchanged_count: u64,
    /// The number of files that were copied.
    pub read_file_count: u64,
    /// The total size of these files in bytes.
    pub read_bytes: u64,
    /// The number of new chunks.
    pub new_chunk_count: u64,
    /// The total size of the new chunks before compression, in bytes.
    pub new_bytes: u64,
    /// The number of bytes put.
    pub stored_bytes: u64,
}

impl CopyReport {
    fn add(&mut self, id: OriginId, done: &BackupReport) {
        let statistics = &done.statistics;
        self.saved.extend(done.snapshot.map(|saved| (id, saved)));
        self.unchanged_count += u64::from(done.snapshot.is_none());
        self.read_file_count += statistics.read_file_count;
        self.read_bytes += statistics.read_bytes;
        self.new_chunk_count += statistics.new_chunk_count;
        self.new_bytes += statistics.new_bytes;
        self.stored_bytes += statistics.stored_bytes;
    }
}

/// Copies or imports the snapshots of `plan` into `repository`, oldest first. Of `options`, only those about
/// speed and verification count.
///
/// # Errors
///
/// Returns any error of [`backup`], except that a snapshot that cannot be read is reported to the
/// monitor, and the next one is copied. The snapshots that were copied before stay, and another run
/// finds the chunks that were stored.
pub fn copy(
    repository: &Arc<Repository>,
    plan: &CopyPlan,
    options: &BackupOptions,
    monitor: &dyn CopyMonitor,
) -> Result<CopyReport> {
    let mut report = CopyReport { failed_count: plan.failed.len() as u64, ..CopyReport::default() };
    let mut stopped: HashSet<(&str, &[Vec<u8>])> = HashSet::new();
    for planned in &plan.copies {
        let group = (&*planned.snapshot.host, &*planned.snapshot.sources);
        if stopped.contains(&group) {
            report.failed_count += 1;
            monitor.failed(&planned.id, &after_failure());
            continue;
        }
        let failed_count = report.failed_count;
        let form = CopyForm::Copy { origin: planned.origin, bases: planned.bases.clone() };
        let source = &plan.repository;
        let run = Run { name: plan.name, repository, source, options, monitor };
        run.save(planned.id, &planned.snapshot, form, &mut report)?;
        if plan.rules.only_newer && report.failed_count > failed_count {
            stopped.insert(group);
        }
    }
    Ok(report)
}

/// The parts of a run that all snapshots share.
pub(super) struct Run<'a> {
    /// The name of the operation, for messages.
    pub(super) name: &'static str,
    pub(super) repository: &'a Arc<Repository>,
    pub(super) source: &'a SourceRepository,
    pub(super) options: &'a BackupOptions,
    pub(super) monitor: &'a dyn CopyMonitor,
}

impl Run<'_> {
    /// Saves one snapshot in `form`.
    pub(super) fn save(
        &self,
        id: OriginId,
        snapshot: &Snapshot,
        form: CopyForm,
        report: &mut CopyReport,
    ) -> Result<()> {
        let (repository, snapshot) = (self.source.clone(), snapshot.clone());
        let source = Source::Snapshot(Arc::new(SnapshotSource { repository, id, snapshot, form }));
        match backup(self.repository, source, self.options, self.monitor) {
            Ok(done) => {
                report.add(id, &done);
                self.monitor.saved(&id, &done);
            }
            Err(error) if error.is_loss() => {
                report.failed_count += 1;
                self.monitor.failed(&id, &error);
            }
            // The pipeline is that of a backup.
            Err(error) if error.kind() == Kind::Interrupted && error.object() == "backup" => {
                return Err(Error::new(Kind::Interrupted, self.name, "interrupted"));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
