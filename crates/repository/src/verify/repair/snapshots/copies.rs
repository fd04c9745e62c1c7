//! The repaired copy of a snapshot: how it is recognized in a view.

use crate::format::commit::Snapshot;
use crate::format::names::TicketId;
use crate::repo::view::View;

/// Returns the start time of a repaired snapshot: a nanosecond after that of the original, so that
/// the repaired one follows it in every list and differs from all backups. If the storage refused
/// some data during the repair, it is two nanoseconds, because a later repair may find more.
pub(super) fn started_ns(snapshot: &Snapshot, is_makeshift: bool) -> i64 {
    snapshot.started_ns.saturating_add(1 + i64::from(is_makeshift))
}

pub(super) fn is_repair_of(
    copy: &Snapshot,
    id: TicketId,
    snapshot: &Snapshot,
    is_makeshift: bool,
) -> bool {
    copy.parent == Some(id) && copy.started_ns == started_ns(snapshot, is_makeshift)
}

/// Returns the snapshot that a repair has written from the rest of `id`, if `view` has one that no
/// prune has taken.
pub fn repaired_as(view: &View, id: TicketId) -> Option<TicketId> {
    let snapshot = view.commits.get(&id)?.snapshot()?;
    let is_made_of = |copy: &Snapshot| {
        [false, true].into_iter().any(|makeshift| is_repair_of(copy, id, snapshot, makeshift))
    };
    let all = view.snapshots().into_iter().chain(view.forgotten_snapshots());
    all.filter(|(_, copy)| is_made_of(copy)).map(|(copy, _)| copy).next()
}
