//! Repositories in remotes of rclone, and on a server of restic's REST protocol.

use std::fs;
use std::process::Command;

use cutpoint_testing::{RcloneServer, rclone_command, services};

use crate::sandbox::{Run, Sandbox, make_source, run};

/// Returns a sandbox; `None` if the tests of services do not run.
fn sandbox() -> Option<Sandbox> {
    services("the tests over rclone").then(Sandbox::new)
}

fn run_at(sandbox: &Sandbox, address: &str, arguments: &[&str]) -> Run {
    let mut command = sandbox.command(arguments);
    command.env("CUTPOINT_REPO", address);
    command.env("CUTPOINT_RCLONE_COMMAND", rclone_command());
    run(&mut command)
}

/// Returns the address of a folder in the sandbox as a remote.
fn remote(sandbox: &Sandbox, folder: &str) -> String {
    format!("rclone:x:{}", sandbox.path(folder).display())
}

fn is_equal(sandbox: &Sandbox, back: &str) {
    let diff = Command::new("diff")
        .args(["-r", "--no-dereference", "--exclude=pipe", "--exclude=socket"])
        .args([sandbox.path("source"), sandbox.path(back)])
        .output()
        .expect("diff runs");
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
}

#[test]
fn backup_over_rclone_is_restored() {
    let Some(sandbox) = sandbox() else { return };
    make_source(&sandbox.path("source"));
    let address = remote(&sandbox, "deep/repo");
    let run = |arguments: &[&str]| -> Run {
        run_at(&sandbox, &address, &[arguments, &["--key-file", "key"]].concat())
    };
    run(&["snapshots"]).ended(10, &["no repository found"]);
    run(&["init"]).ended(0, &["Created repository", "at rclone:x:", "--exclusive"]);
    run(&["init"]).ended(2, &["a repository exists already"]);
    run(&["backup", "source"]).ended(0, &["Created snapshot"]);
    run(&["backup", "source"]).ended(0, &["new 0 B in 0 chunks"]);
    run(&["check", "--read-data"]).ended(0, &["No problems found"]);
    let inner = format!("latest:{}", sandbox.path("source").display());
    run(&["restore", &inner, "--to", "back"]).ended(0, &["Restored"]);
    is_equal(&sandbox, "back");
    // A record that another client puts at the same time would be lost.
    let promise = ["--exclusive", "--yes"];
    for words in [&["hold", "latest"][..], &["hold", "--release", "latest"]] {
        run(words).ended(2, &["does not create objects atomically", "--exclusive makes it"]);
        run(&[words, &promise].concat()).ended(0, &["1 snapshot"]);
        run(words).ended(0, &["1 unchanged"]);
    }
    run(&["forget", "latest"]).ended(0, &[]);
    let undo = ["forget", "--undo", "--last"];
    run(&undo).ended(2, &["does not create objects atomically", "--exclusive makes it"]);
    run(&[&undo[..], &promise].concat()).ended(0, &["Brought back 1 snapshot"]);
    run(&["forget", "latest", "--exclusive"]).ended(2, &["only --undo needs it"]);
    run(&["forget", "--keep-last", "1", "--path", "source"]).ended(0, &[]);
    run(&["prune"]).ended(2, &["--exclusive"]);
    run(&["prune", "--exclusive", "--yes"]).ended(0, &[]);
    run(&["check", "--read-data"]).ended(0, &["No problems found"]);
    // The same folder without rclone.
    let mut local = sandbox.command(["check", "--key-file", "key"]);
    local.env("CUTPOINT_REPO", sandbox.path("deep/repo"));
    crate::sandbox::run(&mut local).ended(0, &["No problems found"]);
    run(&["backup", "source"]).ended(0, &["Created snapshot"]);
    let mut local = sandbox.command(["backup", "source", "--key-file", "key"]);
    local.env("CUTPOINT_REPO", sandbox.path("deep/repo"));
    crate::sandbox::run(&mut local).ended(0, &["Created snapshot"]);
    run(&["check", "--read-data"]).ended(0, &["No problems found"]);
}

#[test]
fn repository_on_a_rest_server_hides_its_password() {
    let Some(sandbox) = sandbox() else { return };
    make_source(&sandbox.path("source"));
    fs::create_dir(sandbox.path("served")).expect("it is made");
    let options = ["--user", "me", "--pass", "secret"];
    let server = RcloneServer::new(&sandbox.path("served"), &options);
    let address = server.address("me:secret@", "a/");
    let run = |address: &str, arguments: &[&str]| {
        let ran = run_at(&sandbox, address, arguments);
        assert!(!ran.text().contains("secret"), "{}", ran.text());
        ran
    };
    run(&address, &["snapshots"]).ended(10, &["rest:http://me:***@127.0.0.1", "no repository"]);
    run(&address, &["init", "--encryption", "none"]).ended(0, &["Created repository"]);
    run(&address, &["init", "--encryption", "none"]).ended(2, &["a repository exists already"]);
    run(&address, &["backup", "source"]).ended(0, &["Created snapshot"]);
    run(&address, &["doctor"]).ended(1, &["holds a repository", "may create one object"]);
    run(&server.address("me:wrong@", "a/"), &["snapshots"]).ended(2, &["401", "password"]);
    let mut command = sandbox.command(["restore", "latest", "--to", "back"]);
    command.env("CUTPOINT_REPO", server.address("", "a/"));
    command.envs([("CUTPOINT_REST_USER", "me"), ("CUTPOINT_REST_PASSWORD", "secret")]);
    crate::sandbox::run(&mut command).ended(0, &["Restored"]);
    run("rest:http://me:secret@127.0.0.1/a/../b", &["snapshots"]).ended(2, &["expected rest:"]);
}

#[test]
fn doctor_says_what_rclone_does_not_promise() {
    let Some(sandbox) = sandbox() else { return };
    let address = remote(&sandbox, "place");
    let doctor = run_at(&sandbox, &address, &["doctor"]);
    let texts = [
        "holds no repository",
        "has no put that fails if the name exists",
        "does not tell whether an object has reached a disk",
        "`cutpoint check --read-data` finds what is lost then",
    ];
    let doctor = doctor.ended(1, &texts);
    assert!(doctor.text().contains("Prune: only with --exclusive"), "{}", doctor.text());
}

/// A server that keeps everything takes backups, and no prune.
#[test]
fn append_only_server_takes_backups_only() {
    let Some(sandbox) = sandbox() else { return };
    make_source(&sandbox.path("source"));
    fs::create_dir(sandbox.path("served")).expect("it is made");
    let server = RcloneServer::new(&sandbox.path("served"), &["--append-only"]);
    let run = |arguments: &[&str]| run_at(&sandbox, &server.address("", ""), arguments);
    run(&["init", "--encryption", "none"]).ended(0, &["Created repository"]);
    run(&["backup", "source"]).ended(0, &["Created snapshot"]);
    run(&["forget", "latest"]).ended(0, &[]);
    run(&["prune", "--exclusive", "--yes"]).ended(2, &["403", "--append-only"]);
    run(&["check", "--read-data"]).ended(0, &["No problems found"]);
}

#[test]
fn rclone_refusals_come_with_a_remedy() {
    let Some(sandbox) = sandbox() else { return };
    let run = |address: &str| run_at(&sandbox, address, &["init", "--encryption", "none"]);
    run("rclone:nosuch:a").ended(2, &["didn't find section", "`rclone listremotes`"]);
    run("rclone:a").ended(2, &["no remote given", "expected rclone:REMOTE:PATH"]);
    fs::create_dir(sandbox.path("of_restic")).expect("it is made");
    fs::write(sandbox.path("of_restic/config"), "x").expect("it is written");
    run(&remote(&sandbox, "of_restic"))
        .ended(2, &["a repository of restic is here", "another path"]);
    let mut command = sandbox.command(["snapshots"]);
    command.env("CUTPOINT_REPO", "rclone:x:a").env("CUTPOINT_RCLONE_COMMAND", "no-such-program");
    crate::sandbox::run(&mut command).ended(2, &["not found", "install rclone"]);
}
