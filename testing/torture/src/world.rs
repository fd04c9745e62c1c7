//! The shared state of a run, its phases and its final check.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cutpoint_testing::{S3Server, SplitMix64};

use crate::actor::{ACTS, Actor};
use crate::clock::ClockShift;
use crate::machine::Machine;
use crate::proxy::Proxy;
use crate::{Options, Storage};

/// The divisor of the duration of a run that gives its first part, in which nothing is disturbed
/// and commands are timed.
const UNDISTURBED_PART: u32 = 5;
/// The maximum ratio of the time of a command to its undisturbed time. A command gets this time
/// next to other processes and once more alone. A command that takes longer hangs.
const SLOWDOWN_MAX: u32 = 10;
/// The minimum undisturbed time, because shorter times depend more on the scheduler than on the
/// command.
const UNDISTURBED_MIN: Duration = Duration::from_secs(2);
/// The minimum duration of a storm after which most snapshots are deleted, because shorter storms
/// make too few different snapshots.
const DELETING_MIN: Duration = Duration::from_secs(60);
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
    fn is_enough(&self) -> bool {
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
pub(crate) struct Saved {
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
    pub(crate) saved: Mutex<BTreeMap<String, Saved>>,
    /// The snapshots that a process was about to forget.
    pub(crate) given_up: Mutex<BTreeSet<String>>,
    /// The time of the slowest undisturbed run of each kind of command.
    pub(crate) undisturbed: Mutex<BTreeMap<String, Duration>>,
    pub(crate) tally: Tally,
    /// Set once processes are disturbed.
    pub(crate) is_storm: AtomicBool,
    /// The number of processes that are to run alone.
    calm_count: AtomicUsize,
    failure: Mutex<Option<String>>,
    began: Instant,
    duration: Duration,
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

pub(crate) fn run(options: &Options) -> Result<Option<Tally>, String> {
    let folder = tempfile::Builder::new().prefix("cutpoint-torture").tempdir();
    let mut folder = folder.expect("a temporary folder");
    let path = folder.path().canonicalize().expect("the folder is there");
    let Some((repository, proxy)) = place(options, &path) else { return Ok(None) };
    let world = World {
        program: options.program.clone(),
        machines: Machine::all(&path),
        clock: ClockShift::build(&path),
        proxy,
        repository,
        saved: Mutex::default(),
        given_up: Mutex::default(),
        undisturbed: Mutex::default(),
        tally: Tally::default(),
        is_storm: AtomicBool::new(false),
        calm_count: AtomicUsize::new(0),
        failure: Mutex::default(),
        began: Instant::now(),
        duration: options.duration,
        folder: path,
    };
    let result = storm(&world, options.seed).and_then(|()| look_back(&world));
    if let Err(failure) = result {
        folder.disable_cleanup(true);
        let place = world.folder.display();
        return Err(format!("{failure}\nseed {}; the working folder stays: {place}", options.seed));
    }
    if let Some(proxy) = &world.proxy {
        add(&world.tally.requests, proxy.lies.requests.load(Ordering::Relaxed));
        add(&world.tally.lies, proxy.lies.lies.load(Ordering::Relaxed));
    }
    if !world.tally.is_enough() {
        return Err(format!("too little has happened: {}", world.tally));
    }
    Ok(Some(world.tally))
}

type Place = (Vec<(&'static str, OsString)>, Option<Proxy>);

/// Returns the environment variables with the location of the repository, and the proxy in front of
/// it. Returns `None` if there is no S3 server.
fn place(options: &Options, folder: &Path) -> Option<Place> {
    if options.storage == Storage::Folder {
        let repository = folder.join("repository").into_os_string();
        return Some((vec![("CUTPOINT_REPO", repository)], None));
    }
    let server = S3Server::shared(&options.build_folder)?;
    let address = server.endpoint.trim_start_matches("http://");
    let proxy = Proxy::start(address, options.seed).expect("a proxy starts");
    let mut variables: Vec<(&str, OsString)> =
        server.variables().into_iter().map(|(name, value)| (name, value.into())).collect();
    variables.retain(|(name, _)| *name != "AWS_ENDPOINT_URL");
    variables.push(("AWS_ENDPOINT_URL", proxy.endpoint.clone().into()));
    let name = format!("s3://{}/torture-{}-{}", server.bucket, std::process::id(), options.seed);
    variables.push(("CUTPOINT_REPO", name.into()));
    Some((variables, Some(proxy)))
}

fn storm(world: &World, seed: u64) -> Result<(), String> {
    // Small containers and regions, so that prunes have much to rewrite.
    let sizes = ["--container-size", "4M", "--region-size", "128k"];
    let mut first = Actor::new(world, ACTS.len(), 0);
    first.expect_success(&[&["init", "--encryption", "none"], &sizes[..]].concat())?;
    std::thread::scope(|scope| {
        for (number, act) in ACTS.into_iter().enumerate() {
            let mut seeds = SplitMix64::new(seed);
            let own = (0..=number).fold(0, |_, _| seeds.next());
            let mut actor = Actor::new(world, number, own);
            scope.spawn(move || {
                while !world.is_over() {
                    if let Err(failure) = act(&mut actor) {
                        world.fail(failure);
                    }
                }
            });
        }
    });
    world.failure.lock().expect("no thread panics").take().map_or(Ok(()), Err)
}

/// Checks the repository after the storm: everything that was acknowledged is there, nothing is
/// damaged, and a prune by the right clock does not change that.
fn look_back(world: &World) -> Result<(), String> {
    if let Some(proxy) = &world.proxy {
        proxy.lie(0);
    }
    world.is_storm.store(false, Ordering::Relaxed);
    let mut actor = Actor::new(world, ACTS.len(), 0);
    actor.expect_success(&["check", "--read-data"])?;
    // The run of a killed writer is ended only by its own machine, or after a day. After that,
    // everything that was condemned can be deleted.
    for number in (0..world.machines.len()).chain([0]) {
        Actor::new(world, number, 0).prune()?;
    }
    actor.expect_success(&["check", "--read-data"])?;
    let listed = actor.expect_success(&["snapshots"])?;
    let given_up = world.given_up.lock().expect("no thread panics").clone();
    let saved = world.saved.lock().expect("no thread panics").clone();
    for (id, saved) in saved.iter().filter(|(id, _)| !given_up.contains(*id)) {
        if !listed.events.iter().any(|each| each["id"].as_str() == Some(id)) {
            return Err(format!("snapshot {id} was acknowledged and is gone: {}", listed.text));
        }
        let restored = actor.restore_of(id, saved)?;
        if !restored {
            return Err(format!("snapshot {id} was acknowledged and does not restore"));
        }
    }
    if world.duration >= DELETING_MIN {
        delete_most(world, &mut actor, saved.keys().filter(|id| !given_up.contains(*id)))?;
    }
    // Shifted clocks must show in the times of the snapshots. Otherwise the shift has no effect.
    let own =
        |time: &serde_json::Value| time.as_str().map(|text| text[..10.min(text.len())].to_owned());
    let days: BTreeSet<_> = listed.events.iter().filter_map(|each| own(&each["started"])).collect();
    if world.clock.is_some() && days.len() < 2 && listed.events.len() > 3 {
        return Err(format!("no clock was shifted: {}", listed.text));
    }
    Ok(())
}

/// Forgets all snapshots except one, and checks that prunes delete the data that only the others
/// needed, and that the one is complete.
fn delete_most<'a>(
    world: &World,
    actor: &mut Actor<'_>,
    mut ids: impl Iterator<Item = &'a String>,
) -> Result<(), String> {
    let Some(kept) = ids.next() else { return Ok(()) };
    let forgotten: Vec<&str> = ids.map(String::as_str).collect();
    actor.expect_success(&[&["forget"], &forgotten[..]].concat())?;
    let before = world.tally.deleted_bytes.load(Ordering::Relaxed);
    for number in (0..world.machines.len()).chain([0]) {
        Actor::new(world, number, 0).prune_to("0%")?;
    }
    if world.tally.deleted_bytes.load(Ordering::Relaxed) == before {
        return Err(format!("no prune deletes anything after {forgotten:?} were forgotten"));
    }
    actor.expect_success(&["check", "--read-data"])?;
    let saved = world.saved.lock().expect("no thread panics")[kept].clone();
    match actor.restore_of(kept, &saved)? {
        true => Ok(()),
        false => Err(format!("snapshot {kept} was kept and does not restore")),
    }
}
