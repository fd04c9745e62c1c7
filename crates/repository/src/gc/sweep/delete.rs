//! S5: deletes what a record condemned, and other objects whose time has passed.

use std::collections::HashSet;
use std::sync::Arc;

use cutpoint_storage::{ObjectKind, Result};

use super::options::SweepOptions;
use super::outcome::SweepReport;
use super::rescue::Rescue;
use crate::format::commit::{Commit, Outcome};
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::prune::Prune;
use crate::gc::locate::{ContainerLens, list_containers};
use crate::gc::monitor::{PruneMonitor, stop_if_cancelled};
use crate::parity;
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::repo::view::checkpoint::PartListing;
use crate::rules;

/// Maximum number of objects that are deleted between two looks at the monitor.
const BATCH_COUNT_MAX: usize = 1000;

/// The deletions of one sweep.
pub(super) struct Deleter<'a> {
    repository: &'a Repository,
    options: &'a SweepOptions,
    prune: &'a Prune,
    view: &'a View,
    monitor: &'a dyn PruneMonitor,
    /// The containers that existed before the first deletion, with their lengths.
    there: ContainerLens,
    /// The containers that the record condemned.
    condemned_now: HashSet<(Class, PartName)>,
    /// The snapshots and other commits that this record or another one took.
    taken: HashSet<TicketId>,
    now_ns: i64,
    counts: SweepReport,
}

impl<'a> Deleter<'a> {
    /// Prepares the deletion of what `prune` condemned.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub(super) fn new(
        repository: &'a Repository,
        options: &'a SweepOptions,
        prune: &'a Prune,
        view: &'a View,
        monitor: &'a dyn PruneMonitor,
    ) -> Result<Deleter<'a>> {
        Ok(Deleter {
            repository,
            options,
            prune,
            view,
            monitor,
            there: list_containers(repository)?,
            condemned_now: prune.condemned.iter().copied().collect(),
            taken: view.taken(),
            now_ns: repository.environment().now_ns(),
            counts: SweepReport::default(),
        })
    }

    /// Deletes everything, after checking that the chunks of the `rescue` are still there.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Rescue::require_present`] and of the storage, and `Interrupted` if
    /// the monitor cancels.
    pub(super) fn run(mut self, rescue: &Rescue) -> Result<SweepReport> {
        rescue.require_present(self.repository, &self.there)?;
        self.delete_tickets()?;
        self.delete_segments()?;
        self.delete_parity()?;
        self.delete_containers()?;
        self.delete_similarity()?;
        self.delete_view_parts()?;
        delete_taken_commits(self.repository, self.options, self.view, self.monitor)?;
        Ok(self.counts)
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

    fn delete(&self, names: &[ObjectName]) -> Result<()> {
        delete(self.repository, names, self.monitor)
    }

    fn delete_tickets(&mut self) -> Result<()> {
        let listed = self.repository.list_objects(ObjectKind::Ticket)?;
        let names = listed.into_iter().map(|(name, _)| name);
        let is_over = |name: &ObjectName| match name {
            ObjectName::Ticket { ticket, .. } => self.is_over(*ticket),
            _ => false,
        };
        let names: Vec<ObjectName> = names.filter(is_over).collect();
        self.delete(&names)?;
        self.counts.ticket_count += names.len() as u64;
        Ok(())
    }

    /// Deletes the segments that the record superseded.
    fn delete_segments(&mut self) -> Result<()> {
        let segments = self.prune.superseded.iter();
        // A segment that lies in a commit is no object.
        let segments = segments.filter(|part| self.view.embedded_segment(part).is_none());
        let names: Vec<ObjectName> =
            segments.map(|segment| ObjectName::Segment(*segment)).collect();
        self.delete(&names)?;
        self.counts.segment_count += names.len() as u64;
        Ok(())
    }

    /// Deletes the parity of the condemned containers.
    fn delete_parity(&mut self) -> Result<()> {
        // Deleted before its container, so that an interruption leaves no parity that a later sweep
        // does not look for. Parity that arrives after its container was swept is deleted as well,
        // because containers never return.
        let condemned = self.view.condemned();
        let mut names = Vec::new();
        for (container, parity) in parity::list(self.repository)? {
            let is_left_over =
                condemned.contains(&container) && !self.there.contains_key(&container);
            if !self.condemned_now.contains(&container) && !is_left_over {
                continue;
            }
            names.extend(parity.into_iter().map(|(name, _)| name));
        }
        self.delete(&names)?;
        self.counts.parity_count += names.len() as u64;
        Ok(())
    }

    fn delete_containers(&mut self) -> Result<()> {
        let condemned = self.prune.condemned.iter();
        let there = condemned.filter_map(|name| Some((name, *self.there.get(name)?)));
        let (names, lens): (Vec<ObjectName>, Vec<u64>) =
            there.map(|((class, part), len)| (ObjectName::Container(*class, *part), len)).unzip();
        self.delete(&names)?;
        self.counts.container_count += names.len() as u64;
        self.counts.container_bytes += lens.iter().sum::<u64>();
        Ok(())
    }

    /// Deletes similarity objects of ended writers of which no container is left.
    fn delete_similarity(&mut self) -> Result<()> {
        let left = self.there.keys().filter(|name| !self.condemned_now.contains(name));
        let left: HashSet<TicketId> = left.map(|(_, part)| part.ticket).collect();
        let listed = self.repository.list_objects(ObjectKind::Similarity)?;
        let names = listed.into_iter().map(|(name, _)| name);
        let is_left_over = |name: &ObjectName| match name {
            ObjectName::Similarity(part) => {
                self.is_over(part.ticket) && !left.contains(&part.ticket)
            }
            _ => false,
        };
        self.delete(&names.filter(is_left_over).collect::<Vec<_>>())
    }

    /// Deletes parts of the view checkpoint of which there is a newer version. No client depends on
    /// a part.
    fn delete_view_parts(&self) -> Result<()> {
        let parts = PartListing::of_storage(self.repository)?;
        self.delete(&parts.superseded().collect::<Vec<_>>())
    }
}

/// Deletes objects, many at a time. An object that is already gone counts as deleted.
///
/// # Errors
///
/// Returns the first error of an object, and deletes the others of the same batch all the same.
fn delete(repository: &Repository, names: &[ObjectName], monitor: &dyn PruneMonitor) -> Result<()> {
    for names in names.chunks(BATCH_COUNT_MAX) {
        stop_if_cancelled(monitor)?;
        let names: Vec<String> = names.iter().map(ObjectName::to_string).collect();
        repository.storage().delete_many(&names).into_iter().collect::<Result<()>>()?;
    }
    Ok(())
}

/// Deletes the commits that prunes have taken, if everything else that those prunes condemned was
/// deleted long ago. Snapshots go first, so that no snapshot outlives the commit that forgot it.
///
/// # Errors
///
/// Returns any error of the storage, and `Interrupted` if the monitor cancels.
pub(super) fn delete_taken_commits(
    repository: &Repository,
    options: &SweepOptions,
    view: &View,
    monitor: &dyn PruneMonitor,
) -> Result<()> {
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
    delete(repository, &snapshots, monitor)?;
    delete(repository, &others, monitor)
}
