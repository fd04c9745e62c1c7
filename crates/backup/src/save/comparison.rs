//! The comparison of a source with previous versions: finds the previous entry of each name.

use std::iter::Peekable;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cutpoint_repository::read::Entries;
use cutpoint_repository::{Entry, EntryKind, Reader};
use cutpoint_storage::Error;

use super::chunk_rebuilder::DamagedParts;
use super::decision::ReadReason;
use super::monitor::BackupMonitor;
use super::moved_folders::MovedFolders;
use super::previous_version::{PreviousVersion, item};
use crate::source::{FileSystem, Handle, Walk, born_before};

/// The entries of a folder of a previous version that are still to come.
type PreviousFolder<'a> = Peekable<Entries<'a>>;

/// Follows a walk through the previous versions. Both have the names of each folder in the same
/// order.
pub(super) struct Comparison<'a> {
    /// The parent, followed by the snapshots that have sources that the parent lacks.
    previous_versions: Vec<PreviousVersion<'a>>,
    /// The index in `previous_versions` of the snapshot that the current entry is compared with.
    current: usize,
    /// The values of `current` outside of the current entry and of each folder around it.
    outer: Vec<usize>,
    /// The previous versions of the current folder and of the folders around it, from the root
    /// down; `None` for a folder without a previous version.
    folders: Vec<Option<PreviousFolder<'a>>>,
    /// The file systems of the walk, indexed by the `device` of its entries.
    file_systems: Vec<FileSystem>,
    /// The folders that were moved; `None` until one is looked for.
    moved: Option<MovedFolders>,
    monitor: &'a dyn BackupMonitor,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(
        previous_versions: Vec<PreviousVersion<'a>>,
        monitor: &'a dyn BackupMonitor,
    ) -> Comparison<'a> {
        Comparison {
            previous_versions,
            current: 0,
            outer: Vec::new(),
            folders: Vec::new(),
            file_systems: Vec::new(),
            moved: None,
            monitor,
        }
    }

    /// Returns the snapshot that the current entry is compared with.
    fn current(&self) -> Option<&PreviousVersion<'a>> {
        self.previous_versions.get(self.current)
    }

    /// The position, among the previous versions, of the snapshot that the current entry is compared
    /// with.
    pub(super) fn position(&self) -> usize {
        self.current
    }

    /// Returns the reader of the snapshot that the current entry is compared with.
    pub(super) fn reader(&self) -> Option<&'a Reader> {
        self.current().map(|previous| previous.reader)
    }

    /// Returns the reader of the previous version at `position`.
    pub(super) fn reader_at(&self, position: usize) -> Option<&'a Reader> {
        self.previous_versions.get(position).map(|previous| previous.reader)
    }

    /// Returns the snapshot at `position`, of `before`, if nothing that the file needs can be
    /// incomplete, damaged or missing.
    pub(super) fn whole_version(
        &self,
        position: usize,
        before: &Entry,
    ) -> Option<&PreviousVersion<'a>> {
        let previous = self.previous_versions.get(position);
        previous.filter(|previous| !previous.partial && !previous.needs_damaged(before))
    }

    /// Returns the parts of `before`, a file of the previous version at `position`, that are damaged.
    pub(super) fn damaged_parts(&self, position: usize, before: &Entry) -> DamagedParts {
        let previous = self.previous_versions.get(position);
        previous.map(|previous| previous.damaged_parts(before)).unwrap_or_default()
    }

    /// Opens the root folder of the parent, for a walk.
    pub(super) fn open_root(&mut self) {
        let root = self.current().map(|previous| previous.reader.tree(&previous.root).peekable());
        self.folders.push(root);
    }

    /// The number of folders entered and not left, without the root.
    pub(super) fn depth(&self) -> usize {
        self.folders.len().saturating_sub(1)
    }

    /// Records the file systems that the walk has met since the last call.
    pub(super) fn add_file_systems(&mut self, walk: &Walk) {
        let known = self.file_systems.len();
        self.file_systems.extend((known..walk.device_count()).map(|at| walk.file_system(at)));
    }

    /// Begins the entry `name` of the current folder, which the walk has at `path`. Returns the
    /// previous version of the entry, if there is one.
    ///
    /// The entry ends with [`Comparison::leave_entry`] or, if it is entered as a folder, with
    /// [`Comparison::leave_folder`].
    pub(super) fn begin_entry(&mut self, walk: &Walk, name: &[u8], path: &Path) -> Option<Entry> {
        self.outer.push(self.current);
        self.entry_in_folder(name, path).or_else(|| self.entry_elsewhere(walk, path))
    }

    /// Returns the previous version of the folder `entry`, which is the current entry: `before`,
    /// which has its path, or a folder that was moved to this path. In the latter case, everything
    /// below is compared with the snapshot that has that folder. `folder` contains the entry.
    pub(super) fn moved(
        &mut self,
        before: Option<Entry>,
        entry: &Entry,
        folder: &Handle,
    ) -> Option<Entry> {
        let is_same =
            |before: &Entry| before.kind == EntryKind::Folder && before.inode == entry.inode;
        // A folder above the sources has no inode number.
        if entry.inode == 0 || before.as_ref().is_some_and(is_same) {
            return before;
        }
        let Some(identity) = item(&self.file_systems, entry.device).map(|it| it.identity.clone())
        else {
            return before;
        };
        let newest_ns = self.previous_versions.iter().map(|previous| previous.read_since_ns).max();
        let is_older = |newest_ns| born_before(folder, &entry.name, newest_ns);
        if identity.is_empty() || !newest_ns.is_some_and(is_older) {
            return before;
        }
        let moved = self.moved.get_or_insert_with(|| MovedFolders::search(&self.previous_versions));
        match moved.find(&identity, entry.inode) {
            Some((version, found)) => {
                self.current = version;
                Some(found.clone())
            }
            None => before,
        }
    }

    /// Ends the current entry.
    pub(super) fn leave_entry(&mut self) {
        self.current = self.outer.pop().unwrap_or_default();
    }

    /// Makes the current entry, whose previous version is `before`, the current folder.
    pub(super) fn enter_folder(&mut self, before: Option<Entry>) {
        let tree = before.filter(|before| before.kind == EntryKind::Folder);
        let folder = tree.and_then(|tree| Some(self.reader()?.tree(&tree.content).peekable()));
        self.folders.push(folder);
    }

    /// Ends the current folder.
    pub(super) fn leave_folder(&mut self) {
        self.folders.pop();
        self.leave_entry();
    }

    /// Returns the entry `name` in the previous version of the current folder, if there is one.
    fn entry_in_folder(&mut self, name: &[u8], path: &Path) -> Option<Entry> {
        let folder = self.folders.last_mut()?;
        loop {
            match folder.as_mut()?.peek() {
                None => return None,
                Some(Err(error)) => {
                    warn_not_compared(self.monitor, path, error);
                    *folder = None;
                    return None;
                }
                Some(Ok(entry)) if entry.name.as_slice() > name => return None,
                Some(Ok(_)) => {
                    let entry = folder.as_mut()?.next()?.ok()?;
                    if entry.name == name {
                        return Some(entry);
                    }
                }
            }
        }
    }

    /// Returns the entry of `path`, a source that the parent lacks, in the other snapshot that has
    /// it. Everything below `path` is then compared with that snapshot.
    fn entry_elsewhere(&mut self, walk: &Walk, path: &Path) -> Option<Entry> {
        if self.previous_versions.len() < 2 {
            return None;
        }
        let numbers = walk.sources_at(path);
        if numbers.is_empty() {
            return None;
        }
        let is_of = |previous: &PreviousVersion<'_>| {
            numbers.iter().any(|number| previous.sources.contains(number))
        };
        let found = self.previous_versions.iter().position(is_of)?;
        let previous = &self.previous_versions[found];
        let mut content = previous.root.clone();
        let mut names = path.as_os_str().as_bytes().split(|&byte| byte == b'/');
        let mut entry = None;
        for name in names.by_ref().filter(|name| !name.is_empty()) {
            let entries = previous.reader.tree(&content);
            let mut entries = entries
                .take_while(|each| each.as_ref().is_ok_and(|each| each.name.as_slice() <= name));
            let next = entries.find_map(|each| each.ok().filter(|each| each.name == name))?;
            content = next.content.clone();
            entry = Some(next);
        }
        self.current = found;
        entry
    }

    /// Returns the entry `name` in the root folder of the parent, if there is one.
    pub(super) fn entry_in_root(&self, name: &[u8]) -> Result<Option<Entry>, Error> {
        let Some(previous) = self.current() else { return Ok(None) };
        let mut found = None;
        for each in previous.reader.tree(&previous.root) {
            found = found.or(Some(each?).filter(|each| each.name == name));
        }
        Ok(found)
    }

    /// Returns `true` if any change of `before` to `entry` would show in the times of `entry`. See
    /// [`PreviousVersion::unsettled`].
    pub(super) fn is_settled(&self, before: &Entry, entry: &Entry) -> bool {
        self.with_file_system(self.current, entry).is_some_and(|(previous, file_system)| {
            previous.unsettled(before, entry, file_system).is_none()
        })
    }

    /// Returns the reason why the file `entry` has to be read, given its previous version; `None`
    /// if it may be taken over by rule W3.
    pub(super) fn read_reason(&self, before: &Entry, entry: &Entry) -> Option<ReadReason> {
        if before.kind == EntryKind::File && before.size != entry.size {
            return Some(ReadReason::Size);
        }
        self.change(self.current, before, entry)
    }

    /// Returns `true` if rule W3 holds for a file whose beginning is in a checkpoint, the previous
    /// version at `position`.
    pub(super) fn has_beginning(&self, position: usize, before: &Entry, entry: &Entry) -> bool {
        self.previous_versions.get(position).is_some_and(|previous| previous.partial)
            && before.size < entry.size
            && self.change(position, before, entry).is_none()
    }

    /// Returns `true` if the time of the last metadata change is not compared.
    pub(super) fn ignores_ctime(&self) -> bool {
        self.current().is_some_and(|previous| previous.ignored.ctime)
    }

    fn change(&self, position: usize, before: &Entry, entry: &Entry) -> Option<ReadReason> {
        match self.with_file_system(position, entry) {
            Some((previous, file_system)) => previous.change(before, entry, file_system),
            None => Some(ReadReason::New),
        }
    }

    /// Returns the previous version at `position`, and the file system of `entry`.
    fn with_file_system(
        &self,
        position: usize,
        entry: &Entry,
    ) -> Option<(&PreviousVersion<'a>, &FileSystem)> {
        Some((self.previous_versions.get(position)?, item(&self.file_systems, entry.device)?))
    }
}

/// Warns that `path` cannot be compared with its previous version.
pub(super) fn warn_not_compared(monitor: &dyn BackupMonitor, path: &Path, error: &Error) {
    monitor.warning(path, &format!("the previous snapshot cannot be compared: {error}"));
}
