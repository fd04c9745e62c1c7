//! `volume`: virtual disks.

mod check;
mod create;
mod serve;
mod stats;

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use cutpoint_volume::{Access, Error, Kind, LocalFolder, Mode, OpenOptions};

use crate::args::{Volume, VolumeCommand};
use crate::exit::{Exit, Failure};
use crate::report::Report;

pub(crate) fn run(args: &Volume, report: &Report) -> Result<Exit> {
    match &args.command {
        VolumeCommand::Create(create) => create::run(create, report),
        VolumeCommand::Serve(serve) => serve::run(serve, report),
        VolumeCommand::Stats(stats) => stats::run(stats, report),
        VolumeCommand::Check(check) => check::run(check, report),
    }
}

/// Opens the volume in a folder.
fn open(path: &Path, access: Access) -> Result<cutpoint_volume::Volume> {
    let folder = LocalFolder::open(path, access).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => missing(path),
        std::io::ErrorKind::WouldBlock => in_use(path),
        _ => failed(path, &error),
    })?;
    let options = OpenOptions::new(access);
    Ok(cutpoint_volume::Volume::open(Arc::new(folder), &options)
        .map_err(|error| failure(path, &error))?)
}

/// Parses a mode.
fn mode(text: &str) -> Result<Mode> {
    Ok(text.parse().map_err(|error: Error| {
        let failure = Failure::failed(format!("--mode {text}: {}", error.problem()));
        failure.with_remedy("`cutpoint help volume create` explains the modes")
    })?)
}

/// Returns the end of a run for an error of a volume.
fn failure(path: &Path, error: &Error) -> Failure {
    let exit = match error.kind() {
        Kind::Missing => return missing(path),
        Kind::InUse => return in_use(path),
        Kind::Corrupt => Exit::Damaged,
        Kind::Full => Exit::Full,
        Kind::Unsupported => Exit::Newer,
        _ => Exit::Failed,
    };
    Failure::new(exit, format!("{}: {error}", path.display()))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}

fn missing(path: &Path) -> Failure {
    let failure = Failure::new(Exit::NoRepository, format!("{}: no volume found", path.display()));
    failure.with_remedy("`cutpoint volume create` creates one")
}

fn in_use(path: &Path) -> Failure {
    let message = format!("{}: in use by another process", path.display());
    Failure::new(Exit::Conflict, message).with_remedy("end that process, and run the command again")
}
