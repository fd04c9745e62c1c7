//! The event about a wait, for other clients or for the storage.

use serde::Serialize;

/// A wait.
#[derive(Serialize)]
pub(crate) struct WaitingFor<'a> {
    /// `settling`, `writers`, `lagging_listings`, `unlisted_object` or `retry`.
    pub(crate) reason: &'a str,
    /// The number of the prune whose containers cannot be deleted yet.
    pub(crate) prune_number: Option<u64>,
    /// The time at which the wait ends at the latest; `None` if it is not known.
    pub(crate) until: Option<String>,
    /// The clients that are waited for.
    pub(crate) writers: Vec<WaitingWriter<'a>>,
    /// The same in words.
    pub(crate) message: String,
}

/// A client that is waited for.
#[derive(Serialize)]
pub(crate) struct WaitingWriter<'a> {
    pub(crate) ticket: String,
    /// The host; `None` if the ticket cannot be read.
    pub(crate) host: Option<&'a str>,
    pub(crate) process_id: Option<u32>,
}
