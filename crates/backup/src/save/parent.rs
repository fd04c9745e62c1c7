//! The parents of a backup: the snapshots that its source is compared with.

use std::collections::HashSet;

use cutpoint_repository::{Snapshot, TicketId, View};
use cutpoint_storage::{Error, Result};

use super::options::Parent;

/// A snapshot to compare some of the sources with, because the parent does not contain them.
pub(super) struct SourceParent {
    pub(super) id: TicketId,
    pub(super) snapshot: Box<Snapshot>,
    /// The positions of these sources in the list of all sources.
    pub(super) sources: Vec<usize>,
}

/// Chooses the parent by rule W3: a snapshot may be taken over if the view has it, no prune of the
/// view has taken it, and no key epoch has begun after it.
pub(super) fn choose_parent(
    view: &View,
    choice: Parent,
    host: &str,
    sources: &[Vec<u8>],
) -> Result<Option<(TicketId, Box<Snapshot>)>> {
    let snapshots = view.snapshots();
    let mut snapshots = snapshots.into_iter().filter(|(id, _)| view.may_take_over(*id));
    let parent = match choice {
        Parent::None => return Ok(None),
        Parent::Newest => {
            let is_own = |snapshot: &Snapshot| snapshot.host == host && snapshot.sources == sources;
            let mut own: Vec<_> = snapshots.filter(|(_, snapshot)| is_own(snapshot)).collect();
            own.sort_by_key(|(id, snapshot)| std::cmp::Reverse((snapshot.started_ns, *id)));
            own.into_iter().find(|(id, _)| view.may_be_parent(*id))
        }
        Parent::Snapshot(wanted) => match snapshots.find(|(id, _)| *id == wanted) {
            Some((id, _)) if !view.may_be_parent(id) => {
                return Err(Error::invalid(
                    format!("snapshot {}", wanted.short()),
                    "cannot be the parent: created before the newest key epoch, or compared with a \
                     snapshot from before that; a holder of the old keys could have written it",
                ));
            }
            Some(parent) => Some(parent),
            None => {
                return Err(Error::missing(
                    format!("snapshot {}", wanted.short()),
                    "not found, and cannot be the parent",
                ));
            }
        },
    };
    Ok(parent.map(|(id, snapshot)| (id, Box::new(snapshot.clone()))))
}

/// Returns, for each source that `parent` lacks because it did not exist, the newest snapshot of
/// this host that has it, if there is one. Rule W3 holds for each of these snapshots.
pub(super) fn source_parents(
    view: &View,
    host: &str,
    sources: &[Vec<u8>],
    parent: &Snapshot,
) -> Vec<SourceParent> {
    let mut parents: Vec<SourceParent> = Vec::new();
    let missing: HashSet<&[u8]> = parent.missing_sources().collect();
    for (number, source) in sources.iter().enumerate() {
        if !missing.contains(source.as_slice()) {
            continue;
        }
        let has_it = |snapshot: &Snapshot| {
            snapshot.host == host
                && !snapshot.partial
                && snapshot.sources.contains(source)
                && !snapshot.missing_sources().any(|missing| missing == source)
        };
        let snapshots = view.snapshots();
        let newest = snapshots
            .into_iter()
            .filter(|(id, snapshot)| has_it(snapshot) && view.may_be_parent(*id))
            .max_by_key(|(id, snapshot)| (snapshot.started_ns, *id));
        let Some((id, snapshot)) = newest else { continue };
        match parents.iter_mut().find(|parent| parent.id == id) {
            Some(parent) => parent.sources.push(number),
            None => parents.push(SourceParent {
                id,
                snapshot: Box::new(snapshot.clone()),
                sources: vec![number],
            }),
        }
    }
    parents
}
