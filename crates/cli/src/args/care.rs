//! The arguments of the commands that keep a repository healthy and small.

use clap::{Args as ClapArgs, Subcommand};
use cutpoint_repository::ObjectName;
use cutpoint_repository::verify::check::Portion;
use cutpoint_terminal::Threads;

use crate::units::{number, parse_large_size, parse_percent, parse_portion, parse_wait, size_in};

/// Check the repository for damage
///
/// Reads every object that describes stored data, and verifies that every container exists and has
/// the expected length. With --read-data, also reads, authenticates, decodes and compares every
/// stored byte. With a part such as 5%, reads the data that has been unread for the longest time,
/// so that twenty such checks read everything once. The time of each read is remembered on this
/// machine.
///
/// Findings are reported, and the exit code is 1. Damaged data that is already stored elsewhere, or
/// that only forgotten snapshots need, is reported as `unneeded`, and is not an error.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint check
  cutpoint check --read-data
  cutpoint check --read-data 5%
      For example every night.
  cutpoint check --read-data 10GiB")]
pub(crate) struct Check {
    /// Read and verify all stored data, or a part of it
    ///
    /// PART is a percentage such as 5% or 0.5%, or a size such as 10GiB. Without PART, all data is
    /// read.
    #[arg(long, value_name = "PART", num_args = 0..=1, default_missing_value = "all",
        value_parser = parse_portion)]
    pub(crate) read_data: Option<Portion>,
    /// Do not record damage in the repository
    ///
    /// Nothing is written to the repository. The next backup stores damaged data again only if the
    /// damage is recorded.
    #[arg(long)]
    pub(crate) no_record: bool,
    /// The number of threads.
    #[command(flatten)]
    pub(crate) threads: Threads,
}

/// Repair damage
///
/// `cutpoint check` names the commands that repair its findings, and their order. Data that can
/// still be read is never deleted.
///
/// The first remedy for damaged data is the next backup, which stores again what its sources still
/// have. `repair data` needs parity instead of sources. `repair objects` is for objects that are
/// damaged only in bytes that follow from others. The other commands repair
/// the remaining damage.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint repair objects --read-data
  cutpoint repair data --read-data
  cutpoint repair index --dry-run
  cutpoint repair snapshots --forget
      Saves the intact parts of damaged snapshots, and forgets the snapshots.")]
pub(crate) struct Repair {
    /// The object of the repair.
    #[command(subcommand)]
    pub(crate) what: Repairable,
}

/// The kinds of repair. The documentation of their arguments is their help.
#[derive(Debug, Subcommand)]
pub(crate) enum Repairable {
    Objects(RepairObjects),
    Data(RepairData),
    /// Rebuild the index from the containers
    ///
    /// Use this command if parts of the index are damaged or missing.
    #[command(before_help = "\
Examples:
  cutpoint repair index --dry-run
  cutpoint repair index")]
    Index {
        /// Show what would be done, and change nothing
        #[arg(long, short = 'n')]
        dry_run: bool,
        /// Give up the missing prune record N; repeatable
        ///
        /// The repository can then be written to again. No other client may be active at the same
        /// time. Snapshots that this prune had removed are listed again, as far as they still
        /// exist; `cutpoint check` reports their losses.
        #[arg(long, value_name = "N", value_parser = number(0..=u64::MAX))]
        give_up: Vec<u64>,
    },
    Snapshots(RepairSnapshots),
}

fn parse_object(text: &str) -> Result<ObjectName, String> {
    ObjectName::parse(text).map_err(|error| error.to_string())
}

/// Rewrite damaged objects whose content is intact
///
/// Settings and keys are stored twice: a damaged or missing copy is rewritten from the other one.
/// The content of all other objects is authenticated, and the padding and trailer behind it follow
/// from it: if only these are damaged or cut off, the object is rewritten in place. All other
/// damage is left to other commands.
///
/// Damage in the padding of containers is found only with --read-data.
///
/// --remove deletes settings that no key opens and that obstruct others: foreign data, or settings
/// that are damaged in both copies. Settings that a newer key opens are not removed.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint repair objects --dry-run
  cutpoint repair objects --read-data
  cutpoint repair objects \\
    --remove config/00000000000000000042")]
pub(crate) struct RepairObjects {
    /// Show what would be done, and change nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// The data that is read first.
    #[command(flatten)]
    pub(crate) first: ReadFirst,
    /// Delete unreadable settings NAME; repeatable
    ///
    /// These are settings that no key opens. NAME is the name that `cutpoint check` reports.
    #[arg(long, value_name = "NAME", value_parser = parse_object)]
    pub(crate) remove: Vec<ObjectName>,
    /// The number of threads.
    #[command(flatten)]
    pub(crate) threads: Threads,
}

/// Rebuild damaged data from parity
///
/// Requires a repository with parity (`cutpoint config --parity 10%`). A damaged container can be
/// rebuilt if it has parity for the number of its damaged pieces. Its chunks are stored in new
/// containers; the damaged container stays until a prune. A missing container cannot be rebuilt.
/// Afterwards, parity is added to containers that have none, if the settings ask for it.
///
/// Without --read-data, the command relies on the findings of earlier checks, and on damage that is
/// evident without reading data.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint repair data --dry-run --read-data
  cutpoint repair data --read-data
  cutpoint repair data
      After `cutpoint check --read-data` or `config --parity`.")]
pub(crate) struct RepairData {
    /// Show what would be done, and change nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// The data that is read first.
    #[command(flatten)]
    pub(crate) first: ReadFirst,
    /// The number of threads.
    #[command(flatten)]
    pub(crate) threads: Threads,
}

/// Save the intact parts of damaged snapshots
///
/// Adds a second snapshot, with all intact data, for each listed snapshot with missing data; it
/// follows the original in the list. The rest of a damaged file is kept as NAME.cutpoint-damaged,
/// with holes for missing data.
///
/// Run `cutpoint check --read-data` and a backup first: data that the sources still have is stored
/// again, and is not given up. Without --read-data, the command relies on the findings of earlier
/// checks, and on damage that is evident without reading data.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint repair snapshots --dry-run
  cutpoint repair snapshots
  cutpoint repair snapshots --forget")]
pub(crate) struct RepairSnapshots {
    /// Show the losses, and change nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Forget damaged snapshots and unreadable commits
    #[arg(long)]
    pub(crate) forget: bool,
    /// The data that is read first.
    #[command(flatten)]
    pub(crate) first: ReadFirst,
    /// The number of threads.
    #[command(flatten)]
    pub(crate) threads: Threads,
}

/// The data that a repair reads to find damage, before it repairs.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub(crate) struct ReadFirst {
    /// First read all stored data, or a part of it
    ///
    /// PART is a percentage such as 5%, or a size such as 10GiB. Without PART, all data is read.
    #[arg(long, value_name = "PART", num_args = 0..=1, default_missing_value = "all",
        value_parser = parse_portion)]
    pub(crate) read_data: Option<Portion>,
}

/// Delete data that no snapshot needs
///
/// Removes forgotten snapshots for good, and deletes data that no other snapshot needs: at once if
/// no backup is running, otherwise by the next prune, or by this one with --wait. Backups may run at
/// the same time. Where listings of some client may lag behind (network shares, SFTP), data is
/// deleted some time after it was condemned (--settle).
///
/// Credentials for S3 need the permission to delete objects, which no backup needs. In a bucket
/// with object lock, locked objects stay: they are named, the exit code is 1, and a later prune
/// deletes them. In a bucket that keeps versions, deleted objects take space until a lifecycle rule
/// removes them.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint prune --dry-run
  cutpoint prune
      Frees space at once, unless a backup is running.
  cutpoint prune --wait
      Waits for running backups, then frees what they have kept.
  cutpoint prune --unused-max 20% --rewrite-max 10g
      Rewrites less, and leaves more unused data.")]
pub(crate) struct Prune {
    /// Show what would be done, and change nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Rewrite containers until at most this share is unused
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = parse_percent)]
    pub(crate) unused_max: f64,
    /// Rewrite containers of at most SIZE in total; 0: none
    ///
    /// Without this option, --unused-max alone decides.
    #[arg(long, value_name = "SIZE", value_parser = parse_large_size)]
    pub(crate) rewrite_max: Option<u64>,
    #[command(flatten)]
    pub(crate) clearing: Clearing,
}

/// The time at which condemned data is deleted.
#[derive(Debug, ClapArgs)]
pub(crate) struct Clearing {
    /// Wait for other clients, then delete
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) wait: bool,
    /// Delete only what a prune condemned TIME ago
    ///
    /// Without this option, data is deleted as soon as no running backup can need it, in a folder of a
    /// disk of this machine, and in S3 if a test finds that listings show new objects at once.
    /// Otherwise, or if another client has written by a network share, SFTP or rclone, the default is
    /// 10min for a folder, and 24h for other storage.
    ///
    /// TIME must be at least twice the maximum delay of the listings of any client.
    #[arg(long, value_name = "TIME", value_parser = parse_wait)]
    pub(crate) settle: Option<i64>,
    /// Do not wait for other clients; running backups will have to restart
    ///
    /// Condemned data is deleted at once. No other client may be active. The command fails (exit
    /// code 15) while a run that is not known to be dead has renewed its ticket within 3 hours by
    /// the clock of the storage; on the machine of that run, the same command can tell that it is
    /// dead. Storage that cannot create objects atomically can be pruned only with this option.
    #[arg(long, conflicts_with_all = ["dry_run", "settle"])]
    pub(crate) exclusive: bool,
    /// Do not ask for confirmation of --exclusive
    ///
    /// Without this option, --exclusive requires a terminal.
    #[arg(long, short = 'y', requires = "exclusive")]
    pub(crate) yes: bool,
}

/// Rewrite stored data to make it smaller
///
/// Stores data again that is not optimized yet: in larger regions and with more compression, the
/// data of the newest snapshots in the order in which it is read, and data that only older
/// snapshots need next to data that it resembles. This takes time to decode and compress all of it,
/// and space for new containers until the old ones are deleted. An optimization is also a prune: it
/// removes forgotten snapshots. A second run does nothing unless there is new data or stronger
/// options are given.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint optimize --dry-run
      Estimates what an optimization would save.
  cutpoint optimize
  cutpoint optimize --rewrite-max 50g
      Rewrites at most 50 GiB now, and the rest another time.
  cutpoint optimize --compression-level 19
      Takes the least space and the most time.")]
pub(crate) struct Optimize {
    /// Show what would be done, and change nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Rewrite containers of at most SIZE in total
    #[arg(long, value_name = "SIZE", value_parser = parse_large_size)]
    pub(crate) rewrite_max: Option<u64>,
    /// Compress SIZE bytes of chunks together, at most 16M
    ///
    /// Larger regions compress better, and make reading of single files slower.
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = size_in(16 << 10..=16 << 20))]
    pub(crate) region_size: u32,
    /// Set the zstd level: 1 to 19
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = number(1..=19))]
    pub(crate) compression_level: i32,
    /// Rewrite even containers of incompressible data
    ///
    /// Compression does not make such containers smaller, but their chunks are stored in order, and
    /// may be stored as differences from others.
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) clearing: Clearing,
}
