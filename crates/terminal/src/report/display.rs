//! The display of the progress of a run: two lines on a terminal, or a line a minute in a log.

use std::collections::VecDeque;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use console::{Term, measure_text_width};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::event::{Counters, PathText, Phase, Progress, Unit};
use crate::work::Work;
use crate::{escape, units};

/// The refresh rate of the display on a terminal, in Hz.
const DRAW_HZ: u8 = 8;
/// The interval of progress events.
const EVENT_INTERVAL: Duration = Duration::from_millis(500);
/// The interval of lines in a log.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// The time before which no time left is shown.
const FIRST_ESTIMATE: Duration = Duration::from_secs(2);
/// The span of time over which the rate is measured.
const RATE_SPAN: Duration = Duration::from_secs(20);
/// The number of columns in front of the path that is being processed.
const PATH_INDENT: usize = 2;

/// The place of the display.
#[derive(Debug, Default)]
enum Place {
    #[default]
    Nowhere,
    Terminal(ProgressBar),
    /// Lines in a log. Holds the time of the last one.
    Log(Instant),
    /// Events for programs. Holds the time of the last one.
    Events(Option<Instant>),
}

/// The state of the display.
#[derive(Debug, Default)]
pub(super) struct Display {
    place: Place,
    /// The start of the measured work. The run may have begun earlier, with a prompt for a
    /// passphrase.
    began: Option<Instant>,
    expected: Option<Work>,
    /// The noun for what is counted; empty for files.
    noun: &'static str,
    path: Option<PathBuf>,
    phase: String,
    rate: Rate,
}

impl Display {
    /// Begins a display on the terminal at standard error.
    pub(super) fn begin_terminal(&mut self) {
        let target = ProgressDrawTarget::stderr_with_hz(DRAW_HZ);
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}\n{prefix}") {
            bar.set_style(style);
        }
        self.begin(Place::Terminal(bar));
    }

    /// Begins a display of lines in a log.
    pub(super) fn begin_log(&mut self) {
        self.begin(Place::Log(Instant::now()));
    }

    /// Begins a display of events.
    pub(super) fn begin_events(&mut self) {
        self.begin(Place::Events(None));
    }

    fn begin(&mut self, place: Place) {
        let (expected, noun) = (self.expected, self.noun);
        *self =
            Display { place, began: Some(Instant::now()), expected, noun, ..Display::default() };
    }

    /// Ends the display, and removes it from the terminal.
    pub(super) fn end(&mut self) {
        if let Place::Terminal(bar) = std::mem::take(&mut self.place) {
            bar.finish_and_clear();
        }
    }

    /// Returns `true` if there is a display.
    pub(super) fn is_shown(&self) -> bool {
        !matches!(self.place, Place::Nowhere)
    }

    /// Returns the bar on the terminal, if there is one.
    pub(super) fn bar(&self) -> Option<&ProgressBar> {
        match &self.place {
            Place::Terminal(bar) => Some(bar),
            _ => None,
        }
    }

    /// Sets the expected work. The next progress is an event at once, because it is the first that
    /// can be compared with the expectation.
    pub(super) fn expect(&mut self, work: Work) {
        self.expected = Some(work);
        if let Place::Events(last) = &mut self.place {
            *last = None;
        }
    }

    pub(super) fn count_as(&mut self, noun: &'static str) {
        self.noun = noun;
    }

    /// Sets the path that is being processed.
    pub(super) fn set_path(&mut self, path: &Path) {
        if self.is_shown() {
            self.path = Some(path.to_path_buf());
        }
    }

    /// Shows the progress. Returns the line to write to a log, if one is due.
    pub(super) fn show(&mut self, progress: &Progress) -> Option<String> {
        let elapsed = self.elapsed();
        self.rate.add(elapsed, progress.work.cost(), progress.work.read_bytes);
        let text = progress_text(self, progress, elapsed);
        self.show_text(&text)
    }

    /// Shows the progress of a phase. Returns the line to write to a log, if one is due.
    pub(super) fn show_phase(&mut self, phase: &Phase<'_>) -> Option<String> {
        let elapsed = self.elapsed();
        if self.phase != phase.name {
            phase.name.clone_into(&mut self.phase);
            self.rate = Rate::default();
        }
        self.rate.add(elapsed, phase.done.into(), phase.done);
        let text = phase_text(phase, &self.rate, elapsed);
        self.show_text(&text)
    }

    /// Shows a description of the present work. Returns the line to write to a log, if one is due.
    pub(super) fn show_text(&mut self, text: &str) -> Option<String> {
        match &mut self.place {
            Place::Terminal(bar) => {
                bar.set_message(text.to_owned());
                if let Some(path) = &self.path {
                    bar.set_prefix(second_line(path));
                }
                None
            }
            Place::Log(last) if last.elapsed() >= LOG_INTERVAL => {
                *last = Instant::now();
                Some(text.to_owned())
            }
            _ => None,
        }
    }

    /// Returns the counters for an event, if one is due.
    pub(super) fn event(&mut self, progress: &Progress, elapsed_ns: u64) -> Option<Counters> {
        if !self.is_event_due() {
            return None;
        }
        let path = self.path.as_deref().map(PathText::of);
        Some(Counters::new(elapsed_ns, progress, self.expected.as_ref(), path))
    }

    /// Returns `true` if an event is due, which the caller then writes.
    pub(super) fn is_event_due(&mut self) -> bool {
        match &mut self.place {
            Place::Events(last) if last.is_none_or(|last| last.elapsed() >= EVENT_INTERVAL) => {
                *last = Some(Instant::now());
                true
            }
            _ => false,
        }
    }

    fn elapsed(&self) -> Duration {
        self.began.map(|began| began.elapsed()).unwrap_or_default()
    }
}

/// Returns the second line on a terminal: the end of the path, as far as there is room.
fn second_line(path: &Path) -> String {
    let (_, columns) = Term::stderr().size();
    let path = escape::for_terminal(path.as_os_str().as_bytes());
    let room = usize::from(columns).saturating_sub(PATH_INDENT + 1);
    format!("{:PATH_INDENT$}{}", "", last_columns(&path, room))
}

/// Returns the end of `text` that takes at most `room` columns, behind an ellipsis if it is not
/// the whole text.
fn last_columns(text: &str, room: usize) -> String {
    if measure_text_width(text) <= room {
        return text.to_owned();
    }
    let mut rest = text.chars();
    while rest.next().is_some() {
        if measure_text_width(rest.as_str()) < room {
            break;
        }
    }
    format!("\u{2026}{}", rest.as_str())
}

/// The work of the last seconds.
#[derive(Debug, Default)]
struct Rate {
    /// Samples: the time since the start of the display, the cost of the work done, and its bytes.
    samples: VecDeque<(Duration, u128, u64)>,
}

impl Rate {
    /// Adds a sample, and drops those that are older than [`RATE_SPAN`].
    fn add(&mut self, elapsed: Duration, cost: u128, bytes: u64) {
        let is_early = |limit: Duration| move |(time, ..): &(Duration, u128, u64)| *time <= limit;
        // The newest sample that is too old stays as the beginning of the span.
        while let Some(limit) = elapsed.checked_sub(RATE_SPAN)
            && self.samples.get(1).is_some_and(is_early(limit))
        {
            self.samples.pop_front();
        }
        let is_due = |(last, ..): &(Duration, u128, u64)| elapsed >= *last + EVENT_INTERVAL;
        if self.samples.back().is_none_or(is_due) {
            self.samples.push_back((elapsed, cost, bytes));
        }
    }

    /// Returns the time, the cost and the bytes from the first sample to the last.
    fn span(&self) -> Option<(Duration, u128, u64)> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let time = last.0.checked_sub(first.0).filter(|time| !time.is_zero())?;
        Some((time, last.1.saturating_sub(first.1), last.2.saturating_sub(first.2)))
    }

    /// Returns the number of bytes a second.
    fn bytes_per_second(&self) -> Option<u64> {
        let (time, _, bytes) = self.span()?;
        u64::try_from(u128::from(bytes) * 1000 / time.as_millis().max(1)).ok()
    }

    /// Returns the time that work of this cost takes.
    fn time_of(&self, cost: u128) -> Option<Duration> {
        let (time, done, _) = self.span()?;
        let left = cost.checked_mul(time.as_millis())?.checked_div(done)?;
        u64::try_from(left).ok().map(Duration::from_millis)
    }
}

/// Describes the progress of files: time, share, the time left, files, bytes, and rate. The end of
/// the text may be cut off on a narrow terminal.
fn progress_text(display: &Display, progress: &Progress, elapsed: Duration) -> String {
    let Work { file_count, size, read_bytes, .. } = progress.work;
    let noun = if display.noun.is_empty() { "file" } else { display.noun };
    let mut text = format!("{}  ", units::duration(elapsed));
    match &display.expected {
        Some(expected) => text.push_str(&format!(
            "{}{}  {file_count} of {}, {} of {}",
            percent(progress.work.cost(), expected.cost()),
            time_left(&display.rate, expected.cost().saturating_sub(progress.work.cost()), elapsed),
            units::count(expected.file_count.max(file_count), noun),
            units::size(read_bytes),
            units::size(expected.read_bytes.max(read_bytes)),
        )),
        None => {
            text.push_str(&format!("{}, {}", units::count(file_count, noun), units::size(size)))
        }
    }
    if let Some(rate) = display.rate.bytes_per_second() {
        text.push_str(&format!(", {}/s", units::size(rate)));
    }
    if let (Some(new), Some(stored)) = (progress.new_bytes, progress.stored_bytes) {
        text.push_str(&format!(", new {}, stored {}", units::size(new), units::size(stored)));
    }
    text
}

/// Describes the progress of a phase: time, name, share, units, rate, and the time left.
fn phase_text(phase: &Phase<'_>, rate: &Rate, elapsed: Duration) -> String {
    let Phase { name, done, total, unit } = *phase;
    let mut text = format!("{}  {name}", units::duration(elapsed));
    let Some(total) = total else { return text };
    let show = |count: u64| match unit {
        Unit::Bytes => units::size(count),
        Unit::Items => count.to_string(),
    };
    let share = percent(done.into(), total.into());
    text.push_str(&format!(": {share}, {} of {}", show(done), show(total)));
    if unit == Unit::Bytes
        && let Some(rate) = rate.bytes_per_second()
    {
        text.push_str(&format!(", {}/s", units::size(rate)));
    }
    text.push_str(&time_left(rate, total.saturating_sub(done).into(), elapsed));
    text
}

/// Formats the share of the work that is done. It reaches 100 % only at the end.
fn percent(done: u128, total: u128) -> String {
    let share = match done < total {
        true => (done * 100 / total).min(99),
        false => 100,
    };
    format!("{share} %")
}

/// Describes the time that work of the cost `left` will take; empty if that cannot be told yet.
fn time_left(rate: &Rate, left: u128, elapsed: Duration) -> String {
    match rate.time_of(left) {
        Some(left) if elapsed >= FIRST_ESTIMATE => format!(", {} left", units::duration(left)),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Shows the progress once a second, and returns the last text.
    fn last_text(display: &mut Display, steps: &[Work]) -> String {
        let mut text = String::new();
        for (second, work) in (0..).zip(steps) {
            let elapsed = Duration::from_secs(second);
            display.rate.add(elapsed, work.cost(), work.read_bytes);
            let progress = Progress { work: *work, ..Progress::default() };
            text = progress_text(display, &progress, elapsed);
        }
        text
    }

    #[test]
    fn share_and_time_left_follow_the_bytes_to_read() {
        let mut display = Display::default();
        // Of 2,000 files, 2 have to be read, which takes most of the time.
        let read =
            |bytes| Work { file_count: 1000, size: 0, read_file_count: 1, read_bytes: bytes };
        display.expect(Work {
            file_count: 2000,
            size: 0,
            read_file_count: 2,
            read_bytes: 100 * MIB,
        });
        let text =
            last_text(&mut display, &[read(0), read(10 * MIB), read(20 * MIB), read(30 * MIB)]);
        let expected =
            "0:03  30 %, 0:07 left  1000 of 2000 files, 30.0 MiB of 100.0 MiB, 10.0 MiB/s";
        assert_eq!(text, expected);
    }

    #[test]
    fn time_left_is_that_of_the_present_rate() {
        let mut display = Display::default();
        display.expect(Work::of_files(0, 500 * MIB));
        let mut steps = vec![Work::default()];
        // A minute of 1 MiB/s, then half a minute of 10 MiB/s.
        steps.extend((1..=60).map(|second| Work::of_files(0, second * MIB)));
        steps.extend((1..=30).map(|second| Work::of_files(0, (60 + 10 * second) * MIB)));
        let text = last_text(&mut display, &steps);
        assert!(text.contains(" %, 0:14 left  "), "{text}");
        assert!(text.ends_with("360.0 MiB of 500.0 MiB, 10.0 MiB/s"), "{text}");
        assert!(display.rate.samples.len() < 30, "old samples are dropped");
    }

    #[test]
    fn nothing_is_promised_without_an_expectation() {
        let mut display = Display::default();
        let steps = [0, 1, 2, 3].map(|count| Work::of_files(count, count * MIB));
        assert_eq!(last_text(&mut display, &steps), "0:03  3 files, 3.0 MiB, 1.0 MiB/s");
        display.expect(Work::of_files(2, MIB));
        let text = last_text(&mut display, &steps);
        let expected = "0:03  100 %, 0:00 left  3 of 3 files, 3.0 MiB of 3.0 MiB, 1.0 MiB/s";
        assert_eq!(text, expected, "more than was expected");
        display.expect(Work::default());
        assert!(last_text(&mut display, &[Work::default()]).starts_with("0:00  100 %"), "nothing");
    }

    #[test]
    fn phases_show_their_units() {
        let phase = |done, total, unit| Phase { name: "Working", done, total, unit };
        let text = |phase: Phase<'_>| {
            let mut rate = Rate::default();
            rate.add(Duration::ZERO, 0, 0);
            rate.add(Duration::from_secs(4), phase.done.into(), phase.done);
            phase_text(&phase, &rate, Duration::from_secs(4))
        };
        assert_eq!(text(phase(3, None, Unit::Items)), "0:04  Working", "the total is unknown");
        assert_eq!(
            text(phase(4, Some(12), Unit::Items)),
            "0:04  Working: 33 %, 4 of 12, 0:08 left"
        );
        let expected = "0:04  Working: 50 %, 8.0 MiB of 16.0 MiB, 2.0 MiB/s, 0:04 left";
        assert_eq!(text(phase(8 * MIB, Some(16 * MIB), Unit::Bytes)), expected);
    }

    #[test]
    fn long_paths_lose_their_beginning() {
        assert_eq!(last_columns("/a/b", 4), "/a/b");
        assert_eq!(last_columns("/home/notes.txt", 10), "\u{2026}notes.txt");
        assert_eq!(last_columns("/\u{6f22}\u{5b57}", 4), "\u{2026}\u{5b57}", "two columns each");
        assert_eq!(last_columns("abc", 0), "\u{2026}", "no room at all");
    }
}
