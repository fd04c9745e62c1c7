//! The plugin in nbdkit, where that is installed, with clients of libnbd.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cutpoint_testing::{SplitMix64, skipped};
use cutpoint_volume::{
    Access, CreateOptions, Disk, Folder, LocalFolder, Mode, OpenOptions, Volume,
};

const SIZE: u64 = 8 << 20;

/// Returns the plugin, which cargo builds beside the tests.
fn plugin() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test");
    let found = test.ancestors().map(|folder| folder.join("libnbdkit_cutpoint_plugin.so"));
    found.into_iter().find(|path| path.exists()).expect("the plugin is built before its test")
}

fn is_installed(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        skipped(&format!("{program} is not installed: the plugin was not tried"));
    }
    is_there
}

fn create(path: &Path) {
    let folder: Arc<dyn Folder> = Arc::new(LocalFolder::create(path).expect("created"));
    let options = CreateOptions::new(SIZE, 4096, Mode::default());
    Volume::create(&folder, &options).expect("created");
    let volume = open(folder);
    volume.snapshot("main", "empty").expect("snapshot");
    volume.checkpoint().expect("checkpoint");
}

fn open(folder: Arc<dyn Folder>) -> Arc<Volume> {
    Arc::new(Volume::open(folder, &OpenOptions::new(Access::Write)).expect("opened"))
}

/// nbdkit, which ends with the value.
struct Nbdkit(Child);

impl Nbdkit {
    fn start(volume: &Path, socket: &Path, parameters: &[&str]) -> Nbdkit {
        let mut command = Command::new("nbdkit");
        command.args(["--foreground", "--unix"]).arg(socket).arg(plugin());
        command.arg(volume).args(parameters).stdin(Stdio::null());
        let nbdkit = Nbdkit(command.spawn().expect("nbdkit starts"));
        let start = Instant::now();
        while !socket.exists() {
            assert!(start.elapsed() < Duration::from_secs(20), "nbdkit does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        nbdkit
    }

    /// Ends nbdkit as an administrator does.
    fn end(mut self) {
        let id = self.0.id().to_string();
        let killed = Command::new("kill").arg(id).status().expect("kill");
        assert!(killed.success(), "{killed}");
        let ended = self.0.wait().expect("nbdkit ends");
        assert!(ended.success(), "{ended}");
    }
}

impl Drop for Nbdkit {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn disk_is_copied_there_and_back_and_is_there_afterwards() {
    if !is_installed("nbdkit") || !is_installed("nbdcopy") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    create(&at("volume"));
    let mut bytes = SplitMix64::bytes(1, 3 << 20);
    bytes.extend_from_within(..1 << 20);
    bytes.resize(usize::try_from(SIZE).expect("small"), 0);
    fs::write(at("image"), &bytes).expect("written");
    let nbdkit = Nbdkit::start(&at("volume"), &at("socket"), &["memory=16M"]);
    let uri = |export: &str| format!("nbd+unix:///{export}?socket={}", at("socket").display());
    let copy = |from: &str, to: &str| {
        let copied = Command::new("nbdcopy").args(["--flush", from, to]).output();
        let copied = copied.expect("nbdcopy starts");
        assert!(copied.status.success(), "{from} to {to}: {copied:?}");
    };
    let path = |name: &str| at(name).display().to_string();
    copy(&path("image"), &uri(""));
    copy(&uri("main"), &path("back"));
    assert!(fs::read(at("back")).expect("read") == bytes, "another copy");
    copy(&uri("main@empty"), &path("before"));
    assert!(fs::read(at("before")).expect("read").iter().all(|byte| *byte == 0), "a snapshot");
    let mapped = Command::new("nbdinfo").arg("--map").arg(uri("")).output();
    let mapped = String::from_utf8(mapped.expect("nbdinfo starts").stdout).expect("a text");
    assert!(mapped.contains("hole,zero"), "{mapped}");
    let refused = Command::new("nbdinfo").arg(uri("absent")).output().expect("nbdinfo starts");
    assert!(!refused.status.success(), "{refused:?}");
    nbdkit.end();
    let local = LocalFolder::open(&at("volume"), Access::Write).expect("not used any more");
    let volume = open(Arc::new(local));
    let mut found = vec![0; bytes.len()];
    Disk::open(&volume, "main").expect("a disk").read(0, &mut found).expect("read");
    assert!(found == bytes, "another volume");
    assert_eq!(volume.audit(), Ok(()), "the tables");
}

#[test]
fn writes_end_at_the_limit() {
    if !is_installed("nbdkit") || !is_installed("nbdcopy") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    create(&at("volume"));
    fs::write(at("image"), SplitMix64::bytes(1, usize::try_from(SIZE).expect("small")))
        .expect("written");
    for (parameters, problem) in [
        (&["reserve=0", "limit=4M"][..], Some("No space left on device")),
        (&["reserve=0", "limit=16M"], None),
    ] {
        let socket = at(parameters[1]);
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        let nbdkit = Nbdkit::start(&at("volume"), &socket, parameters);
        // nbdkit aborts now and then if a client leaves while replies are on their way.
        let mut command = Command::new("nbdcopy");
        command.args(["--connections=1", "--requests=1"]).arg(at("image")).arg(&uri);
        let copied = command.output().expect("nbdcopy starts");
        let said = String::from_utf8_lossy(&copied.stderr);
        assert_eq!(copied.status.success(), problem.is_none(), "{parameters:?}: {said}");
        assert!(said.contains(problem.unwrap_or_default()), "{parameters:?}: {said}");
        nbdkit.end();
    }
}

#[test]
fn wrong_parameters_are_refused_before_anything_is_served() {
    if !is_installed("nbdkit") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let absent = format!("folder={}", folder.path().join("absent").display());
    for (words, problem) in [
        (vec![], "folder=PATH is missing"),
        (vec!["size=3"], "size: there is no such parameter"),
        (vec!["limit=many"], "limit=many: no size"),
        (vec![absent.as_str()], "there is no volume"),
    ] {
        let mut command = Command::new("nbdkit");
        command.arg("--foreground").arg("--unix").arg(folder.path().join("socket"));
        let output = command.arg(plugin()).args(&words).output().expect("nbdkit starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(problem), "{words:?}: {text}");
    }
}
