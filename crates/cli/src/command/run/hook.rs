//! The commands that a profile executes in a shell.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::interrupt::Interrupt;
use crate::unlock::SECRET_VARIABLES;

/// The interval at which the end of a command is checked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A command for the shell.
pub(super) struct Hook<'a> {
    pub(super) command: &'a str,
    /// The variables that the command gets, besides those of this process.
    pub(super) variables: Vec<(&'static str, String)>,
    /// The standard input of the command.
    pub(super) input: Option<String>,
    /// The request to stop that ends the command, too; `None` for a command that cleans up.
    pub(super) stop: Option<Interrupt>,
}

/// Executes a command, and waits until it has ended. Its output goes to standard error, because
/// standard output has the results of the run.
///
/// # Errors
///
/// Returns the reason if the command cannot be executed or fails.
pub(super) fn execute_hook(hook: &Hook<'_>) -> Result<(), String> {
    let status = execute(hook).map_err(|error| format!("cannot be executed ({error})"))?;
    if status.success() { Ok(()) } else { Err(format!("failed ({status})")) }
}

fn execute(hook: &Hook<'_>) -> io::Result<ExitStatus> {
    let mut command = Command::new("sh");
    for variable in SECRET_VARIABLES {
        command.env_remove(variable);
    }
    let input = if hook.input.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut child = command
        .arg("-c")
        .arg(hook.command)
        .envs(hook.variables.iter().map(|(name, value)| (name, value)))
        .stdin(input)
        .stdout(io::stderr().as_fd().try_clone_to_owned()?)
        .spawn()?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), hook.input.clone()) {
        // A command that does not read its input, or that leaves a process which holds it open, must
        // not stop the run. A failed write means that the command does not want the rest.
        std::thread::Builder::new().spawn(move || stdin.write_all(input.as_bytes()).ok())?;
    }
    wait(&mut child, hook.stop.as_ref())
}

/// Waits for the end of a command, and asks it to end after a request to stop.
fn wait(child: &mut Child, stop: Option<&Interrupt>) -> io::Result<ExitStatus> {
    let mut is_told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if !is_told && stop.is_some_and(Interrupt::is_asked) {
            is_told = true;
            if let Some(id) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                kill_process(id, Signal::TERM).ok();
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
