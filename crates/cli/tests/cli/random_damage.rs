//! Random commands, some of them killed, and random damage, determined by a seed. After each
//! damage, the commands that `check` names, in their order, bring every command back to exit code
//! `0`. All losses are reported, and everything else is restored as it was saved.
//!
//! `CUTPOINT_SECONDS=600 CUTPOINT_SEED=7 cargo test -p cutpoint --test cli random_damage` runs for
//! that time, beginning with that seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use cutpoint_testing::SplitMix64;
use serde_json::Value;

use crate::alarms::{alarms, remedies_of};
use crate::sandbox::{Run, Sandbox};

/// The default duration of the test, in seconds.
const SECONDS: u64 = 6;
/// The number of steps per seed.
const STEPS: usize = 40;
/// The maximum number of checks, each followed by the commands it names, until nothing may be wrong
/// any more.
const ROUNDS_MAX: usize = 4;

/// The contents of files by their names.
type Tree = BTreeMap<String, Vec<u8>>;

/// A snapshot that was saved, or the remains of one after a repair.
#[derive(Clone)]
struct SavedSnapshot {
    tree: Tree,
    /// The files with losses that a repair has reported.
    lossy: BTreeSet<String>,
}

struct World {
    sandbox: Sandbox,
    random: SplitMix64,
    sources: Tree,
    saved: BTreeMap<String, SavedSnapshot>,
    /// The objects that a command has deleted.
    buried: BTreeMap<String, Vec<u8>>,
    log: Vec<String>,
    damage_count: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = SplitMix64::new(seed);
        let sandbox = Sandbox::new();
        let parity = ["0%", "10%"][random.below(2)];
        let made = ["init", "--encryption", "none", "--container-size", "4M", "--parity", parity];
        sandbox.run(made).well();
        fs::create_dir(sandbox.path("source")).expect("made");
        let log = vec![format!("seed {seed}, parity {parity}")];
        let (sources, saved, buried) = Default::default();
        let mut world = World { sandbox, random, sources, saved, buried, log, damage_count: 0 };
        for _ in 0..3 {
            world.change();
        }
        world.back_up();
        world
    }

    #[track_caller]
    fn fail(&self, what: &str) -> ! {
        panic!("{what}\nafter:\n{}", self.log.join("\n"))
    }

    fn run(&mut self, command: &[&str]) -> Run {
        let run = self.sandbox.run(command);
        self.log.push(format!("{command:?}: {:?} {}", run.code, run.stderr));
        run
    }

    /// Runs with `--json`.
    fn events(&mut self, command: &[&str]) -> (Option<i32>, Vec<Value>) {
        let run = self.run(&[command, &["--json"]].concat());
        (run.code, run.events())
    }

    fn change(&mut self) {
        let name = self.random.below(5).to_string();
        if self.sources.len() > 2 && self.random.below(6) == 0 {
            self.sources.remove(&name);
            fs::remove_file(self.sandbox.path("source").join(name)).ok();
            return;
        }
        let size = 1000 + self.random.below(60_000);
        let bytes = SplitMix64::bytes(self.random.next(), size);
        fs::write(self.sandbox.path("source").join(&name), &bytes).expect("written");
        self.sources.insert(name, bytes);
    }

    fn back_up(&mut self) {
        let (code, events) = self.events(&["backup", "source"]);
        let id = events.last().and_then(|summary| summary["snapshot"].as_str());
        let Some(id) = id.filter(|_| code == Some(0)) else { self.fail("a backup failed") };
        let saved = SavedSnapshot { tree: self.sources.clone(), lossy: BTreeSet::new() };
        self.saved.insert(id.to_owned(), saved);
    }

    /// Returns every object, by its path in the repository.
    fn objects(&self) -> Vec<String> {
        fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    walk(root, &path, found);
                } else if let Ok(name) = path.strip_prefix(root) {
                    found.push(name.to_string_lossy().into_owned());
                }
            }
        }
        let root = self.sandbox.path("repo");
        let mut found = Vec::new();
        walk(&root, &root, &mut found);
        found.retain(|name| !name.starts_with("tmp/") && !name.contains('#'));
        found.sort();
        found
    }

    fn read(&self, object: &str) -> Vec<u8> {
        fs::read(self.sandbox.path("repo").join(object)).unwrap_or_default()
    }

    fn write(&self, object: &str, bytes: Option<&[u8]>) {
        let path = self.sandbox.path("repo").join(object);
        fs::remove_file(&path).ok();
        if let Some(bytes) = bytes {
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, bytes).expect("written");
        }
    }

    /// Damages one object.
    fn damage(&mut self) {
        let objects = self.objects();
        let folder_of = |name: &String| name.split('/').next().unwrap_or_default().to_owned();
        let folders: Vec<_> =
            objects.iter().map(folder_of).collect::<BTreeSet<_>>().into_iter().collect();
        let folder = folders[self.random.below(folders.len())].clone();
        let within: Vec<_> = objects.iter().filter(|name| folder_of(name) == folder).collect();
        let name = within[self.random.below(within.len())].clone();
        let mut bytes = self.read(&name);
        let kind = match self.random.below(6) {
            0 | 1 => {
                let at = self.random.below(bytes.len());
                bytes[at] ^= 1 << self.random.below(8);
                self.write(&name, Some(&bytes));
                format!("flip at {at}")
            }
            2 => {
                bytes.truncate(self.random.below(bytes.len()));
                self.write(&name, Some(&bytes));
                format!("cut at {}", bytes.len())
            }
            3 => {
                self.write(&name, None);
                "deleted".to_owned()
            }
            4 => {
                let other = within[self.random.below(within.len())].clone();
                let bytes = self.read(&other);
                self.write(&name, Some(&bytes));
                format!("has the bytes of {other}")
            }
            _ => {
                // An object that a command has deleted reappears.
                let buried: Vec<_> = self.buried.iter().collect();
                if buried.is_empty() {
                    return;
                }
                let (name, bytes) = buried[self.random.below(buried.len())];
                let (name, bytes) = (name.clone(), bytes.clone());
                self.write(&name, Some(&bytes));
                format!("{name} is back, and this one is as it was")
            }
        };
        self.damage_count += 1;
        self.log.push(format!("DAMAGE: {name}: {kind}"));
    }

    /// Runs the commands that the messages name until nothing is wrong. After that, no command may
    /// raise an alarm, and the rest must be restorable.
    fn cure(&mut self) {
        for round in 0.. {
            let (code, events) = self.events(&["check", "--read-data"]);
            let remedies = remedies_of(&events);
            if code == Some(0) {
                break;
            }
            if round >= ROUNDS_MAX || remedies.is_empty() {
                self.fail(&format!("after {round} rounds a check still alarms: {events:#?}"));
            }
            for remedy in remedies {
                match remedy.as_str() {
                    "backup" => {
                        let run = self.run(&["backup", "source", "--json"]);
                        let events = run.events();
                        let id = events.last().and_then(|summary| summary["snapshot"].as_str());
                        if let Some(id) = id {
                            let saved = SavedSnapshot {
                                tree: self.sources.clone(),
                                lossy: BTreeSet::new(),
                            };
                            self.saved.insert(id.to_owned(), saved);
                        }
                    }
                    "repair snapshots --forget" => self.repair_snapshots(),
                    other => drop(self.run(&other.split(' ').collect::<Vec<_>>())),
                }
            }
        }
        self.verify();
        let alarms = alarms(&self.sandbox);
        if !alarms.is_empty() {
            self.fail(&format!("after the cure: {}", alarms.join("\n")));
        }
        // One of the commands was a backup.
        self.adopt();
    }

    fn repair_snapshots(&mut self) {
        let (_, events) = self.events(&["repair", "snapshots", "--forget"]);
        let mut lost: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for event in events.iter().filter(|event| event["type"] == "loss") {
            let path = event["path"].as_str().unwrap_or_default();
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            let snapshot = event["snapshot"].as_str().unwrap_or_default().to_owned();
            lost.entry(snapshot).or_default().insert(name);
        }
        for event in events.iter().filter(|event| event["type"] == "repaired") {
            let id = event["snapshot"].as_str().unwrap_or_default();
            let Some(mut saved) = self.saved.remove(id) else { continue };
            saved.lossy.extend(lost.remove(id).unwrap_or_default());
            if let Some(new) = event["repaired"].as_str() {
                self.saved.entry(new.to_owned()).or_insert(saved);
            }
        }
        // Abandoned commits are reported.
        for event in events.iter().filter(|event| event["type"] == "problem") {
            let path = event["path"].as_str().unwrap_or_default();
            if let Some(id) = path.strip_prefix("commits/") {
                self.saved.remove(id);
            }
        }
    }

    fn listed(&mut self) -> Vec<(String, bool)> {
        let (code, events) = self.events(&["snapshots"]);
        if code != Some(0) {
            self.fail("snapshots cannot be listed");
        }
        let snapshots = events.iter().filter(|event| event["type"] == "snapshot");
        let id = |event: &Value| {
            let is_partial = event["partial"] == true;
            (event["id"].as_str().unwrap_or_default().to_owned(), is_partial)
        };
        snapshots.map(id).collect()
    }

    /// Adds the snapshots of backups that were killed after their commit, or that were run by
    /// [`alarms`]. The sources are as they were then.
    fn adopt(&mut self) {
        for (id, is_partial) in self.listed() {
            if !is_partial {
                let saved = SavedSnapshot { tree: self.sources.clone(), lossy: BTreeSet::new() };
                self.saved.entry(id).or_insert(saved);
            }
        }
    }

    /// Checks that every saved snapshot without a reported loss is listed and can be restored.
    fn verify(&mut self) {
        let listed: BTreeSet<_> = self.listed().into_iter().map(|(id, _)| id).collect();
        for (id, saved) in self.saved.clone() {
            if !listed.contains(&id) {
                // Only this machine remembers the newest commit, and it has reported the loss.
                let is_told = |line: &String| line.contains("is older than at its last use");
                if self.log.iter().any(is_told)
                    || self.log.iter().any(|l| l.contains(&format!("commits/{id}: deleted")))
                {
                    self.saved.remove(&id);
                    continue;
                }
                self.fail(&format!("the snapshot {id} is gone, and nobody has told"));
            }
            let back = self.sandbox.path("back");
            fs::remove_dir_all(&back).ok();
            let run = self.run(&["restore", &id, "--to", "back"]);
            if run.code != Some(0) {
                self.fail(&format!("{id} does not restore"));
            }
            let source = self.sandbox.path("source");
            let folder = back.join(source.strip_prefix("/").expect("absolute"));
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let is_well = match name.strip_suffix(".cutpoint-damaged") {
                    Some(whole) => saved.lossy.contains(whole),
                    None => saved.tree.get(&name).is_some_and(|bytes| {
                        fs::read(entry.path()).is_ok_and(|found| found == *bytes)
                    }),
                };
                if !is_well {
                    self.fail(&format!("{id}: {name} comes back as something else"));
                }
            }
            for name in saved.tree.keys() {
                if !folder.join(name).exists()
                    && !saved.lossy.contains(name)
                    && !saved.lossy.contains("")
                {
                    self.fail(&format!("{id}: {name} is lost, and nobody has told"));
                }
            }
        }
    }

    fn step(&mut self) {
        match self.random.below(9) {
            0 | 1 => {
                self.change();
                self.back_up();
            }
            2 => {
                let ids: Vec<_> = self.saved.keys().cloned().collect();
                if ids.len() > 2 {
                    let id = ids[self.random.below(ids.len())].clone();
                    self.run(&["forget", &id]);
                    self.saved.remove(&id);
                }
            }
            3 => {
                // The deleted objects may reappear.
                for name in self.objects() {
                    let bytes = self.read(&name);
                    self.buried.insert(name, bytes);
                }
                if self.run(&["prune", "--exclusive", "--yes"]).code != Some(0) {
                    self.fail("a prune failed");
                }
                let there: BTreeSet<_> = self.objects().into_iter().collect();
                self.buried.retain(|name, _| !there.contains(name));
            }
            4 => self.kill(),
            _ => {
                self.damage();
                self.cure();
            }
        }
    }

    /// Kills a backup or a prune at a random time.
    fn kill(&mut self) {
        self.change();
        let commands: [&[&str]; 3] =
            [&["backup", "source"], &["prune", "--exclusive", "--yes"], &["repair", "index"]];
        let command = commands[self.random.below(commands.len())];
        let mut child = self.sandbox.command(command);
        let child = child.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut child = child.spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(self.random.below(60) as u64));
        child.kill().ok();
        child.wait().expect("it ends");
        self.log.push(format!("{command:?}: killed"));
        self.adopt();
    }
}

#[test]
fn random_damage_leaves_no_alarm() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = Duration::from_secs(number("CUTPOINT_SECONDS").unwrap_or(SECONDS));
    let first = number("CUTPOINT_SEED").unwrap_or(1);
    let began = Instant::now();
    let (mut damage_count, mut seed_count) = (0, 0);
    for seed in first.. {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
            if began.elapsed() >= seconds && damage_count + world.damage_count > 0 {
                break;
            }
        }
        damage_count += world.damage_count;
        seed_count += 1;
        if began.elapsed() >= seconds && damage_count > 0 {
            break;
        }
    }
    println!("{damage_count} damages of {seed_count} seeds");
}
