//! Repositories on an OpenSSH server.

use std::fs;
use std::path::Path;
use std::process::Command;

use cutpoint_testing::{SshServer, services};

use crate::sandbox::{Run, Sandbox, make_source, run};

/// A sandbox with a server; `None` if the tests of services do not run.
fn sandbox(options: &str) -> Option<(Sandbox, SshServer)> {
    if !services("the tests over SFTP") {
        return None;
    }
    let sandbox = Sandbox::new();
    let server = SshServer::new(&sandbox.path("server"), options);
    Some((sandbox, server))
}

fn command(sandbox: &Sandbox, server: &SshServer, path: &Path, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(arguments);
    command.env("CUTPOINT_REPO", server.address(path));
    command.env("CUTPOINT_SSH_COMMAND", server.command());
    command
}

#[test]
fn backup_over_sftp_is_restored() {
    let Some((sandbox, server)) = sandbox("") else { return };
    make_source(&sandbox.path("source"));
    let folder = sandbox.path("deep/repo");
    let run = |arguments: &[&str]| -> Run {
        run(&mut command(&sandbox, &server, &folder, &[arguments, &["--key-file", "key"]].concat()))
    };
    run(&["snapshots"]).ended(10, &["no repository found"]);
    run(&["init"]).ended(0, &["Created repository", "at sftp://testserver//"]);
    run(&["init"]).ended(2, &["a repository exists already"]);
    run(&["backup", "source"]).ended(0, &["Created snapshot"]);
    run(&["backup", "source"]).ended(0, &["new 0 B in 0 chunks"]);
    run(&["check", "--read-data"]).ended(0, &["No problems found"]);
    let inner = format!("latest:{}", sandbox.path("source").display());
    run(&["restore", &inner, "--to", "back"]).ended(0, &["Restored"]);
    let diff = Command::new("diff")
        .args(["-r", "--no-dereference", "--exclude=pipe", "--exclude=socket"])
        .args([sandbox.path("source"), sandbox.path("back")])
        .output()
        .expect("diff runs");
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
    run(&["forget", "--keep-last", "1", "--path", "source"]).ended(0, &[]);
    run(&["prune", "--settle", "0s"]).ended(0, &[]);
    run(&["check", "--read-data"]).ended(0, &["No problems found"]);
    // The same folder without the server.
    let mut local = sandbox.command(["check", "--key-file", "key"]);
    local.env("CUTPOINT_REPO", &folder);
    crate::sandbox::run(&mut local).ended(0, &["No problems found"]);
}

#[test]
fn doctor_tests_sftp() {
    let Some((sandbox, server)) = sandbox("") else { return };
    fs::create_dir(sandbox.path("place")).expect("it is made");
    let place = sandbox.path("place");
    let doctor = run(&mut command(&sandbox, &server, &place, &["doctor"]));
    let doctor = doctor.ended(0, &["holds no repository"]);
    assert!(doctor.text().contains("prune while they write: yes"), "{}", doctor.text());
    let missing = sandbox.path("nothing");
    let doctor = run(&mut command(&sandbox, &server, &missing, &["doctor"]));
    doctor.ended(2, &["does not exist on the server", "sftp://HOST//PATH is absolute"]);
}

/// Without extensions, each statement says what follows.
#[test]
fn doctor_says_what_a_server_lacks() {
    let Some((sandbox, server)) = sandbox("-P hardlink,fsync") else { return };
    fs::create_dir(sandbox.path("place")).expect("it is made");
    let place = sandbox.path("place");
    let run = |arguments: &[&str]| run(&mut command(&sandbox, &server, &place, arguments));
    let lost = "`cutpoint check --read-data` finds what is lost then";
    let doctor =
        run(&["doctor"]).ended(1, &["lacks hardlink@openssh.com", "lacks fsync@openssh.com", lost]);
    assert!(doctor.text().contains("Prune: only with --exclusive"), "{}", doctor.text());
    run(&["init", "--encryption", "none"]).ended(0, &["lacks fsync@openssh.com", "--exclusive"]);
    run(&["prune"]).ended(2, &["--exclusive"]);
}

#[test]
fn sftp_refusals_come_with_a_remedy() {
    let Some((sandbox, server)) = sandbox("") else { return };
    let place = sandbox.path("place");
    fs::create_dir(&place).expect("it is made");
    fs::write(place.join("letter"), "x").expect("it is written");
    let run = |arguments: &[&str]| run(&mut command(&sandbox, &server, &place, arguments));
    run(&["init", "--encryption", "none"]).ended(2, &["found letter", "choose a folder"]);
    run(&["init", "--shared", "--encryption", "none"])
        .ended(2, &["--shared applies only to folders"]);
    server.know_none();
    run(&["snapshots"]).ended(2, &["Host key verification failed", "compare the fingerprint"]);
}
