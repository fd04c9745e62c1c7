//! rclone for tests: a remote that is a folder of this machine, and a server of restic's protocol.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::services::{free_port, program};

/// The number of times that a server may fail to start, because another process has taken its port.
const STARTS_MAX: usize = 5;

/// Returns the command for `--rclone-command`, which has a remote `x` that is a folder of this
/// machine, and no other.
///
/// # Panics
///
/// Panics if rclone is not installed.
pub fn rclone_command() -> String {
    let rclone = program("rclone", "rclone");
    format!("env RCLONE_CONFIG=/dev/null RCLONE_CONFIG_X_TYPE=local {}", rclone.display())
}

/// A server, `rclone serve restic`, of a folder of this machine. It ends when it is dropped.
#[derive(Debug)]
pub struct RcloneServer {
    child: Child,
    port: u16,
}

impl RcloneServer {
    /// Starts a server of `folder` with more `options`.
    ///
    /// # Panics
    ///
    /// Panics if rclone is not installed, or does not start.
    pub fn new(folder: &Path, options: &[&str]) -> RcloneServer {
        let rclone = program("rclone", "rclone");
        let started = (0..STARTS_MAX).find_map(|_| start(&rclone, folder, options));
        started.expect("rclone starts")
    }

    /// Returns the address of the folder at `path` below that of the server. `account` is empty, or
    /// `USER:PASSWORD@`.
    pub fn address(&self, account: &str, path: &str) -> String {
        format!("rest:http://{account}127.0.0.1:{}/{path}", self.port)
    }
}

impl Drop for RcloneServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn start(rclone: &PathBuf, folder: &Path, options: &[&str]) -> Option<RcloneServer> {
    let port = free_port();
    let mut child = Command::new(rclone)
        .args(["serve", "restic", "--addr", &format!("127.0.0.1:{port}")])
        .args(options)
        .arg(folder)
        .env("RCLONE_CONFIG", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("rclone runs");
    let errors = child.stderr.take().expect("a pipe");
    let mut server = RcloneServer { child, port };
    let mut lines = BufReader::new(errors).lines().map_while(Result::ok);
    let is_serving = lines.any(|line| line.contains("Serving restic REST API"));
    // What it prints later has to go somewhere.
    std::thread::spawn(move || lines.for_each(drop));
    for _ in 0..if is_serving { 100 } else { 0 } {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return server.child.try_wait().is_ok_and(|ended| ended.is_none()).then_some(server);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}
