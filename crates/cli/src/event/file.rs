//! The events of `backup --verbose`.

use cutpoint_terminal::event::PathText;
use serde::Serialize;

/// The way in which a backup saves a file.
#[derive(Serialize)]
pub(crate) struct File<'a> {
    #[serde(flatten)]
    pub(crate) path: PathText,
    pub(crate) read: bool,
    /// The reason for reading the file or for not reading it. The schema has the values.
    pub(crate) reason: &'a str,
    /// The rule that excludes the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<String>,
}
