//! The survey of a prune: what exists and which of it is needed (P1 to P3).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cutpoint_storage::{Error, Kind, Result};

use super::monitor::{Phase, PruneMonitor, stop_if_cancelled};
use super::source::Unreadable;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{PartName, TicketId};
use crate::format::recipe::Content;
use crate::format::segment::Segment;
use crate::gc::locate::{LIVE_CHUNK_LEN, LiveSet, Locator, Placement, list_containers};
use crate::index::{Index, Loaded};
use crate::read::{ChunkBytes, Reader};
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::snapshots::mark::{MarkSink, Marker};
use crate::util::extsort::SortedRecords;
use crate::util::tolerance::Tolerance;
use crate::write::prune_log::{is_overtaken, overtaken};

/// Everything that a prune knows before it plans.
pub(super) struct Survey {
    pub(super) view: View,
    pub(super) reader: Reader,
    /// F: the snapshots that this prune takes.
    pub(super) forgotten: BTreeSet<TicketId>,
    /// All other snapshots that no prune has taken.
    pub(super) marked: Vec<TicketId>,
    /// Containers of ended writers that no segment names.
    pub(super) orphans: Segment,
    /// The containers that exist, with their lengths.
    pub(super) there: HashMap<(Class, PartName), u64>,
    /// The place of each needed chunk.
    pub(super) placement: Placement,
    /// Number of listings that were made because an object was gone.
    listing_count: AtomicU32,
}

/// Maximum number of listings made for missing objects. Putting the record finds the remaining
/// conflicts.
const LISTING_COUNT_MAX: u32 = 8;

/// Opens the index of everything that `view` names.
///
/// # Errors
///
/// Returns `Corrupt` if a segment cannot be read, and `Conflict` if one is gone.
pub(crate) fn open_index(repository: &Arc<Repository>, view: &View) -> Result<Index> {
    let index = Index::open(repository.clone(), view)?;
    require_readable(&index).map(|()| index)
}

/// Checks that every segment that counts could be read. This includes segments that were read again
/// because their cached copies were damaged.
///
/// # Errors
///
/// Returns `Corrupt` if a segment cannot be read, and `Conflict` if one is gone.
pub(crate) fn require_readable(index: &Index) -> Result<()> {
    match index.unreadable().into_iter().next() {
        None => Ok(()),
        Some((name, error)) if error.kind() == Kind::Missing => {
            // A sweep may have deleted it since the view was listed. If not, the error returns at
            // the next attempt.
            Err(Error::new(
                Kind::Conflict,
                name,
                "not found; unless a sweep has just deleted it, `cutpoint repair index` rebuilds \
                 the index",
            ))
        }
        Some((name, error)) => Err(Error::corrupt(
            name,
            format!(
                "cannot be read, so the stored containers are not known, and nothing is deleted; \
                 `cutpoint repair index` rebuilds the index ({error})"
            ),
        )),
    }
}

impl Survey {
    /// Makes the survey. `own` is the ticket of the prune itself, and delta chunks of up to
    /// `inlined_bytes_max` in total may be stored again as full chunks.
    pub(super) fn new(
        repository: &Arc<Repository>,
        view: View,
        own: Option<TicketId>,
        inlined_bytes_max: u64,
        monitor: &dyn PruneMonitor,
    ) -> Result<Survey> {
        let view = view.complete(repository)?;
        let index = Arc::new(open_index(repository, &view)?);
        let there = list_containers(repository)?;
        let orphans = adopt(repository, &view, &index, &there, own, monitor)?;
        let forgotten = view.takeable();
        let taken = view.taken();
        let roots = view.commits.iter().filter_map(|(id, commit)| {
            let is_taken = forgotten.contains(id) || taken.contains(id);
            commit.snapshot().filter(|_| !is_taken).map(|snapshot| (*id, snapshot.root.clone()))
        });
        let roots: Vec<(TicketId, Content)> = roots.collect();
        // The reader may take up newer views, so it has an index of its own: the plan is made by
        // this view.
        let reader = Reader::new(repository.clone(), Arc::new(index.fork()), view.clone());
        let folder = repository.temporary_folder();
        let live_set = mark(&reader, &roots, folder.as_deref(), &|done| {
            monitor.progress(Phase::Mark, done, roots.len() as u64);
            stop_if_cancelled(monitor)
        })?;
        monitor.progress(Phase::Look, 0, 1);
        let locator = Locator {
            repository,
            index: &index,
            condemned: &view.condemned(),
            damaged: &view.damaged(),
            orphans: &orphans,
            there: &there,
            folder: folder.as_deref(),
            inlined_bytes_max,
            stop_if_cancelled: &|| stop_if_cancelled(monitor),
        };
        let placement = locator.find(&live_set)?;
        require_readable(&index)?;
        monitor.progress(Phase::Look, 1, 1);
        require_nothing_lost(&placement)?;
        let marked = roots.into_iter().map(|(id, _)| id).collect();
        let listing_count = AtomicU32::new(0);
        Ok(Survey { view, reader, forgotten, marked, orphans, there, placement, listing_count })
    }

    /// Passes over a source that cannot be read and reports it.
    ///
    /// # Errors
    ///
    /// Returns `Conflict` if the source is gone and other clients have condemned or deleted
    /// anything since the survey: the source is not damaged then, and the plan no longer holds.
    /// Returns any error of the storage.
    pub(super) fn pass_over(
        &self,
        repository: &Repository,
        unreadable: Unreadable,
        monitor: &dyn PruneMonitor,
    ) -> Result<()> {
        self.pass_over_read(repository, unreadable.into_error(), monitor)
    }

    /// Does the same as [`Survey::pass_over`] for an error of a read before anything is put.
    pub(super) fn pass_over_read(
        &self,
        repository: &Repository,
        error: Error,
        monitor: &dyn PruneMonitor,
    ) -> Result<()> {
        if error.kind() == Kind::Missing
            && self.listing_count.fetch_add(1, Ordering::Relaxed) < LISTING_COUNT_MAX
            && is_overtaken(repository, &self.view)?
        {
            return Err(overtaken("prune", error));
        }
        monitor.passed_over(&error);
        Ok(())
    }
}

/// P3: checks that every needed chunk exists before anything is condemned.
///
/// # Errors
///
/// Returns `Missing`, naming the first chunk that is not stored anywhere.
pub(crate) fn require_nothing_lost(placement: &Placement) -> Result<()> {
    match placement.lost.first() {
        None => Ok(()),
        Some((class, fingerprint)) => Err(Error::missing(
            format!("{class} chunk {fingerprint}"),
            format!(
                "needed by a snapshot, but in no container ({} such chunks); nothing is deleted; \
                 `cutpoint check` names the affected files, `cutpoint repair index` finds chunks \
                 that only the index has lost, `cutpoint repair snapshots` omits the rest",
                placement.lost_count
            ),
        )),
    }
}

/// P1: adopts containers that ended writers left without a segment. Containers that cannot be read
/// are left alone.
fn adopt(
    repository: &Repository,
    view: &View,
    index: &Index,
    there: &HashMap<(Class, PartName), u64>,
    own: Option<TicketId>,
    monitor: &dyn PruneMonitor,
) -> Result<Segment> {
    let named: HashSet<(Class, PartName)> =
        index.containers().iter().map(|container| (container.class, container.name)).collect();
    let condemned = view.condemned();
    let mut unlisted: Vec<_> = there
        .iter()
        .filter(|(name, _)| !named.contains(name) && !condemned.contains(name))
        .filter(|((_, part), _)| {
            Some(part.ticket) != own && view.commits.contains_key(&part.ticket)
        })
        .collect();
    // Sorted, so that every run has the same order.
    unlisted.sort_unstable_by_key(|((class, part), _)| (*class == Class::Meta, *part));
    let mut orphans = Segment::default();
    let mut tolerance = Tolerance::default();
    for ((class, part), stored_len) in unlisted {
        stop_if_cancelled(monitor)?;
        match Loaded::read(repository, *class, *part, *stored_len) {
            Ok(loaded) => orphans.append(&loaded.segment()),
            // A sweep has deleted the container meanwhile.
            Err(error) if error.kind() == Kind::Missing => {}
            Err(error) => monitor.passed_over(&tolerance.of_one(error)?),
        }
    }
    orphans.hints.sort_unstable();
    Ok(orphans)
}

/// P2: marks everything that the snapshots reach. `progress` receives the number of snapshots that
/// are done.
///
/// # Errors
///
/// Returns `Corrupt` or `Missing` if a tree or recipe cannot be read, and any error of `progress`.
pub(crate) fn mark(
    reader: &Reader,
    roots: &[(TicketId, Content)],
    folder: Option<&Path>,
    progress: &dyn Fn(u64) -> Result<()>,
) -> Result<SortedRecords<LIVE_CHUNK_LEN>> {
    let mut marker = LiveSetBuilder {
        reader,
        live_set: LiveSet::new(folder),
        snapshot: String::new(),
        done: 0,
        progress,
    };
    let mut walk = Marker::default();
    for (id, root) in roots {
        progress(marker.done)?;
        marker.snapshot = id.short();
        walk.walk(root, &mut marker)?;
        marker.done += 1;
    }
    progress(marker.done)?;
    Ok(marker.live_set.finish())
}

struct LiveSetBuilder<'a> {
    reader: &'a Reader,
    live_set: LiveSet,
    snapshot: String,
    done: u64,
    progress: &'a dyn Fn(u64) -> Result<()>,
}

impl MarkSink for LiveSetBuilder<'_> {
    fn meta(&mut self, fingerprint: &Fingerprint) -> Result<ChunkBytes> {
        (self.progress)(self.done)?;
        self.live_set.push(Class::Meta, fingerprint)?;
        self.reader.chunk(Class::Meta, fingerprint)
    }

    fn data(&mut self, fingerprint: &Fingerprint, _: u64, _: u64) -> Result<()> {
        self.live_set.push(Class::Data, fingerprint)
    }

    fn unreadable(&mut self, _: &Fingerprint, error: Error) -> Result<()> {
        Err(match error.kind() {
            Kind::Corrupt | Kind::Missing => {
                error.of(format!("snapshot {}, without which nothing is deleted", self.snapshot))
            }
            _ => error,
        })
    }
}
