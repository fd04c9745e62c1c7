//! The files of a scan: the walk that finds them, and their bytes, by the same names on each system.
//!
//! The module `unix` has the files of a backup. The module `portable` does with the standard library alone,
//! on Windows, for which `cutpoint-backup` does not compile.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::*;

#[cfg(windows)]
mod portable;
#[cfg(windows)]
pub use portable::*;

// Tests of Unix compare both.
#[cfg(all(test, unix))]
#[allow(dead_code, unreachable_pub, reason = "what has no counterpart to compare with")]
mod portable;
#[cfg(all(test, unix))]
mod tests;
