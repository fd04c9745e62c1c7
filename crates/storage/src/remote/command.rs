//! A command that talks to a storage, or is one, over its standard input and output: `ssh`, `rclone`.

use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

/// The maximum time for a command to end after its input or output has ended.
const END_MAX: Duration = Duration::from_secs(2);
/// The maximum time from the end of a command to the end of what it has printed.
const PRINTED_END_MAX: Duration = Duration::from_millis(500);
/// The interval at which the end of a command is looked for.
const END_EVERY: Duration = Duration::from_millis(10);
/// The maximum number of bytes of what a command prints that are kept.
const PRINTED_MAX: usize = 16 * 1024;
/// The number of bytes that a pipe holds: the maximum of Linux for any process.
#[cfg(target_os = "linux")]
const PIPE_LEN: usize = 1024 * 1024;

/// A running command. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct RunningCommand {
    child: Mutex<Child>,
    printed: Arc<Mutex<Printed>>,
    /// Reads what the command prints.
    gathering: JoinHandle<()>,
}

/// The end of what a command has printed.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    kept: Vec<u8>,
    /// The number of bytes that were printed, with those that are not kept.
    len: usize,
}

impl Printed {
    fn add(&mut self, piece: &[u8]) {
        self.len += piece.len();
        self.kept.extend_from_slice(piece);
        let excess = self.kept.len().saturating_sub(PRINTED_MAX);
        self.kept.drain(..excess);
    }

    /// Returns the number of bytes that were printed.
    #[cfg(feature = "sftp")]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns what was printed after the first `len` bytes, as far as it is kept.
    #[cfg(feature = "sftp")]
    pub(crate) fn since(&self, len: usize) -> String {
        let count = self.len.saturating_sub(len).min(self.kept.len());
        String::from_utf8_lossy(&self.kept[self.kept.len() - count..]).into_owned()
    }

    /// Takes the lines for which `is_taken` returns `true`. The others stay.
    #[cfg(feature = "rest")]
    pub(crate) fn take_lines(&mut self, is_taken: impl Fn(&str) -> bool) -> String {
        let text = String::from_utf8_lossy(&self.kept).into_owned();
        let (taken, left): (String, String) =
            text.split_inclusive('\n').partition(|line| is_taken(line));
        self.kept = left.into_bytes();
        taken
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let mut child = lock(&self.child);
        child.kill().ok();
        child.wait().ok();
    }
}

impl RunningCommand {
    /// Starts `command`, a word of a shell with its arguments, followed by `arguments` and with further
    /// `variables` in its environment. Returns its standard output and input, too. It ignores the
    /// signals that a terminal or a service manager sends to all processes of a group, because this
    /// process may still have something to store. Must be called in a runtime.
    ///
    /// # Errors
    ///
    /// Returns any error of the system.
    pub(crate) fn start(
        command: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> std::io::Result<(RunningCommand, pipe::Receiver, pipe::Sender)> {
        let script = format!("trap '' HUP INT QUIT TERM; exec {command} \"$@\"");
        let mut child = Command::new("sh")
            .args(["-c", &script, "sh"])
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let printed: Arc<Mutex<Printed>> = Arc::default();
        let (Some(input), Some(output), Some(errors)) = pipes else {
            child.kill().ok();
            child.wait().ok();
            return Err(std::io::Error::other("no pipes"));
        };
        widen(&input);
        widen(&output);
        let input = pipe::Sender::from_owned_fd(input.into())?;
        let output = pipe::Receiver::from_owned_fd(output.into())?;
        let errors = pipe::Receiver::from_owned_fd(errors.into())?;
        let gathering = tokio::spawn(gather(errors, printed.clone()));
        Ok((RunningCommand { child: Mutex::new(child), printed, gathering }, output, input))
    }

    /// Returns what the command has printed to its standard error.
    pub(crate) fn printed(&self) -> MutexGuard<'_, Printed> {
        lock(&self.printed)
    }

    /// Waits for the command to end, however long that takes.
    #[cfg(feature = "sftp")]
    pub(crate) async fn end(&self) {
        while matches!(lock(&self.child).try_wait(), Ok(None)) {
            tokio::time::sleep(END_EVERY).await;
        }
    }

    /// Waits a moment for the command to end, and for what it has printed. Returns `None` if it goes
    /// on.
    pub(crate) async fn wait(&self) -> Option<ExitStatus> {
        let status = within(END_MAX, || lock(&self.child).try_wait().ok().flatten()).await?;
        // Its last words are still on their way. A process that it has started may keep the pipe.
        within(PRINTED_END_MAX, || self.gathering.is_finished().then_some(())).await;
        Some(status)
    }
}

/// Looks for the result of `look` until there is one, at most for `limit`.
async fn within<T>(limit: Duration, look: impl Fn() -> Option<T>) -> Option<T> {
    for _ in 0..limit.as_millis() / END_EVERY.as_millis() {
        if let Some(found) = look() {
            return Some(found);
        }
        tokio::time::sleep(END_EVERY).await;
    }
    None
}

/// Lets a pipe hold as many bytes as the system permits to every process, so that both ends are woken
/// less often. It works without, too, more slowly.
fn widen(pipe: impl AsFd) {
    #[cfg(target_os = "linux")]
    rustix::pipe::fcntl_setpipe_size(pipe, PIPE_LEN).ok();
    #[cfg(not(target_os = "linux"))]
    let _ = pipe;
}

/// Keeps the end of what a command prints.
async fn gather(mut errors: pipe::Receiver, printed: Arc<Mutex<Printed>>) {
    let mut piece = [0; 4096];
    while let Ok(len @ 1..) = errors.read(&mut piece).await {
        lock(&printed).add(&piece[..len]);
    }
}

/// Locks a mutex. A thread that panicked has left nothing half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, feature = "rest", feature = "sftp"))]
mod tests {
    use super::*;

    #[test]
    fn printed_text_is_kept_to_its_end() {
        let mut printed = Printed::default();
        printed.add(b"one\n");
        let len = printed.len();
        printed.add(b"two\n");
        assert_eq!(printed.since(len), "two\n");
        assert_eq!(printed.since(0), "one\ntwo\n");
        printed.add(&[b'x'; PRINTED_MAX]);
        assert_eq!(printed.since(0).len(), PRINTED_MAX, "the end of it");
        assert_eq!(printed.since(len).len(), PRINTED_MAX, "no more than is kept");
    }

    #[test]
    fn lines_that_are_taken_leave_the_others() {
        let mut printed = Printed::default();
        printed.add(b"ERROR : a: EOF\nERROR : b: EOF\n");
        assert_eq!(printed.take_lines(|line| line.contains(": a:")), "ERROR : a: EOF\n");
        assert_eq!(printed.take_lines(|_| true), "ERROR : b: EOF\n");
        assert_eq!(printed.take_lines(|_| true), "");
    }
}
