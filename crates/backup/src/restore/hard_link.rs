//! Further names of files that are restored already.

use cutpoint_repository::{Entry, EntryKind};
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::existing::occupant;
use super::failure::Failure;
use super::links::FirstName;
use super::place::{EXISTS, Occupant, Place};
use super::restore_state::{RestoreState, count, count_replaced};
use crate::source::folder::{self, Access, Identity};

/// Makes `entry` another name of `written`. Returns `false` if that is impossible; everything is as
/// before then.
pub(super) fn make_link(
    state: &RestoreState<'_>,
    place: &Place,
    entry: &Entry,
    written: &FirstName,
) -> std::result::Result<bool, Failure> {
    let occupant = occupant(state, place, entry)?;
    match occupant {
        Occupant::Refused(reason) => return Err(Failure::Refused(reason)),
        Occupant::Same(identity, _) if identity == written.identity => {
            count(&state.counts.unchanged_entries, 1);
            return Ok(true);
        }
        Occupant::Same(..) | Occupant::Nothing | Occupant::Replace => {}
    }
    // The existing file is separate, although it is the same, and is replaced by a name of the
    // other.
    let occupant = if occupant == Occupant::Nothing { occupant } else { Occupant::Replace };
    match link(state, place, entry, &occupant, written) {
        Ok(()) => {
            state.counts.add_name(entry.kind);
            count_replaced(state, &occupant);
            if entry.kind == EntryKind::File {
                state.monitor.progress(1, entry.size);
            }
            Ok(true)
        }
        Err(Errno::EXIST) => Err(Failure::Refused(EXISTS)),
        Err(error) => {
            let first = written.folder.join(&written.name);
            let message = format!("no hard link to {}, copied instead: {error}", first.display());
            state.warn(&place.path(entry), &message);
            Ok(false)
        }
    }
}

fn link(
    state: &RestoreState<'_>,
    place: &Place,
    entry: &Entry,
    occupant: &Occupant,
    written: &FirstName,
) -> Result<(), Errno> {
    let mut folder = state.base.clone().ok_or(Errno::NOENT)?;
    for name in written.folder.names() {
        folder = folder::open(&folder, name, Access::Pass)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    }
    let old_name = written.name.as_slice();
    place.make(&entry.name, occupant, |name| {
        rustix::fs::linkat(&folder, old_name, &place.handle, name, AtFlags::empty())?;
        // Another process with write access could have put a different file in the place of the
        // first name.
        let stat = folder::stat(&place.handle, name)?;
        if Identity::of(&stat) != written.identity {
            place.remove(name, Identity::of(&stat));
            return Err(Errno::STALE);
        }
        Ok(())
    })
}
