//! What can be asked of the verbs that look at data before anything is stored.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::units::parse_large_size;

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
    /// Leave out what matches; can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Leave out what matches a line of this file; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) exclude_file: Vec<PathBuf>,
    /// Leave out what is in folders with a CACHEDIR.TAG
    #[arg(long)]
    pub(crate) exclude_caches: bool,
    /// Do not go into other file systems
    #[arg(long, short = 'x')]
    pub(crate) one_file_system: bool,
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

Memory grows by 60 to 160 bytes for each chunk that is there once, of each configuration: some 300 MiB for
10 GB. --sample keeps a sample of the fingerprints instead, chosen by their values, so that memory has a
bound (--sample-memory for each configuration); it then says how sure it is, and knows nothing of bursts.
docs/estimate.md has the method, and how near it comes to real backups.

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
