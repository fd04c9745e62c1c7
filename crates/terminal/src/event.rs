//! The output of `--json`: one event per line. These events are common to all programs; a program
//! adds its own.

#[cfg(feature = "checks")]
pub mod schema;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Serialize;

use crate::escape;
use crate::work::Work;

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

/// Returns `event` as a JSON document with line breaks, for a file.
///
/// # Errors
///
/// Fails if a value has no form in JSON.
pub fn document(event: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&Line::new(event)).map(|text| text + "\n")
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
    Progress(Counters),
    /// The progress of a phase.
    Phase(Phase<'a>),
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

/// The progress of a phase of a run, whose work is not counted in files.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Phase<'a> {
    /// The name of the phase, as a participle: "Examining containers".
    pub name: &'a str,
    /// The work done.
    pub done: u64,
    /// The total work, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// The unit of both.
    pub unit: Unit,
}

/// The unit of the work of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// The items that the name of the phase names.
    Items,
    /// Bytes.
    Bytes,
}

/// The progress of a run whose work is counted in files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// The work done.
    pub work: Work,
    /// The number of bytes that no repository chunk contains.
    pub new_bytes: Option<u64>,
    /// The number of bytes added to the repository.
    pub stored_bytes: Option<u64>,
}

impl From<Work> for Progress {
    fn from(work: Work) -> Progress {
        Progress { work, ..Progress::default() }
    }
}

/// The counters of a progress event.
#[derive(Debug, Serialize)]
pub(crate) struct Counters {
    elapsed_ns: u64,
    file_count: u64,
    size_bytes: u64,
    read_file_count: u64,
    read_bytes: u64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    expected: Option<ExpectedCounters>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_bytes: Option<u64>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    path: Option<PathText>,
}

/// The counters of the expected work.
#[derive(Debug, Serialize)]
struct ExpectedCounters {
    expected_file_count: u64,
    expected_size_bytes: u64,
    expected_read_file_count: u64,
    expected_read_bytes: u64,
}

impl Counters {
    /// Returns the counters of `progress`, with the expected work and the present path, if known.
    pub(crate) fn new(
        elapsed_ns: u64,
        progress: &Progress,
        expected: Option<&Work>,
        path: Option<PathText>,
    ) -> Counters {
        let Progress { work, new_bytes, stored_bytes } = *progress;
        let expected = expected.map(|work| ExpectedCounters {
            expected_file_count: work.file_count,
            expected_size_bytes: work.size,
            expected_read_file_count: work.read_file_count,
            expected_read_bytes: work.read_bytes,
        });
        Counters {
            elapsed_ns,
            file_count: work.file_count,
            size_bytes: work.size,
            read_file_count: work.read_file_count,
            read_bytes: work.read_bytes,
            expected,
            new_bytes,
            stored_bytes,
            path,
        }
    }
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
