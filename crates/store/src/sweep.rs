//! Sweeping: what a prune has condemned is deleted, once nobody can need it any more.
//!
//! Rules S1 to S5 of `docs/ordering.md`. A sweep waits for the writers that may still refer to what
//! goes, looks at what they have committed, stores again what that needs, and only then deletes.
//! Two sweeps may be at it at once, and one that was cut off is done again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::environment::Process;
use crate::error::{Error, Kind, Result};
use crate::fingerprint::Class;
use crate::format::commit::{Commit, Outcome};
use crate::format::prune::Prune;
use crate::format::segment::Segment;
use crate::format::ticket::{Purpose, Ticket};
use crate::name::{ObjectKind, ObjectName, PartName, TicketId};
use crate::parity;
use crate::places::{Lookup, Need, list_containers};
use crate::prune::{
    PruneMonitor, mark, open_index, require_nothing_lost, require_readable, stop_if_cancelled,
};
use crate::reader::Reader;
use crate::record::{is_overtaken, overtaken};
use crate::repository::Repository;
use crate::view::View;
#[cfg(feature = "mutants")]
use crate::writer::mutant::{self, Mutant};
use crate::writer::{Committed, Inline, Writer, end_dead_among, end_writer, open_tickets};

const DAY_NS: i64 = 24 * 3600 * 1_000_000_000;

/// How to sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepOptions {
    /// How old a prune's record must be, in nanoseconds: twice as long as a listing may lag behind.
    pub settle_ns: i64,
    /// How long commits of snapshots that are gone stay, in nanoseconds, so that no late request
    /// puts them back.
    pub commit_ns: i64,
    /// End every writer that has not ended, instead of waiting: the caller vouches for being alone,
    /// or for what they do not get done. Safe all the same.
    pub end_others: bool,
}

impl Default for SweepOptions {
    fn default() -> SweepOptions {
        SweepOptions { settle_ns: DAY_NS, commit_ns: 30 * DAY_NS, end_others: false }
    }
}

/// How far a sweep has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// There is nothing that a prune has condemned and no sweep has deleted.
    Nothing,
    /// The prune's record is too young.
    Settling {
        /// The record.
        number: u64,
        /// When it will be old enough, in nanoseconds since 1970.
        until_ns: i64,
    },
    /// Others may still refer to what goes.
    Waiting {
        /// The record.
        number: u64,
        /// Who.
        writers: Vec<Awaited>,
    },
    /// What the record condemned is gone.
    Done(Swept),
}

/// A writer for which a sweep waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// Its ticket.
    pub ticket: TicketId,
    /// Who it is; `None` where the ticket cannot be read.
    pub process: Option<Process>,
    /// When it said so last, in nanoseconds since 1970.
    pub time_ns: i64,
}

/// What a sweep has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// The record.
    pub number: u64,
    /// Chunks that late snapshots needed, and that were stored again.
    pub rescued_count: u64,
    /// Containers that were deleted.
    pub container_count: u64,
    /// Their size in bytes.
    pub container_bytes: u64,
    /// Parity objects that were deleted with them, or that had been left over.
    pub parity_count: u64,
    /// Index segments that were deleted.
    pub segment_count: u64,
    /// Tickets that were deleted, renewals counted.
    pub ticket_count: u64,
}

/// What a sweep has stored again (S3, S4).
#[derive(Debug, Default)]
struct Rescued {
    /// The number of chunks.
    count: u64,
    /// The commit that publishes them; `None` where there are none.
    commit: Option<TicketId>,
    /// The containers that its segments name.
    containers: BTreeSet<(Class, PartName)>,
}

/// For whom a sweep waits.
#[derive(Clone, Debug)]
struct Awaiting {
    /// Those that had not ended at the first look.
    writers: BTreeSet<TicketId>,
    /// The records that were old enough by then. Who begins later has seen them.
    seen: BTreeSet<u64>,
}

/// Sweeps one record after the other.
#[derive(Debug)]
pub struct Sweeper {
    repository: Arc<Repository>,
    options: SweepOptions,
    /// S1: the record, and the writers for which its sweep waits.
    awaited: Option<(u64, Awaiting)>,
    /// What was read of commits and records: each step lists again, and reads only what is new.
    known: View,
}

impl Sweeper {
    /// A sweeper of `repository`.
    pub fn new(repository: Arc<Repository>, options: SweepOptions) -> Sweeper {
        Sweeper { repository, options, awaited: None, known: View::default() }
    }

    /// Sweeps the lowest record that is not swept, if it can be done now. Who waits calls again later.
    ///
    /// # Errors
    ///
    /// `Corrupt` where something cannot be read without which it is not known what is needed;
    /// `Missing` where something is needed that no container has: nothing is deleted then.
    /// `Conflict` where others were faster: call again. `Interrupted`. As the medium.
    pub fn step(&mut self, monitor: &dyn PruneMonitor) -> Result<Sweep> {
        self.repository.config().check_features(true)?;
        let mut view = self.known.list_again(&self.repository)?;
        let stepped = self.try_step(&mut view, monitor);
        let stepped = match stepped {
            // Another sweep may have deleted what this one was about to read.
            Err(error) if error.is_loss() && is_overtaken(&self.repository, &view)? => {
                self.awaited = None;
                Err(overtaken("sweep", error))
            }
            stepped => stepped,
        };
        self.known = view;
        stepped
    }

    /// As [`Sweeper::step`], by `known`, which becomes what was listed last.
    fn try_step(&mut self, known: &mut View, monitor: &dyn PruneMonitor) -> Result<Sweep> {
        let view = known.clone().whole(&self.repository)?;
        known.clone_from(&view);
        let swept = swept(&view);
        let mut open = view
            .prunes
            .iter()
            .filter(|(number, prune)| !swept.contains(number) && has_something_to_delete(prune));
        let next = open.next();
        #[cfg(feature = "mutants")]
        let next =
            if mutant::is_active(Mutant::SweepsApart) { open.next_back().or(next) } else { next };
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
        // S2: what those for whom it waited have committed.
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
            Committed::Ended => Err(ended("that it is swept")),
        }
    }

    /// S1: the writers that may end in a snapshot which refers to what goes; and the records that
    /// all others have seen, of those that are `settled` now.
    fn wait(
        &mut self,
        number: u64,
        settled: BTreeSet<u64>,
    ) -> Result<(Vec<Awaited>, BTreeSet<u64>)> {
        let repository = &self.repository;
        #[cfg(feature = "mutants")]
        if mutant::is_active(Mutant::DoesNotWait) {
            return Ok((Vec::new(), settled));
        }
        let mut open = open_tickets(repository)?;
        // Where a ticket's void and its commit could both be taken for the first, nobody is ended.
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
                // Deleted: then it has ended, and its commit is there.
                Err(error) if error.kind() == Kind::Missing => {
                    let commit = ObjectName::Commit(ticket).to_string();
                    if repository.media().head(&commit)?.is_some() {
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
        // If what follows does not come to its end, the next look is a first one.
        self.awaited = (!writers.is_empty()).then_some((number, awaiting));
        Ok((writers, seen))
    }

    /// The time from which on everybody has seen that commits which cannot be read are given up; `None`
    /// where that is so by now. Before, a writer that has not seen it could go on from such a snapshot,
    /// which would have to be walked.
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

    /// S3 and S4: stores again what late snapshots need of what goes. What `passed` has is
    /// none of these.
    fn rescue(
        &self,
        number: u64,
        prune: &Prune,
        passed: &HashSet<TicketId>,
        view: &View,
        monitor: &dyn PruneMonitor,
    ) -> Result<Rescued> {
        #[cfg(feature = "mutants")]
        if mutant::is_active(Mutant::RescuesNothing) {
            return Ok(Rescued::default());
        }
        // Taken by a record that others need not have seen: it would have to be walked.
        // All else that cannot be read was given up, or the view would not be whole.
        let is_passed =
            |name: &ObjectName| !matches!(name, ObjectName::Commit(id) if !passed.contains(id));
        if let Some((name, error)) = view.unreadable.iter().find(|(name, _)| !is_passed(name)) {
            let message = format!("cannot be read, and somebody may go on from it ({error})");
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
        let needs = mark(&reader, &roots, folder.as_deref(), &|_| stop_if_cancelled(monitor))?;
        let condemned = view.condemned();
        #[cfg(feature = "mutants")]
        let condemned = if mutant::is_active(Mutant::SweepsApart) {
            prune.condemned.iter().copied().collect()
        } else {
            condemned
        };
        let lookup = Lookup {
            repository,
            index: &index,
            condemned: &condemned,
            damaged: &view.damaged(),
            adopted: &Segment::default(),
            there: &list_containers(repository)?,
            folder: folder.as_deref(),
            dissolved_bytes_max: 0,
            stop_if_cancelled: &|| stop_if_cancelled(monitor),
        };
        let places = lookup.find(&needs)?;
        require_readable(&index)?;
        #[cfg(feature = "mutants")]
        let places = if mutant::is_active(Mutant::RescuesNoReferences) {
            let mut places = places;
            places.going.retain(|need| need.is_reached);
            places
        } else {
            places
        };
        require_nothing_lost(&places)
            .map_err(|error| error.of(format!("sweep of prune {number}")))?;
        if places.going.is_empty() {
            return Ok(Rescued::default());
        }
        self.store_again(&reader, &places.going, view)
    }

    fn store_again(&self, reader: &Reader, chunks: &[Need], view: &View) -> Result<Rescued> {
        let writer = Writer::begin_knowing(self.repository.clone(), Purpose::Sweep, view.clone())?;
        let mut inline = Inline::anew(writer)?;
        let stored = chunks.iter().try_for_each(|Need { class, fingerprint, .. }| {
            inline.store(*class, *fingerprint, &reader.chunk(*class, fingerprint)?)
        });
        if let Err(error) = stored.and_then(|()| inline.publish()) {
            return Err(inline.into_parts().0.fail(error));
        }
        let writer = inline.writer();
        let (commit, containers) = (Some(writer.ticket()), writer.named().clone());
        match inline.commit(Outcome::Rescue)? {
            Committed::Done => Ok(Rescued { count: chunks.len() as u64, commit, containers }),
            Committed::Ended => Err(ended("what was rescued")),
        }
    }

    /// S5: what was stored again stands, before the first object is deleted that had it.
    fn require_rescued(
        &self,
        rescued: &Rescued,
        there: &HashMap<(Class, PartName), u64>,
    ) -> Result<()> {
        #[cfg(feature = "mutants")]
        if mutant::is_active(Mutant::TrustsItsRescue) {
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
            "what was stored again for late snapshots is gone (expected {name} and {} containers); \
             nothing was deleted; run the same command again",
            rescued.containers.len()
        );
        Err(Error::new(Kind::Conflict, "sweep", message))
    }

    /// S5: deletes what the record condemned, and what else has had its time.
    fn delete(
        &self,
        prune: &Prune,
        view: &View,
        rescued: &Rescued,
        monitor: &dyn PruneMonitor,
    ) -> Result<Swept> {
        let media = self.repository.media();
        let there = list_containers(&self.repository)?;
        self.require_rescued(rescued, &there)?;
        let now_ns = self.repository.environment().now_ns();
        let mut done = Swept::default();
        let forgotten: HashSet<TicketId> = prune.forgotten.iter().copied().collect();
        let is_over = |ticket: TicketId| {
            #[cfg(feature = "mutants")]
            if mutant::is_active(Mutant::DeletesOpenTickets) {
                return true;
            }
            view.commits.get(&ticket).is_some_and(|commit| {
                let age_ns = now_ns.saturating_sub(commit.time_ns);
                forgotten.contains(&ticket) || age_ns >= self.options.settle_ns
            })
        };
        for (path, _) in media.list(ObjectKind::Ticket.folder())? {
            if let Ok(ObjectName::Ticket { ticket, .. }) = ObjectName::parse(&path)
                && is_over(ticket)
            {
                media.delete(&path)?;
                done.ticket_count += 1;
            }
        }
        for segment in &prune.superseded {
            stop_if_cancelled(monitor)?;
            media.delete(&ObjectName::Segment(*segment).to_string())?;
            done.segment_count += 1;
        }
        // Before its container: who is cut off between them leaves nothing that nobody looks for.
        // Parity may come late, too; of what was swept before nothing comes back.
        let going: HashSet<_> = prune.condemned.iter().copied().collect();
        let condemned = view.condemned();
        for (container, parity) in parity::list(&self.repository)? {
            let is_left_over = condemned.contains(&container) && !there.contains_key(&container);
            if !going.contains(&container) && !is_left_over {
                continue;
            }
            for (name, _) in parity {
                stop_if_cancelled(monitor)?;
                media.delete(&name.to_string())?;
                done.parity_count += 1;
            }
        }
        for name in &prune.condemned {
            stop_if_cancelled(monitor)?;
            let Some(length) = there.get(name) else { continue };
            media.delete(&ObjectName::Container(name.0, name.1).to_string())?;
            done.container_count += 1;
            done.container_bytes += length;
        }
        // Hints of writers of whose containers nothing is left.
        let left = there.keys().filter(|name| !going.contains(name));
        let left: HashSet<TicketId> = left.map(|(_, part)| part.ticket).collect();
        for (path, _) in media.list(ObjectKind::Hints.folder())? {
            if let Ok(ObjectName::Hints(name)) = ObjectName::parse(&path)
                && is_over(name.ticket)
                && !left.contains(&name.ticket)
            {
                stop_if_cancelled(monitor)?;
                media.delete(&path)?;
            }
        }
        for commit in view.commits.values() {
            let Outcome::Swept(number) = commit.outcome else { continue };
            if now_ns.saturating_sub(commit.time_ns) < self.options.commit_ns {
                continue;
            }
            for snapshot in view.prunes.get(&number).iter().flat_map(|prune| &prune.forgotten) {
                if view.commits.contains_key(snapshot) {
                    media.delete(&ObjectName::Commit(*snapshot).to_string())?;
                }
            }
        }
        Ok(done)
    }
}

/// The records that were swept.
pub(crate) fn swept(view: &View) -> BTreeSet<u64> {
    let outcomes = view.commits.values().map(|commit| &commit.outcome);
    outcomes
        .filter_map(|outcome| match outcome {
            Outcome::Swept(number) => Some(*number),
            _ => None,
        })
        .collect()
}

/// The snapshots that need not be walked for the sake of what `prune` condemned: those that it took
/// itself, that a swept record took, or one of the `seen` records. Who has not got them in the view has
/// not taken over from them.
fn passed(prune: &Prune, seen: &BTreeSet<u64>, view: &View) -> HashSet<TicketId> {
    let mut passed: HashSet<TicketId> = prune.forgotten.iter().copied().collect();
    for swept in swept(view).union(seen) {
        passed.extend(view.prunes.get(swept).iter().flat_map(|prune| &prune.forgotten));
    }
    #[cfg(feature = "mutants")]
    if mutant::is_active(Mutant::PassesOverTaken) {
        passed.extend(view.taken());
    }
    passed
}

fn has_something_to_delete(prune: &Prune) -> bool {
    !(prune.condemned.is_empty() && prune.superseded.is_empty() && prune.forgotten.is_empty())
}

fn ended(what: &str) -> Error {
    let message = format!("somebody ended its ticket before it could record {what}; try again");
    Error::new(Kind::Conflict, "sweep", message)
}
