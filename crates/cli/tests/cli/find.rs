//! `find`: entries of many snapshots by name.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::Value;

use crate::sandbox::{Run, Sandbox, run};

/// Returns the lines of matches: size, number of snapshots, first and last snapshot, and path below
/// the source.
#[track_caller]
fn rows(sandbox: &Sandbox, run: &Run) -> Vec<[String; 5]> {
    let root = format!("{}/", sandbox.path("source").display());
    let event = |event: &Value| {
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| event[name].as_u64().expect("a number").to_string();
        [
            number("size_bytes"),
            number("snapshot_count"),
            text("first_snapshot"),
            text("last_snapshot"),
            text("path").strip_prefix(&root).unwrap_or(&text("path")).to_owned(),
        ]
    };
    let events = run.events();
    let (summary, matches) = events.split_last().expect("a summary");
    assert_eq!(summary["match_count"], matches.len(), "number of matches");
    matches.iter().map(event).collect()
}

#[track_caller]
fn find(sandbox: &Sandbox, arguments: &[&str]) -> Vec<[String; 5]> {
    let mut command = sandbox.command(["find", "--json"].iter().chain(arguments));
    rows(sandbox, &run(&mut command).well())
}

#[track_caller]
fn paths(sandbox: &Sandbox, arguments: &[&str]) -> Vec<String> {
    find(sandbox, arguments).into_iter().map(|[.., path]| path).collect()
}

#[test]
fn versions_of_many_snapshots_are_one_line_each() {
    let sandbox = Sandbox::with_repository();
    let file = |name: &str| sandbox.path("source").join(name);
    fs::create_dir_all(file("sub")).expect("folders are made");
    fs::write(file("a.txt"), "old").expect("written");
    fs::write(file("sub/b.txt"), "the same").expect("written");
    let first = sandbox.backup("source");
    let second = sandbox.backup("source");
    fs::write(file("a.txt"), "newer").expect("written");
    // The files share a chunk, and with --force-read both are stored again.
    let third = sandbox.json(["backup", "source", "--force-read"]);
    let third = third.last().expect("a summary")["snapshot"].as_str().expect("an ID").to_owned();
    fs::remove_file(file("a.txt")).expect("removed");
    let fourth = sandbox.backup("source");
    let row = |row: [&str; 5]| row.map(str::to_owned);
    assert_eq!(
        find(&sandbox, &["*.txt"]),
        [
            row(["3", "2", &first, &second, "a.txt"]),
            row(["5", "1", &third, &third, "a.txt"]),
            row(["8", "4", &first, &fourth, "sub/b.txt"]),
        ],
        "three versions"
    );
    let run =
        sandbox.run(["find", "a.*"]).ended(0, &["Found 2 versions of 1 path in 4 snapshots."]);
    let path = file("a.txt");
    let expected = format!("  {}  {}  {}", &first[..8], &second[..8], path.display());
    assert!(run.text().lines().any(|line| line.ends_with(&expected)), "{}", run.text());
    fs::set_permissions(file("sub/b.txt"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("permissions are set");
    let fifth = sandbox.backup("source");
    let unchanged = find(&sandbox, &["b.txt", "--type", "f"]);
    assert_eq!(unchanged, [row(["8", "5", &first, &fifth, "sub/b.txt"])], "other permissions");
}

#[test]
fn content_that_changed_under_the_same_mtime_is_another_version() {
    let sandbox = Sandbox::with_repository();
    let path = sandbox.path("source/a");
    fs::create_dir(sandbox.path("source")).expect("a folder is made");
    fs::write(&path, "one").expect("written");
    let time = fs::metadata(&path).expect("metadata").modified().expect("a time");
    sandbox.backup("source");
    fs::write(&path, "two").expect("written");
    let file = fs::File::options().write(true).open(&path).expect("opened");
    file.set_modified(time).expect("the time is set");
    sandbox.backup("source");
    assert_eq!(find(&sandbox, &["a"]).len(), 2, "two contents");
}

#[test]
fn conditions_restrict_entries() {
    let sandbox = Sandbox::with_source();
    let source = sandbox.path("source");
    let id = sandbox.backup("source");
    let root = source.display();
    let cases: [(&[&str], &[&str]); 12] = [
        (&["hello"], &["hello", "sub/hello"]),
        (&[&format!("{root}/hello")], &["hello"]),
        (&[&format!("{root}/*/hello")], &["sub/hello"]),
        (&["*big*", "--size", "+1M"], &[]),
        (&["*", "--size", "+600k"], &["big", "sparse", "sub/copy of big"]),
        (&["*", "--size", "+600k", "--size", "-1M"], &["big", "sub/copy of big"]),
        (&["*", "--size", "13"], &["hello", "sub/hello"]),
        (&["*", "--type", "l"], &["dangling", "sub/link"]),
        (&["deep", "--type", "d"], &["sub/deep"]),
        (&["deep", "--type", "f"], &[]),
        (&["*big", "--newer", "2020-01-01"], &["big", "sub/copy of big"]),
        (&["*", "--older", "2020-01-01"], &[]),
    ];
    for (arguments, expected) in cases {
        assert_eq!(paths(&sandbox, arguments), expected, "{arguments:?}");
    }
    let all = sandbox.json(["ls", "latest", "-R"]).len();
    assert_eq!(find(&sandbox, &["*"]).len(), all, "all entries of the snapshot");
    assert_eq!(find(&sandbox, &["hello"])[0][2], id, "the snapshot");
}

#[test]
fn dates_are_local_time_with_the_limit_included_above() {
    let sandbox = Sandbox::with_repository();
    let path = sandbox.path("source/a");
    fs::create_dir(sandbox.path("source")).expect("a folder is made");
    let file = fs::File::create(&path).expect("a file is made");
    // 2026-11-20 00:00 in New York.
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_795_150_800);
    file.set_modified(time).expect("the time is set");
    assert_eq!(fs::metadata(&path).expect("metadata").mtime(), 1_795_150_800, "the time");
    sandbox.backup("source");
    for (option, date, expected) in [
        ("--newer", "2026-11-20", 1),
        ("--older", "2026-11-20", 0),
        ("--newer", "2026-11-20T00:01", 0),
        ("--older", "2026-11-20T00:01", 1),
        ("--newer", "2026-11-20T05:00Z", 1),
        ("--newer", "2026-11-20T05:01Z", 0),
    ] {
        let mut command = sandbox.command(["find", "a", "--json", option, date]);
        let run = run(command.env("TZ", "America/New_York")).well();
        assert_eq!(rows(&sandbox, &run).len(), expected, "{option} {date}");
    }
}

#[test]
fn options_select_the_snapshots() {
    let sandbox = Sandbox::with_source();
    fs::create_dir(sandbox.path("other")).expect("a folder is made");
    fs::write(sandbox.path("other/hello"), "hello").expect("written");
    sandbox.json(["backup", "source", "--tag", "one"]);
    sandbox.json(["backup", "other", "--host", "far"]);
    let count = |arguments: &[&str]| find(&sandbox, arguments).len();
    assert_eq!(count(&["hello"]), 3, "all snapshots");
    assert_eq!(count(&["hello", "--tag", "one"]), 2, "by tag");
    assert_eq!(count(&["hello", "--host", "far"]), 1, "by host");
    assert_eq!(count(&["hello", "--path", "other"]), 1, "by path, relative to the folder");
    sandbox.run(["find", "hello", "--tag", "none"]).ended(0, &["No snapshots."]);
}

#[test]
fn names_of_any_bytes_are_escaped_in_a_pipe() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let found = sandbox.run(["find", "not *"]).well();
    let listed = sandbox.run(["ls", "latest", "-R"]).well();
    let end = "/not \\xff UTF-8\n";
    assert!(found.text().ends_with(end), "{:?}", found.text());
    assert!(listed.text().contains(end), "as ls does");
    let events = sandbox.json(["find", "not *"]);
    assert!(events[0]["path_bytes"].as_str().is_some_and(|path| path.ends_with("2d38")), "bytes");
}

#[test]
fn nothing_found_is_no_problem_and_wrong_arguments_are() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let nothing = sandbox.run(["find", "nothing"]).ended(0, &["Found nothing in 1 snapshot."]);
    assert!(nothing.stdout.is_empty(), "no line");
    let hint = "`a/*` is the same as `/a/*`; `**/a/*` matches in every folder.";
    sandbox.run(["find", "a/*"]).ended(0, &["Found nothing in 1 snapshot.", hint]);
    for pattern in ["/a/*", "**/x", "a/"] {
        let run = sandbox.run(["find", pattern]).ended(0, &["Found nothing"]);
        assert!(!run.stderr.contains("is the same as"), "{pattern}: {}", run.stderr);
    }
    for (arguments, text) in [
        (&["find", "[a"][..], "pattern [a: character class without ]"),
        (&["find", "a", "--size", "big"], "unknown unit \"big\""),
        (&["find", "a", "--newer", "yesterday"], "\"yesterday\" is not a date"),
        (&["find", "a", "--type", "x"], "--type"),
        (&["find"], "<PATTERN>"),
    ] {
        sandbox.run(arguments).ended(2, &[text]);
    }
}
