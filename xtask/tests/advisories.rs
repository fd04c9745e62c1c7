//! `cargo xtask advisories` with a substitute for cargo.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

/// Runs `cargo xtask WORDS` with a cargo that runs the lines `script` of sh.
fn xtask(words: &[&str], script: &str) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cargo = folder.path().join("cargo");
    std::fs::write(&cargo, format!("#!/bin/sh\n{script}\n")).expect("written");
    std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).expect("permissions");
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(words).env("CARGO", cargo).output().expect("xtask runs")
}

#[test]
fn advisories_that_cannot_be_checked_are_a_failure() {
    for (script, problem) in [
        ("echo 'no such command: deny' >&2; exit 101", "cargo-deny: cannot be run"),
        ("[ \"$2\" = --version ] || exit 1", "the database of advisories: cannot be fetched"),
        ("[ \"$2\" = --version ] || [ \"$2\" = fetch ] || exit 4", "exit status: 4"),
    ] {
        let output = xtask(&["advisories"], script);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{script}: {stderr}");
        assert!(stderr.contains(problem), "{script}: {stderr}");
    }
    let output = xtask(&["advisories"], "exit 0");
    assert_eq!(output.status.code(), Some(0), "cargo-deny has found nothing");
}

#[test]
fn release_check_has_the_advisories() {
    let cargo = env!("CARGO");
    let script = format!("case $1 in deny) exit 101;; metadata) exec '{cargo}' \"$@\";; esac");
    let output = xtask(&["release-check"], &script);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("advisories: FAILED"), "{stderr}");
}
