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
/// The number of columns in front of each line on a terminal, which the spinner takes on the first
/// one.
const INDENT: usize = 2;

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
        let parts = progress_parts(self, progress, elapsed);
        self.show_parts(&parts)
    }

    /// Shows the progress of a phase. Returns the line to write to a log, if one is due.
    pub(super) fn show_phase(&mut self, phase: &Phase<'_>) -> Option<String> {
        let elapsed = self.elapsed();
        if self.phase != phase.name {
            phase.name.clone_into(&mut self.phase);
            self.rate = Rate::default();
        }
        self.rate.add(elapsed, phase.done.into(), phase.done);
        let parts = phase_parts(phase, &self.rate, elapsed);
        self.show_parts(&parts)
    }

    /// Shows a description of the present work. Returns the line to write to a log, if one is due.
    pub(super) fn show_text(&mut self, text: &str) -> Option<String> {
        self.show_parts(&[text.to_owned()])
    }

    /// Shows a text of parts, the most important one first. Returns the line to write to a log, if
    /// one is due.
    fn show_parts(&mut self, parts: &[String]) -> Option<String> {
        match &mut self.place {
            Place::Terminal(bar) => {
                let room = room();
                bar.set_message(first_parts(parts, room));
                if let Some(path) = &self.path {
                    let path = escape::for_terminal(path.as_os_str().as_bytes());
                    bar.set_prefix(format!("{:INDENT$}{}", "", shortened(&path, room)));
                }
                None
            }
            Place::Log(last) if last.elapsed() >= LOG_INTERVAL => {
                *last = Instant::now();
                Some(parts.concat())
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

/// Returns the number of columns for text in a line on the terminal.
fn room() -> usize {
    let (_, columns) = Term::stderr().size();
    usize::from(columns).saturating_sub(INDENT + 1)
}

/// Joins the first of `parts`, as many as fit into `room` columns, but at least one.
fn first_parts(parts: &[String], room: usize) -> String {
    let mut text = String::new();
    for part in parts {
        if !text.is_empty() && measure_text_width(&text) + measure_text_width(part) > room {
            break;
        }
        text.push_str(part);
    }
    text
}

/// Returns `text`, or as much of its beginning and its end as `room` columns have room for, with an
/// ellipsis between them. The end, with the name of the file, gets two thirds.
fn shortened(text: &str, room: usize) -> String {
    if measure_text_width(text) <= room {
        return text.to_owned();
    }
    let room = room.saturating_sub(1);
    let (end_len, end_width) = fitting(text.chars().rev(), (room * 2).div_ceil(3));
    let (begin_len, _) = fitting(text.chars(), room - end_width);
    format!("{}\u{2026}{}", &text[..begin_len], &text[text.len() - end_len..])
}

/// Returns the length in bytes of the first of `chars` that fit into `room` columns, and their width.
fn fitting(chars: impl Iterator<Item = char>, room: usize) -> (usize, usize) {
    let (mut len, mut width) = (0, 0);
    for char in chars {
        let more = measure_text_width(char.encode_utf8(&mut [0; 4]));
        if width + more > room {
            break;
        }
        len += char.len_utf8();
        width += more;
    }
    (len, width)
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

/// Describes the progress of files: time, share, the time left, rate, bytes, and files. A narrow
/// terminal shows the first parts.
fn progress_parts(display: &Display, progress: &Progress, elapsed: Duration) -> Vec<String> {
    let Work { file_count, size, read_bytes, .. } = progress.work;
    let noun = if display.noun.is_empty() { "file" } else { display.noun };
    let rate = display.rate.bytes_per_second();
    let rate = rate.map(|rate| format!("{}/s", units::size(rate)));
    let mut parts = vec![format!("{}  ", units::duration(elapsed))];
    match &display.expected {
        Some(expected) => {
            let left = expected.cost().saturating_sub(progress.work.cost());
            parts[0].push_str(&percent(progress.work.cost(), expected.cost()));
            parts.extend([
                time_left(&display.rate, left, elapsed),
                rate.map(|rate| format!(", {rate}")).unwrap_or_default(),
                format!(
                    "  {} of {}",
                    units::size(read_bytes),
                    units::size(expected.read_bytes.max(read_bytes))
                ),
                format!(
                    ", {file_count} of {}",
                    units::count(expected.file_count.max(file_count), noun)
                ),
            ]);
        }
        None => {
            parts[0].push_str(&rate.map(|rate| format!("{rate}  ")).unwrap_or_default());
            parts.extend([units::size(size), format!(", {}", units::count(file_count, noun))]);
        }
    }
    if let (Some(new), Some(stored)) = (progress.new_bytes, progress.stored_bytes) {
        parts.push(format!(", new {}", units::size(new)));
        parts.push(format!(", stored {}", units::size(stored)));
    }
    parts
}

/// Describes the progress of a phase: time, name, share, the time left, rate, and units.
fn phase_parts(phase: &Phase<'_>, rate: &Rate, elapsed: Duration) -> Vec<String> {
    let Phase { name, done, total, unit } = *phase;
    let mut parts = vec![format!("{}  {name}", units::duration(elapsed))];
    let Some(total) = total else { return parts };
    let show = |count: u64| match unit {
        Unit::Bytes => units::size(count),
        Unit::Items => count.to_string(),
    };
    parts[0].push_str(&format!(": {}", percent(done.into(), total.into())));
    parts.push(time_left(rate, total.saturating_sub(done).into(), elapsed));
    if unit == Unit::Bytes
        && let Some(rate) = rate.bytes_per_second()
    {
        parts.push(format!(", {}/s", units::size(rate)));
    }
    parts.push(format!(", {} of {}", show(done), show(total)));
    parts
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
            text = progress_parts(display, &progress, elapsed).concat();
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
            "0:03  30 %, 0:07 left, 10.0 MiB/s  30.0 MiB of 100.0 MiB, 1000 of 2000 files";
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
        assert!(text.contains(" %, 0:14 left, 10.0 MiB/s  360.0 MiB of 500.0 MiB"), "{text}");
        assert!(display.rate.samples.len() < 30, "old samples are dropped");
    }

    #[test]
    fn nothing_is_promised_without_an_expectation() {
        let mut display = Display::default();
        let steps = [0, 1, 2, 3].map(|count| Work::of_files(count, count * MIB));
        assert_eq!(last_text(&mut display, &steps), "0:03  1.0 MiB/s  3.0 MiB, 3 files");
        display.expect(Work::of_files(2, MIB));
        let text = last_text(&mut display, &steps);
        let expected = "0:03  100 %, 0:00 left, 1.0 MiB/s  3.0 MiB of 3.0 MiB, 3 of 3 files";
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
            phase_parts(&phase, &rate, Duration::from_secs(4)).concat()
        };
        assert_eq!(text(phase(3, None, Unit::Items)), "0:04  Working", "the total is unknown");
        assert_eq!(
            text(phase(4, Some(12), Unit::Items)),
            "0:04  Working: 33 %, 0:08 left, 4 of 12"
        );
        let expected = "0:04  Working: 50 %, 0:04 left, 2.0 MiB/s, 8.0 MiB of 16.0 MiB";
        assert_eq!(text(phase(8 * MIB, Some(16 * MIB), Unit::Bytes)), expected);
    }

    /// A backup of terabytes in millions of files, after some days.
    #[test]
    fn narrow_terminal_shows_share_time_left_and_rate() {
        let mut display = Display::default();
        display.expect(Work::of_files(12_345_678, 9 << 40));
        let step = |second: u64| Work::of_files(1_234_567, (3 << 40) + second * 123 * MIB);
        for second in 0..3 {
            let elapsed = Duration::from_secs(200_000 + second);
            display.rate.add(elapsed, step(second).cost(), step(second).read_bytes);
        }
        let work = step(2);
        let bytes = Some(2 << 40);
        let progress = Progress { work, new_bytes: bytes, stored_bytes: bytes };
        let parts = progress_parts(&display, &progress, Duration::from_secs(200_002));
        let at = |columns: usize| first_parts(&parts, columns - INDENT - 1);
        let least = "55:33:22  32 %, 14:36:43 left, 123.0 MiB/s";
        assert_eq!(at(60), least);
        assert_eq!(at(80), format!("{least}  3.0 TiB of 9.0 TiB"));
        assert_eq!(at(100), format!("{least}  3.0 TiB of 9.0 TiB, 1234567 of 12345678 files"));
        assert!(at(130).ends_with(" files, new 2.0 TiB, stored 2.0 TiB"), "{}", at(130));
        assert_eq!(at(10), "55:33:22  32 %", "the first part is always there");
    }

    #[test]
    fn long_paths_lose_their_middle() {
        assert_eq!(shortened("/a/b", 4), "/a/b");
        assert_eq!(shortened("/home/me/notes.txt", 16), "/home\u{2026}/notes.txt");
        assert_eq!(shortened("/\u{6f22}\u{5b57}", 4), "/\u{2026}\u{5b57}", "two columns each");
        assert_eq!(shortened("abc", 0), "\u{2026}", "no room at all");
        let long = format!("/home/me/{}/notes.txt", "folder/".repeat(50));
        let short = shortened(&long, 77);
        assert_eq!(measure_text_width(&short), 77, "{short}");
        assert!(short.starts_with("/home/me/") && short.ends_with("/notes.txt"), "{short}");
    }
}
