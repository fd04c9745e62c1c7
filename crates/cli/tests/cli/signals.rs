//! A signal ends every wait.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cutpoint_storage::stop::{PUBLISHING_MAX, STORING_MAX};
use cutpoint_testing::SplitMix64;

use crate::rollback::copy;
use crate::sandbox::{Sandbox, make_source};
use crate::untrusted::{Lie, Server, over_s3};

/// The maximum time from a signal to the end of a command.
const LIMIT: Duration = Duration::from_secs(2);

/// Returns the address of a server that accepts connections and never answers.
fn silent_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("it listens"));
    // The server runs until the process ends.
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            open.push(stream);
        }
    });
    address
}

fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "SIG{signal} is sent");
}

/// Waits for the end. Returns the exit code, the standard error, and the time until the end.
fn end(child: &mut Child, what: &str) -> (Option<i32>, String, Duration) {
    end_within(child, what, 5 * LIMIT)
}

/// Waits for the end within `limit`, after which the process is killed. Returns the same as
/// [`end`].
fn end_within(child: &mut Child, what: &str, limit: Duration) -> (Option<i32>, String, Duration) {
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is asked") {
            break status;
        }
        if began.elapsed() > limit {
            child.kill().ok();
            panic!("{what}: the signal does not end it");
        }
        sleep(Duration::from_millis(5));
    };
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    (status.code(), said, began.elapsed())
}

/// Runs every command that reaches a storage, up to its first wait.
#[test]
fn signal_ends_the_wait_for_a_server() {
    const COMMANDS: &[&[&str]] = &[
        &["init", "--encryption", "none"],
        &["config"],
        &["backup", "source"],
        &["restore", "latest", "--to", "back"],
        &["snapshots"],
        &["forget", "latest"],
        &["copy", "--from", "s3://bucket/y"],
        &["rewrite", "--exclude", "x"],
        &["prune"],
        &["optimize"],
        &["hold", "latest"],
        &["tag", "latest", "--add", "x"],
        &["ls", "latest"],
        &["cat", "latest:/x"],
        &["dump", "latest:/x"],
        &["stats"],
        &["check"],
        &["doctor"],
        &["repair", "index"],
        &["key", "list"],
        &["key", "add"],
        &["debug", "--list"],
    ];
    let address = silent_server();
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("source")).expect("made");
    let start = |arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        command
            .env("CUTPOINT_REPO", "s3://bucket/x")
            .env("AWS_ENDPOINT_URL", &address)
            .env("AWS_ACCESS_KEY_ID", "a")
            .env("AWS_SECRET_ACCESS_KEY", "b")
            .env("CUTPOINT_PASSPHRASE", "a passphrase")
            .env("CUTPOINT_NEW_PASSPHRASE", "another")
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.spawn().expect("the program starts")
    };
    let mut children: Vec<Child> = COMMANDS.iter().map(|arguments| start(arguments)).collect();
    sleep(Duration::from_secs(3));
    for (number, (child, arguments)) in children.iter_mut().zip(COMMANDS).enumerate() {
        let what = arguments.join(" ");
        if child.try_wait().expect("it is asked").is_some() {
            let (code, said, _) = end(child, &what);
            panic!("{what} waits for no server: {code:?}, {said}");
        }
        send(if number % 2 == 0 { "INT" } else { "TERM" }, child);
        let (code, said, elapsed) = end(child, &what);
        assert_eq!(code, Some(130), "{what}: {said}");
        let is_named = said.contains(&format!("cutpoint: {}", arguments[0]));
        assert!(is_named && said.contains(": interrupted\n"), "{what}: {said}");
        assert!(said.contains("run the same command again"), "{what}: {said}");
        // Only a backup and a copy reuse what they have stored.
        let is_backup = matches!(arguments.first(), Some(&"backup" | &"copy"));
        assert_eq!(said.contains("is reused"), is_backup, "{what}: {said}");
        assert!(elapsed < LIMIT, "{what} takes {elapsed:?}");
    }
}

/// `prune --wait` waits for a backup to end, and the signal comes first.
#[test]
fn signal_ends_the_wait_for_another_client() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    sandbox.run(["forget", "latest"]).well();
    let mut writer = sandbox
        .command(["backup", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    sleep(Duration::from_millis(700));
    let mut pruner = sandbox
        .command(["prune", "--wait", "--settle", "0s"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    sleep(Duration::from_secs(2));
    assert!(pruner.try_wait().expect("it is asked").is_none(), "the prune waits");
    send("TERM", &pruner);
    let (code, said, elapsed) = end(&mut pruner, "prune --wait");
    assert_eq!(code, Some(130), "{said}");
    let reason = "can be deleted once these clients have ended, at the latest about ";
    assert!(said.contains(reason), "the reason is told at once, in a pipe, too: {said}");
    assert!(elapsed < LIMIT, "{elapsed:?}");
    send("INT", &writer);
    let (code, said, _) = end(&mut writer, "backup");
    assert_eq!(code, Some(130), "{said}");
}

/// Commands over a storage that falls silent.
struct SilentCommands {
    sandbox: Sandbox,
    count: usize,
}

/// A command that waits for a silent storage.
struct Waiting {
    what: String,
    child: Child,
}

impl SilentCommands {
    /// Creates a repository with two snapshots, one of them forgotten, so that a container is
    /// partly in use.
    fn new() -> SilentCommands {
        let sandbox = Sandbox::with_repository();
        make_source(&sandbox.path("source"));
        let gone = sandbox.path("source/gone");
        std::fs::write(&gone, SplitMix64::bytes(2, 600_000)).expect("written");
        let first = sandbox.backup("source");
        std::fs::remove_file(gone).expect("removed");
        sandbox.backup("source");
        sandbox.run(["forget", &first]).well();
        std::fs::write(sandbox.path("source/new"), SplitMix64::bytes(3, 900_000)).expect("written");
        SilentCommands { sandbox, count: 0 }
    }

    /// Starts a command over a copy of the repository, and waits until the storage falls silent.
    fn start(&mut self, arguments: &[&str], method: &'static str, folder: &'static str) -> Waiting {
        self.start_by(arguments, Lie::Silent { method, folder, is_half: false })
    }

    fn start_by(&mut self, arguments: &[&str], lie: Lie) -> Waiting {
        self.count += 1;
        let repository = self.sandbox.path(format!("repo-{}", self.count));
        copy(&self.sandbox.path("repo"), &repository);
        let server = Server::start(repository.clone(), repository, lie);
        let mut command = over_s3(&self.sandbox, &server, arguments);
        command.env("HOME", self.sandbox.path(format!("home-{}", self.count)));
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let what = format!("{} ({lie:?})", arguments.join(" "));
        let mut child = child.expect("the program starts");
        let began = Instant::now();
        while !server.is_silent() {
            if child.try_wait().expect("it is asked").is_some() {
                let (code, said, _) = end(&mut child, &what);
                panic!("{what}: asks for none of that: {code:?}, {said}");
            }
            assert!(began.elapsed() < Duration::from_secs(30), "{what}: asks for none of that");
            sleep(Duration::from_millis(5));
        }
        Waiting { what, child }
    }
}

impl Waiting {
    /// Sends a signal, and checks that the command ends within `limit`.
    fn ends_within(mut self, limit: Duration) {
        assert!(self.child.try_wait().expect("it is asked").is_none(), "{}: it waits", self.what);
        send("INT", &self.child);
        let (code, said, elapsed) = end_within(&mut self.child, &self.what, limit + 5 * LIMIT);
        assert_eq!(code, Some(130), "{}: {said}", self.what);
        assert!(elapsed < limit, "{} takes {elapsed:?}", self.what);
        println!("{}: ended after {elapsed:?}", self.what);
    }
}

const PRUNE: [&str; 3] = ["prune", "--unused-max", "0%"];

/// In the middle of a command, the storage sends nothing more, or half of what was requested. All
/// other requests are answered, so stored data is published.
#[test]
fn signal_ends_the_wait_for_a_silent_storage() {
    let mut silenced = SilentCommands::new();
    for is_half in [false, true] {
        for (arguments, folder) in [
            (&["check"][..], "meta/"),
            (&["check", "--read-data"], "data/"),
            (&["restore", "latest", "--to", "back"], "data/"),
            (&["backup", "source"], "meta/"),
            (&["rewrite", "--exclude", "big"], "meta/"),
            (&PRUNE, "meta/"),
        ] {
            let lie = Lie::Silent { method: "GET", folder, is_half };
            silenced.start_by(arguments, lie).ends_within(LIMIT);
            std::fs::remove_dir_all(silenced.sandbox.path("back")).ok();
        }
    }
    silenced.start(&PRUNE, "PUT", "data/").ends_within(LIMIT);
    let exclusive = [&PRUNE[..], &["--exclusive", "--yes"]].concat();
    silenced.start(&exclusive, "DELETE", "data/").ends_within(LIMIT);
}

/// Storing and publishing get more time, but not after a second signal.
#[test]
fn second_signal_ends_publishing_at_once() {
    let mut silenced = SilentCommands::new();
    let mut waiting = [
        silenced.start(&["backup", "source"], "PUT", "data/"),
        silenced.start(&["backup", "source"], "PUT", "commits/"),
        silenced.start(&PRUNE, "PUT", "prunes/"),
    ];
    waiting.iter().for_each(|each| send("INT", &each.child));
    sleep(LIMIT);
    for Waiting { what, child } in &mut waiting {
        assert!(child.try_wait().expect("it is asked").is_none(), "{what}: it has its time");
        send("INT", child);
        let (code, said, elapsed) = end(child, what);
        assert_eq!(code, Some(130), "{what}: {said}");
        assert!(elapsed < Duration::from_secs(1), "{what} takes {elapsed:?}");
    }
}

/// The time limits for the storing of a backup and the publishing of any command count from the
/// signal on.
#[test]
#[ignore = "waits for 30 s: `cargo test -p cutpoint --test cli publishing -- --ignored --nocapture`"]
fn storing_and_publishing_end_within_their_limits() {
    let mut silenced = SilentCommands::new();
    let waiting = [
        (silenced.start(&["backup", "source"], "PUT", "data/"), STORING_MAX),
        (silenced.start(&["backup", "source"], "PUT", "commits/"), PUBLISHING_MAX),
        (silenced.start(&PRUNE, "PUT", "prunes/"), PUBLISHING_MAX),
    ];
    std::thread::scope(|scope| {
        for (each, limit) in waiting {
            scope.spawn(move || each.ends_within(limit + LIMIT));
        }
    });
}
