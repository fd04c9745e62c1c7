//! The repository of another program, and its secret.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use cutpoint_import::{Restic, ResticOptions};
use cutpoint_storage::Kind;
use zeroize::Zeroizing;

use super::ImportSource;
use crate::args::{Global, Import, ImportTool};
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::{place, session, unlock};

/// Opens the repository of the other program. Snapshots that cannot be read are problems.
///
/// # Errors
///
/// Fails with exit code 10 if there is none, and 12 if the secret does not open it.
pub(super) fn open(args: &Import, global: &Global, report: &Report) -> Result<ImportSource> {
    match args.tool {
        ImportTool::Borg => super::borg::open(args, report),
        ImportTool::Restic => restic(args, global, report),
    }
}

/// The places in which restic looks for a password.
const PASSWORD_REMEDY: &str = "give the password of restic with RESTIC_PASSWORD, \
                               RESTIC_PASSWORD_FILE or RESTIC_PASSWORD_COMMAND";

fn restic(args: &Import, global: &Global, report: &Report) -> Result<ImportSource> {
    let source = args.source(global);
    let shown = place::shown(&session::location(&source)?);
    let none = || {
        Failure::new(Exit::NoRepository, format!("{shown}: no repository of restic found"))
            .with_remedy("check REPO, the place of a repository of restic")
    };
    let storage = session::open_storage(&source).map_err(|error| match Exit::of(&error) {
        Exit::NoRepository => none().into(),
        _ => error,
    })?;
    if !Restic::is_there(&*storage)? {
        return Err(none().into());
    }
    let password = password(&shown, report)?;
    let options = ResticOptions { threads: args.options.threads.count() };
    let opened = Restic::open(storage, &password, options).map_err(|error| match error.kind() {
        Kind::Missing => anyhow::Error::from(none()),
        _ => anyhow::Error::from(error).context(shown.clone()),
    })?;
    let wrong = || {
        Failure::new(Exit::WrongKey, format!("{shown}: the password opens none of its keys"))
            .with_remedy(PASSWORD_REMEDY)
    };
    let repository = opened.ok_or_else(wrong)?;
    let (snapshots, unreadable) = repository.snapshots()?;
    for error in unreadable {
        let path = PathBuf::from(error.object());
        report.problem(&path, &format!("not imported: {error}"));
    }
    Ok(ImportSource { repository: Arc::new(repository), snapshots })
}

/// Returns the password of a repository of restic, from the places in which restic looks for it.
fn password(shown: &str, report: &Report) -> Result<Zeroizing<Vec<u8>>> {
    let variable =
        |name: &str| -> Option<OsString> { env::var_os(name).filter(|value| !value.is_empty()) };
    let file = variable("RESTIC_PASSWORD_FILE").map(PathBuf::from);
    let command = variable("RESTIC_PASSWORD_COMMAND");
    unlock::of_other(file.as_deref(), command.as_deref(), "RESTIC_PASSWORD", report)?
        .map_or_else(|| unlock::ask_other(shown, PASSWORD_REMEDY), Ok)
}
