//! `backup --stdin-from-command`: only a command that succeeds makes a snapshot.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::sandbox::{Run, Sandbox, run};

fn save(sandbox: &Sandbox, words: &[&str]) -> Run {
    let begin = ["backup", "--stdin-filename", "shop.sql", "--stdin-from-command", "--"];
    sandbox.run([&begin[..], words].concat())
}

#[track_caller]
fn require_no_snapshot(sandbox: &Sandbox) {
    assert_eq!(sandbox.json(["snapshots"]).len(), 0, "no snapshot");
    sandbox.run(["check"]).ended(0, &["No problems found"]);
}

#[test]
fn output_of_successful_command_is_saved() {
    let sandbox = Sandbox::with_repository();
    // Without a shell, a space and a dollar sign have no special meaning.
    save(&sandbox, &["printf", "%s", "a $HOME  b"]).ended(0, &["Created snapshot"]);
    let saved = sandbox.run(["cat", "latest:/shop.sql"]).well();
    assert_eq!(saved.text(), "a $HOME  b", "the output of the command");
    // The standard error of the command is shown.
    let said = "echo careful >&2; echo data";
    save(&sandbox, &["sh", "-c", said]).ended(0, &["warning: sh: careful", "Created snapshot"]);
    // The command closes its output before it succeeds.
    save(&sandbox, &["sh", "-c", "echo early; exec >&-; sleep 0.5"])
        .ended(0, &["Created snapshot"]);
    assert_eq!(sandbox.run(["cat", "latest:/shop.sql"]).well().text(), "early\n", "all of it");
}

#[test]
fn failing_command_makes_no_snapshot() {
    let sandbox = Sandbox::with_repository();
    let failing = "seq 200000; for i in $(seq 50); do echo row $i is bad >&2; done; exit 3";
    let run = save(&sandbox, &["sh", "-c", failing]).ended(
        2,
        &["exited with status 3", "no snapshot", "sh: row 31 is bad", "sh: row 50 is bad"],
    );
    assert!(!run.stderr.contains("row 30 is bad"), "the last lines only: {}", run.stderr);
    require_no_snapshot(&sandbox);
    // The command fails after it has closed its output.
    save(&sandbox, &["sh", "-c", "echo data; exec >&-; sleep 0.5; exit 4"])
        .ended(2, &["exited with status 4"]);
    save(&sandbox, &["sh", "-c", "seq 200000; kill -KILL $$"])
        .ended(2, &["ended by signal 9", "no snapshot"]);
    save(&sandbox, &["no-such-program", "shop"])
        .ended(2, &["no-such-program: not found", "bash -o pipefail -c"]);
    save(&sandbox, &[]).ended(2, &["--stdin-from-command: no command given", "after `--`"]);
    // A program of a pipe fails.
    let pipe = ["bash", "-o", "pipefail", "-c", "(echo data; exit 5) | cat"];
    save(&sandbox, &pipe).ended(2, &["exited with status 5"]);
    require_no_snapshot(&sandbox);
    sandbox.run(["backup", "--stdin", "--stdin-from-command", "--", "true"]).ended(2, &[]);
    for name in ["", "..", "a/b"] {
        let words = ["backup", "--stdin-filename", name, "--stdin-from-command", "--", "true"];
        sandbox.run(words).ended(2, &["--stdin-filename", "is not the name of a file"]);
    }
}

/// Returns `true` if the process with this id runs. A process that has ended and is not reaped does
/// not run.
fn is_running(id: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

#[track_caller]
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        sleep(Duration::from_millis(20));
    }
}

/// Checks that the command ends with the backup, even if it ignores SIGTERM or consists of a pipe.
/// `count` signals end the backup.
#[track_caller]
fn require_end_with_backup(sandbox: &Sandbox, words: &[&str], count: usize) {
    fs::remove_file(sandbox.path("pid")).ok();
    let begin = ["backup", "--stdin-from-command", "--"];
    let mut child = sandbox
        .command([&begin[..], words].concat())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    let read = || fs::read_to_string(sandbox.path("pid")).unwrap_or_default();
    wait_for("the command starts", || read().ends_with('\n'));
    let id = read().trim().to_owned();
    assert!(is_running(&id), "the command runs");
    for number in 0..count {
        sleep(Duration::from_millis(200 * number.min(1) as u64));
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the signal is sent");
    }
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{words:?}");
    // The delivery of a signal takes time.
    let began = Instant::now();
    while is_running(&id) {
        assert!(began.elapsed() < Duration::from_secs(5), "the command has ended: {words:?}");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn interrupted_backup_ends_its_command_and_its_children() {
    const STUBBORN: &str = "trap '' TERM; while :; do sleep 1; done";
    let sandbox = Sandbox::with_repository();
    let alone = format!("echo $$ > pid; {STUBBORN}");
    let piped = format!("(echo $BASHPID > pid; {STUBBORN}) | cat");
    let patient = "(echo $BASHPID > pid; exec sleep 1000) | cat";
    require_end_with_backup(&sandbox, &["sh", "-c", "echo $$ > pid; exec sleep 1000"], 1);
    require_end_with_backup(&sandbox, &["sh", "-c", &alone], 1);
    require_end_with_backup(&sandbox, &["bash", "-o", "pipefail", "-c", patient], 1);
    require_end_with_backup(&sandbox, &["bash", "-o", "pipefail", "-c", &piped], 1);
    require_end_with_backup(&sandbox, &["bash", "-o", "pipefail", "-c", &piped], 2);
    require_no_snapshot(&sandbox);
}

/// One program of a pipe fails, and the other one must not continue.
#[test]
fn failing_command_leaves_nothing_running() {
    let sandbox = Sandbox::with_repository();
    let script = "sleep 1000 >&- 2>&- & echo $! > pid; echo data; exit 3";
    save(&sandbox, &["bash", "-c", script]).ended(2, &["exited with status 3"]);
    let id = fs::read_to_string(sandbox.path("pid")).expect("it was started");
    assert!(!is_running(id.trim()), "it has ended");
    require_no_snapshot(&sandbox);
}

/// Only the foreground process group of a terminal may read it. A command that tries is stopped,
/// and would never end.
#[test]
fn command_stopped_at_the_terminal_fails() {
    let sandbox = Sandbox::with_repository();
    for signal in ["TTIN", "TTOU"] {
        let script = format!("echo data; kill -s {signal} $$; echo more");
        save(&sandbox, &["sh", "-c", &script]).ended(2, &["terminal", "no snapshot was created"]);
    }
    save(&sandbox, &["sh", "-c", "cat; echo data"]).ended(0, &["Created snapshot"]);
    assert_eq!(sandbox.run(["cat", "latest:/shop.sql"]).well().text(), "data\n", "no input");
}

/// The command does not get the secrets of this program, and messages do not contain those of the
/// command.
#[test]
fn secrets_are_hidden_from_the_command_and_from_messages() {
    let sandbox = Sandbox::new();
    let secret = |arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        command.env("CUTPOINT_PASSPHRASE", "open sesame").env("CUTPOINT_NEW_PASSPHRASE", "another");
        command.env("PGPASSWORD", "of the command");
        run(&mut command)
    };
    secret(&["init"]).well();
    let begin = ["backup", "--stdin-from-command", "--"];
    secret(&[&begin[..], &["sh", "-c", "env"]].concat()).well();
    let saved = secret(&["cat", "latest:/stdin"]).well();
    assert!(saved.text().contains("PGPASSWORD=of the command"), "the rest: {}", saved.text());
    assert!(!saved.text().contains("PASSPHRASE"), "{}", saved.text());
    for json in [&[][..], &["--json"]] {
        let command = ["sh", "-c", "exit 3", "--password=hunter2"];
        let failed = [&begin[..1], json, &begin[1..], &command].concat();
        let run = secret(&failed).ended(2, &["command `sh`: exited with status 3"]);
        let said = format!("{}{}", run.stderr, run.text());
        assert!(!said.contains("hunter2"), "{said}");
    }
}
