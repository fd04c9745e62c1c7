//! The stages of a run that have threads of their own, and the channels between all stages.
//!
//! ```text
//!         batches         fingerprinted batches        regions        encoded regions     objects
//! source ---------> work ----------------------> decide ------> work -----------> container writer -----> put
//!    ^                                            |  ^                               |            |
//!    +---------------- used batches --------------+  +-------- used buffers ---------+            |
//!                                                    +--------- published regions ----------------+
//! ```
//!
//! Batches and regions are numbered and processed in order, so that the stored data does not depend
//! on the scheduling of threads. Batches and the buffers of regions circulate. That bounds the
//! memory, so every channel but the last can be unbounded. A worker never waits to pass something
//! on, so no circle can stall. Every wait ends with the run: see [`super::shutdown`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use cutpoint_repository::write::{
    ContainerStatistics, ContainerWriter, Deduplicator, EncodedRegion, RegionBuffers, RegionCodec,
    StrategyRecord, Upload, Uploads,
};
use cutpoint_repository::{Class, Content, Index, Keys, PartName, Repository, Statistics, Writer};
use cutpoint_storage::{stop, wait};

use super::batch::Batch;
use super::bundle::Bundling;
use super::dedup_stage::DedupStage;
use super::run_state::{Job, RunState};
use super::shutdown::{Received, Result};

/// The interval at which the age of the ticket is checked if there is nothing to put.
const RENEW_TICK: Duration = Duration::from_secs(30);

/// A message to the deciding stage.
#[derive(Debug)]
pub(super) enum ToDedup {
    /// A fingerprinted batch.
    Batch(Batch),
    /// The number of batches, and `true` if the source ended well.
    End(u64, bool),
}

/// A message to the archiving stage.
#[derive(Debug)]
pub(super) enum ToContainers {
    /// An encoded region and its number.
    Region(u64, EncodedRegion),
    /// The number of regions, and what the delta strategy records.
    End(u64, StrategyRecord),
}

/// The source's ends of the channels.
#[derive(Debug)]
pub(super) struct SourceEnds {
    pub(super) free: Receiver<Batch>,
    pub(super) jobs: Sender<Job>,
    pub(super) decide: Sender<ToDedup>,
}

/// A worker's ends of the channels.
#[derive(Debug)]
pub(super) struct WorkerEnds {
    jobs: Receiver<Job>,
    decide: Sender<ToDedup>,
    containers: Sender<ToContainers>,
}

/// The deciding stage's ends of the channels.
#[derive(Debug)]
pub(super) struct DedupEnds {
    batches: Receiver<ToDedup>,
    free: Sender<Batch>,
    buffers: Receiver<RegionBuffers>,
    jobs: Sender<Job>,
    containers: Sender<ToContainers>,
    published: Receiver<BTreeSet<u64>>,
}

/// The archiving stage's ends of the channels.
#[derive(Debug)]
pub(super) struct ContainerWriterEnds {
    regions: Receiver<ToContainers>,
    buffers: Sender<RegionBuffers>,
    uploads: Sender<Upload>,
}

/// The putting stage's ends of the channels.
#[derive(Debug)]
pub(super) struct PutEnds {
    uploads: Receiver<Upload>,
    published: Sender<BTreeSet<u64>>,
}

/// The ends of all channels, by stage.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) source: SourceEnds,
    pub(super) workers: Vec<WorkerEnds>,
    pub(super) decide: DedupEnds,
    pub(super) containers: ContainerWriterEnds,
    pub(super) put: PutEnds,
}

/// Creates the channels between the stages, and the batches and buffers that circulate in them.
pub(super) fn connect(threads: usize, batch_capacity: usize) -> Ends {
    let (free_out, free) = unbounded();
    for _ in 0..threads + 3 {
        free_out.send(Batch::new(batch_capacity)).ok();
    }
    let (buffers_out, buffers) = unbounded();
    for _ in 0..2 * threads + 2 {
        buffers_out.send(RegionBuffers::default()).ok();
    }
    let (jobs_out, jobs) = unbounded();
    let (decide_out, batches) = unbounded();
    let (containers_out, regions) = unbounded();
    let (uploads_out, uploads) = bounded(1);
    let (published_out, published) = unbounded();
    let worker = || WorkerEnds {
        jobs: jobs.clone(),
        decide: decide_out.clone(),
        containers: containers_out.clone(),
    };
    let workers = (0..threads).map(|_| worker()).collect();
    Ends {
        source: SourceEnds { free, jobs: jobs_out.clone(), decide: decide_out },
        workers,
        decide: DedupEnds {
            batches,
            free: free_out,
            buffers,
            jobs: jobs_out,
            containers: containers_out,
            published,
        },
        containers: ContainerWriterEnds { regions, buffers: buffers_out, uploads: uploads_out },
        put: PutEnds { uploads, published: published_out },
    }
}

/// The settings of the workers.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub(super) keys: &'a Keys,
    pub(super) bundling: Option<&'a Bundling>,
    pub(super) level: i32,
}

/// Fingerprints batches and encodes regions, until the source and the deciding stage have ended.
pub(super) fn work(work: Work<'_>, ends: WorkerEnds, shared: &RunState) -> Result<()> {
    let shutdown = &shared.shutdown;
    // Created on first use, because the tables of a codec take one or two megabytes.
    let mut codec = None;
    while let Some(job) = shutdown.receive(&ends.jobs)? {
        match job {
            Job::Fingerprint(mut batch) => {
                if let Some(bundling) = work.bundling {
                    bundling.apply(&mut batch);
                }
                batch.fingerprint(work.keys);
                shutdown.send(&ends.decide, ToDedup::Batch(batch))?;
            }
            Job::Encode(number, region, buffer) => {
                let codec = match &mut codec {
                    Some(codec) => codec,
                    None => codec.insert(RegionCodec::new(work.level)?),
                };
                let region = codec.encode(region, buffer)?;
                shutdown.send(&ends.containers, ToContainers::Region(number, region))?;
            }
        }
    }
    Ok(())
}

/// Decides, batch by batch, which chunks are new. Returns the root folder if the source ended well.
pub(super) fn decide<'a>(
    mut decide: DedupStage<'a>,
    ends: DedupEnds,
    shared: &RunState,
) -> Result<(DedupStage<'a>, Option<Content>)> {
    let shutdown = &shared.shutdown;
    let mut waiting: BTreeMap<u64, Batch> = BTreeMap::new();
    let mut next_batch = 0;
    let mut next_region = 0;
    let mut end = None;
    let mut forward = |dedup: &mut Deduplicator| -> Result<()> {
        for region in dedup.take_regions() {
            let buffers = shutdown.expect(&ends.buffers)?;
            if buffers.raw.capacity() > 0 {
                dedup.recycle(buffers.raw);
            }
            // A region that does not shrink needs no worker.
            match region.stored(buffers.encoded) {
                Ok(region) => {
                    shutdown.send(&ends.containers, ToContainers::Region(next_region, region))?;
                }
                Err((region, buffer)) => {
                    shutdown.send(&ends.jobs, Job::Encode(next_region, region, buffer))?;
                }
            }
            next_region += 1;
        }
        Ok(())
    };
    while end.is_none_or(|(count, _)| next_batch < count) {
        match shutdown.expect(&ends.batches)? {
            ToDedup::Batch(batch) => {
                waiting.insert(batch.number, batch);
            }
            ToDedup::End(count, well) => end = Some((count, well)),
        }
        while let Some(mut batch) = waiting.remove(&next_batch) {
            next_batch += 1;
            for regions in ends.published.try_iter() {
                decide.dedup.forget_published(|region| regions.contains(&region));
            }
            decide.take(&mut batch, &mut forward)?;
            shared.set_statistics(Statistics {
                new_chunk_count: decide.dedup.new_chunk_count(Class::Data),
                new_bytes: decide.dedup.new_bytes(Class::Data),
                ..decide.statistics
            });
            shutdown.offer(&ends.free, batch)?;
            forward(&mut decide.dedup)?;
        }
    }
    let well = end.is_some_and(|(_, well)| well);
    let root = if well {
        Some(decide.finish()?)
    } else {
        // The chunks stored so far are published all the same, so that the next run finds them.
        decide.dedup.flush();
        None
    };
    forward(&mut decide.dedup)?;
    let record = decide.strategy.as_ref().map(|strategy| strategy.record()).unwrap_or_default();
    shutdown.send(&ends.containers, ToContainers::End(next_region, record))?;
    Ok((decide, root))
}

/// Seals regions, in order, into containers and index segments.
pub(super) fn containers(
    repository: &Repository,
    mut containers: ContainerWriter,
    ends: ContainerWriterEnds,
    shared: &RunState,
) -> Result<(Vec<PartName>, ContainerStatistics)> {
    let shutdown = &shared.shutdown;
    // After a request to stop, the remaining data is still stored.
    let _storing = wait::finishing(&**repository.environment(), stop::STORING_MAX);
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    let mut end = None;
    let mut uploads = Uploads::default();
    // Parts are written while they are in the cache, and so that no container is ever in memory as
    // a full chunk.
    let mut forward = |containers: &mut ContainerWriter| -> Result<()> {
        for part in containers.take_parts() {
            let written = uploads.write(repository, part)?;
            if let Some(buffers) = written.buffers {
                shutdown.offer(&ends.buffers, buffers)?;
            }
            if let Some(upload) = written.upload {
                shutdown.send(&ends.uploads, upload)?;
            }
        }
        Ok(())
    };
    while end.is_none_or(|count| next < count) {
        match shutdown.expect(&ends.regions)? {
            ToContainers::Region(number, region) => {
                waiting.insert(number, region);
            }
            ToContainers::End(count, record) => {
                containers.record(record);
                end = Some(count);
            }
        }
        while let Some(region) = waiting.remove(&next) {
            next += 1;
            containers.append(region)?;
            forward(&mut containers)?;
        }
    }
    containers.finish()?;
    forward(&mut containers)?;
    Ok((containers.segments().to_vec(), containers.statistics()))
}

/// Puts objects, one after the other, and renews the ticket.
pub(super) fn put(
    writer: &mut Writer,
    index: &Index,
    ends: PutEnds,
    shared: &RunState,
) -> Result<()> {
    let shutdown = &shared.shutdown;
    let repository = writer.repository().clone();
    let _storing = wait::finishing(&**repository.environment(), stop::STORING_MAX);
    loop {
        match shutdown.receive_within(&ends.uploads, RENEW_TICK)? {
            Received::Message(upload) => {
                let len = upload.len();
                let segment = writer.put(upload)?;
                shared.add_stored(len);
                if let Some(segment) = segment {
                    index.add(segment.name, &segment.segment)?;
                    shutdown.offer(&ends.published, segment.regions)?;
                }
            }
            Received::Nothing => {}
            Received::Ended => return Ok(()),
        }
        writer.renew()?;
        if writer.is_old() {
            shared.set_old();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use cutpoint_repository::{CipherSuite, Keyring, RepositoryId, Secret};

    use super::*;
    use crate::save::batch::{Cut, Event};

    /// The wait of another stage ends, and the panic is the result of the run.
    #[test]
    fn worker_panic_ends_the_waits_of_other_stages() {
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let keyring =
                Keyring { repository: RepositoryId([0; 16]), epochs: vec![(1, Secret([1; 32]))] };
            let keys = Keys::derive(&keyring, CipherSuite::None);
            let mut batch = Batch::new(10);
            // The chunk lies outside of its batch.
            batch.events.push(Event::Chunk(Cut::new(5..105)));
            let Ends { source, mut workers, decide, .. } = connect(1, 10);
            let worker = workers.pop().expect("one");
            source.jobs.send(Job::Fingerprint(batch)).expect("it is open");
            let shared = RunState::default();
            let settings = Work { keys: &keys, bundling: None, level: 1 };
            let waited = std::thread::scope(|scope| {
                let waiter = scope.spawn(|| shared.shutdown.expect(&decide.batches).is_err());
                shared.shutdown.stage(|| work(settings, worker, &shared));
                waiter.join().expect("it waits")
            });
            // The source, which can send batches, still exists, so nothing else ends the wait.
            drop(source);
            let result = || shared.shutdown.result();
            let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(result));
            done.send((waited, panic.is_err())).ok();
        });
        let ended = ended.recv_timeout(Duration::from_secs(20)).expect("the wait ends");
        assert_eq!(ended, (true, true), "the wait ends, and the panic goes on");
    }
}
