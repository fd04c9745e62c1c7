//! `run`: backs up, forgets, prunes and checks as a profile says.

mod history;
mod hook;
mod list;
mod metrics;
mod outcome;
mod running;

use std::path::{Path, PathBuf};

use anyhow::Result;

use self::history::History;
use self::outcome::{Outcome, Part};
pub(super) use self::running::Execute;
use self::running::Running;
use crate::args::{Global, Run};
use crate::exit::{Exit, Failure};
use crate::profile::{self, Profile};
use crate::report::Report;
use crate::{interrupt, priority, units};

pub(super) fn run(
    args: &Run,
    global: &Global,
    report: &Report,
    execute: Execute<'_>,
) -> Result<Exit> {
    let folder = profile::folder(args.folder.config.as_deref())?;
    let Some(name) = &args.name else { return list::list(&folder, report) };
    // The parts restart by themselves.
    report.begin_once();
    // The report of a run that is stopped is written, too.
    let _hold = interrupt::hold();
    let mut outcome = Outcome::begin(name, args.dry_run)?;
    let profile = match prepare(name, &folder, global, args, report) {
        Ok(profile) => profile,
        Err(error) => {
            let message = format!("{error:#}");
            outcome.add(Part::failed("profile", Exit::of(&error), message));
            let files = Files::of(args, None);
            if !args.dry_run && files.are_wanted() && profile::is_name(name) {
                let history = History::load(name, &profile::file(name, &folder), report);
                files.write(&mut outcome, &history, report);
            }
            return Err(error);
        }
    };
    outcome.repository = Some(profile.repository.clone());
    let mut history = History::load(name, &profile.file, report);
    let lock = if args.dry_run { Ok(None) } else { history.lock(report) };
    let Ok(_lock) = lock else { return overlapping(args, outcome, &history, report) };
    if let Some(age_ns) = args.if_older_than
        && let Some(last_ns) = history.record.last_backup_ns
        && (0..age_ns).contains(&(outcome.started_ns - last_ns))
    {
        let time = units::date_time(last_ns.div_euclid(1_000_000_000));
        report.note(&format!("{name}: nothing to do: the last backup began at {time}."));
        return skipped(outcome, &history, report);
    }
    let files = Files::of(args, Some(&profile));
    files.refuse_equal()?;
    let finds_unread = files.are_wanted() || report.is_json();
    Running::new(&profile, &mut outcome, &history.record, report, execute).run(finds_unread);
    if !args.dry_run {
        outcome.add_to(&mut history.record);
        history.save(report);
        files.write(&mut outcome, &history, report);
    }
    outcome.show(&history.record, report)?;
    Ok(outcome.exit)
}

fn prepare(
    name: &str,
    folder: &Path,
    global: &Global,
    args: &Run,
    report: &Report,
) -> Result<Profile> {
    let mut profile = Profile::load(name, folder)?;
    profile::apply(global, &mut profile.parts, args.dry_run)?;
    if profile.parts.iter().any(|part| part.global.load.low_priority) {
        priority::lower().tell(report);
    }
    Ok(profile)
}

/// Ends a run that has found another one of the same profile.
fn overlapping(args: &Run, outcome: Outcome, history: &History, report: &Report) -> Result<Exit> {
    let message = format!("{}: another run of this profile is at work", outcome.profile);
    if args.if_older_than.is_some() {
        report.note(&format!("{message}; nothing to do."));
        return skipped(outcome, history, report);
    }
    Err(Failure::new(Exit::Conflict, message).with_remedy("wait until it has ended").into())
}

/// Ends a run that has nothing to do.
fn skipped(outcome: Outcome, history: &History, report: &Report) -> Result<Exit> {
    let outcome = Outcome { is_skipped: true, ..outcome };
    report.summary(&outcome.event(&history.record))?;
    Ok(Exit::Well)
}

/// The files that a run writes.
struct Files {
    report: Option<PathBuf>,
    metrics: Option<PathBuf>,
}

impl Files {
    /// Returns the files of the command line, or else those of the profile.
    fn of(args: &Run, profile: Option<&Profile>) -> Files {
        let of_profile =
            |file: fn(&Profile) -> &Option<PathBuf>| profile.and_then(|it| file(it).clone());
        Files {
            report: args.report.clone().or_else(|| of_profile(|profile| &profile.report)),
            metrics: args.metrics.clone().or_else(|| of_profile(|profile| &profile.metrics)),
        }
    }

    /// Refuses one file for both.
    fn refuse_equal(&self) -> Result<(), Failure> {
        if self.report.is_none() || self.report != self.metrics {
            return Ok(());
        }
        Err(Failure::failed("--report and --metrics: the same file").with_remedy("name two files"))
    }

    fn are_wanted(&self) -> bool {
        self.report.is_some() || self.metrics.is_some()
    }

    /// Replaces the files. A file that cannot be replaced is a problem.
    fn write(&self, outcome: &mut Outcome, history: &History, report: &Report) {
        if let Some(file) = &self.metrics
            && let Err(error) = metrics::write(file, outcome, &history.record)
        {
            let message = format!("metrics were not written: {error:#}");
            report.problem(file, &message);
            outcome.add(Part::failed("metrics", Exit::Problems, message));
        }
        if let Some(file) = &self.report
            && let Err(error) = outcome.write(file, &history.record)
        {
            let message = format!("the report was not written: {error:#}");
            report.problem(file, &message);
            outcome.add(Part::failed("report", Exit::Problems, message));
        }
    }
}
