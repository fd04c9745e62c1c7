//! Files that are written in pieces, because they are large or changed in place. Several workers
//! write them in parallel.

use std::sync::Arc;

use cutpoint_repository::{Content, Entry};
use cutpoint_storage::Error;

use super::existing::{occupant, unchanged};
use super::failure::Failure;
use super::file::{NewFile, is_in_pieces};
use super::links::LinkOwner;
use super::partial_file::discard_partial;
use super::piece::Pieces;
use super::place::{Occupant, Place};
use super::restore_state::RestoreState;

/// Creates a file larger than a piece. Returns `None` if there is nothing to write, because the
/// entry is unchanged or has failed; both are handled here.
pub(super) fn begin<'a>(
    state: &RestoreState<'a>,
    place: Place,
    entry: Entry,
    link: Option<LinkOwner>,
) -> Option<(NewFile, Pieces<'a>)> {
    let begin = || {
        if matches!(entry.content, Content::Raw(_)) {
            return Err(Error::corrupt("", "a large file without chunks").into());
        }
        match occupant(state, &place, &entry)? {
            Occupant::Refused(reason) => Err(Failure::Refused(reason)),
            occupant => Ok((occupant, Pieces::open(state.reader, &entry)?)),
        }
    };
    let failed = |place: Place, entry: &Entry, failure: &Failure| {
        state.fail(&place.path(entry), failure);
        state.release(place.folder, &place.handle);
    };
    match begin() {
        Ok((Occupant::Same(identity, names), _)) => {
            discard_partial(&place, &entry.name);
            unchanged(state, place, &entry, link, identity, names);
            None
        }
        Ok((occupant, pieces)) => match NewFile::create(state, place, entry, occupant, link) {
            Ok(file) => {
                file.set_size();
                Some((file, pieces))
            }
            Err(not_made) => {
                let (place, entry, failure) = *not_made;
                failed(place, &entry, &failure);
                None
            }
        },
        Err(failure) => {
            failed(place, &entry, &failure);
            None
        }
    }
}

/// Returns `true` if the file `entry` is written in pieces: a large one, and any that is changed in
/// place.
pub(super) fn is_large(state: &RestoreState<'_>, place: &Place, entry: &Entry) -> bool {
    let is_changed =
        state.options.in_place && matches!(occupant(state, place, entry), Ok(Occupant::Replace));
    is_in_pieces(entry, is_changed)
}

/// Releases a reference to a file. The last release completes the file.
pub(super) fn release(state: &RestoreState<'_>, file: Arc<NewFile>) {
    if let Some(file) = Arc::into_inner(file) {
        file.finish(state);
    }
}
