//! The commands.

mod backup;
mod cat;
mod check;
mod config;
mod cut;
mod debug;
mod doctor;
mod estimate;
mod forget;
mod hold;
mod init;
mod key;
mod ls;
mod optimize;
mod prune;
mod repair;
mod restore;
mod snapshots;
mod stats;
mod tag;

use anyhow::Result;
use cutpoint_storage::ObjectKind;

use crate::args::{Args, Verb};
use crate::exit::{self, Exit};
use crate::interrupt;
use crate::report::Report;

/// Runs the command. If another client has begun a key epoch between opening and listing the
/// repository, settings and keys are read again and the command restarts.
pub(crate) fn run(args: &Args, report: &Report) -> Result<Exit> {
    interrupt::survive_file_size_limit()?;
    match run_once(args, report) {
        Err(error) if is_of_newer_epoch(&error) && report.may_begin_again() => {
            report.begin_again();
            report.note("Found objects of a newer key epoch; reading settings and keys again.");
            run_once(args, report)
        }
        ended => ended,
    }
}

fn is_of_newer_epoch(error: &anyhow::Error) -> bool {
    // If settings are of a newer epoch, the opening has already read them again.
    exit::newer_epochs(error).any(|cause| !cause.object().starts_with(ObjectKind::Config.folder()))
}

fn run_once(args: &Args, report: &Report) -> Result<Exit> {
    let global = &args.global;
    match &args.verb {
        Verb::Init(init) => init::run(init, global, report),
        Verb::Config(settings) => config::run(settings, global, report),
        Verb::Backup(backup) => backup::run(backup, global, report),
        Verb::Restore(restore) => restore::run(restore, global, report),
        Verb::Snapshots(snapshots) => snapshots::run(snapshots, global, report),
        Verb::Forget(forget) => forget::run(forget, global, report),
        Verb::Prune(prune) => prune::run(prune, global, report),
        Verb::Optimize(optimize) => optimize::run(optimize, global, report),
        Verb::Hold(hold) => hold::run(hold, global, report),
        Verb::Tag(tag) => tag::run(tag, global, report),
        Verb::Ls(ls) => ls::run(ls, global, report),
        Verb::Cat(cat) => cat::run(cat, global, report),
        Verb::Stats(args) => stats::run(args, global, report),
        Verb::Check(check) => check::run(check, global, report),
        Verb::Doctor => doctor::run(global, report),
        Verb::Repair(repair) => repair::run(repair, global, report),
        Verb::Estimate(estimate) => estimate::run(estimate, report),
        Verb::Cut(cut) => cut::run(cut, report),
        Verb::Debug(debug) => debug::run(debug, global, report),
        Verb::Key(key) => key::run(key, global, report),
        Verb::Help(help) => help.print(),
    }
}
