//! Many processes at once on one repository in a real folder, some of them killed: nothing that was
//! said to be saved is lost.
//!
//! `CUTPOINT_SECONDS=600` runs that long.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cutpoint_testing::SplitMix64;
use serde_json::Value;

use crate::sandbox::{Sandbox, describe};

const SECONDS: u64 = 8;
/// On a machine so slow that nothing happens in time, it may take so much longer.
const SECONDS_MAX: u64 = 180;
/// Whoever is at work is killed one time in so many.
const KILL_ONE_IN: usize = 3;
/// Snapshots that are kept, so that the last look at all of them ends.
const KEPT: usize = 12;

/// How often things happened.
#[derive(Debug, Default)]
struct Tally {
    backups: AtomicU64,
    kills: AtomicU64,
    forgotten: AtomicU64,
    checks: AtomicU64,
    restores: AtomicU64,
    prunes: AtomicU64,
    deleted_bytes: AtomicU64,
}

impl Tally {
    /// Whether enough has happened to mean something.
    fn is_enough(&self) -> bool {
        let enough = [
            (&self.backups, 10),
            (&self.kills, 5),
            (&self.forgotten, 1),
            (&self.checks, 2),
            (&self.restores, 2),
            (&self.prunes, 2),
            (&self.deleted_bytes, 1),
        ];
        enough.iter().all(|(count, least)| count.load(Ordering::Relaxed) >= *least)
    }
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

/// What everybody knows.
struct World {
    sandbox: Sandbox,
    /// What was said to be saved: the snapshot, and its source as it was.
    saved: Mutex<BTreeMap<String, Saved>>,
    /// What somebody was about to forget.
    given_up: Mutex<BTreeSet<String>>,
    tally: Tally,
    began: Instant,
    seconds: u64,
}

#[derive(Clone)]
struct Saved {
    source: PathBuf,
    lines: Vec<String>,
}

/// How a process ended that was not killed.
struct Ended {
    code: Option<i32>,
    events: Vec<Value>,
    text: String,
}

/// One who starts processes, one after the other.
struct Actor<'a> {
    world: &'a World,
    number: usize,
    random: SplitMix64,
    /// The longest that its processes have taken.
    longest: Duration,
}

impl Actor<'_> {
    fn is_over(&self) -> bool {
        let elapsed = self.world.began.elapsed().as_secs();
        elapsed >= self.world.seconds
            && (self.world.tally.is_enough() || elapsed >= self.world.seconds + SECONDS_MAX)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.world.sandbox.path(format!("{name} {}", self.number))
    }

    /// Runs the program, or kills it at some time: nobody has to know where it is then.
    fn run(&mut self, arguments: &[&str]) -> Option<Ended> {
        let (stdout, stderr) = (self.path("stdout"), self.path("stderr"));
        let began = Instant::now();
        let mut child = self
            .world
            .sandbox
            .command(arguments)
            .arg("--json")
            .stdout(File::create(&stdout).expect("a file is made"))
            .stderr(File::create(&stderr).expect("a file is made"))
            .spawn()
            .expect("the program starts");
        if self.random.below(KILL_ONE_IN) == 0 {
            let longest_us = usize::try_from(self.longest.as_micros()).expect("short").max(1000);
            let deadline = began + Duration::from_micros(self.random.below(longest_us) as u64);
            while Instant::now() < deadline && child.try_wait().expect("asked for").is_none() {
                sleep(Duration::from_millis(1));
            }
            child.kill().ok();
        }
        let status = child.wait().expect("waited for");
        if status.signal().is_some() {
            add(&self.world.tally.kills, 1);
            return None;
        }
        self.longest = self.longest.max(began.elapsed());
        let read =
            |path| String::from_utf8_lossy(&fs::read(path).expect("it is there")).into_owned();
        let lines = read(&stdout);
        let events = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let text = format!("{arguments:?}: {status}: {}", read(&stderr));
        Some(Ended { code: status.code(), events, text })
    }

    /// One that nobody has given up.
    fn choose(&mut self) -> Option<(String, Saved)> {
        let saved = self.world.saved.lock().expect("no panics");
        let given_up = self.world.given_up.lock().expect("no panics");
        let left: Vec<_> = saved.iter().filter(|(id, _)| !given_up.contains(*id)).collect();
        let (id, saved) = left.get(self.random.below(left.len().max(1)))?;
        Some(((*id).clone(), (*saved).clone()))
    }

    fn is_given_up(&self, id: &str) -> bool {
        self.world.given_up.lock().expect("no panics").contains(id)
    }

    fn back_up(&mut self) {
        let source = self.path("source");
        fs::create_dir_all(source.join("folder")).expect("a folder is made");
        for _ in 0..1 + self.random.below(3) {
            // Few contents, so that all have chunks of each other.
            let content = SplitMix64::bytes(self.random.below(12) as u64, 150_000);
            let place = ["a", "b", "folder/c", "folder/d"][self.random.below(4)];
            fs::write(source.join(place), content).expect("a file is written");
        }
        let lines = describe(&source);
        let Some(ended) = self.run(&["backup", source.to_str().expect("UTF-8")]) else { return };
        assert!(matches!(ended.code, Some(0 | 15)), "{}", ended.text);
        if let (Some(0), Some(summary)) = (ended.code, ended.events.last()) {
            let id = summary["snapshot"].as_str().expect("a snapshot").to_owned();
            self.world.saved.lock().expect("no panics").insert(id, Saved { source, lines });
            add(&self.world.tally.backups, 1);
        }
    }

    fn forget(&mut self) {
        let count = {
            let saved = self.world.saved.lock().expect("no panics").len();
            saved - self.world.given_up.lock().expect("no panics").len()
        };
        let Some((id, _)) = self.choose().filter(|_| count > KEPT) else {
            sleep(Duration::from_millis(20));
            return;
        };
        // Before it happens: who looks for it from now on may not find it.
        self.world.given_up.lock().expect("no panics").insert(id.clone());
        let Some(ended) = self.run(&["forget", &id]) else { return };
        assert!(matches!(ended.code, Some(0 | 15)), "{}", ended.text);
        add(&self.world.tally.forgotten, 1);
    }

    fn prune(&mut self) {
        let share = ["0%", "5%", "100%"][self.random.below(3)];
        let Some(ended) = self.run(&["prune", "--settle", "0", "--unused-max", share]) else {
            return;
        };
        assert!(matches!(ended.code, Some(0 | 15)), "{}", ended.text);
        add(&self.world.tally.prunes, 1);
        let deleted = ended.events.last().and_then(|summary| summary["deleted_bytes"].as_u64());
        add(&self.world.tally.deleted_bytes, deleted.unwrap_or(0));
    }

    fn check(&mut self) {
        let arguments: &[&str] =
            if self.random.below(2) == 0 { &["check"] } else { &["check", "--read-data"] };
        let Some(ended) = self.run(arguments) else { return };
        assert_eq!(ended.code, Some(0), "{} {:#?}", ended.text, ended.events);
        add(&self.world.tally.checks, 1);
    }

    fn restore(&mut self) {
        let Some((id, saved)) = self.choose() else {
            sleep(Duration::from_millis(20));
            return;
        };
        let target = self.path("target");
        fs::remove_dir_all(&target).ok();
        let Some(ended) = self.run(&["restore", &id, "--to", target.to_str().expect("UTF-8")])
        else {
            return;
        };
        if ended.code != Some(0) {
            assert!(self.is_given_up(&id), "{}", ended.text);
            return;
        }
        saved.is_at(&target, &id);
        add(&self.world.tally.restores, 1);
    }
}

impl Saved {
    fn is_at(&self, target: &std::path::Path, id: &str) {
        let source = self.source.strip_prefix("/").expect("absolute");
        assert_eq!(describe(&target.join(source)), self.lines, "{id} came back as something else");
    }
}

#[test]
fn processes_that_are_killed_lose_nothing() {
    let text = std::env::var("CUTPOINT_SECONDS").ok();
    let world = World {
        sandbox: Sandbox::with_repository(),
        saved: Mutex::default(),
        given_up: Mutex::default(),
        tally: Tally::default(),
        began: Instant::now(),
        seconds: text.and_then(|text| text.parse().ok()).unwrap_or(SECONDS),
    };
    let acts: [fn(&mut Actor<'_>); 7] = [
        |actor| actor.back_up(),
        |actor| actor.back_up(),
        |actor| actor.forget(),
        |actor| actor.prune(),
        |actor| actor.prune(),
        |actor| actor.check(),
        |actor| actor.restore(),
    ];
    std::thread::scope(|scope| {
        for (number, act) in acts.into_iter().enumerate() {
            let random = SplitMix64::new(0x7e + number as u64);
            let longest = Duration::from_millis(50);
            let mut actor = Actor { world: &world, number, random, longest };
            scope.spawn(move || {
                while !actor.is_over() {
                    act(&mut actor);
                }
            });
        }
    });
    println!("{:.1} s: {:?}", world.began.elapsed().as_secs_f64(), world.tally);
    assert!(world.tally.is_enough(), "too little has happened: {:?}", world.tally);

    let World { sandbox, saved, given_up, .. } = world;
    sandbox.run(["check", "--read-data"]).well();
    // Nobody is at work any more: what was killed is ended, and what it has left is cleared away.
    sandbox.run(["prune", "--settle", "0"]).well();
    sandbox.run(["check", "--read-data"]).well();
    let listed = sandbox.json(["snapshots"]);
    let given_up = given_up.into_inner().expect("no panics");
    for (id, saved) in saved.into_inner().expect("no panics") {
        if given_up.contains(&id) {
            continue;
        }
        let is_listed = listed.iter().any(|each| each["id"].as_str() == Some(&id));
        assert!(is_listed, "{id} was said to be saved, and is gone: {listed:#?}");
        let target = sandbox.path(format!("last {id}"));
        sandbox.run(["restore", &id, "--to", target.to_str().expect("UTF-8")]).well();
        saved.is_at(&target, &id);
        fs::remove_dir_all(&target).expect("removed");
    }
}
