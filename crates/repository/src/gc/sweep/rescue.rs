//! S3 and S4: stores again what late snapshots need of the condemned containers.
//!
//! A snapshot is late if the prune had not marked it: its writer was at work while the prune was,
//! and may have found chunks in containers that the prune then condemned.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use cutpoint_storage::{Error, Kind, Result};

use crate::format::commit::{Commit, Outcome};
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::prune::Prune;
use crate::format::recipe::Content;
use crate::format::segment::Segment;
use crate::format::ticket::Purpose;
use crate::gc::locate::{Container, ContainerLens, LiveChunk, Locator, Placement, list_containers};
use crate::gc::marking::mark;
use crate::gc::monitor::{PruneMonitor, stop_if_cancelled};
use crate::gc::preconditions::{open_index, require_nothing_missing, require_readable};
use crate::index::Index;
use crate::read::Reader;
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::rules;
use crate::write::{CommitResult, Inline, Writer};

/// The chunks that a sweep has stored again (S3, S4).
#[derive(Debug, Default)]
pub(super) struct Rescue {
    /// The number of chunks.
    pub(super) count: u64,
    /// The ticket of the commit that publishes the chunks; `None` if there are none.
    commit: Option<TicketId>,
    /// The containers that the writer's segments name.
    containers: BTreeSet<(Class, PartName)>,
}

impl Rescue {
    /// S5: checks, before the first delete, that the chunks that were stored again are still there.
    ///
    /// # Errors
    ///
    /// Returns `Conflict` if the commit of the rescue or one of its containers is missing, and any
    /// error of the storage.
    pub(super) fn require_present(
        &self,
        repository: &Repository,
        there: &ContainerLens,
    ) -> Result<()> {
        if !rules::must_check_rescue() {
            return Ok(());
        }
        let Some(commit) = self.commit else { return Ok(()) };
        let name = ObjectName::Commit(commit);
        let is_rescue = match repository.read(name, Commit::decode) {
            Ok(commit) => matches!(commit.outcome, Outcome::Rescue),
            Err(error) if error.kind() == Kind::Missing => false,
            Err(error) => return Err(error),
        };
        if is_rescue && self.containers.iter().all(|container| there.contains_key(container)) {
            return Ok(());
        }
        let message = format!(
            "data stored again for late snapshots is missing (expected {name} and {} containers); \
             nothing was deleted; run the same command again",
            self.containers.len()
        );
        Err(Error::new(Kind::Conflict, "sweep", message))
    }
}

/// The rescue for one record.
pub(super) struct Rescuer<'a> {
    pub(super) repository: &'a Arc<Repository>,
    /// The number of the record.
    pub(super) number: u64,
    /// The record whose containers are to be deleted.
    pub(super) prune: &'a Prune,
    /// Snapshots that do not count as late.
    pub(super) skipped: &'a HashSet<TicketId>,
    /// The view after the open writers have ended (S2).
    pub(super) view: &'a View,
}

impl Rescuer<'_> {
    /// Stores again the chunks that late snapshots need and that only condemned containers have.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if an object cannot be read that decides which chunks are live, `Missing`
    /// if no container has a live chunk, `Interrupted` if the monitor cancels, and any error of the
    /// storage.
    pub(super) fn run(&self, monitor: &dyn PruneMonitor) -> Result<Rescue> {
        if !rules::must_rescue() {
            return Ok(Rescue::default());
        }
        let roots = self.late_snapshots()?;
        if roots.is_empty() {
            return Ok(Rescue::default());
        }
        let Rescuer { repository, number, view, .. } = *self;
        let index = Arc::new(open_index(repository, view)?);
        let reader = Reader::new(repository.clone(), Arc::new(index.fork()), view.clone());
        let folder = repository.temporary_folder();
        let live_set = mark(&reader, &roots, folder.as_deref(), &|_| stop_if_cancelled(monitor))?;
        let condemned = if rules::must_count_all_condemned() {
            view.condemned()
        } else {
            self.prune.condemned.iter().copied().collect()
        };
        let there = list_containers(repository)?;
        let locator = Locator {
            repository,
            index: &index,
            condemned: &condemned,
            damaged: &view.damaged(),
            orphans: &Segment::default(),
            there: &there,
            folder: folder.as_deref(),
            inlined_bytes_max: 0,
            stop_if_cancelled: &|| stop_if_cancelled(monitor),
        };
        let mut placement = locator.locate(&live_set)?;
        require_readable(&index)?;
        placement.only_condemned.retain(|live| rules::must_rescue_chunk(live.is_reached));
        require_nothing_missing(&placement)
            .map_err(|error| error.of(format!("sweep of prune {number}")))?;
        self.require_placed(&index, &placement, &there, monitor)?;
        if placement.only_condemned.is_empty() {
            return Ok(Rescue::default());
        }
        self.store(&reader, &placement.only_condemned)
    }

    /// Returns the trees of the late snapshots.
    fn late_snapshots(&self) -> Result<Vec<(TicketId, Content)>> {
        let Rescuer { skipped, view, .. } = *self;
        // Each of these commits was taken by a record that others need not have seen, so its
        // snapshot would have to be marked. Every other unreadable object was given up, or the view
        // would not be complete.
        let is_skipped =
            |name: &ObjectName| !matches!(name, ObjectName::Commit(id) if !skipped.contains(id));
        if let Some((name, error)) = view.unreadable.iter().find(|(name, _)| !is_skipped(name)) {
            let message = format!("cannot be read, and a writer may continue from it ({error})");
            return Err(Error::corrupt(name, message));
        }
        let marked = self.marked();
        let roots = view
            .commits
            .iter()
            .filter(|(id, _)| !marked.contains(id) && !skipped.contains(id))
            .filter_map(|(id, commit)| Some((*id, commit.snapshot()?.root.clone())))
            .collect();
        Ok(roots)
    }

    /// Returns the snapshots that this record or a later one has marked. A prune takes what earlier
    /// records condemned for gone, so it has kept, or stored again, everything that these snapshots
    /// reach outside of the containers of this record, which are the only ones that this sweep
    /// deletes. If a check has found damage, the marks of later records do not count, because a
    /// condemned container may have the only sound copy.
    fn marked(&self) -> HashSet<TicketId> {
        let last = if self.view.damaged().is_empty() { u64::MAX } else { self.number };
        let mut marked = HashSet::new();
        for (number, record) in self.view.prunes.range(self.number..=last) {
            match record.marked_base {
                Some(base) if base < self.number => marked.extend(self.view.marked_by(*number)),
                // The marks of the base are among those of the records before this one.
                _ => marked.extend(record.marked.iter().copied()),
            }
        }
        marked
    }

    /// Checks that the chunks of the late snapshots are where the index says, or that no condemned
    /// container has chunks that the index does not list. Otherwise a condemned container could
    /// have the only copy of a chunk that seems to stay elsewhere.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if neither holds, and any error of the storage.
    fn require_placed(
        &self,
        index: &Index,
        placement: &Placement,
        there: &ContainerLens,
        monitor: &dyn PruneMonitor,
    ) -> Result<()> {
        let stop = || stop_if_cancelled(monitor);
        let condemned: HashSet<_> =
            self.prune.condemned.iter().filter(|name| there.contains_key(name)).collect();
        let is_condemned = |container: &Container| condemned.contains(&container.name());
        let staying_count = placement.staying_count();
        let are_placed =
            staying_count <= condemned.len() && placement.is_confirmed(index, &stop)?;
        if are_placed || placement.are_listed(index, is_condemned, &stop)? {
            return Ok(());
        }
        if staying_count > condemned.len() && placement.is_confirmed(index, &stop)? {
            return Ok(());
        }
        let message = "containers differ from the index, so nothing is deleted; `cutpoint repair \
                       index` rebuilds the index";
        Err(Error::corrupt(format!("sweep of prune {}", self.number), message))
    }

    /// S4: stores the chunks as full chunks, and publishes them by a `rescue` commit.
    fn store(&self, reader: &Reader, chunks: &[LiveChunk]) -> Result<Rescue> {
        let (repository, view) = (self.repository.clone(), self.view.clone());
        let writer = Writer::begin_knowing(repository, Purpose::Sweep, view)?;
        let mut inline = Inline::restart(writer)?;
        let stored = chunks.iter().try_for_each(|LiveChunk { class, fingerprint, .. }| {
            inline.store(*class, *fingerprint, &reader.chunk(*class, fingerprint)?)
        });
        if let Err(error) = stored.and_then(|()| inline.publish()) {
            return Err(inline.into_parts().0.fail(error));
        }
        let writer = inline.writer();
        let (commit, containers) = (Some(writer.ticket()), writer.named().clone());
        match inline.commit(Outcome::Rescue)? {
            CommitResult::Done => Ok(Rescue { count: chunks.len() as u64, commit, containers }),
            CommitResult::Ended => Err(ended("the rescue")),
        }
    }
}

/// Returns the error of a sweep whose ticket another client has ended.
pub(super) fn ended(what: &str) -> Error {
    let message =
        format!("the ticket was ended by another client before {what} was recorded; try again");
    Error::new(Kind::Conflict, "sweep", message)
}
