//! Damage is repaired as far as possible, and losses are reported. Partial checks take turns.

use std::fs;

use cutpoint_testing::SplitMix64;

use crate::failures::flip;
use crate::sandbox::{Sandbox, run_with_input};

/// Creates a repository of a file of several containers, and a small file in a folder of its own.
fn with_a_large_file() -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    sandbox.run(["init", "--encryption", "none", "--container-size", "4M"]).well();
    fs::create_dir_all(sandbox.path("source/sub")).expect("made");
    fs::write(sandbox.path("source/large"), SplitMix64::bytes(1, 11_000_000)).expect("written");
    fs::write(sandbox.path("source/sub/small"), b"small").expect("written");
    let id = sandbox.backup("source");
    (sandbox, id)
}

fn objects(sandbox: &Sandbox, folder: &str) -> Vec<String> {
    let all = sandbox.json(["debug", "--list"]);
    let names = all.iter().filter_map(|object| object["name"].as_str());
    names.filter(|name| name.starts_with(folder)).map(str::to_owned).collect()
}

#[test]
fn damaged_index_is_rebuilt() {
    let (sandbox, _) = with_a_large_file();
    for name in objects(&sandbox, "index/") {
        flip(&sandbox.path("repo").join(name), 100);
    }
    sandbox.run(["check"]).ended(1, &["corrupt: index/"]);
    let before = objects(&sandbox, "");
    sandbox.run(["repair", "index", "--dry-run"]).ended(0, &["would be rebuilt"]);
    assert_eq!(objects(&sandbox, ""), before, "a dry run writes nothing");
    let events = sandbox.json(["repair", "index"]);
    let summary = events.last().expect("a summary");
    assert_eq!(summary["record"], 1, "{summary}");
    assert_eq!(summary["unreadable_segment_count"], 1, "{summary}");
    sandbox.run(["check", "--read-data"]).ended(0, &["No problems found."]);
    sandbox.run(["restore", "latest", "--to", "back"]).well();
}

/// A container is deleted. The chunks that only this container had are lost, and the next backup
/// must store them again, although its sources are unchanged.
#[test]
fn chunks_abandoned_by_index_repair_are_stored_again() {
    let (sandbox, _) = with_a_large_file();
    // Waits until change times are settled, because they cannot be set.
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    sandbox.backup("source");
    let gone = objects(&sandbox, "data/").remove(0);
    fs::remove_file(sandbox.path("repo").join(&gone)).expect("it is there");
    sandbox.run(["repair", "index"]).ended(1, &[&gone, "not found", "affected: ", "recorded"]);
    sandbox.run(["backup", "source"]).well();
    sandbox.run(["check", "--read-data"]).ended(0, &["No problems found."]);
    sandbox.run(["restore", "latest", "--to", "back"]).well();
}

#[test]
fn remains_of_a_snapshot_are_kept() {
    let (sandbox, id) = with_a_large_file();
    sandbox.run(["repair", "snapshots"]).ended(0, &["No listed snapshot is known to be damaged"]);
    let container = objects(&sandbox, "data/").remove(0);
    flip(&sandbox.path("repo").join(container), 5000);
    sandbox.run(["check", "--read-data"]).ended(1, &["affected: "]);

    let file = sandbox.path("source/large").display().to_string();
    let dry = sandbox.run(["repair", "snapshots", "--dry-run"]).ended(1, &[]);
    for text in ["lost: snapshot", &file, "bytes ", "kept as large.cutpoint-damaged"] {
        assert!(dry.text().contains(text), "{text}: {}", dry.text());
    }
    let events = sandbox.json(["repair", "snapshots", "--forget"]);
    let loss = events.iter().find(|event| event["type"] == "loss").expect("a loss");
    assert_eq!((&loss["kind"], &loss["path"]), (&"parts".into(), &file.into()), "{loss}");
    let range = &loss["ranges"][0];
    let range = [&range["offset"], &range["end_offset"]].map(|end| end.as_u64().expect("a number"));
    let repaired = events.iter().find(|event| event["type"] == "repaired").expect("a snapshot");
    assert_eq!(repaired["snapshot"], id.as_str(), "{repaired}");

    let list = sandbox.run(["snapshots"]).well();
    assert!(!list.text().contains(&format!("\n{}", &id[..8])), "it is forgotten: {}", list.text());
    sandbox.run(["check", "--read-data"]).ended(0, &["unneeded: ", "No problems found."]);
    sandbox.run(["restore", "latest", "--to", "back"]).well();
    let source = sandbox.path("source");
    let back = sandbox.path("back").join(source.strip_prefix("/").expect("absolute"));
    let found = fs::read(back.join("large.cutpoint-damaged")).expect("it is restored");
    let mut expected = SplitMix64::bytes(1, 11_000_000);
    let [start, end] = range.map(|end| usize::try_from(end).expect("small"));
    assert!(start < end && end - start < 3_000_000, "{start}..{end}");
    expected[start..end].fill(0);
    assert!(found == expected, "all that is left is there");
    assert!(!back.join("large").exists(), "nothing passes for whole");
    assert_eq!(fs::read(back.join("sub/small")).expect("it is restored"), b"small");

    let twin = &repaired["repaired"].as_str().expect("an id")[..8];
    let short = &id[..8];
    sandbox.run(["forget", "--undo", short]).ended(
        0,
        &[
            &format!("warning: snapshot {short} is damaged and was replaced"),
            &format!("{twin} has the intact part"),
            "Brought back 1 snapshot",
        ],
    );
}

#[test]
fn undo_of_abandoned_snapshot_warns() {
    let sandbox = Sandbox::with_source();
    let whole = sandbox.backup("source/empty folder");
    sandbox.run(["forget", &whole]).well();
    let run = sandbox.run(["forget", "--undo", &whole]).well();
    assert!(!run.stderr.contains("warning"), "nothing of it is lost: {}", run.stderr);

    // Nothing of this snapshot is left.
    let mut command = sandbox.command(["backup", "--stdin", "--json"]);
    let events = run_with_input(&mut command, &SplitMix64::bytes(3, 200_000)).well().events();
    let lost = events.last().expect("a summary")["snapshot"].as_str().expect("an id").to_owned();
    for container in objects(&sandbox, "data/") {
        fs::remove_file(sandbox.path("repo").join(container)).expect("it is there");
    }
    sandbox.run(["repair", "snapshots", "--forget"]).ended(1, &[]);
    let warning = format!("warning: snapshot {} is lost", &lost[..8]);
    sandbox.run(["forget", "--undo", &lost]).ended(0, &[&warning, "Brought back 1 snapshot"]);

    // A commit that cannot be read any more is lost for good.
    flip(&sandbox.path(format!("repo/commits/{whole}")), 100);
    sandbox.run(["repair", "snapshots", "--forget"]).ended(1, &[]);
    sandbox
        .run(["forget", "--undo", &whole])
        .ended(2, &["removed for good", "by `cutpoint repair snapshots --forget`"]);
}

/// Four checks of a quarter read everything, even with a backup in between. Then the cycle starts
/// again.
#[test]
fn partial_checks_take_turns() {
    let (sandbox, _) = with_a_large_file();
    let check = |portion: &str| {
        let events = sandbox.json(["check", "--read-data", portion]);
        events.last().expect("a summary").clone()
    };
    let number = |summary: &serde_json::Value, field: &str| {
        summary[field].as_u64().unwrap_or_else(|| panic!("{field}: {summary}"))
    };
    let first = check("25%");
    let all = number(&first, "container_bytes");
    assert!(number(&first, "read_bytes") >= all / 4, "{first}");
    assert!(number(&first, "read_bytes") < all, "{first}");
    assert_eq!(first["read_bytes"], first["covered_bytes"], "{first}");
    assert!(first["covered_since"].as_str().is_some_and(|time| time.starts_with("20")), "{first}");
    let mut read = number(&first, "read_bytes");
    fs::write(sandbox.path("source/more"), SplitMix64::bytes(2, 3_000_000)).expect("written");
    sandbox.backup("source");
    let last = ["25%", "25%", "25%"].map(check).map(|summary| {
        read += number(&summary, "read_bytes");
        summary
    });
    let last = last.last().expect("three");
    assert!(number(last, "container_bytes") > all, "the backup has stored something");
    assert_eq!(last["covered_bytes"], last["container_bytes"], "{last}");
    assert_eq!(read, number(last, "container_bytes"), "each byte once");

    // A size, and everything.
    let some = check("1M");
    assert!(number(&some, "read_bytes") > 0, "one container at least: {some}");
    assert!(number(&some, "read_bytes") < all, "{some}");
    let whole = check("all");
    assert_eq!(whole["read_bytes"], whole["container_bytes"], "{whole}");

    // Without a record, nothing counts as read.
    let state = sandbox.path("home/.local/state/cutpoint");
    let memory = fs::read_dir(&state)
        .expect("it is there")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|extension| extension == "read"))
        .expect("what was read is remembered");
    flip(&memory, 20);
    let texts = ["all data counts as unread"];
    sandbox.run(["check", "--read-data", "1M"]).ended(0, &texts);
    sandbox.run(["check", "--read-data", "0%"]).ended(2, &["nothing would be read"]);
    // The record is intact again.
    let run = sandbox.run(["check", "--read-data", "1M"]).well();
    assert!(!run.stderr.contains(texts[0]), "{}", run.stderr);
}

/// The repair creates parity that is requested later. After that, a damaged container can be
/// rebuilt without its sources.
#[test]
fn container_with_parity_is_rebuilt() {
    let (sandbox, _) = with_a_large_file();
    sandbox
        .run(["repair", "data"])
        .ended(0, &["parity created for 0 containers", "request no parity"]);
    sandbox.run(["config", "--parity", "5"]).ended(2, &["10%"]);
    let settings = sandbox.run(["config", "--parity", "10%"]).well();
    assert!(settings.text().contains("parity             10%"), "{}", settings.text());
    sandbox.run(["check"]).ended(0, &["Without usable parity"]);
    sandbox.run(["repair", "data", "--dry-run"]).ended(0, &["parity would be created for"]);
    assert!(objects(&sandbox, "parity/").is_empty(), "a dry run writes nothing");
    let events = sandbox.json(["repair", "data"]);
    let made = events.last().expect("a summary").clone();
    let containers = objects(&sandbox, "data/").len() + objects(&sandbox, "meta/").len();
    assert_eq!(made["protected_count"], containers, "{made}");
    assert_eq!(objects(&sandbox, "parity/").len(), containers, "one for each");
    let first = objects(&sandbox, "parity/").remove(0);
    let described = sandbox.run(["debug", &first]).well();
    assert!(described.text().contains("0 of them damaged"), "{}", described.text());

    for container in [objects(&sandbox, "data/").remove(0), objects(&sandbox, "meta/").remove(0)] {
        flip(&sandbox.path("repo").join(container), 5000);
    }
    let checked = sandbox.run(["check", "--read-data", "--json"]).ended(1, &[]).events();
    assert_eq!(checked.last().expect("a summary")["unprotected_count"], 0, "parity is whole");
    fs::remove_dir_all(sandbox.path("source")).expect("it is there");
    let events = sandbox.json(["repair", "data"]);
    let repaired = events.last().expect("a summary");
    assert_eq!((&repaired["rebuilt_count"], &repaired["failed_count"]), (&2.into(), &0.into()));
    sandbox.run(["check", "--read-data"]).ended(0, &["No problems found."]);
    sandbox.run(["restore", "latest", "--to", "back"]).well();
    let source = sandbox.path("source");
    let back = sandbox.path("back").join(source.strip_prefix("/").expect("absolute"));
    let found = fs::read(back.join("large")).expect("it is restored");
    assert!(found == SplitMix64::bytes(1, 11_000_000), "all of it is there");
}
