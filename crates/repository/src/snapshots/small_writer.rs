//! Writers of one small commit or record, which begin again if other clients end them.

use std::collections::BTreeSet;
use std::sync::Arc;

use cutpoint_storage::{Error, Kind, Result};

use crate::format::commit::{Outcome, Snapshot};
use crate::format::names::TicketId;
use crate::format::prune::Prune;
use crate::format::ticket::Purpose;
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::write::prune_log::{self, AppendResult};
use crate::write::{CommitResult, Writer};

/// Maximum number of writers that one operation begins when other clients end its tickets.
const TRIES: usize = 5;

/// Returns the snapshot `id`, forgotten or not, unless a prune has taken it.
pub(super) fn existing(view: &View, id: TicketId) -> Result<&Snapshot> {
    if let Some((number, _)) = view.prunes.iter().find(|(_, prune)| prune.taken.contains(&id)) {
        return Err(of_snapshot(id, format!("already removed by prune {number}")));
    }
    let commit = view.commits.get(&id);
    commit.and_then(|commit| commit.snapshot()).ok_or_else(|| of_snapshot(id, "not found"))
}

/// Returns the error of an operation on the snapshot `id`.
pub(super) fn of_snapshot(id: TicketId, message: impl std::fmt::Display) -> Error {
    Error::invalid(format!("snapshot {}", id.short()), message)
}

/// Runs a writer for one small commit of the outcome that `decide` derives from the writer's view.
/// Commits nothing if `decide` returns `None`.
///
/// # Errors
///
/// Returns any error of `decide` or of the storage, and `Conflict`, naming the `operation`, if
/// other clients ended the ticket at every attempt.
pub(crate) fn commit_alone<E: From<Error>>(
    repository: &Arc<Repository>,
    operation: &str,
    mut decide: impl FnMut(&View) -> Result<Option<Outcome>, E>,
) -> Result<Option<TicketId>, E> {
    with_writer(repository, operation, |writer| {
        let Some(outcome) = decide(writer.view())? else {
            writer.void(Vec::new())?;
            return Ok(Some(None));
        };
        let committed = writer.commit(outcome, Vec::new(), &BTreeSet::new())?;
        Ok((committed == CommitResult::Done).then_some(Some(writer.ticket())))
    })
}

/// Runs a writer for a numbered record that condemns nothing.
pub(super) fn record_alone(
    repository: &Arc<Repository>,
    operation: &str,
    make: impl Fn(&View) -> Result<Prune>,
) -> Result<u64> {
    with_writer(repository, operation, |writer| record(writer, |view| make(view).map(Some)))
}

/// Publishes the record that `make` derives from the writer's view, or from a newer view if other
/// records took the number. Returns `None` if `make` returns nothing or the operation has to be
/// restarted.
pub(super) fn record(
    writer: &mut Writer,
    make: impl Fn(&View) -> Result<Option<Prune>>,
) -> Result<Option<u64>> {
    let view = writer.view().clone();
    let Some(first) = make(&view)? else { return Ok(None) };
    let none = BTreeSet::new();
    match prune_log::append(writer, &view, first, &none, |newer, _, _| make(newer))? {
        AppendResult::Done(number) => Ok(Some(number)),
        AppendResult::Stopped(_) => {
            writer.void(Vec::new())?;
            Ok(None)
        }
        AppendResult::Ended => Ok(None),
    }
}

/// Calls `act` with a new writer until it returns a result. `None` from `act` means that the writer
/// has ended without one.
pub(super) fn with_writer<T, E: From<Error>>(
    repository: &Arc<Repository>,
    operation: &str,
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
    Err(Error::new(Kind::Conflict, operation, message).into())
}
