//! The option for the number of threads.

use crate::units;
use clap::Args;

/// The number of threads of a command.
#[derive(Clone, Copy, Debug, Args)]
pub struct Threads {
    /// Use N threads [default: number of processors]
    #[arg(long = "threads", id = "threads", value_name = "N", value_parser = units::parse_threads)]
    count: Option<usize>,
}

impl Threads {
    /// Returns the number of threads; 0 for the number of processors.
    pub fn count(&self) -> usize {
        self.count.unwrap_or_default()
    }
}
