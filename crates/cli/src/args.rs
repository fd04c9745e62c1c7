//! The arguments of the program and their help texts.

mod access;
mod care;
mod common;
mod copy;
mod diff;
mod dump;
mod estimate;
mod everyday;
mod find;
mod forget;
mod help;
mod import;
mod inspect;
mod keeping;
mod mount;
mod program;
mod restore;
mod serve;
mod settings;
mod volume;
mod volume_transfer;

use clap::{FromArgMatches, Parser, Subcommand};
use cutpoint_terminal::help::STYLES;
use cutpoint_terminal::report::Program;
use cutpoint_terminal::usage;

pub(crate) use self::access::{Key, KeyAdd, KeyCommand, KeyRemove, KeyRotate, NewSecrets};
pub(crate) use self::care::{
    Check, Clearing, Optimize, Prune, Repair, RepairData, RepairObjects, RepairSnapshots,
    Repairable,
};
pub(crate) use self::common::{Encryption, Global, LoadArgs, RestArgs, S3Args, Secrets};
pub(crate) use self::copy::{Copy, CopyOptions, Rewrite};
pub(crate) use self::diff::Diff;
pub(crate) use self::dump::Dump;
pub(crate) use self::estimate::Estimate;
pub(crate) use self::everyday::{Backup, Cat, Init, Ls, Selection, Snapshots};
pub(crate) use self::find::Find;
pub(crate) use self::forget::{Alone, Forget, GroupBy, Hold, Tag};
use self::help::Help;
pub(crate) use self::import::Import;
#[cfg(feature = "import")]
pub(crate) use self::import::ImportTool;
pub(crate) use self::inspect::{Cut, CutFormat, Debug, StatsArgs};
pub(crate) use self::keeping::{Run, Schedule};
pub(crate) use self::mount::Mount;
pub(crate) use self::program::{Cache, Completions, Man, Shell, Version};
pub(crate) use self::restore::Restore;
pub(crate) use self::serve::Serve;
pub(crate) use self::settings::{ConfigArgs, DeltaMode, Mode, Settings};
pub(crate) use self::volume::Volume;
#[cfg(feature = "volume")]
pub(crate) use self::volume::{
    VolumeCheck, VolumeClone, VolumeCommand, VolumeConnect, VolumeCreate, VolumeDelete, VolumeKey,
    VolumeKeyCommand, VolumeList, VolumeResize, VolumeRollback, VolumeServe, VolumeSnapshot,
    VolumeStats,
};
#[cfg(feature = "volume")]
pub(crate) use self::volume_transfer::{ImageFormat, VolumeChanged, VolumeImport};

const EXAMPLES: &str = "\
Examples:
  export CUTPOINT_REPO=/mnt/disk/backup
  cutpoint init
  cutpoint backup ~/Documents
  cutpoint snapshots
  cutpoint restore latest --to /tmp/restored";

/// Encrypted, deduplicating backup: every snapshot is complete, and stores only what changed
#[derive(Debug, Parser)]
#[command(name = "cutpoint", version, styles = STYLES, before_help = EXAMPLES,
    propagate_version = false, disable_help_subcommand = true)]
pub(crate) struct Args {
    /// The common options.
    #[command(flatten)]
    pub(crate) global: Global,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Args {
    /// Reads the arguments of this process. Also returns the name of the command. Prints help, or an
    /// error of usage (exit code 2), and ends the process where these are the answer.
    pub(crate) fn of_process(program: Program) -> (Args, String) {
        usage::parse(&help::MANUAL, program)
    }

    /// Parses a command line, whose first word is the name of the program.
    ///
    /// # Errors
    ///
    /// Returns the error of the argument that cannot be used.
    pub(crate) fn of_words(words: &[String]) -> Result<Args, clap::Error> {
        let mut command = Args::layout();
        let matches = command.try_get_matches_from_mut(words)?;
        Args::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }

    /// Returns the command line with the layout of its help, for scripts and manual pages.
    pub(crate) fn layout() -> clap::Command {
        help::MANUAL.command()
    }

    /// Returns the groups of commands, with their headings.
    pub(crate) fn groups() -> &'static [(&'static str, &'static [&'static str])] {
        help::MANUAL.groups
    }

    /// Returns the name and the page of each topic of the help, for manual pages.
    pub(crate) fn topics() -> impl Iterator<Item = (&'static str, clap::Command)> {
        let names = help::MANUAL.topics.iter().map(|topic| topic.name);
        names.filter_map(|name| Some((name, help::MANUAL.page(&[name])?)))
    }
}

/// A command. The documentation of its arguments is its help.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(Init),
    Config(ConfigArgs),
    Backup(Backup),
    Restore(Restore),
    Run(Run),
    Schedule(Schedule),
    Snapshots(Snapshots),
    Forget(Forget),
    Prune(Prune),
    Optimize(Optimize),
    Hold(Hold),
    Tag(Tag),
    Copy(Copy),
    Import(Import),
    Rewrite(Rewrite),
    Ls(Ls),
    Diff(Diff),
    Cat(Cat),
    Dump(Dump),
    Mount(Mount),
    Serve(Serve),
    Find(Find),
    Stats(StatsArgs),
    Check(Check),
    /// Test a storage location
    ///
    /// Measures the speed of the location, and tests whether several clients may share a repository
    /// there. Needs no secret and no repository. Test objects are written to tmp/, which holds no
    /// data of a repository, and are removed afterwards. About 34 MiB are written and read.
    ///
    /// Several machines can share a repository, and `cutpoint prune` can run while they write, if
    /// the storage creates objects atomically: of several requests to create the same name at once,
    /// exactly one succeeds. Storage that does not is good enough for backups, but `cutpoint prune`,
    /// `hold` and `forget --undo` require --exclusive there, and the exit code of this command is 1, as for any other
    /// deficiency. The exit code is 2 if the location
    /// cannot be used.
    #[command(before_help = access::DOCTOR_EXAMPLES)]
    Doctor,
    Repair(Repair),
    Estimate(Estimate),
    Cut(Cut),
    Debug(Debug),
    Key(Key),
    Volume(Volume),
    Cache(Cache),
    Version(Version),
    Completions(Completions),
    Man(Man),
    Help(Help),
}
