//! Media over the crate `object_store`: a local folder, and memory.
//!
//! Its traps, and what is done about each: its puts into a folder do not sync unless told to, and
//! panic where the path is no UTF-8 (so our own [`Staged`] file does every put, by the same steps:
//! written to `name#1`, which its listing hides, synced, linked, its folder synced; what was cut off
//! is removed by [`Media::clean`]); a range past the end comes back short (every length is checked);
//! `AlreadyExists` may be the answer to our own earlier try (the writer reads back and compares,
//! rule W6).

use std::collections::HashMap;
use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_executor::block_on;
use futures_util::{StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path as StorePath;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use rustix::io::Errno;
use walkdir::WalkDir;

use super::{Media, Put, Staged, count_max, too_long};
use crate::error::{Error, Kind, Result};
use crate::name::ObjectKind;

/// A folder of the local file system.
#[derive(Debug)]
pub struct Local {
    root: PathBuf,
    store: LocalFileSystem,
    access: Access,
}

/// The mode of a folder that is made for a repository: its owner's alone.
const PRIVATE_MODE: u32 = 0o700;
/// The mode of the folder of a repository that a group shares: what is made in it has its group.
const SHARED_MODE: u32 = 0o2770;

/// Permissions and group of a repository's folder, which everything in it is given, whichever client
/// and umask it comes from.
#[derive(Clone, Copy, Debug)]
struct Access {
    mode: u32,
    group: u32,
}

impl Access {
    fn of(root: &Path) -> std::io::Result<Access> {
        let about = std::fs::metadata(root)?;
        Ok(Access { mode: about.mode() & 0o7777, group: about.gid() })
    }

    /// Gives `file`, which `name` is to be, or a folder, the group and the permissions.
    ///
    /// # Errors
    ///
    /// `Media` where the group of the repository's folder has rights, and `file` cannot be given that
    /// group: the group's members could not read it.
    fn give(self, name: &str, file: &File, is_folder: bool) -> Result<()> {
        let about = file.metadata().map_err(|error| io_error(&name, error))?;
        if about.gid() != self.group {
            let group = rustix::fs::Gid::from_raw(self.group);
            match rustix::fs::fchown(file, None, Some(group)) {
                Ok(()) => {}
                // Nobody but the owner has rights, and others' rights need no group.
                Err(_) if self.mode & 0o070 == 0 => {}
                Err(error) => {
                    let message = format!(
                        "cannot be given the group {} of the repository's folder, whose members share \
                         it: {error}; write as a member of that group",
                        self.group
                    );
                    return Err(Error::new(Kind::Media, name, message));
                }
            }
        }
        let mode = if is_folder { self.mode } else { self.mode & 0o666 };
        let mode = rustix::fs::Mode::from_raw_mode(mode);
        match rustix::fs::fchmod(file, mode) {
            // The file is the own one: only a file system that has no permissions refuses.
            Ok(()) | Err(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(error) => Err(io_error(&name, error.into())),
        }
    }
}

impl Local {
    /// The folder `root`, which must exist.
    ///
    /// # Errors
    ///
    /// `Missing` where it does not.
    pub fn open(root: &Path) -> Result<Local> {
        let describe = root.display();
        let store = LocalFileSystem::new_with_prefix(root).map_err(|error| {
            Error::missing(&describe, "there is no such folder").with_source(error)
        })?;
        let access = Access::of(root).map_err(|error| io_error(&describe, error))?;
        Ok(Local { root: root.to_path_buf(), store, access })
    }

    /// The folder `root`, made for its owner only and synced with its parents where it does not exist.
    /// A folder that exists keeps its permissions, which all that is put into it is given.
    ///
    /// # Errors
    ///
    /// `Media` where it cannot be made.
    pub fn create(root: &Path) -> Result<Local> {
        make_folders(root)?;
        Local::open(root)
    }

    /// The same, for all members of the folder's group.
    ///
    /// # Errors
    ///
    /// `Media` where it cannot be made, or not be given the permissions.
    pub fn create_shared(root: &Path) -> Result<Local> {
        make_folders(root)?;
        std::fs::set_permissions(root, Permissions::from_mode(SHARED_MODE))
            .map_err(|error| io_error(&root.display(), error))?;
        Local::open(root)
    }

    /// Whether users of this machine who are neither the owner of the folder nor of its group can read
    /// what lies in it.
    pub fn is_open_to_all(&self) -> bool {
        self.access.mode & 0o005 == 0o005
    }

    /// Makes a folder below the root, with the root's permissions and group.
    fn make_folder(&self, folder: &Path) -> Result<()> {
        let name = folder.display().to_string();
        match std::fs::DirBuilder::new().mode(PRIVATE_MODE).create(folder) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
            Err(error) => return Err(io_error(&name, error)),
        }
        let made = File::open(folder).map_err(|error| io_error(&name, error))?;
        self.access.give(&name, &made, true)
    }

    fn path_of(&self, name: &str) -> Result<PathBuf> {
        let path = self.store.path_to_filesystem(&StorePath::from(name));
        path.map_err(|error| store_error(name, error))
    }

    /// Begins a file that becomes the object `name`; `mark` tells its name from that of others.
    fn stage_file(&self, name: &str, mark: &str) -> Result<Box<StagedFile>> {
        let target = self.path_of(name)?;
        let mut number = 1_u64;
        loop {
            let mut staged = target.clone().into_os_string();
            staged.push(format!("{mark}#{number}"));
            let staged = PathBuf::from(staged);
            let create = File::options().write(true).create_new(true).mode(0o600).open(&staged);
            match create {
                Ok(file) => {
                    if let Err(error) = self.access.give(name, &file, false) {
                        std::fs::remove_file(&staged).ok();
                        return Err(error);
                    }
                    let name = name.to_owned();
                    return Ok(Box::new(StagedFile { name, target, staged, file }));
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && number == 1 => {
                    // Whoever copied the repository left out what was empty.
                    number += 1;
                    let mut folder = self.root.clone();
                    let folders = name.rsplit_once('/').map_or("", |(folders, _)| folders);
                    for part in folders.split('/') {
                        folder.push(part);
                        self.make_folder(&folder)?;
                        // Another may have made it at this moment, and not have synced it yet.
                        sync_folder(folder_of(&folder))?;
                    }
                }
                Err(error) => return Err(io_error(&name, error)),
            }
        }
    }
}

/// Memory; what is put is gone with the process.
#[derive(Debug, Default)]
pub struct Memory {
    store: Arc<InMemory>,
    stamps: Mutex<Stamps>,
}

/// The shifts of a memory's clock, for tests.
#[derive(Debug, Default)]
struct Stamps {
    shift_ns: i64,
    /// The shift at which each object was put.
    of: HashMap<String, i64>,
}

/// A file beside the place where the object is to be, under a name that no listing shows.
#[derive(Debug)]
struct StagedFile {
    name: String,
    target: PathBuf,
    staged: PathBuf,
    file: File,
}

impl Staged for StagedFile {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| put_error(&self.name, error))
    }

    fn finish(self: Box<Self>) -> Result<Put> {
        let failed = |error| put_error(&self.name, error);
        self.file.sync_all().map_err(failed)?;
        match std::fs::hard_link(&self.staged, &self.target) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                // A folder of the network may answer so to its own second try.
                let there = std::fs::metadata(&self.target).map_err(failed)?;
                let own = self.file.metadata().map_err(failed)?;
                if (there.dev(), there.ino()) != (own.dev(), own.ino()) {
                    return Ok(Put::Exists);
                }
            }
            Err(error) => return Err(failed(error)),
        }
        sync_folder(folder_of(&self.target)).map(|()| Put::Created).map_err(Error::of_put)
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        // What stays behind is cleaned up later.
        std::fs::remove_file(&self.staged).ok();
    }
}

impl Memory {
    /// Empty.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Moves the clock by which later objects are stamped ([`Media::stamp_ns`]) by `ns` nanoseconds: for
    /// tests, as time that passes or as a clock that jumps.
    pub fn shift_clock(&self, ns: i64) {
        let mut stamps = self.stamps();
        stamps.shift_ns = stamps.shift_ns.saturating_add(ns);
    }

    fn stamps(&self) -> MutexGuard<'_, Stamps> {
        self.stamps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn io_error(object: &dyn std::fmt::Display, error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => Kind::Missing,
        std::io::ErrorKind::StorageFull
        | std::io::ErrorKind::QuotaExceeded
        | std::io::ErrorKind::FileTooLarge => Kind::Full,
        _ => Kind::Media,
    };
    Error::new(kind, object, error.to_string())
}

/// The error of a put: its object, staged file or folder may be gone, and is never `Missing`.
fn put_error(object: &dyn std::fmt::Display, error: std::io::Error) -> Error {
    io_error(object, error).of_put()
}

/// Finds the I/O error inside what `object_store` wraps around it: it decides the kind.
fn store_error(name: &str, error: object_store::Error) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    let mut kind = match error {
        object_store::Error::NotFound { .. } => Kind::Missing,
        _ => Kind::Media,
    };
    let mut message = None;
    while let Some(each) = cause {
        if let Some(io) = each.downcast_ref::<std::io::Error>() {
            let wrapped = io_error(&name, std::io::Error::from(io.kind()));
            kind = wrapped.kind();
            message = Some(io.to_string());
        }
        cause = each.source();
    }
    let message = message.unwrap_or_else(|| error.to_string());
    Error::new(kind, name, message).with_source(error)
}

fn get(store: &dyn ObjectStore, name: &str, len_max: u64) -> Result<Bytes> {
    let found = block_on(store.get(&StorePath::from(name)));
    let found = found.map_err(|error| store_error(name, error))?;
    if found.meta.size > len_max {
        return Err(too_long(name, found.meta.size, len_max));
    }
    block_on(found.bytes()).map_err(|error| store_error(name, error))
}

/// Opens a file for reading, without waiting for anything. Returns its length as well.
fn open_file(name: &str, path: &Path) -> Result<(File, u64)> {
    let failed = |error| io_error(&name, error);
    let no_wait = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = File::options().read(true).custom_flags(no_wait).open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(Error::corrupt(name, "is no regular file"));
    }
    Ok((file, about.len()))
}

/// Reads `len` bytes at `offset` of a file.
fn read_range(name: &str, path: &Path, offset: u64, len: usize) -> Result<Bytes> {
    let (file, file_len) = open_file(name, path)?;
    if offset.checked_add(len as u64).is_none_or(|end| end > file_len) {
        return Err(too_short(name, offset, len));
    }
    let mut bytes = vec![0; len];
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => Ok(Bytes::from(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(too_short(name, offset, len))
        }
        Err(error) => Err(io_error(&name, error)),
    }
}

/// Reads a file of at most `len_max` bytes: as many as it says that it has, and no pipe is waited for.
fn read_file(name: &str, path: &Path, len_max: u64) -> Result<Bytes> {
    let failed = |error| io_error(&name, error);
    let (file, len) = open_file(name, path)?;
    if len > len_max {
        return Err(too_long(name, len, len_max));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
    file.take(len).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 != len {
        return Err(too_short(name, 0, usize::try_from(len).unwrap_or(usize::MAX)));
    }
    Ok(Bytes::from(bytes))
}

fn get_range(store: &dyn ObjectStore, name: &str, offset: u64, len: usize) -> Result<Bytes> {
    if len == 0 {
        return Ok(Bytes::new());
    }
    let end = offset.checked_add(len as u64).ok_or_else(|| too_short(name, offset, len))?;
    match block_on(store.get_range(&StorePath::from(name), offset..end)) {
        Ok(bytes) if bytes.len() == len => Ok(bytes),
        Ok(_) => Err(too_short(name, offset, len)),
        Err(error) => {
            let error = store_error(name, error);
            // A range that begins behind the end is refused with a text; ask for the length.
            match head(store, name) {
                Ok(Some(length)) if length < end => Err(too_short(name, offset, len)),
                _ => Err(error),
            }
        }
    }
}

pub(super) fn too_short(name: &str, offset: u64, len: usize) -> Error {
    Error::corrupt(name, format!("is too short: {len} bytes were to be read at {offset}"))
}

fn head(store: &dyn ObjectStore, name: &str) -> Result<Option<u64>> {
    match block_on(store.head(&StorePath::from(name))) {
        Ok(meta) => Ok(Some(meta.size)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(store_error(name, error)),
    }
}

fn list(store: &dyn ObjectStore, prefix: &str) -> Result<Vec<(String, u64)>> {
    let path = StorePath::from(prefix);
    let listed = store.list(Some(&path)).map_ok(|meta| (meta.location.to_string(), meta.size));
    let mut found: Vec<(String, u64)> = block_on(listed.take(count_max(prefix) + 1).try_collect())
        .map_err(|error| store_error(prefix, error))?;
    require_count(prefix, found.len())?;
    found.sort_unstable();
    Ok(found)
}

/// Refuses a listing of `prefix` that is longer than its kind allows.
fn require_count(prefix: &str, count: usize) -> Result<()> {
    let count_max = count_max(prefix);
    if count <= count_max {
        return Ok(());
    }
    let message = format!("holds more than {count_max} objects, the maximum of its kind");
    Err(Error::new(Kind::Media, prefix, message))
}

/// Returns `true` if a listing may go on: what it was about to read does not exist.
fn is_gone(error: &walkdir::Error) -> bool {
    error.io_error().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Returns `true` if a name is that of a file which becomes an object: it ends in `#` and digits.
fn is_staged(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.split_once('#').is_some_and(|(_, number)| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn delete(store: &dyn ObjectStore, name: &str) -> Result<()> {
    match block_on(store.delete(&StorePath::from(name))) {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(store_error(name, error)),
    }
}

impl Media for Local {
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        let mut staged = self.stage_file(name, "").map_err(Error::of_put)?;
        staged.write(&bytes)?;
        staged.finish()
    }

    fn stage(&self, name: &str) -> Result<Option<Box<dyn Staged>>> {
        Ok(Some(self.stage_file(name, "").map_err(Error::of_put)?))
    }

    fn sync(&self, name: &str) -> Result<()> {
        let path = self.path_of(name)?;
        let file = File::open(&path).and_then(|file| file.sync_all());
        file.map_err(|error| io_error(&name, error))?;
        sync_folder(folder_of(&path))
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        read_file(name, &self.path_of(name)?, len_max)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        read_range(name, &self.path_of(name)?, offset, len)
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        head(&self.store, name)
    }

    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        match std::fs::metadata(self.path_of(name)?) {
            Ok(about) => Ok(modified_ns(&about)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error(&name, error)),
        }
    }

    /// One system call a file: the listing of `object_store` makes three.
    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for entry in WalkDir::new(self.root.join(prefix)).min_depth(1).follow_links(true) {
            let entry = entry.and_then(|entry| Ok((entry.metadata()?, entry)));
            let (metadata, entry) = match entry {
                Ok(entry) => entry,
                // Gone since it was read, or a link that leads nowhere.
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(io_error(&prefix, error.into())),
            };
            let name = entry.path().strip_prefix(&self.root).ok().and_then(Path::to_str);
            if let Some(name) = name.filter(|name| metadata.is_file() && !is_staged(name)) {
                found.push((name.to_owned(), metadata.len()));
                require_count(prefix, found.len())?;
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    fn delete(&self, name: &str) -> Result<()> {
        delete(&self.store, name)
    }

    fn replace(&self, name: &str, bytes: Bytes) -> Result<()> {
        // By the name of an object a client that cleans up would take it for the object's writer's, which
        // has ended.
        let mut staged = self.stage_file(name, ".anew").map_err(Error::of_put)?;
        staged.write(&bytes)?;
        let failed = |error| io_error(&name, error).of_put();
        staged.file.sync_all().map_err(failed)?;
        std::fs::rename(&staged.staged, &staged.target).map_err(failed)?;
        // By now another client's file may have that name.
        staged.staged.clear();
        sync_folder(folder_of(&staged.target))
    }

    /// Makes every folder that an object can lie in and syncs each, so that a put has one folder to
    /// sync only.
    fn prepare(&self) -> Result<()> {
        for kind in ObjectKind::ALL {
            let folder = self.root.join(kind.folder());
            self.make_folder(&folder)?;
            if matches!(kind, ObjectKind::Data | ObjectKind::Meta) {
                for byte in 0..=0xff_u8 {
                    self.make_folder(&folder.join(format!("{byte:02x}")))?;
                }
                sync_folder(&folder)?;
            }
        }
        sync_folder(&self.root)
    }

    fn clean(&self, is_stale: &dyn Fn(&str, u64) -> bool) -> Result<usize> {
        // The file system's own time: the clock of this machine may be wrong, or another than its.
        let now = self.stage_file(&format!("{}/now", ObjectKind::Ticket.folder()), "");
        let now_ns = now.ok().and_then(|now| modified_ns(&now.file.metadata().ok()?));
        let mut removed = 0;
        for kind in ObjectKind::ALL {
            clean_folder(&self.root, kind.folder(), 1, now_ns, is_stale, &mut removed)?;
        }
        Ok(removed)
    }

    fn describe(&self) -> String {
        self.root.display().to_string()
    }
}

/// Makes `folder` and what is missing above it, for its owner only, and syncs what has a new entry.
fn make_folders(folder: &Path) -> Result<()> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let made: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_MODE)
        .create(folder)
        .map_err(|error| io_error(&folder.display(), error))?;
    made.into_iter().rev().try_for_each(|made| sync_folder(folder_of(made)))
}

/// The folder that `path` is an entry of.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| io_error(&folder.display(), error))
}

/// The time of a file's last write, in nanoseconds since 1970, by its file system's clock.
fn modified_ns(about: &std::fs::Metadata) -> Option<i64> {
    about.mtime().checked_mul(1_000_000_000)?.checked_add(about.mtime_nsec())
}

/// Looks through one folder, and one level of sub-folders, for staging files (`name#number`); `now_ns`
/// is the file system's time, where it is known.
fn clean_folder(
    root: &Path,
    folder: &str,
    depth: usize,
    now_ns: Option<i64>,
    is_stale: &dyn Fn(&str, u64) -> bool,
    removed: &mut usize,
) -> Result<()> {
    let path = root.join(folder);
    let entries = match std::fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(&path.display(), error)),
    };
    for entry in entries {
        let entry = entry.map_err(|error| io_error(&path.display(), error))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let full = format!("{folder}/{name}");
        let staged = name.rsplit_once('#').filter(|(_, number)| number.parse::<u64>().is_ok());
        if staged.is_none() {
            if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                clean_folder(root, &full, depth - 1, now_ns, is_stale, removed)?;
            }
            continue;
        }
        let stamp_ns = entry.metadata().ok().and_then(|about| modified_ns(&about));
        let age_ns = now_ns.zip(stamp_ns).map_or(0, |(now, stamp)| now.saturating_sub(stamp));
        let age_s = u64::try_from(age_ns / 1_000_000_000).unwrap_or(0);
        let wanted = full.rsplit_once('#').map_or("", |(wanted, _)| wanted);
        if is_stale(wanted, age_s) && std::fs::remove_file(entry.path()).is_ok() {
            *removed += 1;
        }
    }
    Ok(())
}

impl Media for Memory {
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let payload = PutPayload::from_bytes(bytes);
        let mut stamps = self.stamps();
        match block_on(self.store.put_opts(&StorePath::from(name), payload, options)) {
            Ok(_) => {
                let shift_ns = stamps.shift_ns;
                stamps.of.insert(name.to_owned(), shift_ns);
                Ok(Put::Created)
            }
            Err(object_store::Error::AlreadyExists { .. }) => Ok(Put::Exists),
            Err(error) => Err(store_error(name, error).of_put()),
        }
    }

    fn sync(&self, name: &str) -> Result<()> {
        self.head(name)?.map(|_| ()).ok_or_else(|| Error::missing(name, "is not there"))
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        get(&*self.store, name, len_max)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        get_range(&*self.store, name, offset, len)
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        head(&*self.store, name)
    }

    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        let meta = match block_on(self.store.head(&StorePath::from(name))) {
            Ok(meta) => meta,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(store_error(name, error)),
        };
        let shift_ns = self.stamps().of.get(name).copied().unwrap_or(0);
        Ok(meta.last_modified.timestamp_nanos_opt().map(|ns| ns.saturating_add(shift_ns)))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        list(&*self.store, prefix)
    }

    fn delete(&self, name: &str) -> Result<()> {
        delete(&*self.store, name)
    }

    fn replace(&self, name: &str, bytes: Bytes) -> Result<()> {
        block_on(self.store.put(&StorePath::from(name), PutPayload::from_bytes(bytes)))
            .map(drop)
            .map_err(|error| store_error(name, error))
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}
