//! Checks of snapshots: that everything they reach exists.

use std::collections::{BTreeSet, HashSet};

use cutpoint_storage::Result;

use super::affected::Affected;
use super::context::Check;
use super::finding::FindingKind;
use super::inventory::Seen;
use super::places::Known;
use super::reachable::{SnapshotWalk, roots};
use crate::format::commit::Damage;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::read::Reader;

/// The data that cannot be read any more.
#[derive(Debug)]
pub(crate) struct Lost {
    /// Chunks that cannot be read from any place.
    pub(crate) chunks: HashSet<(Class, Fingerprint)>,
    /// The lost chunks that a listed snapshot needs.
    pub(crate) needed: HashSet<(Class, Fingerprint)>,
    /// The lost chunks that the storage refused to read, and may return another time.
    pub(crate) refused: HashSet<Fingerprint>,
    /// Commits that a writer has seen and that are gone.
    pub(crate) commits: BTreeSet<TicketId>,
    /// Containers that have usable parity.
    pub(crate) protected: HashSet<(Class, PartName)>,
    /// Containers that the storage refused to read.
    pub(crate) refused_containers: HashSet<(Class, PartName)>,
    /// The snapshots that were walked; nothing is known about others.
    pub(crate) walked: BTreeSet<TicketId>,
    /// Commits that could not be read at the time of the check.
    pub(crate) unread: BTreeSet<TicketId>,
}

/// Walks every snapshot and, if chunks are lost, reports the paths that need them. Returns the
/// damages to be recorded ([`CheckReport::damages`](super::CheckReport::damages)), and the lost
/// data.
pub(super) fn check(
    check: &Check<'_>,
    seen: &mut Seen,
    reader: &Reader,
) -> Result<(BTreeSet<Damage>, Lost)> {
    let (weak, known) = {
        let mut state = check.lock();
        let known = Known {
            gone: seen.gone.clone(),
            bad: std::mem::take(&mut state.bad),
            read: std::mem::take(&mut state.read),
            unbuilt: std::mem::take(&mut state.unbuilt),
            lacking: std::mem::take(&mut state.lacking),
            recorded: seen.view.damaged(),
        };
        (std::mem::take(&mut state.weak), known)
    };
    let mut walk = SnapshotWalk::run(check, reader, seen, &known)?;
    // A prune may have moved chunks that seem to be lost, in which case it has published new
    // segments.
    if !walk.lost.is_empty()
        && seen.list_again(check)?
        && reader.index().refresh(&seen.view).is_ok()
    {
        walk = SnapshotWalk::run(check, reader, seen, &known)?;
    }
    let roots = roots(&seen.view);
    check.count(|report| {
        report.snapshot_count = roots.len() as u64;
        report.reference_count = walk.references;
        report.lost_count = walk.lost.values().filter(|lost| lost.is_listed).count() as u64;
    });
    let recorded = seen.view.damaged();
    let missed = walk.full_chunks.places_of_missed(false)?;
    let found = known.bad.iter().chain(&weak).chain(&walk.shaken).chain(&missed).copied();
    let mut damages: BTreeSet<Damage> = found.filter(|each| !recorded.contains(each)).collect();
    let places = walk.places_of_lost()?;
    let is_needed = |damage: &&Damage| {
        walk.lost.get(&(damage.class, damage.fingerprint)).is_some_and(|lost| lost.is_listed)
    };
    let missed = walk.full_chunks.places_of_missed(true)?;
    let needed = places.iter().filter(is_needed).chain(&damages).chain(&walk.relied).chain(&missed);
    check.name_deferred(&needed.map(|damage| (damage.class, damage.container)).collect());
    walk.full_chunks.name_missed(check)?;
    walk.name_lost()?;
    if !walk.lost.is_empty() {
        let mut affected = Affected::new(&walk);
        let mut unhealed = HashSet::new();
        for root in &roots {
            let lost = affected.name_all(root.snapshot, &root.content, root.is_listed)?;
            // A backup that compares with this snapshot learns only of damage recorded after it.
            let heard = seen.view.damaged_since(root.snapshot);
            unhealed.extend(lost.into_iter().filter(|lost| !heard.contains(lost)));
        }
        damages.extend(places.into_iter().filter(|damage| {
            !walk.refused.contains(&damage.fingerprint)
                && (unhealed.contains(&damage.fingerprint) || !recorded.contains(damage))
        }));
        match affected.more() {
            0 => {}
            more => {
                let message = format!("{more} more paths are affected");
                check.finding(FindingKind::Affected, "snapshots", message);
            }
        }
    }
    let lost = Lost {
        chunks: walk.lost.keys().copied().collect(),
        needed: {
            let needed = walk.lost.iter().filter(|(_, lost)| lost.is_listed);
            needed.map(|(chunk, _)| *chunk).collect()
        },
        refused: walk.refused,
        commits: seen.lost_commits.clone(),
        protected: HashSet::new(),
        refused_containers: HashSet::new(),
        walked: walk.walked,
        unread: seen.view.unreadable.keys().filter_map(commit_of).collect(),
    };
    Ok((damages, lost))
}

fn commit_of(name: &ObjectName) -> Option<TicketId> {
    match name {
        ObjectName::Commit(ticket) => Some(*ticket),
        _ => None,
    }
}
