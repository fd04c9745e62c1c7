//! One run of the pipeline: the source stage in the calling thread, all other stages in threads of
//! their own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use cutpoint_chunking::Chunker;
use cutpoint_repository::write::{
    BurstStatistics, ContainerStatistics, Deduplicator, DeltaStrategy, OwnSegments, delta_strategy,
};
use cutpoint_repository::{
    Class, Content, Index, PartName, Reader, Repository, Statistics, TicketId, Verify, Writer,
};
use cutpoint_storage::{Error, Result};

use super::as_path::AsPath;
use super::batch::BATCH_SIZE;
use super::bundle::Bundling;
use super::changed_blocks::ChangedBlocks;
use super::changed_file::BlockMap;
use super::channels::{Channels, DedupEnds, WorkerEnds};
use super::container_stage::{ContainerStage, ContainerStageResult};
use super::dedup_stage::DedupStage;
use super::lookahead::Lookahead;
use super::member_stage::MemberStage;
use super::monitor::{BackupMonitor, BackupProgress};
use super::previous_version::PreviousVersion;
use super::put_stage;
use super::run_state::RunState;
use super::shutdown::{self, WaitResult};
use super::source_counts::SourceCounts;
use super::source_stage::{Input, SourceStage};
use super::worker_stage::WorkerStage;

/// The interval at which progress is reported.
const TICK: Duration = Duration::from_millis(100);

/// The settings of a run.
pub(super) struct PipelineSettings<'a> {
    pub(super) index: Arc<Index>,
    pub(super) chunker: &'a dyn Chunker,
    /// The cut specification, for the recipes.
    pub(super) cut: String,
    /// A reader of the repository, with the view of the writer.
    pub(super) reader: &'a Reader,
    /// The parent, followed by the snapshots that have sources that the parent lacks.
    pub(super) previous_versions: Vec<PreviousVersion<'a>>,
    pub(super) verify: Verify,
    /// The number of workers.
    pub(super) threads: usize,
    /// Set if new chunks are compared with those of the same run.
    pub(super) with_recent: bool,
    /// The start of the attempt, in nanoseconds since 1970.
    pub(super) started_ns: i64,
    /// Set if every file is read, except those that this run has read before.
    pub(super) force_read: bool,
    /// The maximum number of threads that read files ahead.
    pub(super) readers: usize,
    pub(super) readers_begin_at_once: bool,
    /// The other path of the source in the snapshot, if it gets one.
    pub(super) as_path: Option<AsPath>,
    /// The map by which the only file is read, if there is one.
    pub(super) changed_blocks: Option<&'a ChangedBlocks>,
    pub(super) monitor: &'a dyn BackupMonitor,
    /// The look-ahead, if the monitor wants to know the expected work.
    pub(super) lookahead: Option<Lookahead<'a>>,
    /// The repository from which chunks are copied as they are.
    pub(super) source: Option<&'a Reader>,
    /// Set if the source is an archive, whose members come in any order.
    pub(super) is_tar: bool,
}

/// The result of a run. Everything is put, and nothing is committed.
#[derive(Debug)]
pub(super) struct PipelineOutput {
    /// The content of the root folder.
    pub(super) root: Content,
    /// The index segments of the run.
    pub(super) index_segments: OwnSegments,
    /// The known parts that the run refers to.
    pub(super) hits: BTreeSet<(Class, PartName)>,
    pub(super) statistics: Statistics,
    /// Statistics of BURST, if chunks are compared by it.
    pub(super) bursts: Option<BurstStatistics>,
    pub(super) counts: SourceCounts,
}

/// Runs all stages to their end. Without a `writer`, new chunks are counted and dropped.
///
/// # Errors
///
/// Returns the first failure of any stage. Nothing is committed then, and what was put stays.
pub(super) fn run(
    writer: Option<&mut Writer>,
    settings: PipelineSettings<'_>,
    input: Input<'_>,
) -> Result<PipelineOutput> {
    let repository = settings.reader.repository().clone();
    let index = settings.index.clone();
    // A dry run has no ticket, and stores nothing under the one that stands for it.
    let ticket = writer.as_ref().map_or(TicketId([0; 12]), |writer| writer.ticket());
    let mut dedup = dedup_stage(&repository, &settings, &index, ticket)?;
    let bundling = bundling(&repository, &settings, dedup.strategy.as_deref());
    if writer.is_none() {
        // Deltas would refer to chunks that are not there.
        dedup.strategy = None;
    }
    let recent = dedup.recent_regions();
    let containers = ContainerStage::new(repository.clone(), ticket);
    let worker = WorkerStage {
        keys: repository.keys(),
        bundling: bundling.as_ref(),
        level: repository.config().compression_level,
        recent: recent.as_deref(),
    };
    let chunk_len_max = settings.chunker.needed_size_max();
    let batch_capacity = BATCH_SIZE.max(chunk_len_max.unwrap_or(BATCH_SIZE) * 2);
    let channels = Channels::new(settings.threads.max(1), batch_capacity);
    let Channels { source: source_ends, workers, containers: container_ends, put, .. } = channels;
    let regions = channels.dedup.regions.filter(|_| writer.is_some());
    let dedup_ends = DedupEnds { regions, ..channels.dedup };
    let state = RunState::default();
    let monitor = settings.monitor;
    let (keys, cut) = (repository.keys(), &*settings.cut);
    let map = settings.changed_blocks.map(|changed| BlockMap { changed, keys, cut });
    let source = SourceStage {
        chunker: settings.chunker,
        previous_versions: settings.previous_versions,
        bundling: bundling.as_ref(),
        started_ns: settings.started_ns,
        force_read: settings.force_read,
        readers: settings.readers,
        readers_begin_at_once: settings.readers_begin_at_once,
        as_path: settings.as_path,
        map,
        monitor,
    };
    let results = std::thread::scope(|scope| {
        let state = &state;
        workers.into_iter().for_each(|ends| spawn_worker(scope, state, worker, ends));
        let dedup = spawn_dedup(scope, state, dedup, dedup_ends, settings.reader);
        let index = &*settings.index;
        let storing = writer.map(|writer| {
            let containers =
                spawn(scope, state, move |state| containers.run(container_ends, state));
            let put = spawn(scope, state, move |state| put_stage::run(writer, index, put, state));
            (containers, put)
        });
        let (is_running, ended) = bounded::<()>(0);
        if let Some(lookahead) = settings.lookahead {
            let ended = ended.clone();
            spawn(scope, state, move |state| lookahead.run(&ended, state));
        }
        spawn(scope, state, move |state| report_progress(monitor, &ended, state));
        let source = state.shutdown.stage(|| source.run(input, source_ends, state));
        let dedup = join(dedup);
        let results = (source, dedup, join_storing(storing));
        drop(is_running);
        results
    });
    let progress = state.progress();
    state.shutdown.result()?;
    let (Some(counts), Some((dedup, Some(root))), Some(containers)) = results else {
        return Err(Error::invalid("backup", "a stage ended early, without a cause"));
    };
    monitor.progress(&progress);
    let statistics = statistics(&dedup, &counts, &containers.statistics, &progress);
    let bursts = dedup.strategy.as_ref().and_then(|strategy| strategy.burst_statistics());
    let hits = dedup.dedup.hits().clone();
    let index_segments = containers.index_segments;
    Ok(PipelineOutput { root, index_segments, hits, statistics, bursts, counts })
}

/// Starts a stage in a thread of its own.
fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    state: &'scope RunState,
    stage: impl FnOnce(&RunState) -> shutdown::Result<T> + Send + 'scope,
) -> ScopedJoinHandle<'scope, Option<T>> {
    scope.spawn(move || state.shutdown.stage(|| stage(state)))
}

/// Starts a worker.
fn spawn_worker<'scope>(
    scope: &'scope Scope<'scope, '_>,
    state: &'scope RunState,
    worker: WorkerStage<'scope>,
    ends: WorkerEnds,
) {
    scope.spawn(move || {
        state.shutdown.stage(|| worker.run(ends, state));
        // A worker ends before the dedup stage only if a stage has failed. The dedup stage may wait
        // for a region that no worker encodes any more.
        if let Some(recent) = worker.recent {
            recent.end();
        }
    });
}

/// Starts the dedup stage, and a thread that decodes regions by `reader` ahead of it, if the stage
/// wants any.
fn spawn_dedup<'scope, 'a: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    state: &'scope RunState,
    dedup: DedupStage<'a>,
    ends: DedupEnds,
    reader: &'scope Reader,
) -> ScopedJoinHandle<'scope, Option<(DedupStage<'a>, Option<Content>)>> {
    let ahead = dedup.strategy.as_ref().and_then(|strategy| strategy.regions_ahead());
    if let Some(ahead) = ahead.clone() {
        spawn(scope, state, move |_| {
            ahead.run(reader);
            Ok(())
        });
    }
    scope.spawn(move || {
        let result = state.shutdown.stage(|| dedup.run(ends, state));
        // The thread has no other end, whatever has become of the stage.
        if let Some(ahead) = ahead {
            ahead.end();
        }
        result
    })
}

/// Returns the result of a stage in a thread; `None` if the stage did not complete.
fn join<T>(stage: ScopedJoinHandle<'_, Option<T>>) -> Option<T> {
    // A panic of a stage is caught and kept in the thread of the stage.
    stage.join().ok().flatten()
}

/// The container stage and the put stage.
type StoringStages<'scope> =
    (ScopedJoinHandle<'scope, Option<ContainerStageResult>>, ScopedJoinHandle<'scope, Option<()>>);

/// Returns the result of the stages that store, which a dry run does not have; `None` if they did
/// not complete.
fn join_storing(stages: Option<StoringStages<'_>>) -> Option<ContainerStageResult> {
    let Some((containers, put)) = stages else { return Some(ContainerStageResult::default()) };
    let (containers, put) = (join(containers), join(put));
    containers.filter(|_| put.is_some())
}

/// Creates the dedup stage, with the chunks that it compares new ones with.
fn dedup_stage<'a>(
    repository: &Repository,
    run: &PipelineSettings<'a>,
    index: &'a Index,
    ticket: TicketId,
) -> Result<DedupStage<'a>> {
    let config = repository.config();
    let keys = repository.keys();
    let dedup = Deduplicator::new(keys.clone(), run.index.clone(), config.region_size, run.verify)?;
    let strategy = delta_strategy(config, run.reader, index, ticket, run.with_recent);
    let mut stage = DedupStage::new(keys.clone(), dedup, strategy, run.cut.clone());
    stage.source = run.source;
    if run.is_tar {
        stage.members = Some(MemberStage::new(repository.temporary_folder(), run.monitor));
    }
    Ok(stage)
}

/// Returns the rules by which small files share chunks, if they do. They share chunks only where
/// delta chunks have any number of extents, so that one changed file in a bundle costs only its own
/// changes. Chunks that are copied as they are stay as they are.
fn bundling(
    repository: &Repository,
    run: &PipelineSettings<'_>,
    strategy: Option<&dyn DeltaStrategy>,
) -> Option<Bundling> {
    let chunk_len_max = run.chunker.chunk_size_max().unwrap_or(usize::MAX);
    let is_bundled = strategy.is_some_and(DeltaStrategy::is_fine_grained);
    (is_bundled && run.source.is_none())
        .then(|| Bundling::new(repository.keys().clone(), chunk_len_max))
}

fn statistics(
    dedup: &DedupStage<'_>,
    counts: &SourceCounts,
    containers: &ContainerStatistics,
    progress: &BackupProgress,
) -> Statistics {
    let delta_chunks = dedup.dedup.delta_chunks();
    Statistics {
        delta_chunk_count: delta_chunks.count,
        delta_chunk_bytes: delta_chunks.bytes,
        literal_bytes: delta_chunks.literal_bytes,
        read_file_count: progress.statistics.read_file_count,
        read_bytes: progress.statistics.read_bytes,
        new_chunk_count: dedup.dedup.new_chunk_count(Class::Data),
        new_bytes: dedup.dedup.new_bytes(Class::Data),
        stored_bytes: containers.stored_bytes,
        problem_count: counts.problems + dedup.problem_count(),
        ..dedup.statistics
    }
}

/// Reports progress to the monitor until every sender of `ended` is gone.
fn report_progress(
    monitor: &dyn BackupMonitor,
    ended: &Receiver<()>,
    state: &RunState,
) -> shutdown::Result<()> {
    while let WaitResult::Nothing = state.shutdown.receive_within(ended, TICK)? {
        monitor.progress(&state.progress());
    }
    Ok(())
}
