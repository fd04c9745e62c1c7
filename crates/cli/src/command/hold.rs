//! `hold`: protects snapshots from `forget` and `prune`.

use std::collections::BTreeSet;

use anyhow::Result;
use cutpoint_repository::TicketId;
use cutpoint_repository::snapshots;

use super::alone::require_alone;
use super::waiting::announce_lag;
use crate::args::{Global, Hold};
use crate::event::{Event, Summary};
use crate::exit::Exit;
use crate::report::Report;
use crate::session::Session;
use crate::{select, units};

pub(crate) fn run(args: &Hold, global: &Global, report: &Report) -> Result<Exit> {
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    announce_lag(&session)?;
    let mut ids: BTreeSet<TicketId> = BTreeSet::new();
    for text in &args.snapshots {
        ids.insert(select::any_snapshot(&view, text, &args.selection, report)?);
    }
    let ids = select::oldest_first(&view, ids);
    let held = view.held();
    let changed: Vec<TicketId> =
        ids.iter().copied().filter(|id| held.contains(id) == args.release).collect();
    let count = changed.len() as u64;
    if !changed.is_empty() {
        require_alone(args.alone, &session)?;
        match args.release {
            true => snapshots::release(&session.repository, &changed)?,
            false => snapshots::hold(&session.repository, &changed)?,
        };
    }
    let unchanged = match ids.len() - changed.len() {
        0 => String::new(),
        unchanged => format!("; {unchanged} unchanged"),
    };
    if report.is_json() {
        let (held_count, released_count) = if args.release { (0, count) } else { (count, 0) };
        report.event(&Event::Summary(Summary::Hold { held_count, released_count }))?;
    } else if args.release {
        report.note(&format!("Released {}{unchanged}.", units::count(count, "snapshot")));
    } else {
        report.note(&format!("Held {}{unchanged}.", units::count(count, "snapshot")));
        let forgotten = view.forgotten();
        for id in ids.iter().filter(|id| forgotten.contains(id)) {
            let id = id.short();
            report
                .note(&format!("{id} is forgotten; `cutpoint forget --undo {id}` lists it again."));
        }
    }
    Ok(Exit::of_problems(report.problem_count()))
}
