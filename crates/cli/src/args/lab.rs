//! What can be asked of the lab.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

/// `lab`.
#[derive(Debug, ClapArgs)]
#[command(
    subcommand_required = true,
    after_help = "\
A definition (TOML) names data sets, algorithms, and what is measured of them; research/runs has two. Rows go
to RESULTS/results.csv as they come, and to results.parquet in the end. A run that was interrupted goes
on where it stopped, by the same command: what is there already is not measured again.

Examples:
  cutpoint lab run research/runs/papers.toml --data /mnt/sets --out papers
  cutpoint lab report papers --html papers.html   one page, which opens without a network
  duckdb -c \"select algorithm, target, value from 'papers/results.parquet' where metric = 'mean'\""
)]
pub(crate) struct Lab {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: LabVerb,
}

/// What to do in the lab.
#[derive(Debug, Subcommand)]
pub(crate) enum LabVerb {
    /// Measure what a definition asks for
    Run(LabRun),
    /// Make a page of results, beside what papers say
    Report(LabReport),
}

/// `lab run`.
#[derive(Debug, ClapArgs)]
pub(crate) struct LabRun {
    /// The definition
    #[arg(value_name = "DEFINITION")]
    pub(crate) definition: PathBuf,
    /// The folder that the paths of data sets begin in
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) data: PathBuf,
    /// The folder of the results, made where there is none; without, lab-NAME for a definition NAME
    #[arg(long, value_name = "RESULTS")]
    pub(crate) out: Option<PathBuf>,
}

/// `lab report`.
#[derive(Debug, ClapArgs)]
pub(crate) struct LabReport {
    /// The folder of the results, or a file of rows
    #[arg(value_name = "RESULTS")]
    pub(crate) results: PathBuf,
    /// Write the page to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: PathBuf,
    /// Write what papers say and the verdicts to this file, too, as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
}
