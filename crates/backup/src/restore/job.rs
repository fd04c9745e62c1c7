//! The units of work of a restore.

use std::sync::Arc;

use cutpoint_store::format::tree::Entry;

use super::file::{NewFile, Piece};
use super::links::{Link, LinkOwner};
use super::place::Place;

/// A unit of work for any thread of a restore.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all jobs are items")]
pub(super) enum Job {
    /// Anything but a folder.
    Item { place: Place, entry: Entry, role: Role },
    /// A part of a large file. The job that drops the file last completes it.
    Piece { file: Arc<NewFile>, piece: Piece },
}

/// The role of a name among the names of its file.
#[derive(Debug)]
pub(super) enum Role {
    /// The only one.
    Only,
    /// The first that was seen.
    First(LinkOwner),
    /// One after the first.
    Further(Arc<Link>),
}
