//! The queue of jobs in front of the workers. The queue announces to the reader, in advance, the
//! chunks that each job will read.

use std::collections::VecDeque;

use crossbeam_channel::Sender;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::read::{ReadPlan, ReadStep};

use super::job::RestoreJob;

/// The maximum number of jobs held back. Each job can keep a folder of the target open.
const JOBS_MAX: usize = 256;
/// The number of bytes to write, in total over all waiting jobs, above which no more jobs are held
/// back.
const BYTES_MAX: u64 = 64 << 20;

/// The maximum number of jobs that one thread does in a row. As most of them are in one folder, other
/// threads work in other folders, and do not wait for each other to create files.
const BATCH_JOBS: usize = 64;
/// The number of bytes to write at which such a row ends.
const BATCH_BYTES: u64 = 1 << 20;
/// The maximum number of times that the folder changes in such a row.
pub(super) const BATCH_FOLDERS: usize = 4;

/// A job, and its step of the plan, which is held until the job is done.
pub(super) type PlannedJob = (RestoreJob, Option<ReadStep>);

/// The queue in front of the workers. Jobs leave it in the order in which they were sent.
pub(super) struct JobQueue<'a> {
    plan: Option<&'a ReadPlan<'a>>,
    jobs: Sender<Vec<PlannedJob>>,
    /// The jobs for the next thread, and their bytes and changes of the folder.
    batch: Vec<PlannedJob>,
    batch_bytes: u64,
    batch_folders: usize,
    waiting: VecDeque<(PlannedJob, u64)>,
    waiting_bytes: u64,
}

impl<'a> JobQueue<'a> {
    pub(super) fn new(
        plan: Option<&'a ReadPlan<'a>>,
        jobs: Sender<Vec<PlannedJob>>,
    ) -> JobQueue<'a> {
        JobQueue {
            plan,
            jobs,
            batch: Vec::new(),
            batch_bytes: 0,
            batch_folders: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    /// Returns `true` if there is a plan that needs the segments of each job.
    pub(super) fn is_planned(&self) -> bool {
        self.plan.is_some()
    }

    /// Takes a job, which will read `segments`. Returns `true` if there are threads to do it.
    pub(super) fn send(&mut self, job: RestoreJob, segments: &[Segment]) -> bool {
        let Some(plan) = self.plan else { return self.add((job, None), 0) };
        // A step without room would announce nothing, and its chunks would be requested one by one.
        if plan.fetcher_count() > 0 && !plan.has_room() {
            while !self.waiting.is_empty() {
                if !self.send_first() {
                    return false;
                }
            }
            if !self.send_batch() {
                return false;
            }
            plan.wait_for_room();
        }
        let mut bytes = 0;
        let chunks = segments.iter().filter_map(|segment| match segment {
            Segment::Chunk { fingerprint, length, .. } => {
                bytes += length;
                Some(fingerprint)
            }
            Segment::Hole { .. } | Segment::Zeros { .. } => None,
        });
        let step = plan.begin(chunks);
        self.waiting.push_back(((job, Some(step)), bytes));
        self.waiting_bytes += bytes;
        let mut goes_on = true;
        while goes_on && self.is_full() {
            goes_on = self.send_first();
        }
        goes_on
    }

    fn is_full(&self) -> bool {
        let has_room = self.plan.is_none_or(ReadPlan::has_room);
        let is_full = self.waiting.len() > JOBS_MAX || self.waiting_bytes > BYTES_MAX || !has_room;
        is_full && !self.waiting.is_empty()
    }

    fn send_first(&mut self) -> bool {
        let Some(((job, mut step), bytes)) = self.waiting.pop_front() else { return false };
        self.waiting_bytes -= bytes;
        if let (Some(plan), Some(step)) = (self.plan, &mut step) {
            plan.hand_over(step);
        }
        self.add((job, step), bytes)
    }

    /// Adds a job, which writes `bytes`, to those for the next thread.
    fn add(&mut self, job: PlannedJob, bytes: u64) -> bool {
        let is_small = matches!(job.0, RestoreJob::Entry { .. });
        // A part of a large file waits for no small ones.
        if !is_small && !self.send_batch() {
            return false;
        }
        let is_elsewhere = self.batch.last().is_some_and(|last| !last.0.is_beside(&job.0));
        self.batch_folders += usize::from(is_elsewhere);
        self.batch_bytes += bytes;
        self.batch.push(job);
        let is_full = self.batch.len() >= BATCH_JOBS
            || self.batch_bytes >= BATCH_BYTES
            || self.batch_folders >= BATCH_FOLDERS;
        if is_full || !is_small { self.send_batch() } else { true }
    }

    /// Sends the jobs for the next thread, if there are any.
    fn send_batch(&mut self) -> bool {
        (self.batch_bytes, self.batch_folders) = (0, 0);
        let batch = std::mem::take(&mut self.batch);
        // There are no receivers if a thread has panicked, which the caller will see.
        batch.is_empty() || self.jobs.send(batch).is_ok()
    }

    /// Hands over the remaining jobs. If `is_stopped`, none of them will read anything.
    pub(super) fn end(mut self, is_stopped: bool) {
        if is_stopped {
            self.plan = None;
        }
        while self.send_first() {}
        self.send_batch();
    }
}
