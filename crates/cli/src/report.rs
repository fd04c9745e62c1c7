//! All that is printed: results to standard output, everything else to standard error; progress only
//! on a terminal; with `--json` events to standard output and nothing else there.

use std::collections::HashSet;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use cutpoint_store::check::Remedy;
use cutpoint_store::error::Error as StoreError;
use cutpoint_store::name::ObjectName;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::Global;
use crate::escape;
use crate::event::{Event, Finding, Line, Message, PathText, Progress};
use crate::exit::{self, Exit, StdoutClosed};
use crate::units;

/// How often a program hears of progress.
const EVENT_INTERVAL: Duration = Duration::from_millis(500);
/// How often a person sees progress.
const DRAW_HZ: u8 = 8;

/// Where a run says what it does. Shared by threads.
pub(crate) struct Report {
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
    /// Messages that were told: class, path and text of each.
    told: Mutex<HashSet<(&'static str, Option<PathBuf>, String)>>,
}

/// The class of a message that counts.
const PROBLEM: &str = "problem";
/// The class of a message that does not count.
const WARNING: &str = "warning";
/// The maximum number of messages that are remembered.
const TOLD_MAX: usize = 4096;

/// What progress looks like at the moment.
#[derive(Default)]
struct Display {
    bar: Option<ProgressBar>,
    /// When the work began that is measured: a person may have thought about a passphrase before.
    began: Option<Instant>,
    expected: Option<(u64, u64)>,
    event_last: Option<Instant>,
}

impl Report {
    /// Says as much as the user wants.
    pub(crate) fn new(global: &Global) -> Report {
        let stdout = io::stdout();
        Report {
            is_json: global.json,
            is_quiet: global.quiet,
            verbose: global.verbose,
            out_is_terminal: stdout.is_terminal(),
            started: Instant::now(),
            out: Mutex::new(BufWriter::with_capacity(64 * 1024, stdout)),
            display: Mutex::default(),
            problem_count: AtomicU64::new(0),
            has_begun_again: AtomicBool::new(false),
            begins_once: AtomicBool::new(false),
            told: Mutex::default(),
        }
    }

    /// Notes that the verb begins again, with settings and keys that are read once more.
    pub(crate) fn begin_again(&self) {
        self.has_begun_again.store(true, Relaxed);
    }

    /// Notes that the verb has started what is not to be started twice.
    pub(crate) fn begin_once(&self) {
        self.begins_once.store(true, Relaxed);
    }

    /// Returns `true` if the verb may begin again.
    pub(crate) fn may_begin_again(&self) -> bool {
        !self.begins_once.load(Relaxed)
    }

    /// Whether the verb has begun again.
    pub(crate) fn has_begun_again(&self) -> bool {
        self.has_begun_again.load(Relaxed)
    }

    /// Whether programs listen.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Whether a person reads standard output.
    pub(crate) fn out_is_terminal(&self) -> bool {
        self.out_is_terminal && !self.is_json
    }

    /// How many columns the terminal has at which a person reads standard output.
    pub(crate) fn out_width(&self) -> Option<usize> {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        (size.ws_col > 0).then_some(size.ws_col.into())
    }

    /// Since when the run runs.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The same for an event.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// How many problems were told so far.
    pub(crate) fn problem_count(&self) -> u64 {
        self.problem_count.load(Relaxed)
    }

    fn out(&self) -> MutexGuard<'_, BufWriter<Stdout>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn display(&self) -> MutexGuard<'_, Display> {
        self.display.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes bytes to standard output: a result.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<()> {
        written(self.out().write_all(bytes))
    }

    /// Writes a line to standard output: a result.
    pub(crate) fn line(&self, text: &str) -> Result<()> {
        let mut out = self.out();
        written(out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")))
    }

    /// Writes a secret to standard output: past all buffers, which would keep a copy.
    pub(crate) fn secret(&self, text: &str) -> Result<()> {
        let mut out = self.out();
        written(out.flush().and_then(|()| {
            let mut unbuffered = std::fs::File::from(io::stdout().as_fd().try_clone_to_owned()?);
            unbuffered.write_all(text.as_bytes())
        }))
    }

    /// A name as standard output is to have it: escaped for a person, the bytes for a program.
    pub(crate) fn name<'a>(&self, bytes: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        if self.out_is_terminal {
            escape::for_terminal(bytes).into_bytes().into()
        } else {
            bytes.into()
        }
    }

    /// Tells programs of `event`: a result.
    pub(crate) fn event(&self, event: &Event<'_>) -> Result<()> {
        let mut out = self.out();
        serde_json::to_writer(&mut *out, &Line::new(event)).map_err(closed_json)?;
        written(out.write_all(b"\n"))
    }

    /// Tells programs of `event` at once. A run that does something goes on although nobody listens.
    fn tell(&self, event: &Event<'_>) {
        let told = self.event(event).is_ok();
        if told {
            self.out().flush().ok();
        }
    }

    /// Writes out what waits.
    pub(crate) fn flush(&self) -> Result<()> {
        written(self.out().flush())
    }

    /// Says something to the person at standard error, around the progress display.
    fn say(&self, text: &str) {
        let print = || {
            // Nothing can be done where standard error is closed.
            writeln!(io::stderr(), "{text}").ok();
        };
        match &self.display().bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Something worth knowing that is no problem. Not for programs.
    pub(crate) fn note(&self, text: &str) {
        if !self.is_quiet && !self.is_json {
            self.say(&escape::for_terminal(text.as_bytes()));
        }
    }

    /// Something for those who want to know more.
    pub(crate) fn detail(&self, text: impl FnOnce() -> String) {
        if self.verbose > 0 && !self.is_json {
            self.say(&escape::for_terminal(text().as_bytes()));
        }
    }

    /// A path for those who want to know more.
    pub(crate) fn detail_path(&self, verb: &str, path: &Path) {
        self.detail(|| format!("{verb} {}", escape::for_terminal(path.as_os_str().as_bytes())));
    }

    /// Something was not done. It is counted: the exit code becomes 1.
    pub(crate) fn problem(&self, path: &Path, message: &str) {
        self.problem_with(path, message, &[]);
    }

    /// The same, with the commands that end it.
    pub(crate) fn problem_with(&self, path: &Path, message: &str, remedies: &[&str]) {
        if self.is_new(PROBLEM, Some(path), message) {
            self.problem_count.fetch_add(1, Relaxed);
            self.message(PROBLEM, Some(path), message, remedies);
        }
    }

    /// Returns `true` if this was not told before: a message that a verb tells twice, because it begins
    /// again or lists twice, counts once. A maximum of [`TOLD_MAX`] messages is remembered.
    fn is_new(&self, class: &'static str, path: Option<&Path>, message: &str) -> bool {
        let told = (class, path.map(Path::to_path_buf), message.to_owned());
        let mut all = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < TOLD_MAX { all.insert(told) } else { !all.contains(&told) }
    }

    /// An object of the repository cannot be read, and the run goes on without it. A problem.
    pub(crate) fn unreadable(&self, name: &ObjectName, error: &StoreError) {
        // Of settings and keyrings the error may be of the copy.
        let of_copy = error.object().strip_prefix(&name.to_string());
        let name = format!("{name}{}", of_copy.unwrap_or_default());
        // One listing may word it in another way than the next.
        if !self.is_new("unreadable", Some(Path::new(&name)), "") {
            return;
        }
        let message = error.to_string();
        let message = message.strip_prefix(&format!("{name}: ")).unwrap_or(&message);
        self.problem(
            Path::new(&name),
            &format!("{message}; going on without it (`cutpoint check` says what it means)"),
        );
    }

    /// Something that a person should know, about `path`.
    pub(crate) fn warning(&self, path: &Path, message: &str) {
        self.warn_of(Some(path), message);
    }

    /// Tells what a check found.
    pub(crate) fn finding(&self, kind: &str, object: &str, message: &str, remedies: &[Remedy]) {
        if self.is_json {
            let remedies = remedies.iter().map(ToString::to_string).collect();
            self.tell(&Event::Finding(Finding { kind, object, message, remedies }));
        } else {
            self.say(&told(kind, Some(object.as_bytes()), message));
        }
    }

    /// Something that a person should know, about the run.
    pub(crate) fn warn(&self, message: &str) {
        self.warn_of(None, message);
    }

    fn warn_of(&self, path: Option<&Path>, message: &str) {
        let is_new = self.is_new(WARNING, path, message);
        if is_new || !self.has_begun_again() {
            self.message(WARNING, path, message, &[]);
        }
    }

    fn message(&self, class: &'static str, path: Option<&Path>, message: &str, remedies: &[&str]) {
        if self.is_json {
            let remedies = remedies.to_vec();
            let message = Message { path: path.map(PathText::of), message, remedies };
            self.tell(&match class {
                PROBLEM => Event::Problem(message),
                _ => Event::Warning(message),
            });
            return;
        }
        self.say(&told(class, path.map(|path| path.as_os_str().as_bytes()), message));
    }

    /// Begins to show progress, if a person looks at standard error.
    pub(crate) fn begin_progress(&self) {
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

    /// What there will be to do, as far as is known.
    pub(crate) fn expect(&self, files: u64, bytes: u64) {
        self.display().expected = Some((files, bytes));
    }

    /// Shows how far the run is. Cheap if nobody wants to know.
    pub(crate) fn progress(&self, mut progress: Progress) {
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
            self.tell(&Event::Progress(progress));
        }
    }

    /// Shows a person what the run is at, where no count of files tells it.
    pub(crate) fn show(&self, text: impl FnOnce() -> String) {
        if let Some(bar) = &self.display().bar {
            bar.set_message(escape::for_terminal(text().as_bytes()));
        }
    }

    /// Takes the progress off the terminal.
    pub(crate) fn end_progress(&self) {
        if let Some(bar) = self.display().bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Says why the run failed, and returns the exit code.
    pub(crate) fn fail(&self, error: &anyhow::Error) -> Exit {
        self.end_progress();
        // Whoever reads only the beginning has got what they wanted.
        if error.is::<StdoutClosed>() {
            return Exit::Well;
        }
        let exit = Exit::of(error);
        let message = exit::message(error, self.verbose > 0);
        let remedy = exit::remedy(error);
        if self.is_json {
            self.tell(&Event::Error {
                kind: exit.name(),
                exit_code: exit.code(),
                message: &message,
                remedy: remedy.as_deref(),
            });
        }
        self.say(&format!("cutpoint: {}", escape::for_terminal(message.as_bytes())));
        if let Some(remedy) = remedy {
            self.say(&format!("  {}", escape::for_terminal(remedy.as_bytes())));
        }
        exit
    }
}

/// The line that tells of `object`, fit for a terminal: names in repositories are anybody's.
fn told(class: &str, object: Option<&[u8]>, message: &str) -> String {
    let message = escape::for_terminal(message.as_bytes());
    match object {
        Some(object) => format!("{class}: {}: {message}", escape::for_terminal(object)),
        None => format!("{class}: {message}"),
    }
}

/// A file takes as long as so many bytes, about, beside its own.
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

/// How long it still takes, if it goes on like this; `None` where nobody knows.
fn time_left(progress: &Progress, elapsed: Duration) -> Option<Duration> {
    // Neither bytes nor files alone tell: a large one may come first, or many small ones.
    let work = |size: u64, file_count: u64| u128::from(size) + u128::from(file_count) * FILE_COST;
    let done = work(progress.size, progress.file_count);
    let expected = work(progress.expected_size?, progress.expected_file_count?);
    let left = (elapsed.as_millis() * expected.saturating_sub(done)).checked_div(done)?;
    u64::try_from(left).ok().map(Duration::from_millis)
}

/// A pipe that nobody reads any more is told apart from all other failures.
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

    /// A large file that comes first, small ones that do, and nothing but empty ones.
    #[test]
    fn time_left_does_not_hang_on_the_order() {
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
    fn what_is_told_moves_no_cursor() {
        let line = told("missing", Some(b"a\x1b[2J"), "needed by b\r\x1b]0;c\x07");
        assert_eq!(line, "missing: a\\x1b[2J: needed by b\\r\\x1b]0;c\\x07");
        assert_eq!(told("warning", None, "a\nb"), "warning: a\\nb");
    }
}
