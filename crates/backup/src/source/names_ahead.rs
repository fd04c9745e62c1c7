//! Metadata and folders that are asked for ahead of the walk.
//!
//! The walk takes what is there, and asks itself for all that is not: what failed, what was left out,
//! and what is on another file system. So the answers of both ways are the same, but for the moment.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cutpoint_repository::EntryKind;
use rustix::fs::{FileType, Stat};

use super::exclusion::Exclusion;
use super::folder::{self, Access, Handle};
use super::helpers::{Answer, Helpers, Jobs, Urgency};
use super::ignore_files::IgnoreFiles;
use super::kind;
use super::names::Names;
use crate::platform;

/// The number of names whose metadata one job asks for.
const STATS_STEP: usize = 16;
/// The number of names whose metadata is asked for ahead of the walk in the current folder.
const STATS_AHEAD: usize = 512;
/// The number of names of a folder whose metadata is asked for before the walk enters the folder.
const STATS_BEFORE: usize = 128;
/// The time within which a thread that opens a folder also asks for the metadata of its names. What it
/// does not reach becomes further jobs, because the file system is slow then, and several threads wait
/// at once. In any other case, each job is one more wait for a thread.
const STATS_WITH_FOLDER: Duration = Duration::from_millis(1);
/// The maximum number of folders below the current one that are opened ahead of the walk.
const FOLDERS_AHEAD: usize = 32;
/// The number of names from which on a folder is not listed ahead, which bounds the memory.
const NAMES_MAX: usize = 16 * 1024;
/// The size of the buffer for directory entries of one system call, in bytes.
const LIST_BUFFER_LEN: usize = 32 * 1024;

/// The rules that exclude names of one folder.
#[derive(Clone, Debug)]
pub(super) struct NameRules {
    pub(super) exclusion: Arc<Exclusion>,
    pub(super) ignore_files: IgnoreFiles,
    /// The path of the folder, without a `/` at its end.
    pub(super) path: Vec<u8>,
}

impl NameRules {
    /// Returns `true` if a pattern excludes `name`. If the type is unknown, the walk needs the metadata
    /// before it can tell.
    fn exclude(&self, name: &[u8], file_type: FileType) -> bool {
        let has_patterns = self.exclusion.has_patterns() || !self.ignore_files.is_empty();
        if !has_patterns || file_type == FileType::Unknown {
            return false;
        }
        let path = [&self.path, b"/".as_slice(), name].concat();
        let (path, is_folder) = (Path::new(OsStr::from_bytes(&path)), file_type.is_dir());
        let excludes = self.exclusion.find(path, is_folder);
        excludes.or_else(|| self.ignore_files.find(path, is_folder)).unwrap_or(false)
    }

    /// Returns the rules of the folder `name` below this one, which has `names`; `None` if they depend
    /// on files in that folder.
    fn below(self, name: &[u8], names: &Names) -> Option<NameRules> {
        let depends = self.ignore_files.is_any_in(names) || self.exclusion.is_any_tag_in(names);
        let path = [&self.path, b"/".as_slice(), name].concat();
        (!depends).then_some(NameRules { path, ..self })
    }
}

/// A folder that was opened and listed ahead of the walk.
#[derive(Debug)]
pub(super) struct FolderAhead {
    /// The metadata of its name.
    pub(super) stat: Stat,
    pub(super) handle: Handle,
    /// The metadata of the open folder.
    pub(super) opened: Stat,
    pub(super) names: Arc<Names>,
    pub(super) below: NamesAhead,
}

impl FolderAhead {
    /// Opens and lists the folder `name` in `parent`, unless it is not on the file system `device`, or
    /// anything fails.
    fn open(
        parent: &Handle,
        name: &[u8],
        device: u64,
        rules: NameRules,
        jobs: &Jobs,
    ) -> Option<FolderAhead> {
        let began_at = Instant::now();
        // Opening a folder could mount something.
        let stat = folder::stat(parent, name).ok()?;
        if kind(&stat) != Some(EntryKind::Folder) || platform::device(&stat) != device {
            return None;
        }
        let handle = folder::open(parent, name, Access::List).ok()?;
        let opened =
            rustix::fs::fstat(&handle).ok().filter(|opened| platform::device(opened) == device)?;
        let mut names = Names::default();
        let mut buffer = Vec::with_capacity(LIST_BUFFER_LEN);
        names.list(&handle, buffer.spare_capacity_mut(), NAMES_MAX).ok()?;
        if names.len() >= NAMES_MAX {
            return None;
        }
        names.sort();
        let names = Arc::new(names);
        let mut below = NamesAhead::default();
        if let Some(rules) = rules.below(name, &names) {
            let rules = Arc::new(rules);
            while below.stats_end < names.len().min(STATS_BEFORE) {
                if below.stats_waiting.is_empty() && began_at.elapsed() < STATS_WITH_FOLDER {
                    below.add_stats(&handle, &names, &rules);
                    continue;
                }
                below.begin_stats(&handle, &names, &rules, |urgency, job| jobs.add(urgency, job));
            }
        }
        Some(FolderAhead { stat, handle, opened, names, below })
    }
}

/// The metadata of some names in a row, `None` for those that were left out.
type Stats = Vec<Option<Stat>>;

/// All that was asked for about the names of one folder.
#[derive(Debug, Default)]
pub(super) struct NamesAhead {
    /// The metadata of the names from the position `stats_start` on.
    stats: Stats,
    stats_start: usize,
    /// The metadata of the names that follow, with their numbers.
    stats_waiting: VecDeque<(usize, Answer<Stats>)>,
    /// The position up to which metadata was asked for.
    stats_end: usize,
    /// The folders that were asked for, with the positions of their names.
    folders: VecDeque<(usize, Answer<Option<FolderAhead>>)>,
    /// The position up to which folders were asked for.
    folders_end: usize,
}

impl NamesAhead {
    /// The number of folders that were asked for and not taken. Each may be open.
    pub(super) fn folder_count(&self) -> usize {
        self.folders.len()
    }

    /// Returns the metadata of the name at `index`, if it is there. The positions ascend from call to
    /// call.
    pub(super) fn stat(&mut self, index: usize) -> Option<Stat> {
        while index >= self.stats_start + self.stats.len() {
            let (count, answer) = self.stats_waiting.pop_front()?;
            self.stats_start += self.stats.len();
            self.stats = answer.wait().unwrap_or_else(|| vec![None; count]);
        }
        self.stats.get_mut(index.checked_sub(self.stats_start)?)?.take()
    }

    /// Returns the folder with the name at `index`, if it is there. The positions ascend from call to
    /// call.
    pub(super) fn folder(&mut self, index: usize) -> Option<FolderAhead> {
        while self.folders.front().is_some_and(|(position, _)| *position < index) {
            self.folders.pop_front();
        }
        if self.folders.front()?.0 != index {
            return None;
        }
        self.folders.pop_front()?.1.wait()?
    }

    /// Drops the last folder that was asked for. Returns `false` if there is none.
    pub(super) fn drop_folder(&mut self) -> bool {
        let dropped = self.folders.pop_back();
        if let Some((index, _)) = dropped {
            self.folders_end = index;
            return true;
        }
        false
    }

    /// Returns `true` if something about the names from `index` on is to be asked for: folders, and
    /// the metadata of other names if `with_stats` is set.
    pub(super) fn has_room(&self, index: usize, count: usize, with_stats: bool) -> bool {
        let wants_stats = with_stats
            && self.stats_end < count
            && self.stats_end.saturating_sub(index) <= STATS_AHEAD - STATS_STEP;
        wants_stats || (self.folders_end < count && self.folders.len() < FOLDERS_AHEAD / 2)
    }

    /// Asks for folders of the names from `index` on, `folder_max` folders at most, and for the metadata
    /// of other names if jobs about single names have begun.
    pub(super) fn ask(
        &mut self,
        index: usize,
        folder: (&Handle, u64),
        names: &Arc<Names>,
        rules: NameRules,
        folder_max: usize,
        helpers: &Helpers,
    ) {
        let (handle, device) = folder;
        let rules = Arc::new(rules);
        // A name that the walk has passed is not asked for.
        if self.stats_end < index && self.stats_waiting.is_empty() {
            (self.stats, self.stats_start, self.stats_end) = (Stats::new(), index, index);
        }
        self.folders_end = self.folders_end.max(index);
        while helpers.have_begun() && self.stats_end < names.len().min(index + STATS_AHEAD) {
            let begin = |urgency, job: StatsJob| helpers.begin(urgency, job);
            self.begin_stats(handle, names, &rules, begin);
        }
        let mut folder_count = 0;
        while self.folders.len() < FOLDERS_AHEAD && folder_count < folder_max {
            let Some((name, file_type)) = names.get(self.folders_end) else { break };
            let position = self.folders_end;
            self.folders_end += 1;
            if !file_type.is_dir() || rules.exclude(name, file_type) {
                continue;
            }
            folder_count += 1;
            let (parent, name, rules) = (handle.clone(), name.to_vec(), NameRules::clone(&rules));
            let jobs = helpers.jobs().clone();
            let answer = helpers.begin(Urgency::First, move || {
                FolderAhead::open(&parent, &name, device, rules, &jobs)
            });
            self.folders.push_back((position, answer));
        }
    }

    /// Asks for the metadata of the next names at once. No names may be waited for.
    fn add_stats(&mut self, folder: &Handle, names: &Names, rules: &NameRules) {
        let range = self.next_range(names);
        self.stats.extend(stats(folder, names, rules, range));
    }

    /// Returns the positions of the next names, which count as asked for from now on.
    fn next_range(&mut self, names: &Names) -> Range<usize> {
        let range = self.stats_end..names.len().min(self.stats_end + STATS_STEP);
        self.stats_end = range.end;
        range
    }

    /// Asks for the metadata of the next names by `begin`.
    fn begin_stats(
        &mut self,
        folder: &Handle,
        names: &Arc<Names>,
        rules: &Arc<NameRules>,
        begin: impl FnOnce(Urgency, StatsJob) -> Answer<Stats>,
    ) {
        let range = self.next_range(names);
        let count = range.len();
        let (folder, names, rules) = (folder.clone(), Arc::clone(names), Arc::clone(rules));
        let job: StatsJob = Box::new(move || stats(&folder, &names, &rules, range));
        self.stats_waiting.push_back((count, begin(Urgency::First, job)));
    }
}

type StatsJob = Box<dyn FnOnce() -> Stats + Send>;

/// Asks for the metadata of the names at `range`, except for folders, which are asked for when they
/// are opened, and for excluded names.
fn stats(folder: &Handle, names: &Names, rules: &NameRules, range: Range<usize>) -> Stats {
    let mut stats = vec![None; range.len()];
    for index in names.by_inode(range.clone()) {
        if let Some((name, file_type)) = names.get(index)
            && !file_type.is_dir()
            && !rules.exclude(name, file_type)
        {
            stats[index - range.start] = folder::stat(folder, name).ok();
        }
    }
    stats
}
