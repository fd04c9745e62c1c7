//! The option for the number of threads.

use clap::Args;

/// The number of threads of a command.
#[derive(Clone, Copy, Debug, Args)]
pub struct Threads {
    /// Use N threads [default: number of processors]
    #[arg(
        long = "threads",
        id = "threads",
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub count: usize,
}
