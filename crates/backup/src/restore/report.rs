//! The result of a restore.

/// The result of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// The number of files written.
    pub written_files: u64,
    /// The number of bytes of these files, including holes.
    pub written_bytes: u64,
    /// The number of bytes of these files that were in the target already: in the existing file, or
    /// written by an earlier restore that was interrupted. They were not fetched.
    pub reused_bytes: u64,
    /// The part of these bytes that had to be copied from an existing file to a new one.
    pub copied_bytes: u64,
    /// The number of further names given to files restored before.
    pub linked_names: u64,
    /// The number of folders created.
    pub made_folders: u64,
    /// The number of symbolic links created. A link with several names counts with each of them.
    pub made_symlinks: u64,
    /// The number of devices, pipes and sockets created, counted in the same way.
    pub made_specials: u64,
    /// The number of devices, pipes and sockets left out. See
    /// [`RestoreOptions::specials`](super::RestoreOptions::specials).
    pub skipped_specials: u64,
    /// The number of existing entries replaced.
    pub replaced_entries: u64,
    /// The number of existing entries deleted. See
    /// [`RestoreOptions::delete`](super::RestoreOptions::delete).
    pub deleted_entries: u64,
    /// The number of bytes of the files among them.
    pub deleted_bytes: u64,
    /// The number of files read back and found equal to the snapshot. See
    /// [`RestoreOptions::verify`](super::RestoreOptions::verify).
    pub verified_files: u64,
    /// The number of bytes of these files.
    pub verified_bytes: u64,
    /// The number of existing entries found unchanged, with [`Changed`](super::Overwrite::Changed).
    pub unchanged_entries: u64,
    /// The number of existing entries whose content stayed, and whose owner, permissions or extended
    /// attributes were set.
    pub adjusted_entries: u64,
    /// The number of entries that could not be restored, or were not restored because of what stood
    /// in their place. A folder counts once, with everything below it.
    pub failed_entries: u64,
    /// The number of warnings: entries that were restored, but lack something.
    pub warnings: u64,
}
