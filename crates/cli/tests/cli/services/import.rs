//! Imports of repositories that restic and Borg make.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cutpoint_testing::{SplitMix64, program, services};

use super::mount::Mounted;
use super::mount::metadata::{add_rarities, assert_equal, walk};
use crate::dump_archive::add_extremes;
use crate::sandbox::{Run, Sandbox, make_source, run};

/// A program whose snapshots are imported.
#[derive(Clone, Copy)]
enum Tool {
    Restic,
    Borg(&'static str),
}

/// Returns a sandbox with a repository; `None` if the tests of services do not run.
fn sandbox() -> Option<Sandbox> {
    if !services("the tests of `import`") {
        return None;
    }
    program("restic", "restic");
    program("borg", "borgbackup");
    let sandbox = Sandbox::with_repository();
    let source = sandbox.path("source");
    make_source(&source);
    add_extremes(&source);
    fs::hard_link(source.join("hello"), source.join("third name")).expect("linked");
    fs::hard_link(source.join("pipe"), source.join("another pipe")).expect("linked");
    add_rarities(&sandbox);
    fs::create_dir(sandbox.path("mnt")).expect("made");
    Some(sandbox)
}

/// Runs a command in the sandbox that must succeed.
fn by_tool(sandbox: &Sandbox, name: &str, arguments: &[&str], folder: &Path) {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(folder);
    command.env("RESTIC_PASSWORD", "secret").env("BORG_PASSPHRASE", "secret");
    command
        .env("RESTIC_CACHE_DIR", sandbox.path("cache"))
        .env("BORG_BASE_DIR", sandbox.path("borg"));
    command.env("BORG_RELOCATED_REPO_ACCESS_IS_OK", "yes");
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments:?}: {said}");
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Tool::Restic => "restic",
            Tool::Borg(_) => "borg",
        }
    }

    fn init(self, sandbox: &Sandbox) {
        let folder = sandbox.path("");
        match self {
            Tool::Restic => by_tool(sandbox, "restic", &["init", "-r", "theirs"], &folder),
            Tool::Borg(mode) => by_tool(sandbox, "borg", &["init", "-e", mode, "theirs"], &folder),
        }
    }

    fn backup(self, sandbox: &Sandbox, number: usize) {
        let (folder, source) = (sandbox.path(""), sandbox.path("source"));
        let source = source.to_str().expect("UTF-8");
        let archive = format!("theirs::a{number}");
        match self {
            Tool::Restic => {
                by_tool(sandbox, "restic", &["backup", "-r", "theirs", source], &folder)
            }
            Tool::Borg(_) => {
                let compression = ["none", "lz4", "zstd,3", "zlib,6", "lzma,1"][number % 5];
                let create = ["create", "-C", compression, &archive, source];
                by_tool(sandbox, "borg", &create, &folder);
            }
        }
    }

    /// Restores a snapshot by the program itself. Returns the folder.
    fn restore(self, sandbox: &Sandbox, number: usize, id: &str) -> PathBuf {
        let target = sandbox.path(format!("theirs-{number}"));
        fs::create_dir(&target).expect("a folder is made");
        match self {
            Tool::Restic => {
                let target = target.to_str().expect("UTF-8");
                let restore = ["restore", "-r", "theirs", id, "--target", target];
                by_tool(sandbox, "restic", &restore, &sandbox.path(""));
            }
            Tool::Borg(_) => {
                let archive = format!("{}::a{number}", sandbox.path("theirs").display());
                by_tool(sandbox, "borg", &["extract", &archive], &target);
            }
        }
        target
    }

    fn import(self, sandbox: &Sandbox, options: &[&str]) -> Run {
        let mut command = sandbox.command(["import", self.name(), "theirs"]);
        command.args(options).env("RESTIC_PASSWORD", "secret").env("BORG_PASSPHRASE", "secret");
        run(command.env("BORG_BASE_DIR", sandbox.path("borg")))
    }
}

/// Changes the source, as time goes by.
fn change(sandbox: &Sandbox, number: usize) {
    let path = |name: &str| sandbox.path("source").join(name);
    fs::write(path("hello"), format!("hello {number}\n")).expect("written");
    fs::write(path(&format!("new {number}")), SplitMix64::bytes(number as u64, 3_000_000))
        .expect("written");
    if number == 2 {
        fs::rename(path("sub"), path("renamed")).expect("renamed");
        fs::remove_file(path("dangling")).expect("removed");
    }
}

/// Imports `count` snapshots of a tool, and compares what the tool restores of each with a restore and
/// with a mounted folder.
fn imports_are_equal(tool: Tool, count: usize) {
    let Some(sandbox) = sandbox() else { return };
    tool.init(&sandbox);
    for number in 0..count {
        change(&sandbox, number);
        tool.backup(&sandbox, number);
        if number == 1 {
            tool.import(&sandbox, &[]).ended(0, &["Imported 2 snapshots"]);
        }
    }
    let left = count - 2;
    let would = format!("Would import {left} snapshots");
    tool.import(&sandbox, &["--dry-run"]).ended(0, &[&would]);
    tool.import(&sandbox, &[]).ended(0, &[&format!("Imported {left} snapshots"), "2 already here"]);
    let all_here = format!("{count} already here");
    tool.import(&sandbox, &[]).ended(0, &["Imported 0 snapshots", &all_here]);
    change(&sandbox, count);
    tool.backup(&sandbox, count);
    tool.import(&sandbox, &[]).ended(0, &["Imported 1 snapshot,", &all_here]);
    sandbox.run(["check", "--read-data"]).ended(0, &["No problems found"]);
    let listed = sandbox.json(["snapshots"]);
    assert_eq!(listed.len(), count + 1, "snapshots");
    let mounted = Mounted::new(&sandbox, &[]);
    for (number, event) in listed.iter().enumerate() {
        assert_eq!(event["origin"]["program"], tool.name(), "{event}");
        let source = sandbox.path("source");
        assert_eq!(event["sources"][0]["path"], source.to_str().expect("UTF-8"), "{event}");
        let id = event["origin"]["snapshot"].as_str().expect("an id");
        let theirs = tool.restore(&sandbox, number, id);
        let ours = sandbox.path(format!("ours-{number}"));
        let to = ours.to_str().expect("UTF-8");
        sandbox.run(["restore", &id[..12], "--to", to]).well();
        let own_id = &event["id"].as_str().expect("an id")[..8];
        let shown = mounted.folder.join("ids").join(own_id);
        let source = source.strip_prefix("/").expect("an absolute path");
        let expected = walk(&theirs.join(source));
        assert!(expected.len() > 3020, "{} entries", expected.len());
        for found in [ours.join(source), shown.join(source)] {
            assert_equal(&walk(&found), &expected, false);
        }
        fs::remove_dir_all(&theirs).expect("removed");
        fs::remove_dir_all(&ours).expect("removed");
    }
    assert_eq!(mounted.end().0, Some(0), "the end of the mount");
}

#[test]
fn twenty_snapshots_of_restic_are_equal() {
    imports_are_equal(Tool::Restic, 20);
}

#[test]
fn twenty_archives_of_borg_are_equal() {
    imports_are_equal(Tool::Borg("repokey-blake2"), 20);
}

#[test]
fn archives_of_borg_are_equal_in_each_encryption() {
    for mode in
        ["none", "authenticated", "authenticated-blake2", "repokey", "keyfile", "keyfile-blake2"]
    {
        imports_are_equal(Tool::Borg(mode), 5);
    }
}

#[test]
fn secrets_of_borg_are_asked_for_in_the_usual_way() {
    let Some(sandbox) = sandbox() else { return };
    let tool = Tool::Borg("keyfile");
    tool.init(&sandbox);
    tool.backup(&sandbox, 0);
    let import = |variables: &[(&str, &str)]| {
        let mut command = sandbox.command(["import", "borg", "theirs", "--dry-run"]);
        run(command.envs(variables.iter().copied()))
    };
    let keys = sandbox.path("borg/.config/borg/keys");
    let keys = keys.to_str().expect("UTF-8");
    let passphrase = ("BORG_PASSPHRASE", "secret");
    import(&[passphrase]).ended(12, &["no key file found"]);
    import(&[passphrase, ("BORG_KEYS_DIR", keys)]).ended(0, &["Would import 1 snapshot"]);
    let key = fs::read_dir(keys).expect("a folder").next().expect("a key").expect("a key").path();
    let key = key.to_str().expect("UTF-8");
    let command = ("BORG_PASSCOMMAND", "echo secret");
    import(&[command, ("BORG_KEY_FILE", key)]).ended(0, &["Would import 1 snapshot"]);
    import(&[("BORG_PASSPHRASE", "x"), ("BORG_KEY_FILE", key)]).ended(12, &["wrong passphrase"]);
    import(&[("BORG_KEY_FILE", key)]).ended(12, &["no password given", "BORG_PASSCOMMAND"]);
    let mut absent = sandbox.command(["import", "borg", "nowhere"]);
    run(&mut absent).ended(10, &["nowhere: no repository of Borg"]);
    let mut without = sandbox.command(["import", "borg", "theirs"]);
    run(without.env("PATH", "")).ended(2, &["borg: cannot be started"]);
}

#[test]
fn damaged_segments_of_borg_are_reported_and_the_rest_is_imported() {
    let Some(sandbox) = sandbox() else { return };
    let tool = Tool::Borg("repokey-blake2");
    tool.init(&sandbox);
    change(&sandbox, 0);
    tool.backup(&sandbox, 0);
    // In the middle of the bytes of a large file.
    let segments = fs::read_dir(sandbox.path("theirs/data/0")).expect("a folder");
    let segments = segments.map(|entry| entry.expect("an entry").path());
    let largest = segments.max_by_key(|path| fs::read(path).map_or(0, |bytes| bytes.len()));
    let largest = largest.expect("a segment");
    let mut bytes = fs::read(&largest).expect("a segment");
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&largest, bytes).expect("damaged");
    tool.import(&sandbox, &[]).ended(1, &["not imported: chunk ", "Imported 1 snapshot"]);
    sandbox.run(["check", "--read-data"]).well();
    let listed = sandbox.json(["snapshots"]);
    assert_eq!(listed[0]["problem_count"], 1, "{listed:?}");
    sandbox.run(["restore", "latest", "--to", "back"]).ended(0, &["incomplete"]);
    let back = sandbox.path("back").join(sandbox.path("source").strip_prefix("/").expect("a path"));
    let name = std::ffi::OsStr::from_bytes(b"not \xff UTF-8");
    assert_eq!(fs::read(back.join(name)).expect("it is read"), b"odder");
}

/// Borg adds what it has read so far to an archive as files of their own, and keeps it as an archive.
#[test]
fn parts_and_checkpoints_of_borg_are_left_out() {
    let Some(sandbox) = sandbox() else { return };
    let tool = Tool::Borg("none");
    tool.init(&sandbox);
    let bytes = SplitMix64::bytes(5, 6_000_000);
    fs::write(sandbox.path("bytes"), &bytes).expect("written");
    let slowly = "(head -c 3000000 bytes; sleep 2; tail -c 3000000 bytes; sleep 2; cat bytes) \
                  | borg create --checkpoint-interval 1 theirs::whole - \
                  && borg create theirs::part.checkpoint source/hello \
                  && borg list --consider-part-files theirs::whole | grep -q borg_part_1";
    by_tool(&sandbox, "sh", &["-c", slowly], &sandbox.path(""));
    tool.import(&sandbox, &[]).ended(0, &["Imported 1 snapshot,"]);
    sandbox.run(["restore", "latest", "--to", "back"]).ended(0, &["Restored"]);
    let names: Vec<_> = fs::read_dir(sandbox.path("back"))
        .expect("listed")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["stdin"], "no parts of the file");
    let restored = fs::read(sandbox.path("back/stdin")).expect("the file");
    assert!(restored == [&bytes[..], &bytes].concat(), "other bytes");
    tool.import(&sandbox, &["part.checkpoint"]).ended(0, &["Imported 1 snapshot,"]);
}
