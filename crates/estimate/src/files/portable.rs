//! A walk by paths, and the reading of files, by the standard library alone.
//!
//! There are no exclusions. Each name of a file is a file of its own, and entries have neither rights nor
//! owners nor extended attributes. Holes are read as zeros.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf, is_separator};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cutpoint_repository::format::recipe::RAW_LEN_MAX;
use cutpoint_repository::{Content, Entry, EntryKind, Time};

/// The options of a [`Walk`], of which there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkOptions {}

/// A folder, by its path.
#[derive(Clone, Debug)]
pub(crate) struct Handle(Arc<Path>);

/// One step of a [`Walk`]. `path` is absolute.
#[derive(Debug)]
pub(crate) enum WalkStep {
    /// A folder begins. Steps for its entries follow, then a [`WalkStep::Leave`].
    Enter {
        /// The metadata of the folder. A folder above the sources has no time.
        entry: Entry,
    },
    /// A file or a symbolic link.
    Item {
        /// The path of the entry.
        path: PathBuf,
        /// The metadata of the entry. The content of a symbolic link is its target (`Raw`).
        entry: Entry,
        /// The folder of the entry.
        folder: Handle,
    },
    /// The folder entered last and not left yet ends.
    Leave,
    /// Something could not be examined or listed. The walk continues with the next entry.
    Problem {
        /// The path of the entry.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

/// Walks through sources, in ascending byte order of the names in each folder.
///
/// The tree begins above the roots of all file systems. A prefix such as that of a drive is a folder; the
/// root below it has no steps. Overlapping sources are merged.
#[derive(Debug)]
pub(crate) struct Walk {
    /// The sources in ascending order, none of them below another one.
    sources: Vec<PathBuf>,
    /// The folders from the lowest one to the current one.
    levels: Vec<Level>,
    pending: VecDeque<WalkStep>,
}

/// A folder, and the rest of its names.
#[derive(Debug)]
struct Level {
    folder: Handle,
    names: std::vec::IntoIter<String>,
    /// Set if the folder is a source or below one.
    is_inside: bool,
    /// Set if the folder has steps.
    has_steps: bool,
}

impl Walk {
    /// Creates a walk through `paths`. Relative paths start at the current folder. Symbolic links on the way
    /// to a source are resolved. A source that is itself a symbolic link is recorded as one, unless its path
    /// ends in a separator.
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` if there is no source, or if a path is not Unicode. If a source cannot be
    /// reached or opened, returns the error of the system with the path of the source.
    pub(crate) fn new(paths: &[PathBuf], _options: WalkOptions) -> io::Result<Walk> {
        if paths.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no source given"));
        }
        let resolved = paths.iter().map(|path| {
            resolve(path).map_err(|error| {
                io::Error::new(error.kind(), format!("source {}: {error}", path.display()))
            })
        });
        let mut sources = resolved.collect::<io::Result<Vec<PathBuf>>>()?;
        sources.sort();
        sources.dedup_by(|next, source| next.starts_with(source));
        let mut walk = Walk { sources, levels: Vec::new(), pending: VecDeque::new() };
        let names = walk.names_above(Path::new(""));
        walk.push(PathBuf::new(), names, false, false);
        Ok(walk)
    }

    fn push(&mut self, path: PathBuf, names: Vec<String>, is_inside: bool, has_steps: bool) {
        let (folder, names) = (Handle(path.into()), names.into_iter());
        self.levels.push(Level { folder, names, is_inside, has_steps });
    }

    /// Returns the names that lead from the folder `path` to the sources below it.
    fn names_above(&self, path: &Path) -> Vec<String> {
        let below = self.sources.iter().filter_map(|source| source.strip_prefix(path).ok());
        let names = below.filter_map(|rest| rest.components().next()?.as_os_str().to_str());
        // Sorted by bytes.
        let names: BTreeSet<&str> = names.collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// Returns the step for `name` in `folder`; `None` if it has none.
    fn step(&mut self, folder: Handle, name: String, is_inside: bool) -> Option<WalkStep> {
        let path = folder.0.join(&name);
        let is_source = self.sources.binary_search(&path).is_ok();
        if !is_inside && !is_source {
            let names = self.names_above(&path);
            let has_steps = !is_root(&name);
            self.push(path, names, false, has_steps);
            let entry = Entry::new(name, EntryKind::Folder);
            return has_steps.then_some(WalkStep::Enter { entry });
        }
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) => return Some(WalkStep::Problem { path, error }),
        };
        if metadata.is_dir() {
            let has_steps = !is_root(&name);
            let names = self.list(&path);
            self.push(path, names, true, has_steps);
            let entry = entry(name, EntryKind::Folder, &metadata);
            return has_steps.then_some(WalkStep::Enter { entry });
        }
        Some(match item(name, &path, &metadata) {
            Ok(entry) => WalkStep::Item { path, entry, folder },
            Err(error) => WalkStep::Problem { path, error },
        })
    }

    /// Lists a folder. Names that are missing become steps of their own.
    fn list(&mut self, path: &Path) -> Vec<String> {
        let mut names = Vec::new();
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => {
                self.pending.push_back(WalkStep::Problem { path: path.to_owned(), error });
                return names;
            }
        };
        for entry in entries {
            let name = match entry {
                Ok(entry) => unicode(entry.file_name()).map_err(|error| (entry.path(), error)),
                Err(error) => Err((path.to_owned(), error)),
            };
            match name {
                Ok(name) => names.push(name),
                Err((path, error)) => self.pending.push_back(WalkStep::Problem { path, error }),
            }
        }
        names.sort_unstable();
        names
    }
}

impl Iterator for Walk {
    type Item = WalkStep;

    fn next(&mut self) -> Option<WalkStep> {
        loop {
            if let Some(step) = self.pending.pop_front() {
                return Some(step);
            }
            let level = self.levels.last_mut()?;
            let Some(name) = level.names.next() else {
                let has_steps = level.has_steps;
                self.levels.pop();
                if has_steps {
                    return Some(WalkStep::Leave);
                }
                continue;
            };
            let (folder, is_inside) = (level.folder.clone(), level.is_inside);
            if let Some(step) = self.step(folder, name, is_inside) {
                return Some(step);
            }
        }
    }
}

/// Returns the absolute path of a source that can be opened.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let is_link = path.symlink_metadata()?.is_symlink();
    let bytes = path.as_os_str().as_encoded_bytes();
    let last = bytes.rsplit(|&byte| is_separator(byte.into())).next().unwrap_or_default();
    let absolute = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if is_link && !matches!(last, b"" | b"." | b"..") => {
            let here = Path::new(".");
            let parent = Some(parent).filter(|parent| !parent.as_os_str().is_empty());
            parent.unwrap_or(here).canonicalize()?.join(name)
        }
        _ => path.canonicalize()?,
    };
    let metadata = absolute.symlink_metadata()?;
    if metadata.is_dir() {
        fs::read_dir(&absolute)?;
    } else if metadata.is_file() {
        File::open(&absolute)?;
    }
    for component in absolute.components() {
        unicode(component.as_os_str().to_owned())?;
    }
    Ok(absolute)
}

/// Returns `name` as text. Names that are not Unicode have no bytes that all systems agree on.
fn unicode(name: OsString) -> io::Result<String> {
    let invalid = |_| io::Error::new(io::ErrorKind::InvalidInput, "the name is not Unicode");
    name.into_string().map_err(invalid)
}

/// Returns `true` if `name` is that of a root.
fn is_root(name: &str) -> bool {
    let first = Path::new(OsStr::new(name)).components().next();
    matches!(first, Some(Component::RootDir))
}

/// Creates the entry of a file or a symbolic link.
fn item(name: String, path: &Path, metadata: &Metadata) -> io::Result<Entry> {
    if metadata.is_file() {
        let mut entry = entry(name, EntryKind::File, metadata);
        entry.size = metadata.len();
        return Ok(entry);
    }
    if !metadata.is_symlink() {
        return Err(io::Error::other("neither a file nor a folder nor a symbolic link"));
    }
    let target = fs::read_link(path)?.into_os_string().into_encoded_bytes();
    if target.len() > RAW_LEN_MAX {
        return Err(io::Error::other("the target of the link is too long"));
    }
    let mut entry = entry(name, EntryKind::Symlink, metadata);
    entry.size = target.len() as u64;
    entry.content = Content::Raw(target);
    Ok(entry)
}

fn entry(name: String, kind: EntryKind, metadata: &Metadata) -> Entry {
    Entry { mtime: mtime(metadata), ..Entry::new(name, kind) }
}

/// Returns the time of the last change of the content; the default if the system does not tell it.
fn mtime(metadata: &Metadata) -> Time {
    metadata.modified().map(time).unwrap_or_default()
}

fn time(time: SystemTime) -> Time {
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Time { seconds: seconds(after), nanoseconds: after.subsec_nanos() },
        Err(error) => match (seconds(error.duration()), error.duration().subsec_nanos()) {
            (before, 0) => Time { seconds: -before, nanoseconds: 0 },
            (before, rest) => Time { seconds: -before - 1, nanoseconds: 1_000_000_000 - rest },
        },
    }
}

/// Opens the regular file that `entry` of the folder `folder` describes.
///
/// # Errors
///
/// Returns `InvalidInput` if the name now denotes something other than a regular file, and any other error
/// of the system.
pub(crate) fn open_file(folder: &Handle, entry: &Entry) -> io::Result<SourceFile> {
    let invalid = |problem| io::Error::new(io::ErrorKind::InvalidInput, problem);
    let name = std::str::from_utf8(&entry.name).map_err(|_| invalid("the name is not Unicode"))?;
    let file = File::open(folder.0.join(name))?;
    let opened = file.metadata()?;
    if !opened.is_file() {
        return Err(invalid("no longer a regular file"));
    }
    Ok(SourceFile { file: Mutex::new(file), opened })
}

/// Updates `entry` to the state of `file` at the time when it was opened.
pub(crate) fn complete(entry: &mut Entry, file: &mut SourceFile) {
    entry.mtime = mtime(&file.opened);
    entry.size = file.size();
}

/// A regular file, open for reading.
#[derive(Debug)]
pub struct SourceFile {
    /// The file, whose cursor belongs to one reader at a time.
    file: Mutex<File>,
    /// The metadata when the file was opened.
    opened: Metadata,
}

/// A part of a file. The extents of one file follow each other without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileExtent {
    /// `len` bytes from `offset` on are stored.
    Data {
        /// The offset in bytes from the start of the file.
        offset: u64,
        /// The length in bytes.
        len: u64,
    },
    /// `len` bytes from `offset` on are not stored and read as zeros. The standard library finds none.
    Hole {
        /// The offset in bytes from the start of the file.
        offset: u64,
        /// The length in bytes.
        len: u64,
    },
}

impl SourceFile {
    /// The size of the file in bytes, at the time when it was opened.
    pub fn size(&self) -> u64 {
        self.opened.len()
    }

    /// Returns the extents from the byte `offset` to [`SourceFile::size`]: one of data, unless it is empty.
    pub fn extents(&self, offset: u64) -> impl Iterator<Item = io::Result<FileExtent>> + use<> {
        let len = self.size().saturating_sub(offset);
        (len > 0).then_some(Ok(FileExtent::Data { offset, len })).into_iter()
    }

    /// Reads bytes from `offset` on until `buffer` is full. Returns the number of bytes read, which is
    /// smaller than the length of `buffer` if the file ends before.
    ///
    /// # Errors
    ///
    /// Returns any error of the system except `Interrupted`, after which it reads on.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}
