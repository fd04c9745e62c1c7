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

use crate::args::{Args, Verb};

/// Runs the command.
pub(crate) fn run(args: &Args, report: &Report) -> Result<Exit> {
    interrupt::survive_file_size_limit()?;
    match &args.verb {
        Verb::Algorithms(args) => algorithms::run(args, report),
        Verb::Bench(args) => bench::run(args, report),
        Verb::Trace(args) => trace::run(args, report),
        Verb::Tune(args) => tune::run(args, report),
        Verb::Run(args) => run::run(args, report),
        Verb::Report(args) => report::run(args, report),
        Verb::Help(help) => help.print(),
    }
}
