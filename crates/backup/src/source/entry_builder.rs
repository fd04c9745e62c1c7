//! Entries from the metadata that the system has of files.

use std::time::{SystemTime, UNIX_EPOCH};

use cutpoint_repository::{Entry, EntryKind, Time};
use rustix::fs::Stat;

use super::devices::Devices;
use super::owners::OwnerNames;
use super::{ctime, device_number, links, mode, mtime, size};
use crate::platform;

/// Creates entries.
#[derive(Debug, Default)]
pub(super) struct EntryBuilder {
    pub(super) devices: Devices,
    owners: OwnerNames,
}

impl EntryBuilder {
    /// Creates the entry `name`, with the metadata `stat`, of a source that is the block device
    /// `device` or a link to it: a file with the bytes of the device. Nothing shows a change of
    /// these, so the times are those of this moment.
    pub(super) fn device(&mut self, name: Vec<u8>, stat: &Stat, device: &Stat) -> Entry {
        let mut entry = self.entry(name, EntryKind::File, stat);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        entry.mtime = Time {
            seconds: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: now.subsec_nanos(),
        };
        entry.ctime = entry.mtime;
        entry.mode = mode(device);
        entry.links = 1;
        entry.size = size(device);
        entry.device_number = device_number(device);
        entry
    }

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
        entry.device = self.devices.index(platform::device(stat));
        if kind != EntryKind::Folder {
            entry.links = links(stat);
        }
        match kind {
            EntryKind::CharDevice | EntryKind::BlockDevice => {
                entry.device_number = device_number(stat);
            }
            EntryKind::File => entry.size = size(stat),
            _ => {}
        }
        entry
    }
}
