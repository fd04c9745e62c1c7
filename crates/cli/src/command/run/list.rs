//! The list of profiles.

use std::path::Path;

use anyhow::Result;

use super::history::{History, HistoryRecord};
use crate::escape;
use crate::event::{self, Event, PathText};
use crate::exit::Exit;
use crate::profile::{self, Profile};
use crate::report::Report;
use crate::units::{self, DATE_TIME_WIDTH};

/// Lists the profiles in `folder`. A profile that cannot be read is a problem.
pub(super) fn list(folder: &Path, report: &Report) -> Result<Exit> {
    let names = profile::names(folder)?;
    if names.is_empty() {
        let shown = folder.display();
        report.note(&format!("No profiles in {shown}; `cutpoint help profiles` shows one."));
        return Ok(Exit::Well);
    }
    let mut profiles = Vec::new();
    for name in &names {
        match Profile::load(name, folder) {
            Ok(profile) => {
                let history = History::load(name, &profile.file, report);
                profiles.push((profile, history.record));
            }
            Err(error) => report.problem(&profile::file(name, folder), &reason(&error, folder)),
        }
    }
    show(&profiles, report)?;
    Ok(Exit::of_problems(report.problem_count()))
}

/// Returns the message of an error without the path of the profile, which the problem has already.
fn reason(error: &anyhow::Error, folder: &Path) -> String {
    let text = format!("{error:#}");
    let rest = text.strip_prefix(&*folder.display().to_string());
    let rest = rest.and_then(|rest| rest.split_once(".toml: "));
    rest.map_or_else(|| text.clone(), |(_, reason)| reason.to_owned())
}

fn show(profiles: &[(Profile, HistoryRecord)], report: &Report) -> Result<()> {
    if report.is_json() {
        return profiles.iter().try_for_each(|(profile, record)| {
            let time = |ns: Option<i64>| ns.map(units::rfc3339_ns);
            report.event(&Event::Profile(event::Profile {
                profile: &profile.name,
                file: PathText::of(&profile.file),
                repository: &profile.repository,
                sources: profile.sources.iter().map(|source| PathText::of(source)).collect(),
                last_backup: time(record.last_backup_ns),
                last_success: time(record.last_success_ns),
                exit_code: record.exit_code,
            }))
        });
    }
    let width = profiles.iter().map(|(profile, _)| profile.name.len()).max().unwrap_or(0).max(7);
    let head =
        format!("{:<width$}  {:<DATE_TIME_WIDTH$}  exit  repository", "profile", "last backup");
    report.line(&head)?;
    for (profile, record) in profiles {
        let time = |ns: i64| units::date_time(ns.div_euclid(1_000_000_000));
        report.line(&format!(
            "{:<width$}  {:<DATE_TIME_WIDTH$}  {:<4}  {}",
            profile.name,
            record.last_backup_ns.map_or_else(|| "never".to_owned(), time),
            record.exit_code.map(|code| code.to_string()).unwrap_or_default(),
            escape::for_terminal(profile.repository.as_bytes()),
        ))?;
    }
    Ok(())
}
