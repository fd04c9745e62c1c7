//! `diff`: lists the differences between two snapshots.

mod compare;
mod content;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Result;
use cutpoint_repository::{Entry, EntryKind, TicketId};
use cutpoint_storage::Error as StoreError;

use self::compare::{Change, Comparison, Difference, Sink};
use super::ls::kind_name;
use crate::args::{Diff, Global};
use crate::event::{self, DifferenceCounts, Event, PathText, Summary};
use crate::exit::Exit;
use crate::report::Report;
use crate::select::{self, Lookup, Place};
use crate::session::Session;
use crate::{escape, units};

pub(crate) fn run(args: &Diff, global: &Global, report: &Report) -> Result<Exit> {
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
        |id, snapshot| Lookup { reader: &reader, view: &view, id, snapshot, usage: "ls {}" };
    let (mut old_path, old) = entry(&lookup(old_id, old_snapshot), old_path)?;
    let (_, new) = entry(&lookup(new_id, new_snapshot), new_path)?;
    let printer =
        Printer { report, shows_metadata: args.metadata, counts: DifferenceCounts::default() };
    let mut comparison = Comparison { reader: &reader, sink: printer };
    comparison.compare(old, new, &mut old_path)?;
    summarize(args, old_id, new_id, &comparison.sink.counts, report)?;
    Ok(Exit::of_problems(report.problem_count()))
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

impl Printer<'_> {
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

    fn problem(&mut self, path: &[u8], error: &StoreError) {
        let path = if path.is_empty() { b"/" } else { path };
        let message = format!("cannot be compared completely: {error}");
        self.report.problem(Path::new(OsStr::from_bytes(path)), &message);
    }
}

fn summarize(
    args: &Diff,
    old: TicketId,
    new: TicketId,
    counts: &DifferenceCounts,
    report: &Report,
) -> Result<()> {
    if report.is_json() {
        return report.event(&Event::Summary(Summary::Diff {
            old_snapshot: old.to_string(),
            new_snapshot: new.to_string(),
            counts: *counts,
            problem_count: report.problem_count(),
            elapsed_ns: report.elapsed_ns(),
        }));
    }
    let mut text = format!(
        "Added {} ({}), removed {} ({}), changed {} ({} before, {} now)",
        counts.added_count,
        units::size(counts.added_bytes),
        counts.removed_count,
        units::size(counts.removed_bytes),
        counts.content_changed_count + counts.type_changed_count,
        units::size(counts.changed_old_bytes),
        units::size(counts.changed_new_bytes),
    );
    if counts.metadata_changed_count > 0 {
        text.push_str(&format!("; {} with other metadata", counts.metadata_changed_count));
        if !args.metadata {
            text.push_str(" (listed with --metadata)");
        }
    }
    // The summary follows the lines, even where both go to one terminal.
    report.flush()?;
    report.note(&format!("{text}."));
    Ok(())
}
