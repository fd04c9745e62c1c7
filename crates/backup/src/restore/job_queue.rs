//! The queue of jobs in front of the workers. The queue announces to the reader, in advance, the
//! chunks that each job will read.

use std::collections::VecDeque;

use crossbeam_channel::Sender;
use cutpoint_repository::Fingerprint;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::read::{ReadPlan, ReadStep};

use super::job::RestoreJob;

/// The maximum numbers of jobs that are coming and that wait. Small files are many jobs until their
/// regions fill requests.
const COMING_MAX: usize = 2048;
const WAITING_MAX: usize = 4096;
/// The maximum numbers of folders or files of the target that these jobs keep open.
const COMING_OPEN_MAX: usize = 128;
const WAITING_OPEN_MAX: usize = 192;
/// The number of bytes to write, in total over all waiting jobs, above which no more jobs are held
/// back.
const BYTES_MAX: u64 = 64 << 20;

/// The number of bytes to write, in total over all jobs whose chunks are looked up together. The
/// containers that have them are told by a request each.
const LOOKED_UP_BYTES: u64 = 128 << 20;

/// A job, and its step of the plan, which is held until the job is done.
pub(super) type PlannedJob = (RestoreJob, Option<ReadStep>);

/// A job that is not announced yet.
struct ComingJob {
    job: RestoreJob,
    chunks: Vec<Fingerprint>,
    weight: Weight,
}

/// The weight of a job in a queue.
#[derive(Clone, Copy, Debug)]
struct Weight {
    /// The number of bytes to write.
    bytes: u64,
    /// Set if the job keeps another folder or file open than the job before.
    opens: bool,
}

/// The sum of weights.
#[derive(Debug, Default)]
struct Load {
    bytes: u64,
    open_count: usize,
}

impl Load {
    fn add(&mut self, weight: Weight) {
        self.bytes += weight.bytes;
        self.open_count += usize::from(weight.opens);
    }

    fn remove(&mut self, weight: Weight) {
        self.bytes -= weight.bytes;
        self.open_count -= usize::from(weight.opens);
    }
}

/// The queue in front of the workers. Jobs leave it in the order in which they were sent.
pub(super) struct JobQueue<'a> {
    plan: Option<&'a ReadPlan<'a>>,
    jobs: Sender<PlannedJob>,
    /// Jobs of a restore from far storage that are not announced yet.
    coming: VecDeque<ComingJob>,
    coming_load: Load,
    /// The number of coming jobs, from the first on, whose chunks were looked up.
    looked_up_count: usize,
    waiting: VecDeque<(PlannedJob, Weight)>,
    waiting_load: Load,
    /// The identity of the folder or file that the last job keeps open.
    kept_open: usize,
}

impl<'a> JobQueue<'a> {
    pub(super) fn new(plan: Option<&'a ReadPlan<'a>>, jobs: Sender<PlannedJob>) -> JobQueue<'a> {
        JobQueue {
            plan,
            jobs,
            coming: VecDeque::new(),
            coming_load: Load::default(),
            looked_up_count: 0,
            waiting: VecDeque::new(),
            waiting_load: Load::default(),
            kept_open: 0,
        }
    }

    /// Returns `true` if there is a plan that needs the segments of each job.
    pub(super) fn is_planned(&self) -> bool {
        self.plan.is_some()
    }

    /// Takes a job, which will read `segments`. Returns `true` if there are threads to do it.
    pub(super) fn send(&mut self, job: RestoreJob, segments: &[Segment]) -> bool {
        let Some(plan) = self.plan else { return self.jobs.send((job, None)).is_ok() };
        let mut bytes = 0;
        let chunks = segments.iter().filter_map(|segment| match segment {
            Segment::Chunk { fingerprint, length, .. } => {
                bytes += length;
                Some(*fingerprint)
            }
            Segment::Hole { .. } | Segment::Zeros { .. } => None,
        });
        let chunks = chunks.collect();
        let kept_open = job.kept_open();
        let opens = std::mem::replace(&mut self.kept_open, kept_open) != kept_open;
        let weight = Weight { bytes, opens };
        let job = ComingJob { job, chunks, weight };
        if plan.fetcher_count() == 0 {
            return self.announce(plan, job);
        }
        self.coming_load.add(weight);
        self.coming.push_back(job);
        while self.coming_load.bytes > LOOKED_UP_BYTES
            || self.coming_load.open_count > COMING_OPEN_MAX
            || self.coming.len() > COMING_MAX
        {
            if !self.announce_first(plan) {
                return false;
            }
        }
        true
    }

    /// Announces the first of the coming jobs.
    fn announce_first(&mut self, plan: &ReadPlan<'_>) -> bool {
        if self.looked_up_count == 0 {
            // The workers go on while the containers are asked for.
            while !self.waiting.is_empty() && !self.jobs.is_full() {
                if !self.send_first() {
                    return false;
                }
            }
            let chunks: Vec<_> = self.coming.iter().flat_map(|job| &job.chunks).copied().collect();
            plan.look_up(&chunks);
            self.looked_up_count = self.coming.len();
        }
        // A step without room would announce nothing, and its chunks would be requested one by one.
        while !plan.has_room() {
            if self.waiting.is_empty() {
                plan.wait_for_room();
                break;
            }
            if !self.send_first() {
                return false;
            }
        }
        let Some(job) = self.coming.pop_front() else { return true };
        self.coming_load.remove(job.weight);
        self.looked_up_count -= 1;
        self.announce(plan, job)
    }

    fn announce(&mut self, plan: &ReadPlan<'_>, job: ComingJob) -> bool {
        let ComingJob { job, chunks, weight } = job;
        let step = plan.begin(&chunks);
        self.waiting.push_back(((job, Some(step)), weight));
        self.waiting_load.add(weight);
        let mut goes_on = true;
        while goes_on && self.is_full() {
            goes_on = self.send_first();
        }
        goes_on
    }

    fn is_full(&self) -> bool {
        let has_room = self.plan.is_none_or(ReadPlan::has_room);
        let is_full = self.waiting.len() > WAITING_MAX
            || self.waiting_load.open_count > WAITING_OPEN_MAX
            || self.waiting_load.bytes > BYTES_MAX
            || !has_room;
        is_full && !self.waiting.is_empty()
    }

    fn send_first(&mut self) -> bool {
        let Some(((job, mut step), weight)) = self.waiting.pop_front() else { return false };
        self.waiting_load.remove(weight);
        if let (Some(plan), Some(step)) = (self.plan, &mut step) {
            plan.hand_over(step);
        }
        // There are no receivers if a thread has panicked, which the caller will see.
        self.jobs.send((job, step)).is_ok()
    }

    /// Hands over the remaining jobs. If `is_stopped`, none of them will read anything.
    pub(super) fn end(mut self, is_stopped: bool) {
        if is_stopped {
            self.plan = None;
        }
        while let Some(plan) = self.plan
            && !self.coming.is_empty()
        {
            if !self.announce_first(plan) {
                return;
            }
        }
        while self.send_first() {}
        // Jobs that were not announced are released by the workers all the same.
        for ComingJob { job, .. } in self.coming {
            if self.jobs.send((job, None)).is_err() {
                return;
            }
        }
    }
}
