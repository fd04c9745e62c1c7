//! A volume: a virtual disk in a folder.

mod check;
mod checkpoint;
mod clean;
mod create;
mod decide;
mod flush;
mod open;
mod pieces;
mod read;
mod statistics;
mod write;

use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use self::check::{CheckSummary, Finding};
pub use self::create::{CreateOptions, SEGMENT_SIZE_DEFAULT};
pub use self::read::Extent;
pub use self::statistics::Statistics;
use crate::core::Core;
use crate::error::{Error, Kind, Result};
use crate::format::record::Body;
use crate::log::LogWriter;
use crate::mode::Mode;
use crate::rules;
use crate::tables::Tables;

/// A virtual disk in a folder, in which equal blocks are stored once and similar ones as bursts.
///
/// All methods may be called by several threads at once. A write is visible to all later reads, and
/// durable after the next [`flush`](Volume::flush). After a crash, the disk is as it was after some
/// write that was not followed by a flush: a block never has a value that was not written to it. A
/// stored block that is damaged cannot be read, and no other value is returned for it.
///
/// Every read and write is of any number of bytes at any offset. Whole blocks are quickest.
#[derive(Debug)]
pub struct Volume {
    core: Core,
    is_read_only: bool,
    state: RwLock<State>,
    /// Held while files are synced.
    flushing: Mutex<()>,
    /// Held while a checkpoint is written.
    checkpoints: Mutex<Checkpoints>,
}

/// What changes with a write.
#[derive(Debug)]
struct State {
    tables: Tables,
    log: LogWriter,
    /// The error of a sync, after which nothing may be written.
    failure: Option<String>,
    /// The value of [`LogWriter::appended_bytes`] from which on a checkpoint is due.
    checkpoint_at: u64,
}

/// The checkpoints of the volume.
#[derive(Debug)]
struct Checkpoints {
    /// The number of the last one that was attempted.
    last_number: u64,
    /// The size of the last one in bytes.
    size: u64,
}

impl Volume {
    /// Returns the size of the disk in bytes, a multiple of the size of a block.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.read_state().tables.settings.size
    }

    /// Returns the size of a block in bytes.
    #[must_use]
    pub fn block_size(&self) -> usize {
        self.core.block_size
    }

    /// Returns `true` if the volume was opened for reading.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns the mode of writes.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.read_state().tables.settings.mode
    }

    /// Changes the mode of later writes. The change is durable after the next flush.
    ///
    /// # Errors
    ///
    /// Fails if the volume cannot be written.
    pub fn set_mode(&self, mode: Mode) -> Result<()> {
        let mut state = self.write_state()?;
        let settings = state.tables.settings;
        if settings.mode == mode {
            return Ok(());
        }
        let settings = crate::format::record::Settings { mode, ..settings };
        state.append(&self.core, Body::Settings(settings), &[])
    }

    /// Checks that the tables agree with each other, which takes time in proportion to their size.
    ///
    /// # Errors
    ///
    /// Returns the first contradiction, which is an error of the program.
    pub fn audit(&self) -> std::result::Result<(), String> {
        self.read_state().tables.audit()
    }

    fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state for a write.
    ///
    /// # Errors
    ///
    /// Fails if the volume was opened for reading, or if a sync has failed.
    fn write_state(&self) -> Result<RwLockWriteGuard<'_, State>> {
        if self.is_read_only {
            return Err(Error::new(Kind::ReadOnly, "volume", "was opened for reading"));
        }
        let state = self.state_mut();
        state.check_failure()?;
        Ok(state)
    }
}

impl State {
    /// Returns the error of an earlier sync again.
    fn check_failure(&self) -> Result<()> {
        match self.failure.as_ref().filter(|_| rules::must_stop_after_failed_sync()) {
            None => Ok(()),
            Some(failure) => {
                let problem = format!(
                    "a sync has failed, so the volume must be opened again before it is written: \
                     {failure}"
                );
                Err(Error::new(Kind::Io, "volume", problem))
            }
        }
    }

    /// Appends a record and applies it.
    fn append(&mut self, core: &Core, body: Body, payload: &[u8]) -> Result<()> {
        let (record, place) = self.log.append(core, body, payload)?;
        self.tables.apply(&record, place);
        Ok(())
    }
}
