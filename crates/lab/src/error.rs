//! What can go wrong, in the words of somebody who can do something about it.

use std::io;
use std::path::{Path, PathBuf};

/// Why the lab cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The definition says something that cannot be.
    #[error("{path}: line {line}: {message}")]
    Definition {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong, what was found, and what helps.
        message: String,
    },
    /// A file or folder.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// What is in a file is not what it should be.
    #[error("{path}: {message}", path = path.display())]
    Content {
        /// Which one.
        path: PathBuf,
        /// What is wrong, and what helps.
        message: String,
    },
    /// A data set has nothing that could be cut.
    #[error("data set {name}: {message}")]
    Data {
        /// Its name.
        name: String,
        /// What is wrong, and what helps.
        message: String,
    },
    /// Somebody asked to stop.
    #[error("interrupted; what was measured is kept, and the same command goes on from there")]
    Interrupted,
}

impl LabError {
    /// Makes of the system's answer about `path` an error.
    pub(crate) fn of(path: &Path) -> impl FnOnce(io::Error) -> LabError + use<> {
        let path = path.to_owned();
        move |source| LabError::File { path, source }
    }
}
