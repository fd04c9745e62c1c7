//! Forgetting snapshots, and bringing them back.
//!
//! Forgetting is a commit, which races with nothing. Bringing back races with a prune that is about
//! to take the snapshot, so it is a numbered record ([`crate::write::prune_log`]).

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use cutpoint_storage::{Error, Result};

use super::small_writer::{commit_alone, existing, of_snapshot, record, with_writer};
use crate::format::commit::Outcome;
use crate::format::names::TicketId;
use crate::format::prune::Prune;
use crate::repo::repository::Repository;
use crate::repo::view::View;

/// Forgets the snapshots that `choose` returns, by one commit. A forgotten snapshot is no longer
/// listed, and can be brought back until a prune takes it.
///
/// `choose` decides by the view of the writer, and is called again if the operation has to be
/// restarted. A caller that chooses by rules should complete the view first ([`View::whole`]).
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
