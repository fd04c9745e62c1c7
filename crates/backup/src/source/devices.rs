//! The file systems that a walk has met.

use std::os::fd::AsFd;
use std::sync::Arc;

use super::mounts::{FileSystem, FileSystems, shows_snapshots};

/// The file systems that a walk has met so far. The `device` of an entry is an index into the list.
#[derive(Debug, Default)]
pub(super) struct Devices {
    /// The device numbers of the system.
    ids: Vec<u64>,
    /// Details, in the same order; `None` until something on the file system is opened.
    file_systems: Vec<Option<FileSystem>>,
    /// Whether each shows snapshots, in the same order; `None` until that is known.
    show_snapshots: Vec<Option<bool>>,
    /// The source of the details.
    mounts: Option<Arc<dyn FileSystems>>,
}

impl Devices {
    /// Finds details of file systems in `mounts` from now on.
    pub(super) fn set_mounts(&mut self, mounts: Arc<dyn FileSystems>) {
        self.mounts = Some(mounts);
    }

    /// The number of file systems.
    pub(super) fn count(&self) -> usize {
        self.ids.len()
    }

    /// Returns the details of the file system `device`; the default if they are not known.
    pub(super) fn file_system(&self, device: usize) -> FileSystem {
        self.file_systems.get(device).cloned().flatten().unwrap_or_default()
    }

    /// Returns the index of the file system `id` among those seen.
    pub(super) fn index(&mut self, id: u64) -> u64 {
        let position = self.ids.iter().position(|&seen| seen == id).unwrap_or_else(|| {
            self.ids.push(id);
            self.file_systems.push(None);
            self.show_snapshots.push(None);
            self.ids.len() - 1
        });
        position as u64
    }

    /// Returns `true` if the file system `id`, on which `fd` is, shows the snapshots of a repository.
    pub(super) fn shows_snapshots(&mut self, id: u64, fd: impl AsFd) -> bool {
        let index = usize::try_from(self.index(id)).ok();
        let Some(known) = index.and_then(|index| self.show_snapshots.get_mut(index)) else {
            return false;
        };
        *known.get_or_insert_with(|| shows_snapshots(fd.as_fd()))
    }

    /// Returns `true` if the details of the file system `device` are still to be found out.
    pub(super) fn is_unidentified(&self, device: u64) -> bool {
        let known = usize::try_from(device).ok().and_then(|device| self.file_systems.get(device));
        self.mounts.is_some() && known.is_some_and(Option::is_none)
    }

    /// Finds out the details of the file system `device` from an open file or folder on it.
    pub(super) fn identify(&mut self, device: u64, fd: impl AsFd) {
        let found = self.mounts.as_ref().map(|mounts| mounts.of(fd.as_fd()));
        let place = usize::try_from(device).ok();
        if let Some(place) = place.and_then(|place| self.file_systems.get_mut(place)) {
            *place = found;
        }
    }
}
