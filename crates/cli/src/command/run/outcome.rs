//! The outcome of a run: the results of its parts, and its report.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cutpoint_storage::{Environment, System};
use cutpoint_terminal::report::Record;
use serde_json::Value;

use super::history::HistoryRecord;
use crate::event::{self, Event, Summary};
use crate::exit::{Exit, Failure};
use crate::replace::replace_file;
use crate::report::Report;
use crate::{escape, units};

/// The permission bits of a report, which can have names of files.
const MODE: u32 = 0o600;

/// The maximum size of a file that is looked into before it is replaced, in bytes.
const LEN_MAX: u64 = 16 << 20;

/// The state of a part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The part has ended with this exit code.
    Done(Exit),
    /// The part was not done, because an earlier one has failed.
    Skipped,
    /// The part would be done, were this no dry run.
    Planned,
}

/// A part of a run.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) state: State,
    pub(super) record: Record,
    pub(super) elapsed_ns: u64,
}

impl Part {
    /// Creates a part that was not done.
    pub(super) fn not_done(name: &'static str, state: State) -> Part {
        Part { name, state, record: Record::default(), elapsed_ns: 0 }
    }

    /// Creates a part that has failed with a message.
    pub(super) fn failed(name: &'static str, exit: Exit, message: String) -> Part {
        let record = Record { messages: vec![message], message_count: 1, summary: None };
        Part { name, state: State::Done(exit), record, elapsed_ns: 0 }
    }

    /// Returns a number of the summary of the part.
    pub(super) fn number(&self, field: &str) -> Option<u64> {
        self.record.summary.as_ref()?.get(field)?.as_u64()
    }

    fn event(&self) -> event::RunPart {
        let (state, exit_code) = match self.state {
            State::Done(exit) => ("done", Some(exit.code())),
            State::Skipped => ("skipped", None),
            State::Planned => ("planned", None),
        };
        event::RunPart {
            part: self.name,
            state,
            exit_code,
            messages: self.record.messages.clone(),
            message_count: self.record.message_count,
            summary: self.record.summary.clone(),
            elapsed_ns: self.elapsed_ns,
        }
    }

    fn text(&self) -> String {
        let state = match self.state {
            State::Done(Exit::Well) => "success".to_owned(),
            State::Done(Exit::Problems) => "problems".to_owned(),
            State::Done(exit) => format!("failed ({})", exit.code()),
            State::Skipped => "skipped".to_owned(),
            State::Planned => "planned".to_owned(),
        };
        format!("{} {state}", self.name)
    }
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) profile: String,
    /// The id of the run, 32 hexadecimal digits.
    pub(super) run_id: String,
    pub(super) repository: Option<String>,
    pub(super) is_dry_run: bool,
    pub(super) is_skipped: bool,
    pub(super) started_ns: i64,
    pub(super) parts: Vec<Part>,
    /// The highest exit code of the parts.
    pub(super) exit: Exit,
    pub(super) oldest_unread_ns: Option<i64>,
}

impl Outcome {
    /// Begins a run without parts.
    ///
    /// # Errors
    ///
    /// Fails if the system has no randomness for an id.
    pub(super) fn begin(profile: &str, is_dry_run: bool) -> Result<Outcome> {
        let mut id = [0; 16];
        System.random(&mut id)?;
        Ok(Outcome {
            profile: profile.to_owned(),
            run_id: escape::hex(&id),
            repository: None,
            is_dry_run,
            is_skipped: false,
            started_ns: System.now_ns(),
            parts: Vec::new(),
            exit: Exit::Well,
            oldest_unread_ns: None,
        })
    }

    /// Adds a part. The exit code becomes that of the part if that is higher.
    pub(super) fn add(&mut self, part: Part) {
        if let State::Done(exit) = part.state {
            self.raise(exit);
        }
        self.parts.push(part);
    }

    /// Sets the exit code of the run if it is lower.
    pub(super) fn raise(&mut self, exit: Exit) {
        if exit.code() > self.exit.code() {
            self.exit = exit;
        }
    }

    /// Returns the part of this name.
    pub(super) fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name == name)
    }

    /// Returns the ID of the snapshot that the run has made.
    pub(super) fn snapshot(&self) -> Option<&str> {
        self.part("backup")?.record.summary.as_ref()?.get("snapshot").and_then(Value::as_str)
    }

    /// Returns `true` if the backup has saved what it could.
    fn has_saved(&self) -> bool {
        let state = self.part("backup").map(|part| part.state);
        matches!(state, Some(State::Done(Exit::Well | Exit::Problems))) && !self.is_dry_run
    }

    /// Adds the run to the record of all runs.
    pub(super) fn add_to(&self, record: &mut HistoryRecord) {
        record.last_run_ns = Some(self.started_ns);
        record.exit_code = Some(self.exit.code());
        if self.has_saved() {
            record.last_backup_ns = Some(self.started_ns);
        }
        if self.exit == Exit::Well {
            record.last_success_ns = Some(self.started_ns);
        }
        record.oldest_unread_ns = self.oldest_unread_ns.or(record.oldest_unread_ns);
    }

    /// Returns the duration so far, in nanoseconds.
    pub(super) fn elapsed_ns(&self) -> u64 {
        u64::try_from(System.now_ns() - self.started_ns).unwrap_or(0)
    }

    /// Describes the outcome in a line.
    pub(super) fn text(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(Part::text).collect();
        let about = match self.exit {
            _ if self.is_dry_run => "dry run",
            Exit::Well => "success",
            Exit::Problems => "problems",
            _ => "failed",
        };
        format!("{}: {about}: {}", self.profile, parts.join(", "))
    }

    /// Returns the summary event.
    pub(super) fn event(&self, history: &HistoryRecord) -> Event<'_> {
        let time = |ns: Option<i64>| ns.map(units::rfc3339_ns);
        Event::Summary(Summary::Run(event::Run {
            profile: &self.profile,
            run_id: &self.run_id,
            repository: self.repository.as_deref(),
            dry_run: self.is_dry_run,
            skipped: self.is_skipped,
            exit_code: self.exit.code(),
            exit: self.exit.name(),
            started: units::rfc3339_ns(self.started_ns),
            snapshot: self.snapshot(),
            parts: self.parts.iter().map(Part::event).collect(),
            last_backup: time(history.last_backup_ns),
            last_success: time(history.last_success_ns),
            oldest_unread: time(self.oldest_unread_ns),
            elapsed_ns: self.elapsed_ns(),
        }))
    }

    /// Returns the report as JSON: the summary event.
    pub(super) fn report(&self, history: &HistoryRecord) -> Result<String> {
        Ok(cutpoint_terminal::event::document(&self.event(history))?)
    }

    /// Replaces the file of the report.
    ///
    /// # Errors
    ///
    /// Fails if the file is something else, and returns the error of the file system.
    pub(super) fn write(&self, file: &Path, history: &HistoryRecord) -> Result<()> {
        refuse_foreign(file)?;
        let text = self.report(history)?;
        replace_file(file, text.as_bytes(), MODE).context("cannot replace the file")
    }

    /// Prints the end of the run.
    ///
    /// # Errors
    ///
    /// Fails if standard output cannot be written.
    pub(super) fn show(&self, history: &HistoryRecord, report: &Report) -> Result<()> {
        report.note(&format!("{} ({}).", self.text(), units::duration(report.elapsed())));
        report.summary(&self.event(history))
    }
}

/// Refuses a file that is no report, such as the file of a wrong path, which would be lost.
fn refuse_foreign(file: &Path) -> Result<()> {
    let about = match fs::metadata(file) {
        Ok(about) if about.is_file() && about.len() > 0 => about,
        // A folder or a device is not replaced either.
        _ => return Ok(()),
    };
    let is_report = || {
        let text = fs::read(file).ok()?;
        let value: Value = serde_json::from_slice(&text).ok()?;
        value.get("run_id").map(|_| ())
    };
    if about.len() > LEN_MAX || is_report().is_none() {
        return Err(Failure::failed("the file is not a report of a run").into());
    }
    Ok(())
}
