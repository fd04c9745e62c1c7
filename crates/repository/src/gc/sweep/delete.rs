//! S5: deletes what a record condemned, and other objects whose time has passed.

use std::collections::{HashMap, HashSet};

use cutpoint_storage::{ObjectKind, Result, Storage};

use super::options::SweepOptions;
use super::outcome::SweepReport;
use super::rescue::Rescue;
use crate::format::commit::Outcome;
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::prune::Prune;
use crate::gc::locate::list_containers;
use crate::gc::monitor::{PruneMonitor, stop_if_cancelled};
use crate::parity;
use crate::repo::repository::Repository;
use crate::repo::view::View;
#[cfg(feature = "mutants")]
use crate::rules::{self, Mutant};

/// The deletions of one sweep.
pub(super) struct Deleter<'a> {
    repository: &'a Repository,
    options: &'a SweepOptions,
    prune: &'a Prune,
    view: &'a View,
    monitor: &'a dyn PruneMonitor,
    /// The containers that existed before the first deletion, with their lengths.
    there: HashMap<(Class, PartName), u64>,
    /// The containers that the record condemned.
    condemned_now: HashSet<(Class, PartName)>,
    /// The snapshots that the record took.
    forgotten: HashSet<TicketId>,
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
            forgotten: prune.forgotten.iter().copied().collect(),
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
        self.delete_commits()?;
        Ok(self.counts)
    }

    fn storage(&self) -> &'a dyn Storage {
        &**self.repository.storage()
    }

    /// Returns `true` if the writer has ended and nothing needs its ticket.
    fn is_over(&self, ticket: TicketId) -> bool {
        #[cfg(feature = "mutants")]
        if rules::is_active(Mutant::DeletesOpenTickets) {
            return true;
        }
        self.view.commits.get(&ticket).is_some_and(|commit| {
            let age_ns = self.now_ns.saturating_sub(commit.time_ns);
            self.forgotten.contains(&ticket) || age_ns >= self.options.settle_ns
        })
    }

    fn delete_tickets(&mut self) -> Result<()> {
        let storage = self.storage();
        for (path, _) in storage.list(ObjectKind::Ticket.folder())? {
            if let Ok(ObjectName::Ticket { ticket, .. }) = ObjectName::parse(&path)
                && self.is_over(ticket)
            {
                storage.delete(&path)?;
                self.counts.ticket_count += 1;
            }
        }
        Ok(())
    }

    /// Deletes the segments that the record superseded.
    fn delete_segments(&mut self) -> Result<()> {
        let storage = self.storage();
        for segment in &self.prune.superseded {
            stop_if_cancelled(self.monitor)?;
            storage.delete(&ObjectName::Segment(*segment).to_string())?;
            self.counts.segment_count += 1;
        }
        Ok(())
    }

    /// Deletes the parity of the condemned containers.
    fn delete_parity(&mut self) -> Result<()> {
        let storage = self.storage();
        // Deleted before its container, so that an interruption leaves no parity that a later sweep
        // does not look for. Parity that arrives after its container was swept is deleted as well,
        // because containers never return.
        let condemned = self.view.condemned();
        for (container, parity) in parity::list(self.repository)? {
            let is_left_over =
                condemned.contains(&container) && !self.there.contains_key(&container);
            if !self.condemned_now.contains(&container) && !is_left_over {
                continue;
            }
            for (name, _) in parity {
                stop_if_cancelled(self.monitor)?;
                storage.delete(&name.to_string())?;
                self.counts.parity_count += 1;
            }
        }
        Ok(())
    }

    fn delete_containers(&mut self) -> Result<()> {
        let storage = self.storage();
        for name in &self.prune.condemned {
            stop_if_cancelled(self.monitor)?;
            let Some(length) = self.there.get(name) else { continue };
            storage.delete(&ObjectName::Container(name.0, name.1).to_string())?;
            self.counts.container_count += 1;
            self.counts.container_bytes += length;
        }
        Ok(())
    }

    /// Deletes similarity objects of ended writers of which no container is left.
    fn delete_similarity(&mut self) -> Result<()> {
        let storage = self.storage();
        let left = self.there.keys().filter(|name| !self.condemned_now.contains(name));
        let left: HashSet<TicketId> = left.map(|(_, part)| part.ticket).collect();
        for (path, _) in storage.list(ObjectKind::Similarity.folder())? {
            if let Ok(ObjectName::Similarity(name)) = ObjectName::parse(&path)
                && self.is_over(name.ticket)
                && !left.contains(&name.ticket)
            {
                stop_if_cancelled(self.monitor)?;
                storage.delete(&path)?;
            }
        }
        Ok(())
    }

    /// Deletes commits of snapshots that sweeps have deleted long ago.
    fn delete_commits(&mut self) -> Result<()> {
        let storage = self.storage();
        for commit in self.view.commits.values() {
            let Outcome::Swept(number) = commit.outcome else { continue };
            if self.now_ns.saturating_sub(commit.time_ns) < self.options.commit_ns {
                continue;
            }
            for snapshot in self.view.prunes.get(&number).iter().flat_map(|prune| &prune.forgotten)
            {
                if self.view.commits.contains_key(snapshot) {
                    storage.delete(&ObjectName::Commit(*snapshot).to_string())?;
                }
            }
        }
        Ok(())
    }
}
