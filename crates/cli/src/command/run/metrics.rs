//! The metrics of a run, in the text format of Prometheus.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cutpoint_storage::{Environment, System};

use super::history::HistoryRecord;
use super::outcome::Outcome;
use crate::exit::Failure;
use crate::replace::replace_file;

/// The permission bits of the file, which the collector reads as another user.
const MODE: u32 = 0o644;
/// The maximum size of a file that is looked into before it is replaced, in bytes.
const LEN_MAX: u64 = 1 << 20;

const SECOND_NS: i64 = 1_000_000_000;

/// Replaces the file with the metrics of a run.
///
/// # Errors
///
/// Fails if the file has metrics of another profile, and returns any error of the file system.
pub(super) fn write(file: &Path, outcome: &Outcome, history: &HistoryRecord) -> Result<()> {
    refuse_others(file, &outcome.profile)?;
    let text = text(outcome, history, System.now_ns());
    replace_file(file, text.as_bytes(), MODE).context("cannot replace the file")
}

/// Refuses a file with the metrics of another profile, which would disappear.
fn refuse_others(file: &Path, profile: &str) -> Result<()> {
    if fs::metadata(file).is_ok_and(|about| about.len() > LEN_MAX) {
        return Err(Failure::failed("the file is not one of this program").into());
    }
    let Ok(text) = fs::read_to_string(file) else { return Ok(()) };
    let own = label(profile);
    let is_other = |line: &str| !line.starts_with('#') && !line.is_empty() && !line.contains(&own);
    if text.lines().any(is_other) {
        return Err(Failure::failed("the file has metrics of another profile or program").into());
    }
    Ok(())
}

fn label(profile: &str) -> String {
    format!("{{profile=\"{}\"", escaped(profile))
}

/// Escapes the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Returns all metrics. A value that is not known has no line.
fn text(outcome: &Outcome, history: &HistoryRecord, now_ns: i64) -> String {
    let mut text = String::new();
    let time = |ns: Option<i64>| ns.map(seconds);
    let of = |part: &str, field: &str| {
        let number = outcome.part(part).and_then(|part| part.number(field));
        number.map(|number| number.to_string())
    };
    let age = history.oldest_unread_ns.map(|since_ns| seconds((now_ns - since_ns).max(0)));
    let elapsed_ns = i64::try_from(outcome.elapsed_ns()).unwrap_or(i64::MAX);
    let values = [
        ("run_timestamp_seconds", "Start of the last run", Some(seconds(outcome.started_ns))),
        ("run_duration_seconds", "Duration of the last run", Some(seconds(elapsed_ns))),
        (
            "run_exit_code",
            "Exit code of the last run: 0 is success, 1 are problems",
            Some(outcome.exit.code().to_string()),
        ),
        (
            "run_last_success_timestamp_seconds",
            "Start of the last run with exit code 0",
            time(history.last_success_ns),
        ),
        (
            "run_last_backup_timestamp_seconds",
            "Start of the last run whose backup has succeeded",
            time(history.last_backup_ns),
        ),
        ("backup_source_bytes", "Size of the saved files", of("backup", "size_bytes")),
        ("backup_read_bytes", "Bytes of files that were read", of("backup", "read_bytes")),
        ("backup_new_bytes", "Bytes that were new to the repository", of("backup", "new_bytes")),
        ("backup_stored_bytes", "Bytes added to the repository", of("backup", "stored_bytes")),
        ("prune_deleted_bytes", "Bytes that were deleted", of("prune", "deleted_bytes")),
        ("check_read_bytes", "Stored bytes that were verified", of("check", "read_bytes")),
        ("repository_container_bytes", "Size of all containers", of("check", "container_bytes")),
        ("check_findings", "Damages that were found", of("check", "finding_count")),
        (
            "oldest_unread_timestamp_seconds",
            "Time since which the stored byte that no check has read for longest is unread",
            time(history.oldest_unread_ns),
        ),
        ("oldest_unread_age_seconds", "Age of the oldest unread byte at the end of the run", age),
    ];
    let own = label(&outcome.profile);
    for (name, help, value) in values {
        if let Some(value) = value {
            push(&mut text, name, help, &format!("{own}}}"), &value);
        }
    }
    let repository = escaped(outcome.repository.as_deref().unwrap_or_default());
    let labels = format!("{own},repository=\"{repository}\",run_id=\"{}\"}}", outcome.run_id);
    push(&mut text, "run_info", "The last run", &labels, "1");
    text
}

fn push(text: &mut String, name: &str, help: &str, labels: &str, value: &str) {
    let name = format!("cutpoint_{name}");
    // Writing to a string does not fail.
    write!(text, "# HELP {name} {help}.\n# TYPE {name} gauge\n{name}{labels} {value}\n").ok();
}

/// Formats nanoseconds as seconds.
fn seconds(ns: i64) -> String {
    format!("{}.{:03}", ns.div_euclid(SECOND_NS), ns.rem_euclid(SECOND_NS) / 1_000_000)
}
