//! `completions`: prints a script that completes commands and options in a shell.

use anyhow::Result;
use clap_complete::{Shell as KnownShell, generate};
use clap_complete_nushell::Nushell;

use crate::args::{Args, Completions, Shell};
use crate::exit::{Exit, Failure};
use crate::report::Report;

pub(crate) fn run(args: &Completions, report: &Report) -> Result<Exit> {
    if report.is_json() {
        let message = "`completions` has no --json, because the script itself is the output";
        return Err(Failure::failed(message).into());
    }
    let mut command = Args::layout();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    match args.shell {
        Shell::Bash => generate(KnownShell::Bash, &mut command, name, &mut script),
        Shell::Zsh => generate(KnownShell::Zsh, &mut command, name, &mut script),
        Shell::Fish => generate(KnownShell::Fish, &mut command, name, &mut script),
        Shell::Nu => generate(Nushell, &mut command, name, &mut script),
    }
    report.write(&script)?;
    Ok(Exit::Well)
}
