//! What every part of a volume needs: its folder, its keys, and its constants.

use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::folder::Folder;
use crate::format::VolumeId;
use crate::format::checkpoint::Place;
use crate::format::names;
use crate::format::superblock::Superblock;
use crate::keys::Keys;
use crate::rules;
use crate::tables::{Form, Stored};

/// The folder, the keys and the constants of a volume.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) folder: Arc<dyn Folder>,
    pub(crate) keys: Keys,
    pub(crate) id: VolumeId,
    pub(crate) block_size: usize,
    pub(crate) segment_size: u32,
}

/// The reason why a stored block cannot be read: the places that are damaged.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) error: Error,
    /// Set if it is the reference block of a burst that is damaged.
    pub(crate) is_reference: bool,
}

impl Core {
    /// Combines a superblock with its folder.
    pub(crate) fn new(folder: Arc<dyn Folder>, superblock: &Superblock) -> Core {
        Core {
            folder,
            keys: Keys::derive(&superblock.secret),
            id: superblock.id,
            block_size: 1 << superblock.block_shift,
            segment_size: superblock.segment_size,
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

    /// Reads a stored block into `block`, with its reference block for a burst: at most two reads of
    /// the folder. `reference` must be the reference block if `stored` is a burst.
    ///
    /// # Errors
    ///
    /// Fails if the bytes cannot be read or are not those that were written. The contents of `block`
    /// are then undefined.
    pub(crate) fn read(
        &self,
        stored: &Stored,
        reference: Option<&Stored>,
        block: &mut [u8],
    ) -> std::result::Result<(), Unreadable> {
        let own = |error| Unreadable { error, is_reference: false };
        let Form::Burst { patch, .. } = stored.form else {
            self.read_payload(stored, block).map_err(own)?;
            return self.verify(stored, block).map_err(own);
        };
        let problem = "the reference block is not known";
        let reference = reference.ok_or_else(|| own(damaged(stored.place, problem)))?;
        self.read_payload(reference, block)
            .map_err(|error| Unreadable { error, is_reference: true })?;
        // The reference block is hashed only if the result is wrong, to tell which of both is.
        let mut data = vec![0; patch.data_len(self.block_size)];
        self.read_payload(stored, &mut data).map_err(own)?;
        let prefix = patch.prefix as usize;
        let old = block[prefix..prefix + data.len()].to_vec();
        block[prefix..prefix + data.len()].copy_from_slice(&data);
        self.verify(stored, block).map_err(|error| {
            block[prefix..prefix + data.len()].copy_from_slice(&old);
            match self.verify(reference, block) {
                Ok(()) => own(error),
                Err(error) => Unreadable { error, is_reference: true },
            }
        })
    }

    /// Reads the beginning of the payload of a stored block.
    fn read_payload(&self, stored: &Stored, buffer: &mut [u8]) -> Result<()> {
        let name = names::segment(stored.place.segment);
        self.folder
            .read_at(&name, stored.payload_offset(), buffer)
            .map_err(|error| Error::io(shown(stored.place), "cannot be read", error))
    }

    fn verify(&self, stored: &Stored, block: &[u8]) -> Result<()> {
        if self.keys.fingerprint(block) == stored.fingerprint || !rules::must_verify_block() {
            return Ok(());
        }
        Err(damaged(stored.place, "the fingerprint of the block does not match"))
    }
}

/// Returns the error that the payload at a place is damaged.
fn damaged(place: Place, problem: &str) -> Error {
    Error::new(Kind::Corrupt, shown(place), problem)
}

/// Returns a place of the log for messages.
pub(crate) fn shown(place: Place) -> String {
    format!("{} at byte {}", names::segment(place.segment), place.offset)
}
