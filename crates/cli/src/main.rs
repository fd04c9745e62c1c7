//! `cutpoint`: deduplicated, compressed, encrypted backups on the command line.
//!
//! A verb (`command/`) calls the store and prints, nothing else. [`args`] says what can be asked,
//! [`report`] what is printed, [`exit`] how it ends.
#![forbid(unsafe_code)]

mod args;
mod command;
mod coverage;
mod defaults;
mod dump;
mod escape;
mod event;
mod exit;
mod interrupt;
mod lag;
mod place;
mod recovery;
mod report;
mod s3;
mod select;
mod session;
mod state;
mod units;
mod unlock;

use std::process::ExitCode;

use crate::args::Args;
use crate::report::Report;

fn main() -> ExitCode {
    // Before anything else: the environment may have a passphrase.
    hide_memory();
    // Wrong usage ends the process here, with exit code 2 and the message of clap.
    let args = Args::of_process();
    // Until the process ends: what a signal ends says so, too.
    let report: &'static Report = Box::leak(Box::new(Report::new(&args.global)));
    let result = interrupt::watch(report).and_then(|()| command::run(&args, report));
    interrupt::begin_end();
    // What was said so far stands before the message that says why it ended.
    let flushed = report.flush();
    let exit = match result.and_then(|exit| flushed.map(|()| exit)) {
        Ok(exit) => exit,
        Err(error) => report.fail(&error),
    };
    ExitCode::from(exit.code())
}

/// Keeps the memory and the environment of this process, which hold secrets, out of core dumps and from
/// other processes of the same user (`ptrace`, `/proc/PID/mem`, `/proc/PID/environ`). Root still reads
/// them. Commands that this process starts are as they were.
fn hide_memory() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // A system that refuses it protects no less than without.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    }
}
