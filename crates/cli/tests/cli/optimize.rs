//! `optimize`: makes the stored data smaller.

use crate::sandbox::{Sandbox, describe};

/// Returns numbers as text, which compresses, and better so with other texts of its kind.
fn text(version: u32) -> String {
    (0..20_000_u32).map(|n| format!("{} {}\n", n, n.wrapping_mul(version | 1) % 1000)).collect()
}

#[test]
fn optimize_follows_its_dry_run_and_loses_nothing() {
    let sandbox = Sandbox::with_source();
    for version in 0..4 {
        std::fs::write(sandbox.path("source/text"), text(version)).expect("written");
        sandbox.backup("source");
    }
    let before = describe(&sandbox.path("repo"));
    let events = sandbox.json(["optimize", "--dry-run"]);
    let planned = events.last().expect("a summary");
    assert!(planned["rewritten_container_count"].as_u64() > Some(1), "{planned}");
    assert!(planned["sampled_bytes"].as_u64() > Some(0), "{planned}");
    assert_eq!(describe(&sandbox.path("repo")), before, "something was written");
    let run = sandbox.run(["optimize", "--dry-run"]).well();
    assert!(run.text().contains("to be rewritten"), "{}", run.text());
    let events = sandbox.json(["optimize", "--exclusive", "--yes"]);
    let done = events.last().expect("a summary");
    assert_eq!(done["rewritten_container_count"], planned["rewritten_container_count"], "{done}");
    assert!(done["written_bytes"].as_u64() > Some(0) && done["waiting"] == false, "{done}");
    sandbox.run(["check", "--read-data"]).well();
    sandbox.run(["restore", "latest:", "--to", "back"]).well();
    let source = sandbox.path("source");
    let back = sandbox.path("back").join(source.strip_prefix("/").expect("an absolute path"));
    assert_eq!(describe(&back), describe(&source), "what came back");
    let run = sandbox.run(["optimize", "--exclusive", "--yes"]).well();
    assert!(run.stderr.contains("Nothing to optimize."), "{}", run.stderr);
    sandbox.run(["optimize", "--compression-level", "23"]).ended(2, &["expected 1 to 19"]);
}
