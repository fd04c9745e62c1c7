//! What every part of a volume needs: its folder, its keys, and its constants.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cache::Cache;
use crate::codec::cipher::{Cipher, SEAL_LEN};
use crate::error::{Error, Kind, Result};
use crate::folder::Folder;
use crate::format::VolumeId;
use crate::format::names;
use crate::format::position::{Place, Seq};
use crate::format::record::Shape;
use crate::format::run::PAGE_SIZE;
use crate::format::superblock::Superblock;
use crate::keys::Keys;
use crate::spares::Spares;

/// The folder, the keys and the constants of a volume.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) folder: Arc<dyn Folder>,
    pub(crate) keys: Keys,
    pub(crate) id: VolumeId,
    pub(crate) shape: Shape,
    pub(crate) segment_size: u32,
    /// The cipher of payloads, if they are encrypted.
    pub(crate) cipher: Option<Cipher>,
    /// The pages of the tables that were used last: number of the run, and of the page in it.
    pub(crate) pages: Cache<(u64, u64)>,
    /// Stored blocks that were read in part or for a difference, and verified. A number always has the
    /// same content.
    pub(crate) blocks: Cache<Seq>,
    /// The bytes of all files.
    pub(crate) used_bytes: AtomicU64,
    spares: Mutex<Spares>,
}

impl Core {
    /// Combines a superblock and the secret of the volume with its folder. `page_bytes` are the memory
    /// for pages; that for blocks is a quarter of it.
    pub(crate) fn new(
        folder: Arc<dyn Folder>,
        superblock: &Superblock,
        secret: &[u8; 32],
        page_bytes: u64,
    ) -> Core {
        let keys = Keys::derive(secret);
        let cipher = superblock.suite.is_encrypted().then(|| Cipher::new(keys.payload_key()));
        let seal_len = if cipher.is_some() { SEAL_LEN } else { 0 };
        Core {
            folder,
            keys,
            cipher,
            id: superblock.id,
            shape: Shape { block_size: 1 << superblock.block_shift, seal_len },
            segment_size: superblock.segment_size,
            pages: Cache::new(page_bytes, PAGE_SIZE),
            blocks: Cache::new(page_bytes / 4, 1 << superblock.block_shift),
            used_bytes: AtomicU64::new(0),
            spares: Mutex::default(),
        }
    }

    /// Returns the names of all files.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be listed.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        self.folder.names().map_err(|error| Error::io("folder", "cannot be listed", error))
    }

    /// Writes bytes to a file of `file_len` bytes behind the first `offset` ones, as [`Folder::write_at`] does.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written. Any part of the bytes may have been written, which is not
    /// counted.
    pub(crate) fn write_at(
        &self,
        name: &str,
        file_len: u64,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let growth = (offset + bytes.len() as u64).saturating_sub(file_len);
        self.used_bytes.fetch_add(growth, Ordering::Relaxed);
        self.folder.write_at(name, offset, bytes).map_err(|error| {
            self.used_bytes.fetch_sub(growth, Ordering::Relaxed);
            Error::io(name, "cannot be written", error)
        })
    }

    /// Begins a segment, in the file of a spare one if there is one, and returns the length of the file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created.
    pub(crate) fn begin_segment(&self, name: &str) -> Result<u64> {
        if let Some(len) = self.spares().take(|spare| self.folder.reuse(spare, name)) {
            return Ok(len);
        }
        self.folder.create(name).map_err(|error| Error::io(name, "cannot be created", error))?;
        Ok(0)
    }

    /// Returns the spare segments. None is begun anew or becomes one as long as they are locked.
    pub(crate) fn spares(&self) -> MutexGuard<'_, Spares> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes a file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be deleted.
    pub(crate) fn delete(&self, name: &str) -> Result<()> {
        let size = self.folder.size(name).unwrap_or_default();
        let deleted = self.folder.delete(name);
        deleted.map_err(|error| Error::io(name, "cannot be deleted", error))?;
        let less = |used: u64| Some(used.saturating_sub(size));
        self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok();
        Ok(())
    }

    /// Makes the bytes of a file durable.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot promise that.
    pub(crate) fn sync(&self, name: &str) -> Result<()> {
        self.folder.sync(name).map_err(|error| Error::io(name, "cannot be synced", error))
    }

    /// Makes the names of all files durable.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot promise that.
    pub(crate) fn sync_names(&self) -> Result<()> {
        self.folder.sync_names().map_err(|error| Error::io("folder", "cannot be synced", error))
    }
}

/// Returns the error that the payload at a place is damaged.
pub(crate) fn damaged(place: Place, problem: &str) -> Error {
    Error::new(Kind::Corrupt, shown(place), problem)
}

/// Returns a place of the log for messages.
pub(crate) fn shown(place: Place) -> String {
    format!("{} at byte {}", names::segment(place.segment), place.offset)
}
