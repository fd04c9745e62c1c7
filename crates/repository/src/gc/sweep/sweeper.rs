//! Sweeps one record after another, step by step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cutpoint_storage::{Result, Visibility};

use super::delete::{Deleter, Listing, delete_taken_commits};
use super::options::{AtOnce, SweepOptions};
use super::outcome::{LockedObjects, Sweep};
use super::rescue::{Rescuer, ended};
use super::skipped::{skipped, unseen_until_ns};
use super::wait::{Found, Waiting};
use crate::format::commit::Outcome;
use crate::format::names::ObjectName;
use crate::format::prune::Prune;
use crate::format::ticket::Purpose;
use crate::gc::monitor::PruneMonitor;
use crate::repo::liveness::{TicketListing, listed_tickets};
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::rules;
use crate::write::prune_log::{is_overtaken, overtaken};
use crate::write::{CommitResult, Writer};

/// Sweeps one record after another.
#[derive(Debug)]
pub struct Sweeper {
    repository: Arc<Repository>,
    options: SweepOptions,
    /// S1: the state of waiting for other writers.
    waiting: Waiting,
    /// The commits and records that were read so far: each step lists again, and reads only new
    /// ones.
    known: View,
    /// What the storage keeps, by the records that condemned it. This sweeper has done with them.
    locked: BTreeMap<u64, LockedObjects>,
    /// The records that this sweeper has recorded as swept.
    swept: BTreeSet<u64>,
    /// The last look at other writers.
    look: Look,
}

/// A look at other writers after which there was none to wait for (S1).
#[derive(Debug, Default)]
struct Look {
    /// The records that every other writer had seen.
    seen: BTreeSet<u64>,
    /// Those of these records that have not settled by age, and that nobody has synced yet after
    /// their put.
    unconfirmed: BTreeSet<u64>,
    /// The objects that were listed after the look, without those that were deleted since.
    listing: Option<Listing>,
}

impl Look {
    /// Returns `true` if a sweep of this record need not look again.
    fn serves(&self, number: u64) -> bool {
        !self.seen.is_empty() && rules::may_share_look(self.seen.contains(&number))
    }
}

impl Sweeper {
    /// Creates a sweeper of `repository`.
    pub fn new(repository: Arc<Repository>, options: SweepOptions) -> Sweeper {
        repository.view_cache().leave_checkpoint();
        Sweeper {
            repository,
            options,
            waiting: Waiting::default(),
            known: View::default(),
            locked: BTreeMap::new(),
            swept: BTreeSet::new(),
            look: Look::default(),
        }
    }

    /// Returns the condemned objects that the storage keeps, as far as the steps have met them.
    pub fn locked(&self) -> LockedObjects {
        let mut all = LockedObjects::default();
        self.locked.values().for_each(|locked| all.extend(locked));
        all
    }

    /// Sweeps the lowest record that is not swept, if that is possible now. Otherwise the caller
    /// may wait and call again. A record is passed over if this sweeper has deleted what it
    /// condemned except for what the storage keeps. One look at other writers serves all records
    /// that were old enough then, each swept by a step of its own. On storage that shows puts at
    /// once, any age is enough ([`SweepOptions::at_once`]).
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if an object cannot be read that decides which chunks are live,
    /// `Missing` if no container has a live chunk (nothing is deleted then), `Conflict`
    /// if another client was faster and the caller should try again, `Interrupted` if the monitor
    /// cancels, and any error of the storage, including those of
    /// [`Storage::locks`](cutpoint_storage::Storage::locks).
    pub fn step(&mut self, monitor: &dyn PruneMonitor) -> Result<Sweep> {
        self.repository.config().check_features(true)?;
        // A failed step ends the look.
        let mut look = std::mem::take(&mut self.look);
        let early = if rules::must_look_after_record() {
            None
        } else {
            Some(listed_tickets(&self.repository)?)
        };
        let next = self.next(&self.known).map(|(number, _)| number);
        let mut view = match next.is_some_and(|number| look.serves(number)) {
            true => self.known.clone(),
            false => {
                look = Look::default();
                self.known.list_again(&self.repository)?
            }
        };
        let stepped = match self.try_step(&mut view, &mut look, early, monitor) {
            // Another sweep may have deleted an object that this one was about to read.
            Err(error) if error.is_loss() && is_overtaken(&self.repository, &view)? => {
                self.waiting.reset();
                Err(overtaken("sweep", error))
            }
            Ok(stepped) => {
                self.look = look;
                Ok(stepped)
            }
            failed => failed,
        };
        self.known = view;
        stepped
    }

    /// Returns the record to be swept next, with its number.
    fn next(&self, view: &View) -> Option<(u64, Arc<Prune>)> {
        let swept = view.swept();
        let is_done = |number: &u64| {
            swept.contains(number)
                || self.swept.contains(number)
                || self.locked.contains_key(number)
        };
        let mut open = view
            .prunes
            .iter()
            .filter(|(number, prune)| !is_done(number) && has_something_to_delete(prune));
        let next = open.next();
        let next = if rules::must_sweep_in_order() { next } else { open.next_back().or(next) };
        next.map(|(number, prune)| (*number, prune.clone()))
    }

    /// Does the same as [`Sweeper::step`], beginning with the view `known`, which becomes the last
    /// listing, and with `look`, which becomes the last look.
    fn try_step(
        &mut self,
        known: &mut View,
        look: &mut Look,
        early: Option<TicketListing>,
        monitor: &dyn PruneMonitor,
    ) -> Result<Sweep> {
        let mut view = known.clone().complete(&self.repository)?;
        known.clone_from(&view);
        let Some((number, prune)) = self.next(&view) else {
            delete_taken_commits(&self.repository, &self.options, &view, monitor)?;
            return Ok(Sweep::Nothing);
        };
        if !look.serves(number) {
            let listed = match early {
                Some(early) => early,
                None => listed_tickets(&self.repository)?,
            };
            match self.look_at_writers(number, &prune, &view, listed)? {
                Ok(looked) => *look = looked,
                Err(waiting) => return Ok(waiting),
            }
            // S2: lists what the awaited writers have committed.
            view = view.list_again(&self.repository)?.complete(&self.repository)?;
            known.clone_from(&view);
        }
        let skipped = skipped(&prune, &look.seen, &view);
        if let Some(until_ns) = unseen_until_ns(&skipped, &view, self.options.settle_ns) {
            return Ok(Sweep::Settling { number, until_ns });
        }
        let repository = &self.repository;
        let rescuer = Rescuer { repository, number, prune: &prune, skipped: &skipped, view: &view };
        let rescue = rescuer.run(monitor)?;
        // The client that has put a record may have died before it was synced. Without the record,
        // what it condemned would be missing after a power cut, and what the snapshots need that it
        // took, because they were skipped above.
        for unconfirmed in std::mem::take(&mut look.unconfirmed) {
            if rules::must_confirm_record(unconfirmed == number) {
                repository.storage().sync(&ObjectName::Prune(unconfirmed).to_string())?;
            }
        }
        let deleter = Deleter::new(repository, &self.options, &prune, &view, monitor);
        let (mut done, locked) = deleter.run(&rescue, &mut look.listing)?;
        (done.number, done.rescued_count) = (number, rescue.count);
        if !rules::may_record_swept(locked.count) {
            self.locked.insert(number, locked);
            return Ok(Sweep::Locked(done));
        }
        let mut writer = Writer::begin_knowing(self.repository.clone(), Purpose::Sweep, view)?;
        match writer.commit(Outcome::Swept(number), Vec::new(), &BTreeSet::new())? {
            CommitResult::Done => {}
            CommitResult::Ended => return Err(ended("the sweep")),
        }
        self.swept.insert(number);
        // Listed after the look, so it serves the next record as well (S2).
        known.clone_from(writer.view());
        Ok(Sweep::Done(done))
    }

    /// S1: looks at the other writers, whose tickets were listed after `view`. Returns the look, or
    /// the reason to wait, which is that of the record `number`.
    fn look_at_writers(
        &mut self,
        number: u64,
        prune: &Prune,
        view: &View,
        listed: TicketListing,
    ) -> Result<Result<Look, Sweep>> {
        let is_promised = self.shows_puts_at_once()?;
        let is_at_once = rules::may_sweep_at_once(is_promised, listed.has_lagging_clients)
            && self.options.at_once != AtOnce::Never;
        let until_ns = |prune: &Prune| prune.time_ns.saturating_add(self.options.settle_ns);
        let now_ns = self.repository.environment().now_ns();
        let is_old = |prune: &Prune| self.options.settle_ns <= 0 || now_ns >= until_ns(prune);
        let is_settled = |prune: &Prune| is_at_once || is_old(prune);
        if !is_settled(prune) {
            return Ok(Err(Sweep::Settling { number, until_ns: until_ns(prune) }));
        }
        let settled = view.prunes.iter().filter(|(_, prune)| is_settled(prune));
        let records = settled.map(|(number, _)| *number).collect();
        let found = Found { records, tickets: listed.tickets };
        let (writers, seen) =
            self.waiting.look(&self.repository, &self.options, view, number, found)?;
        if !writers.is_empty() {
            return Ok(Err(Sweep::Waiting { number, writers }));
        }
        // The client that has swept a record had synced it.
        let swept = view.swept();
        let is_confirmed = |number: &u64| {
            swept.contains(number) || view.prunes.get(number).is_none_or(|prune| is_old(prune))
        };
        let unconfirmed = seen.iter().copied().filter(|number| !is_confirmed(number)).collect();
        Ok(Ok(Look { seen, unconfirmed, listing: None }))
    }

    /// Returns `true` if listings of this client show what others have put.
    fn shows_puts_at_once(&self) -> Result<bool> {
        let visibility = self.repository.storage().visibility()?;
        let is_enough = match visibility {
            Visibility::AtOnce => true,
            Visibility::IfProbed(_) => self.options.at_once == AtOnce::AsProbed,
            Visibility::Later => false,
        };
        Ok(is_enough && self.repository.config().may_be_shared(visibility))
    }
}

fn has_something_to_delete(prune: &Prune) -> bool {
    !(prune.condemned.is_empty() && prune.superseded.is_empty() && prune.taken.is_empty())
}
