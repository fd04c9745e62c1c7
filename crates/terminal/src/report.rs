//! All output: results go to standard output, everything else to standard error, and progress is
//! shown on a terminal only. With `--json`, standard output has events and nothing else.

use std::collections::HashSet;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use serde::Serialize;

use crate::event::{Common, Line, Message, PathText, Progress};
use crate::exit::{self, Exit, StdoutClosed};
use crate::message_kinds::MessageKinds;
use crate::{escape, units};

/// The interval of progress events.
const EVENT_INTERVAL: Duration = Duration::from_millis(500);
/// The refresh rate of the progress display, in Hz.
const DRAW_HZ: u8 = 8;

/// The options about output, which every command has.
#[derive(Clone, Copy, Debug, Args)]
pub struct Output {
    /// Print one JSON object per line to standard output, and nothing else
    #[arg(long, global = true)]
    pub json: bool,
    /// Print only problems, warnings and requested output
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Print more: each file that is read, and the causes of errors
    #[arg(long, short, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,
}

/// The parts of messages that depend on the program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The name of the program, at the beginning of the message about a failure.
    pub name: &'static str,
    /// Returns the remedy for an error of a command, if one is known.
    pub remedy: fn(&anyhow::Error, &str) -> Option<String>,
}

/// The output of a run, shared by threads.
#[derive(Debug)]
pub struct Report {
    program: Program,
    /// The command with its subcommand; empty if it is not known.
    command: String,
    is_json: bool,
    is_quiet: bool,
    verbose: u8,
    out_is_terminal: bool,
    started: Instant,
    out: Mutex<BufWriter<Stdout>>,
    display: Mutex<Display>,
    problem_count: AtomicU64,
    has_begun_again: AtomicBool,
    begins_once: AtomicBool,
    /// The messages that were reported: class, path and text of each.
    told: Mutex<HashSet<(&'static str, Option<PathBuf>, String)>>,
    kinds: Mutex<MessageKinds>,
}

/// The message about the end of a run by a signal.
pub const INTERRUPTED: &str = "interrupted";
/// The class of a message that counts as a problem.
const PROBLEM: &str = "problem";
/// The class of a message that does not count.
const WARNING: &str = "warning";
/// The maximum number of messages that are remembered.
const TOLD_MAX: usize = 4096;

/// The state of the progress display.
#[derive(Debug, Default)]
struct Display {
    bar: Option<ProgressBar>,
    /// The start of the measured work. The run may have begun earlier, with a prompt for a
    /// passphrase.
    began: Option<Instant>,
    expected: Option<(u64, u64)>,
    event_last: Option<Instant>,
}

impl Report {
    /// Creates the output of `program`.
    pub fn new(program: Program, output: &Output) -> Report {
        let stdout = io::stdout();
        Report {
            program,
            command: String::new(),
            is_json: output.json,
            is_quiet: output.quiet,
            verbose: output.verbose,
            out_is_terminal: stdout.is_terminal(),
            started: Instant::now(),
            out: Mutex::new(BufWriter::with_capacity(64 * 1024, stdout)),
            display: Mutex::default(),
            problem_count: AtomicU64::new(0),
            has_begun_again: AtomicBool::new(false),
            begins_once: AtomicBool::new(false),
            told: Mutex::default(),
            kinds: Mutex::default(),
        }
    }

    /// Sets the command, which the messages about its end name.
    #[must_use]
    pub fn of_command(self, command: String) -> Report {
        Report { command, ..self }
    }

    /// Records that the command restarts with settings and keys that are read again.
    pub fn begin_again(&self) {
        self.has_begun_again.store(true, Relaxed);
    }

    /// Records that the command has started something that must not be started twice.
    pub fn begin_once(&self) {
        self.begins_once.store(true, Relaxed);
    }

    /// Returns `true` if the command may restart.
    pub fn may_begin_again(&self) -> bool {
        !self.begins_once.load(Relaxed)
    }

    /// Returns `true` if the command has restarted.
    pub fn has_begun_again(&self) -> bool {
        self.has_begun_again.load(Relaxed)
    }

    /// Returns `true` if the output is for programs.
    pub fn is_json(&self) -> bool {
        self.is_json
    }

    /// Returns `true` if standard output is a terminal, and the output is not for programs.
    pub fn out_is_terminal(&self) -> bool {
        self.out_is_terminal && !self.is_json
    }

    /// Returns the width of the terminal at standard output, in columns, if there is one.
    pub fn out_width(&self) -> Option<usize> {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        (size.ws_col > 0).then_some(size.ws_col.into())
    }

    /// Returns the time since the start of the run.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the time since the start of the run in nanoseconds, for events.
    pub fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the number of problems reported so far.
    pub fn problem_count(&self) -> u64 {
        self.problem_count.load(Relaxed)
    }

    fn out(&self) -> MutexGuard<'_, BufWriter<Stdout>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn display(&self) -> MutexGuard<'_, Display> {
        self.display.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes bytes of a result to standard output.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        written(self.out().write_all(bytes))
    }

    /// Writes a line of a result to standard output.
    pub fn line(&self, text: &str) -> Result<()> {
        let mut out = self.out();
        written(out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")))
    }

    /// Writes a secret to standard output, without any buffer, which would keep a copy.
    pub fn secret(&self, text: &str) -> Result<()> {
        let mut out = self.out();
        written(out.flush().and_then(|()| {
            let mut unbuffered = std::fs::File::from(io::stdout().as_fd().try_clone_to_owned()?);
            unbuffered.write_all(text.as_bytes())
        }))
    }

    /// Returns a name for standard output: escaped on a terminal, otherwise the bytes themselves.
    pub fn name<'a>(&self, bytes: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        if self.out_is_terminal {
            escape::for_terminal(bytes).into_bytes().into()
        } else {
            bytes.into()
        }
    }

    /// Writes `event` to standard output, as a result.
    pub fn event(&self, event: &impl Serialize) -> Result<()> {
        let mut out = self.out();
        serde_json::to_writer(&mut *out, &Line::new(event)).map_err(closed_json)?;
        written(out.write_all(b"\n"))
    }

    /// Writes `event` and flushes it. Failures are ignored, because the run continues even if the
    /// reader is gone.
    pub fn tell(&self, event: &impl Serialize) {
        let told = self.event(event).is_ok();
        if told {
            self.out().flush().ok();
        }
    }

    /// Flushes standard output, and prints the numbers of withheld messages.
    pub fn flush(&self) -> Result<()> {
        self.say_withheld();
        written(self.out().flush())
    }

    /// Prints a line to standard error, around the progress display.
    fn say(&self, text: &str) {
        let print = || {
            // There is no remedy if standard error is closed.
            writeln!(io::stderr(), "{text}").ok();
        };
        match &self.display().bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Prints an informative message that is no problem. Programs do not get it.
    pub fn note(&self, text: &str) {
        if !self.is_quiet && !self.is_json {
            self.say(&escape::for_terminal(text.as_bytes()));
        }
    }

    /// Prints a message of the verbose output.
    pub fn detail(&self, text: impl FnOnce() -> String) {
        if self.verbose > 0 && !self.is_json {
            self.say(&escape::for_terminal(text().as_bytes()));
        }
    }

    /// Prints a message about a path in the verbose output.
    pub fn detail_path(&self, verb: &str, path: &Path) {
        self.detail(|| format!("{verb} {}", escape::for_terminal(path.as_os_str().as_bytes())));
    }

    /// Reports that a part of the work was not done. The problem is counted: the exit code becomes 1.
    pub fn problem(&self, path: &Path, message: &str) {
        self.problem_with(path, message, &[]);
    }

    /// Reports a problem, with the commands that resolve it.
    pub fn problem_with(&self, path: &Path, message: &str, remedies: &[&str]) {
        if self.is_new(PROBLEM, Some(path), message) {
            self.problem_count.fetch_add(1, Relaxed);
            self.message(PROBLEM, Some(path), message, remedies);
        }
    }

    /// Returns `true` if the message is new. A message that a command reports twice, because it
    /// restarts or lists twice, counts once. At most 4096 messages are remembered.
    pub fn is_new(&self, class: &'static str, path: Option<&Path>, message: &str) -> bool {
        let told = (class, path.map(Path::to_path_buf), message.to_owned());
        let mut all = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < TOLD_MAX { all.insert(told) } else { !all.contains(&told) }
    }

    /// Warns of something about `path`.
    pub fn warning(&self, path: &Path, message: &str) {
        self.warn_of(Some(path), message);
    }

    /// Warns of something about the run.
    pub fn warn(&self, message: &str) {
        self.warn_of(None, message);
    }

    fn warn_of(&self, path: Option<&Path>, message: &str) {
        let is_new = self.is_new(WARNING, path, message);
        if is_new || !self.has_begun_again() {
            self.message(WARNING, path, message, &[]);
        }
    }

    /// Prints a message of `class` about `object` to standard error, or withholds it if too many
    /// of its kind were printed.
    pub fn say_of(&self, class: &str, object: &[u8], message: &str) {
        self.say_limited(class, Some(object), message);
    }

    fn say_limited(&self, class: &str, object: Option<&[u8]>, message: &str) {
        if self.verbose > 0 || self.kinds().may_print(class, message) {
            self.say(&told(class, object, message));
        }
    }

    /// Prints the numbers of messages that were withheld since the last call, by kind.
    fn say_withheld(&self) {
        let lines = self.kinds().take_withheld();
        for (class, message) in lines {
            self.say(&told(&class, None, &message));
        }
    }

    fn kinds(&self) -> MutexGuard<'_, MessageKinds> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn message(&self, class: &'static str, path: Option<&Path>, message: &str, remedies: &[&str]) {
        let message = &*exit::plain(message);
        if self.is_json {
            let remedies = remedies.to_vec();
            let message = Message { path: path.map(PathText::of), message, remedies };
            self.tell(&match class {
                PROBLEM => Common::Problem(message),
                _ => Common::Warning(message),
            });
            return;
        }
        self.say_limited(class, path.map(|path| path.as_os_str().as_bytes()), message);
    }

    /// Starts the progress display if standard error is a terminal.
    pub fn begin_progress(&self) {
        self.display().began = Some(Instant::now());
        if self.is_json || self.is_quiet || !io::stderr().is_terminal() {
            return;
        }
        let target = ProgressDrawTarget::stderr_with_hz(DRAW_HZ);
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        self.display().bar = Some(bar);
    }

    /// Sets the expected amount of work: the numbers of files and bytes.
    pub fn expect(&self, files: u64, bytes: u64) {
        self.display().expected = Some((files, bytes));
    }

    /// Shows the progress of the run. Cheap if the progress is not shown.
    pub fn progress(&self, mut progress: Progress) {
        if !self.is_json && (self.is_quiet || self.display().bar.is_none()) {
            return;
        }
        progress.elapsed_ns = self.elapsed_ns();
        let mut display = self.display();
        let elapsed = display.began.map_or_else(|| self.elapsed(), |began| began.elapsed());
        if let Some((files, bytes)) = display.expected {
            progress.expected_file_count = Some(files);
            progress.expected_size = Some(bytes);
        }
        if let Some(bar) = &display.bar {
            bar.set_message(progress_text(&progress, elapsed));
        } else if self.is_json
            && display.event_last.is_none_or(|last| last.elapsed() >= EVENT_INTERVAL)
        {
            display.event_last = Some(Instant::now());
            drop(display);
            self.tell(&Common::Progress(progress));
        }
    }

    /// Shows a description of the present work, for commands whose progress is not a count of
    /// files.
    pub fn show(&self, text: impl FnOnce() -> String) {
        if let Some(bar) = &self.display().bar {
            bar.set_message(escape::for_terminal(text().as_bytes()));
        }
    }

    /// Removes the progress display from the terminal, and prints the numbers of withheld messages.
    pub fn end_progress(&self) {
        if let Some(bar) = self.display().bar.take() {
            bar.finish_and_clear();
        }
        self.say_withheld();
    }

    /// Reports the reason of the failure. Returns the exit code.
    pub fn fail(&self, error: &anyhow::Error) -> Exit {
        self.end_progress();
        // A reader that closes standard output early has got everything it wants.
        if error.is::<StdoutClosed>() {
            return Exit::Well;
        }
        let exit = Exit::of(error);
        let message = match exit::message(error, self.verbose > 0) {
            message if message == INTERRUPTED && !self.command.is_empty() => {
                format!("{}: {message}", self.command)
            }
            message => message,
        };
        let remedy = (self.program.remedy)(error, &self.command);
        if self.is_json {
            self.tell(&Common::Error {
                kind: exit.name(),
                exit_code: exit.code(),
                message: &message,
                remedy: remedy.as_deref(),
            });
        }
        let name = self.program.name;
        self.say(&format!("{name}: {}", escape::for_terminal(message.as_bytes())));
        if let Some(remedy) = remedy {
            self.say(&format!("  {}", escape::for_terminal(remedy.as_bytes())));
        }
        exit
    }
}

/// Formats a message about `object` for a terminal. Everything is escaped, because names in
/// repositories can be chosen by attackers.
fn told(class: &str, object: Option<&[u8]>, message: &str) -> String {
    let message = escape::for_terminal(message.as_bytes());
    match object {
        Some(object) => format!("{class}: {}: {message}", escape::for_terminal(object)),
        None => format!("{class}: {message}"),
    }
}

/// The cost of a file besides that of its bytes, expressed in bytes, for the estimate of the time
/// left.
const FILE_COST: u128 = 16 * 1024;

fn progress_text(progress: &Progress, elapsed: Duration) -> String {
    let mut text = format!(
        "{}  {}, {}",
        units::duration(elapsed),
        units::count(progress.file_count, "file"),
        units::size(progress.size)
    );
    let per_second = |value: u64| {
        u64::try_from(u128::from(value) * 1000 / elapsed.as_millis().max(1)).unwrap_or(u64::MAX)
    };
    text.push_str(&format!(", {}/s", units::size(per_second(progress.size))));
    if let (Some(new), Some(stored)) = (progress.new_bytes, progress.stored_bytes) {
        text.push_str(&format!(", new {}, stored {}", units::size(new), units::size(stored)));
    }
    if let Some(left) = time_left(progress, elapsed)
        && elapsed > Duration::from_secs(2)
    {
        text.push_str(&format!(", {} left", units::duration(left)));
    }
    text
}

/// Estimates the time left at the present speed; `None` if the total is unknown.
fn time_left(progress: &Progress, elapsed: Duration) -> Option<Duration> {
    // Neither bytes nor files alone are a good measure, because a large file or many small ones may
    // come first.
    let work = |size: u64, file_count: u64| u128::from(size) + u128::from(file_count) * FILE_COST;
    let done = work(progress.size, progress.file_count);
    let expected = work(progress.expected_size?, progress.expected_file_count?);
    let left = (elapsed.as_millis() * expected.saturating_sub(done)).checked_div(done)?;
    u64::try_from(left).ok().map(Duration::from_millis)
}

/// Distinguishes a closed pipe from all other failures.
fn written(result: io::Result<()>) -> Result<()> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => StdoutClosed.into(),
        _ => anyhow::Error::new(error).context("standard output"),
    })
}

fn closed_json(error: serde_json::Error) -> anyhow::Error {
    match error.io_error_kind() {
        Some(io::ErrorKind::BrokenPipe) => StdoutClosed.into(),
        _ => anyhow::Error::new(io::Error::from(error)).context("standard output"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases: a large file first, small files first, and only empty files.
    #[test]
    fn time_left_does_not_depend_on_the_order() {
        let left = |size, file_count, expected_size, expected_file_count| {
            let progress = Progress {
                size,
                file_count,
                expected_size: Some(expected_size),
                expected_file_count: Some(expected_file_count),
                ..Progress::default()
            };
            time_left(&progress, Duration::from_secs(10)).map(|left| left.as_secs())
        };
        assert_eq!(
            left(1 << 30, 1, 2 << 30, 1 << 16),
            Some(19),
            "half the bytes, all the files left"
        );
        assert_eq!(left(1 << 20, 1 << 16, 2 << 30, 1 << 16), Some(19), "the other way round");
        assert_eq!(left(0, 1000, 0, 3000), Some(20), "no bytes at all");
        assert_eq!(left(2000, 3, 1000, 2), Some(0), "more than was expected");
        assert_eq!(left(0, 0, 1000, 2), None, "nothing yet");
        assert_eq!(time_left(&Progress::default(), Duration::from_secs(1)), None, "nobody knows");
    }

    #[test]
    fn messages_move_no_cursor() {
        let line = told("missing", Some(b"a\x1b[2J"), "needed by b\r\x1b]0;c\x07");
        assert_eq!(line, "missing: a\\x1b[2J: needed by b\\r\\x1b]0;c\\x07");
        assert_eq!(told("warning", None, "a\nb"), "warning: a\\nb");
    }
}
