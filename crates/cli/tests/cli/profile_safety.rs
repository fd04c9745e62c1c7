//! Runs of profiles that meet signals, secrets, and files of others.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::keeping::{read, sandbox, write_profile};
use crate::sandbox::{Sandbox, run};

#[test]
fn commands_of_a_run_get_no_secret_of_this_program() {
    let more = "passphrase-command = \"env > @/command; echo open sesame\"\n\
        [hooks]\nbefore = \"env > @/before\"";
    let sandbox = sandbox(more);
    fs::remove_dir_all(sandbox.path("repo")).expect("removed");
    let secrets = ["PASSPHRASE", "NEW_PASSPHRASE", "FROM_PASSPHRASE", "REST_PASSWORD"];
    let secrets = secrets.iter().chain(&["FROM_REST_PASSWORD"]);
    let with_secrets = |arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        command.envs(secrets.clone().map(|name| (format!("CUTPOINT_{name}"), "xyzzy")));
        command.env("AWS_SECRET_ACCESS_KEY", "of another program");
        command
    };
    let mut init = with_secrets(&["init"]);
    run(init.env("CUTPOINT_PASSPHRASE", "open sesame")).well();
    run(&mut with_secrets(&["run", "home"])).well();
    for name in ["command", "before"] {
        let variables = read(&sandbox.path(name));
        assert!(!variables.contains("xyzzy"), "{name}: {variables}");
        assert!(variables.contains("AWS_SECRET_ACCESS_KEY"), "{name}: the rest: {variables}");
    }
}

#[test]
fn profile_with_a_password_is_refused_and_does_not_show_it() {
    let sandbox = sandbox("");
    let file = write_profile(&sandbox, "home", "");
    let text = read(&file).replace(
        &format!("\"{}\"", sandbox.path("repo").display()),
        "\"rest:http://me:xyzzy@127.0.0.1:1/a/\"",
    );
    fs::write(&file, &text).expect("written");
    let paths = ["report.json", "metrics.prom"].map(|name| sandbox.path(name));
    let mut command = sandbox.command(["run", "home", "--report"]);
    command.arg(&paths[0]).arg("--metrics").arg(&paths[1]);
    let refused = run(&mut command);
    let texts = ["home.toml: line 1: repository: rest:http://me:***@127", "CUTPOINT_REST_PASSWORD"];
    assert!(!refused.text().contains("xyzzy") && !refused.stderr.contains("xyzzy"));
    refused.ended(2, &texts);
    for path in &paths {
        assert!(!read(path).contains("xyzzy"), "{}", read(path));
    }
    let listed = sandbox.run(["run"]).ended(1, &["has a password"]);
    assert!(!listed.text().contains("xyzzy") && !listed.stderr.contains("xyzzy"));
    // The parameters of a remote that is described are not shown either, but are no password.
    fs::write(&file, text.replace("rest:http://me:xyzzy@127.0.0.1:1/a/", "rclone::x,p=xyzzy:a"))
        .expect("written");
    let mut command = sandbox.command(["run", "home", "--json", "--report"]);
    command.arg(&paths[0]).arg("--metrics").arg(&paths[1]);
    command.env("CUTPOINT_RCLONE_COMMAND", "no-such-program");
    let failed = run(&mut command).ended(2, &[]);
    let shown = format!("{}{}{}{}", failed.text(), failed.stderr, read(&paths[0]), read(&paths[1]));
    assert!(shown.contains("rclone::x,***:a") && !shown.contains("xyzzy"), "{shown}");
    let listed = sandbox.run(["run"]).well();
    assert!(listed.text().contains("rclone::x,***:a"), "{}", listed.text());
}

/// Waits until a file exists.
fn wait_for(path: &Path) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(Instant::now() < limit, "{} does not appear", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a run in a process group of its own, as a shell does at a terminal.
fn start_group(sandbox: &Sandbox) -> std::process::Child {
    use std::os::unix::process::CommandExt;
    sandbox.command(["run", "home"]).process_group(0).spawn().expect("it starts")
}

fn signal_group(signal: &str, child: &std::process::Child) {
    let group = format!("-{}", child.id());
    let sent = Command::new("kill").args(["-s", signal, "--", &group]).status();
    assert!(sent.is_ok_and(|status| status.success()), "the signal is sent");
}

/// All processes of a hook end with it, and the run says why.
#[test]
fn signal_during_before_ends_the_hook_and_its_processes() {
    let sandbox = sandbox(
        "[hooks]\nbefore = \"(sleep 300; touch @/late) & echo $! > @/pid; touch @/begun; wait\"\n\
         on-failure = \"echo $CUTPOINT_EXIT_CODE > @/failed\"",
    );
    for signal in ["TERM", "INT"] {
        let mut child = start_group(&sandbox);
        wait_for(&sandbox.path("begun"));
        let started = Instant::now();
        signal_group(signal, &child);
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{signal}");
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        assert_eq!(read(&sandbox.path("failed")), "130\n", "{signal}: on-failure is executed");
        let process = Path::new("/proc").join(read(&sandbox.path("pid")).trim()).join("cmdline");
        let is_gone = |process: &Path| fs::read(process).map_or(true, |it| it.is_empty());
        assert!(is_gone(&process), "{signal}: the child of the hook has ended");
        for name in ["begun", "failed", "pid"] {
            fs::remove_file(sandbox.path(name)).expect("removed");
        }
    }
    assert_eq!(sandbox.json(["snapshots"]).len(), 0, "nothing was saved");
}

/// Ctrl-C reaches the run, not the hook that cleans up.
#[test]
fn interrupt_during_after_lets_it_finish() {
    let sandbox = sandbox("[hooks]\nafter = \"touch @/begun; sleep 1; touch @/finished\"");
    let mut child = start_group(&sandbox);
    wait_for(&sandbox.path("begun"));
    signal_group("INT", &child);
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "everything was done");
    assert!(sandbox.path("finished").exists(), "the hook has finished");
    // The second signal ends the hook, too.
    fs::remove_file(sandbox.path("begun")).expect("removed");
    fs::remove_file(sandbox.path("finished")).expect("removed");
    write_profile(
        &sandbox,
        "home",
        "[hooks]\nafter = \"touch @/begun; sleep 5; touch @/finished\"",
    );
    let mut child = start_group(&sandbox);
    wait_for(&sandbox.path("begun"));
    signal_group("INT", &child);
    std::thread::sleep(Duration::from_millis(300));
    signal_group("INT", &child);
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "at once");
    std::thread::sleep(Duration::from_secs(6));
    assert!(!sandbox.path("finished").exists(), "the hook has ended");
}

/// A hook that succeeds in spite of the signal does not make the run a success.
#[test]
fn signal_during_before_skips_the_rest() {
    let sandbox = sandbox(
        "[hooks]\nbefore = \"trap 'exit 0' TERM; touch @/begun; while true; do sleep 0.1; done\"\n\
         on-failure = \"touch @/failed\"",
    );
    let mut child = start_group(&sandbox);
    wait_for(&sandbox.path("begun"));
    signal_group("TERM", &child);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(sandbox.path("failed").exists(), "on-failure is executed");
    assert_eq!(sandbox.json(["snapshots"]).len(), 0, "nothing was saved");
}

/// A profile names commands, so that others must not be able to replace it.
#[test]
fn profile_that_others_can_replace_is_refused() {
    let sandbox = sandbox("");
    let folder = sandbox.path("home/.config/cutpoint");
    let set = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("set");
    set(0o777);
    sandbox.run(["run", "home"]).ended(2, &["other users can write to it (mode 0777)", "chmod"]);
    set(0o1777);
    sandbox.run(["run", "home"]).well();
    set(0o755);
    // The file that a link leads to counts as well.
    fs::create_dir(sandbox.path("shared")).expect("made");
    fs::rename(folder.join("home.toml"), sandbox.path("shared/real.toml")).expect("moved");
    symlink(sandbox.path("shared/real.toml"), folder.join("home.toml")).expect("a link");
    sandbox.run(["run", "home"]).well();
    let shared = sandbox.path("shared");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o775)).expect("set");
    sandbox.run(["run", "home"]).ended(2, &["shared: other users can write to it (mode 0775)"]);
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).expect("set");
    // Only root can give a file away.
    if std::os::unix::fs::chown(shared.join("real.toml"), Some(65534), None).is_ok() {
        sandbox.run(["run", "home"]).ended(2, &["home.toml: belongs to another user", "65534"]);
    }
}

#[test]
fn pipe_with_the_name_of_a_profile_is_refused() {
    let sandbox = sandbox("");
    let pipe = sandbox.path("home/.config/cutpoint/pipe.toml");
    let made = Command::new("mkfifo").arg("-m").arg("644").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()), "it is made");
    sandbox.run(["run", "pipe"]).ended(2, &["pipe.toml: not a file"]);
    let listed = sandbox.run(["run"]).ended(1, &["not a file"]);
    assert!(listed.text().contains("home"), "{}", listed.text());
}

#[test]
fn options_without_effect_are_refused() {
    let sandbox = sandbox("");
    for option in [
        ["--s3-endpoint", "http://127.0.0.1:1"],
        ["--s3-region", "x"],
        ["--ssh-command", "false"],
        ["--rclone-command", "false"],
        ["--kdf-limit", "3"],
    ] {
        let run = sandbox.run([&["run", "home"][..], &option].concat());
        run.ended(2, &[option[0], "cannot be used with a profile"]);
    }
    // Variables are for all commands.
    let mut command = sandbox.command(["run", "home"]);
    run(command.env("CUTPOINT_SSH_COMMAND", "ssh -4")).well();
}

#[test]
fn report_replaces_only_reports() {
    let sandbox = sandbox("");
    let diary = sandbox.path("diary");
    fs::write(&diary, "dear diary").expect("written");
    let with = |options: &[&str]| {
        let mut command = sandbox.command(["run", "home"]);
        for option in options {
            command.arg(option).arg(&diary);
        }
        run(&mut command)
    };
    with(&["--report"]).ended(1, &["the file is not a report of a run"]);
    assert_eq!(read(&diary), "dear diary", "kept");
    with(&["--report", "--metrics"]).ended(2, &["the same file", "name two files"]);
    fs::write(&diary, "").expect("emptied");
    with(&["--report"]).well();
    with(&["--report"]).well();
    write_profile(&sandbox, "home", "report = \"@/x\"\nmetrics = \"@/x\"");
    sandbox.run(["run", "home"]).ended(2, &["line 4: metrics: the file is that of report"]);
}
