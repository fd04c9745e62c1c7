//! `prune`: frees what no snapshot needs any more.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use cutpoint_store::error::{Error, Kind};
use cutpoint_store::prune::{self, Phase, Plan, PruneMonitor, PruneOptions, Pruned};
use cutpoint_store::sweep::{Awaited, Sweep, SweepOptions, Sweeper};

use crate::args::{Global, Prune};
use crate::event::{Event, Summary};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::report::Report;
use crate::session::{self, Session};
use crate::units;

const SECOND_NS: i64 = 1_000_000_000;
/// How old a prune in a folder must be: twice as long as network file systems show old listings.
const SETTLE_FOLDER_NS: i64 = 600 * SECOND_NS;
/// In other storages.
const SETTLE_NS: i64 = 24 * 3600 * SECOND_NS;
/// How often somebody who waits looks again.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often others may be faster in sweeping.
const TRIES: usize = 8;

pub(crate) fn run(args: &Prune, global: &Global, report: &Report) -> Result<Exit> {
    let session = Session::open(global, report)?;
    let monitor = Monitor { report, interrupt: Interrupt::listen()? };
    let options = PruneOptions {
        unused_max: args.unused_max,
        rewrite_bytes_max: args.rewrite_max.unwrap_or(u64::MAX),
        is_alone: args.exclusive,
        ..PruneOptions::default()
    };
    if !args.dry_run && !args.exclusive {
        require_atomic(&session, report)?;
    }
    report.begin_progress();
    let done = prune(args, &session, &options, &monitor, settle_ns(args, global)?);
    report.end_progress();
    let (pruned, freed) = done?;
    summarize(args, &pruned, &freed, report)?;
    Ok(Exit::of_problems(report.problem_count()))
}

/// A prune counts on its record being the only one of its number.
fn require_atomic(session: &Session, report: &Report) -> Result<()> {
    let media = session.repository.media();
    let probed = session::try_out(&**media, report)?;
    if probed.may_be_shared() && session.repository.config().creates_atomically() {
        return Ok(());
    }
    let message = format!("{}: this storage does not create objects atomically", media.describe());
    Err(Failure::failed(message)
        .with_remedy("--exclusive prunes all the same, if nobody else is at work meanwhile")
        .into())
}

/// What was deleted, and what has to wait.
#[derive(Default)]
struct Freed {
    container_count: u64,
    container_bytes: u64,
    rescued_count: u64,
    waiting: Option<Sweep>,
}

fn settle_ns(args: &Prune, global: &Global) -> Result<i64> {
    if args.exclusive {
        return Ok(0);
    }
    let is_folder = !session::location(global)?.to_string_lossy().contains("://");
    let default = if is_folder { SETTLE_FOLDER_NS } else { SETTLE_NS };
    Ok(args.settle.unwrap_or(default))
}

fn prune(
    args: &Prune,
    session: &Session,
    options: &PruneOptions,
    monitor: &Monitor<'_>,
    settle_ns: i64,
) -> Result<(Pruned, Freed)> {
    let repository = &session.repository;
    if args.dry_run {
        let plan = prune::plan(repository, options, monitor)?;
        return Ok((Pruned { number: None, plan, written_bytes: 0 }, Freed::default()));
    }
    let sweeping =
        SweepOptions { settle_ns, end_others: args.exclusive, ..SweepOptions::default() };
    let mut freed = Freed::default();
    // What earlier prunes have condemned goes first: that may make the room for this one.
    match sweep(session, sweeping, false, monitor, &mut freed) {
        // A snapshot that is broken, and forgotten by now, has to be taken before that can go on.
        Err(error) if error.downcast_ref::<Error>().is_some_and(is_loss) => {
            monitor.report.warn(&format!("nothing was deleted: {error:#}"));
        }
        swept => swept?,
    }
    let pruned = prune::prune(repository, options, monitor, |plan| {
        show_plan(plan, monitor.report);
        true
    })?;
    let Some(pruned) = pruned else { return Err(Failure::failed("it was called off").into()) };
    sweep(session, sweeping, args.wait, monitor, &mut freed)?;
    Ok((pruned, freed))
}

fn is_loss(error: &Error) -> bool {
    matches!(error.kind(), Kind::Corrupt | Kind::Missing)
}

/// Deletes what can be deleted now; with `wait`, all.
fn sweep(
    session: &Session,
    options: SweepOptions,
    wait: bool,
    monitor: &Monitor<'_>,
    freed: &mut Freed,
) -> Result<()> {
    let mut sweeper = Sweeper::new(session.repository.clone(), options);
    let mut faster_count = 0;
    loop {
        freed.waiting = None;
        match sweeper.step(monitor) {
            Ok(Sweep::Nothing) => return Ok(()),
            Ok(Sweep::Done(swept)) => {
                freed.container_count += swept.container_count;
                freed.container_bytes += swept.container_bytes;
                freed.rescued_count += swept.rescued_count;
            }
            Ok(waiting) if wait => {
                monitor.report.show(|| waiting_text(&waiting));
                sleep(LOOK_EVERY);
                prune_stop(monitor)?;
            }
            Ok(waiting) => {
                freed.waiting = Some(waiting);
                return Ok(());
            }
            Err(error) if error.kind() == Kind::Conflict && faster_count < TRIES => {
                faster_count += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn prune_stop(monitor: &Monitor<'_>) -> Result<()> {
    if !monitor.cancelled() {
        return Ok(());
    }
    let message = "interrupted; the next prune deletes what is left";
    Err(Failure::new(Exit::Interrupted, message).into())
}

struct Monitor<'a> {
    report: &'a Report,
    interrupt: Interrupt,
}

impl PruneMonitor for Monitor<'_> {
    fn progress(&self, phase: Phase, done: u64, total: u64) {
        self.report.show(|| match phase {
            Phase::Mark => format!("Going through snapshots: {done} of {total}"),
            Phase::Look => "Looking up what they need".to_owned(),
            Phase::Weigh => format!("Looking at containers: {done} of {total}"),
            Phase::Rewrite => {
                format!("Rewriting containers: {} of {}", units::size(done), units::size(total))
            }
        });
    }

    fn passed_over(&self, error: &Error) {
        self.report.warn(&format!("stays as it is: {error}"));
    }

    fn cancelled(&self) -> bool {
        self.interrupt.is_asked()
    }
}

fn show_plan(plan: &Plan, report: &Report) {
    report.note(&format!(
        "Takes {}; {} stay.",
        units::count(plan.forgotten_count, "forgotten snapshot"),
        plan.marked_count
    ));
    report.note(&format!(
        "Of {} ({}): nothing is needed of {} ({}); {} ({}) are rewritten for {}.",
        units::count(plan.container_count, "container"),
        units::size(plan.container_bytes),
        plan.dead_count,
        units::size(plan.dead_bytes),
        plan.rewritten_count,
        units::size(plan.rewritten_bytes),
        units::size(plan.moved_bytes),
    ));
    if plan.adopted_count > 0 {
        let count = units::count(plan.adopted_count, "container");
        report.note(&format!("{count} of interrupted runs are taken up."));
    }
    if plan.pinned_count > 0 {
        report.note(&format!(
            "{} ({}) stay only because composites refer to them.",
            units::count(plan.pinned_count, "chunk"),
            units::size(plan.pinned_bytes)
        ));
    }
    if plan.dissolved_count > 0 {
        report.note(&format!(
            "{} ({}) are stored again as wholes.",
            units::count(plan.dissolved_count, "composite"),
            units::size(plan.dissolved_bytes)
        ));
    }
    if plan.merged_segment_count > 0 {
        let count = units::count(plan.merged_segment_count, "index segment");
        report.note(&format!("{count} are merged."));
    }
    report.note(&format!(
        "Frees {}; {} of what stays are unused.",
        units::size(plan.freed_bytes()),
        units::size(plan.unused_bytes)
    ));
}

fn waiting_text(waiting: &Sweep) -> String {
    match waiting {
        Sweep::Settling { number, until_ns } => format!(
            "What prune {number} has condemned can be deleted from {} on",
            units::date_time(until_ns.div_euclid(SECOND_NS))
        ),
        Sweep::Waiting { number, writers } => {
            let names: Vec<String> = writers.iter().map(writer_text).collect();
            format!(
                "What prune {number} has condemned can be deleted once these have ended: {}",
                names.join(", ")
            )
        }
        Sweep::Nothing | Sweep::Done(_) => String::new(),
    }
}

fn writer_text(writer: &Awaited) -> String {
    let ticket = writer.ticket.short();
    match &writer.process {
        Some(process) => format!(
            "backup {ticket} (host {}, process {}, last heard of at {})",
            process.host,
            process.process_id,
            units::date_time(writer.time_ns.div_euclid(SECOND_NS))
        ),
        None => format!("{ticket} (its ticket cannot be read; --exclusive ends it)"),
    }
}

fn summarize(args: &Prune, pruned: &Pruned, freed: &Freed, report: &Report) -> Result<()> {
    let plan = &pruned.plan;
    if report.is_json() {
        return report.event(&Event::Summary(Summary::Prune {
            dry_run: args.dry_run,
            number: pruned.number,
            forgotten_count: plan.forgotten_count,
            kept_count: plan.marked_count,
            container_count: plan.container_count,
            container_bytes: plan.container_bytes,
            condemned_count: plan.dead_count,
            condemned_bytes: plan.dead_bytes,
            rewritten_count: plan.rewritten_count,
            rewritten_bytes: plan.rewritten_bytes,
            moved_bytes: plan.moved_bytes,
            unused_bytes: plan.unused_bytes,
            adopted_count: plan.adopted_count,
            rescued_count: plan.rescued_count + freed.rescued_count,
            pinned_count: plan.pinned_count,
            pinned_bytes: plan.pinned_bytes,
            dissolved_count: plan.dissolved_count,
            dissolved_bytes: plan.dissolved_bytes,
            merged_segment_count: plan.merged_segment_count,
            freed_bytes: plan.freed_bytes(),
            written_bytes: pruned.written_bytes,
            deleted_count: freed.container_count,
            deleted_bytes: freed.container_bytes,
            waiting: freed.waiting.is_some(),
            elapsed_ns: report.elapsed_ns(),
        }));
    }
    if args.dry_run {
        show_plan(plan, report);
        return Ok(());
    }
    if pruned.number.is_none() {
        report.note("There is nothing to condemn.");
    }
    if freed.container_count > 0 {
        report.note(&format!(
            "Deleted {} ({}).",
            units::count(freed.container_count, "container"),
            units::size(freed.container_bytes)
        ));
    }
    if let Some(waiting) = &freed.waiting {
        report.note(&format!("{}; the next prune does it, or --wait.", waiting_text(waiting)));
    }
    Ok(())
}
