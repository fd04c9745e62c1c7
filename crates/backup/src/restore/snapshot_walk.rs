//! The walk through the part of a snapshot that is restored, in the order of its trees.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cutpoint_repository::format::tree::check_name;
use cutpoint_repository::read::TreesAhead;
use cutpoint_repository::{Content, Entry, EntryKind, name_text};
use cutpoint_storage::{Error, Result};

use super::options::RestoreOptions;
use super::patterns::{Patterns, Verdict};
use super::selection::{Choice, Selection};
use super::snapshot_reader::SnapshotReader;

/// A step of the walk.
#[derive(Debug)]
pub(super) enum Step {
    /// A folder, whose entries follow until the matching `Leave`.
    Enter { entry: Entry, role: FolderRole },
    /// Anything but a folder.
    Item(Entry),
    /// The name of an entry of the current folder that is left out.
    Skipped(Vec<u8>),
    /// The end of a folder other than the root.
    Leave,
    /// The tree of the current folder, or of a folder below it, cannot be read any further.
    Problem { path: PathBuf, error: Error },
}

/// The part of a folder that is restored.
#[derive(Clone, Copy, Debug)]
pub(super) struct FolderRole {
    /// Set unless only some paths in the folder are selected.
    pub(super) is_selected: bool,
    /// Set if the patterns to include match the folder, or there are none.
    pub(super) is_included: bool,
}

impl FolderRole {
    /// Returns `true` if the folder is only on the way to entries that are restored.
    pub(super) fn is_way(self) -> bool {
        !self.is_selected || !self.is_included
    }
}

/// A folder on the way to the current entry.
struct Level<'a> {
    entries: Box<dyn Iterator<Item = Result<Entry>> + 'a>,
    /// The previous name, because names must ascend.
    last: Option<Vec<u8>>,
    /// The node of the folder in the selection; `None` if everything in it is selected.
    way: Option<usize>,
    is_included: bool,
    /// The folder, until a step has told it. A folder that matches no pattern is told before the
    /// first entry in it that is restored.
    untold: Option<Entry>,
}

impl Level<'_> {
    fn role(&self) -> FolderRole {
        FolderRole { is_selected: self.way.is_none(), is_included: self.is_included }
    }
}

/// The walk through the selected and included entries of a snapshot.
pub(super) struct SnapshotWalk<'a> {
    reader: &'a dyn SnapshotReader,
    /// The trees that are read ahead.
    ahead: Option<&'a TreesAhead<'a>>,
    options: &'a RestoreOptions,
    selection: Selection,
    patterns: Patterns,
    levels: Vec<Level<'a>>,
    /// The path of the current folder in the target.
    path: PathBuf,
    steps: VecDeque<Step>,
    /// The number of devices, pipes and sockets left out so far.
    pub(super) skipped_specials: u64,
}

impl<'a> SnapshotWalk<'a> {
    /// Begins at the tree `root`.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` for an invalid selection or pattern, and any error of the tree.
    pub(super) fn new(
        reader: &'a dyn SnapshotReader,
        options: &'a RestoreOptions,
        root: &Content,
    ) -> Result<SnapshotWalk<'a>> {
        let selection = Selection::new(&options.selection)?;
        let patterns = Patterns::new(options)?;
        let level = Level {
            entries: open_tree(reader, root)?,
            last: None,
            way: selection.root(),
            is_included: patterns.includes_all(),
            untold: None,
        };
        let (levels, path, steps) = (vec![level], PathBuf::new(), VecDeque::new());
        Ok(SnapshotWalk {
            reader,
            ahead: None,
            options,
            selection,
            patterns,
            levels,
            path,
            steps,
            skipped_specials: 0,
        })
    }

    /// Takes trees from `ahead` from now on. The walk has not begun, and began with the same `root`.
    pub(super) fn read_ahead(&mut self, ahead: &'a TreesAhead<'a>, root: &Content) {
        if let Some(level) = self.levels.first_mut() {
            level.entries = Box::new(ahead.tree(root));
        }
        self.ahead = Some(ahead);
    }

    /// Returns the part of the root that is restored.
    pub(super) fn root_role(&self) -> FolderRole {
        let nothing = FolderRole { is_selected: false, is_included: false };
        self.levels.first().map_or(nothing, Level::role)
    }

    /// Returns `true` if the patterns include the entry at `path`, which is relative to the target
    /// and in a folder that is included or not.
    pub(super) fn includes(&mut self, path: &Path, is_folder: bool, in_included: bool) -> bool {
        let path = Path::new("/").join(&self.options.root_path).join(path);
        self.patterns.decide(&path, is_folder, in_included) == Verdict::Included
    }

    /// Returns the next step; `None` at the end of the root.
    pub(super) fn next(&mut self) -> Option<Step> {
        while self.steps.is_empty() {
            let level = self.levels.last_mut()?;
            match level.entries.next() {
                Some(entry) => match entry.and_then(|entry| self.check(entry)) {
                    Ok(Some((entry, way))) => self.take(entry, way),
                    Ok(None) => {}
                    Err(error) => {
                        let error = error.of("its tree");
                        self.steps.push_back(Step::Problem { path: self.path.clone(), error });
                        self.mark_found();
                        self.end_folder();
                    }
                },
                None => {
                    let was_told = self.leave();
                    if was_told && !self.levels.is_empty() {
                        return Some(Step::Leave);
                    }
                }
            }
        }
        self.steps.pop_front()
    }

    /// Skips the folder of the step `Enter` that was returned last.
    pub(super) fn skip(&mut self) {
        let is_folder = |step: &&Step| matches!(step, Step::Enter { .. });
        let count = 1 + self.steps.iter().filter(is_folder).count();
        self.steps.clear();
        for _ in 0..count {
            self.mark_found();
            self.leave();
        }
    }

    /// Skips the remaining entries of the current folder.
    pub(super) fn end_folder(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.entries = Box::new(iter::empty());
        }
    }

    /// Leaves the current folder. Returns `true` if a step has told it.
    fn leave(&mut self) -> bool {
        self.path.pop();
        self.levels.pop().is_some_and(|level| level.untold.is_none())
    }

    /// Marks everything selected in the current folder as found, because the folder itself is
    /// reported.
    fn mark_found(&mut self) {
        if let Some(way) = self.levels.last().and_then(|level| level.way) {
            self.selection.mark_found(way);
        }
    }

    /// Checks the order of the names and whether the entry is selected. Returns `None` if it is not
    /// selected. Otherwise, returns the entry, with its node in the selection if it is only on the
    /// way to a selected path.
    fn check(&mut self, entry: Entry) -> Result<Option<(Entry, Option<usize>)>> {
        check_name(&entry.name)?;
        let Some(level) = self.levels.last_mut() else { return Ok(None) };
        if level.last.as_ref().is_some_and(|last| *last >= entry.name) {
            let name = name_text(&entry.name);
            return Err(Error::corrupt("", format!("name {name}: out of order or a duplicate")));
        }
        match &mut level.last {
            Some(last) => last.clone_from(&entry.name),
            None => level.last = Some(entry.name.clone()),
        }
        let Some(way) = level.way else { return Ok(Some((entry, None))) };
        Ok(match self.selection.choose(way, &entry.name) {
            Choice::All => Some((entry, None)),
            Choice::Way(way) => Some((entry, Some(way))),
            Choice::Skip => None,
            Choice::End => {
                level.entries = Box::new(iter::empty());
                None
            }
        })
    }

    /// Applies the patterns to a selected entry, and makes its steps.
    fn take(&mut self, mut entry: Entry, way: Option<usize>) {
        let is_folder = entry.kind == EntryKind::Folder;
        let in_included = self.levels.last().is_some_and(|level| level.is_included);
        let verdict = self.decide(&entry.name, is_folder, in_included);
        if verdict == Verdict::Excluded {
            if let Some(way) = way {
                self.selection.mark_found(way);
            }
            self.tell_skipped(entry.name);
            return;
        }
        let is_included = verdict == Verdict::Included;
        if !is_folder {
            // Something other than a folder may stand on the way to a selected path.
            if !is_included || way.is_some() {
                return;
            }
            if !self.options.specials && is_special(entry.kind) {
                self.skipped_specials += 1;
                self.tell_skipped(entry.name);
            } else {
                self.tell_folders();
                if let Some(name) = &self.options.new_name {
                    entry.name = name.as_bytes().to_vec();
                }
                self.steps.push_back(Step::Item(entry));
            }
            return;
        }
        self.path.push(OsStr::from_bytes(&entry.name));
        let content = std::mem::replace(&mut entry.content, Content::Empty);
        let mut problem = None;
        let opened = match (self.ahead, &content) {
            (Some(ahead), Content::Segments(_) | Content::Recipe(_)) => {
                Ok(Box::new(ahead.tree(&content)) as Box<dyn Iterator<Item = Result<Entry>> + 'a>)
            }
            _ => open_tree(self.reader, &content),
        };
        let entries = opened.unwrap_or_else(|error| {
            let error = error.of("its tree");
            problem = Some(Step::Problem { path: self.path.clone(), error });
            Box::new(iter::empty())
        });
        self.levels.push(Level { entries, last: None, way, is_included, untold: Some(entry) });
        if is_included {
            self.tell_folders();
        }
        if problem.is_some() {
            self.mark_found();
        }
        self.steps.extend(problem);
    }

    /// Decides about the entry `name` of the current folder by the patterns.
    fn decide(&mut self, name: &[u8], is_folder: bool, in_included: bool) -> Verdict {
        if self.options.exclude.is_empty() && self.options.include.is_empty() {
            return Verdict::Included;
        }
        let name = OsStr::from_bytes(name);
        let path = Path::new("/").join(&self.options.root_path).join(&self.path).join(name);
        self.patterns.decide(&path, is_folder, in_included)
    }

    /// Makes steps for the folders on the way that have none yet.
    fn tell_folders(&mut self) {
        let told = self.levels.iter().rposition(|level| level.untold.is_none());
        for level in self.levels.iter_mut().skip(told.map_or(0, |index| index + 1)) {
            if let Some(entry) = level.untold.take() {
                let role = level.role();
                self.steps.push_back(Step::Enter { entry, role });
            }
        }
    }

    /// Makes a step for an entry that is left out, if there is one for its folder.
    fn tell_skipped(&mut self, name: Vec<u8>) {
        if self.levels.last().is_some_and(|level| level.untold.is_none()) {
            self.steps.push_back(Step::Skipped(name));
        }
    }

    /// Calls `report` with each selected path that was not found.
    pub(super) fn for_each_missing(&self, report: impl FnMut(&Path)) {
        self.selection.for_each_missing(report);
    }

    /// Calls `report` with each pattern that has matched nothing, and a message.
    pub(super) fn for_each_unmatched_pattern(&self, report: impl FnMut(&str, &str)) {
        self.patterns.for_each_unmatched(report);
    }
}

/// Returns `true` for devices, pipes and sockets.
fn is_special(kind: EntryKind) -> bool {
    match kind {
        EntryKind::File | EntryKind::Folder | EntryKind::Symlink => false,
        EntryKind::CharDevice | EntryKind::BlockDevice | EntryKind::Fifo | EntryKind::Socket => {
            true
        }
    }
}

/// Opens the tree of a folder.
fn open_tree<'a>(
    reader: &'a dyn SnapshotReader,
    content: &Content,
) -> Result<Box<dyn Iterator<Item = Result<Entry>> + 'a>> {
    match content {
        Content::Empty => Ok(Box::new(iter::empty())),
        Content::Raw(_) | Content::Segments(_) | Content::Recipe(_) => reader.tree(content),
    }
}
