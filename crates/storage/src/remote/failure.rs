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
}

impl<M: Meaning> Failure<M> {
    pub(crate) fn new(meaning: M, text: impl Into<String>) -> Failure<M> {
        Failure { meaning, kind: meaning.kind(), text: text.into(), remedy: None }
    }

    pub(crate) fn with_remedy(self, remedy: &'static str) -> Failure<M> {
        Failure { remedy: Some(remedy), ..self }
    }
}

impl<M: Meaning> Passing for Failure<M> {
    fn may_pass(&self) -> bool {
        self.meaning == M::TRY_AGAIN
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
