//! The decisions of a backup about files: read again or not, and the reason.

use cutpoint_repository::{Entry, EntryKind};

use crate::source::ExclusionRule;

/// The reason why a backup reads a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadReason {
    /// No previous snapshot has an entry of this path.
    New,
    /// The previous version is not a file.
    Type,
    /// The previous version has another size.
    Size,
    /// The previous version has another time of modification.
    Mtime,
    /// The previous version has another time of the last change of metadata.
    Ctime,
    /// The previous version has another inode number.
    Inode,
    /// The previous version was on another file system.
    FileSystem,
    /// The previous version is not complete: the file changed or ended while it was read.
    Incomplete,
    /// Data of the previous version is damaged or cannot be found.
    Damaged,
    /// The times of the file were too new when the previous version was read: a later change might
    /// not show in them.
    TooFresh,
    /// The times of the file system prove nothing.
    WeakTimes,
    /// Every file is read on request.
    Forced,
}

impl ReadReason {
    /// Returns the reason in words.
    pub fn name(self) -> &'static str {
        match self {
            ReadReason::New => "new",
            ReadReason::Type => "type",
            ReadReason::Size => "size",
            ReadReason::Mtime => "mtime",
            ReadReason::Ctime => "ctime",
            ReadReason::Inode => "inode",
            ReadReason::FileSystem => "file system",
            ReadReason::Incomplete => "incomplete",
            ReadReason::Damaged => "damaged",
            ReadReason::TooFresh => "too fresh",
            ReadReason::WeakTimes => "weak times",
            ReadReason::Forced => "forced",
        }
    }
}

/// The decision about a file.
#[derive(Clone, Copy, Debug)]
pub enum FileDecision<'a> {
    /// The file is read.
    Read {
        /// The reason.
        reason: ReadReason,
        /// The previous version, if there is one.
        before: Option<&'a Entry>,
        /// The file, as the walk has found it.
        now: &'a Entry,
    },
    /// The content is taken over from the previous version.
    Unchanged,
    /// The name is a further one of a file that was saved before.
    Link,
    /// The entry is a device, a named pipe or a socket, which a snapshot keeps without a content.
    Special(EntryKind),
    /// The name is left out, and everything below it if it is a folder.
    Excluded(ExclusionRule),
}
