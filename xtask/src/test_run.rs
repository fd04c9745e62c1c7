//! The tests of the workspace: built in one step, and run while later steps build.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use serde_json::Value;

use crate::linting_cargo;
use crate::memory_folder::MemoryFolder;

/// The number of test programs that run at once. Some of them wait most of the time.
const PROGRAMS_AT_ONCE: usize = 2;

/// The names of the test programs with tests that need a server.
const SERVICE_PROGRAMS: [&str; 2] = ["storage: it", "cli: cli"];

/// A test program.
#[derive(Clone, Debug)]
struct Program {
    /// The name of the target, with its package.
    name: String,
    path: PathBuf,
    /// The folder of the package, in which the program runs.
    folder: PathBuf,
    is_integration_test: bool,
}

/// Tests that run in threads of their own.
pub(crate) struct RunningTests(JoinHandle<Vec<String>>);

/// Builds all test programs, and starts them. With `is_long`, the random tests take many more
/// cases.
pub(crate) fn start(is_long: bool) -> Result<RunningTests, String> {
    let programs = build()?;
    Ok(RunningTests(std::thread::spawn(move || run_all(programs, is_long))))
}

impl RunningTests {
    /// Waits for the end of the tests.
    pub(crate) fn finish(self) -> Result<(), String> {
        let failed = self.0.join().map_err(|_| "the tests were not run to their end".to_owned())?;
        if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
    }
}

/// Builds all targets of the workspace, and returns the test programs. A warning is an error.
fn build() -> Result<Vec<Program>, String> {
    let mut command = linting_cargo(&["build", "--workspace", "--all-targets"]);
    command.args(["--quiet", "--message-format", "json"]).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let (mut diagnostics, mut programs) = (Vec::new(), Vec::new());
    for message in messages {
        programs.extend(program(&message));
        // The library of a package and its unit tests have most diagnostics in common.
        let rendered = message["message"]["rendered"].as_str().map(str::to_owned);
        diagnostics.extend(rendered.filter(|text| !diagnostics.contains(text)));
    }
    diagnostics.iter().for_each(|text| eprint!("{text}"));
    if !output.status.success() {
        return Err(format!("{command:?} ended with {}", output.status));
    }
    if !diagnostics.is_empty() {
        return Err(format!("{} warnings of the compiler and of clippy", diagnostics.len()));
    }
    // Integration tests take the longest, so they are started first.
    programs.sort_by_key(|program| !program.is_integration_test);
    match programs.is_empty() {
        true => Err("cargo has built no test program".to_owned()),
        false => Ok(programs),
    }
}

/// Returns the test program that a message of cargo names, if it names one.
fn program(message: &Value) -> Option<Program> {
    let target = &message["target"];
    let is_test = message["profile"]["test"] == true && target["kind"][0] != "bench";
    let path = message["executable"].as_str().filter(|_| is_test)?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some(Program {
        name: format!("{}: {}", folder.file_name()?.display(), target["name"].as_str()?),
        path: PathBuf::from(path),
        folder: folder.to_path_buf(),
        is_integration_test: target["kind"][0] == "test",
    })
}

/// Runs the programs, and prints the output of each at its end. Returns the names of those that
/// failed.
fn run_all(programs: Vec<Program>, is_long: bool) -> Vec<String> {
    let waiting = Mutex::new(VecDeque::from(programs));
    let failed = Mutex::new(Vec::new());
    // Tests that could not run leave a line in this file, which is printed at the end.
    let skipped = std::env::temp_dir().join(format!("cutpoint-skipped-{}", std::process::id()));
    std::thread::scope(|scope| {
        for _ in 0..PROGRAMS_AT_ONCE {
            scope.spawn(|| {
                while let Some(program) = lock(&waiting).pop_front() {
                    if !run(&program, &skipped, is_long) {
                        lock(&failed).push(program.name);
                    }
                }
            });
        }
    });
    let lines = std::fs::read_to_string(&skipped).unwrap_or_default();
    std::fs::remove_file(&skipped).ok();
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    lines.iter().for_each(|line| println!("xtask: {line}"));
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a program. Returns `true` if its tests pass.
fn run(program: &Program, skipped: &Path, is_long: bool) -> bool {
    let mut command = Command::new(&program.path);
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    command.env("CUTPOINT_SKIPPED", skipped).stdin(Stdio::null());
    if is_long {
        command.env("CUTPOINT_SEEDS", "100000").env("CUTPOINT_CHUNKS", "40000");
    }
    // Many tests of the command line wait for processes.
    if let Ok(core_count) = std::thread::available_parallelism() {
        command.env("RUST_TEST_THREADS", (2 * core_count.get()).to_string());
    }
    let _memory = MemoryFolder::for_command(&mut command);
    let began = Instant::now();
    let output = command.output();
    let elapsed_s = began.elapsed().as_secs();
    let (is_well, text) = match output {
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            (output.status.success(), String::from_utf8_lossy(&text).into_owned())
        }
        Err(error) => (false, error.to_string()),
    };
    let result = if is_well { "well" } else { "FAILED" };
    println!("{}\nxtask: tests of {}: {result}, {elapsed_s} s", text.trim_end(), program.name);
    is_well
}

/// Runs the tests that need a server, a terminal or a file system of their own. They are in modules
/// of the name `services`. A missing program is a failure. The programs are those of all tests, so
/// that nothing is built a second time for this.
pub(crate) fn services() -> Result<(), String> {
    let programs = build()?.into_iter().filter(has_services).collect::<Vec<Program>>();
    if programs.len() != SERVICE_PROGRAMS.len() {
        return Err(format!("expected {SERVICE_PROGRAMS:?}, built {programs:?}"));
    }
    let failed = programs.iter().filter(|program| !run_services(program)).map(|it| &*it.name);
    let failed: Vec<&str> = failed.collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

fn has_services(program: &Program) -> bool {
    SERVICE_PROGRAMS.contains(&&*program.name)
}

/// Runs the tests of a program that need a server, and prints each as it ends. Returns `true` if
/// they pass.
fn run_services(program: &Program) -> bool {
    println!("xtask: services of {}", program.name);
    let mut command = Command::new(&program.path);
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    command.arg("services::").env("CUTPOINT_SERVICES", "1");
    let _memory = MemoryFolder::for_command(&mut command);
    crate::run(command).inspect_err(|message| eprintln!("xtask: {message}")).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn test_programs_are_told_from_other_artifacts() {
        let message = |is_test: bool, kind: &str| {
            json!({
                "reason": "compiler-artifact",
                "manifest_path": "/w/crates/a/Cargo.toml",
                "target": { "name": "it", "kind": [kind] },
                "profile": { "test": is_test },
                "executable": "/w/target/debug/deps/it-1",
            })
        };
        let found = program(&message(true, "test")).expect("a test program");
        assert_eq!((found.name.as_str(), found.is_integration_test), ("a: it", true));
        assert_eq!(found.folder, Path::new("/w/crates/a"));
        assert!(!program(&message(true, "lib")).expect("unit tests").is_integration_test);
        assert!(program(&message(false, "bin")).is_none(), "a program without tests");
        assert!(program(&json!({ "reason": "build-finished" })).is_none(), "another message");
    }
}
