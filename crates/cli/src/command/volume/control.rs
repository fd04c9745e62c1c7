//! Requests to a volume: made at once, or by the process that serves the volume.
//!
//! A volume has one user at a time. The process that serves it listens at a socket in its folder, which
//! only its owner can use. A connection is one line of JSON with a request, and one with the answer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use cutpoint_volume::Finding;
use cutpoint_volume::nbd::SocketPath;
use serde::{Deserialize, Serialize};

use crate::event::{VolumeCheckCounts, VolumeDisk, VolumeSnapshot, VolumeStats};
use crate::exit::{Exit, Failure};

/// The name of the socket in the folder of a volume.
const SOCKET: &str = "control.socket";
/// The maximum length of a request in bytes.
const REQUEST_LEN_MAX: u64 = 64 * 1024;
/// The maximum time for the request of a client, and for taking its answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval at which the server looks for its end.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A request to a volume.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(super) enum Request {
    Stats,
    List,
    Check,
    Changed { from: String, to: String },
    CreateDisk { name: String, size: u64 },
    Snapshot { disk: String, name: String },
    Clone { from: String, name: String },
    RollBack { disk: String, snapshot: String },
    Delete { name: String },
    Resize { disk: String, size: u64 },
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(super) enum Answer {
    Done,
    Stats {
        stats: Box<VolumeStats>,
    },
    List {
        disks: Vec<VolumeDisk>,
        snapshots: Vec<VolumeSnapshot>,
    },
    Check {
        findings: Vec<CheckFinding>,
        counts: VolumeCheckCounts,
    },
    /// Offsets and lengths in bytes; `None` if the one does not come from the other.
    Changed {
        parts: Option<Vec<(u64, u64)>>,
    },
    Failed {
        exit: u8,
        message: String,
    },
}

/// A damaged part of a volume.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CheckFinding {
    pub(super) object: String,
    pub(super) problem: String,
    pub(super) block_count: u64,
    /// The first blocks, each with its disk or snapshot.
    pub(super) blocks: Vec<String>,
}

impl From<&Finding> for CheckFinding {
    fn from(finding: &Finding) -> CheckFinding {
        let Finding { object, problem, block_count, blocks } = finding.clone();
        let blocks = blocks.iter().map(ToString::to_string).collect();
        CheckFinding { object, problem, block_count, blocks }
    }
}

impl Request {
    /// Returns `true` if the request changes the volume.
    pub(super) fn is_change(&self) -> bool {
        !matches!(self, Request::Stats | Request::List | Request::Check | Request::Changed { .. })
    }
}

/// Asks the process that serves a volume. Returns `None` if none listens.
///
/// # Errors
///
/// Fails if the process ends meanwhile, and with the failure that it answers.
pub(super) fn ask(folder: &Path, request: &Request) -> Result<Option<Answer>> {
    let Ok(mut stream) = UnixStream::connect(folder.join(SOCKET)) else { return Ok(None) };
    let context = || format!("{}: the server of the volume does not answer", folder.display());
    let line = serde_json::to_string(request).context("request")? + "\n";
    stream.write_all(line.as_bytes()).with_context(context)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).with_context(context)?;
    let answer: Answer = serde_json::from_str(&answer).with_context(context)?;
    match answer {
        Answer::Failed { exit, message } => {
            let known = [Exit::Damaged, Exit::Full, Exit::Conflict];
            let exit = known.into_iter().find(|it| it.code() == exit).unwrap_or(Exit::Failed);
            Err(Failure::new(exit, format!("{}: {message}", folder.display())).into())
        }
        answer => Ok(Some(answer)),
    }
}

/// The socket of a volume that is served. It is removed with the value.
#[derive(Debug)]
pub(super) struct Control {
    _path: SocketPath,
    listener: UnixListener,
}

impl Control {
    /// Begins to listen in the folder of a volume that this process has locked.
    pub(super) fn listen(folder: &Path) -> io::Result<Control> {
        let path = folder.join(SOCKET);
        // It is left of a process that was killed, because this one has the lock.
        std::fs::remove_file(&path).ok();
        let listener = UnixListener::bind(&path)?;
        // The folder has kept others out until now.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Control { _path: SocketPath::of(&path), listener })
    }

    /// Answers requests by `perform`, one after the other, until `is_asked_to_stop` returns `true`.
    pub(super) fn run(
        &self,
        perform: &dyn Fn(&Request) -> Answer,
        is_asked_to_stop: &dyn Fn() -> bool,
    ) {
        while !is_asked_to_stop() {
            match self.listener.accept() {
                // The client is told, or is gone.
                Ok((stream, _)) => drop(answer(stream, perform)),
                Err(_) => self.wait(),
            }
        }
    }

    fn wait(&self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.subsec_nanos().into() };
        let mut waiting = [PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN)];
        if poll(&mut waiting, Some(&timeout)).is_err() {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Answers one client.
fn answer(mut stream: UnixStream, perform: &dyn Fn(&Request) -> Answer) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new((&stream).take(REQUEST_LEN_MAX)).read_line(&mut line)?;
    let answer = match serde_json::from_str::<Request>(&line) {
        Ok(request) => perform(&request),
        Err(error) => {
            Answer::Failed { exit: Exit::Failed.code(), message: format!("request: {error}") }
        }
    };
    let line = serde_json::to_string(&answer).map_err(io::Error::other)? + "\n";
    stream.write_all(line.as_bytes())
}
