//! `check`: is everything there, and is it what was written?

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::Result;
use cutpoint_store::check::{
    self, CheckMonitor, CheckOptions, CheckReport, Finding, FindingKind, Portion,
};

use crate::args::{Check, Global};
use crate::event::{self, Event, Summary};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::report::Report;
use crate::session::Session;
use crate::units;

pub(crate) fn run(args: &Check, global: &Global, report: &Report) -> Result<Exit> {
    let session = Session::open(global, report)?;
    let read_data = args.read_data.then_some(Portion::All);
    let options = CheckOptions { read_data, threads: args.threads, ..CheckOptions::default() };
    let monitor = Monitor {
        report,
        interrupt: Interrupt::listen()?,
        containers: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
    };
    report.begin_progress();
    let done = check::check(&session.repository, &options, &monitor);
    report.end_progress();
    let done = done?;
    let recorded = if args.no_record { 0 } else { record_damage(&session, &done, report) };
    summarize(&done, recorded, args.read_data, report)?;
    Ok(Exit::of_problems(done.error_count))
}

struct Monitor<'a> {
    report: &'a Report,
    interrupt: Interrupt,
    containers: AtomicU64,
    bytes: AtomicU64,
}

impl CheckMonitor for Monitor<'_> {
    fn expected(&self, containers: u64, bytes: u64) {
        self.report.expect(containers, bytes);
    }

    fn progress(&self, containers: u64, bytes: u64) {
        self.report.progress(event::Progress {
            file_count: self.containers.fetch_add(containers, Relaxed) + containers,
            size: self.bytes.fetch_add(bytes, Relaxed) + bytes,
            ..event::Progress::default()
        });
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
        self.report.finding(kind, &finding.object, &finding.message);
    }

    fn cancelled(&self) -> bool {
        self.interrupt.is_asked()
    }
}

/// Records what is damaged; returns how much of it. Where the repository takes no record the findings
/// have been told all the same.
fn record_damage(session: &Session, done: &CheckReport, report: &Report) -> u64 {
    let mut count = 0;
    let result = check::record(&session.repository, &done.damages, |_, more| count += more as u64);
    if let Err(error) = result {
        let left = done.damages.len() as u64 - count;
        report.warn(&format!(
            "{left} of {} damaged places could not be recorded, so the next backup may refer to \
             them: {error}",
            done.damages.len()
        ));
    }
    count
}

fn summarize(done: &CheckReport, recorded: u64, read_data: bool, report: &Report) -> Result<()> {
    if report.is_json() {
        return report.event(&Event::Summary(Summary::Check {
            finding_count: done.error_count,
            note_count: done.note_count,
            snapshot_count: done.snapshot_count,
            container_count: done.container_count,
            reference_count: done.reference_count,
            unreferenced_count: done.unreferenced_count,
            unreferenced_bytes: done.unreferenced_bytes,
            read_bytes: done.read_bytes,
            read_data,
            lost_count: done.lost_count,
            recorded_count: recorded,
            elapsed_ns: report.elapsed_ns(),
        }));
    }
    let mut text = format!(
        "Checked {}, {}, {}",
        units::count(done.snapshot_count, "snapshot"),
        units::count(done.container_count, "container"),
        units::count(done.reference_count, "reference"),
    );
    if read_data {
        text.push_str(&format!("; read {}", units::size(done.read_bytes)));
    }
    report.note(&format!("{text}; {}.", units::duration(report.elapsed())));
    if done.unreferenced_count > 0 {
        report.note(&format!(
            "{} ({}) of interrupted runs are not in use.",
            units::count(done.unreferenced_count, "container"),
            units::size(done.unreferenced_bytes),
        ));
    }
    if done.lost_count > 0 {
        report.note(&format!(
            "{} that snapshots need cannot be read from anywhere.",
            units::count(done.lost_count, "chunk")
        ));
    }
    if recorded > 0 {
        report.note(
            "What is damaged is recorded: the next backup stores again what its sources still have.",
        );
    }
    match done.error_count {
        0 if read_data => report.note("Nothing is wrong."),
        0 => report.note("Nothing is wrong; --read-data would read every byte, too."),
        count => report.warn(&format!("{} found", units::count(count, "problem"))),
    }
    Ok(())
}
