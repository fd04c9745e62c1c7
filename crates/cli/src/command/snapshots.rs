//! `snapshots`: lists the snapshots.

use std::collections::HashSet;

use anyhow::Result;
use cutpoint_repository::format::commit::{CopyCoverage, Tool};
use cutpoint_repository::{Snapshot, TicketId, View};

use crate::args::{Global, Snapshots};
use crate::event::{self, Event, PathText};
use crate::exit::Exit;
use crate::report::Report;
use crate::session::Session;
use crate::units::DATE_TIME_WIDTH;
use crate::{escape, select, units};

pub(crate) fn run(args: &Snapshots, global: &Global, report: &Report) -> Result<Exit> {
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    let held = view.held();
    let mut snapshots = Vec::new();
    let all = if args.forgotten { view.forgotten_snapshots() } else { view.snapshots() };
    for (id, snapshot) in all {
        let is_listed = snapshot.partial || !args.partial;
        if is_listed && select::selects(&args.selection, &view, id, snapshot)? {
            snapshots.push((id, snapshot));
        }
    }
    if report.is_json() {
        for (id, snapshot) in &snapshots {
            let mut event = as_event(&view, *id, snapshot);
            (event.held, event.forgotten) = (held.contains(id), args.forgotten);
            report.event(&Event::Snapshot(event))?;
        }
        return Ok(Exit::of_problems(report.problem_count()));
    }
    if snapshots.is_empty() {
        report.note(match (args.forgotten, args.partial) {
            (false, false) => "No snapshots.",
            (true, false) => "No forgotten snapshots.",
            (false, true) => "No snapshots of interrupted runs.",
            (true, true) => "No forgotten snapshots of interrupted runs.",
        });
        return Ok(Exit::of_problems(report.problem_count()));
    }
    let width = snapshots.iter().map(|(_, snapshot)| snapshot.host.chars().count()).max();
    let width = width.unwrap_or(0).clamp(4, 24);
    report.line(&format!(
        "{:<8}  {:<DATE_TIME_WIDTH$}  {:<width$}  {:>10}  {:>10}  paths, tags, state",
        "ID", "time", "host", "size", "stored"
    ))?;
    for (id, snapshot) in &snapshots {
        let about = about(&view, &held, *id, snapshot);
        report.line(&format!(
            "{:<8}  {:<DATE_TIME_WIDTH$}  {:<width$}  {:>10}  {:>10}  {about}",
            id.short(),
            units::date_time(snapshot.started_ns.div_euclid(1_000_000_000)),
            escape::for_terminal(snapshot.host.as_bytes()),
            units::size(snapshot.statistics.size),
            units::size(snapshot.statistics.stored_bytes),
        ))?;
        let description = view.description(*id, snapshot);
        if !description.is_empty() {
            report.line(&format!("{:10}{}", "", escape::for_terminal(description.as_bytes())))?;
        }
    }
    Ok(Exit::of_problems(report.problem_count()))
}

/// Returns the paths, tags and state of a snapshot.
fn about(view: &View, held: &HashSet<TicketId>, id: TicketId, snapshot: &Snapshot) -> String {
    let mut about = select::sources(snapshot.sources.iter().map(Vec::as_slice));
    let tags = view.tags(id, snapshot);
    if !tags.is_empty() {
        about.push_str(&format!("  [{}]", escape::for_terminal(tags.join(", ").as_bytes())));
    }
    if held.contains(&id) {
        about.push_str("  (held)");
    }
    if let Some(origin) = snapshot.original() {
        let parts = match origin.coverage {
            CopyCoverage::Complete => "",
            CopyCoverage::Begun | CopyCoverage::Reduced | CopyCoverage::Lossy => "parts of ",
        };
        let id = origin.key.snapshot.short();
        about.push_str(&match origin.key.tool {
            Tool::Cutpoint => format!("  (copy of {parts}{id})"),
            tool => format!("  (import of {parts}{} {id})", tool.name()),
        });
    }
    if view.epoch_of(id) < view.epoch {
        about.push_str(&format!("  (key epoch {})", view.epoch_of(id)));
    }
    if snapshot.partial {
        about.push_str("  (interrupted, incomplete)");
    }
    if !snapshot.missing.is_empty() {
        let missing = select::listed(snapshot.missing_sources());
        about.push_str(&format!("  (incomplete: without {missing})"));
    }
    if snapshot.statistics.problem_count > 0 {
        let problems = units::count(snapshot.statistics.problem_count, "problem");
        about.push_str(&format!("  ({problems})"));
    }
    about
}

fn as_event<'a>(view: &'a View, id: TicketId, snapshot: &'a Snapshot) -> event::Snapshot<'a> {
    event::Snapshot {
        id: id.to_string(),
        started: units::rfc3339_ns(snapshot.started_ns),
        finished: units::rfc3339_ns(snapshot.finished_ns),
        host: &snapshot.host,
        user: &snapshot.user,
        tags: view.tags(id, snapshot),
        description: view.description(id, snapshot),
        sources: snapshot.sources.iter().map(|source| PathText::new(source)).collect(),
        missing_sources: snapshot.missing_sources().map(PathText::new).collect(),
        parent: snapshot.parent.map(|parent| parent.to_string()),
        partial: snapshot.partial,
        origin: snapshot.original().map(|origin| event::Origin {
            program: origin.key.tool.name(),
            repository: origin.key.repository.to_string(),
            snapshot: origin.key.snapshot.to_string(),
            complete: origin.coverage == CopyCoverage::Complete,
        }),
        epoch: view.epoch_of(id),
        held: false,
        forgotten: false,
        cut: &snapshot.cut,
        program: &snapshot.program,
        statistics: (&snapshot.statistics).into(),
    }
}
