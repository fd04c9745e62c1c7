//! `volume`: virtual disks.

mod check;
mod connect;
mod control;
mod create;
mod disks;
mod import;
mod key;
mod requests;
mod serve;
mod stats;

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use cutpoint_repository::Unlock;
use cutpoint_volume::{
    Access, Compression, Error, Folder, Kind, LocalFolder, Mode, OpenOptions, Secret,
};

use self::control::{Answer, Request};
use crate::args::{Global, Secrets, Volume, VolumeCommand};
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::unlock;

pub(crate) fn run(args: &Volume, global: &Global, report: &Report) -> Result<Exit> {
    let secrets = &global.secrets;
    match &args.command {
        VolumeCommand::Create(create) => create::run(create, secrets, report),
        VolumeCommand::Import(import) => import::run(import, global, report),
        VolumeCommand::Changed(changed) => disks::changed(changed, secrets, report),
        VolumeCommand::Serve(serve) => serve::run(serve, secrets, report),
        VolumeCommand::Connect(connect) => connect::run(connect, report),
        VolumeCommand::List(list) => disks::list(list, secrets, report),
        VolumeCommand::Snapshot(snapshot) => disks::snapshot(snapshot, secrets, report),
        VolumeCommand::Clone(clone) => disks::clone(clone, secrets, report),
        VolumeCommand::Rollback(rollback) => disks::roll_back(rollback, secrets, report),
        VolumeCommand::Resize(resize) => disks::resize(resize, secrets, report),
        VolumeCommand::Delete(delete) => disks::delete(delete, secrets, report),
        VolumeCommand::Stats(stats) => stats::run(stats, secrets, report),
        VolumeCommand::Check(check) => check::run(check, secrets, report),
        VolumeCommand::Key(key) => key::run(key, secrets, report),
    }
}

/// Makes a request: by the process that serves the volume, or else by this one.
fn request(path: &Path, request: &Request, secrets: &Secrets, report: &Report) -> Result<Answer> {
    if let Some(answer) = control::ask(path, request)? {
        return Ok(answer);
    }
    let access = if request.is_change() { Access::Write } else { Access::Read };
    let volume = Arc::new(open(path, &OpenOptions::new(access), secrets, report)?);
    let answer = requests::perform(&volume, request, false, &|| false);
    let answer = answer.map_err(|error| refusal(path, &error))?;
    if request.is_change() {
        // The next opening reads no log.
        volume.checkpoint().map_err(|error| failure(path, &error))?;
    }
    Ok(answer)
}

/// Opens the volume in a folder.
fn open(
    path: &Path,
    options: &OpenOptions,
    secrets: &Secrets,
    report: &Report,
) -> Result<cutpoint_volume::Volume> {
    open_in(path, open_folder(path, options.access)?, options, secrets, report)
}

/// Opens the volume in an open folder, whose path is `path`.
fn open_in(
    path: &Path,
    folder: Arc<LocalFolder>,
    options: &OpenOptions,
    secrets: &Secrets,
    report: &Report,
) -> Result<cutpoint_volume::Volume> {
    let folder: Arc<dyn Folder> = folder;
    let secret = secret(path, &folder, secrets, report)?;
    let options = OpenOptions { secret, ..options.clone() };
    Ok(cutpoint_volume::Volume::open(folder, &options).map_err(|error| failure(path, &error))?)
}

fn open_folder(path: &Path, access: Access) -> Result<Arc<LocalFolder>> {
    let folder = LocalFolder::open(path, access).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => missing(path),
        std::io::ErrorKind::WouldBlock => in_use(path),
        _ => failed(path, &error),
    })?;
    Ok(Arc::new(folder))
}

/// Returns the secret of a volume, or `None` if the volume is not encrypted.
fn secret(
    path: &Path,
    folder: &Arc<dyn Folder>,
    secrets: &Secrets,
    report: &Report,
) -> Result<Option<Secret>> {
    let is_encrypted = cutpoint_volume::Volume::is_encrypted(&**folder);
    if !is_encrypted.map_err(|error| failure(path, &error))? {
        return Ok(None);
    }
    let unlock = match unlock::given(secrets, report)? {
        Some(unlock) => unlock,
        None if unlock::can_ask() => unlock::ask(&path.display().to_string())?,
        None => {
            let message = format!("{}: encrypted, and no passphrase is given", path.display());
            let failure = Failure::new(Exit::WrongKey, message);
            return Err(failure.with_remedy(PASSPHRASE_REMEDY).into());
        }
    };
    let passphrase = passphrase(&unlock)?;
    let secret = cutpoint_volume::Volume::unlock(folder, passphrase);
    Ok(secret.map_err(|error| failure(path, &error))?)
}

const PASSPHRASE_REMEDY: &str =
    "give it with CUTPOINT_PASSPHRASE, --passphrase-file or --passphrase-command";

/// Returns the bytes of a secret as a passphrase.
fn passphrase(unlock: &Unlock) -> Result<&[u8]> {
    match unlock {
        Unlock::Passphrase(passphrase) => Ok(passphrase),
        Unlock::KeyFile(secret) => Ok(&secret.0),
        Unlock::Nothing | Unlock::Keyring(_) => {
            let failure =
                Failure::new(Exit::WrongKey, "a volume has passphrases and key files only");
            Err(failure.with_remedy(PASSPHRASE_REMEDY).into())
        }
    }
}

/// Parses a mode.
fn mode(text: &str) -> Result<Mode> {
    Ok(text.parse().map_err(|error: Error| {
        let failure = Failure::failed(format!("--mode {text}: {}", error.problem()));
        failure.with_remedy("`cutpoint help volume create` explains the modes")
    })?)
}

/// Parses a compression.
fn compression(text: &str) -> Result<Compression> {
    Ok(text.parse().map_err(|error: Error| {
        Failure::failed(format!("--compression {text}: {}", error.problem()))
    })?)
}

/// Returns the exit code for an error of a volume that is open.
fn exit_of(error: &Error) -> Exit {
    match error.kind() {
        Kind::Corrupt => Exit::Damaged,
        Kind::Full => Exit::Full,
        Kind::InUse => Exit::Conflict,
        Kind::Locked => Exit::WrongKey,
        Kind::Unsupported => Exit::Newer,
        _ => Exit::Failed,
    }
}

/// Returns the end of a run for an error of opening a volume.
fn failure(path: &Path, error: &Error) -> Failure {
    match error.kind() {
        Kind::Missing => missing(path),
        Kind::InUse => in_use(path),
        _ => refusal(path, error),
    }
}

/// Returns the end of a run for an error of a volume that is open.
fn refusal(path: &Path, error: &Error) -> Failure {
    Failure::new(exit_of(error), format!("{}: {error}", path.display()))
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

/// Returns a time in seconds since 1970 as a signed number.
fn seconds(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}
