//! The shared state of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::clock::ClockShift;
use crate::machine::Machine;
use crate::proxy::Proxy;

/// The divisor of the duration of a run that gives its first part, in which nothing is disturbed
/// and commands are timed.
const UNDISTURBED_PART: u32 = 5;
/// The maximum ratio of the time of a command to its undisturbed time. A command gets this time
/// next to other processes and once more alone. A command that takes longer hangs.
const SLOWDOWN_MAX: u32 = 10;
/// The minimum undisturbed time, because shorter times depend more on the scheduler than on the
/// command.
const UNDISTURBED_MIN: Duration = Duration::from_secs(2);
/// The rate of lies in a storm over S3: one request in this number is lied about.
const LIE_ONE_IN: u64 = 40;

/// The counts of the events of a run.
#[derive(Debug, Default)]
pub struct Tally {
    /// The number of finished backups.
    pub backups: AtomicU64,
    /// The number of finished forgets.
    pub forgotten: AtomicU64,
    /// The number of finished checks, all of which found nothing.
    pub checks: AtomicU64,
    /// The number of restores that equal their source, including those at the end.
    pub restores: AtomicU64,
    /// The number of finished prunes.
    pub prunes: AtomicU64,
    /// The number of finished runs of `optimize`.
    pub optimizes: AtomicU64,
    /// The number of finished repairs of the index.
    pub repairs: AtomicU64,
    /// The number of bytes that prunes deleted.
    pub deleted_bytes: AtomicU64,
    /// The number of commands that ended because another client was faster or had ended their run
    /// (exit 15).
    pub conflicts: AtomicU64,
    /// The number of commands that failed because of the storage (exit 2, over S3 only).
    pub failures: AtomicU64,
    /// The number of killed processes.
    pub kills: AtomicU64,
    /// The number of suspended processes.
    pub suspensions: AtomicU64,
    /// The number of processes that exceeded their time and continued alone.
    pub calms: AtomicU64,
    /// The number of processes with a shifted clock.
    pub shifted: AtomicU64,
    /// The number of requests to the proxy.
    pub requests: AtomicU64,
    /// The number of requests that the proxy lied about.
    pub lies: AtomicU64,
}

impl Tally {
    fn counts(&self) -> [(&'static str, &AtomicU64); 16] {
        [
            ("backups", &self.backups),
            ("forgotten", &self.forgotten),
            ("checks", &self.checks),
            ("restores", &self.restores),
            ("prunes", &self.prunes),
            ("optimizes", &self.optimizes),
            ("repairs", &self.repairs),
            ("deleted_bytes", &self.deleted_bytes),
            ("conflicts", &self.conflicts),
            ("failures", &self.failures),
            ("kills", &self.kills),
            ("suspensions", &self.suspensions),
            ("calms", &self.calms),
            ("shifted", &self.shifted),
            ("requests", &self.requests),
            ("lies", &self.lies),
        ]
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Tally) {
        for ((_, own), (_, more)) in self.counts().into_iter().zip(other.counts()) {
            add(own, more.load(Ordering::Relaxed));
        }
    }

    /// Returns `true` if there were enough events for the run to be meaningful.
    pub(crate) fn is_enough(&self) -> bool {
        let enough = [
            (&self.backups, 10),
            (&self.kills, 5),
            (&self.suspensions, 3),
            (&self.forgotten, 1),
            (&self.checks, 2),
            (&self.restores, 2),
            (&self.prunes, 2),
            (&self.optimizes, 1),
        ];
        enough.iter().all(|(count, least)| count.load(Ordering::Relaxed) >= *least)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts();
        let mut words = counts.iter().map(|(name, count)| (name, count.load(Ordering::Relaxed)));
        words.try_for_each(|(name, count)| write!(f, "{name} {count} "))
    }
}

pub(crate) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

/// A source in the state in which it was saved.
#[derive(Clone, Debug)]
pub(crate) struct SavedSource {
    pub(crate) source: PathBuf,
    pub(crate) lines: Vec<String>,
}

/// The shared state of the actors.
pub(crate) struct World {
    pub(crate) program: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) machines: Vec<Machine>,
    pub(crate) clock: Option<ClockShift>,
    pub(crate) proxy: Option<Proxy>,
    /// The environment variables with the location of the repository.
    pub(crate) repository: Vec<(&'static str, OsString)>,
    /// The acknowledged snapshots.
    pub(crate) saved: Mutex<BTreeMap<String, SavedSource>>,
    /// The snapshots that a process was about to forget.
    pub(crate) given_up: Mutex<BTreeSet<String>>,
    /// The time of the slowest undisturbed run of each kind of command.
    pub(crate) undisturbed: Mutex<BTreeMap<String, Duration>>,
    pub(crate) tally: Tally,
    /// Set once processes are disturbed.
    pub(crate) is_storm: AtomicBool,
    /// The number of processes that are to run alone.
    pub(crate) calm_count: AtomicUsize,
    pub(crate) failure: Mutex<Option<String>>,
    pub(crate) began: Instant,
    pub(crate) duration: Duration,
}

/// The guard of [`World::calm`].
pub(crate) struct Calm<'a>(&'a World);

impl Drop for Calm<'_> {
    fn drop(&mut self) {
        let was_last = self.0.calm_count.fetch_sub(1, Ordering::SeqCst) == 1;
        if was_last
            && self.0.is_storm.load(Ordering::Relaxed)
            && let Some(proxy) = &self.0.proxy
        {
            proxy.lie(LIE_ONE_IN);
        }
    }
}

impl World {
    /// Returns `true` if the actors are to stop: after the duration if there were enough events,
    /// after four times the duration in any case, and after a failure.
    pub(crate) fn is_over(&self) -> bool {
        let elapsed = self.began.elapsed();
        if elapsed > self.duration / UNDISTURBED_PART
            && !self.is_storm.swap(true, Ordering::Relaxed)
            && let Some(proxy) = &self.proxy
        {
            proxy.lie(LIE_ONE_IN);
        }
        let is_done = elapsed > self.duration && self.tally.is_enough();
        is_done || elapsed > 4 * self.duration || self.has_failed()
    }

    fn has_failed(&self) -> bool {
        self.failure.lock().expect("no thread panics").is_some()
    }

    /// Records a failure, unless there was an earlier one.
    pub(crate) fn fail(&self, failure: String) {
        self.failure.lock().expect("no thread panics").get_or_insert(failure);
    }

    /// Returns the maximum time of a command of this kind.
    pub(crate) fn limit(&self, kind: &str) -> Duration {
        let undisturbed = self.undisturbed.lock().expect("no thread panics");
        let longest = undisturbed.get(kind).copied().unwrap_or_default();
        longest.max(UNDISTURBED_MIN) * SLOWDOWN_MAX
    }

    /// Prevents processes from starting, and the proxy from lying, until the guard is dropped.
    pub(crate) fn calm(&self) -> Calm<'_> {
        self.calm_count.fetch_add(1, Ordering::SeqCst);
        if let Some(proxy) = &self.proxy {
            proxy.lie(0);
        }
        add(&self.tally.calms, 1);
        Calm(self)
    }

    /// Waits until processes may start.
    pub(crate) fn wait_for_calm(&self) {
        while self.calm_count.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
