//! Places in the target: folders being filled, and what stands where something is to be made.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cutpoint_store::format::recipe::Content;
use cutpoint_store::format::tree::{Entry, EntryKind};
use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use super::Overwrite;
use crate::files::folder::{self, Handle, Identity};
use crate::files::{device_number, kind, mtime, size};

/// The path of a folder below the target. Folders share what is above them.
#[derive(Debug, Default)]
pub(super) struct PathNode {
    parent: Option<Arc<PathNode>>,
    name: Vec<u8>,
}

impl PathNode {
    /// The path of `name` in the folder `parent`.
    pub(super) fn below(parent: &Arc<PathNode>, name: &[u8]) -> Arc<PathNode> {
        Arc::new(PathNode { parent: Some(Arc::clone(parent)), name: name.to_vec() })
    }

    /// The names from the target down to this folder.
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

    /// The path of `name` in this folder, as the snapshot has it.
    pub(super) fn join(&self, name: &[u8]) -> PathBuf {
        let mut names = self.names();
        names.push(name);
        PathBuf::from(std::ffi::OsString::from_vec(names.join(&b'/')))
    }

    /// This folder's path.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(&self.names().join(&b'/')))
    }
}

impl Drop for PathNode {
    /// A deep path would overflow the stack if each node dropped the one above it.
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some(mut node) = parent.and_then(Arc::into_inner) {
            parent = node.parent.take();
        }
    }
}

/// A folder of the target that is being filled. The last one who lets go of it sets its metadata.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: Arc<PathNode>,
    /// What is to be set in the end; `None` for a folder that keeps its own metadata.
    pub(super) entry: Option<Entry>,
    /// Whether this restore made it, so that nothing is in it that is not from the snapshot.
    pub(super) made: bool,
    /// Whether what is made in it gets ACLs that the snapshot knows nothing of.
    pub(super) inherits: bool,
    pub(super) taken: Taken,
}

/// What has its name in a folder by this restore. A target that does not tell `A` from `a` gives
/// it again under a name that comes later: that one must not replace it, nor be taken for it.
#[derive(Debug)]
pub(super) struct Taken {
    identities: Mutex<HashSet<Identity>>,
    /// Whether files count: where nothing is ever replaced, they cannot be.
    has_files: bool,
}

impl Taken {
    pub(super) fn new(overwrite: Overwrite) -> Taken {
        let has_files = overwrite != Overwrite::Never;
        Taken { identities: Mutex::default(), has_files }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Identity>> {
        self.identities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has its name already.
    pub(super) fn has(&self, identity: Identity) -> bool {
        self.lock().contains(&identity)
    }

    /// It has its name now.
    pub(super) fn insert(&self, identity: Identity) {
        self.lock().insert(identity);
    }
}

/// Where something is to be made.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) folder: Arc<Folder>,
    pub(super) handle: Handle,
}

/// What stands in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing.
    Nothing,
    /// Something that is to be replaced.
    Replace,
    /// The same as what is to be made, as far as can be seen, and how many names it has.
    Same(Identity, u64),
    /// Something that must stay: the reason.
    Refused(&'static str),
}

/// The number of the next name for what is to replace something.
static SPARE_NEXT: AtomicU64 = AtomicU64::new(0);

/// What is said about a name that is taken.
pub(super) const EXISTS: &str = "something is there already, and it is not to be replaced";
/// What is said about a name that the target does not tell from another.
pub(super) const TWIN: &str = "the target takes its name for that of another in the same folder, \
    which was restored";

impl Place {
    /// What stands in the place of `entry`, which is no folder.
    pub(super) fn standing(&self, entry: &Entry, overwrite: Overwrite) -> io::Result<Standing> {
        // What appears there all the same is found when the name is made.
        if self.folder.made && overwrite == Overwrite::Never {
            return Ok(Standing::Nothing);
        }
        let stat = match folder::stat(&self.handle, &entry.name) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(Standing::Nothing),
            Err(error) => return Err(error.into()),
        };
        if kind(&stat) == Some(EntryKind::Folder) {
            return Ok(Standing::Refused("a folder is in its place"));
        }
        let identity = Identity::of(&stat);
        Ok(match overwrite {
            Overwrite::Never => Standing::Refused(EXISTS),
            _ if self.folder.taken.has(identity) => Standing::Refused(TWIN),
            Overwrite::Changed if self.is_same(entry, &stat) =>
            {
                #[allow(clippy::useless_conversion, reason = "other systems count in fewer bits")]
                Standing::Same(identity, stat.st_nlink.into())
            }
            Overwrite::Changed | Overwrite::Replace => Standing::Replace,
        })
    }

    fn is_same(&self, entry: &Entry, stat: &Stat) -> bool {
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
                device_number(stat.st_rdev) == entry.device_number
            }
            EntryKind::Fifo | EntryKind::Socket | EntryKind::Folder => true,
        }
    }

    /// Makes something under `name`: `make` does so under the name that it gets. What is to be
    /// replaced stays until the other is there.
    pub(super) fn make<T>(
        &self,
        name: &[u8],
        standing: &Standing,
        make: impl Fn(&[u8]) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if *standing != Standing::Replace {
            let mut taken = self.folder.taken.lock();
            let made = make(name)?;
            self.take(&mut taken, name);
            return Ok(made);
        }
        let (spare, made) = self.make_spare(make)?;
        self.rename(&spare, name)?;
        Ok(made)
    }

    /// Makes something under a name that nothing has, beside the one that it is to get.
    pub(super) fn make_spare<T>(
        &self,
        make: impl Fn(&[u8]) -> Result<T, Errno>,
    ) -> Result<(Vec<u8>, T), Errno> {
        // Two processes may restore into one folder.
        let process = std::process::id();
        loop {
            let number = SPARE_NEXT.fetch_add(1, Relaxed);
            let spare = format!(".cutpoint-restore-{process}-{number}").into_bytes();
            match make(&spare) {
                // A restore that was killed has left it.
                Err(Errno::EXIST) => {}
                made => return Ok((spare, made?)),
            }
        }
    }

    /// Gives what has the name `spare` the name `name`, in the place of what has it.
    ///
    /// # Errors
    ///
    /// `EXIST` where that has got its name by this restore.
    pub(super) fn rename(&self, spare: &[u8], name: &[u8]) -> Result<(), Errno> {
        let mut taken = self.folder.taken.lock();
        let is_taken = |stat: &Stat| taken.contains(&Identity::of(stat));
        let renamed = match folder::stat(&self.handle, name) {
            Ok(stat) if is_taken(&stat) => Err(Errno::EXIST),
            _ => rustix::fs::renameat(&self.handle, spare, &self.handle, name),
        };
        // It is still there after a failure, and where both are names of one file.
        rustix::fs::unlinkat(&self.handle, spare, AtFlags::empty()).ok();
        if renamed.is_ok() {
            self.take(&mut taken, name);
        }
        renamed
    }

    /// What was just made under `name` has it.
    fn take(&self, taken: &mut HashSet<Identity>, name: &[u8]) {
        if self.folder.taken.has_files
            && let Ok(stat) = folder::stat(&self.handle, name)
        {
            taken.insert(Identity::of(&stat));
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

    /// The path of `entry` in the snapshot.
    pub(super) fn path(&self, entry: &Entry) -> PathBuf {
        self.folder.path.join(&entry.name)
    }
}
