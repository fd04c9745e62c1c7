//! `cutpoint`: deduplicated, compressed, encrypted backups on the command line.
//!
//! A command (`command/`) calls the store and prints its results, and does nothing else. [`args`]
//! defines the options, [`report`] the output, and [`exit`] the exit codes.
#![deny(unsafe_code)]

mod args;
#[cfg(feature = "clouds")]
mod cloud;
#[cfg(not(feature = "clouds"))]
#[path = "no_cloud.rs"]
mod cloud;
mod command;
mod confirmation;
mod coverage;
mod defaults;
mod event;
mod exit;
#[cfg(all(feature = "mount", target_os = "linux"))]
mod fuse;
#[cfg(not(all(feature = "mount", target_os = "linux")))]
#[path = "no_fuse.rs"]
mod fuse;
mod heap;
mod key_id;
mod lag;
mod machine_key;
mod place;
mod priority;
mod profile;
mod recovery;
mod remedy;
mod remote;
mod replace;
mod report;
#[cfg(feature = "rest")]
mod rest;
#[cfg(not(feature = "rest"))]
#[path = "no_rest.rs"]
mod rest;
#[cfg(feature = "s3")]
mod s3;
#[cfg(not(feature = "s3"))]
#[path = "no_s3.rs"]
mod s3;
mod select;
mod session;
mod source_command;
mod state;
mod temporary;
mod throttle;
mod time_zone;
mod units;
mod unlock;
mod waits;

use std::process::ExitCode;

use cutpoint_terminal::{escape, interrupt, usage};

use crate::args::Args;
use crate::report::{PROGRAM, Report};

/// The allocator of programs that are linked with musl, whose own takes one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // First of all, because the environment may contain a passphrase.
    hide_memory();
    // Known before the arguments are parsed, because some are times.
    if usage::is_given("--utc") {
        time_zone::use_utc();
    }
    // Wrong usage ends the process here, with exit code 2.
    let (args, command) = Args::of_process(PROGRAM);
    debug_assert_eq!(args.global.utc, time_zone::is_utc(), "the time zone is known early");
    // Threads that are started from now on have the same priority.
    let lowered = args.global.load.low_priority.then(priority::lower);
    // The report lives until the process ends, because the end by a signal is reported, too.
    let report = Report::new(PROGRAM, &args.global.output).of_command(command);
    let report: &'static Report = Box::leak(Box::new(report));
    if let Some(lowered) = lowered {
        lowered.tell(report);
    }
    interrupt::tell_waits(|notice| waits::tell(notice, report));
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

/// Protects the memory and the environment of this process, which hold secrets, from core dumps and
/// from other processes of the same user (`ptrace`, `/proc/PID/mem`, `/proc/PID/environ`). Root can
/// still read them. Commands that this process starts are not affected.
fn hide_memory() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // On a system that refuses this, the protection is the same as without it.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    }
}
