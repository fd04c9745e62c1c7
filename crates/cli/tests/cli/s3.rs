//! Repositories in an object storage, on a server that is built and started here (`S3Server`).

use std::fs;
use std::path::Path;
use std::process::Command;

use cutpoint_testing::S3Server;

use crate::sandbox::{Run, Sandbox, make_source, run};

fn server() -> Option<&'static S3Server> {
    S3Server::shared(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

/// Returns a command with a repository in the bucket, below `prefix`.
fn command(sandbox: &Sandbox, server: &S3Server, prefix: &str, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(arguments);
    command.env("CUTPOINT_REPO", format!("s3://{}/{prefix}", server.bucket));
    command.envs(server.variables());
    command
}

#[test]
fn backup_over_s3_is_restored() {
    let Some(server) = server() else { return };
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    // Two repositories that are independent of each other.
    for prefix in ["round/trip", "round/trip2"] {
        let run =
            |arguments: &[&str]| -> Run { run(&mut command(&sandbox, server, prefix, arguments)) };
        run(&["snapshots"]).ended(10, &["no repository found"]);
        let key = format!("{}.key", prefix.replace('/', "-"));
        let with_key = |arguments: &[&str]| run(&[arguments, &["--key-file", &key]].concat());
        with_key(&["init"]).ended(0, &["Created repository"]);
        with_key(&["init"]).ended(2, &["a repository exists already"]);
        with_key(&["backup", "source"]).ended(0, &["Created snapshot"]);
        with_key(&["backup", "source"]).ended(0, &["new 0 B in 0 chunks"]);
        with_key(&["check", "--read-data"]).ended(0, &["No problems found"]);
        let snapshots = with_key(&["snapshots", "--json"]).events();
        assert_eq!(snapshots.len(), 2, "both snapshots are listed");
        let inner = format!("latest:{}", sandbox.path("source").display());
        let to = format!("back-{}", prefix.replace('/', "-"));
        with_key(&["restore", &inner, "--to", &to]).ended(0, &["Restored"]);
        // A pipe has no content to compare.
        let diff = Command::new("diff")
            .args(["-r", "--no-dereference", "--exclude=pipe", "--exclude=socket"])
            .args([sandbox.path("source"), sandbox.path(&to)])
            .output()
            .expect("diff runs");
        assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
    }
}

/// Refusals are reported at once, with a remedy.
#[test]
fn refusals_come_with_a_remedy() {
    let Some(server) = server() else { return };
    let sandbox = Sandbox::new();
    let run = |change: &dyn Fn(&mut Command), arguments: &[&str], texts: &[&str]| {
        let mut command = command(&sandbox, server, "refused", arguments);
        change(&mut command);
        let began = std::time::Instant::now();
        run(&mut command).ended(2, texts);
        assert!(began.elapsed().as_secs() < 15, "{texts:?} takes {:?}", began.elapsed());
    };
    let set = |name: &'static str, value: &'static str| {
        move |command: &mut Command| {
            command.env(name, value);
        }
    };
    let keys = "check AWS_ACCESS_KEY_ID";
    let wrong_secret = set("AWS_SECRET_ACCESS_KEY", "wrong");
    run(&wrong_secret, &["snapshots"], &["403 SignatureDoesNotMatch", "attempt 1", keys]);
    run(&set("AWS_ACCESS_KEY_ID", "nobody"), &["init", "--encryption", "none"], &[keys]);
    run(&set("AWS_REGION", "eu-north-1"), &["snapshots"], &["use --s3-region us-east-1"]);
    let nobody = ["snapshots", "--s3-endpoint", "http://127.0.0.1:1"];
    run(&|_| {}, &nobody, &["refused", "check --s3-endpoint"]);
    let other = set("CUTPOINT_REPO", "s3://no-such-bucket/x");
    for arguments in [&["snapshots"][..], &["init", "--encryption", "none"], &["doctor"]] {
        run(&other, arguments, &["NoSuchBucket", "create the bucket first"]);
    }
    run(&set("AWS_PROFILE", "nobody"), &["snapshots"], &["profile nobody: not found"]);
}

/// Keys and address can also come from the shared files.
#[test]
fn profile_provides_keys_and_address() {
    let Some(server) = server() else { return };
    let sandbox = Sandbox::new();
    let folder = sandbox.path("home/.aws");
    fs::create_dir_all(&folder).expect("it is made");
    let credentials = format!(
        "[default]\naws_access_key_id = wrong\naws_secret_access_key = wrong\n\n[disk]\n\
         aws_access_key_id = {}\naws_secret_access_key = {}\n",
        server.access_key, server.secret_key
    );
    fs::write(folder.join("credentials"), credentials).expect("it is written");
    let config =
        format!("[profile disk]\nregion = us-east-1\nendpoint_url = {}\n", server.endpoint);
    fs::write(folder.join("config"), config).expect("it is written");
    let mut command = sandbox.command(["init", "--encryption", "none"]);
    command.env("CUTPOINT_REPO", "s3://bucket/profile").env("AWS_PROFILE", "disk");
    run(&mut command).ended(0, &["Created repository"]);
}

/// A storage that emulates creates by a lookup before each put, so that several creators succeed.
/// Everything but deletion works there, and the settings record the restriction until a probe finds
/// otherwise.
#[test]
fn storage_without_atomic_creates_is_reported() {
    let Some(server) = server() else { return };
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    let emulated = |arguments: &[&str]| {
        let mut command = command(&sandbox, server, "emulated", arguments);
        command.env("AWS_CONDITIONAL_PUT", "disabled");
        run(&mut command)
    };
    let doctor =
        emulated(&["doctor"]).ended(1, &["not created atomically", "reported that they created"]);
    assert!(doctor.text().contains("only with --exclusive"), "{}", doctor.text());
    let warning = ["does not create objects atomically", "prune requires --exclusive"];
    emulated(&["init", "--encryption", "none"]).ended(0, &warning);
    let atomic = |events: Vec<serde_json::Value>| {
        let setting = events.into_iter().find(|event| event["name"] == "creates_atomically");
        setting.expect("the setting is shown")["value"].clone()
    };
    assert_eq!(atomic(emulated(&["config", "--json"]).events()), false, "it is noted");
    emulated(&["backup", "source"]).ended(0, &["Created snapshot"]);
    emulated(&["check", "--read-data"]).ended(0, &["No problems found"]);
    // The same bucket, used by a client with conditional puts.
    let mut probe = command(&sandbox, server, "emulated", &["config", "--probe", "--json"]);
    assert_eq!(atomic(run(&mut probe).events()), true, "it was moved to a better place");
}

/// The first writer whose listings may lag is a check that records damage.
#[test]
fn check_tells_why_and_until_when_it_waits_for_lagging_listings() {
    let Some(server) = server() else { return };
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    let emulated = |arguments: &[&str], lag_s: &str| {
        let mut command = command(&sandbox, server, "lagging", arguments);
        command.env("AWS_CONDITIONAL_PUT", "disabled").env("CUTPOINT_TEST_LAG_S", lag_s);
        run(&mut command)
    };
    emulated(&["init", "--encryption", "none"], "0").ended(0, &[]);
    emulated(&["backup", "source"], "0").ended(0, &[]);
    let folder = server.bucket_folder.join("lagging");
    let unmark = || {
        for mark in ["lagging", "lagging.1"] {
            fs::remove_file(folder.join("tickets").join(mark)).expect("the mark is there");
        }
    };
    for parent in fs::read_dir(folder.join("data")).expect("a folder") {
        for container in fs::read_dir(parent.expect("an entry").path()).expect("a folder") {
            let path = container.expect("an entry").path();
            let mut bytes = fs::read(&path).expect("it is read");
            bytes[100] ^= 1;
            fs::write(&path, bytes).expect("it is written");
        }
    }
    unmark();
    let check = emulated(&["check", "--read-data"], "2");
    let told = ["Waiting until 20", " at the latest: listings of ", "may lag behind"];
    check.ended(1, &told).ended(1, &["The damage is recorded"]);
    unmark();
    let events = emulated(&["backup", "source", "--json"], "2").events();
    let waits: Vec<_> = events.iter().filter(|event| event["type"] == "waiting").collect();
    assert_eq!(waits.len(), 1, "{events:?}");
    assert_eq!(waits[0]["reason"], "lagging_listings", "{events:?}");
    assert!(waits[0]["until"].is_string(), "{events:?}");
    // Nobody waits for a second time.
    let again = emulated(&["check", "--read-data"], "600");
    assert!(!again.stderr.contains("Waiting"), "{}", again.stderr);
}

#[test]
fn doctor_tests_places() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("repo")).expect("it is made");
    let folder = sandbox.json(["doctor"]);
    let left = fs::read_dir(sandbox.path("repo")).expect("it is there").count();
    assert_eq!(left, 0, "what was tried is taken away");
    let mut all = vec![folder];
    if let Some(server) = server() {
        all.push(run(&mut command(&sandbox, server, "doctor", &["doctor", "--json"])).events());
    }
    for events in all {
        let trials: Vec<_> = events.iter().filter_map(|event| event["trial"].as_str()).collect();
        for trial in ["reach", "put", "get", "list", "delete", "put 16 MiB", "create at once"] {
            assert!(trials.contains(&trial), "{trial} is not among {trials:?}");
        }
        let summary = events.last().expect("a summary");
        assert_eq!(summary["may_be_shared"], true, "{summary}");
        assert_eq!(summary["has_repository"], false, "{summary}");
        assert_eq!(summary["problem_count"], 0, "{summary}");
    }
    let free = sandbox.run(["doctor"]).ended(0, &["holds no repository"]);
    assert!(free.text().contains("Free space: "), "{}", free.text());
    sandbox.run(["init", "--encryption", "none"]).well();
    sandbox.run(["doctor"]).ended(0, &["holds a repository"]);
    sandbox.run(["check"]).ended(0, &["No problems found"]);
    sandbox
        .run(["doctor", "--repo", "nowhere"])
        .ended(2, &["folder not found", "create the folder first"]);
}
