//! `cutpoint`: deduplicated, compressed, encrypted backups on the command line.
//!
//! A verb (`command/`) calls the store and prints, nothing else. [`args`] says what can be asked,
//! [`report`] what is printed, [`exit`] how it ends.
#![forbid(unsafe_code)]

mod args;
mod command;
mod coverage;
mod defaults;
mod escape;
mod event;
mod exit;
mod interrupt;
mod recovery;
mod report;
mod s3;
mod select;
mod session;
mod state;
mod units;
mod unlock;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;
use crate::report::Report;

fn main() -> ExitCode {
    // Wrong usage ends here, with code 2 and clap's message.
    let args = Args::parse();
    let report = Report::new(&args.global);
    let result = command::run(&args, &report);
    // What was said so far stands before the message that says why it ended.
    let flushed = report.flush();
    let exit = match result.and_then(|exit| flushed.map(|()| exit)) {
        Ok(exit) => exit,
        Err(error) => report.fail(&error),
    };
    ExitCode::from(exit.code())
}
