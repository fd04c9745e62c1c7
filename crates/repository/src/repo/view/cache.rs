//! The view cache: commits and prune records that this machine has read before. These objects never
//! change, so one that a listing shows need not be read twice.
//!
//! A process keeps the newest view in memory. For a remote storage, the sealed bytes are also kept
//! in files, for later processes. These bytes are opened and verified like those of the storage. A
//! file that does not open, because it is damaged, of another object or of another repository, is
//! ignored, which costs a request. Which objects exist is always determined by the listing of the
//! storage.
//!
//! Parts of the view checkpoint are kept as well, as whole parts. The objects in them were not read
//! from the storage themselves, so a process that deletes, checks or repairs does not use them.

use std::fs::{self, DirEntry};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cutpoint_storage::{ObjectKind, system};

use super::View;
use super::checkpoint::PartListing;
use crate::format::names::ObjectName;

/// The cache of one open repository.
#[derive(Debug, Default)]
pub(crate) struct ViewCache {
    /// The folder of the files; `None` to keep views in memory only.
    folder: Option<PathBuf>,
    newest: Mutex<Arc<View>>,
    /// Set if every object has to be read from the storage.
    is_bypassed: AtomicBool,
    /// Set if the checkpoint is not used.
    is_without_checkpoint: AtomicBool,
    /// Set once the files of objects that no longer exist were removed.
    is_cleaned: [AtomicBool; 2],
}

impl ViewCache {
    /// Creates a cache with files in `folder`, which is created when the first file is written.
    pub(crate) fn new(folder: Option<PathBuf>) -> ViewCache {
        ViewCache { folder, ..ViewCache::default() }
    }

    /// From now on, reads every object from the storage: for checks and repairs, which have to
    /// notice that an object is damaged.
    pub(crate) fn bypass(&self) {
        self.is_bypassed.store(true, Ordering::Relaxed);
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
    }

    /// From now on, takes no object from the checkpoint: for prunes and sweeps, which rely on having
    /// read each object themselves, at this time or before.
    pub(crate) fn leave_checkpoint(&self) {
        self.is_without_checkpoint.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if objects may be taken from the checkpoint.
    pub(super) fn reads_checkpoint(&self) -> bool {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        !is_set(&self.is_bypassed) && !is_set(&self.is_without_checkpoint)
    }

    /// Returns the newest view that this process has listed.
    pub(super) fn newest(&self) -> Arc<View> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps a view in memory.
    pub(super) fn keep_newest(&self, view: &View) {
        if !self.is_bypassed.load(Ordering::Relaxed) {
            *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(view.clone());
        }
    }

    /// Returns the path of the file for an object, if there are files.
    fn path(&self, name: ObjectName) -> Option<PathBuf> {
        let folder = self.folder.as_ref().filter(|_| !self.is_bypassed.load(Ordering::Relaxed))?;
        Some(folder.join(name.to_string()))
    }

    /// Returns the bytes in the file for an object of the listed length.
    pub(crate) fn bytes(&self, name: ObjectName, len: u64) -> Option<Bytes> {
        let path = self.path(name)?;
        let is_as_long = fs::symlink_metadata(&path).ok()?.len() == len;
        if is_as_long { fs::read(path).ok().map(Bytes::from) } else { None }
    }

    /// Writes the bytes of an object to its file. A file that cannot be written costs a request
    /// later. Files are not synced; one that a power failure has damaged does not open.
    pub(super) fn keep(&self, name: ObjectName, bytes: &[u8]) {
        let Some(path) = self.path(name) else { return };
        let create =
            || system::private_options().write(true).create(true).truncate(true).open(&path);
        let file = create().or_else(|error| {
            let Some(folder) = path.parent() else { return Err(error) };
            system::create_private_folder(folder, true)?;
            create()
        });
        if let Ok(mut file) = file
            && file.write_all(bytes).is_err()
        {
            fs::remove_file(&path).ok();
        }
    }

    /// Returns the bytes in the file for an object of at most `len_max` bytes.
    pub(crate) fn bytes_up_to(&self, name: ObjectName, len_max: u64) -> Option<Bytes> {
        let len = fs::symlink_metadata(self.path(name)?).ok()?.len();
        if len <= len_max { self.bytes(name, len) } else { None }
    }

    /// Removes the file for an object.
    pub(super) fn remove(&self, name: ObjectName) {
        if let Some(path) = self.path(name) {
            fs::remove_file(path).ok();
        }
    }

    /// Returns the parts of the checkpoint in the cache.
    pub(super) fn parts(&self) -> PartListing {
        self.part_files().into_iter().collect()
    }

    fn part_files(&self) -> Vec<(ObjectName, u64)> {
        let folder = self.folder.as_ref().map(|folder| folder.join(ObjectKind::View.folder()));
        let entries = folder.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten();
        let parts = entries.flatten().filter_map(|entry| {
            let name = name_of_file(ObjectKind::View, &entry)?;
            Some((name, entry.metadata().ok()?.len()))
        });
        parts.collect()
    }

    /// Writes the bytes of a part of the checkpoint to its file, and removes other versions of the
    /// part.
    pub(crate) fn keep_part(&self, name: ObjectName, bytes: &[u8]) {
        let ObjectName::View { position, .. } = name else { return };
        self.keep(name, bytes);
        for (other, _) in self.part_files() {
            let is_of_part =
                matches!(other, ObjectName::View { position: of, .. } if of == position);
            if is_of_part && other != name {
                self.remove(other);
            }
        }
    }

    /// Removes the files of objects of a kind that are not among the `listed` ones, which must be
    /// sorted, once a process.
    pub(super) fn clean(&self, kind: ObjectKind, listed: &[(ObjectName, u64)]) {
        let is_cleaned = &self.is_cleaned[usize::from(kind == ObjectKind::Prune)];
        if self.folder.is_none() || is_cleaned.swap(true, Ordering::Relaxed) {
            return;
        }
        let Some(folder) = self.folder.as_ref().map(|folder| folder.join(kind.folder())) else {
            return;
        };
        let Ok(entries) = fs::read_dir(&folder) else { return };
        for entry in entries.flatten() {
            let is_listed = name_of_file(kind, &entry)
                .is_some_and(|name| listed.binary_search_by_key(&name, |(name, _)| *name).is_ok());
            if !is_listed {
                fs::remove_file(entry.path()).ok();
            }
        }
    }
}

/// Returns the name of the object of which a file in the folder of `kind` has the bytes.
fn name_of_file(kind: ObjectKind, entry: &DirEntry) -> Option<ObjectName> {
    let file = entry.file_name();
    ObjectName::parse(&format!("{}/{}", kind.folder(), file.to_str()?)).ok()
}
