//! Checkpoints, merges of runs, and the deletion of files that none needs.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::Volume;
use super::upkeep::LOOK_EVERY;
use crate::error::{Error, Kind, Result};
use crate::format::checkpoint::Checkpoint;
use crate::format::names;
use crate::rules;
use crate::tree::{RunMerge, write_run};

/// The numbers of bytes and of records of the log from which on a checkpoint is due. Writes wait for it
/// from twice as many on. A start after a crash reads and applies up to four times as many: those before
/// a checkpoint was begun, and those while it was written.
const BYTES_MAX: u64 = 128 * 1024 * 1024;
const RECORDS_MAX: u64 = 8 * 1024;
/// The number of runs from which on a write waits for a merge. Those that are being merged do not count, because
/// a merge of large runs may take long.
const RUN_COUNT_MAX: usize = 24;

/// The checkpoints of a volume.
#[derive(Debug)]
pub(super) struct Checkpoints {
    /// The last one that was published.
    pub(super) last: Checkpoint,
    /// The number of the last one that was attempted.
    pub(super) last_number: u64,
    /// The number of the last part of a run that was begun.
    pub(super) last_part: u64,
    /// The parts that are being written.
    pub(super) unfinished: BTreeSet<u64>,
    /// The segments that were dead when the volume was opened.
    pub(super) dead_at_open: BTreeSet<u64>,
}

/// The thread that writes checkpoints, so that writes need not, if there is one.
#[derive(Debug, Default)]
pub(super) struct Checkpointer {
    state: Mutex<CheckpointerState>,
    woken: Condvar,
}

#[derive(Debug, Default)]
struct CheckpointerState {
    is_running: bool,
    is_due: bool,
}

impl Checkpointer {
    /// Asks the thread for a checkpoint. Returns `false` if there is no thread.
    fn wake(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_running && !state.is_due {
            state.is_due = true;
            self.woken.notify_all();
        }
        state.is_running
    }

    /// Waits until a checkpoint is due. Returns `false` if `is_asked_to_stop` returns `true` before.
    fn wait(&self, is_asked_to_stop: &dyn Fn() -> bool) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.is_due {
            if is_asked_to_stop() {
                return false;
            }
            let waited = self.woken.wait_timeout(state, LOOK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_due = false;
        true
    }

    fn set_running(&self, is_running: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = CheckpointerState { is_running, is_due: false };
    }
}

/// The need of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    No,
    /// Writes may go on before there is one.
    Soon,
    Late,
}

/// The segments that a checkpoint needs: those from its position on, and those in which its tables
/// have a stored block. A block that was freed later counts as long as no newer checkpoint is durable.
pub(super) struct Needed {
    first_segment: u64,
    live: BTreeSet<u64>,
}

impl Needed {
    pub(super) fn of(checkpoint: &Checkpoint) -> Needed {
        let live = checkpoint.live_bytes.iter().map(|(segment, _)| *segment).collect();
        Needed { first_segment: checkpoint.position.segment, live }
    }

    /// Returns `true` if the checkpoint does not need a segment.
    pub(super) fn is_dead(&self, segment: u64) -> bool {
        let is_before = segment < self.first_segment;
        rules::may_delete_segment(is_before, self.live.contains(&segment))
    }
}

impl Checkpoints {
    fn begin_part(&mut self) -> u64 {
        self.last_part += 1;
        self.unfinished.insert(self.last_part);
        self.last_part
    }
}

impl Volume {
    /// Sees to a checkpoint if one is due.
    pub(super) fn after_write(&self) -> Result<()> {
        match self.due() {
            Due::No => Ok(()),
            Due::Soon if self.checkpointer.wake() => Ok(()),
            Due::Soon | Due::Late => self.checkpoint_if_due(),
        }
    }

    fn due(&self) -> Due {
        let state = self.read_state();
        let changed = state.tables.tree.active_bytes();
        let (end, last) = (state.log.mark(), state.checkpoint_at);
        let is_within = |intervals: u64| {
            changed < intervals * self.changes_max
                && end.bytes - last.bytes < intervals * BYTES_MAX
                && end.seq - last.seq < intervals * RECORDS_MAX
        };
        if is_within(1) {
            Due::No
        } else if is_within(2) {
            Due::Soon
        } else {
            Due::Late
        }
    }

    /// Writes a checkpoint if one is due and no other thread is at it. A failure does no harm: the log is
    /// longer then.
    fn checkpoint_if_due(&self) -> Result<()> {
        let written = self.with_spare_room(|| self.write_checkpoint_if_due());
        // A full disk is told by the write that meets it.
        written.or_else(|error| if error.kind() == Kind::Full { Ok(()) } else { Err(error) })
    }

    fn write_checkpoint_if_due(&self) -> Result<()> {
        let checkpoints = match self.due() {
            Due::No => return Ok(()),
            Due::Soon => match self.checkpoints.try_lock() {
                Ok(checkpoints) => checkpoints,
                Err(_) => return Ok(()),
            },
            // Another thread is at it, and slower than the writes.
            Due::Late => self.checkpoints(),
        };
        self.write_checkpoint(checkpoints)?;
        let are_few = || {
            let state = self.read_state();
            let waiting = state.tables.tree.runs().iter().filter(|run| !run.is_merging());
            waiting.count() < RUN_COUNT_MAX
        };
        if are_few() { Ok(()) } else { self.merge_runs(&are_few).map(drop) }
    }

    /// Writes the checkpoints that are due, so that writes do not wait for them, until
    /// `is_asked_to_stop` returns `true`, which is asked at least every 100 ms. After an error, writes
    /// write checkpoints again, and tell their clients of errors.
    ///
    /// # Errors
    ///
    /// Fails if a checkpoint cannot be written.
    pub fn write_checkpoints(&self, is_asked_to_stop: &dyn Fn() -> bool) -> Result<()> {
        self.checkpointer.set_running(true);
        let mut written = Ok(());
        while written.is_ok() && self.checkpointer.wait(is_asked_to_stop) {
            written = self.checkpoint_if_due();
        }
        self.checkpointer.set_running(false);
        written
    }

    /// Writes a checkpoint, so that the next opening reads no log, and deletes the segments that have
    /// no live block.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be written. The volume is as good as before then.
    pub fn checkpoint(&self) -> Result<()> {
        self.checkpoint_in_use()?;
        self.delete_spares().map(drop)
    }

    /// Does the same while the volume is in use: some of the segments without live blocks stay as spare
    /// ones.
    pub(super) fn checkpoint_in_use(&self) -> Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        self.end_partial_if_any()?;
        self.with_spare_room(|| self.write_checkpoint(self.checkpoints()))
    }

    /// Deletes the spare segments. Returns `false` if there are none.
    pub(super) fn delete_spares(&self) -> Result<bool> {
        // Whoever deletes other dead segments must find neither the spare ones nor their files.
        let _one_at_a_time = self.checkpoints();
        let spares = self.core.spares().take_all();
        self.delete_files(spares.into_iter().map(names::segment))
    }

    /// Does work that a full storage may refuse, and once more without the spare segments if it does.
    pub(super) fn with_spare_room<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        match work() {
            Err(error) if error.kind() == Kind::Full && self.delete_spares()? => work(),
            done => done,
        }
    }

    pub(super) fn checkpoints(&self) -> MutexGuard<'_, Checkpoints> {
        self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_checkpoint(&self, mut checkpoints: MutexGuard<'_, Checkpoints>) -> Result<()> {
        let (mut checkpoint, changes, has_runs) = {
            let mut state = self.state_mut();
            state.check_failure()?;
            let checkpoint = state.tables.to_checkpoint(state.log.position()?);
            let changes = state.tables.tree.freeze();
            state.checkpoint_at = state.log.mark();
            (checkpoint, changes, !state.tables.tree.runs().is_empty())
        };
        let needed = Needed::of(&checkpoint);
        if rules::must_sync_before_checkpoint() {
            self.flush()?;
        }
        let number = checkpoints.begin_part();
        let run = write_run(&self.core, number, !has_runs, &changes);
        checkpoints.unfinished.remove(&number);
        let run = run?;
        checkpoint.runs.extend(run.as_ref().map(|run| run.meta()));
        checkpoint.runs.extend_from_slice(&checkpoints.last.runs);
        self.publish(&mut checkpoints, checkpoint, run.as_ref().map(|_| number))?;
        self.state_mut().tables.tree.thaw(run);
        self.delete_old_files(&checkpoints)?;
        self.delete_dead_segments(needed, &checkpoints.dead_at_open)
    }

    /// Merges runs until none are due. Reads, writes and checkpoints go on meanwhile. Returns `false`
    /// if `is_asked_to_stop` returned `true`.
    ///
    /// # Errors
    ///
    /// Fails if a run cannot be read or written. The volume is as good as before then.
    pub fn merge_runs(&self, is_asked_to_stop: &dyn Fn() -> bool) -> Result<bool> {
        self.with_spare_room(|| self.merge_due_runs(is_asked_to_stop))
    }

    fn merge_due_runs(&self, is_asked_to_stop: &dyn Fn() -> bool) -> Result<bool> {
        let _one_at_a_time = self.merging.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let merge = {
                let tables = &self.read_state().tables;
                RunMerge::due(tables.tree.runs(), tables.entry_count())
            };
            let Some(merge) = merge else { return Ok(true) };
            let number = self.checkpoints().begin_part();
            let step = merge.step(&self.core, number, is_asked_to_stop);
            let mut checkpoints = self.checkpoints();
            checkpoints.unfinished.remove(&number);
            let Some(step) = step? else { return Ok(false) };
            // The same tables at the same position, in other files.
            let mut checkpoint = checkpoints.last.clone();
            let runs = merge.applied(self.read_state().tables.tree.runs(), &step);
            checkpoint.runs = runs.iter().map(|run| run.meta()).collect();
            self.publish(&mut checkpoints, checkpoint, step.part_number())?;
            self.state_mut().tables.tree.apply(&merge, &step);
            self.delete_old_files(&checkpoints)?;
        }
    }

    /// Writes a checkpoint and its copy, and makes them durable, with the new part of a run that they have.
    fn publish(
        &self,
        checkpoints: &mut Checkpoints,
        mut checkpoint: Checkpoint,
        part: Option<u64>,
    ) -> Result<()> {
        checkpoints.last_number += 1;
        checkpoint.number = checkpoints.last_number;
        checkpoint.last_part = checkpoints.last_part;
        // A checkpoint must not survive a power cut that its runs do not.
        let named = match part.filter(|_| rules::must_sync_run()) {
            Some(_) => self.core.sync_names(),
            None => Ok(()),
        };
        let written = named.and_then(|()| self.write_copies(&checkpoint));
        if written.is_err() {
            for name in names::checkpoint(checkpoint.number) {
                self.core.delete(&name).ok();
            }
            let is_gone = self.core.sync_names().is_ok();
            if let Some(part) = part.filter(|_| is_gone) {
                self.core.delete(&names::part(part)).ok();
            }
        }
        written?;
        checkpoints.last = checkpoint;
        Ok(())
    }

    fn write_copies(&self, checkpoint: &Checkpoint) -> Result<()> {
        if !rules::must_sync_checkpoint() {
            self.delete_old_checkpoints(checkpoint.number)?;
        }
        let folder = &self.core.folder;
        let bytes = checkpoint.encode(&self.core.keys);
        for name in names::checkpoint(checkpoint.number) {
            folder.create(&name).map_err(|error| Error::io(&name, "cannot be created", error))?;
            self.core.write_at(&name, 0, 0, &bytes)?;
            if rules::must_sync_checkpoint() {
                self.core.sync(&name)?;
            }
        }
        self.core.sync_names()
    }

    /// Deletes the checkpoints before the last one, and the parts of runs that it does not have.
    fn delete_old_files(&self, checkpoints: &Checkpoints) -> Result<()> {
        self.delete_old_checkpoints(checkpoints.last_number)?;
        let parts = checkpoints.last.runs.iter().flat_map(|run| &run.parts);
        let unfinished = checkpoints.unfinished.iter().copied();
        let kept: BTreeSet<u64> = parts.map(|part| part.number).chain(unfinished).collect();
        self.delete_if(|name| names::parse_part(name).is_some_and(|part| !kept.contains(&part)))
    }

    fn delete_old_checkpoints(&self, number: u64) -> Result<()> {
        self.delete_if(|name| names::parse_checkpoint(name).is_some_and(|it| it < number))
    }

    /// Deletes the segments that a durable checkpoint does not need, but for a few that are overwritten by the
    /// next ones.
    fn delete_dead_segments(&self, mut needed: Needed, dead_at_open: &BTreeSet<u64>) -> Result<()> {
        // The lock waits for reads that began when a block of such a segment was live.
        let now = self.state_mut().tables.live_bytes.keys().copied().collect();
        if !rules::must_keep_freed_blocks() {
            needed.live = now;
        }
        let has_room = !self.is_short_of_space();
        let mut spares = self.core.spares();
        if !has_room {
            // They are dead ones again.
            spares.take_all();
        }
        let listed = self.core.names()?;
        let mut deleted = Vec::new();
        for number in listed.iter().filter_map(|name| names::parse_segment(name)) {
            if !needed.is_dead(number) || spares.numbers().contains(&number) {
                continue;
            }
            let may_reuse = rules::may_reuse_segment(dead_at_open.contains(&number));
            if !(has_room && may_reuse && spares.keep(number)) {
                deleted.push(names::segment(number));
            }
        }
        drop(spares);
        self.delete_files(deleted).map(drop)
    }

    fn delete_if(&self, is_deleted: impl Fn(&str) -> bool) -> Result<()> {
        let listed = self.core.names()?;
        self.delete_files(listed.into_iter().filter(|name| is_deleted(name))).map(drop)
    }

    /// Deletes files. Returns `false` if there are none.
    fn delete_files(&self, names: impl IntoIterator<Item = String>) -> Result<bool> {
        let mut is_changed = false;
        for name in names {
            self.core.delete(&name)?;
            is_changed = true;
        }
        if is_changed {
            self.space.ask_again();
            self.core.sync_names()?;
        }
        Ok(is_changed)
    }
}
