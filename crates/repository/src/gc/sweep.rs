//! Sweeping: deletes the objects that a prune has condemned, once no client can need them any more.
//!
//! Implements rules S1 to S5 of `docs/protocol.md`. A sweep waits for the writers that may still
//! refer to condemned containers, reads what these writers have committed, stores again what the
//! commits need, and only then deletes. Two sweeps may run at the same time, and an interrupted
//! sweep is repeated.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use cutpoint_storage::{Error, Kind, ObjectKind, Process, Result};

use crate::format::commit::{Commit, Outcome};
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::prune::Prune;
use crate::format::segment::Segment;
use crate::format::ticket::{Purpose, Ticket};
use crate::gc::locate::{LiveChunk, Locator, list_containers};
use crate::gc::prune::{
    PruneMonitor, mark, open_index, require_nothing_lost, require_readable, stop_if_cancelled,
};
use crate::parity;
use crate::read::Reader;
use crate::repo::liveness::open_tickets;
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::rules;
use crate::write::prune_log::{is_overtaken, overtaken};
use crate::write::{Committed, Inline, Writer, end_dead_among, end_writer};

const DAY_NS: i64 = 24 * 3600 * 1_000_000_000;

/// Options of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepOptions {
    /// Minimum age of a prune's record, in nanoseconds: twice the time by which a listing may lag
    /// behind.
    pub settle_ns: i64,
    /// Time for which the commits of deleted snapshots stay, in nanoseconds, so that no late
    /// request puts them back.
    pub commit_ns: i64,
    /// Set if every open writer is ended instead of waited for. The caller vouches that there are
    /// none, or accepts that their work is lost. Nothing that was committed is at risk either way.
    pub end_others: bool,
}

impl Default for SweepOptions {
    fn default() -> SweepOptions {
        SweepOptions { settle_ns: DAY_NS, commit_ns: 30 * DAY_NS, end_others: false }
    }
}

/// The result of one step of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// No prune has condemned anything that is not yet deleted.
    Nothing,
    /// The prune's record is too young.
    Settling {
        /// The number of the record.
        number: u64,
        /// The time at which the record will be old enough, in nanoseconds since 1970.
        until_ns: i64,
    },
    /// Open writers may still refer to what the record condemned.
    Waiting {
        /// The number of the record.
        number: u64,
        /// The open writers.
        writers: Vec<Awaited>,
    },
    /// Everything that the record condemned is deleted.
    Done(Swept),
}

/// A writer for which a sweep waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The ticket of the writer.
    pub ticket: TicketId,
    /// The process that wrote the ticket; `None` if the ticket cannot be read.
    pub process: Option<Process>,
    /// The time of the last renewal by the writer's own clock, in nanoseconds since 1970.
    pub time_ns: i64,
}

/// Counts of a finished sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// The number of the record.
    pub number: u64,
    /// Number of chunks that late snapshots needed, and that were stored again.
    pub rescued_count: u64,
    /// Number of deleted containers.
    pub container_count: u64,
    /// Total size of the deleted containers in bytes.
    pub container_bytes: u64,
    /// Number of deleted parity objects: those of the deleted containers, and leftovers of earlier
    /// ones.
    pub parity_count: u64,
    /// Number of deleted index segments.
    pub segment_count: u64,
    /// Number of deleted ticket objects, including renewals.
    pub ticket_count: u64,
}

/// The chunks that a sweep has stored again (S3, S4).
#[derive(Debug, Default)]
struct Rescued {
    /// The number of chunks.
    count: u64,
    /// The ticket of the commit that publishes the chunks; `None` if there are none.
    commit: Option<TicketId>,
    /// The containers that the writer's segments name.
    containers: BTreeSet<(Class, PartName)>,
}

/// The state of waiting for other writers.
#[derive(Clone, Debug)]
struct Awaiting {
    /// The writers that were open at the first look.
    writers: BTreeSet<TicketId>,
    /// The records that were old enough at the first look. Writers that begin later have seen these
    /// records.
    seen: BTreeSet<u64>,
}

/// Sweeps one record after another.
#[derive(Debug)]
pub struct Sweeper {
    repository: Arc<Repository>,
    options: SweepOptions,
    /// S1: the number of the record, and the writers for which its sweep waits.
    awaited: Option<(u64, Awaiting)>,
    /// What was read of commits and records: each step lists again, and reads only what is new.
    known: View,
}

impl Sweeper {
    /// Creates a sweeper of `repository`.
    pub fn new(repository: Arc<Repository>, options: SweepOptions) -> Sweeper {
        Sweeper { repository, options, awaited: None, known: View::default() }
    }

    /// Sweeps the lowest record that is not swept, if that is possible now. Otherwise the caller
    /// may wait and call again.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if an object cannot be read that decides which chunks are needed,
    /// `Missing` if no container has a chunk that is needed (nothing is deleted then), `Conflict`
    /// if another client was faster and the caller should try again, `Interrupted` if the monitor
    /// cancels, and any error of the storage.
    pub fn step(&mut self, monitor: &dyn PruneMonitor) -> Result<Sweep> {
        self.repository.config().check_features(true)?;
        let mut view = self.known.list_again(&self.repository)?;
        let stepped = self.try_step(&mut view, monitor);
        let stepped = match stepped {
            // Another sweep may have deleted an object that this one was about to read.
            Err(error) if error.is_loss() && is_overtaken(&self.repository, &view)? => {
                self.awaited = None;
                Err(overtaken("sweep", error))
            }
            stepped => stepped,
        };
        self.known = view;
        stepped
    }

    /// Does the same as [`Sweeper::step`], beginning with the view `known`, which becomes the last
    /// listing.
    fn try_step(&mut self, known: &mut View, monitor: &dyn PruneMonitor) -> Result<Sweep> {
        let view = known.clone().whole(&self.repository)?;
        known.clone_from(&view);
        let swept = swept(&view);
        let mut open = view
            .prunes
            .iter()
            .filter(|(number, prune)| !swept.contains(number) && has_something_to_delete(prune));
        let next = open.next();
        let next = if rules::must_sweep_in_order() { next } else { open.next_back().or(next) };
        let Some((&number, prune)) = next else { return Ok(Sweep::Nothing) };
        let until_ns = |prune: &Prune| prune.time_ns.saturating_add(self.options.settle_ns);
        let now_ns = self.repository.environment().now_ns();
        let is_settled = |prune: &Prune| self.options.settle_ns <= 0 || now_ns >= until_ns(prune);
        if !is_settled(prune) {
            return Ok(Sweep::Settling { number, until_ns: until_ns(prune) });
        }
        let settled = view.prunes.iter().filter(|(_, prune)| is_settled(prune));
        let settled = settled.map(|(number, _)| *number).collect();
        let (writers, seen) = self.wait(number, settled)?;
        if !writers.is_empty() {
            return Ok(Sweep::Waiting { number, writers });
        }
        // S2: lists what the awaited writers have committed.
        let view = view.list_again(&self.repository)?.whole(&self.repository)?;
        known.clone_from(&view);
        let passed = passed(prune, &seen, &view);
        if let Some(until_ns) = self.unseen_until_ns(&passed, &view) {
            return Ok(Sweep::Settling { number, until_ns });
        }
        let rescued = self.rescue(number, prune, &passed, &view, monitor)?;
        let mut done = self.delete(prune, &view, &rescued, monitor)?;
        (done.number, done.rescued_count) = (number, rescued.count);
        let mut writer = Writer::begin_knowing(self.repository.clone(), Purpose::Sweep, view)?;
        match writer.commit(Outcome::Swept(number), Vec::new(), &BTreeSet::new())? {
            Committed::Done => Ok(Sweep::Done(done)),
            Committed::Ended => Err(ended("the sweep")),
        }
    }

    /// S1: returns the open writers that may commit a snapshot which refers to condemned
    /// containers, and those of the `settled` records that every other writer has seen.
    fn wait(
        &mut self,
        number: u64,
        settled: BTreeSet<u64>,
    ) -> Result<(Vec<Awaited>, BTreeSet<u64>)> {
        let repository = &self.repository;
        if !rules::must_wait_for_writers() {
            return Ok((Vec::new(), settled));
        }
        let mut open = open_tickets(repository)?;
        // No writer is ended on a storage where its `void` and its commit could both seem to be the
        // first.
        if self.options.end_others || repository.config().creates_atomically() {
            for ended in end_dead_among(repository, None, &open)? {
                open.remove(&ended);
            }
        }
        let mut seen = settled;
        if let Some((of, awaiting)) = &self.awaited
            && *of == number
        {
            open.retain(|ticket, _| awaiting.writers.contains(ticket));
            seen.clone_from(&awaiting.seen);
        }
        let mut writers = Vec::new();
        for (ticket, renewal) in open {
            let name = ObjectName::Ticket { ticket, renewal };
            let (process, time_ns) = match repository.read(name, Ticket::decode) {
                Ok(body) if body.purpose != Purpose::Backup => continue,
                Ok(body) => (Some(body.process), body.time_ns),
                // The ticket was deleted: its writer has ended if the commit exists.
                Err(error) if error.kind() == Kind::Missing => {
                    let commit = ObjectName::Commit(ticket).to_string();
                    if repository.storage().head(&commit)?.is_some() {
                        continue;
                    }
                    (None, 0)
                }
                Err(error) if error.kind() == Kind::Corrupt => (None, 0),
                Err(error) => return Err(error),
            };
            if self.options.end_others {
                end_writer(repository, ticket)?;
            } else {
                writers.push(Awaited { ticket, process, time_ns });
            }
        }
        let left: BTreeSet<TicketId> = writers.iter().map(|writer| writer.ticket).collect();
        let awaiting = Awaiting { writers: left, seen: seen.clone() };
        // Cleared if no writer is left: if a later step of the sweep fails, the next look is a
        // first one.
        self.awaited = (!writers.is_empty()).then_some((number, awaiting));
        Ok((writers, seen))
    }

    /// Returns the time from which on every writer has seen that unreadable commits are given up,
    /// or `None` if that time has come. Before it, a writer could take such a snapshot as its
    /// parent, and then the snapshot would have to be walked.
    fn unseen_until_ns(&self, passed: &HashSet<TicketId>, view: &View) -> Option<i64> {
        let unread = view.unreadable.keys().filter_map(|name| match name {
            ObjectName::Commit(id) => Some(id),
            _ => None,
        });
        let records = |id: &TicketId| {
            let records = view.prunes.values().filter(|prune| prune.forgotten.contains(id));
            records.map(|prune| prune.time_ns.saturating_add(self.options.settle_ns)).min()
        };
        unread.filter(|id| !passed.contains(id)).filter_map(records).max()
    }

    /// S3 and S4: stores again what late snapshots need of the condemned containers. The snapshots
    /// in `passed` do not count as late.
    fn rescue(
        &self,
        number: u64,
        prune: &Prune,
        passed: &HashSet<TicketId>,
        view: &View,
        monitor: &dyn PruneMonitor,
    ) -> Result<Rescued> {
        if !rules::must_rescue() {
            return Ok(Rescued::default());
        }
        // Each of these commits was taken by a record that others need not have seen, so its
        // snapshot would have to be walked. Every other unreadable object was given up, or the view
        // would not be complete.
        let is_passed =
            |name: &ObjectName| !matches!(name, ObjectName::Commit(id) if !passed.contains(id));
        if let Some((name, error)) = view.unreadable.iter().find(|(name, _)| !is_passed(name)) {
            let message = format!("cannot be read, and a writer may continue from it ({error})");
            return Err(Error::corrupt(name, message));
        }
        let marked: HashSet<TicketId> = prune.marked.iter().copied().collect();
        let roots: Vec<_> = view
            .commits
            .iter()
            .filter(|(id, _)| !marked.contains(id) && !passed.contains(id))
            .filter_map(|(id, commit)| Some((*id, commit.snapshot()?.root.clone())))
            .collect();
        if roots.is_empty() {
            return Ok(Rescued::default());
        }
        let repository = &self.repository;
        let index = Arc::new(open_index(repository, view)?);
        let reader = Reader::new(repository.clone(), Arc::new(index.fork()), view.clone());
        let folder = repository.temporary_folder();
        let live_set = mark(&reader, &roots, folder.as_deref(), &|_| stop_if_cancelled(monitor))?;
        let condemned = if rules::must_count_all_condemned() {
            view.condemned()
        } else {
            prune.condemned.iter().copied().collect()
        };
        let locator = Locator {
            repository,
            index: &index,
            condemned: &condemned,
            damaged: &view.damaged(),
            orphans: &Segment::default(),
            there: &list_containers(repository)?,
            folder: folder.as_deref(),
            inlined_bytes_max: 0,
            stop_if_cancelled: &|| stop_if_cancelled(monitor),
        };
        let mut placement = locator.find(&live_set)?;
        require_readable(&index)?;
        placement.only_condemned.retain(|need| rules::must_rescue_chunk(need.is_reached));
        require_nothing_lost(&placement)
            .map_err(|error| error.of(format!("sweep of prune {number}")))?;
        if placement.only_condemned.is_empty() {
            return Ok(Rescued::default());
        }
        self.store_again(&reader, &placement.only_condemned, view)
    }

    fn store_again(&self, reader: &Reader, chunks: &[LiveChunk], view: &View) -> Result<Rescued> {
        let writer = Writer::begin_knowing(self.repository.clone(), Purpose::Sweep, view.clone())?;
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
            Committed::Done => Ok(Rescued { count: chunks.len() as u64, commit, containers }),
            Committed::Ended => Err(ended("the rescue")),
        }
    }

    /// S5: checks, before the first delete, that the chunks that were stored again are still there.
    fn require_rescued(
        &self,
        rescued: &Rescued,
        there: &HashMap<(Class, PartName), u64>,
    ) -> Result<()> {
        if !rules::must_check_rescue() {
            return Ok(());
        }
        let Some(commit) = rescued.commit else { return Ok(()) };
        let name = ObjectName::Commit(commit);
        let is_rescue = match self.repository.read(name, Commit::decode) {
            Ok(commit) => matches!(commit.outcome, Outcome::Rescue),
            Err(error) if error.kind() == Kind::Missing => false,
            Err(error) => return Err(error),
        };
        if is_rescue && rescued.containers.iter().all(|container| there.contains_key(container)) {
            return Ok(());
        }
        let message = format!(
            "data stored again for late snapshots is missing (expected {name} and {} containers); \
             nothing was deleted; run the same command again",
            rescued.containers.len()
        );
        Err(Error::new(Kind::Conflict, "sweep", message))
    }

    /// S5: deletes everything that the record condemned, and other objects whose time has passed.
    fn delete(
        &self,
        prune: &Prune,
        view: &View,
        rescued: &Rescued,
        monitor: &dyn PruneMonitor,
    ) -> Result<Swept> {
        let storage = self.repository.storage();
        let there = list_containers(&self.repository)?;
        self.require_rescued(rescued, &there)?;
        let now_ns = self.repository.environment().now_ns();
        let mut done = Swept::default();
        let forgotten: HashSet<TicketId> = prune.forgotten.iter().copied().collect();
        let is_over = |ticket: TicketId| {
            let has_ended = view.commits.get(&ticket).is_some_and(|commit| {
                let age_ns = now_ns.saturating_sub(commit.time_ns);
                forgotten.contains(&ticket) || age_ns >= self.options.settle_ns
            });
            rules::may_delete_ticket(has_ended)
        };
        for (path, _) in storage.list(ObjectKind::Ticket.folder())? {
            if let Ok(ObjectName::Ticket { ticket, .. }) = ObjectName::parse(&path)
                && is_over(ticket)
            {
                storage.delete(&path)?;
                done.ticket_count += 1;
            }
        }
        for segment in &prune.superseded {
            stop_if_cancelled(monitor)?;
            storage.delete(&ObjectName::Segment(*segment).to_string())?;
            done.segment_count += 1;
        }
        // Deleted before its container, so that an interruption leaves no parity that a later sweep
        // does not look for. Parity that arrives after its container was swept is deleted as well,
        // because containers never return.
        let swept_now: HashSet<_> = prune.condemned.iter().copied().collect();
        let condemned = view.condemned();
        for (container, parity) in parity::list(&self.repository)? {
            let is_left_over = condemned.contains(&container) && !there.contains_key(&container);
            if !swept_now.contains(&container) && !is_left_over {
                continue;
            }
            for (name, _) in parity {
                stop_if_cancelled(monitor)?;
                storage.delete(&name.to_string())?;
                done.parity_count += 1;
            }
        }
        for name in &prune.condemned {
            stop_if_cancelled(monitor)?;
            let Some(length) = there.get(name) else { continue };
            storage.delete(&ObjectName::Container(name.0, name.1).to_string())?;
            done.container_count += 1;
            done.container_bytes += length;
        }
        // Similarity objects of ended writers of which no container is left.
        let left = there.keys().filter(|name| !swept_now.contains(name));
        let left: HashSet<TicketId> = left.map(|(_, part)| part.ticket).collect();
        for (path, _) in storage.list(ObjectKind::Similarity.folder())? {
            if let Ok(ObjectName::Similarity(name)) = ObjectName::parse(&path)
                && is_over(name.ticket)
                && !left.contains(&name.ticket)
            {
                stop_if_cancelled(monitor)?;
                storage.delete(&path)?;
            }
        }
        for commit in view.commits.values() {
            let Outcome::Swept(number) = commit.outcome else { continue };
            if now_ns.saturating_sub(commit.time_ns) < self.options.commit_ns {
                continue;
            }
            for snapshot in view.prunes.get(&number).iter().flat_map(|prune| &prune.forgotten) {
                if view.commits.contains_key(snapshot) {
                    storage.delete(&ObjectName::Commit(*snapshot).to_string())?;
                }
            }
        }
        Ok(done)
    }
}

/// Returns the numbers of the records that were swept.
pub(crate) fn swept(view: &View) -> BTreeSet<u64> {
    let outcomes = view.commits.values().map(|commit| &commit.outcome);
    outcomes
        .filter_map(|outcome| match outcome {
            Outcome::Swept(number) => Some(*number),
            _ => None,
        })
        .collect()
}

/// Returns the snapshots that need not be walked for the sake of what `prune` condemned: those
/// taken by `prune` itself, by a swept record, or by one of the `seen` records. A writer without
/// such a snapshot in its view has not taken anything over from it.
fn passed(prune: &Prune, seen: &BTreeSet<u64>, view: &View) -> HashSet<TicketId> {
    let mut passed: HashSet<TicketId> = prune.forgotten.iter().copied().collect();
    for swept in swept(view).union(seen) {
        passed.extend(view.prunes.get(swept).iter().flat_map(|prune| &prune.forgotten));
    }
    if rules::may_skip_all_taken() {
        passed.extend(view.taken());
    }
    passed
}

fn has_something_to_delete(prune: &Prune) -> bool {
    !(prune.condemned.is_empty() && prune.superseded.is_empty() && prune.forgotten.is_empty())
}

fn ended(what: &str) -> Error {
    let message =
        format!("the ticket was ended by another client before {what} was recorded; try again");
    Error::new(Kind::Conflict, "sweep", message)
}
