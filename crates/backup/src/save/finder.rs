//! The entries that a walk finds, with their previous versions, ahead of the ordered stage.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

use cutpoint_repository::{Entry, EntryKind, Time};

use super::as_path::AsPath;
use super::batch::SourceLinkKey;
use super::comparison::Comparison;
use super::decision::ReadReason;
use super::files_ahead::FilesAhead;
use super::shutdown::Result;
use crate::source::{ExclusionRule, Handle, Walk, WalkStep};

/// The maximum number of steps ahead of the ordered stage.
const STEPS_MAX: usize = 2048;
/// The maximum number of folders that begin ahead of the ordered stage, each of which may stay open.
const FOLDERS_MAX: usize = 128;

/// A step for the ordered stage.
#[derive(Debug)]
pub(super) enum Found {
    /// A folder above the source, which gets another path in the snapshot, begins.
    Above(Box<Entry>),
    /// A folder or a special entry.
    Item(Box<FoundItem>),
    File(Box<FoundFile>),
    /// The folder that began last ends.
    Leave,
    /// A name is left out.
    Excluded(PathBuf, ExclusionRule),
    /// A part of a file of patterns cannot be used.
    Warning(PathBuf, String),
    /// An entry of the innermost open folder is not saved.
    Problem(PathBuf, String),
}

/// A folder or a special entry.
#[derive(Debug)]
pub(super) struct FoundItem {
    pub(super) path: PathBuf,
    pub(super) entry: Entry,
    /// The name in the snapshot, if it is another one.
    pub(super) name: Option<Vec<u8>>,
    /// The folder of the entry, if the extended attributes are still to be read.
    pub(super) folder: Option<Handle>,
    /// Set if they were requested ahead.
    pub(super) is_ahead: bool,
}

/// A file.
#[derive(Debug)]
pub(super) struct FoundFile {
    pub(super) path: PathBuf,
    pub(super) entry: Entry,
    /// The name in the snapshot, if it is another one.
    pub(super) name: Option<Vec<u8>>,
    pub(super) folder: Handle,
    pub(super) before: Option<Entry>,
    /// The position of the snapshot of `before` among the previous versions.
    pub(super) position: usize,
    /// The reason why the file has to be read; `None` if it has not changed.
    pub(super) reason: Option<ReadReason>,
    /// Set if the extended attributes of the file are read although it has not changed.
    pub(super) reads_xattrs: bool,
    /// Set if the file, or its attributes, were requested ahead.
    pub(super) is_ahead: bool,
}

/// Follows a walk and compares it with previous versions, some steps ahead of the ordered stage.
pub(super) struct Finder<'a> {
    pub(super) walk: Walk,
    pub(super) comparison: Comparison<'a>,
    /// The files that are opened and read ahead.
    pub(super) files: FilesAhead,
    /// Set if every file is read, except those that this run has read before.
    pub(super) force_read: bool,
    /// Set if the only file is read by a map.
    pub(super) has_map: bool,
    /// The other path of the source in the snapshot, if it gets one.
    pub(super) as_path: Option<AsPath>,
    /// Set if the source gets another path, and the walk is in the folders above it.
    pub(super) is_above: bool,
    /// The name of the source in the snapshot, until its step.
    pub(super) recorded_name: Option<Vec<u8>>,
    /// The files of several names that were requested ahead.
    pub(super) linked: HashSet<SourceLinkKey>,
    /// The steps that the ordered stage has not taken.
    pub(super) found: VecDeque<Found>,
    /// The number of folders that begin in these steps.
    pub(super) folder_count: usize,
}

impl<'a> Finder<'a> {
    /// Creates a finder at the beginning of `walk`.
    pub(super) fn new(
        walk: Walk,
        mut comparison: Comparison<'a>,
        files: FilesAhead,
        as_path: Option<AsPath>,
    ) -> Finder<'a> {
        comparison.open_root();
        Finder {
            walk,
            comparison,
            files,
            force_read: false,
            has_map: false,
            is_above: as_path.is_some(),
            as_path,
            recorded_name: None,
            linked: HashSet::new(),
            found: VecDeque::new(),
            folder_count: 0,
        }
    }

    /// Returns the next step; `None` at the end of the walk. Calls `check` often, and ends with its
    /// error.
    pub(super) fn next(&mut self, check: impl Fn() -> Result<()>) -> Result<Option<Found>> {
        while self.has_room() {
            check()?;
            let Some(step) = self.walk.next() else { break };
            self.comparison.add_file_systems(&self.walk);
            self.find(step);
        }
        let found = self.found.pop_front();
        if let Some(Found::Item(item)) = &found
            && item.entry.kind == EntryKind::Folder
        {
            self.folder_count -= 1;
        }
        Ok(found)
    }

    fn has_room(&self) -> bool {
        let has_room = self.found.len() < STEPS_MAX && self.folder_count < FOLDERS_MAX;
        self.found.is_empty() || (self.files.is_used() && has_room && self.files.has_room())
    }

    /// Adds what follows from a step of the walk.
    fn find(&mut self, step: WalkStep) {
        match step {
            WalkStep::Enter { path, .. }
                if self.is_above && self.walk.sources_at(&path).is_empty() => {}
            WalkStep::Leave if self.is_above => {}
            WalkStep::Enter { path, entry, folder } => {
                if self.begin_source() {
                    let before = self.begin_entry(&entry, &path);
                    let before = self.comparison.moved(before, &entry, &folder);
                    self.enter(path, entry, folder, before);
                }
            }
            WalkStep::Leave if self.comparison.depth() == 0 => self.end_source(),
            WalkStep::Leave => {
                self.comparison.leave_folder();
                self.found.push_back(Found::Leave);
                self.end_source();
            }
            WalkStep::Item { path, entry, folder } => {
                if !self.begin_source() {
                    let message = "a file needs a name in --as-path".to_owned();
                    self.found.push_back(Found::Problem(path, message));
                    return;
                }
                let before = self.begin_entry(&entry, &path);
                if entry.kind == EntryKind::File {
                    self.find_file(path, entry, folder, before);
                } else {
                    self.push_item(path, entry, Some(folder));
                }
                self.comparison.leave_entry();
                self.end_source();
            }
            WalkStep::Excluded { path, rule } => self.found.push_back(Found::Excluded(path, rule)),
            WalkStep::Warning { path, message } => {
                self.found.push_back(Found::Warning(path, message));
            }
            WalkStep::Problem { path, error } => {
                self.found.push_back(Found::Problem(path, error.to_string()));
            }
        }
    }

    /// Begins the entry at `path`. Returns its previous version, if there is one.
    fn begin_entry(&mut self, entry: &Entry, path: &Path) -> Option<Entry> {
        let name = self.recorded_name.as_ref().unwrap_or(&entry.name);
        self.comparison.begin_entry(&self.walk, name, path)
    }

    /// Begins the source if it gets another path, and the walk has reached it: enters the folders
    /// above it in the snapshot. Returns `false` if the source is the root folder of the snapshot,
    /// which is no entry.
    fn begin_source(&mut self) -> bool {
        let Some(as_path) = self.as_path.as_ref().filter(|_| self.is_above) else { return true };
        let folders = as_path.folders();
        self.recorded_name.clone_from(&as_path.name);
        self.is_above = false;
        for entry in folders {
            let before = self.comparison.begin_entry(&self.walk, &entry.name, Path::new("/"));
            self.comparison.enter_folder(before);
            self.found.push_back(Found::Above(Box::new(entry)));
        }
        self.recorded_name.is_some()
    }

    /// Ends the source if it has another path, and its own folder or file has just ended: leaves the
    /// folders above it.
    fn end_source(&mut self) {
        let depth = match &self.as_path {
            Some(as_path) if self.comparison.depth() == as_path.depth() => as_path.depth(),
            _ => return,
        };
        if self.as_path.as_ref().is_some_and(|as_path| as_path.name.is_none()) {
            // The entries of the root folder end with the walk.
            return;
        }
        for _ in 0..depth {
            self.comparison.leave_folder();
            self.found.push_back(Found::Leave);
        }
        self.is_above = true;
        self.recorded_name = None;
    }

    /// Begins a folder.
    fn enter(&mut self, path: PathBuf, mut entry: Entry, folder: Handle, before: Option<Entry>) {
        // A folder above the sources has no times to compare.
        let is_unchanged = entry.ctime != Time::default()
            && before.as_ref().is_some_and(|before| before.ctime == entry.ctime);
        let folder = match &before {
            Some(before) if is_unchanged && self.comparison.is_settled(before, &entry) => {
                entry.xattrs.clone_from(&before.xattrs);
                None
            }
            _ => Some(folder),
        };
        self.comparison.enter_folder(before);
        self.folder_count += 1;
        self.push_item(path, entry, folder);
    }

    fn push_item(&mut self, path: PathBuf, entry: Entry, folder: Option<Handle>) {
        let request = folder.as_ref().map(|folder| self.files.request_xattrs(folder, &entry));
        let (name, is_ahead) = (self.recorded_name.take(), request.unwrap_or(false));
        self.found.push_back(Found::Item(Box::new(FoundItem {
            path,
            entry,
            name,
            folder,
            is_ahead,
        })));
    }

    fn find_file(&mut self, path: PathBuf, entry: Entry, folder: Handle, before: Option<Entry>) {
        let reason = match &before {
            Some(before) => self.comparison.read_reason(before, &entry),
            None if self.force_read => Some(ReadReason::Forced),
            None => Some(ReadReason::New),
        };
        let reason = reason.or(self.has_map.then_some(ReadReason::Forced));
        let reads_xattrs = reason.is_none() && self.comparison.ignores_ctime();
        let is_ahead = match reason {
            Some(_) => self.request_file(&folder, &entry),
            None => reads_xattrs && self.files.request_xattrs(&folder, &entry),
        };
        self.found.push_back(Found::File(Box::new(FoundFile {
            path,
            entry,
            name: self.recorded_name.take(),
            folder,
            before,
            position: self.comparison.position(),
            reason,
            reads_xattrs,
            is_ahead,
        })));
    }

    /// Has a file that is going to be read opened ahead, unless it is a device, is read by a map, or
    /// is a further name of another file.
    fn request_file(&mut self, folder: &Handle, entry: &Entry) -> bool {
        let is_simple = !self.has_map && entry.device_number == 0;
        let is_first = !entry.is_hard_link() || self.linked.insert(SourceLinkKey::of(entry));
        is_simple && is_first && self.files.request_file(folder, entry)
    }
}
