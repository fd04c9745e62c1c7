//! P4: decides what becomes of each container.

use std::collections::BTreeSet;

use cutpoint_storage::Result;

use super::examine::Examination;
use super::merge::select_merged;
use super::plan::PrunePlan;
use super::pulse::Pulse;
use super::rewriting::{select_regrouped, select_rewritten};
use super::sample::Sample;
use super::survey::Survey;
use super::task::Task;
use crate::format::grouping::Grouping;
use crate::format::names::PartName;
use crate::repo::repository::Repository;

/// The plan, container by container.
pub(super) struct Selection {
    pub(super) plan: PrunePlan,
    /// Numbers of the dead containers, in ascending order.
    pub(super) dead: Vec<u32>,
    pub(super) rewritten: BTreeSet<u32>,
    /// The segments to merge.
    pub(super) merged: BTreeSet<PartName>,
    /// Number of hints at which a merged segment is published.
    pub(super) merged_hints_max: usize,
    /// The segments of which nothing exists.
    pub(super) gone: BTreeSet<PartName>,
    /// The segments that the record supersedes: the merged ones, and those of which nothing exists.
    pub(super) superseded: BTreeSet<PartName>,
    /// The target grouping of an optimization; `None` for a prune.
    pub(super) grouping: Option<Grouping>,
    /// Set if the commits that are only history are worth a record.
    has_long_history: bool,
}

impl Selection {
    /// Returns `true` if there is nothing to record.
    pub(super) fn is_empty(&self) -> bool {
        let PrunePlan { forgotten_count, orphan_count, rescued_count, inlined_count, .. } =
            self.plan;
        self.dead.is_empty()
            && self.rewritten.is_empty()
            && !self.has_long_history
            && self.superseded.is_empty()
            && [forgotten_count, orphan_count, rescued_count, inlined_count] == [0; 4]
    }
}

/// Decides what becomes of each container of `survey`.
///
/// # Errors
///
/// Returns any error of [`Examination::new`], [`Sample::of`] and [`select_merged`].
pub(super) fn select(
    survey: &Survey,
    repository: &Repository,
    task: &Task,
    pulse: &Pulse<'_>,
) -> Result<Selection> {
    let examination = Examination::new(repository, survey, task, pulse)?;
    let Examination { mut plan, dead, candidates, .. } = examination;
    let rewritten = match task.grouping {
        None => select_rewritten(&mut plan, candidates, &task.options),
        Some(grouping) => {
            let regrouped = select_regrouped(&mut plan, &candidates, &task.options);
            let numbers: Vec<u32> = regrouped.iter().copied().collect();
            let sample = Sample::of(repository, survey, &numbers, grouping, pulse)?;
            plan.sampled_bytes = sample.raw_bytes;
            plan.moved_bytes = sample.estimate(plan.moved_bytes);
            regrouped
        }
    };
    let (merged, gone) = select_merged(survey, repository, &task.options, &dead)?;
    plan.merged_segment_count = merged.len() as u64;
    let superseded = merged.union(&gone).copied().collect();
    let (merged_hints_max, grouping) = (task.options.merged_hints_max, task.grouping);
    plan.history_count = survey.history.commits.len() as u64;
    let has_long_history = survey.history.is_long();
    let mut selection = Selection {
        plan,
        dead,
        rewritten,
        merged,
        gone,
        superseded,
        merged_hints_max,
        grouping,
        has_long_history,
    };
    if selection.is_empty() {
        // Without a record, no commit is taken.
        selection.plan.history_count = 0;
    }
    Ok(selection)
}
