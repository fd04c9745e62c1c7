//! Open folders: opening one folder below another, and stacks of many levels.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::platform;

/// The maximum number of folders of a [`FolderStack`] that stay open, besides its lowest one. The
/// usual limit is 1024 descriptors per process, and other parts of the process need some of them.
const OPEN_MAX: usize = 64;

/// An open folder. Clones share one descriptor, which is closed with the last of them.
#[derive(Clone, Debug)]
pub struct Handle(Arc<OwnedFd>);

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Handle {
    fn from(fd: OwnedFd) -> Handle {
        Handle(Arc::new(fd))
    }
}

/// The identity of a file or folder, which no other one has as long as this one is open or linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(crate) fn of(stat: &Stat) -> Identity {
        Identity { device: platform::device(stat), inode: stat.st_ino }
    }
}

/// The purpose for which a folder is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Listing the folder and changing its metadata. Needs the permission to read.
    List,
    /// Reaching the entries of the folder by name.
    Pass,
}

/// Opens the folder `name` in `at`. A symbolic link in its place is an error.
pub(crate) fn open(at: impl AsFd, name: &[u8], access: Access) -> io::Result<Handle> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let at = at.as_fd();
    let fd = match access {
        Access::Pass => rustix::fs::openat(at, name, flags | platform::PATH_ONLY, Mode::empty()),
        Access::List => without_atime(|noatime| {
            rustix::fs::openat(at, name, flags | OFlags::RDONLY | noatime, Mode::empty())
        }),
    }?;
    Ok(Handle::from(fd))
}

/// Opens a folder for listing or, if that is not permitted, for passing. See [`open`].
pub(crate) fn open_best(at: impl AsFd, name: &[u8]) -> io::Result<Handle> {
    let at = at.as_fd();
    match open(at, name, Access::List) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open(at, name, Access::Pass)
        }
        result => result,
    }
}

/// Calls `open` with the flag that preserves the time of the last access, which not every system has.
/// If the system refuses the flag, which only the owner of a file may use, calls `open` without it.
pub(crate) fn without_atime<T>(open: impl Fn(OFlags) -> Result<T, Errno>) -> Result<T, Errno> {
    match open(platform::NOATIME) {
        Err(Errno::PERM) => open(OFlags::empty()),
        result => result,
    }
}

/// Returns the metadata of `name` in `folder`. For a symbolic link, this is the metadata of the
/// link itself.
pub(crate) fn stat(folder: impl AsFd, name: &[u8]) -> Result<Stat, Errno> {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Returns `false` if `name` in `folder` was created at `ns`, in nanoseconds since 1970, or later.
/// Without a time of creation, the result is `true`.
pub(crate) fn born_before(folder: &Handle, name: &[u8], ns: i64) -> bool {
    platform::created_ns(folder, name).is_none_or(|created_ns| created_ns < i128::from(ns))
}

/// The folders from a lowest one down to the current one. Only the lowest folder and the deepest
/// ones are open; the others are reopened on the way back.
#[derive(Debug)]
pub(crate) struct FolderStack<T> {
    levels: Vec<Level<T>>,
}

#[derive(Debug)]
struct Level<T> {
    name: Vec<u8>,
    identity: Identity,
    handle: Option<Handle>,
    data: T,
}

impl<T> FolderStack<T> {
    /// Creates a stack of one folder, `handle`.
    pub(crate) fn new(handle: Handle, identity: Identity, data: T) -> FolderStack<T> {
        let lowest = Level { name: Vec::new(), identity, handle: Some(handle), data };
        FolderStack { levels: vec![lowest] }
    }

    /// Makes `handle`, the folder `name` in the current folder, the new current folder.
    pub(crate) fn push(&mut self, name: Vec<u8>, handle: Handle, identity: Identity, data: T) {
        self.levels.push(Level { name, identity, handle: Some(handle), data });
        if let Some(index) = self.levels.len().checked_sub(OPEN_MAX + 1).filter(|&index| index > 0)
        {
            self.levels[index].handle = None;
        }
    }

    /// Leaves the current folder. Returns its data, and its handle unless the folder was moved or
    /// removed meanwhile.
    pub(crate) fn pop(&mut self) -> Option<(T, Option<Handle>)> {
        let level = self.levels.pop()?;
        if self.levels.last().is_some_and(|top| top.handle.is_none()) {
            let handle = self.reopen(level.handle.as_ref());
            if let Some(top) = self.levels.last_mut() {
                top.handle = handle;
            }
        }
        Some((level.data, level.handle))
    }

    /// Returns the data of the current folder, and its handle unless the folder was moved or
    /// removed meanwhile.
    pub(crate) fn top(&mut self) -> Option<(&mut T, Option<&Handle>)> {
        self.levels.last_mut().map(|top| (&mut top.data, top.handle.as_ref()))
    }

    /// The data of all folders.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.levels.iter().map(|level| &level.data)
    }

    /// The data of all folders but the current one, from the lowest one upwards.
    pub(crate) fn below_top(&mut self) -> impl Iterator<Item = &mut T> {
        let count = self.levels.len().saturating_sub(1);
        self.levels[..count].iter_mut().map(|level| &mut level.data)
    }

    /// The number of folders, including the lowest one.
    pub(crate) fn len(&self) -> usize {
        self.levels.len()
    }

    /// Reopens the current folder. The quick way is the parent of `child`. If that is a different
    /// folder by now, the names from the lowest folder downwards are followed instead.
    fn reopen(&self, child: Option<&Handle>) -> Option<Handle> {
        let top = self.levels.last()?;
        let same = |handle: &Handle| {
            rustix::fs::fstat(handle).is_ok_and(|stat| Identity::of(&stat) == top.identity)
        };
        let parent = child.and_then(|child| open_best(child, b"..").ok());
        parent.filter(same).or_else(|| {
            let mut levels = self.levels.iter();
            let mut handle = levels.next()?.handle.clone()?;
            for level in levels {
                handle = open_best(&handle, &level.name).ok()?;
            }
            Some(handle).filter(same)
        })
    }
}
