//! One attempt of a prune, by one writer.

use std::collections::BTreeSet;
use std::sync::Arc;

use cutpoint_storage::{Error, Result};

use super::history::{Marks, attested};
use super::outcome::PruneReport;
use super::plan::PrunePlan;
use super::pulse::Pulse;
use super::record::{judge, segments_of_taken};
use super::relocate::relocate;
use super::selection::select;
use super::source::Failure;
use super::survey::Survey;
use super::task::Task;
use crate::format::names::{PartName, TicketId};
use crate::format::prune::Prune;
use crate::gc::monitor::PruneMonitor;
use crate::repo::view::View;
use crate::rules;
use crate::write::Writer;
use crate::write::prune_log::{AppendResult, append};

/// The outcome of one attempt.
pub(super) enum AttemptOutcome {
    /// The prune has ended; `None` if the plan was not approved.
    Done(Option<PruneReport>),
    /// Objects were moved or deleted meanwhile, so another attempt is needed.
    Again,
    /// A source could not be read while delta chunks were to be stored as full chunks. The next
    /// attempt keeps these delta chunks and the full chunks that they refer to.
    NotInlined(Error),
    /// The storage has lost objects that it had acknowledged. The next attempt stores them again.
    Lost(Error),
}

/// Ends the writer if `result` is an error. What the writer has put stays, and is found later.
fn or_abandon<T>(writer: &mut Writer, result: Result<T>) -> Result<T> {
    result.map_err(|error| writer.fail(error))
}

/// Makes one attempt: surveys, selects, stores again what has to move, and puts the record.
///
/// # Errors
///
/// Returns any error of [`super::prune`]. The writer has ended then.
pub(super) fn attempt(
    mut writer: Writer,
    task: &Task,
    inlined_bytes_max: u64,
    monitor: &dyn PruneMonitor,
    approve: &mut dyn FnMut(&PrunePlan) -> bool,
    written_bytes: &mut u64,
) -> Result<AttemptOutcome> {
    let repository = writer.repository().clone();
    let (view, own) = (writer.view().clone(), Some(writer.ticket()));
    let prepared = {
        let pulse = Pulse::new(monitor, &mut writer);
        let survey = Survey::new(&repository, view, own, inlined_bytes_max, &pulse);
        survey.and_then(|survey| {
            let selection = select(&survey, &repository, task, &pulse)?;
            Ok((survey, selection))
        })
    };
    let (survey, selection) = or_abandon(&mut writer, prepared)?;
    let is_approved = approve(&selection.plan);
    if !is_approved || selection.is_empty() {
        writer.void(Vec::new())?;
        let written_bytes = *written_bytes;
        let pruned = PruneReport { plan: selection.plan, written_bytes, ..PruneReport::default() };
        return Ok(AttemptOutcome::Done(is_approved.then_some(pruned)));
    }
    let (mut writer, relocation) = match relocate(writer, &survey, &selection, monitor) {
        Err(Failure::Source(unreadable)) if !survey.placement.inlined.is_empty() => {
            return Ok(AttemptOutcome::NotInlined(unreadable.into_error()));
        }
        relocation => relocation.map_err(Failure::into_error)?,
    };
    *written_bytes += relocation.written_bytes;
    let mut published = relocation.published;
    let taken: BTreeSet<TicketId> =
        survey.forgotten.union(&survey.history.commits).copied().collect();
    let embedded = &relocation.merged.embedded;
    let superseded: BTreeSet<PartName> = selection.superseded.union(embedded).copied().collect();
    published.extend(segments_of_taken(&survey, &taken, &superseded));
    published.retain(|part| rules::must_republish(part.ticket == writer.ticket()));
    let marks = Marks::new(&survey.view, &survey.marked);
    let record = Prune {
        published,
        superseded: superseded.into_iter().collect(),
        condemned: relocation.condemned,
        attested: attested(&survey.view, &taken),
        taken: taken.into_iter().collect(),
        swept: survey.history.swept.iter().copied().collect(),
        marked: marks.marked,
        marked_base: marks.base,
        unmarked: marks.unmarked,
        spent: relocation.spent.into_iter().collect(),
        coverings: relocation.merged.recorded(&selection.gone),
        ..Prune::default()
    };
    let own: Vec<_> =
        record.published.iter().copied().filter(|part| part.ticket == writer.ticket()).collect();
    let merged = &relocation.merged;
    let judge =
        |_: &View, faster: &[Arc<Prune>], record: Prune| Ok(judge(&survey, merged, faster, record));
    let appended = append(&mut writer, &survey.view, record, &BTreeSet::new(), judge);
    match or_abandon(&mut writer, appended)? {
        AppendResult::Done(number) => {
            let pruned = PruneReport {
                number: Some(number),
                plan: selection.plan,
                written_bytes: *written_bytes,
                reencoded_count: relocation.reencodings.count,
                reencoded_bytes: relocation.reencodings.bytes,
            };
            Ok(AttemptOutcome::Done(Some(pruned)))
        }
        // The next attempt finds the copies.
        AppendResult::Stopped(_) => writer.void(own).map(|()| AttemptOutcome::Again),
        AppendResult::Ended if writer.has_lost() => {
            Ok(AttemptOutcome::Lost(writer.was_ended(None)))
        }
        AppendResult::Ended => Err(writer.was_ended(None)),
    }
}
