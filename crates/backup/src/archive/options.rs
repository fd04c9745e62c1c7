//! The options and the result of writing an archive.

use cutpoint_repository::{Entry, Time};

/// The format of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// tar with PAX records (POSIX.1-2001).
    Tar,
    /// zip with deflate, UTF-8 names and Zip64 where necessary.
    Zip,
}

/// The options of an archive.
#[derive(Clone, Copy, Debug)]
pub struct ArchiveOptions<'a> {
    /// The format.
    pub format: ArchiveFormat,
    /// The entry to write: a folder, whose content is written under paths that start in it, or
    /// anything else, which becomes the only member. `None` for the root of a snapshot.
    pub entry: Option<&'a Entry>,
    /// The modification time of folders above the sources of a snapshot, which have none.
    pub default_time: Time,
}

/// The content of a written archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveReport {
    /// The number of files.
    pub files: u64,
    /// The number of bytes of these files, including holes.
    pub bytes: u64,
    /// The number of further names of files, as hard links.
    pub linked_names: u64,
    /// The number of folders.
    pub folders: u64,
    /// The number of symbolic links, with all their names.
    pub symlinks: u64,
    /// The number of devices and pipes, with all their names.
    pub specials: u64,
    /// The number of entries that could not be read completely. A folder counts once, with
    /// everything below it.
    pub failed_entries: u64,
}
