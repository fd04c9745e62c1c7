//! Threads that ask a file system ahead of the thread that needs the answers.
//!
//! A call that reads from a disk or over a network waits for most of its time. Several threads wait
//! at once. The thread that needs the answers takes them in its own order, so that nothing depends
//! on the order in which they come.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use rustix::process::{Resource, getrlimit};

/// The minimum limit of open files with which anything is opened ahead. All that is open ahead at a
/// time takes less than half of it.
const OPEN_FILES_MIN: u64 = 1024;

/// The time within which a folder is opened and listed, or a small file opened and read, if it is in
/// memory.
const QUICK: Duration = Duration::from_micros(60);
/// The time within which a name of a folder is listed if the folder is in memory.
const LISTED_PER_NAME: Duration = Duration::from_nanos(200);
/// The number of slow calls, of 32 in a row, after which jobs begin.
const SLOW_CALLS_MIN: u32 = 8;
/// The number of names whose metadata counts as one call. A disk reads that of several names at once, so
/// one of them is slow.
const NOTED_STATS: u32 = 8;
/// The maximum number of threads while only folders are slow.
const QUICK_THREADS_MAX: usize = 8;

type Job = Box<dyn FnOnce() + Send>;

/// The time at which a job is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Before all jobs of the other kind, because further jobs depend on the answer.
    First,
    /// In its turn.
    InTurn,
}

/// Threads that do jobs.
pub(crate) struct Helpers {
    jobs: Jobs,
    thread_count: Mutex<usize>,
    threads_max: usize,
    /// The folders that the thread that needs the answers has opened and listed itself.
    folders: Pace,
    /// The names and files that this thread has asked for itself.
    calls: Pace,
}

/// The pace of calls.
#[derive(Default)]
struct Pace {
    /// One bit for each of the last calls, set for slow ones.
    slow_calls: AtomicU32,
    was_slow: AtomicBool,
}

impl Pace {
    fn note(&self, is_slow: bool) {
        let slow_calls = self.slow_calls.load(Relaxed) << 1 | u32::from(is_slow);
        self.slow_calls.store(slow_calls, Relaxed);
        if slow_calls.count_ones() >= SLOW_CALLS_MIN {
            self.was_slow.store(true, Relaxed);
        }
    }

    fn was_slow(&self) -> bool {
        self.was_slow.load(Relaxed)
    }
}

/// The times of names whose metadata the thread that needs the answers has asked for itself, since it
/// noted one.
#[derive(Debug, Default)]
pub(super) struct StatTimes {
    count: u32,
    slowest: Duration,
}

impl StatTimes {
    /// Notes the time of one name; of each [`NOTED_STATS`], the longest counts as a call.
    pub(super) fn note(&mut self, elapsed: Duration, helpers: &Helpers) {
        self.count += 1;
        self.slowest = self.slowest.max(elapsed);
        if self.count == NOTED_STATS {
            helpers.note(self.slowest, Duration::ZERO);
            *self = StatTimes::default();
        }
    }
}

/// The jobs of [`Helpers`], to which a job can add others.
#[derive(Clone, Default)]
pub(crate) struct Jobs(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// The jobs that no thread has begun.
#[derive(Default)]
struct Queue {
    first: VecDeque<Job>,
    in_turn: VecDeque<Job>,
    /// The number of threads that wait for a job.
    idle_count: usize,
    is_closed: bool,
}

impl Queue {
    fn take(&mut self) -> Option<Job> {
        self.first.pop_front().or_else(|| self.in_turn.pop_front())
    }

    fn len(&self) -> usize {
        self.first.len() + self.in_turn.len()
    }
}

/// The answer of a job, as soon as it is done.
#[derive(Debug)]
pub(crate) struct Answer<T>(Receiver<T>);

impl<T> Answer<T> {
    /// Waits for the answer. Returns `None` if the job was not done or has panicked.
    pub(crate) fn wait(self) -> Option<T> {
        self.0.recv().ok()
    }
}

impl fmt::Debug for Helpers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Helpers").finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Jobs {
    /// Adds `job`.
    pub(crate) fn add<T: Send + 'static>(
        &self,
        urgency: Urgency,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        let (sender, receiver) = bounded(1);
        // The answer may not be wanted any more.
        let job: Job = Box::new(move || drop(sender.send(job())));
        let mut queue = locked(&self.0.queue);
        match urgency {
            _ if queue.is_closed => {}
            Urgency::First => queue.first.push_back(job),
            Urgency::InTurn => queue.in_turn.push_back(job),
        }
        let has_idle = queue.idle_count > 0;
        drop(queue);
        if has_idle {
            self.0.changed.notify_one();
        }
        Answer(receiver)
    }

    /// Takes the next job, if there is one.
    fn first(&self) -> Option<Job> {
        locked(&self.0.queue).take()
    }

    /// Returns `true` if more jobs wait than threads.
    fn are_many(&self) -> bool {
        let queue = locked(&self.0.queue);
        queue.idle_count < queue.len()
    }

    /// Does jobs until there are no more, and none can come.
    fn work(&self) {
        while let Some(job) = self.next() {
            do_job(job);
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = locked(&self.0.queue);
        loop {
            if queue.is_closed {
                return None;
            }
            if let Some(job) = queue.take() {
                return Some(job);
            }
            queue.idle_count += 1;
            queue = self.0.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle_count -= 1;
        }
    }
}

/// Does a job. If it panics, its answer does not come.
fn do_job(job: Job) {
    catch_unwind(AssertUnwindSafe(job)).ok();
}

impl Helpers {
    /// Creates up to `threads_max` threads, which start when they are needed. Returns `None` if there
    /// are to be none, or if the process may open too few files for anything to be opened ahead.
    /// Unless they `begin_at_once`, they begin once the calls of the thread that needs the answers are
    /// slow: with all in memory, passing jobs on takes longer than doing them.
    pub(crate) fn new(threads_max: usize, begin_at_once: bool) -> Option<Arc<Helpers>> {
        let limit = getrlimit(Resource::Nofile).current;
        let is_enough = limit.is_none_or(|limit| limit >= OPEN_FILES_MIN);
        let helpers = || Helpers {
            jobs: Jobs::default(),
            thread_count: Mutex::default(),
            threads_max,
            folders: Pace::default(),
            calls: Pace { was_slow: AtomicBool::new(begin_at_once), ..Pace::default() },
        };
        (threads_max > 0 && is_enough).then(|| Arc::new(helpers()))
    }

    /// Returns `true` if jobs about single names and files are to be begun.
    pub(crate) fn have_begun(&self) -> bool {
        self.calls.was_slow()
    }

    /// Returns `true` if jobs about whole folders are to be begun. These begin earlier, because they
    /// are worth their cost on a quick disk, too.
    pub(crate) fn folders_have_begun(&self) -> bool {
        self.folders.was_slow() || self.have_begun()
    }

    /// Notes a call of the thread that needs the answers, which took the time `elapsed`, and for
    /// which `more` than the usual time is quick.
    pub(crate) fn note(&self, elapsed: Duration, more: Duration) {
        self.calls.note(elapsed > QUICK + more);
    }

    /// Notes that the thread that needs the answers has opened and listed a folder with `name_count`
    /// names in the time `elapsed`.
    pub(crate) fn note_folder(&self, elapsed: Duration, name_count: usize) {
        let count = u32::try_from(name_count).unwrap_or(u32::MAX);
        self.folders.note(elapsed > QUICK + LISTED_PER_NAME.saturating_mul(count));
    }

    /// The jobs.
    pub(crate) fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// Has a thread do `job`.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        urgency: Urgency,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        let answer = self.jobs.add(urgency, job);
        if self.jobs.are_many() {
            self.start_thread();
        }
        answer
    }

    /// Starts a thread, unless there are enough. If the system refuses the first one, does the jobs
    /// here.
    fn start_thread(&self) {
        let limit = if self.have_begun() { usize::MAX } else { QUICK_THREADS_MAX };
        let mut thread_count = locked(&self.thread_count);
        if *thread_count >= self.threads_max.min(limit) {
            return;
        }
        let jobs = self.jobs.clone();
        if std::thread::Builder::new().spawn(move || jobs.work()).is_ok() {
            *thread_count += 1;
        }
        while *thread_count == 0
            && let Some(job) = self.jobs.first()
        {
            do_job(job);
        }
    }
}

impl Drop for Helpers {
    /// Drops the jobs that were not begun. Each thread ends after its present job. Drop does not
    /// wait for that, because a file system can take any time to answer.
    fn drop(&mut self) {
        let jobs = {
            let mut queue = locked(&self.jobs.0.queue);
            queue.is_closed = true;
            (std::mem::take(&mut queue.first), std::mem::take(&mut queue.in_turn))
        };
        drop(jobs);
        self.jobs.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_answered_whatever_becomes_of_the_others() {
        for threads_max in [1, 4] {
            let helpers = Helpers::new(threads_max, true).expect("enough files may be open");
            let answers: Vec<_> = (0..100)
                .map(|number| {
                    let jobs = helpers.jobs().clone();
                    helpers.begin(Urgency::InTurn, move || {
                        assert!(number % 10 != 3, "a job that panics");
                        jobs.add(Urgency::First, move || number + 1)
                    })
                })
                .collect();
            for (number, answer) in (0..100).zip(answers) {
                let answer = answer.wait().and_then(Answer::wait);
                assert_eq!(answer, (number % 10 != 3).then_some(number + 1));
            }
        }
    }

    #[test]
    fn threads_begin_once_calls_are_slow() {
        let helpers = Helpers::new(1, false).expect("enough files may be open");
        let long = Duration::from_secs(1);
        for number in 0..1000 {
            // One call in six is slow, as if the thread had to wait for a processor.
            let elapsed = if number % 6 == 0 { long } else { QUICK };
            helpers.note(elapsed, Duration::ZERO);
            helpers.note(long, Duration::from_secs(100));
            assert!(!helpers.have_begun(), "{number}");
        }
        for _ in 0..SLOW_CALLS_MIN {
            helpers.note(long, Duration::ZERO);
        }
        assert!(helpers.have_begun());
        helpers.note(QUICK, Duration::ZERO);
        assert!(helpers.have_begun(), "they go on");
    }

    #[test]
    fn folders_begin_earlier_than_single_names() {
        let helpers = Helpers::new(1, false).expect("enough files may be open");
        for _ in 0..100 {
            helpers.note_folder(Duration::from_micros(75), 100);
        }
        assert!(!helpers.folders_have_begun(), "they are in memory");
        for _ in 0..SLOW_CALLS_MIN {
            // Names of the folder are asked for in between.
            (0..12).for_each(|_| helpers.note(QUICK, Duration::ZERO));
            helpers.note_folder(Duration::from_micros(100), 100);
        }
        assert!(helpers.folders_have_begun());
        assert!(!helpers.have_begun());
        for _ in 0..SLOW_CALLS_MIN {
            helpers.note(2 * QUICK, Duration::ZERO);
        }
        assert!(helpers.have_begun());
    }

    /// A wait for an answer that cannot come ends.
    #[test]
    fn waits_end_with_the_helpers() {
        let helpers = Helpers::new(1, true).expect("enough files may be open");
        let (release, released) = bounded::<()>(0);
        let began = helpers.begin(Urgency::InTurn, move || released.recv().is_ok());
        let waiting = helpers.begin(Urgency::InTurn, || ());
        let jobs = helpers.jobs().clone();
        // The job may not have begun.
        drop(helpers);
        assert_eq!(jobs.add(Urgency::First, || ()).wait(), None, "it comes too late");
        assert_eq!(waiting.wait(), None, "it was not begun");
        drop(release);
        assert_ne!(began.wait(), Some(true));
    }
}
