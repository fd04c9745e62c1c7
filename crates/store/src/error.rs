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
    /// Returns `error` where it is about one object.
    ///
    /// # Errors
    ///
    /// `error` where it is about more: the caller asked to stop, or the storage has failed for the
    /// seventeenth object.
    pub(crate) fn of_one(&mut self, error: Error) -> Result<Error> {
        match error.kind {
            Kind::Interrupted => return Err(error),
            Kind::Media => self.media_failures += 1,
            _ => {}
        }
        if self.media_failures > MEDIA_FAILURES_MAX { Err(error) } else { Ok(error) }
    }
}

/// An error that names the object it is about, and what was found there.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    object: String,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The result of what the store does.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` about `object`.
    pub fn new(kind: Kind, object: impl fmt::Display, message: impl fmt::Display) -> Error {
        Error { kind, object: object.to_string(), message: message.to_string(), source: None }
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

    /// Whether something is damaged or gone: trying again does not help, but doing without may.
    pub fn is_loss(&self) -> bool {
        matches!(self.kind, Kind::Corrupt | Kind::Missing)
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
