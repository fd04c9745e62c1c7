//! Alarms end: after damage, the commands that a check names bring every command back to exit code
//! 0.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use cutpoint_testing::SplitMix64;
use serde_json::Value;

use crate::sandbox::{Run, Sandbox};

/// Creates a repository without encryption, with small containers and two snapshots of `source`.
fn with_two_snapshots() -> (Sandbox, [String; 2]) {
    two_snapshots(&[])
}

/// Creates a repository with further options of `init`, and two snapshots.
fn two_snapshots(init: &[&str]) -> (Sandbox, [String; 2]) {
    let sandbox = Sandbox::new();
    let options = ["init", "--encryption", "none", "--container-size", "4M"];
    sandbox.run(options.iter().chain(init)).well();
    fs::create_dir(sandbox.path("source")).expect("made");
    let write = |seed: u64| {
        let path = sandbox.path("source").join(seed.to_string());
        fs::write(path, SplitMix64::bytes(seed, 100_000)).expect("written");
    };
    write(1);
    let first = sandbox.backup("source");
    write(2);
    let second = sandbox.backup("source");
    (sandbox, [first, second])
}

/// Runs every command that reads or changes snapshots, beginning with those that change nothing.
/// Returns those that did not end with 0, with their output.
pub(crate) fn alarms(sandbox: &Sandbox) -> Vec<String> {
    let commands: &[&[&str]] = &[
        &["check", "--read-data"],
        &["snapshots"],
        &["stats"],
        &["ls", "latest"],
        &["restore", "latest", "--to", "back", "--overwrite", "replace"],
        &["repair", "objects", "--read-data"],
        &["repair", "data"],
        &["repair", "index"],
        &["repair", "snapshots"],
        &["backup", "source"],
        &["forget", "--keep-last", "100"],
        &["prune", "--exclusive", "--yes"],
        &["check"],
    ];
    let mut alarms = Vec::new();
    for command in commands {
        let Run { code, stderr, .. } = sandbox.run(*command);
        if code != Some(0) {
            alarms.push(format!("{command:?} ended with {code:?}: {stderr}"));
        }
    }
    alarms
}

#[track_caller]
fn all_is_quiet(sandbox: &Sandbox, case: &str) {
    let alarms = alarms(sandbox);
    assert!(alarms.is_empty(), "{case}: {}", alarms.join("\n"));
}

/// Returns the commands that a check names, in their order, without `cutpoint` before them.
fn remedies(sandbox: &Sandbox) -> Vec<String> {
    remedies_of(&sandbox.json(["check", "--read-data"]))
}

/// Runs the commands that a check names, in their order, until it finds nothing. Returns the
/// commands named first.
#[track_caller]
fn cure(sandbox: &Sandbox) -> Vec<String> {
    const ROUNDS_MAX: usize = 4;
    let first = remedies(sandbox);
    let mut named = first.clone();
    for _ in 0..ROUNDS_MAX {
        if named.is_empty() {
            sandbox.run(["check", "--read-data"]).well();
            return first;
        }
        for remedy in &named {
            let mut words: Vec<&str> = remedy.split(' ').collect();
            if remedy == "backup" {
                words.push("source");
            }
            let run = sandbox.run(&words);
            assert!(matches!(run.code, Some(0 | 1)), "{remedy}: {:?} {}", run.code, run.stderr);
        }
        named = remedies(sandbox);
    }
    panic!("still alarmed, after {first:?}: {named:?}")
}

/// Returns the commands named in the events of a check.
pub(crate) fn remedies_of(events: &[Value]) -> Vec<String> {
    const ORDER: [&str; 8] = [
        "snapshots --accept-rollback",
        "repair objects",
        "key remove",
        "repair index --give-up",
        "repair data",
        "backup",
        "repair index",
        "repair snapshots",
    ];
    let lists = events.iter().filter_map(|event| event["remedies"].as_array());
    let all = lists.flatten().filter_map(|remedy| remedy.as_str());
    let named = all.map(|remedy| remedy.strip_prefix("cutpoint ").expect("a command of ours"));
    let named: BTreeSet<String> = named.map(str::to_owned).collect();
    let mut named: Vec<String> = named.into_iter().collect();
    named.sort_by_key(|remedy| ORDER.iter().position(|begin| remedy.starts_with(begin)));
    named
}

fn path_of(sandbox: &Sandbox, object: &str) -> PathBuf {
    sandbox.path("repo").join(object)
}

fn write(sandbox: &Sandbox, object: &str, bytes: &[u8]) {
    let path = path_of(sandbox, object);
    fs::remove_file(&path).expect("it is there");
    fs::write(path, bytes).expect("damaged");
}

fn objects(sandbox: &Sandbox, folder: &str) -> Vec<String> {
    let all = sandbox.json(["debug", "--list"]);
    let names = all.iter().filter_map(|object| object["name"].as_str());
    names.filter(|name| name.starts_with(folder)).map(str::to_owned).collect()
}

#[test]
fn abandoned_commit_raises_no_alarm() {
    let (sandbox, [first, _]) = with_two_snapshots();
    let commit = format!("commits/{first}");
    let mut bytes = fs::read(path_of(&sandbox, &commit)).expect("the commit");
    bytes[100] ^= 1;
    write(&sandbox, &commit, &bytes);
    assert_eq!(remedies(&sandbox), ["repair snapshots --forget"]);
    sandbox.run(["repair", "snapshots", "--forget"]).ended(1, &[&commit, "given up"]);
    all_is_quiet(&sandbox, "a commit that was given up");
}

/// A flipped bit of the version in a header makes an object of another version, which no program
/// has written.
#[test]
fn commit_of_unknown_version_can_be_given_up() {
    let (sandbox, [first, _]) = with_two_snapshots();
    let commit = format!("commits/{first}");
    let whole = fs::read(path_of(&sandbox, &commit)).expect("the commit");
    for at in 0..20 {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        write(&sandbox, &commit, &bytes);
        assert_eq!(remedies(&sandbox), ["repair snapshots --forget"], "byte {at}");
    }
    let mut bytes = whole;
    // The version follows the magic and the kind.
    bytes[5] ^= 0x40;
    write(&sandbox, &commit, &bytes);
    sandbox.run(["repair", "snapshots", "--forget"]).ended(1, &[&commit, "given up"]);
    all_is_quiet(&sandbox, "a commit of another version");
}

/// The part of an object after its sealed content has nothing that does not follow from the
/// content.
#[test]
fn objects_damaged_after_their_content_are_repaired() {
    // With chunks of 512 bytes, no index segment fits into a commit.
    let (sandbox, [first, second]) = two_snapshots(&["--cut", "fixed:size=512"]);
    let mut names = vec![format!("commits/{first}"), format!("commits/{second}")];
    for folder in ["index/", "data/", "meta/", "config/", "keys/"] {
        names.push(objects(&sandbox, folder).remove(0));
    }
    for name in &names {
        let whole = fs::read(path_of(&sandbox, name)).expect("it is there");
        let len = whole.len();
        let flipped = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            bytes
        };
        let mut damages = vec![flipped(len - 1), flipped(len - 20), flipped(len - 32)];
        damages.push(whole[..len - 7].to_vec());
        damages.push([&whole[..], &[0; 3]].concat());
        for (number, bytes) in damages.iter().enumerate() {
            write(&sandbox, name, bytes);
            let said = remedies(&sandbox);
            assert!(said.iter().all(|it| it.starts_with("repair objects")), "{name}: {said:?}");
            assert!(!said.is_empty(), "{name}, {number}");
            sandbox.run(["repair", "objects", "--read-data"]).ended(0, &[name, "is repaired"]);
            let now = fs::read(path_of(&sandbox, name)).expect("it is there");
            assert!(now == whole, "{name}, {number}: other bytes than were put");
        }
    }
    all_is_quiet(&sandbox, "objects that were put again");
}

/// If a backup heals the damage first, no alarm is left either.
#[test]
fn container_truncated_after_its_chunks_raises_no_alarm_after_a_backup() {
    let (sandbox, _) = with_two_snapshots();
    let name = objects(&sandbox, "data/").remove(0);
    let whole = fs::read(path_of(&sandbox, &name)).expect("it is there");
    write(&sandbox, &name, &whole[..whole.len() - 40]);
    sandbox.run(["check", "--read-data"]).ended(1, &[&name]);
    sandbox.run(["backup", "source"]).well();
    sandbox.run(["check", "--read-data"]).well();
    all_is_quiet(&sandbox, "a container that was cut, and a backup");
}

/// A container that no index names is no loss, and is reported once.
#[test]
fn container_abandoned_by_index_repair_is_reported_once() {
    let (sandbox, _) = with_two_snapshots();
    let name = objects(&sandbox, "data/").remove(0);
    let whole = fs::read(path_of(&sandbox, &name)).expect("it is there");
    write(&sandbox, &name, &whole[..whole.len() / 2]);
    sandbox.run(["check", "--read-data"]).ended(1, &[&name]);
    sandbox.run(["repair", "index"]).ended(1, &[&name, "not in the new index"]);
    sandbox.run(["backup", "source"]).well();
    sandbox.run(["check", "--read-data"]).well();
    all_is_quiet(&sandbox, "a container that was given up");
}

/// Other clients have seen the commit, and this machine remembers it as the newest snapshot.
#[test]
fn missing_newest_snapshot_raises_no_alarm_after_its_remedies() {
    let (sandbox, [_, second]) = with_two_snapshots();
    sandbox.run(["tag", "latest", "--add", "word"]).well();
    fs::remove_file(path_of(&sandbox, &format!("commits/{second}"))).expect("it goes");
    let text = "cutpoint snapshots --accept-rollback";
    sandbox.run(["repair", "snapshots", "--forget"]).ended(12, &[text]);
    let check = sandbox.run(["check"]).ended(1, &["problem: rollback: ", text]);
    let place = |text: &str| check.stderr.find(&format!("  cutpoint {text}"));
    let places = [place("snapshots --accept-rollback"), place("repair snapshots --forget")];
    assert!(places[0].is_some() && places[0] < places[1], "in this order: {}", check.stderr);
    assert_eq!(cure(&sandbox), ["snapshots --accept-rollback", "repair snapshots --forget"]);
    all_is_quiet(&sandbox, "a newest snapshot that is gone");
}

#[test]
fn missing_or_damaged_prune_record_raises_no_alarm_after_its_remedies() {
    for is_damaged in [false, true] {
        let (sandbox, [first, _]) = with_two_snapshots();
        sandbox.run(["forget", &first]).well();
        sandbox.run(["prune", "--exclusive", "--yes"]).well();
        sandbox.backup("source");
        let record = objects(&sandbox, "prunes/").pop().expect("a record");
        let text = if is_damaged {
            write(&sandbox, &record, b"junk");
            format!("{record} exists, but cannot be opened")
        } else {
            fs::remove_file(path_of(&sandbox, &record)).expect("it goes");
            "An older copy was put back, or newer objects were deleted".to_owned()
        };
        sandbox.run(["snapshots"]).ended(12, &[&text, "cutpoint snapshots --accept-rollback"]);
        let give_up = "repair index --give-up 1";
        let named = cure(&sandbox);
        sandbox.run(["repair", "index"]).well();
        match is_damaged {
            // The record exists by its name, so that it does not stop the repair that gives it up.
            true => assert_eq!(named[0], give_up),
            false => assert_eq!(named[..2], ["snapshots --accept-rollback", give_up]),
        }
        all_is_quiet(&sandbox, &text);
    }
}

#[test]
fn damaged_settings_raise_no_alarm_after_their_remedies() {
    let (sandbox, _) = with_two_snapshots();
    sandbox.run(["config", "--compression-level", "5"]).well();
    let newest = objects(&sandbox, "config/");
    let newest = newest.iter().filter(|name| name.contains("1"));
    let mut names: Vec<&String> = newest.collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    for name in &names {
        write(&sandbox, name, b"junk");
    }
    let text = format!("{} exists, but cannot be opened: damaged or replaced", names[0]);
    let removals = names.iter().map(|name| format!("repair objects --remove {name}"));
    let removals: Vec<String> = removals.collect();
    let remove = &removals[0];
    let run = sandbox.run(remove.split(' ')).ended(12, &[&text]);
    assert!(!run.stderr.contains("put back, or"), "nothing was put back: {}", run.stderr);
    sandbox.run(["check"]).ended(1, &[&text]);
    let named = [vec!["snapshots --accept-rollback".to_owned()], removals.clone()].concat();
    assert_eq!(remedies(&sandbox), named);
    sandbox.run(["snapshots", "--accept-rollback"]).ended(1, &[names[0]]);
    // The copy is left, and reported under its own name only.
    sandbox.run(removals[0].split(' ')).ended(1, &[names[1], "not repaired"]);
    let run = sandbox.run(["snapshots"]).ended(1, &[&format!("problem: {}: ", names[1])]);
    assert_eq!(run.stderr.matches("config/").count(), 1, "{}", run.stderr);
    sandbox.run(removals[1].split(' ')).well();
    all_is_quiet(&sandbox, "settings that were damaged");
}
