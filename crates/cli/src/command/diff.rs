//! `diff`: lists the differences between two snapshots, or between a snapshot and the disk.

mod compare;
mod content;
mod disk;
mod file;

use std::ffi::OsStr;
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result};
use cutpoint_backup::source::resolve;
use cutpoint_repository::{Entry, EntryKind, TicketId};

use self::compare::{Change, Comparison, Difference, Sink};
use self::disk::DiskOptions;
use super::backup::exclude_own;
use super::ls::kind_name;
use crate::args::{Diff, Global};
use crate::event::{self, DifferenceCounts, Event, PathText, Summary};
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::select::{self, Lookup, Place};
use crate::session::Session;
use crate::{escape, units};

pub(crate) fn run(args: &Diff, global: &Global, report: &Report) -> Result<Exit> {
    if is_on_disk(&args.new) {
        return with_disk(args, global, report);
    }
    if args.force_read || args.exclusion.is_given() {
        let message = "--force-read and the options that exclude files: NEW is a snapshot";
        let remedy = "begin the path of a file or folder on the disk with ./ or /";
        return Err(Failure::failed(message).with_remedy(remedy).into());
    }
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    let (old, new) = (Place::parse(&args.old), Place::parse(&args.new));
    let old_path = old.path.or(new.path).unwrap_or_default();
    let new_path = new.path.or(old.path).unwrap_or_default();
    let selection = &args.selection;
    let (old_id, old_snapshot) = select::snapshot(&view, old.snapshot, selection, report)?;
    let (new_id, new_snapshot) = select::snapshot(&view, new.snapshot, selection, report)?;
    select::warn_of_lack(old_id, old_snapshot, report);
    if new_id != old_id {
        select::warn_of_lack(new_id, new_snapshot, report);
    }
    let reader = session.reader(view.clone(), report)?;
    let lookup =
        |id, snapshot| Lookup { reader: &reader, view: &view, id, snapshot, usage: |_| "ls {}" };
    let (mut old_path, old) = entry(&lookup(old_id, old_snapshot), old_path)?;
    let (_, new) = entry(&lookup(new_id, new_snapshot), new_path)?;
    let mut comparison = Comparison { reader: &reader, sink: Printer::new(args, report) };
    comparison.compare(Some(old), Some(new), &mut old_path)?;
    comparison.sink.summarize(old_id, &New::Snapshot(new_id))?;
    Ok(Exit::of_problems(report.problem_count()))
}

/// Compares a snapshot with a place on the disk.
fn with_disk(args: &Diff, global: &Global, report: &Report) -> Result<Exit> {
    // Impossible requests are detected before a passphrase is asked for.
    let disk = Path::new(&args.new);
    let disk = resolve(disk).with_context(|| disk.display().to_string())?;
    let mut walk = args.exclusion.walk_options()?;
    let mut session = Session::open(global, report)?;
    exclude_own(std::slice::from_ref(&disk), global, &mut walk.exclude, report)?;
    let view = session.view(report)?;
    let old = Place::parse(&args.old);
    let old_path = old.path.unwrap_or(disk.as_os_str().as_bytes());
    let (id, snapshot) = select::snapshot(&view, old.snapshot, &args.selection, report)?;
    select::warn_of_lack(id, snapshot, report);
    let reader = session.reader(view.clone(), report)?;
    let lookup = Lookup { reader: &reader, view: &view, id, snapshot, usage: |_| "ls {}" };
    let (old_path, old) = entry(&lookup, old_path)?;
    let comparison = Comparison { reader: &reader, sink: Printer::new(args, report) };
    let options = DiskOptions { walk, force_read: args.force_read };
    let printer = disk::compare(comparison, old, old_path, &disk, &options)?;
    printer.summarize(id, &New::Disk(&disk))?;
    Ok(Exit::of_problems(report.problem_count()))
}

/// Returns `true` if `new` names a place on the disk.
fn is_on_disk(new: &OsStr) -> bool {
    let first = new.as_bytes().split(|&byte| byte == b':').next().unwrap_or_default();
    first.contains(&b'/') || matches!(first, b"." | b"..")
}

/// Returns the entry at `path` with its path from the root; for the root of a snapshot, a folder
/// without a name.
fn entry(lookup: &Lookup<'_>, path: &[u8]) -> Result<(Vec<u8>, Entry)> {
    let located = lookup.find(path)?;
    let root =
        || Entry { content: lookup.snapshot.root.clone(), ..Entry::new("", EntryKind::Folder) };
    Ok((located.path, located.entry.map_or_else(root, |(entry, _)| *entry)))
}

struct Printer<'a> {
    report: &'a Report,
    shows_metadata: bool,
    counts: DifferenceCounts,
}

/// The newer side of a comparison.
enum New<'a> {
    Snapshot(TicketId),
    Disk(&'a Path),
}

impl<'a> Printer<'a> {
    fn new(args: &Diff, report: &'a Report) -> Printer<'a> {
        Printer { report, shows_metadata: args.metadata, counts: DifferenceCounts::default() }
    }

    fn count(&mut self, difference: &Difference<'_>) {
        let size = |entry: Option<&Entry>| {
            entry.filter(|entry| entry.kind == EntryKind::File).map_or(0, |entry| entry.size)
        };
        let (old, new) = (size(difference.old), size(difference.new));
        let counts = &mut self.counts;
        let add = |total: &mut u64, more: u64| *total = total.saturating_add(more);
        match difference.change {
            Change::Added => {
                counts.added_count += 1;
                add(&mut counts.added_bytes, new);
            }
            Change::Removed => {
                counts.removed_count += 1;
                add(&mut counts.removed_bytes, old);
            }
            Change::Content | Change::Type => {
                match difference.change {
                    Change::Type => counts.type_changed_count += 1,
                    _ => counts.content_changed_count += 1,
                }
                add(&mut counts.changed_old_bytes, old);
                add(&mut counts.changed_new_bytes, new);
            }
            Change::Metadata => counts.metadata_changed_count += 1,
        }
    }

    /// Reports the end of the comparison.
    fn summarize(&self, old: TicketId, new: &New<'_>) -> Result<()> {
        if self.report.is_json() {
            let (snapshot, path) = match new {
                New::Snapshot(id) => (Some(id.to_string()), None),
                New::Disk(path) => (None, Some(PathText::of(path))),
            };
            return self.report.event(&Event::Summary(Summary::Diff {
                old_snapshot: old.to_string(),
                new_snapshot: snapshot,
                path,
                counts: self.counts,
                problem_count: self.report.problem_count(),
                elapsed_ns: self.report.elapsed_ns(),
            }));
        }
        let mut text = format!(
            "Added {} ({}), removed {} ({}), changed {} ({} before, {} now)",
            self.counts.added_count,
            units::size(self.counts.added_bytes),
            self.counts.removed_count,
            units::size(self.counts.removed_bytes),
            self.counts.content_changed_count + self.counts.type_changed_count,
            units::size(self.counts.changed_old_bytes),
            units::size(self.counts.changed_new_bytes),
        );
        if self.counts.metadata_changed_count > 0 {
            text.push_str(&format!("; {} with other metadata", self.counts.metadata_changed_count));
            if !self.shows_metadata {
                text.push_str(" (listed with --metadata)");
            }
        }
        // The summary follows the lines, even where both go to one terminal.
        self.report.flush()?;
        self.report.note(&format!("{text}."));
        Ok(())
    }
}

impl Sink for Printer<'_> {
    fn difference(&mut self, difference: &Difference<'_>) -> Result<()> {
        self.count(difference);
        let Some(entry) = difference.new.or(difference.old) else { return Ok(()) };
        let (letter, change) = match difference.change {
            Change::Metadata if !self.shows_metadata => return Ok(()),
            Change::Added => ('+', "added"),
            Change::Removed => ('-', "removed"),
            Change::Content => ('M', "content"),
            Change::Type => ('T', "type"),
            Change::Metadata => ('U', "metadata"),
        };
        if self.report.is_json() {
            let old = difference.new.and(difference.old);
            return self.report.event(&Event::Difference(event::Difference {
                path: PathText::new(difference.path),
                change,
                kind: kind_name(entry.kind),
                size: entry.size,
                old_kind: old.map(|old| kind_name(old.kind)),
                old_size: old.map(|old| old.size),
                metadata: &difference.metadata,
            }));
        }
        let mut line = format!("{letter} ").into_bytes();
        line.extend_from_slice(escape::for_terminal(difference.path).as_bytes());
        if entry.kind == EntryKind::Folder {
            line.push(b'/');
        }
        line.push(b'\n');
        self.report.write(&line)
    }

    fn problem(&mut self, path: &[u8], error: &dyn Display) {
        let path = if path.is_empty() { b"/" } else { path };
        let message = format!("cannot be compared completely: {error}");
        self.report.problem(Path::new(OsStr::from_bytes(path)), &message);
    }

    fn warning(&mut self, path: &Path, message: &str) {
        self.report.warning(path, message);
    }
}
