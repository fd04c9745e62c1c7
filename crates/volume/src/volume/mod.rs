//! A volume: virtual disks in a folder.

mod catalog;
mod check;
mod checkpoint;
mod clean;
mod create;
mod decide;
mod disk;
mod flush;
mod open;
mod partial;
mod pieces;
mod prepare;
mod read;
mod space;
mod statistics;
mod unpin;
mod upkeep;
mod write;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use self::catalog::{DiskInfo, SnapshotInfo};
pub use self::check::{CheckSummary, Finding, NamedBlock};
use self::checkpoint::{Checkpointer, Checkpoints};
pub use self::create::{CreateOptions, DISK_NAME_DEFAULT, SEGMENT_SIZE_DEFAULT};
pub use self::disk::Disk;
pub use self::open::OpenOptions;
use self::partial::Partial;
pub use self::read::Extent;
use self::space::Space;
pub use self::statistics::Statistics;
use crate::codec::compress::Compressor;
use crate::codec::delta::Encoder;
use crate::core::Core;
use crate::error::{Error, Kind, Result};
use crate::format::change::Change;
use crate::format::record::Body;
use crate::format::settings::Settings;
use crate::format::summary::Summarized;
use crate::log::{LogWriter, Mark};
use crate::mode::{Compression, Mode};
use crate::rules;
use crate::tables::{Known, Tables};

/// Virtual disks in a folder, in which equal blocks are stored once and similar ones by their
/// differences. [`Disk`] reads and writes one of them.
///
/// All methods may be called by several threads at once.
#[derive(Debug)]
pub struct Volume {
    core: Arc<Core>,
    is_read_only: bool,
    /// The bytes of changes of the tables in memory from which on a checkpoint is due.
    changes_max: u64,
    state: RwLock<State>,
    space: Space,
    /// Held while files are synced.
    flushing: Mutex<()>,
    /// Held while a checkpoint is written.
    checkpoints: Mutex<Checkpoints>,
    checkpointer: Checkpointer,
    /// Held while runs are merged.
    merging: Mutex<()>,
    /// Held while segments are cleaned or layers folded.
    cleaning: Mutex<()>,
    /// The value of [`Mark::bytes`] when the log was last looked through for dead bytes.
    cleaned_at: AtomicU64,
    /// Set if the log was cleaned while no client wrote, and nothing was written since.
    is_settled: AtomicBool,
    /// Held while a delta is made.
    encoder: Mutex<Encoder>,
}

/// What changes with a write.
#[derive(Debug)]
struct State {
    tables: Tables,
    log: LogWriter,
    /// Set while the records of what is written are kept back, to be appended together.
    is_batch: bool,
    /// The block that is being written in parts.
    partial: Option<Partial>,
    /// The error after which nothing may be written.
    failure: Option<String>,
    /// The end of the log at the last checkpoint.
    checkpoint_at: Mark,
    compressor: Compressor,
}

impl Volume {
    /// Returns the size of a block in bytes.
    #[must_use]
    pub fn block_size(&self) -> usize {
        self.core.shape.block_size
    }

    /// Returns `true` if the volume was opened for reading.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns the mode of writes.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.read_state().tables.catalog.settings.mode
    }

    /// Returns the compression of writes.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.read_state().tables.catalog.settings.compression
    }

    /// Changes the mode of later writes. The change is durable when this returns.
    ///
    /// # Errors
    ///
    /// Fails if the volume cannot be written.
    pub fn set_mode(&self, mode: Mode) -> Result<()> {
        self.set(|settings| settings.mode = mode)
    }

    /// Changes the compression of later writes. The change is durable when this returns.
    ///
    /// # Errors
    ///
    /// Fails if the volume cannot be written.
    pub fn set_compression(&self, compression: Compression) -> Result<()> {
        self.set(|settings| settings.compression = compression)
    }

    /// Returns `true` if a block is compared with the stored one before it counts as a duplicate.
    #[must_use]
    pub fn verifies_duplicates(&self) -> bool {
        self.read_state().tables.catalog.settings.verifies_duplicates
    }

    /// Changes if later writes compare a block with the stored one before it counts as a duplicate. The
    /// change is durable when this returns.
    ///
    /// # Errors
    ///
    /// Fails if the volume cannot be written.
    pub fn set_verifies_duplicates(&self, verifies_duplicates: bool) -> Result<()> {
        self.set(|settings| settings.verifies_duplicates = verifies_duplicates)
    }

    fn set(&self, change: impl FnOnce(&mut Settings)) -> Result<()> {
        {
            let mut state = self.client_state()?;
            let mut settings = state.tables.catalog.settings;
            change(&mut settings);
            if settings == state.tables.catalog.settings {
                return Ok(());
            }
            state.change(&self.core, &[Change::Settings(settings)])?;
        }
        self.flush()
    }

    /// Checks that the tables agree with each other, which takes time and memory in proportion to their
    /// size.
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
    /// Fails if the volume was opened for reading, or if nothing may be written after a failure.
    fn write_state(&self) -> Result<RwLockWriteGuard<'_, State>> {
        if self.is_read_only {
            return Err(Error::new(Kind::ReadOnly, "volume", "was opened for reading"));
        }
        let state = self.state_mut();
        state.check_failure()?;
        Ok(state)
    }
}

/// Returns the values of `is_copy` of the records that are in the log twice.
fn copies() -> impl Iterator<Item = bool> {
    [false, true].into_iter().filter(|is_copy| !is_copy || rules::must_write_twice())
}

impl State {
    /// Returns the error of an earlier sync or of the tables again.
    fn check_failure(&self) -> Result<()> {
        // No batch outlives the lock under which it was begun, unless the thread has panicked.
        let panic = self.is_batch.then_some("a write has panicked");
        let failure = self.failure.as_deref().or(self.log.failed_sync()).or(panic);
        match failure.filter(|_| rules::must_stop_after_failed_sync()) {
            None => Ok(()),
            Some(failure) => {
                let problem = format!(
                    "the volume must be opened again before it is written, because of an earlier \
                     failure: {failure}"
                );
                Err(Error::new(Kind::Io, "volume", problem))
            }
        }
    }

    /// Appends a record and applies it.
    fn append(&mut self, core: &Core, body: Body, content: &[u8]) -> Result<()> {
        self.append_with(core, body, content, &Known::default())
    }

    /// Changes the catalog. The record is there twice, so that one flipped bit does no harm.
    fn change(&mut self, core: &Core, changes: &[Change]) -> Result<()> {
        let content = Change::encode_all(changes);
        let hash = core.keys.fingerprint(&content);
        let known = Known { changes, ..Known::default() };
        for is_copy in copies() {
            self.append_with(core, Body::Change { hash, is_copy }, &content, &known)?;
        }
        Ok(())
    }

    /// Appends a record of which more is known, and applies it.
    fn append_with(
        &mut self,
        core: &Core,
        body: Body,
        content: &[u8],
        known: &Known<'_>,
    ) -> Result<()> {
        let compression = match body {
            Body::Change { .. } => Compression::None,
            _ => self.tables.catalog.settings.compression,
        };
        let (encoding, payload) = self.compressor.encode(compression, content);
        if self.is_batch {
            let (record, place) = self.log.add(core, body, encoding, payload)?;
            self.tables.apply(&record, place, known)?;
            return if self.log.must_write(core) { self.write_batch(core) } else { Ok(()) };
        }
        let (record, place) = self.log.append(core, body, encoding, payload)?;
        self.tables.apply(&record, place, known).inspect_err(|error| {
            // The record counts, and the tables do not agree with it.
            self.failure = Some(error.to_string());
        })?;
        // Nothing comes between two equal records. The next append meets the error of a summary again.
        if Summarized::of(&record.body).is_copy != Some(false) {
            self.log.summarize_if_due(core).ok();
        }
        Ok(())
    }

    /// Calls `write`, and appends the records of what it writes together. After an error, the first of
    /// them may count.
    fn batch(&mut self, core: &Core, write: impl FnOnce(&mut State) -> Result<()>) -> Result<()> {
        if self.tables.catalog.settings.verifies_duplicates {
            // The stored blocks that are compared must be in the log.
            return write(self);
        }
        self.is_batch = true;
        self.tables.begin();
        let written = write(self).and_then(|()| self.write_batch(core));
        self.is_batch = false;
        if written.is_err() && rules::must_roll_back() {
            self.tables.roll_back();
        }
        self.tables.commit();
        self.log.drop_added();
        written
    }

    /// Appends the records so far, and begins with others.
    fn write_batch(&mut self, core: &Core) -> Result<()> {
        self.log.write(core)?;
        self.tables.commit();
        self.log.summarize_if_due(core).ok();
        self.tables.begin();
        Ok(())
    }
}
