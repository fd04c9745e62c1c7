//! The error of this crate.

use std::io;

/// The class of an [`Error`], by the possible reaction of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The arguments do not fit the image.
    Invalid,
    /// The image is based on a backing file that the caller has not named.
    NeedsBacking,
    /// The image has another format, or uses a feature of its format that this crate cannot read.
    Unsupported,
    /// The image is truncated or damaged.
    Corrupt,
    /// The system has refused an operation.
    Io,
}

/// An error: the name of the image, and the problem.
#[derive(Debug, thiserror::Error)]
#[error("{object}: {problem}")]
pub struct Error {
    kind: Kind,
    object: String,
    problem: String,
}

impl Error {
    /// Creates an error about the image `object`.
    pub(crate) fn new(kind: Kind, object: &str, problem: impl Into<String>) -> Error {
        Error { kind, object: object.to_owned(), problem: problem.into() }
    }

    /// Creates the error of an operation of the system.
    pub(crate) fn io(object: &str, error: &io::Error) -> Error {
        Error::new(Kind::Io, object, error.to_string())
    }

    /// Returns the class of the error.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the problem without the name of the image.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;
