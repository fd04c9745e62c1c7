//! `cutpoint-lab`: measures chunking algorithms on the command line.
//!
//! A command (`command/`) calls the library and prints its results, and does nothing else. [`args`]
//! defines the options, and [`event`] the output of `--json`.
#![forbid(unsafe_code)]

mod args;
mod command;
mod event;

use std::process::ExitCode;

use cutpoint_terminal::report::Program;
use cutpoint_terminal::{Report, interrupt, remedy};

use crate::args::Args;

/// This program, as its messages name it.
const PROGRAM: Program = Program { name: "cutpoint-lab", remedy: remedy::remedy };

fn main() -> ExitCode {
    // Wrong usage ends the process here, with exit code 2.
    let (args, command) = Args::of_process();
    // The report lives until the process ends, because the end by a signal is reported, too.
    let report = Report::new(PROGRAM, &args.global.output).of_command(command);
    let report: &'static Report = Box::leak(Box::new(report));
    let result = interrupt::watch(report).and_then(|()| command::run(&args, report));
    interrupt::begin_end();
    // The output so far is flushed before the message about the reason of the end.
    let flushed = report.flush();
    let exit = match result.and_then(|exit| flushed.map(|()| exit)) {
        Ok(exit) => exit,
        Err(error) => report.fail(&error),
    };
    ExitCode::from(exit.code())
}
