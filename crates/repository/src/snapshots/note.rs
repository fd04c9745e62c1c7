//! Tags and descriptions of snapshots.

use std::sync::Arc;

use cutpoint_storage::{Error, Result};

use super::small_writer::{commit_alone, existing};
use crate::format::commit::{Note, Outcome};
use crate::format::names::TicketId;
use crate::repo::repository::Repository;

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
