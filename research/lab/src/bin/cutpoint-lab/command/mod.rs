//! The commands.

mod algorithms;
mod bench;
mod report;
mod run;
mod trace;
mod tune;

use anyhow::Result;
use cutpoint_terminal::exit::Exit;
use cutpoint_terminal::{Report, interrupt};

use crate::args::{Args, Command};

/// Runs the command.
pub(crate) fn run(args: &Args, report: &Report) -> Result<Exit> {
    interrupt::survive_file_size_limit()?;
    match &args.command {
        Command::Algorithms(args) => algorithms::run(args, report),
        Command::Bench(args) => bench::run(args, report),
        Command::Trace(args) => trace::run(args, report),
        Command::Tune(args) => tune::run(args, report),
        Command::Run(args) => run::run(args, report),
        Command::Report(args) => report::run(args, report),
        Command::Help(help) => help.print(),
    }
}
