//! `tag`: changes the tags and the description of snapshots.

use std::collections::BTreeSet;

use anyhow::Result;
use cutpoint_repository::TicketId;
use cutpoint_repository::snapshots;

use super::waiting::announce_lag;
use crate::args::{Global, Tag};
use crate::event::{Event, Summary};
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::session::Session;
use crate::{select, units};

/// Checks that no tag is empty.
pub(super) fn check<'a>(tags: impl IntoIterator<Item = &'a String>) -> Result<(), Failure> {
    match tags.into_iter().any(String::is_empty) {
        true => Err(Failure::failed("a tag cannot be empty")),
        false => Ok(()),
    }
}

pub(crate) fn run(args: &Tag, global: &Global, report: &Report) -> Result<Exit> {
    let sets_tags = !args.set.is_empty() || args.clear;
    let changes_tags = sets_tags || !args.add.is_empty() || !args.remove.is_empty();
    if !changes_tags && args.description.is_none() {
        return Err(Failure::failed("no change given")
            .with_remedy("use --add, --remove, --set, --clear or --description")
            .into());
    }
    let given = [&args.add, &args.remove, &args.set];
    check(given.into_iter().flatten())
        .map_err(|failure| failure.with_remedy("use --clear to remove all tags"))?;
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    announce_lag(&session)?;
    let mut ids: BTreeSet<TicketId> = BTreeSet::new();
    for text in &args.snapshots {
        ids.insert(select::snapshot(&view, text, &args.selection, report)?.0);
    }
    let (mut changed_count, mut unchanged_count) = (0, 0);
    for id in ids {
        let is_changed = snapshots::note(&session.repository, id, |tags, description| {
            if sets_tags {
                tags.clear();
            }
            tags.retain(|tag| !args.remove.contains(tag));
            for tag in args.set.iter().chain(&args.add) {
                if !tags.contains(tag) {
                    tags.push(tag.clone());
                }
            }
            if let Some(text) = &args.description {
                description.clone_from(text);
            }
        })?;
        *(if is_changed { &mut changed_count } else { &mut unchanged_count }) += 1;
    }
    if report.is_json() {
        report.event(&Event::Summary(Summary::Tag { changed_count, unchanged_count }))?;
    } else {
        let mut text = format!("Changed {}", units::count(changed_count, "snapshot"));
        if unchanged_count > 0 {
            text.push_str(&format!("; {unchanged_count} unchanged"));
        }
        report.note(&format!("{text}."));
    }
    Ok(Exit::of_problems(report.problem_count()))
}
