//! The events of `run`.

use serde::Serialize;
use serde_json::Value;

use super::PathText;

/// A run of a profile.
#[derive(Serialize)]
pub(crate) struct Run<'a> {
    pub(crate) profile: &'a str,
    pub(crate) run_id: &'a str,
    /// `None` if the profile could not be read.
    pub(crate) repository: Option<&'a str>,
    pub(crate) dry_run: bool,
    /// Set if the last backup is recent enough, so that nothing was done.
    pub(crate) skipped: bool,
    pub(crate) exit_code: u8,
    /// The name of the exit code.
    pub(crate) exit: &'static str,
    pub(crate) started: String,
    pub(crate) snapshot: Option<&'a str>,
    pub(crate) parts: Vec<RunPart>,
    /// The start of the last run whose backup has succeeded.
    pub(crate) last_backup: Option<String>,
    /// The start of the last run without problems.
    pub(crate) last_success: Option<String>,
    /// The time since which the stored data that was not read for longest is unread.
    pub(crate) oldest_unread: Option<String>,
    pub(crate) elapsed_ns: u64,
}

/// A part of a run.
#[derive(Clone, Serialize)]
pub(crate) struct RunPart {
    pub(crate) part: &'static str,
    /// `done`, `skipped` or `planned`.
    pub(crate) state: &'static str,
    /// `None` if the part was not done.
    pub(crate) exit_code: Option<u8>,
    pub(crate) messages: Vec<String>,
    pub(crate) message_count: u64,
    /// The summary event of the command.
    pub(crate) summary: Option<Value>,
    pub(crate) elapsed_ns: u64,
}

/// A unit or crontab.
#[derive(Serialize)]
pub(crate) struct ScheduleFile<'a> {
    name: &'a str,
    text: &'a str,
}

impl<'a> From<(&'a str, &'a str)> for ScheduleFile<'a> {
    fn from((name, text): (&'a str, &'a str)) -> ScheduleFile<'a> {
        ScheduleFile { name, text }
    }
}

/// A profile, in the list of all.
#[derive(Serialize)]
pub(crate) struct Profile<'a> {
    pub(crate) profile: &'a str,
    #[serde(flatten)]
    pub(crate) file: PathText,
    pub(crate) repository: &'a str,
    pub(crate) sources: Vec<PathText>,
    pub(crate) last_backup: Option<String>,
    pub(crate) last_success: Option<String>,
    pub(crate) exit_code: Option<u8>,
}
