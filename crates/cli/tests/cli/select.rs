//! The names of snapshots, and of paths in them.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::{CommitResult, Purpose, Repository, Snapshot, TicketId, Unlock, Writer};
use cutpoint_storage::{Local, System};

use crate::sandbox::{Run, Sandbox, run};

const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3600 * SECOND_NS;
/// 2026-01-01, 00:00 UTC.
const BEGIN_NS: i64 = 1_767_225_600 * SECOND_NS;

/// Makes a copy of the snapshot `id` that began `after_ns` after the beginning. Returns its id.
fn copy(sandbox: &Sandbox, id: &str, after_ns: i64, change: impl FnOnce(&mut Snapshot)) -> String {
    let storage = Local::open(&sandbox.path("repo")).expect("the folder is there");
    let repository = Repository::open(Arc::new(storage), Arc::new(System), &Unlock::Nothing);
    let repository = Arc::new(repository.expect("it opens"));
    let mut writer = Writer::begin(repository, Purpose::Backup).expect("it begins");
    let id = TicketId::parse(id).expect("an id");
    let mut snapshot =
        writer.view().commits[&id].snapshot().expect("the commit of a snapshot").clone();
    snapshot.started_ns = BEGIN_NS + after_ns;
    snapshot.finished_ns = snapshot.started_ns;
    change(&mut snapshot);
    let outcome = Outcome::Snapshot(Box::new(snapshot));
    let committed = writer.commit(outcome, Vec::new(), &BTreeSet::new()).expect("it commits");
    assert_eq!(committed, CommitResult::Done, "no other client ended it");
    writer.ticket().to_string()
}

/// Makes a backup of `source` and forgets it, so that only copies are listed. Returns its id.
fn original(sandbox: &Sandbox) -> String {
    let id = sandbox.backup("source");
    sandbox.run(["forget", &id]).well();
    id
}

/// A copy made by an interrupted run.
fn partial(snapshot: &mut Snapshot) {
    snapshot.partial = true;
}

/// Returns the snapshot that a name denotes, with the given options and time zone.
#[track_caller]
fn taken_in(sandbox: &Sandbox, zone: &str, name: &str, options: &[&str]) -> String {
    let mut command = sandbox.command(["diff", name, name, "--json"].iter().chain(options));
    let events = run(command.env("TZ", zone)).well().events();
    events.last().expect("a summary")["old_snapshot"].as_str().expect("an id").to_owned()
}

#[track_caller]
fn taken(sandbox: &Sandbox, name: &str, options: &[&str]) -> String {
    taken_in(sandbox, "UTC", name, options)
}

/// Runs in the folder `source`.
fn run_in_source(sandbox: &Sandbox, arguments: &[&str]) -> Run {
    run(sandbox.command(arguments).current_dir(sandbox.path("source")))
}

/// Returns standard output, which has names that are not UTF-8.
fn printed(run: &Run) -> String {
    String::from_utf8_lossy(&run.stdout).into_owned()
}

#[test]
fn snapshots_of_interrupted_runs_are_listed_alone() {
    let sandbox = Sandbox::with_source();
    let original = original(&sandbox);
    sandbox.run(["snapshots", "--partial"]).ended(0, &["No snapshots of interrupted runs."]);
    copy(&sandbox, &original, 0, |_| {});
    let cut_off = copy(&sandbox, &original, HOUR_NS, partial);
    let ids = |arguments: &[&str]| -> Vec<String> {
        let events = sandbox.json([&["snapshots"], arguments].concat());
        events.iter().filter_map(|event| event["id"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(ids(&["--partial"]), [&*cut_off]);
    assert_eq!(ids(&[]).len(), 2, "all are listed otherwise");
    assert!(ids(&["--partial", "--host", "nowhere"]).is_empty(), "with the other options");
    let run = sandbox.run(["snapshots", "--partial"]).well();
    assert_eq!(run.text().lines().count(), 2, "{}", run.text());
    assert!(run.text().contains("(interrupted, incomplete)"), "{}", run.text());
}

#[test]
fn latest_counts_back_among_the_selected_snapshots() {
    let sandbox = Sandbox::with_source();
    let original = original(&sandbox);
    let at = |hours: i64, host: &str, source: &str, tag: &str| {
        copy(&sandbox, &original, hours * HOUR_NS, |snapshot| {
            snapshot.host = host.to_owned();
            snapshot.sources = source.split(' ').map(|path| path.as_bytes().to_vec()).collect();
            snapshot.tags = vec![tag.to_owned()];
        })
    };
    let all = [
        at(0, "one", "/srv", "x"),
        at(1, "two", "/srv", "y"),
        at(2, "one", "/home /srv/", "x"),
        at(3, "one", "stdin", "y"),
    ];
    copy(&sandbox, &original, 4 * HOUR_NS, partial);
    let cases: [(&str, &[&str], usize); 13] = [
        ("latest", &[], 3),
        ("latest~0", &[], 3),
        ("latest~1", &[], 2),
        ("latest~3", &[], 0),
        ("latest", &["--host", "two"], 1),
        ("latest~2", &["--host", "one"], 0),
        ("latest~1", &["--tag", "x"], 0),
        ("latest", &["--path", "/srv"], 2),
        ("latest~1", &["--path", "/srv/"], 1),
        ("latest~1", &["--path", "/home/../srv", "--host", "one"], 0),
        ("latest", &["--path", "/srv", "--path", "/home"], 2),
        ("latest", &["--path", "stdin"], 3),
        ("2026-01-01", &["--path", "/srv", "--host", "two"], 1),
    ];
    for (name, options, at) in cases {
        assert_eq!(taken(&sandbox, name, options), all[at], "{name} {options:?}");
    }
    sandbox.run(["ls", "latest~4"]).ended(2, &["`latest~4`: there are only 4 snapshots\n"]);
    sandbox
        .run(["ls", "latest~1", "--host", "two"])
        .ended(2, &["`latest~1`: there is only 1 snapshot of host two\n"]);
    sandbox.run(["ls", "latest", "--path", "/srv/shop"]).ended(
        2,
        &["no snapshot of the path /srv/shop\n", "is below the source /srv/: use --path"],
    );
    sandbox.run(["ls", &all[1][..8], "--host", "one"]).ended(
        2,
        &[&format!(
            "snapshot {} (2026-01-01 01:00:00 +00:00, host two, /srv): not selected",
            &all[1][..8]
        )],
    );
    for name in ["latest~", "latest~x", "latest~-1", &format!("{}~1", &all[3][..8])] {
        sandbox.run(["ls", name]).ended(2, &["not a snapshot", "cutpoint help selection"]);
    }
}

#[test]
fn date_denotes_the_newest_snapshot_before_its_end() {
    let sandbox = Sandbox::with_source();
    let original = original(&sandbox);
    let at = |after_ns: i64| copy(&sandbox, &original, after_ns, |_| ());
    let all = [
        at(12 * HOUR_NS),
        at(14 * HOUR_NS + 1800 * SECOND_NS + 1),
        at(24 * HOUR_NS - 1),
        at(24 * HOUR_NS),
        at(72 * HOUR_NS),
    ];
    copy(&sandbox, &original, 80 * HOUR_NS, partial);
    for (zone, name, at) in [
        ("UTC", "2026-01-01", 2),
        ("UTC", "2026-01-02", 3),
        ("UTC", "2026-01-03", 3),
        ("UTC", "2026-01-04", 4),
        ("UTC", "2999-01-01", 4),
        ("UTC", "2026-01-01T14:29", 0),
        ("UTC", "2026-01-01T14:30", 1),
        ("UTC", "2026-01-01 14:30", 1),
        ("UTC", "2026-01-01T14:29:59", 0),
        ("UTC", "2026-01-01T14:30:00", 1),
        // Local days end at other times, unless UTC is given.
        ("America/New_York", "2026-01-01", 3),
        ("Asia/Tokyo", "2026-01-01", 1),
        ("Asia/Tokyo", "2026-01-01Z", 2),
        ("Asia/Tokyo", "2026-01-01T23:30", 1),
        ("Asia/Tokyo", "2026-01-01T14:30Z", 1),
    ] {
        assert_eq!(taken_in(&sandbox, zone, name, &[]), all[at], "{name} in {zone}");
    }
    // The name that was given, and the snapshot that was taken.
    let note = format!("2026-01-02Z: snapshot {} (2026-01-02 00:00:00 +00:00, host ", &all[3][..8]);
    sandbox.run(["ls", "2026-01-02Z"]).ended(0, &[&note]);
    let quiet = sandbox.run(["ls", "2026-01-02Z", "--quiet"]).well();
    assert_eq!(quiet.stderr, "", "no note");
    assert_eq!(sandbox.run(["ls", "latest"]).well().stderr, "", "nothing to say of the newest");
    let oldest = format!("from 2025-12-31 or before (the oldest is snapshot {}", &all[0][..8]);
    sandbox.run(["ls", "2025-12-31"]).ended(2, &["no snapshot", &oldest, "cutpoint snapshots"]);
    sandbox.run(["ls", "2026-13-01"]).ended(2, &["\"2026-13-01\" is not a date"]);
    // Colons of a time do not begin a path.
    let path = sandbox.path("source/hello");
    for date in ["2026-01-02", "2026-01-02T14:30", "2026-01-02 14:30:59Z"] {
        let place = format!("{date}:{}", path.display());
        assert_eq!(sandbox.run(["cat", &place]).well().text(), "hello, world\n", "{place}");
    }
}

/// Every command that takes snapshots, with the effect on the one that `latest` denotes.
#[test]
fn every_command_selects_by_path() {
    let sandbox = Sandbox::with_source();
    fs::create_dir(sandbox.path("other")).expect("made");
    fs::write(sandbox.path("other/file"), "other").expect("written");
    let source = sandbox.backup("source");
    let other = sandbox.backup("other");
    let path = ["--path", "source"];
    let listed = sandbox.run(["ls", "latest:source"].iter().chain(&path)).well();
    assert!(printed(&listed).contains("hello\n"), "ls: {}", printed(&listed));
    let file = sandbox.run(["cat", "latest:source/hello"].iter().chain(&path)).well();
    assert_eq!(file.text(), "hello, world\n", "cat");
    sandbox.run(["restore", "latest:source", "--to", "back"].iter().chain(&path)).well();
    assert!(sandbox.path("back/hello").exists(), "restore");
    assert_eq!(taken(&sandbox, "latest", &path), source, "diff");
    sandbox.run(["hold", "latest"].iter().chain(&path)).well();
    sandbox.run(["tag", "latest", "--add", "t"].iter().chain(&path)).well();
    for event in sandbox.json(["snapshots"]) {
        let is_source = event["id"] == source.as_str();
        assert_eq!(event["held"], is_source, "hold: {event}");
        assert_eq!(event["tags"].as_array().is_some_and(|tags| !tags.is_empty()), is_source, "tag");
    }
    sandbox.run(["hold", "--release", "latest", "--tag", "t"]).well();
    sandbox.run(["forget", "latest", "--dry-run"].iter().chain(&path)).well();
    sandbox.run(["forget", "latest"].iter().chain(&path)).well();
    let left = sandbox.json(["snapshots"]);
    assert_eq!(left.len(), 1, "forget");
    assert_eq!(left[0]["id"], other.as_str(), "forget");
    sandbox.run(["forget", "--undo", "latest~1"]).ended(2, &["is never a forgotten snapshot"]);
}

#[test]
fn relative_path_starts_in_the_current_folder() {
    let sandbox = Sandbox::with_source();
    // The same name at the root of the snapshot, as a stream.
    fs::write(sandbox.path("source/stdin"), "the file").expect("written");
    // And one that is in the root and in the current folder.
    let root = sandbox.path("source");
    let first = root.components().nth(1).expect("a name").as_os_str().to_owned();
    fs::create_dir(root.join(&first)).expect("made");
    fs::write(root.join(&first).join("inner"), "").expect("written");
    sandbox.backup("source");
    let stream = ["backup", "--stdin-from-command", "--tag", "stream", "--", "echo", "a stream"];
    sandbox.run(stream).well();
    let cat = |place: &str| {
        let run = run_in_source(&sandbox, &["cat", place]);
        (run.code, run.text().to_owned())
    };
    let hello = (Some(0), "hello, world\n".to_owned());
    for path in ["hello", "./hello", "sub/hello", "../source/hello", "./sub/../hello"] {
        assert_eq!(cat(&format!("latest~1:{path}")), hello, "{path}");
        let run = run_in_source(&sandbox, &["cat", "latest~1", path]).well();
        assert_eq!(run.text(), hello.1, "{path} as the second argument");
    }
    assert_eq!(cat("latest:stdin"), (Some(0), "a stream\n".to_owned()), "the root comes first");
    assert_eq!(cat("latest~1:stdin"), (Some(0), "the file".to_owned()), "then the current folder");
    assert_eq!(cat("latest:./stdin").0, Some(2), "the stream is not in the current folder");
    let list = |place: &str| printed(&run_in_source(&sandbox, &["ls", place]).well());
    assert!(list("latest~1:.").contains("hello\n"), "the current folder");
    assert_eq!(list("latest~1:.."), "source/\n", "its parent");
    assert!(!list("latest~1:").contains("hello"), "the root");
    let first = first.to_str().expect("UTF-8");
    assert_eq!(list(&format!("latest~1:./{first}")), "inner\n", "in the current folder");
    assert!(!list(&format!("latest~1:{first}")).contains("inner"), "in the root");
    // Some paths of a snapshot, and paths below a path.
    let restore = |arguments: &[&str], to: &str| {
        let to = sandbox.path(to);
        let to = to.to_str().expect("UTF-8");
        run_in_source(&sandbox, &[&["restore", "--to", to], arguments].concat())
    };
    let root = sandbox.path("source");
    let root = root.strip_prefix("/").expect("absolute");
    restore(&["latest~1", "./hello", "sub/deep"], "some").well();
    assert!(sandbox.path("some").join(root).join("hello").exists(), "./hello");
    assert!(sandbox.path("some").join(root).join("sub/deep/text").exists(), "sub/deep");
    restore(&["latest~1:sub", "hello", "./deep"], "below").well();
    assert!(sandbox.path("below/hello").exists(), "hello below sub");
    assert!(sandbox.path("below/deep/text").exists(), "./deep below sub");
    restore(&["latest~1:sub", "../hello"], "no").ended(2, &["not below", "without a path"]);
    restore(&["latest~1:.", "sub/../hello"], "dots").well();
    assert!(sandbox.path("dots/hello").exists(), "dots inside of the folder");
}

#[test]
fn missing_path_names_the_snapshot_taken_and_the_nearest_one_that_has_it() {
    let sandbox = Sandbox::with_source();
    let full = original(&sandbox);
    fs::remove_file(sandbox.path("source/hello")).expect("removed");
    let without = sandbox.backup("source");
    sandbox.run(["forget", &without]).well();
    let at = |id: &str, hours: i64, host: &str| {
        copy(&sandbox, id, hours * HOUR_NS, |snapshot| {
            snapshot.host = host.to_owned();
            snapshot.sources = vec![b"/srv".to_vec()];
        })
    };
    at(&full, 0, "one");
    let nearest = at(&full, 10, "one");
    at(&without, 11, "one");
    let taken = at(&without, 14, "one");
    let later = at(&full, 20, "one");
    let elsewhere = at(&full, 15, "two");
    let hello = sandbox.path("source/hello").display().to_string();
    let told = format!(
        "snapshot {} (2026-01-01 14:00:00 +00:00, host one, /srv) has no {hello}\n",
        &taken[..8]
    );
    let has = |id: &str, command: &str| {
        let end = command.replace("{}", &format!("{}:{hello}", &id[..8]));
        format!("has it: `cutpoint {end}`")
    };
    let place = format!("{}:{hello}", &taken[..8]);
    sandbox.run(["ls", &place]).ended(2, &[&told, &has(&nearest, "ls {}")]);
    sandbox.run(["cat", &place]).ended(2, &[&told, &has(&nearest, "cat {}")]);
    sandbox
        .run(["restore", &place, "--to", "back"])
        .ended(2, &[&told, &has(&nearest, "restore {} --to TARGET")]);
    sandbox
        .run(["restore", &taken[..8], &hello, "--to", "back"])
        .ended(2, &[&told, &has(&nearest, "restore {} --to TARGET")]);
    assert!(!sandbox.path("back").exists(), "nothing was restored");
    sandbox.run(["diff", &later, &place]).ended(2, &[&told, &has(&nearest, "ls {}")]);
    // A path of the current folder is named as it was tried.
    let both = format!("has no /hello and no {hello}\n");
    run_in_source(&sandbox, &["cat", &format!("{}:hello", &taken[..8])])
        .ended(2, &[&both, &has(&nearest, "cat {}")]);
    // The nearest of the same host, also if it is later; that of another host if there is none.
    sandbox.run(["forget", &nearest]).well();
    sandbox.run(["ls", &place]).ended(2, &[&has(&later, "ls {}")]);
    let first = sandbox.json(["snapshots", "--host", "one"]);
    sandbox.run(["forget", first[0]["id"].as_str().expect("an id"), &later]).well();
    sandbox.run(["ls", &place]).ended(2, &[&has(&elsewhere, "ls {}"), "host two"]);
    sandbox.run(["forget", &elsewhere]).well();
    sandbox.run(["ls", &place]).ended(2, &[&told, "`cutpoint find hello` searches all snapshots"]);
    let below = format!("{}:{}", &taken[..8], sandbox.path("source/big/x").display());
    sandbox.run(["ls", &below]).ended(2, &["/source/big is not a folder"]);
}

/// `cat` writes files only.
#[test]
fn folder_in_another_snapshot_is_suggested_to_be_listed() {
    let sandbox = Sandbox::with_source();
    let first = sandbox.backup("source");
    fs::remove_dir_all(sandbox.path("source/sub")).expect("removed");
    sandbox.backup("source");
    let place = |id: &str| format!("{id}:{}", sandbox.path("source/sub").display());
    let has = |command: &str| format!("has it: `cutpoint {command}`");
    let listed = format!("ls {}", place(&first[..8]));
    sandbox.run(["cat", &place("latest")]).ended(2, &[&has(&listed)]);
    sandbox.run(listed.split(' ')).well();
}

/// The suggested command is one that a shell takes as it is.
#[test]
fn suggested_path_is_quoted() {
    let sandbox = Sandbox::with_source();
    fs::write(sandbox.path("source/it's odd"), "odd").expect("written");
    let first = sandbox.backup("source");
    fs::remove_file(sandbox.path("source/it's odd")).expect("removed");
    sandbox.backup("source");
    let place = format!("latest:{}", sandbox.path("source/it's odd").display());
    let run = sandbox.run(["cat", &place]).ended(2, &[&first[..8]]);
    let (_, command) = run.stderr.split_once("has it: `cutpoint ").expect("a command");
    let command = command.trim_end().trim_end_matches('`');
    let script = format!("{} {command}", env!("CARGO_BIN_EXE_cutpoint"));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).env_clear().env("HOME", sandbox.path("home"));
    let output = shell.env("CUTPOINT_REPO", sandbox.path("repo")).output().expect("it runs");
    assert_eq!(output.stdout, b"odd", "{command}: {}", String::from_utf8_lossy(&output.stderr));
}
