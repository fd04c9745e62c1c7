//! Tests that measure their process, and therefore must not share it with other tests.

use std::env;
use std::process::Command;

/// Set in the process of a test that runs alone.
const ALONE: &str = "CUTPOINT_TEST_ALONE";

/// Runs `body` in a process in which no other test runs. `name` is the name of the calling test,
/// with its modules.
pub(crate) fn in_own_process(name: &str, body: impl FnOnce()) {
    if env::var_os(ALONE).is_some() {
        return body();
    }
    let program = env::current_exe().expect("the test has a program");
    let output = Command::new(program)
        .args([name, "--exact", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} fails in its own process:\n{text}{errors}");
    assert!(text.contains("1 passed"), "there is no test {name}:\n{text}");
}

/// Returns the peak memory of this process in bytes, if the system tells.
pub(crate) fn peak_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib * 1024)
}
