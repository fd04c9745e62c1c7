//! Snapshots that are copied between repositories, and rewritten.

use std::fs;

use serde_json::Value;

use crate::sandbox::{Sandbox, describe, run};

/// Creates the repository `other`, encrypted by a key file `other.key` and with another cut, and
/// copies everything from `repo` into it. Returns the summary.
fn copy(sandbox: &Sandbox, options: &[&str]) -> Vec<Value> {
    if !sandbox.path("other").exists() {
        let mut init =
            sandbox.command(["init", "--key-file", "other.key", "--cut", "fastcdc:avg=8k"]);
        run(init.env("CUTPOINT_REPO", sandbox.path("other"))).well();
    }
    let source = sandbox.path("repo");
    let mut command = sandbox.command(["copy", "--json", "--key-file", "other.key", "--from"]);
    command.arg(source).args(options).env("CUTPOINT_REPO", sandbox.path("other"));
    let done = run(&mut command).well();
    done.events()
}

#[test]
fn copies_restore_equal_and_are_made_once() {
    let sandbox = Sandbox::with_source();
    let first = sandbox.backup("source");
    fs::write(sandbox.path("source/new file"), "something new").expect("it is written");
    let second = sandbox.backup("source");
    let planned = copy(&sandbox, &["--dry-run"]);
    let summary = planned.last().expect("a summary");
    assert_eq!((&summary["copied_count"], &summary["dry_run"]), (&2.into(), &true.into()));
    let copied = copy(&sandbox, &[]);
    let summary = copied.last().expect("a summary");
    assert_eq!((&summary["copied_count"], &summary["present_count"]), (&2.into(), &0.into()));
    assert!(summary["new_bytes"].as_u64() > Some(0), "{summary}");
    let again = copy(&sandbox, &[]);
    let summary = again.last().expect("a summary");
    assert_eq!((&summary["copied_count"], &summary["present_count"]), (&0.into(), &2.into()));
    assert_eq!(summary["stored_bytes"], 0, "{summary}");

    let of_other = |arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        run(command.args(["--key-file", "other.key"]).env("CUTPOINT_REPO", sandbox.path("other")))
    };
    let listed = of_other(&["snapshots", "--json"]).well().events();
    let originals: Vec<_> = listed.iter().map(|event| &event["origin"]["snapshot"]).collect();
    assert_eq!(originals, [first.as_str(), second.as_str()], "the originals");
    let shown = of_other(&["snapshots"]).well();
    assert!(shown.text().contains(&format!("(copy of {})", &second[..8])), "{}", shown.text());
    of_other(&["check", "--read-data"]).well();
    // The id of the original names the copy.
    of_other(&["restore", &second, "--to", "from-copy"]).well();
    let source = sandbox.path("source");
    let below = source.strip_prefix("/").expect("an absolute path");
    let restored = describe(&sandbox.path("from-copy").join(below));
    assert_eq!(restored, describe(&source), "the same files with the same metadata");
}

#[test]
fn copy_refuses_bad_sources_with_a_remedy() {
    let sandbox = Sandbox::with_source();
    let repo = sandbox.path("repo");
    let copy = |from: &std::path::Path| {
        let mut command = sandbox.command(["copy", "--from"]);
        run(command.arg(from))
    };
    copy(&repo).ended(2, &["same repository", "--from names the repository to read"]);
    copy(&sandbox.path("absent")).ended(10, &["--from", "no repository found", "check --from"]);
    let mut init = sandbox.command(["init", "--key-file", "locked.key"]);
    run(init.env("CUTPOINT_REPO", sandbox.path("locked"))).well();
    copy(&sandbox.path("locked")).ended(12, &["--from", "--from-passphrase-file"]);
}

#[test]
fn rewrite_removes_a_path_and_can_be_undone() {
    let sandbox = Sandbox::with_source();
    fs::create_dir(sandbox.path("source/secrets")).expect("a folder");
    fs::write(sandbox.path("source/secrets/word"), "xyzzy").expect("a file");
    let old = sandbox.backup("source");
    let rewrite = |options: &[&str]| {
        sandbox.json(["rewrite", "--exclude", "secrets/"].iter().chain(options)).pop()
    };
    let summary = rewrite(&["--dry-run"]).expect("a summary");
    assert_eq!(
        (&summary["rewritten_count"], &summary["excluded_file_count"]),
        (&1.into(), &1.into())
    );
    assert_eq!(sandbox.json(["snapshots"]).len(), 1, "a dry run changes nothing");
    let summary = rewrite(&[]).expect("a summary");
    assert_eq!((&summary["rewritten_count"], &summary["forgotten_count"]), (&1.into(), &0.into()));
    let summary = rewrite(&["--forget"]).expect("a summary");
    assert_eq!(
        (&summary["rewritten_count"], &summary["forgotten_count"]),
        (&0.into(), &1.into()),
        "what was rewritten before is only forgotten"
    );
    let listed = sandbox.json(["snapshots"]);
    assert_eq!(listed.len(), 1, "the new one");
    assert_ne!(listed[0]["id"], old.as_str(), "not the old one");
    let files = sandbox.run(["ls", "latest", "-R"]).well();
    assert!(!files.text().contains("secrets"), "{}", files.text());
    sandbox.run(["check", "--read-data"]).well();
    sandbox.run(["forget", "--undo", "--last"]).well();
    assert_eq!(sandbox.json(["snapshots"]).len(), 2, "the old one is back");
    sandbox.run(["rewrite", "--exclude", "["]).ended(2, &["--exclude"]);
}
