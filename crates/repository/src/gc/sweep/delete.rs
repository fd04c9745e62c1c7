//! S5: deletes what a record condemned, and other objects whose time has passed.
//!
//! An object that the storage keeps ([`Storage::locks`](cutpoint_storage::Storage::locks)) is left
//! untouched. If the record condemned it, the record stays open.

use std::collections::HashSet;
use std::sync::Arc;

use cutpoint_storage::{Lock, ObjectKind, Result};

use super::options::SweepOptions;
use super::outcome::{LockedObjects, SweepReport};
use super::rescue::Rescue;
use crate::format::commit::{Commit, Outcome};
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::prune::Prune;
use crate::gc::locate::{ContainerLens, list_containers};
use crate::gc::monitor::{PruneMonitor, stop_if_cancelled};
use crate::parity::{self, ParityListing};
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::repo::view::checkpoint::PartListing;
use crate::rules;

/// Maximum number of objects that are deleted between two looks at the monitor.
const BATCH_COUNT_MAX: usize = 1000;

/// The containers and parity objects that exist.
#[derive(Debug)]
pub(super) struct Listing {
    containers: ContainerLens,
    parity: ParityListing,
}

/// The deletions of one sweep.
pub(super) struct Deleter<'a> {
    repository: &'a Repository,
    options: &'a SweepOptions,
    prune: &'a Prune,
    view: &'a View,
    monitor: &'a dyn PruneMonitor,
    /// The containers that the record condemned.
    condemned_now: HashSet<(Class, PartName)>,
    /// The snapshots and other commits that this record or another one took.
    taken: HashSet<TicketId>,
    now_ns: i64,
    counts: SweepReport,
    /// What the record condemned, and the storage keeps.
    locked: LockedObjects,
}

impl<'a> Deleter<'a> {
    /// Prepares the deletion of what `prune` condemned.
    pub(super) fn new(
        repository: &'a Repository,
        options: &'a SweepOptions,
        prune: &'a Prune,
        view: &'a View,
        monitor: &'a dyn PruneMonitor,
    ) -> Deleter<'a> {
        Deleter {
            repository,
            options,
            prune,
            view,
            monitor,
            condemned_now: prune.condemned.iter().copied().collect(),
            taken: view.taken(),
            now_ns: repository.environment().now_ns(),
            counts: SweepReport::default(),
            locked: LockedObjects::default(),
        }
    }

    /// Deletes everything, after checking that the chunks of the `rescue` are still there. Also
    /// returns what the record condemned, and the storage keeps.
    ///
    /// `listing` is that of the previous record, if any, or becomes that of this one. What no record
    /// condemns is deleted only with a new listing.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Rescue::require_present`] and of the storage, and `Interrupted` if
    /// the monitor cancels.
    pub(super) fn run(
        mut self,
        rescue: &Rescue,
        listing: &mut Option<Listing>,
    ) -> Result<(SweepReport, LockedObjects)> {
        let is_new = listing.is_none() || rescue.count > 0;
        let mut there = match listing.take() {
            Some(there) if !is_new => there,
            _ => Listing {
                containers: list_containers(self.repository)?,
                parity: parity::list(self.repository)?,
            },
        };
        rescue.require_present(self.repository, &there.containers)?;
        if is_new {
            self.delete_tickets()?;
        }
        self.delete_segments()?;
        self.delete_parity(&there)?;
        self.delete_containers(&there.containers)?;
        // Nobody looks for these any more, not even for those that the storage keeps.
        there.containers.retain(|name| !self.condemned_now.contains(name));
        there.parity.retain(|name, _| !self.condemned_now.contains(name));
        self.delete_similarity(&there.containers)?;
        if is_new {
            self.delete_view_parts()?;
            self.counts.spared_count +=
                delete_taken_commits(self.repository, self.options, self.view, self.monitor)?;
        }
        *listing = Some(there);
        Ok((self.counts, self.locked))
    }

    /// Returns `true` if the writer has ended and nothing needs its ticket.
    fn is_over(&self, ticket: TicketId) -> bool {
        // The commit of a taken ticket may be gone, and one that arrives later does not count.
        let is_settled = |commit: &Arc<Commit>| {
            self.now_ns.saturating_sub(commit.time_ns) >= self.options.settle_ns
        };
        let has_ended =
            self.taken.contains(&ticket) || self.view.commits.get(&ticket).is_some_and(is_settled);
        rules::may_delete_ticket(has_ended)
    }

    /// Deletes objects that the record condemned. Returns the locks of those that stay, in the same
    /// order.
    fn delete_condemned(&mut self, names: &[ObjectName]) -> Result<Vec<Option<Lock>>> {
        let locks = delete(self.repository, names, self.monitor)?;
        for (name, lock) in names.iter().zip(&locks) {
            if let Some(lock) = lock {
                self.locked.add(name.to_string(), *lock);
            }
        }
        Ok(locks)
    }

    /// Deletes objects that no open record needs. Returns the number of deleted objects.
    fn delete_others(&mut self, names: &[ObjectName]) -> Result<u64> {
        let spared_count = count_locked(&delete(self.repository, names, self.monitor)?);
        self.counts.spared_count += spared_count;
        Ok(names.len() as u64 - spared_count)
    }

    fn delete_tickets(&mut self) -> Result<()> {
        let listed = self.repository.list_objects(ObjectKind::Ticket)?;
        let names = listed.into_iter().map(|(name, _)| name);
        let is_over = |name: &ObjectName| match name {
            ObjectName::Ticket { ticket, .. } => self.is_over(*ticket),
            _ => false,
        };
        let names: Vec<ObjectName> = names.filter(is_over).collect();
        self.counts.ticket_count += self.delete_others(&names)?;
        Ok(())
    }

    /// Deletes the segments that the record superseded.
    fn delete_segments(&mut self) -> Result<()> {
        let segments = self.prune.superseded.iter();
        // A segment that lies in a commit is no object.
        let segments = segments.filter(|part| self.view.embedded_segment(part).is_none());
        let names: Vec<ObjectName> =
            segments.map(|segment| ObjectName::Segment(*segment)).collect();
        let locks = self.delete_condemned(&names)?;
        self.counts.segment_count += names.len() as u64 - count_locked(&locks);
        Ok(())
    }

    /// Deletes the parity of the condemned containers.
    fn delete_parity(&mut self, there: &Listing) -> Result<()> {
        // Deleted before its container, so that an interruption leaves no parity that a later sweep
        // does not look for. Parity that arrives after its container was swept is deleted as well,
        // because containers never return.
        let condemned = self.view.condemned();
        let (mut own, mut left_over) = (Vec::new(), Vec::new());
        for (container, parity) in &there.parity {
            let is_own = self.condemned_now.contains(container);
            let is_left_over =
                condemned.contains(container) && !there.containers.contains_key(container);
            if is_own || is_left_over {
                let names = if is_own { &mut own } else { &mut left_over };
                names.extend(parity.iter().map(|(name, _)| *name));
            }
        }
        let locks = self.delete_condemned(&own)?;
        self.counts.parity_count += own.len() as u64 - count_locked(&locks);
        self.counts.parity_count += self.delete_others(&left_over)?;
        Ok(())
    }

    fn delete_containers(&mut self, there: &ContainerLens) -> Result<()> {
        let condemned = self.prune.condemned.iter();
        let there = condemned.filter_map(|name| Some((name, *there.get(name)?)));
        let (names, lens): (Vec<ObjectName>, Vec<u64>) =
            there.map(|((class, part), len)| (ObjectName::Container(*class, *part), len)).unzip();
        let locks = self.delete_condemned(&names)?;
        for (len, _) in lens.iter().zip(locks).filter(|(_, lock)| lock.is_none()) {
            self.counts.container_count += 1;
            self.counts.container_bytes += len;
        }
        Ok(())
    }

    /// Deletes similarity objects of ended writers of which no container is in `left`.
    fn delete_similarity(&mut self, left: &ContainerLens) -> Result<()> {
        let left: HashSet<TicketId> = left.keys().map(|(_, part)| part.ticket).collect();
        let listed = self.repository.list_objects(ObjectKind::Similarity)?;
        let names = listed.into_iter().map(|(name, _)| name);
        let is_left_over = |name: &ObjectName| match name {
            ObjectName::Similarity(part) => {
                self.is_over(part.ticket) && !left.contains(&part.ticket)
            }
            _ => false,
        };
        self.delete_others(&names.filter(is_left_over).collect::<Vec<_>>()).map(drop)
    }

    /// Deletes parts of the view checkpoint of which there is a newer version. No client depends on
    /// a part.
    fn delete_view_parts(&mut self) -> Result<()> {
        let parts = PartListing::of_storage(self.repository)?;
        self.delete_others(&parts.superseded().collect::<Vec<_>>()).map(drop)
    }
}

/// Deletes objects that the storage does not keep, many at a time. An object that is already gone
/// counts as deleted. Returns the locks of those that stay, in the order of `names`.
///
/// # Errors
///
/// Returns any error of [`Storage::locks`](cutpoint_storage::Storage::locks), or the first error of
/// an object; the others of the same batch are deleted all the same.
fn delete(
    repository: &Repository,
    names: &[ObjectName],
    monitor: &dyn PruneMonitor,
) -> Result<Vec<Option<Lock>>> {
    let storage = repository.storage();
    let mut locks = Vec::with_capacity(names.len());
    for names in names.chunks(BATCH_COUNT_MAX) {
        stop_if_cancelled(monitor)?;
        let mut names: Vec<String> = names.iter().map(ObjectName::to_string).collect();
        let found = storage.locks(&names)?;
        let mut left = found.iter();
        names.retain(|_| !rules::must_leave_locked(left.next().is_some_and(Option::is_some)));
        storage.delete_many(&names).into_iter().collect::<Result<()>>()?;
        locks.extend(found);
    }
    Ok(locks)
}

/// Returns the number of locked objects.
fn count_locked(locks: &[Option<Lock>]) -> u64 {
    locks.iter().flatten().count() as u64
}

/// Deletes the commits that prunes have taken, if everything else that those prunes condemned was
/// deleted long ago. Snapshots go first, so that no snapshot outlives the commit that forgot it.
/// Returns the number of commits that the storage keeps.
///
/// # Errors
///
/// Returns any error of the storage, and `Interrupted` if the monitor cancels.
pub(super) fn delete_taken_commits(
    repository: &Repository,
    options: &SweepOptions,
    view: &View,
    monitor: &dyn PruneMonitor,
) -> Result<u64> {
    let now_ns = repository.environment().now_ns();
    let (mut snapshots, mut others) = (Vec::new(), Vec::new());
    for commit in view.commits.values() {
        let Outcome::Swept(number) = commit.outcome else { continue };
        if now_ns.saturating_sub(commit.time_ns) < options.commit_ns {
            continue;
        }
        for id in view.prunes.get(&number).into_iter().flat_map(|prune| &prune.taken) {
            let Some(commit) = view.commits.get(id) else { continue };
            let names = if commit.snapshot().is_some() { &mut snapshots } else { &mut others };
            names.push(ObjectName::Commit(*id));
        }
    }
    match count_locked(&delete(repository, &snapshots, monitor)?) {
        0 => Ok(count_locked(&delete(repository, &others, monitor)?)),
        count => Ok(count),
    }
}
