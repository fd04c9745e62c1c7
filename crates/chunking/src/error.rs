//! The error of a spec's text or parameters.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use core::error::Error;
use core::fmt;

/// A text or a set of parameters that describes no chunker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    algorithm: String,
    parameter: String,
    value: String,
    expected: String,
}

impl SpecError {
    pub(crate) fn new(
        algorithm: &str,
        parameter: &str,
        value: impl ToString,
        expected: impl Into<String>,
    ) -> SpecError {
        SpecError {
            algorithm: algorithm.to_owned(),
            parameter: parameter.to_owned(),
            value: value.to_string(),
            expected: expected.into(),
        }
    }

    pub(crate) fn out_of_range(
        algorithm: &str,
        parameter: &str,
        value: usize,
        low: usize,
        high: usize,
    ) -> SpecError {
        SpecError::new(algorithm, parameter, value, format!("must be from {low} to {high}"))
    }

    /// Returns the name of the parameter that is wrong, missing, unknown or given twice;
    /// `algorithm` if the name of the algorithm is at fault.
    pub fn parameter(&self) -> &str {
        &self.parameter
    }

    /// Returns the value given for the parameter; empty if there was none.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Returns the allowed values, in words.
    pub fn expected(&self) -> &str {
        &self.expected
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SpecError { algorithm, parameter, value, expected } = self;
        if parameter == "algorithm" {
            write!(f, "chunking algorithm `{value}`: {expected}")
        } else if value.is_empty() {
            write!(f, "{algorithm}: {parameter}: {expected}")
        } else {
            write!(f, "{algorithm}: {parameter}={value}: {expected}")
        }
    }
}

impl Error for SpecError {}
