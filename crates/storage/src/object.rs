//! Storages on top of the crate `object_store`: a local folder, and memory.
//!
//! The crate has three pitfalls:
//!
//! - A put into a folder does not sync unless told to, and panics if the path is not UTF-8.
//!   Therefore every put uses a [`Staged`] file of this module, in the same steps: the file is
//!   written to `name#1`, which the crate's listing hides, synced and linked, and its folder is
//!   synced. [`Storage::clean`] removes files of puts that were cut off.
//! - A range past the end comes back short. Therefore every length is checked.
//! - `AlreadyExists` may be the answer to an earlier attempt of the same put. Therefore the writer
//!   reads the object back and compares it (rule W6).

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

use crate::error::{Error, Kind, Result};
use crate::kind::ObjectKind;
use crate::storage::{Put, Staged, Storage, count_max, too_long};

/// A folder of the local file system.
#[derive(Debug)]
pub struct Local {
    root: PathBuf,
    store: LocalFileSystem,
    access: Access,
}

/// The mode of a folder that is created for a repository: access for its owner only.
const PRIVATE_MODE: u32 = 0o700;
/// The mode of the folder of a repository that a group shares: new entries inherit the group.
const SHARED_MODE: u32 = 0o2770;

/// The permissions and the group of a repository's folder, which all entries in it receive,
/// whichever client and umask creates them.
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

    /// Gives `file` the group and the permissions. `file` is a folder, or will become the object
    /// `name`.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the group of the repository's folder has rights, but `file`
    /// cannot be given that group, because the members of the group could not read it.
    fn give(self, name: &str, file: &File, is_folder: bool) -> Result<()> {
        let about = file.metadata().map_err(|error| io_error(&name, error))?;
        if about.gid() != self.group {
            let group = rustix::fs::Gid::from_raw(self.group);
            match rustix::fs::fchown(file, None, Some(group)) {
                Ok(()) => {}
                // The group has no rights, and those of other users do not depend on the group.
                Err(_) if self.mode & 0o070 == 0 => {}
                Err(error) => {
                    let message = format!(
                        "cannot be assigned to group {}, whose members share the repository's \
                         folder: {error}; write as a member of that group",
                        self.group
                    );
                    return Err(Error::new(Kind::Storage, name, message));
                }
            }
        }
        let mode = if is_folder { self.mode } else { self.mode & 0o666 };
        let mode = rustix::fs::Mode::from_raw_mode(mode);
        match rustix::fs::fchmod(file, mode) {
            // The file is owned by this user, so that only a file system without permissions
            // refuses.
            Ok(()) | Err(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(error) => Err(io_error(&name, error.into())),
        }
    }
}

impl Local {
    /// Opens the folder `root`, which must exist.
    ///
    /// # Errors
    ///
    /// Returns a `Missing` error if the folder does not exist.
    pub fn open(root: &Path) -> Result<Local> {
        let describe = root.display();
        let store = LocalFileSystem::new_with_prefix(root)
            .map_err(|error| Error::missing(&describe, "folder not found").with_source(error))?;
        let access = Access::of(root).map_err(|error| io_error(&describe, error))?;
        Ok(Local { root: root.to_path_buf(), store, access })
    }

    /// Opens the folder `root`. If it does not exist, it is created for its owner only, and synced
    /// with its parents. An existing folder keeps its permissions, which all new entries receive.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the folder cannot be created.
    pub fn create(root: &Path) -> Result<Local> {
        make_folders(root)?;
        Local::open(root)
    }

    /// Opens the folder `root`, or creates it, with access for all members of its group.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the folder cannot be created, or the permissions cannot be set.
    pub fn create_shared(root: &Path) -> Result<Local> {
        make_folders(root)?;
        std::fs::set_permissions(root, Permissions::from_mode(SHARED_MODE))
            .map_err(|error| io_error(&root.display(), error))?;
        Local::open(root)
    }

    /// Returns `true` if all users of this machine can read the contents of the folder, even those
    /// who are neither its owner nor in its group.
    pub fn is_open_to_all(&self) -> bool {
        self.access.mode & 0o005 == 0o005
    }

    /// Creates a folder below the root, with the root's permissions and group.
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

    /// Begins a file that will become the object `name`; `mark` distinguishes its name from those
    /// of other files.
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
                    // A copy of a repository may lack its empty folders.
                    number += 1;
                    let mut folder = self.root.clone();
                    let folders = name.rsplit_once('/').map_or("", |(folders, _)| folders);
                    for part in folders.split('/') {
                        folder.push(part);
                        self.make_folder(&folder)?;
                        // Another client may have created the folder at this moment, and not have
                        // synced it yet.
                        sync_folder(folder_of(&folder))?;
                    }
                }
                Err(error) => return Err(io_error(&name, error)),
            }
        }
    }
}

/// A storage in memory; its objects are lost when the process ends.
#[derive(Debug, Default)]
pub struct Memory {
    store: Arc<InMemory>,
    stamps: Mutex<Stamps>,
}

/// The shifts of the clock of [`Memory`], for tests.
#[derive(Debug, Default)]
struct Stamps {
    shift_ns: i64,
    /// The shift at the time of the put, by object.
    of: HashMap<String, i64>,
}

/// A file next to the place of its future object, under a name that listings hide.
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
                // A network file system may retry the link by itself, and find its own first
                // attempt.
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
        // A file that cannot be removed is cleaned up later.
        std::fs::remove_file(&self.staged).ok();
    }
}

impl Memory {
    /// Creates an empty storage.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Moves the clock that stamps later objects ([`Storage::stamp_ns`]) by `ns` nanoseconds. Tests
    /// use this to let time pass, or to let a clock jump.
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
        _ => Kind::Storage,
    };
    Error::new(kind, object, error.to_string())
}

/// Converts the error of a put. The staged file or its folder may be gone, but a put is never
/// `Missing`.
fn put_error(object: &dyn std::fmt::Display, error: std::io::Error) -> Error {
    io_error(object, error).of_put()
}

/// Converts an error of `object_store`. An I/O error inside it decides the kind.
fn store_error(name: &str, error: object_store::Error) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    let mut kind = match error {
        object_store::Error::NotFound { .. } => Kind::Missing,
        _ => Kind::Storage,
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

/// Opens a file for reading without blocking. Also returns its length.
fn open_file(name: &str, path: &Path) -> Result<(File, u64)> {
    let failed = |error| io_error(&name, error);
    let no_wait = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = File::options().read(true).custom_flags(no_wait).open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(Error::corrupt(name, "not a regular file"));
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

/// Reads a file of at most `len_max` bytes. The length is that of the file's metadata, and a pipe
/// is never waited for.
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
            // A range that begins behind the end is refused with a text, so the length has to be
            // requested.
            match head(store, name) {
                Ok(Some(length)) if length < end => Err(too_short(name, offset, len)),
                _ => Err(error),
            }
        }
    }
}

pub(super) fn too_short(name: &str, offset: u64, len: usize) -> Error {
    Error::corrupt(name, format!("too short (expected {len} bytes at offset {offset})"))
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

/// Refuses a listing of `prefix` with more objects than its kind allows.
///
/// # Errors
///
/// Returns a `Storage` error that names the maximum.
fn require_count(prefix: &str, count: usize) -> Result<()> {
    let count_max = count_max(prefix);
    if count <= count_max {
        return Ok(());
    }
    let message = format!("more than {count_max} objects, the maximum of this kind");
    Err(Error::new(Kind::Storage, prefix, message))
}

/// Returns `true` if the error is about a file that does not exist, which a listing skips.
fn is_gone(error: &walkdir::Error) -> bool {
    error.io_error().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Returns `true` for the name of a staged file, which ends in `#` and digits.
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

impl Storage for Local {
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

    // Makes one system call per file; the listing of `object_store` makes three.
    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for entry in WalkDir::new(self.root.join(prefix)).min_depth(1).follow_links(true) {
            let entry = entry.and_then(|entry| Ok((entry.metadata()?, entry)));
            let (metadata, entry) = match entry {
                Ok(entry) => entry,
                // Deleted since its folder was read, or a broken link.
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
        // A staging file under the object's own name would look to a cleaning client like a remnant
        // of the object's writer, which has ended.
        let mut staged = self.stage_file(name, ".anew").map_err(Error::of_put)?;
        staged.write(&bytes)?;
        let failed = |error| io_error(&name, error).of_put();
        staged.file.sync_all().map_err(failed)?;
        std::fs::rename(&staged.staged, &staged.target).map_err(failed)?;
        // By now another client's file may have the name of the staging file.
        staged.staged.clear();
        sync_folder(folder_of(&staged.target))
    }

    /// Creates every folder for objects and syncs each one, so that a put has to sync only one
    /// folder.
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
        // The age is relative to the file system's own time, because the clock of this machine may
        // be wrong or differ from it.
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

/// Creates `folder` and its missing parents, for their owner only, and syncs every folder with a
/// new entry.
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

/// Returns the folder that contains the entry `path`.
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

/// Returns the time of a file's last write, in nanoseconds since 1970, by the clock of its file
/// system.
fn modified_ns(about: &std::fs::Metadata) -> Option<i64> {
    about.mtime().checked_mul(1_000_000_000)?.checked_add(about.mtime_nsec())
}

/// Removes stale staging files (`name#number`) from one folder and one level of sub-folders.
/// `now_ns` is the file system's time, if it is known.
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

impl Storage for Memory {
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
        self.head(name)?.map(|_| ()).ok_or_else(|| Error::missing(name, "not found"))
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
