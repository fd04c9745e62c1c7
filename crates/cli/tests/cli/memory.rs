//! The limit of the memory: peaks of processes with many threads.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use cutpoint_testing::SplitMix64;

use crate::sandbox::{Sandbox, run};

const MIB: u64 = 1 << 20;
/// The size of the data. Each thread has some mebibytes of it.
const LEN: usize = 160 << 20;

/// Runs the command. Returns the maximum of its resident memory, in MiB.
fn peak_mib(sandbox: &Sandbox, arguments: &[&str]) -> u64 {
    peak_mib_of(sandbox.command(arguments), sandbox)
}

/// Runs `command`. Returns the maximum of its resident memory, in MiB.
fn peak_mib_of(mut command: Command, sandbox: &Sandbox) -> u64 {
    let log = File::create(sandbox.path("log")).expect("a file");
    command.stdout(Stdio::null()).stderr(log);
    let mut child = command.spawn().expect("the program starts");
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    let status = loop {
        let status = fs::read_to_string(&status_file).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        peak_kib = peak_kib.max(kib.unwrap_or(0));
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            break status;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let log = fs::read_to_string(sandbox.path("log")).expect("a file");
    assert!(status.success() && peak_kib > 0, "{command:?}: {status}: {log}");
    peak_kib * 1024 / MIB
}

#[test]
#[cfg(target_os = "linux")]
fn memory_limit_holds_for_many_threads() {
    let sandbox = Sandbox::with_repository();
    let mut file = File::create(sandbox.path("data")).expect("a file");
    for part in 0..16 {
        file.write_all(&SplitMix64::bytes(part, LEN / 16)).expect("written");
    }
    let mut limited_peak = 0;
    for (max, arguments) in [
        (240, &["backup", "data"][..]),
        (210, &["restore", "latest:", "--to", "back"]),
        (190, &["check", "--read-data"]),
    ] {
        let limit = format!("{max}MiB");
        let limited = [arguments, &["--threads", "96", "--memory-max", &limit]].concat();
        let peak = peak_mib(&sandbox, &limited);
        println!("{arguments:?}: {peak} MiB of {max} MiB");
        assert!(peak <= max, "{arguments:?}: {peak} MiB");
        limited_peak = peak;
    }
    // A copy reads ahead and stores.
    let in_other = |arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        command.env("CUTPOINT_REPO", sandbox.path("other"));
        command
    };
    run(&mut in_other(&["init", "--encryption", "none"])).well();
    let options = ["copy", "--from", "repo", "--threads", "96", "--memory-max", "240MiB"];
    let peak = peak_mib_of(in_other(&options), &sandbox);
    println!("copy: {peak} MiB of 240 MiB");
    assert!(peak <= 240, "copy: {peak} MiB");
    // Otherwise the limit of the check would prove nothing.
    let peak = peak_mib(&sandbox, &["check", "--read-data", "--threads", "96"]);
    assert!(peak > limited_peak * 3 / 2, "{peak} MiB without a limit, {limited_peak} with one");
}

#[test]
fn memory_limit_that_does_not_suffice_is_refused() {
    let sandbox = Sandbox::with_source();
    sandbox.run(["backup", "source"]).well();
    for (arguments, operation) in [
        (&["backup", "source"][..], "a backup"),
        (&["restore", "latest:", "--to", "back"], "a restore"),
        (&["check", "--read-data"], "a check"),
        (&["prune"], "a prune"),
    ] {
        let refused = sandbox.run([arguments, &["--memory-max", "64MiB"]].concat());
        let told = format!("memory limit: 64 MiB do not suffice for {operation}");
        refused.ended(2, &[&told, "expected at least", "--memory-max"]);
    }
    assert!(!sandbox.path("back").exists(), "nothing is restored");
    assert_eq!(sandbox.json(["snapshots"]).len(), 1, "nothing is saved");
}
