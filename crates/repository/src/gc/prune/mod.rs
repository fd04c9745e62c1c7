//! Pruning: condemns what no snapshot needs. A sweep deletes it later ([`crate::gc::sweep`]).
//!
//! A prune is a writer that ends by a numbered record (rules P1 to P5 of `docs/protocol.md`).
//! `survey` finds what exists and what is needed (P1 to P3), `plan` decides what becomes of each
//! container (P4), `copy` stores again what has to move, and the record publishes the result (P5).
//! Memory does not grow with the number of chunks, except for the filters of the hints and the
//! table of containers, because the needed chunks are sorted in files.

mod copy;
mod monitor;
mod optimize;
mod plan;
mod regroup;
mod rewrite;
mod sample;
mod source;
mod survey;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use cutpoint_storage::{Error, Kind, Result};
use source::Failure;
use survey::Survey;

use crate::format::grouping::Grouping;
use crate::format::names::TicketId;
use crate::format::prune::Prune;
use crate::format::ticket::Purpose;
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::rules;
use crate::write::Writer;
use crate::write::prune_log::{Appended, append, is_overtaken, overtaken};

pub(crate) use monitor::stop_if_cancelled;
pub use monitor::{Phase, PruneMonitor};
pub use optimize::{OptimizeOptions, optimize, plan_optimize};
pub use plan::Plan;
pub(crate) use survey::{mark, open_index, require_nothing_lost, require_readable};

/// Maximum number of attempts when other clients are faster.
const TRIES: usize = 8;

/// Options of a prune.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PruneOptions {
    /// Maximum share of unused bytes in what stays. Containers are rewritten until the share is not
    /// above it: 0 rewrites every container that has unused bytes, 1 rewrites none.
    pub unused_max: f64,
    /// Maximum total size of the containers to rewrite, in bytes.
    pub rewrite_bytes_max: u64,
    /// Minimum number of index segments at which a prune merges them.
    pub segment_count_max: usize,
    /// Set if the caller vouches that no other client is at work. Dead writers are then ended even
    /// on storage that lets several clients create one object.
    pub is_alone: bool,
    /// Minimum number of small containers of one class at which they are rewritten as a few large
    /// ones.
    pub small_count_max: usize,
}

impl Default for PruneOptions {
    fn default() -> PruneOptions {
        PruneOptions {
            unused_max: 0.05,
            rewrite_bytes_max: u64::MAX,
            segment_count_max: 500,
            small_count_max: 64,
            is_alone: false,
        }
    }
}

/// The work to do: a prune or an optimization.
#[derive(Clone, Copy, Debug)]
struct Task {
    options: PruneOptions,
    /// The target grouping of an optimization; `None` for a prune.
    grouping: Option<Grouping>,
    /// Set if an optimization leaves incompressible containers alone.
    spares_incompressible: bool,
}

impl Task {
    /// Returns the maximum size of delta chunks that may be stored as full chunks because the full chunks that
    /// they refer to take more.
    fn inlined_bytes_max(&self) -> u64 {
        // An optimization does not inlines delta chunks, because that would disturb its order. A
        // prune does.
        if self.grouping.is_some() { 0 } else { self.options.rewrite_bytes_max }
    }
}

impl From<PruneOptions> for Task {
    fn from(options: PruneOptions) -> Task {
        Task { options, grouping: None, spares_incompressible: false }
    }
}

/// The result of a prune.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pruned {
    /// The number of the record; `None` if there was nothing to record.
    pub number: Option<u64>,
    /// The plan that was carried out.
    pub plan: Plan,
    /// Total size of what was written, in bytes.
    pub written_bytes: u64,
    /// Number of full chunks that resemble others and were stored again as delta chunks.
    pub reencoded_count: u64,
    /// Total size of the chunks that became delta chunks, in bytes.
    pub reencoded_bytes: u64,
}

/// Returns what a prune would do now. Writes nothing.
///
/// # Errors
///
/// Returns any error of [`prune`].
pub fn plan(
    repository: &Arc<Repository>,
    options: &PruneOptions,
    monitor: &dyn PruneMonitor,
) -> Result<Plan> {
    plan_task(repository, &(*options).into(), monitor)
}

fn plan_task(
    repository: &Arc<Repository>,
    task: &Task,
    monitor: &dyn PruneMonitor,
) -> Result<Plan> {
    let mut conflict = None;
    for _ in 0..TRIES {
        let view = View::list(repository)?;
        let inlined_bytes_max = task.inlined_bytes_max();
        let survey = Survey::new(repository, view.clone(), None, inlined_bytes_max, monitor);
        let chosen = survey.and_then(|survey| plan::choose(&survey, repository, task, monitor));
        match chosen {
            Ok(chosen) => return Ok(chosen.plan),
            Err(error) if error.kind() == Kind::Conflict => conflict = Some(error),
            Err(error) if error.is_loss() && is_overtaken(repository, &view)? => {
                conflict = Some(overtaken("prune", error));
            }
            Err(error) => return Err(error),
        }
    }
    Err(conflict.unwrap_or_else(too_often))
}

/// Takes the forgotten snapshots, condemns what no other snapshot needs, and stores again what has
/// to move. `approve` sees the plan before anything is stored or condemned. If it returns `false`,
/// the prune ends, nothing has changed, and the result is `None`.
///
/// # Errors
///
/// Returns `Corrupt` if an object cannot be read that decides which chunks are needed, `Missing` if
/// no container has a chunk that is needed, `Conflict` if other clients were faster at every
/// attempt, `Interrupted` if the monitor cancels, and any error of the storage. After an error
/// nothing has been condemned, and the next prune finds the chunks that were stored again.
pub fn prune(
    repository: &Arc<Repository>,
    options: &PruneOptions,
    monitor: &dyn PruneMonitor,
    approve: impl FnMut(&Plan) -> bool,
) -> Result<Option<Pruned>> {
    run(repository, (*options).into(), monitor, approve)
}

fn run(
    repository: &Arc<Repository>,
    mut task: Task,
    monitor: &dyn PruneMonitor,
    mut approve: impl FnMut(&Plan) -> bool,
) -> Result<Option<Pruned>> {
    let mut written_bytes = 0;
    let mut conflict = None;
    let mut may_dissolve = true;
    for _ in 0..TRIES {
        let begin = if task.options.is_alone { Writer::begin_alone } else { Writer::begin };
        let writer = begin(repository.clone(), Purpose::Prune)?;
        let view = writer.view().clone();
        let inlined_bytes_max = if may_dissolve { task.inlined_bytes_max() } else { 0 };
        let attempt =
            attempt(writer, &task, inlined_bytes_max, monitor, &mut approve, &mut written_bytes);
        match attempt {
            Ok(Attempt::Done(pruned)) => return Ok(pruned),
            Ok(Attempt::NotInlined(error)) => {
                monitor.passed_over(&error);
                may_dissolve = false;
            }
            // Objects were moved or deleted meanwhile.
            Ok(Attempt::Again) => conflict = None,
            Err(error) if error.kind() == Kind::Conflict => conflict = Some(error),
            // The object is not damaged: the sweep of another client has deleted it before it could
            // be read.
            Err(error) if error.is_loss() && is_overtaken(repository, &view)? => {
                conflict = Some(overtaken("prune", error));
            }
            // A record alone needs almost no room.
            Err(error) if error.kind() == Kind::Full && task.options.rewrite_bytes_max > 0 => {
                monitor.passed_over(&error);
                task.options.rewrite_bytes_max = 0;
                task.options.segment_count_max = usize::MAX;
            }
            Err(error) => return Err(error),
        }
    }
    Err(conflict.unwrap_or_else(too_often))
}

fn too_often() -> Error {
    let message =
        "other clients repeatedly pruned, held or brought back snapshots; try again later";
    Error::new(Kind::Conflict, "prune", message)
}

enum Attempt {
    Done(Option<Pruned>),
    Again,
    /// A source could not be read while delta chunks were to be stored as full chunks. The next attempt
    /// keeps these delta chunks and the full chunks that they refer to.
    NotInlined(Error),
}

/// A monitor that renews the ticket of the prune once an hour, however long the prune looks around.
struct Renewing<'a> {
    writer: Mutex<&'a mut Writer>,
    monitor: &'a dyn PruneMonitor,
}

impl PruneMonitor for Renewing<'_> {
    fn progress(&self, phase: Phase, done: u64, total: u64) {
        self.monitor.progress(phase, done, total);
    }

    fn passed_over(&self, error: &Error) {
        self.monitor.passed_over(error);
    }

    fn cancelled(&self) -> bool {
        // A renewal that fails is ignored: the next one may succeed, and the end of the prune
        // checks (W5).
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).renew().ok();
        self.monitor.cancelled()
    }
}

/// Ends the writer if `result` is an error. What the writer has put stays, and is found later.
fn or_abandon<T>(writer: &mut Writer, result: Result<T>) -> Result<T> {
    result.map_err(|error| writer.fail(error))
}

fn attempt(
    mut writer: Writer,
    task: &Task,
    inlined_bytes_max: u64,
    monitor: &dyn PruneMonitor,
    approve: &mut dyn FnMut(&Plan) -> bool,
    written_bytes: &mut u64,
) -> Result<Attempt> {
    let repository = writer.repository().clone();
    let (view, own) = (writer.view().clone(), Some(writer.ticket()));
    let prepared = {
        let renewing = Renewing { writer: Mutex::new(&mut writer), monitor };
        let survey = Survey::new(&repository, view, own, inlined_bytes_max, &renewing);
        survey.and_then(|survey| {
            let chosen = plan::choose(&survey, &repository, task, &renewing)?;
            Ok((survey, chosen))
        })
    };
    let (survey, chosen) = or_abandon(&mut writer, prepared)?;
    let is_approved = approve(&chosen.plan);
    if !is_approved || chosen.is_nothing() {
        writer.void(Vec::new())?;
        let written_bytes = *written_bytes;
        let pruned = Pruned { plan: chosen.plan, written_bytes, ..Pruned::default() };
        return Ok(Attempt::Done(is_approved.then_some(pruned)));
    }
    let (mut writer, moved) = match copy::store(writer, &survey, &chosen, monitor) {
        Err(Failure::Source(unreadable)) if !survey.placement.inlined.is_empty() => {
            return Ok(Attempt::NotInlined(unreadable.into_error()));
        }
        stored => stored.map_err(Failure::into_error)?,
    };
    *written_bytes += moved.written_bytes;
    let mut published = moved.published;
    // P5: segments that commits of F had published are published again, because these commits will
    // be deleted.
    let live = survey.view.segments();
    for snapshot in &survey.forgotten {
        let segments = survey.view.commits.get(snapshot).map(|commit| commit.segments.as_slice());
        let named = segments.unwrap_or_default().iter();
        published.extend(
            named.filter(|segment| live.contains(segment) && !chosen.merged.contains(segment)),
        );
    }
    published.retain(|part| rules::must_republish(part.ticket == writer.ticket()));
    let record = Prune {
        published,
        superseded: chosen.merged.iter().copied().collect(),
        condemned: moved.condemned,
        forgotten: survey.forgotten.iter().copied().collect(),
        marked: survey.marked.clone(),
        ..Prune::default()
    };
    let forgotten = &survey.forgotten;
    let judge = |_: &View, faster: &[Arc<Prune>], record: Prune| {
        let is_harmless = |each: &Prune| {
            let concerns = |ids: &[TicketId]| ids.iter().any(|id| forgotten.contains(id));
            each.condemned.is_empty()
                && each.forgotten.is_empty()
                && each.unforgotten.is_empty()
                && !concerns(&each.held)
        };
        // If another prune has merged segments meanwhile, these are left for its record to
        // supersede.
        let superseded = Vec::new();
        Ok(faster.iter().all(|each| is_harmless(each)).then_some(Prune { superseded, ..record }))
    };
    let own: Vec<_> =
        record.published.iter().copied().filter(|part| part.ticket == writer.ticket()).collect();
    let appended = append(&mut writer, &survey.view, record, &BTreeSet::new(), judge);
    match or_abandon(&mut writer, appended)? {
        Appended::Done(number) => {
            let pruned = Pruned {
                number: Some(number),
                plan: chosen.plan,
                written_bytes: *written_bytes,
                reencoded_count: moved.reencoded_count,
                reencoded_bytes: moved.reencoded_bytes,
            };
            Ok(Attempt::Done(Some(pruned)))
        }
        // The next attempt finds the copies.
        Appended::Stopped(_) => writer.void(own).map(|()| Attempt::Again),
        Appended::Ended => Err(writer.was_ended(None)),
    }
}
