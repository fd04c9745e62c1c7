//! The end of a mounted folder, and folders that cannot be mounted.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Mounted, names, sandbox, until};
use crate::sandbox::make_source;
use crate::schema;

#[test]
fn signal_unmounts() {
    let Some(sandbox) = sandbox() else { return };
    make_source(&sandbox.path("source"));
    sandbox.backup("source");
    for signal in ["INT", "TERM"] {
        let mut mounted = Mounted::new(&sandbox, &[]);
        assert!(mounted.is_mounted(), "it is mounted");
        let shown = names(&mounted.latest(&sandbox.path("source")));
        assert_eq!(shown, names(&sandbox.path("source")), "the files");
        mounted.signal(signal);
        assert_eq!(mounted.wait().code(), Some(0), "{signal}: {}", mounted.log());
        assert!(!mounted.is_mounted(), "{signal}");
        assert!(mounted.log().contains("Unmounted mnt."), "{}", mounted.log());
    }
}

#[test]
fn other_mount_namespaces_do_not_delay_the_end() {
    let Some(sandbox) = sandbox() else { return };
    let mut mounted = Mounted::new(&sandbox, &[]);
    let mut copy = Command::new("unshare");
    copy.args(["--user", "--map-root-user", "--mount", "sh", "-c", "echo; exec sleep 60"]);
    let mut copy = copy.stdout(Stdio::piped()).spawn().expect("a copy of the mounts");
    // It has its copy before it prints a line.
    let printed = copy.stdout.take().expect("its output").read(&mut [0]).expect("a line");
    assert_eq!(printed, 1, "unshare works here");
    mounted.signal("INT");
    assert_eq!(mounted.wait().code(), Some(0), "{}", mounted.log());
    assert!(copy.try_wait().expect("its state").is_none(), "the copy is still there");
    assert!(mounted.log().contains("Unmounted mnt."), "{}", mounted.log());
    copy.kill().expect("its end");
    copy.wait().expect("its end");
}

#[test]
fn user_unmounts() {
    let Some(sandbox) = sandbox() else { return };
    let mut mounted = Mounted::new(&sandbox, &[]);
    let unmounted = Command::new("fusermount3").arg("-u").arg(&mounted.folder).status();
    assert!(unmounted.is_ok_and(|status| status.success()), "unmounted");
    assert_eq!(mounted.wait().code(), Some(0), "{}", mounted.log());
    assert!(mounted.log().contains("Unmounted mnt."), "{}", mounted.log());
}

#[test]
fn folder_in_use_says_so_and_keeps_what_is_open() {
    let Some(sandbox) = sandbox() else { return };
    make_source(&sandbox.path("source"));
    sandbox.backup("source");
    let mut mounted = Mounted::new(&sandbox, &[]);
    let path = mounted.latest(&sandbox.path("source/big"));
    let mut file = File::open(&path).expect("opened");
    mounted.signal("INT");
    until("it says so", || mounted.log().contains("mnt: in use by another program"));
    until("it is unmounted", || !mounted.is_mounted());
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).expect("read after the signal");
    let source = fs::read(sandbox.path("source/big")).expect("read");
    assert!(bytes == source, "the open file");
    drop(file);
    assert_eq!(mounted.wait().code(), Some(0), "{}", mounted.log());
    // A second signal ends the command at once.
    let mut mounted = Mounted::new(&sandbox, &[]);
    let _file = File::open(&path).expect("opened");
    mounted.signal("TERM");
    until("it says so", || mounted.log().contains("mnt: in use"));
    mounted.signal("TERM");
    assert_eq!(mounted.wait().code(), Some(130), "{}", mounted.log());
}

#[test]
fn killed_command_leaves_no_hung_folder() {
    let Some(sandbox) = sandbox() else { return };
    let mut mounted = Mounted::new(&sandbox, &[]);
    mounted.child.kill().expect("killed");
    mounted.wait();
    until("it is unmounted", || !mounted.is_mounted());
    assert_eq!(names(&mounted.folder), [""; 0], "an empty folder again");
}

/// What was mounted at the folder after it was detached is not unmounted when the command ends.
#[test]
fn killed_command_leaves_a_later_mount_alone() {
    let Some(sandbox) = sandbox() else { return };
    make_source(&sandbox.path("source"));
    sandbox.backup("source");
    let other = |program: &str, words: &[&str], folder: &Path| {
        let done = Command::new(program).args(words).arg(folder).status();
        done.is_ok_and(|status| status.success())
    };
    for is_of_command in [true, false] {
        let mut mounted = Mounted::new(&sandbox, &[]);
        let file = File::open(mounted.latest(&sandbox.path("source/big"))).expect("opened");
        if is_of_command {
            mounted.signal("INT");
            until("it says so", || mounted.log().contains("mnt: in use by another program"));
        } else {
            assert!(other("umount", &["-l"], &mounted.folder), "detached by the user");
        }
        until("it is detached", || !mounted.is_mounted());
        if !other("mount", &["-t", "tmpfs", "-o", "size=1m", "tmpfs"], &mounted.folder) {
            cutpoint_testing::skipped("the test of a later mount: it has to mount something");
            return;
        }
        mounted.child.kill().expect("killed");
        mounted.wait();
        // The guard needs a moment.
        std::thread::sleep(std::time::Duration::from_secs(2));
        let is_left = mounted.is_mounted();
        other("umount", &[], &mounted.folder);
        drop(file);
        assert!(is_left, "the other mount stays, {is_of_command}");
    }
}

/// A snapshot that contained the folder would contain all snapshots before it.
#[test]
fn mounted_folder_is_left_out_of_backups() {
    let Some(sandbox) = sandbox() else { return };
    fs::create_dir_all(sandbox.path("tree")).expect("made");
    make_source(&sandbox.path("tree/source"));
    fs::rename(sandbox.path("mnt"), sandbox.path("tree/mnt")).expect("moved");
    sandbox.backup("tree");
    std::os::unix::fs::symlink("tree/mnt", sandbox.path("mnt")).expect("linked");
    let mounted = Mounted::new(&sandbox, &[]);
    let shown = mounted.latest(&sandbox.path("tree"));
    assert_eq!(names(&shown), ["mnt", "source"], "it is mounted");
    let saved = sandbox.run(["backup", "tree"]).ended(0, &["tree/mnt: shows snapshots"]);
    let told = saved.stderr.matches("shows snapshots").count();
    assert_eq!(told, 1, "it is said once");
    let listed = sandbox.run(["ls", "-R", "latest"]).well();
    let is_listed = |path: &str| listed.text().lines().any(|line| line.contains(path));
    assert!(is_listed("tree/source/big") && is_listed("tree/mnt"), "{}", listed.text());
    assert!(!is_listed("tree/mnt/latest"), "{}", listed.text());
    // A folder of a snapshot that is named itself is saved.
    let named = shown.to_str().expect("UTF-8");
    sandbox.run(["backup", named]).ended(0, &["Created snapshot"]);
    let listed = sandbox.run(["ls", "-R", "latest"]).well();
    assert!(listed.text().contains("source/big"), "{}", listed.text());
    drop(mounted);
}

#[test]
fn refusals_come_with_a_remedy() {
    let Some(sandbox) = sandbox() else { return };
    sandbox.run(["mount", "none"]).ended(2, &["none: does not exist", "mkdir none"]);
    make_source(&sandbox.path("source"));
    sandbox.run(["mount", "source"]).ended(2, &["source: not empty", "name an empty folder"]);
    sandbox.run(["mount", "source/big"]).ended(2, &["source/big: not a folder"]);
    let mounted = Mounted::new(&sandbox, &[]);
    sandbox.run(["mount", "mnt"]).ended(2, &["mnt: not empty"]);
    drop(mounted);
}

#[test]
fn events_are_those_of_the_schema() {
    let Some(sandbox) = sandbox() else { return };
    make_source(&sandbox.path("source"));
    sandbox.backup("source");
    let mounted = Mounted::new(&sandbox, &["--json"]);
    fs::read(mounted.latest(&sandbox.path("source/big"))).expect("read");
    let (code, log) = mounted.end();
    assert_eq!(code, Some(0), "{log}");
    let events: Vec<serde_json::Value> = log
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for event in &events {
        schema::validate(event).unwrap_or_else(|error| panic!("{event}: {error}"));
    }
    assert_eq!(events[0]["type"], "mounted", "{log}");
    assert_eq!(events[0]["snapshot_count"], 1, "{log}");
    let last = events.last().expect("a summary");
    assert_eq!(last["command"], "mount", "{log}");
    assert!(last["fetched_bytes"].as_u64() > Some(0), "{log}");
}
