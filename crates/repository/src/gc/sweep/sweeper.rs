//! Sweeps one record after another, step by step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cutpoint_storage::Result;

use super::delete::{Deleter, delete_taken_commits};
use super::options::SweepOptions;
use super::outcome::{LockedObjects, Sweep};
use super::rescue::{Rescuer, ended};
use super::skipped::{skipped, unseen_until_ns};
use super::wait::Waiting;
use crate::format::commit::Outcome;
use crate::format::prune::Prune;
use crate::format::ticket::Purpose;
use crate::gc::monitor::PruneMonitor;
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
}

impl Sweeper {
    /// Creates a sweeper of `repository`.
    pub fn new(repository: Arc<Repository>, options: SweepOptions) -> Sweeper {
        repository.view_cache().leave_checkpoint();
        let (waiting, known, locked) = (Waiting::default(), View::default(), BTreeMap::new());
        Sweeper { repository, options, waiting, known, locked }
    }

    /// Returns the condemned objects that the storage keeps, as far as the steps have met them.
    pub fn locked(&self) -> LockedObjects {
        let mut all = LockedObjects::default();
        self.locked.values().for_each(|locked| all.extend(locked));
        all
    }

    /// Sweeps the lowest record that is not swept, if that is possible now. Otherwise the caller
    /// may wait and call again. A record is passed over if this sweeper has deleted what it
    /// condemned except for what the storage keeps.
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
        let mut view = self.known.list_again(&self.repository)?;
        let stepped = self.try_step(&mut view, monitor);
        let stepped = match stepped {
            // Another sweep may have deleted an object that this one was about to read.
            Err(error) if error.is_loss() && is_overtaken(&self.repository, &view)? => {
                self.waiting.reset();
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
        let view = known.clone().complete(&self.repository)?;
        known.clone_from(&view);
        let swept = view.swept();
        let is_done = |number: &u64| swept.contains(number) || self.locked.contains_key(number);
        let mut open = view
            .prunes
            .iter()
            .filter(|(number, prune)| !is_done(number) && has_something_to_delete(prune));
        let next = open.next();
        let next = if rules::must_sweep_in_order() { next } else { open.next_back().or(next) };
        let Some((&number, prune)) = next else {
            delete_taken_commits(&self.repository, &self.options, &view, monitor)?;
            return Ok(Sweep::Nothing);
        };
        let until_ns = |prune: &Prune| prune.time_ns.saturating_add(self.options.settle_ns);
        let now_ns = self.repository.environment().now_ns();
        let is_settled = |prune: &Prune| self.options.settle_ns <= 0 || now_ns >= until_ns(prune);
        if !is_settled(prune) {
            return Ok(Sweep::Settling { number, until_ns: until_ns(prune) });
        }
        let settled = view.prunes.iter().filter(|(_, prune)| is_settled(prune));
        let settled = settled.map(|(number, _)| *number).collect();
        let (writers, seen) =
            self.waiting.look(&self.repository, &self.options, &view, number, settled)?;
        if !writers.is_empty() {
            return Ok(Sweep::Waiting { number, writers });
        }
        // S2: lists what the awaited writers have committed.
        let view = view.list_again(&self.repository)?.complete(&self.repository)?;
        known.clone_from(&view);
        let skipped = skipped(prune, &seen, &view);
        if let Some(until_ns) = unseen_until_ns(&skipped, &view, self.options.settle_ns) {
            return Ok(Sweep::Settling { number, until_ns });
        }
        let repository = &self.repository;
        let rescuer = Rescuer { repository, number, prune, skipped: &skipped, view: &view };
        let rescue = rescuer.run(monitor)?;
        let deleter = Deleter::new(repository, &self.options, prune, &view, monitor)?;
        let (mut done, locked) = deleter.run(&rescue)?;
        (done.number, done.rescued_count) = (number, rescue.count);
        if !rules::may_record_swept(locked.count) {
            self.locked.insert(number, locked);
            return Ok(Sweep::Locked(done));
        }
        let mut writer = Writer::begin_knowing(self.repository.clone(), Purpose::Sweep, view)?;
        match writer.commit(Outcome::Swept(number), Vec::new(), &BTreeSet::new())? {
            CommitResult::Done => Ok(Sweep::Done(done)),
            CommitResult::Ended => Err(ended("the sweep")),
        }
    }
}

fn has_something_to_delete(prune: &Prune) -> bool {
    !(prune.condemned.is_empty() && prune.superseded.is_empty() && prune.taken.is_empty())
}
