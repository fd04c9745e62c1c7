//! The documentation and its examples.
//!
//! `cargo doc` would compile the metadata of every dependency anew, which takes longer than all
//! documentation. `cargo test --doc` gives rustdoc what the tests were built with, so this program
//! takes the place of rustdoc there: it makes the documentation of the crate, and tests its
//! examples.

use std::ffi::{OsStr, OsString};
use std::process::{Command, ExitCode};

use crate::{linting_cargo, target};

/// The variable that is set where this program takes the place of rustdoc.
const MARK: &str = "CUTPOINT_RUSTDOC";

/// Makes the documentation of all libraries, and runs the examples in it. A warning is an error.
pub(crate) fn check() -> Result<(), String> {
    // The building of the tests may have replaced the program that runs.
    let this = target().join("debug").join("xtask");
    let mut command = linting_cargo(&["test", "--workspace", "--doc", "--quiet"]);
    command.env("RUSTDOC", this).env(MARK, target().join("doc"));
    crate::run(command)
}

/// Documents a crate and tests its examples, if this program was started in the place of rustdoc.
pub(crate) fn run_as_rustdoc() -> Option<ExitCode> {
    let folder = std::env::var_os(MARK)?;
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--test") {
        let mut command = Command::new("rustdoc");
        command.args(without_tests(&arguments)).args(["-D", "warnings", "--out-dir"]).arg(folder);
        if let Some(code) = failure(command) {
            return Some(code);
        }
    }
    let mut command = Command::new("rustdoc");
    command.args(&arguments);
    Some(failure(command).unwrap_or(ExitCode::SUCCESS))
}

/// Returns the arguments without those that concern tests.
fn without_tests(arguments: &[OsString]) -> Vec<&OsStr> {
    let mut kept = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--test") => {}
            Some("--test-args" | "--test-run-directory") => {
                arguments.next();
            }
            _ => kept.push(argument.as_os_str()),
        }
    }
    kept
}

/// Runs a command. Returns the exit code unless it is 0.
fn failure(mut command: Command) -> Option<ExitCode> {
    match command.status() {
        Ok(status) if status.success() => None,
        Ok(status) => {
            Some(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1).into())
        }
        Err(error) => {
            eprintln!("xtask: rustdoc: {error}");
            Some(ExitCode::FAILURE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_tests_are_left_out() {
        let words = ["--crate-name", "a", "--test", "src/lib.rs", "--test-args", "x", "-L", "y"];
        let words = words.map(OsString::from);
        assert_eq!(without_tests(&words), ["--crate-name", "a", "src/lib.rs", "-L", "y"]);
    }
}
