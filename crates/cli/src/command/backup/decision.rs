//! The lines of `backup --verbose`: each file once, with the reason for reading it.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cutpoint_backup::save::{FileDecision, ReadReason};
use cutpoint_repository::{Entry, EntryKind, Time};

use crate::event::{self, Event, PathText};
use crate::report::Report;
use crate::{escape, units};

/// The width of the column of reasons.
const REASON_WIDTH: usize = 11;

/// Prints the decision about the file `path`: with `-v` if the file is read, or has no content to
/// be read, with `-vv` in any case, and then with the values that have changed. The lines of a dry
/// run are results, and `-v` prints all of them.
pub(super) fn tell(report: &Report, is_dry_run: bool, path: &Path, decision: &FileDecision<'_>) {
    let (is_read, verbosity, reason) = match decision {
        FileDecision::Read { reason, .. } => (true, 1, reason.name()),
        FileDecision::Special(kind) => (false, 1, special(*kind)),
        FileDecision::Unchanged => (false, 2, "unchanged"),
        FileDecision::Link => (false, 2, "link"),
        FileDecision::Excluded(_) => (false, 2, "excluded"),
    };
    if report.verbosity() < if is_dry_run { 1 } else { verbosity } {
        return;
    }
    if report.is_json() {
        let reason = &*reason.replace(' ', "_");
        let rule = match decision {
            FileDecision::Excluded(rule) => Some(rule.name().replace(' ', "_")),
            _ => None,
        };
        let path = PathText::of(path);
        // A reader that is gone is noticed at the end of the output.
        report.event(&Event::File(event::File { path, read: is_read, reason, rule })).ok();
        return;
    }
    let line = || {
        let values = match decision {
            FileDecision::Read { reason, before: Some(before), now } if report.verbosity() > 1 => {
                values(*reason, before, now)
            }
            FileDecision::Excluded(rule) => format!(" ({})", rule.name()),
            _ => String::new(),
        };
        let path = escape::for_terminal(path.as_os_str().as_bytes());
        format!("{reason:<REASON_WIDTH$}  {path}{values}")
    };
    match is_dry_run {
        true => report.line(&line()).ok().unwrap_or_default(),
        false => report.detail(line),
    }
}

/// Returns the name of the kind of an entry that is neither a file nor a folder nor a link.
fn special(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Socket => "socket",
        EntryKind::Fifo => "pipe",
        _ => "device",
    }
}

/// Describes the property that is the reason, as it was and as it is now.
fn values(reason: ReadReason, before: &Entry, now: &Entry) -> String {
    let time = |time: Time| units::rfc3339(time.seconds, time.nanoseconds);
    let (old, new) = match reason {
        ReadReason::Size => (format!("{} B", before.size), format!("{} B", now.size)),
        ReadReason::Mtime => (time(before.mtime), time(now.mtime)),
        ReadReason::Ctime => (time(before.ctime), time(now.ctime)),
        ReadReason::Inode => (before.inode.to_string(), now.inode.to_string()),
        _ => return String::new(),
    };
    format!(" (was {old}, is {new})")
}
