//! Media over the crate `object_store`: a local folder, and memory.
//!
//! Its traps, and what is done about each: its puts into a folder do not sync unless told to, and
//! panic where the path is no UTF-8 (so our own [`Staged`] file does every put, by the same steps:
//! written to `name#1`, which its listing hides, synced, linked, its folder synced; what was cut off
//! is removed by [`Media::clean`]); a range past the end comes back short (every length is checked);
//! `AlreadyExists` may be the answer to our own earlier try (the writer reads back and compares,
//! rule W6).

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_executor::block_on;
use futures_util::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path as StorePath;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};

use super::{Media, Put, Staged};
use crate::error::{Error, Kind, Result};
use crate::name::ObjectKind;

/// A folder of the local file system.
#[derive(Debug)]
pub struct Local {
    root: PathBuf,
    store: LocalFileSystem,
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
            Error::missing(describe, "there is no such folder").with_source(error)
        })?;
        Ok(Local { root: root.to_path_buf(), store })
    }

    /// The folder `root`, made and synced with its parents where it does not exist.
    ///
    /// # Errors
    ///
    /// `Media` where it cannot be made.
    pub fn create(root: &Path) -> Result<Local> {
        make_folders(root)?;
        Local::open(root)
    }

    fn path_of(&self, name: &str) -> Result<PathBuf> {
        let path = self.store.path_to_filesystem(&StorePath::from(name));
        path.map_err(|error| store_error(name, error))
    }

    fn stage_file(&self, name: &str) -> Result<Box<StagedFile>> {
        let target = self.path_of(name)?;
        let mut number = 1_u64;
        loop {
            let mut staged = target.clone().into_os_string();
            staged.push(format!("#{number}"));
            let staged = PathBuf::from(staged);
            match File::create_new(&staged) {
                Ok(file) => {
                    let name = name.to_owned();
                    return Ok(Box::new(StagedFile { name, target, staged, file }));
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && number == 1 => {
                    // Whoever copied the repository left out what was empty.
                    number += 1;
                    if let Some(folder) = target.parent() {
                        make_folders(folder)?;
                        // Another may have made them at this moment, and not have synced them yet.
                        let above = folder.ancestors().skip(1);
                        let mut below_root =
                            above.take_while(|above| above.starts_with(&self.root));
                        below_root.try_for_each(sync_folder)?;
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
        self.file.write_all(bytes).map_err(|error| io_error(&self.name, error))
    }

    fn finish(self: Box<Self>) -> Result<Put> {
        let failed = |error| io_error(&self.name, error);
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
        sync_folder(folder_of(&self.target)).map(|()| Put::Created)
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

fn get(store: &dyn ObjectStore, name: &str) -> Result<Bytes> {
    block_on(async { store.get(&StorePath::from(name)).await?.bytes().await })
        .map_err(|error| store_error(name, error))
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
    let mut found: Vec<(String, u64)> = block_on(
        store.list(Some(&path)).map_ok(|meta| (meta.location.to_string(), meta.size)).try_collect(),
    )
    .map_err(|error| store_error(prefix, error))?;
    found.sort_unstable();
    Ok(found)
}

fn delete(store: &dyn ObjectStore, name: &str) -> Result<()> {
    match block_on(store.delete(&StorePath::from(name))) {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(store_error(name, error)),
    }
}

impl Media for Local {
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        let mut staged = self.stage_file(name)?;
        staged.write(&bytes)?;
        staged.finish()
    }

    fn stage(&self, name: &str) -> Result<Option<Box<dyn Staged>>> {
        Ok(Some(self.stage_file(name)?))
    }

    fn sync(&self, name: &str) -> Result<()> {
        let path = self.path_of(name)?;
        let file = File::open(&path).and_then(|file| file.sync_all());
        file.map_err(|error| io_error(&name, error))?;
        sync_folder(folder_of(&path))
    }

    fn get(&self, name: &str) -> Result<Bytes> {
        get(&self.store, name)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        get_range(&self.store, name, offset, len)
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        head(&self.store, name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        list(&self.store, prefix)
    }

    fn delete(&self, name: &str) -> Result<()> {
        delete(&self.store, name)
    }

    /// Makes every folder that an object can lie in and syncs each, so that a put has one folder to
    /// sync only.
    fn prepare(&self) -> Result<()> {
        for kind in ObjectKind::ALL {
            let folder = self.root.join(kind.folder());
            make_folder(&folder)?;
            if matches!(kind, ObjectKind::Data | ObjectKind::Meta) {
                for byte in 0..=0xff_u8 {
                    make_folder(&folder.join(format!("{byte:02x}")))?;
                }
                sync_folder(&folder)?;
            }
        }
        sync_folder(&self.root)
    }

    fn clean(&self, is_stale: &dyn Fn(&str, u64) -> bool) -> Result<usize> {
        let mut removed = 0;
        for kind in ObjectKind::ALL {
            clean_folder(&self.root, kind.folder(), 1, is_stale, &mut removed)?;
        }
        Ok(removed)
    }

    fn describe(&self) -> String {
        self.root.display().to_string()
    }
}

fn make_folder(folder: &Path) -> Result<()> {
    match std::fs::create_dir(folder) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(io_error(&folder.display(), error)),
    }
}

/// Makes `folder` and what is missing above it, and syncs what has a new entry.
fn make_folders(folder: &Path) -> Result<()> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let made: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
    std::fs::create_dir_all(folder).map_err(|error| io_error(&folder.display(), error))?;
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

/// Looks through one folder, and one level of sub-folders, for staging files (`name#number`).
fn clean_folder(
    root: &Path,
    folder: &str,
    depth: usize,
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
                clean_folder(root, &full, depth - 1, is_stale, removed)?;
            }
            continue;
        }
        let age = entry.metadata().ok().and_then(|meta| meta.modified().ok());
        let age_s = age.and_then(|time| time.elapsed().ok()).map_or(0, |age| age.as_secs());
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
        match block_on(self.store.put_opts(&StorePath::from(name), payload, options)) {
            Ok(_) => Ok(Put::Created),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(Put::Exists),
            Err(error) => Err(store_error(name, error)),
        }
    }

    fn sync(&self, name: &str) -> Result<()> {
        self.head(name)?.map(|_| ()).ok_or_else(|| Error::missing(name, "is not there"))
    }

    fn get(&self, name: &str) -> Result<Bytes> {
        get(&*self.store, name)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        get_range(&*self.store, name, offset, len)
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        head(&*self.store, name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        list(&*self.store, prefix)
    }

    fn delete(&self, name: &str) -> Result<()> {
        delete(&*self.store, name)
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}
