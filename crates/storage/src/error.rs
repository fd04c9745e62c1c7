//! The error type of the store.

use std::fmt;

/// The class of an [`Error`], by the action it leaves to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Bytes that were read back differ from those that were written. `check --read-data` finds all
    /// of them.
    Corrupt,
    /// An object or chunk that must exist does not. Listing again and retrying has been done
    /// already.
    Missing,
    /// The request makes no sense, and can only be replaced by a different one.
    Invalid,
    /// The object was written by a newer version, or needs a feature that this version lacks.
    Unsupported,
    /// The passphrase or key does not open this repository.
    WrongKey,
    /// A change by another client made the operation impossible. Starting it again may work.
    Conflict,
    /// The storage failed or refused the request. Trying again later may work.
    Storage,
    /// The storage is full.
    Full,
    /// The results of this machine are wrong: data that was compressed or sealed a moment ago does
    /// not come back unchanged. Nothing that is stored is damaged by this error, or known to be
    /// damaged.
    Machine,
    /// The caller asked to stop.
    Interrupted,
}

/// An error about an object, with a message that says what is wrong with it.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    object: String,
    message: String,
    remedy: Option<&'static str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The result of a store operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error of `kind` about `object`.
    pub fn new(kind: Kind, object: impl fmt::Display, message: impl fmt::Display) -> Error {
        Error {
            kind,
            object: object.to_string(),
            message: message.to_string(),
            remedy: None,
            source: None,
        }
    }

    /// Creates a [`Kind::Corrupt`] error: bytes of `object` differ from those that were written.
    pub fn corrupt(object: impl fmt::Display, message: impl fmt::Display) -> Error {
        Error::new(Kind::Corrupt, object, message)
    }

    /// Creates a [`Kind::Missing`] error: `object` should exist, and does not.
    pub fn missing(object: impl fmt::Display, message: impl fmt::Display) -> Error {
        Error::new(Kind::Missing, object, message)
    }

    /// Creates a [`Kind::Invalid`] error: the request makes no sense.
    pub fn invalid(object: impl fmt::Display, message: impl fmt::Display) -> Error {
        Error::new(Kind::Invalid, object, message)
    }

    /// Adds a remedy that is known at this place and does not follow from the kind.
    #[must_use]
    pub fn with_remedy(mut self, remedy: &'static str) -> Error {
        self.remedy = Some(remedy);
        self
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        self.source = Some(source.into());
        self
    }

    /// Prefixes the object of this error with `object`, for decoders that do not know which object
    /// they decode.
    #[must_use]
    pub fn of(mut self, object: impl fmt::Display) -> Error {
        if self.object.is_empty() {
            self.object = object.to_string();
        } else {
            self.object = format!("{object}: {}", self.object);
        }
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the remedy, if there is one that does not follow from the kind.
    pub fn remedy(&self) -> Option<&'static str> {
        self.remedy
    }

    /// Converts this error into that of a put. An object that is about to be stored can be neither
    /// damaged nor missing, so that `Corrupt` and `Missing` (a staged file or a folder that another
    /// client has removed) become `Storage`. Every other kind stays.
    #[must_use]
    pub fn of_put(self) -> Error {
        if self.is_loss() { Error { kind: Kind::Storage, ..self } } else { self }
    }

    /// Returns `true` if data is damaged or gone: trying again does not help, but going on without
    /// that data may.
    pub fn is_loss(&self) -> bool {
        matches!(self.kind, Kind::Corrupt | Kind::Missing)
    }

    /// Returns the object that the error is about; may be empty.
    pub fn object(&self) -> &str {
        &self.object
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.object.is_empty() {
            write!(f, "{}", self.message)
        } else {
            write!(f, "{}: {}", self.object, self.message)
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_of_a_put_is_no_loss() {
        for kind in [Kind::Missing, Kind::Corrupt, Kind::Storage] {
            let error = Error::new(kind, "data/00/x", "as the test has it").of_put();
            assert_eq!(error.kind(), Kind::Storage, "{kind:?}");
        }
        let full = Error::new(Kind::Full, "data/00/x", "no space left").of_put();
        assert_eq!(full.kind(), Kind::Full);
    }
}
