//! A disk of a volume, or a snapshot of one.

use std::sync::Arc;

use super::{State, Volume};
use crate::error::{Error, Kind, Result};
use crate::format::change::EntryId;
use crate::format::span::LayerId;

/// A disk of a volume, or a snapshot of one, which cannot be written.
///
/// All methods may be called by several threads at once. A write is visible to all later reads, and
/// durable after the next [`flush`](Volume::flush). After a crash, the disk is as it was after some
/// write that was not followed by a flush: a block never has a value that was not written to it. A
/// stored block that is damaged cannot be read, and no other value is returned for it.
///
/// Every read and write is of any number of bytes at any offset. Whole blocks are quickest.
#[derive(Clone, Debug)]
pub struct Disk {
    volume: Arc<Volume>,
    id: DiskId,
}

/// The number of a disk or of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiskId {
    Disk(EntryId),
    Snapshot(EntryId),
}

/// The blocks of a disk or a snapshot, as long as the state is locked.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) layer: LayerId,
    pub(super) size: u64,
}

impl Disk {
    /// Finds a disk by its name, or a snapshot by `DISK@SNAPSHOT`.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Missing`] if there is none of this name.
    pub fn open(volume: &Arc<Volume>, name: &str) -> Result<Disk> {
        let state = volume.read_state();
        let catalog = &state.tables.catalog;
        let id = match name.split_once('@') {
            None => catalog.find_disk(name).map(DiskId::Disk),
            Some((disk, snapshot)) => catalog.find_snapshot(disk, snapshot).map(DiskId::Snapshot),
        };
        drop(state);
        match id {
            Some(id) => Ok(Disk { volume: Arc::clone(volume), id }),
            None => Err(Error::new(Kind::Missing, name, "there is no such disk or snapshot")),
        }
    }

    /// Returns the volume.
    #[must_use]
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// Returns the size of the disk in bytes, a multiple of the size of a block; 0 if it was deleted.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.view(&self.volume.read_state()).map_or(0, |view| view.size)
    }

    /// Returns the size of a block in bytes.
    #[must_use]
    pub fn block_size(&self) -> usize {
        self.volume.block_size()
    }

    /// Returns `true` if the disk cannot be written.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.volume.is_read_only() || matches!(self.id, DiskId::Snapshot(_))
    }

    /// Returns the uppermost layer and the size.
    pub(super) fn view(&self, state: &State) -> Result<View> {
        let catalog = &state.tables.catalog;
        let view = match self.id {
            DiskId::Disk(id) => {
                catalog.disks.get(&id).map(|disk| View { layer: disk.layer, size: disk.size })
            }
            DiskId::Snapshot(id) => {
                let found = catalog.snapshots.get(&id);
                found.map(|snapshot| View { layer: snapshot.layer, size: snapshot.size })
            }
        };
        view.ok_or_else(|| Error::new(Kind::Missing, "disk", "was deleted"))
    }

    /// Fails if the disk is a snapshot.
    pub(super) fn check_writable(&self) -> Result<()> {
        match self.id {
            DiskId::Disk(_) => Ok(()),
            DiskId::Snapshot(_) => {
                Err(Error::new(Kind::ReadOnly, "snapshot", "cannot be written; clone it"))
            }
        }
    }
}

impl View {
    /// Checks that a range is within the disk.
    pub(super) fn check_range(self, offset: u64, len: u64) -> Result<()> {
        if offset.checked_add(len).is_some_and(|end| end <= self.size) {
            return Ok(());
        }
        let problem = format!("ends behind the disk, which has {} bytes", self.size);
        Err(Error::new(Kind::Invalid, format!("{len} bytes at {offset}"), problem))
    }
}
