//! The event of a page that is served.

use serde::Serialize;

/// A page that shows the snapshots from now on.
#[derive(Serialize)]
pub(crate) struct Page {
    /// The address that opens the page once.
    pub(crate) url: String,
    pub(crate) snapshot_count: u64,
    pub(crate) may_restore: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) webdav: Option<WebDav>,
}

/// The access of WebDAV clients.
#[derive(Serialize)]
pub(crate) struct WebDav {
    pub(crate) url: String,
    pub(crate) user: &'static str,
    pub(crate) password: String,
}
