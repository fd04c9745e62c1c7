//! Files in progress: the place where a large file is written until it is complete, and the
//! existing files from which it takes bytes.

use std::fs::File;
use std::io;

use cutpoint_repository::EntryKind;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::place::{Place, SPARE_PREFIX};
use crate::platform;
use crate::source::folder::{self, Identity};
use crate::source::{kind, links};

/// The mode of a file until its metadata is set: accessible to its owner only.
pub(super) const MODE_AT_FIRST: Mode = Mode::RUSR.union(Mode::WUSR);

/// Returns the name of the file `name` until it is complete. A later restore finds it again, also
/// one of another snapshot.
pub(super) fn partial_name(name: &[u8]) -> Vec<u8> {
    // FNV-1a. A name with a prefix could be too long.
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    [SPARE_PREFIX, format!("{hash:016x}.partial").as_bytes()].concat()
}

/// A file in progress.
#[derive(Debug)]
pub(super) struct PartialFile {
    pub(super) name: Vec<u8>,
    pub(super) file: File,
    /// Set if an earlier restore has created the file.
    pub(super) is_resumed: bool,
}

/// Opens or creates the file in progress of `name`. Returns `None` if something else has its name:
/// an entry of the snapshot, a file that other processes could read or change, or one that another
/// restore uses.
pub(super) fn open_partial(place: &Place, name: &[u8]) -> Result<Option<PartialFile>, Errno> {
    if place.folder.restored.has_temporary() {
        return Ok(None);
    }
    let name = partial_name(name);
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = |flags| rustix::fs::openat(&place.handle, name.as_slice(), flags, MODE_AT_FIRST);
    let (file, is_resumed) = match open(flags) {
        Ok(fd) => (File::from(fd), true),
        Err(Errno::NOENT) => match open(flags | OFlags::CREATE | OFlags::EXCL) {
            Ok(fd) => (File::from(fd), false),
            Err(Errno::EXIST) => return Ok(None),
            Err(error) => return Err(error),
        },
        Err(_) => return Ok(None),
    };
    let is_usable = is_own(&rustix::fs::fstat(&file)?) && lock(place, &name, &file);
    Ok(is_usable.then_some(PartialFile { name, file, is_resumed }))
}

/// Returns `true` if the file can only have been created by a restore of this user.
fn is_own(stat: &Stat) -> bool {
    kind(stat) == Some(EntryKind::File)
        && links(stat) == 1
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && Mode::from_raw_mode(stat.st_mode) == MODE_AT_FIRST
}

/// Locks `file` until it is closed. Returns `false` if another process has done so, or has given
/// the file its final name meanwhile. A file system without locks is not shared by two restores.
fn lock(place: &Place, name: &[u8], file: &File) -> bool {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => false,
        _ => match (rustix::fs::fstat(file), folder::stat(&place.handle, name)) {
            (Ok(one), Ok(other)) => Identity::of(&one) == Identity::of(&other),
            _ => false,
        },
    }
}

/// Gives the file `from` the new name `to`, which must not exist.
pub(super) fn name_new(place: &Place, from: &[u8], to: &[u8]) -> Result<(), Errno> {
    let folder = &place.handle;
    match rustix::fs::linkat(folder, from, folder, to, AtFlags::empty()) {
        Ok(()) => rustix::fs::unlinkat(folder, from, AtFlags::empty()),
        Err(Errno::EXIST) => Err(Errno::EXIST),
        // A file system without hard links. Nothing else on such systems names a file without
        // replacing another one.
        Err(_) => match folder::stat(folder, to) {
            Err(Errno::NOENT) => rustix::fs::renameat(folder, from, folder, to),
            Err(error) => Err(error),
            Ok(_) => Err(Errno::EXIST),
        },
    }
}

/// Removes what an earlier restore has left of the file `name`.
pub(super) fn discard_partial(place: &Place, name: &[u8]) {
    if !place.folder.restored.has_temporary() {
        let name = partial_name(name);
        rustix::fs::unlinkat(&place.handle, name.as_slice(), AtFlags::empty()).ok();
    }
}

/// Opens the existing file `name`, to read it or to change it in place. Returns `None` if it is no
/// regular file or, to change it, if it has other names.
pub(super) fn open_existing(
    place: &Place,
    name: &[u8],
    is_changed: bool,
) -> io::Result<Option<File>> {
    let access = if is_changed { OFlags::RDWR } else { OFlags::RDONLY };
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = match rustix::fs::openat(&place.handle, name, flags, Mode::empty()) {
        // A symbolic link.
        Err(platform::LINK_REFUSED | Errno::NXIO) => return Ok(None),
        fd => fd?,
    };
    let stat = rustix::fs::fstat(&fd)?;
    let is_usable = kind(&stat) == Some(EntryKind::File) && (!is_changed || links(&stat) == 1);
    Ok(is_usable.then(|| File::from(fd)))
}
