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

/// A job, and its step of the plan, which is held until the job is done.
pub(super) type PlannedJob = (RestoreJob, Option<ReadStep>);

/// The queue in front of the workers. Jobs leave it in the order in which they were sent.
pub(super) struct JobQueue<'a> {
    plan: Option<&'a ReadPlan<'a>>,
    jobs: Sender<PlannedJob>,
    waiting: VecDeque<(PlannedJob, u64)>,
    waiting_bytes: u64,
}

impl<'a> JobQueue<'a> {
    pub(super) fn new(plan: Option<&'a ReadPlan<'a>>, jobs: Sender<PlannedJob>) -> JobQueue<'a> {
        JobQueue { plan, jobs, waiting: VecDeque::new(), waiting_bytes: 0 }
    }

    /// Returns `true` if there is a plan that needs the segments of each job.
    pub(super) fn is_planned(&self) -> bool {
        self.plan.is_some()
    }

    /// Takes a job, which will read `segments`. Returns `true` if there are threads to do it.
    pub(super) fn send(&mut self, job: RestoreJob, segments: &[Segment]) -> bool {
        let Some(plan) = self.plan else { return self.jobs.send((job, None)).is_ok() };
        // A step without room would announce nothing, and its chunks would be requested one by one.
        if plan.fetcher_count() > 0 && !plan.has_room() {
            while !self.waiting.is_empty() {
                if !self.send_first() {
                    return false;
                }
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
        // There are no receivers if a thread has panicked, which the caller will see.
        self.jobs.send((job, step)).is_ok()
    }

    /// Hands over the remaining jobs. If `is_stopped`, none of them will read anything.
    pub(super) fn end(mut self, is_stopped: bool) {
        if is_stopped {
            self.plan = None;
        }
        while self.send_first() {}
    }
}
