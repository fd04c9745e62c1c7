//! `repair`: restores damaged objects, data, the index and snapshots as far as possible.

use std::path::Path;

use anyhow::Result;
use cutpoint_repository::verify::check::CheckMonitor;
use cutpoint_repository::verify::repair::{
    DataOptions, IndexOptions, ObjectsOptions, ObjectsRepair, PathLoss, RepairMonitor,
    RepairOutcome, SnapshotOptions, SnapshotRepair, SnapshotsRepair, repair_data, repair_index,
    repair_objects, repair_snapshots,
};
use cutpoint_repository::{ObjectName, TicketId};

use super::check;
use super::waiting::announce_lag;
use crate::args::{Global, Repair, RepairData, RepairObjects, RepairSnapshots, Repairable};
use crate::event::{self, ByteRange, Event, PathText, Summary};
use crate::exit::Exit;
use crate::report::{Report, ReportObjects};
use crate::session::Session;
use crate::{escape, units};

pub(crate) fn run(args: &Repair, global: &Global, report: &Report) -> Result<Exit> {
    let mut session = match &args.what {
        Repairable::Objects(_) => Session::open_to_mend(global, report)?,
        _ => Session::open(global, report)?,
    };
    session.look_for_heads(report)?;
    announce_lag(&session)?;
    match &args.what {
        Repairable::Objects(args) => objects(&session, args, report),
        Repairable::Data(args) => data(&session, args, report),
        Repairable::Index { dry_run, give_up } => index(&mut session, *dry_run, give_up, report),
        Repairable::Snapshots(args) => snapshots(&mut session, args, report),
    }
}

fn objects(session: &Session, args: &RepairObjects, report: &Report) -> Result<Exit> {
    let options = ObjectsOptions {
        dry_run: args.dry_run,
        read_data: args.first.read_data,
        threads: args.threads.count(),
        removed: args.remove.iter().copied().collect(),
    };
    report.begin_progress();
    let done = repair_objects(&session.repository, &options, &Monitor::new(report));
    report.end_progress();
    let done = done?;
    let would = if args.dry_run { "would be" } else { "is" };
    for name in &done.mended {
        report.note(&format!("{name} {would} repaired."));
    }
    for name in &done.removed {
        report.note(&format!("{name} {would} removed."));
    }
    // Settings that were damaged at the opening of the repository are reported, unless they were
    // repaired or removed.
    for (name, error) in session.repository.unopened() {
        let ObjectName::Config { number, .. } = *name else { continue };
        let is_done = |each: &ObjectName| matches!(each, ObjectName::Config { number: n, .. } if *n == number);
        if !done.mended.iter().chain(&done.removed).any(is_done) {
            report.unreadable(name, error);
        }
    }
    for name in &done.left {
        let message = "not repaired: `cutpoint check` names other remedies";
        report.problem(Path::new(&name.to_string()), message);
    }
    if report.is_json() {
        report.event(&Event::Summary(Summary::RepairObjects {
            dry_run: args.dry_run,
            mended_count: done.mended.len() as u64,
            left_count: done.left.len() as u64,
            removed_count: done.removed.len() as u64,
            elapsed_ns: report.elapsed_ns(),
        }))?;
    } else if done == ObjectsRepair::default() {
        report.note("No damage is known that `repair objects` can repair.");
    }
    Ok(Exit::of_problems(report.problem_count()))
}

fn index(session: &mut Session, dry_run: bool, give_up: &[u64], report: &Report) -> Result<Exit> {
    let given_up_prunes = give_up.iter().copied().collect();
    let options = IndexOptions { dry_run, given_up_prunes, ..IndexOptions::default() };
    report.begin_progress();
    let done = repair_index(&session.repository, &options, &Monitor::new(report));
    report.end_progress();
    let done = done?;
    session.remember_prune(done.record, report);
    for error in &done.unreadable_segments {
        report.detail(|| format!("replaced {error}"));
    }
    for name in &done.found {
        report.detail(|| format!("found {name}, which no readable segment lists"));
    }
    for ticket in &done.ended {
        let name = ObjectName::Ticket { ticket: *ticket, renewal: 0 }.to_string();
        let message = "unreadable ticket: its writer may have been active, and was ended";
        report.warning(Path::new(&name), message);
    }
    for name in &done.gone {
        report.warning(Path::new(&name.to_string()), "not found, but listed in the index");
    }
    for error in &done.unnamed {
        report.detail(|| format!("ignored, because no segment lists it: {error}"));
    }
    for error in &done.unreadable {
        let message = error.to_string();
        let message = message.strip_prefix(error.object()).unwrap_or(&message);
        let message = format!("not in the new index{message}");
        report.warning(Path::new(error.object()), &message);
    }
    // The chunks of abandoned containers and records are missing from now on, so a check must
    // record this for backups. Snapshots may need none of them, so the findings of the check count.
    let gives_up = !done.gone.is_empty() || !done.unreadable.is_empty() || !give_up.is_empty();
    let finding_count = if gives_up {
        let what = match done.gone.is_empty() && done.unreadable.is_empty() {
            true => "Prune records",
            false => "Some containers",
        };
        report.note(&format!("{what} are given up; checking for losses."));
        check::examine(session, None, 0, !dry_run, report)?
    } else {
        0
    };
    if report.is_json() {
        report.event(&Event::Summary(Summary::RepairIndex {
            dry_run,
            record: done.record,
            container_count: done.container_count,
            chunk_count: done.chunk_count,
            segment_count: done.segment_count,
            superseded_count: done.superseded_count,
            unreadable_segment_count: done.unreadable_segments.len() as u64,
            found_count: done.found.len() as u64,
            gone_count: done.gone.len() as u64,
            unreadable_count: done.unreadable.len() as u64,
            elapsed_ns: report.elapsed_ns(),
        }))?;
    } else {
        let would = if dry_run { "would be" } else { "is" };
        report.note(&format!(
            "The index {would} rebuilt: {} with {}; containers listed by no readable segment: {}; \
             {} in place of {}, {} of these unreadable; {}.",
            units::count(done.container_count, "container"),
            units::count(done.chunk_count, "chunk"),
            done.found.len(),
            units::count(done.segment_count, "segment"),
            done.superseded_count,
            done.unreadable_segments.len(),
            units::duration(report.elapsed()),
        ));
    }
    Ok(Exit::of_problems(finding_count.saturating_add(report.problem_count())))
}

fn data(session: &Session, args: &RepairData, report: &Report) -> Result<Exit> {
    let dry_run = args.dry_run;
    let (read_data, threads) = (args.first.read_data, args.threads.count());
    let options = DataOptions { dry_run, read_data, threads };
    report.begin_progress();
    let done = repair_data(&session.repository, &options, &Monitor::new(report));
    report.end_progress();
    let done = done?;
    for (name, count) in &done.rebuilt {
        let chunks = units::count(*count, "chunk");
        report.detail(|| match dry_run {
            true => format!("{name} can be rebuilt; {chunks} would be stored again"),
            false => format!("rebuilt {name}; {chunks} stored again"),
        });
    }
    for error in &done.failed {
        let message = error.to_string();
        let message = message.strip_prefix(error.object()).unwrap_or(&message);
        report.problem(Path::new(error.object()), message.trim_start_matches(": "));
    }
    let stored_chunk_count = done.rebuilt.iter().map(|(_, count)| count).sum();
    if report.is_json() {
        report.event(&Event::Summary(Summary::RepairData {
            dry_run,
            rebuilt_count: done.rebuilt.len() as u64,
            stored_chunk_count,
            failed_count: done.failed.len() as u64,
            protected_count: done.protected_count,
            parity_bytes: done.parity_bytes,
            elapsed_ns: report.elapsed_ns(),
        }))?;
        return Ok(Exit::of_problems(report.problem_count()));
    }
    let would = if dry_run { "would be " } else { "" };
    report.note(&format!(
        "{} {would}rebuilt, {} {would}stored again; parity {would}created for {}{}; {}.",
        units::count(done.rebuilt.len() as u64, "container"),
        units::count(stored_chunk_count, "chunk"),
        units::count(done.protected_count, "container"),
        if dry_run { String::new() } else { format!(", {}", units::size(done.parity_bytes)) },
        units::duration(report.elapsed()),
    ));
    if session.repository.config().parity_percent == 0 {
        report.note("The settings request no parity; `cutpoint config --parity 10%` changes that.");
    }
    Ok(Exit::of_problems(report.problem_count()))
}

fn snapshots(session: &mut Session, args: &RepairSnapshots, report: &Report) -> Result<Exit> {
    let options = SnapshotOptions {
        dry_run: args.dry_run,
        forget: args.forget,
        read_data: args.first.read_data,
        threads: args.threads.count(),
    };
    report.begin_progress();
    let done = repair_snapshots(&session.repository, &options, &Monitor::new(report));
    report.end_progress();
    let done = done?;
    session.remember_prune(done.record, report);
    report_missing_commits(&done, report);
    for each in &done.snapshots {
        report_snapshot(each, &done, report)?;
    }
    if !report.is_json() {
        for id in &done.makeshift {
            let forgotten = if done.forgotten.contains(id) { "; forgotten" } else { "" };
            let id = id.short();
            report.line(&format!(
                "snapshot {id}: was created while the storage refused an object, and a better one \
                 exists now{forgotten}"
            ))?;
        }
    }
    // The summary follows on standard error.
    report.flush()?;
    let loss_count =
        done.snapshots.iter().fold(0_u64, |count, each| count.saturating_add(each.loss_count));
    if report.is_json() {
        let repaired = |each: &&SnapshotRepair| matches!(each.outcome, RepairOutcome::Repaired(_));
        report.event(&Event::Summary(Summary::RepairSnapshots {
            dry_run: args.dry_run,
            damaged_count: done.snapshots.len() as u64,
            repaired_count: done.snapshots.iter().filter(repaired).count() as u64,
            forgotten_count: done.forgotten.len() as u64,
            missing_commit_count: done.missing_commits.len() as u64,
            loss_count,
            elapsed_ns: report.elapsed_ns(),
        }))?;
    } else if done.snapshots.is_empty() && done.missing_commits.is_empty() {
        report.note("No listed snapshot is known to be damaged.");
    } else if !done.snapshots.is_empty() {
        let damaged = units::count(done.snapshots.len() as u64, "snapshot");
        report.note(&format!(
            "{damaged} damaged; {} lost.{}",
            units::count(loss_count, "place"),
            if args.forget || args.dry_run { "" } else { " --forget removes them from the list." },
        ));
    }
    Ok(Exit::of_problems(loss_count.saturating_add(report.problem_count())))
}

/// Reports commits that are missing or unreadable as problems.
fn report_missing_commits(done: &SnapshotsRepair, report: &Report) {
    for ticket in &done.missing_commits {
        let name = ObjectName::Commit(*ticket).to_string();
        let message = match done.record {
            Some(_) => "missing, and given up; if it was a snapshot, the snapshot is lost",
            None => "missing; if it was a snapshot, the snapshot is lost. --forget gives it up",
        };
        report.problem(Path::new(&name), message);
    }
}

/// Prints the outcome for one snapshot with losses.
fn report_snapshot(each: &SnapshotRepair, done: &SnapshotsRepair, report: &Report) -> Result<()> {
    let (outcome, repaired) = match each.outcome {
        RepairOutcome::Repaired(new) => ("repaired", Some(new)),
        RepairOutcome::RepairedBefore(new) => ("repaired_before", Some(new)),
        RepairOutcome::WouldBeRepaired => ("would_be_repaired", None),
        RepairOutcome::NothingLeft => ("nothing_left", None),
        RepairOutcome::Taken => ("taken", None),
    };
    if report.is_json() {
        return report.event(&Event::Repaired {
            snapshot: each.snapshot.to_string(),
            outcome,
            repaired: repaired.map(|id| id.to_string()),
            loss_count: each.loss_count,
            unnamed_count: each.unnamed_count,
        });
    }
    let mut line = format!("snapshot {}: {}", each.snapshot.short(), outcome_text(each.outcome));
    if done.forgotten.contains(&each.snapshot) {
        line.push_str("; forgotten");
    } else if done.held.contains(&each.snapshot) {
        line.push_str("; held, therefore not forgotten");
    } else if each.is_refused {
        line.push_str(
            "; some of its data may be recoverable: run `cutpoint repair index`, and try again",
        );
    }
    if each.unnamed_count > 0 {
        line.push_str(&format!(
            "; {} more are lost in folders identical to named ones",
            units::count(each.unnamed_count, "place")
        ));
    }
    report.line(&line)
}

fn outcome_text(outcome: RepairOutcome) -> String {
    match outcome {
        RepairOutcome::Repaired(new) => {
            format!("its intact part is saved as snapshot {}", new.short())
        }
        RepairOutcome::RepairedBefore(new) => {
            format!("its intact part is already saved as snapshot {}", new.short())
        }
        RepairOutcome::WouldBeRepaired => {
            "its intact part would be saved as a new snapshot".to_owned()
        }
        RepairOutcome::NothingLeft => "no intact part is left".to_owned(),
        RepairOutcome::Taken => "a prune has removed it meanwhile".to_owned(),
    }
}

/// Shows the progress of a repair, and prints the losses.
struct Monitor<'a> {
    check: check::Monitor<'a>,
    report: &'a Report,
}

impl<'a> Monitor<'a> {
    fn new(report: &'a Report) -> Monitor<'a> {
        Monitor { check: check::Monitor::new(report), report }
    }
}

impl CheckMonitor for Monitor<'_> {
    fn expected(&self, containers: u64, bytes: u64) {
        self.check.expected(containers, bytes);
    }

    fn progress(&self, containers: u64, bytes: u64) {
        self.check.progress(containers, bytes);
    }

    fn cancelled(&self) -> bool {
        self.check.cancelled()
    }
}

impl RepairMonitor for Monitor<'_> {
    fn loss(&self, snapshot: TicketId, path: &[u8], loss: &PathLoss) {
        if !self.report.is_json() {
            let text = format!(
                "lost: snapshot {}: {}: {}",
                snapshot.short(),
                escape::for_terminal(path),
                in_words(loss)
            );
            // The repair continues even if standard output is closed.
            self.report.line(&text).ok();
            return;
        }
        let (kind, size, ranges, kept_as) = match loss {
            PathLoss::Entries => ("entries", None, &[][..], None),
            PathLoss::File { size } => ("file", Some(*size), &[][..], None),
            PathLoss::Parts { ranges, size, kept_as } => {
                ("parts", Some(*size), &ranges[..], Some(String::from_utf8_lossy(kept_as)))
            }
        };
        let ranges = ranges
            .iter()
            .map(|range| ByteRange { offset: range.start, end_offset: range.end })
            .collect();
        let event = event::Loss {
            snapshot: snapshot.to_string(),
            path: PathText::new(path),
            kind,
            size,
            ranges,
            kept_as: kept_as.map(std::borrow::Cow::into_owned),
        };
        self.report.event(&Event::Loss(event)).ok();
    }
}

/// The maximum number of ranges in a line. `--json` prints all of them.
const RANGES_MAX: usize = 8;

fn in_words(loss: &PathLoss) -> String {
    let PathLoss::Parts { ranges, size, kept_as } = loss else {
        return match loss {
            PathLoss::File { size } => format!("the whole file, {}", units::size(*size)),
            _ => "some or all entries of this folder, including their names".to_owned(),
        };
    };
    let named = ranges.iter().take(RANGES_MAX);
    let named: Vec<_> =
        named.map(|range| format!("{} to {}", range.start, range.end.saturating_sub(1))).collect();
    let more = match ranges.len().saturating_sub(RANGES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more ranges"),
    };
    let lost = ranges.iter().map(|range| range.end - range.start).sum();
    format!(
        "bytes {}{more}, {} of {}; the rest is kept as {}",
        named.join(", "),
        units::size(lost),
        units::size(*size),
        escape::for_terminal(kept_as)
    )
}
