//! Checkpoints, and the deletion of segments that none needs.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use super::{Checkpoints, Volume};
use crate::error::{Error, Result};
use crate::format::names;
use crate::rules;

/// The minimum number of bytes of the log between two checkpoints.
const INTERVAL_MIN: u64 = 256 * 1024 * 1024;
/// The minimum number of bytes of the log between two checkpoints, in sizes of a checkpoint. Two
/// copies are written, so they are at most a quarter of what is written.
const INTERVAL_SIZES: u64 = 8;

/// Returns the number of appended bytes from which on the next checkpoint is due.
pub(super) fn checkpoint_after(appended_bytes: u64, size: u64) -> u64 {
    appended_bytes.saturating_add((size.saturating_mul(INTERVAL_SIZES)).max(INTERVAL_MIN))
}

/// The segments that a checkpoint needs: those from its position on, and those in which its tables
/// have a stored block. A block that was freed later counts as long as no newer checkpoint is durable.
struct Needed {
    first_segment: u64,
    live: BTreeSet<u64>,
}

impl Volume {
    /// Writes a checkpoint if one is due. A failure does no harm: the log is longer then.
    pub(super) fn after_write(&self) -> Result<()> {
        let state = self.read_state();
        let is_due = state.log.appended_bytes() >= state.checkpoint_at;
        drop(state);
        if is_due && let Ok(checkpoints) = self.checkpoints.try_lock() {
            self.write_checkpoint(checkpoints).or_else(|error| {
                // A full disk is told by the write that meets it.
                if error.kind() == crate::Kind::Full { Ok(()) } else { Err(error) }
            })?;
        }
        Ok(())
    }

    /// Writes a checkpoint, so that the next opening reads no log, and deletes the segments that have
    /// no live block.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be written. The volume is as good as before then.
    pub fn checkpoint(&self) -> Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        self.write_checkpoint(self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write_checkpoint(
        &self,
        mut checkpoints: std::sync::MutexGuard<'_, Checkpoints>,
    ) -> Result<()> {
        let number = checkpoints.last_number + 1;
        checkpoints.last_number = number;
        let (bytes, needed) = {
            let state = self.read_state();
            let position = state.log.position()?;
            let checkpoint = state.tables.to_checkpoint(self.core.id, number, position);
            let live = state.tables.live_bytes.keys().copied().collect();
            let needed = Needed { first_segment: position.segment, live };
            (checkpoint.encode(&self.core.keys), needed)
        };
        checkpoints.size = bytes.len() as u64;
        {
            let mut state = self.state_mut();
            state.checkpoint_at = checkpoint_after(state.log.appended_bytes(), checkpoints.size);
        }
        if rules::must_sync_before_checkpoint() {
            self.flush()?;
        }
        let published = self.publish(number, &bytes);
        if published.is_err() {
            for name in names::checkpoint(number) {
                self.core.folder.delete(&name).ok();
            }
        }
        published?;
        self.delete_old_checkpoints(number)?;
        self.delete_dead_segments(&needed)
    }

    /// Writes a checkpoint and its copy, and makes them durable.
    fn publish(&self, number: u64, bytes: &[u8]) -> Result<()> {
        if !rules::must_sync_checkpoint() {
            self.delete_old_checkpoints(number)?;
        }
        let folder = &self.core.folder;
        for name in names::checkpoint(number) {
            folder.create(&name).map_err(|error| Error::io(&name, "cannot be created", error))?;
            folder
                .append(&name, bytes)
                .map_err(|error| Error::io(&name, "cannot be written", error))?;
            if rules::must_sync_checkpoint() {
                self.core.sync(&name)?;
            }
        }
        self.core.sync_names()
    }

    fn delete_old_checkpoints(&self, number: u64) -> Result<()> {
        let is_old = |name: &str| names::parse_checkpoint(name).is_some_and(|it| it < number);
        self.delete_if(is_old)
    }

    /// Deletes the segments that a durable checkpoint does not need.
    fn delete_dead_segments(&self, needed: &Needed) -> Result<()> {
        // The lock waits for reads that began when a block of such a segment was live.
        let now: BTreeSet<u64> = self.state_mut().tables.live_bytes.keys().copied().collect();
        let live = if rules::must_keep_freed_blocks() { &needed.live } else { &now };
        self.delete_if(|name| {
            names::parse_segment(name).is_some_and(|number| {
                let is_before = number < needed.first_segment;
                rules::may_delete_segment(is_before, live.contains(&number))
            })
        })
    }

    fn delete_if(&self, is_deleted: impl Fn(&str) -> bool) -> Result<()> {
        let folder = &self.core.folder;
        let listed = self.core.names()?;
        let mut is_changed = false;
        for name in listed.iter().filter(|name| is_deleted(name)) {
            folder.delete(name).map_err(|error| Error::io(name, "cannot be deleted", error))?;
            is_changed = true;
        }
        if is_changed {
            self.core.sync_names()?;
        }
        Ok(())
    }
}
