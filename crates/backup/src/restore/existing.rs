//! Entries of the target that exist already, and the names that the entries of one file share.

use std::sync::Arc;

use cutpoint_repository::{Entry, EntryKind};

use super::failure::Failure;
use super::links::{FirstName, LinkOwner};
use super::metadata;
use super::place::{Occupant, Place};
use super::restore_state::{RestoreState, count};
use crate::source::folder::Identity;

/// Returns the existing entry in the place of `entry`.
pub(super) fn occupant(
    state: &RestoreState<'_>,
    place: &Place,
    entry: &Entry,
) -> std::result::Result<Occupant, Failure> {
    Ok(place.occupant(entry, state.options.overwrite)?)
}

/// Counts an entry whose content stays as it is, and sets its metadata where they differ.
pub(super) fn unchanged(
    state: &RestoreState<'_>,
    place: Place,
    entry: &Entry,
    link: Option<LinkOwner>,
    identity: Identity,
    names: u64,
) {
    // An entry with several names may also stand in the place of another of them.
    if names == 1 {
        place.folder.restored.insert(identity);
    }
    if metadata::differs(&state.owners, &place.handle, entry) {
        metadata::set_named(&state.owners, &place.handle, entry, true, &mut |message| {
            state.warn(&place.path(entry), &message);
        });
        count(&state.counts.adjusted_entries, 1);
    } else {
        count(&state.counts.unchanged_entries, 1);
    }
    if entry.kind == EntryKind::File {
        state.monitor.progress(1, entry.size);
    }
    done(&place, entry, link, identity);
    state.release(place.folder, &place.handle);
}

/// Passes the place of this name on to the other names of the file.
pub(super) fn done(place: &Place, entry: &Entry, link: Option<LinkOwner>, identity: Identity) {
    if let Some(link) = link {
        let folder = Arc::clone(&place.folder.path);
        link.done(FirstName { folder, name: entry.name.clone(), identity });
    }
}
