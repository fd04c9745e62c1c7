//! The arguments of the commands that analyze the data of a user: `trace` and `tune`.

use std::num::NonZero;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use cutpoint_chunking::algorithms;
use cutpoint_estimate::DEFAULT_SPECS;
use cutpoint_terminal::scan::{Choice, Data};
use cutpoint_terminal::units::{parse_large_size, parse_size};

/// Write the chunks of files as a table
///
/// The table has a row for each chunk: path_id, offset and length (64 bits each), fingerprint (16
/// bytes of BLAKE3) and flags (1: all bytes are zero, 2: the last chunk before a hole or the end of
/// its file, 4: the first chunk of its file or behind a hole). The format is Parquet or CSV, by the extension of FILE. The queries of
/// research/lab/sql count such tables with DuckDB; pandas, Polars and Spark can read them.
/// Memory does not grow with the data.
///
/// --shard 2/8 reads the second of eight parts, which can run on several machines. Files larger
/// than --range-size are divided among the parts: each range is cut from somewhat before its
/// beginning, so that the cut-points are mostly those of one pass. --read reports the seams at which
/// they are not, as in long runs of equal bytes. --join repairs these seams, for which it reads the
/// files again where needed, and writes one trace with the chunks of one pass.
///
/// Equal fingerprints reveal equal data. --fingerprint-key makes them depend on a key: traces with
/// the same key can be counted together, and reveal nothing without the key.
///
/// --read counts traces, including those of fs-hasher (versions 1 to 7, as published by FSL).
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint-lab trace /srv -o srv.parquet -a fastcdc:avg=16k
  cutpoint-lab trace /srv -o part2.parquet --shard 2/8
  cutpoint-lab trace --read part*.parquet
  cutpoint-lab trace /srv -o srv.csv --join part*.parquet
  duckdb -c \"SET VARIABLE traces = 'part*.parquet'\" \\
    -f research/lab/sql/savings.sql")]
pub(crate) struct Trace {
    /// Files and folders to read
    #[arg(value_name = "PATH", required_unless_present = "read", conflicts_with = "read")]
    pub(crate) paths: Vec<PathBuf>,
    /// The files that are excluded, and the number of threads.
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// Write the trace to FILE (.parquet or .csv)
    #[arg(
        long,
        short,
        value_name = "FILE",
        required_unless_present = "read",
        conflicts_with = "read"
    )]
    pub(crate) output: Option<PathBuf>,
    /// Cut with this algorithm and parameters
    ///
    /// SPEC is the name of an algorithm with its parameters, for example `seqcdc:avg=16k`.
    #[arg(long, short, value_name = "SPEC", default_value = DEFAULT_SPECS[0])]
    pub(crate) algorithm: String,
    /// Read only part I of N, for example 2/8
    #[arg(long, value_name = "I/N", value_parser = parse_shard)]
    pub(crate) shard: Option<(u32, NonZero<u32>)>,
    /// Divide files into ranges of SIZE, the same for all parts
    #[arg(long, value_name = "SIZE", value_parser = parse_range_size, default_value = "64M",
        requires = "shard")]
    pub(crate) range_size: NonZero<u64>,
    /// Join these traces, all parts of PATH, and repair their seams
    ///
    /// Paths, algorithm and key must be those of the parts.
    #[arg(long, value_name = "TRACE", num_args = 1.., requires = "output",
        conflicts_with_all = ["read", "shard", "paths_output"])]
    pub(crate) join: Vec<PathBuf>,
    /// Write the path of each path_id to FILE, as CSV
    #[arg(long = "paths", value_name = "FILE", requires = "output")]
    pub(crate) paths_output: Option<PathBuf>,
    /// Key the fingerprints with the content of FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) fingerprint_key: Option<PathBuf>,
    /// Count the chunks of these traces together
    #[arg(long, value_name = "TRACE", num_args = 1..)]
    pub(crate) read: Vec<PathBuf>,
}

/// Parses the number of a part, beginning with 1, and the number of parts.
fn parse_shard(text: &str) -> Result<(u32, NonZero<u32>), String> {
    let wrong = || format!("`{text}` is no part; it should be like 2/8");
    let (number, count) = text.split_once('/').ok_or_else(wrong)?;
    let (number, count): (u32, u32) =
        (number.parse().map_err(|_| wrong())?, count.parse().map_err(|_| wrong())?);
    match NonZero::new(count).filter(|_| (1..=count).contains(&number)) {
        Some(count) => Ok((number - 1, count)),
        None => Err(format!("`{text}`: parts count from 1 to {count}")),
    }
}

fn parse_range_size(text: &str) -> Result<NonZero<u64>, String> {
    NonZero::new(parse_large_size(text)?).ok_or_else(|| "must not be 0".to_owned())
}

fn algorithm_names() -> PossibleValuesParser {
    algorithms().iter().map(|about| about.name).collect::<Vec<_>>().into()
}

/// Find chunking parameters for given data
///
/// Follows the procedure of the SeqCDC papers for every algorithm: first on random data, then on
/// the given data. The command tries a few combinations of the parameters of each algorithm
/// (windows, levels, minimum and maximum sizes; docs/estimate.md lists them), and finds one more
/// parameter so that all have the same mean on random data: by the formula of the algorithm, else
/// by simulation. These combinations, the result of `avg=`, and the rows of Table I of the papers
/// then cut a sample of the data.
///
/// The results are ranked by their savings, metadata included, and by their speed. A `*` marks
/// those that no other with this mean beats in both. The best of each algorithm is printed below,
/// beside Table I.
///
/// The sample is held in memory (--sample-size). It consists of files that are selected by their
/// names, so that versions of a file in several folders are in it together.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint-lab tune ~/Documents
  cutpoint-lab tune /srv --sample-size 1G --html tune.html
  cutpoint-lab tune /srv -a gear,fastcdc,rabin --average 64k
  cutpoint init --cut seqcdc:mode=inc,length=5,...
      Uses a result.")]
pub(crate) struct Tune {
    /// The data to read.
    #[command(flatten)]
    pub(crate) data: Data,
    /// Try only these algorithms
    ///
    /// Without this option, all algorithms are tried except those that learn from data, whose
    /// cut-points cannot be secret.
    #[arg(long = "algorithms", short, alias = "algorithm", value_name = "NAME,...",
        value_delimiter = ',', value_parser = algorithm_names())]
    pub(crate) algorithms: Vec<String>,
    /// Set the mean chunk size on random data
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "16k")]
    pub(crate) average: u32,
    /// Use a sample of at most SIZE
    #[arg(long, value_name = "SIZE", value_parser = parse_large_size, default_value = "256M")]
    pub(crate) sample_size: u64,
    /// Show N results besides the best; --json has all
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// Write a self-contained HTML page to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}
