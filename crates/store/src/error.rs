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
    Media,
    /// The storage is full.
    Full,
    /// The results of this machine are wrong: data that was compressed or sealed a moment ago does
    /// not come back unchanged. Nothing that is stored is damaged by this error, or known to be
    /// damaged.
    Machine,
    /// The caller asked to stop.
    Interrupted,
}

/// Maximum number of objects that may fail to be read before the storage itself counts as failed.
const MEDIA_FAILURES_MAX: u32 = 16;

/// Decides whether a failure concerns one object, as a bad sector does, or the whole run, as a lost
/// connection does.
#[derive(Debug, Default)]
pub(crate) struct Tolerance {
    media_failures: u32,
}

impl Tolerance {
    /// Returns `error`, a failure to read an object, if it concerns only that object.
    ///
    /// # Errors
    ///
    /// Returns `error` as the failure of the whole run if the caller asked to stop, a storage is
    /// full, this machine computes wrong results, another client's change has ended the run, or the
    /// storage has failed for more than [`MEDIA_FAILURES_MAX`] objects.
    pub(crate) fn of_one(&mut self, error: Error) -> Result<Error> {
        match error.kind {
            Kind::Interrupted | Kind::Full | Kind::Conflict | Kind::Machine => return Err(error),
            Kind::Media => self.media_failures += 1,
            _ => {}
        }
        if self.media_failures > MEDIA_FAILURES_MAX { Err(error) } else { Ok(error) }
    }
}

/// The source of an error about an object whose header claims to be newer than the program or the
/// available keys. Headers are not authenticated, so that anyone who can write to the storage can
/// plant such an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newer {
    /// The object is sealed with a key of this epoch, which is newer than those of the available
    /// keys.
    Epoch(u32),
    /// The object has this version of the format.
    Format(u8),
    /// The object is sealed with the cipher suite of this code.
    Suite(u8),
}

impl fmt::Display for Newer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Newer::Epoch(epoch) => write!(f, "key epoch {epoch}"),
            Newer::Suite(code) => write!(f, "suite {code}"),
            Newer::Format(version) => write!(f, "version {version} of the format"),
        }
    }
}

impl std::error::Error for Newer {}

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
    pub(crate) fn with_remedy(mut self, remedy: &'static str) -> Error {
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
    /// client has removed) become `Media`. Every other kind stays.
    #[must_use]
    pub(crate) fn of_put(self) -> Error {
        if self.is_loss() { Error { kind: Kind::Media, ..self } } else { self }
    }

    /// Returns `true` if data is damaged or gone: trying again does not help, but going on without
    /// that data may.
    pub fn is_loss(&self) -> bool {
        matches!(self.kind, Kind::Corrupt | Kind::Missing)
    }

    /// Returns the claim in the object's header that is newer than the program or the available
    /// keys, if that is the cause.
    pub fn newer(&self) -> Option<Newer> {
        self.source.as_deref()?.downcast_ref().copied()
    }

    /// Returns `true` if the object claims a key epoch newer than those of the available keys.
    pub fn is_of_newer_epoch(&self) -> bool {
        matches!(self.newer(), Some(Newer::Epoch(_)))
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
    fn errors_not_caused_by_one_object_are_not_tolerated() {
        let error = |kind| Error::new(kind, "data/00/x", "as the test has it");
        for kind in [Kind::Interrupted, Kind::Full, Kind::Conflict, Kind::Machine] {
            let returned = Tolerance::default().of_one(error(kind)).expect_err("it ends the run");
            assert_eq!(returned.kind(), kind);
        }
        let mut tolerance = Tolerance::default();
        for _ in 0..100 {
            tolerance.of_one(error(Kind::Corrupt)).expect("one object's");
        }
        for _ in 0..MEDIA_FAILURES_MAX {
            tolerance.of_one(error(Kind::Media)).expect("a bad sector");
        }
        tolerance.of_one(error(Kind::Media)).expect_err("the storage has failed");
    }

    #[test]
    fn error_of_a_put_is_no_loss() {
        for kind in [Kind::Missing, Kind::Corrupt, Kind::Media] {
            let error = Error::new(kind, "data/00/x", "as the test has it").of_put();
            assert_eq!(error.kind(), Kind::Media, "{kind:?}");
        }
        let full = Error::new(Kind::Full, "data/00/x", "no space left").of_put();
        assert_eq!(full.kind(), Kind::Full);
    }
}
