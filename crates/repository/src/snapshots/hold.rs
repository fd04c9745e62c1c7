//! Holding snapshots, and releasing them. Both race with a prune that is about to take the
//! snapshot, so they are numbered records ([`crate::write::prune_log`]).

use std::sync::Arc;

use cutpoint_storage::Result;

use super::small_writer::{existing, of_snapshot, record_alone};
use crate::format::names::TicketId;
use crate::format::prune::Prune;
use crate::repo::repository::Repository;

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
