//! Actors that restore and check.

use cutpoint_repository::format::recipe::Segment as Piece;
use cutpoint_repository::{Class, Content, Entry, EntryKind, Reader, Scope, TicketId, View};
use cutpoint_storage::{Error, Kind, Result};

use super::actor::{Actor, chunk};
use crate::support::complete_reader::reader_of_all;

fn read_file(reader: &Reader, entry: &Entry) -> Result<()> {
    let mut bytes = Vec::new();
    for piece in reader.segments(&entry.content) {
        if let Piece::Chunk { fingerprint, .. } = piece? {
            bytes.extend_from_slice(&reader.chunk(Class::Data, &fingerprint)?);
        }
    }
    let name = String::from_utf8_lossy(&entry.name);
    let numbers = name.split(' ').skip(1).map(|number| number.parse().expect("a number"));
    let expected: Vec<u8> = numbers.flat_map(chunk).collect();
    // `Invalid` is returned nowhere else: whatever else happened, this is wrong.
    if bytes == expected { Ok(()) } else { Err(Error::invalid(name, "comes back as other bytes")) }
}

pub(super) fn read_folder(reader: &Reader, content: &Content) -> Result<()> {
    for entry in reader.tree(content) {
        let entry = entry?;
        match entry.kind {
            EntryKind::Folder => read_folder(reader, &entry.content)?,
            _ => read_file(reader, &entry)?,
        }
    }
    Ok(())
}

/// I6: a reader with an old view restores every snapshot that no prune has taken.
pub(super) fn read_all(actor: &mut Actor) -> Result<()> {
    let reader = until_quiet(actor, None, |actor| reader_of_all(&actor.repository))?;
    let Some(reader) = reader else { return Ok(()) };
    let view = reader.view();
    for (ticket, snapshot) in view.snapshots() {
        if actor.chance(3) {
            actor.pause(200)?;
        }
        until_quiet(actor, Some(ticket), |_| read_folder(&reader, &snapshot.root))?;
    }
    Ok(())
}

/// Retries `act` until it works or nothing was deleted during an attempt: then the failure is real,
/// unless a prune has taken the snapshot. (A reader lists again several times. In this world, more
/// sweeps may come between its listings and reads.)
fn until_quiet<T>(
    actor: &mut Actor,
    snapshot: Option<TicketId>,
    mut act: impl FnMut(&mut Actor) -> Result<T>,
) -> Result<Option<T>> {
    loop {
        let deletions = actor.world.deletions();
        match act(actor) {
            Ok(value) => return Ok(Some(value)),
            Err(error) if error.kind() == Kind::Interrupted => return Err(error),
            Err(_) if snapshot.is_some_and(|id| actor.world.is_taken(id)) => return Ok(None),
            Err(error) => {
                if error.kind() == Kind::Invalid || actor.world.deletions() == deletions {
                    actor.world.fail(format!("I6: a reader cannot restore {snapshot:?}: {error}"));
                    return Err(error);
                }
            }
        }
    }
}

/// Checks what a listing must never show.
pub(super) fn check(actor: &mut Actor) -> Result<()> {
    let mut seen: Option<View> = None;
    for _ in 0..3 {
        let view = match &seen {
            Some(seen) => seen.list_again(&actor.repository)?,
            None => View::list(&actor.repository)?,
        };
        let numbers: Vec<u64> = view.prunes.keys().copied().collect();
        if numbers.iter().zip(1..).any(|(number, expected)| *number != expected) {
            actor.world.fail(format!("P5: prunes {numbers:?} have a gap"));
        }
        if let Some(seen) = &seen
            && let Some(gone) = seen
                .commits
                .keys()
                .find(|id| !view.commits.contains_key(id) && !view.taken().contains(id))
        {
            actor.world.fail(format!("commit {gone} has vanished"));
        }
        let index = until_quiet(actor, None, |actor| {
            Ok(reader_of_all(&actor.repository)?.index().clone())
        })?;
        if let Some(index) = index {
            for (ticket, snapshot) in view.snapshots() {
                if let Content::Segments(pieces) = &snapshot.root
                    && let Some(Piece::Chunk { fingerprint, .. }) = pieces.first()
                {
                    until_quiet(actor, Some(ticket), |actor| {
                        index.refresh(&View::list(&actor.repository)?)?;
                        let found = index.find(Class::Meta, fingerprint, Scope::Read)?;
                        found.map(|_| ()).ok_or_else(|| Error::missing(fingerprint, "no hint"))
                    })?;
                }
            }
        }
        seen = Some(view);
        actor.pause(100)?;
    }
    Ok(())
}
