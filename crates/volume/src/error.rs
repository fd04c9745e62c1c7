//! The error of this crate.

use std::io;

/// The class of an [`Error`], by the possible reaction of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// An argument is out of range.
    Invalid,
    /// Stored bytes are not those that were written.
    Corrupt,
    /// There is no volume in the folder.
    Missing,
    /// The folder is not empty.
    Exists,
    /// Another process uses the volume.
    InUse,
    /// The volume is encrypted, and the passphrase is missing or wrong.
    Locked,
    /// The storage below the volume is full.
    Full,
    /// The volume was opened for reading.
    ReadOnly,
    /// A newer version has written the volume.
    Unsupported,
    /// The system has refused an operation.
    Io,
}

/// An error: the object, the problem, and the error of the system, if there is one.
#[derive(Debug, thiserror::Error)]
#[error("{object}: {problem}")]
pub struct Error {
    kind: Kind,
    object: String,
    problem: String,
    source: Option<io::Error>,
}

impl Error {
    /// Creates an error without a cause.
    pub(crate) fn new(kind: Kind, object: impl Into<String>, problem: impl Into<String>) -> Error {
        Error { kind, object: object.into(), problem: problem.into(), source: None }
    }

    /// Creates the error that somebody else uses an object.
    #[must_use]
    pub fn in_use(object: &str, problem: &str) -> Error {
        Error::new(Kind::InUse, object, problem)
    }

    /// Creates the error of an operation on a file, whose class follows from `source`.
    #[must_use]
    pub fn io(object: impl Into<String>, problem: &str, source: io::Error) -> Error {
        let kind = match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Kind::Full,
            io::ErrorKind::WouldBlock => Kind::InUse,
            io::ErrorKind::UnexpectedEof => Kind::Corrupt,
            _ => Kind::Io,
        };
        let problem = format!("{problem}: {source}");
        Error { kind, object: object.into(), problem, source: Some(source) }
    }

    /// Returns the class of the error.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the name of the object: a file of the volume, a block, or an argument.
    #[must_use]
    pub fn object(&self) -> &str {
        &self.object
    }

    /// Returns the problem without the object.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;
