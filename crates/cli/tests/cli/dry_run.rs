//! `backup --dry-run`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cutpoint_testing::SplitMix64;
use serde_json::Value;

use crate::sandbox::{Sandbox, run, run_with_input};

/// Returns the paths of all files below `folder`, with their sizes.
fn objects(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let meta = entry.metadata().expect("metadata");
            match meta.is_dir() {
                true => open.push(entry.path()),
                false => found.push((entry.path(), meta.len())),
            }
        }
    }
    found.sort();
    found
}

/// Returns the summary of a backup of `source` with `options`.
fn summary(sandbox: &Sandbox, options: &[&str]) -> Value {
    let arguments = [&["backup", "source"], options].concat();
    sandbox.json(arguments).pop().expect("a summary")
}

/// A dry run of the source measures what the next backup stores, and puts nothing.
#[track_caller]
fn measures_the_next_backup(sandbox: &Sandbox, options: &[&str]) {
    let before = objects(&sandbox.path("repo"));
    let dry = summary(sandbox, &[options, &["--dry-run"]].concat());
    assert_eq!(objects(&sandbox.path("repo")), before, "nothing is put");
    let real = summary(sandbox, options);
    assert_eq!((&dry["dry_run"], &real["dry_run"]), (&true.into(), &false.into()), "{dry}");
    assert!(dry["snapshot"].is_null(), "{dry}");
    assert_eq!(dry["stored_bytes"], 0, "not measured");
    let measured = [
        "new_bytes",
        "new_chunk_count",
        "read_bytes",
        "read_file_count",
        "unchanged_file_count",
        "size_bytes",
        "file_count",
        "folder_count",
        "excluded_count",
        "problem_count",
        "parent",
    ];
    for name in measured {
        assert_eq!(dry[name], real[name], "{name}: {dry} {real}");
    }
    assert!(real["new_bytes"].as_u64() > Some(0), "there is something new: {real}");
}

#[test]
fn dry_run_measures_what_a_backup_stores_and_puts_nothing() {
    let sandbox = Sandbox::with_source();
    measures_the_next_backup(&sandbox, &[]);
    std::thread::sleep(Duration::from_millis(2100));
    sandbox.backup("source");
    // A changed file, which is stored as a delta, small files that share a chunk, and copies.
    let mut bytes = SplitMix64::bytes(1, 700_000);
    bytes[350_000] ^= 1;
    fs::write(sandbox.path("source/big"), &bytes).expect("written");
    fs::write(sandbox.path("source/copy"), &bytes).expect("written");
    for number in 0..50 {
        fs::write(sandbox.path(format!("source/{number}")), format!("file {number}")).expect("w");
    }
    measures_the_next_backup(&sandbox, &["--exclude", "7"]);
}

#[test]
fn dry_run_lists_every_file_with_its_reason_as_a_result() {
    let sandbox = Sandbox::with_source();
    std::thread::sleep(Duration::from_millis(2100));
    sandbox.backup("source");
    fs::write(sandbox.path("source/hello"), "longer than it was").expect("written");
    fs::write(sandbox.path("source/added"), "a file").expect("written");
    let quiet = sandbox.run(["backup", "source", "--dry-run"]).well();
    assert_eq!(quiet.text(), "", "no list without -v");
    assert!(quiet.stderr.contains("Dry run: nothing was stored."), "{}", quiet.stderr);
    assert!(!quiet.stderr.contains(", stored "), "not measured: {}", quiet.stderr);
    let listed = sandbox.run(["backup", "source", "-nv"]).well();
    let source = format!("{}/", sandbox.path("source").display());
    let lines: Vec<String> = listed.text().lines().map(|line| line.replace(&source, "")).collect();
    let expected = [
        "new          added",
        "unchanged    big",
        "unchanged    empty",
        "size         hello",
        "unchanged    not \\xff UTF-8",
        "pipe         pipe",
        "unchanged    sparse",
        "unchanged    sub/copy of big",
        "unchanged    sub/deep/text",
        "link         sub/hello",
        "unchanged    sub/\u{fc} \\n",
    ];
    assert_eq!(lines, expected, "{}", listed.stderr);
    let events = sandbox.json(["backup", "source", "-nv"]);
    let added = events.iter().find(|event| event["type"] == "file").expect("an event");
    assert_eq!((&added["reason"], &added["read"]), (&"new".into(), &true.into()), "{added}");
}

#[test]
fn dry_run_of_a_stream_reads_it() {
    let sandbox = Sandbox::with_repository();
    let before = objects(&sandbox.path("repo"));
    let bytes = SplitMix64::bytes(5, 300_000);
    let mut command = sandbox.command(["backup", "--stdin", "--dry-run", "--json"]);
    let events = run_with_input(&mut command, &bytes).ended(0, &[]).events();
    assert_eq!(events.last().expect("a summary")["new_bytes"], 300_000, "{events:?}");
    assert_eq!(objects(&sandbox.path("repo")), before, "nothing is put");
}

#[test]
fn dry_run_creates_no_repository() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("file"), "bytes").expect("written");
    let arguments = ["backup", "file", "--init", "--dry-run", "--encryption", "none"];
    run(&mut sandbox.command(arguments)).ended(10, &["no repository found", "cutpoint estimate"]);
    assert!(!sandbox.path("repo").exists(), "nothing was created");
}
