//! Jobs on their way to the threads that do them. Meanwhile what they will read is told to the reader.

use std::collections::VecDeque;

use crossbeam_channel::Sender;
use cutpoint_store::format::recipe::Segment;
use cutpoint_store::reader::{Plan, Step};

use super::job::Job;

/// So many jobs are held back at most. Each can keep a folder of the target open.
const JOBS_MAX: usize = 256;
/// No more are held back once what they write is so much, in bytes.
const BYTES_MAX: u64 = 64 << 20;

/// A job, and what of the plan is held until it is done.
pub(super) type Planned = (Job, Option<Step>);

/// The way to the threads: jobs leave it in the order in which they came.
pub(super) struct Ahead<'a> {
    plan: Option<&'a Plan<'a>>,
    jobs: Sender<Planned>,
    waiting: VecDeque<(Planned, u64)>,
    waiting_bytes: u64,
}

impl<'a> Ahead<'a> {
    pub(super) fn new(plan: Option<&'a Plan<'a>>, jobs: Sender<Planned>) -> Ahead<'a> {
        Ahead { plan, jobs, waiting: VecDeque::new(), waiting_bytes: 0 }
    }

    /// Whether it is of use to say what a job reads.
    pub(super) fn is_planned(&self) -> bool {
        self.plan.is_some()
    }

    /// Takes a job, which will read `segments`. Returns whether there are threads to do it.
    pub(super) fn send(&mut self, job: Job, segments: &[Segment]) -> bool {
        let Some(plan) = self.plan else { return self.jobs.send((job, None)).is_ok() };
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
        let has_room = self.plan.is_none_or(Plan::has_room);
        let is_full = self.waiting.len() > JOBS_MAX || self.waiting_bytes > BYTES_MAX || !has_room;
        is_full && !self.waiting.is_empty()
    }

    fn send_first(&mut self) -> bool {
        let Some(((job, mut step), bytes)) = self.waiting.pop_front() else { return false };
        self.waiting_bytes -= bytes;
        if let (Some(plan), Some(step)) = (self.plan, &mut step) {
            plan.hand_over(step);
        }
        // Without receivers a thread has panicked, which the caller will see.
        self.jobs.send((job, step)).is_ok()
    }

    /// Hands over what is left. Where `is_stopped`, nothing of it will be read.
    pub(super) fn end(mut self, is_stopped: bool) {
        if is_stopped {
            self.plan = None;
        }
        while self.send_first() {}
    }
}
