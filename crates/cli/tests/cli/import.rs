//! Imports of a repository that restic 0.14 has made: `tests/data/restic-v2`, of format 2, with two
//! snapshots of `/srv/data`.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::failures::flip;
use crate::sandbox::{Run, Sandbox, run};

const FIRST: &str = "37894f13ac3b0af3d7a591a2f1638d2b635271ccde18e8d24029027afcc03b08";
const SECOND: &str = "d2491ed6bba6494060c83b70c566d9c0bfa865ab082e8cde04dff31e9e06de47";
const REPOSITORY: &str = "restic-v2";

/// Returns a sandbox with a repository, and a copy of that of restic.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_repository();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(REPOSITORY);
    copy_folder(&data, &sandbox.path("restic"));
    sandbox
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder is made");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a file is copied");
        }
    }
}

fn command(sandbox: &Sandbox, options: &[&str]) -> Command {
    let mut command = sandbox.command(["import", "restic", "restic"]);
    command.args(options).env("RESTIC_PASSWORD", "fixture");
    command
}

fn import(sandbox: &Sandbox, options: &[&str]) -> Run {
    run(&mut command(sandbox, options))
}

/// Returns the counts of the summary: imported, present, files read.
fn counts(run: Run) -> [u64; 3] {
    let events = run.well().events();
    let summary = events.last().expect("a summary");
    ["imported_count", "present_count", "read_file_count"]
        .map(|name| summary[name].as_u64().expect("a number"))
}

/// Returns the files below `folder` in the sandbox.
fn pack_files(sandbox: &Sandbox) -> Vec<PathBuf> {
    let folders = fs::read_dir(sandbox.path("restic/data")).expect("a folder");
    let folders = folders.map(|folder| folder.expect("a folder").path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    files.map(|file| file.expect("a file").path()).collect()
}

#[test]
fn snapshots_of_restic_are_imported_with_all_metadata() {
    let sandbox = sandbox();
    let planned = import(&sandbox, &["--dry-run"]);
    let planned = planned.ended(0, &["Would import 2 snapshots", "at the rate of a sample"]);
    assert!(planned.text().contains("snapshot 37894f13"), "{}", planned.text());
    assert_eq!(counts(import(&sandbox, &["--json"])), [2, 0, 4], "the last has one changed file");
    sandbox.run(["check", "--read-data"]).ended(0, &["No problems found"]);
    let listed = sandbox.json(["snapshots"]);
    let origins: Vec<_> = listed.iter().map(|event| &event["origin"]).collect();
    assert_eq!(origins[0]["snapshot"], FIRST);
    assert_eq!(origins[1]["snapshot"], SECOND);
    assert_eq!(origins[1]["program"], "restic");
    let second = &listed[1];
    assert_eq!(second["started"], "2024-01-03T03:04:05.000000000Z");
    let counts = ["file_count", "folder_count", "other_count", "size_bytes", "problem_count"];
    assert_eq!(counts.map(|name| second[name].as_u64()), [4, 5, 2, 9408, 0].map(Some));
    assert_eq!((&second["host"], &second["user"]), (&Value::from("alpha"), &Value::from("root")));
    assert_eq!(second["tags"], serde_json::json!(["two", "three"]));
    assert_eq!(second["sources"][0]["path"], "/srv/data");
    let shown = sandbox.run(["snapshots"]).well();
    assert!(shown.text().contains("(import of restic 37894f13)"), "{}", shown.text());

    // The id of restic names the snapshot.
    sandbox.run(["restore", &format!("{}:/srv/data", &SECOND[..8]), "--to", "back"]).well();
    let path = |name: &str| sandbox.path("back").join(name);
    let about = |name: &str| fs::symlink_metadata(path(name)).expect(name);
    assert_eq!(fs::read(path("docs/a.txt")).expect("it is read"), b"first\n");
    let (a, hard) = (about("docs/a.txt"), about("docs/hard"));
    assert_eq!((a.ino(), a.nlink()), (hard.ino(), 2), "one file with two names");
    assert_eq!((a.mtime(), a.mtime_nsec()), (981_173_106, 123_456_789));
    assert_eq!(fs::read_link(path("docs/link")).expect("a link"), Path::new("a.txt"));
    assert_eq!(about("docs/sub").mode() & 0o7777, 0o2750);
    assert_eq!(about("docs").mtime_nsec(), 250_000_000);
    assert_eq!(about("empty").mtime_nsec(), 500_000_000);
    let odd = std::ffi::OsStr::from_bytes(b"docs/odd\xff\n\"\\");
    assert_eq!(fs::read(sandbox.path("back").join(odd)).expect("it is read"), b"odd");
    let numbers: String = (1..=2100).map(|number| format!("{number}\n")).collect();
    assert_eq!(fs::read_to_string(path("docs/sub/numbers")).expect("it is read"), numbers);
    assert!(!path("docs/none").exists(), "deleted before the second snapshot");
    let events = sandbox.json(["ls", &format!("{FIRST}:/srv/data/docs")]);
    let names: Vec<_> = events.iter().filter_map(|event| event["path"].as_str()).collect();
    assert!(names.iter().any(|name| name.ends_with("none")), "{names:?}");
}

#[test]
fn further_imports_take_only_what_is_new() {
    let sandbox = sandbox();
    assert_eq!(counts(import(&sandbox, &["--json", "latest~1"])), [1, 0, 3]);
    // Only the changed file is read.
    assert_eq!(counts(import(&sandbox, &["--json"])), [1, 1, 1]);
    assert_eq!(counts(import(&sandbox, &["--json"])), [0, 2, 0]);
    sandbox.run(["forget", FIRST]).well();
    import(&sandbox, &[]).ended(0, &["1 snapshot not imported again", "--again"]);
    assert_eq!(counts(import(&sandbox, &["--json", "--again"]))[0], 1);
}

#[test]
fn selections_of_an_import_are_those_of_other_commands() {
    let sandbox = sandbox();
    let planned =
        |options: &[&str]| counts(import(&sandbox, &[&["--json", "-n"], options].concat()))[0];
    assert_eq!(planned(&["--host", "alpha"]), 2);
    assert_eq!(planned(&["--host", "beta"]), 0);
    assert_eq!(planned(&["--tag", "two", "--tag", "three"]), 1);
    assert_eq!(planned(&["--path", "/srv/data"]), 2);
    assert_eq!(planned(&["--path", "/srv"]), 0);
    assert_eq!(planned(&["2024-01-02"]), 1);
    assert_eq!(planned(&["latest", &SECOND[..8]]), 1);
    assert_eq!(planned(&[FIRST, SECOND]), 2);
    import(&sandbox, &["abcdef"]).ended(2, &["snapshot `abcdef`: not found"]);
    import(&sandbox, &["latest~2"]).ended(2, &["not found"]);
}

#[test]
fn copy_of_an_import_keeps_the_origin() {
    let sandbox = sandbox();
    import(&sandbox, &[]).well();
    let other = sandbox.path("other");
    let of_other =
        |arguments: &[&str]| run(sandbox.command(arguments).env("CUTPOINT_REPO", &other));
    of_other(&["init", "--encryption", "none"]).well();
    let source = sandbox.path("repo");
    of_other(&["copy", "--from", source.to_str().expect("UTF-8")]).ended(0, &["Copied 2"]);
    let shown = of_other(&["snapshots"]).well();
    assert!(shown.text().contains("(import of restic d2491ed6)"), "{}", shown.text());
    // What was copied need not be imported.
    let mut import = command(&sandbox, &["--json"]);
    assert_eq!(counts(run(import.env("CUTPOINT_REPO", &other))), [0, 2, 0]);
}

#[test]
fn password_comes_from_the_variables_of_restic() {
    let sandbox = sandbox();
    let with = |name: &str, value: &str| {
        let mut command = sandbox.command(["import", "restic", "restic", "--dry-run"]);
        run(command.env(name, value))
    };
    fs::write(sandbox.path("password"), "fixture\n").expect("it is written");
    with("RESTIC_PASSWORD_FILE", "password").ended(0, &["Would import 2"]);
    with("RESTIC_PASSWORD_COMMAND", "echo fixture").ended(0, &["Would import 2"]);
    with("RESTIC_PASSWORD", "wrong").ended(12, &["opens none of its keys", "RESTIC_PASSWORD_FILE"]);
    with("OTHER", "x").ended(12, &["no password given", "RESTIC_PASSWORD_FILE"]);
    let mut absent = sandbox.command(["import", "restic", "nowhere"]);
    run(&mut absent).ended(10, &["nowhere: no repository of restic found"]);
    // A repository of Borg has settings, but no folder with keys.
    fs::create_dir(sandbox.path("theirs")).expect("a folder is made");
    fs::write(sandbox.path("theirs/config"), "[repository]\nversion = 1\n").expect("written");
    let mut borg = sandbox.command(["import", "restic", "theirs"]);
    let none = ["theirs: no repository of restic found"];
    run(borg.env("RESTIC_PASSWORD", "x")).ended(10, &none);
    let mut swapped = sandbox.command(["import", "borg", "restic"]);
    run(&mut swapped).ended(10, &["restic: no repository of Borg: the file config is not one"]);
    // A repository of this program has settings, too.
    let mut own = sandbox.command(["import", "restic", "repo"]);
    assert_ne!(run(own.env("RESTIC_PASSWORD", "x")).code, Some(0));
}

#[test]
fn damaged_packs_are_reported_and_the_rest_is_imported() {
    let mut damaged_count = 0;
    for number in 0..4 {
        let sandbox = sandbox();
        let mut packs = pack_files(&sandbox);
        packs.sort();
        let len = fs::read(&packs[number]).expect("a file").len();
        flip(&packs[number], len / 8);
        let run = import(&sandbox, &[]);
        // A damaged byte is in a blob, or in the header of a pack, which is not needed.
        if run.code == Some(0) {
            continue;
        }
        damaged_count += 1;
        run.ended(1, &["blob ", "not imported"]);
        sandbox.run(["check", "--read-data"]).well();
        // The damage is repaired, and the snapshot becomes complete.
        flip(&packs[number], len / 8);
        import(&sandbox, &["--again"]).well();
        sandbox.run(["restore", &format!("{SECOND}:/srv/data"), "--to", "back"]).well();
        assert_eq!(fs::read(sandbox.path("back/docs/a.txt")).expect("it is read"), b"first\n");
    }
    assert!(damaged_count >= 3, "{damaged_count}");
}

#[test]
fn damaged_settings_and_lists_are_reported() {
    for folder in ["keys", "index", "snapshots"] {
        let sandbox = sandbox();
        let mut files: Vec<_> = fs::read_dir(sandbox.path("restic").join(folder))
            .expect("a folder")
            .map(|file| file.expect("a file").path())
            .collect();
        files.sort();
        let len = fs::read(&files[0]).expect("a file").len();
        flip(&files[0], len / 2);
        let run = import(&sandbox, &[]);
        match folder {
            "snapshots" => run.ended(1, &["snapshots/37894f13", "Imported 1 snapshot"]),
            "index" => run.ended(11, &[folder, "`restic repair index` makes the index anew"]),
            _ => run.ended(11, &[folder, "check the other repository with its own program"]),
        };
    }
}
