//! The workers: restore everything but folders.

use crossbeam_channel::Receiver;
use cutpoint_repository::{Entry, EntryKind};

use super::existing::{done, occupant, unchanged};
use super::failure::Failure;
use super::file::{Buffer, NewFile, ends_in_hole, gather};
use super::hard_link::make_link;
use super::job::{RestoreJob, Role};
use super::job_queue::PlannedJob;
use super::large_file;
use super::links::LinkOwner;
use super::place::{Occupant, Place};
use super::restore_state::{RestoreState, count, count_replaced};
use super::special::make_special;

/// Does jobs until there are no more.
pub(super) fn work(state: &RestoreState<'_>, jobs: &Receiver<PlannedJob>) {
    let mut buffer = Buffer::default();
    // The step of the plan is held until the job is done.
    for (job, _step) in jobs {
        match job {
            RestoreJob::Entry { place, entry, role } => {
                item(state, place, entry, role, &mut buffer)
            }
            RestoreJob::Piece { file, piece } => {
                file.write_piece(state, &piece, &mut buffer);
                large_file::release(state, file);
            }
        }
    }
}

/// Restores anything but a folder.
fn item(state: &RestoreState<'_>, place: Place, entry: Entry, role: Role, buffer: &mut Buffer) {
    if state.stopped() {
        state.release(place.folder, &place.handle);
        return;
    }
    let link = match role {
        Role::Only => None,
        Role::First(owner) => Some(owner),
        Role::Further(link) => match link.wait() {
            Ok(written) => match make_link(state, &place, &entry, &written) {
                Ok(true) => {
                    state.release(place.folder, &place.handle);
                    return;
                }
                Ok(false) => None,
                Err(failure) => {
                    state.fail(&place.path(&entry), &failure);
                    state.release(place.folder, &place.handle);
                    return;
                }
            },
            Err(owner) => Some(owner),
        },
    };
    if large_file::is_large(state, &place, &entry) {
        if let Some((file, pieces)) = large_file::begin(state, place, entry, link) {
            for piece in pieces {
                match piece {
                    Ok(piece) => {
                        let piece = file.missing(state, piece);
                        file.write_piece(state, &piece, buffer);
                    }
                    Err(error) => file.fail(Failure::Snapshot(error)),
                }
                if file.failed() || state.stopped() {
                    break;
                }
            }
            file.finish(state);
        }
        return;
    }
    let occupant = match occupant(state, &place, &entry) {
        Ok(Occupant::Same(identity, names)) => {
            unchanged(state, place, &entry, link, identity, names);
            return;
        }
        Ok(Occupant::Refused(reason)) => Err(Failure::Refused(reason)),
        Ok(occupant) => Ok(occupant),
        Err(failure) => Err(failure),
    };
    match (occupant, entry.kind) {
        (Ok(occupant), EntryKind::File) => small_file(state, place, entry, occupant, link, buffer),
        (Ok(occupant), _) => {
            match make_special(state, &place, &entry, &occupant) {
                Ok(identity) => {
                    count(state.counts.of_special(entry.kind), 1);
                    count_replaced(state, &occupant);
                    done(&place, &entry, link, identity);
                }
                Err(failure) => state.fail(&place.path(&entry), &failure),
            }
            state.release(place.folder, &place.handle);
        }
        (Err(failure), _) => {
            state.fail(&place.path(&entry), &failure);
            state.release(place.folder, &place.handle);
        }
    }
}

/// Restores a file no larger than a piece.
fn small_file(
    state: &RestoreState<'_>,
    place: Place,
    entry: Entry,
    occupant: Occupant,
    link: Option<LinkOwner>,
    buffer: &mut Buffer,
) {
    let gathered = gather(state, &entry, buffer).map_err(Failure::from);
    let file = match gathered {
        Ok(()) => NewFile::create(state, place, entry, occupant, link),
        Err(failure) => Err(Box::new((place, entry, failure))),
    };
    match file {
        Ok(file) => {
            if ends_in_hole(&file.entry, buffer) {
                file.set_size();
            }
            file.write(state, buffer);
            file.finish(state);
        }
        Err(not_made) => {
            let (place, entry, failure) = *not_made;
            state.fail(&place.path(&entry), &failure);
            state.release(place.folder, &place.handle);
        }
    }
}
