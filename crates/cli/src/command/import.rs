//! `import`: saves the snapshots of another program.

mod borg;
mod source;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use cutpoint_backup::copy::{CopyPlan, CopyReport, CopyRules, ForeignSnapshot, plan_imports};
use cutpoint_backup::save::ForeignRepository;
use cutpoint_repository::format::commit::OriginId;

use super::copy::{Monitor, carry_out, tell_of_left_out};
use super::waiting::announce_lag;
use crate::args::{CopyOptions, Global, Import};
use crate::event::{self, Event, Summary};
use crate::exit::Exit;
use crate::report::Report;
use crate::session::Session;
use crate::{escape, select, units};

/// The number of bytes that a dry run reads for its estimate.
const SAMPLE_LEN: u64 = 64 << 20;

pub(crate) fn run(args: &Import, global: &Global, report: &Report) -> Result<Exit> {
    let mut target = Session::open(global, report)?;
    let target_view = target.view(report)?;
    if !args.options.dry_run {
        announce_lag(&target)?;
    }
    let source = source::open(args, global, report)?;
    let snapshots = &source.snapshots[..];
    let wanted = wanted(args, snapshots, report)?;
    let describe = |id: &OriginId| described(snapshots, id);
    let monitor = Monitor::new("imported", &describe, report);
    report.begin_progress();
    let rules = CopyRules { again: args.options.again, only_newer: args.options.only_newer };
    let plan = plan_imports(
        (&source.repository, snapshots),
        &target.repository,
        &target_view,
        &wanted,
        rules,
        &monitor,
    );
    let plan = plan.inspect_err(|_| report.end_progress())?;
    let (file_count, bytes) = plan.read_totals();
    if args.options.dry_run {
        let estimated = estimate(&plan, &*source.repository, bytes);
        report.end_progress();
        show(&plan, report)?;
        summarize(args, &plan, (&CopyReport::default(), estimated?), report)?;
        return Ok(Exit::of_problems(report.problem_count()));
    }
    report.note(&format!(
        "Importing {}: {} in {} to read.",
        units::count(plan.copies.len() as u64, "snapshot"),
        units::size(bytes),
        units::count(file_count, "file"),
    ));
    let done = carry_out(&mut target, &plan, &args.options, &monitor)?;
    summarize(args, &plan, (&done, None), report)?;
    Ok(Exit::of_problems(report.problem_count()))
}

/// Returns the named snapshots, or else all that are selected, without what interrupted runs have left.
fn wanted(args: &Import, snapshots: &[ForeignSnapshot], report: &Report) -> Result<Vec<OriginId>> {
    let mut wanted = Vec::new();
    if args.snapshots.is_empty() {
        let selected = select::foreign_snapshots(snapshots, &args.options.selection)?;
        let complete = selected.into_iter().filter(|each| !each.snapshot.partial);
        wanted.extend(complete.map(|each| each.key.snapshot));
        if wanted.is_empty() && !snapshots.is_empty() {
            report.warn("no snapshot is selected: check --host, --tag and --path");
        }
    }
    for text in &args.snapshots {
        let found = select::foreign_snapshot(snapshots, text, &args.options.selection)?;
        if !wanted.contains(&found.key.snapshot) {
            wanted.push(found.key.snapshot);
        }
    }
    Ok(wanted)
}

/// Describes a snapshot of the other program for a message.
fn described(snapshots: &[ForeignSnapshot], id: &OriginId) -> String {
    let found = snapshots.iter().find(|each| each.key.snapshot == *id);
    let Some(ForeignSnapshot { key, snapshot, name }) = found else {
        return format!("snapshot {}", id.short());
    };
    let time = units::date_time(snapshot.started_ns.div_euclid(1_000_000_000));
    let host = escape::for_terminal(snapshot.host.as_bytes());
    let name = match &**name {
        "" => id.short(),
        name => escape::for_terminal(name.as_bytes()),
    };
    let sources = select::listed(snapshot.sources.iter().map(Vec::as_slice));
    format!("{} snapshot {name} ({time}, host {host}, {sources})", key.tool.name())
}

/// Returns the time that reading the `bytes` of the plan takes by itself, as far as a sample shows
/// it.
fn estimate(
    plan: &CopyPlan,
    repository: &dyn ForeignRepository,
    bytes: u64,
) -> Result<Option<Duration>> {
    let started = Instant::now();
    let read = plan.read_sample(repository, SAMPLE_LEN)?;
    if read == 0 {
        return Ok(None);
    }
    // Both are far below 2^53.
    let seconds = started.elapsed().as_secs_f64() * bytes as f64 / read as f64;
    Ok(Duration::try_from_secs_f64(seconds).ok())
}

/// Prints the snapshots that would be imported.
fn show(plan: &CopyPlan, report: &Report) -> Result<()> {
    for planned in &plan.copies {
        if report.is_json() {
            report.event(&Event::Saved(event::Saved {
                snapshot: planned.id.to_string(),
                saved: None,
                read_file_count: planned.read_file_count,
                read_bytes: planned.read_bytes,
                lacking_count: 0,
            }))?;
            continue;
        }
        let time = planned.snapshot.started_ns.div_euclid(1_000_000_000);
        report.line(&format!(
            "snapshot {} ({}, host {}): {} in {} to read",
            planned.id.short(),
            units::date_time(time),
            escape::for_terminal(planned.snapshot.host.as_bytes()),
            units::size(planned.read_bytes),
            units::count(planned.read_file_count, "file"),
        ))?;
    }
    report.flush()
}

fn summarize(
    args: &Import,
    plan: &CopyPlan,
    (done, estimated): (&CopyReport, Option<Duration>),
    report: &Report,
) -> Result<()> {
    let present_count = plan.present.len() as u64;
    let planned_count = plan.copies.len() as u64;
    let CopyOptions { dry_run, again, .. } = args.options;
    let (read_file_count, read_bytes) = match dry_run {
        true => plan.read_totals(),
        false => (done.read_file_count, done.read_bytes),
    };
    if report.is_json() {
        return report.event(&Event::Summary(Summary::Import {
            dry_run,
            imported_count: if dry_run { planned_count } else { done.saved.len() as u64 },
            present_count,
            reduced_count: plan.reduced.len() as u64,
            forgotten_count: plan.forgotten.len() as u64,
            older_count: plan.older.len() as u64,
            failed_count: if dry_run { plan.failed.len() as u64 } else { done.failed_count },
            read_file_count,
            read_bytes,
            estimated_ns: estimated.map(|it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX)),
            new_chunk_count: done.new_chunk_count,
            new_bytes: done.new_bytes,
            stored_bytes: done.stored_bytes,
            elapsed_ns: report.elapsed_ns(),
        }));
    }
    let size = units::size(read_bytes);
    tell_of_left_out("imported", (again, dry_run), plan, done, report);
    if dry_run {
        report.note(&format!(
            "Would import {}, {size} in {}; {present_count} already here.",
            units::count(planned_count, "snapshot"),
            units::count(read_file_count, "file"),
        ));
        if let Some(estimated) = estimated {
            report.note(&format!(
                "Reading takes at least {} at the rate of a sample.",
                units::duration(estimated)
            ));
        }
        return Ok(());
    }
    report.note(&format!(
        "Imported {}, {size} in {}: new {} in {}, stored {}; {present_count} already here; {}",
        units::count(done.saved.len() as u64, "snapshot"),
        units::count(read_file_count, "file"),
        units::size(done.new_bytes),
        units::count(done.new_chunk_count, "chunk"),
        units::size(done.stored_bytes),
        units::duration(report.elapsed()),
    ));
    if done.failed_count > 0 {
        let failed = units::count(done.failed_count, "snapshot");
        report.warn(&format!("{failed} not imported, because they cannot be read"));
    }
    Ok(())
}

/// The repository of another program.
struct ImportSource {
    repository: Arc<dyn ForeignRepository>,
    /// All snapshots, oldest first.
    snapshots: Vec<ForeignSnapshot>,
}
