//! `optimize`: makes the stored data smaller, and the newest snapshots fast to read.

use anyhow::Result;
use cutpoint_repository::gc::prune::{
    OptimizeOptions, PrunePlan, PruneReport, optimize, plan_optimize,
};
use cutpoint_repository::gc::sweep::SweepOptions;
use cutpoint_storage::Deletion;

use super::deletion::{locked_until, report_locked};
use super::prune::{
    FreedSpace, Monitor, approve_alone, between_sweeps, other_lines, require_shareable, say_freed,
    show_lines, sweeping,
};
use super::waiting::announce_lag;
use crate::args::{Global, Optimize};
use crate::event::{Event, Summary};
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::session::Session;
use crate::units;

pub(crate) fn run(args: &Optimize, global: &Global, report: &Report) -> Result<Exit> {
    let mut session = Session::open(global, report)?;
    session.look_for_heads(report)?;
    approve_alone(&args.clearing, &session)?;
    let monitor = Monitor::new(report);
    let options = OptimizeOptions {
        region_size: args.region_size,
        compression_level: args.compression_level,
        rewrite_bytes_max: args.rewrite_max.unwrap_or(u64::MAX),
        spares_incompressible: !args.all,
        is_alone: args.clearing.exclusive,
    };
    let deletion = match args.dry_run {
        true => None,
        false => Some(require_shareable(&args.clearing, &session, report)?),
    };
    if !args.dry_run {
        announce_lag(&session)?;
    }
    report.begin_progress();
    let done = run_optimize(args, &session, &options, &monitor, sweeping(&args.clearing, global)?);
    report.end_progress();
    let (optimized, freed) = done?;
    session.remember_prune(optimized.number, report);
    report_locked(&freed.locked, &session, report);
    summarize(args, &optimized, &freed, deletion, report)?;
    Ok(Exit::of_problems(report.problem_count()))
}

fn run_optimize(
    args: &Optimize,
    session: &Session,
    options: &OptimizeOptions,
    monitor: &Monitor<'_>,
    sweeping: SweepOptions,
) -> Result<(PruneReport, FreedSpace)> {
    let repository = &session.repository;
    if args.dry_run {
        let plan = plan_optimize(repository, options, monitor)?;
        return Ok((PruneReport { plan, ..PruneReport::default() }, FreedSpace::default()));
    }
    between_sweeps(&args.clearing, session, monitor, sweeping, || {
        let done = optimize(repository, options, monitor, |plan| {
            // A note is never refused.
            show_lines(&plan_lines(plan, false), false, monitor.report()).is_ok()
        })?;
        done.ok_or_else(|| Failure::failed("canceled").into())
    })
}

fn plan_lines(plan: &PrunePlan, dry_run: bool) -> Vec<String> {
    let (decodes, writes, frees) = match dry_run {
        true => ("Would decode", "write", "Would free"),
        false => ("Decodes", "writes", "Frees"),
    };
    let mut lines = vec![format!(
        "Of {} ({}): {} ({}) to be rewritten; {} ({}) already optimized; {} ({}) incompressible.",
        units::count(plan.container_count, "container"),
        units::size(plan.container_bytes),
        plan.rewritten_count,
        units::size(plan.rewritten_bytes),
        plan.optimized_count,
        units::size(plan.optimized_bytes),
        plan.spared_count,
        units::size(plan.spared_bytes),
    )];
    if plan.rewritten_count > 0 {
        lines.push(format!(
            "{decodes} {} and {writes} about {}, estimated from a sample of {}; less where chunks \
             resemble each other.",
            units::size(plan.raw_bytes),
            units::size(plan.moved_bytes),
            units::size(plan.sampled_bytes),
        ));
    }
    lines.extend(other_lines(plan, dry_run));
    lines.push(format!("{frees} about {}.", units::size(plan.freed_bytes())));
    lines
}

fn summarize(
    args: &Optimize,
    done: &PruneReport,
    freed: &FreedSpace,
    deletion: Option<Deletion>,
    report: &Report,
) -> Result<()> {
    let plan = &done.plan;
    if report.is_json() {
        return report.event(&Event::Summary(Summary::Optimize {
            dry_run: args.dry_run,
            prune_number: done.number,
            removed_snapshot_count: plan.forgotten_count,
            kept_snapshot_count: plan.kept_count,
            container_count: plan.container_count,
            container_bytes: plan.container_bytes,
            condemned_container_count: plan.condemned_count,
            condemned_bytes: plan.condemned_bytes,
            rewritten_container_count: plan.rewritten_count,
            rewritten_bytes: plan.rewritten_bytes,
            raw_bytes: plan.raw_bytes,
            sampled_bytes: plan.sampled_bytes,
            moved_bytes: plan.moved_bytes,
            optimized_container_count: plan.optimized_count,
            optimized_bytes: plan.optimized_bytes,
            spared_container_count: plan.spared_count,
            spared_bytes: plan.spared_bytes,
            reencoded_chunk_count: done.reencoded_count,
            reencoded_bytes: done.reencoded_bytes,
            freed_bytes: plan.freed_bytes(),
            written_bytes: done.written_bytes,
            deleted_container_count: freed.container_count,
            deleted_bytes: freed.container_bytes,
            deleted_are_hidden: deletion.map(|deletion| deletion.hides),
            locked_object_count: freed.locked.count,
            locked_until: locked_until(&freed.locked),
            waiting: freed.waiting.is_some(),
            elapsed_ns: report.elapsed_ns(),
        }));
    }
    if args.dry_run {
        return show_lines(&plan_lines(plan, true), true, report);
    }
    if done.number.is_none() {
        report.note("Nothing to optimize.");
    } else {
        report.note(&format!(
            "Stored {} in place of {}; {}.",
            units::size(done.written_bytes),
            units::size(plan.rewritten_bytes),
            units::duration(report.elapsed())
        ));
    }
    if done.reencoded_count > 0 {
        report.note(&format!(
            "Stored as delta chunks, because others resemble them: {} ({}).",
            units::count(done.reencoded_count, "chunk"),
            units::size(done.reencoded_bytes)
        ));
    }
    say_freed(done, freed, report, "optimize");
    Ok(())
}
