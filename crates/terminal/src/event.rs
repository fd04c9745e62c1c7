//! The output of `--json`: one event per line. These events are common to all programs; a program
//! adds its own.

#[cfg(feature = "checks")]
pub mod schema;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Serialize;

use crate::escape;

/// The version of the schema. It increases when a field is removed or changes its meaning, but not
/// when one is added.
const VERSION: u32 = 1;

/// A line of output.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'a, E> {
    version: u32,
    #[serde(flatten)]
    event: &'a E,
}

impl<'a, E: Serialize> Line<'a, E> {
    /// Creates the line for `event`.
    pub(crate) fn new(event: &'a E) -> Line<'a, E> {
        Line { version: VERSION, event }
    }
}

/// A path, which can be any bytes. `path` is for display. `path_bytes` (hexadecimal) is present if
/// `path` cannot represent all bytes.
#[derive(Debug, Serialize)]
pub struct PathText {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
}

impl PathText {
    /// Creates the text of a path of these bytes.
    pub fn new(bytes: &[u8]) -> PathText {
        match std::str::from_utf8(bytes) {
            Ok(path) => PathText { path: path.to_owned(), path_bytes: None },
            Err(_) => PathText {
                path: String::from_utf8_lossy(bytes).into_owned(),
                path_bytes: Some(escape::hex(bytes)),
            },
        }
    }

    /// Creates the text of `path`.
    pub fn of(path: &Path) -> PathText {
        PathText::new(path.as_os_str().as_bytes())
    }
}

/// An event of any program.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Common<'a> {
    /// The progress of the run.
    Progress(Progress),
    /// A part of the work was not done. It is counted, and the exit code becomes 1.
    Problem(Message<'a>),
    /// A warning, which is not counted.
    Warning(Message<'a>),
    /// The reason why the run failed; the last line.
    Error {
        kind: &'a str,
        exit_code: u8,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        remedy: Option<&'a str>,
    },
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Progress {
    /// The time since the start of the run.
    pub elapsed_ns: u64,
    /// The number of files so far.
    pub file_count: u64,
    /// The size of these files in bytes.
    #[serde(rename = "size_bytes")]
    pub size: u64,
    /// The total number of files, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_file_count: Option<u64>,
    /// The total size in bytes, once it is known.
    #[serde(rename = "expected_size_bytes", skip_serializing_if = "Option::is_none")]
    pub expected_size: Option<u64>,
    /// The number of bytes that no repository chunk contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_bytes: Option<u64>,
    /// The number of bytes added to the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
}

/// A message about a path or about the run.
#[derive(Debug, Serialize)]
pub(crate) struct Message<'a> {
    #[serde(flatten)]
    pub path: Option<PathText>,
    pub message: &'a str,
    /// The commands that resolve the problem, in the order in which to try them, if known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<&'a str>,
}
