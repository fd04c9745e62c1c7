//! `rewrite`: saves snapshots again without some of their files.

use std::sync::Arc;

use anyhow::Result;
use cutpoint_backup::copy::{CopyReport, RewritePlan, plan_rewrites, rewrite};
use cutpoint_backup::save::BackupOptions;
use cutpoint_backup::source::every_folder_hint;
use cutpoint_repository::format::commit::OriginId;
use cutpoint_repository::{TicketId, snapshots};

use super::copy::{Monitor, described, wanted};
use super::waiting::announce_lag;
use crate::args::{Global, Rewrite};
use crate::event::{self, Event, Summary};
use crate::exit::Exit;
use crate::report::Report;
use crate::session::Session;
use crate::{select, units};

pub(crate) fn run(args: &Rewrite, global: &Global, report: &Report) -> Result<Exit> {
    for pattern in &args.exclude {
        cutpoint_terminal::check_pattern("--exclude", pattern)?;
    }
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    if !args.dry_run {
        announce_lag(&session)?;
    }
    let reader = Arc::new(session.reader(view.clone(), report)?);
    let wanted = wanted(&args.snapshots, &args.selection, &view, true, report)?;
    let describe = |id: &OriginId| described(&view, id);
    let monitor = Monitor::new("rewritten", &describe, report);
    report.begin_progress();
    let plan = plan_rewrites(&reader, &wanted, &args.exclude, &monitor);
    let plan = plan.inspect_err(|_| report.end_progress())?;
    for pattern in &plan.unmatched {
        let hint = every_folder_hint(pattern).map_or_else(String::new, |hint| format!("; {hint}"));
        report.warn(&format!("--exclude {pattern}: this pattern matches nothing{hint}"));
    }
    if args.dry_run {
        report.end_progress();
        show(&plan, report)?;
        summarize(args, &plan, &CopyReport::default(), 0, report)?;
        return Ok(Exit::of_problems(report.problem_count()));
    }
    let done = rewrite(&session.repository, &plan, &BackupOptions::default(), &monitor);
    report.end_progress();
    let saved: Vec<_> = monitor.saved();
    let saved: Vec<_> = saved.iter().filter_map(|(id, made)| Some((id.ticket()?, *made))).collect();
    for (id, made) in &saved {
        if let Some(planned) = plan.rewrites.iter().find(|planned| planned.id == *id) {
            session.state.add_head(&planned.snapshot.host, *made, planned.snapshot.started_ns);
        }
    }
    session.state.save(report);
    let done = done?;
    let replaced = saved.iter().map(|(id, _)| *id).chain(plan.done.iter().map(|(id, _)| *id));
    let forgotten_count =
        if args.forget { forget(&session, replaced.collect(), report)? } else { 0 };
    summarize(args, &plan, &done, forgotten_count, report)?;
    Ok(Exit::of_problems(report.problem_count()))
}

/// Forgets the snapshots that were replaced, except those that are held. Returns their number.
fn forget(session: &Session, replaced: Vec<TicketId>, report: &Report) -> Result<u64> {
    let mut held = Vec::new();
    let mut count = 0;
    snapshots::forget(&session.repository, |view| {
        let all_held = view.held();
        let listed: Vec<TicketId> = view.snapshots().iter().map(|(id, _)| *id).collect();
        let there = replaced.iter().copied().filter(|id| listed.contains(id));
        let (kept, chosen): (Vec<_>, Vec<_>) = there.partition(|id| all_held.contains(id));
        held = kept;
        count = chosen.len() as u64;
        Ok::<_, anyhow::Error>(chosen)
    })?;
    for id in held {
        let path = format!("snapshot {}", id.short());
        report.problem(path.as_ref(), "not forgotten, because it is held");
    }
    Ok(count)
}

/// Prints the snapshots that would be rewritten.
fn show(plan: &RewritePlan, report: &Report) -> Result<()> {
    for planned in &plan.rewrites {
        if report.is_json() {
            report.event(&Event::Saved(event::Saved {
                snapshot: planned.id.to_string(),
                saved: None,
                read_file_count: 0,
                read_bytes: 0,
                lacking_count: 0,
            }))?;
            continue;
        }
        report.line(&format!(
            "{}: without {} in {}",
            select::described(planned.id, &planned.snapshot),
            units::size(planned.excluded_bytes),
            units::count(planned.excluded_file_count, "file"),
        ))?;
    }
    report.flush()
}

fn summarize(
    args: &Rewrite,
    plan: &RewritePlan,
    done: &CopyReport,
    forgotten_count: u64,
    report: &Report,
) -> Result<()> {
    let count = match args.dry_run {
        true => plan.rewrites.len() as u64,
        false => done.saved.len() as u64,
    };
    let excluded_file_count = plan.rewrites.iter().map(|it| it.excluded_file_count).sum();
    let excluded_bytes = plan.rewrites.iter().map(|it| it.excluded_bytes).sum();
    if report.is_json() {
        return report.event(&Event::Summary(Summary::Rewrite {
            dry_run: args.dry_run,
            rewritten_count: count,
            unchanged_count: plan.unchanged_count + plan.done.len() as u64,
            failed_count: plan.failed_count.max(done.failed_count),
            forgotten_count,
            excluded_file_count,
            excluded_bytes,
            stored_bytes: done.stored_bytes,
            elapsed_ns: report.elapsed_ns(),
        }));
    }
    report.note(&format!(
        "{} {}, without {} in {}; {} unchanged.",
        if args.dry_run { "Would rewrite" } else { "Rewrote" },
        units::count(count, "snapshot"),
        units::size(excluded_bytes),
        units::count(excluded_file_count, "file"),
        plan.unchanged_count,
    ));
    if !plan.done.is_empty() {
        let rewritten = units::count(plan.done.len() as u64, "snapshot");
        report.note(&format!("{rewritten} rewritten before."));
    }
    if forgotten_count > 0 {
        report.note(&format!(
            "Forgot {}; `cutpoint forget --undo --last` brings them back. `cutpoint prune \
             --dry-run` shows how much a prune would free.",
            units::count(forgotten_count, "old snapshot")
        ));
    } else if count > 0 && !args.dry_run && !args.forget {
        report.note("The old snapshots are still listed; --forget removes them from the list.");
    }
    Ok(())
}
