//! The plan of a copy: the snapshots that the target lacks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cutpoint_repository::format::commit::{CopyCoverage, OriginId, OriginKey};
use cutpoint_repository::verify::repair::repaired_as;
use cutpoint_repository::{Content, Reader, Repository, RepositoryId, Snapshot, TicketId, View};
use cutpoint_storage::{Error, Result};

use super::lost::LostData;
use super::monitor::CopyMonitor;
use super::survey::survey;
use super::totals::Totals;
use crate::save::{ForeignRepository, SourceRepository};

/// The maximum number of earlier snapshots that a copy may be compared with.
const BASES_MAX: usize = 16;

/// A snapshot that will be copied.
#[derive(Clone, Debug)]
pub struct PlannedCopy {
    /// The identifier of the snapshot at the source.
    pub id: OriginId,
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
    /// The name of the operation, for messages.
    pub(super) name: &'static str,
    pub(super) rules: CopyRules,
    /// The source.
    pub(super) repository: SourceRepository,
    /// The snapshots that the target lacks, oldest first.
    pub copies: Vec<PlannedCopy>,
    /// The snapshots that the target has or will have, and their identifiers there.
    pub present: Vec<(OriginId, Option<TicketId>)>,
    /// The snapshots of which the target has a copy that was rewritten, and its identifier there.
    pub reduced: Vec<(OriginId, Option<TicketId>)>,
    /// The snapshots whose copies were forgotten, and the identifiers of these.
    pub forgotten: Vec<(OriginId, Option<TicketId>)>,
    /// The snapshots that are left out because they are older than the newest copy.
    pub older: Vec<OriginId>,
    /// The snapshots of which the trees cannot be read.
    pub failed: Vec<OriginId>,
}

impl CopyPlan {
    fn new(name: &'static str, repository: SourceRepository, rules: CopyRules) -> CopyPlan {
        CopyPlan {
            name,
            repository,
            rules,
            copies: Vec::new(),
            present: Vec::new(),
            reduced: Vec::new(),
            forgotten: Vec::new(),
            older: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Returns the number of files that have to be copied, and their total size in bytes.
    pub fn read_totals(&self) -> (u64, u64) {
        self.copies.iter().fold((0, 0), |(file_count, bytes), planned| {
            (file_count + planned.read_file_count, bytes.saturating_add(planned.read_bytes))
        })
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
    let sources = view.snapshots().into_iter().chain(view.forgotten_snapshots());
    let sources = sources.map(|(id, snapshot)| Original {
        id: id.into(),
        key: key(source_id, id, snapshot),
        snapshot,
    });
    let wanted: Vec<OriginId> = wanted.iter().map(|id| (*id).into()).collect();
    let repository = SourceRepository::Own(reader.clone());
    let planner = Planner { name: "copy", sources: sources.collect(), repository, rules, monitor };
    let mut plan = planner.plan((target, target_view), &wanted)?;
    for planned in &mut plan.copies {
        if let Some(id) = planned.id.ticket() {
            planned.snapshot = current(&view, id, &planned.snapshot);
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

/// A snapshot of another program. Its root is the content of a folder of the
/// [`ForeignRepository`].
#[derive(Clone, Debug)]
pub struct ForeignSnapshot {
    /// The program, the repository and the identifier there.
    pub key: OriginKey,
    /// The properties of the snapshot that this program knows.
    pub snapshot: Snapshot,
    /// The name that the other program has for it, besides the identifier; empty if there is none.
    pub name: String,
}

impl ForeignSnapshot {
    /// Returns `true` if the other program calls the snapshot `name`.
    pub fn has_name(&self, name: &[u8]) -> bool {
        !self.name.is_empty() && self.name.as_bytes() == name
    }
}

/// Finds out which of the snapshots `wanted` of another program's repository the repository
/// `target` lacks. `snapshots` are all that it has.
///
/// # Errors
///
/// Returns `Missing` if the source has no snapshot `wanted`, and `Interrupted` if the monitor
/// cancels the run. Returns any error of the storage of the source. A snapshot that cannot be read
/// is reported to the monitor instead.
pub fn plan_imports(
    (repository, snapshots): (&Arc<dyn ForeignRepository>, &[ForeignSnapshot]),
    target: &Arc<Repository>,
    target_view: &View,
    wanted: &[OriginId],
    rules: CopyRules,
    monitor: &dyn CopyMonitor,
) -> Result<CopyPlan> {
    let sources = snapshots.iter().map(|each| Original {
        id: each.key.snapshot,
        key: each.key,
        snapshot: &each.snapshot,
    });
    let source = SourceRepository::Foreign(repository.clone());
    let planner =
        Planner { name: "import", sources: sources.collect(), repository: source, rules, monitor };
    let mut plan = planner.plan((target, target_view), wanted)?;
    let mut totals = Totals::new(&**repository);
    for planned in &mut plan.copies {
        let statistics = &mut planned.snapshot.statistics;
        if (statistics.file_count, statistics.size) == (0, 0) {
            *statistics = totals.of(&planned.snapshot.root)?;
        }
    }
    Ok(plan)
}

/// A snapshot of the source.
#[derive(Clone, Copy)]
struct Original<'v> {
    id: OriginId,
    key: OriginKey,
    snapshot: &'v Snapshot,
}

/// Compares the source with the target.
struct Planner<'v> {
    /// The name of the operation, for messages.
    name: &'static str,
    /// All snapshots of the source.
    sources: Vec<Original<'v>>,
    repository: SourceRepository,
    rules: CopyRules,
    monitor: &'v dyn CopyMonitor,
}

impl<'v> Planner<'v> {
    fn plan(
        self,
        (target, view): (&Arc<Repository>, &View),
        wanted: &[OriginId],
    ) -> Result<CopyPlan> {
        let Planner { name, rules, monitor, .. } = self;
        let mut lost = LostData::of(target, view)?;
        let mut there = There::of(target.config().repository, view);
        let mut stopped: HashSet<(&str, &[Vec<u8>])> = HashSet::new();
        let mut plan = CopyPlan::new(name, self.repository.clone(), rules);
        let total = wanted.len() as u64;
        for (Original { id, key, snapshot }, number) in self.find(wanted)?.into_iter().zip(1..) {
            monitor.examined(number, total);
            let is_older = there.has_newer(snapshot);
            there.look_for_loss(&key, view, &mut lost, monitor)?;
            let copy = there.copies.get(&key).copied();
            match copy {
                Some((Presence::Listed, copy)) => plan.present.push((id, copy)),
                Some((Presence::Reduced, copy)) if !rules.again => plan.reduced.push((id, copy)),
                Some((Presence::Forgotten, copy)) if !rules.again => {
                    plan.forgotten.push((id, copy))
                }
                None if is_older && rules.only_newer => plan.older.push(id),
                _ => {
                    let group = (&*snapshot.host, &*snapshot.sources);
                    let bases = self.bases((id, snapshot));
                    let replaces = copy.filter(|(presence, _)| *presence == Presence::Lossy);
                    let own = replaces.map(|_| &snapshot.root);
                    let base = bases.iter().find(|(base, _)| there.lists(base));
                    let root = own.or_else(|| base.map(|(_, root)| root));
                    let reader = self.repository.reader();
                    let work = match stopped.contains(&group) {
                        true => Err(after_failure()),
                        false => survey(name, reader, &snapshot.root, root, &[], monitor),
                    };
                    let work = match work {
                        Ok(work) => work,
                        Err(error) if error.is_loss() => {
                            monitor.failed(&id, &error);
                            plan.failed.push(id);
                            stopped.extend(rules.only_newer.then_some(group));
                            continue;
                        }
                        Err(error) => return Err(error),
                    };
                    there.copies.insert(key, (Presence::Listed, None));
                    plan.copies.push(PlannedCopy {
                        id,
                        snapshot: snapshot.clone(),
                        read_file_count: work.read_file_count,
                        read_bytes: work.read_bytes,
                        is_older,
                        replaces: replaces.and_then(|(_, copy)| copy),
                        origin: key,
                        bases,
                    });
                }
            }
        }
        Ok(plan)
    }

    /// Returns the snapshots `wanted`, oldest first.
    fn find(&self, wanted: &[OriginId]) -> Result<Vec<Original<'v>>> {
        let by_id: HashMap<OriginId, Original<'v>> =
            self.sources.iter().map(|each| (each.id, *each)).collect();
        let mut found = Vec::new();
        for id in wanted {
            let missing = || Error::missing(format!("snapshot {}", id.short()), "not found");
            found.push(*by_id.get(id).ok_or_else(missing)?);
        }
        found.sort_by_key(|each| (each.snapshot.started_ns, each.id));
        Ok(found)
    }

    /// Returns the earlier snapshots of the source that a snapshot may be compared with, best
    /// first: those of the same host, the newest before the others, those of the same paths before
    /// all.
    fn bases(&self, (id, snapshot): (OriginId, &Snapshot)) -> Vec<(OriginKey, Content)> {
        let is_earlier = |each: &&Original<'v>| {
            (each.snapshot.started_ns, each.id) < (snapshot.started_ns, id)
                && each.snapshot.host == snapshot.host
        };
        let mut bases: Vec<_> = self.sources.iter().filter(is_earlier).collect();
        bases.sort_by_key(|Original { id, snapshot: it, .. }| {
            (it.sources == snapshot.sources, !it.partial, it.started_ns, *id)
        });
        let bases = bases.into_iter().rev().take(BASES_MAX);
        bases.map(|each| (each.key, each.snapshot.root.clone())).collect()
    }
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
    copies: HashMap<OriginKey, (Presence, Option<TicketId>)>,
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
                None => (presence, OriginKey::own(target_id, id)),
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
                    (presence, origin.key)
                }
            };
            let known = copies.entry(key).or_insert((presence, Some(id)));
            *known = (*known).max((presence, Some(id)));
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
            let of = snapshot.origin.as_deref().map(|it| (it.key, it.coverage));
            if of != Some((*origin, CopyCoverage::Complete)) {
                continue;
            }
            if !lost.concerns(&snapshot.root, monitor)? {
                return Ok(());
            }
            lossy = Some(id);
        }
        // The other ones have been made here, by backups.
        if let Some(id) = lossy {
            self.copies.insert(*origin, (Presence::Lossy, Some(id)));
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
        Some(origin) => origin.key,
        None => OriginKey::own(repository, id),
    }
}

/// Returns a snapshot with its current tags and description, which a note can have changed.
pub(super) fn current(view: &View, id: TicketId, snapshot: &Snapshot) -> Snapshot {
    Snapshot {
        tags: view.tags(id, snapshot).to_vec(),
        description: view.description(id, snapshot).to_owned(),
        ..snapshot.clone()
    }
}
