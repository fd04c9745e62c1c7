//! The survey of a prune: what exists, and which chunks are live (P1 to P3).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cutpoint_storage::{Error, Kind, Result};

use super::history::History;
use super::pulse::Pulse;
use super::source::Unreadable;
use crate::format::fingerprint::Class;
use crate::format::names::TicketId;
use crate::format::recipe::Content;
use crate::format::segment::Segment;
use crate::gc::locate::{ContainerLens, Locator, Placement, list_containers};
use crate::gc::marking::mark;
use crate::gc::monitor::{Phase, PruneMonitor};
use crate::gc::preconditions::{open_index, require_nothing_missing, require_readable};
use crate::index::{Index, read_unlisted};
use crate::read::Reader;
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::util::tolerance::Tolerance;
use crate::write::prune_log::{is_overtaken, overtaken};

/// Everything that a prune knows before it plans.
pub(super) struct Survey {
    pub(super) view: View,
    pub(super) reader: Reader,
    /// F: the snapshots that this prune takes.
    pub(super) forgotten: BTreeSet<TicketId>,
    /// The commits that are only history once these snapshots are taken.
    pub(super) history: History,
    /// All other snapshots that no prune has taken.
    pub(super) marked: Vec<TicketId>,
    /// Containers of ended writers that no segment names.
    pub(super) orphans: Segment,
    /// The containers that exist, with their lengths.
    pub(super) there: ContainerLens,
    /// The place of each live chunk.
    pub(super) placement: Placement,
    /// Number of listings that were made because an object was gone.
    listing_count: AtomicU32,
}

/// Maximum number of listings made for missing objects. Putting the record finds the remaining
/// conflicts.
const LISTING_COUNT_MAX: u32 = 8;

impl Survey {
    /// Makes the survey. `own` is the ticket of the prune itself, and delta chunks of up to
    /// `inlined_bytes_max` in total may be stored again as full chunks.
    pub(super) fn new(
        repository: &Arc<Repository>,
        view: View,
        own: Option<TicketId>,
        inlined_bytes_max: u64,
        pulse: &Pulse<'_>,
    ) -> Result<Survey> {
        let view = view.complete(repository)?;
        let index = Arc::new(open_index(repository, &view)?);
        let there = list_containers(repository)?;
        let orphans = find_orphans(repository, &view, &index, &there, own, pulse)?;
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
            pulse.monitor.progress(Phase::Mark, done, roots.len() as u64);
            pulse.beat()
        })?;
        pulse.monitor.progress(Phase::Locate, 0, 1);
        let locator = Locator {
            repository,
            index: &index,
            condemned: &view.condemned(),
            damaged: &view.damaged(),
            orphans: &orphans,
            there: &there,
            folder: folder.as_deref(),
            inlined_bytes_max,
            stop_if_cancelled: &|| pulse.beat(),
        };
        let placement = locator.locate(&live_set)?;
        require_readable(&index)?;
        pulse.monitor.progress(Phase::Locate, 1, 1);
        require_nothing_missing(&placement)?;
        let marked = roots.into_iter().map(|(id, _)| id).collect();
        let listing_count = AtomicU32::new(0);
        let history = History::new(&view, &forgotten);
        Ok(Survey {
            view,
            reader,
            forgotten,
            history,
            marked,
            orphans,
            there,
            placement,
            listing_count,
        })
    }

    /// Skips a source that cannot be read, and reports it.
    ///
    /// # Errors
    ///
    /// Returns `Conflict` if the source is gone and other clients have condemned or deleted
    /// anything since the survey: the source is not damaged then, and the plan no longer holds.
    /// Returns any error of the storage.
    pub(super) fn skip(
        &self,
        repository: &Repository,
        unreadable: Unreadable,
        monitor: &dyn PruneMonitor,
    ) -> Result<()> {
        self.skip_read(repository, unreadable.into_error(), monitor)
    }

    /// Does the same as [`Survey::skip`] for an error of a read before anything is put.
    pub(super) fn skip_read(
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
        monitor.skipped(&error);
        Ok(())
    }
}

/// P1: finds the containers that ended writers left without a segment. Containers that cannot be
/// read are left alone.
fn find_orphans(
    repository: &Repository,
    view: &View,
    index: &Index,
    there: &ContainerLens,
    own: Option<TicketId>,
    pulse: &Pulse<'_>,
) -> Result<Segment> {
    let named = index.container_names();
    let condemned = view.condemned();
    let taken = view.taken();
    let has_ended = |ticket| view.commits.contains_key(&ticket) || taken.contains(&ticket);
    let mut unlisted: Vec<_> = there
        .iter()
        .filter(|(name, _)| named.binary_search(name).is_err() && !condemned.contains(name))
        .filter(|((_, part), _)| Some(part.ticket) != own && has_ended(part.ticket))
        .collect();
    // Sorted, so that every run has the same order.
    unlisted.sort_unstable_by_key(|((class, part), _)| (*class == Class::Meta, *part));
    let mut orphans = Segment::default();
    let mut tolerance = Tolerance::default();
    let unlisted: Vec<_> =
        unlisted.into_iter().map(|((class, part), len)| (*class, *part, *len)).collect();
    read_unlisted(repository, &unlisted, |_, _, loaded| {
        pulse.beat()?;
        match loaded {
            Ok(loaded) => orphans.append(&loaded.segment()),
            // A sweep has deleted the container meanwhile.
            Err(error) if error.kind() == Kind::Missing => {}
            Err(error) => pulse.monitor.skipped(&tolerance.of_one(error)?),
        }
        Ok(())
    })?;
    orphans.hints.sort_unstable();
    Ok(orphans)
}
