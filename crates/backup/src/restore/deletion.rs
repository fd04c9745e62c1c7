//! The deletion of entries of the target that are not in the snapshot.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cutpoint_repository::Entry;
use rustix::fs::{AtFlags, Dir, FileType, Stat};

use super::failure::Failure;
use super::monitor::RestoreAction;
use super::partial_file::partial_name;
use super::place::Place;
use super::restore_state::{RestoreState, count};
use super::snapshot_walk::{FolderRole, SnapshotWalk};
use super::target_visit::{Standing, Visitor};
use crate::platform::{MountId, mount_of};
use crate::source::folder::{self, Access, FolderStack, Handle, Identity};
use crate::source::size;

/// A folder of the target that is compared with the snapshot.
#[derive(Debug)]
struct Compared {
    role: FolderRole,
    /// The names that stay.
    names: HashSet<Vec<u8>>,
    /// Set if the snapshot has no other names, as far as is known.
    is_complete: bool,
    /// Set if the folder is above the sources of the snapshot, which has not saved what is beside them.
    is_above_sources: bool,
}

/// Deletes entries below the restored folders that are not in the snapshot, or counts them.
/// Symbolic links are not followed, and mount points are not entered.
pub(super) struct Deletion<'r, 'a> {
    state: &'r RestoreState<'a>,
    /// The mount of the target.
    home: Option<MountId>,
    /// The folders that stay with everything in them.
    kept: Vec<Identity>,
    folders: Vec<Compared>,
    /// Set if the folder to be entered next is recorded as one above the sources.
    enters_above_sources: bool,
}

impl<'r, 'a> Deletion<'r, 'a> {
    pub(super) fn new(state: &'r RestoreState<'a>) -> Deletion<'r, 'a> {
        let home = state.base.as_ref().and_then(|base| mount_of(base).ok());
        let kept = state.options.kept_folders.iter();
        let kept = kept.filter_map(|path| rustix::fs::stat(path).ok());
        let kept = kept.map(|stat| Identity::of(&stat)).collect();
        let root = state.options.folder.as_ref();
        let enters_above_sources = root.is_some_and(Entry::is_above_sources);
        Deletion { state, home, kept, folders: Vec::new(), enters_above_sources }
    }

    /// Returns `true` if `folder` is on the mount of the target.
    fn is_at_home(&self, folder: &Handle) -> bool {
        self.home.is_some() && self.home == mount_of(folder).ok()
    }

    /// Returns `true` if a source of the snapshot is below the folder at `path`, which is relative to
    /// the target, and none is at or above it. A snapshot of another program may have times of such a
    /// folder.
    fn is_above_sources(&self, path: &Path) -> bool {
        let options = self.state.options;
        let path = Path::new("/").join(&options.root_path).join(path);
        let sources =
            || options.sources.iter().map(|source| Path::new("/").join(OsStr::from_bytes(source)));
        sources().any(|source| source.starts_with(&path))
            && !sources().any(|source| path.starts_with(source))
    }

    fn keep(&mut self, name: &[u8]) {
        if let Some(folder) = self.folders.last_mut() {
            folder.names.insert(name.to_vec());
        }
    }

    /// Deletes the entries `names` of `folder`, which `path` leads to, and everything in them, as
    /// far as patterns allow that.
    fn delete(
        &self,
        walk: &mut SnapshotWalk<'_>,
        path: PathBuf,
        folder: &Handle,
        names: Vec<Vec<u8>>,
        is_included: bool,
    ) {
        let Ok(stat) = rustix::fs::fstat(folder) else { return };
        let identity = Identity::of(&stat);
        if self.kept.contains(&identity) {
            return;
        }
        let doomed = Doomed { path, names: names.into_iter(), is_included, is_emptied: true };
        let mut stack = FolderStack::new(folder.clone(), identity, doomed);
        while !self.state.stopped() {
            let Some((doomed, handle)) = stack.top() else { return };
            let next = doomed.names.next();
            match (next, handle.cloned()) {
                (Some(name), Some(handle)) => {
                    let path = doomed.path.join(OsStr::from_bytes(&name));
                    let is_included = doomed.is_included;
                    let result = self.delete_one(walk, &handle, (&path, &name), is_included);
                    match result {
                        Ok(Deleted::Yes) => {}
                        Ok(Deleted::Stays) => doomed.is_emptied = false,
                        Ok(Deleted::Folder(inner, identity, names)) => {
                            let inside = Doomed {
                                path,
                                names: names.into_iter(),
                                is_included: true,
                                is_emptied: true,
                            };
                            stack.push(name, inner, identity, inside);
                        }
                        Err(error) => {
                            doomed.is_emptied = false;
                            self.fail(&path, &error);
                        }
                    }
                }
                _ => {
                    let Some((emptied, _)) = stack.pop() else { return };
                    let Some((parent, handle)) = stack.top() else { return };
                    let is_deleted = emptied.is_emptied
                        && handle.is_some_and(|handle| self.delete_folder(handle, &emptied.path));
                    parent.is_emptied &= is_deleted;
                }
            }
        }
    }

    /// Deletes an entry that is not a folder. A folder is opened and listed instead.
    fn delete_one(
        &self,
        walk: &mut SnapshotWalk<'_>,
        folder: &Handle,
        (path, name): (&Path, &[u8]),
        in_included: bool,
    ) -> io::Result<Deleted> {
        let stat = folder::stat(folder, name)?;
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if !walk.includes(path, is_folder, in_included) {
            return Ok(Deleted::Stays);
        }
        if !is_folder {
            if !self.state.options.dry_run {
                rustix::fs::unlinkat(folder, name, AtFlags::empty())?;
            }
            self.count(path, size_of(&stat));
            return Ok(Deleted::Yes);
        }
        let inner = folder::open(folder, name, Access::List)?;
        let identity = Identity::of(&rustix::fs::fstat(&inner)?);
        if identity != Identity::of(&stat) {
            return Err(io::Error::other("replaced by another process meanwhile"));
        }
        if self.kept.contains(&identity) {
            return Ok(Deleted::Stays);
        }
        if !self.is_at_home(&inner) {
            return Err(io::Error::other("a mount point or another file system"));
        }
        let names = list(&inner)?;
        Ok(Deleted::Folder(inner, identity, names))
    }

    /// Deletes the empty folder at `path`, which is in `parent`. Returns `false` if that fails.
    fn delete_folder(&self, parent: &Handle, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        if !self.state.options.dry_run
            && let Err(error) = rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
        {
            self.fail(path, &error.into());
            return false;
        }
        self.count(&path.join(""), 0);
        true
    }

    fn count(&self, path: &Path, bytes: u64) {
        count(&self.state.counts.deleted_entries, 1);
        count(&self.state.counts.deleted_bytes, bytes);
        self.state.monitor.action(RestoreAction::Delete, path, bytes);
    }

    fn fail(&self, path: &Path, error: &io::Error) {
        self.state.report(path, &format!("not deleted: {error}"));
    }
}

impl Visitor for Deletion<'_, '_> {
    fn folder(&mut self, _path: &Path, entry: &Entry, _standing: Standing) -> bool {
        self.keep(&entry.name);
        self.enters_above_sources = entry.is_above_sources();
        true
    }

    fn enter(&mut self, role: FolderRole) {
        let is_above_sources = self.enters_above_sources;
        let names = HashSet::new();
        self.folders.push(Compared { role, names, is_complete: true, is_above_sources });
    }

    fn item(&mut self, _path: &Path, place: Option<Place>, entry: Entry) {
        // A folder in the place of something else is not in the snapshot.
        let is_folder = place.is_some_and(|place| {
            folder::stat(&place.handle, &entry.name)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
        });
        if !is_folder {
            self.keep(&entry.name);
        }
        // The restore goes on with what an earlier one has left of a large file.
        self.keep(&partial_name(&entry.name));
    }

    fn skipped(&mut self, name: &[u8]) {
        self.keep(name);
    }

    fn problem(&mut self, _path: &Path, _failure: Failure) {
        // The restore itself reports the problem.
        if let Some(folder) = self.folders.last_mut() {
            folder.is_complete = false;
        }
    }

    fn leave(&mut self, walk: &mut SnapshotWalk<'_>, place: Option<&Place>) {
        let (Some(compared), Some(place)) = (self.folders.pop(), place) else { return };
        if !compared.role.is_selected || !compared.is_complete {
            return;
        }
        let path = place.folder.path.path();
        if compared.is_above_sources || self.is_above_sources(&path) {
            return;
        }
        match list(&place.handle) {
            Ok(mut names) => {
                names.retain(|name| !compared.names.contains(name));
                if names.is_empty() {
                    return;
                }
                if !self.is_at_home(&place.handle) {
                    let message = "nothing is deleted here: another file system than the target";
                    self.state.warn(&path, message);
                    return;
                }
                let is_included = compared.role.is_included;
                self.delete(walk, path, &place.handle, names, is_included);
            }
            Err(error) => self.fail(&path, &error),
        }
    }
}

/// A folder in which entries are being deleted.
#[derive(Debug)]
struct Doomed {
    path: PathBuf,
    names: std::vec::IntoIter<Vec<u8>>,
    is_included: bool,
    /// Set while nothing had to stay.
    is_emptied: bool,
}

/// The result of the deletion of one entry.
enum Deleted {
    Yes,
    /// A pattern excludes the entry, or it is a folder to be kept.
    Stays,
    /// A folder with these names.
    Folder(Handle, Identity, Vec<Vec<u8>>),
}

/// Returns the names in `folder`, in order.
fn list(folder: &Handle) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn size_of(stat: &Stat) -> u64 {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => size(stat),
        _ => 0,
    }
}
