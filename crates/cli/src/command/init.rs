//! `init`: creates a repository.

use anyhow::Result;

use crate::args::{Encryption, Global, Init};
use crate::event::{Event, Summary};
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::session::{self, New};
use crate::{machine_key, place};

pub(crate) fn run(args: &Init, global: &Global, report: &Report) -> Result<Exit> {
    let of_machine = if args.for_machine { Some(for_machine(global)?) } else { None };
    let global = of_machine.as_ref().unwrap_or(global);
    let location = session::location(global)?;
    let Some(vacancy) = session::vacancy(global)? else {
        let message = format!("{}: a repository exists already", place::shown(&location));
        return Err(Failure::failed(message)
            .with_remedy("choose another --repo, or use the repository as it is")
            .into());
    };
    let new = New {
        settings: &args.settings,
        recovery_kit: args.recovery_kit.as_deref(),
        is_shared: args.shared,
        like: session::options_like(args, global, report)?,
    };
    let mut session = session::create(global, vacancy, &new, report)?;
    session.state.save(report);
    if let Some(path) = of_machine.as_ref().and_then(|global| global.secrets.key_file.as_ref()) {
        report.note(&machine_key::advice(path));
    }
    let config = session.repository.config();
    if report.is_json() {
        report.event(&Event::Summary(Summary::Init {
            repository: config.repository.to_string(),
            encryption: config.suite.to_string(),
            cut: &config.cut,
        }))?;
    }
    Ok(Exit::Well)
}

/// Returns the common options with the key file of this machine as the secret.
fn for_machine(global: &Global) -> Result<Global> {
    let secrets = &global.secrets;
    let is_named = secrets.key_file.is_some()
        || secrets.passphrase_file.is_some()
        || secrets.passphrase_command.is_some();
    if is_named || secrets.encryption == Some(Encryption::None) {
        let message = "--for-machine: cannot be used with another secret or --encryption none";
        return Err(Failure::failed(message)
            .with_remedy("--key-file FILE creates the key file at a place of your choice")
            .into());
    }
    let mut global = global.clone();
    global.secrets.key_file = Some(machine_key::file()?);
    Ok(global)
}
