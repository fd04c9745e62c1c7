//! The comparison of a snapshot with a place on the disk.
//!
//! The disk is walked as by a backup, so that names, file systems and exclusions are treated alike.
//! The tree of each folder is read alongside. Both have their names in the same order.

use std::ffi::OsStr;
use std::io;
use std::iter::Peekable;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use cutpoint_backup::source::{Handle, Walk, WalkOptions, WalkStep, open_file, xattrs};
use cutpoint_repository::read::Entries;
use cutpoint_repository::{Content, Entry, EntryKind};
use cutpoint_storage::Error as StoreError;

use super::compare::{Comparison, Sink};
use super::content;
use super::file::{self, Failure};

/// A comparison of a snapshot with a place on the disk.
struct DiskComparison<'a, S> {
    comparison: Comparison<'a, S>,
    /// Reads files even if their sizes and times are those of the snapshot.
    force_read: bool,
    walk: Walk,
    one_file_system: bool,
    /// The path in the snapshot of the current entry.
    path: Vec<u8>,
    /// The open folders, outermost first; `None` for a folder that cannot be compared.
    levels: Vec<Option<Level<'a>>>,
}

/// A folder that is in the snapshot, on the disk, or both.
struct Level<'a> {
    /// The entries of the snapshot that the walk has not reached.
    old: Peekable<Entries<'a>>,
    /// The length of the path in the snapshot.
    path_len: usize,
    /// The path on the disk.
    disk: PathBuf,
    /// The number of the file system of the folder; `None` for the root folder.
    device: Option<u64>,
    /// Set if the folder could not be listed completely on the disk.
    is_partial: bool,
}

/// The rules of a comparison with the disk.
pub(super) struct DiskOptions {
    pub(super) walk: WalkOptions,
    /// Compares the contents of all files.
    pub(super) force_read: bool,
}

/// Compares `old`, which the snapshot has at `path`, with `disk`, and everything below them. Returns
/// the sink of `comparison`, which gets the results.
///
/// # Errors
///
/// Returns any error of the sink and of [`Walk::new`], and an error of the storage. Damaged and
/// missing data, and files that cannot be read, are problems of the sink.
pub(super) fn compare<S: Sink>(
    comparison: Comparison<'_, S>,
    old: Entry,
    path: Vec<u8>,
    disk: &Path,
    options: &DiskOptions,
) -> Result<S> {
    let walk = Walk::new(&[disk.to_owned()], options.walk.clone())?;
    let comparison = DiskComparison {
        comparison,
        force_read: options.force_read,
        walk,
        one_file_system: options.walk.one_file_system,
        path,
        levels: Vec::new(),
    };
    comparison.run(old)
}

impl<S: Sink> DiskComparison<'_, S> {
    fn run(mut self, old: Entry) -> Result<S> {
        let mut old = Some(old);
        let root = Path::new("/");
        if !self.walk.sources_at(root).is_empty() {
            // The walk has no step for the root.
            self.enter(old.take(), None, root.to_owned())?;
        }
        while let Some(step) = self.walk.next() {
            match step {
                // A folder above the source.
                WalkStep::Enter { path, .. }
                    if self.levels.is_empty() && self.walk.sources_at(&path).is_empty() => {}
                WalkStep::Leave if self.levels.is_empty() => {}
                WalkStep::Enter { path, entry, folder } => {
                    let old = self.begin(&mut old, &entry.name)?;
                    if let Some(old) = old {
                        self.folder(old, entry, &folder, path)?;
                    } else {
                        self.levels.push(None);
                    }
                }
                WalkStep::Item { entry, folder, .. } => {
                    if let Some(old) = self.begin(&mut old, &entry.name)? {
                        self.item(old, entry, &folder)?;
                    }
                }
                WalkStep::Leave => self.leave()?,
                // What the snapshot has there is neither equal nor removed.
                WalkStep::Excluded { path, .. } => {
                    let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
                    self.begin(&mut old, name)?;
                }
                WalkStep::Warning { path, message } => {
                    self.comparison.sink.warning(&path, &message);
                }
                WalkStep::Problem { path, error } => self.unreadable(&mut old, &path, &error)?,
            }
        }
        Ok(self.comparison.sink)
    }

    /// Begins the entry `name` of the current folder, or of the source if there is none. Makes its
    /// path the current one. Returns `None` if the folder cannot be compared, and otherwise the
    /// entry of the snapshot, if it has one.
    fn begin(&mut self, source: &mut Option<Entry>, name: &[u8]) -> Result<Option<Option<Entry>>> {
        match self.levels.last() {
            None => return Ok(Some(source.take())),
            Some(None) => return Ok(None),
            Some(Some(level)) => self.path.truncate(level.path_len),
        }
        let old = self.old_until(Some(name))?;
        self.path.push(b'/');
        self.path.extend_from_slice(name);
        Ok(self.levels.last().is_some_and(Option::is_some).then_some(old))
    }

    /// Reports the entries of the snapshot in the current folder before `name`, or all if there is
    /// no `name`, as removed. Returns the one with this name. If the tree is damaged, the folder
    /// becomes one that cannot be compared.
    fn old_until(&mut self, name: Option<&[u8]>) -> Result<Option<Entry>> {
        while let Some(Some(level)) = self.levels.last_mut() {
            let is_next = |entry: &Result<Entry, StoreError>| match (entry, name) {
                (Ok(entry), Some(name)) => entry.name.as_slice() <= name,
                _ => true,
            };
            match level.old.next_if(is_next) {
                None => return Ok(None),
                Some(Ok(entry)) if Some(entry.name.as_slice()) == name => return Ok(Some(entry)),
                Some(Ok(_)) if level.is_partial => {}
                Some(Ok(entry)) => self.removed(entry)?,
                Some(Err(error)) => {
                    self.path.truncate(level.path_len);
                    self.comparison.skip(&self.path, error)?;
                    self.levels.pop();
                    self.levels.push(None);
                }
            }
        }
        Ok(None)
    }

    /// Reports an entry of the snapshot, and everything below it, as removed, unless the disk may
    /// have it, but it is excluded.
    fn removed(&mut self, old: Entry) -> Result<()> {
        let Some(Some(level)) = self.levels.last() else { return Ok(()) };
        let disk = level.disk.join(OsStr::from_bytes(&old.name));
        if self.walk.excludes(&disk, old.kind == EntryKind::Folder) {
            return Ok(());
        }
        let mut path = self.path[..level.path_len].to_vec();
        path.push(b'/');
        path.extend_from_slice(&old.name);
        self.comparison.compare(Some(old), None, &mut path)
    }

    /// Compares `old` with the folder `new`, which is in `parent`, and enters both.
    fn folder(
        &mut self,
        old: Option<Entry>,
        mut new: Entry,
        parent: &Handle,
        disk: PathBuf,
    ) -> Result<()> {
        self.add_xattrs(old.as_ref(), &mut new, parent);
        self.comparison.report(old.as_ref(), Some(&new), &self.path, true)?;
        let device = Some(new.device);
        let outer = self.levels.last().and_then(|level| level.as_ref()?.device);
        if self.one_file_system && outer.is_some() && outer != device {
            // The walk lists nothing there.
            self.levels.push(None);
            return Ok(());
        }
        self.enter(old, device, disk)
    }

    /// Enters the folder at the current path.
    fn enter(&mut self, old: Option<Entry>, device: Option<u64>, disk: PathBuf) -> Result<()> {
        let old = old.filter(|old| old.kind == EntryKind::Folder);
        let tree = old.map(|old| old.content).unwrap_or(Content::Empty);
        let old = self.comparison.reader.tree(&tree).peekable();
        let path_len = self.path.len();
        self.levels.push(Some(Level { old, path_len, disk, device, is_partial: false }));
        Ok(())
    }

    /// Leaves the current folder.
    fn leave(&mut self) -> Result<()> {
        self.old_until(None)?;
        self.levels.pop();
        Ok(())
    }

    /// Compares `old` with `new`, which is in `parent` and no folder.
    fn item(&mut self, old: Option<Entry>, mut new: Entry, parent: &Handle) -> Result<()> {
        let same_kind = old.as_ref().filter(|old| old.kind == new.kind);
        let is_same = match same_kind {
            Some(old) if old.kind == EntryKind::File => self.is_same_file(old, &mut new, parent),
            Some(old) => Ok(content::is_same(self.comparison.reader, old, &new)?),
            None => Ok(false),
        };
        let is_same = match is_same {
            Ok(is_same) => is_same,
            Err(Failure::Repository(error)) => return self.comparison.skip(&self.path, error),
            Err(Failure::Disk(error)) => {
                self.comparison.sink.problem(&self.path, &error);
                return Ok(());
            }
        };
        if same_kind.is_none() {
            // A folder of the snapshot is gone with everything below it.
            return self.comparison.compare(old, Some(new), &mut self.path.clone());
        }
        self.add_xattrs(old.as_ref(), &mut new, parent);
        self.comparison.report(old.as_ref(), Some(&new), &self.path, is_same)
    }

    /// Returns `true` if the file `new` in `parent` has the content of `old`. Equal sizes and times
    /// are taken for equal contents unless all files are to be read. If the file is read, its
    /// metadata becomes that of the moment at which it is opened.
    fn is_same_file(&self, old: &Entry, new: &mut Entry, parent: &Handle) -> Result<bool, Failure> {
        if old.size != new.size {
            return Ok(false);
        }
        // An entry with a defect lacks bytes that the file had at this time.
        let is_read = self.force_read || old.defect.is_some() || old.mtime != new.mtime;
        if !is_read {
            return Ok(true);
        }
        let opened = open_file(parent, new)?;
        opened.refresh(new);
        Ok(old.size == new.size
            && file::begins_with(&opened, &old.content, self.comparison.reader)?)
    }

    /// Adds the extended attributes of `new`, which is in `parent`. They are those of `old` if the
    /// time of the last metadata change is the same, and if they cannot be read.
    fn add_xattrs(&mut self, old: Option<&Entry>, new: &mut Entry, parent: &Handle) {
        let Some(old) = old else { return };
        new.xattrs.clone_from(&old.xattrs);
        if old.ctime == new.ctime && old.inode == new.inode {
            return;
        }
        let found = xattrs::of_name(parent, &new.name);
        match found.problem {
            None => new.xattrs = found.pairs,
            Some(error) => {
                self.comparison.sink.problem(&self.path, &format!("extended attributes: {error}"));
            }
        }
    }

    /// Reports that `disk` could not be examined or listed. What the snapshot has there is neither
    /// equal nor removed.
    fn unreadable(
        &mut self,
        source: &mut Option<Entry>,
        disk: &Path,
        error: &io::Error,
    ) -> Result<()> {
        match self.levels.last_mut() {
            Some(Some(level)) if level.disk == disk => {
                level.is_partial = true;
                self.path.truncate(level.path_len);
            }
            // The rest of the folder is not compared.
            Some(None) => return Ok(()),
            _ => {
                let name = disk.file_name().map(OsStr::as_bytes).unwrap_or_default();
                self.begin(source, name)?;
            }
        }
        self.comparison.sink.problem(&self.path, error);
        Ok(())
    }
}
