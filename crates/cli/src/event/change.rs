//! The event of a change of a target.

use serde::Serialize;

use super::PathText;

/// A change of the target of a restore.
#[derive(Serialize)]
pub(crate) struct Change<'a> {
    #[serde(flatten)]
    pub(crate) path: PathText,
    /// `create`, `replace` or `delete`.
    pub(crate) action: &'a str,
    #[serde(rename = "size_bytes")]
    pub(crate) size: u64,
}
