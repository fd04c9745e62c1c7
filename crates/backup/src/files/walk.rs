//! Walking: what there is below the sources, in the order of a snapshot's trees.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cutpoint_store::format::recipe::{Content, RAW_LEN_MAX};
use cutpoint_store::format::tree::{Entry, EntryKind, Time};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{FileType, Mode, OFlags, Stat};

use super::folder::{self, Access, FolderStack, Handle, Identity};
use super::mounts::{FileSystem, FileSystems};
use super::names::{LIST_BUFFER_LEN, Names};
use super::owners::OwnerNames;
use super::sources::Sources;
use super::{ctime, device_number, kind, links, mode, mtime, size};

/// The file that marks a folder as a cache, and how it begins.
///
/// Source: the Cache Directory Tagging Specification, <https://bford.info/cachedir/>.
const CACHE_TAG_NAME: &[u8] = b"CACHEDIR.TAG";
const CACHE_TAG_SIGNATURE: &[u8; 43] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// What a [`Walk`] leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkOptions {
    /// Stay on the file system of each source. A folder where another one is mounted is recorded
    /// as an empty folder; a subvolume is another file system.
    pub one_file_system: bool,
    /// Patterns as in a `.gitignore` that lies in the root folder: `*.o` and `target/` match
    /// anywhere, `/home/me/tmp` and `home/me/tmp` in one place, `**/docs/tmp` below any folder,
    /// and `!` takes back. Sources themselves and the folders above them are never excluded.
    pub exclude: Vec<String>,
    /// Of a folder with a `CACHEDIR.TAG`, keep the folder and the tag only.
    pub exclude_caches: bool,
}

/// One step of a [`Walk`].
///
/// `path` is absolute and can be longer than any system call accepts: it is for messages and for
/// comparing. To reach the thing itself, use `folder` and the entry's name.
#[derive(Debug)]
pub enum Step {
    /// A folder begins. What is in it follows, then a [`Step::Leave`].
    Enter {
        /// Where it is.
        path: PathBuf,
        /// Its metadata; the content is `Empty` and the extended attributes are not read yet.
        /// A folder above the sources has neither times nor inode.
        entry: Entry,
        /// The folder that it is in, not itself.
        folder: Handle,
    },
    /// Anything that is not a folder.
    Item {
        /// Where it is.
        path: PathBuf,
        /// Its metadata; the content of a symbolic link is its target (`Raw`), all others are
        /// `Empty`. The extended attributes are not read yet.
        entry: Entry,
        /// The folder that it is in. Each folder costs a descriptor for as long as one of these
        /// is kept, so a queue of steps must have a bound.
        folder: Handle,
    },
    /// The folder that was entered last and not left yet ends.
    Leave,
    /// Something could not be looked at, opened or listed. The walk goes on with the next thing;
    /// for a folder this comes between its `Enter` and its `Leave`.
    Problem {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// Goes through sources, in rising byte order of the names in each folder.
///
/// The tree begins at the root of the file system, which itself has no steps: the source
/// `/home/me` begins with `Enter(home)` and `Enter(me)`. Sources that overlap are merged.
///
/// Besides the steps that the caller keeps, at most some 70 descriptors are open, however deep
/// the folders are, and the names of the folders from the root to the current one are in memory.
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
    /// The file systems seen; an entry's `device` is a position here.
    devices: Vec<u64>,
    /// Which ones they are, in the same order; `None` where nothing of one was opened yet.
    file_systems: Vec<Option<FileSystem>>,
    /// Tells which one something is on.
    mounts: Option<Arc<dyn FileSystems>>,
    list_buffer: Vec<u8>,
}

/// What belongs to one folder on the way.
#[derive(Debug)]
struct Frame {
    names: Names,
    /// Where the sources' tree has this folder.
    node: Option<usize>,
    /// The length of the path of the folder that it is in.
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
    /// Begins at `sources`: folders, files, or anything else.
    ///
    /// Relative paths start at the current folder. Symbolic links on the way to a source are
    /// resolved; a source that is one is recorded as such, unless it ends in `/`.
    ///
    /// # Errors
    ///
    /// `NotFound` or what else the system says about a source that cannot be reached or opened, naming
    /// it; `InvalidInput` for no sources and for patterns that make no sense.
    pub fn new(sources: &[PathBuf], options: WalkOptions) -> io::Result<Walk> {
        let (walk, missing) = Walk::of_those_there(sources, options)?;
        match missing.into_iter().next() {
            None => Ok(walk),
            Some((number, error)) => Err(of_source(&sources[number], &error)),
        }
    }

    /// As [`Walk::new`], without the sources that are not there or cannot be opened: returns their
    /// positions in `sources`, rising, and the reasons.
    ///
    /// # Errors
    ///
    /// As [`Walk::new`] where no source is left, naming the first.
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
        // The root has no entry that could be marked as lacking something.
        failure.map_or(Ok(()), |(error, _)| Err(error))?;
        if let Some((frame, _)) = walk.stack.top() {
            frame.names = names;
        }
        Ok((walk, missing))
    }

    /// The sources that `path`, the path of a step, is itself: positions in the list that the walk was
    /// made of.
    pub fn sources_at(&self, path: &Path) -> &[usize] {
        self.sources.numbers_at(path)
    }

    /// The sources that were there at first, and of which nothing was entered: that the walk could not look
    /// at or open when it came to them, or list a single name of. Positions as in [`Walk::sources_at`].
    pub fn lost(&self) -> &BTreeSet<usize> {
        &self.lost
    }

    /// Notes that what is at `node` cannot be reached: the source that it is, and those below it.
    fn lose(&mut self, node: Option<usize>) {
        let mut open: Vec<usize> = node.into_iter().collect();
        while let Some(node) = open.pop() {
            let node = self.sources.node(node);
            self.lost.extend(&node.numbers);
            open.extend(node.children.values());
        }
    }

    /// Has [`Walk::file_system`] answer by `mounts`.
    pub fn with_mounts(mut self, mounts: Arc<dyn FileSystems>) -> Walk {
        self.mounts = Some(mounts);
        self
    }

    /// The number of file systems seen so far: each `device` of an entry is below it.
    pub fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// The file system of the entries with this `device`; nothing is known of one of which nothing
    /// was opened.
    pub fn file_system(&self, device: usize) -> FileSystem {
        self.file_systems.get(device).cloned().flatten().unwrap_or_default()
    }

    /// How many names have been excluded so far. What is below an excluded folder is not counted.
    pub fn excluded(&self) -> u64 {
        self.excluded
    }

    /// The names to visit in `folder`; and what went wrong with listing it, and whether that was before
    /// the first name.
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

    /// The step for one name of the current folder; `None` where it is excluded.
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

    /// As [`Walk::visit`], for the name at the end of the path, in `folder`, which belongs to the
    /// walk if it has a `home`. `node` is the place of the name among the sources.
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
                // On the way to a source that was named itself.
                return node.and_then(|_| self.look_at(name, folder, known_stat, node, None));
            }
        }
        self.look_at(name, folder, known_stat, node, home)
    }

    /// As [`Walk::look`], for what no pattern excludes.
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
            return Some(self.problem(io::Error::other("neither file nor folder nor device")));
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
            // A mount on a single file, or the first thing in a folder above the sources.
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
                    return Some(self.problem(io::Error::other("the link's target is too long")));
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
            // Opening it could mount something.
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
            // Sources below it are reached by their names; and of one of which some names came these are
            // saved.
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
            // Whatever else happens in a folder above the sources is none of the snapshot's
            // business: without times, an unchanged source is an unchanged snapshot.
            entry.mtime = Time::default();
            entry.ctime = Time::default();
            entry.inode = 0;
        }
        // The caller sets the length of the path.
        let frame = Frame { names, node, path_len: 0, home };
        self.stack.push(name, handle, Identity::of(&stat), frame);
        Step::Enter { path: self.here(), entry, folder }
    }

    /// Enters and leaves a folder: one that could not be opened, for which there is an `error`, or
    /// one of another file system.
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

    /// The number of the file system `id` among those seen.
    fn device(&mut self, id: u64) -> u64 {
        let position = self.devices.iter().position(|&seen| seen == id).unwrap_or_else(|| {
            self.devices.push(id);
            self.file_systems.push(None);
            self.devices.len() - 1
        });
        position as u64
    }

    /// Whether the file system `device` is still to be found out.
    fn is_unidentified(&self, device: u64) -> bool {
        let known = usize::try_from(device).ok().and_then(|device| self.file_systems.get(device));
        self.mounts.is_some() && known.is_some_and(Option::is_none)
    }

    /// Finds out the file system `device` by something open on it.
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

/// Whether `folder` has a tag file with the right beginning; the name alone means nothing.
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

    /// The problems of a walk through `folder` with a buffer into which only short names fit: the kernel
    /// refuses the others, as it refuses an unreadable block of the folder. Returns the number of entries,
    /// too.
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

    /// A source of which some names were listed is saved with these; one of which none was is lost.
    #[test]
    fn source_that_cannot_be_listed_to_its_end_is_no_lost_source() {
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
