//! `schedule`: prints what makes systemd or cron run a profile.

mod calendar;
mod cron;
mod job;
mod systemd;

use std::path::Path;

use anyhow::{Context, Result};

use self::calendar::Calendar;
use self::job::Job;
use crate::args::Schedule;
use crate::event::{Event, Summary};
use crate::exit::{Exit, Failure};
use crate::profile::{self, Profile};
use crate::replace::replace_file;
use crate::report::Report;

/// The permission bits of a unit, which has no secrets.
const MODE: u32 = 0o644;

pub(super) fn run(args: &Schedule, report: &Report) -> Result<Exit> {
    let calendar = Calendar::parse(&args.at)?;
    let folder = profile::folder(args.folder.config.as_deref())?;
    let profile = Profile::load(&args.name, &folder)?;
    let job = Job::new(&profile, &folder)?;
    let system = if args.cron { "cron" } else { "systemd" };
    let files = match args.cron {
        true => vec![("crontab".to_owned(), cron::lines(&job, &calendar)?)],
        false => systemd::units(&job, &calendar)?,
    };
    if let Some(folder) = &args.to {
        write(folder, &files)?;
    }
    if report.is_json() {
        let files = files.iter().map(|(name, text)| (name.as_str(), text.as_str()).into());
        report.summary(&Event::Summary(Summary::Schedule {
            profile: &profile.name,
            system,
            files: files.collect(),
        }))?;
        return Ok(Exit::Well);
    }
    let install = if args.cron { cron::INSTALL.to_owned() } else { systemd::install(&job) };
    for (name, text) in &files {
        match &args.to {
            Some(folder) => report.note(&format!("Wrote {}.", folder.join(name).display())),
            None => {
                if !args.cron {
                    report.line(&format!("# {}", systemd::place(&job, name)))?;
                }
                report.write(text.as_bytes())?;
                if files.len() > 1 && name.ends_with(".service") {
                    report.line("")?;
                }
            }
        }
    }
    report.flush()?;
    report.note(&install);
    Ok(Exit::Well)
}

fn write(folder: &Path, files: &[(String, String)]) -> Result<()> {
    for (name, text) in files {
        let path = folder.join(name);
        let written = replace_file(&path, text.as_bytes(), MODE);
        written
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => {
                    Failure::failed(format!("{}: the folder does not exist", folder.display()))
                        .with_remedy("create it with `mkdir -p`, or name another one with --to")
                        .into()
                }
                _ => anyhow::Error::new(error).context(path.display().to_string()),
            })
            .context("--to")?;
    }
    Ok(())
}
