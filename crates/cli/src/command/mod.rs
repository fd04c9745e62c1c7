//! The commands.

mod alone;
mod backup;
mod cache;
mod cat;
mod check;
mod completions;
mod config;
mod copy;
mod cut;
mod debug;
mod deletion;
mod diff;
mod doctor;
mod dump;
mod estimate;
mod find;
mod forget;
mod hold;
#[cfg(feature = "import")]
mod import;
#[cfg(not(feature = "import"))]
#[path = "no_import.rs"]
mod import;
mod init;
mod key;
mod ls;
mod man;
mod mount;
mod optimize;
mod prune;
mod repair;
mod restore;
mod rewrite;
mod run;
mod schedule;
#[cfg(feature = "serve")]
mod serve;
#[cfg(not(feature = "serve"))]
#[path = "no_serve.rs"]
mod serve;
mod snapshots;
mod stats;
mod tag;
mod version;
#[cfg(feature = "volume")]
mod volume;
#[cfg(not(feature = "volume"))]
#[path = "no_volume.rs"]
mod volume;
mod waiting;

use anyhow::Result;
use cutpoint_storage::ObjectKind;

use crate::args::{Args, Command};
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
    match &args.command {
        Command::Init(init) => init::run(init, global, report),
        Command::Config(settings) => config::run(settings, global, report),
        Command::Backup(backup) => backup::run(backup, global, report),
        Command::Restore(restore) => restore::run(restore, global, report),
        Command::Run(profile) => run::run(profile, global, report, &|args, report| {
            // A part is a command of its own, which restarts by itself.
            self::run(args, report)
        }),
        Command::Schedule(schedule) => schedule::run(schedule, report),
        Command::Snapshots(snapshots) => snapshots::run(snapshots, global, report),
        Command::Forget(forget) => forget::run(forget, global, report),
        Command::Prune(prune) => prune::run(prune, global, report),
        Command::Optimize(optimize) => optimize::run(optimize, global, report),
        Command::Hold(hold) => hold::run(hold, global, report),
        Command::Tag(tag) => tag::run(tag, global, report),
        Command::Copy(copy) => copy::run(copy, global, report),
        Command::Import(import) => import::run(import, global, report),
        Command::Rewrite(rewrite) => rewrite::run(rewrite, global, report),
        Command::Ls(ls) => ls::run(ls, global, report),
        Command::Diff(diff) => diff::run(diff, global, report),
        Command::Cat(cat) => cat::run(cat, global, report),
        Command::Dump(dump) => dump::run(dump, global, report),
        Command::Mount(mount) => mount::run(mount, global, report),
        Command::Serve(serve) => serve::run(serve, global, report),
        Command::Find(find) => find::run(find, global, report),
        Command::Stats(args) => stats::run(args, global, report),
        Command::Check(check) => check::run(check, global, report),
        Command::Doctor => doctor::run(global, report),
        Command::Repair(repair) => repair::run(repair, global, report),
        Command::Estimate(estimate) => estimate::run(estimate, global, report),
        Command::Cut(cut) => cut::run(cut, report),
        Command::Debug(debug) => debug::run(debug, global, report),
        Command::Key(key) => key::run(key, global, report),
        Command::Volume(volume) => volume::run(volume, global, report),
        Command::Cache(cache) => cache::run(cache, report),
        Command::Version(_) => version::run(report),
        Command::Completions(completions) => completions::run(completions, report),
        Command::Man(man) => man::run(man, report),
        Command::Help(help) => help.print(),
    }
}
