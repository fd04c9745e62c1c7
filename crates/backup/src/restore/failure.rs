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

impl Failure {
    /// Returns `true` if the target is full.
    pub(super) fn is_full(&self) -> bool {
        let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(self, Failure::Target(error) if kinds.contains(&error.kind()))
    }
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
