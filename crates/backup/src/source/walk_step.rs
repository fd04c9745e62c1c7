//! The steps of a walk.

use std::io;
use std::path::PathBuf;

use cutpoint_repository::Entry;

use super::exclusion::ExclusionRule;
use super::folder::Handle;

/// One step of a [`Walk`](super::Walk).
///
/// `path` is absolute and can be longer than any system call accepts, so it serves for messages and
/// comparisons only. To reach the file itself, use `folder` and the name of the entry.
#[derive(Debug)]
pub enum WalkStep {
    /// A folder begins. Steps for its entries follow, then a [`WalkStep::Leave`].
    Enter {
        /// The path of the folder.
        path: PathBuf,
        /// The metadata of the folder. The content is `Empty`, and the extended attributes are not
        /// read yet. A folder above the sources has neither times nor an inode number.
        entry: Entry,
        /// The parent of the folder.
        folder: Handle,
    },
    /// An entry other than a folder.
    Item {
        /// The path of the entry.
        path: PathBuf,
        /// The metadata of the entry. The content of a symbolic link is its target (`Raw`), any
        /// other content is `Empty`. The extended attributes are not read yet.
        entry: Entry,
        /// The folder of the entry. Each folder occupies a descriptor as long as a step with it
        /// exists, so a queue of steps must be bounded.
        folder: Handle,
    },
    /// The folder entered last and not left yet ends.
    Leave,
    /// A name of the folder entered last is left out, with everything below it.
    Excluded {
        /// The path of the entry.
        path: PathBuf,
        /// The rule that excludes it.
        rule: ExclusionRule,
    },
    /// A part of a file of patterns cannot be used. The walk continues without it.
    Warning {
        /// The path of the file.
        path: PathBuf,
        /// The problem.
        message: String,
    },
    /// Something could not be examined, opened or listed. The walk continues with the next entry.
    /// For a folder, this step comes between its `Enter` and its `Leave`.
    Problem {
        /// The path of the entry.
        path: PathBuf,
        /// The error of the system call.
        error: io::Error,
    },
}
