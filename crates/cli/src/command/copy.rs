//! `copy`: copies snapshots from another repository.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use cutpoint_backup::copy::{
    CopyMonitor, CopyPlan, CopyReport, CopyRules, PlannedCopy, copy, plan_copies,
};
use cutpoint_backup::save::{BackupMonitor, BackupOptions, BackupProgress, BackupReport};
use cutpoint_repository::format::commit::OriginId;
use cutpoint_repository::{ObjectName, Statistics, TicketId, Verify, View};
use cutpoint_storage::{Error, Kind};
use cutpoint_terminal::Work;

use super::backup;
use super::waiting::announce_lag;
use crate::args::{Copy, CopyOptions, Global, Selection};
use crate::event::{self, Event, Phase, Summary, Unit};
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::session::Session;
use crate::{place, select, units};

pub(crate) fn run(args: &Copy, global: &Global, report: &Report) -> Result<Exit> {
    let mut target = Session::open(global, report)?;
    let target_view = target.view(report)?;
    if !args.options.dry_run {
        announce_lag(&target)?;
    }
    let mut source = open_source(args, global, report)?;
    let view = source.view(report)?;
    let reader = Arc::new(source.reader(view.clone(), report)?);
    let wanted = wanted(&args.snapshots, &args.options.selection, &view, false, report)
        .map_err(|error| error.context(of_source(args)))?;
    let describe = |id: &OriginId| described(&view, id);
    let monitor = Monitor::new("copied", &describe, report);
    report.begin_progress();
    let rules = CopyRules { again: args.options.again, only_newer: args.options.only_newer };
    let plan = plan_copies(&reader, &target.repository, &target_view, &wanted, rules, &monitor);
    let plan = plan.inspect_err(|_| report.end_progress()).map_err(explain)?;
    if args.options.dry_run {
        report.end_progress();
        show(&plan, report)?;
        summarize(args, &plan, &CopyReport::default(), report)?;
        return Ok(Exit::of_problems(report.problem_count()));
    }
    let done = carry_out(&mut target, &plan, &args.options, &monitor)?;
    summarize(args, &plan, &done, report)?;
    Ok(Exit::of_problems(report.problem_count()))
}

/// Makes the copies of a plan, and notes them in the state of this machine. Says how many of them are
/// complete if the run is interrupted.
pub(super) fn carry_out(
    target: &mut Session,
    plan: &CopyPlan,
    options: &CopyOptions,
    monitor: &Monitor<'_>,
) -> Result<CopyReport> {
    let report = monitor.report;
    let verify = if options.verify_write { Verify::All } else { Verify::Some };
    let threads = options.threads.count();
    let options = BackupOptions { verify, threads, ..BackupOptions::default() };
    let (file_count, bytes) = plan.read_totals();
    report.expect(Work::of_files(file_count, bytes));
    let done = copy(&target.repository, plan, &options, monitor);
    report.end_progress();
    let saved = monitor.saved();
    for (id, copy) in &saved {
        if let Some(planned) = plan.copies.iter().find(|planned| planned.id == *id) {
            target.state.add_head(&planned.snapshot.host, *copy, planned.snapshot.started_ns);
        }
    }
    target.state.save(report);
    if let Err(error) = &done
        && error.kind() == Kind::Interrupted
    {
        let planned = units::count(plan.copies.len() as u64, "snapshot");
        report.note(&format!("{} of {planned} {}.", saved.len(), monitor.done_name));
    }
    Ok(done?)
}

/// Returns the beginning of errors about the repository of `--from`.
fn of_source(args: &Copy) -> String {
    match place::resolve(&args.from) {
        Ok(location) => format!("--from {}", place::shown(&location)),
        // The error has the place.
        Err(_) => "--from".to_owned(),
    }
}

/// Opens the repository of `--from`.
fn open_source(args: &Copy, global: &Global, report: &Report) -> Result<Session> {
    Session::open(&args.source(global), report).map_err(|error| {
        let option = of_source(args);
        match Exit::of(&error) {
            Exit::NoRepository => {
                Failure::new(Exit::NoRepository, format!("{option}: no repository found"))
                    .with_remedy("check --from, the place of an existing repository")
                    .into()
            }
            Exit::WrongKey => Failure::new(Exit::WrongKey, format!("{option}: {error}"))
                .with_remedy(
                    "give its secret with --from-passphrase-file, --from-passphrase-command, \
                     --from-key-file or CUTPOINT_FROM_PASSPHRASE",
                )
                .into(),
            _ => error.context(option),
        }
    })
}

/// Returns the named snapshots, or else all that are listed and selected. Of these, snapshots of
/// interrupted runs are left out unless `with_partial` is set.
pub(super) fn wanted(
    named: &[OsString],
    selection: &Selection,
    view: &View,
    with_partial: bool,
    report: &Report,
) -> Result<Vec<TicketId>> {
    let mut wanted = Vec::new();
    if named.is_empty() {
        for (id, snapshot) in view.snapshots() {
            if (with_partial || !snapshot.partial)
                && select::selects(selection, view, id, snapshot)?
            {
                wanted.push(id);
            }
        }
        if wanted.is_empty() && !view.snapshots().is_empty() {
            report.warn("no snapshot is selected: check --host, --tag and --path");
        }
        return Ok(wanted);
    }
    for text in named {
        let (id, _) = select::snapshot(view, text, selection, report)?;
        if !wanted.contains(&id) {
            wanted.push(id);
        }
    }
    Ok(wanted)
}

fn explain(error: Error) -> anyhow::Error {
    match error.kind() {
        Kind::Invalid => Failure::failed(error.to_string())
            .with_remedy("--from names the repository to read, and --repo the one to write")
            .into(),
        _ => error.into(),
    }
}

/// Describes a snapshot of `view` for a message.
pub(super) fn described(view: &View, id: &OriginId) -> String {
    let ticket = id.ticket();
    let snapshot = ticket.and_then(|id| Some((id, view.commits.get(&id)?.snapshot()?)));
    snapshot.map_or_else(
        || format!("snapshot {}", id.short()),
        |(id, snapshot)| select::described(id, snapshot),
    )
}

/// Reports the events of copies.
pub(super) struct Monitor<'a> {
    /// The participle of the operation.
    done_name: &'static str,
    describe: &'a (dyn Fn(&OriginId) -> String + Sync),
    report: &'a Report,
    backup: backup::Monitor<'a>,
    /// The work of the snapshots that are complete.
    done: Mutex<BackupProgress>,
    /// The snapshots that are complete, and their new identifiers.
    saved: Mutex<Vec<(OriginId, TicketId)>>,
}

impl<'a> Monitor<'a> {
    pub(super) fn new(
        done_name: &'static str,
        describe: &'a (dyn Fn(&OriginId) -> String + Sync),
        report: &'a Report,
    ) -> Monitor<'a> {
        let backup = backup::Monitor::new(false, report);
        let (done, saved) = (Mutex::default(), Mutex::default());
        Monitor { done_name, describe, report, backup, done, saved }
    }

    /// Returns the snapshots that are complete, and their new identifiers.
    pub(super) fn saved(&self) -> Vec<(OriginId, TicketId)> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the sum of the complete snapshots and `progress`.
    fn total(&self, progress: &BackupProgress) -> BackupProgress {
        let done = *self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let (a, b) = (done.statistics, progress.statistics);
        let statistics = Statistics {
            read_file_count: a.read_file_count + b.read_file_count,
            read_bytes: a.read_bytes + b.read_bytes,
            // What is taken over is not expected, either.
            file_count: a.read_file_count + b.read_file_count,
            size: a.read_bytes + b.read_bytes,
            new_bytes: a.new_bytes + b.new_bytes,
            ..Statistics::default()
        };
        BackupProgress { statistics, stored_bytes: done.stored_bytes + progress.stored_bytes }
    }
}

impl BackupMonitor for Monitor<'_> {
    fn progress(&self, progress: &BackupProgress) {
        self.backup.progress(&self.total(progress));
    }

    fn resumed(&self, ended: TicketId) {
        self.backup.resumed(ended);
    }

    fn lost(&self) {
        self.backup.lost();
    }

    fn unreadable(&self, name: &ObjectName, error: &Error) {
        self.backup.unreadable(name, error);
    }

    fn problem(&self, path: &Path, message: &str) {
        self.backup.problem(path, message);
    }

    fn warning(&self, path: &Path, message: &str) {
        self.backup.warning(path, message);
    }

    fn reading(&self, path: &Path) {
        self.backup.reading(path);
    }

    fn cancelled(&self) -> bool {
        self.backup.cancelled()
    }
}

impl CopyMonitor for Monitor<'_> {
    fn examined(&self, count: u64, total: u64) {
        let name = "Examining snapshots";
        self.report.phase(&Phase { name, done: count, total: Some(total), unit: Unit::Items });
    }

    fn saved(&self, id: &OriginId, done: &BackupReport) {
        let statistics = done.statistics;
        let total =
            self.total(&BackupProgress { statistics, stored_bytes: statistics.stored_bytes });
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = total;
        let Some(made) = done.snapshot else { return };
        self.saved.lock().unwrap_or_else(PoisonError::into_inner).push((*id, made));
        if self.report.is_json() {
            self.report.tell(&Event::Saved(event::Saved {
                snapshot: id.to_string(),
                saved: Some(made.to_string()),
                read_file_count: statistics.read_file_count,
                read_bytes: statistics.read_bytes,
                lacking_count: statistics.problem_count,
            }));
        } else {
            let lacking = match statistics.problem_count {
                0 => String::new(),
                count => format!(", without {count} that cannot be read"),
            };
            let described = (self.describe)(id);
            self.report.note(&format!("{described}: saved as {}{lacking}", made.short()));
        }
    }

    fn failed(&self, id: &OriginId, error: &Error) {
        let path = format!("snapshot {}", id.short());
        self.report.problem(Path::new(&path), &format!("not {}: {error}", self.done_name));
    }
}

fn described_as(planned: &PlannedCopy) -> String {
    match planned.id.ticket() {
        Some(id) => select::described(id, &planned.snapshot),
        None => format!("snapshot {}", planned.id.short()),
    }
}

/// Prints the snapshots that would be copied.
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
        report.line(&format!(
            "{}: {} in {} to read",
            described_as(planned),
            units::size(planned.read_bytes),
            units::count(planned.read_file_count, "file"),
        ))?;
    }
    report.flush()
}

fn summarize(args: &Copy, plan: &CopyPlan, done: &CopyReport, report: &Report) -> Result<()> {
    let present_count = plan.present.len() as u64;
    let planned_count = plan.copies.len() as u64;
    let CopyOptions { dry_run, again, .. } = args.options;
    let (read_file_count, read_bytes) = match dry_run {
        true => plan.read_totals(),
        false => (done.read_file_count, done.read_bytes),
    };
    if report.is_json() {
        return report.event(&Event::Summary(Summary::Copy {
            dry_run,
            copied_count: if dry_run { planned_count } else { done.saved.len() as u64 },
            present_count,
            reduced_count: plan.reduced.len() as u64,
            unchanged_count: done.unchanged_count,
            forgotten_count: plan.forgotten.len() as u64,
            older_count: plan.older.len() as u64,
            failed_count: if dry_run { plan.failed.len() as u64 } else { done.failed_count },
            read_file_count,
            read_bytes,
            new_chunk_count: done.new_chunk_count,
            new_bytes: done.new_bytes,
            stored_bytes: done.stored_bytes,
            elapsed_ns: report.elapsed_ns(),
        }));
    }
    let size = units::size(read_bytes);
    tell_of_left_out("copied", (again, dry_run), plan, done, report);
    if dry_run {
        report.note(&format!(
            "Would copy {}, {size} in {}; {present_count} already here.",
            units::count(planned_count, "snapshot"),
            units::count(read_file_count, "file"),
        ));
        return Ok(());
    }
    report.note(&format!(
        "Copied {}, {size} in {}: new {} in {}, stored {}; {present_count} already here; {}",
        units::count(done.saved.len() as u64, "snapshot"),
        units::count(read_file_count, "file"),
        units::size(done.new_bytes),
        units::count(done.new_chunk_count, "chunk"),
        units::size(done.stored_bytes),
        units::duration(report.elapsed()),
    ));
    if done.failed_count > 0 {
        report.warn(&format!(
            "{} not copied; if the repository of --from is damaged, `cutpoint repair snapshots` \
             there saves what is left of them",
            units::count(done.failed_count, "snapshot")
        ));
    }
    Ok(())
}

/// Says which snapshots are not copied because of their copies, and how to copy them. `done_name` is
/// the participle of the operation.
pub(super) fn tell_of_left_out(
    done_name: &str,
    (again, is_dry_run): (bool, bool),
    plan: &CopyPlan,
    done: &CopyReport,
    report: &Report,
) {
    let snapshots = |count: usize| units::count(count as u64, "snapshot");
    if !plan.forgotten.is_empty() {
        report.note(&format!(
            "{} not {done_name} again, because the copies were forgotten here; --again overrides \
             this.",
            snapshots(plan.forgotten.len())
        ));
    }
    if !plan.reduced.is_empty() {
        report.note(&format!(
            "{} not {done_name} again, because `cutpoint rewrite` has removed files from the copies \
             here; --again overrides this.",
            snapshots(plan.reduced.len())
        ));
    }
    let replaced = plan.copies.iter().filter(|planned| planned.replaces.is_some()).count();
    if replaced > 0 && is_dry_run {
        report.note(&format!(
            "{} again, because the copies lack files or have damaged data.",
            snapshots(replaced)
        ));
    }
    if done.unchanged_count > 0 {
        let unchanged = snapshots(usize::try_from(done.unchanged_count).unwrap_or(usize::MAX));
        report
            .note(&format!("{unchanged} not {done_name} again, because nothing more can be read."));
    }
    if !plan.older.is_empty() {
        let older = snapshots(plan.older.len());
        report.note(&format!("{older} older than the newest copy left out (--only-newer)."));
    }
    let older = plan.copies.iter().filter(|planned| planned.is_older).count();
    if older > 0 && !again {
        report.note(&format!(
            "{} older than the newest copy of the same host and paths. If a prune has removed \
             copies here on purpose, --only-newer keeps them from coming back.",
            snapshots(older)
        ));
    }
}
