//! The events of `diff`.

use cutpoint_terminal::event::PathText;
use serde::Serialize;

/// A difference between two snapshots.
#[derive(Serialize)]
pub(crate) struct Difference<'a> {
    #[serde(flatten)]
    pub(crate) path: PathText,
    /// `added`, `removed`, `content`, `type` or `metadata`.
    pub(crate) change: &'a str,
    /// The kind of the new entry, or of the removed one.
    pub(crate) kind: &'a str,
    #[serde(rename = "size_bytes")]
    pub(crate) size: u64,
    /// The kind of the old entry, if there are both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) old_kind: Option<&'a str>,
    #[serde(rename = "old_size_bytes", skip_serializing_if = "Option::is_none")]
    pub(crate) old_size: Option<u64>,
    /// The changed parts of the metadata: `mode`, `owner`, `time`, `xattrs`.
    pub(crate) metadata: &'a [&'a str],
}

/// The numbers of differences, with the total sizes of the files among them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct DifferenceCounts {
    pub(crate) added_count: u64,
    pub(crate) added_bytes: u64,
    pub(crate) removed_count: u64,
    pub(crate) removed_bytes: u64,
    pub(crate) content_changed_count: u64,
    pub(crate) type_changed_count: u64,
    pub(crate) metadata_changed_count: u64,
    /// The sizes of the entries with another content or type, before and after the change.
    pub(crate) changed_old_bytes: u64,
    pub(crate) changed_new_bytes: u64,
}
