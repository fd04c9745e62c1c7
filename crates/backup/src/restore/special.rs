//! Symbolic links, devices, pipes and sockets.

use cutpoint_repository::{Content, Entry, EntryKind};
use cutpoint_storage::Error;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::failure::Failure;
use super::metadata;
use super::place::{EXISTS, Occupant, Place};
use super::restore_state::RestoreState;
use crate::platform;
use crate::source::folder::{self, Identity};

/// Creates a symbolic link, a device, a pipe or a socket.
pub(super) fn make_special(
    state: &RestoreState<'_>,
    place: &Place,
    entry: &Entry,
    occupant: &Occupant,
) -> std::result::Result<Identity, Failure> {
    let handle = &place.handle;
    let node = |name: &[u8], file_type| {
        let device = match file_type {
            FileType::CharacterDevice | FileType::BlockDevice => {
                let [major, minor] = [entry.device_number >> 32, entry.device_number & 0xffff_ffff];
                let part = |number: u64| u32::try_from(number).map_err(|_| Errno::INVAL);
                [part(major)?, part(minor)?]
            }
            _ => [0, 0],
        };
        platform::make_node(handle, name, file_type, device)
    };
    let target = match &entry.content {
        Content::Raw(target) if !target.contains(&0) => target.as_slice(),
        _ if entry.kind == EntryKind::Symlink => {
            return Err(Error::corrupt("", "a symbolic link without a target").into());
        }
        _ => &[],
    };
    let made = place.make(&entry.name, occupant, |name| match entry.kind {
        EntryKind::Symlink => rustix::fs::symlinkat(target, handle, name),
        EntryKind::CharDevice => node(name, FileType::CharacterDevice),
        EntryKind::BlockDevice => node(name, FileType::BlockDevice),
        EntryKind::Fifo => node(name, FileType::Fifo),
        EntryKind::Socket => node(name, FileType::Socket),
        EntryKind::File | EntryKind::Folder => Err(Errno::INVAL),
    });
    let name = entry.name.as_slice();
    match made {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(Failure::Refused(EXISTS)),
        Err(Errno::PERM)
            if matches!(entry.kind, EntryKind::CharDevice | EntryKind::BlockDevice) =>
        {
            return Err(Failure::Refused("a device, which only root can create"));
        }
        Err(error) => return Err(error.into()),
    }
    metadata::set_named(&state.owners, handle, entry, place.folder.inherits, &mut |message| {
        state.warn(&place.path(entry), &message);
    });
    Ok(Identity::of(&folder::stat(handle, name)?))
}
