//! Torture of the program: real processes of several machines work on one repository at once. Some are
//! killed, some are suspended, and every process has a clock that is wrong by up to 40 days.
//!
//! [`run`] reports a failure where
//! - a finished snapshot does not restore equal, or is not listed any more,
//! - a command ends with an exit code that it must not have,
//! - `check` finds anything, or
//! - a command takes more than ten times as long as the slowest command of its kind did undisturbed,
//!   under the same load.
//!
//! The same storms run over S3, behind a [proxy](Storage::S3) that fails requests, loses answers and
//! carries requests out late. All choices are functions of the seed; when they take effect depends on
//! the scheduler, so a seed repeats the storm but not each failure.
#![forbid(unsafe_code)]

mod actor;
mod clock;
mod machine;
mod proxy;
mod world;

use std::path::PathBuf;
use std::time::Duration;

pub use world::Tally;

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program under torture, an absolute path.
    pub program: PathBuf,
    /// The seed of all choices.
    pub seed: u64,
    /// Duration of the storm; restoring every snapshot at the end comes on top.
    pub duration: Duration,
    /// Where the repository lies.
    pub storage: Storage,
    /// A folder that outlives the run, for the S3 server's build.
    pub build_folder: PathBuf,
}

/// Where the repository lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// A local folder.
    Folder,
    /// An S3 server behind a proxy that lies.
    S3,
}

/// Runs a storm. Returns how often things happened, or `None` where the S3 server cannot be had, which
/// [`cutpoint_testing::skipped`] has told.
///
/// # Errors
///
/// The first failure, with the command, its output and the seed. The working folder stays then, and the
/// message names it.
///
/// # Panics
///
/// Where the machine fails: no temporary folder, no process can be started.
pub fn run(options: &Options) -> Result<Option<Tally>, String> {
    world::run(options)
}
