//! A command whose standard output is saved, such as a database dump.
//!
//! The command runs without a shell, in a process group of its own, so that the processes it has
//! started end with it. If the command fails, no snapshot is made.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};

use crate::exit::Failure;
use crate::interrupt::{self, AtSignal, Interrupt, Patient};
use crate::unlock::SECRET_VARIABLES;

/// The maximum number of lines of standard error that are kept, which are the last ones.
const LINES_MAX: usize = 20;
/// The maximum length of one of these lines, in bytes.
const LINE_LEN_MAX: usize = 1000;
/// The time that a command gets to end after SIGTERM, before SIGKILL.
const END_LIMIT: Duration = Duration::from_secs(1);
/// The interval at which the end of the command is checked.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The time to wait for a request to stop after the command has failed. An event that ends both,
/// such as the stop of a service, may reach the command first.
const SIGNAL_LIMIT: Duration = Duration::from_millis(300);

/// A command that runs or has run. Clones refer to the same command.
#[derive(Clone, Debug)]
pub(crate) struct SourceCommand {
    name: String,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    child: Child,
    errors: Option<ChildStderr>,
    said: Lines,
    failure: Option<String>,
    /// Set once the command has ended and its end has been recorded.
    is_over: bool,
    is_told_to_end: bool,
}

/// The standard output of a command. Reading to the end succeeds only if the command succeeds.
/// Dropping this ends the command.
#[derive(Debug)]
pub(crate) struct SourceCommandOutput {
    output: Patient<ChildStdout>,
    command: SourceCommand,
    interrupt: Interrupt,
}

impl SourceCommand {
    /// Starts the program `words[0]` with the other words as its arguments.
    ///
    /// # Errors
    ///
    /// Fails with exit code 2 if the command cannot be started.
    pub(crate) fn start(
        words: &[PathBuf],
        interrupt: Interrupt,
    ) -> Result<(SourceCommand, SourceCommandOutput)> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(Failure::failed("no command given").into());
        };
        let failed = |why: &dyn fmt::Display| {
            Failure::failed(format!("command {}: {why}", program.display())).with_remedy(
                "name a program in PATH or the path of a program; for a pipeline, use `-- bash -o \
                 pipefail -c '...'`",
            )
        };
        let mut command = Command::new(program);
        for variable in SECRET_VARIABLES {
            command.env_remove(variable);
        }
        let mut child = command
            .args(arguments)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => failed(&"not found"),
                _ => failed(&error),
            })?;
        let Some(output) = child.stdout.take() else {
            return Err(failed(&"no standard output").into());
        };
        let errors = child.stderr.take();
        let said = Lines::default();
        let (failure, is_over, is_told_to_end) = (None, false, false);
        let state = State { child, errors, said, failure, is_over, is_told_to_end };
        interrupt::set_command(state.group().map(|group| (group, AtSignal::End)));
        // The name has no arguments, because these may be secrets.
        let command = SourceCommand { name: name_of(words), state: Arc::new(Mutex::new(state)) };
        let output =
            SourceCommandOutput { output: Patient(output), command: command.clone(), interrupt };
        Ok((command, output))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the failure of the command, if it has failed.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let failure = self.state().failure.clone()?;
        let message = format!("command `{}`: {failure}; no snapshot was created", self.name);
        let remedy = "run the backup again once the command works; data stored so far is reused";
        Some(Failure::failed(message).with_remedy(remedy))
    }

    /// Returns the last lines of the standard error of the command.
    pub(crate) fn said(&self) -> Vec<String> {
        let mut state = self.state();
        state.hear();
        state.said.lines()
    }
}

impl State {
    /// Reads what the command has written to its standard error so far, without waiting.
    fn hear(&mut self) {
        let mut buffer = [0; 4096];
        while let Some(errors) = &self.errors {
            let mut waiting = [PollFd::new(errors, PollFlags::IN)];
            match poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
                Ok(0) | Err(_) => return,
                Ok(_) => match rustix::io::read(errors.as_fd(), &mut buffer) {
                    Ok(count) if count > 0 => self.said.add(&buffer[..count]),
                    _ => self.errors = None,
                },
            }
        }
    }

    /// The process group of the command, which has the same id as the command.
    fn group(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Signals the command and the processes it has started. No other group can get the same number
    /// as long as the command is not reaped, or any process of the group is left.
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group() {
            kill_process_group(group, signal).ok();
        }
    }

    /// Tells the command and the processes it has started to end. Only the first call has an
    /// effect.
    fn tell_to_end(&mut self) {
        if !std::mem::replace(&mut self.is_told_to_end, true) {
            self.signal(Signal::TERM);
            // A stopped process must continue in order to end.
            self.signal(Signal::CONT);
        }
    }

    /// Returns the status of the command once it has ended. If the command has failed, the
    /// processes it has started are told to end, too.
    fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if !self.is_over
            && let Some(id) = self.group()
            && let Some(ended) = waitid(WaitId::Pid(id), options)?
        {
            if ended.exit_status() == Some(0) {
                interrupt::set_command(None);
            } else {
                // The signal is sent before the command is reaped. Processes that it has started
                // may outlive this run.
                self.tell_to_end();
            }
            self.is_over = true;
        }
        self.child.try_wait()
    }

    /// Ends the command and the processes it has started, and waits for their end.
    fn end(&mut self) {
        if let Ok(Some(status)) = self.status()
            && status.success()
        {
            return;
        }
        self.tell_to_end();
        let mut waited = Duration::ZERO;
        loop {
            let has_ended = !matches!(self.status(), Ok(None));
            if has_ended && self.group().is_none_or(|id| test_kill_process_group(id).is_err()) {
                break;
            }
            if waited >= END_LIMIT {
                self.signal(Signal::KILL);
                self.child.wait().ok();
                break;
            }
            // A process that waits for room in a full pipe must not wait for ever.
            self.hear();
            std::thread::sleep(LOOK_EVERY);
            waited += LOOK_EVERY;
        }
        interrupt::set_command(None);
    }
}

impl Read for SourceCommandOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.interrupt.is_asked() {
            self.command.state().tell_to_end();
            return Err(io::ErrorKind::TimedOut.into());
        }
        let read = self.output.read(buffer);
        let mut state = self.command.state();
        state.hear();
        let is_at_end = matches!(read, Ok(0)) && !buffer.is_empty();
        match read {
            Err(error) if error.kind() != io::ErrorKind::TimedOut => return Err(error),
            Ok(_) if !is_at_end => return read,
            // At the end of the output, or if no bytes come, the status of the command is checked.
            _ => {}
        }
        let Some(status) = state.status()? else {
            if wants_terminal(state.group()) {
                let failure = "stopped, because it tried to use the terminal, which is not \
                               available (give a password by a file or a variable)";
                state.failure = Some(failure.to_owned());
                return Err(io::Error::other(failure));
            }
            if is_at_end {
                // The command has closed its output, but continues.
                drop(state);
                std::thread::sleep(LOOK_EVERY);
            }
            return Err(io::ErrorKind::TimedOut.into());
        };
        if status.success() {
            // A command that succeeds after a signal may not have written everything.
            if self.interrupt.is_asked() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            return if is_at_end { Ok(0) } else { Err(io::ErrorKind::TimedOut.into()) };
        }
        drop(state);
        // A signal that has ended the command may also end this run, and is the cause then.
        self.interrupt.sleep(SIGNAL_LIMIT);
        if self.interrupt.is_asked() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let failure = describe(status);
        self.command.state().failure = Some(failure.clone());
        Err(io::Error::other(failure))
    }
}

impl Drop for SourceCommandOutput {
    fn drop(&mut self) {
        self.command.state().end();
    }
}

/// Returns `true` if the command `id` was stopped because it, or a process that it has started, uses
/// the terminal, which only the process group in the foreground may use.
pub(crate) fn wants_terminal(id: Option<Pid>) -> bool {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let stopped = id.and_then(|id| waitid(WaitId::Pid(id), options).ok()?);
    let signal = stopped.and_then(|stopped| stopped.stopping_signal());
    signal.is_some_and(|signal| {
        [Signal::TTIN, Signal::TTOU].iter().any(|each| each.as_raw() == signal)
    })
}

/// Describes the end of a command.
fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended with an unknown status".to_owned(),
    }
}

/// The last lines of a text.
#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<Vec<u8>>,
    /// The line that is not terminated yet.
    open: Vec<u8>,
}

impl Lines {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                self.end_line();
            } else if self.open.len() < LINE_LEN_MAX {
                self.open.push(byte);
            }
        }
    }

    fn end_line(&mut self) {
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(std::mem::take(&mut self.open));
    }

    /// Returns the lines. A last line without a terminator counts.
    fn lines(&mut self) -> Vec<String> {
        if !self.open.is_empty() {
            self.end_line();
        }
        let text = |line: &Vec<u8>| String::from_utf8_lossy(line).trim_end().to_owned();
        self.lines.iter().map(text).filter(|line| !line.is_empty()).collect()
    }
}

/// Returns the name under which the lines of a command are shown.
pub(crate) fn name_of(words: &[PathBuf]) -> String {
    let program = words.first().and_then(|word| word.file_name());
    program.map(OsStr::to_string_lossy).unwrap_or_default().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_only_the_last_ones() {
        let mut lines = Lines::default();
        for number in 0..100 {
            lines.add(format!("line {number}\n").as_bytes());
        }
        lines.add(&vec![b'x'; 5000]);
        let lines = lines.lines();
        assert_eq!(lines.len(), LINES_MAX, "a bounded number");
        assert_eq!(lines[0], "line 81", "the last ones");
        assert_eq!(lines[LINES_MAX - 1].len(), LINE_LEN_MAX, "of bounded length");
    }
}
