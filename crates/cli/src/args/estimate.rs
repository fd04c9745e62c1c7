//! What can be asked of the verbs that look at data before anything is stored.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use cutpoint_chunking::algorithms;

use super::Exclusion;
use crate::defaults::DEFAULT_CUT;
use crate::units::{parse_large_size, parse_size};

/// What is read.
#[derive(Debug, ClapArgs)]
pub(crate) struct Data {
    /// Files and folders to read
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// What is left out of them.
    #[command(flatten)]
    pub(crate) choice: Choice,
}

/// What is left out, as of a backup.
#[derive(Debug, ClapArgs)]
pub(crate) struct Choice {
    /// What is left out.
    #[command(flatten)]
    pub(crate) exclusion: Exclusion,
    /// How many threads cut and compress; else as many as there are processors
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) threads: usize,
}

/// `estimate`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Reads the data once and writes nothing; needs no repository and no secret. Each configuration is a way to
cut: `dedup` is what remains when each chunk counts once, `bursts` what remains if of chunks that resemble
others only the new part counts, `stored` what a repository would take: compressed, with all its metadata.
What resembles others is read a second time.

Memory grows by 60 to 160 bytes for each chunk that is there once, of each configuration: some 500 MiB for
10 GB, 850 MiB where all files are small. --sample keeps a sample of the fingerprints instead, chosen by their
values, so that memory has a bound (--sample-memory for each configuration); it then says how sure it is, and
knows nothing of bursts. docs/estimate.md has the method, and how near it comes to real backups.

Ctrl-C ends the reading, and what was found so far is printed (exit code 130).

Examples:
  cutpoint estimate ~/Documents
  cutpoint estimate /srv --sample --exclude '*.iso'       more than memory can keep
  cutpoint estimate disk.img -a fastcdc:avg=16k -a seqcdc:avg=64k --html estimate.html
  cutpoint estimate /srv --json | jq 'select(.type == \"estimate\") | [.spec, .space_savings]'")]
pub(crate) struct Estimate {
    /// What is read.
    #[command(flatten)]
    pub(crate) data: Data,
    /// An algorithm with its parameters, for example `seqcdc:avg=16k`; can be repeated. Without, a few
    /// that make sense, that of new repositories first
    #[arg(long = "algorithm", short, value_name = "SPEC")]
    pub(crate) algorithms: Vec<String>,
    /// Keep a sample of the fingerprints only, and say how sure the figures are
    #[arg(long)]
    pub(crate) sample: bool,
    /// How much memory the sample of a configuration may take, about
    #[arg(long, value_name = "SIZE", value_parser = parse_large_size, default_value = "64M",
        requires = "sample")]
    pub(crate) sample_memory: u64,
    /// Another number takes another sample
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        requires = "sample",
        hide_default_value = true
    )]
    pub(crate) sample_seed: u64,
    /// Do not look for chunks that resemble others
    #[arg(long)]
    pub(crate) no_bursts: bool,
    /// Do not compress
    #[arg(long)]
    pub(crate) no_compression: bool,
    /// The zstd level
    #[arg(long, value_name = "LEVEL", allow_negative_numbers = true,
        value_parser = clap::value_parser!(i32).range(-7..=19))]
    pub(crate) compression_level: Option<i32>,
    /// Write a page with a chart and all numbers to this file; it needs no other
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// `trace`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Writes a row for each chunk: path_id, offset, length (64 bits each), fingerprint (16 bytes of BLAKE3) and
flags (1: all bytes are zero, 2: the last chunk before a hole or the end of its file), as Parquet or CSV, by
the end of FILE's name. The queries of crates/estimate/sql count them with DuckDB; pandas, Polars and Spark read
them as well. Memory does not grow with the data.

--shard 2/8 reads the second of eight parts: whoever runs all eight, on one machine or several, has each file
in one trace. Which part a file is in, its path decides, or its inode where it has several names.

Fingerprints tell who has the same data. --fingerprint-key keys them: traces with the same key can be counted
together, and tell nothing to those without it.

--read counts traces, and those that fs-hasher has written (versions 1 to 7, as FSL publishes them).

Examples:
  cutpoint trace /srv -o srv.parquet -a fastcdc:avg=16k
  cutpoint trace /srv -o srv-2.parquet --shard 2/8 --paths srv-2.csv
  cutpoint trace --read srv-*.parquet
  duckdb -c \"SET VARIABLE traces = 'srv-*.parquet'\" -f crates/estimate/sql/savings.sql")]
pub(crate) struct Trace {
    /// Files and folders to read
    #[arg(value_name = "PATH", required_unless_present = "read", conflicts_with = "read")]
    pub(crate) paths: Vec<PathBuf>,
    /// What is left out of them.
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// Where the trace goes: a file that ends in .parquet or .csv
    #[arg(
        long,
        short,
        value_name = "FILE",
        required_unless_present = "read",
        conflicts_with = "read"
    )]
    pub(crate) output: Option<PathBuf>,
    /// The algorithm with its parameters, for example `seqcdc:avg=16k`
    #[arg(long, short, value_name = "SPEC", default_value = DEFAULT_CUT)]
    pub(crate) algorithm: String,
    /// Read one of so many parts only, for example 2/8
    #[arg(long, value_name = "I/N", value_parser = parse_shard)]
    pub(crate) shard: Option<(u32, u32)>,
    /// Write the path of each path_id to this file, as CSV
    #[arg(long = "paths", value_name = "FILE", requires = "output")]
    pub(crate) paths_output: Option<PathBuf>,
    /// Key fingerprints with the content of this file
    #[arg(long, value_name = "FILE")]
    pub(crate) fingerprint_key: Option<PathBuf>,
    /// Count what is in these traces, together
    #[arg(long, value_name = "TRACE", num_args = 1..)]
    pub(crate) read: Vec<PathBuf>,
}

/// Reads the number of a part, from 1 on, and how many there are.
fn parse_shard(text: &str) -> Result<(u32, u32), String> {
    let wrong = || format!("`{text}` is no part; it should be like 2/8");
    let (number, count) = text.split_once('/').ok_or_else(wrong)?;
    let (number, count): (u32, u32) =
        (number.parse().map_err(|_| wrong())?, count.parse().map_err(|_| wrong())?);
    match (1..=count).contains(&number) {
        true => Ok((number - 1, count)),
        false => Err(format!("`{text}`: parts count from 1 to {count}")),
    }
}

fn algorithm_names() -> PossibleValuesParser {
    algorithms().iter().map(|about| about.name).collect::<Vec<_>>().into()
}

/// `tune`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The procedure of the SeqCDC papers, for every algorithm: random data first, then yours. Of each algorithm a
few combinations of its own parameters are taken (windows, levels, smallest and largest sizes; `docs/estimate.md`
lists them), and one more number is found by which all have the same mean on random data: by the
algorithm's formula, else by simulation. These, what `avg=` gives, and the rows of the papers' Table I cut a
sample of your data. They are ranked by what they save when metadata is counted, and by speed; a `*` marks
those that nothing else with this mean beats in both. Below, the best of each algorithm stands beside
Table I.

The sample is held in memory (--sample-size). It is made of files chosen by their names, so that versions
of a file in several folders are in it together.

Examples:
  cutpoint tune ~/Documents
  cutpoint tune /srv --average 64k --sample-size 1G --html tune.html
  cutpoint tune /srv -a gear,fastcdc,rabin                only these, and Table I
  cutpoint init --cut seqcdc:mode=inc,length=5,...     with what it prints")]
pub(crate) struct Tune {
    /// What is read.
    #[command(flatten)]
    pub(crate) data: Data,
    /// The algorithms that are tried, by name; without, all but those that learn from data, whose
    /// cut-points cannot be secret
    #[arg(long = "algorithms", short, alias = "algorithm", value_name = "NAME,...",
        value_delimiter = ',', value_parser = algorithm_names())]
    pub(crate) algorithms: Vec<String>,
    /// The mean chunk size that is wanted, on random data
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "16k")]
    pub(crate) average: u32,
    /// How much of the data is looked at, at most
    #[arg(long, value_name = "SIZE", value_parser = parse_large_size, default_value = "256M")]
    pub(crate) sample_size: u64,
    /// How many are shown that are not among the best; --json has all
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// Write a page with a chart and all numbers to this file; it needs no other
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}
