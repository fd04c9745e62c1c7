//! Runs a prune, attempt by attempt.

use std::sync::Arc;

use cutpoint_storage::{Error, Kind, Result};

use super::attempt::{AttemptOutcome, attempt};
use super::checkpoint;
use super::options::PruneOptions;
use super::outcome::PruneReport;
use super::plan::PrunePlan;
use super::pulse::Pulse;
use super::selection::select;
use super::survey::Survey;
use super::task::Task;
use crate::format::ticket::Purpose;
use crate::gc::monitor::PruneMonitor;
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::write::Writer;
use crate::write::prune_log::{is_overtaken, overtaken};

/// Maximum number of attempts when other clients are faster.
const TRIES: usize = 8;

/// Returns the plan of a prune, which is not carried out. Writes nothing.
///
/// # Errors
///
/// Returns any error of [`prune`].
pub fn plan(
    repository: &Arc<Repository>,
    options: &PruneOptions,
    monitor: &dyn PruneMonitor,
) -> Result<PrunePlan> {
    plan_task(repository, &(*options).into(), monitor)
}

pub(super) fn plan_task(
    repository: &Arc<Repository>,
    task: &Task,
    monitor: &dyn PruneMonitor,
) -> Result<PrunePlan> {
    repository.view_cache().leave_checkpoint();
    let mut conflict = None;
    for _ in 0..TRIES {
        let view = View::list(repository)?;
        let inlined_bytes_max = task.inlined_bytes_max();
        let pulse = Pulse::without_writer(monitor);
        let survey = Survey::new(repository, view.clone(), None, inlined_bytes_max, &pulse);
        match survey.and_then(|survey| select(&survey, repository, task, &pulse)) {
            Ok(selection) => return Ok(selection.plan),
            Err(error) if error.kind() == Kind::Conflict => conflict = Some(error),
            Err(error) if error.is_loss() && is_overtaken(repository, &view)? => {
                conflict = Some(overtaken("prune", error));
            }
            Err(error) => return Err(error),
        }
    }
    Err(conflict.unwrap_or_else(conflict_at_every_try))
}

/// Takes the forgotten snapshots, condemns the containers of which no other snapshot needs
/// anything, and stores again what has to move. `approve` sees the plan before anything is stored
/// or condemned. If it returns `false`, the prune ends, nothing has changed, and the result is
/// `None`.
///
/// # Errors
///
/// Returns `Corrupt` if an object cannot be read that decides which chunks are live, `Missing` if
/// no container has a live chunk, `Conflict` if other clients were faster at every
/// attempt, `Interrupted` if the monitor cancels, `Storage` if the storage has lost acknowledged
/// objects in two attempts, and any error of the storage. After an error nothing has been condemned,
/// unless the error names the record, and the next prune finds the chunks that were stored again.
pub fn prune(
    repository: &Arc<Repository>,
    options: &PruneOptions,
    monitor: &dyn PruneMonitor,
    approve: impl FnMut(&PrunePlan) -> bool,
) -> Result<Option<PruneReport>> {
    run(repository, (*options).into(), monitor, approve)
}

/// Carries out `task`, and tries again if other clients were faster.
pub(super) fn run(
    repository: &Arc<Repository>,
    mut task: Task,
    monitor: &dyn PruneMonitor,
    mut approve: impl FnMut(&PrunePlan) -> bool,
) -> Result<Option<PruneReport>> {
    repository.view_cache().leave_checkpoint();
    let mut written_bytes = 0;
    let mut conflict = None;
    let mut may_inline = true;
    let mut has_lost = false;
    for _ in 0..TRIES {
        let begin = if task.options.is_alone { Writer::begin_alone } else { Writer::begin };
        let writer = begin(repository.clone(), Purpose::Prune)?;
        let view = writer.view().clone();
        let inlined_bytes_max = if may_inline { task.inlined_bytes_max() } else { 0 };
        match attempt(writer, &task, inlined_bytes_max, monitor, &mut approve, &mut written_bytes) {
            Ok(AttemptOutcome::Done(pruned)) => {
                // The checkpoint is optional, and the prune has ended well.
                if pruned.is_some()
                    && let Err(error) = checkpoint::extend(repository, &view, monitor)
                {
                    monitor.checkpoint_failed(&error);
                }
                return Ok(pruned);
            }
            Ok(AttemptOutcome::NotInlined(error)) => {
                monitor.skipped(&error);
                may_inline = false;
            }
            Ok(AttemptOutcome::Lost(error)) if has_lost => return Err(error),
            Ok(AttemptOutcome::Lost(_)) => {
                monitor.lost();
                has_lost = true;
            }
            // Objects were moved or deleted meanwhile.
            Ok(AttemptOutcome::Again) => conflict = None,
            Err(error) if error.kind() == Kind::Conflict => conflict = Some(error),
            // The object is not damaged: the sweep of another client has deleted it before it could
            // be read.
            Err(error) if error.is_loss() && is_overtaken(repository, &view)? => {
                conflict = Some(overtaken("prune", error));
            }
            // A record alone needs almost no room.
            Err(error) if error.kind() == Kind::Full && task.options.rewrite_bytes_max > 0 => {
                monitor.skipped(&error);
                task.options.rewrite_bytes_max = 0;
                task.options.segment_count_max = usize::MAX;
            }
            Err(error) => return Err(error),
        }
    }
    Err(conflict.unwrap_or_else(conflict_at_every_try))
}

fn conflict_at_every_try() -> Error {
    let message =
        "other clients repeatedly pruned, held or brought back snapshots; try again later";
    Error::new(Kind::Conflict, "prune", message)
}
