//! A run, as a checkpoint has it.

/// The length of a page of a run in bytes.
pub(crate) const PAGE_SIZE: usize = 8192;

/// What a checkpoint says of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunMeta {
    pub(crate) number: u64,
    /// The number of merges behind it.
    pub(crate) level: u8,
    /// Set if the filter has the keys of all tables.
    pub(crate) has_all_keys_in_filter: bool,
    pub(crate) entry_count: u64,
    /// The number of entries whose key is a hash.
    pub(crate) hashed_count: u64,
    /// The number of pages with entries.
    pub(crate) data_page_count: u64,
    /// The length of the filter in bytes.
    pub(crate) filter_len: u64,
}
