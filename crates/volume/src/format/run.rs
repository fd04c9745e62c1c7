//! A run, as a checkpoint has it.

/// The length of a page of a run in bytes.
pub(crate) const PAGE_SIZE: usize = 8192;

/// What a checkpoint says of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunMeta {
    /// The number of merges behind it.
    pub(crate) level: u8,
    /// Set if the filters have the keys of all tables.
    pub(crate) has_all_keys_in_filter: bool,
    /// The least key that counts if a merge has begun to take the changes of the run, otherwise empty.
    pub(crate) from: Vec<u8>,
    /// The parts, by rising keys.
    pub(crate) parts: Vec<PartMeta>,
}

/// What a checkpoint says of a part of a run, which is a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartMeta {
    pub(crate) number: u64,
    pub(crate) entry_count: u64,
    /// The number of pages with entries.
    pub(crate) data_page_count: u64,
    /// The length of the filter in bytes.
    pub(crate) filter_len: u64,
    /// The first key.
    pub(crate) first: Vec<u8>,
}
