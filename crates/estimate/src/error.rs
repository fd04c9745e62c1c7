//! The error of an estimate.

use std::fmt;
use std::io;

use cutpoint_chunking::SpecError;

/// An error of an estimate.
#[derive(Debug)]
pub enum EstimateError {
    /// A specification cannot be used here.
    Spec(SpecError),
    /// A path cannot be reached, a pattern is invalid, or zstd cannot be set up.
    Io(io::Error),
}

impl fmt::Display for EstimateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EstimateError::Spec(error) => error.fmt(f),
            EstimateError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EstimateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            EstimateError::Spec(error) => Some(error),
            EstimateError::Io(error) => Some(error),
        }
    }
}

impl From<SpecError> for EstimateError {
    fn from(error: SpecError) -> EstimateError {
        EstimateError::Spec(error)
    }
}

impl From<io::Error> for EstimateError {
    fn from(error: io::Error) -> EstimateError {
        EstimateError::Io(error)
    }
}
