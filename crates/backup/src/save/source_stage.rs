//! The source stage: reads the source in the calling thread, and turns it into batches.

use std::collections::HashSet;
use std::io::Read;

use cutpoint_chunking::Chunker;
use cutpoint_repository::Entry;

use super::as_path::AsPath;
use super::batch_filler::BatchFiller;
use super::bundle::Bundling;
use super::changed_file::BlockMap;
use super::channels::{SourceEnds, ToDedup};
use super::comparison::Comparison;
use super::cutter::Cutter;
use super::files_ahead::FilesAhead;
use super::finder::Finder;
use super::monitor::BackupMonitor;
use super::previous_version::PreviousVersion;
use super::run_state::RunState;
use super::shutdown::{Halt, Result};
use super::snapshot_saver::{CopyInput, SnapshotSaver};
use super::source_counts::SourceCounts;
use super::stream_saver::{StreamSaver, StreamState};
use super::tar_saver::TarSaver;
use super::walk_saver::WalkSaver;
use crate::source::{Helpers, Walk};

/// The source of one run.
pub(super) enum Input<'a> {
    /// Everything that a walk finds.
    Walk(Box<Walk>),
    /// A stream, saved as the file of the entry, and the part of it that was read before.
    Stream(Box<Entry>, &'a mut dyn Read, &'a mut StreamState),
    /// A tar archive.
    Tar(&'a mut dyn Read),
    /// A snapshot.
    Copy(Box<CopyInput<'a>>),
}

/// The stage that reads the source.
pub(super) struct SourceStage<'a> {
    pub(super) chunker: &'a dyn Chunker,
    /// The parent, followed by the snapshots that have sources that the parent lacks.
    pub(super) previous_versions: Vec<PreviousVersion<'a>>,
    /// The rules of bundling, if small files share chunks.
    pub(super) bundling: Option<&'a Bundling>,
    /// The start of the attempt, in nanoseconds since 1970.
    pub(super) started_ns: i64,
    /// Set if every file is read, except those that this run has read before.
    pub(super) force_read: bool,
    /// The maximum number of threads that work ahead.
    pub(super) readers: usize,
    pub(super) readers_begin_at_once: bool,
    /// The other path of the source in the snapshot, if it gets one.
    pub(super) as_path: Option<AsPath>,
    /// The map by which the only file is read, if there is one.
    pub(super) map: Option<BlockMap<'a>>,
    pub(super) monitor: &'a dyn BackupMonitor,
}

impl<'a> SourceStage<'a> {
    /// Reads the source to its end. A failure of the source becomes the result of the run, but the
    /// run continues to store what was read, so that the next run finds it.
    pub(super) fn run(
        self,
        input: Input<'_>,
        ends: SourceEnds,
        state: &'a RunState,
    ) -> Result<SourceCounts> {
        let SourceEnds { free_batches, jobs, dedup } = ends;
        let SourceStage { chunker, previous_versions, bundling, started_ns, monitor, .. } = self;
        let (force_read, as_path, map) = (self.force_read, self.as_path, self.map);
        let batches = BatchFiller::new(monitor, state, free_batches, jobs);
        let mut cutter = Cutter::new(chunker, state, batches);
        let previous = previous_versions.first().cloned();
        let comparison = Comparison::new(previous_versions, monitor);
        let saved = match input {
            Input::Walk(walk) => {
                let helpers = Helpers::new(self.readers, self.readers_begin_at_once);
                let walk = walk.with_helpers(helpers.clone());
                let mut finder = Finder::new(walk, comparison, FilesAhead::new(helpers), as_path);
                (finder.force_read, finder.has_map) = (force_read, map.is_some());
                WalkSaver {
                    finder,
                    cutter: &mut cutter,
                    monitor,
                    state,
                    bundling,
                    started_ns,
                    map,
                    depth: 0,
                    recorded_name: None,
                    linked: HashSet::new(),
                    counts: SourceCounts::default(),
                }
                .save()
            }
            Input::Stream(entry, reader, begun) => {
                StreamSaver { comparison, cutter: &mut cutter, monitor, state }
                    .save(*entry, reader, begun)
            }
            Input::Tar(reader) => {
                let mut saver = TarSaver::new(&mut cutter, monitor, state, previous.as_ref());
                saver.bundling = bundling;
                saver.save(reader, as_path.as_ref())
            }
            Input::Copy(input) => {
                SnapshotSaver::new(&mut cutter, monitor, state, bundling).save(*input)
            }
        };
        let (counts, source_ok) = match saved {
            Ok(counts) => (counts, true),
            Err(Halt::Failed(error)) => {
                state.shutdown.note(error);
                (SourceCounts::default(), false)
            }
            Err(over) => return Err(over),
        };
        let batch_count = cutter.batches.finish()?;
        state.shutdown.send(&dedup, ToDedup::End { batch_count, source_ok })?;
        Ok(counts)
    }
}
