//! The walk: everything below the sources, in the order of the trees of a snapshot.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use cutpoint_repository::format::recipe::RAW_LEN_MAX;
use cutpoint_repository::{Content, Entry, EntryKind, Time};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{FileType, Mode, OFlags, Stat};

use super::folder::{self, Access, FolderStack, Handle, Identity};
use super::mounts::{FileSystem, FileSystems};
use super::names::{LIST_BUFFER_LEN, Names};
use super::owners::OwnerNames;
use super::sources::Sources;
use super::{ctime, device_number, kind, links, mode, mtime, size};

/// The name of the file that marks a folder as a cache. The signature below is how the file begins.
///
/// Source: the Cache Directory Tagging Specification, <https://bford.info/cachedir/>.
const CACHE_TAG_NAME: &[u8] = b"CACHEDIR.TAG";
const CACHE_TAG_SIGNATURE: &[u8; 43] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// The things that a [`Walk`] leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkOptions {
    /// Stays on the file system of each source. A folder on which another file system is mounted is
    /// recorded as an empty folder. A subvolume is another file system.
    pub one_file_system: bool,
    /// Exclusion patterns as in a `.gitignore` of the root folder: `*.o` and `target/` match
    /// anywhere, `/home/me/tmp` and `home/me/tmp` match one place, `**/docs/tmp` matches below any
    /// folder, and `!` cancels an exclusion. The sources themselves and the folders above them are
    /// never excluded.
    pub exclude: Vec<String>,
    /// In a folder with a `CACHEDIR.TAG`, keeps only the folder and the tag.
    pub exclude_caches: bool,
}

/// One step of a [`Walk`].
///
/// `path` is absolute and can be longer than any system call accepts, so it serves for messages and
/// comparisons only. To reach the file itself, use `folder` and the name of the entry.
#[derive(Debug)]
pub enum Step {
    /// A folder begins. Steps for its entries follow, then a [`Step::Leave`].
    Enter {
        /// The path of the folder.
        path: PathBuf,
        /// The metadata of the folder. The content is `Empty`, and the extended attributes are not
        /// read yet. A folder above the sources has neither times nor an inode number.
        entry: Entry,
        /// The parent of the folder.
        folder: Handle,
    },
    /// An entry other than a folder.
    Item {
        /// The path of the entry.
        path: PathBuf,
        /// The metadata of the entry. The content of a symbolic link is its target (`Raw`), any
        /// other content is `Empty`. The extended attributes are not read yet.
        entry: Entry,
        /// The folder of the entry. Each folder occupies a descriptor as long as a step with it
        /// exists, so a queue of steps must be bounded.
        folder: Handle,
    },
    /// The folder entered last and not left yet ends.
    Leave,
    /// Something could not be examined, opened or listed. The walk continues with the next entry.
    /// For a folder, this step comes between its `Enter` and its `Leave`.
    Problem {
        /// The path of the entry.
        path: PathBuf,
        /// The error of the system call.
        error: io::Error,
    },
}

/// Walks through sources, in ascending byte order of the names in each folder.
///
/// The tree begins at the root of the file system, which itself has no steps. For example, the
/// source `/home/me` begins with `Enter(home)` and `Enter(me)`. Overlapping sources are merged.
///
/// Besides the descriptors of the steps that the caller keeps, at most about 70 are open, whatever
/// the depth. The names of all folders from the root to the current one are in memory.
pub struct Walk {
    stack: FolderStack<Frame>,
    sources: Sources,
    /// The sources that could not be walked.
    lost: BTreeSet<usize>,
    /// The path of the current folder, without a `/` at its end.
    path: Vec<u8>,
    pending: VecDeque<Step>,
    exclude: Gitignore,
    one_file_system: bool,
    exclude_caches: bool,
    excluded: u64,
    owners: OwnerNames,
    /// The file systems seen so far. The `device` of an entry is an index into this list.
    devices: Vec<u64>,
    /// Details of these file systems, in the same order; `None` until something on one of them is
    /// opened.
    file_systems: Vec<Option<FileSystem>>,
    /// The source of the details in `file_systems`.
    mounts: Option<Arc<dyn FileSystems>>,
    list_buffer: Vec<u8>,
}

/// The state of one folder on the way from the root.
#[derive(Debug)]
struct Frame {
    names: Names,
    /// The node of this folder in the tree of sources.
    node: Option<usize>,
    /// The length of the path of the parent folder.
    path_len: usize,
    /// The file system to stay on; `None` above the sources.
    home: Option<u64>,
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
        let exclude = build_exclude(&options.exclude)?;
        let whole = sources.node(0).whole;
        let access = if whole { Access::List } else { Access::Pass };
        let handle = folder::open(rustix::fs::CWD, b"/", access)?;
        let stat = rustix::fs::fstat(&handle)?;
        let home = whole.then_some(stat.st_dev);
        let frame = Frame { names: Names::default(), node: Some(0), path_len: 0, home };
        let mut walk = Walk {
            stack: FolderStack::new(handle.clone(), Identity::of(&stat), frame),
            sources,
            lost: BTreeSet::new(),
            path: Vec::new(),
            pending: VecDeque::new(),
            exclude,
            one_file_system: options.one_file_system,
            exclude_caches: options.exclude_caches,
            excluded: 0,
            owners: OwnerNames::default(),
            devices: Vec::new(),
            file_systems: Vec::new(),
            mounts: None,
            list_buffer: Vec::with_capacity(LIST_BUFFER_LEN),
        };
        let (names, failure) = walk.list(&handle, Some(0), whole);
        // The root has no entry that could be marked as incomplete.
        failure.map_or(Ok(()), |(error, _)| Err(error))?;
        if let Some((frame, _)) = walk.stack.top() {
            frame.names = names;
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
    pub fn lost(&self) -> &BTreeSet<usize> {
        &self.lost
    }

    /// Records that `node` cannot be reached: the source at the node itself, and the sources below
    /// it.
    fn lose(&mut self, node: Option<usize>) {
        let mut open: Vec<usize> = node.into_iter().collect();
        while let Some(node) = open.pop() {
            let node = self.sources.node(node);
            self.lost.extend(&node.numbers);
            open.extend(node.children.values());
        }
    }

    /// Lets [`Walk::file_system`] answer from `mounts`.
    pub fn with_mounts(mut self, mounts: Arc<dyn FileSystems>) -> Walk {
        self.mounts = Some(mounts);
        self
    }

    /// The number of file systems seen so far. The `device` of each entry is smaller than this.
    pub fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// Returns the file system of the entries with this `device`. If nothing on it was opened, the
    /// result says that nothing is known about it.
    pub fn file_system(&self, device: usize) -> FileSystem {
        self.file_systems.get(device).cloned().flatten().unwrap_or_default()
    }

    /// The number of names excluded so far. Names below an excluded folder are not counted.
    pub fn excluded(&self) -> u64 {
        self.excluded
    }

    /// Lists the names to visit in `folder`. Also returns the error of an incomplete listing, with
    /// `true` if it occurred before the first name.
    fn list(
        &mut self,
        folder: &Handle,
        node: Option<usize>,
        whole: bool,
    ) -> (Names, Option<(io::Error, bool)>) {
        let mut names = Names::default();
        let mut failure = None;
        if whole {
            let listed = names.list(folder, self.list_buffer.spare_capacity_mut());
            failure = listed.err().map(|error| (error, names.is_empty()));
        }
        let children = node.map(|node| &self.sources.node(node).children);
        for name in children.into_iter().flat_map(|children| children.keys()) {
            names.push(name, FileType::Unknown);
        }
        names.sort();
        if whole && self.exclude_caches && names.contains(CACHE_TAG_NAME) && is_cache_tag(folder) {
            let is_source = |name: &[u8]| children.is_some_and(|c| c.contains_key(name));
            self.excluded += names.retain(|name| name == CACHE_TAG_NAME || is_source(name));
        }
        (names, failure)
    }

    /// Returns the step for one name of the current folder; `None` if the name is excluded.
    fn visit(&mut self, name: Vec<u8>, file_type: FileType) -> Option<Step> {
        let depth = self.stack.len();
        let path_len = self.path.len();
        let (frame, folder) = self.stack.top()?;
        let (node, home, folder) = (frame.node, frame.home, folder.cloned());
        let node = node.and_then(|at| self.sources.node(at).children.get(&name).copied());
        self.path.push(b'/');
        self.path.extend_from_slice(&name);
        let step = match folder {
            Some(folder) => self.look(name, file_type, folder, node, home),
            None => Some(self.problem(io::Error::other("the folder was moved or removed"))),
        };
        if self.stack.len() == depth {
            self.path.truncate(path_len);
        } else if let Some((frame, _)) = self.stack.top() {
            frame.path_len = path_len;
        }
        step
    }

    /// Returns the step for the name at the end of the path, as [`Walk::visit`] does. The name is
    /// an entry of `folder`, which belongs to the walk if it has a `home`. `node` is the node of
    /// the name among the sources.
    fn look(
        &mut self,
        name: Vec<u8>,
        file_type: FileType,
        folder: Handle,
        node: Option<usize>,
        home: Option<u64>,
    ) -> Option<Step> {
        let is_source = node.is_some_and(|node| self.sources.node(node).whole);
        let mut known_stat = None;
        if !is_source && home.is_some() && !self.exclude.is_empty() {
            let is_folder = if file_type == FileType::Unknown {
                match folder::stat(&folder, &name) {
                    Ok(stat) => kind(known_stat.insert(stat)) == Some(EntryKind::Folder),
                    Err(error) => return Some(self.problem(error.into())),
                }
            } else {
                file_type == FileType::Directory
            };
            let path = Path::new(OsStr::from_bytes(&self.path));
            if self.exclude.matched(path, is_folder).is_ignore() {
                self.excluded += 1;
                // The folder is on the way to a source that was named itself.
                return node.and_then(|_| self.look_at(name, folder, known_stat, node, None));
            }
        }
        self.look_at(name, folder, known_stat, node, home)
    }

    /// Returns the step for a name that no pattern excludes. See [`Walk::look`].
    fn look_at(
        &mut self,
        name: Vec<u8>,
        folder: Handle,
        stat: Option<Stat>,
        node: Option<usize>,
        home: Option<u64>,
    ) -> Option<Step> {
        let stat = match stat.map_or_else(|| folder::stat(&folder, &name), Ok) {
            Ok(stat) => stat,
            Err(error) => {
                self.lose(node);
                return Some(self.problem(error.into()));
            }
        };
        let is_source = node.is_some_and(|node| self.sources.node(node).whole);
        let home = if is_source { Some(stat.st_dev) } else { home };
        let Some(kind) = kind(&stat) else {
            return Some(
                self.problem(io::Error::other("neither a file nor a folder nor a device")),
            );
        };
        if kind == EntryKind::Folder {
            return Some(self.enter(name, folder, stat, node, home));
        }
        let Some(home) = home else {
            return Some(self.problem(io::Error::from(io::ErrorKind::NotADirectory)));
        };
        if self.one_file_system && stat.st_dev != home {
            self.excluded += 1;
            return None;
        }
        let mut entry = self.entry(name, kind, &stat);
        if self.is_unidentified(entry.device) {
            // This is a mount on a single file, or the first entry in a folder above the sources.
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let name = entry.name.as_slice();
            let item = rustix::fs::openat(&folder, name, flags, Mode::empty());
            if let Ok(item) = item
                && rustix::fs::fstat(&item).is_ok_and(|item| item.st_dev == stat.st_dev)
            {
                self.identify(entry.device, item);
            }
        }
        if kind == EntryKind::Symlink {
            let buffer =
                Vec::with_capacity(usize::try_from(size(&stat)).unwrap_or(0).min(4096) + 1);
            match rustix::fs::readlinkat(&folder, entry.name.as_slice(), buffer) {
                Ok(target) if target.as_bytes().len() <= RAW_LEN_MAX => {
                    entry.size = target.as_bytes().len() as u64;
                    entry.content = Content::Raw(target.into_bytes());
                }
                Ok(_) => {
                    return Some(
                        self.problem(io::Error::other("the target of the link is too long")),
                    );
                }
                Err(error) => return Some(self.problem(error.into())),
            }
        }
        Some(Step::Item { path: self.here(), entry, folder })
    }

    /// Enters the folder `name` in `folder`.
    fn enter(
        &mut self,
        name: Vec<u8>,
        folder: Handle,
        stat: Stat,
        node: Option<usize>,
        mut home: Option<u64>,
    ) -> Step {
        let foreign = |stat: &Stat, home: Option<u64>| {
            self.one_file_system && home.is_some_and(|home| home != stat.st_dev)
        };
        if foreign(&stat, home) {
            // Opening the folder could mount something.
            home = None;
            if node.is_none() {
                return self.enter_empty(name, folder, &stat, None);
            }
        }
        let opened = if home.is_none() {
            folder::open(&folder, &name, Access::Pass)
        } else if node.is_some() {
            folder::open_best(&folder, &name)
        } else {
            folder::open(&folder, &name, Access::List)
        };
        let opened = opened.and_then(|handle| {
            let stat = rustix::fs::fstat(&handle)?;
            Ok((handle, stat))
        });
        let (handle, stat) = match opened {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.lose(node);
                return self.problem(error);
            }
            Err(error) if node.is_some_and(|node| self.sources.node(node).whole) => {
                self.lose(node);
                return self.problem(error);
            }
            Err(error) => return self.enter_empty(name, folder, &stat, Some(error)),
        };
        if foreign(&stat, home) {
            home = None;
            if node.is_none() {
                return self.enter_empty(name, folder, &stat, None);
            }
        }
        let (names, failure) = self.list(&handle, node, home.is_some());
        if let Some((error, has_none)) = failure {
            // Sources below the folder are reached by their names. If some names of a source were
            // listed, the source is saved with these.
            let numbers = node.map(|node| self.sources.node(node).numbers.as_slice());
            self.lost.extend(numbers.filter(|_| has_none).unwrap_or_default());
            let problem = self.problem(error);
            self.pending.push_back(problem);
        }
        let mut entry = self.entry(name.clone(), EntryKind::Folder, &stat);
        if self.is_unidentified(entry.device) {
            self.identify(entry.device, &handle);
        }
        if home.is_none() {
            // Other changes in a folder above the sources must not affect the snapshot. Without
            // times, unchanged sources yield an unchanged snapshot.
            entry.mtime = Time::default();
            entry.ctime = Time::default();
            entry.inode = 0;
        }
        // The caller sets the length of the path.
        let frame = Frame { names, node, path_len: 0, home };
        self.stack.push(name, handle, Identity::of(&stat), frame);
        Step::Enter { path: self.here(), entry, folder }
    }

    /// Enters and leaves a folder without its entries: either a folder that could not be opened,
    /// with the `error`, or a folder of another file system.
    fn enter_empty(
        &mut self,
        name: Vec<u8>,
        folder: Handle,
        stat: &Stat,
        error: Option<io::Error>,
    ) -> Step {
        match error {
            Some(error) => {
                let problem = self.problem(error);
                self.pending.push_back(problem);
            }
            None => self.excluded += 1,
        }
        self.pending.push_back(Step::Leave);
        let entry = self.entry(name, EntryKind::Folder, stat);
        Step::Enter { path: self.here(), entry, folder }
    }

    fn entry(&mut self, name: Vec<u8>, kind: EntryKind, stat: &Stat) -> Entry {
        let mut entry = Entry::new(name, kind);
        entry.mode = mode(stat);
        entry.user_id = stat.st_uid;
        entry.group_id = stat.st_gid;
        self.owners.user(stat.st_uid).clone_into(&mut entry.user);
        self.owners.group(stat.st_gid).clone_into(&mut entry.group);
        entry.mtime = mtime(stat);
        entry.ctime = ctime(stat);
        entry.inode = stat.st_ino;
        entry.device = self.device(stat.st_dev);
        if kind != EntryKind::Folder {
            entry.links = links(stat);
        }
        match kind {
            EntryKind::CharDevice | EntryKind::BlockDevice => {
                entry.device_number = device_number(stat.st_rdev);
            }
            EntryKind::File => entry.size = size(stat),
            _ => {}
        }
        entry
    }

    /// Returns the index of the file system `id` among those seen.
    fn device(&mut self, id: u64) -> u64 {
        let position = self.devices.iter().position(|&seen| seen == id).unwrap_or_else(|| {
            self.devices.push(id);
            self.file_systems.push(None);
            self.devices.len() - 1
        });
        position as u64
    }

    /// Returns `true` if the details of the file system `device` are still to be found out.
    fn is_unidentified(&self, device: u64) -> bool {
        let known = usize::try_from(device).ok().and_then(|device| self.file_systems.get(device));
        self.mounts.is_some() && known.is_some_and(Option::is_none)
    }

    /// Finds out the details of the file system `device` from an open file or folder on it.
    fn identify(&mut self, device: u64, fd: impl AsFd) {
        let found = self.mounts.as_ref().map(|mounts| mounts.of(fd.as_fd()));
        let place = usize::try_from(device).ok();
        if let Some(place) = place.and_then(|place| self.file_systems.get_mut(place)) {
            *place = found;
        }
    }

    fn here(&self) -> PathBuf {
        PathBuf::from(std::ffi::OsString::from_vec(self.path.clone()))
    }

    fn problem(&self, error: io::Error) -> Step {
        Step::Problem { path: self.here(), error }
    }
}

impl Iterator for Walk {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        loop {
            if let Some(step) = self.pending.pop_front() {
                return Some(step);
            }
            let (frame, _) = self.stack.top()?;
            if let Some((name, file_type)) = frame.names.take() {
                let name = name.to_vec();
                if let Some(step) = self.visit(name, file_type) {
                    return Some(step);
                }
                continue;
            }
            let (frame, _) = self.stack.pop()?;
            self.path.truncate(frame.path_len);
            // The root has no steps.
            return (self.stack.len() > 0).then_some(Step::Leave);
        }
    }
}

impl std::iter::FusedIterator for Walk {}

fn of_source(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("source {}: {error}", path.display()))
}

fn build_exclude(patterns: &[String]) -> io::Result<Gitignore> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    let mut builder = GitignoreBuilder::new("/");
    for pattern in patterns {
        builder.add_line(None, pattern).map_err(invalid)?;
    }
    builder.build().map_err(invalid)
}

/// Returns `true` if `folder` has a tag file that begins with the signature. The name alone does
/// not count.
fn is_cache_tag(folder: &Handle) -> bool {
    let flags = rustix::fs::OFlags::RDONLY
        | rustix::fs::OFlags::NOFOLLOW
        | rustix::fs::OFlags::NONBLOCK
        | rustix::fs::OFlags::CLOEXEC;
    let mut begin = [0; CACHE_TAG_SIGNATURE.len()];
    let Ok(file) = rustix::fs::openat(folder, CACHE_TAG_NAME, flags, rustix::fs::Mode::empty())
    else {
        return false;
    };
    let is_file = rustix::fs::fstat(&file).is_ok_and(|stat| kind(&stat) == Some(EntryKind::File));
    is_file
        && io::Read::read_exact(&mut std::fs::File::from(file), &mut begin).is_ok()
        && begin == *CACHE_TAG_SIGNATURE
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
                Step::Problem { path, .. } => problems.push(path),
                Step::Item { .. } => items += 1,
                Step::Enter { .. } | Step::Leave => {}
            }
        }
        (walk, problems, items)
    }

    /// A source of which some names were listed is saved with these. A source of which no name was
    /// listed is lost.
    #[test]
    fn partly_listed_source_is_not_lost() {
        let base = tempfile::tempdir().expect("a temporary folder");
        let base = base.path().canonicalize().expect("it is there");
        let (mut has_partial, mut has_none) = (false, false);
        for number in 0..100 {
            let folder = base.join(number.to_string());
            fs::create_dir(&folder).expect("made");
            fs::write(folder.join("short"), "").expect("written");
            fs::write(folder.join(format!("{number}{}", "x".repeat(200))), "").expect("written");
            let first = fs::read_dir(&folder).expect("it lists").next().expect("one");
            let is_short_first = first.expect("an entry").file_name() == "short";
            let (walk, problems, items) = walk_with_short_buffer(&folder);
            assert_eq!(problems, [folder], "named");
            assert_eq!(items, usize::from(is_short_first));
            assert_eq!(walk.lost().is_empty(), is_short_first, "{number}");
            has_partial |= is_short_first;
            has_none |= !is_short_first;
            if has_partial && has_none {
                break;
            }
        }
        assert!(has_partial, "no folder lists its short name first");
    }
}
