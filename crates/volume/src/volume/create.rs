//! Creates a volume.

use std::sync::Arc;

use super::Volume;
use crate::core::Core;
use crate::error::{Error, Kind, Result};
use crate::folder::Folder;
use crate::format::change::{Change, DiskEntry, is_name};
use crate::format::names;
use crate::format::position::Position;
use crate::format::settings::Settings;
use crate::format::superblock::{BLOCK_SHIFTS, SEGMENT_SIZES, Suite, Superblock};
use crate::key_slots::{KeySlots, Secret};
use crate::mode::{Compression, Mode};
use crate::tables::Tables;

/// The default length from which on a segment gets no further record, in bytes.
pub const SEGMENT_SIZE_DEFAULT: u32 = 64 * 1024 * 1024;

/// The default name of the first disk.
pub const DISK_NAME_DEFAULT: &str = "main";

/// The maximum number of blocks of a disk.
const BLOCK_COUNT_MAX: u64 = 1 << 40;

/// The constants of a new volume.
#[derive(Clone)]
pub struct CreateOptions {
    /// The name of the first disk.
    pub disk: String,
    /// The size of the first disk in bytes, a multiple of the size of a block.
    pub size: u64,
    /// The size of a block in bytes: a power of two from 4096 to 65,536.
    pub block_size: u32,
    /// The first mode of writes.
    pub mode: Mode,
    /// The first compression of writes.
    pub compression: Compression,
    /// Set if a block is compared with the stored one before it counts as a duplicate.
    pub verifies_duplicates: bool,
    /// The first passphrase of a volume that is encrypted.
    pub passphrase: Option<Vec<u8>>,
    /// The length from which on a segment of the log gets no further record, in bytes: from 64 KiB
    /// to 1 GiB.
    pub segment_size: u32,
}

impl std::fmt::Debug for CreateOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let CreateOptions { disk, size, block_size, mode, compression, .. } = self;
        let mut shown = f.debug_struct("CreateOptions");
        shown.field("disk", disk).field("size", size).field("block_size", block_size);
        shown.field("mode", mode).field("compression", compression).finish_non_exhaustive()
    }
}

impl CreateOptions {
    /// Returns the options with the default segments.
    #[must_use]
    pub fn new(size: u64, block_size: u32, mode: Mode) -> CreateOptions {
        CreateOptions {
            disk: DISK_NAME_DEFAULT.to_owned(),
            size,
            block_size,
            mode,
            compression: Compression::None,
            verifies_duplicates: false,
            passphrase: None,
            segment_size: SEGMENT_SIZE_DEFAULT,
        }
    }

    /// Checks that the options are in range.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Invalid`] and the option that is not.
    pub fn check(&self) -> Result<()> {
        self.block_shift().map(drop)
    }

    /// Returns the binary logarithm of the size of a block.
    fn block_shift(&self) -> Result<u8> {
        let invalid = |name: String, problem: &str| Err(Error::new(Kind::Invalid, name, problem));
        let shift = BLOCK_SHIFTS.into_iter().find(|shift| 1 << shift == self.block_size);
        let Some(shift) = shift else {
            let problem = "must be 4096, 8192, 16384, 32768 or 65536 bytes";
            return invalid(format!("block size {}", self.block_size), problem);
        };
        check_size(self.size, self.block_size.into())?;
        check_name(&self.disk)?;
        if !SEGMENT_SIZES.contains(&self.segment_size) {
            let name = format!("segment size {}", self.segment_size);
            return invalid(name, "must be from 64 KiB to 1 GiB");
        }
        Ok(shift)
    }
}

impl Volume {
    /// Creates a volume in an empty folder, and makes it durable. All blocks are zeros.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Invalid`] if an option is out of range, with [`Kind::Exists`] if the folder
    /// has files, and if it cannot be written.
    pub fn create(folder: &Arc<dyn Folder>, options: &CreateOptions) -> Result<()> {
        let block_shift = options.block_shift()?;
        let failed = |problem: &'static str| move |error| Error::io("folder", problem, error);
        if !folder.names().map_err(failed("cannot be listed"))?.is_empty() {
            return Err(Error::new(Kind::Exists, "folder", "is not empty"));
        }
        let mut random = [0; 48];
        getrandom::fill(&mut random)
            .map_err(|error| Error::new(Kind::Io, "random numbers", error.to_string()))?;
        let (mut id, mut secret) = ([0; 16], [0; 32]);
        id.copy_from_slice(&random[..16]);
        secret.copy_from_slice(&random[16..]);
        let segment_size = options.segment_size;
        let (suite, stored) = match &options.passphrase {
            None => (Suite::Clear, secret),
            Some(_) => (Suite::Aes256Gcm, [0; 32]),
        };
        let superblock = Superblock { suite, id, secret: stored, block_shift, segment_size };
        if let Some(passphrase) = &options.passphrase {
            KeySlots::new(folder, id).add(&Secret::new(secret), passphrase, "")?;
        }
        let CreateOptions { mode, compression, verifies_duplicates, .. } = *options;
        let settings = Settings { mode, compression, verifies_duplicates };
        let core = Arc::new(Core::new(Arc::clone(folder), &superblock, &secret, 0));
        let mut tables = Tables::new(Arc::clone(&core), settings);
        let disk = DiskEntry { name: options.disk.clone(), layer: 1, size: options.size };
        for change in [Change::Layer { id: 1, parent: None }, Change::Disk(1, disk)] {
            assert!(tables.catalog.apply(&change), "a first disk");
        }
        let position = Position { segment: 1, offset: 0, seq: 1 };
        let mut checkpoint = tables.to_checkpoint(position);
        checkpoint.number = 1;
        let checkpoint = checkpoint.encode(&core.keys);
        // The superblock comes last: a folder without one has no volume.
        let checkpoints = names::checkpoint(1).map(|name| (name, checkpoint.clone()));
        let superblocks = names::SUPERBLOCKS.map(|name| (name.to_owned(), superblock.encode()));
        for (name, bytes) in checkpoints.into_iter().chain(superblocks) {
            folder.create(&name).map_err(failed("cannot be written"))?;
            folder.write_at(&name, 0, &bytes).map_err(failed("cannot be written"))?;
            folder.sync(&name).map_err(failed("cannot be synced"))?;
        }
        folder.sync_names().map_err(failed("cannot be synced"))
    }
}

/// Checks that a disk can have a size.
pub(super) fn check_size(size: u64, block_size: u64) -> Result<()> {
    let invalid = |problem: &str| Err(Error::new(Kind::Invalid, format!("size {size}"), problem));
    if size == 0 || !size.is_multiple_of(block_size) {
        return invalid(&format!("must be a multiple of {block_size} bytes, the size of a block"));
    }
    if size / block_size > BLOCK_COUNT_MAX {
        return invalid("must be at most 2^40 blocks");
    }
    Ok(())
}

/// Checks that a disk or a snapshot can have a name.
pub(super) fn check_name(name: &str) -> Result<()> {
    if is_name(name) {
        return Ok(());
    }
    let problem = "must have 1 to 64 letters, digits, '.', '_' or '-', and begin with a letter or a \
                   digit";
    Err(Error::new(Kind::Invalid, format!("name '{name}'"), problem))
}
