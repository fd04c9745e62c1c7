//! Pruning: what no snapshot needs is condemned; a sweep deletes it later ([`crate::sweep`]).
//!
//! A prune is a writer that ends by a numbered record. Rules P1 to P5 of `docs/protocol.md`:
//! `survey` sees what there is and what is needed (P1 to P3), `plan` decides what
//! becomes of each container (P4), `copy` stores again what has to move, and the record says it
//! all (P5). Memory does not grow with the number of chunks, but for the hints' filters and the
//! table of containers: what is needed is sorted in files.

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

use crate::error::{Error, Kind, Result};
use crate::format::grouping::Grouping;
use crate::format::prune::Prune;
use crate::format::ticket::Purpose;
use crate::name::TicketId;
use crate::record::{Recorded, is_overtaken, overtaken, publish};
use crate::repository::Repository;
use crate::view::View;
use crate::writer::Writer;
pub(crate) use monitor::stop_if_cancelled;
pub use monitor::{Phase, PruneMonitor};
pub use optimize::{OptimizeOptions, optimize, plan_optimize};
pub use plan::Plan;
use source::Failure;
use survey::Survey;
pub(crate) use survey::{mark, open_index, require_nothing_lost, require_readable};

/// How often others may be faster before a prune gives up.
const TRIES: usize = 8;

/// How to prune.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PruneOptions {
    /// How much of what stays may be unused, as a share of it: containers are rewritten until it
    /// is no more. 0 rewrites every container that has anything unused, 1 none.
    pub unused_max: f64,
    /// How much may be rewritten at most: the size of the containers concerned, in bytes.
    pub rewrite_bytes_max: u64,
    /// From so many index segments on they are merged.
    pub segment_count_max: usize,
    /// The caller vouches that nobody else is at work: dead writers are ended also where the medium
    /// lets several create one object.
    pub is_alone: bool,
    /// From so many small containers of one class on they are rewritten as few large ones.
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

/// What is to be done.
#[derive(Clone, Copy, Debug)]
struct Task {
    options: PruneOptions,
    /// Where containers are optimized: how.
    grouping: Option<Grouping>,
    /// Whether what is not compressed is left alone then.
    spares_incompressible: bool,
}

impl Task {
    /// How much of composites may become wholes because what they refer to takes more.
    fn dissolved_bytes_max(&self) -> u64 {
        // A prune does that: here it would only be in the way of the order.
        if self.grouping.is_some() { 0 } else { self.options.rewrite_bytes_max }
    }
}

impl From<PruneOptions> for Task {
    fn from(options: PruneOptions) -> Task {
        Task { options, grouping: None, spares_incompressible: false }
    }
}

/// What a prune has done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pruned {
    /// The number of its record; `None` where there was nothing to record.
    pub number: Option<u64>,
    /// What it did.
    pub plan: Plan,
    /// How much it wrote, in bytes.
    pub written_bytes: u64,
    /// Chunks that were whole and resemble others, stored again as composites.
    pub recomposed_count: u64,
    /// Their size, in bytes.
    pub recomposed_bytes: u64,
}

/// What a prune would do now. Writes nothing.
///
/// # Errors
///
/// As [`prune`].
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
        let dissolved_bytes_max = task.dissolved_bytes_max();
        let survey = Survey::new(repository, view.clone(), None, dissolved_bytes_max, monitor);
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

/// Takes the snapshots that were forgotten, condemns what nothing else needs, and stores again what
/// has to move. `approve` sees the plan before anything is stored or condemned: `false` ends the
/// prune, and nothing has changed.
///
/// # Errors
///
/// `Corrupt` where something cannot be read without which it is not known what is needed;
/// `Missing` where something is needed that no container has: nothing is condemned then. `Conflict`
/// where others were faster again and again. `Interrupted`. As the medium. After every error nothing
/// has been condemned, and what was stored again is found by the next prune.
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
        let dissolved_bytes_max = if may_dissolve { task.dissolved_bytes_max() } else { 0 };
        let attempt =
            attempt(writer, &task, dissolved_bytes_max, monitor, &mut approve, &mut written_bytes);
        match attempt {
            Ok(Attempt::Done(pruned)) => return Ok(pruned),
            Ok(Attempt::Undissolved(error)) => {
                monitor.passed_over(&error);
                may_dissolve = false;
            }
            // Something was moved or deleted meanwhile.
            Ok(Attempt::Again) => conflict = None,
            Err(error) if error.kind() == Kind::Conflict => conflict = Some(error),
            // Not damaged: another client's sweep has taken what this one was about to read.
            Err(error) if error.is_loss() && is_overtaken(repository, &view)? => {
                conflict = Some(overtaken("prune", error));
            }
            // A record alone needs next to nothing.
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
        "other clients pruned, held or brought back snapshots again and again; try again later";
    Error::new(Kind::Conflict, "prune", message)
}

enum Attempt {
    Done(Option<Pruned>),
    Again,
    /// A composite that was to be stored again as a whole could not be read, or something else could
    /// not: without it, what it refers to stays.
    Undissolved(Error),
}

/// Says once an hour that the prune is still at it, however long it looks around.
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
        // Where that fails, the next try may not; and the end looks at it (W5).
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).renew().ok();
        self.monitor.cancelled()
    }
}

/// Ends the writer where `result` is an error: what it has put stays, and is found.
fn or_abandon<T>(writer: &mut Writer, result: Result<T>) -> Result<T> {
    result.map_err(|error| writer.fail(error))
}

fn attempt(
    mut writer: Writer,
    task: &Task,
    dissolved_bytes_max: u64,
    monitor: &dyn PruneMonitor,
    approve: &mut dyn FnMut(&Plan) -> bool,
    written_bytes: &mut u64,
) -> Result<Attempt> {
    let repository = writer.repository().clone();
    let (view, own) = (writer.view().clone(), Some(writer.ticket()));
    let prepared = {
        let renewing = Renewing { writer: Mutex::new(&mut writer), monitor };
        let survey = Survey::new(&repository, view, own, dissolved_bytes_max, &renewing);
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
        Err(Failure::Source(unreadable)) if !survey.places.dissolved.is_empty() => {
            return Ok(Attempt::Undissolved(unreadable.into_error()));
        }
        stored => stored.map_err(Failure::into_error)?,
    };
    *written_bytes += moved.written_bytes;
    let mut published = moved.published;
    // P5: what commits of F had published is published anew, for they will go.
    let live = survey.view.segments();
    for snapshot in &survey.forgotten {
        let segments = survey.view.commits.get(snapshot).map(|commit| commit.segments.as_slice());
        let named = segments.unwrap_or_default().iter();
        published.extend(
            named.filter(|segment| live.contains(segment) && !chosen.merged.contains(segment)),
        );
    }
    #[cfg(feature = "mutants")]
    if crate::mutant::is_active(crate::mutant::Mutant::DropsSegmentsOfTaken) {
        published.retain(|part| part.ticket == writer.ticket());
    }
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
        // Segments that another has merged meanwhile are his to supersede.
        let superseded = Vec::new();
        Ok(faster.iter().all(|each| is_harmless(each)).then_some(Prune { superseded, ..record }))
    };
    let own: Vec<_> =
        record.published.iter().copied().filter(|part| part.ticket == writer.ticket()).collect();
    let recorded = publish(&mut writer, &survey.view, record, &BTreeSet::new(), judge);
    match or_abandon(&mut writer, recorded)? {
        Recorded::Done(number) => {
            let pruned = Pruned {
                number: Some(number),
                plan: chosen.plan,
                written_bytes: *written_bytes,
                recomposed_count: moved.recomposed_count,
                recomposed_bytes: moved.recomposed_bytes,
            };
            Ok(Attempt::Done(Some(pruned)))
        }
        // The copies are found by the next attempt.
        Recorded::Stopped(_) => writer.void(own).map(|()| Attempt::Again),
        Recorded::Ended => Err(writer.was_ended(None)),
    }
}
