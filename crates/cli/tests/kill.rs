//! A real process, killed with SIGKILL at a hundred random moments. Completed runs stay, incomplete
//! ones are no snapshots, and nothing needs a repair.
//!
//! A moment is defined by the number of bytes written instead of a time, so that it does not depend
//! on the speed of the machine.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use cutpoint_testing::SplitMix64;

const KILLS: usize = 100;

struct Repository {
    work: tempfile::TempDir,
}

impl Repository {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cutpoint"));
        command
            .args(words)
            .arg("--repo")
            .arg(self.work.path().join("repository"))
            .arg("--key-file")
            .arg(self.work.path().join("key"))
            .env("XDG_CACHE_HOME", self.work.path().join("cache"))
            .env("XDG_STATE_HOME", self.work.path().join("state"))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> String {
        let output = self.command(words).output().expect("cutpoint starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{words:?} ended with {}:\n{}{}",
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    fn has_unfinished(&self) -> bool {
        let names = |folder: &str| -> Vec<String> {
            let folder = self.work.path().join("repository").join(folder);
            let entries = fs::read_dir(folder).expect("folder");
            entries.map(|e| e.expect("entry").file_name().to_string_lossy().into_owned()).collect()
        };
        let ended = names("commits");
        names("tickets").iter().any(|ticket| !ticket.contains('#') && !ended.contains(ticket))
    }

    /// Returns the size of all files of the repository, finished or not, in bytes.
    fn size(&self) -> u64 {
        let names = walk(&self.work.path().join("repository"));
        names.iter().filter_map(|name| fs::metadata(name).ok()).map(|each| each.len()).sum()
    }

    /// Starts the program and kills it as soon as `is_now` returns `true`, unless it has ended
    /// before.
    fn run_until(&self, words: &[&str], is_now: impl Fn() -> bool) -> ExitStatus {
        let mut child = self.command(words).stderr(Stdio::null()).spawn().expect("starts");
        while child.try_wait().expect("asked for").is_none() {
            if is_now() {
                child.kill().ok();
                break;
            }
            sleep(Duration::from_micros(300));
        }
        child.wait().expect("waited for")
    }

    fn snapshots(&self) -> usize {
        let lines = self.run(&["snapshots", "--json"]);
        lines.lines().filter(|line| line.contains("\"type\":\"snapshot\"")).count()
    }
}

fn same(left: &Path, right: &Path) {
    let mut names: Vec<_> =
        fs::read_dir(left).expect("left").map(|entry| entry.expect("entry").file_name()).collect();
    names.sort();
    assert_eq!(names.len(), fs::read_dir(right).expect("right").count(), "{}", left.display());
    for name in names {
        let (left, right) = (left.join(&name), right.join(&name));
        if left.is_dir() {
            same(&left, &right);
        } else {
            assert!(
                fs::read(&left).expect("left") == fs::read(&right).expect("right"),
                "{} came back with other bytes",
                left.display()
            );
        }
    }
}

#[test]
fn hundred_kills_lose_nothing() {
    let repository = Repository { work: tempfile::tempdir().expect("work folder") };
    let work = repository.work.path();
    let source = work.join("source");
    fs::create_dir_all(source.join("many")).expect("source");
    let mut random = SplitMix64::new(20_261_121);
    for file in 0..200 {
        let size = random.below(20_000);
        fs::write(source.join(format!("many/{file}")), random.take(size)).expect("file");
    }
    fs::write(source.join("large"), random.take(12 << 20)).expect("large");
    let source_text = source.to_str().expect("UTF-8").to_owned();
    let backup: [&str; 3] = ["backup", &source_text, "--quiet"];
    repository.run(&["init", "--container-size", "4m"]);
    let before = repository.size();
    repository.run(&backup);
    let full_bytes = usize::try_from(repository.size() - before).expect("small");

    let (mut killed, mut finished) = (0, 1);
    for round in 0..KILLS {
        // Each round has new data, so that there is something to lose.
        fs::write(source.join("large"), random.take(12 << 20)).expect("large");
        fs::write(source.join(format!("many/{round}")), random.take(3000)).expect("file");
        let enough = repository.size() + random.below(full_bytes) as u64;
        let status = repository.run_until(&backup, || repository.size() > enough);
        if status.success() {
            finished += 1;
        } else {
            killed += 1;
        }
        if round % 20 == 19 {
            repository.run(&["check"]);
        }
    }
    assert!(killed > KILLS / 4, "only {killed} of {KILLS} runs were hit");
    // A run that was killed after its commit has made a snapshot, too. A run that was not killed
    // always makes one.
    let before = repository.snapshots();
    assert!(before >= finished, "{before} snapshots, but {finished} runs had finished");
    assert!(before <= finished + killed);

    // One more kill leaves a writer behind, for the last run to end and to clean up after.
    for _ in 0..20 {
        if repository.has_unfinished() {
            break;
        }
        fs::write(source.join("large"), random.take(12 << 20)).expect("large");
        repository.run_until(&backup, || repository.has_unfinished());
    }
    assert!(repository.has_unfinished(), "no run could be stopped in its middle");
    let before = repository.snapshots();
    repository.run(&backup);
    assert!(!repository.has_unfinished(), "the dead writer was not ended");
    assert_eq!(repository.snapshots(), before + 1);
    repository.run(&["check", "--read-data"]);
    let target = work.join("target");
    repository.run(&["restore", "latest", "--to", target.to_str().expect("UTF-8"), "--quiet"]);
    same(&source, &target.join(source.strip_prefix("/").expect("absolute")));
    // No staged files of killed runs are left, except tickets of runs that were killed before they
    // had one. These cannot be attributed to a run, and are removed after a day.
    let staged = walk(&work.join("repository")).into_iter().filter(|name| name.contains('#'));
    let staged: Vec<_> = staged.filter(|name| !name.contains("/tickets/")).collect();
    assert!(staged.is_empty(), "staging files stay behind: {staged:?}");
}

fn walk(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).expect("folder") {
        // A staged file may be gone by now.
        let Ok(path) = entry.map(|entry| entry.path()) else { continue };
        if path.is_dir() {
            names.extend(walk(&path));
        } else {
            names.push(path.to_string_lossy().into_owned());
        }
    }
    names
}
