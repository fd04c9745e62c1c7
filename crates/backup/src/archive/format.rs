//! The interface of the archive formats.

use std::io::{self, Read};

use cutpoint_repository::Entry;

/// The content of a member of an archive.
pub(super) enum Body<'a> {
    /// None: a folder, device or pipe.
    Nothing,
    /// The bytes of a file, [`Entry::size`] of them.
    File(&'a mut dyn Read),
    /// The target of a symbolic link.
    Symlink(&'a [u8]),
    /// The path of an earlier member, of which this one is a further name.
    HardLink(&'a [u8]),
}

/// A writer of an archive.
pub(super) trait Format {
    /// Returns `true` if a member can be a further name of another.
    fn has_hard_links(&self) -> bool;

    /// Returns the reason why the archive cannot have `entry` at `path`, if there is one.
    fn refusal(&self, path: &[u8], entry: &Entry) -> Option<&'static str>;

    /// Appends a member at `path`, which has no `/` at its beginning and end and is empty for the
    /// folder that is written. Calls `warn` with what the archive lacks of the entry.
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written.
    fn append(
        &mut self,
        path: &[u8],
        entry: &Entry,
        body: Body<'_>,
        warn: &mut dyn FnMut(String),
    ) -> io::Result<()>;

    /// Writes the end of the archive.
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written.
    fn finish(self: Box<Self>) -> io::Result<()>;
}
