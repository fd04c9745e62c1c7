//! The arguments of the program and their help texts.

mod bench;
mod data;
mod help;
mod run;

use clap::{Args as ClapArgs, Parser, Subcommand};
use cutpoint_terminal::help::STYLES;
use cutpoint_terminal::report::Output;
use cutpoint_terminal::usage;

pub(crate) use self::bench::{Algorithms, Bench, BenchData};
pub(crate) use self::data::{Trace, Tune};
use self::help::Help;
pub(crate) use self::run::{Report, Run};
use crate::PROGRAM;

const EXAMPLES: &str = "\
Examples:
  cutpoint-lab algorithms seqcdc
  cutpoint-lab bench --file disk.img -a seqcdc:avg=16k
  cutpoint-lab tune ~/Documents
  cutpoint-lab run research/runs/papers.toml --data sets
  cutpoint-lab report lab-papers --html papers.html";

/// Measures chunking algorithms: their speed, their savings, and the claims of papers
#[derive(Debug, Parser)]
#[command(name = "cutpoint-lab", version, styles = STYLES, before_help = EXAMPLES,
    propagate_version = false, disable_help_subcommand = true)]
pub(crate) struct Args {
    /// The common options.
    #[command(flatten)]
    pub(crate) global: Global,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The options of every command.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Global {
    /// The output.
    #[command(flatten)]
    pub(crate) output: Output,
}

impl Args {
    /// Reads the arguments of this process. Also returns the name of the command. Prints help, or an error of usage (exit code 2), and
    /// ends the process where these are the answer.
    pub(crate) fn of_process() -> (Args, String) {
        usage::parse(&help::MANUAL, PROGRAM)
    }
}

/// A command. The documentation of its arguments is its help.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Algorithms(Algorithms),
    Bench(Bench),
    Trace(Trace),
    Tune(Tune),
    Run(Run),
    Report(Report),
    Help(Help),
}
