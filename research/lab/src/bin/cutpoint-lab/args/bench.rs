//! The arguments of the commands about chunking algorithms.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use cutpoint_terminal::units::parse_size;

/// Describe the chunking algorithms
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint-lab algorithms
      Lists all algorithms with their parameters.
  cutpoint-lab algorithms seqcdc
      Shows rule, source, parameters, short forms and dialects.
  cutpoint-lab algorithms --json")]
pub(crate) struct Algorithms {
    /// Algorithm to describe [default: list all]
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// Measure the speed of chunking algorithms
///
/// Each algorithm cuts the same memory at each level (instruction set) for which it has code and
/// which this CPU has. The cut-points are the same at every level, which is verified; only the
/// speed differs. All measurements take turns with each other and with a plain read of the memory.
/// Times are CPU time of one thread. A backup uses the fastest level automatically. Data that is
/// larger than the caches shows the limit of the memory; --size 1M shows that of the CPU.
///
/// The speed depends on the data: on the size of chunks, and on the number of bytes that an
/// algorithm may skip. Measure your own data with --file.
#[derive(Debug, ClapArgs)]
#[command(
    before_help = "\
Examples:
  cutpoint-lab bench
      Measures all algorithms, with chunks of 8 KiB of random data.
  cutpoint-lab bench --file disk.img -a seqcdc:avg=16k
  cutpoint-lab bench --average 64k --fingerprints \\
    --svg out.svg
  cutpoint-lab bench --level avx2 --level scalar --time 60",
    before_long_help = "\
Examples:
  cutpoint-lab bench
      Measures all algorithms, with chunks of 8 KiB of random data.
  cutpoint-lab bench --file disk.img -a seqcdc:avg=16k
  cutpoint-lab bench --average 64k --fingerprints \\
    --svg out.svg
  cutpoint-lab bench --level avx2 --level scalar --time 60
  cutpoint-lab bench --papers -a ram:avg=8k
      Adds VRAM, the vectorized form in its paper.
  cutpoint-lab bench --instructions
      Measures popcnt, pdep, compress and others, in nanoseconds."
)]
pub(crate) struct Bench {
    /// Measure this algorithm; repeatable
    ///
    /// SPEC is the name of an algorithm with its parameters, for example `seqcdc:avg=16k`. Without
    /// this option, all algorithms are measured that can have a mean of --average.
    #[arg(long = "algorithm", short, value_name = "SPEC", conflicts_with = "instructions")]
    pub(crate) algorithms: Vec<String>,
    /// Set the mean chunk size without --algorithm
    ///
    /// SIZE is the mean on random data.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "8k")]
    pub(crate) average: u32,
    /// Measure only this level; repeatable
    ///
    /// The levels are scalar, sse4.1, avx2, avx512 and avx512vbmi.
    #[arg(long = "level", value_name = "LEVEL", conflicts_with = "instructions")]
    pub(crate) levels: Vec<String>,
    /// Cut SIZE of data; of a file, at most SIZE
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256M")]
    pub(crate) size: u32,
    /// Generate this kind of data
    #[arg(long, value_enum, default_value = "random", conflicts_with = "file")]
    pub(crate) data: BenchData,
    /// Cut the content of FILE, read into memory before
    #[arg(long, value_name = "FILE", conflicts_with = "instructions")]
    pub(crate) file: Option<PathBuf>,
    /// Measure N rounds after one to warm up [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: Option<u32>,
    /// Measure for about SECONDS, but at least one round
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["rounds", "instructions"])]
    pub(crate) time: Option<u32>,
    /// Add the vectorized forms of the papers
    ///
    /// SS-CDC, VectorCDC and VSEQ are measured where they cut by the same spec.
    #[arg(long, conflicts_with = "instructions")]
    pub(crate) papers: bool,
    /// Add BLAKE3 of chunks of 8, 16 and 64 KiB
    #[arg(long, conflicts_with = "instructions")]
    pub(crate) fingerprints: bool,
    /// Measure single instructions instead
    ///
    /// These are instructions that search a mask or make one.
    #[arg(long)]
    pub(crate) instructions: bool,
    /// Write a chart to FILE
    #[arg(long, value_name = "FILE", conflicts_with = "instructions")]
    pub(crate) svg: Option<PathBuf>,
    /// Write a self-contained HTML page to FILE
    #[arg(long, value_name = "FILE", conflicts_with = "instructions")]
    pub(crate) html: Option<PathBuf>,
}

/// The data that `bench` generates.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum BenchData {
    /// Random bytes from a constant seed
    Random,
    /// Zeros
    Zeros,
    /// Words and punctuation
    Text,
}
