//! Threads: one reads, and the others run the lane that is furthest behind.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use cutpoint_repository::thread_count;

use super::block::Block;
use super::cutter::{Cutter, Sink};
use super::job::{Job, Tools};
use super::source::{Monitor, ScanCounts, ScanOptions, Source, expected_of};
use crate::files::Walk;

/// The maximum number of blocks that wait for the slowest lane.
const BLOCK_COUNT_MAX: usize = 16;

/// A way to cut, and the consumer of the chunks.
#[derive(Debug)]
pub struct Lane<S> {
    /// The way to cut.
    pub cutter: Cutter,
    /// The consumer of the chunks.
    pub sink: S,
}

/// A place for a lane, empty while a thread runs the lane.
struct Slot<S> {
    lane: Option<Lane<S>>,
    /// The number of the next block of the lane.
    next: u64,
    is_finished: bool,
}

struct State<S> {
    slots: Vec<Slot<S>>,
    blocks: VecDeque<Arc<Block>>,
    /// The number of the first of `blocks`.
    first: u64,
    jobs: VecDeque<Job>,
    /// Set if no more blocks come.
    is_ended: bool,
    /// Set if a thread has panicked.
    is_broken: bool,
}

/// The next task of a worker.
enum Task<S> {
    Job(Job),
    Block(usize, Lane<S>, Arc<Block>),
    Finish(usize, Lane<S>),
}

impl<S> State<S> {
    fn task(&mut self) -> Option<Task<S>> {
        if let Some(job) = self.jobs.pop_front() {
            return Some(Task::Job(job));
        }
        let end = self.first + self.blocks.len() as u64;
        let waiting = self.slots.iter().enumerate().filter(|(_, slot)| slot.lane.is_some());
        let (number, next) = waiting
            .filter(|(_, slot)| slot.next < end || (self.is_ended && !slot.is_finished))
            .map(|(number, slot)| (number, slot.next))
            .min_by_key(|(_, next)| *next)?;
        let lane = self.slots[number].lane.take()?;
        if next == end {
            return Some(Task::Finish(number, lane));
        }
        let at = usize::try_from(next - self.first).unwrap_or(usize::MAX);
        Some(Task::Block(number, lane, self.blocks[at].clone()))
    }

    fn is_done(&self) -> bool {
        self.is_ended && self.jobs.is_empty() && self.slots.iter().all(|slot| slot.is_finished)
    }

    /// Puts a lane back into its slot, and drops the blocks that all lanes have processed.
    fn put_back(&mut self, number: usize, lane: Lane<S>, is_finished: bool) {
        let slot = &mut self.slots[number];
        slot.lane = Some(lane);
        if is_finished {
            slot.is_finished = true;
            return;
        }
        slot.next += 1;
        let least = self.slots.iter().map(|slot| slot.next).min().unwrap_or(self.first);
        while self.first < least {
            self.blocks.pop_front();
            self.first += 1;
        }
    }
}

struct Shared<S> {
    state: Mutex<State<S>>,
    changed: Condvar,
}

/// Marks the state as broken if its thread panics, so that no other thread waits forever.
struct Guard<'a, S>(&'a Shared<S>);

impl<S> Drop for Guard<'_, S> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().is_broken = true;
            self.0.changed.notify_all();
        }
    }
}

impl<S> Shared<S> {
    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<S>>) -> MutexGuard<'a, State<S>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a block for the lanes. Returns `false` if a thread has panicked.
    fn send(&self, block: Block) -> bool {
        let mut state = self.lock();
        while state.blocks.len() >= BLOCK_COUNT_MAX && !state.is_broken {
            state = self.wait(state);
        }
        state.blocks.push_back(Arc::new(block));
        self.changed.notify_all();
        !state.is_broken
    }

    fn end(&self) {
        self.lock().is_ended = true;
        self.changed.notify_all();
    }
}

impl<S: Sink> Shared<S> {
    /// Runs tasks until all work is done. If more than `job_count_max` jobs are waiting, the thread
    /// that makes a job also runs it.
    fn work(&self, tools: &mut Tools, job_count_max: usize) {
        let _guard = Guard(self);
        let mut state = self.lock();
        loop {
            if state.is_broken || state.is_done() {
                return;
            }
            let Some(task) = state.task() else {
                state = self.wait(state);
                continue;
            };
            drop(state);
            let mut jobs = Vec::new();
            let back = match task {
                Task::Job(job) => {
                    job(tools);
                    None
                }
                Task::Block(number, mut lane, block) => {
                    lane.cutter.take(&block, &mut lane.sink, &mut jobs);
                    Some((number, lane, false))
                }
                Task::Finish(number, mut lane) => {
                    lane.sink.finish(&mut jobs);
                    Some((number, lane, true))
                }
            };
            let waiting = self.lock().jobs.len();
            while waiting + jobs.len() > job_count_max
                && let Some(job) = jobs.pop()
            {
                job(tools);
            }
            state = self.lock();
            state.jobs.extend(jobs);
            if let Some((number, lane, is_finished)) = back {
                state.put_back(number, lane, is_finished);
            }
            self.changed.notify_all();
        }
    }
}

/// Reads files once, and passes them to every lane. Jobs compress at `compression_level`.
///
/// # Errors
///
/// Returns the error of the system, with the path, if a path cannot be reached, and `InvalidInput`
/// for an invalid pattern. Returns an error if zstd cannot be set up at the level.
pub fn run<S: Sink>(
    options: &ScanOptions,
    lanes: Vec<Lane<S>>,
    compression_level: i32,
    monitor: &dyn Monitor,
) -> io::Result<(ScanCounts, Vec<Lane<S>>)> {
    let walk = Walk::new(&options.paths, options.walk.clone())?;
    let threads = thread_count(options.threads);
    let tools: io::Result<Vec<Tools>> =
        (0..threads).map(|_| Tools::new(compression_level)).collect();
    let tools = tools?;
    let slots =
        lanes.into_iter().map(|lane| Slot { lane: Some(lane), next: 0, is_finished: false });
    let shared = Shared {
        state: Mutex::new(State {
            slots: slots.collect(),
            blocks: VecDeque::new(),
            first: 0,
            jobs: VecDeque::new(),
            is_ended: false,
            is_broken: false,
        }),
        changed: Condvar::new(),
    };
    let stop = AtomicBool::new(false);
    let counts = thread::scope(|scope| {
        scope.spawn(|| {
            if let Some((file_count, size)) = expected_of(options, monitor, &stop) {
                monitor.expected(file_count, size);
            }
        });
        for mut tools in tools {
            let shared = &shared;
            scope.spawn(move || shared.work(&mut tools, 2 * threads));
        }
        let _guard = Guard(&shared);
        let mut send = |block| shared.send(block);
        let counts = Source::new(options, monitor, &mut send).read(walk);
        stop.store(true, Ordering::Relaxed);
        shared.end();
        counts
    });
    let state = shared.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let lanes = state.slots.into_iter().filter_map(|slot| slot.lane).collect();
    Ok((counts, lanes))
}
