//! `find`: finds entries in snapshots by name.

mod folder;
mod query;
mod search;
mod trees;
mod version;

use anyhow::Result;
use cutpoint_backup::source::every_folder_hint;
use cutpoint_repository::{EntryKind, Snapshot, TicketId};

use self::search::{Match, Search};
use super::ls::kind_name;
use crate::args::{Find, Global};
use crate::event::{self, Event, PathText, Summary};
use crate::exit::Exit;
use crate::report::Report;
use crate::session::Session;
use crate::units::DATE_TIME_WIDTH;
use crate::{escape, select, units};

pub(crate) fn run(args: &Find, global: &Global, report: &Report) -> Result<Exit> {
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    let mut snapshots = Vec::new();
    for (id, snapshot) in view.snapshots() {
        if select::selects(&args.selection, &view, id, snapshot)? {
            snapshots.push((id, snapshot));
        }
    }
    let reader = session.reader(view.clone(), report)?;
    let pattern = args.pattern.text();
    let mut output = Output { report, pattern, snapshots: &snapshots, match_count: 0, paths: None };
    let roots: Vec<_> = snapshots.iter().map(|(_, snapshot)| &snapshot.root).collect();
    Search::new(&reader, args, report).run(&roots, |found| output.show(found))?;
    output.finish()?;
    Ok(Exit::of_problems(report.problem_count()))
}

/// The output of the matches, in the order of their paths.
struct Output<'a> {
    report: &'a Report,
    pattern: &'a str,
    /// The snapshots that are searched, oldest first.
    snapshots: &'a [(TicketId, &'a Snapshot)],
    match_count: u64,
    /// The number of different paths, and the last of them.
    paths: Option<(u64, Vec<u8>)>,
}

impl Output<'_> {
    fn show(&mut self, found: &Match<'_>) -> Result<()> {
        let report = self.report;
        if self.match_count == 0 && !report.is_json() {
            report.line(&format!(
                "{:>10}  {:<DATE_TIME_WIDTH$}  {:>9}  {:<8}  {:<8}  path",
                "size", "modified", "snapshots", "first", "last"
            ))?;
        }
        self.count(found.path);
        let (version, presence) = (found.version, found.presence);
        let [first, last] = [presence.first, presence.last].map(|at| self.snapshots[at].0);
        if report.is_json() {
            return report.event(&Event::Match(event::Match {
                path: PathText::new(found.path),
                kind: kind_name(version.kind),
                size: version.size,
                modified: version.mtime.map(|time| units::rfc3339(time.seconds, time.nanoseconds)),
                snapshot_count: presence.count,
                first_snapshot: first.to_string(),
                last_snapshot: last.to_string(),
            }));
        }
        let size = match version.kind {
            EntryKind::File => units::size(version.size),
            _ => "-".to_owned(),
        };
        let modified = version.mtime.map(|time| units::date_time(time.seconds));
        let mut line = format!(
            "{size:>10}  {:<DATE_TIME_WIDTH$}  {:>9}  {:<8}  {:<8}  ",
            modified.as_deref().unwrap_or("-"),
            presence.count,
            first.short(),
            last.short(),
        )
        .into_bytes();
        line.extend_from_slice(escape::for_terminal(found.path).as_bytes());
        if version.kind == EntryKind::Folder {
            line.push(b'/');
        }
        line.push(b'\n');
        report.write(&line)
    }

    /// Counts a match. Matches with the same path follow each other.
    fn count(&mut self, path: &[u8]) {
        self.match_count += 1;
        match &mut self.paths {
            Some((_, last)) if last == path => {}
            Some((count, last)) => {
                *count += 1;
                path.clone_into(last);
            }
            None => self.paths = Some((1, path.to_owned())),
        }
    }

    /// Reports the end of the search.
    fn finish(&self) -> Result<()> {
        let report = self.report;
        let snapshot_count = self.snapshots.len() as u64;
        let path_count = self.paths.as_ref().map_or(0, |(count, _)| *count);
        if report.is_json() {
            return report.event(&Event::Summary(Summary::Find {
                snapshot_count,
                path_count,
                match_count: self.match_count,
                elapsed_ns: report.elapsed_ns(),
            }));
        }
        let snapshots = units::count(snapshot_count, "snapshot");
        report.note(&match (snapshot_count, path_count) {
            (0, _) => "No snapshots.".to_owned(),
            (_, 0) => format!("Found nothing in {snapshots}."),
            _ => format!(
                "Found {} of {} in {snapshots}.",
                units::count(self.match_count, "version"),
                units::count(path_count, "path"),
            ),
        });
        if path_count == 0
            && let Some(hint) = every_folder_hint(self.pattern)
        {
            let shown = self.pattern;
            report.note(&format!("`{shown}` is the same as `/{shown}`; {hint}."));
        }
        Ok(())
    }
}
