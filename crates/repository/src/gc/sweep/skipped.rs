//! The snapshots that a rescue skips, because no writer can have taken anything over from them.

use std::collections::{BTreeSet, HashSet};

use crate::format::names::{ObjectName, TicketId};
use crate::format::prune::Prune;
use crate::repo::view::View;
use crate::rules;

/// Returns the snapshots that are skipped when chunks which `prune` condemned are rescued: those
/// taken by `prune` itself, by a swept record, or by one of the `seen` records. A writer without
/// such a snapshot in its view has not taken anything over from it.
pub(super) fn skipped(prune: &Prune, seen: &BTreeSet<u64>, view: &View) -> HashSet<TicketId> {
    let mut passed: HashSet<TicketId> = prune.taken.iter().copied().collect();
    for swept in view.swept().union(seen) {
        passed.extend(view.prunes.get(swept).iter().flat_map(|prune| &prune.taken));
    }
    if rules::may_skip_all_taken() {
        passed.extend(view.taken());
    }
    passed
}

/// Returns the time from which on every writer has seen that unreadable commits are given up,
/// or `None` if that time has come. Before it, a writer could take such a snapshot as its
/// parent, and then the snapshot would have to be marked.
pub(super) fn unseen_until_ns(
    skipped: &HashSet<TicketId>,
    view: &View,
    settle_ns: i64,
) -> Option<i64> {
    let unread = view.unreadable.keys().filter_map(|name| match name {
        ObjectName::Commit(id) => Some(id),
        _ => None,
    });
    let records = |id: &TicketId| {
        let records = view.prunes.values().filter(|prune| prune.taken.contains(id));
        records.map(|prune| prune.time_ns.saturating_add(settle_ns)).min()
    };
    unread.filter(|id| !skipped.contains(id)).filter_map(records).max()
}
