//! Owners, permissions, extended attributes and times.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use cutpoint_repository::{Entry, EntryKind, Time};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid};
use rustix::io::Errno;

use super::options::RestoreOptions;
use super::owner_map::OwnerMap;
use crate::platform::{self, Xattrs, permissions};
use crate::source::folder::{self, Handle};
use crate::source::{OwnerIds, kind};

const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";
const CAPABILITY: &[u8] = b"security.capability";

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

/// Maps recorded owners to users and groups of this system.
#[derive(Debug)]
pub(super) struct Owners {
    are_set: bool,
    are_numeric: bool,
    map: OwnerMap,
    has_privileges: bool,
    ids: Mutex<OwnerIds>,
}

impl Owners {
    pub(super) fn new(options: &RestoreOptions) -> Owners {
        let (are_set, are_numeric) = (options.owners, options.numeric_owners);
        let (map, has_privileges) = (options.owner_map.clone(), options.privileges);
        Owners { are_set, are_numeric, map, has_privileges, ids: Mutex::default() }
    }

    /// Returns the owner and the group of `entry` on this system.
    fn of(&self, entry: &Entry) -> io::Result<(Uid, Gid)> {
        let (mut user, mut group) = self.map.of(entry);
        if !self.are_numeric {
            let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
            let is_named = |name: &&String| !name.is_empty();
            let mut named_user =
                || Some(&entry.user).filter(is_named).and_then(|name| ids.user(name));
            user = user.or_else(&mut named_user);
            let mut named_group =
                || Some(&entry.group).filter(is_named).and_then(|name| ids.group(name));
            group = group.or_else(&mut named_group);
        }
        let (user, group) = (user.unwrap_or(entry.user_id), group.unwrap_or(entry.group_id));
        // For the system, this number means "leave the owner unchanged".
        if user == u32::MAX || group == u32::MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such id"));
        }
        Ok((Uid::from_raw(user), Gid::from_raw(group)))
    }
}

/// Returns `true` if entries created in `folder` inherit ACLs from it.
pub(super) fn has_default_acl(folder: &Handle) -> bool {
    Xattrs::of_name(folder.as_fd(), b".").has(DEFAULT_ACL)
}

/// Removes the inherited ACLs from a folder that was just created.
pub(super) fn remove_acls(folder: &Handle) {
    let xattrs = Xattrs::of_open(folder.as_fd());
    for acl in [ACCESS_ACL, DEFAULT_ACL] {
        xattrs.remove(acl).ok();
    }
}

/// Gives the owner of an existing folder all permissions, until the folder gets its final
/// permissions at the end. Returns `true` if that was necessary and successful.
pub(super) fn open_to_owner(folder: &Handle, stat: &Stat) -> bool {
    let mode = Mode::from_raw_mode(stat.st_mode);
    !mode.contains(Mode::RWXU) && platform::set_permissions(folder, mode | Mode::RWXU).is_ok()
}

/// Sets all metadata of an open file or folder. Failures are reported to `warn`.
///
/// The order matters: a new owner clears set-user-id bits and capabilities, and setting attributes
/// requires write permission. `foreign_acls` says that the file may have ACLs that are not from the
/// snapshot.
pub(super) fn set_open(
    owners: &Owners,
    fd: impl AsFd,
    entry: &Entry,
    foreign_acls: bool,
    warn: &mut dyn FnMut(String),
) {
    let fd = fd.as_fd();
    if owners.are_set {
        let result = owners.of(entry).and_then(|(user, group)| {
            rustix::fs::fchown(fd, Some(user), Some(group)).map_err(io::Error::from)
        });
        warn_of("owner", result, warn);
    }
    let xattrs = Xattrs::of_open(fd);
    if foreign_acls {
        for acl in [ACCESS_ACL, DEFAULT_ACL] {
            if !entry.xattrs.iter().any(|(name, _)| name == acl) {
                xattrs.remove(acl).ok();
            }
        }
    }
    set_xattrs(owners, entry, warn, &xattrs);
    let mode =
        permitted_mode(owners, entry, || rustix::fs::fstat(fd).map_err(io::Error::from), warn);
    let result = rustix::fs::fchmod(fd, permissions(mode)).map_err(io::Error::from);
    warn_of("permissions", result, warn);
    let result = rustix::fs::futimens(fd, &times(entry)).map_err(io::Error::from);
    warn_of("time", result, warn);
}

/// Sets all metadata of `entry.name` in `folder`, which is no folder.
/// Failures are reported to `warn`.
pub(super) fn set_named(
    owners: &Owners,
    folder: &Handle,
    entry: &Entry,
    foreign_acls: bool,
    warn: &mut dyn FnMut(String),
) {
    let name = entry.name.as_slice();
    if owners.are_set {
        let result = owners.of(entry).and_then(|(user, group)| {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(folder, name, Some(user), Some(group), flags)
                .map_err(io::Error::from)
        });
        warn_of("owner", result, warn);
    }
    let xattrs = Xattrs::of_name(folder.as_fd(), name);
    if foreign_acls && !entry.xattrs.iter().any(|(name, _)| name == ACCESS_ACL) {
        xattrs.remove(ACCESS_ACL).ok();
    }
    set_xattrs(owners, entry, warn, &xattrs);
    // A symbolic link has no permissions.
    if entry.kind != EntryKind::Symlink {
        warn_of("permissions", set_named_mode(owners, folder, entry, warn), warn);
    }
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let result = rustix::fs::utimensat(folder, name, &times(entry), flags);
    warn_of("time", result.map_err(io::Error::from), warn);
}

/// Returns `true` if the existing entry `entry.name` in `folder`, whose content is that of `entry`, has
/// another owner, other permissions or other extended attributes than `entry`. Attributes that are not
/// those of `entry` count only if they are ACLs.
pub(super) fn differs(owners: &Owners, folder: &Handle, entry: &Entry) -> bool {
    let Ok(stat) = folder::stat(folder, &entry.name) else { return false };
    if kind(&stat) != Some(entry.kind) {
        return false;
    }
    let has_owner = !owners.are_set
        || owners.of(entry).map_or(true, |(user, group)| {
            (stat.st_uid, stat.st_gid) == (user.as_raw(), group.as_raw())
        });
    // A symbolic link has no permissions.
    let has_mode = entry.kind == EntryKind::Symlink || {
        let mode = permitted_mode(owners, entry, || Ok(stat), &mut |_| {});
        Mode::from_raw_mode(stat.st_mode) == permissions(mode)
    };
    !has_owner || !has_mode || xattrs_differ(owners, folder, entry)
}

fn xattrs_differ(owners: &Owners, folder: &Handle, entry: &Entry) -> bool {
    let xattrs = Xattrs::of_name(folder.as_fd(), &entry.name);
    let differs = |(name, value): &(Vec<u8>, Vec<u8>)| {
        let is_set = owners.has_privileges || name != CAPABILITY;
        // A longer value does not fit.
        let mut buffer = vec![0; value.len().max(1)];
        is_set
            && match xattrs.value(name, &mut buffer) {
                Ok(found) => found.map(|len| &buffer[..len]) != Some(value),
                Err(error) => error == Errno::RANGE,
            }
    };
    let has_acl = || entry.xattrs.iter().any(|(name, _)| name == ACCESS_ACL);
    entry.xattrs.iter().any(differs)
        || (entry.kind != EntryKind::Symlink && !has_acl() && xattrs.has(ACCESS_ACL))
}

/// Changes the permissions of the entry that was created under `entry.name`, and not of something
/// else that has replaced it meanwhile. No single system call does this without following symbolic
/// links.
fn set_named_mode(
    owners: &Owners,
    folder: &Handle,
    entry: &Entry,
    warn: &mut dyn FnMut(String),
) -> io::Result<()> {
    let flags = platform::PATH_ONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(folder, entry.name.as_slice(), flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&fd)?;
    if kind(&stat) != Some(entry.kind) {
        return Err(io::Error::other("replaced by another process meanwhile"));
    }
    let mode = permitted_mode(owners, entry, || Ok(stat), warn);
    platform::set_permissions(fd, permissions(mode)).map_err(io::Error::from)
}

fn warn_of(what: &str, result: io::Result<()>, warn: &mut dyn FnMut(String)) {
    if let Err(error) = result {
        warn(format!("{what} not set: {error}"));
    }
}

/// Returns the permissions of `entry`, without the bits that would grant the rights of a user or
/// group other than the recorded one. `stat` returns the present owner and group.
fn permitted_mode(
    owners: &Owners,
    entry: &Entry,
    stat: impl FnOnce() -> io::Result<Stat>,
    warn: &mut dyn FnMut(String),
) -> u32 {
    let mut mode = entry.mode & 0o7777;
    if !owners.has_privileges {
        mode &= !(SET_USER_ID | SET_GROUP_ID);
    }
    if mode & (SET_USER_ID | SET_GROUP_ID) == 0 || entry.kind == EntryKind::Folder {
        return mode;
    }
    let mut withheld = SET_USER_ID | SET_GROUP_ID;
    if let (Ok(stat), Ok((user, group))) = (stat(), owners.of(entry)) {
        if stat.st_uid == user.as_raw() {
            withheld &= !SET_USER_ID;
        }
        if stat.st_gid == group.as_raw() {
            withheld &= !SET_GROUP_ID;
        }
    }
    if mode & withheld != 0 {
        warn("set-user-id and set-group-id not set, because the owner differs".to_owned());
    }
    mode & !withheld
}

fn set_xattrs(owners: &Owners, entry: &Entry, warn: &mut dyn FnMut(String), xattrs: &Xattrs<'_>) {
    for (name, value) in &entry.xattrs {
        if !owners.has_privileges && name == CAPABILITY {
            continue;
        }
        if let Err(error) = xattrs.set(name, value) {
            let error = io::Error::from(error);
            let name = String::from_utf8_lossy(name);
            warn(format!("extended attribute {name} not set: {error}"));
        }
    }
}

/// Returns the modification time of `entry` for a call that leaves the access time unchanged. A
/// folder above the sources was saved without times and keeps those of the system.
fn times(entry: &Entry) -> Timestamps {
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    if entry.mtime == Time::default() && entry.ctime == Time::default() {
        return Timestamps { last_access: omit, last_modification: omit };
    }
    let Time { seconds, nanoseconds } = entry.mtime;
    Timestamps {
        last_access: omit,
        // Values from 10^9 on have special meanings.
        last_modification: Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds.min(999_999_999).into(),
        },
    }
}
