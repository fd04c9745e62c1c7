//! Failures of single entries.

use std::io;

use cutpoint_storage::Error;
use rustix::io::Errno;

/// The reason why an entry was not restored.
#[derive(Debug)]
pub(super) enum Failure {
    /// An error of the target.
    Target(io::Error),
    /// An error while reading the snapshot.
    Snapshot(Error),
    /// An existing entry that stays, or another reason without an error.
    Refused(&'static str),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Target(error)
    }
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Failure {
        Failure::Target(error.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Snapshot(error)
    }
}
