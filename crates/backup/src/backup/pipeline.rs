//! The stages and their threads.
//!
//! source -> (workers: fingerprint) -> decide -> (workers: encode) -> archive -> put. Batches and
//! regions are numbered and taken in order, so that what is stored does not depend on threads.
//! Batches, and permits for regions, go round in circles: that bounds memory. Workers never wait to
//! hand something on, so that no circle can stand still.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use cutpoint_chunking::Chunker;
use cutpoint_store::error::{Error, Kind, Result};
use cutpoint_store::fingerprint::Class;
use cutpoint_store::format::bursts::BurstCount;
use cutpoint_store::format::commit::Statistics;
use cutpoint_store::format::recipe::Content;
use cutpoint_store::format::tree::Entry;
use cutpoint_store::index::Index;
use cutpoint_store::name::PartName;
use cutpoint_store::reader::Reader;
use cutpoint_store::repository::Repository;
use cutpoint_store::seal::Keys;
use cutpoint_store::writer::{
    Archive, ArchiveStatistics, BurstStatistics, Bursts, EncodedRegion, Matcher, Packer,
    RegionBuffers, RegionCodec, Upload, Uploads, Verify, Writer,
};

use super::BackupMonitor;
use super::batch::{BATCH_SIZE, Batch};
use super::bundle::Bundling;
use super::cutting::{Begun, Cutting, Former, SourceCounts};
use super::decide::{Compared, Decide};
use super::shared::{Job, Shared};
use crate::files::walk::Walk;

/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);
/// How often the ticket's age is looked at when nothing is to be put.
const RENEW_TICK: Duration = Duration::from_secs(30);

/// What the source is made of, for one run.
pub(super) enum Input<'a> {
    Walk(Walk),
    Stream(Entry, &'a mut dyn Read, &'a mut Begun),
}

/// What a run needs.
pub(super) struct Run<'a> {
    pub(super) index: Arc<Index>,
    pub(super) chunker: &'a dyn Chunker,
    pub(super) cut: String,
    /// Reads what is stored, by the view of the writer.
    pub(super) reader: &'a Reader,
    pub(super) former: Option<Former<'a>>,
    pub(super) verify: Verify,
    pub(super) threads: usize,
    /// When the attempt began, in nanoseconds since 1970.
    pub(super) started_ns: i64,
    pub(super) monitor: &'a dyn BackupMonitor,
}

/// What came of a run. Everything is put; nothing is committed.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The root folder; an error where the source was interrupted.
    pub(super) root: Result<Content>,
    pub(super) segments: Vec<PartName>,
    pub(super) hits: BTreeSet<(Class, PartName)>,
    pub(super) statistics: Statistics,
    /// Where that is how chunks are compared.
    pub(super) bursts: Option<BurstStatistics>,
    pub(super) counts: SourceCounts,
}

enum ToDecide {
    Batch(Batch),
    /// So many batches there were; the source ended well, or not.
    End(u64, bool),
}

enum ToArchive {
    Region(u64, Result<EncodedRegion>),
    /// So many regions there were, and what is to be said of bursts.
    End(u64, Vec<BurstCount>),
}

/// Runs all stages to their end.
pub(super) fn run(writer: &mut Writer, run: Run<'_>, input: Input<'_>) -> Result<Outcome> {
    let repository = writer.repository().clone();
    let keys = repository.keys().clone();
    let config = repository.config();
    let packer = Packer::new(keys.clone(), run.index.clone(), config.region_size, run.verify)?;
    let archive = Archive::new(repository.clone(), writer.ticket());
    let index = run.index.clone();
    let compared = match config.burst() {
        Some(options) => {
            Compared::Burst(Box::new(Bursts::new(options, run.reader, &index, writer.ticket())))
        }
        None if config.matches_imperfectly() => {
            Compared::Former(Box::new(Matcher::new(run.reader, &index, writer.ticket())))
        }
        None => Compared::None,
    };
    // Of one file that has changed in a bundle only that is stored, where composites are of any number of
    // extents.
    let is_bundled = matches!(compared, Compared::Former(_));
    let chunk_len_max = run.chunker.chunk_size_max().unwrap_or(usize::MAX);
    let bundling = is_bundled.then(|| Bundling::new(keys.clone(), chunk_len_max));
    let bundling = bundling.as_ref();
    let level = config.compression_level;
    let shared = Shared::default();
    let threads = run.threads.max(1);

    let batch_capacity = BATCH_SIZE.max(run.chunker.needed_size_max().unwrap_or(BATCH_SIZE) * 2);
    let (free_out, free) = unbounded();
    for _ in 0..threads + 3 {
        free_out.send(Batch::new(batch_capacity)).ok();
    }
    let (permit_out, permits) = unbounded();
    for _ in 0..2 * threads + 2 {
        permit_out.send(RegionBuffers::default()).ok();
    }
    let (jobs_out, jobs) = unbounded::<Job>();
    let (decide_out, decide_in) = unbounded::<ToDecide>();
    let (archive_out, archive_in) = unbounded::<ToArchive>();
    let (put_out, put_in) = bounded::<Upload>(1);
    let (published_out, published) = unbounded::<BTreeSet<u64>>();
    let (tick_stop, tick) = bounded::<()>(0);

    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let (jobs, keys) = (jobs.clone(), keys.clone());
                let (decide_out, archive_out) = (decide_out.clone(), archive_out.clone());
                scope.spawn(move || work(&jobs, &keys, bundling, level, &decide_out, &archive_out))
            })
            .collect();
        drop(jobs);
        let decide_thread = {
            let decide = Decide::new(keys.clone(), packer, compared, run.cut.clone());
            let channels = DecideChannels {
                batches: decide_in,
                free: free_out,
                permits,
                jobs: jobs_out.clone(),
                archive: archive_out,
                published,
            };
            let shared = &shared;
            scope.spawn(move || decide_all(decide, &channels, shared))
        };
        let archive_thread = scope.spawn(move || {
            let repository = &repository;
            archive_all(repository, archive, &archive_in, &put_out, &permit_out)
        });
        let put_thread = {
            let (index, shared) = (run.index.clone(), &shared);
            let channels = PutChannels { uploads: put_in, published: published_out };
            scope.spawn(move || put_all(writer, &index, &channels, shared))
        };
        let ticker = {
            let (shared, monitor) = (&shared, run.monitor);
            scope.spawn(move || {
                while tick.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    let tell = AssertUnwindSafe(|| monitor.progress(&shared.progress()));
                    if let Err(panic) = catch_unwind(tell) {
                        // Nobody waits for this thread before the source has ended.
                        shared.stop();
                        resume_unwind(panic);
                    }
                }
            })
        };

        // The source runs here.
        let (chunker, monitor, started_ns) = (run.chunker, run.monitor, run.started_ns);
        let mut source =
            Cutting::new(chunker, run.former, monitor, &shared, free, jobs_out, started_ns);
        source.bundling = bundling;
        let sourced = catch_unwind(AssertUnwindSafe(|| run_source(source, input)));
        // After a panic, too: the other threads would wait for ever.
        let (batches, is_well) = match &sourced {
            Ok((result, batches, _)) => (*batches, result.is_ok()),
            Err(_) => (0, false),
        };
        decide_out.send(ToDecide::End(batches, is_well)).ok();
        drop(decide_out);

        let decided = join(decide_thread);
        let archived = join(archive_thread);
        let put = join(put_thread);
        for worker in workers {
            join_unit(worker)?;
        }
        drop(tick_stop);
        join_unit(ticker)?;
        let (result, _, counts) = sourced.unwrap_or_else(|panic| resume_unwind(panic));
        // The stage furthest behind knows best why the others stopped.
        put?;
        let (segments, stored) = archived?;
        let (decide, root) = decided?;
        run.monitor.progress(&shared.progress());
        let composites = decide.packer.composites();
        let statistics = Statistics {
            composite_count: composites.count,
            composite_bytes: composites.bytes,
            literal_bytes: composites.literal_bytes,
            read_file_count: counts.read_files,
            read_bytes: shared.read_bytes(),
            new_chunk_count: decide.packer.new_chunk_count(Class::Data),
            new_bytes: decide.packer.new_bytes(Class::Data),
            stored_bytes: stored.stored_bytes,
            problem_count: counts.problems + decide.lost_links,
            ..decide.statistics
        };
        let root = match (result, root) {
            (Ok(()), Some(root)) => Ok(root),
            (Err(error), _) => Err(error),
            (Ok(()), None) => Err(Error::new(Kind::Interrupted, "backup", "stopped")),
        };
        let bursts = match &decide.compared {
            Compared::Burst(bursts) => Some(bursts.statistics()),
            _ => None,
        };
        let hits = decide.packer.hits().clone();
        Ok(Outcome { root, segments, hits, statistics, bursts, counts })
    })
}

/// Runs the source to its end. Returns how many batches there were, too, and what was counted.
fn run_source(mut source: Cutting<'_>, input: Input<'_>) -> (Result<()>, u64, SourceCounts) {
    let result = match input {
        Input::Walk(walk) => source.walk(walk),
        Input::Stream(entry, reader, begun) => source.stream(entry, reader, begun),
    };
    match source.finish() {
        Ok((batches, counts)) => (result, batches, counts),
        Err(error) => (result.and(Err(error)), 0, SourceCounts::default()),
    }
}

fn join<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => resume_unwind(panic),
    }
}

fn join_unit(thread: std::thread::ScopedJoinHandle<'_, ()>) -> Result<()> {
    match thread.join() {
        Ok(()) => Ok(()),
        Err(panic) => resume_unwind(panic),
    }
}

fn work(
    jobs: &Receiver<Job>,
    keys: &Keys,
    bundling: Option<&Bundling>,
    level: i32,
    decide: &Sender<ToDecide>,
    archive: &Sender<ToArchive>,
) {
    // Made when first needed: its tables take a megabyte or two.
    let mut codec = None;
    for job in jobs {
        // A panic must not leave the others waiting for what does not come: they are told first.
        let sent = match job {
            Job::Fingerprint(mut batch) => {
                let fingerprinted = catch_unwind(AssertUnwindSafe(|| {
                    if let Some(bundling) = bundling {
                        bundling.apply(&mut batch);
                    }
                    batch.fingerprint(keys);
                    batch
                }));
                match fingerprinted {
                    Ok(batch) => decide.send(ToDecide::Batch(batch)).is_ok(),
                    Err(panic) => {
                        decide.send(ToDecide::End(0, false)).ok();
                        resume_unwind(panic);
                    }
                }
            }
            Job::Encode(number, region, buffer) => {
                let encoded = catch_unwind(AssertUnwindSafe(|| match &mut codec {
                    Some(codec) => RegionCodec::encode(codec, region, buffer),
                    None => RegionCodec::new(level)
                        .and_then(|new| codec.insert(new).encode(region, buffer)),
                }));
                match encoded {
                    Ok(encoded) => archive.send(ToArchive::Region(number, encoded)).is_ok(),
                    Err(panic) => {
                        let error = Error::invalid("a region", "its compression ended in a panic");
                        archive.send(ToArchive::Region(number, Err(error))).ok();
                        resume_unwind(panic);
                    }
                }
            }
        };
        // Whoever waited for it has failed, and says why.
        if !sent {
            return;
        }
    }
}

struct DecideChannels {
    batches: Receiver<ToDecide>,
    free: Sender<Batch>,
    permits: Receiver<RegionBuffers>,
    jobs: Sender<Job>,
    archive: Sender<ToArchive>,
    published: Receiver<BTreeSet<u64>>,
}

fn stopped() -> Error {
    Error::new(Kind::Interrupted, "backup", "a later stage has stopped")
}

fn decide_all<'a>(
    mut decide: Decide<'a>,
    channels: &DecideChannels,
    shared: &Shared,
) -> Result<(Decide<'a>, Option<Content>)> {
    let mut waiting: BTreeMap<u64, Batch> = BTreeMap::new();
    let mut next_batch = 0;
    let mut next_region = 0;
    let mut end = None;
    let mut hand_on = |packer: &mut Packer| -> Result<()> {
        for region in packer.take_regions() {
            let buffers = channels.permits.recv().map_err(|_| stopped())?;
            if buffers.raw.capacity() > 0 {
                packer.recycle(buffers.raw);
            }
            // What does not shrink needs no worker.
            let is_sent = match region.stored(buffers.encoded) {
                Ok(region) => {
                    channels.archive.send(ToArchive::Region(next_region, Ok(region))).is_ok()
                }
                Err((region, buffer)) => {
                    channels.jobs.send(Job::Encode(next_region, region, buffer)).is_ok()
                }
            };
            if !is_sent {
                return Err(stopped());
            }
            next_region += 1;
        }
        Ok(())
    };
    while end.is_none_or(|(count, _)| next_batch < count) {
        match channels.batches.recv().map_err(|_| stopped())? {
            ToDecide::Batch(batch) => {
                waiting.insert(batch.number, batch);
            }
            ToDecide::End(count, well) => end = Some((count, well)),
        }
        while let Some(mut batch) = waiting.remove(&next_batch) {
            next_batch += 1;
            for regions in channels.published.try_iter() {
                decide.packer.forget_published(|region| regions.contains(&region));
            }
            decide.take(&mut batch, &mut hand_on)?;
            shared.set_statistics(Statistics {
                new_chunk_count: decide.packer.new_chunk_count(Class::Data),
                new_bytes: decide.packer.new_bytes(Class::Data),
                ..decide.statistics
            });
            channels.free.send(batch).ok();
            hand_on(&mut decide.packer)?;
        }
    }
    let well = end.is_some_and(|(_, well)| well);
    let root = if well {
        Some(decide.finish()?)
    } else {
        // What was stored is published all the same: the next run finds it.
        decide.packer.flush();
        None
    };
    hand_on(&mut decide.packer)?;
    let counts = match &decide.compared {
        Compared::Burst(bursts) => bursts.counts(),
        _ => Vec::new(),
    };
    channels.archive.send(ToArchive::End(next_region, counts)).ok();
    Ok((decide, root))
}

fn archive_all(
    repository: &Repository,
    mut archive: Archive,
    regions: &Receiver<ToArchive>,
    put: &Sender<Upload>,
    permits: &Sender<RegionBuffers>,
) -> Result<(Vec<PartName>, ArchiveStatistics)> {
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    let mut end = None;
    let mut uploads = Uploads::default();
    // Written while it is in the cache, and so that no container is ever in memory as a whole.
    let mut hand_on = |archive: &mut Archive| -> Result<()> {
        for part in archive.take_parts() {
            let written = uploads.write(repository, part)?;
            if let Some(buffers) = written.buffers {
                permits.send(buffers).ok();
            }
            if let Some(upload) = written.upload {
                put.send(upload).map_err(|_| stopped())?;
            }
        }
        Ok(())
    };
    while end.is_none_or(|count| next < count) {
        match regions.recv().map_err(|_| stopped())? {
            ToArchive::Region(number, region) => {
                waiting.insert(number, region?);
            }
            ToArchive::End(count, bursts) => {
                archive.count_bursts(bursts);
                end = Some(count);
            }
        }
        while let Some(region) = waiting.remove(&next) {
            next += 1;
            archive.append(region)?;
            hand_on(&mut archive)?;
        }
    }
    archive.finish()?;
    hand_on(&mut archive)?;
    Ok((archive.segments().to_vec(), archive.statistics()))
}

struct PutChannels {
    uploads: Receiver<Upload>,
    published: Sender<BTreeSet<u64>>,
}

fn put_all(
    writer: &mut Writer,
    index: &Index,
    channels: &PutChannels,
    shared: &Shared,
) -> Result<()> {
    loop {
        match channels.uploads.recv_timeout(RENEW_TICK) {
            Ok(upload) => {
                let len = upload.len();
                let segment = writer.put(upload)?;
                shared.add_stored(len);
                if let Some(segment) = segment {
                    index.add(segment.name, &segment.segment)?;
                    channels.published.send(segment.regions).ok();
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        writer.renew()?;
        if writer.is_old() {
            shared.set_old();
        }
    }
}

#[cfg(test)]
mod tests {
    use cutpoint_store::seal::{Keyring, RepositoryId, Secret, Suite};

    use super::*;
    use crate::backup::batch::{Cut, Event};

    /// Whoever waits for a batch hears that it does not come; the panic is passed on.
    #[test]
    fn a_worker_that_panics_keeps_nobody_waiting() {
        let keyring =
            Keyring { repository: RepositoryId([0; 16]), epochs: vec![(1, Secret([1; 32]))] };
        let keys = Keys::derive(&keyring, Suite::None);
        let mut batch = Batch::new(10);
        // It lies outside of its batch.
        batch.events.push(Event::Chunk(Cut::new(5..105)));
        let (jobs_out, jobs) = unbounded();
        jobs_out.send(Job::Fingerprint(batch)).expect("it is open");
        drop(jobs_out);
        let (decide_out, decide) = unbounded();
        let (archive_out, _archive) = unbounded();
        let worked = catch_unwind(AssertUnwindSafe(|| {
            work(&jobs, &keys, None, 1, &decide_out, &archive_out);
        }));
        assert!(worked.is_err(), "the panic is passed on");
        assert!(matches!(decide.try_recv(), Ok(ToDecide::End(0, false))), "the end is told");
    }
}
