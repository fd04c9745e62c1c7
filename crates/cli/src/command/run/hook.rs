//! The commands that a profile executes in a shell.
//!
//! Each command is in a process group of its own, so that Ctrl-C at the terminal reaches the run
//! alone, which decides whether the command ends.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::interrupt::{self, AtSignal, Interrupt, Listening};
use crate::source_command::wants_terminal;
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
    /// The effect of a request to stop.
    pub(super) at_signal: AtSignal,
}

/// Executes a command, and waits until it has ended. Its output goes to standard error, because
/// standard output has the results of the run.
///
/// # Errors
///
/// Returns the reason if the command cannot be executed or fails.
pub(super) fn execute_hook(hook: &Hook<'_>) -> Result<(), String> {
    let _listening = Listening::begin();
    let status = execute(hook);
    interrupt::set_command(None);
    match status.map_err(|error| format!("cannot be executed ({error})"))? {
        End::Exited(status) if status.success() => Ok(()),
        End::Exited(status) => Err(format!("failed ({status})")),
        End::WantsTerminal => {
            Err("stopped, because it tried to use the terminal, which is not available".to_owned())
        }
    }
}

/// The end of a command.
enum End {
    Exited(ExitStatus),
    /// The command was ended, because it would wait for the terminal for ever.
    WantsTerminal,
}

fn execute(hook: &Hook<'_>) -> io::Result<End> {
    let mut command = Command::new("sh");
    for variable in SECRET_VARIABLES {
        command.env_remove(variable);
    }
    let input = if hook.input.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut child = command
        .arg("-c")
        .arg(hook.command)
        .envs(hook.variables.iter().map(|(name, value)| (name, value)))
        .process_group(0)
        .stdin(input)
        .stdout(io::stderr().as_fd().try_clone_to_owned()?)
        .spawn()?;
    // The group has the id of the command.
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    interrupt::set_command(group.map(|group| (group, hook.at_signal)));
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), hook.input.clone()) {
        // A command that does not read its input, or that leaves a process which holds it open, must
        // not stop the run. A failed write means that the command does not want the rest.
        std::thread::Builder::new().spawn(move || stdin.write_all(input.as_bytes()).ok())?;
    }
    wait(&mut child, group, hook.at_signal)
}

/// Waits for the end of a command, and asks it and the processes that it has started to end after a
/// request to stop, unless they may finish.
fn wait(child: &mut Child, group: Option<Pid>, at_signal: AtSignal) -> io::Result<End> {
    let interrupt = Interrupt::of_process();
    let signal = |signal: Signal| {
        if let Some(group) = group {
            kill_process_group(group, signal).ok();
        }
    };
    let mut is_told = at_signal == AtSignal::Finish;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(End::Exited(status));
        }
        if !is_told && interrupt.is_asked() {
            is_told = true;
            signal(Signal::TERM);
            // A stopped process must continue in order to end.
            signal(Signal::CONT);
        }
        if wants_terminal(group) {
            signal(Signal::KILL);
            child.wait()?;
            return Ok(End::WantsTerminal);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
