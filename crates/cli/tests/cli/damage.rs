//! Damage is reported and affects only the data in it. A check records it, and the next backup
//! heals it.

use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

use cutpoint_testing::SplitMix64;

use crate::failures::flip;
use crate::sandbox::{Run, Sandbox};

const FILE_LEN: usize = 1_000_000;

/// Creates a repository with two snapshots, of one file and of two, each of which is larger than a
/// region. A backup that compares with the second snapshot need not read them again.
fn with_two_snapshots() -> (Sandbox, [String; 2]) {
    two_snapshots(Sandbox::with_repository())
}

/// Does the same as [`with_two_snapshots`] with small chunks, whose index segments do not fit into
/// commits.
fn with_two_segments() -> (Sandbox, [String; 2]) {
    let sandbox = Sandbox::new();
    sandbox.run(["init", "--encryption", "none", "--cut", "fixed:size=4k"]).well();
    two_snapshots(sandbox)
}

fn two_snapshots(sandbox: Sandbox) -> (Sandbox, [String; 2]) {
    fs::create_dir(sandbox.path("source")).expect("made");
    let write = |seed: u64| {
        let path = sandbox.path("source").join(seed.to_string());
        fs::write(path, SplitMix64::bytes(seed, FILE_LEN)).expect("written");
    };
    write(1);
    let first = sandbox.backup("source");
    write(2);
    // Waits until change times are settled, because they cannot be set.
    thread::sleep(Duration::from_millis(2_100));
    let second = sandbox.backup("source");
    (sandbox, [first, second])
}

/// Returns the names of the objects in a folder of the repository, written by `writer`.
fn objects(sandbox: &Sandbox, folder: &str, writer: &str) -> Vec<String> {
    let all = sandbox.json(["debug", "--list"]);
    let names = all.iter().filter_map(|object| object["name"].as_str());
    let wanted = names.filter(|name| name.starts_with(folder) && name.contains(writer));
    wanted.map(str::to_owned).collect()
}

fn back(sandbox: &Sandbox, file: &str) -> Option<Vec<u8>> {
    let source = sandbox.path("source");
    let source = source.strip_prefix("/").expect("an absolute path");
    fs::read(sandbox.path("back").join(source).join(file)).ok()
}

#[test]
fn damaged_commit_hides_its_snapshot_only() {
    let (sandbox, [first, second]) = with_two_snapshots();
    let commit = format!("commits/{second}");
    flip(&sandbox.path("repo").join(&commit), 100);
    let named = &[commit.as_str(), "skipped (`cutpoint check`"];
    let list = sandbox.run(["snapshots"]).ended(1, named);
    assert!(list.text().contains(&first[..8]), "the other is listed: {}", list.text());
    assert!(!list.text().contains(&second[..8]), "it cannot be listed: {}", list.text());
    sandbox.run(["restore", &second, "--to", "back"]).ended(11, &[&commit]);
    assert!(!sandbox.path("back").exists(), "nothing was restored in its place");
    sandbox.run(["restore", "latest", "--to", "back"]).ended(1, named);
    is_back(&sandbox, 1);
    // The next backup reports it, too, and saves everything.
    sandbox.run(["backup", "source"]).ended(1, &["Created snapshot", &commit]);
    sandbox.run(["restore", "latest", "--to", "back", "--overwrite", "changed"]).ended(1, named);
    is_back(&sandbox, 2);
    sandbox.run(["check"]).ended(1, &[&format!("corrupt: {commit}")]);
}

#[track_caller]
fn is_back(sandbox: &Sandbox, seed: u64) {
    let is_back =
        back(sandbox, &seed.to_string()).is_some_and(|b| b == SplitMix64::bytes(seed, FILE_LEN));
    assert!(is_back, "file {seed} is not restored");
}

/// Runs a backup. Returns the number of bytes that it reads.
fn read_bytes(sandbox: &Sandbox) -> u64 {
    let events = sandbox.json(["backup", "source"]);
    events.last().expect("a summary")["read_bytes"].as_u64().expect("a number")
}

fn without_a_segment(of: usize, damage: impl Fn(&Path)) {
    let (sandbox, ids) = with_two_segments();
    let segment = objects(&sandbox, "index/", &ids[of]).remove(0);
    damage(&sandbox.path("repo").join(&segment));
    let named = &[segment.as_str(), "skipped (`cutpoint check`"];
    // The tables of contents of its containers replace the segment, so everything is restored.
    let latest = ["restore", "latest", "--to", "back", "--no-cache"];
    sandbox.run(latest).ended(1, named);
    is_back(&sandbox, 1);
    is_back(&sandbox, 2);
    sandbox.run(["check"]).ended(1, &[&segment, "1 problem found"]);
    // A backup continues without the segment, and stores again the chunks it needs. Its snapshot
    // needs neither the segment nor the containers that only the segment lists.
    sandbox.run(["backup", "source", "--no-cache"]).ended(1, &[&segment, "Created snapshot"]);
    for container in ["data/", "meta/"].iter().flat_map(|kind| objects(&sandbox, kind, &ids[of])) {
        fs::remove_file(sandbox.path("repo").join(container)).expect("it is there");
    }
    fs::remove_dir_all(sandbox.path("back")).expect("removed");
    sandbox.run(latest).ended(1, named);
    is_back(&sandbox, 1);
    is_back(&sandbox, 2);
}

#[test]
fn damaged_segment_hides_nothing() {
    without_a_segment(1, |path| flip(path, 100));
}

#[test]
fn deleted_segment_hides_nothing() {
    without_a_segment(1, |path| fs::remove_file(path).expect("it is there"));
}

/// The tree of the parent exists and shows no change, but only the damaged segment locates the
/// chunks of a file.
#[test]
fn chunks_known_to_a_damaged_segment_only_are_read() {
    without_a_segment(0, |path| flip(path, 100));
}

/// Runs a check on damage and heals it. Returns the last check, and the damaged object.
fn check_and_heal(folder: &str, of: usize, healed_bytes: u64) -> (Run, String) {
    let (sandbox, ids) = with_two_snapshots();
    assert_eq!(read_bytes(&sandbox), 0, "nothing has changed");
    let container = objects(&sandbox, folder, &ids[of]).remove(0);
    flip(&sandbox.path("repo").join(&container), 200);

    let commits = || objects(&sandbox, "commits/", "").len();
    let before = commits();
    let check = ["check", "--read-data", "--no-record"];
    sandbox.run(check).ended(1, &[&container, "cannot be read from any container"]);
    assert_eq!(commits(), before, "nothing is recorded");
    sandbox.run(&check[..2]).ended(1, &[&container, "recorded"]);
    sandbox.run(&check[..2]).ended(1, &[&container]);
    assert_eq!(commits(), before + 1, "recorded, and only once");

    assert_eq!(read_bytes(&sandbox), healed_bytes, "bytes of what has lost chunks");
    sandbox.run(["restore", "latest", "--to", "back"]).well();
    is_back(&sandbox, 1);
    is_back(&sandbox, 2);
    assert_eq!(read_bytes(&sandbox), 0, "once is enough");
    let last = sandbox.run(&check[..2]);
    (last, container)
}

#[test]
fn backup_heals_data_that_a_check_has_recorded() {
    let (last, container) = check_and_heal("data/", 0, FILE_LEN as u64);
    last.ended(0, &["unneeded: ", &container, "No problems found."]);
}

/// Damages the recipe of the first file, which the tree of the second snapshot references.
#[test]
fn backup_heals_recipes_that_a_check_has_recorded() {
    let (last, container) = check_and_heal("meta/", 0, FILE_LEN as u64);
    // The tree of the first snapshot is lost with the recipe, and no backup recreates it.
    last.ended(1, &["corrupt: ", &container, "affected: ", "a part of this folder", "2 problems"]);
}

/// Without the tree of the folder, the changed files are not known.
#[test]
fn backup_heals_trees_that_a_check_has_recorded() {
    let (last, container) = check_and_heal("meta/", 1, 2 * FILE_LEN as u64);
    last.ended(0, &["unneeded: ", &container, "No problems found."]);
}

/// Small files share a chunk, in which an added or a longer file changes the neighbours. The older
/// snapshot needs the chunk as it was.
#[test]
fn backup_heals_a_chunk_of_small_files_beside_an_added_file() {
    let sandbox = Sandbox::with_repository();
    fs::create_dir(sandbox.path("source")).expect("made");
    let write = |name: &str, bytes: &[u8]| {
        fs::write(sandbox.path("source").join(name), bytes).expect("written");
    };
    let content = |number: u64| SplitMix64::bytes(number, 5000);
    (10..22).for_each(|number| write(&number.to_string(), &content(number)));
    let first = sandbox.backup("source");
    let container = objects(&sandbox, "data/", &first).remove(0);
    flip(&sandbox.path("repo").join(&container), 9000);
    let check = ["check", "--read-data"];
    sandbox.run(check).ended(1, &["/10: not restorable", "/21: not restorable", "13 problems"]);

    write("155", b"added");
    write("17", &[content(17), b"and more".to_vec()].concat());
    sandbox.backup("source");
    sandbox.run(check).ended(0, &["unneeded: ", "No problems found."]);
    sandbox.run(["restore", &first, "--to", "back"]).well();
    for number in 10..22 {
        assert_eq!(back(&sandbox, &number.to_string()), Some(content(number)), "{number}");
    }
    assert_eq!(back(&sandbox, "155"), None, "not in the first snapshot");
}

/// A file that has changed is not what the damaged chunk had.
#[test]
fn backup_makes_no_chunk_of_other_bytes() {
    let sandbox = Sandbox::with_repository();
    fs::create_dir(sandbox.path("source")).expect("made");
    for number in 0..3 {
        let path = sandbox.path("source").join(number.to_string());
        fs::write(path, SplitMix64::bytes(number, 5000)).expect("written");
    }
    let first = sandbox.backup("source");
    let container = objects(&sandbox, "data/", &first).remove(0);
    flip(&sandbox.path("repo").join(&container), 9000);
    sandbox.run(["check", "--read-data"]).ended(1, &["4 problems"]);
    fs::write(sandbox.path("source/1"), SplitMix64::bytes(9, 5000)).expect("written");
    let summary = sandbox.json(["backup", "source"]).pop().expect("a summary");
    assert_eq!(summary["new_chunk_count"], 1, "the chunk of the present files: {summary}");
    sandbox.run(["restore", "latest", "--to", "back"]).well();
    sandbox.run(["check", "--read-data"]).ended(1, &["/0: not restorable", &first[..8]]);
}

/// The writer of a snapshot could not read the record of the damage, although it read a commit that
/// refers to that record. Such a snapshot does not prove that everything was healed.
#[test]
fn temporarily_unreadable_record_is_not_forgotten() {
    let (sandbox, ids) = with_two_snapshots();
    let container = objects(&sandbox, "data/", &ids[0]).remove(0);
    flip(&sandbox.path("repo").join(&container), 200);
    let before = objects(&sandbox, "commits/", "");
    sandbox.run(["check", "--read-data"]).ended(1, &["recorded"]);
    let mut records = objects(&sandbox, "commits/", "");
    records.retain(|name| !before.contains(name));
    let record = sandbox.path("repo").join(records.remove(0));
    // A snapshot of another client has seen the record.
    fs::create_dir(sandbox.path("other")).expect("made");
    sandbox.backup("other");
    // This backup cannot read the record, and takes over damaged files without reading them.
    flip(&record, 100);
    let blind = sandbox.json(["backup", "source"]);
    assert_eq!(blind.last().expect("a summary")["unchanged_file_count"], 2, "{blind:?}");
    flip(&record, 100);
    sandbox.run(["backup", "source"]).well();
    sandbox.run(["restore", "latest", "--to", "back"]).well();
    is_back(&sandbox, 1);
    is_back(&sandbox, 2);
}
