//! The load that commands put on the network and on the machine.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use cutpoint_testing::SplitMix64;

use crate::sandbox::{Sandbox, describe};

/// Returns the seconds that a successful run takes.
fn seconds(sandbox: &Sandbox, arguments: &[&str]) -> f64 {
    let began = Instant::now();
    sandbox.run(arguments).well();
    began.elapsed().as_secs_f64()
}

#[test]
fn limits_of_rates_hold_for_every_command_that_moves_data() {
    let sandbox = Sandbox::with_repository();
    fs::create_dir(sandbox.path("source")).expect("a folder");
    let bytes = SplitMix64::bytes(1, 3 << 20);
    fs::write(sandbox.path("source/file"), bytes).expect("it is written");
    let up = ["backup", "source", "--limit-upload", "1MiB/s"];
    let down = [
        vec!["restore", "latest:source", "--to", "restored"],
        vec!["check", "--read-data"],
        vec!["copy", "latest", "--from", "repo", "-r", "other"],
    ];
    let taken = seconds(&sandbox, &up);
    assert!((2.7..60.0).contains(&taken), "3 MiB up at 1 MiB/s took {taken:.1} s");
    // The other direction has no limit.
    let free = seconds(&sandbox, &["check", "--read-data", "--limit-upload", "16k"]);
    assert!(free < 90.0, "3 MiB at 16 KiB/s would take 192 s: {free:.1} s");
    sandbox.run(["init", "-r", "other", "--encryption", "none"]).well();
    for command in down {
        let limited = [&command[..], &["--limit-download", "1M"]].concat();
        let taken = seconds(&sandbox, &limited);
        assert!((2.7..60.0).contains(&taken), "{command:?} took {taken:.1} s");
    }
    let restored = describe(&sandbox.path("restored"));
    assert_eq!(restored, describe(&sandbox.path("source")), "nothing differs");
}

#[test]
fn rate_below_the_minimum_is_refused() {
    let sandbox = Sandbox::with_repository();
    sandbox
        .run(["snapshots", "--limit-upload", "1k"])
        .ended(2, &["--limit-upload", "1k is out of range", "16KiB/s"]);
    sandbox.run(["snapshots", "--limit-download", "0"]).well();
}

/// Prints the priorities of the threads of the program, and of its command.
const PRIORITIES: &str = "\
for task in /proc/$PPID/task/*; do
    echo threads: $(sed 's/.*)//' $task/stat | cut -d' ' -f18) $(ionice -p ${task##*/})
done
echo command: $(nice) $(ionice -p $$)";

fn has_ionice() -> bool {
    Command::new("ionice").arg("-V").output().is_ok_and(|output| output.status.success())
}

fn priorities(sandbox: &Sandbox, options: &[&str]) -> BTreeSet<String> {
    let mut arguments = vec!["backup", "--stdin-from-command", "--threads", "2"];
    arguments.extend(options);
    arguments.extend(["--", "sh", "-c", PRIORITIES]);
    sandbox.run(&arguments).well();
    let found = sandbox.run(["cat", "latest:stdin"]).well();
    found.text().lines().map(str::to_owned).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn low_priority_holds_for_all_threads_and_commands() {
    if !has_ionice() {
        cutpoint_testing::skipped("the test of --low-priority: no ionice");
        return;
    }
    let sandbox = Sandbox::with_repository();
    let low = priorities(&sandbox, &["--low-priority"]);
    let expected = ["command: 19 idle", "threads: 19 idle"].map(str::to_owned);
    assert_eq!(low, BTreeSet::from(expected), "with the option");
    let usual = priorities(&sandbox, &[]);
    assert!(usual.iter().all(|line| !line.contains("idle")), "without it: {usual:?}");
}

#[test]
fn profile_has_limits_and_priority() {
    let sandbox = Sandbox::with_repository();
    fs::create_dir(sandbox.path("source")).expect("a folder");
    let bytes = SplitMix64::bytes(2, 3 << 20);
    fs::write(sandbox.path("source/file"), bytes).expect("it is written");
    let folder = sandbox.path("home/.config/cutpoint");
    fs::create_dir_all(&folder).expect("a folder");
    let write = |limit: &str| {
        let text = format!(
            "repository = {:?}\nsources = [{:?}]\nlimit-upload = \"{limit}\"\n\
             low-priority = true\n[hooks]\nafter = \"nice\"\n",
            sandbox.path("repo"),
            sandbox.path("source"),
        );
        fs::write(folder.join("slow.toml"), text).expect("it is written");
    };
    write("1MiB/s");
    let began = Instant::now();
    let run = sandbox.run(["run", "slow"]).well();
    assert!(began.elapsed() > Duration::from_millis(2700), "{:?}", began.elapsed());
    assert!(run.stderr.lines().any(|line| line == "19"), "the hook: {}", run.stderr);
    // This limit would take 192 s.
    write("16KiB/s");
    let bytes = SplitMix64::bytes(3, 3 << 20);
    fs::write(sandbox.path("source/other"), bytes).expect("it is written");
    let taken = seconds(&sandbox, &["run", "slow", "--limit-upload", "1M"]);
    assert!((2.7..90.0).contains(&taken), "the command line decides: {taken:.1} s");
}
