//! Rewriting: snapshots without some of their entries.

use std::collections::BTreeSet;
use std::sync::Arc;

use cutpoint_repository::{Content, Reader, Repository, Snapshot, TicketId, View};
use cutpoint_storage::{Error, Kind, Result};

use super::monitor::CopyMonitor;
use super::plan::current;
use super::run::{CopyReport, Run};
use super::survey::survey;
use crate::save::copy_steps::{CopyStep, CopySteps};
use crate::save::source_reader::SourceReader;
use crate::save::{BackupOptions, CopyForm, SourceRepository};

/// A snapshot that will be rewritten.
#[derive(Clone, Debug)]
pub struct PlannedRewrite {
    /// The identifier of the snapshot.
    pub id: TicketId,
    /// The snapshot, with its current tags and description.
    pub snapshot: Snapshot,
    /// The number of entries that the patterns match, without those in folders that they match.
    pub excluded_count: u64,
    /// The number of files that are left out.
    pub excluded_file_count: u64,
    /// The total size of these files in bytes.
    pub excluded_bytes: u64,
}

/// The snapshots that will be rewritten.
#[derive(Debug)]
pub struct RewritePlan {
    reader: Arc<Reader>,
    exclude: Vec<String>,
    /// The snapshots that have entries to leave out, in the order in which they were wanted.
    pub rewrites: Vec<PlannedRewrite>,
    /// The snapshots that have such entries, but were rewritten before, with the results.
    pub done: Vec<(TicketId, TicketId)>,
    /// The number of snapshots that have no such entry.
    pub unchanged_count: u64,
    /// The number of snapshots of which the trees cannot be read.
    pub failed_count: u64,
    /// The patterns that match nothing in any of the snapshots.
    pub unmatched: BTreeSet<String>,
}

/// Finds out which of the snapshots `wanted` have entries that the patterns `exclude` match, by the
/// rules of a `.gitignore` file in the root folder.
///
/// # Errors
///
/// Returns `Invalid` for an invalid pattern, and `Interrupted` if the monitor cancels the run.
/// Returns any error of the storage. A snapshot that cannot be read is reported to the monitor
/// instead.
pub fn plan_rewrites(
    reader: &Arc<Reader>,
    wanted: &[TicketId],
    exclude: &[String],
    monitor: &dyn CopyMonitor,
) -> Result<RewritePlan> {
    let view = reader.view();
    let mut plan = RewritePlan {
        reader: reader.clone(),
        exclude: exclude.to_vec(),
        rewrites: Vec::new(),
        done: Vec::new(),
        unchanged_count: 0,
        failed_count: 0,
        unmatched: exclude.iter().cloned().collect(),
    };
    let total = wanted.len() as u64;
    for (id, number) in wanted.iter().zip(1..) {
        let commit = view.commits.get(id);
        let Some(snapshot) = commit.and_then(|commit| commit.snapshot()) else {
            return Err(Error::missing(format!("snapshot {}", id.short()), "not found"));
        };
        let of_all =
            survey("rewrite", SourceReader::Own(reader), &snapshot.root, None, &[], monitor);
        let both = of_all.and_then(|all| {
            Ok((
                all,
                survey(
                    "rewrite",
                    SourceReader::Own(reader),
                    &snapshot.root,
                    None,
                    exclude,
                    monitor,
                )?,
            ))
        });
        let (all, kept) = match both {
            Ok(both) => both,
            Err(error) if error.is_loss() => {
                monitor.failed(&(*id).into(), &error);
                plan.failed_count += 1;
                continue;
            }
            Err(error) => return Err(error),
        };
        plan.unmatched.retain(|pattern| kept.unmatched.contains(pattern));
        if kept.excluded_count == 0 {
            plan.unchanged_count += 1;
        } else if let Some(done) = rewritten(reader, &view, (*id, snapshot), exclude, monitor)? {
            plan.done.push((*id, done));
        } else {
            plan.rewrites.push(PlannedRewrite {
                id: *id,
                snapshot: current(&view, *id, snapshot),
                excluded_count: kept.excluded_count,
                excluded_file_count: all.file_count - kept.file_count,
                excluded_bytes: all.size - kept.size,
            });
        }
        monitor.examined(number, total);
    }
    Ok(plan)
}

/// Returns the listed snapshot that an earlier rewrite has made of a snapshot without the entries
/// that the patterns `exclude` match, and with all others.
fn rewritten(
    reader: &Reader,
    view: &View,
    (id, old): (TicketId, &Snapshot),
    exclude: &[String],
    monitor: &dyn CopyMonitor,
) -> Result<Option<TicketId>> {
    for (each, new) in view.snapshots() {
        let is_made_of = new.parent == Some(id)
            && new.finished_ns == old.finished_ns
            && new.partial == old.partial
            && new.statistics.problem_count == old.statistics.problem_count;
        if is_made_of && is_rest(reader, &new.root, (&old.root, exclude), monitor)? {
            return Ok(Some(each));
        }
    }
    Ok(None)
}

/// Returns `true` if the tree `new` has exactly the entries of the tree `old` that the patterns
/// `exclude` do not match. A tree that cannot be read equals none.
fn is_rest(
    reader: &Reader,
    new: &Content,
    (old, exclude): (&Content, &[String]),
    monitor: &dyn CopyMonitor,
) -> Result<bool> {
    let reader = SourceReader::Own(reader);
    let mut old = CopySteps::new(reader, old, None, exclude)?;
    let mut new = CopySteps::new(reader, new, None, &[])?;
    loop {
        if monitor.cancelled() {
            return Err(Error::new(Kind::Interrupted, "rewrite", "interrupted"));
        }
        let (left, right) = match old.next().and_then(|left| Ok((left, new.next()?))) {
            Err(error) if error.is_loss() => return Ok(false),
            both => both?,
        };
        let is_equal = match (left, right) {
            (None, None) => return Ok(true),
            (Some(CopyStep::Leave), Some(CopyStep::Leave)) => true,
            (Some(CopyStep::Enter(a)), Some(CopyStep::Enter(b)))
            | (Some(CopyStep::Entry(a)), Some(CopyStep::Entry(b)))
            | (Some(CopyStep::Link(a)), Some(CopyStep::Link(b)))
            | (Some(CopyStep::File(a, _)), Some(CopyStep::File(b, _))) => a == b,
            _ => false,
        };
        if !is_equal {
            return Ok(false);
        }
    }
}

/// Saves the snapshots of `plan` again in the same repository, without the entries that the patterns
/// match. No file is read. The old snapshots stay.
///
/// # Errors
///
/// Returns any error of [`backup`](crate::backup), except that a snapshot that cannot be read is
/// reported to the monitor.
pub fn rewrite(
    repository: &Arc<Repository>,
    plan: &RewritePlan,
    options: &BackupOptions,
    monitor: &dyn CopyMonitor,
) -> Result<CopyReport> {
    let mut report = CopyReport { failed_count: plan.failed_count, ..CopyReport::default() };
    for planned in &plan.rewrites {
        let form = CopyForm::Rewrite { exclude: plan.exclude.clone() };
        let source = SourceRepository::Own(plan.reader.clone());
        let run = Run { name: "rewrite", repository, source: &source, options, monitor };
        run.save(planned.id.into(), &planned.snapshot, form, &mut report)?;
    }
    Ok(report)
}
