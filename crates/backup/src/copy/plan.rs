//! The plan of a copy: the snapshots that the target lacks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cutpoint_repository::format::commit::CopyCoverage;
use cutpoint_repository::verify::repair::repaired_as;
use cutpoint_repository::{Content, Reader, Repository, RepositoryId, Snapshot, TicketId, View};
use cutpoint_storage::{Error, Result};

use super::lost::LostData;
use super::monitor::CopyMonitor;
use super::survey::survey;

/// The maximum number of earlier snapshots that a copy may be compared with.
const BASES_MAX: usize = 16;

/// The repository in which a backup has made a snapshot, and the identifier of the snapshot there.
pub(super) type OriginKey = (RepositoryId, TicketId);

/// A snapshot that will be copied.
#[derive(Clone, Debug)]
pub struct PlannedCopy {
    /// The identifier of the snapshot at the source.
    pub id: TicketId,
    /// The snapshot, with its current tags and description.
    pub snapshot: Snapshot,
    /// The number of files that have to be copied, because no snapshot that was copied before has
    /// them.
    pub read_file_count: u64,
    /// The total size of these files in bytes.
    pub read_bytes: u64,
    /// Set if there is a copy of a newer snapshot of the same host and paths.
    pub is_older: bool,
    /// The copy at the target that lacks data which could not be read, or has lost data; `None` if
    /// there is none.
    pub replaces: Option<TicketId>,
    pub(super) origin: OriginKey,
    /// Earlier snapshots to compare with, best first, and their root folders at the source.
    pub(super) bases: Vec<(OriginKey, Content)>,
}

/// The rules about snapshots of which the target has had copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyRules {
    /// Copies a snapshot again if its copy was forgotten or rewritten.
    pub again: bool,
    /// Leaves out snapshots that are older than the newest copy of the same host and paths.
    pub only_newer: bool,
}

/// The snapshots that will be copied, and those that will not be.
#[derive(Debug)]
pub struct CopyPlan {
    /// A reader of the source.
    pub(super) reader: Arc<Reader>,
    pub(super) rules: CopyRules,
    /// The snapshots that the target lacks, oldest first.
    pub copies: Vec<PlannedCopy>,
    /// The snapshots that the target has, and their identifiers there.
    pub present: Vec<(TicketId, TicketId)>,
    /// The snapshots of which the target has a copy that was rewritten, and its identifier there.
    pub reduced: Vec<(TicketId, TicketId)>,
    /// The snapshots whose copies were forgotten, and the identifiers of these.
    pub forgotten: Vec<(TicketId, TicketId)>,
    /// The snapshots that are left out because they are older than the newest copy.
    pub older: Vec<TicketId>,
    /// The snapshots of which the trees cannot be read.
    pub failed: Vec<TicketId>,
}

impl CopyPlan {
    fn new(reader: Arc<Reader>, rules: CopyRules) -> CopyPlan {
        CopyPlan {
            reader,
            rules,
            copies: Vec::new(),
            present: Vec::new(),
            reduced: Vec::new(),
            forgotten: Vec::new(),
            older: Vec::new(),
            failed: Vec::new(),
        }
    }
}

/// Finds out which of the snapshots `wanted` of `reader` the repository `target` lacks.
///
/// # Errors
///
/// Returns `Invalid` if both repositories are the same, `Missing` if the source has no snapshot
/// `wanted`, and `Interrupted` if the monitor cancels the run. Returns any error of the storage of
/// the source, and of reading the target if a check has found damage there. A snapshot of the source
/// that cannot be read is reported to the monitor instead.
pub fn plan_copies(
    reader: &Arc<Reader>,
    target: &Arc<Repository>,
    target_view: &View,
    wanted: &[TicketId],
    rules: CopyRules,
    monitor: &dyn CopyMonitor,
) -> Result<CopyPlan> {
    let source_id = reader.repository().config().repository;
    let target_id = target.config().repository;
    if source_id == target_id {
        let message = "source and target are the same repository, or copies of one";
        return Err(Error::invalid("copy", message));
    }
    let view = reader.view();
    let sources: Vec<_> = view.snapshots().into_iter().chain(view.forgotten_snapshots()).collect();
    let mut lost = LostData::of(target, target_view)?;
    let mut there = There::of(target_id, target_view);
    let mut stopped: HashSet<(&str, &[Vec<u8>])> = HashSet::new();
    let mut plan = CopyPlan::new(reader.clone(), rules);
    let total = wanted.len() as u64;
    for ((id, snapshot), number) in find(&sources, wanted)?.into_iter().zip(1..) {
        monitor.examined(number, total);
        let origin = key(source_id, id, snapshot);
        let is_older = there.has_newer(snapshot);
        there.look_for_loss(&origin, target_view, &mut lost, monitor)?;
        let copy = there.copies.get(&origin).copied();
        match copy {
            Some((Presence::Listed, copy)) => plan.present.push((id, copy)),
            Some((Presence::Reduced, copy)) if !rules.again => plan.reduced.push((id, copy)),
            Some((Presence::Forgotten, copy)) if !rules.again => plan.forgotten.push((id, copy)),
            None if is_older && rules.only_newer => plan.older.push(id),
            _ => {
                let group = (&*snapshot.host, &*snapshot.sources);
                let bases = bases(source_id, &sources, (id, snapshot));
                let replaces = copy.filter(|(presence, _)| *presence == Presence::Lossy);
                let own = replaces.map(|_| &snapshot.root);
                let base = bases.iter().find(|(base, _)| there.lists(base));
                let root = own.or_else(|| base.map(|(_, root)| root));
                let work = match stopped.contains(&group) {
                    true => Err(after_failure()),
                    false => survey("copy", reader, &snapshot.root, root, &[], monitor),
                };
                let work = match work {
                    Ok(work) => work,
                    Err(error) if error.is_loss() => {
                        monitor.failed(id, &error);
                        plan.failed.push(id);
                        stopped.extend(rules.only_newer.then_some(group));
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                there.copies.insert(origin, (Presence::Listed, id));
                plan.copies.push(PlannedCopy {
                    id,
                    snapshot: current(&view, id, snapshot),
                    read_file_count: work.read_file_count,
                    read_bytes: work.read_bytes,
                    is_older,
                    replaces: replaces.map(|(_, copy)| copy),
                    origin,
                    bases,
                });
            }
        }
    }
    Ok(plan)
}

/// Returns the reason why a snapshot is not copied after an older one, if only newer ones would be
/// copied from then on.
pub(super) fn after_failure() -> Error {
    let message = "not copied, and it would be left out once a newer one is copied";
    Error::missing("an older snapshot of the same host and paths", message)
}

/// Returns the snapshots `wanted` of `sources`, oldest first.
fn find<'v>(
    sources: &[(TicketId, &'v Snapshot)],
    wanted: &[TicketId],
) -> Result<Vec<(TicketId, &'v Snapshot)>> {
    let by_id: HashMap<TicketId, &Snapshot> = sources.iter().copied().collect();
    let mut found = Vec::new();
    for id in wanted {
        let snapshot = by_id.get(id);
        let missing = || Error::missing(format!("snapshot {}", id.short()), "not found");
        found.push((*id, *snapshot.ok_or_else(missing)?));
    }
    found.sort_by_key(|(id, snapshot)| (snapshot.started_ns, *id));
    Ok(found)
}

/// The state of a copy at the target. The greatest one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Presence {
    Forgotten,
    /// Listed, but without entries that could not be read, or with data that is lost.
    Lossy,
    /// Listed, without the entries that a rewrite has left out.
    Reduced,
    Listed,
}

/// Returns the state of a listed copy by the part of the original that it has.
fn presence_of(coverage: CopyCoverage) -> Presence {
    match coverage {
        CopyCoverage::Complete => Presence::Listed,
        CopyCoverage::Begun | CopyCoverage::Lossy => Presence::Lossy,
        CopyCoverage::Reduced => Presence::Reduced,
    }
}

/// The snapshots of the target.
struct There<'v> {
    /// The copies and the snapshots that were made there, by their origins.
    copies: HashMap<OriginKey, (Presence, TicketId)>,
    /// The start of the newest copy of each host and its paths.
    newest_ns: HashMap<(&'v str, &'v [Vec<u8>]), i64>,
}

impl<'v> There<'v> {
    fn of(target_id: RepositoryId, view: &'v View) -> There<'v> {
        let (mut copies, mut newest_ns) = (HashMap::new(), HashMap::new());
        let all_forgotten = view.forgotten();
        let is_listed = |id: &TicketId| !all_forgotten.contains(id);
        let listed = view.snapshots().into_iter().map(|it| (it, Presence::Listed));
        let forgotten = view.forgotten_snapshots().into_iter();
        let forgotten = forgotten.map(|it| (it, Presence::Forgotten));
        for ((id, snapshot), presence) in listed.chain(forgotten) {
            let origin = snapshot.origin.as_deref();
            let (presence, key) = match origin.map(|origin| (origin.coverage, origin)) {
                None => (presence, (target_id, id)),
                Some((CopyCoverage::Begun, _)) => continue,
                Some((coverage, origin)) => {
                    let coverage = presence_of(coverage);
                    let newest = newest_ns.entry((&*snapshot.host, &*snapshot.sources));
                    let newest = newest.or_insert(snapshot.started_ns);
                    *newest = snapshot.started_ns.max(*newest);
                    // What a repair has kept of a copy is listed, but is no copy.
                    let is_repaired = || repaired_as(view, id).is_some_and(|it| is_listed(&it));
                    let presence = match presence.min(coverage) {
                        Presence::Forgotten if is_repaired() => Presence::Lossy,
                        presence => presence,
                    };
                    (presence, (origin.repository, origin.snapshot))
                }
            };
            let known = copies.entry(key).or_insert((presence, id));
            *known = (*known).max((presence, id));
        }
        There { copies, newest_ns }
    }

    /// Takes copies of `origin` that need lost data for lossy ones.
    fn look_for_loss(
        &mut self,
        origin: &OriginKey,
        view: &View,
        lost: &mut LostData,
        monitor: &dyn CopyMonitor,
    ) -> Result<()> {
        let Some((Presence::Listed, _)) = self.copies.get(origin) else { return Ok(()) };
        let mut lossy = None;
        for (id, snapshot) in view.snapshots() {
            let of = snapshot.origin.as_deref().map(|it| (it.repository, it.snapshot, it.coverage));
            if of != Some((origin.0, origin.1, CopyCoverage::Complete)) {
                continue;
            }
            if !lost.concerns(&snapshot.root, monitor)? {
                return Ok(());
            }
            lossy = Some(id);
        }
        // The other ones have been made here, by backups.
        if let Some(id) = lossy {
            self.copies.insert(*origin, (Presence::Lossy, id));
        }
        Ok(())
    }

    /// Returns `true` if a copy can be compared with that of `origin`.
    fn lists(&self, origin: &OriginKey) -> bool {
        self.copies.get(origin).is_some_and(|(presence, _)| *presence > Presence::Forgotten)
    }

    /// Returns `true` if there was a copy of a newer snapshot of the same host and paths.
    fn has_newer(&self, snapshot: &Snapshot) -> bool {
        let newest = self.newest_ns.get(&(&*snapshot.host, &*snapshot.sources));
        newest.is_some_and(|newest_ns| *newest_ns > snapshot.started_ns)
    }
}

/// Returns the repository in which a backup has made a snapshot of `repository`, and the identifier
/// of the snapshot there.
fn key(repository: RepositoryId, id: TicketId, snapshot: &Snapshot) -> OriginKey {
    match snapshot.copied_from() {
        Some(origin) => (origin.repository, origin.snapshot),
        None => (repository, id),
    }
}

/// Returns the earlier ones of `sources` that a snapshot may be compared with, best first: those of
/// the same host, the newest before the others, those of the same paths before all.
fn bases(
    repository: RepositoryId,
    sources: &[(TicketId, &Snapshot)],
    (id, snapshot): (TicketId, &Snapshot),
) -> Vec<(OriginKey, Content)> {
    let is_earlier = |each: &(TicketId, &Snapshot)| {
        (each.1.started_ns, each.0) < (snapshot.started_ns, id) && each.1.host == snapshot.host
    };
    let mut bases: Vec<_> = sources.iter().filter(|each| is_earlier(each)).collect();
    bases.sort_by_key(|(each, it)| {
        (it.sources == snapshot.sources, !it.partial, it.started_ns, *each)
    });
    let bases = bases.into_iter().rev().take(BASES_MAX);
    bases.map(|(id, it)| (key(repository, *id, it), it.root.clone())).collect()
}

/// Returns a snapshot with its current tags and description, which a note can have changed.
pub(super) fn current(view: &View, id: TicketId, snapshot: &Snapshot) -> Snapshot {
    Snapshot {
        tags: view.tags(id, snapshot).to_vec(),
        description: view.description(id, snapshot).to_owned(),
        ..snapshot.clone()
    }
}
