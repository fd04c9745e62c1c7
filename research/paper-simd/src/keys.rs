//! Parameters, read from the text of a spec.

use cutpoint_chunking::Spec;

use crate::BaselineError;

/// The keys and values of a spec in full. [`Spec`] guarantees that the meaning of its text never
/// changes.
pub(crate) struct Keys {
    spec: String,
}

impl Keys {
    /// Reads `spec`, and refuses any key that is not in `known`.
    pub(crate) fn new(spec: &Spec, known: &[&str]) -> Result<Keys, BaselineError> {
        let keys = Keys { spec: spec.to_string() };
        let unknown = keys.all().find(|(key, _)| !known.contains(key));
        match unknown {
            Some((key, value)) => Err(keys.refused(&format!("{key}={value} is not in this form"))),
            None => Ok(keys),
        }
    }

    /// Returns the error that the form does not have the rule of the spec.
    pub(crate) fn refused(&self, reason: &str) -> BaselineError {
        BaselineError::Refused { spec: self.spec.clone(), reason: reason.to_owned() }
    }

    fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let list = self.spec.split_once(':').map_or("", |(_, list)| list);
        list.split(',').filter_map(|item| item.split_once('='))
    }

    /// Returns the value of a key, or `None` if the key is absent.
    pub(crate) fn given(&self, key: &str) -> Option<&str> {
        self.all().find(|(each, _)| *each == key).map(|(_, value)| value)
    }

    /// Returns `true` if the key has this value.
    pub(crate) fn is(&self, key: &str, value: &str) -> bool {
        self.given(key) == Some(value)
    }

    /// Returns the number of a key that may be absent.
    pub(crate) fn optional(&self, key: &str) -> Result<Option<usize>, BaselineError> {
        let parse = |value: &str| {
            let number = value.parse();
            number.map_err(|_| self.refused(&format!("{key}={value} is no number of bytes")))
        };
        self.given(key).map(parse).transpose()
    }

    /// Returns the number of a key that must be present.
    pub(crate) fn number(&self, key: &str) -> Result<usize, BaselineError> {
        self.optional(key)?.ok_or_else(|| self.refused(&format!("{key} is missing")))
    }

    /// Returns the distance in bytes from the byte that is found to the cut-point, by the value of
    /// `cut`.
    pub(crate) fn step(&self) -> usize {
        usize::from(!self.is("cut", "before"))
    }
}
