//! All output: results go to standard output, everything else to standard error. Progress is shown on
//! a terminal, or as a line a minute in a log. With `--json`, standard output has events and nothing
//! else.

mod display;
mod record;

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
use serde::Serialize;

use self::display::Display;
pub use self::record::Record;
use crate::escape;
use crate::event::{Common, Line, Message, PathText, Phase, Progress};
use crate::exit::{self, Exit, StdoutClosed};
use crate::message_kinds::MessageKinds;
use crate::work::Work;

/// The options about output, which every command has.
#[derive(Clone, Copy, Debug, Args)]
pub struct Output {
    /// Print one JSON object per line to standard output, and nothing else
    #[arg(long, global = true)]
    pub json: bool,
    /// Print only problems, warnings and requested output
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Print more: each file that is read, and the causes of errors; -vv prints even more
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
    /// What was reported; `None` if nobody asks for it.
    record: Option<Mutex<Record>>,
    hides_lines: bool,
    is_silent: bool,
}

/// The message about the end of a run by a signal.
pub const INTERRUPTED: &str = "interrupted";
/// The class of a message that counts as a problem.
const PROBLEM: &str = "problem";
/// The class of a message that does not count.
const WARNING: &str = "warning";
/// The maximum number of messages that are remembered.
const TOLD_MAX: usize = 4096;

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
            record: None,
            hides_lines: false,
            is_silent: false,
        }
    }

    /// Keeps what is reported ([`Report::into_record`]), for a command that runs this one as a part.
    /// If the output is quiet, lines of
    /// results are not printed either.
    #[must_use]
    pub fn recorded(self) -> Report {
        Report { record: Some(Mutex::default()), hides_lines: self.is_quiet, ..self }
    }

    /// Prints no messages, for work that repeats what another report has told.
    #[must_use]
    pub fn silent(self) -> Report {
        Report { is_silent: true, ..self }
    }

    /// Returns what was reported. It is empty unless [`Report::recorded`] was called.
    pub fn into_record(self) -> Record {
        let record = self.record.map(|record| record.into_inner());
        record.map(|record| record.unwrap_or_else(PoisonError::into_inner)).unwrap_or_default()
    }

    fn record(&self, add: impl FnOnce(&mut Record)) {
        if let Some(record) = &self.record {
            add(&mut record.lock().unwrap_or_else(PoisonError::into_inner));
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

    /// Returns `true` if only problems, warnings and requested output are printed.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Returns the number of times that more output was requested.
    pub fn verbosity(&self) -> u8 {
        self.verbose
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
        if self.hides_lines {
            return Ok(());
        }
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

    /// Writes `event` to standard output, as a result.
    pub fn event(&self, event: &impl Serialize) -> Result<()> {
        let mut out = self.out();
        serde_json::to_writer(&mut *out, &Line::new(event)).map_err(closed_json)?;
        written(out.write_all(b"\n"))
    }

    /// Reports the summary of the command. Only programs see it.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Report::event`].
    pub fn summary(&self, event: &impl Serialize) -> Result<()> {
        self.record(|record| record.summary = serde_json::to_value(Line::new(event)).ok());
        if self.is_json { self.event(event) } else { Ok(()) }
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
        if self.is_silent {
            return;
        }
        let print = || {
            // There is no remedy if standard error is closed.
            writeln!(io::stderr(), "{text}").ok();
        };
        match self.display().bar() {
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
        self.keep(class, object, message);
        self.say_limited(class, Some(object), message);
    }

    /// Keeps a message about `object` that is printed in another form ([`Report::recorded`]).
    pub fn keep(&self, class: &str, object: &[u8], message: &str) {
        self.record(|record| record.add(|| told(class, Some(object), message)));
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
        let object = path.map(|path| path.as_os_str().as_bytes());
        self.record(|record| record.add(|| told(class, object, message)));
        if self.is_json {
            let remedies = remedies.to_vec();
            let message = Message { path: path.map(PathText::of), message, remedies };
            self.tell(&match class {
                PROBLEM => Common::Problem(message),
                _ => Common::Warning(message),
            });
            return;
        }
        self.say_limited(class, object, message);
    }

    /// Starts the display of progress: on a terminal at standard error, otherwise as a line a minute
    /// there, or as events.
    pub fn begin_progress(&self) {
        let mut display = self.display();
        if self.is_json {
            display.begin_events();
        } else if self.is_quiet {
            // Problems only.
        } else if io::stderr().is_terminal() {
            display.begin_terminal();
        } else {
            display.begin_log();
        }
    }

    /// Returns `true` if progress is shown.
    pub fn shows_progress(&self) -> bool {
        self.display().is_shown()
    }

    /// Sets the expected amount of work.
    pub fn expect(&self, work: Work) {
        self.display().expect(work);
    }

    /// Sets the noun for what is counted, if that is not files.
    pub fn count_as(&self, noun: &'static str) {
        self.display().count_as(noun);
    }

    /// Sets the path that is being processed.
    pub fn set_path(&self, path: &Path) {
        self.display().set_path(path);
    }

    /// Shows the progress of the run. Cheap if the progress is not shown.
    pub fn progress(&self, progress: &Progress) {
        let mut display = self.display();
        if self.is_json {
            let counters = display.event(progress, self.elapsed_ns());
            drop(display);
            if let Some(counters) = counters {
                self.tell(&Common::Progress(counters));
            }
            return;
        }
        let line = display.show(progress);
        drop(display);
        self.log(line);
    }

    /// Shows the progress of a phase.
    pub fn phase(&self, phase: &Phase<'_>) {
        let mut display = self.display();
        if self.is_json {
            let is_due = display.is_event_due();
            drop(display);
            if is_due {
                self.tell(&Common::Phase(*phase));
            }
            return;
        }
        let line = display.show_phase(phase);
        drop(display);
        self.log(line);
    }

    /// Shows a description of the present work, such as a wait, whose end is unknown.
    pub fn show(&self, text: impl FnOnce() -> String) {
        let line = self.display().show_text(&escape::for_terminal(text().as_bytes()));
        self.log(line);
    }

    /// Prints the line of the progress that is due in a log.
    fn log(&self, line: Option<String>) {
        if let Some(line) = line {
            self.say(&line);
        }
    }

    /// Removes the progress display from the terminal, and prints the numbers of withheld messages.
    pub fn end_progress(&self) {
        self.display().end();
        self.say_withheld();
    }

    /// Returns `true` if the user has interrupted the command, and `message` says no more than in
    /// which step of it. With `-v`, the step is of interest.
    fn is_interruption(&self, exit: Exit, message: &str) -> bool {
        let is_plain = message == INTERRUPTED;
        let is_step = exit == Exit::Interrupted && message.ends_with(INTERRUPTED);
        !self.command.is_empty() && (is_plain || (is_step && self.verbose == 0))
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
            message if self.is_interruption(exit, &message) => {
                format!("{}: {INTERRUPTED}", self.command)
            }
            message => message,
        };
        let remedy = (self.program.remedy)(error, &self.command);
        self.record(|record| record.add(|| told("error", None, &message)));
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

    #[test]
    fn messages_move_no_cursor() {
        let line = told("missing", Some(b"a\x1b[2J"), "needed by b\r\x1b]0;c\x07");
        assert_eq!(line, "missing: a\\x1b[2J: needed by b\\r\\x1b]0;c\\x07");
        assert_eq!(told("warning", None, "a\nb"), "warning: a\\nb");
    }
}
