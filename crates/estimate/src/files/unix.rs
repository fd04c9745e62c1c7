//! The files that a backup reads.

pub use cutpoint_backup::source::{FileExtent, SourceFile, WalkOptions};
pub(crate) use cutpoint_backup::source::{Handle, Walk, WalkStep, open_file, xattrs};
use cutpoint_repository::Entry;

/// Updates `entry` to the state of `file` at the time when it was opened, with the extended attributes.
pub(crate) fn complete(entry: &mut Entry, file: &mut SourceFile) {
    file.refresh(entry);
    entry.xattrs = file.xattrs().pairs;
}
