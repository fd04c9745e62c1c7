//! The walk: everything below the sources, in the order of the trees of a snapshot.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use std::{fmt, io};

use cutpoint_repository::format::recipe::RAW_LEN_MAX;
use cutpoint_repository::{Content, Entry, EntryKind, Time};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::entry_builder::EntryBuilder;
use super::exclusion::{Exclusion, ExclusionRule};
use super::folder::{self, Access, FolderStack, Handle, Identity};
use super::helpers::{Helpers, StatTimes};
use super::ignore_files::IgnoreFiles;
use super::mounts::{FileSystem, FileSystems};
use super::names::{LIST_BUFFER_LEN, Names};
use super::names_ahead::{FolderAhead, NameRules, NamesAhead};
use super::read::block_device;
use super::sources::Sources;
use super::walk_options::WalkOptions;
use super::walk_step::WalkStep;
use super::{kind, size};
use crate::platform;

/// The message about a mounted folder of snapshots, each of which would contain the previous ones.
const SNAPSHOTS_SHOWN: &str = "shows snapshots (`cutpoint mount`): left out, recorded as empty";

/// Walks through sources, in ascending byte order of the names in each folder.
///
/// The tree begins at the root of the file system, which itself has no steps. For example, the
/// source `/home/me` begins with `Enter(home)` and `Enter(me)`. Overlapping sources are merged.
///
/// Besides the descriptors of the steps that the caller keeps, at most about 70 are open, whatever
/// the depth, and as many if threads open folders ahead of the walk. The names of all folders from
/// the root to the current one are in memory.
pub struct Walk {
    stack: FolderStack<OpenFolder>,
    sources: Sources,
    /// The sources that could not be walked.
    missing: BTreeSet<usize>,
    /// The path of the current folder, without a `/` at its end.
    path: Vec<u8>,
    pending: VecDeque<WalkStep>,
    exclusion: Arc<Exclusion>,
    ignore_files: IgnoreFiles,
    /// The path of the folder with a tag that was entered last.
    tagged: Option<Vec<u8>>,
    /// The number of names excluded so far.
    excluded: u64,
    entries: EntryBuilder,
    list_buffer: Vec<u8>,
    /// The threads that ask for metadata and open folders ahead of the walk, if there are any.
    helpers: Option<Arc<Helpers>>,
    /// The times in which the walk itself has asked for the metadata of names.
    own_stats: StatTimes,
}

/// The maximum number of folders that are opened ahead of the walk, over all levels.
const FOLDERS_AHEAD_MAX: usize = 64;
/// The number of folders that are opened ahead below the current folder, even if those above have
/// asked for all of [`FOLDERS_AHEAD_MAX`].
const FOLDERS_AHEAD_MIN: usize = 16;

/// An answer about a name that was asked for ahead of the walk.
enum Ahead {
    Stat(Stat),
    Folder(Box<FolderAhead>),
}

impl Ahead {
    fn stat(&self) -> &Stat {
        match self {
            Ahead::Stat(stat) => stat,
            Ahead::Folder(folder) => &folder.stat,
        }
    }
}

/// The state of one folder on the way from the root.
#[derive(Debug)]
struct OpenFolder {
    names: Arc<Names>,
    /// The position of the next name.
    next: usize,
    /// The file system of the folder.
    device: u64,
    /// All that was asked for about the names.
    ahead: NamesAhead,
    /// The node of this folder in the tree of sources.
    node: Option<usize>,
    /// The length of the path of the parent folder.
    path_len: usize,
    /// The file system to stay on; `None` above the sources.
    home: Option<u64>,
    /// Set if the contents are left out, except for tags and sources.
    is_tagged: bool,
}

impl fmt::Debug for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk").field("sources", &self.sources).finish_non_exhaustive()
    }
}

impl Walk {
    /// Creates a walk through `sources`: folders, files, or anything else.
    ///
    /// Relative paths start at the current folder. Symbolic links on the way to a source are
    /// resolved. A source that is itself a symbolic link is recorded as one, unless its path ends
    /// in `/`.
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` if there is no source, or if a pattern is invalid. If a source cannot
    /// be reached or opened, returns the error of the system, such as `NotFound`, with the path of
    /// the source.
    pub fn new(sources: &[PathBuf], options: WalkOptions) -> io::Result<Walk> {
        let (walk, missing) = Walk::of_those_there(sources, options)?;
        match missing.into_iter().next() {
            None => Ok(walk),
            Some((number, error)) => Err(of_source(&sources[number], &error)),
        }
    }

    /// Creates a walk as [`Walk::new`] does, but leaves out the sources that do not exist or cannot
    /// be opened. Returns their positions in `paths`, ascending, each with the reason.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Walk::new`], but a failure of a source only if no source is left; the
    /// error names the first one.
    pub fn of_those_there(
        paths: &[PathBuf],
        options: WalkOptions,
    ) -> io::Result<(Walk, Vec<(usize, io::Error)>)> {
        let (sources, missing) = Sources::new(paths)?;
        if let Some((number, error)) = missing.first().filter(|_| missing.len() == paths.len()) {
            return Err(of_source(&paths[*number], error));
        }
        let exclusion = Arc::new(Exclusion::new(&options)?);
        let is_source = sources.node(0).is_source;
        let access = if is_source { Access::List } else { Access::Pass };
        let handle = folder::open(rustix::fs::CWD, b"/", access)?;
        let stat = rustix::fs::fstat(&handle)?;
        let home = is_source.then_some(platform::device(&stat));
        let frame = OpenFolder {
            names: Arc::default(),
            next: 0,
            device: platform::device(&stat),
            ahead: NamesAhead::default(),
            node: Some(0),
            path_len: 0,
            home,
            is_tagged: false,
        };
        let mut walk = Walk {
            stack: FolderStack::new(handle.clone(), Identity::of(&stat), frame),
            sources,
            missing: BTreeSet::new(),
            path: Vec::new(),
            pending: VecDeque::new(),
            exclusion,
            ignore_files: IgnoreFiles::new(options.reads_ignore_files, options.reads_git_ignore),
            tagged: None,
            excluded: 0,
            entries: EntryBuilder::default(),
            list_buffer: Vec::with_capacity(LIST_BUFFER_LEN),
            helpers: None,
            own_stats: StatTimes::default(),
        };
        let (names, failure) = walk.list(&handle, Some(0), is_source);
        // The root has no entry that could be marked as incomplete.
        failure.map_or(Ok(()), |(error, _)| Err(error))?;
        let is_tagged = is_source && walk.enter_rules(&handle, &names);
        if let Some((frame, _)) = walk.stack.top() {
            frame.names = Arc::new(names);
            frame.is_tagged = is_tagged;
        }
        Ok((walk, missing))
    }

    /// Returns the sources at `path` itself, which is the path of a step, as positions in the list
    /// that the walk was made from.
    pub fn sources_at(&self, path: &Path) -> &[usize] {
        self.sources.numbers_at(path)
    }

    /// The sources that existed at first, but could not be examined or opened when the walk reached
    /// them, or of which no name could be listed. Nothing of these was entered. Positions as in
    /// [`Walk::sources_at`].
    pub fn missing(&self) -> &BTreeSet<usize> {
        &self.missing
    }

    /// Records that `node` cannot be reached: the source at the node itself, and the sources below
    /// it.
    fn add_missing(&mut self, node: Option<usize>) {
        let mut open: Vec<usize> = node.into_iter().collect();
        while let Some(node) = open.pop() {
            let node = self.sources.node(node);
            self.missing.extend(&node.numbers);
            open.extend(node.children.values());
        }
    }

    /// Lets [`Walk::file_system`] answer from `mounts`.
    pub fn with_mounts(mut self, mounts: Arc<dyn FileSystems>) -> Walk {
        self.entries.devices.set_mounts(mounts);
        self
    }

    /// Lets `helpers` ask for metadata and open folders ahead of the walk. The steps are the same.
    pub(crate) fn with_helpers(mut self, helpers: Option<Arc<Helpers>>) -> Walk {
        self.helpers = helpers;
        self
    }

    /// The number of file systems seen so far. The `device` of each entry is smaller than this.
    pub fn device_count(&self) -> usize {
        self.entries.devices.count()
    }

    /// Returns the file system of the entries with this `device`. If nothing on it was opened, the
    /// result says that nothing is known about it.
    pub fn file_system(&self, device: usize) -> FileSystem {
        self.entries.devices.file_system(device)
    }

    /// The number of names excluded so far. Names below an excluded folder are not counted.
    pub fn excluded(&self) -> u64 {
        self.excluded
    }

    /// Lists the names of `folder` that belong to the walk. Also returns the error of an incomplete
    /// listing, with `true` if it occurred before the first name.
    fn list(
        &mut self,
        folder: &Handle,
        node: Option<usize>,
        lists_all: bool,
    ) -> (Names, Option<(io::Error, bool)>) {
        let mut names = Names::default();
        let mut failure = None;
        if lists_all {
            let listed = names.list(folder, self.list_buffer.spare_capacity_mut(), usize::MAX);
            failure = listed.err().map(|error| (error, names.is_empty()));
        }
        let children = node.map(|node| &self.sources.node(node).children);
        for name in children.into_iter().flat_map(|children| children.keys()) {
            names.push(name, FileType::Unknown, 0);
        }
        names.sort();
        (names, failure)
    }

    /// Begins to use the rules that lie in the current folder, which has these names. Returns
    /// `true` if its contents are left out.
    fn enter_rules(&mut self, folder: &Handle, names: &Names) -> bool {
        for (name, message) in self.ignore_files.enter(folder, &self.path, names) {
            self.pending.push_back(WalkStep::Warning { path: self.here().join(name), message });
        }
        let is_tagged = self.exclusion.is_tagged(folder, names);
        if is_tagged {
            self.tagged = Some(self.path.clone());
        }
        is_tagged
    }

    /// Returns `true` if a rule about names excludes `path`, an entry of the current folder or of a
    /// folder above it, whether it exists or not. Rules that exclude a folder above `path` do not
    /// count.
    pub fn excludes(&self, path: &Path, is_folder: bool) -> bool {
        let name = path.file_name().unwrap_or_default().as_bytes();
        let folder = path.parent().map(|parent| parent.as_os_str().as_bytes());
        let is_tagged = self.tagged.as_deref().is_some_and(|tagged| Some(tagged) == folder);
        (is_tagged && !self.exclusion.is_tag(name)) || self.pattern_rule(path, is_folder).is_some()
    }

    /// Returns the kind of pattern that excludes `path`. The patterns of the options have
    /// precedence.
    fn pattern_rule(&self, path: &Path, is_folder: bool) -> Option<ExclusionRule> {
        match self.exclusion.find(path, is_folder) {
            Some(excludes) => excludes.then_some(ExclusionRule::Pattern),
            None => {
                let excludes = self.ignore_files.find(path, is_folder) == Some(true);
                excludes.then_some(ExclusionRule::IgnoreFile)
            }
        }
    }

    /// Returns the step for an excluded name, which the path ends with.
    fn exclude(&mut self, rule: ExclusionRule) -> WalkStep {
        self.excluded += 1;
        WalkStep::Excluded { path: self.here(), rule }
    }

    /// Asks for metadata and folders ahead of the walk, if there is room.
    fn look_ahead(&mut self) -> Option<()> {
        let helpers = self.helpers.as_ref().filter(|helpers| helpers.folders_have_begun())?;
        let (frame, _) = self.stack.top()?;
        if frame.is_tagged
            || frame.home.is_none()
            || !frame.ahead.has_room(frame.next, frame.names.len(), helpers.have_begun())
        {
            return None;
        }
        // Other rules hold for a folder with sources in it.
        let has_sources =
            frame.node.is_some_and(|node| !self.sources.node(node).children.is_empty());
        if has_sources {
            return None;
        }
        let mut room = FOLDERS_AHEAD_MAX
            .saturating_sub(self.stack.all().map(|it| it.ahead.folder_count()).sum::<usize>());
        while room < FOLDERS_AHEAD_MIN && self.stack.below_top().any(|it| it.ahead.drop_folder()) {
            room += 1;
        }
        let rules = NameRules {
            exclusion: Arc::clone(&self.exclusion),
            ignore_files: self.ignore_files.clone(),
            path: self.path.clone(),
        };
        let (frame, folder) = self.stack.top()?;
        let OpenFolder { names, next, device, ahead, .. } = frame;
        ahead.ask(*next, (folder?, *device), names, rules, room, helpers);
        Some(())
    }

    /// Returns the step for the name at `index` of the current folder.
    fn step_of_name(&mut self, index: usize) -> Option<WalkStep> {
        let depth = self.stack.len();
        let path_len = self.path.len();
        let (frame, folder) = self.stack.top()?;
        let (name, file_type) = frame.names.get(index)?;
        let name = name.to_vec();
        let ahead = match file_type {
            FileType::Directory => frame.ahead.folder(index).map(Box::new).map(Ahead::Folder),
            _ => frame.ahead.stat(index).map(Ahead::Stat),
        };
        let (node, home, folder) = (frame.node, frame.home, folder.cloned());
        let node = node.and_then(|at| self.sources.node(at).children.get(&name).copied());
        self.path.push(b'/');
        self.path.extend_from_slice(&name);
        let step = match folder {
            Some(folder) => self.step_unless_excluded(name, file_type, folder, node, home, ahead),
            None => self.problem(io::Error::other("the folder was moved or removed")),
        };
        if self.stack.len() == depth {
            self.path.truncate(path_len);
        } else if let Some((frame, _)) = self.stack.top() {
            frame.path_len = path_len;
        }
        Some(step)
    }

    /// Returns the step for the name at the end of the path, as [`Walk::step_of_name`] does. The
    /// name is an entry of `folder`, which belongs to the walk if it has a `home`. `node` is the
    /// node of the name among the sources.
    fn step_unless_excluded(
        &mut self,
        name: Vec<u8>,
        file_type: FileType,
        folder: Handle,
        node: Option<usize>,
        home: Option<u64>,
        ahead: Option<Ahead>,
    ) -> WalkStep {
        let is_source = node.is_some_and(|node| self.sources.node(node).is_source);
        if is_source || home.is_none() {
            return self.step(name, folder, None, node, home);
        }
        let mut ahead = ahead;
        match self.rule_of_name(&name, file_type, &folder, &mut ahead) {
            Err(error) => self.problem(error),
            Ok(None) => self.step(name, folder, ahead, node, home),
            Ok(Some(rule)) if node.is_none() => self.exclude(rule),
            // The folder is on the way to a source that was named itself.
            Ok(Some(_)) => {
                self.excluded += 1;
                self.step(name, folder, ahead, node, None)
            }
        }
    }

    /// Returns the rule about names that excludes the name at the end of the path, which is `name`
    /// in `folder`. If that needs the metadata of the entry, they are in `ahead` afterwards.
    fn rule_of_name(
        &mut self,
        name: &[u8],
        file_type: FileType,
        folder: &Handle,
        ahead: &mut Option<Ahead>,
    ) -> io::Result<Option<ExclusionRule>> {
        if self.stack.top().is_some_and(|(frame, _)| frame.is_tagged)
            && !self.exclusion.is_tag(name)
        {
            return Ok(Some(ExclusionRule::Tag));
        }
        if !self.exclusion.has_patterns() && self.ignore_files.is_empty() {
            return Ok(None);
        }
        let is_folder = match file_type {
            FileType::Unknown => {
                let ahead = match ahead {
                    Some(ahead) => ahead,
                    None => ahead.insert(Ahead::Stat(folder::stat(folder, name)?)),
                };
                kind(ahead.stat()) == Some(EntryKind::Folder)
            }
            file_type => file_type == FileType::Directory,
        };
        Ok(self.pattern_rule(Path::new(OsStr::from_bytes(&self.path)), is_folder))
    }

    /// Returns the metadata of a name that nothing was asked about ahead.
    fn stat(&mut self, folder: &Handle, name: &[u8]) -> Result<Stat, Errno> {
        let helpers = self.helpers.as_ref().filter(|helpers| !helpers.have_begun());
        let Some(helpers) = helpers else { return folder::stat(folder, name) };
        let began_at = Instant::now();
        let stat = folder::stat(folder, name);
        self.own_stats.note(began_at.elapsed(), helpers);
        stat
    }

    /// Returns the step for a name that no pattern excludes. See [`Walk::step_unless_excluded`].
    fn step(
        &mut self,
        name: Vec<u8>,
        folder: Handle,
        ahead: Option<Ahead>,
        node: Option<usize>,
        home: Option<u64>,
    ) -> WalkStep {
        let stat = ahead.as_ref().map(|ahead| *ahead.stat());
        let stat = match stat.map_or_else(|| self.stat(&folder, &name), Ok) {
            Ok(stat) => stat,
            Err(error) => {
                self.add_missing(node);
                return self.problem(error.into());
            }
        };
        let is_source = node.is_some_and(|node| self.sources.node(node).is_source);
        let home = if is_source { Some(platform::device(&stat)) } else { home };
        if is_source && let Some(device) = block_device(&folder, &name) {
            let entry = self.entries.device(name, &stat, &device);
            return WalkStep::Item { path: self.here(), entry, folder };
        }
        let Some(kind) = kind(&stat) else {
            return self.problem(io::Error::other("neither a file nor a folder nor a device"));
        };
        if kind == EntryKind::Folder {
            return self.enter(name, folder, stat, node, home, ahead);
        }
        let Some(home) = home else {
            return self.problem(io::Error::from(io::ErrorKind::NotADirectory));
        };
        if self.exclusion.is_foreign(platform::device(&stat), Some(home)) {
            return self.exclude(ExclusionRule::FileSystem);
        }
        if kind == EntryKind::File && !is_source && self.exclusion.is_too_large(size(&stat)) {
            return self.exclude(ExclusionRule::Size);
        }
        let mut entry = self.entries.entry(name, kind, &stat);
        self.identify_device(&entry, &folder, &stat);
        if kind == EntryKind::Symlink
            && let Err(error) = read_target(&mut entry, &folder, &stat)
        {
            return self.problem(error);
        }
        WalkStep::Item { path: self.here(), entry, folder }
    }

    /// Finds out the details of the file system of `entry`, if they are unknown. That is the case
    /// for a mount on a single file, and for the first entry in a folder above the sources.
    fn identify_device(&mut self, entry: &Entry, folder: &Handle, stat: &Stat) {
        let devices = &mut self.entries.devices;
        if !devices.is_unidentified(entry.device) {
            return;
        }
        let flags = platform::PATH_ONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = entry.name.as_slice();
        let item = rustix::fs::openat(folder, name, flags, Mode::empty());
        if let Ok(item) = item
            && rustix::fs::fstat(&item)
                .is_ok_and(|item| platform::device(&item) == platform::device(stat))
        {
            devices.identify(entry.device, item);
        }
    }

    /// Opens the folder `name` in `folder`. Also returns its metadata.
    fn open(
        &self,
        folder: &Handle,
        name: &[u8],
        node: Option<usize>,
        home: Option<u64>,
    ) -> io::Result<(Handle, Stat)> {
        let handle = if home.is_none() {
            folder::open(folder, name, Access::Pass)
        } else if node.is_some() {
            folder::open_best(folder, name)
        } else {
            folder::open(folder, name, Access::List)
        }?;
        let stat = rustix::fs::fstat(&handle)?;
        Ok((handle, stat))
    }

    /// Lists the folder `handle`, the opening of which began at `began_at`.
    fn list_entered(
        &mut self,
        handle: &Handle,
        node: Option<usize>,
        home: Option<u64>,
        began_at: Instant,
    ) -> Arc<Names> {
        let (names, failure) = self.list(handle, node, home.is_some());
        if let Some(helpers) = &self.helpers {
            helpers.note_folder(began_at.elapsed(), names.len());
        }
        if let Some((error, has_none)) = failure {
            // Sources below the folder are reached by their names. If some names of a source were
            // listed, the source is saved with these.
            let numbers = node.map(|node| self.sources.node(node).numbers.as_slice());
            self.missing.extend(numbers.filter(|_| has_none).unwrap_or_default());
            let problem = self.problem(error);
            self.pending.push_back(problem);
        }
        Arc::new(names)
    }

    /// Enters the folder `name` in `folder`.
    fn enter(
        &mut self,
        name: Vec<u8>,
        folder: Handle,
        stat: Stat,
        node: Option<usize>,
        mut home: Option<u64>,
        ahead: Option<Ahead>,
    ) -> WalkStep {
        if self.exclusion.is_foreign(platform::device(&stat), home) {
            // Opening the folder could mount something.
            home = None;
            if node.is_none() {
                return self.enter_empty(name, folder, &stat, None);
            }
        }
        let mut listed = None;
        let began_at = Instant::now();
        let opened = match ahead {
            Some(Ahead::Folder(ahead)) => {
                let FolderAhead { handle, opened, names, below, .. } = *ahead;
                listed = Some((names, below));
                Ok((handle, opened))
            }
            _ => self.open(&folder, &name, node, home),
        };
        let (handle, stat) = match opened {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.add_missing(node);
                return self.problem(error);
            }
            Err(error) if node.is_some_and(|node| self.sources.node(node).is_source) => {
                self.add_missing(node);
                return self.problem(error);
            }
            Err(error) => return self.enter_empty(name, folder, &stat, Some(error)),
        };
        if self.exclusion.is_foreign(platform::device(&stat), home) {
            home = None;
            if node.is_none() {
                return self.enter_empty(name, folder, &stat, None);
            }
        }
        // A source in a snapshot that is shown is saved with its folders.
        let is_entered = node.is_none() && home != Some(platform::device(&stat));
        if is_entered && self.entries.devices.shows_snapshots(platform::device(&stat), &handle) {
            let message = SNAPSHOTS_SHOWN.to_owned();
            self.pending.push_back(WalkStep::Warning { path: self.here(), message });
            return self.enter_empty(name, folder, &stat, None);
        }
        let (names, ahead) = match listed {
            Some(listed) => listed,
            None => (self.list_entered(&handle, node, home, began_at), NamesAhead::default()),
        };
        let mut entry = self.entries.entry(name.clone(), EntryKind::Folder, &stat);
        if self.entries.devices.is_unidentified(entry.device) {
            self.entries.devices.identify(entry.device, &handle);
        }
        if home.is_none() {
            // Other changes in a folder above the sources must not affect the snapshot. Without
            // times, unchanged sources yield an unchanged snapshot.
            entry.mtime = Time::default();
            entry.ctime = Time::default();
            entry.inode = 0;
        }
        let is_tagged = home.is_some() && self.enter_rules(&handle, &names);
        // The caller sets the length of the path.
        let (next, device, path_len) = (0, platform::device(&stat), 0);
        let frame = OpenFolder { names, next, device, ahead, node, path_len, home, is_tagged };
        self.stack.push(name, handle, Identity::of(&stat), frame);
        WalkStep::Enter { path: self.here(), entry, folder }
    }

    /// Enters and leaves a folder without its entries: either a folder that could not be opened,
    /// with the `error`, or a folder of another file system.
    fn enter_empty(
        &mut self,
        name: Vec<u8>,
        folder: Handle,
        stat: &Stat,
        error: Option<io::Error>,
    ) -> WalkStep {
        match error {
            Some(error) => {
                let problem = self.problem(error);
                self.pending.push_back(problem);
            }
            None => self.excluded += 1,
        }
        self.pending.push_back(WalkStep::Leave);
        let entry = self.entries.entry(name, EntryKind::Folder, stat);
        WalkStep::Enter { path: self.here(), entry, folder }
    }

    fn here(&self) -> PathBuf {
        PathBuf::from(std::ffi::OsString::from_vec(self.path.clone()))
    }

    fn problem(&self, error: io::Error) -> WalkStep {
        WalkStep::Problem { path: self.here(), error }
    }
}

impl Iterator for Walk {
    type Item = WalkStep;

    fn next(&mut self) -> Option<WalkStep> {
        if let Some(step) = self.pending.pop_front() {
            return Some(step);
        }
        self.look_ahead();
        let (frame, _) = self.stack.top()?;
        if frame.next < frame.names.len() {
            frame.next += 1;
            let index = frame.next - 1;
            return self.step_of_name(index);
        }
        let (frame, _) = self.stack.pop()?;
        self.path.truncate(frame.path_len);
        // The root has no steps.
        (self.stack.len() > 0).then_some(WalkStep::Leave)
    }
}

impl std::iter::FusedIterator for Walk {}

/// Makes the target of the symbolic link `entry` in `folder` its content.
fn read_target(entry: &mut Entry, folder: &Handle, stat: &Stat) -> io::Result<()> {
    let buffer = Vec::with_capacity(usize::try_from(size(stat)).unwrap_or(0).min(4096) + 1);
    let target = rustix::fs::readlinkat(folder, entry.name.as_slice(), buffer)?.into_bytes();
    if target.len() > RAW_LEN_MAX {
        return Err(io::Error::other("the target of the link is too long"));
    }
    entry.size = target.len() as u64;
    entry.content = Content::Raw(target);
    Ok(())
}

fn of_source(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("source {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Walks through `folder` with a buffer that only short names fit into. The kernel refuses the
    /// other names, just as it refuses an unreadable block of the folder. Returns the walk, the
    /// paths of its problems, and the number of entries.
    fn walk_with_short_buffer(folder: &Path) -> (Walk, Vec<PathBuf>, usize) {
        let mut walk =
            Walk::new(&[folder.to_path_buf()], WalkOptions::default()).expect("it is there");
        walk.list_buffer = Vec::with_capacity(64);
        let (mut problems, mut items) = (Vec::new(), 0);
        for step in walk.by_ref() {
            match step {
                WalkStep::Problem { path, .. } => problems.push(path),
                WalkStep::Item { .. } => items += 1,
                _ => {}
            }
        }
        (walk, problems, items)
    }

    /// A source of which some names were listed is saved with these. A source of which no name was
    /// listed is missing.
    #[test]
    fn partly_listed_source_is_not_missing() {
        let base = tempfile::tempdir().expect("a temporary folder");
        let base = base.path().canonicalize().expect("it is there");
        let (mut has_partial, mut has_none) = (false, false);
        for number in 0..100 {
            let folder = base.join(number.to_string());
            fs::create_dir(&folder).expect("made");
            let mut names = ["short".to_owned(), format!("{number}{}", "x".repeat(200))];
            // Some file systems list in the order in which files were made, or in its reverse.
            names.rotate_left(number % 2);
            names.iter().for_each(|name| fs::write(folder.join(name), "").expect("written"));
            let first = fs::read_dir(&folder).expect("it lists").next().expect("one");
            let is_short_first = first.expect("an entry").file_name() == "short";
            let (walk, problems, items) = walk_with_short_buffer(&folder);
            assert_eq!(problems, [folder], "named");
            assert_eq!(items, usize::from(is_short_first));
            assert_eq!(walk.missing().is_empty(), is_short_first, "{number}");
            has_partial |= is_short_first;
            has_none |= !is_short_first;
            if has_partial && has_none {
                break;
            }
        }
        assert!(has_partial, "no folder lists its short name first");
        assert!(has_none, "every folder lists its short name first");
    }

    /// Makes folders of three levels below `base`, with names of every kind, rules in some of them, and
    /// more folders and names than are asked for at a time.
    fn make_tree(base: &Path) {
        for number in 0..70 {
            let folder = base.join(format!("folder {number}"));
            fs::create_dir_all(folder.join("below/far below")).expect("made");
            for file in 0..number * 3 % 40 {
                fs::write(folder.join(format!("file {file}")), vec![1; file]).expect("written");
                fs::write(folder.join(format!("below/{file}.o")), "").expect("written");
                fs::create_dir_all(folder.join(format!("below/{file}"))).expect("made");
            }
            std::os::unix::fs::symlink("nowhere", folder.join("link")).expect("linked");
            match number % 4 {
                0 => fs::write(folder.join("below/.cutpointignore"), "*.o\n3").expect("written"),
                1 => fs::write(folder.join("below/tag"), "").expect("written"),
                _ => {}
            }
        }
        for number in 0..1500 {
            fs::write(base.join(format!("file {number}")), "").expect("written");
        }
        fs::create_dir_all(base.join("left out/below")).expect("made");
    }

    #[test]
    fn steps_do_not_depend_on_helpers() {
        let base = tempfile::tempdir().expect("a temporary folder");
        let base = base.path().canonicalize().expect("it is there");
        make_tree(&base);
        let tag = super::super::FolderTag { name: b"tag".to_vec(), header: Vec::new() };
        let with_rules = WalkOptions {
            exclude: vec!["left out".to_owned(), "folder 1?".to_owned()],
            exclude_tagged: vec![tag],
            reads_ignore_files: true,
            ..WalkOptions::default()
        };
        // The second source is below the first one.
        let sources = [base.clone(), base.join("folder 12/below")];
        for options in [WalkOptions::default(), with_rules] {
            let steps = |threads_max| {
                let walk = Walk::new(&sources, options.clone()).expect("it is there");
                let walk = walk.with_helpers(Helpers::new(threads_max, true));
                let steps = walk.map(|step| match step {
                    WalkStep::Enter { path, entry, .. } | WalkStep::Item { path, entry, .. } => {
                        format!("{path:?} {entry:?}")
                    }
                    step => format!("{step:?}"),
                });
                steps.collect::<Vec<_>>()
            };
            let without = steps(0);
            assert!(without.len() > 3000, "{}", without.len());
            for threads_max in [1, 3, 32] {
                let with = steps(threads_max);
                let first = with.iter().zip(&without).find(|(with, without)| with != without);
                assert_eq!(first, None, "{threads_max} threads");
                assert_eq!(with.len(), without.len(), "{threads_max} threads");
            }
        }
    }
}
