//! The view cache: commits and prune records that this machine has read before. These objects never
//! change, so one that a listing shows need not be read twice.
//!
//! A process keeps the newest view in memory. For a remote storage, the sealed bytes are also kept
//! in files, for later processes. These bytes are opened and verified like those of the storage. A
//! file that does not open, because it is damaged, of another object or of another repository, is
//! ignored, which costs a request. Which objects exist is always determined by the listing of the
//! storage.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cutpoint_storage::ObjectKind;

use super::View;
use crate::format::names::ObjectName;

/// The cache of one open repository.
#[derive(Debug, Default)]
pub(crate) struct ViewCache {
    /// The folder of the files; `None` to keep views in memory only.
    folder: Option<PathBuf>,
    newest: Mutex<Arc<View>>,
    /// Set if every object has to be read from the storage.
    is_bypassed: AtomicBool,
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
    pub(super) fn bytes(&self, name: ObjectName, len: u64) -> Option<Bytes> {
        let path = self.path(name)?;
        let is_as_long = fs::symlink_metadata(&path).ok()?.len() == len;
        if is_as_long { fs::read(path).ok().map(Bytes::from) } else { None }
    }

    /// Writes the bytes of an object to its file. A file that cannot be written costs a request
    /// later. Files are not synced; one that a power failure has damaged does not open.
    pub(super) fn keep(&self, name: ObjectName, bytes: &[u8]) {
        let Some(path) = self.path(name) else { return };
        let create =
            || OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let file = create().or_else(|error| {
            let Some(folder) = path.parent() else { return Err(error) };
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            create()
        });
        if let Ok(mut file) = file
            && file.write_all(bytes).is_err()
        {
            fs::remove_file(&path).ok();
        }
    }

    /// Removes the files of objects of a kind that are not among the `listed` ones, once a process.
    pub(super) fn clean(&self, kind: ObjectKind, listed: impl Iterator<Item = ObjectName>) {
        let is_cleaned = &self.is_cleaned[usize::from(kind == ObjectKind::Prune)];
        if self.folder.is_none() || is_cleaned.swap(true, Ordering::Relaxed) {
            return;
        }
        let Some(folder) = self.folder.as_ref().map(|folder| folder.join(kind.folder())) else {
            return;
        };
        let Ok(entries) = fs::read_dir(&folder) else { return };
        let listed: HashSet<PathBuf> = listed.filter_map(|name| self.path(name)).collect();
        for path in entries.flatten().map(|entry| entry.path()) {
            if !listed.contains(&path) {
                fs::remove_file(path).ok();
            }
        }
    }
}
