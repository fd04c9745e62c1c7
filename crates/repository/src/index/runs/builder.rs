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
            Ok(run) => {
                // A merge of runs takes memory as well.
                drop(gathered);
                self.runs.push(Arc::new(run));
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fingerprint::Class;
    use crate::format::names::TicketId;
    use crate::format::segment::ContainerRecord;

    fn segment(number: u64, hint_count: u64) -> Segment {
        let hints = (0..hint_count).map(|n| (n * 1000 + number, 0)).collect();
        let container = ContainerRecord {
            name: part(0),
            class: Class::Data,
            has_delta_chunks: false,
            stored_len: 1,
            toc_offset: 2,
            toc_len: 3,
        };
        Segment { containers: vec![container], hints, ..Segment::default() }
    }

    fn part(count: u32) -> PartName {
        PartName { ticket: TicketId([1; 12]), count }
    }

    /// Small segments become one file in the cache, and stay in memory if no later process could
    /// find the file.
    #[test]
    fn segments_are_gathered_in_files() {
        let folder = tempfile::tempdir().expect("made");
        let path = folder.path().to_owned();
        let (few, many) = (100, TEMPORARY_HINTS_MIN / 4 + 1);
        for (store, hint_count, run_count, file_count, is_in_file) in [
            (RunStore::Folder(path.clone()), few, 1, 1, true),
            (RunStore::Temporary(path.clone()), few, 4, 1, false),
            (RunStore::Temporary(path.clone()), many, 1, 1, true),
            (RunStore::Memory, many, 4, 1, false),
            (RunStore::Folder(path.join("index")), many, 1, 2, true),
        ] {
            let mut builder = RunBuilder::new(store.clone());
            for number in 0..4 {
                builder.add(part(number), &segment(u64::from(number), hint_count));
            }
            assert_eq!(builder.covers().collect::<Vec<_>>(), [0, 1, 2, 3].map(part));
            let (runs, damaged_count) = builder.finish();
            assert_eq!((runs.len(), damaged_count), (run_count, 0), "{store:?}");
            assert_eq!(runs.iter().map(|run| run.hint_count).sum::<u64>(), 4 * hint_count);
            let memory: u64 = runs.iter().map(|run| run.memory_bytes()).sum();
            let filters: u64 = runs.iter().map(|run| run.filter.bytes()).sum();
            assert_eq!(memory == filters, is_in_file, "{store:?}: {memory} bytes");
            let listed = std::fs::read_dir(&path).expect("it lists").count();
            assert_eq!(listed, file_count, "{store:?}");
        }
    }

    #[test]
    fn gathered_segments_are_limited() {
        let folder = tempfile::tempdir().expect("made");
        let mut builder = RunBuilder::new(RunStore::Temporary(folder.path().to_owned()));
        for number in 0..3 {
            builder.add(part(number), &segment(u64::from(number), GATHERED_HINTS_MAX / 2));
        }
        assert_eq!((builder.runs.len(), builder.gathered.len()), (1, 1), "by hints");
        let mut builder = RunBuilder::new(RunStore::Temporary(folder.path().to_owned()));
        for number in 0..u32::try_from(GATHERED_RUNS_MAX).expect("few") + 1 {
            builder.add(part(number), &segment(0, 1));
        }
        assert_eq!((builder.runs.len(), builder.gathered.len()), (1, 1), "by segments");
    }
}
