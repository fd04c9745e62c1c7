//! The arguments of the commands about definitions: `run` and `report`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Measure algorithms on data sets
///
/// A definition (TOML) names data sets, algorithms and metrics; the folder research/runs has two.
/// Rows are appended to results.csv in the folder of the results while they are measured, and
/// written to results.parquet at the end. The same command continues an interrupted run; existing
/// rows are not measured again.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint-lab run research/runs/papers.toml --data sets
  duckdb -c \"from 'lab-papers/results.parquet'\"")]
pub(crate) struct Run {
    /// Definition file (TOML)
    #[arg(value_name = "DEFINITION")]
    pub(crate) definition: PathBuf,
    /// Search data sets in FOLDER
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) data: PathBuf,
    /// Write results to this folder [default: lab-NAME for a definition NAME]
    ///
    /// The folder is created if it does not exist.
    #[arg(long, value_name = "RESULTS")]
    pub(crate) out: Option<PathBuf>,
}

/// Make a page of results and claims of papers
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint-lab report lab-papers --html papers.html
      Writes a self-contained page.")]
pub(crate) struct Report {
    /// Folders of results, or files of rows
    ///
    /// Rows of several machines make one page. Each row names its
    /// machine and its commit. The definition is that of the first
    /// folder.
    #[arg(value_name = "RESULTS", required = true)]
    pub(crate) results: Vec<PathBuf>,
    /// Write the page to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) html: PathBuf,
    /// Write the claims and verdicts to FILE, as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Leave claims out of the Markdown whose rows are missing
    #[arg(long, requires = "markdown")]
    pub(crate) with_rows: bool,
}
