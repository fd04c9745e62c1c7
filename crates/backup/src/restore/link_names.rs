//! The names of files that have several names in the snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use cutpoint_repository::{Content, Entry, EntryKind, Time};

use super::job::Role;
use super::links::{Link, LinkOwner};

/// The properties in which all names of one file agree. The inode number alone is not enough,
/// because it is reused when its file is deleted, and some file systems give the same number to
/// several files.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct SnapshotLinkKey {
    device: u64,
    inode: u64,
    kind: EntryKind,
    mode: u32,
    user_id: u32,
    group_id: u32,
    user: String,
    group: String,
    mtime: Time,
    device_number: u64,
    size: u64,
    content: Content,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl SnapshotLinkKey {
    /// Returns the properties of `entry`.
    pub(crate) fn of(entry: &Entry) -> SnapshotLinkKey {
        SnapshotLinkKey {
            device: entry.device,
            inode: entry.inode,
            kind: entry.kind,
            mode: entry.mode,
            user_id: entry.user_id,
            group_id: entry.group_id,
            user: entry.user.clone(),
            group: entry.group.clone(),
            mtime: entry.mtime,
            device_number: entry.device_number,
            size: entry.size,
            content: entry.content.clone(),
            xattrs: entry.xattrs.clone(),
        }
    }
}

/// A file with names that are still to come.
struct PendingNames {
    link: Arc<Link>,
    /// The number of names that may still come.
    rest: u64,
}

/// The files whose further names are still to come.
#[derive(Default)]
pub(super) struct LinkNames(HashMap<SnapshotLinkKey, PendingNames>);

impl LinkNames {
    /// Returns the role of the name of `entry` among the names of its file.
    pub(super) fn role(&mut self, entry: &Entry) -> Role {
        if !entry.is_hard_link() {
            return Role::Only;
        }
        let key = SnapshotLinkKey::of(entry);
        if let Some(known) = self.0.get_mut(&key) {
            known.rest = known.rest.saturating_sub(1);
            let link = Arc::clone(&known.link);
            if known.rest == 0 {
                self.0.remove(&key);
            }
            return Role::Further(link);
        }
        let (link, owner) = LinkOwner::new();
        self.0.insert(key, PendingNames { link, rest: entry.links - 1 });
        Role::First(owner)
    }
}
