//! Every line with `--json` is an event of the schema.

use std::fs;

use crate::sandbox::{Sandbox, make_source, run};

#[test]
fn every_command_prints_json() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    let types = |events: &[serde_json::Value]| {
        let mut types: Vec<_> =
            events.iter().filter_map(|event| event["type"].as_str()).map(str::to_owned).collect();
        types.dedup();
        types
    };
    let init = sandbox.json(["init", "--encryption", "none"]);
    assert_eq!(types(&init), ["summary"], "init");
    let backup = sandbox.json(["backup", "source", "--description", "first"]);
    assert_eq!(types(&backup).last().map(String::as_str), Some("summary"), "backup");
    let warned = backup.iter().find(|event| event["type"] == "warning");
    assert!(warned.is_none_or(|event| event["path"].is_string()), "a warning has a path");
    let snapshots = sandbox.json(["snapshots"]);
    assert_eq!(types(&snapshots), ["snapshot"], "snapshots");
    assert_eq!(snapshots[0]["description"], "first", "description");
    let entries = sandbox.json(["ls", "latest", "-R"]);
    assert_eq!(types(&entries), ["entry"], "ls");
    let odd = entries.iter().find(|entry| entry["path_bytes"].is_string()).expect("an odd name");
    let bytes = odd["path_bytes"].as_str().expect("digits");
    assert!(bytes.ends_with("6e6f7420ff205554462d38"), "all bytes are there: {bytes}");
    let link = entries.iter().find(|entry| entry["target"] == "../hello").expect("a link");
    assert_eq!(link["kind"], "symlink", "kind");
    assert_eq!(types(&sandbox.json(["stats"])), ["summary"], "stats");
    assert_eq!(types(&sandbox.json(["config"])), ["setting"], "config");
    assert_eq!(types(&sandbox.json(["debug", "--list"])), ["object"], "debug");
    let restore = sandbox.json(["restore", "latest", "--to", "back"]);
    assert_eq!(types(&restore).last().map(String::as_str), Some("summary"), "restore");
    let read = restore.last().expect("a summary");
    let count = |name: &str| read[name].as_u64().expect("a number");
    assert!(count("request_count") <= count("region_count"), "requests fetch a region or more");
    assert!(count("region_count") > 0 && count("fetched_bytes") > 0, "something was read");
    assert_eq!(count("repeated_region_count"), 0, "nothing is read twice");
    let mut again = sandbox.command(["restore", "latest", "--to", "back", "--json"]);
    let again = run(&mut again).ended(1, &[]).events();
    assert!(again.iter().any(|event| event["type"] == "problem"), "restore with problems");
}

#[test]
fn errors_are_events_too() {
    let sandbox = Sandbox::new();
    let run = sandbox.run(["snapshots", "--json"]).ended(10, &["no repository found"]);
    let events = run.events();
    assert_eq!(events.len(), 1, "one line");
    assert_eq!(events[0]["kind"], "no_repository", "kind");
    assert_eq!(events[0]["exit_code"], 10, "exit code");
    assert!(events[0]["remedy"].is_string(), "remedy");
}

#[test]
fn pipe_gets_no_progress() {
    let sandbox = Sandbox::with_source();
    let run = sandbox.run(["backup", "source"]).well();
    assert!(run.stdout.is_empty(), "results only at standard output: {}", run.text());
    assert!(!run.stderr.contains('\r'), "no progress at standard error: {:?}", run.stderr);
    let quiet = sandbox.run(["backup", "source", "--quiet", "--exclude", "pipe"]).well();
    let newest = sandbox.json(["snapshots"]).pop().expect("a snapshot");
    let id = newest["id"].as_str().expect("an id");
    assert_eq!((quiet.text(), quiet.stderr.as_str()), (&*format!("{id}\n"), ""), "quiet");
    fs::write(sandbox.path("source/new"), "new").expect("written");
    let verbose = sandbox.run(["backup", "source", "-v"]).well();
    let line = format!("new          {}\n", sandbox.path("source/new").display());
    assert!(verbose.stderr.contains(&line), "verbose: {}", verbose.stderr);
}
