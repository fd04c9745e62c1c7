//! What there is, and what is needed of it (P1 to P3).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::monitor::{Phase, PruneMonitor, stop_if_cancelled};
use super::source::Unreadable;
use crate::error::{Error, Kind, Result, Tolerance};
use crate::fingerprint::{Class, Fingerprint};
use crate::format::recipe::Content;
use crate::format::segment::Segment;
use crate::index::{Index, Loaded};
use crate::name::{ObjectName, PartName, TicketId};
use crate::places::{Lookup, NEED_LEN, Needs, Places, list_containers};
use crate::reach::{Visit, Walk};
use crate::reader::{ChunkBytes, Reader};
use crate::record::{is_overtaken, overtaken};
use crate::repository::Repository;
use crate::sorted::Sorted;
use crate::view::View;

/// A prune's knowledge.
pub(super) struct Survey {
    pub(super) view: View,
    pub(super) reader: Reader,
    /// F: the snapshots that this prune takes.
    pub(super) forgotten: BTreeSet<TicketId>,
    /// All others that no prune has taken.
    pub(super) marked: Vec<TicketId>,
    /// Containers that no segment names, of writers that have ended.
    pub(super) adopted: Segment,
    /// The containers that exist, and their lengths.
    pub(super) there: HashMap<(Class, PartName), u64>,
    /// Where each chunk stays that is needed.
    pub(super) places: Places,
    /// The number of listings that were made because something was gone.
    listing_count: AtomicU32,
}

/// The maximum number of listings for things that are gone: the put of the record finds the rest.
const LISTING_COUNT_MAX: u32 = 8;

/// The index of all that `view` names.
///
/// # Errors
///
/// `Corrupt` where a segment cannot be read; `Conflict` where one is gone.
pub(crate) fn open_index(repository: &Arc<Repository>, view: &View) -> Result<Index> {
    let index = Index::open(repository.clone(), view)?;
    require_readable(&index).map(|()| index)
}

/// Whether every segment that counts could be read, also those that were read again because what this
/// machine had cached of them was damaged.
///
/// # Errors
///
/// As [`open_index`].
pub(crate) fn require_readable(index: &Index) -> Result<()> {
    match index.unreadable().into_iter().next() {
        None => Ok(()),
        Some((name, error)) if error.kind() == Kind::Missing => {
            // A sweep may have taken it since the view was listed; if not, this comes again.
            Err(Error::new(
                Kind::Conflict,
                name,
                "is gone; if a sweep has not just taken it, `cutpoint repair index` makes it anew",
            ))
        }
        Some((name, error)) => Err(Error::corrupt(
            name,
            format!(
                "cannot be read, so that it is not known what there is, and nothing is deleted; \
                 `cutpoint repair index` makes it anew ({error})"
            ),
        )),
    }
}

impl Survey {
    /// `own` is the ticket of the prune itself. Composites of so many bytes may be stored again as
    /// wholes.
    pub(super) fn new(
        repository: &Arc<Repository>,
        view: View,
        own: Option<TicketId>,
        dissolved_bytes_max: u64,
        monitor: &dyn PruneMonitor,
    ) -> Result<Survey> {
        let view = view.whole(repository)?;
        let index = Arc::new(open_index(repository, &view)?);
        let there = list_containers(repository)?;
        let adopted = adopt(repository, &view, &index, &there, own, monitor)?;
        let forgotten = view.takeable();
        let taken = view.taken();
        let roots = view.commits.iter().filter_map(|(id, commit)| {
            let is_taken = forgotten.contains(id) || taken.contains(id);
            commit.snapshot().filter(|_| !is_taken).map(|snapshot| (*id, snapshot.root.clone()))
        });
        let roots: Vec<(TicketId, Content)> = roots.collect();
        // It may take up newer views than this; what is planned is planned by this one.
        let reader = Reader::new(repository.clone(), Arc::new(index.fork()), view.clone());
        let folder = repository.temporary_folder();
        let needs = mark(&reader, &roots, folder.as_deref(), &|done| {
            monitor.progress(Phase::Mark, done, roots.len() as u64);
            stop_if_cancelled(monitor)
        })?;
        monitor.progress(Phase::Look, 0, 1);
        let lookup = Lookup {
            repository,
            index: &index,
            condemned: &view.condemned(),
            damaged: &view.damaged(),
            adopted: &adopted,
            there: &there,
            folder: folder.as_deref(),
            dissolved_bytes_max,
            stop_if_cancelled: &|| stop_if_cancelled(monitor),
        };
        let places = lookup.find(&needs)?;
        require_readable(&index)?;
        monitor.progress(Phase::Look, 1, 1);
        require_nothing_lost(&places)?;
        let marked = roots.into_iter().map(|(id, _)| id).collect();
        let listing_count = AtomicU32::new(0);
        Ok(Survey { view, reader, forgotten, marked, adopted, there, places, listing_count })
    }

    /// Passes over a source that cannot be read and reports it.
    ///
    /// # Errors
    ///
    /// `Conflict` where it is gone, and others have condemned or deleted something since the survey:
    /// then it is no damage, and what is planned no longer holds. As the medium.
    pub(super) fn pass_over(
        &self,
        repository: &Repository,
        unreadable: Unreadable,
        monitor: &dyn PruneMonitor,
    ) -> Result<()> {
        self.pass_over_read(repository, unreadable.into_error(), monitor)
    }

    /// As [`Survey::pass_over`], of an error of a read, before anything is put.
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

/// P3: what is needed must be there before anything goes.
///
/// # Errors
///
/// `Missing`, naming the first chunk that is nowhere.
pub(crate) fn require_nothing_lost(places: &Places) -> Result<()> {
    match places.lost.first() {
        None => Ok(()),
        Some((class, fingerprint)) => Err(Error::missing(
            format!("{class} chunk {fingerprint}"),
            format!(
                "is needed by a snapshot, and no container has it ({} such); nothing is deleted; \
                 `cutpoint check` names what is affected, `cutpoint repair index` finds what only the \
                 index has lost, `cutpoint repair snapshots` leaves out the rest",
                places.lost_count
            ),
        )),
    }
}

/// P1: what ended writers left without a segment. What cannot be read is left alone.
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
    let mut orphans: Vec<_> = there
        .iter()
        .filter(|(name, _)| !named.contains(name) && !condemned.contains(name))
        .filter(|((_, part), _)| {
            Some(part.ticket) != own && view.commits.contains_key(&part.ticket)
        })
        .collect();
    // The same order in every run.
    orphans.sort_unstable_by_key(|((class, part), _)| (*class == Class::Meta, *part));
    let mut adopted = Segment::default();
    let mut tolerance = Tolerance::default();
    for ((class, part), stored_len) in orphans {
        stop_if_cancelled(monitor)?;
        match Loaded::read(repository, *class, *part, *stored_len) {
            Ok(loaded) => adopted.append(&loaded.segment()),
            // A sweep was faster.
            Err(error) if error.kind() == Kind::Missing => {}
            Err(error) => monitor.passed_over(&tolerance.of_one(error)?),
        }
    }
    adopted.hints.sort_unstable();
    Ok(adopted)
}

/// P2: everything that the snapshots reach. `progress` hears how many are done.
///
/// # Errors
///
/// `Corrupt` or `Missing` where a tree or recipe cannot be read; those of `progress`.
pub(crate) fn mark(
    reader: &Reader,
    roots: &[(TicketId, Content)],
    folder: Option<&Path>,
    progress: &dyn Fn(u64) -> Result<()>,
) -> Result<Sorted<NEED_LEN>> {
    let mut marker =
        Marker { reader, needs: Needs::new(folder), snapshot: String::new(), done: 0, progress };
    let mut walk = Walk::default();
    for (id, root) in roots {
        progress(marker.done)?;
        marker.snapshot = id.short();
        walk.walk(root, &mut marker)?;
        marker.done += 1;
    }
    progress(marker.done)?;
    Ok(marker.needs.finish())
}

struct Marker<'a> {
    reader: &'a Reader,
    needs: Needs,
    snapshot: String,
    done: u64,
    progress: &'a dyn Fn(u64) -> Result<()>,
}

impl Visit for Marker<'_> {
    fn meta(&mut self, fingerprint: &Fingerprint) -> Result<ChunkBytes> {
        (self.progress)(self.done)?;
        self.needs.push(Class::Meta, fingerprint)?;
        self.reader.chunk(Class::Meta, fingerprint)
    }

    fn data(&mut self, fingerprint: &Fingerprint, _: u64, _: u64) -> Result<()> {
        self.needs.push(Class::Data, fingerprint)
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
