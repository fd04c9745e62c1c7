//! Actors, each of which starts one process after another and disturbs some of them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use cutpoint_testing::SplitMix64;
use cutpoint_testing::tree::describe;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::clock::{random_shift_s, write_shift};
use crate::world::{SavedSource, World, add};

/// The rate of killed processes: one in this number is killed.
const KILL_ONE_IN: usize = 4;
/// The rate of suspended processes: one in this number is suspended.
const SUSPEND_ONE_IN: usize = 3;
/// The maximum duration of a suspension, in milliseconds.
const SUSPENSION_MS_MAX: usize = 1500;
/// The rate of clock jumps: for one suspended process in this number, the clock that counts sleep
/// jumps.
const JUMP_ONE_IN: usize = 2;
/// The maximum of such a jump, in seconds: two days, twice the lifetime of a ticket.
const JUMP_S_MAX: usize = 2 * 24 * 60 * 60;
/// The number of snapshots that are kept, so that the final check of all snapshots ends in time.
const KEPT_COUNT: usize = 12;
/// The interval of polling a process.
const POLL: Duration = Duration::from_millis(1);

/// One act of an actor. The error is a failure of the program.
type Act = fn(&mut Actor<'_>) -> Result<(), String>;

/// The acts, one per actor, which each actor repeats.
pub(crate) const ACTS: [Act; 8] = [
    |actor| actor.back_up(),
    |actor| actor.back_up(),
    |actor| actor.back_up(),
    |actor| actor.forget(),
    |actor| actor.prune(),
    |actor| actor.reorganize(),
    |actor| actor.check(),
    |actor| actor.restore(),
];

/// The end of a process that was not killed.
pub(crate) struct ProcessEnd {
    code: Option<i32>,
    pub(crate) events: Vec<Value>,
    pub(crate) text: String,
}

pub(crate) struct Actor<'a> {
    world: &'a World,
    number: usize,
    random: SplitMix64,
    /// The maximum time that a process of this actor has taken so far.
    longest: Duration,
}

impl<'a> Actor<'a> {
    pub(crate) fn new(world: &'a World, number: usize, seed: u64) -> Actor<'a> {
        let longest = Duration::from_millis(50);
        Actor { world, number, random: SplitMix64::new(seed), longest }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.world.folder.join(format!("{name} {}", self.number))
    }

    /// Runs a command and demands success.
    pub(crate) fn expect_success(&mut self, arguments: &[&str]) -> Result<ProcessEnd, String> {
        match self.run(arguments)? {
            Some(ended) if ended.code == Some(0) => Ok(ended),
            Some(ended) => Err(ended.text),
            None => Err(format!("{arguments:?} was killed")),
        }
    }

    /// Runs a command, and disturbs it in a storm. Returns `None` if the command was killed, was
    /// ended by another client or failed because of the storage.
    fn disturbed(&mut self, arguments: &[&str]) -> Result<Option<ProcessEnd>, String> {
        match self.run(arguments)? {
            Some(ended) => self.judged(ended),
            None => Ok(None),
        }
    }

    /// Returns `ended` if the exit code is 0, and `None` if another client or the storage caused
    /// the failure.
    fn judged(&self, ended: ProcessEnd) -> Result<Option<ProcessEnd>, String> {
        match ended.code {
            Some(0) => return Ok(Some(ended)),
            Some(15) => add(&self.world.tally.conflicts, 1),
            // Over S3 a fault may outlast the retries.
            Some(2) if self.world.proxy.is_some() => add(&self.world.tally.failures, 1),
            _ => return Err(ended.text),
        }
        Ok(None)
    }

    fn run(&mut self, arguments: &[&str]) -> Result<Option<ProcessEnd>, String> {
        let world = self.world;
        world.wait_for_calm();
        let is_storm = world.is_storm.load(Ordering::Relaxed);
        let (stdout, stderr) = (self.path("stdout"), self.path("stderr"));
        let state = self.path("clock");
        let mut variables: Vec<(&str, OsString)> = world.repository.clone();
        let mut shift_s = 0;
        if let Some(clock) = world.clock.as_ref().filter(|_| is_storm) {
            shift_s = random_shift_s(&mut self.random);
            write_shift(&state, shift_s, 0);
            variables.extend(clock.variables(&state).map(|(name, value)| (name, value.into())));
            add(&world.tally.shifted, 1);
        }
        let machine = &world.machines[self.number % world.machines.len()];
        let began = Instant::now();
        let child = machine
            .command(&world.program, &variables)
            .args(arguments)
            .arg("--json")
            .current_dir(&world.folder)
            .stdout(File::create(&stdout).expect("a file is made"))
            .stderr(File::create(&stderr).expect("a file is made"))
            .spawn();
        let mut child = child.expect("the program starts");
        let suspended = if is_storm { self.disturb(&mut child, shift_s) } else { Duration::ZERO };
        let limit = world.limit(arguments[0]);
        let read =
            |path| String::from_utf8_lossy(&fs::read(path).expect("it is there")).into_owned();
        let status = wait_within(&mut child, limit, began, suspended).or_else(|| {
            // Other processes may have delayed the process, so it gets the same time once more,
            // alone.
            let _calm = world.calm();
            wait_within(&mut child, limit, Instant::now(), Duration::ZERO)
        });
        let Some(status) = status else {
            let text = format!("{arguments:?} takes more than {limit:?}: {}", threads_of(&child));
            child.kill().ok();
            child.wait().ok();
            return Err(format!("{text}\n{}", read(&stderr)));
        };
        if status.signal() == Some(Signal::KILL.as_raw()) {
            add(&world.tally.kills, 1);
            return Ok(None);
        }
        let elapsed = began.elapsed();
        self.longest = self.longest.max(elapsed.saturating_sub(suspended));
        if !is_storm {
            let mut undisturbed = world.undisturbed.lock().expect("no thread panics");
            let longest = undisturbed.entry(arguments[0].to_owned()).or_default();
            *longest = elapsed.max(*longest);
        }
        let lines = read(&stdout);
        let text = format!("{arguments:?}: {status}: {}", read(&stderr));
        let mut events = Vec::new();
        for line in lines.lines() {
            let event = serde_json::from_str(line);
            events.push(event.map_err(|error| format!("{text}\n{error}: {line}"))?);
        }
        let text = format!("{text}\n{lines}");
        Ok(Some(ProcessEnd { code: status.code(), events, text }))
    }

    /// Kills or suspends a process at a random moment, or does neither. Returns the duration of the
    /// suspension.
    fn disturb(&mut self, child: &mut Child, shift_s: i64) -> Duration {
        let longest_us = usize::try_from(self.longest.as_micros()).expect("short").max(1000);
        let (kills, suspends) =
            (self.random.below(KILL_ONE_IN) == 0, self.random.below(SUSPEND_ONE_IN) == 0);
        let moment =
            |random: &mut SplitMix64| Duration::from_micros(random.below(longest_us) as u64);
        let process = Pid::from_child(child);
        let mut suspended = Duration::ZERO;
        if suspends && runs_for(child, moment(&mut self.random)) {
            let began = Instant::now();
            kill_process(process, Signal::STOP).ok();
            sleep(Duration::from_millis(self.random.below(SUSPENSION_MS_MAX) as u64));
            if self.world.clock.is_some() && self.random.below(JUMP_ONE_IN) == 0 {
                // Both clocks advance, as after a long sleep of the machine.
                let jump_s = i64::try_from(self.random.below(JUMP_S_MAX)).expect("small");
                write_shift(&self.path("clock"), shift_s + jump_s, jump_s);
            }
            kill_process(process, Signal::CONT).ok();
            suspended = began.elapsed();
            add(&self.world.tally.suspensions, 1);
        }
        if kills && runs_for(child, moment(&mut self.random)) {
            child.kill().ok();
        }
        suspended
    }

    /// Chooses a snapshot that no process has tried to forget.
    fn choose(&mut self) -> Option<(String, SavedSource)> {
        let saved = self.world.saved.lock().expect("no thread panics");
        let given_up = self.world.given_up.lock().expect("no thread panics");
        let left: Vec<_> = saved.iter().filter(|(id, _)| !given_up.contains(*id)).collect();
        let (id, saved) = left.get(self.random.below(left.len().max(1)))?;
        Some(((*id).clone(), (*saved).clone()))
    }

    fn back_up(&mut self) -> Result<(), String> {
        let source = self.path("source");
        fs::create_dir_all(source.join("folder")).expect("a folder is made");
        for _ in 0..1 + self.random.below(3) {
            // Few contents, so that the sources share chunks.
            let content = SplitMix64::bytes(self.random.below(24) as u64, 400_000);
            let place = ["a", "b", "folder/c", "folder/d"][self.random.below(4)];
            fs::write(source.join(place), content).expect("a file is written");
        }
        let lines = describe(&source);
        let path = source.to_str().expect("UTF-8");
        let Some(ended) = self.disturbed(&["backup", path])? else { return Ok(()) };
        let id = ended.events.last().and_then(|summary| summary["snapshot"].as_str());
        let id = id.ok_or_else(|| format!("no snapshot in {}", ended.text))?.to_owned();
        self.world
            .saved
            .lock()
            .expect("no thread panics")
            .insert(id, SavedSource { source, lines });
        add(&self.world.tally.backups, 1);
        Ok(())
    }

    fn forget(&mut self) -> Result<(), String> {
        let count = {
            let saved = self.world.saved.lock().expect("no thread panics").len();
            saved - self.world.given_up.lock().expect("no thread panics").len()
        };
        let Some((id, _)) = self.choose().filter(|_| count > KEPT_COUNT) else {
            sleep(Duration::from_millis(20));
            return Ok(());
        };
        // The snapshot is marked before it is forgotten, because other processes may no longer find
        // it from now on.
        self.world.given_up.lock().expect("no thread panics").insert(id.clone());
        if self.disturbed(&["forget", &id])?.is_some() {
            add(&self.world.tally.forgotten, 1);
        }
        Ok(())
    }

    /// Prunes with a random share of unused data.
    pub(crate) fn prune(&mut self) -> Result<(), String> {
        let share = ["0%", "5%", "100%"][self.random.below(3)];
        self.prune_to(share)
    }

    /// Prunes with at most this share of unused data left.
    pub(crate) fn prune_to(&mut self, share: &str) -> Result<(), String> {
        let ended = self.disturbed(&["prune", "--unused-max", share])?;
        let Some(ended) = ended else { return Ok(()) };
        add(&self.world.tally.prunes, 1);
        let deleted = ended.events.last().and_then(|summary| summary["deleted_bytes"].as_u64());
        add(&self.world.tally.deleted_bytes, deleted.unwrap_or(0));
        Ok(())
    }

    fn reorganize(&mut self) -> Result<(), String> {
        let tally = &self.world.tally;
        let (arguments, count): (&[&str], _) = match self.random.below(4) {
            0 => (&["repair", "index"], &tally.repairs),
            _ => (&["optimize", "--all"], &tally.optimizes),
        };
        if self.disturbed(arguments)?.is_some() {
            add(count, 1);
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        let arguments: &[&str] =
            if self.random.below(2) == 0 { &["check"] } else { &["check", "--read-data"] };
        if self.disturbed(arguments)?.is_some() {
            add(&self.world.tally.checks, 1);
        }
        Ok(())
    }

    fn restore(&mut self) -> Result<(), String> {
        let Some((id, saved)) = self.choose() else {
            sleep(Duration::from_millis(20));
            return Ok(());
        };
        let Some(ended) = self.restoring(&id)? else { return Ok(()) };
        let is_given_up = self.world.given_up.lock().expect("no thread panics").contains(&id);
        match ended.code {
            // A prune may delete the data during the restore, which reports that. A restore that
            // ends with 0 must be complete.
            Some(1 | 2 | 11) if is_given_up => Ok(()),
            _ => self.came_back(ended, &id, &saved).map(drop),
        }
    }

    /// Restores a snapshot and compares it with its source. Returns `false` if the process was
    /// killed or failed because of the storage.
    pub(crate) fn restore_of(&mut self, id: &str, saved: &SavedSource) -> Result<bool, String> {
        let Some(ended) = self.restoring(id)? else { return Ok(false) };
        self.came_back(ended, id, saved)
    }

    /// Restores a snapshot. Returns `None` if the process was killed.
    fn restoring(&mut self, id: &str) -> Result<Option<ProcessEnd>, String> {
        let target = self.path("target");
        fs::remove_dir_all(&target).ok();
        let to = target.to_str().expect("UTF-8");
        self.run(&["restore", id, "--to", to])
    }

    /// Compares the restored files with the source, if the restore has ended with 0.
    fn came_back(
        &mut self,
        ended: ProcessEnd,
        id: &str,
        saved: &SavedSource,
    ) -> Result<bool, String> {
        let Some(ended) = self.judged(ended)? else { return Ok(false) };
        let target = self.path("target");
        let source = saved.source.strip_prefix("/").expect("absolute");
        let lines = describe(&target.join(source));
        if lines != saved.lines {
            return Err(format!(
                "{id} came back as something else: {lines:#?} instead of {:#?}\n{}",
                saved.lines, ended.text
            ));
        }
        add(&self.world.tally.restores, 1);
        Ok(true)
    }
}

/// Waits for `moment`. Returns `true` if the process still runs then.
fn runs_for(child: &mut Child, moment: Duration) -> bool {
    let deadline = Instant::now() + moment;
    while Instant::now() < deadline && child.try_wait().expect("asked for").is_none() {
        sleep(POLL);
    }
    child.try_wait().expect("asked for").is_none()
}

/// Waits for a process. Returns `None` if it takes more than `limit`, without suspensions.
fn wait_within(
    child: &mut Child,
    limit: Duration,
    began: Instant,
    suspended: Duration,
) -> Option<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().expect("asked for") {
            return Some(status);
        }
        if began.elapsed().saturating_sub(suspended) > limit {
            return None;
        }
        sleep(POLL);
    }
}

/// Returns the name of each thread of a process, and the kernel function in which the thread waits.
fn threads_of(child: &Child) -> String {
    let folder = PathBuf::from(format!("/proc/{}/task", child.id()));
    let threads = fs::read_dir(folder).into_iter().flatten().flatten();
    let describe = |thread: fs::DirEntry| {
        let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        format!("{} in {}", read("comm").trim(), read("wchan").trim())
    };
    threads.map(describe).collect::<Vec<_>>().join(", ")
}
