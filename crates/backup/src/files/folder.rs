//! Open folders: how one is opened below another, and many levels of them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

/// So many folders of a [`FolderStack`] stay open, beside its lowest one. The usual limit is 1024
/// descriptors a process, and others need some too.
const OPEN_MAX: usize = 64;

/// An open folder. A clone is the same descriptor, which is closed with its last clone.
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

/// What tells one folder from every other, for as long as either is open or linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(crate) fn of(stat: &Stat) -> Identity {
        Identity { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// What a folder is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Listing it and changing its metadata. Needs the permission to read.
    List,
    /// Reaching what is in it by name.
    Pass,
}

/// Opens the folder `name` in `at`; a symbolic link in its place is an error.
pub(crate) fn open(at: impl AsFd, name: &[u8], access: Access) -> io::Result<Handle> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let at = at.as_fd();
    let fd = match access {
        Access::Pass => rustix::fs::openat(at, name, flags | OFlags::PATH, Mode::empty()),
        Access::List => without_atime(|noatime| {
            rustix::fs::openat(at, name, flags | OFlags::RDONLY | noatime, Mode::empty())
        }),
    }?;
    Ok(Handle::from(fd))
}

/// As [`open`] for listing, or, where that is not permitted, for passing.
pub(crate) fn open_best(at: impl AsFd, name: &[u8]) -> io::Result<Handle> {
    let at = at.as_fd();
    match open(at, name, Access::List) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open(at, name, Access::Pass)
        }
        result => result,
    }
}

/// Calls `open` with the flag that leaves the time of the last access alone, and without it where
/// the system refuses that: only owners may ask for it.
pub(crate) fn without_atime<T>(open: impl Fn(OFlags) -> Result<T, Errno>) -> Result<T, Errno> {
    match open(OFlags::NOATIME) {
        Err(Errno::PERM) => open(OFlags::empty()),
        result => result,
    }
}

/// The metadata of what `name` is in `folder`, of a symbolic link its own.
pub(crate) fn stat(folder: impl AsFd, name: &[u8]) -> Result<Stat, Errno> {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// The folders from a lowest one down to the current one, of which only the deepest ones and the
/// lowest one are open. The others are opened again on the way back.
#[derive(Debug)]
pub(crate) struct FolderStack<T> {
    frames: Vec<Frame<T>>,
}

#[derive(Debug)]
struct Frame<T> {
    name: Vec<u8>,
    identity: Identity,
    handle: Option<Handle>,
    data: T,
}

impl<T> FolderStack<T> {
    /// Begins with the folder `handle`.
    pub(crate) fn new(handle: Handle, identity: Identity, data: T) -> FolderStack<T> {
        let lowest = Frame { name: Vec::new(), identity, handle: Some(handle), data };
        FolderStack { frames: vec![lowest] }
    }

    /// Makes `handle`, which is `name` in the current folder, the current folder.
    pub(crate) fn push(&mut self, name: Vec<u8>, handle: Handle, identity: Identity, data: T) {
        self.frames.push(Frame { name, identity, handle: Some(handle), data });
        if let Some(index) = self.frames.len().checked_sub(OPEN_MAX + 1).filter(|&index| index > 0)
        {
            self.frames[index].handle = None;
        }
    }

    /// Leaves the current folder. Returns what was kept with it, and itself where it is still to
    /// be had.
    pub(crate) fn pop(&mut self) -> Option<(T, Option<Handle>)> {
        let frame = self.frames.pop()?;
        if self.frames.last().is_some_and(|top| top.handle.is_none()) {
            let handle = self.reopen(frame.handle.as_ref());
            if let Some(top) = self.frames.last_mut() {
                top.handle = handle;
            }
        }
        Some((frame.data, frame.handle))
    }

    /// The current folder's data, and itself: `None` where it was moved or removed meanwhile.
    pub(crate) fn top(&mut self) -> Option<(&mut T, Option<&Handle>)> {
        self.frames.last_mut().map(|top| (&mut top.data, top.handle.as_ref()))
    }

    /// How many folders there are, with the lowest one.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Opens the current folder again: as the parent of `child`, which is quick; where that is
    /// another one by now, by the names from the lowest folder on.
    fn reopen(&self, child: Option<&Handle>) -> Option<Handle> {
        let top = self.frames.last()?;
        let same = |handle: &Handle| {
            rustix::fs::fstat(handle).is_ok_and(|stat| Identity::of(&stat) == top.identity)
        };
        let parent = child.and_then(|child| open_best(child, b"..").ok());
        parent.filter(same).or_else(|| {
            let mut frames = self.frames.iter();
            let mut handle = frames.next()?.handle.clone()?;
            for frame in frames {
                handle = open_best(&handle, &frame.name).ok()?;
            }
            Some(handle).filter(same)
        })
    }
}
