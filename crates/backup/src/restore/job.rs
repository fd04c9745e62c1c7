//! The units of work of a restore.

use std::sync::Arc;

use cutpoint_repository::Entry;

use super::file::NewFile;
use super::links::{Link, LinkOwner};
use super::piece::Piece;
use super::place::Place;

/// A job for any thread.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all jobs are entries")]
pub(super) enum RestoreJob {
    /// Restores anything but a folder.
    Entry { place: Place, entry: Entry, role: Role },
    /// Writes a part of a large file. The thread that releases the file last completes it.
    Piece { file: Arc<NewFile>, piece: Piece },
}

impl RestoreJob {
    /// Returns the identity of the folder or file of the target that the job keeps open. It differs
    /// from those of others that are open at the same time.
    pub(super) fn kept_open(&self) -> usize {
        match self {
            RestoreJob::Entry { place, .. } => Arc::as_ptr(&place.folder).addr(),
            RestoreJob::Piece { file, .. } => Arc::as_ptr(file).addr(),
        }
    }
}

/// The role of a name among the names of its file.
#[derive(Debug)]
pub(super) enum Role {
    /// The only name.
    Only,
    /// The first name seen.
    First(LinkOwner),
    /// A name after the first.
    Further(Arc<Link>),
}
