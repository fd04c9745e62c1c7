//! The errors of the lab.

use std::io;
use std::path::{Path, PathBuf};

/// An error of the lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The definition is invalid.
    #[error("{path}: line {line}: {message}")]
    Definition {
        /// The path of the definition.
        path: String,
        /// The line, from 1.
        line: usize,
        /// The problem, the value found, and the remedy.
        message: String,
    },
    /// The system refused an operation on a file or folder.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The path of the file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The content of a file is invalid.
    #[error("{path}: {message}", path = path.display())]
    Content {
        /// The path of the file.
        path: PathBuf,
        /// The problem and the remedy.
        message: String,
    },
    /// A data set has no bytes to cut.
    #[error("data set {name}: {message}")]
    Data {
        /// The name of the data set.
        name: String,
        /// The problem and the remedy.
        message: String,
    },
    /// The run was stopped.
    #[error("interrupted; measurements so far are kept, and the same command continues from there")]
    Interrupted,
}

impl LabError {
    /// Returns a function that adds `path` to an error of the system.
    pub(crate) fn of(path: &Path) -> impl FnOnce(io::Error) -> LabError + use<> {
        let path = path.to_owned();
        move |source| LabError::File { path, source }
    }
}
