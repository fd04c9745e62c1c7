//! What is damaged is told, and costs no more than what it held; a check records it, and the next
//! backup heals it.

use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

use cutpoint_testing::SplitMix64;

use crate::failures::flip;
use crate::sandbox::{Run, Sandbox};

const FILE_LEN: usize = 1_000_000;

/// A repository with two snapshots, of one file and of two, each of which is more than a region.
/// Whoever compares with the second has to read neither again.
fn with_two_snapshots() -> (Sandbox, [String; 2]) {
    let sandbox = Sandbox::with_repository();
    fs::create_dir(sandbox.path("source")).expect("made");
    let write = |seed: u64| {
        let path = sandbox.path("source").join(seed.to_string());
        fs::write(path, SplitMix64::bytes(seed, FILE_LEN)).expect("written");
    };
    write(1);
    let first = sandbox.backup("source");
    write(2);
    // Until change times are settled, which cannot be set.
    thread::sleep(Duration::from_millis(2_100));
    let second = sandbox.backup("source");
    (sandbox, [first, second])
}

/// The names of the objects in a folder of the repository, those of one writer or of all.
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
fn a_damaged_commit_hides_its_snapshot_only() {
    let (sandbox, [first, second]) = with_two_snapshots();
    let commit = format!("commits/{second}");
    flip(&sandbox.path("repo").join(&commit), 100);
    let named = &[commit.as_str(), "going on without it"];
    let list = sandbox.run(["snapshots"]).ended(1, named);
    assert!(list.text().contains(&first[..8]), "the other is listed: {}", list.text());
    assert!(!list.text().contains(&second[..8]), "it cannot be listed: {}", list.text());
    sandbox.run(["restore", &second, "--to", "back"]).ended(11, &[&commit]);
    assert!(!sandbox.path("back").exists(), "nothing was restored in its place");
    sandbox.run(["restore", "latest", "--to", "back"]).ended(1, named);
    is_back(&sandbox, 1);
    // The next backup says so, too, and saves everything.
    sandbox.run(["backup", "source"]).ended(1, &["is made", &commit]);
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

/// How many bytes a backup reads.
fn read_bytes(sandbox: &Sandbox) -> u64 {
    let events = sandbox.json(["backup", "source"]);
    events.last().expect("a summary")["read_bytes"].as_u64().expect("a number")
}

fn without_a_segment(of: usize, damage: impl Fn(&Path)) {
    let (sandbox, ids) = with_two_snapshots();
    let segment = objects(&sandbox, "index/", &ids[of]).remove(0);
    damage(&sandbox.path("repo").join(&segment));
    let named = &[segment.as_str(), "going on without it"];
    // Its containers say themselves what they hold: all is restored.
    let latest = ["restore", "latest", "--to", "back", "--no-cache"];
    sandbox.run(latest).ended(1, named);
    is_back(&sandbox, 1);
    is_back(&sandbox, 2);
    sandbox.run(["check"]).ended(1, &[&segment, "1 problem found"]);
    // A backup goes on without it, and stores again what it needs: its snapshot needs neither the
    // segment nor what only that had named.
    sandbox.run(["backup", "source", "--no-cache"]).ended(1, &[&segment, "is made"]);
    for container in ["data/", "meta/"].iter().flat_map(|kind| objects(&sandbox, kind, &ids[of])) {
        fs::remove_file(sandbox.path("repo").join(container)).expect("it is there");
    }
    fs::remove_dir_all(sandbox.path("back")).expect("removed");
    sandbox.run(latest).ended(1, named);
    is_back(&sandbox, 1);
    is_back(&sandbox, 2);
}

#[test]
fn a_damaged_segment_hides_nothing() {
    without_a_segment(1, |path| flip(path, 100));
}

#[test]
fn a_deleted_segment_hides_nothing() {
    without_a_segment(1, |path| fs::remove_file(path).expect("it is there"));
}

/// The tree of the parent is there, and says that nothing has changed; but where a file's chunks are
/// only the damaged segment says.
#[test]
fn what_only_a_damaged_segment_knows_is_not_taken_over_unread() {
    without_a_segment(0, |path| flip(path, 100));
}

/// Returns the last check, and what was damaged.
fn check_and_heal(folder: &str, of: usize, healed_bytes: u64) -> (Run, String) {
    let (sandbox, ids) = with_two_snapshots();
    assert_eq!(read_bytes(&sandbox), 0, "nothing has changed");
    let container = objects(&sandbox, folder, &ids[of]).remove(0);
    flip(&sandbox.path("repo").join(&container), 200);

    let commits = || objects(&sandbox, "commits/", "").len();
    let before = commits();
    let check = ["check", "--read-data", "--no-record"];
    sandbox.run(check).ended(1, &[&container, "cannot be read from anywhere"]);
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
fn a_backup_heals_what_a_check_has_recorded() {
    let (last, container) = check_and_heal("data/", 0, FILE_LEN as u64);
    last.ended(0, &["unneeded: ", &container, "Nothing is wrong."]);
}

/// The recipe of the first file, which the second snapshot's tree names.
#[test]
fn a_backup_heals_recipes_that_a_check_has_recorded() {
    let (last, container) = check_and_heal("meta/", 0, FILE_LEN as u64);
    // With the recipe the tree of the first snapshot is lost, which no backup makes again.
    last.ended(1, &["corrupt: ", &container, "affected: ", "some of this folder", "2 problems"]);
}

/// Without the folder's tree, which files have changed is not known.
#[test]
fn a_backup_heals_trees_that_a_check_has_recorded() {
    let (last, container) = check_and_heal("meta/", 1, 2 * FILE_LEN as u64);
    last.ended(0, &["unneeded: ", &container, "Nothing is wrong."]);
}

/// A snapshot whose writer could not read the record of the damage, though it read a commit that names
/// that record, is no proof that all was healed.
#[test]
fn a_record_that_could_not_be_read_for_a_while_is_not_forgotten() {
    let (sandbox, ids) = with_two_snapshots();
    let container = objects(&sandbox, "data/", &ids[0]).remove(0);
    flip(&sandbox.path("repo").join(&container), 200);
    let before = objects(&sandbox, "commits/", "");
    sandbox.run(["check", "--read-data"]).ended(1, &["recorded"]);
    let mut records = objects(&sandbox, "commits/", "");
    records.retain(|name| !before.contains(name));
    let record = sandbox.path("repo").join(records.remove(0));
    // Somebody else's snapshot has seen the record.
    fs::create_dir(sandbox.path("other")).expect("made");
    sandbox.backup("other");
    // This one cannot read it, and takes over unread what is damaged.
    flip(&record, 100);
    let blind = sandbox.json(["backup", "source"]);
    assert_eq!(blind.last().expect("a summary")["unchanged_file_count"], 2, "{blind:?}");
    flip(&record, 100);
    sandbox.run(["backup", "source"]).well();
    sandbox.run(["restore", "latest", "--to", "back"]).well();
    is_back(&sandbox, 1);
    is_back(&sandbox, 2);
}
