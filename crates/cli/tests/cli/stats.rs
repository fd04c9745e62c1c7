//! `stats SNAPSHOT`: sizes of a snapshot and of paths in it.

use std::fs;

use cutpoint_testing::SplitMix64;
use serde_json::Value;

use crate::sandbox::Sandbox;

/// Creates two snapshots of `source`: the second has the file `three` besides.
fn two_snapshots() -> (Sandbox, [String; 2]) {
    let sandbox = Sandbox::with_repository();
    fs::create_dir_all(sandbox.path("source/sub")).expect("folders");
    let write = |name: &str, seed: u64, len: usize| {
        fs::write(sandbox.path("source").join(name), SplitMix64::bytes(seed, len)).expect("a file");
    };
    write("one", 1, 300_000);
    write("sub/two", 2, 200_000);
    write("sub/copy of two", 2, 200_000);
    let first = sandbox.backup("source");
    write("three", 3, 250_000);
    let second = sandbox.backup("source");
    (sandbox, [first, second])
}

fn stats(sandbox: &Sandbox, place: &str) -> Value {
    let events = sandbox.json(["stats", place]);
    events.last().expect("a summary").clone()
}

#[test]
fn sizes_of_snapshots_and_paths_are_measured() {
    let (sandbox, [first, second]) = two_snapshots();
    let sizes = |place: &str| {
        let stats = stats(&sandbox, place);
        let number = |path: &str| stats.pointer(path).and_then(Value::as_u64).expect("a number");
        [
            number("/file_count"),
            number("/logical_bytes"),
            number("/all/unique_bytes"),
            number("/exclusive/unique_bytes"),
        ]
    };
    assert_eq!(sizes(&first), [3, 700_000, 500_000, 0], "everything of it is in the second");
    assert_eq!(sizes("latest"), [4, 950_000, 750_000, 250_000]);
    let path = |name: &str| format!("latest:{}", sandbox.path("source").join(name).display());
    assert_eq!(sizes(&path("sub")), [2, 400_000, 200_000, 0], "two files of the same content");
    assert_eq!(sizes(&path("three")), [1, 250_000, 250_000, 250_000]);
    let whole = stats(&sandbox, "latest");
    assert_eq!(whole["snapshot"], *second);
    assert_eq!(whole["path"], Value::Null, "the whole snapshot");
    let stored = |part: &str, field: &str| whole[part][field].as_u64().expect("a number");
    // Random bytes cannot be compressed.
    assert!((750_000..760_000).contains(&stored("all", "stored_bytes")), "{whole}");
    assert!((250_000..255_000).contains(&stored("exclusive", "stored_bytes")), "{whole}");
    assert!(stored("exclusive", "metadata_chunk_count") > 0, "its trees differ: {whole}");
    let shown = sandbox.run(["stats", "latest"]).well();
    assert!(shown.text().contains("only here           244."), "{}", shown.text());
    sandbox.run(["stats", "latest:/nowhere"]).ended(2, &["has no /nowhere"]);
    sandbox.run(["stats", "latest", "--bursts"]).ended(2, &["--bursts"]);
}

#[test]
fn prune_frees_what_only_a_forgotten_snapshot_has() {
    let (sandbox, [_, second]) = two_snapshots();
    let exclusive = stats(&sandbox, "latest")["exclusive"].clone();
    let expected = exclusive["stored_bytes"].as_u64().expect("bytes")
        + exclusive["metadata_stored_bytes"].as_u64().expect("bytes");
    sandbox.run(["forget", &second]).well();
    let events = sandbox.json(["prune", "--unused-max", "0%", "--settle", "0"]);
    let freed = events.last().expect("a summary")["freed_bytes"].as_u64().expect("bytes");
    assert!(freed.abs_diff(expected) < expected / 5, "{freed} of {expected}");
}

/// A snapshot that has lost a tree is named.
#[test]
fn missing_tree_is_reported() {
    let (sandbox, _) = two_snapshots();
    fs::remove_dir_all(sandbox.path("repo/meta")).expect("removed");
    sandbox.run(["stats", "latest"]).ended(11, &["cutpoint: snapshot ", "not found", "check"]);
}
