//! The plan of a copy: the snapshots that the target lacks.

use std::collections::HashMap;
use std::sync::Arc;

use cutpoint_repository::{Content, Reader, Repository, RepositoryId, Snapshot, TicketId, View};
use cutpoint_storage::{Error, Result};

use super::monitor::CopyMonitor;
use super::survey::{is_of_snapshot, survey};

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
    pub(super) origin: OriginKey,
    /// Earlier snapshots to compare with, best first, and their root folders at the source.
    pub(super) bases: Vec<(OriginKey, Content)>,
}

/// The snapshots that will be copied, and those that need not be.
#[derive(Debug)]
pub struct CopyPlan {
    /// A reader of the source.
    pub(super) reader: Arc<Reader>,
    /// The snapshots that the target lacks, oldest first.
    pub copies: Vec<PlannedCopy>,
    /// The snapshots that the target has, and their identifiers there.
    pub present: Vec<(TicketId, TicketId)>,
    /// The snapshots of which the trees cannot be read.
    pub failed: Vec<TicketId>,
}

/// Finds out which of the snapshots `wanted` of `reader` the repository `target` lacks.
///
/// # Errors
///
/// Returns `Invalid` if both repositories are the same, `Missing` if the source has no snapshot
/// `wanted`, and `Interrupted` if the monitor cancels the run. Returns any error of the storage of
/// the source. A snapshot that cannot be read is reported to the monitor instead.
pub fn plan_copies(
    reader: &Arc<Reader>,
    target: &Repository,
    target_view: &View,
    wanted: &[TicketId],
    monitor: &dyn CopyMonitor,
) -> Result<CopyPlan> {
    let source_id = reader.repository().config().repository;
    let target_id = target.config().repository;
    if source_id == target_id {
        let message = "source and target are the same repository, or copies of one";
        return Err(Error::invalid("copy", message));
    }
    let view = reader.view();
    let listed = target_view.snapshots().into_iter();
    let mut available: HashMap<OriginKey, TicketId> = listed
        .filter(|(_, snapshot)| snapshot.origin.is_none_or(|origin| origin.is_complete))
        .map(|(id, snapshot)| (key(target_id, id, snapshot), id))
        .collect();
    let all = view.snapshots().into_iter().chain(view.forgotten_snapshots());
    let sources: Vec<_> = all.collect();
    let mut plan = CopyPlan {
        reader: reader.clone(),
        copies: Vec::new(),
        present: Vec::new(),
        failed: Vec::new(),
    };
    let mut wanted_snapshots = Vec::new();
    for id in wanted {
        let found = sources.iter().find(|(each, _)| each == id);
        let Some((_, snapshot)) = found else {
            return Err(Error::missing(format!("snapshot {}", id.short()), "not found"));
        };
        wanted_snapshots.push((*id, *snapshot));
    }
    wanted_snapshots.sort_by_key(|(id, snapshot)| (snapshot.started_ns, *id));
    let total = wanted.len() as u64;
    for ((id, snapshot), number) in wanted_snapshots.into_iter().zip(1..) {
        let origin = key(source_id, id, snapshot);
        if let Some(copy) = available.get(&origin) {
            plan.present.push((id, *copy));
            continue;
        }
        let bases = bases(source_id, &sources, (id, snapshot));
        let base = bases.iter().find(|(base, _)| available.contains_key(base));
        let root = base.map(|(_, root)| root);
        let work = match survey(reader, &snapshot.root, root, &[], monitor) {
            Ok(work) => work,
            Err(error) if is_of_snapshot(&error) => {
                monitor.failed(id, &error);
                plan.failed.push(id);
                continue;
            }
            Err(error) => return Err(error),
        };
        available.insert(origin, id);
        plan.copies.push(PlannedCopy {
            id,
            snapshot: current(&view, id, snapshot),
            read_file_count: work.read_file_count,
            read_bytes: work.read_bytes,
            origin,
            bases,
        });
        monitor.examined(number, total);
    }
    Ok(plan)
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
