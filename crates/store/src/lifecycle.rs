//! What becomes of snapshots before any prune: forgotten and brought back, held and let go, given
//! tags and a description. Nothing here deletes anything.
//!
//! Forgetting and noting are commits, which race with nothing. Holding and bringing back race with
//! a prune that is about to take the snapshot, so they are numbered records ([`crate::record`]).

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::format::commit::{Note, Outcome, Snapshot};
use crate::format::prune::Prune;
use crate::format::ticket::Purpose;
use crate::name::TicketId;
use crate::record::{self, Recorded};
use crate::repository::Repository;
use crate::view::View;
use crate::writer::{Committed, Writer};

/// So often a writer begins anew where others have ended its ticket.
const TRIES: usize = 5;

/// Takes the snapshots that `choose` names off the lists, by one commit; until a prune takes them
/// they can be brought back. `choose` goes by the view of the writer, and is asked again where that
/// has to begin anew. Who chooses by rules does so by a whole view ([`View::whole`]). Returns the
/// commit; `None` where nothing was chosen.
///
/// # Errors
///
/// Those of `choose`; `Invalid` where a snapshot does not exist or is held; `Conflict` where others
/// ended the ticket every time; as the medium.
pub fn forget<E: From<Error>>(
    repository: &Arc<Repository>,
    mut choose: impl FnMut(&View) -> Result<Vec<TicketId>, E>,
) -> Result<Option<TicketId>, E> {
    commit_alone(repository, "forgetting", |view| {
        let chosen = choose(view)?;
        let held = view.held();
        for id in &chosen {
            existing(view, *id)?;
            if held.contains(id) {
                return Err(of_snapshot(*id, "is held, and cannot be forgotten").into());
            }
        }
        Ok((!chosen.is_empty()).then_some(Outcome::Forget(chosen)))
    })
}

/// Holds snapshots: from now on no rule forgets them and no prune takes them, forgotten or not.
/// Returns the number of the record.
///
/// # Errors
///
/// `Invalid` where one does not exist, or a prune has taken it: then it is too late; `Conflict` where
/// others ended the ticket every time; as the medium.
pub fn hold(repository: &Arc<Repository>, snapshots: &[TicketId]) -> Result<u64> {
    record_alone(repository, "holding", |view| {
        for id in snapshots {
            existing(view, *id)?;
        }
        Ok(Prune { held: snapshots.to_vec(), ..Prune::default() })
    })
}

/// Holds snapshots no more. Returns the number of the record.
///
/// # Errors
///
/// `Invalid` where one is not held; `Conflict` where others ended the ticket every time; as the
/// medium.
pub fn release(repository: &Arc<Repository>, snapshots: &[TicketId]) -> Result<u64> {
    record_alone(repository, "releasing", |view| {
        let held = view.held();
        if let Some(id) = snapshots.iter().find(|id| !held.contains(id)) {
            return Err(of_snapshot(*id, "is not held"));
        }
        Ok(Prune { released: snapshots.to_vec(), ..Prune::default() })
    })
}

/// Brings forgotten snapshots back, by cancelling the commits that have forgotten them. What those
/// have forgotten besides stays forgotten. Returns the number of the record.
///
/// # Errors
///
/// `Invalid` where one does not exist, is not forgotten, or was taken by a prune: then it is too
/// late; `Conflict` where others were faster every time; as the medium.
pub fn unforget(repository: &Arc<Repository>, snapshots: &[TicketId]) -> Result<u64> {
    with_writer(repository, "bringing back", |writer| {
        let others = Undo::new(writer.view(), snapshots)?.others;
        if !others.is_empty() {
            // By a commit of their own, before the common one goes: so they are forgotten at any
            // time. The next writer, who has this commit in its view, cancels the other.
            writer.commit(Outcome::Forget(others), Vec::new(), &BTreeSet::new())?;
            return Ok(None);
        }
        record(writer, |view| {
            let undo = Undo::new(view, snapshots)?;
            let unforgotten = undo.cancelled;
            Ok(undo.others.is_empty().then_some(Prune { unforgotten, ..Prune::default() }))
        })
    })
}

/// Gives a snapshot other tags and another description: `change` gets those that it has. Returns
/// whether they were changed.
///
/// # Errors
///
/// `Invalid` where the snapshot does not exist; `Conflict` where others ended the ticket every time;
/// as the medium.
pub fn note(
    repository: &Arc<Repository>,
    snapshot: TicketId,
    mut change: impl FnMut(&mut Vec<String>, &mut String),
) -> Result<bool> {
    let commit = commit_alone(repository, "the note", |view| {
        let found = existing(view, snapshot)?;
        let (old_tags, old_description) =
            (view.tags(snapshot, found), view.description(snapshot, found));
        let (mut tags, mut description) = (old_tags.to_vec(), old_description.to_owned());
        change(&mut tags, &mut description);
        if tags == old_tags && description == old_description {
            return Ok::<_, Error>(None);
        }
        let replaces = view.notes(snapshot).into_iter().map(|(id, _)| id).collect();
        let note = Note { snapshot: Some(snapshot), replaces, tags, description };
        Ok(Some(Outcome::Note(note)))
    })?;
    Ok(commit.is_some())
}

/// What has to be cancelled so that snapshots are not forgotten any more.
struct Undo {
    /// The commits that have forgotten one of them.
    cancelled: Vec<TicketId>,
    /// The snapshots that would come back with them: no other commit has forgotten those.
    others: Vec<TicketId>,
}

impl Undo {
    fn new(view: &View, snapshots: &[TicketId]) -> Result<Undo> {
        let forgets = view.forgets();
        for id in snapshots {
            existing(view, *id)?;
            if !forgets.iter().any(|(_, forgotten)| forgotten.contains(id)) {
                return Err(of_snapshot(*id, "is not forgotten"));
            }
        }
        let taken = view.taken();
        let (cancelled, staying): (Vec<_>, Vec<_>) = forgets
            .into_iter()
            .partition(|(_, forgotten)| forgotten.iter().any(|id| snapshots.contains(id)));
        let staying: HashSet<TicketId> =
            staying.into_iter().flat_map(|(_, forgotten)| forgotten).copied().collect();
        let others: BTreeSet<TicketId> = cancelled
            .iter()
            .flat_map(|(_, forgotten)| forgotten.iter().copied())
            .filter(|id| !snapshots.contains(id) && !staying.contains(id) && !taken.contains(id))
            .collect();
        Ok(Undo {
            cancelled: cancelled.into_iter().map(|(id, _)| id).collect(),
            others: others.into_iter().collect(),
        })
    }
}

/// The snapshot `id`, forgotten or not.
fn existing(view: &View, id: TicketId) -> Result<&Snapshot> {
    if let Some((number, _)) = view.prunes.iter().find(|(_, prune)| prune.forgotten.contains(&id)) {
        return Err(of_snapshot(id, format!("it is too late: prune {number} has taken it")));
    }
    let commit = view.commits.get(&id);
    commit.and_then(|commit| commit.snapshot()).ok_or_else(|| of_snapshot(id, "does not exist"))
}

fn of_snapshot(id: TicketId, message: impl std::fmt::Display) -> Error {
    Error::invalid(format!("snapshot {}", id.short()), message)
}

/// Makes a writer for one small commit: of what `decide` says to its view, or none.
///
/// # Errors
///
/// Those of `decide`; `Conflict`, naming `what`, where others ended the ticket every time; as the
/// medium.
pub(crate) fn commit_alone<E: From<Error>>(
    repository: &Arc<Repository>,
    what: &str,
    mut decide: impl FnMut(&View) -> Result<Option<Outcome>, E>,
) -> Result<Option<TicketId>, E> {
    with_writer(repository, what, |writer| {
        let Some(outcome) = decide(writer.view())? else {
            writer.void(Vec::new())?;
            return Ok(Some(None));
        };
        let committed = writer.commit(outcome, Vec::new(), &BTreeSet::new())?;
        Ok((committed == Committed::Done).then_some(Some(writer.ticket())))
    })
}

/// Makes a writer for a record that condemns nothing.
fn record_alone(
    repository: &Arc<Repository>,
    what: &str,
    make: impl Fn(&View) -> Result<Prune>,
) -> Result<u64> {
    with_writer(repository, what, |writer| record(writer, |view| make(view).map(Some)))
}

/// Puts what `make` makes of the writer's view; where others are faster, what it makes of a newer
/// view. `None` where it makes nothing, or the writer has to begin anew.
fn record(
    writer: &mut Writer,
    make: impl Fn(&View) -> Result<Option<Prune>>,
) -> Result<Option<u64>> {
    let view = writer.view().clone();
    let Some(first) = make(&view)? else { return Ok(None) };
    let none = BTreeSet::new();
    match record::publish(writer, &view, first, &none, |newer, _, _| make(newer))? {
        Recorded::Done(number) => Ok(Some(number)),
        Recorded::Stopped(_) => {
            writer.void(Vec::new())?;
            Ok(None)
        }
        Recorded::Ended => Ok(None),
    }
}

/// Lets a new writer act, until it has done so: `None` says that it has ended without.
fn with_writer<T, E: From<Error>>(
    repository: &Arc<Repository>,
    what: &str,
    mut act: impl FnMut(&mut Writer) -> Result<Option<T>, E>,
) -> Result<T, E> {
    for _ in 0..TRIES {
        let mut writer = Writer::begin(repository.clone(), Purpose::Other)?;
        match act(&mut writer) {
            Ok(Some(done)) => return Ok(done),
            Ok(None) => {}
            Err(error) => {
                // Nobody is to wait for it.
                writer.void(Vec::new()).ok();
                return Err(error);
            }
        }
    }
    let message = "other clients came in between again and again; try again later";
    Err(Error::new(Kind::Conflict, what, message).into())
}
