//! Places in the target: the folders being filled, and the existing entries in them.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cutpoint_repository::{Content, Entry, EntryKind};
use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use super::options::Overwrite;
use crate::source::folder::{self, Handle, Identity};
use crate::source::{device_number, kind, mtime, size};

/// The path of a folder below the target. Paths share the nodes of their common ancestors.
#[derive(Debug, Default)]
pub(super) struct PathNode {
    parent: Option<Arc<PathNode>>,
    name: Vec<u8>,
}

impl PathNode {
    /// Creates the path of `name` in the folder `parent`.
    pub(super) fn below(parent: &Arc<PathNode>, name: &[u8]) -> Arc<PathNode> {
        Arc::new(PathNode { parent: Some(Arc::clone(parent)), name: name.to_vec() })
    }

    /// Returns the names from the target down to this folder.
    pub(super) fn names(&self) -> Vec<&[u8]> {
        let mut names = Vec::new();
        let mut node = self;
        while let Some(parent) = &node.parent {
            names.push(node.name.as_slice());
            node = parent;
        }
        names.reverse();
        names
    }

    /// Returns the path of `name` in this folder, relative to the root of the snapshot.
    pub(super) fn join(&self, name: &[u8]) -> PathBuf {
        let mut names = self.names();
        names.push(name);
        PathBuf::from(std::ffi::OsString::from_vec(names.join(&b'/')))
    }

    /// Returns the path of this folder.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(&self.names().join(&b'/')))
    }
}

impl Drop for PathNode {
    /// Drops the ancestors in a loop, because a recursive drop of a deep path would overflow the
    /// stack.
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some(mut node) = parent.and_then(Arc::into_inner) {
            parent = node.parent.take();
        }
    }
}

/// A folder of the target that is being filled. Its metadata is set when the last reference is
/// released.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: Arc<PathNode>,
    /// The metadata to set at the end; `None` for a folder that keeps its own metadata.
    pub(super) entry: Option<Entry>,
    /// Set if this restore created the folder, so that it contains only entries of the snapshot.
    pub(super) made: bool,
    /// Set if entries created in the folder inherit ACLs that are not from the snapshot.
    pub(super) inherits: bool,
    pub(super) restored: RestoredNames,
}

/// The files and folders that have got a name in one folder by this restore. A target that does not
/// distinguish `A` from `a` finds such a file again under a later name, which must neither replace
/// it nor count as the same.
#[derive(Debug)]
pub(super) struct RestoredNames {
    identities: Mutex<HashSet<Identity>>,
    /// Set if files are recorded. Nothing is ever replaced otherwise, so only folders need to be
    /// recorded.
    has_files: bool,
    /// Set if an entry of the snapshot has a temporary name, which must not be taken for that of a
    /// file in progress.
    has_temporary: AtomicBool,
}

impl RestoredNames {
    pub(super) fn new(overwrite: Overwrite) -> RestoredNames {
        let has_files = overwrite != Overwrite::Never;
        let (identities, has_temporary) = (Mutex::default(), AtomicBool::new(false));
        RestoredNames { identities, has_files, has_temporary }
    }

    /// Records the name of an entry that is about to be restored.
    pub(super) fn announce(&self, name: &[u8]) {
        if name.starts_with(SPARE_PREFIX) {
            self.has_temporary.store(true, Relaxed);
        }
    }

    /// Returns `true` if an entry with a temporary name was announced.
    pub(super) fn has_temporary(&self) -> bool {
        self.has_temporary.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Identity>> {
        self.identities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if `identity` has got its name already.
    pub(super) fn has(&self, identity: Identity) -> bool {
        self.lock().contains(&identity)
    }

    /// Records that `identity` has got its name.
    pub(super) fn insert(&self, identity: Identity) {
        self.lock().insert(identity);
    }
}

/// The place of a new entry: its folder.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) folder: Arc<Folder>,
    pub(super) handle: Handle,
}

/// The existing entry in a place, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Occupant {
    /// There is no entry.
    Nothing,
    /// An entry that is to be replaced.
    Replace,
    /// An entry that is the same as the new one, as far as can be seen, and its number of names.
    Same(Identity, u64),
    /// An entry that must stay, with the reason.
    Refused(&'static str),
}

/// The number of the next temporary name for a file that is to replace another one.
static SPARE_NEXT: AtomicU64 = AtomicU64::new(0);

/// The beginning of every temporary name.
pub(super) const SPARE_PREFIX: &[u8] = b".cutpoint-restore-";

/// The message for a name that is taken.
pub(super) const EXISTS: &str = "exists; not overwritten (see --overwrite)";
/// The message for a name that belongs to a folder, which is not replaced by anything else.
pub(super) const IS_FOLDER: &str = "exists as a folder";
/// The message for a name that the target does not distinguish from another one.
pub(super) const TWIN: &str = "not restored: the target takes its name for the name of another \
    restored entry of the same folder";

impl Place {
    /// Returns the existing entry in the place of `entry`, which is not a folder.
    pub(super) fn occupant(&self, entry: &Entry, overwrite: Overwrite) -> io::Result<Occupant> {
        // An entry that appears meanwhile is found when the name is created.
        if self.folder.made && overwrite == Overwrite::Never {
            return Ok(Occupant::Nothing);
        }
        let stat = match folder::stat(&self.handle, &entry.name) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(Occupant::Nothing),
            Err(error) => return Err(error.into()),
        };
        if kind(&stat) == Some(EntryKind::Folder) {
            return Ok(Occupant::Refused(IS_FOLDER));
        }
        let identity = Identity::of(&stat);
        Ok(match overwrite {
            Overwrite::Never => Occupant::Refused(EXISTS),
            _ if self.folder.restored.has(identity) => Occupant::Refused(TWIN),
            Overwrite::Changed if self.is_same(entry, &stat) =>
            {
                #[allow(clippy::useless_conversion, reason = "other systems count in fewer bits")]
                Occupant::Same(identity, stat.st_nlink.into())
            }
            Overwrite::Changed | Overwrite::Replace => Occupant::Replace,
        })
    }

    /// Returns `true` if the existing entry with `stat` seems to be the same as `entry`.
    pub(super) fn is_same(&self, entry: &Entry, stat: &Stat) -> bool {
        if kind(stat) != Some(entry.kind) {
            return false;
        }
        match entry.kind {
            EntryKind::File => size(stat) == entry.size && mtime(stat) == entry.mtime,
            EntryKind::Symlink => {
                let target =
                    rustix::fs::readlinkat(&self.handle, entry.name.as_slice(), Vec::new());
                matches!((target, &entry.content),
                    (Ok(target), Content::Raw(wanted)) if target.as_bytes() == wanted.as_slice())
            }
            EntryKind::CharDevice | EntryKind::BlockDevice => {
                device_number(stat) == entry.device_number
            }
            EntryKind::Fifo | EntryKind::Socket | EntryKind::Folder => true,
        }
    }

    /// Creates something as `name`, by calling `make` with the name to use. An entry that is to be
    /// replaced stays until the new one exists.
    pub(super) fn make<T>(
        &self,
        name: &[u8],
        occupant: &Occupant,
        make: impl Fn(&[u8]) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if *occupant != Occupant::Replace {
            let mut restored = self.folder.restored.lock();
            let made = make(name)?;
            self.record(&mut restored, name);
            return Ok(made);
        }
        let (spare, made) = self.make_spare(make)?;
        self.rename(&spare, name)?;
        Ok(made)
    }

    /// Creates something under a temporary name that does not exist yet, in the same folder.
    pub(super) fn make_spare<T>(
        &self,
        make: impl Fn(&[u8]) -> Result<T, Errno>,
    ) -> Result<(Vec<u8>, T), Errno> {
        // The number of the process is part of the name, because two processes may restore into one
        // folder.
        let process = std::process::id();
        loop {
            let number = SPARE_NEXT.fetch_add(1, Relaxed);
            let mut spare = SPARE_PREFIX.to_vec();
            spare.extend_from_slice(format!("{process}-{number}").as_bytes());
            match make(&spare) {
                // A restore that was killed has left a file of this name.
                Err(Errno::EXIST) => {}
                made => return Ok((spare, made?)),
            }
        }
    }

    /// Renames `spare` to `name`, replacing the entry of that name.
    ///
    /// # Errors
    ///
    /// Returns `EXIST` if that entry has got its name by this restore.
    pub(super) fn rename(&self, spare: &[u8], name: &[u8]) -> Result<(), Errno> {
        let mut restored = self.folder.restored.lock();
        let is_restored = |stat: &Stat| restored.contains(&Identity::of(stat));
        let renamed = match folder::stat(&self.handle, name) {
            Ok(stat) if is_restored(&stat) => Err(Errno::EXIST),
            _ => rustix::fs::renameat(&self.handle, spare, &self.handle, name),
        };
        // `spare` still exists after a failure, and if both are names of one file.
        rustix::fs::unlinkat(&self.handle, spare, AtFlags::empty()).ok();
        if renamed.is_ok() {
            self.record(&mut restored, name);
        }
        renamed
    }

    /// Records that the new entry `name` has got its name.
    fn record(&self, restored: &mut HashSet<Identity>, name: &[u8]) {
        if self.folder.restored.has_files
            && let Ok(stat) = folder::stat(&self.handle, name)
        {
            restored.insert(Identity::of(&stat));
        }
    }

    /// Removes `name` if it is still the file `identity`.
    pub(super) fn remove(&self, name: &[u8], identity: Identity) {
        let is_it =
            folder::stat(&self.handle, name).is_ok_and(|stat| Identity::of(&stat) == identity);
        if is_it {
            rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()).ok();
        }
    }

    /// Returns the path of `entry` in the snapshot.
    pub(super) fn path(&self, entry: &Entry) -> PathBuf {
        self.folder.path.join(&entry.name)
    }
}
