//! One run of the pipeline: the source in the calling thread, all other stages in threads of their
//! own.
//!
//! The stages and the channels between them are in [`super::stages`], the end of a run is in
//! [`super::shutdown`].

use std::collections::BTreeSet;
use std::io::Read;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use cutpoint_chunking::Chunker;
use cutpoint_repository::write::{
    BurstStatistics, ContainerStatistics, ContainerWriter, Deduplicator, DeltaStrategy,
    delta_strategy,
};
use cutpoint_repository::{
    Class, Content, Entry, Index, PartName, Reader, Repository, Statistics, Verify, Writer,
};
use cutpoint_storage::{Error, Result};

use super::BackupMonitor;
use super::batch::BATCH_SIZE;
use super::bundle::Bundling;
use super::dedup_stage::DedupStage;
use super::run_state::RunState;
use super::shutdown::{self, Halt, Received};
use super::source_stage::{Begun, Previous, SourceCounts, SourceStage};
use super::stages::{self, SourceEnds, ToDedup, Work};
use crate::source::walk::Walk;

/// The interval at which progress is reported.
const TICK: Duration = Duration::from_millis(100);

/// The source of one run.
pub(super) enum Input<'a> {
    Walk(Walk),
    Stream(Entry, &'a mut dyn Read, &'a mut Begun),
}

/// The parameters of a run.
pub(super) struct Run<'a> {
    pub(super) index: Arc<Index>,
    pub(super) chunker: &'a dyn Chunker,
    pub(super) cut: String,
    /// A reader of the repository, with the view of the writer.
    pub(super) reader: &'a Reader,
    /// The parent, followed by the snapshots that have sources that the parent lacks.
    pub(super) previous_versions: Vec<Previous<'a>>,
    pub(super) verify: Verify,
    pub(super) threads: usize,
    /// The start of the attempt, in nanoseconds since 1970.
    pub(super) started_ns: i64,
    pub(super) monitor: &'a dyn BackupMonitor,
}

/// The result of a run. Everything is put, and nothing is committed.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The content of the root folder.
    pub(super) root: Content,
    pub(super) segments: Vec<PartName>,
    pub(super) hits: BTreeSet<(Class, PartName)>,
    pub(super) statistics: Statistics,
    /// Statistics of BURST, if chunks are compared by it.
    pub(super) bursts: Option<BurstStatistics>,
    pub(super) counts: SourceCounts,
}

/// Runs all stages to their end.
///
/// # Errors
///
/// Returns the first failure of any stage. Nothing is committed then, and what was put stays.
pub(super) fn run(writer: &mut Writer, run: Run<'_>, input: Input<'_>) -> Result<Outcome> {
    let repository = writer.repository().clone();
    let ticket = writer.ticket();
    let index = run.index.clone();
    let decide = decide(&repository, &run, &index, writer)?;
    let containers = ContainerWriter::new(repository.clone(), ticket);
    let bundling = bundling(&repository, &run, decide.strategy.as_deref());
    let work = Work {
        keys: repository.keys(),
        bundling: bundling.as_ref(),
        level: repository.config().compression_level,
    };
    let threads = run.threads.max(1);
    let batch_capacity = BATCH_SIZE.max(run.chunker.needed_size_max().unwrap_or(BATCH_SIZE) * 2);
    let ends = stages::connect(threads, batch_capacity);
    let (monitor, started_ns) = (run.monitor, run.started_ns);
    let shared = RunState::default();
    let shutdown = &shared.shutdown;

    // Each stage owns its ends of the channels, which are gone when it ends.
    let done = std::thread::scope(|scope| {
        for ends in ends.workers {
            let shared = &shared;
            scope.spawn(move || shutdown.stage(|| stages::work(work, ends, shared)));
        }
        let decided = {
            let (ends, shared) = (ends.decide, &shared);
            scope.spawn(move || shutdown.stage(|| stages::decide(decide, ends, shared)))
        };
        let archived = {
            let (ends, shared, repository) = (ends.containers, &shared, &repository);
            scope.spawn(move || {
                shutdown.stage(|| stages::containers(repository, containers, ends, shared))
            })
        };
        let put = {
            let (ends, shared, index) = (ends.put, &shared, &run.index);
            scope.spawn(move || shutdown.stage(|| stages::put(writer, index, ends, shared)))
        };
        let (working, ended) = bounded::<()>(0);
        {
            let shared = &shared;
            scope.spawn(move || shutdown.stage(|| tell_progress(monitor, ended, shared)));
        }
        let SourceEnds { free, jobs, decide } = ends.source;
        let sourced = shutdown.stage(|| {
            let mut source = SourceStage::new(
                run.chunker,
                run.previous_versions,
                monitor,
                &shared,
                free,
                jobs,
                started_ns,
            );
            source.bundling = work.bundling;
            let (batches, well, counts) = read(source, input, &shared)?;
            shutdown.send(&decide, ToDedup::End(batches, well))?;
            Ok(counts)
        });
        // The source can send until it has ended. After that, the channel ends or the run is over.
        drop(decide);
        let done = (sourced, join(decided), join(archived), join(put));
        drop(working);
        done
    });
    let progress = shared.progress();
    let read_bytes = shared.read_bytes();
    shared.shutdown.result()?;
    let (Some(counts), Some((decide, Some(root))), Some((segments, stored)), Some(())) = done
    else {
        return Err(Error::invalid("backup", "a stage ended early, without a cause"));
    };
    monitor.progress(&progress);
    let statistics = statistics(&decide, &counts, &stored, read_bytes);
    let bursts = decide.strategy.as_ref().and_then(|strategy| strategy.burst_statistics());
    let hits = decide.dedup.hits().clone();
    Ok(Outcome { root, segments, hits, statistics, bursts, counts })
}

/// Returns the result of a stage in a thread; `None` if the stage did not complete.
fn join<T>(stage: ScopedJoinHandle<'_, Option<T>>) -> Option<T> {
    // A panic of a stage is caught and kept in the thread of the stage.
    stage.join().ok().flatten()
}

/// Creates the ordered stage, with the chunks that it compares new ones with.
fn decide<'a>(
    repository: &Repository,
    run: &Run<'a>,
    index: &'a Index,
    writer: &Writer,
) -> Result<DedupStage<'a>> {
    let config = repository.config();
    let keys = repository.keys();
    let dedup = Deduplicator::new(keys.clone(), run.index.clone(), config.region_size, run.verify)?;
    let strategy = delta_strategy(config, run.reader, index, writer.ticket());
    Ok(DedupStage::new(keys.clone(), dedup, strategy, run.cut.clone()))
}

/// Returns the rules by which small files share chunks, if they do. They share chunks only where
/// delta chunks have any number of extents, so that one changed file in a bundle costs only its own
/// changes.
fn bundling(
    repository: &Repository,
    run: &Run<'_>,
    strategy: Option<&dyn DeltaStrategy>,
) -> Option<Bundling> {
    let chunk_len_max = run.chunker.chunk_size_max().unwrap_or(usize::MAX);
    let is_bundled = strategy.is_some_and(DeltaStrategy::is_fine_grained);
    is_bundled.then(|| Bundling::new(repository.keys().clone(), chunk_len_max))
}

fn statistics(
    decide: &DedupStage<'_>,
    counts: &SourceCounts,
    stored: &ContainerStatistics,
    read_bytes: u64,
) -> Statistics {
    let delta_chunks = decide.dedup.delta_chunks();
    Statistics {
        delta_chunk_count: delta_chunks.count,
        delta_chunk_bytes: delta_chunks.bytes,
        literal_bytes: delta_chunks.literal_bytes,
        read_file_count: counts.read_files,
        read_bytes,
        new_chunk_count: decide.dedup.new_chunk_count(Class::Data),
        new_bytes: decide.dedup.new_bytes(Class::Data),
        stored_bytes: stored.stored_bytes,
        problem_count: counts.problems + decide.lost_links,
        ..decide.statistics
    }
}

/// Reads the source to its end. Returns the number of batches, `true` if the source ended well, and
/// the counts. A failure of the source becomes the result of the run, but the run continues to
/// store what was read, so that the next run finds it.
fn read(
    mut source: SourceStage<'_>,
    input: Input<'_>,
    shared: &RunState,
) -> shutdown::Result<(u64, bool, SourceCounts)> {
    let read = match input {
        Input::Walk(walk) => source.walk(walk),
        Input::Stream(entry, reader, begun) => source.stream(entry, reader, begun),
    };
    let well = match read {
        Ok(()) => true,
        Err(Halt::Failed(error)) => {
            shared.shutdown.note(error);
            false
        }
        Err(over) => return Err(over),
    };
    let (batches, counts) = source.finish()?;
    Ok((batches, well, counts))
}

/// Reports progress to the monitor until every sender of `ended` is gone.
fn tell_progress(
    monitor: &dyn BackupMonitor,
    ended: Receiver<()>,
    shared: &RunState,
) -> shutdown::Result<()> {
    while let Received::Nothing = shared.shutdown.receive_within(&ended, TICK)? {
        monitor.progress(&shared.progress());
    }
    Ok(())
}
