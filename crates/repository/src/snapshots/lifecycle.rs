//! Snapshot state outside of prunes: forgetting and bringing back, holding and releasing, tags and
//! descriptions. Nothing in this module deletes an object.
//!
//! Forgetting and noting are commits, which race with nothing. Holding and bringing back race with
//! a prune that is about to take the snapshot, so they are numbered records ([`crate::write::prune_log`]).

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use cutpoint_storage::{Error, Kind, Result};

use crate::format::commit::{Note, Outcome, Snapshot};
use crate::format::names::TicketId;
use crate::format::prune::Prune;
use crate::format::ticket::Purpose;
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::write::prune_log::{self, Appended};
use crate::write::{Committed, Writer};

/// Maximum number of writers that one operation begins when other clients end its tickets.
const TRIES: usize = 5;

/// Forgets the snapshots that `choose` returns, by one commit. A forgotten snapshot is no longer
/// listed, and can be brought back until a prune takes it.
///
/// `choose` decides by the view of the writer, and is called again if the operation has to be
/// restarted. A caller that chooses by rules should complete the view first ([`View::complete`]).
/// Returns the ticket of the commit, or `None` if nothing was chosen.
///
/// # Errors
///
/// Returns any error of `choose` or of the storage, `Invalid` if a snapshot does not exist or is
/// held, and `Conflict` if other clients ended the ticket at every attempt.
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
                return Err(of_snapshot(*id, "held, cannot be forgotten").into());
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
/// Returns `Invalid` if a snapshot does not exist or a prune has already taken it, `Conflict` if
/// other clients ended the ticket at every attempt, and any error of the storage.
pub fn hold(repository: &Arc<Repository>, snapshots: &[TicketId]) -> Result<u64> {
    record_alone(repository, "holding", |view| {
        for id in snapshots {
            existing(view, *id)?;
        }
        Ok(Prune { held: snapshots.to_vec(), ..Prune::default() })
    })
}

/// Releases held snapshots. Returns the number of the record.
///
/// # Errors
///
/// Returns `Invalid` if a snapshot is not held, `Conflict` if other clients ended the ticket at
/// every attempt, and any error of the storage.
pub fn release(repository: &Arc<Repository>, snapshots: &[TicketId]) -> Result<u64> {
    record_alone(repository, "releasing", |view| {
        let held = view.held();
        if let Some(id) = snapshots.iter().find(|id| !held.contains(id)) {
            return Err(of_snapshot(*id, "not held"));
        }
        Ok(Prune { released: snapshots.to_vec(), ..Prune::default() })
    })
}

/// Brings forgotten snapshots back by cancelling the commits that forgot them. Other snapshots that
/// those commits forgot stay forgotten. Returns the number of the record.
///
/// # Errors
///
/// Returns `Invalid` if a snapshot does not exist, is not forgotten, or was already taken by a
/// prune, `Conflict` if other clients were faster at every attempt, and any error of the storage.
pub fn unforget(repository: &Arc<Repository>, snapshots: &[TicketId]) -> Result<u64> {
    with_writer(repository, "bringing back", |writer| {
        let others = Undo::new(writer.view(), snapshots)?.others;
        if !others.is_empty() {
            // The other snapshots get a forget commit of their own before the common one is
            // cancelled, so they are forgotten at any time. The next writer has this commit in its
            // view and cancels the common one.
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

/// Changes the tags and the description of a snapshot. `change` receives the present ones. Returns
/// `true` if they differ afterwards.
///
/// # Errors
///
/// Returns `Invalid` if the snapshot does not exist, `Conflict` if other clients ended the ticket
/// at every attempt, and any error of the storage.
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

/// The changes that bring a set of snapshots back.
struct Undo {
    /// The commits that forgot at least one of the snapshots.
    cancelled: Vec<TicketId>,
    /// Other snapshots that only the cancelled commits have forgotten, and which would come back
    /// with the cancellation.
    others: Vec<TicketId>,
}

impl Undo {
    fn new(view: &View, snapshots: &[TicketId]) -> Result<Undo> {
        let forgets = view.forgets();
        for id in snapshots {
            existing(view, *id)?;
            if !forgets.iter().any(|(_, forgotten)| forgotten.contains(id)) {
                return Err(of_snapshot(*id, "not forgotten"));
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

/// Returns the snapshot `id`, forgotten or not, unless a prune has taken it.
fn existing(view: &View, id: TicketId) -> Result<&Snapshot> {
    if let Some((number, _)) = view.prunes.iter().find(|(_, prune)| prune.forgotten.contains(&id)) {
        return Err(of_snapshot(id, format!("already removed by prune {number}")));
    }
    let commit = view.commits.get(&id);
    commit.and_then(|commit| commit.snapshot()).ok_or_else(|| of_snapshot(id, "not found"))
}

fn of_snapshot(id: TicketId, message: impl std::fmt::Display) -> Error {
    Error::invalid(format!("snapshot {}", id.short()), message)
}

/// Runs a writer for one small commit of the outcome that `decide` derives from the writer's view.
/// Commits nothing if `decide` returns `None`.
///
/// # Errors
///
/// Returns any error of `decide` or of the storage, and `Conflict`, naming `what`, if other clients
/// ended the ticket at every attempt.
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

/// Runs a writer for a numbered record that condemns nothing.
fn record_alone(
    repository: &Arc<Repository>,
    what: &str,
    make: impl Fn(&View) -> Result<Prune>,
) -> Result<u64> {
    with_writer(repository, what, |writer| record(writer, |view| make(view).map(Some)))
}

/// Publishes the record that `make` derives from the writer's view, or from a newer view if other
/// records took the number. Returns `None` if `make` returns nothing or the operation has to be
/// restarted.
fn record(
    writer: &mut Writer,
    make: impl Fn(&View) -> Result<Option<Prune>>,
) -> Result<Option<u64>> {
    let view = writer.view().clone();
    let Some(first) = make(&view)? else { return Ok(None) };
    let none = BTreeSet::new();
    match prune_log::append(writer, &view, first, &none, |newer, _, _| make(newer))? {
        Appended::Done(number) => Ok(Some(number)),
        Appended::Stopped(_) => {
            writer.void(Vec::new())?;
            Ok(None)
        }
        Appended::Ended => Ok(None),
    }
}

/// Calls `act` with a new writer until it returns a result. `None` from `act` means that the writer
/// has ended without one.
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
                // The ticket is ended here, so that no other client has to wait for it.
                writer.void(Vec::new()).ok();
                return Err(error);
            }
        }
    }
    let message = "interrupted by other clients repeatedly; try again later";
    Err(Error::new(Kind::Conflict, what, message).into())
}
