//! The channels between the stages of a run, and the messages in them.
//!
//! ```text
//!          jobs          fingerprinted         jobs          encoded            uploads
//! source -------> worker --------------> dedup -------> worker --------> container ----> put
//!   ^                                    | ^ ^                             |              |
//!   +----------- free batches -----------+ | +-------- free buffers -------+              |
//!                                          +------------------ published -----------------+
//! ```
//!
//! Batches and regions are numbered and processed in order, so that the stored data does not depend
//! on the scheduling of threads. Batches and the buffers of regions circulate, which bounds the
//! memory, so every channel but the last can be unbounded. A worker never waits to send a message,
//! so no circle of waits can form. Every wait ends with the run: see [`super::shutdown`].

use std::collections::BTreeSet;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use cutpoint_repository::write::{EncodedRegion, RawRegion, RegionBuffers, StrategyRecord, Upload};

use super::batch::Batch;

/// A job for any worker.
#[derive(Debug)]
pub(super) enum SaveJob {
    /// Fingerprints the chunks of a batch.
    Fingerprint(Batch),
    /// Encodes the region with this number into the buffer.
    Encode(u64, RawRegion, Vec<u8>),
}

/// A message to the dedup stage.
#[derive(Debug)]
pub(super) enum ToDedup {
    /// A fingerprinted batch.
    Batch(Batch),
    /// The end of the source.
    End {
        /// The number of batches.
        batch_count: u64,
        /// Set if the source was read to its end without a failure.
        source_ok: bool,
    },
}

/// A message to the container stage.
#[derive(Debug)]
pub(super) enum ToContainers {
    /// An encoded region and its number.
    Region(u64, EncodedRegion),
    /// The end of the regions.
    End {
        /// The number of regions.
        region_count: u64,
        /// The results that the delta strategy records for later backups.
        record: StrategyRecord,
    },
}

/// The ends of the channels that the source stage has.
#[derive(Debug)]
pub(super) struct SourceEnds {
    pub(super) free_batches: Receiver<Batch>,
    pub(super) jobs: Sender<SaveJob>,
    pub(super) dedup: Sender<ToDedup>,
}

/// The ends of the channels that a worker has.
#[derive(Debug)]
pub(super) struct WorkerEnds {
    pub(super) jobs: Receiver<SaveJob>,
    pub(super) dedup: Sender<ToDedup>,
    pub(super) containers: Sender<ToContainers>,
}

/// The ends of the channels that the dedup stage has.
#[derive(Debug)]
pub(super) struct DedupEnds {
    pub(super) batches: Receiver<ToDedup>,
    pub(super) free_batches: Sender<Batch>,
    /// `None` if regions are dropped.
    pub(super) regions: Option<RegionEnds>,
    pub(super) published: Receiver<BTreeSet<u64>>,
}

/// The ends of the channels through which the dedup stage sends regions.
#[derive(Debug)]
pub(super) struct RegionEnds {
    pub(super) free_buffers: Receiver<RegionBuffers>,
    pub(super) jobs: Sender<SaveJob>,
    pub(super) containers: Sender<ToContainers>,
}

/// The ends of the channels that the container stage has.
#[derive(Debug)]
pub(super) struct ContainerEnds {
    pub(super) regions: Receiver<ToContainers>,
    pub(super) free_buffers: Sender<RegionBuffers>,
    pub(super) uploads: Sender<Vec<Upload>>,
}

/// The ends of the channels that the put stage has.
#[derive(Debug)]
pub(super) struct PutEnds {
    pub(super) uploads: Receiver<Vec<Upload>>,
    pub(super) published: Sender<BTreeSet<u64>>,
}

/// The ends of all channels, by stage. Each stage owns its ends, which are gone when it ends.
#[derive(Debug)]
pub(super) struct Channels {
    pub(super) source: SourceEnds,
    pub(super) workers: Vec<WorkerEnds>,
    pub(super) dedup: DedupEnds,
    pub(super) containers: ContainerEnds,
    pub(super) put: PutEnds,
}

impl Channels {
    /// Creates the channels, and the batches and buffers that circulate in them.
    pub(super) fn new(worker_count: usize, batch_capacity: usize) -> Channels {
        let (free_batches_out, free_batches) = unbounded();
        for _ in 0..worker_count + 3 {
            free_batches_out.send(Batch::new(batch_capacity)).ok();
        }
        let (free_buffers_out, free_buffers) = unbounded();
        for _ in 0..2 * worker_count + 2 {
            free_buffers_out.send(RegionBuffers::default()).ok();
        }
        let (jobs_out, jobs) = unbounded();
        let (dedup_out, batches) = unbounded();
        let (containers_out, regions) = unbounded();
        let (uploads_out, uploads) = bounded(2);
        let (published_out, published) = unbounded();
        let worker = || WorkerEnds {
            jobs: jobs.clone(),
            dedup: dedup_out.clone(),
            containers: containers_out.clone(),
        };
        let workers = (0..worker_count).map(|_| worker()).collect();
        let source = SourceEnds { free_batches, jobs: jobs_out.clone(), dedup: dedup_out };
        let regions_out = RegionEnds { free_buffers, jobs: jobs_out, containers: containers_out };
        Channels {
            source,
            workers,
            dedup: DedupEnds {
                batches,
                free_batches: free_batches_out,
                regions: Some(regions_out),
                published,
            },
            containers: ContainerEnds {
                regions,
                free_buffers: free_buffers_out,
                uploads: uploads_out,
            },
            put: PutEnds { uploads, published: published_out },
        }
    }
}
