//! Merges of runs, part by part.

use std::sync::Arc;

use super::key::Key;
use super::merge::{Merge, Source};
use super::part::Part;
use super::run::Run;
use super::writer::PartWriter;
use crate::core::Core;
use crate::error::Result;

/// The number of runs of one level that are merged to one of the next level.
const FANOUT: usize = 4;

/// Runs that are to be merged: neighbours, from the newest to the oldest.
#[derive(Debug)]
pub(crate) struct RunMerge {
    inputs: Vec<Arc<Run>>,
    /// The part of the result that was written so far, which is the run before the inputs.
    output: Option<Arc<Run>>,
    level: u8,
    /// Set if no older run is left, so that deletions need not be kept.
    is_oldest: bool,
}

/// The result of a step of a merge.
#[derive(Debug)]
pub(crate) struct MergeStep {
    /// The next part of the result, if anything was left.
    part: Option<Arc<Part>>,
    /// The key from which on the inputs are still to be merged, if any.
    next: Option<Key>,
}

impl RunMerge {
    /// Returns the next merge that is due among `runs`, which go from the newest to the oldest, and of
    /// whose entries `live_count` are live.
    pub(crate) fn due(runs: &[Arc<Run>], live_count: u64) -> Option<RunMerge> {
        if let Some(first) = runs.iter().position(|run| run.is_merging()) {
            let (output, newer) = runs[..first].split_last()?;
            // New runs are merged first, so that there are never many of them, but not beyond the result.
            return RunMerge::of_level(newer, output.level(), false).or_else(|| {
                let inputs = runs[first..].iter().take_while(|run| run.is_merging());
                let inputs: Vec<_> = inputs.cloned().collect();
                let is_oldest = first + inputs.len() == runs.len();
                let level = output.level();
                Some(RunMerge { inputs, output: Some(Arc::clone(output)), level, is_oldest })
            });
        }
        let entry_count: u64 = runs.iter().map(|run| run.entry_count()).sum();
        if runs.len() > 1 && entry_count * 2 > live_count.saturating_mul(3) {
            let level = runs.iter().map(|run| run.level()).max().unwrap_or_default();
            let inputs = runs.to_vec();
            return Some(RunMerge { inputs, output: None, level, is_oldest: true });
        }
        RunMerge::of_level(runs, u8::MAX, true)
    }

    /// Returns a merge of runs of one level below `level_end`. `are_oldest` is set if no older run is left.
    fn of_level(runs: &[Arc<Run>], level_end: u8, are_oldest: bool) -> Option<RunMerge> {
        // Levels rise with age, so that runs of one level are neighbours.
        let level = runs.iter().map(|run| run.level()).find(|level| {
            *level < level_end && runs.iter().filter(|run| run.level() == *level).count() >= FANOUT
        })?;
        let first = runs.iter().position(|run| run.level() == level)?;
        let inputs: Vec<_> =
            runs[first..].iter().take_while(|run| run.level() == level).cloned().collect();
        let is_oldest = are_oldest && first + inputs.len() == runs.len();
        Some(RunMerge { inputs, output: None, level: level + 1, is_oldest })
    }

    /// Returns the list of runs after a step.
    pub(crate) fn applied(&self, runs: &[Arc<Run>], step: &MergeStep) -> Vec<Arc<Run>> {
        let mut runs = runs.to_vec();
        let is_first = |run: &Arc<Run>| Arc::ptr_eq(run, &self.inputs[0]);
        let first = runs.iter().position(is_first);
        let first = first.expect("runs leave the list by merges, of which there is one at a time");
        let start = first - usize::from(self.output.is_some());
        let output = match (&self.output, &step.part) {
            (Some(output), Some(part)) => Some(Arc::new(output.with_part(Arc::clone(part)))),
            (None, Some(part)) => {
                Some(Arc::new(Run::new(self.level, !self.is_oldest, Arc::clone(part))))
            }
            (output, None) => output.clone(),
        };
        let rests = step
            .next
            .into_iter()
            .flat_map(|next| self.inputs.iter().map(move |run| Arc::new(run.rest(next))));
        let replaced: Vec<_> = output.into_iter().chain(rests).collect();
        runs.splice(start..first + self.inputs.len(), replaced);
        runs
    }

    /// Writes the next part of the result as part `number` and syncs it, without its name. Returns early with
    /// `None` if `is_asked_to_stop` returns `true`.
    ///
    /// # Errors
    ///
    /// Fails if a run cannot be read or a part written. The file of the part is then removed.
    pub(crate) fn step(
        &self,
        core: &Core,
        number: u64,
        is_asked_to_stop: &dyn Fn() -> bool,
    ) -> Result<Option<MergeStep>> {
        let mut writer = PartWriter::create(core, number, !self.is_oldest)?;
        let mut next = None;
        let inputs = self.inputs.iter().map(|run| Source::rest_of_run(core, run)).collect();
        for (count, entry) in Merge::new(inputs, !self.is_oldest).enumerate() {
            let (key, value) = match entry {
                Ok(entry) => entry,
                Err(error) => return Err(writer.abandon(error)),
            };
            if writer.is_full() {
                next = Some(key);
                break;
            }
            if let Err(error) = writer.push(key, value.as_deref()) {
                return Err(writer.abandon(error));
            }
            if count % 4096 == 0 && is_asked_to_stop() {
                writer.discard();
                return Ok(None);
            }
        }
        let part = writer.finish()?.map(Arc::new);
        Ok(Some(MergeStep { part, next }))
    }
}

impl MergeStep {
    /// Returns the number of the part that was written, if there is one.
    pub(crate) fn part_number(&self) -> Option<u64> {
        self.part.as_ref().map(|part| part.number())
    }
}

/// Returns `true` if the runs can be those of a map: those that are being merged are neighbours behind the
/// result of their merge, which ends where they begin. Several merges can be in progress, because those of
/// small runs go before one of large runs.
pub(crate) fn are_consistent(runs: &[Arc<Run>]) -> bool {
    let mut groups = runs.chunk_by(|one, other| one.is_merging() == other.is_merging());
    let Some(first) = groups.next() else { return true };
    if first[0].is_merging() {
        return false;
    }
    let mut output = first.last();
    groups.all(|group| {
        let output = std::mem::replace(&mut output, group.last());
        let from = group[0].from();
        let last = output.and_then(|output| output.parts().last());
        !group[0].is_merging()
            || last.is_some_and(|part| Some(*part.first()) < from)
                && group.iter().all(|run| run.from() == from)
    })
}
