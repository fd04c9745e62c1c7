//! The one error type of the store.

use std::fmt;

/// What a caller can do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Bytes that were read back are not what was written. `check --read-data` finds all of them.
    Corrupt,
    /// Something that must exist does not. Listing again and retrying has been done already.
    Missing,
    /// What was asked for makes no sense; the caller has to ask for something else.
    Invalid,
    /// Written by a newer version, or needs a feature that this version lacks.
    Unsupported,
    /// The passphrase or key does not open this repository.
    WrongKey,
    /// What another client did made this impossible; trying again from the start may work.
    Conflict,
    /// The storage failed or refused. Trying again later may work.
    Media,
    /// The storage is full.
    Full,
    /// This machine does not compute what it should: what was compressed or sealed a moment ago does
    /// not come back as it was. Nothing that is stored is damaged by that, nor known to be.
    Machine,
    /// The caller asked to stop.
    Interrupted,
}

/// So many objects may fail to be read before the storage itself is what fails.
const MEDIA_FAILURES_MAX: u32 = 16;

/// What one object's failure means for the others: a bad sector is one object's, a connection that
/// is gone is everybody's.
#[derive(Debug, Default)]
pub(crate) struct Tolerance {
    media_failures: u32,
}

impl Tolerance {
    /// Returns `error`, which reading has caused, where it is about one object.
    ///
    /// # Errors
    ///
    /// `error` where it is about more: the caller asked to stop, a storage or this machine does not do
    /// what it should, what another client did has ended the run, or the storage has failed for the
    /// seventeenth object.
    pub(crate) fn of_one(&mut self, error: Error) -> Result<Error> {
        match error.kind {
            Kind::Interrupted | Kind::Full | Kind::Conflict | Kind::Machine => return Err(error),
            Kind::Media => self.media_failures += 1,
            _ => {}
        }
        if self.media_failures > MEDIA_FAILURES_MAX { Err(error) } else { Ok(error) }
    }
}

/// The source of an error about an object whose header says that it is newer than what the program and
/// the keys at hand know. Headers are not authenticated: anyone who can write to the storage can
/// plant such an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newer {
    /// It is sealed with a key of this epoch, which is above those of the keys.
    Epoch(u32),
    /// It is of this version of the format.
    Format(u8),
    /// It is sealed with the suite of this code.
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

/// An error that names the object it is about, and what was found there.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    object: String,
    message: String,
    remedy: Option<&'static str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The result of what the store does.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` about `object`.
    pub fn new(kind: Kind, object: impl fmt::Display, message: impl fmt::Display) -> Error {
        Error {
            kind,
            object: object.to_string(),
            message: message.to_string(),
            remedy: None,
            source: None,
        }
    }

    /// Bytes of `object` are not what was written.
    pub fn corrupt(object: impl fmt::Display, message: impl fmt::Display) -> Error {
        Error::new(Kind::Corrupt, object, message)
    }

    /// `object` should exist, and does not.
    pub fn missing(object: impl fmt::Display, message: impl fmt::Display) -> Error {
        Error::new(Kind::Missing, object, message)
    }

    /// The request makes no sense.
    pub fn invalid(object: impl fmt::Display, message: impl fmt::Display) -> Error {
        Error::new(Kind::Invalid, object, message)
    }

    /// Names what helps, where that is known here and does not follow from the kind.
    #[must_use]
    pub(crate) fn with_remedy(mut self, remedy: &'static str) -> Error {
        self.remedy = Some(remedy);
        self
    }

    /// Adds what caused this error.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        self.source = Some(source.into());
        self
    }

    /// Names the object where the decoder that failed did not know it.
    #[must_use]
    pub fn of(mut self, object: impl fmt::Display) -> Error {
        if self.object.is_empty() {
            self.object = object.to_string();
        } else {
            self.object = format!("{object}: {}", self.object);
        }
        self
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What helps, where that does not follow from the kind.
    pub fn remedy(&self) -> Option<&'static str> {
        self.remedy
    }

    /// This error as one of a put. What is about to be made is neither damaged nor missing, so that
    /// `Corrupt` and `Missing` (a staged file or a folder that another client has removed) become
    /// `Media`; every other kind stays.
    #[must_use]
    pub(crate) fn of_put(self) -> Error {
        if self.is_loss() { Error { kind: Kind::Media, ..self } } else { self }
    }

    /// Whether something is damaged or gone: trying again does not help, but doing without may.
    pub fn is_loss(&self) -> bool {
        matches!(self.kind, Kind::Corrupt | Kind::Missing)
    }

    /// What the header of the object claims, where that is newer than what is known here.
    pub fn newer(&self) -> Option<Newer> {
        self.source.as_deref()?.downcast_ref().copied()
    }

    /// Whether the object claims a key epoch above those of the keys.
    pub fn is_of_newer_epoch(&self) -> bool {
        matches!(self.newer(), Some(Newer::Epoch(_)))
    }

    /// The object that the error is about; may be empty.
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
    fn tolerance_of_errors_that_no_object_causes_is_none() {
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
