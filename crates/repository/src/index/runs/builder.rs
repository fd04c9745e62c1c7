//! Builds runs of segments that are read one after another.

use std::sync::Arc;

use super::file::{MergeFailure, merge};
use super::folder::merge_tiers;
use super::run::Run;
use super::store::RunStore;
use crate::format::names::PartName;
use crate::format::segment::Segment;

/// Number of hints that are gathered in memory before a file is written: 12 MB.
const GATHERED_HINTS_MAX: u64 = 1 << 20;
/// Number of segments that are gathered before a file is written.
const GATHERED_RUNS_MAX: usize = 4096;
/// Number of hints below which no file is written that later processes could not find: 0.8 MB.
const TEMPORARY_HINTS_MIN: u64 = 1 << 16;
/// Maximum number of damaged runs that are replaced by files. After that, runs are kept in memory,
/// because a failing disk is unsuitable for a cache.
pub(in crate::index) const DAMAGED_RUNS_MAX: u32 = 16;

/// Gathers small segments, so that many of them become one run.
#[derive(Debug)]
pub(in crate::index) struct RunBuilder {
    store: RunStore,
    gathered: Vec<Run>,
    gathered_hint_count: u64,
    runs: Vec<Arc<Run>>,
    /// Number of runs that could not be read again. Their segments are in no run.
    damaged_count: u32,
}

impl RunBuilder {
    /// Creates a builder whose runs are kept in `store`.
    pub(in crate::index) fn new(store: RunStore) -> RunBuilder {
        let (gathered, runs) = (Vec::new(), Vec::new());
        RunBuilder { store, gathered, gathered_hint_count: 0, runs, damaged_count: 0 }
    }

    /// Adds a segment.
    pub(in crate::index) fn add(&mut self, name: PartName, segment: &Segment) {
        self.gathered.push(Run::in_memory(vec![name], segment));
        self.gathered_hint_count += segment.hints.len() as u64;
        if self.gathered_hint_count >= GATHERED_HINTS_MAX
            || self.gathered.len() >= GATHERED_RUNS_MAX
        {
            self.flush();
        }
    }

    /// Makes one run of what was gathered. If the file cannot be written, everything stays in
    /// memory.
    fn flush(&mut self) {
        self.gathered_hint_count = 0;
        let gathered = std::mem::take(&mut self.gathered);
        match merge(&self.store, &gathered.iter().collect::<Vec<_>>()) {
            Ok(run) => self.runs.push(Arc::new(run)),
            Err(MergeFailure::Damaged(_) | MergeFailure::Unwritten) => {
                self.runs.extend(gathered.into_iter().map(Arc::new));
            }
        }
        while let Some(damaged) = merge_tiers(&self.store, &mut self.runs) {
            damaged.remove_file();
            self.damaged_count += 1;
            if self.damaged_count >= DAMAGED_RUNS_MAX {
                self.store = RunStore::Memory;
            }
        }
    }

    /// Returns the segments that are in the runs so far.
    pub(in crate::index) fn covers(&self) -> impl Iterator<Item = PartName> {
        let runs = self.runs.iter().map(|run| &**run).chain(&self.gathered);
        runs.flat_map(|run| run.covers.iter().copied())
    }

    /// Returns the runs, and the number of damaged runs that were dropped.
    pub(in crate::index) fn finish(mut self) -> (Vec<Arc<Run>>, u32) {
        let is_temporary = matches!(self.store, RunStore::Temporary(_));
        if is_temporary && self.gathered_hint_count < TEMPORARY_HINTS_MIN {
            self.runs.extend(self.gathered.drain(..).map(Arc::new));
        } else if !self.gathered.is_empty() {
            self.flush();
        }
        (self.runs, self.damaged_count)
    }
}
