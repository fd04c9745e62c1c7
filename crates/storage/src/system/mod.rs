//! What Unix and Windows do in different ways, by the same functions on each.
//!
//! The program is not made for Windows, where no test runs: `docs/platforms.md` says what is missing.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::*;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::*;

/// The answer of the system to the question whether there is a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existence {
    /// There is such a process, whether or not this process may signal it.
    #[cfg_attr(windows, expect(dead_code, reason = "the system is not asked"))]
    Exists,
    /// There is no such process in this namespace.
    #[cfg_attr(windows, expect(dead_code, reason = "the system is not asked"))]
    Absent,
    /// The system did not answer.
    Unknown,
}
