//! `hold`: protects snapshots from `forget` and `prune`.

use std::collections::BTreeSet;

use anyhow::Result;
use cutpoint_repository::TicketId;
use cutpoint_repository::snapshots;

use crate::args::{Global, Hold};
use crate::event::{Event, Summary};
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::session::Session;
use crate::{select, units};

pub(crate) fn run(args: &Hold, global: &Global, report: &Report) -> Result<Exit> {
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    let mut ids: BTreeSet<TicketId> = BTreeSet::new();
    for text in &args.snapshots {
        ids.insert(select::any_snapshot(&view, text, &args.filter)?);
    }
    let ids = select::oldest_first(&view, ids);
    let held = view.held();
    let count = ids.len() as u64;
    if args.release {
        if let Some(id) = ids.iter().find(|id| !held.contains(id)) {
            return Err(Failure::failed(format!("snapshot {}: not held", id.short()))
                .with_remedy("`cutpoint snapshots` shows held snapshots")
                .into());
        }
        snapshots::release(&session.repository, &ids)?;
    } else {
        snapshots::hold(&session.repository, &ids)?;
    }
    if report.is_json() {
        let (held_count, released_count) = if args.release { (0, count) } else { (count, 0) };
        report.event(&Event::Summary(Summary::Hold { held_count, released_count }))?;
    } else if args.release {
        report.note(&format!("{} no longer held.", counted(count)));
    } else {
        report.note(&format!("{} held.", counted(count)));
        let forgotten = view.forgotten();
        for id in ids.iter().filter(|id| forgotten.contains(id)) {
            let id = id.short();
            report
                .note(&format!("{id} is forgotten; `cutpoint forget --undo {id}` lists it again."));
        }
    }
    Ok(Exit::of_problems(report.problem_count()))
}

/// Returns `1 snapshot is` or `2 snapshots are`.
fn counted(count: u64) -> String {
    format!("{} {}", units::count(count, "snapshot"), if count == 1 { "is" } else { "are" })
}
