//! The help of the program: groups of commands, and topics.
//!
//! Every text is wrapped by clap at the width of the terminal. A paragraph is therefore one line
//! here; only lists and examples have lines of their own, which fit into 60 columns.

#[cfg(test)]
mod tests;

use anyhow::Result;
use clap::{Args as _, CommandFactory};
use cutpoint_terminal::exit::Exit;
use cutpoint_terminal::help::{self, Manual, Topic};

use super::{Args, Global};

/// The help of the program.
pub(crate) const MANUAL: Manual = Manual {
    program: "cutpoint-lab",
    groups: &GROUPS,
    groups_in_short_help: GROUPS.len(),
    topics: &TOPICS,
    parser: Args::command,
    common_options: Global::augment_args,
};

/// The groups of commands, in the order of `cutpoint-lab --help`.
const GROUPS: [(&str, &[&str]); 3] = [
    ("Algorithms", &["algorithms", "bench"]),
    ("Your data", &["trace", "tune"]),
    ("Papers and data sets", &["run", "report"]),
];

/// The topics, in the order of `cutpoint-lab --help`.
const TOPICS: [Topic; 3] = [
    Topic {
        name: "options",
        about: "Options common to all commands",
        has_options: true,
        paragraphs: &[OPTIONS],
    },
    Topic {
        name: "patterns",
        about: "Patterns that exclude files",
        has_options: false,
        paragraphs: &[help::PATTERNS],
    },
    Topic {
        name: "exit-codes",
        about: "Exit codes and their meanings",
        has_options: false,
        paragraphs: &[EXIT_CODES],
    },
];

const OPTIONS: &str = "\
SIZE is a number of bytes, with an optional unit: k, M, G or T (powers of 1024), for example 128k \
or 16MiB.";

const EXIT_CODES: &str = "\
Exit codes:
    0  success
    1  done, but problems were reported
    2  failed: usage, permissions, I/O, or another reason
   14  a disk is full
  130  interrupted by a signal

Code 1 stands for files that could not be read. Everything else was done.";

/// Print help for a command or a topic
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  cutpoint-lab help bench
  cutpoint-lab help options")]
pub(crate) struct Help {
    /// Command or topic [default: an overview]
    #[arg(value_name = "COMMAND|TOPIC")]
    names: Vec<String>,
}

impl Help {
    /// Prints the page.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Manual::print`].
    pub(crate) fn print(&self) -> Result<Exit> {
        MANUAL.print(&self.names)
    }
}
