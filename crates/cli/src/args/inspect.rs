//! The arguments of the commands that look inside: sizes, objects, cut-points.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use cutpoint_chunking::Level;

use crate::args::everyday::Selection;
use crate::defaults::DEFAULT_CUT;
use crate::units::parse_threads_or_zero;

/// Show the size of the repository and its savings, or the size of a snapshot
///
/// `logical` is the total size of the files; `unique` counts each chunk once. For a snapshot, or for a
/// path in one, `stored` is what its chunks take in the repository, and `only here` is what those
/// take that no other snapshot has: about what `cutpoint forget` and `cutpoint prune` free.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint stats
  cutpoint stats --json --repo /mnt/disk/backup
  cutpoint stats --html sizes.html
      Writes a page: what takes the space, by path and time.
  cutpoint stats latest
  cutpoint stats latest:/home/me/photos
  cutpoint stats --bursts
      Counts the chunks that are a prefix and a suffix of one other chunk.")]
pub(crate) struct StatsArgs {
    /// Read chunks that resemble others, and count bursts
    ///
    /// This is the default if the repository has the setting --delta burst.
    #[arg(long)]
    pub(crate) bursts: bool,
    /// Write a self-contained HTML page to FILE
    ///
    /// Shows what takes the space: a map by path, growth over time, and how much duplicates, delta
    /// encoding and compression save. Reads the trees of all snapshots. The page has the names of folders
    /// and of large files in it.
    #[arg(long, value_name = "FILE", conflicts_with = "snapshot")]
    pub(crate) html: Option<PathBuf>,
    /// Measure this snapshot, or a path in it
    ///
    /// `cutpoint help selection` explains the names of snapshots and paths.
    #[arg(value_name = "SNAPSHOT[:PATH]", conflicts_with = "bursts")]
    pub(crate) snapshot: Option<OsString>,
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// Print a decoded object of the repository
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint debug --list
  cutpoint debug config/00000000000000000000")]
pub(crate) struct Debug {
    /// Name of the object
    #[arg(value_name = "OBJECT", required_unless_present = "list", conflicts_with = "list")]
    pub(crate) object: Option<String>,
    /// List the names and sizes of all objects
    #[arg(long)]
    pub(crate) list: bool,
}

/// Print the cut-points of a file
///
/// Needs no repository and no secret. An encrypted repository has other cut-points, because it cuts
/// with a secret of its own. Neither the level nor the number of threads changes a cut-point.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint cut --algorithm fastcdc:avg=16k disk.img
  cutpoint cut --level scalar --verbose disk.img
  tar c src | cutpoint cut -a seqcdc:avg=8k --format csv -")]
pub(crate) struct Cut {
    /// Cut with this algorithm and parameters
    ///
    /// SPEC is the name of an algorithm with its parameters, for example `seqcdc:avg=16k`.
    /// `cutpoint-lab algorithms` lists all of them.
    #[arg(long, short, value_name = "SPEC", default_value = DEFAULT_CUT)]
    pub(crate) algorithm: String,
    /// Print in this format; --json implies json
    #[arg(long, value_enum, default_value = "offsets")]
    pub(crate) format: CutFormat,
    /// Use this level (instruction set) [default: the fastest]
    ///
    /// LEVEL is `scalar`, or an instruction set of this CPU, for example `avx2`.
    ///
    /// An algorithm without code for LEVEL uses a lower one, which --verbose and --json report.
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    pub(crate) level: Option<Level>,
    /// Use N threads; 0 is the number of processors
    ///
    /// Each of several threads holds 4 MiB of the file, or 64 minimum chunk sizes if that is more,
    /// up to 256 MiB for all threads, plus the share of one thread and a chunk. Chunks of a fixed
    /// size are cut by one thread.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_threads_or_zero)]
    pub(crate) threads: usize,
    /// File to cut; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Parses the name of a level that this CPU has.
fn parse_level(name: &str) -> Result<Level, String> {
    Level::named(name).map_err(|_| {
        let names: Vec<&str> = Level::available().into_iter().map(Level::name).collect();
        format!("{name:?} is not a level of this CPU (expected {})", names.join(", "))
    })
}

/// The format in which cut-points are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CutFormat {
    /// The exclusive end offset of each chunk, one per line
    Offsets,
    /// One JSON object per line
    Json,
    /// Offset, size and end offset of each chunk, after a header line
    Csv,
}
