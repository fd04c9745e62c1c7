//! Checks of snapshots: everything that they reach must exist.

use std::collections::{BTreeSet, HashSet};

use cutpoint_storage::Result;

use super::affected::AffectedPaths;
use super::context::Check;
use super::finding::FindingKind;
use super::inventory::Inventory;
use super::places::PlaceFindings;
use super::reachable::{ReachableChunks, Root, roots};
use crate::format::commit::Damage;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::read::Reader;
use crate::repo::view::View;

/// The data that cannot be read any more.
#[derive(Debug)]
pub(crate) struct MissingData {
    /// Chunks that cannot be read from any place.
    pub(crate) chunks: HashSet<(Class, Fingerprint)>,
    /// The missing chunks that a listed snapshot needs.
    pub(crate) needed: HashSet<(Class, Fingerprint)>,
    /// The missing chunks that the storage refused to read, and may return another time.
    pub(crate) refused: HashSet<Fingerprint>,
    /// Commits that a writer has seen and that are gone.
    pub(crate) commits: BTreeSet<TicketId>,
    /// Containers that have usable parity.
    pub(crate) protected: HashSet<(Class, PartName)>,
    /// Containers that the storage refused to read.
    pub(crate) refused_containers: HashSet<(Class, PartName)>,
    /// The snapshots that were checked; nothing is known about others.
    pub(crate) checked_snapshots: BTreeSet<TicketId>,
    /// Commits that could not be read at the time of the check.
    pub(crate) unreadable_commits: BTreeSet<TicketId>,
}

/// Marks everything that snapshots reach and, if chunks are missing, reports the paths that need
/// them. Returns the damages to be recorded
/// ([`CheckReport::damages`](super::CheckReport::damages)), and the missing data.
pub(super) fn check(
    check: &Check<'_>,
    inventory: &mut Inventory,
    reader: &Reader,
) -> Result<(BTreeSet<Damage>, MissingData)> {
    let (at_risk, findings) = take_findings(check, inventory);
    let mut reachable = ReachableChunks::examine(check, reader, inventory, &findings)?;
    // A prune may have moved chunks that seem to be missing, in which case it has published new
    // segments.
    if !reachable.missing.is_empty()
        && inventory.list_again(check)?
        && reader.index().refresh(&inventory.view).is_ok()
    {
        reachable = ReachableChunks::examine(check, reader, inventory, &findings)?;
    }
    let roots = roots(&inventory.view);
    check.count(|report| {
        report.snapshot_count = roots.len() as u64;
        report.reference_count = reachable.reference_count;
        report.missing_count = reachable.needed().count() as u64;
    });
    let recorded = inventory.view.damaged();
    let found = findings.unreadable.iter().chain(&at_risk).chain(&reachable.at_risk).copied();
    let found = found.chain(reachable.full_chunks.places_of_missing(false)?);
    let mut damages: BTreeSet<Damage> = found.filter(|each| !recorded.contains(each)).collect();
    let places = reachable.places_of_missing()?;
    report_missing(check, &mut reachable, &places, &damages)?;
    if !reachable.missing.is_empty() {
        let known = report_affected(check, &inventory.view, &reachable, &roots)?;
        damages.extend(places.into_iter().filter(|damage| {
            !reachable.refused.contains(&damage.fingerprint)
                && (known.contains(&damage.fingerprint) || !recorded.contains(damage))
        }));
    }
    let missing = MissingData {
        chunks: reachable.missing.keys().copied().collect(),
        needed: reachable.needed().copied().collect(),
        refused: reachable.refused,
        commits: inventory.missing_commits.clone(),
        protected: HashSet::new(),
        refused_containers: HashSet::new(),
        checked_snapshots: reachable.checked,
        unreadable_commits: inventory.view.unreadable.keys().filter_map(commit_of).collect(),
    };
    Ok((damages, missing))
}

/// Takes what the check of the containers has found: the places that are at risk, and the other
/// findings about places.
fn take_findings(check: &Check<'_>, inventory: &Inventory) -> (HashSet<Damage>, PlaceFindings) {
    let mut state = check.lock();
    let findings = PlaceFindings {
        gone: inventory.gone.clone(),
        unreadable: std::mem::take(&mut state.unreadable),
        read: std::mem::take(&mut state.read),
        unassembled: std::mem::take(&mut state.unassembled),
        lacking: std::mem::take(&mut state.lacking),
        recorded: inventory.view.damaged(),
    };
    (std::mem::take(&mut state.at_risk), findings)
}

/// Reports the deferred findings, and the missing chunks, whose `places` are given.
fn report_missing(
    check: &Check<'_>,
    reachable: &mut ReachableChunks<'_>,
    places: &BTreeSet<Damage>,
    damages: &BTreeSet<Damage>,
) -> Result<()> {
    let missing = &reachable.missing;
    let is_needed = |damage: &&Damage| {
        missing.get(&(damage.class, damage.fingerprint)).is_some_and(|chunk| chunk.is_listed)
    };
    let of_full_chunks = reachable.full_chunks.places_of_missing(true)?;
    let needed = places.iter().filter(is_needed).chain(damages).chain(&reachable.relied);
    let needed = needed.chain(&of_full_chunks);
    check.report_deferred(&needed.map(|damage| (damage.class, damage.container)).collect());
    reachable.full_chunks.report_missing(check)?;
    reachable.report_missing()
}

/// Reports the paths that cannot be restored. Returns the missing chunks of snapshots whose writers
/// knew of the record of the damage: a backup that compares with such a snapshot learns only of
/// damage that is recorded from now on.
fn report_affected(
    check: &Check<'_>,
    view: &View,
    reachable: &ReachableChunks<'_>,
    roots: &[Root],
) -> Result<HashSet<Fingerprint>> {
    let mut affected = AffectedPaths::new(reachable);
    let mut known = HashSet::new();
    for root in roots {
        let missing = affected.report_snapshot(root.snapshot, &root.content, root.is_listed)?;
        let recorded_later = view.damaged_since(root.snapshot);
        known.extend(missing.into_iter().filter(|chunk| !recorded_later.contains(chunk)));
    }
    let more = affected.more();
    if more > 0 {
        let message = format!("{more} more paths are affected");
        check.report(FindingKind::Affected, "snapshots", message);
    }
    Ok(known)
}

fn commit_of(name: &ObjectName) -> Option<TicketId> {
    match name {
        ObjectName::Commit(ticket) => Some(*ticket),
        _ => None,
    }
}
