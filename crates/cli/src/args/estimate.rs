//! The arguments of `estimate`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use cutpoint_repository::format::config::COMPRESSION_LEVEL;
use cutpoint_terminal::scan::Data;

use crate::units::{number, parse_large_size};

/// Estimate savings before storing anything
///
/// Reads the data twice, and stores nothing. Needs no repository and no secret. Each algorithm
/// with its parameters is a configuration. For each configuration, `dedup` is the savings if each
/// chunk is stored once, `bursts` those if also only the new part of similar chunks is stored, and
/// `stored` is the size of a repository: compressed, with all metadata. Similar chunks are read
/// again.
///
/// The default mode, with delta chunks and bundles of small files, is counted by a backup that
/// discards what it stores, which takes the time and the memory of a backup (--memory-max limits
/// it). --no-default-mode leaves it out. With --as-versions, the paths are successive versions of one
/// folder or file, and each is saved and compared with the one before. Their data is then kept
/// until the end, encrypted with a key that is never stored, in a file without a name in the folder
/// for temporary files or in --scratch. The file grows to the size that is estimated.
///
/// For each configuration, memory grows by 60 to 160 bytes per unique chunk: about 500 MiB for 10
/// GB, or 850 MiB if all files are small. --sample keeps only a sample of the fingerprints,
/// selected by their values, so that --sample-memory limits the memory for each configuration. It
/// then also prints confidence intervals, and does not find bursts. The default mode is not
/// sampled. The page Estimates of the book has the method and its accuracy.
///
/// Ctrl-C stops reading and prints the results so far (exit code 130).
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint estimate ~/Documents
  cutpoint estimate --as-versions dumps/mon dumps/tue
      What the second one would add to a repository.
  cutpoint estimate /srv --sample --exclude '*.iso'
      For more data than fits into memory.
  cutpoint estimate disk.img -a fastcdc:avg=16k \\
    -a seqcdc:avg=64k --html estimate.html
  cutpoint estimate /srv --json | \\
    jq 'select(.type == \"estimate\") | .dedup_space_savings'")]
pub(crate) struct Estimate {
    /// The data to read.
    #[command(flatten)]
    pub(crate) data: Data,
    /// Use this algorithm; repeatable
    ///
    /// SPEC is the name of an algorithm with its parameters, for example `seqcdc:avg=16k`. Without
    /// this option, a few useful algorithms are compared, beginning with the default of new
    /// repositories.
    #[arg(long = "algorithm", short, value_name = "SPEC")]
    pub(crate) algorithms: Vec<String>,
    /// Treat the paths as successive versions of one folder or file
    ///
    /// The oldest comes first. The versions are shown at one path, as if a backup had saved each of
    /// them in turn; a row for each says what it adds. The algorithms are compared on all of them.
    #[arg(long, conflicts_with = "no_default_mode")]
    pub(crate) as_versions: bool,
    /// Keep temporary data in DIR
    ///
    /// The data of --as-versions takes as much space as the estimated repository. It has no name
    /// and is gone at the end, however the command ends. Without --as-versions and --html, no data is
    /// kept unless this option is given.
    #[arg(long, value_name = "DIR", conflicts_with = "no_default_mode")]
    pub(crate) scratch: Option<PathBuf>,
    /// Do not count what the default mode stores
    ///
    /// The data is then read only once.
    #[arg(long)]
    pub(crate) no_default_mode: bool,
    /// Keep only a sample of the fingerprints in memory
    ///
    /// The results then have confidence intervals.
    #[arg(long)]
    pub(crate) sample: bool,
    /// Use about SIZE of memory per configuration
    #[arg(long, value_name = "SIZE", value_parser = parse_large_size, default_value = "64M",
        requires = "sample")]
    pub(crate) sample_memory: u64,
    /// Select sample number N [default: 0]
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        requires = "sample",
        hide_default_value = true,
        value_parser = number(0..=u64::MAX)
    )]
    pub(crate) sample_seed: u64,
    /// Do not search for similar chunks
    #[arg(long)]
    pub(crate) no_bursts: bool,
    /// Do not compress
    #[arg(long)]
    pub(crate) no_compression: bool,
    /// Set the zstd level: -7 (fast) to 19 (small)
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = number(COMPRESSION_LEVEL))]
    pub(crate) compression_level: Option<i32>,
    /// Write a self-contained HTML page to FILE
    ///
    /// It also shows what takes the space in the default mode: a map by path, growth over the
    /// versions, and how much duplicates, delta encoding and compression save. For that, the data of the
    /// default mode is kept until the end as with --as-versions. The page has the names of folders and of
    /// large files in it.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}
