//! `check`: verifies that everything exists and is intact.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use cutpoint_repository::verify::check::{
    self, CheckMonitor, CheckOptions, CheckReport, Finding, FindingKind, Portion, Remedy,
};
use cutpoint_terminal::{Work, WorkSum};

use super::waiting::announce_lag;
use crate::args::{Check, Global};
use crate::coverage::Memory;
use crate::event::{Event, Summary};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::report::{Report, ReportObjects};
use crate::session::Session;
use crate::{state, units};

pub(crate) fn run(args: &Check, global: &Global, report: &Report) -> Result<Exit> {
    let mut session = Session::open_to_examine(global, report)?;
    session.look_for_heads(report)?;
    let problems =
        examine(&session, args.read_data, args.threads.count(), !args.no_record, report)?;
    Ok(Exit::of_problems(problems + report.problem_count()))
}

/// Runs a check and reports its findings. If `records` is set, records the damage in the
/// repository. Returns the number of findings that are errors.
pub(super) fn examine(
    session: &Session,
    read_data: Option<Portion>,
    threads: usize,
    records: bool,
    report: &Report,
) -> Result<u64> {
    let memory = Memory::open(&session.repository, report);
    let options = CheckOptions { read_data, coverage: Some(&memory.coverage), threads };
    let monitor = Monitor::new(report);
    report.count_as("container");
    report.begin_progress();
    let done = check::check(&session.repository, &options, &monitor);
    monitor.affected.lock().unwrap_or_else(PoisonError::into_inner).print(report);
    // The numbers of withheld messages come before the summary.
    report.end_progress();
    // The data read by a check that was stopped counts as well.
    if read_data.is_some() {
        memory.save(report);
    }
    let done = done?;
    let recorded = if records { record_damage(session, &done, report) } else { 0 };
    summarize(&done, recorded, read_data, report)?;
    let remedies = monitor.remedies.into_inner().unwrap_or_else(PoisonError::into_inner);
    say_remedies(remedies, session.state.is_rollback_told(), read_data.is_some(), report);
    Ok(done.error_count)
}

/// Prints the commands that resolve the findings.
fn say_remedies(
    mut remedies: BTreeSet<Remedy>,
    is_rollback_told: bool,
    has_read: bool,
    report: &Report,
) {
    // Of two forms of a command, the one that also reads data suffices.
    if remedies.contains(&Remedy::Objects { read_data: true }) {
        remedies.remove(&Remedy::Objects { read_data: false });
    }
    if remedies.contains(&Remedy::Data { read_data: true }) {
        remedies.remove(&Remedy::Data { read_data: false });
    }
    if remedies.is_empty() && !is_rollback_told {
        return;
    }
    let again = if has_read { "check --read-data" } else { "check" };
    report.note(&format!("To repair, run in this order until `cutpoint {again}` finds nothing:"));
    let say = |command: &str, effect: &str| report.note(&format!("  {command:<36} {effect}"));
    // Until then, all other commands end with exit code 12.
    if is_rollback_told {
        say(state::ACCEPT, state::ACCEPT_EFFECT);
    }
    for remedy in remedies {
        say(&remedy.to_string(), remedy.effect());
    }
}

/// The paths that cannot be restored, and the snapshots from which they cannot, in the order in
/// which they were found. A path is printed once, because many snapshots may have it.
#[derive(Default)]
struct AffectedPaths {
    /// The index in `paths` of a path and a message.
    indexes: HashMap<(String, String), usize>,
    paths: Vec<(String, String, Vec<String>)>,
}

impl AffectedPaths {
    /// Adds a finding, if it is about a path of a snapshot. Returns `false` otherwise.
    fn add(&mut self, finding: &Finding) -> bool {
        let place = finding.object.strip_prefix("snapshot ").and_then(|it| it.split_once(": "));
        let (FindingKind::Affected, Some((snapshot, path))) = (finding.kind, place) else {
            return false;
        };
        let key = (path.to_owned(), finding.message.clone());
        let index = *self.indexes.entry(key).or_insert_with(|| {
            self.paths.push((path.to_owned(), finding.message.clone(), Vec::new()));
            self.paths.len() - 1
        });
        self.paths[index].2.push(snapshot.to_owned());
        true
    }

    fn print(&self, report: &Report) {
        for (path, message, snapshots) in &self.paths {
            let snapshots = match snapshots.as_slice() {
                [first, .., last] => format!("{} snapshots, {first} to {last}", snapshots.len()),
                one => format!("snapshot {}", one.concat()),
            };
            let message = match path.ends_with('/') {
                true => format!("{message} in {snapshots}"),
                false => format!("not restorable from {snapshots}"),
            };
            report.say_of("affected", path.as_bytes(), &message);
        }
    }
}

/// Shows the progress of a check.
pub(super) struct Monitor<'a> {
    report: &'a Report,
    interrupt: Interrupt,
    done: WorkSum,
    /// The commands that resolve the findings.
    remedies: Mutex<BTreeSet<Remedy>>,
    affected: Mutex<AffectedPaths>,
}

impl<'a> Monitor<'a> {
    pub(super) fn new(report: &'a Report) -> Monitor<'a> {
        let interrupt = Interrupt::listen();
        let (remedies, affected) = (Mutex::default(), Mutex::default());
        Monitor { report, interrupt, done: WorkSum::default(), remedies, affected }
    }
}

impl CheckMonitor for Monitor<'_> {
    fn expected(&self, containers: u64, bytes: u64) {
        self.report.expect(Work::of_files(containers, bytes));
    }

    fn progress(&self, containers: u64, bytes: u64) {
        self.report.progress(&self.done.add(containers, bytes).into());
    }

    fn finding(&self, finding: &Finding) {
        let kind = match finding.kind {
            FindingKind::Corrupt => "corrupt",
            FindingKind::Missing => "missing",
            FindingKind::Affected => "affected",
            FindingKind::Foreign => "foreign",
            FindingKind::Unneeded => "unneeded",
            FindingKind::Unfinished => "unfinished",
        };
        let mut affected = self.affected.lock().unwrap_or_else(PoisonError::into_inner);
        if self.report.is_json() || !affected.add(finding) {
            self.report.finding(kind, &finding.object, &finding.message, &finding.remedies);
        }
        let mut remedies = self.remedies.lock().unwrap_or_else(PoisonError::into_inner);
        remedies.extend(&finding.remedies);
    }

    fn cancelled(&self) -> bool {
        self.interrupt.is_asked()
    }
}

/// Records the damage. Returns the number of damaged places recorded. If the repository cannot be
/// written to, the findings have been reported all the same.
fn record_damage(session: &Session, done: &CheckReport, report: &Report) -> u64 {
    let mut count = 0;
    let mut record = || -> Result<()> {
        // Without damage nothing is recorded, and the client is no writer.
        if !done.damages.is_empty() {
            announce_lag(session)?;
        }
        Ok(check::record(&session.repository, &done.damages, |_, more| count += more as u64)?)
    };
    if let Err(error) = record() {
        let left = done.damages.len() as u64 - count;
        report.warn(&format!(
            "{left} of {} damaged places could not be recorded, so the next backup may refer to \
             this data: {error}",
            done.damages.len()
        ));
    }
    count
}

fn summarize(
    done: &CheckReport,
    recorded: u64,
    read_data: Option<Portion>,
    report: &Report,
) -> Result<()> {
    let elapsed_ns = report.elapsed_ns();
    report.summary(&Event::Summary(summary(done, recorded, read_data, elapsed_ns)))?;
    if report.is_json() {
        return Ok(());
    }
    note_extent(done, read_data, report);
    note_containers(done, report);
    note_old_epochs(done, report);
    if done.missing_count > 0 {
        report.note(&format!(
            "{} needed by snapshots cannot be read from any container.",
            units::count(done.missing_count, "chunk")
        ));
    }
    if recorded > 0 {
        report.note(
            "The damage is recorded: the next backup stores again the affected data that its \
             sources still have.",
        );
    }
    // Problems that were reported before the check count, too.
    match done.error_count + report.problem_count() {
        0 if read_data == Some(Portion::All) => report.note("No problems found."),
        0 if read_data.is_some() => report.note("No problems found in the data that was read."),
        0 => report.note("No problems found; --read-data would also read every byte."),
        count => report.warn(&format!("{} found", units::count(count, "problem"))),
    }
    Ok(())
}

fn summary(
    done: &CheckReport,
    recorded: u64,
    read_data: Option<Portion>,
    elapsed_ns: u64,
) -> Summary<'static> {
    Summary::Check {
        finding_count: done.error_count,
        note_count: done.note_count,
        snapshot_count: done.snapshot_count,
        container_count: done.container_count,
        reference_count: done.reference_count,
        unreferenced_count: done.unreferenced_count,
        unreferenced_bytes: done.unreferenced_bytes,
        read_bytes: done.read_bytes,
        read_data: read_data.is_some(),
        container_bytes: done.container_bytes,
        covered_bytes: done.covered.bytes,
        covered_since: done.covered.since_ns.map(units::rfc3339_ns),
        missing_count: done.missing_count,
        recorded_count: recorded,
        unprotected_count: done.unprotected_count,
        unprotected_bytes: done.unprotected_bytes,
        old_epoch_commit_count: done.old_epochs.values().sum(),
        elapsed_ns,
    }
}

/// Prints the number of objects checked, and the amount of data read by this and earlier checks.
fn note_extent(done: &CheckReport, read_data: Option<Portion>, report: &Report) {
    let mut text = format!(
        "Checked {}, {}, {}",
        units::count(done.snapshot_count, "snapshot"),
        units::count(done.container_count, "container"),
        units::count(done.reference_count, "reference"),
    );
    if read_data.is_some() {
        text.push_str(&format!("; read {}", units::size(done.read_bytes)));
    }
    report.note(&format!("{text}; {}.", units::duration(report.elapsed())));
    if let (Some(since_ns), Some(Portion::Share(_) | Portion::Bytes(_))) =
        (done.covered.since_ns, read_data)
    {
        let since = units::date_time(since_ns.div_euclid(1_000_000_000));
        report.note(&format!(
            "{} in containers, {} of it read, all since {since}.",
            units::size(done.container_bytes),
            units::size(done.covered.bytes),
        ));
    }
}

/// Prints the containers that nothing refers to, and those without parity.
fn note_containers(done: &CheckReport, report: &Report) {
    if done.unreferenced_count > 0 {
        report.note(&format!(
            "Unused, from interrupted runs: {} ({}).",
            units::count(done.unreferenced_count, "container"),
            units::size(done.unreferenced_bytes),
        ));
    }
    if done.unprotected_count > 0 {
        report.note(&format!(
            "Without usable parity: {} ({}); `cutpoint repair data` creates parity.",
            units::count(done.unprotected_count, "container"),
            units::size(done.unprotected_bytes),
        ));
    }
}

/// Prints the number of commits that are sealed with keys of older key epochs.
fn note_old_epochs(done: &CheckReport, report: &Report) {
    if done.old_epochs.is_empty() {
        return;
    }
    let epochs = done
        .old_epochs
        .iter()
        .map(|(epoch, count)| format!("Commits sealed with keys of epoch {epoch}: {count}."));
    let epochs: Vec<String> = epochs.collect();
    report.note(&format!(
        "{} Accepted, although any holder of these keys may have written these commits.",
        epochs.join(" ")
    ));
}
