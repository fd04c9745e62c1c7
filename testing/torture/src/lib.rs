//! Torture test of the program: real processes of several machines work on one repository at once.
//! Some are killed, some are suspended, and every process has a clock that is wrong by up to 40
//! days.
//!
//! [`run`] reports a failure if
//! - a finished snapshot does not restore equal, or is not listed any more,
//! - a command ends with an exit code that it must not have,
//! - `check` finds anything, or
//! - a command takes more than ten times as long as the slowest command of its kind did
//!   undisturbed, under the same load, and as long again while no other process starts. Limits are
//!   at least 20 s.
//!
//! The same storms run over S3, behind a [proxy](Storage::S3) that fails requests, loses answers
//! and carries requests out late. All choices are functions of the seed. The moment at which they
//! take effect depends on the scheduler, so that a seed repeats the storm but not each failure.
#![forbid(unsafe_code)]

mod actor;
mod clock;
mod machine;
mod proxy;
mod storm;
mod world;

use std::path::PathBuf;
use std::time::Duration;

pub use world::Tally;

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The absolute path of the program under torture.
    pub program: PathBuf,
    /// The seed of all choices.
    pub seed: u64,
    /// The duration of the storm, without the restore of every snapshot at the end.
    pub duration: Duration,
    /// The location of the repository.
    pub storage: Storage,
    /// A folder that outlives the run, for the build of the S3 server.
    pub build_folder: PathBuf,
}

/// The location of the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// A local folder.
    Folder,
    /// An S3 server behind a proxy that lies.
    S3,
}

/// Runs a storm. Returns the counts of its events, or `None` if the S3 server is not available,
/// which [`cutpoint_testing::skipped`] has reported.
///
/// # Errors
///
/// Returns the first failure, with the command, its output and the seed. In that case the working
/// folder stays, and the message names it.
///
/// # Panics
///
/// Panics if the machine fails, for example if no temporary folder can be made or no process can be
/// started.
pub fn run(options: &Options) -> Result<Option<Tally>, String> {
    storm::run(options)
}
