//! Snapshots as a folder.

mod ends;
pub(super) mod metadata;
mod reads;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cutpoint_testing::{program, services};

use crate::sandbox::Sandbox;

/// The maximum time until a change at the top of the folder is seen, and until a command ends.
const LIMIT: Duration = Duration::from_secs(30);

/// Returns a sandbox with a repository; `None` if the tests of services do not run.
fn sandbox() -> Option<Sandbox> {
    if !services("the tests of `mount`") {
        return None;
    }
    program("fusermount3", "fuse3");
    assert!(Path::new("/dev/fuse").exists(), "/dev/fuse is not there: load the module `fuse`");
    let sandbox = Sandbox::with_repository();
    fs::create_dir(sandbox.path("mnt")).expect("made");
    Some(sandbox)
}

/// The folder `mnt` of a sandbox with a mounted repository. Unmounted when dropped.
pub(super) struct Mounted {
    pub(super) folder: PathBuf,
    log: PathBuf,
    child: Child,
}

impl Mounted {
    pub(super) fn new(sandbox: &Sandbox, options: &[&str]) -> Mounted {
        Mounted::by(sandbox.command([&["mount", "mnt"], options].concat()), sandbox)
    }

    /// Mounts by `command`, and waits until that is done.
    fn by(mut command: Command, sandbox: &Sandbox) -> Mounted {
        let (folder, log) = (sandbox.path("mnt"), sandbox.path("mount.log"));
        let output = File::create(&log).expect("a log");
        let errors = output.try_clone().expect("the same log");
        let child = command.stdout(output).stderr(errors).spawn().expect("it starts");
        let mut mounted = Mounted { folder, log, child };
        let begun = Instant::now();
        while !mounted.log().contains("Ctrl-C") && !mounted.log().contains("\"mounted\"") {
            let ended = mounted.child.try_wait().expect("its state");
            assert!(ended.is_none(), "{ended:?}: {}", mounted.log());
            assert!(begun.elapsed() < LIMIT, "{}", mounted.log());
            thread::sleep(Duration::from_millis(20));
        }
        mounted
    }

    /// Returns the output so far.
    fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("the log")
    }

    /// Returns a path of the newest snapshot.
    fn latest(&self, path: &Path) -> PathBuf {
        self.folder.join("latest").join(path.strip_prefix("/").expect("an absolute path"))
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "SIG{name} is sent");
    }

    /// Waits for the end of the command.
    fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("its state") {
                return status;
            }
            assert!(begun.elapsed() < LIMIT, "the command does not end: {}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the command by a signal. Returns its exit code and its output.
    pub(super) fn end(mut self) -> (Option<i32>, String) {
        self.signal("INT");
        let code = self.wait().code();
        (code, self.log())
    }

    /// Returns `true` if the folder is mounted.
    fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("the mounts");
        let folder = self.folder.to_str().expect("UTF-8");
        mounts.lines().any(|line| line.split(' ').nth(1) == Some(folder))
    }

    /// Returns a line of the status of the process, in KiB.
    fn status_kib(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the line");
        line.trim_matches([':', ' ', '\t']).trim_end_matches(" kB").parse().expect("a number")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.child.kill().ok();
            self.child.wait().ok();
        }
        let mut unmount = Command::new("fusermount3");
        unmount.arg("-uqz").arg("--").arg(&self.folder);
        unmount.stdout(Stdio::null()).stderr(Stdio::null()).status().ok();
    }
}

/// Waits until `is_so` holds.
#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the sorted names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it is listed");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("an entry").file_name().to_string_lossy().into_owned()
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}
