//! The end of a mounted folder, and folders that cannot be mounted.

use std::fs::{self, File};
use std::io::Read;
use std::process::Command;

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
