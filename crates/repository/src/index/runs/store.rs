//! The places where runs are kept.

use std::path::PathBuf;

/// The place where the runs of an index are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::index) enum RunStore {
    /// Files in a folder of the cache, which later processes find.
    Folder(PathBuf),
    /// Files without names, on the file system of a folder.
    Temporary(PathBuf),
    /// The memory of this process.
    Memory,
}
