//! `prune`: frees the space that no snapshot needs any more.

use std::time::Duration;

use anyhow::Result;
use cutpoint_repository::gc::prune::{
    self, Phase, PruneMonitor, PruneOptions, PrunePlan, PruneReport,
};
use cutpoint_repository::gc::sweep::{AtOnce, LockedObjects, Sweep, SweepOptions, Sweeper};
use cutpoint_repository::repo::liveness::{AT_WORK_NS, others_at_work};
use cutpoint_storage::{Deletion, Error, Kind};

use super::deletion::{locked_until, report_locked, require_deletion};
use super::waiting::{Delay, Waits, announce_lag, pending_text};
use crate::args::{Clearing, Global, Prune};
use crate::event::{self, Event, Summary, Unit};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::report::{Report, ReportObjects};
use crate::session::{self, Session};
use crate::{confirmation, escape, place, units};
use cutpoint_terminal::report::INTERRUPTED;

const SECOND_NS: i64 = 1_000_000_000;
/// The default age, in nanoseconds, that a prune in a folder must reach before a sweep deletes what
/// it has condemned, if listings of some client may lag: twice the time for which network file
/// systems show old listings.
const SETTLE_FOLDER_NS: i64 = 600 * SECOND_NS;
/// The corresponding age in other storages, in nanoseconds.
const SETTLE_NS: i64 = 24 * 3600 * SECOND_NS;
/// The interval at which `--wait` checks again.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The maximum number of times that other clients may be faster in sweeping.
const TRIES: usize = 8;

pub(crate) fn run(args: &Prune, global: &Global, report: &Report) -> Result<Exit> {
    let mut session = Session::open(global, report)?;
    session.look_for_heads(report)?;
    approve_alone(&args.clearing, &session)?;
    let monitor = Monitor::new(report);
    let options = PruneOptions {
        unused_max: args.unused_max,
        rewrite_bytes_max: args.rewrite_max.unwrap_or(u64::MAX),
        is_alone: args.clearing.exclusive,
        ..PruneOptions::default()
    };
    let deletion = match args.dry_run {
        true => None,
        false => Some(require_shareable(&args.clearing, &session, report)?),
    };
    if !args.dry_run {
        announce_lag(&session)?;
    }
    report.begin_progress();
    let done = prune(args, &session, &options, &monitor, sweeping(&args.clearing, global)?);
    report.end_progress();
    let (pruned, freed) = done?;
    session.remember_prune(pruned.number, report);
    report_locked(&freed.locked, &session, report);
    summarize(args, &pruned, &freed, deletion, report)?;
    Ok(Exit::of_problems(report.problem_count()))
}

/// Requires a storage that deletes objects and, unless this is the only client, creates them
/// atomically.
pub(super) fn require_shareable(
    args: &Clearing,
    session: &Session,
    report: &Report,
) -> Result<Deletion> {
    let require = || {
        let deletion = require_deletion(session, report)?;
        if !args.exclusive {
            require_atomic(session, report)?;
        }
        Ok(deletion)
    };
    match require() {
        // What frees space must be able to begin on a full disk.
        Err(error) if Exit::of(&error) == Exit::Full => {
            session.repository.give_up_reserve();
            require()
        }
        required => required,
    }
}

/// Requires a storage that creates objects atomically, because the record of a prune must be the
/// only one of its number.
fn require_atomic(session: &Session, report: &Report) -> Result<()> {
    let storage = session.repository.storage();
    let probed = session::try_out(&**storage, report)?;
    if probed.may_be_shared() && session.repository.config().creates_atomically() {
        return Ok(());
    }
    let message =
        format!("{}: this storage does not create objects atomically", storage.describe());
    Err(Failure::failed(message)
        .with_remedy("--exclusive prunes anyway, if no other client is active")
        .into())
}

/// Checks `--exclusive`: refuses it while other clients may be at work, and asks for confirmation
/// at a terminal.
///
/// # Errors
///
/// Fails with exit code 15 and the names of the other clients, or with exit code 2 if the answer is
/// no, or if there is no terminal to ask at.
pub(super) fn approve_alone(args: &Clearing, session: &Session) -> Result<()> {
    if !args.exclusive {
        return Ok(());
    }
    let place = escape::for_terminal(session.repository.storage().describe().as_bytes());
    let question = format!(
        "{place}: --exclusive ends every run that begins meanwhile. Is this the only client until \
         the command is done?"
    );
    if is_alone(session, args.yes, &question)? {
        return Ok(());
    }
    Err(Failure::failed("--exclusive: not confirmed; nothing was done")
        .with_remedy("without --exclusive, backups may run meanwhile; --yes skips the question")
        .into())
}

/// Returns `true` if no other client is active: none has an open run, and the user says so, in advance
/// by `--yes` (`is_confirmed`) or as the answer to `question`.
///
/// # Errors
///
/// Fails with exit code 15 and the names of the other clients, or with exit code 2 if there is no
/// terminal to ask at.
pub(super) fn is_alone(session: &Session, is_confirmed: bool, question: &str) -> Result<bool> {
    refuse_others(session)?;
    if is_confirmed {
        return Ok(true);
    }
    if !confirmation::can_ask() {
        let message = "--exclusive: not confirmed, because there is no terminal";
        return Err(Failure::failed(message)
            .with_remedy("add --yes if no other client is active")
            .into());
    }
    confirmation::ask(question)
}

/// Fails while other clients may be at work.
fn refuse_others(session: &Session) -> Result<()> {
    let others = others_at_work(&session.repository, None)?;
    if others.is_empty() {
        return Ok(());
    }
    let names = others.iter().map(|other| format!("{} ({other})", other.ticket.short()));
    let names: Vec<String> = names.collect();
    let message = format!("--exclusive: other clients may be active: {}", names.join(", "));
    let hours = AT_WORK_NS / (3600 * SECOND_NS);
    let mut remedy = format!(
        "wait until they have ended. If one is known to be dead, run the same command on its \
         machine, where that can be verified, or wait until its ticket has not been renewed for \
         {hours} hours"
    );
    if session.repository.environment().machine_id().is_none() {
        remedy.push_str(
            ". This machine has no /etc/machine-id, without which nothing can be verified: \
             `systemd-machine-id-setup`, or `dbus-uuidgen > /etc/machine-id`, makes one for later \
             runs",
        );
    }
    Err(Failure::new(Exit::Conflict, message).with_remedy(remedy).into())
}

/// The containers that were deleted, and the sweep that has to wait.
#[derive(Default)]
pub(super) struct FreedSpace {
    pub(super) container_count: u64,
    pub(super) container_bytes: u64,
    rescued_count: u64,
    /// The condemned objects that the storage keeps.
    pub(super) locked: LockedObjects,
    pub(super) waiting: Option<Sweep>,
    delay: Delay,
}

/// Returns the options of the sweeps of a run that has probed the storage, unless it is to be the
/// only client.
pub(super) fn sweeping(args: &Clearing, global: &Global) -> Result<SweepOptions> {
    let is_folder = place::address(&session::location(global)?).is_none();
    let default = if is_folder { SETTLE_FOLDER_NS } else { SETTLE_NS };
    let (settle_ns, at_once) = match args.settle {
        _ if args.exclusive => (0, AtOnce::Never),
        Some(settle_ns) => (settle_ns, AtOnce::Never),
        None => (default, AtOnce::AsProbed),
    };
    let end_others = args.exclusive;
    Ok(SweepOptions { settle_ns, at_once, end_others, ..SweepOptions::default() })
}

fn prune(
    args: &Prune,
    session: &Session,
    options: &PruneOptions,
    monitor: &Monitor<'_>,
    sweeping: SweepOptions,
) -> Result<(PruneReport, FreedSpace)> {
    let repository = &session.repository;
    if args.dry_run {
        let plan = prune::plan(repository, options, monitor)?;
        return Ok((PruneReport { plan, ..PruneReport::default() }, FreedSpace::default()));
    }
    between_sweeps(&args.clearing, session, monitor, sweeping, || {
        let pruned = prune::prune(repository, options, monitor, |plan| {
            // A note is never refused.
            show_lines(&plan_lines(plan, false), false, monitor.report).is_ok()
        })?;
        pruned.ok_or_else(|| Failure::failed("canceled").into())
    })
}

/// Deletes the containers condemned before, calls `act`, and deletes what can be deleted of the
/// newly condemned ones.
pub(super) fn between_sweeps(
    args: &Clearing,
    session: &Session,
    monitor: &Monitor<'_>,
    sweeping: SweepOptions,
    act: impl FnOnce() -> Result<PruneReport>,
) -> Result<(PruneReport, FreedSpace)> {
    let delay = if args.settle.is_some() { Delay::Demanded } else { Delay::Lag };
    let mut freed = FreedSpace { delay, ..FreedSpace::default() };
    let mut sweep_earlier = || match sweep(session, sweeping, false, monitor, &mut freed) {
        // If a snapshot is damaged and already forgotten, `act` must take it before the deletion
        // can continue.
        Err(error) if error.downcast_ref::<Error>().is_some_and(Error::is_loss) => {
            Ok(Some(format!("{error:#}")))
        }
        swept => swept.map(|()| None),
    };
    // In a folder, the containers condemned by earlier prunes are deleted first, because that may
    // free the space that this one needs. A remote storage has space, and the sweep of an earlier
    // record need not walk what this prune marks.
    let is_near = session.repository.storage().requests_ahead_max() == 0;
    let is_first = is_near || args.exclusive;
    let mut hindrance = if is_first { sweep_earlier()? } else { None };
    let pruned = act();
    if pruned.is_err() && !is_first && !monitor.cancelled() {
        hindrance = sweep_earlier().unwrap_or_default();
    }
    let failure = pruned.as_ref().err().map(|error| format!("{error:#}"));
    // The same failure is reported once.
    if let Some(hindrance) = hindrance.filter(|hindrance| Some(hindrance) != failure.as_ref()) {
        monitor.report.warn(&format!("nothing was deleted: {hindrance}"));
    }
    let pruned = pruned?;
    if args.exclusive && !others_at_work(&session.repository, None)?.is_empty() {
        // The other client may refer to containers that were condemned a moment ago.
        let message =
            "another client has begun meanwhile: condemned containers stay until the next prune";
        monitor.report.warn(message);
        return Ok((pruned, freed));
    }
    sweep(session, sweeping, args.wait, monitor, &mut freed)?;
    Ok((pruned, freed))
}

/// Deletes the containers that can be deleted now, or with `wait` all of them.
fn sweep(
    session: &Session,
    options: SweepOptions,
    wait: bool,
    monitor: &Monitor<'_>,
    freed: &mut FreedSpace,
) -> Result<()> {
    let mut sweeper = Sweeper::new(session.repository.clone(), options);
    let swept = sweep_records(&mut sweeper, wait, monitor, freed);
    freed.locked = sweeper.locked();
    swept
}

fn sweep_records(
    sweeper: &mut Sweeper,
    wait: bool,
    monitor: &Monitor<'_>,
    freed: &mut FreedSpace,
) -> Result<()> {
    let mut faster_count = 0;
    let mut waits = Waits::new(monitor.report, freed.delay);
    loop {
        freed.waiting = None;
        match sweeper.step(monitor) {
            Ok(Sweep::Nothing) => return Ok(()),
            Ok(Sweep::Done(swept) | Sweep::Locked(swept)) => {
                let spared = || {
                    let count = units::count(swept.spared_count, "other object");
                    format!("{count} not deleted, because the storage locks them")
                };
                if swept.spared_count > 0 {
                    monitor.report.detail(spared);
                }
                freed.container_count += swept.container_count;
                freed.container_bytes += swept.container_bytes;
                freed.rescued_count += swept.rescued_count;
            }
            Ok(waiting) if wait => {
                waits.tell_sweep(&waiting);
                monitor.interrupt.sleep(LOOK_EVERY);
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
    Err(Failure::new(Exit::Interrupted, INTERRUPTED)
        .with_remedy("the next prune deletes the rest")
        .into())
}

/// Shows the progress of a prune.
pub(super) struct Monitor<'a> {
    report: &'a Report,
    interrupt: Interrupt,
}

impl<'a> Monitor<'a> {
    pub(super) fn new(report: &'a Report) -> Monitor<'a> {
        Monitor { report, interrupt: Interrupt::listen() }
    }

    pub(super) fn report(&self) -> &'a Report {
        self.report
    }
}

impl PruneMonitor for Monitor<'_> {
    fn progress(&self, phase: Phase, done: u64, total: u64) {
        let (name, unit) = match phase {
            Phase::Mark => ("Marking snapshots", Unit::Items),
            Phase::Locate => ("Looking up the live chunks", Unit::Items),
            Phase::Examine => ("Examining containers", Unit::Items),
            Phase::Sample => ("Compressing a sample of the containers", Unit::Items),
            Phase::Compare => ("Comparing the chunks of containers", Unit::Items),
            Phase::Rewrite => ("Rewriting", Unit::Bytes),
        };
        let total = (total > 0).then_some(total);
        self.report.phase(&event::Phase { name, done, total, unit });
    }

    fn skipped(&self, error: &Error) {
        self.report.warn(&format!("not rewritten: {error}"));
    }

    fn lost(&self) {
        self.report.lost();
    }

    fn checkpoint_failed(&self, error: &Error) {
        self.report.note(&format!("view checkpoint not extended: {error}"));
    }

    fn cancelled(&self) -> bool {
        self.interrupt.is_asked()
    }
}

/// Prints a plan: to standard output if it is the result of the run.
pub(super) fn show_lines(lines: &[String], dry_run: bool, report: &Report) -> Result<()> {
    if dry_run {
        return lines.iter().try_for_each(|line| report.line(line));
    }
    lines.iter().for_each(|line| report.note(line));
    Ok(())
}

fn plan_lines(plan: &PrunePlan, dry_run: bool) -> Vec<String> {
    let (removes, keeps, frees, leaves) = match dry_run {
        true => ("Would remove", "keep", "Would free", "leave"),
        false => ("Removing", "keeping", "Frees", "leaving"),
    };
    let mut lines = vec![
        format!(
            "{removes} {}, {keeps} {}.",
            units::count(plan.forgotten_count, "forgotten snapshot"),
            plan.kept_count
        ),
        format!(
            "Of {} ({}): {} ({}) not needed; {} ({}) to be rewritten, keeping {}.",
            units::count(plan.container_count, "container"),
            units::size(plan.container_bytes),
            plan.condemned_count,
            units::size(plan.condemned_bytes),
            plan.rewritten_count,
            units::size(plan.rewritten_bytes),
            units::size(plan.moved_bytes),
        ),
    ];
    lines.extend(other_lines(plan, dry_run));
    if plan.pinned_count > 0 {
        lines.push(format!(
            "Kept only because delta chunks refer to them: {} ({}).",
            units::count(plan.pinned_count, "chunk"),
            units::size(plan.pinned_bytes)
        ));
    }
    if plan.inlined_count > 0 {
        lines.push(format!(
            "To be stored again as full chunks: {} ({}), which frees {} of containers.",
            units::count(plan.inlined_count, "delta chunk"),
            units::size(plan.inlined_bytes),
            units::size(plan.released_bytes)
        ));
    }
    lines.push(format!(
        "{frees} {}, {leaves} {} unused.",
        units::size(plan.freed_bytes()),
        units::size(plan.unused_bytes)
    ));
    lines
}

/// Describes the side effects of a plan.
pub(super) fn other_lines(plan: &PrunePlan, dry_run: bool) -> Vec<String> {
    let (adds, merges, retires) = match dry_run {
        true => ("Would add", "Would merge", "Would retire"),
        false => ("Adding", "Merging", "Retiring"),
    };
    let mut lines = Vec::new();
    if plan.orphan_count > 0 {
        let count = units::count(plan.orphan_count, "container");
        lines.push(format!("{adds} {count} of interrupted runs to the index."));
    }
    if plan.merged_segment_count > 0 {
        let count = units::count(plan.merged_segment_count, "index segment");
        lines.push(format!("{merges} {count}."));
    }
    if plan.history_count > 0 {
        let count = units::count(plan.history_count, "commit");
        let are = if plan.history_count == 1 { "is" } else { "are" };
        lines.push(format!("{retires} {count} that {are} only history, to be deleted in 30 days."));
    }
    lines
}

fn summarize(
    args: &Prune,
    pruned: &PruneReport,
    freed: &FreedSpace,
    deletion: Option<Deletion>,
    report: &Report,
) -> Result<()> {
    let plan = &pruned.plan;
    report.summary(&Event::Summary(Summary::Prune {
        dry_run: args.dry_run,
        prune_number: pruned.number,
        removed_snapshot_count: plan.forgotten_count,
        kept_snapshot_count: plan.kept_count,
        container_count: plan.container_count,
        container_bytes: plan.container_bytes,
        condemned_container_count: plan.condemned_count,
        condemned_bytes: plan.condemned_bytes,
        rewritten_container_count: plan.rewritten_count,
        rewritten_bytes: plan.rewritten_bytes,
        moved_bytes: plan.moved_bytes,
        unused_bytes: plan.unused_bytes,
        orphan_container_count: plan.orphan_count,
        rescued_chunk_count: plan.rescued_count + freed.rescued_count,
        pinned_chunk_count: plan.pinned_count,
        pinned_bytes: plan.pinned_bytes,
        inlined_chunk_count: plan.inlined_count,
        inlined_bytes: plan.inlined_bytes,
        released_bytes: plan.released_bytes,
        merged_segment_count: plan.merged_segment_count,
        history_commit_count: plan.history_count,
        freed_bytes: plan.freed_bytes(),
        written_bytes: pruned.written_bytes,
        deleted_container_count: freed.container_count,
        deleted_bytes: freed.container_bytes,
        deleted_are_hidden: deletion.map(|deletion| deletion.hides),
        locked_object_count: freed.locked.count,
        locked_until: locked_until(&freed.locked),
        waiting: freed.waiting.is_some(),
        elapsed_ns: report.elapsed_ns(),
    }))?;
    if report.is_json() {
        return Ok(());
    }
    if args.dry_run {
        return show_lines(&plan_lines(plan, true), true, report);
    }
    if pruned.number.is_none() {
        report.note("Nothing to condemn.");
    }
    say_freed(pruned, freed, report, "prune");
    Ok(())
}

/// Prints what was deleted, and what has to wait for the next run of `command`.
pub(super) fn say_freed(pruned: &PruneReport, freed: &FreedSpace, report: &Report, command: &str) {
    if freed.container_count > 0 {
        report.note(&format!(
            "Deleted {} ({}).",
            units::count(freed.container_count, "container"),
            units::size(freed.container_bytes)
        ));
    }
    let waiting = freed.waiting.as_ref();
    let pending = waiting.and_then(|it| pending_text(pruned, it, freed.delay, command));
    if let Some(pending) = pending {
        report.note(&format!("{pending}; with --wait, one run frees this data."));
    }
}
