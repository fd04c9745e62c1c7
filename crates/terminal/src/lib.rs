//! The common parts of Cutpoint's programs on the command line.
//!
//! [`Report`] prints results, messages and progress, for people or as JSON lines ([`event`]).
//! [`exit`] has the exit codes, [`interrupt`] handles Ctrl-C, [`remedy`] names the next step after a
//! failure, [`usage`] reads arguments, [`units`] formats sizes and times, [`escape`] makes names safe for a terminal, and
//! [`page`] makes HTML pages. [`help`] lays out help texts. [`scan`] has the options and messages
//! of the commands that read files without storing them, and [`Exclusion`] the options that exclude
//! files.
//!
//! ```
//! use cutpoint_terminal::units;
//!
//! assert_eq!(units::parse_size("16MiB"), Ok(16 << 20));
//! assert_eq!(units::size(16 << 20), "16.0 MiB");
//! ```
#![forbid(unsafe_code)]

pub mod escape;
pub mod event;
mod exclusion;
pub mod exit;
pub mod help;
pub mod interrupt;
mod message_kinds;
mod output_file;
pub mod page;
pub mod remedy;
pub mod report;
pub mod scan;
mod threads;
pub mod units;
pub mod usage;
mod work;

pub use exclusion::{Exclusion, check_pattern};
pub use output_file::OutputFile;
pub use report::Report;
pub use threads::Threads;
pub use work::{Work, WorkSum};
