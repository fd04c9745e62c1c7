//! The counts of a source.

/// The counts of a source, and the facts about it that the snapshot records.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceCounts {
    pub(super) unchanged_files: u64,
    pub(super) problems: u64,
    pub(super) excluded: u64,
    /// Set if the source was not read to its end, because the ticket is old.
    pub(super) partial: bool,
    /// The sources that the walk could not process, as positions in the list of all sources.
    pub(super) missing_sources: Vec<usize>,
    /// The identities of the file systems, indexed by the `device` of entries.
    pub(super) file_systems: Vec<String>,
}
