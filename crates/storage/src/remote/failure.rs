//! The failure of a request, with its meaning for the request.

use super::Passing;
use crate::error::{Error, Kind};

/// The meanings of the failures of a kind of storage.
pub(crate) trait Meaning: Copy + PartialEq {
    /// Another attempt may succeed. A request may have been carried out all the same.
    const TRY_AGAIN: Self;
    /// Further attempts would fail as well.
    const FINAL: Self;

    /// Returns the kind of the error that such a failure ends with.
    fn kind(self) -> Kind;
}

/// A failed request.
#[derive(Clone, Debug)]
pub(crate) struct Failure<M> {
    pub(crate) meaning: M,
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) remedy: Option<&'static str>,
    /// Set if the storage gave no answer, or is unavailable for all requests.
    pub(crate) is_outage: bool,
}

impl<M: Meaning> Failure<M> {
    pub(crate) fn new(meaning: M, text: impl Into<String>) -> Failure<M> {
        let (kind, text) = (meaning.kind(), text.into());
        Failure { meaning, kind, text, remedy: None, is_outage: false }
    }

    /// Creates the failure of a storage that gave no answer, or is unavailable for all requests.
    pub(crate) fn outage(text: impl Into<String>) -> Failure<M> {
        Failure { is_outage: true, ..Failure::new(M::TRY_AGAIN, text) }
    }

    /// Returns the failure as one of a storage that has begun to answer.
    #[cfg(any(feature = "clouds", feature = "rest"))]
    pub(crate) fn of_begun_answer(self) -> Failure<M> {
        Failure { is_outage: false, ..self }
    }

    pub(crate) fn with_remedy(self, remedy: &'static str) -> Failure<M> {
        Failure { remedy: Some(remedy), ..self }
    }
}

impl<M: Meaning> Passing for Failure<M> {
    fn may_pass(&self) -> bool {
        self.meaning == M::TRY_AGAIN
    }

    fn is_outage(&self) -> bool {
        self.is_outage
    }

    #[cfg(any(feature = "clouds", feature = "s3"))]
    fn again(self) -> Failure<M> {
        Failure { meaning: M::TRY_AGAIN, ..self }
    }

    fn interrupted() -> Failure<M> {
        Failure { kind: Kind::Interrupted, ..Failure::new(M::FINAL, "interrupted") }
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn into_error(self, name: &str, text: String) -> Error {
        let error = Error::new(self.kind, name, text);
        match self.remedy {
            Some(remedy) => error.with_remedy(remedy),
            None => error,
        }
    }
}
