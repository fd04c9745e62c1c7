//! Entries from the metadata that the system has of files.

use cutpoint_repository::{Entry, EntryKind};
use rustix::fs::Stat;

use super::devices::Devices;
use super::owners::OwnerNames;
use super::{ctime, device_number, links, mode, mtime, size};

/// Creates entries.
#[derive(Debug, Default)]
pub(super) struct EntryBuilder {
    pub(super) devices: Devices,
    owners: OwnerNames,
}

impl EntryBuilder {
    /// Creates the entry `name` with the metadata `stat`. It has neither a content nor extended
    /// attributes.
    pub(super) fn entry(&mut self, name: Vec<u8>, kind: EntryKind, stat: &Stat) -> Entry {
        let mut entry = Entry::new(name, kind);
        entry.mode = mode(stat);
        entry.user_id = stat.st_uid;
        entry.group_id = stat.st_gid;
        self.owners.user(stat.st_uid).clone_into(&mut entry.user);
        self.owners.group(stat.st_gid).clone_into(&mut entry.group);
        entry.mtime = mtime(stat);
        entry.ctime = ctime(stat);
        entry.inode = stat.st_ino;
        entry.device = self.devices.index(stat.st_dev);
        if kind != EntryKind::Folder {
            entry.links = links(stat);
        }
        match kind {
            EntryKind::CharDevice | EntryKind::BlockDevice => {
                entry.device_number = device_number(stat.st_rdev);
            }
            EntryKind::File => entry.size = size(stat),
            _ => {}
        }
        entry
    }
}
